"""`fedvalue agreement show`: an agreement for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fedvalue._text import one_line
from fedvalue.cli._console import print_json, say
from fedvalue.cli._options import AgreementArgument, JsonFlag

__all__ = ["show"]

_LONG = 100


def show(file: AgreementArgument, json: JsonFlag = False) -> None:
    """Show what is agreed, and who has signed."""
    from fedvalue.agreement import message_of, read_agreement

    agreement = read_agreement(file)
    if json:
        print_json({"hash": agreement.hash, "terms": agreement.terms, "problems": agreement.problems()})
        return
    signed = {one.key for one in agreement.signatures if one.fits(message_of(agreement.terms))}
    say(f"hash: {agreement.hash}")
    for name in ("title", "made"):
        say(f"{name}: {one_line(str(agreement.terms[name]))}")
    for what, party in [("operator", agreement.operator), *(("client", each) for each in agreement.members)]:
        state = ("signed" if party.key in signed else "has not signed") if party.key else "no key"
        say(f"{what}: {one_line(party.name)} ({state})")
    for part in ("job", "payout"):
        for name, value in _flat(agreement.terms[part]):
            text = one_line(str(value))
            say(f"{part}.{name}: {text if len(text) <= _LONG else f'{text[:_LONG]}…'}")


def _flat(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value
