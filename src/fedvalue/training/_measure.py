"""Measuring trained models: one that cannot be measured does not take the others with it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from fedvalue.coalitions import Trial, members
from fedvalue.errors import UnavailableError, UtilityError
from fedvalue.outcome import DRAWN, empty_metric
from fedvalue.scenarios import Scenario
from fedvalue.training._session import Drawing, Guessing, Session, Stack

__all__ = ["UNTRAINED_MODELS", "measured", "measured_untrained", "not_measured"]

UNTRAINED_MODELS = 64
_NAMED = 8

Key = TypeVar("Key", bound=Hashable)


def measured(
    session: Session, models: Stack, keys: Sequence[Key]
) -> tuple[dict[Key, dict[str, float]], dict[Key, UtilityError]]:
    """The metrics of every model by its trial (or another key), row r being keys[r]; and where there are none, why."""
    try:
        return dict(zip(keys, session.evaluate(models), strict=True)), {}
    except UnavailableError:  # nothing is wrong with the models
        raise
    except UtilityError as error:  # a metric of one's own failed, and did not say on which model
        if len(keys) == 1:
            return {}, {keys[0]: error}
    found: dict[Key, dict[str, float]] = {}
    failed: dict[Key, UtilityError] = {}
    for row, key in enumerate(keys):
        metrics, reasons = measured(session, session.take(models, [row]), [key])
        found |= metrics
        failed |= reasons
    return found, failed


def measured_untrained(
    session: Session, at_once: int = 16, seed: int | None = None
) -> tuple[dict[int, dict[str, float]], dict[int, UtilityError]]:
    """What `measured` gives for ∅: the metrics of the model that every coalition with this seed starts from (None: the
    seed of the rules), and their means over untrained models that have nothing to do with the seed of the training. What one of them reaches is luck, and every
    value is counted from there. Where the initial model is not random, the one is all there is. A model on which a metric
    of one's own fails is left out of the means.
    """
    rows: list[dict[str, float]] = []
    seeds = [seed, *range(UNTRAINED_MODELS)] if isinstance(session, Drawing) else [seed]
    for start in range(0, len(seeds), at_once):
        some = seeds[start : start + at_once]
        stack = session.drawn(some) if isinstance(session, Drawing) else session.initial()
        found, failed = measured(session, stack, range(len(some)))
        if start == 0 and 0 in failed:
            return {}, {0: failed[0]}
        rows += found.values()
        if all(row == rows[0] for row in rows):
            rows = rows[:1]
            break
    own, drawn = rows[0], rows[1:] or rows
    means = {
        empty_metric(name, "initial"): math.fsum(row[name] for row in drawn) / len(drawn) for name in own
    }
    if isinstance(session, Guessing):
        means |= {
            empty_metric(name, "initial"): number for name, number in session.guesses().items() if name in own
        }
    return {0: {**own, **means, DRAWN: float(len(drawn))}}, {}


def not_measured(scenario: Scenario, failed: Mapping[Trial, UtilityError]) -> UtilityError:
    """What to raise when everything else is done."""
    (mask, _), error = next(iter(failed.items()))
    who = members(mask)
    names = ", ".join(scenario.names[i] for i in who[:_NAMED]) + (", …" if len(who) > _NAMED else "")
    whose = f"the model of coalition {who} ({names})" if who else "the untrained model"
    more = f", and for {len(failed) - 1} more models" if len(failed) > 1 else ""
    return UtilityError(
        f"{error} That was for {whose}{more}. Nothing was stored for these; what else was trained is kept. Fix the "
        "metric and run the same again.",
        who,
    )
