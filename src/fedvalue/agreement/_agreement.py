"""The agreement: what a run will be, written down and signed before it begins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any

from fedvalue._checks import as_path
from fedvalue._files import json_from, json_ready, write_json
from fedvalue._text import listed, one_line
from fedvalue.agreement._canonical import canonical, digest_of
from fedvalue.agreement._keys import public_line
from fedvalue.agreement._signatures import Signature, message_of, signature_of, signatures_from
from fedvalue.errors import InputError

__all__ = ["FORMAT", "Agreement", "Party", "PayoutTerms", "new_agreement", "read_agreement"]

FORMAT = "fedvalue.agreement/1"
_NAMED = 8
_PARTS = {"format", "title", "made", "operator", "members", "job", "payout"}


@dataclass(frozen=True)
class Party:
    """Somebody who takes part, with a public key as a line of text; "" for one who will not sign.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import fedvalue as fv
    >>> from fedvalue.agreement import make_key
    >>> public = make_key(Path(tempfile.mkdtemp()) / "bern")
    >>> fv.Party("Bern", public.read_text()).key.split()[0]
    'ssh-ed25519'
    """

    name: str
    key: str = ""


@dataclass(frozen=True)
class PayoutTerms:
    """How the pot will be shared out, as in `fedvalue.payout`. A pot that is not known yet is None.

    `absent` is the rule for clients that are absent: excluded, last-period=PATH or escrow=PART. `copies` says whether
    clients that the audit finds interchangeable are paid "each", or "share" one part.

    >>> import fedvalue as fv
    >>> agreed = fv.PayoutTerms(pot="10000", currency="EUR", absent="escrow=0.2")
    >>> agreed.differing(fv.PayoutTerms(pot="10000", currency="EUR"))
    ["absent 'excluded' instead of 'escrow=0.2'"]
    """

    rule: str = "floor"
    min_share: str = "0"
    step: str = "0.01"
    currency: str = ""
    pot: str | None = None
    absent: str = "excluded"
    copies: str = "each"

    def but(self, said: Mapping[str, str | None]) -> PayoutTerms:
        """These terms, with others by name where something else is said; None says nothing.

        >>> PayoutTerms(pot="10000").but({"rule": "shift", "pot": None})
        PayoutTerms(rule='shift', min_share='0', step='0.01', currency='', pot='10000', absent='excluded', copies='each')
        """
        return replace(self, **{name: term for name, term in said.items() if term is not None})

    def differing(self, now: PayoutTerms) -> list[str]:
        """In what other terms differ from these agreed ones, in words; a pot that was left open may be any.

        >>> PayoutTerms(pot="10000").differing(PayoutTerms("shift", pot="9999", step="0.010"))
        ["rule 'shift' instead of 'floor'", 'pot 9999 instead of 10000']
        """
        words = [
            f"{name} {other!r} instead of {agreed!r}"
            for name in ("rule", "absent", "copies", "currency")
            if (other := getattr(now, name)) != (agreed := getattr(self, name))
        ]
        numbers = ("min_share", "step", *(("pot",) if self.pot is not None else ()))
        return words + [
            f"{name} {other} instead of {agreed}"
            for name in numbers
            if not _same_number(other := getattr(now, name), agreed := getattr(self, name))
        ]


@dataclass(frozen=True)
class Agreement:
    """The terms of a run as plain data, and the signatures under them. Whatever is in the terms is in the `hash`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import fedvalue as fv
    >>> from fedvalue.agreement import make_key
    >>> key = Path(tempfile.mkdtemp()) / "clearing"
    >>> operator = fv.Party("Clearing", make_key(key).read_text())
    >>> terms = fv.Job("synthetic", clients=3, samples=20, method="exact").agree(operator)
    >>> terms.problems(), terms.sign(key).problems()
    (['not signed by Clearing'], [])
    """

    terms: Mapping[str, Any]
    signatures: tuple[Signature, ...] = ()

    @property
    def hash(self) -> str:
        """The SHA-256 of the terms, which every result of the run carries."""
        return digest_of(self.terms)

    @property
    def operator(self) -> Party:
        """Who runs the valuation."""
        return _party(self.terms["operator"])

    @property
    def members(self) -> tuple[Party, ...]:
        """The clients, in their order."""
        return tuple(map(_party, self.terms["members"]))

    @property
    def job(self) -> Mapping[str, Any]:
        """What will be trained and how it will be valued."""
        job: Mapping[str, Any] = self.terms["job"]
        return job

    @property
    def payout(self) -> PayoutTerms:
        """How the pot will be shared out."""
        return PayoutTerms(**self.terms["payout"])

    @property
    def unsigned(self) -> tuple[str, ...]:
        """Who has a key and has not signed."""
        signed = {one.key for one in self.signatures}
        return tuple(p.name for p in (self.operator, *self.members) if p.key and p.key not in signed)

    def problems(self) -> list[str]:
        """What is wrong with the signatures; an empty list where all who have a key have signed these terms."""
        message, known = message_of(self.terms), {p.key: p.name for p in (self.operator, *self.members)}
        found = []
        for one in self.signatures:
            if one.key not in known:
                found.append(f"the key {one_line(one.key)[:40]!r} signed it, and belongs to no party")
            elif not one.fits(message):
                found.append(f"the signature of {known[one.key]} does not fit these terms")
        parties = [party for party in (self.operator, *self.members) if party.key]
        for i, party in enumerate(parties):
            if same := [other.name for other in parties[:i] if other.key == party.key]:
                found.append(
                    f"{party.name} has the same key as {same[0]}: one signature would count for both"
                )
        if self.unsigned:
            found.append(f"not signed by {listed(list(self.unsigned), _NAMED)}")
        return found

    def sign(self, key: str | PathLike[str]) -> Agreement:
        """The agreement with one more signature, by the owner of this private key, who must be a party."""
        signature = signature_of(self.terms, as_path("A key", key))
        names = [p.name for p in (self.operator, *self.members) if p.key == signature.key]
        if not names:
            raise InputError(
                f"The public key of {key} belongs to no party of this agreement. Parties with keys: "
                f"{listed([p.name for p in (self.operator, *self.members) if p.key], _NAMED)}."
            )
        others = tuple(one for one in self.signatures if one.key != signature.key)
        return replace(self, signatures=(*others, signature))

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the file that `read_agreement` reads."""
        file = as_path("The path of an agreement", path)
        write_json(file, {"terms": self.terms, "signatures": [one.to_dict() for one in self.signatures]})
        return file


