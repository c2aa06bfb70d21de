"""The sentences of a report: the verdict, what an interval covers, what the method promises, what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10

import numpy as np

from fedvalue.audit import Audit
from fedvalue.estimators import ESTIMATORS
from fedvalue.report.run._markup import called
from fedvalue.report.run._origin import known_before
from fedvalue.report.run._trained import Convergence
from fedvalue.text import count, duration, plural, shortened
from fedvalue.trainings import Trainings
from fedvalue.values import Values

__all__ = [
    "NAME",
    "Ends",
    "Method",
    "convergence_note",
    "cost_lines",
    "decimals_of",
    "interval_note",
    "limits",
    "method_of",
    "ranked",
    "signed",
    "verdict",
]

NAME = 48  # letters of a name; the raw values have it in full
_NAMED = 4  # findings in a sentence


@dataclass(frozen=True)
class Ends:
    """What nobody and all clients together reach, by the metric."""

    metric: str
    none: float
    all: float


@dataclass(frozen=True)
class Method:
    """How the values were found: what the method does, what it guarantees, what the values do not say."""

    name: str
    description: str
    reference: str
    guarantee: tuple[str, ...]
    limits: tuple[str, ...]


def signed(number: float, decimals: int) -> str:
    """A number with its sign, a true minus; what rounds to nothing has none.

    >>> signed(0.25, 3), signed(-0.25, 3), signed(-1e-9, 3)
    ('+0.250', '−0.250', '0.000')
    """
    text = f"{number:+.{decimals}f}"
    return text.replace("-", "−") if text.strip("+-0.") else text[1:]


def ranked(values: Values) -> list[int]:
    """Clients by value, the highest first; those that differ by rounding errors alone as they are listed.

    >>> ranked(Values([0.1, 0.3, 0.3 + 1e-16], ("a", "b", "c"), "exact", 8))
    [1, 2, 0]
    """
    largest = float(np.abs(values.mean).max()) or 1.0
    return sorted(range(values.n), key=lambda i: -round(float(values.mean[i]) / largest, 12))


def decimals_of(values: Values) -> int:
    """How many decimals values are shown with: small values keep their digits."""
    largest = float(np.abs(values.mean).max()) or 1.0
    return min(max(4, 2 - floor(log10(largest))), 12)


def _plain(number: float, decimals: int) -> str:
    return f"{number:.{decimals}f}".replace("-", "−")


def verdict(values: Values, ends: Ends | None, audit: Audit | str) -> tuple[str, str, str]:
    """Three sentences: who is worth what, how sure that is, and what to look at."""
    return _worth(values, ends), _sureness(values, audit), _attention(audit)


def _worth(values: Values, ends: Ends | None) -> str:
    order, decimals = ranked(values), decimals_of(values)
    reach = "" if values.n == 1 else f"Of the {values.n:,} clients, "
    if ends is not None:
        who = "The one client brings" if values.n == 1 else f"Together, the {values.n:,} clients bring"
        way = f"from {_plain(ends.none, decimals)} to {_plain(ends.all, decimals)}"
        reach = f"{who} the {shortened(ends.metric, NAME)} {way}; "
    unit = f" in {shortened(other, NAME)}" if (other := _other_unit(values)) else ""
    best, worst = order[0], order[-1]
    top, least = float(values.mean[best]), float(values.mean[worst])
    if values.n == 1:
        said = f"{'the' if reach else 'The'} value of {called(values.names[0], NAME)} is {signed(top, decimals)}{unit}."
    elif top - least <= 1e-12 * max(abs(top), abs(least)):
        said = f"each is worth the same, {signed(top, decimals)}{unit}."
    else:
        share = top / float(values.mean.sum()) if values.mean.sum() > 0 else 0.0
        part = f", {share:.1%} of all value" if 0 < share <= 1 else ""
        said = (
            f"{called(values.names[best], NAME)} is worth most ({signed(top, decimals)}{unit}{part}) and "
            f"{called(values.names[worst], NAME)} least ({signed(least, decimals)}{unit})."
        )
    return reach + said


def _other_unit(values: Values) -> str:
    """What the values are in where that is not the metric."""
    unit = values.details.get("unit")
    return "" if unit is None or unit == values.details.get("metric") else str(unit)


def _sureness(values: Values, audit: Audit | str) -> str:
    total = plural(1 << values.n, "coalition")
    ranking = f"; {audit.ranking[0].lower()}{audit.ranking[1:]}" if isinstance(audit, Audit) else "."
    if values.guarantee == "exact":
        return f"All {total} count, so nothing was estimated: these are the exact values of these trainings{ranking}"
    rest = f"The values rest on {count(values.evaluations + known_before(values))} of {total} by the method {shortened(values.method, NAME)}"
    interval = values.interval(0.95)
    if interval is None or not np.isfinite(interval).all():
        return f"{rest}, which gives no interval here, so how far off they are cannot be told."
    half, decimals = (interval[:, 1] - interval[:, 0]) / 2, decimals_of(values)
    within = f"±{half.mean():.{decimals}f} on average, ±{half.max():.{decimals}f} at worst (95 %)"
    return f"{rest} and are known to within {within}{ranking}"


def _attention(audit: Audit | str) -> str:
    if isinstance(audit, str):
        return f"There is no audit: {audit[0].lower()}{audit[1:]}" if audit else "There is no audit."
    if not audit.findings:
        return f"The audit of {plural(audit.coalitions, 'trained coalition')} found nobody who stands out."
    named = [f"{_listed(who) if who else 'the sum of all values'} ({kind})" for kind, who in _grouped(audit)]
    more = len(named) - _NAMED
    rest = f"; and {more} more" if more > 0 else ""
    return f"Worth a look, by the audit: {'; '.join(named[:_NAMED])}{rest}."


def _grouped(audit: Audit) -> list[tuple[str, tuple[str, ...]]]:
    """Findings by kind, single clients with the same finding together; groups of clients stay apart."""
    alone: dict[str, tuple[str, ...]] = {}
    found: list[tuple[str, tuple[str, ...]]] = []
    for finding in audit.findings:
        if len(finding.clients) != 1:
            found.append((finding.kind, finding.clients))
        else:
            alone[finding.kind] = (*alone.get(finding.kind, ()), *finding.clients)
    return [*alone.items(), *found]


def _listed(names: Sequence[str]) -> str:
    shown = [called(name, NAME) for name in names[:_NAMED]]
    if len(names) > _NAMED:
        return f"{', '.join(shown)} and {len(names) - _NAMED} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def interval_note(values: Values) -> str:
    """What the intervals are, or why there are none."""
    if values.stderr is not None and values.guarantee != "exact":
        return (
            "Intervals are of the estimate: where the value would come to lie if all coalitions were trained. They do "
            "not cover training noise."
        )
    if values.guarantee == "exact":
        return "No intervals: nothing was estimated. Training again with other random numbers would still move values."
    return (
        f"No intervals: there is no valid standard error for {shortened(values.method, NAME)} at this budget."
    )


def method_of(values: Values, guarantee: Sequence[str]) -> Method:
    """The method in plain words."""
    known = ESTIMATORS.get(values.method)
    description = known.description if known else "Not a method of this version of fedvalue"
    return Method(
        name=values.method,
        description=f"{description}.",
        reference=known.reference if known else "",
        guarantee=tuple(guarantee),
        limits=limits(values),
    )


def limits(values: Values) -> tuple[str, ...]:
    """What holds for every such report, and what for this method."""
    known, biased = ESTIMATORS.get(values.method), values.guarantee not in ("exact", "unbiased")
    said = [
        f"A {'Shapley ' if biased else ''}value is what a client adds to this metric on this test data, averaged over all "
        f"orders in which the clients might join{'; these values approximate it' if biased else ''}. Another metric, "
        "test set or model gives other values.",
        "It is worth within this group: a client with the same data as another shares its value with it, and is worth "
        "more to a group that lacks such data.",
        "A value below zero says that the others train better models without the client. It does not say why.",
    ]
    if known is not None and known.view is not None:
        said.append(
            "Only all clients together were trained; what others would reach is judged by that training."
        )
    elif values.guarantee != "exact" and values.evaluations + known_before(values) < 1 << values.n:
        said.append("Not all coalitions were trained; the method estimates the others or does without them.")
    unit = _other_unit(values)
    if unit:
        said.append(
            f"The values of {values.method} are in another unit ({unit}) and do not add up to the utility."
        )
    if "training_noise" not in values.details:
        said.append(
            "Training noise was not measured: how far values would move with other random numbers is not known."
        )
    return tuple(said)


def cost_lines(values: Values, trainings: Trainings | None) -> tuple[str, ...]:
    """What was trained and how long it took."""
    details = values.details
    replicates = details.get("replicates")
    times = f", {replicates} times each" if isinstance(replicates, int) and replicates > 1 else ""
    before = known_before(values)
    besides = f" and {count(before)} more that the store knew" if before else ""
    lines = [
        f"{count(values.evaluations)} of {plural(1 << values.n, 'coalition')} for these values{times}{besides}, "
        f"{duration(values.seconds)} of trainings and computation."
    ]
    if trainings is not None:
        on = f" on {', '.join(trainings.computed_by)}" if trainings.computed_by else ""
        lines.append(
            f"The store knows {plural(len(trainings.utilities), 'coalition')} of this game, {duration(trainings.seconds)} "
            f"of trainings{on}. A run with this store trains none of them again."
        )
    exact, seconds = details.get("exact_trainings"), details.get("exact_seconds_estimate")
    if values.guarantee != "exact" and isinstance(exact, int):
        about = f", about {duration(seconds)} extrapolated" if isinstance(seconds, float) else ""
        lines.append(f"Exact values would take {plural(exact, 'training')}{about}.")
    return tuple(lines)


def convergence_note(found: Convergence, method: str) -> str:
    """What drew the values as they settled."""
    first, last = found.counts[0], found.counts[-1]
    said = (
        f"Values that the {found.estimator} finds from the first {first:,} to {last:,} of the {found.trained:,} "
        "coalitions in the order in which they were stored (those of one moment in no order), nobody and all clients always "
        "among them."
    )
    if method != found.estimator:
        said += f" The {found.estimator} is a yardstick here: {method} itself may have settled otherwise."
    return said
