"""Whether models can be trained as one program, and if not, why; whether those of other seeds can."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import vmap

from fedvalue.learners.torch._inputs import Samples
from fedvalue.learners.torch._linear import StackedLinear
from fedvalue.learners.torch._random import SEEDED, drawn_so_far, seeded_generators
from fedvalue.scenarios import mapped
from fedvalue.store import fingerprint

__all__ = ["same_but_for_training", "why_not_evaluated", "why_not_stacked"]

# What `vmap` says where it loops itself, or copies: it is no faster than our own loop then.
_SLOW = ("batching rule", "was resized since")
_REASONS = {
    "batching rule": "torch cannot compute one of the layers for several models at once",
    "was resized since": "a layer stretches its parameters over the samples",
    "random operation": "the model draws random numbers of its own",
    "data-dependent": "the model decides by the numbers that it computes",
    ".item()": "the model decides by the numbers that it computes",
}


def why_not_stacked(
    output: Callable[[dict[str, Tensor], Samples, Tensor], tuple[Tensor, dict[str, Tensor]]],
    model: dict[str, Tensor],
    state: tuple[str, ...],
    x: Samples,
) -> str:
    """Why two of these models cannot be trained as one program; nothing where they can. It is tried, because `vmap` cannot
    do everything: it refuses random numbers (dropout apart, which is counted) and control flow that depends on data.
    """
    key = torch.zeros((), dtype=torch.int64, device=next(iter(model.values())).device)
    for in_dims in ((0, 0, None), (0, None, None)):
        pair = {name: torch.cat([tensor, tensor]) for name, tensor in model.items()}
        pair = {name: t if name in state else t.requires_grad_() for name, t in pair.items()}
        samples = mapped(lambda tensor: torch.stack([tensor, tensor]), x) if in_dims[1] == 0 else x
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                with seeded_generators(0), StackedLinear():
                    before = drawn_so_far()
                    outputs, _ = vmap(output, in_dims=in_dims)(pair, samples, key)
                    drawn = drawn_so_far() != before
                torch.autograd.backward(outputs.sum())
            except Exception as error:
                return _reason(str(error))
        said = " ".join(str(warning.message) for warning in heard)
        if any(complaint in said for complaint in _SLOW):
            return _reason(said)
        if drawn:  # from NumPy or Python, once for the whole stack
            return _reason("random operation")
    return ""


@torch.no_grad()
def why_not_evaluated(
    output: Callable[[dict[str, Tensor], Samples], Tensor], model: dict[str, Tensor], x: Samples
) -> str:
    """The same of evaluation, in which some layers of torch run another program."""
    pair = {name: torch.cat([tensor, tensor]) for name, tensor in model.items()}
    try:
        with StackedLinear():
            vmap(output, in_dims=(0, None))(pair, x)
    except Exception as error:
        return _reason(str(error))
    return ""


def _reason(said: str) -> str:
    """What torch says, in words; its own where they are others."""
    known = (reason for complaint, reason in _REASONS.items() if complaint in said)
    first = said.strip().splitlines()[0] if said.strip() else "no reason is given"
    return next(known, f"torch says: {first}").rstrip(".")


def same_but_for_training(one: nn.Module, other: nn.Module) -> bool:
    """Whether two modules that were made with different seeds have the same frozen parameters, buffers and settings.

    Where that cannot be looked into, they may differ.
    """
    trained = {name: p.detach() for name, p in one.named_parameters() if p.requires_grad}
    theirs = {name: p for name, p in other.named_parameters() if p.requires_grad}
    if {name: p.shape for name, p in trained.items()} != {name: p.shape for name, p in theirs.items()}:
        return False
    with torch.no_grad():
        for name, parameter in theirs.items():
            parameter.copy_(trained[name])
    (digest, doubts), (their_digest, _) = (fingerprint(module, seeded=SEEDED) for module in (one, other))
    return not doubts and digest == their_digest
