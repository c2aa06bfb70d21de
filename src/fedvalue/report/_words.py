"""What a report says in sentences: the verdict, what intervals are, what the method promises, what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedvalue._text import count, duration, one_line, plural, shortened
from fedvalue.audit import Audit, absent_text
from fedvalue.estimators import ESTIMATORS, rest_on
from fedvalue.outcome import UTILITY
from fedvalue.report._trained import Absent, Convergence
from fedvalue.store import History
from fedvalue.values import Values

if TYPE_CHECKING:
    from fedvalue.report._facts import Client

__all__ = [
    "PARTS",
    "Ends",
    "Method",
    "bands_of",
    "called",
    "convergence_note",
    "cost_lines",
    "decimals_of",
    "fixed",
    "interval_note",
    "interval_text",
    "limits",
    "method_of",
    "ranked",
    "share_text",
    "signed",
    "verdict",
    "without_error",
]

_NAME = 48  # letters of a name; the raw values have it in full
_ABOUT_ALL = {
    "nothing learned": "all clients",
    "suspicious data": "the data",
    "efficiency gap": "the sum of all values",
}
_NAMED = 4  # findings or clients in a sentence
PARTS = {
    "coalitions": "coalitions that were not trained",
    "training": "the luck of training",
    "test": "the sample of test rows",
}
"""What an error comes from, in words."""


@dataclass(frozen=True)
class Ends:
    """What the untrained model and all clients together reach, by the metric."""

    none: float
    all: float


@dataclass(frozen=True)
class Method:
    """How the values were found: what the method does, what it guarantees, what the values do not tell."""

    name: str
    description: str
    reference: str
    guarantee: tuple[str, ...]
    limits: tuple[str, ...]


# Numbers and names


def signed(number: float, decimals: int) -> str:
    """A number with its sign, a true minus; what rounds to nothing has none.

    >>> signed(0.25, 3), signed(-0.25, 3), signed(-1e-9, 3)
    ('+0.250', '−0.250', '0.000')
    """
    text = f"{number:+.{decimals}f}"
    return text.replace("-", "−") if text.strip("+-0.") else text[1:]


def fixed(number: float, decimals: int) -> str:
    """A number whose sign is shown only where it is a minus."""
    return f"{number:.{decimals}f}".replace("-", "−")


def called(name: str) -> str:
    """The name of a client in a text: on one line, shortened, and a word for none.

    >>> called("clinic"), called(" ")
    ('clinic', '(no name)')
    """
    return shortened(name, _NAME) if one_line(name).strip() else "(no name)"


def interval_text(client: Client, decimals: int) -> str:
    """From where to where, or a dash."""
    if client.low is None or client.high is None:
        return "–"
    return f"{signed(client.low, decimals)} to {signed(client.high, decimals)}"


def share_text(client: Client) -> str:
    """The part of all value in percent, or a dash."""
    return "–" if client.share is None else f"{client.share:.1%}".replace("-", "−")


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


# The verdict


def verdict(values: Values, ends: Ends | None, audit: Audit | Absent) -> tuple[str, ...]:
    """Who is worth what, who has no value, how sure that is, and what to look at."""
    missing = [_missing(values)] if values.absent else []
    warning = [one_line(values.warning)] if values.warning else []
    return *warning, _worth(values, ends), *missing, _certainty(values, audit), _attention(audit)


def _worth(values: Values, ends: Ends | None) -> str:
    order, decimals = ranked(values), decimals_of(values)
    unit = f" in {shortened(other, _NAME)}" if (other := values.other_unit) else ""
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
    start = "no clients" if values.metric == UTILITY else _unbracketed(values.empty_label)
    who = "the one client" if values.n == 1 else f"all {values.n:,} clients"
    return (
        f"With {who}, the {shortened(values.metric, _NAME)} goes from {fixed(ends.none, decimals)} ({start}) to "
        f"{fixed(ends.all, decimals)}; {said}"
    )


def _unbracketed(text: str) -> str:
    """A text that goes into brackets.

    >>> _unbracketed("untrained model (mean of 64)")
    'untrained model, mean of 64'
    """
    return text.replace(" (", ", ").replace(")", "")


def _missing(values: Values) -> str:
    named = [f"{called(name)} ({one_line(why)})" for name, why in list(values.absent.items())[:_NAMED]]
    more = len(values.absent) - len(named)
    rest = f"; and {more} more" if more > 0 else ""
    verb = "has" if len(values.absent) == 1 else "have"
    return f"{plural(len(values.absent), 'further client')} took no part and {verb} no value: {'; '.join(named)}{rest}."


def _certainty(values: Values, audit: Audit | Absent) -> str:
    total = f"{plural(1 << values.n, 'coalition')} (groups of clients)"
    ranking = f" {audit.ranking}" if isinstance(audit, Audit) else ""
    if without_error(values):
        return f"All {total} were used, so the values are {values.promise}.{ranking}"
    used = f"{count(values.evaluations + values.known_before)} of {total}"
    if values.seeds > 1:
        used = f"{plural(values.evaluations, 'training')} of coalitions (groups of clients), spread over {values.seeds} seeds,"
    said = f"The values are estimated from {used} by the method {shortened(values.method, _NAME)}."
    if values.guarantee == "exact":
        said = f"All {total} were used, so the values are {values.promise}."
    interval = values.interval(0.95)
    if interval is None or not np.isfinite(interval).all():
        return f"{said} It gives no margin of error here, so how far off they are is unknown."
    half, decimals = (interval[:, 1] - interval[:, 0]) / 2, decimals_of(values)
    margin = f"±{half.mean():.{decimals}f} on average and ±{half.max():.{decimals}f} at most"
    return f"{said} Their margin of error (95%) is {margin}.{ranking}"


def _attention(audit: Audit | Absent) -> str:
    if isinstance(audit, Absent):
        return f"There is no audit. {audit.why}"
    if not audit.findings:
        return f"The audit of {plural(audit.coalitions, 'trained coalition')}: {_no_finding(audit)}"
    named = [f"{_listed(who) if who else _ABOUT_ALL[kind]} ({kind})" for kind, who in _grouped(audit)]
    more = len(named) - _NAMED
    rest = f"; and {more} more" if more > 0 else ""
    return f"The audit flags {'; '.join(named[:_NAMED])}{rest}.{_below(audit)}"


def _no_finding(audit: Audit) -> str:
    checked = " Not everything could be checked." if audit.not_assessed else ""
    return f"no test singled out a client.{_below(audit)}{checked}"


def _below(audit: Audit) -> str:
    """Clients below zero of whom nothing could be concluded."""
    who = [finding.clients[0] for finding in audit.below_zero]
    return f" Below zero, which may or may not be chance: {_listed(who)}." if who else ""


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


def _listed(names: Sequence[str]) -> str:
    shown = [called(name) for name in names[:_NAMED]]
    if len(names) > _NAMED:
        return f"{', '.join(shown)} and {len(names) - _NAMED} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


# Below the numbers


def interval_note(values: Values) -> str:
    """What the intervals are, or why there are none."""
    if without_error(values):
        again = (
            " Training again with other random seeds may still change the values." if values.random else ""
        )
        return f"There are no intervals because nothing was estimated.{again}"
    if values.stderr is None:
        return f"There are no intervals: {shortened(values.method, _NAME)} has no valid standard error at this budget."
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


def method_of(values: Values, guarantee: Sequence[str]) -> Method:
    """The method in plain words."""
    method = ESTIMATORS.get(values.method)
    return Method(
        name=values.method,
        description=f"{method.description}." if method else "A method that is not part of fedvalue.",
        reference=method.reference if method else "",
        guarantee=tuple(guarantee),
        limits=limits(values),
    )


def limits(values: Values) -> tuple[str, ...]:
    """What holds for every such report, and what for this method."""
    method, biased = ESTIMATORS.get(values.method), values.guarantee not in ("exact", "unbiased")
    what, other = "to this metric on this test data", "Another metric, test set or model"
    if values.metric == UTILITY:
        what, other = "to the utility", "Another definition of the utility"
    said = [
        f"A {'Shapley ' if biased else ''}value is what a client adds {what}, averaged over all orders in which the "
        f"clients could join{'; these values approximate it' if biased else ''}. {other} would give "
        "other values.",
        "A value holds for this group of clients: two clients with the same data share its value, and either would be "
        "worth more in a group without the other.",
        "A value below zero means that, on average, the others do better without the client. It does not say why.",
    ]
    if values.groups:
        named = "; ".join(
            f"{shortened(name, _NAME)}: {', '.join(map(called, of))}" for name, of in values.groups.items()
        )
        said.append(
            f"Clients of a group join as one party ({named}). A group is worth what it adds as a whole, and its members share "
            "that (Owen value). However many clients a group consists of, it counts as one."
        )
    if method is not None and method.view is not None:
        said.append(
            "Only all clients together were trained. What smaller groups would reach is inferred from that training."
        )
    elif values.guarantee != "exact" and values.evaluations + values.known_before < 1 << values.n:
        said.append("Not all coalitions were trained. The method estimates the others or does without them.")
    if values.other_unit:
        said.append(
            f"The values of {values.method} are in {values.unit}, not in {values.metric}: they do not add up to what all "
            "clients gain together."
        )
    said += [f"{absent_text(name, why)} It gets no payout." for name, why in values.absent.items()]
    if values.noise is None:
        if values.errors["training"] is None:
            said.append(
                "Training noise was not measured: how much the values would change with other random seeds is unknown."
            )
    elif values.seeds > 1:
        said.append(
            f"With another seed, the {values.metric} of a single training varies by {values.noise:.4f} (standard "
            "deviation). The values are those of the expected utility, and what is left of that luck is in the intervals."
        )
    elif values.replicates == 1:
        said.append(
            f"With other random seeds, the {values.metric} of a single training varies by {values.noise:.4f} (standard "
            "deviation)."
        )
    else:
        said.append(
            f"With other random seeds, the {values.metric} of a single training varies by {values.noise:.4f} (standard "
            f"deviation). The {rest_on(values)}."
        )
    return tuple(said)


def cost_lines(values: Values, trainings: History | None) -> tuple[str, ...]:
    """What was trained and how long it took."""
    times = f", each {values.replicates} times" if values.replicates > 1 else ""
    before = f" and {count(values.known_before)} more from the store" if values.known_before else ""
    what = f"{count(values.evaluations)} of {plural(1 << values.n, 'coalition')}"
    if values.luck_trainings:
        what = f"all {plural(1 << values.n, 'coalition')} and {plural(values.luck_trainings, 'training')} with other seeds"
    if values.seeds > 1:
        what = f"{plural(values.evaluations, 'training')} of coalitions, spread over {values.seeds} seeds"
    lines = [
        f"The method used {what}{times}{before}. Training and computation took {duration(values.seconds)}."
    ]
    cost = values.cost
    if cost is not None and cost.reused:
        total = count(cost.trained + cost.reused)
        here = (
            f"{count(cost.trained)} of {total} evaluations were made in this run; the store had the others."
        )
        lines.append(here if cost.trained else f"All {total} evaluations came from the store.")
    if trainings is not None:
        where = f" ({', '.join(trainings.computed_by)})" if trainings.computed_by else ""
        lines.append(
            f"The store holds {plural(len(trainings.utilities), 'coalition')} of this game, which took "
            f"{duration(trainings.seconds)} to train{where}. No run with this store trains them again."
        )
    if values.guarantee != "exact" and cost is not None and cost.exact_trainings is not None:
        about = (
            f", about {duration(cost.exact_seconds)} at this speed" if cost.exact_seconds is not None else ""
        )
        of = " of one seed" if values.seeds > 1 else ""
        lines.append(f"Exact values{of} would take {plural(cost.exact_trainings, 'training')}{about}.")
    return tuple(lines)


def convergence_note(found: Convergence, method: str) -> str:
    """What drew the values as they settled."""
    said = (
        f"These are the values that the method {found.estimator} estimates from the first {found.counts[0]:,} trained "
        f"coalitions, then from more, up to {found.counts[-1]:,} of {found.trained:,}, in the order in which they were "
        "stored (those stored at the same moment are in no particular order). The empty coalition and that of all clients "
        "are always included."
    )
    if found.seeds > 1:
        return f"{said} A coalition counts with the mean over its seeds, so the last values differ a little from those reported."
    if method != found.estimator:
        said += (
            f" {found.estimator.capitalize()} is shown because it can use any set of coalitions; {method} itself may have "
            "settled differently."
        )
    return said