def new_agreement(
    job: Mapping[str, Any],
    members: Sequence[Mapping[str, Any]],
    operator: Party,
    keys: Mapping[str, str],
    payout: PayoutTerms,
    title: str = "",
    made: str | None = None,
) -> Agreement:
    """An agreement that nobody has signed. `members` are the clients as plain data, `keys` their public keys by name."""
    names = [member["name"] for member in members]
    keys = {name: public_line(key, f"the key of {name}") for name, key in keys.items()}
    unknown = [name for name in keys if name not in names]
    if unknown:
        raise InputError(f"There is no client {unknown[0]!r}. Clients: {listed(names, _NAMED)}.")
    operator = replace(operator, key=public_line(operator.key, f"the key of {operator.name}"))
    lines = [operator.key, *keys.values()]
    if len(set(lines)) != len(lines):
        raise InputError("Two parties have the same key. Each needs its own.")
    terms = {
        "format": FORMAT,
        "title": title,
        "made": made or date.today().isoformat(),
        "operator": {"name": operator.name, "key": operator.key},
        "members": [{**member, "key": keys.get(member["name"], "")} for member in members],
        "job": dict(job),
        "payout": vars(payout) | {},
    }
    return Agreement(json.loads(canonical(json_ready(terms))))


def read_agreement(path: str | PathLike[str]) -> Agreement:
    """The agreement in a file; one whose terms are not complete is refused. Signatures are checked by `problems`.

    >>> import tempfile
    >>> import fedvalue as fv
    >>> from fedvalue.agreement import make_key
    >>> folder = Path(tempfile.mkdtemp())
    >>> operator = fv.Party("Clearing", make_key(folder / "clearing").read_text())
    >>> job = fv.Job("synthetic", clients=3, samples=20, method="exact")
    >>> agreed = job.agree(operator, payout=fv.PayoutTerms(pot="1000"))
    >>> found = read_agreement(agreed.save(folder / "agreement.json"))
    >>> found.payout.pot, found.hash == agreed.hash
    ('1000', True)
    """
    file = as_path("An agreement", path)
    try:
        data = json_from(file.read_bytes())
        if set(data) != {"terms", "signatures"} or data["terms"]["format"] != FORMAT:
            raise ValueError("its parts are not those of an agreement")
        found = Agreement(data["terms"], signatures_from(data["signatures"]))
        if set(found.terms) != _PARTS or not isinstance(found.job, dict):
            raise ValueError("its terms are not those of an agreement")
        _check_members(found.terms["members"])
        if not isinstance(found.terms["payout"], dict):
            raise ValueError("the terms of payout must be a dict")
        for party in (found.operator, *found.members):
            if party.key and public_line(party.key, f"the key of {party.name}") != party.key:
                raise ValueError("a key is not written as it should be")
        _ = found.payout, found.hash
    except OSError as error:
        raise InputError(f"Cannot read the agreement {file}: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{file} is not an agreement as `fedvalue agreement new` writes it: {error}."
        ) from error
    return found


def _check_members(members: Any) -> None:
    if not isinstance(members, list) or not all(isinstance(one, dict) for one in members):
        raise ValueError("members must be a list of clients")
    for one in members:
        if not isinstance(one.get("fingerprint"), str) or not isinstance(one.get("rows"), int):
            raise ValueError("a client must have a name, a key, rows and their fingerprint")


def _same_number(one: str | None, other: str | None) -> bool:
    try:
        return Decimal(str(one)) == Decimal(str(other))
    except ArithmeticError:
        return False


def _party(data: Mapping[str, Any]) -> Party:
    name, key = data["name"], data["key"]
    if not isinstance(name, str) or not isinstance(key, str):
        raise ValueError("a party has no name or no key")
    return Party(name, key)
