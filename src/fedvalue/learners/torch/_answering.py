"""A model of transformers as a module that many coalitions can share: the same arithmetic, without a look at the data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Answering"]


class Answering(nn.Module):
    """Gives the logits of a model.

    Given a mask of tokens, models look whether it leaves anything out, and choose another program if it does not. In a stack
    nobody can look: here the mask of attention is made beforehand, the same for every program. Some models take such a mask for
    something else, or make more of the tokens' mask (windows, positions): they are given the latter, `as_given`.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.looks_back_only = any(getattr(part, "is_causal", False) is True for part in model.modules())
        adapters = getattr(model, "peft_config", {}).values()
        self.as_given = any(getattr(adapter, "is_prompt_learning", False) for adapter in adapters)

    def forward(self, **inputs: Tensor) -> Tensor:
        mask = inputs.get("attention_mask")
        if mask is not None and mask.dim() == 2 and not self.as_given:
            inputs = {**inputs, "attention_mask": self._of_attention(mask)}
        logits: Tensor = self.model(**inputs).logits
        return logits

    @torch.no_grad()
    def look(self, **inputs: Tensor) -> None:
        """Finds out on some samples, in evaluation, whether the model says the same of the mask that is made beforehand."""
        mask = inputs.get("attention_mask")
        if mask is None or mask.dim() != 2 or self.as_given:
            return
        own = self.model(**inputs).logits
        try:
            found = self(**inputs)
        except Exception:  # of masks of this shape
            self.as_given = True
            return
        if own.shape[:2] == mask.shape:  # nothing follows from what is said of padding
            own, found = own[mask.bool()], found[mask.bool()]
        apart = (1e-4 if own.dtype == torch.float32 else 2e-2) * own.abs().max().item()
        self.as_given = not torch.allclose(own, found, rtol=0, atol=apart, equal_nan=True)

    def _of_attention(self, mask: Tensor) -> Tensor:
        """What is added to the scores of attention: nothing where a token may be looked at, and very little elsewhere."""
        seen = mask[:, None, None, :].to(torch.bool)
        if self.looks_back_only:
            length = mask.shape[-1]
            back = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
            # A row that is padding alone looks at itself: at nothing, it would be nothing but NaN.
            seen = (seen & back) | torch.eye(length, dtype=torch.bool, device=mask.device)
        kind = getattr(self.model, "dtype", torch.float32)
        # Finite in the narrow types, too, in which the scores may be computed.
        least = max(torch.finfo(kind).min, torch.finfo(torch.bfloat16).min)
        nothing, much = (torch.full((), value, dtype=kind, device=mask.device) for value in (0.0, least))
        return torch.where(seen, nothing, much)
