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

__all__ = ["history_of", "holds", "refuse_altered_store", "store_problems"]


def store_problems(folder: Path, closed: Sequence[Period]) -> list[str]:
    """What is wrong with the stores: their rows, their chains, and whether they are still those of the closed periods."""
    shared = folder / STORE_FILE
    of_stores: dict[Path, list[Period]] = {shared: []} if shared.exists() or not closed else {}
    for period in closed:
        of_stores.setdefault(store_of(folder, period.name), []).append(period)
    return [what for file, periods in of_stores.items() for what in _problems_of(folder, file, periods)]


def _problems_of(folder: Path, file: Path, periods: Sequence[Period]) -> list[str]:
    called = file.relative_to(folder).as_posix()
    try:
        with UtilityStore(file, create=False) as store:
            own = [f"{called}: {what}" for what in store.verify()]
            return own or [what for period in periods for what in _made_anew(folder, store, period)]
    except FedvalueError as error:
        return [str(error)]


def refuse_altered_store(folder: Path, closed: Sequence[Period]) -> None:
    """Raises before anything is trained, taken over or paid; where there is no store yet, there is nothing to take over."""
    file = folder / STORE_FILE
    there = [period for period in closed if store_of(folder, period.name).exists()]
    found = store_problems(folder, there) if there or file.exists() else []
    if found:
        more = f"; and {len(found) - 1} more (`fedvalue period verify`)" if len(found) > 1 else ""
        raise InputError(
            f"The trainings of earlier periods were altered, so nothing is taken over or paid by them: {found[0]}{more}. "
            f"Restore {file} and the folders of the periods from a copy, or move {file} away: then everything is trained again."
        )


def store_of(folder: Path, name: str) -> Path:
    """The trainings of a period: a federation has a store of its own, of which there is a copy in the folder of the period."""
    own = folder / name / STORE_FILE
    return own if own.exists() else folder / STORE_FILE


def history_of(folder: Path, name: str, values: Values) -> History:
    """The trainings that the values of a period rest on: what later ones add does not count."""
    file = store_of(folder, name)
    with UtilityStore(file, create=False) as store:
        if values.game_id not in {game.id for game in store.games()}:
            raise InputError(f"{file} has no trainings of the game {values.game_id}.")
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
    if chain is not None and not holds([Head(e.place + 1, e.link) for e in entries], chain):
        yield f"{STORE_FILE}: the trainings of {period.name} are not those that its values rest on"


def holds(heads: Sequence[Head], chain: Chain) -> bool:
    known = {head.rows: head.link for head in heads}
    return not chain.rows or known.get(chain.rows) == chain.link
