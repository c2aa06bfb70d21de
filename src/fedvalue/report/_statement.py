"""A statement for one client: what it is paid, and why, in words that say nothing about any other client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from fedvalue._text import count, plural, shortened
from fedvalue.audit import Audit, Finding, chance_text
from fedvalue.payout import RULES, Payout
from fedvalue.report._clients import Client
from fedvalue.report._compared import Without
from fedvalue.report._parties import of_copies, of_group
from fedvalue.report._trained import Absent
from fedvalue.report._words import NAME, decimals_of, fixed, interval_text, over_seeds, signed, unbracketed
from fedvalue.values import Values

__all__ = ["Statement", "statements"]

_LITTLE, _MUCH = 1 / 4, 3 / 4  # of what it adds alone: what is left of that where all others are there
_QUANTILE = 1.96
_NEAR = 0.05  # of an equal split: as much as that
_NOTHING = {  # why nothing is paid, by the note to the amount
    "below zero": "its value is below zero",
    "zero": "its value is zero",
    "interval covers zero": "its value may be zero, as far as can be told",
    "the lowest value": "nobody has a lower value, and payment counts from the lowest",
    "its group: below zero": "the value of its group is below zero",
    "its group: zero": "the value of its group is zero",
    "its group: interval covers zero": "the value of its group may be zero, as far as can be told",
    "its group: the lowest value": "no other has a lower value than its group, and payment counts from the lowest",
    "below zero in its group": "its value is below zero, and its group is shared out among those above zero",
    "zero in its group": "its value is zero, and its group is shared out by values",
}


@dataclass(frozen=True)
class Statement:
    """What is said to one client, in paragraphs: the amount, the value, what all reach without it, the audit.

    Nobody else is named in it.
    """

    client: Client
    paragraphs: tuple[str, ...]


def statements(
    values: Values,
    clients: Sequence[Client],
    paid: Payout | Absent,
    compared: Sequence[Without],
    audit: Audit | Absent,
    unit: str,
) -> tuple[Statement, ...]:
    """A statement for every client, in the order of the clients."""
    return tuple(_statement(values, client, paid, compared[client.index], audit, unit) for client in clients)


def _statement(
    values: Values, client: Client, paid: Payout | Absent, compared: Without, audit: Audit | Absent, unit: str
) -> Statement:
    parts = (
        _amount(client, paid, unit),
        of_copies(client.name, paid),
        [*_rows(client), *_value(values, client)],
        of_group(values, client.name, paid),
        _without(values, compared),
        _remarks(client, audit),
    )
    return Statement(client, tuple(" ".join(sentences) for sentences in parts if sentences))


def _rows(client: Client) -> list[str]:
    return [] if client.rows is None else [f"It took part with {plural(client.rows, 'row')}."]


def _amount(client: Client, paid: Payout | Absent, unit: str) -> list[str]:
    if isinstance(paid, Absent):
        return ["Nothing is paid: by the rule that was asked for, nobody can be."]
    line = paid.lines[client.index]
    of = " of the pot" if unit == "%" else f" {unit}".rstrip()
    amount = f"{paid.text(line.amount)}{'%' if unit == '%' else ''}{of}"
    words = RULES[paid.rule].words
    by_rule = f"By the rule {paid.rule}, {words[0].lower()}{words[1:]}"
    if not line.amount:
        why = _NOTHING.get(line.note, "its part is less than the smallest step")
        return [f"It is paid nothing, because {why}. {by_rule}"]
    part = "" if unit == "%" else f": {float(line.amount / paid.pot):.1%} of the pot"
    said = [f"It is paid {amount}{part}. {by_rule}"]
    if line.note:
        said.append(f"Its amount was {line.note}.")
    if line.low is not None and line.high is not None and line.low < line.high:
        said.append(
            f"Values are estimates: within what they may be off, the amount could lie between {paid.text(line.low)} and "
            f"{paid.text(line.high)} (95%)."
        )
    elif line.low is None and paid.guarantee != "exact":
        said.append("How far this amount could be off is not known.")
    return said


def _value(values: Values, client: Client) -> list[str]:
    metric = shortened(values.metric, NAME) if not values.other_unit else shortened(values.unit, NAME)
    decimals = decimals_of(values)
    worth = f"Its value is {signed(client.value, decimals)}"
    if client.low is not None:
        worth += f" ({interval_text(client, decimals)} with 95% confidence)"
    better = "improves" if values.higher_is_better else "lowers"
    orders = f"on average over all orders in which the {count(values.n)} clients could have joined"
    orders += ", members of a group one after the other" if values.groups else ""
    said = [f"{worth}: by so much its data {better} the {metric} of the common model, {orders}."]
    if client.value < 0:
        said[0] = (
            f"{worth}: {orders}, the common model has a worse {metric} with its data than without. That does not say why."
        )
    mean = float(values.mean.mean())
    if values.n > 1 and mean > 0:
        apart = client.value - mean
        than = "about as much as" if abs(apart) <= _NEAR * mean else "more than" if apart > 0 else "less than"
        said.append(f"That is {than} the mean of all clients, {signed(mean, decimals)}.")
    return said


def _without(values: Values, compared: Without) -> list[str]:
    decimals, metric, others = decimals_of(values), shortened(values.metric, NAME), values.n - 1
    if values.n == 1:
        return []
    said, last, alone = [], compared.last, compared.alone
    if last is None:
        said.append(
            "What all others reach without it is not known here: that takes trainings of all clients and of all others with the "
            "same random numbers."
        )
    else:
        change = values.sign * (last.first - last.second)
        way = "better with it" if change > 0 else "worse with it" if change < 0 else "the same with it"
        by = "" if change == 0 else f", by {fixed(abs(change), decimals)}"
        who = "The other client reaches" if others == 1 else f"The {count(others)} others together reach"
        reached = (
            f"{who} {metric} {fixed(last.second, decimals)} without it, and {fixed(last.first, decimals)} with it: {way}{by}"
            f"{_of(last.trainings)}."
        )
        if values.seeds > 1 and values.utility_of_all is not None:
            # Trainings with and without it are of some seeds, and of others for the next client: only differences compare.
            together = fixed(values.sign * values.utility_of_all, decimals)
            reached = (
                f"All clients together reach {metric} {together}{over_seeds(values)}. In "
                f"{plural(last.trainings, 'pair')} of trainings with the same seed, of all clients and of all but this one, "
                f"it is {way}{by}{' on average' if last.trainings > 1 else ''}."
            )
        said.append(f"{reached}{_luck(values, last.trainings)}")
    if alone is not None:
        start = unbracketed(values.empty_label)
        said.append(
            f"Alone it reaches {fixed(alone.second, decimals)} ({start}: {fixed(alone.first, decimals)})."
        )
    if last is not None and alone is not None:
        said += _overlap(values.sign * (alone.second - alone.first), values.sign * (last.first - last.second))
    return said


def _of(trainings: int) -> str:
    return f" (means of {count(trainings)} trainings each)" if trainings > 1 else " (one training each)"


def _luck(values: Values, trainings: int) -> str:
    """How far two models differ by luck alone."""
    if not values.noise:
        return ""
    reach = _QUANTILE * values.noise * sqrt(2 / trainings)
    return f" Luck of training alone moves such a difference by up to ±{fixed(reach, decimals_of(values))} (95%)."


def _overlap(first: float, last: float) -> list[str]:
    """What the two ends say together; nothing where they do not say anything clear."""
    if first <= 0 or last < 0:
        return []
    if last <= _LITTLE * first:
        return [
            "So most of what it brings alone, the others bring too: there, its data adds little that is new."
        ]
    if last >= _MUCH * first:
        return ["So most of what it brings alone is also new to the others."]
    return []


def _remarks(client: Client, audit: Audit | Absent) -> list[str]:
    if isinstance(audit, Absent):
        return []
    return [
        f"Audit: {_private(finding)} ({chance_text(finding)})."
        for finding in (*audit.findings, *audit.below_zero)
        if client.name in (finding.clients[:1] if finding.kind == "dependent" else finding.clients)
    ]


def _private(finding: Finding) -> str:
    """What a finding says about one of its clients, without the others."""
    others = len(finding.clients) - 1
    if finding.kind == "below zero" and finding.p_value is not None:
        return "its value is below zero because of smaller coalitions, all together reach more with it"
    return {
        "no contribution": "it changes nothing, the outcome is the same with it and without",
        "interchangeable": f"it is interchangeable with {plural(others, 'other client')}: in its place, the outcome is the same",
        "harmful": "it lowers what the others reach",
        "below zero": "its value is below zero",
        "dependent": "more than half of its value needs one other client to take part",
    }.get(finding.kind, f"there is a remark on it, {finding.kind}")
