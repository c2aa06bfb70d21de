"""Findings in plain words, with the coalitions that show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue._text import plural
from fedvalue.audit._known import Known, Rows
from fedvalue.audit._noise import without_one
from fedvalue.audit._tests import quantile, together
from fedvalue.coalitions import full_mask
from fedvalue.values import Values

if TYPE_CHECKING:
    from fedvalue.audit._findings import Case

__all__ = [
    "Comparison",
    "Finding",
    "certain_copies",
    "certain_zero",
    "compare_steps",
    "compare_swaps",
    "compare_without",
    "comparison",
    "gap",
    "interval_text",
    "learned",
    "suspected",
    "what_without",
    "without_client",
]

_SHOWN = 6  # comparisons that stand for all of them
_GAP = 0.01  # of v(N) − v(∅): values that add up to something else by more than this


@dataclass(frozen=True)
class Comparison:
    """Two trained coalitions and their utilities; of trainings with several seeds, that of both."""

    first: tuple[str, ...]
    first_utility: float
    second: tuple[str, ...]
    second_utility: float
    seed: int | None = None


@dataclass(frozen=True)
class Finding:
    """What was found about which clients; `p_value` is adjusted for all tests, None where nothing was tested.

    `evidence` are some of the `compared` pairs of coalitions, from small ones to large ones.
    """

    kind: str
    clients: tuple[str, ...]
    statement: str
    evidence: tuple[Comparison, ...]
    compared: int
    p_value: float | None


def compare_steps(case: Case, kind: str, i: int, p: float) -> Finding:
    """A client that adds nothing, or harms: coalitions without it and with it."""
    known, name = case.known, case.values.names[i]
    without, with_i = known.steps(i)
    change = known.mean[with_i] - known.mean[without]
    same = known.same(without, with_i)
    worth = (
        f"Its value is {case.values.mean[i]:+.4f}{'' if len(same) and same.all() else interval_text(case, i)}"
    )
    if kind == "harmful":
        fell = int((change < 0).sum())
        said = f"{name} lowers what the others reach. {worth}, below zero. {what_without(case, i)}"
        if len(change):
            said += (
                f" In {fell} of {len(change)} trained pairs of coalitions that differ only in this client, the one with "
                f"it is worse; over all pairs, by {-float(change.mean()):.4f} on average."
            )
    elif same.all():
        said = (
            f"{name} changes nothing: in all {len(change)} trained pairs of coalitions that differ only in this client, "
            f"the outcome is the same. {worth}."
        )
    else:
        said = (
            f"{name} changes nothing beyond training noise: in {len(change)} trained pairs of coalitions that differ "
            f"only in this client, the utility differs by {float(np.sqrt((change**2).mean())):.4f} (root mean square). "
            f"{worth}, within ±{case.worth.margin:.4f}, a tenth of an equal split."
        )
    return Finding(kind, (name,), said, _shown(case, without, with_i), len(change), p)


def certain_zero(case: Case, i: int) -> Finding:
    """A client without data, which needs no test; coalitions without it and with it where there are any."""
    name = case.values.names[i]
    without, with_i = case.known.steps(i)
    said = f"{name} adds nothing: it has no data, so its value is 0 for certain, whatever the seed."
    return Finding("no contribution", (name,), said, _shown(case, without, with_i), len(without), None)


def certain_copies(case: Case, group: tuple[int, ...]) -> Finding:
    """Clients with the same data, which need no test; coalitions with another in its place where there are any."""
    known, names = case.known, tuple(case.values.names[i] for i in group)
    left, right = _swapped(known, group)
    said = (
        f"{_listed(names)} are interchangeable: they have the same data, so their value is the same for certain, "
        f"{case.values.mean[group[0]]:+.4f} each."
    )
    return Finding("interchangeable", names, said, _shown(case, left, right), len(left), None)


def compare_swaps(case: Case, group: tuple[int, ...], p: float) -> Finding:
    """Copies: coalitions with one of them and with another in its place, and two of them alone."""
    known, names = case.known, tuple(case.values.names[i] for i in group)
    left, right = _swapped(known, group)
    i, j = group[:2]
    gains = together(known, i, j)
    assert gains is not None
    exactly = bool(known.same(left, right).all())
    alike = "has the same outcome" if exactly else "has the same utility but for training noise"
    said = (
        f"{_listed(names)} are interchangeable: in all {len(left)} trained coalitions with one of them, another "
        f"in its place {alike}. Trained together without anyone else, {names[0]} and {names[1]} reach {gains.gain:+.4f} "
        f"more than one of them alone; adding another client usually brings {gains.usual:+.4f}."
    )
    pairs = [
        (alone, both)
        for both in known.rows(1 << i | 1 << j)
        for alone in known.rows(1 << i)
        if known.seeds[alone] == known.seeds[both]
    ]
    extra = [comparison(case, *pairs[0])] if pairs else []
    shown = _shown(case, left, right)[: _SHOWN - len(extra)]
    return Finding("interchangeable", names, said, (*extra, *shown), len(left), p)


def compare_without(case: Case, i: int, j: int, p: float) -> Finding:
    """A client whose value is there only where another one is."""
    known, (name, other) = case.known, (case.values.names[i], case.values.names[j])
    kept = without_one(known, j)
    said = (
        f"{name} depends on {other}: among the others alone, its value would be {kept[i]:+.4f} instead of "
        f"{case.values.mean[i]:+.4f}."
    )
    without, with_i = known.steps(i)
    absent = ~known.inside[without, j]
    shown = (
        *_shown(case, without[absent], with_i[absent])[:3],
        *_shown(case, without[~absent], with_i[~absent])[:3],
    )
    return Finding("dependent", (name, other), said, shown, len(without), p)


def gap(values: Values, known: Known) -> list[Finding]:
    """Values that do not add up to what all clients reach together; methods in another unit do not claim to."""
    ends = known.row(0), known.row(full_mask(known.n))
    # Over several seeds, v(N) is what the values add up to: that of a single seed is its luck.
    if ends[0] is None or ends[1] is None or values.other_unit or values.seeds > 1:
        return []
    none, all_ = (float(known.mean[row]) for row in ends)
    if values.utility_of_none is not None:  # which may be a mean over seeds: the values count from it
        none = values.utility_of_none
    total, added = all_ - none, float(values.mean.sum())
    if abs(added - total) <= _GAP * max(abs(total), 1e-9 * known.spread):
        return []
    said = (
        f"The values add up to {added:.4f}; all clients together reach {abs(total):.4f} {'more' if total >= 0 else 'less'} than {_without(values)}. "
        f"{values.method} does not promise that the two agree; a payout splits the pot by the values, not by that gain."
    )
    names = tuple(values.names)
    return [Finding("efficiency gap", (), said, (Comparison((), none, names, all_),), 1, None)]


def suspected(values: Values) -> list[Finding]:
    """What was noticed about the data itself, before anything was trained."""
    return [
        Finding("suspicious data", (), text, (), 0, None)  # begins with the name of a client, as it is
        for text in values.suspicious
    ]


def learned(values: Values) -> list[Finding]:
    """Values of a model that learnt nothing, which is about everyone."""
    if not values.warning:
        return []
    return [Finding("nothing learned", (), values.warning, (), 0, None)]


def without_client(case: Case, i: int) -> tuple[Rows, Rows]:
    """Rows of all others without a client, and of all clients; with several seeds, of the seeds that trained both."""
    known = case.known
    without, with_i = known.steps(i)
    everyone = known.size[with_i] == known.n
    return without[everyone], with_i[everyone]


def what_without(case: Case, i: int) -> str:
    """What all others reach without a client, and all with it, in the metric."""
    without, with_i = without_client(case, i)
    if not len(without):
        seed = " with the same seed" if case.values.seeds > 1 else ""
        return f"What the others reach without it is not known: that was not trained{seed}."
    metric, sign, known = case.values.metric, case.values.sign, case.known
    others, everyone = (sign * float(known.mean[rows].mean()) for rows in (without, with_i))
    times = known.replicates * len(without)
    trained = "one training each" if times == 1 else f"means of {plural(times, 'training')} each"
    return f"Without it the others reach {metric} {others:.4f}, with it all reach {everyone:.4f} ({trained})."


def interval_text(case: Case, i: int) -> str:
    """The interval of a value behind it, as far as there is one."""
    _, error, dof = case.worth.of(np.eye(case.known.n)[i])
    if error is None:
        return ""
    if case.worth.runs is not None:
        return f" (standard error {error:.4f} between replicates)"
    if case.worth.bound:
        return f" (training noise moves it by {error:.4f} at most, judged by how clients differ)"
    return f" ± {quantile(dof) * error:.4f} (95%)"


def _shown(case: Case, first: Rows, second: Rows) -> tuple[Comparison, ...]:
    """A few comparisons from the smallest coalitions to the largest."""
    order = np.lexsort((first, case.known.size[first]))
    picked = (
        order[np.unique(np.linspace(0, len(order) - 1, _SHOWN).round().astype(int))] if len(order) else order
    )
    return tuple(comparison(case, int(first[k]), int(second[k])) for k in picked)


def _swapped(known: Known, group: tuple[int, ...]) -> tuple[Rows, Rows]:
    """Rows of all known pairs with one client of a group and another of it in its place."""
    rows = [known.swaps(i, j) for i in group for j in group if i < j]
    left, right = (np.concatenate([pair[k] for pair in rows]) for k in (0, 1))
    return left, right


def comparison(case: Case, first: int, second: int) -> Comparison:
    known, names = case.known, case.values.names
    of = [tuple(names[i] for i in np.flatnonzero(known.inside[row])) for row in (first, second)]
    seed = int(known.seeds[first]) if known.seeds.any() else None
    return Comparison(of[0], float(known.mean[first]), of[1], float(known.mean[second]), seed)


def _without(values: Values) -> str:
    return "the untrained model" if values.empty is None else f"v(∅), {values.empty_label}"


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
