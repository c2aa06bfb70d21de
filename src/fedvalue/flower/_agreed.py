"""A valuation in a federation as the terms of an agreement, and whether one is what was agreed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedvalue._files import json_ready
from fedvalue._text import listed
from fedvalue.agreement import Agreement, canonical, read_agreement
from fedvalue.errors import InputError
from fedvalue.flower._roster import Roster
from fedvalue.games import FederatedGame
from fedvalue.run import refuse_other_terms

__all__ = ["agreed_in", "job_terms", "member_terms"]

_NAMED = 8


def job_terms(terms: Mapping[str, Any], game: FederatedGame) -> dict[str, Any]:
    """What will be trained and how it will be valued, with the test set as agreements have it."""
    told = terms["scenario"]
    test = {**told["test"], "parts": sorted(told["parts"])}
    plain: dict[str, Any] = json.loads(canonical(json_ready({**terms, "test": test})))
    return plain


def member_terms(game: FederatedGame, roster: Roster) -> list[dict[str, Any]]:
    """The clients with their rows, as their nodes report them, and with their registered keys for signing."""
    told = zip(game.names, game.scenario.clients, roster.signing_keys, strict=True)
    return [
        {"name": name, "rows": len(data), "fingerprint": data.fingerprint, "key": key}
        for name, data, key in told
    ]


def agreed_in(
    file: Path, job: Mapping[str, Any], members: Sequence[Mapping[str, Any]], absent: Mapping[str, str]
) -> Agreement:
    """The agreement in a file; anything else than this valuation with these clients is refused before it begins."""
    try:
        agreement = read_agreement(file)
    except InputError as error:
        raise InputError(
            f"{error} The setting `agreement` is seen from where the SuperLink was started."
        ) from error
    known = [member.name for member in agreement.members]
    if missing := [f"{name} ({why})" for name, why in absent.items() if name in known]:
        raise InputError(
            f"Absent: {listed(missing, _NAMED)}. Under an agreement a valuation begins with all who agreed. Wait for them, or "
            "make another agreement without them."
        )
    refuse_other_terms(agreement, job, members, "valuation", ("name", "rows", "fingerprint", "key"))
    return agreement
