"""Payouts in the folder of a run: shared out again from the values, to the cent and to the letter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fedvalue._files import is_sealed, json_from, json_ready, sealed
from fedvalue.errors import FedvalueError
from fedvalue.evidence._pages import is_payout, kind_of, payout_in
from fedvalue.evidence._run import LeftRun
from fedvalue.evidence._verdict import Check, sound, undecided, wrong
from fedvalue.payout import Payout, payout
from fedvalue.run import payout_terms_of
from fedvalue.store import History
from fedvalue.values import Values
from fedvalue.what_if import copies_by

__all__ = ["payouts", "shared_out_in"]

_MOST_DRAWS = 1_000_000  # what somebody else has written must not take all memory


def payouts(run: LeftRun, values: Values, known: Sequence[History] = ()) -> Iterator[Check]:
    """Every payout: the JSON says by which terms, the tables must be those of one of them.

    Where copies share one part, the trainings that are `known` say who they are.
    """
    terms = dict[Path, Payout]()
    files = [file for file in (*run.files, *run.below) if is_payout(file)]
    for file in files:
        if (data := payout_in(file)) is not None:
            yield from _from_json(run, file, data, values, terms, known)
    for file in files:
        if kind_of(file) != "json":
            name, text = run.called(file), file.read_bytes()
            same = [f for f, p in terms.items() if text in (p.to_csv().encode(), p.to_markdown().encode())]
            if same:
                yield sound(name, f"says the same as {run.called(same[0])}")
            elif terms:
                yield wrong(name, "it says something else than the payouts that follow from the values")
            else:
                yield wrong(
                    name,
                    "nothing here says by which terms: have `fedvalue payout` write its JSON beside it (--json)",
                )


def shared_out_in(run: LeftRun) -> list[Mapping[str, Any]]:
    """The payouts of the folder as plain data."""
    return [data for file in (*run.files, *run.below) if (data := payout_in(file)) is not None]


def _there(history: History | None) -> History:
    assert history is not None  # who shares is asked only where there are trainings
    return history


def _from_json(
    run: LeftRun,
    file: Path,
    data: Mapping[str, Any],
    values: Values,
    terms: dict[Path, Payout],
    known: Sequence[History],
) -> Iterator[Check]:
    name, agreement = run.called(file), run.agreement
    try:
        json_from(file.read_bytes())
    except ValueError as error:
        yield wrong(name, str(error))
        return
    if not is_sealed(data):
        yield wrong(name, "its content does not match its checksum, or it has none")
        return
    if data.get("copies_rule") == "share" and not known:
        yield undecided(name, "copies share one part in it, and who they are only trainings say")
        return
    try:
        if data["stability"]["draws"] > _MOST_DRAWS:
            yield undecided(name, f"it says that it was made with more than {_MOST_DRAWS:,} draws")
            return
        how = data["pot"], data["rule"], data["min_share"], data["round"], data["currency"]
        options: dict[str, Any] = {"absent": data["absent_rule"], "anyway": True}
        options |= {"draws": data["stability"]["draws"]} if data["stability"]["draws"] else {}
        for history in known or (None,):
            copies = copies_by(data["copies_rule"], values, partial(_there, history))
            found = payout(values, *how, copies=copies, **options)
            if same := sealed(found.to_dict()) == json_ready(dict(data)):
                break
    except (KeyError, TypeError, FedvalueError) as error:
        yield wrong(name, f"it cannot be shared out again: {error}")
        return
    if not same:
        yield wrong(name, "shared out again by the same terms, the amounts or the words are others")
        return
    terms[file] = found
    if agreement is not None and (other := agreement.payout.differing(payout_terms_of(found))):
        yield wrong(name, f"shared out otherwise than agreed: {', '.join(other)}")
    else:
        agreed = ", as agreed" if agreement is not None else ""
        yield sound(name, f"follows from the values to the cent{agreed}: {_how(found)}")


def _how(paid: Payout) -> str:
    """The rule in words; before it may stand what is wrong with the data."""
    return next((said for said in paid.policy if said.startswith("The pot")), paid.policy[0])
