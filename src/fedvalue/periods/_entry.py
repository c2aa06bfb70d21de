"""A closed period as it is written down: who took part, values, money, and the seal of the period before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from fedvalue._files import json_ready
from fedvalue.errors import InputError
from fedvalue.periods._balances import Account, Balances, Line, Settlement

__all__ = ["Member", "Money", "Period", "seal_of"]

_FORMAT = "fedvalue.period/1"
_SEAL = "seal"
_AMOUNTS = ("earned", "owes", "held", "to_escrow", "released", "paid")


@dataclass(frozen=True)
class Member:
    """A client in a period. `status` is joined (perhaps with the rows of one who left), returned, changed (its rows are others)
    or stayed.

    `low` and `high` are the 95% interval of its value; None where there is none. `was` is the name that it had before, `key` its
    public key where the period had an agreement.
    """

    name: str
    status: str
    data: str
    rows: int
    value: float
    low: float | None = None
    high: float | None = None
    was: str | None = None
    key: str = ""


@dataclass(frozen=True)
class Money:
    """The terms of payout of a period, and what came of them."""

    rule: str
    min_share: str
    step: str
    currency: str
    debts: str
    escrow: tuple[str, ...]
    release: tuple[str, ...]
    anyway: bool
    copies: str
    settlement: Settlement


@dataclass(frozen=True)
class Period:
    """One closed period. `terms` are what values depend on besides the members; `files` are the digests of its files.

    `trained` and `known` count the trainings that were made for it and those that the store knew. `previous` is the seal
    of the period before: nothing that was closed can be altered without altering everything after it. `absent` clients have no
    value, for the reason that is given; they have not left.

    >>> import tempfile
    >>> import fedvalue as fv
    >>> job = fv.Job("synthetic", clients=2, samples=20, method="exact-cc")
    >>> period = fv.Periods(tempfile.mkdtemp()).close("2026-Q1", job)
    >>> period.number, [(member.name, member.status) for member in period.members]
    (1, [('client-0', 'joined'), ('client-1', 'joined')])
    """

    number: int
    name: str
    closed: str
    previous: str
    terms: Mapping[str, Any]
    members: tuple[Member, ...]
    left: tuple[str, ...]
    metric: str
    method: str
    guarantee: str
    game_id: str
    utility_of_none: float | None
    utility_of_all: float | None
    trained: int
    known: int
    files: Mapping[str, str]
    preprocessing: str | None = None
    target: tuple[float, float] | None = None
    money: Money | None = None
    balances: Balances = field(default_factory=Balances)
    absent: Mapping[str, str] = field(default_factory=dict)

    @property
    def seal(self) -> str:
        """A digest of everything here."""
        return seal_of(self.content())

    def content(self) -> dict[str, Any]:
        """Everything here as plain data, without the seal."""
        fields = {
            name: value for name, value in vars(self).items() if name not in ("members", "money", "balances")
        }
        plain = {
            "format": _FORMAT,
            **fields,
            "members": [asdict(member) for member in self.members],
            "money": None if self.money is None else _money_to_plain(self.money),
            "balances": self.balances.to_plain(),
        }
        ready: dict[str, Any] = json.loads(json.dumps(json_ready(plain)))
        return ready

    def to_plain(self) -> dict[str, Any]:
        """As the file of the period has it."""
        return {**self.content(), _SEAL: self.seal}

    @classmethod
    def from_plain(cls, plain: Any, where: str) -> Period:
        """From what `to_plain` gave; anything else, or an altered one, is refused."""
        if not isinstance(plain, Mapping) or plain.get("format") != _FORMAT:
            raise InputError(f"{where} is not a closed period that fedvalue wrote ({_FORMAT}).")
        content = {key: value for key, value in plain.items() if key != _SEAL}
        if plain.get(_SEAL) != seal_of(content):
            raise InputError(f"{where} was altered after the period was closed: its seal does not fit.")
        try:
            fields = {key: value for key, value in content.items() if key != "format"}
            balances, money = Balances.from_plain(fields["balances"]), fields["money"]
            fields |= {
                "members": tuple(Member(**member) for member in fields["members"]),
                "left": tuple(fields["left"]),
                "target": None if fields["target"] is None else tuple(fields["target"]),
                "money": None if money is None else _money_from_plain(money, balances),
                "balances": balances,
            }
            return cls(**fields)
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise InputError(f"{where} is not a complete period: {error}.") from error


def seal_of(content: Mapping[str, Any]) -> str:
    """A digest of plain data, the same however it is written."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def _money_to_plain(money: Money) -> dict[str, Any]:
    settled = money.settlement
    terms = {name: value for name, value in vars(money).items() if name != "settlement"}
    lines = [
        {
            "name": x.name,
            "share": x.share,
            **{a: str(getattr(x, a)) for a in _AMOUNTS},
            "after": x.after.to_plain(),
        }
        for x in settled.lines
    ]
    return {
        **terms,
        "pot": str(settled.pot),
        "reserve_before": str(settled.reserve_before),
        "lines": lines,
        "policy": list(settled.policy),
    }


def _money_from_plain(plain: Mapping[str, Any], balances: Balances) -> Money:
    lines = tuple(
        Line(
            name=x["name"], share=x["share"], after=Account.from_plain(x["after"]), **{a: Decimal(x[a]) for a in _AMOUNTS}
        )
        for x in plain["lines"]
    )  # fmt: skip
    settled = Settlement(
        lines,
        Decimal(plain["pot"]),
        Decimal(plain["reserve_before"]),
        balances,
        tuple(plain["policy"]),
    )
    names = ("rule", "min_share", "step", "currency", "debts", "anyway", "copies")
    return Money(
        **{name: plain[name] for name in names},
        escrow=tuple(plain["escrow"]),
        release=tuple(plain["release"]),
        settlement=settled,
    )
