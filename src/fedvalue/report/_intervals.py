"""What the intervals of values hold, and what they are made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedvalue._text import shortened
from fedvalue.report._words import NAME
from fedvalue.values import Values

__all__ = ["PARTS", "bands_of", "interval_note", "without_error"]

PARTS = {
    "coalitions": "coalitions that were not trained",
    "training": "the luck of training",
    "test": "the sample of test rows",
}
"""What an error comes from, in words."""


def interval_note(values: Values) -> str:
    """What the intervals are, or why there are none."""
    if without_error(values):
        again = (
            " Training again with other random seeds may still change the values." if values.random else ""
        )
        return f"There are no intervals because nothing was estimated.{again}"
    if values.stderr is None:
        return f"There are no intervals: {shortened(values.method, NAME)} has no valid standard error at this budget."
    parts = _parts_of(values)
    known = [PARTS[name] for name in parts]
    held = f"{', '.join(known[:-1])}{' and ' if known[1:] else ''}{known[-1]}"
    expected = values.errors["training"] is not None
    what = (
        "is to be expected over other seeds"
        if expected
        else "training all coalitions with this seed would give"
    )
    if not values.random:
        what = "all coalitions would give"
    if list(parts) == ["test"] and values.guarantee == "exact":
        what = f"is to be expected over other samples of test rows{', with this seed,' if values.one_seed else ''}"
    missing = " It does not cover the luck of training." if values.random and not expected else ""
    return f"An interval holds the value that {what} with 95% confidence. It covers {held}.{missing}"


def _parts_of(values: Values) -> dict[str, NDArray[np.float64]]:
    """The parts of the error that are known and not zero for everyone; all that are known where every one is."""
    known = {name: error for name, error in values.errors.items() if error is not None}
    return {name: error for name, error in known.items() if error.any()} or known


def without_error(values: Values) -> bool:
    """Whether values are exact and nothing is known of what they err by."""
    return values.guarantee == "exact" and (values.stderr is None or not values.stderr.any())


def bands_of(values: Values) -> list[tuple[tuple[str, float], ...]]:
    """For every client, how far its 95% interval would reach with the first part of the error alone, with two, with all."""
    interval = values.interval(0.95)
    known = _parts_of(values)
    if interval is None or not known:
        return [()] * values.n
    half = (interval[:, 1] - interval[:, 0]) / 2
    variances = np.cumsum([error**2 for error in known.values()], axis=0)
    total = np.where(variances[-1] > 0, variances[-1], 1.0)
    reach = half * np.sqrt(variances / total)
    return [tuple(zip(known, reach[:, i].tolist(), strict=True)) for i in range(values.n)]
