"""What is found about clients: one function for each kind, all tests of a kind adjusted together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fedvalue.audit._below_zero import below_zero_of, missed_at_the_end
from fedvalue.audit._evidence import (
    Comparison,
    Finding,
    certain_copies,
    certain_zero,
    compare_steps,
    compare_swaps,
    compare_without,
    gap,
    learned,
    suspected,
)
from fedvalue.audit._known import Known
from fedvalue.audit._noise import repeats, spread_of_values, value_weights, without_one
from fedvalue.audit._tests import (
    Counts,
    Worth,
    below_zero,
    chance_of_ties,
    holm,
    no_effect,
    small_gain,
    ties_of_pairs,
    ties_of_steps,
    together,
)
from fedvalue.values import Values

__all__ = ["Case", "Comparison", "Finding", "find"]

Chances: TypeAlias = "dict[tuple[int, ...], float]"

MARGIN = 0.10  # of an equal split: worth less than this is worth as good as nothing
MOST_FOR_PAIRS = 150  # clients: beyond, pairs are too many to look at
_CERTAIN = 1e-12  # of the largest variance or value: less is floating-point arithmetic


@dataclass(frozen=True)
class Case:
    """Everything that the tests look at, and what needs no test: `idle` clients, whose value is 0 for certain, and groups
    that are `alike`, whose values are equal for certain.
    """

    values: Values
    known: Known
    steps: list[Counts]
    pairs: dict[tuple[int, int], Counts]
    worth: Worth
    idle: frozenset[int] = frozenset()
    alike: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, values: Values, known: Known) -> Case:
        """Counts which outcomes are the same, and takes the values with their uncertainty."""
        steps = ties_of_steps(known)
        pairs = ties_of_pairs(known) if known.n <= MOST_FOR_PAIRS else {}
        null = {i for i, counts in enumerate(steps) if _always(counts)}
        alike = _groups([pair for pair, counts in pairs.items() if _always(counts) and not null & set(pair)])
        distinct = set(range(known.n)) - null - {i for group in alike for i in group[1:]}
        return cls(values, known, steps, pairs, _worth(values, known, distinct), *_certain(values))

    def is_certain(self, i: int, j: int) -> bool:
        """Whether two clients need no test: they are alike, or one of them is idle."""
        return bool(self.idle & {i, j}) or any({i, j} <= set(group) for group in self.alike)


def _certain(values: Values) -> tuple[frozenset[int], tuple[tuple[int, ...], ...]]:
    """Clients without data and clients with the same data: estimates know of them, and have no error there.

    Exact values are not looked at: they may be equal by the table alone, and the tests of outcomes tell that apart.
    """
    covariance = values.covariance
    if covariance is None or values.guarantee == "exact" or not (np.diag(covariance) > 0).any():
        return frozenset(), ()
    variance, size = np.diag(covariance), _CERTAIN * float(np.abs(values.mean).max())
    little = _CERTAIN * float(variance.max())
    idle = frozenset(np.flatnonzero((variance <= little) & (np.abs(values.mean) <= size)).tolist())
    apart = variance[:, None] + variance[None, :] - 2 * covariance
    equal = (apart <= little) & (np.abs(values.mean[:, None] - values.mean[None, :]) <= size)
    pairs = [(i, j) for i, j in np.argwhere(np.triu(equal, 1)).tolist() if not idle & {i, j}]
    return idle, tuple(_groups(pairs))


def _always(counts: Counts) -> bool:
    ties, pairs = counts
    return bool(pairs.any() and (ties == pairs).all())


def _worth(values: Values, known: Known, distinct: set[int]) -> Worth:
    """Values err by what is known of the three parts; where nothing is, exact ones by the noise that replicates show."""
    n, margin = known.n, MARGIN * known.spread / known.n
    exact = values.guarantee == "exact"
    if exact and values.covariance is None:
        weights = None if values.groups else value_weights(known)
        spread = spread_of_values(known, values.mean, weights, distinct)
        if spread is None:
            return Worth(values.mean, None, np.full(n, np.inf), True, True, margin)
        covariance, bound = np.eye(n) * spread.error**2, spread.runs is None
        return Worth(values.mean, covariance, np.full(n, spread.dof), True, True, margin, spread.runs, bound)
    dof = np.full(n, np.inf) if values.dof is None else values.dof
    again = float(repeats(known)) if known.seeds.any() and values.dof is None else np.inf
    if values.covariance is not None:
        return Worth(values.mean, values.covariance, dof, True, exact, margin, repeats=again)
    independent = None if values.stderr is None else np.diag(values.stderr**2)
    return Worth(values.mean, independent, dof, False, False, margin)


def find(case: Case, level: float) -> tuple[tuple[Finding, ...], tuple[Finding, ...], dict[str, int]]:
    """All findings, clients below zero that none is about, and how many tests of each kind were made.

    Each kind has its part of the level.
    """
    accepted: dict[str, Chances] = {}
    tests: dict[str, int] = {}
    null: frozenset[int] = frozenset()
    for kind, (chances_of, part) in _KINDS.items():
        chances = chances_of(case, null)
        tests[kind] = len(chances)
        adjusted = [min(1.0, p / part) for p in holm(list(chances.values()), len(chances))]
        accepted[kind] = {who: p for who, p in zip(chances, adjusted, strict=True) if p <= level}
        if kind == "no contribution":
            null = case.idle | {who[0] for who in accepted[kind]}
    # A client that all together reach more with does no harm, however low its value is.
    surely = {who[0]: p for who, p in accepted["harmful"].items()}
    accepted["harmful"] = {(i,): p for i, p in surely.items() if not missed_at_the_end(case, i)}
    found = (
        *learned(case.values),
        *suspected(case.values),
        *_described(case, accepted),
        *gap(case.values, case.known),
    )
    named = null | {who[0] for who in accepted["harmful"]}
    return found, below_zero_of(case, named, surely), tests


def _no_contribution(case: Case, null: frozenset[int]) -> Chances:
    known, total, units = case.known, _total(case.steps), np.eye(case.known.n)
    found: Chances = {}
    for i, counts in enumerate(case.steps):
        if i in case.idle:
            continue
        unit = units[i]
        by_chance = chance_of_ties(counts, total, known.prints is not None)
        if by_chance < 1:
            worth = case.worth
            near_zero = float(abs(worth.mean[i]) > worth.margin) if worth.exact else worth.equivalent(unit)
            found[(i,)] = max(by_chance, near_zero)
            continue
        quiet = no_effect(known, *known.steps(i))
        found[(i,)] = case.worth.equivalent(unit) if quiet else 1.0
    return found


def _interchangeable(case: Case, null: frozenset[int]) -> Chances:
    known, total = case.known, _total(list(case.pairs.values()))
    found: Chances = {}
    for (i, j), counts in case.pairs.items():
        if case.is_certain(i, j):
            continue
        found[i, j] = 1.0
        gains = together(known, i, j)
        # Two clients that change nothing are interchangeable, too, but no copies of each other.
        if gains is None or null & {i, j} or _always(case.steps[i]) or _always(case.steps[j]):
            continue
        by_chance = chance_of_ties(counts, total, known.prints is not None)
        if by_chance < 1:
            found[i, j] = max(by_chance, small_gain(gains, 1))
            continue
        if no_effect(known, *known.swaps(i, j)):
            apart = case.worth.equivalent(np.eye(known.n)[i] - np.eye(known.n)[j])
            found[i, j] = max(apart, small_gain(gains, known.replicates))
    return found


def _harmful(case: Case, null: frozenset[int]) -> Chances:
    if not can_harm(case):
        return {}
    units = np.eye(case.known.n)
    return {
        (i,): 1.0 if i in null else below_zero(*case.worth.tested(units[i]), case.known.spread)
        for i in range(case.known.n)
    }


def _dependent(case: Case, null: frozenset[int]) -> Chances:
    """Client i loses more than half of its value where j is not there."""
    found: Chances = {}
    known, worth = case.known, case.worth
    if not can_depend(case):
        return found
    for j in range(known.n):
        kept = without_one(known, j)
        for i in range(known.n):
            if i != j:
                mean, error, dof = worth.tested(np.eye(known.n)[i])
                # The value without j errs like the value itself; half of that comes on top, at worst.
                error = None if error is None else 1.5 * error
                p = below_zero(float(kept[i]) - mean / 2, error, dof, known.spread)
                found[i, j] = p if i not in null and mean > worth.margin else 1.0
    return found


def can_harm(case: Case) -> bool:
    """Whether a value below zero can be told from chance: errors are known, and the luck of training is in them."""
    worth, values = case.worth, case.values
    if worth.covariance is None or worth.repeats < 1:
        return False
    return not values.random or worth.runs is not None or worth.bound or values.errors["training"] is not None


def can_depend(case: Case) -> bool:
    """Whether all coalitions and some measure of noise are there, and not too many clients."""
    known, worth = case.known, case.worth
    alone = worth.exact and not case.values.groups
    return alone and worth.covariance is not None and value_weights(known) is not None


_KINDS: dict[str, tuple[Callable[[Case, frozenset[int]], Chances], float]] = {
    "no contribution": (_no_contribution, 1 / 6),
    "interchangeable": (_interchangeable, 1 / 6),
    "harmful": (_harmful, 1 / 2),  # has least to go by: a few values against their noise
    "dependent": (_dependent, 1 / 6),
}


def _described(case: Case, accepted: dict[str, Chances]) -> list[Finding]:
    found = [certain_zero(case, i) for i in sorted(case.idle)]
    found += [
        compare_steps(case, "no contribution", who[0], p) for who, p in accepted["no contribution"].items()
    ]
    found += [certain_copies(case, group) for group in case.alike]
    pairs = accepted["interchangeable"]
    for group in _groups(list(pairs)):
        inside = [p for pair, p in pairs.items() if set(pair) <= set(group)]
        found.append(compare_swaps(case, group, max(inside)))
    found += [compare_steps(case, "harmful", who[0], p) for who, p in accepted["harmful"].items()]
    strongest: dict[int, tuple[int, float]] = {}
    for (i, j), p in accepted["dependent"].items():
        if i not in strongest or p < strongest[i][1]:
            strongest[i] = (j, p)
    return found + [compare_without(case, i, j, p) for i, (j, p) in strongest.items()]


def _total(counts: list[Counts]) -> Counts:
    ties, all_ = (np.sum([pair[k] for pair in counts], axis=0) for k in (0, 1))
    return ties, all_


def _groups(pairs: list[tuple[int, ...]] | list[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Clients that hang together by pairs."""
    groups: list[set[int]] = []
    for pair in pairs:
        joined = set(pair).union(*(group for group in groups if group & set(pair)))
        groups = [group for group in groups if not group & joined] + [joined]
    return [tuple(sorted(group)) for group in groups]
