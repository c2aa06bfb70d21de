"""Where the nodes measure: whether what the store says of a coalition is what they signed, of the model that it trained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fedvalue.evidence._testimony import Client, End, Testimony
from fedvalue.replies import digest_of_metrics

__all__ = ["not_signed", "other_means", "other_metrics"]

_SUMS = ("correct",)  # metrics that count rows: they are added up
_CLOSE = 1e-9


def other_means(metrics: Mapping[str, float], test_rows: Mapping[str, int]) -> str:
    """What of the metrics is not the mean of what each node measured on its rows, as `NAME/metric`; "" where all are."""
    total = sum(test_rows.values())
    parts = {who: _told(metrics, who) for who, rows in test_rows.items() if rows}
    for name in {name for told in parts.values() for name in told}:
        if name not in metrics or not all(name in told for told in parts.values()):
            return name
        added = name.partition("|")[0] in _SUMS
        weights = {who: 1.0 if added else test_rows[who] / total for who in parts}
        mean = math.fsum(weights[who] * told[name] for who, told in parts.items())
        if not abs(mean - metrics[name]) <= _CLOSE * (1 + abs(mean)):
            return name
    # Only of the untrained model more is told than the nodes measure: what guessing reaches, by a rule.
    known = {name for told in parts.values() for name in told}
    return next((name for name in metrics if not {"/", "|"} & set(name) and name not in known), "")


def other_metrics(
    testimony: Testimony, metrics: Mapping[str, float], ends: Sequence[End], nodes: Mapping[str, Client]
) -> str:
    """Who has signed that it measured something else, or another model, as that of this coalition; "" where nobody has."""
    for name, node in nodes.items():
        signed = _signed(testimony, node, ends)
        if signed and not _fitting(signed, metrics, name, ends):
            return name
    return ""


def not_signed(
    testimony: Testimony, metrics: Mapping[str, float], ends: Sequence[End], nodes: Mapping[str, Client]
) -> bool:
    """Whether there is no final model of which all these nodes have signed what the store says."""
    fitting = [_fitting(_signed(testimony, node, ends), metrics, name, ends) for name, node in nodes.items()]
    return bool(fitting) and not set.intersection(*fitting)


def _told(metrics: Mapping[str, float], who: str) -> dict[str, float]:
    prefix = f"{who}/"
    told = {name.removeprefix(prefix): n for name, n in metrics.items() if name.startswith(prefix)}
    return {
        name: number for name, number in told.items() if "/" not in name
    }  # that is of a client called WHO/…


def _signed(testimony: Testimony, node: Client, ends: Sequence[End]) -> set[tuple[str, str]]:
    """Models and what this node measured of them, as those of this coalition."""
    told = (testimony.measured.get((node.data, key, node.test, node.test_rows), {}) for key in node.keys)
    origins = {origin for end in ends for origin in end.origins}
    return {pair for of_origin in told for origin in origins for pair in of_origin.get(origin, ())}


def _fitting(
    signed: set[tuple[str, str]], metrics: Mapping[str, float], name: str, ends: Sequence[End]
) -> set[str]:
    """The final models of which the node has signed what the store says."""
    told = digest_of_metrics(_told(metrics, name))
    return {end.final for end in ends if (end.final, told) in signed}
