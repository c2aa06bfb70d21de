"""Measuring trained models: one that cannot be measured does not take the others with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedvalue.coalitions import members
from fedvalue.errors import UnavailableError, UtilityError
from fedvalue.scenarios import Scenario
from fedvalue.training._session import Session, Stack

__all__ = ["measured", "not_measured"]

_NAMED = 8


def measured(
    session: Session, models: Stack, masks: Sequence[int]
) -> tuple[dict[int, dict[str, float]], dict[int, UtilityError]]:
    """The metrics of every model by its coalition, row r being masks[r]; and where there are none, why."""
    try:
        return dict(zip(masks, session.evaluate(models), strict=True)), {}
    except UnavailableError:  # nothing is wrong with the models
        raise
    except UtilityError as error:  # a metric of one's own failed, and did not say on which model
        if len(masks) == 1:
            return {}, {masks[0]: error}
    found: dict[int, dict[str, float]] = {}
    failed: dict[int, UtilityError] = {}
    for row, mask in enumerate(masks):
        metrics, reasons = measured(session, session.take(models, [row]), [mask])
        found |= metrics
        failed |= reasons
    return found, failed


def not_measured(scenario: Scenario, failed: Mapping[int, UtilityError]) -> UtilityError:
    """What to raise when everything else is done."""
    mask, error = next(iter(failed.items()))
    who = members(mask)
    names = ", ".join(scenario.names[i] for i in who[:_NAMED]) + (", …" if len(who) > _NAMED else "")
    whose = f"the model of coalition {who} ({names})" if who else "the untrained model"
    more = f", and for {len(failed) - 1} more models" if len(failed) > 1 else ""
    return UtilityError(
        f"{error} That was for {whose}{more}. Nothing was stored for these; what else was trained is kept. Fix the "
        "metric and run the same again.",
        who,
    )
