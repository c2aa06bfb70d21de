"""By what rules the outcomes of a store become values: as the run says, or as the store lets one guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedvalue.outcome import DRAWN, empty_rule, plain_metric
from fedvalue.run import Progress
from fedvalue.store import LatestRow, lower_is_better
from fedvalue.values import Values

__all__ = ["Rules", "rules_of"]

_USUAL_METRICS = ("utility", "accuracy", "r2")


@dataclass(frozen=True)
class Rules:
    """What of an outcome is the utility, and by what rule coalitions and seeds count; `is_known`: the run says so."""

    metric: str
    stored_as: str
    higher_is_better: bool
    replicates: int = 1
    seeds: int | None = None
    empty: str = "initial"
    groups: Mapping[str, Sequence[str]] | None = None
    is_known: bool = True


def rules_of(
    progress: Progress | None,
    record: Mapping[str, Any] | None,
    values: Values | None,
    latest: Sequence[LatestRow],
) -> Rules | None:
    if progress is not None:
        of = progress
        return Rules(
            of.metric, of.stored_as, of.higher_is_better, of.replicates, of.seeds, of.empty, of.groups
        )
    if values is not None:
        groups = dict(values.groups) or None
        empty = values.empty.rule if values.empty else "initial"
        known = values.replicates, values.seeds, empty, groups
        return Rules(values.metric, values.stored_as, values.higher_is_better, *known)
    if record is not None and "stored_as" in record:
        told = record["replicates"], record.get("seeds"), record["empty"], record.get("groups")
        return Rules(record["metric"], record["stored_as"], record["higher_is_better"], *told)
    if not latest:
        return None
    names = [name for name in latest[0].metrics if empty_rule(name) is None and name != DRAWN]
    usual = next((name for name in _USUAL_METRICS if name in names), None) or next(iter(names), None)
    if usual is None:
        return None
    return Rules(plain_metric(usual), usual, not lower_is_better(usual), is_known=len(names) == 1)
