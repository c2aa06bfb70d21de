"""Clients with a value below zero that are not called harmful: named all the same, with what all reach without them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedvalue.audit._evidence import Finding, comparison, interval_text, what_without, without_client
from fedvalue.audit._tests import quantile

if TYPE_CHECKING:
    from fedvalue.audit._findings import Case

__all__ = ["below_zero_of", "missed_at_the_end"]

_ROUNDING = 1e-9  # of the spread of all utilities: less is floating-point arithmetic


def below_zero_of(case: Case, found: Collection[int], surely: Mapping[int, float]) -> tuple[Finding, ...]:
    """An observation for every client below zero that no finding is about, the lowest first.

    `surely` are clients whose value a test found below zero, with its p-value.
    """
    mean = case.worth.mean
    below = np.flatnonzero(mean < -_ROUNDING * case.known.spread).tolist()
    return tuple(
        _observation(case, i, surely.get(i))
        for i in sorted(below, key=lambda i: float(mean[i]))
        if i not in found
    )


def missed_at_the_end(case: Case, i: int) -> bool:
    """Whether all clients together reach more than without this one: whatever its value is, the others gain by it."""
    known, (without, with_i) = case.known, without_client(case, i)
    if not len(without):
        return False
    gain = float((known.mean[with_i] - known.mean[without]).mean())
    return gain > _ROUNDING * known.spread


def _observation(case: Case, i: int, p: float | None) -> Finding:
    name, (without, with_i) = case.values.names[i], without_client(case, i)
    said = f"{name} is below zero: its value is {case.values.mean[i]:+.4f}{interval_text(case, i)}."
    said += f" {what_without(case, i)}"
    if missed_at_the_end(case, i):
        said += " So all of them reach more with it: its value is below zero because of smaller coalitions."
    said += "" if p is not None else f" {_how_sure(case, i)}"
    evidence = tuple(comparison(case, *pair) for pair in zip(without.tolist(), with_i.tolist(), strict=True))
    return Finding("below zero", (name,), said, evidence, len(evidence), p)


def _how_sure(case: Case, i: int) -> str:
    values = case.values
    interval = values.interval()
    luck = values.random and values.errors["training"] is None and case.worth.runs is None
    if interval is None and values.guarantee != "exact":
        return f"How far the estimate is off is not known: the method {values.method} gives no interval."
    if luck or (interval is None and case.worth.runs is None):
        other = "another seed" if values.random else "another training"
        return f"Whether {other} would say the same is not known: the luck of training was not measured."
    _, error, dof = case.worth.of(np.eye(case.known.n)[i])
    if error is not None and values.mean[i] + quantile(dof) * error < 0:
        return "That is more than chance for this client alone, but not once all clients are looked at."
    return "It may be chance: the interval reaches above zero."
