"""What absent clients are paid, and what that leaves for the others. To add a rule: `read_rule` and `set_aside`.

>>> read_rule("escrow=0.25").part
Decimal('0.25')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from fedvalue._checks import did_you_mean
from fedvalue._files import is_sealed, json_from
from fedvalue._text import listed, one_line
from fedvalue.errors import InputError
from fedvalue.payout._money import as_decimal
from fedvalue.values import Values

__all__ = ["ABSENT_RULES", "AbsentClient", "AbsentRule", "SetAside", "read_rule", "set_aside"]

ABSENT_RULES = ("excluded", "last-period=PATH", "escrow=PART")
_NAMED = 12


@dataclass(frozen=True)
class AbsentRule:
    """What becomes of the pot where clients are absent.

    "excluded": they are paid nothing, and the others share the pot. "last-period": they are paid what they were in an
    earlier payout, or what the rule would pay them by their earlier values; `last` is one of these, `source` what it is
    called, and `currency` that of its amounts. "escrow": a `part` of the pot is set aside for them until they are valued.

    >>> import fedvalue as fv
    >>> from decimal import Decimal
    >>> values = fv.Values([3.0, 1.0], ("a", "b"), "exact", 4, absent={"c": "no answer"})
    >>> rule = fv.AbsentRule("escrow", part=Decimal("0.2"))
    >>> paid = fv.payout(values, 100, absent=rule)
    >>> [str(line.amount) for line in paid.lines], str(paid.held)
    (['60.00', '20.00'], '20.00')
    """

    name: str = "excluded"
    last: Values | Mapping[str, Decimal] | None = None
    source: str = ""
    currency: str = ""
    part: Decimal | None = None

    def __post_init__(self) -> None:
        if self.name not in ("excluded", "last-period", "escrow"):
            raise InputError(
                f"Unknown rule for absent clients {self.name!r}. "
                f"{did_you_mean(self.name, ('excluded', 'last-period', 'escrow'))}Rules: {', '.join(ABSENT_RULES)}."
            )
        if (self.name == "last-period") != (self.last is not None):
            raise InputError(
                "The rule last-period, and no other, needs the values or the payout of an earlier period: "
                "last-period=PATH."
            )
        if (self.name == "escrow") != (self.part is not None):
            raise InputError("The rule escrow, and no other, needs a part of the pot: escrow=0.2.")
        if self.part is not None and not 0 < self.part < 1:
            raise InputError(f"What is set aside is a part of the pot, between 0 and 1. Got {self.part}.")

    @property
    def text(self) -> str:
        """As `read_rule` takes it."""
        more = self.source if self.name == "last-period" else self.part
        return self.name if more is None or self.name == "excluded" else f"{self.name}={more}"


@dataclass(frozen=True)
class AbsentClient:
    """A client that has no value in this period: why, what it is paid all the same, and why that."""

    name: str
    reason: str
    amount: Decimal
    note: str


@dataclass(frozen=True)
class SetAside:
    """What is taken out of the pot before it is shared: paid to absent clients, or `held` for them."""

    clients: tuple[AbsentClient, ...]
    held: Decimal
    policy: tuple[str, ...]

    @property
    def total(self) -> Decimal:
        """What is not there for the others."""
        return self.held + sum((client.amount for client in self.clients), Decimal(0))


def read_rule(rule: str | AbsentRule) -> AbsentRule:
    """The rule as it is written in an option or an agreement: excluded, last-period=PATH or escrow=PART.

    PATH is what `fedvalue payout --json` wrote in an earlier period, or its values.json, or the folder of that.
    """
    if isinstance(rule, AbsentRule):
        return rule
    if not isinstance(rule, str):
        raise InputError(f"A rule for absent clients is one of {', '.join(ABSENT_RULES)}. Got {rule!r}.")
    name, _, more = rule.partition("=")
    if name == "last-period" and more:
        return _of_earlier(Path(more))
    if name == "escrow" and more:
        return AbsentRule(name, part=as_decimal(more, "The part in escrow"))
    return AbsentRule(name if not more else rule)


def set_aside(
    values: Values,
    rule: AbsentRule,
    pot: Decimal,
    step: Decimal,
    currency: str,
    pay: Callable[[Values], Mapping[str, Decimal]],
) -> SetAside:
    """Applies the rule to whoever is absent. `pay` says what earlier values would be paid by the rule of this payout."""
    unit = f" {currency}" if currency else ""
    if not values.absent:
        stated = () if rule.name == "excluded" else (_nobody(rule),)
        return SetAside((), Decimal(0), stated)
    who = listed([f"{one_line(name)} ({one_line(why)})" for name, why in values.absent.items()], _NAMED)
    nothing = Decimal(0) * step
    if rule.name == "escrow":
        assert rule.part is not None
        held = (pot * rule.part // step) * step
        said = f"Absent: {who}. By the rule escrow, {rule.part:%} of the pot ({held:,f}{unit}) is set aside until they are "
        said += f"valued; the other {pot - held:,f}{unit} are shared out among those who were valued."
        clients = [AbsentClient(name, why, nothing, "in escrow") for name, why in values.absent.items()]
        aside = SetAside(tuple(clients), held, (said,))
    elif rule.name == "last-period":
        assert rule.last is not None
        if rule.currency and currency and rule.currency != currency:
            raise InputError(
                f"{rule.source} is in {rule.currency}, and this pot in {currency}. Choose another rule."
            )
        by_values = isinstance(rule.last, Values)
        amounts = pay(rule.last) if isinstance(rule.last, Values) else rule.last
        note = "value of an earlier period" if by_values else "amount of an earlier period"
        clients = [
            AbsentClient(name, why, (_earlier(name, amounts, rule) // step) * step, note)
            for name, why in values.absent.items()
        ]
        total = sum((client.amount for client in clients), Decimal(0))
        how = (
            f"what this rule would pay them of this pot by their values in {rule.source or 'an earlier period'}"
            if by_values
            else f"the amounts that {rule.source or 'an earlier payout'} has for them"
        )
        said = f"Absent: {who}. By the rule last-period they are paid {how}, together {total:,f}{unit}; the other "
        said += f"{pot - total:,f}{unit} are shared out among those who were valued."
        aside = SetAside(tuple(clients), Decimal(0), (said,))
    else:
        said = f"Absent: {who}. By the rule excluded they are paid nothing, and those who were valued share the whole pot."
        clients = [AbsentClient(name, why, nothing, "excluded") for name, why in values.absent.items()]
        aside = SetAside(tuple(clients), Decimal(0), (said,))
    if aside.total >= pot:
        raise InputError(
            f"The rule {rule.text} takes {aside.total:,f}{unit} of a pot of {pot:,f}{unit} for absent clients: nothing is left "
            "for the others. Choose another rule for absent clients."
        )
    return aside


def _nobody(rule: AbsentRule) -> str:
    return (
        f"The rule for absent clients is {one_line(rule.text)}. Nobody was absent, so nothing is set aside."
    )


def _earlier(name: str, amounts: Mapping[str, Decimal], rule: AbsentRule) -> Decimal:
    if name not in amounts:
        raise InputError(
            f"The earlier period {rule.source or 'that was given'} has no client {name!r}, who is absent now. It has: "
            f"{listed(list(amounts), _NAMED)}. Choose excluded or escrow."
        )
    return amounts[name]


def _of_earlier(path: Path) -> AbsentRule:
    """By values, or by the amounts of a payout; which of them, the file says itself."""
    file = path / "values.json" if path.is_dir() else path
    try:
        if file.exists() and not file.is_file():
            raise InputError(f"Cannot read {file}, the earlier period: it is not a file.")
        data: Any = json_from(file.read_bytes())
    except OSError as error:
        raise InputError(f"Cannot read {file}, the earlier period: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"{file} is neither values nor a payout: {error}.") from error
    if isinstance(data, Mapping) and "format" in data and not is_sealed(data):
        raise InputError(
            f"{file}, the earlier period, is not as fedvalue wrote it: its content does not match its checksum, or it has none."
        )
    if not isinstance(data, Mapping) or not str(data.get("format")).startswith("fedvalue.payout/"):
        try:
            return AbsentRule("last-period", Values.from_dict(data), str(path))
        except InputError as error:
            raise InputError(f"{file}: {error}") from error
    try:
        lines = [*data["lines"], *data.get("absent", ())]
        amounts = {str(line["client"]): as_decimal(line["amount"], f"An amount in {file}") for line in lines}
        return AbsentRule("last-period", amounts, str(path), str(data.get("currency", "")))
    except (KeyError, TypeError) as error:
        raise InputError(f"{file} is not a complete payout as `fedvalue payout --json` writes it.") from error
