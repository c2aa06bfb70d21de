"""The store of a consortium: nothing is taken over from one that was altered, and nobody is paid by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fedvalue.errors import FedvalueError, InputError
from fedvalue.periods._entry import Period
from fedvalue.periods._folder import STORE_FILE, altered
from fedvalue.run import VALUES_FILE, read_values
from fedvalue.store import Head, History, StoreUntil, UtilityStore, read_history
from fedvalue.values import Chain, Values

__all__ = ["history_of", "refuse_altered_store", "store_problems"]


def store_problems(folder: Path, closed: Sequence[Period]) -> list[str]:
    """What is wrong with the store: its rows, its chains, and whether they are still those of the closed periods."""
    try:
        with UtilityStore(folder / STORE_FILE, create=False) as store:
            own = [f"{STORE_FILE}: {what}" for what in store.verify()]
            return own or [what for period in closed for what in _made_anew(folder, store, period)]
    except FedvalueError as error:
        return [str(error)]


def refuse_altered_store(folder: Path, closed: Sequence[Period]) -> None:
    """Raises before anything is trained, taken over or paid; where there is no store yet, there is nothing to take over."""
    file = folder / STORE_FILE
    found = store_problems(folder, closed) if file.exists() else []
    if found:
        more = f"; and {len(found) - 1} more (`fedvalue period verify`)" if len(found) > 1 else ""
        raise InputError(
            f"The trainings of earlier periods were altered, so nothing is taken over or paid by them: {found[0]}{more}. "
            f"Restore {file} and the folders of the periods from a copy, or move {file} away: then everything is trained again."
        )


def history_of(folder: Path, values: Values) -> History:
    """The trainings that the values of a period rest on: what later ones add does not count."""
    with UtilityStore(folder / STORE_FILE, create=False) as store:
        if values.game_id not in {game.id for game in store.games()}:
            raise InputError(f"{folder / STORE_FILE} has no trainings of the game {values.game_id}.")
        rows = store.head(values.game_id).rows if values.chain is None else values.chain.rows
        return read_history(StoreUntil(store, values.game_id, rows), values)


def _made_anew(folder: Path, store: UtilityStore, period: Period) -> Iterator[str]:
    """A chain that fits together may have been made anew: the sealed values of a period say where it was."""
    if period.game_id not in {game.id for game in store.games()}:
        return  # the store was moved away, and nothing is taken over from that game
    values_file = folder / period.name / VALUES_FILE
    if VALUES_FILE in period.files and (wrong := list(altered(values_file, period.files[VALUES_FILE]))):
        yield from (f"{period.name}: {what}" for what in wrong)
        return
    chain = read_values(folder / period.name).chain
    entries = store.entries(period.game_id)
    if chain is not None and not _holds([Head(e.place + 1, e.link) for e in entries], chain):
        yield f"{STORE_FILE}: the trainings of {period.name} are not those that its values rest on"


def _holds(heads: Sequence[Head], chain: Chain) -> bool:
    known = {head.rows: head.link for head in heads}
    return not chain.rows or known.get(chain.rows) == chain.link
