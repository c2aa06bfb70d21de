"""The verdict: who is worth what, how sure that is, and what to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedvalue._text import count, one_line, plural, shortened
from fedvalue.audit import Audit
from fedvalue.report._intervals import without_error
from fedvalue.report._trained import Absent
from fedvalue.report._words import (
    MOST_NAMED,
    NAME,
    called,
    decimals_of,
    fixed,
    named,
    over_seeds,
    ranked,
    signed,
    unbracketed,
)
from fedvalue.values import Values

__all__ = ["Ends", "verdict"]

_ABOUT_ALL = {
    "nothing learned": "all clients",
    "suspicious data": "the data",
    "efficiency gap": "the sum of all values",
}


@dataclass(frozen=True)
class Ends:
    """What the untrained model and all clients together reach, by the metric."""

    none: float
    all: float


def verdict(
    values: Values, ends: Ends | None, audit: Audit | Absent, money: Sequence[str] = ()
) -> tuple[str, ...]:
    """Who is worth what, who has no value, how sure that is, and what to look at."""
    missing = [_missing(values)] if values.absent else []
    warning = [one_line(values.warning)] if values.warning else []
    return *warning, *money, _worth(values, ends), *missing, _certainty(values, audit), _attention(audit)


def _worth(values: Values, ends: Ends | None) -> str:
    order, decimals = ranked(values), decimals_of(values)
    unit = f" in {shortened(other, NAME)}" if (other := values.other_unit) else ""
    best, worst = order[0], order[-1]
    top, least = float(values.mean[best]), float(values.mean[worst])
    if values.n == 1:
        said = f"{called(values.names[0])} is the only client and worth {signed(top, decimals)}{unit}."
    elif top - least <= 1e-12 * max(abs(top), abs(least)):
        said = f"all are worth the same ({signed(top, decimals)}{unit})."
    else:
        share = top / float(values.mean.sum()) if values.mean.sum() > 0 else 0.0
        part = f", {share:.1%} of the total" if 0 < share <= 1 else ""
        said = (
            f"{called(values.names[best])} is worth the most ({signed(top, decimals)}{unit}{part}) and "
            f"{called(values.names[worst])} the least ({signed(least, decimals)}{unit})."
        )
    if ends is None:
        return said if values.n == 1 else f"Of the {values.n:,} clients, {said}"
    start = unbracketed(values.empty_label)
    who = "the one client" if values.n == 1 else f"all {values.n:,} clients"
    return (
        f"With {who}, the {shortened(values.metric, NAME)} goes from {fixed(ends.none, decimals)} ({start}) to "
        f"{fixed(ends.all, decimals)}{over_seeds(values)}; {said}"
    )


def _missing(values: Values) -> str:
    shown = [f"{called(name)} ({one_line(why)})" for name, why in list(values.absent.items())[:MOST_NAMED]]
    more = len(values.absent) - len(shown)
    rest = f"; and {more} more" if more > 0 else ""
    verb = "has" if len(values.absent) == 1 else "have"
    return f"{plural(len(values.absent), 'further client')} took no part and {verb} no value: {'; '.join(shown)}{rest}."


def _certainty(values: Values, audit: Audit | Absent) -> str:
    total = f"{plural(1 << values.n, 'coalition')} (sets of clients)"
    ranking = f" {audit.ranking}" if isinstance(audit, Audit) else ""
    if without_error(values):
        return f"All {total} were used, so the values are {values.promise}.{ranking}"
    used = f"{count(values.evaluations + values.known_before)} of {total}"
    if values.seeds > 1:
        used = f"{plural(values.evaluations, 'training')} of coalitions (sets of clients), spread over {values.seeds} seeds,"
    said = f"The values are estimated from {used.removesuffix(',')}."
    if values.guarantee == "exact":
        said = f"All {total} were used, so the values are {values.promise}."
    interval = values.interval(0.95)
    if interval is None or not np.isfinite(interval).all():
        return f"{said} The method gives no margin of error here, so how far off they are is unknown."
    half, decimals = (interval[:, 1] - interval[:, 0]) / 2, decimals_of(values)
    margin = f"±{half.mean():.{decimals}f} on average and ±{half.max():.{decimals}f} at most"
    return f"{said} Their margin of error (95%) is {margin}.{ranking}"


def _attention(audit: Audit | Absent) -> str:
    if isinstance(audit, Absent):
        return f"There is no audit. {audit.why}"
    if not audit.findings:
        return f"The audit of {plural(audit.coalitions, 'trained coalition')}: {_no_finding(audit)}"
    shown = [f"{named(who) if who else _ABOUT_ALL[kind]} ({kind})" for kind, who in _grouped(audit)]
    more = len(shown) - MOST_NAMED
    rest = f"; and {more} more" if more > 0 else ""
    return f"The audit flags {'; '.join(shown[:MOST_NAMED])}{rest}.{_below(audit)}"


def _no_finding(audit: Audit) -> str:
    checked = " Not everything could be checked." if audit.not_assessed else ""
    return f"no test singled out a client.{_below(audit)}{checked}"


def _below(audit: Audit) -> str:
    """Clients below zero that are not called harmful."""
    sure = [finding.clients[0] for finding in audit.below_zero if finding.p_value is not None]
    unsure = [finding.clients[0] for finding in audit.below_zero if finding.p_value is None]
    said = (
        f" Below zero because of smaller coalitions, while all reach more with it: {named(sure)}."
        if sure
        else ""
    )
    return said + (f" Below zero, which may or may not be chance: {named(unsure)}." if unsure else "")


def _grouped(audit: Audit) -> list[tuple[str, tuple[str, ...]]]:
    """Findings by kind, single clients with the same finding together; groups of clients stay apart."""
    alone: dict[str, tuple[str, ...]] = {}
    groups: list[tuple[str, tuple[str, ...]]] = []
    for finding in audit.findings:
        if len(finding.clients) != 1:
            groups.append((finding.kind, finding.clients))
        else:
            alone[finding.kind] = (*alone.get(finding.kind, ()), *finding.clients)
    return [*alone.items(), *groups]
