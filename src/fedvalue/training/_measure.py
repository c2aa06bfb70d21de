"""Measuring trained models: one that cannot be measured does not take the others with it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from fedvalue.coalitions import Trial, members
from fedvalue.errors import UnavailableError, UtilityError
from fedvalue.outcome import DRAWN, Outcome, empty_metric
from fedvalue.per_row import PerRow
from fedvalue.scenarios import Scenario
from fedvalue.training._session import Drawing, Guessing, Session, Stack, Telling

__all__ = ["UNTRAINED_MODELS", "measured", "measured_untrained", "not_measured", "outcomes_of"]

UNTRAINED_MODELS = 64
_NAMED = 8

Key = TypeVar("Key", bound=Hashable)


def outcomes_of(session: Session, models: Stack) -> list[Outcome]:
    """What was measured of every model, with what test rows said where the session can tell."""
    if isinstance(session, Telling):
        return session.outcomes(models)
    return [Outcome(metrics, rows={}) for metrics in session.evaluate(models)]


def measured(
    session: Session, models: Stack, keys: Sequence[Key]
) -> tuple[dict[Key, Outcome], dict[Key, UtilityError]]:
    """What was measured of every model by its trial (or another key), row r being keys[r]; and where nothing was, why.

    These outcomes lack time and place, which the trainer knows.
    """
    try:
        return dict(zip(keys, outcomes_of(session, models), strict=True)), {}
    except UnavailableError:  # nothing is wrong with the models
        raise
    except UtilityError as error:  # a metric of one's own failed, and did not say on which model
        if len(keys) == 1:
            return {}, {keys[0]: error}
    found: dict[Key, Outcome] = {}
    failed: dict[Key, UtilityError] = {}
    for row, key in enumerate(keys):
        some, reasons = measured(session, session.take(models, [row]), [key])
        found |= some
        failed |= reasons
    return found, failed


def measured_untrained(
    session: Session, at_once: int = 16, seed: int | None = None
) -> tuple[dict[int, Outcome], dict[int, UtilityError]]:
    """What `measured` gives for ∅: the metrics of the model that every coalition with this seed starts from (None: the
    seed of the rules), and their means over untrained models that have nothing to do with the seed of the training, test
    row by test row where those are told. What one of them reaches is luck, and every value is counted from there. Where
    the initial model is not random, the one is all there is. A model on which a metric of one's own fails is left out of
    the means.
    """
    models: list[Outcome] = []
    seeds = [seed, *range(UNTRAINED_MODELS)] if isinstance(session, Drawing) else [seed]
    for start in range(0, len(seeds), at_once):
        some = seeds[start : start + at_once]
        stack = session.drawn(some) if isinstance(session, Drawing) else session.initial()
        found, failed = measured(session, stack, range(len(some)))
        if start == 0 and 0 in failed:
            return {}, {0: failed[0]}
        models += found.values()
        if all(model.metrics == models[0].metrics for model in models):
            models = models[:1]
            break
    own, drawn = models[0], models[1:] or models
    means = {name: math.fsum(model.metrics[name] for model in drawn) / len(drawn) for name in own.metrics}
    rows = {name: _mean_row([model.rows[name] for model in drawn]) for name in _told_by_all(drawn)}
    if isinstance(session, Guessing):
        guesses = {name: number for name, number in session.guesses().items() if name in own.metrics}
        means |= guesses
        rows |= {name: PerRow.fixed(number) for name, number in guesses.items()}
    by_rule = {empty_metric(name, "initial"): number for name, number in means.items()}
    rows_by_rule = {empty_metric(name, "initial"): row for name, row in rows.items()}
    metrics = {**own.metrics, **by_rule, DRAWN: float(len(drawn))}
    return {0: Outcome(metrics, rows={**own.rows, **rows_by_rule})}, {}


def _told_by_all(models: Sequence[Outcome]) -> list[str]:
    return [name for name in models[0].rows if all(name in model.rows for model in models)]


def _mean_row(rows: Sequence[PerRow]) -> PerRow:
    if len(rows) == 1:
        return rows[0]
    return PerRow.of(np.mean([row.array() for row in rows], axis=0), rows[0].rows)


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
