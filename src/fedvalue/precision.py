"""What makes intervals wide, and what would narrow them: more coalitions, more seeds, or more test rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedvalue._text import count, duration, plural

if TYPE_CHECKING:
    from fedvalue.values import Values

__all__ = ["Remedy", "advice", "dominant", "remedy", "shares", "unknown"]

_CALLED = {
    "coalitions": "coalitions that were not trained",
    "training": "the luck of training",
    "test": "the luck of test rows",
}
_WEIGH_ROWS = ("exact", "exact-cc", "exact-perm", "surrogate", "surrogate-adaptive")
_MOST = 1 << 40  # further trainings: more are not counted


@dataclass(frozen=True)
class Remedy:
    """What would halve the intervals.

    `part` is what they are mostly made of, `share` its part of their variance. `trainings` is how many more would halve
    them, in about so many `seconds`; `test_rows` is how many test rows would, all together. None where that is not known,
    or where nothing of the kind does: the best that it could do is to narrow them by the fraction `at_most`.
    """

    part: str
    share: float
    trainings: int | None = None
    seconds: float | None = None
    test_rows: int | None = None
    at_most: float = 1.0


def shares(values: Values) -> dict[str, float]:
    """The parts of the variance of all values together, those that are known; nothing where there is no error."""
    variances = {name: float((error**2).sum()) for name, error in values.errors.items() if error is not None}
    total = sum(variances.values())
    return {name: variance / total for name, variance in variances.items()} if total > 0 else {}


def dominant(values: Values) -> str | None:
    """The largest part of the error: "coalitions", "training" or "test"; None where there is none."""
    found = shares(values)
    return max(found, key=lambda name: found[name]) if found else None


def remedy(values: Values) -> Remedy | None:
    """What would halve the intervals; None where there are none."""
    found, part = shares(values), dominant(values)
    if part is None:
        return None
    share, rest = found[part], 1 - found[part]
    if part == "test":
        at_most, left = 1 - math.sqrt(rest), 0.25 - rest
        rows = None if values.test_rows is None or left <= 0 else math.ceil(values.test_rows * share / left)
        return Remedy(part, share, test_rows=rows, at_most=at_most)
    of_rows = found.get("test", 0.0)
    if of_rows >= 0.25:
        return Remedy(part, share, at_most=1 - math.sqrt(of_rows))
    more, further = _to_halve(values), trainings_left(values)
    if further is not None and (more is None or more > further):
        return Remedy(part, share, at_most=(values.expected_gain(further) or 0.0) if further else 0.0)
    if more is None:  # test rows are more than a quarter of the widest interval, if not of all together
        return Remedy(part, share, at_most=values.expected_gain(_MOST) or 0.0)
    each = values.seconds / values.evaluations if values.evaluations else 0.0
    return Remedy(part, share, more, None if more is None or not each else more * each)


def trainings_left(values: Values) -> int | None:
    """How many trainings a game with a limited number of seeds, such as a table, still has; None where there is no limit."""
    if values.most_seeds is None:
        return None
    return max(0, values.most_seeds * ((1 << values.n) - 1) - values.evaluations)


def _to_halve(values: Values) -> int | None:
    """The fewest further trainings that are expected to halve the widest interval."""
    if (
        values.one_seed and "training" in values.parts
    ):  # of one seed more coalitions do not help, further seeds do
        return 3 * (values.evaluations - values.luck_trainings)
    low, high = 0, max(1, values.evaluations)
    while (values.expected_gain(high) or 0.0) < 0.5:
        low, high = high, 2 * high
        if high > _MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if (values.expected_gain(middle) or 0.0) >= 0.5 else (middle, high)
    return high


def unknown(values: Values) -> dict[str, str]:
    """The parts of the error that are not known and not in the intervals, and why.

    A game without randomness has no luck of training; exact values have no error of coalitions.
    """
    if values.other_unit:
        return {}
    missing = {name for name, error in values.errors.items() if error is None}
    why = {}
    if "coalitions" in missing and values.guarantee != "exact":
        why["coalitions"] = f"{values.method} has no valid standard error at this budget"
    if "training" in missing and values.random:
        why["training"] = (
            "no coalition was trained with another seed"
            if values.replicates == 1
            else f"{values.method} has it only in the mean of {values.replicates} replicates"
        )
    if "test" in missing:
        why["test"] = "these utilities do not say what single test rows gave"
        if values.test_rows is not None and values.method not in _WEIGH_ROWS:
            why["test"] = f"{values.method} does not tell how its values follow from them"
        elif values.guarantee == "exact" and values.known_before:
            why["test"] = (
                f"{values.method} did not ask for all that the store knew; the method exact does, and knows it"
            )
    return why


def advice(values: Values) -> list[str]:
    """What the intervals are mostly made of, what would halve them, and what is not in them, sentence by sentence."""
    lines, found = [], remedy(values)
    if found is not None:
        lines.append(_sentence(values, found))
    gaps = unknown(values)
    if gaps and (found is not None or values.guarantee == "exact"):
        said = "; ".join(f"{_CALLED[name]}, because {why}" for name, why in gaps.items())
        lines.append(f"Not known, and not in any ±: {said}.")
    return lines


def _sentence(values: Values, found: Remedy) -> str:
    what = _CALLED[found.part]
    if found.part == "test" and values.test_rows is not None:
        what = f"the {plural(values.test_rows, 'test row')}"
    mostly = "The ± is mostly" if found.share > 0.5 else "The largest part of the ± is"
    start = f"{mostly} {what} ({found.share:.0%} of the variance)"
    if found.part == "test":
        if found.test_rows is not None:
            return f"{start}: about {count(found.test_rows)} would halve it."
        if found.at_most < 0.5:
            return (
                f"{start}: more of them alone would narrow it by {found.at_most:.0%} at most; four times as many and "
                f"{count(3 * (values.evaluations - values.luck_trainings))} more trainings would halve it."
            )
        return f"{start}: {_times(found)} as many would halve it."
    if (left := trainings_left(values)) is not None and found.trainings is None:
        return f"{start}: {_of_a_limited_game(values, found, left)}."
    if found.at_most < 0.5:
        return (
            f"{start}: more trainings alone would narrow it by {found.at_most:.0%} at most; {count(3 * (values.evaluations - values.luck_trainings))} "
            "more and four times as many test rows would halve it."
        )
    if found.trainings is None:
        return f"{start}."
    time = "" if found.seconds is None else f", about {duration(found.seconds)},"
    if values.one_seed and found.part == "training":
        return (
            f"{start}: these are the values of one seed. All coalitions with three more seeds, "
            f"{count(found.trainings)} trainings{time.rstrip(',')}, would halve it; the method surrogate, which spreads "
            "its trainings over several seeds, needs fewer."
        )
    left = (1 << values.n) - values.evaluations - values.known_before
    if values.seeds == 1 and found.part == "coalitions" and 0 < left <= found.trainings:
        return f"{start}: the other {plural(left, 'coalition')} would remove that."
    return f"{start}: {count(found.trainings)} more trainings{time} would halve it."


def _of_a_limited_game(values: Values, found: Remedy, left: int) -> str:
    """What can be done where the game has too few trainings left: use them, and find further seeds for the rest."""
    assert values.most_seeds is not None
    seeds = plural(values.most_seeds, "seed")
    further = f"about {count(4 * values.most_seeds)} seeds instead would halve it"
    if not left:
        return f"every training of the {seeds} that this game has is used; {further}"
    gain = f", and would narrow it by about {found.at_most:.0%}" if found.at_most else ""
    return f"{plural(left, 'training')} with the {seeds} that this game has are left{gain}; {further}"


def _times(found: Remedy) -> str:
    factor = found.share / (0.25 - (1 - found.share))
    return f"{np.ceil(factor):.0f} times"
