"""A model of transformers as a module that many coalitions can share: the same arithmetic, without looking at the data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Answering"]


class Answering(nn.Module):
    """Gives the logits of a model.

    Given a mask of tokens, models look whether it leaves anything out, and choose another program if it does not. In a stack
    nobody can look: here the mask of attention is made beforehand, the same for every program.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        config = getattr(model, "config", None)
        self.causal = bool(getattr(config, "is_decoder", False)) or _looks_back_only(model)
        self.prompts = any(getattr(c, "is_prompt_learning", False) for c in getattr(model, "peft_config", {}).values())

    def forward(self, **inputs: Tensor) -> Tensor:
        mask = inputs.get("attention_mask")
        if mask is not None and mask.dim() == 2 and not self.prompts:
            inputs = {**inputs, "attention_mask": _of_attention(mask, self.causal)}
        logits: Tensor = self.model(**inputs).logits
        return logits


def _of_attention(mask: Tensor, causal: bool) -> Tensor:
    """What is added to the scores of attention: nothing where a token may be looked at, and very little elsewhere."""
    seen = mask[:, None, None, :].to(torch.bool)
    if causal:
        length = mask.shape[-1]
        back = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
        # A row that is padding alone looks at itself: at nothing, it would be nothing but NaN.
        seen = (seen & back) | torch.eye(length, dtype=torch.bool, device=mask.device)
    zero = torch.zeros((), device=mask.device)
    return torch.where(seen, zero, torch.full((), torch.finfo(torch.float32).min, device=mask.device))


def _looks_back_only(model: Any) -> bool:
    return any(getattr(part, "is_causal", False) is True for part in model.modules())
