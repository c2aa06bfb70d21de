"""`fedvalue agreement show`: an agreement for people."""

from __future__ import annotations

from fedvalue._text import one_line
from fedvalue.cli._console import print_json, say
from fedvalue.cli._options import AgreementArgument, JsonFlag

__all__ = ["show"]

_LONG = 140


def show(file: AgreementArgument, json: JsonFlag = False) -> None:
    """Show what is agreed, and who has signed."""
    from fedvalue.agreement import message_of, read_agreement
    from fedvalue.run import agreement_lines

    agreement = read_agreement(file)
    if json:
        print_json({"hash": agreement.hash, "terms": agreement.terms, "problems": agreement.problems()})
        return
    signed = {one.key for one in agreement.signatures if one.fits(message_of(agreement.terms))}
    say(f"hash: {agreement.hash}")
    for name in ("title", "made"):
        say(f"{name}: {one_line(str(agreement.terms[name])) or 'none'}")
    for what, party in [("operator", agreement.operator), *(("client", each) for each in agreement.members)]:
        state = ("signed" if party.key in signed else "has not signed") if party.key else "no key"
        say(f"{what}: {one_line(party.name)} ({state})")
    for name, text in agreement_lines(agreement):
        say(f"{name}: {text if len(text) <= _LONG else f'{text[:_LONG]}…'}")
