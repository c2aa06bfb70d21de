"""The loss of every sample, of one model or of a stack of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional

from fedvalue.errors import InputError
from fedvalue.learners._places import Form
from fedvalue.learners.losses import Loss
from fedvalue.learners.torch._checks import awake
from fedvalue.learners.torch._inputs import call, taken, tensors
from fedvalue.scenarios import CLASSIFICATION, IGNORED, Scenario, mapped

__all__ = ["Losses", "losses_of"]

_Function: TypeAlias = Callable[[Tensor, Tensor], Tensor]

_SAMPLES = 8  # on which one of the user's is tried


def losses_of(
    loss: str | Loss | None, form: Form, scenario: Scenario, module: nn.Module, device: str
) -> Losses:
    """The loss of samples, tried on a few of them; a pass that changes nothing in the module."""
    found = Losses(loss, form, scenario)
    if loss is None:
        return found
    there = len(scenario.test.y)  # fewer than test rows where these are elsewhere
    rows = np.linspace(0, there - 1, _SAMPLES).round().astype(np.int64)
    if scenario.test.y.ndim == 1:  # of different classes, where there are some: of rare ones, too
        different = np.unique(scenario.test.y, return_index=True)[1][: _SAMPLES // 2]
        rows[: len(different)] = different
    samples = taken(tensors(scenario.test.x), torch.from_numpy(rows))
    y = torch.from_numpy(scenario.scale.scaled(scenario.test.y[rows])).to(device)
    with awake(module.eval()):
        return found.tried(call(module, mapped(lambda t: t.to(device), samples)), y)


class Losses:
    """Called with outputs and labels of a minibatch, or of one for each model of a stack: the loss of every sample.

    A function that gives one number for a minibatch gives it to each of its samples, whose weights add up to 1.
    """

    def __init__(self, loss: str | Loss | None, form: Form, scenario: Scenario) -> None:
        self.own = loss
        self.form = form
        self.regression = scenario.task != CLASSIFICATION
        self.labels = scenario.test.y.ndim
        self.per_sample = True
        self.in_turn = (
            False  # for one model of a stack after the other: vmap would do that, and warn in every step
        )
        self.apart = ""
        if loss is None and scenario.task not in ("classification", "regression"):
            raise InputError(
                "A task of your own needs a loss: a function (outputs, labels) → loss of every sample, or a name."
            )

    @property
    def recorded(self) -> bool:
        """Whether a graph of it can be replayed: what a function of the user's does is not known."""
        return not isinstance(self.own, Loss)

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        if self.own is None:
            return self._usual(outputs, y)
        if y.dim() == self.labels:
            return self._of_batch(outputs, y)
        if self.in_turn:
            return torch.stack([self._of_batch(o, of) for o, of in zip(outputs, y, strict=True)])
        return vmap(self._of_batch)(outputs, y)

    def tried(self, outputs: Tensor, y: Tensor) -> Losses:
        """Itself, after a try on some samples: what it returns is looked at, and whether it can be stacked."""
        if self.own is None:
            return self
        name = self.own if isinstance(self.own, str) else self.own.name
        given = f"outputs of shape {tuple(outputs.shape)} and labels of shape {tuple(y.shape)}"
        try:
            found = self._function(outputs, y)
        except Exception as error:
            raise InputError(
                f"The loss {name!r} raised {type(error).__name__}: {error}. It is called with {given}."
            ) from error
        if not torch.is_tensor(found) or found.is_complex() or found.shape not in ((), (len(y),)):
            got = (
                f"a tensor of shape {tuple(found.shape)} and type {found.dtype}"
                if torch.is_tensor(found)
                else type(found).__name__
            )
            raise InputError(
                f"The loss {name!r} must return a tensor with one number per sample, of shape ({len(y)},) here, or their "
                f"mean. Got {got} for {given}."
            )
        if not found.requires_grad:
            raise InputError(
                f"The loss {name!r} has no gradient: it does not depend on the outputs of the model, or detaches them."
            )
        self.per_sample = found.dim() > 0
        if not self.per_sample:
            self.apart = (
                f"Models are trained one after the other: the loss {name!r} returns one number for a minibatch, and those "
                "of a stack are filled up. Return the loss of every sample."
            )
        elif self._looks_at_others(outputs.detach(), y):
            self.apart = (
                f"Models are trained one after the other: the loss {name!r} of a sample depends on the others of its minibatch, "
                "and those of a stack are filled up."
            )
        elif why := self._why_not_stacked(outputs.detach(), y):
            self.apart = (
                f"Models are trained one after the other: the loss {name!r} cannot be stacked ({why})."
            )
        return self

    def _looks_at_others(self, outputs: Tensor, y: Tensor) -> bool:
        """Whether samples have other losses among fewer samples, or where one of them fills up the batch."""
        if isinstance(self.own, str):
            return False
        half, there = len(y) // 2, list(range(len(y)))
        others = [there[:half], there[half:], *(there + [place] * half for place in there)]
        try:
            alone = self._function(outputs, y.clone())
            found = [self._function(outputs[rows], y[rows]) for rows in others]
        except Exception:  # so few were never asked for
            return True
        return not all(
            torch.allclose(some, alone[rows], rtol=1e-3, atol=1e-5, equal_nan=True)
            for some, rows in zip(found, others, strict=True)
        )

    def _why_not_stacked(self, outputs: Tensor, y: Tensor) -> str:
        pair = torch.stack([outputs, outputs]).requires_grad_()
        try:
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                torch.autograd.backward(self(pair, torch.stack([y, y])).sum())
        except Exception as error:
            return str(error).strip().partition("\n")[0][:120].rstrip(".") or type(error).__name__
        self.in_turn = any("performance drop" in str(warning.message) for warning in heard)
        return ""

    @property
    def _function(self) -> _Function:
        return _NAMED[self.own] if isinstance(self.own, str) else self.own.function  # type: ignore[union-attr]

    def _of_batch(self, outputs: Tensor, y: Tensor) -> Tensor:
        found = self._function(outputs, y)
        return found.expand(len(y)) if found.dim() == 0 else found

    def _usual(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy or squared error; of a sample with several labels, the mean over its places that count."""
        outputs, places = self.form.lined_up(outputs), self.form.dims
        if self.regression:
            errors = (outputs.squeeze(-1) - y).square()
            return errors.flatten(-places).mean(-1) if places else errors
        flat = functional.cross_entropy(outputs.flatten(0, -2), y.flatten(), reduction="none")
        if not places:
            return flat.view(y.shape)
        counting = (y != IGNORED).flatten(-places).sum(-1)
        return flat.view(y.shape).flatten(-places).sum(-1) / counting.clamp(min=1)


def _by_place(loss: _Function) -> _Function:
    """A loss of outputs (…, classes) and class numbers, as the mean over the places of a sample that count."""

    def of_samples(outputs: Tensor, y: Tensor) -> Tensor:
        if outputs.shape[:-1] != y.shape:  # classes are second, as torch's losses expect them
            outputs = outputs.movedim(1, -1)
        if outputs.shape[:-1] != y.shape or y.is_floating_point():
            raise ValueError(
                "it needs a class number for every place, and outputs with a number for every class"
            )
        counts = (y != IGNORED).float()
        losses = loss(outputs, y.clamp(min=0)) * counts
        if y.dim() == 1:
            return losses
        return losses.flatten(1).sum(1) / counts.flatten(1).sum(1).clamp(min=1)

    return of_samples


def _alike(loss: _Function) -> _Function:
    """A loss of outputs and targets of one shape, as the mean over the places of a sample."""

    def of_samples(outputs: Tensor, y: Tensor) -> Tensor:
        outputs = outputs.squeeze(-1) if outputs.dim() > y.dim() else outputs
        if outputs.shape != y.shape:
            raise ValueError("it needs outputs of the shape of the targets")
        losses = loss(outputs, y.to(outputs.dtype))
        return losses.flatten(1).mean(1) if y.dim() > 1 else losses

    return of_samples


def _log_likelihood(outputs: Tensor, y: Tensor) -> Tensor:
    return functional.log_softmax(outputs, -1).gather(-1, y.unsqueeze(-1)).squeeze(-1)


def _focal(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy, times (1 − p)² of the probability p of the right class (Lin et al. 2017)."""
    of_label = _log_likelihood(outputs, y)
    return -(of_label.expm1() ** 2) * of_label


def _binary(outputs: Tensor, y: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(outputs, y, reduction="none")


def _binary_of_classes(outputs: Tensor, y: Tensor) -> Tensor:
    """Each class against the rest, the mean over classes."""
    classes = torch.arange(outputs.shape[-1], device=outputs.device)
    return _binary(outputs, (y.unsqueeze(-1) == classes).to(outputs.dtype)).mean(-1)


def _either(outputs: Tensor, y: Tensor) -> Tensor:
    of_classes = not y.is_floating_point() and outputs.shape != y.shape
    return (_by_place(_binary_of_classes) if of_classes else _alike(_binary))(outputs, y)


_NAMED: Mapping[str, _Function] = {
    "cross-entropy": _by_place(lambda outputs, y: -_log_likelihood(outputs, y)),
    "focal": _by_place(_focal),
    "bce": _either,
    "mse": _alike(lambda outputs, y: (outputs - y).square()),
    "mae": _alike(lambda outputs, y: (outputs - y).abs()),
    "huber": _alike(lambda outputs, y: functional.huber_loss(outputs, y, reduction="none")),
}
