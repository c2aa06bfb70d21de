"""What a store and the folders of its runs say at one moment: the facts of the page, without the values in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any

from fedvalue._files import json_from
from fedvalue.coalitions import members
from fedvalue.errors import FedvalueError
from fedvalue.run import VALUES_FILE, Node, Progress, read_progress, read_record, read_values
from fedvalue.store import LatestRow, StoredGame, StoreLook
from fedvalue.values import Values
from fedvalue.watch._places import ERROR_FILE, Place, check_target, places
from fedvalue.watch._rules import Rules, rules_of

__all__ = ["RunNow", "Snapshot", "Stored", "snapshot"]

_LATEST = 8  # outcomes that are shown one by one
_FRESH = 3  # trainings before the time left is said


@dataclass(frozen=True)
class Stored:
    """An outcome as the page shows it: who took part, and what it came to."""

    clients: tuple[str, ...]
    seed: int
    utility: float | None
    seconds: float
    created: str


@dataclass(frozen=True)
class RunNow:
    """A run, or a game of a store of which no run says anything.

    `state` is "running", "ended", "failed", "interrupted", "killed", "at rest" or "not known". `done` of `planned` trainings
    are there; `planned` is None where nobody says it, and `at_most` says that it is the budget. `claimed` are being
    trained now. `values` are those that a run has left.
    """

    key: str
    title: str
    names: tuple[str, ...]
    game_id: str
    store: Path | None
    folder: Path | None
    method: str
    state: str
    stage: str = ""
    done: int = 0
    planned: int | None = None
    at_most: bool = False
    outcomes: int = 0
    coalitions: int = 0
    claimed: int = 0
    began: str = ""
    last: str = ""
    seconds_left: float | None = None
    rules: Rules | None = None
    latest: tuple[Stored, ...] = ()
    failures: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()
    values: Values | None = None


@dataclass(frozen=True)
class Snapshot:
    """Everything that runs at a target say at one moment; `troubles` are what could not be read, in sentences."""

    runs: tuple[RunNow, ...]
    troubles: tuple[str, ...] = ()


@dataclass(frozen=True)
class _InStore:
    """What the store says of the game of a run; as it is, nothing. `fresh` are outcomes since the run began."""

    path: Path | None = None
    game: StoredGame | None = None
    latest: tuple[LatestRow, ...] = ()
    fresh: int = 0
    claimed: int = 0
    may_be_written: bool = True


def snapshot(target: str | PathLike[str]) -> Snapshot:
    """Looks into the stores and folders at a target. Nothing is kept open, and nothing is written."""
    runs, troubles = list[RunNow](), list[str]()
    for place in places(check_target(target)):
        try:
            found, said = _runs_of(place)
        except (FedvalueError, OSError) as error:
            found, said = [_run(folder, _InStore()) for folder in place.folders], [str(error)]
        runs += found
        troubles += said
    return Snapshot(tuple(runs), tuple(dict.fromkeys(troubles)))


def _runs_of(place: Place) -> tuple[list[RunNow], list[str]]:
    if place.store is None:
        return [_run(folder, _InStore()) for folder in place.folders], []
    runs, seen, said = list[RunNow](), set[str](), list[str]()
    with StoreLook(place.store) as store:
        games = {game.id: game for game in store.games()}
        if store.lacks_log:
            said.append(
                f"{place.store.name} was copied without its log ({place.store.name}-wal): the newest trainings may be missing."
            )
        for folder in place.folders:
            game = games.get(_game_of(folder) or "")
            runs.append(_run(folder, _in_store(store, game, read_progress(folder))))
            seen |= set() if game is None else {game.id}
        runs += [_run(None, _in_store(store, game, None)) for game in games.values() if game.id not in seen]
    return runs, said


def _in_store(store: StoreLook, game: StoredGame | None, progress: Progress | None) -> _InStore:
    if game is None:
        return _InStore(store.path, may_be_written=store.is_open_elsewhere)
    return _InStore(
        store.path,
        game,
        tuple(store.latest(game.id, _LATEST)),
        0 if progress is None else store.stored_after(game.id, progress.began),
        store.claimed(game.id),
        store.is_open_elsewhere,
    )


def _run(folder: Path | None, stored: _InStore) -> RunNow:
    game = stored.game
    progress = None if folder is None else read_progress(folder)
    values, record = (None, None) if folder is None or progress else _results(folder)
    rules = rules_of(progress, record, values, stored.latest)
    names = _names(progress, values, game)
    error = None if folder is None or progress or values else _error(folder)
    done, planned, at_most = _how_far(progress, values, record, stored)
    moments = [row.created for row in stored.latest] + ([progress.updated] if progress else [])
    last = max(moments, default="")
    game_id = game.id if game else progress.game_id if progress else values.game_id if values else ""
    return RunNow(
        key=f"{folder or ''}|{game_id}",
        title=_title(folder, game_id, record),
        names=names,
        game_id=game_id,
        store=stored.path,
        folder=folder,
        method=_method(progress, values, record),
        state=_state(progress, values, error, stored),
        stage=progress.stage if progress else "",
        done=done,
        planned=planned,
        at_most=at_most,
        outcomes=game.outcomes if game else 0,
        coalitions=game.coalitions if game else 0,
        claimed=stored.claimed,
        began=progress.began if progress else "",
        last=last,
        seconds_left=None if at_most else _left(progress, done, planned, stored.fresh, last),
        rules=rules,
        latest=tuple(_stored(row, names, rules) for row in stored.latest),
        failures=tuple(_failures(progress, values, error)),
        nodes=_nodes(progress, values),
        values=values,
    )


def _game_of(folder: Path) -> str | None:
    progress = read_progress(folder)
    if progress is not None:
        return progress.game_id
    values, record = _results(folder)
    return values.game_id if values else (record or {}).get("game_id")


def _results(folder: Path) -> tuple[Values | None, Mapping[str, Any] | None]:
    """Values and record of the run in a folder, as far as they are there and sound."""
    try:
        record = read_record(folder)
        values = read_values(folder) if (folder / VALUES_FILE).is_file() else None
    except FedvalueError:
        return None, None
    return values, record


def _error(folder: Path) -> Mapping[str, Any] | None:
    """Why a federation has no values."""
    try:
        found = json_from((folder / ERROR_FILE).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _names(progress: Progress | None, values: Values | None, game: StoredGame | None) -> tuple[str, ...]:
    if game is not None:
        given = game.description.get("names")
        if isinstance(given, list) and len(given) == game.n:
            return tuple(map(str, given))
        return tuple(f"client-{i}" for i in range(game.n))
    return progress.names if progress else values.names if values else ()


def _method(progress: Progress | None, values: Values | None, record: Mapping[str, Any] | None) -> str:
    if progress is not None or values is not None:
        return progress.method if progress is not None else values.method if values is not None else ""
    return str((record or {}).get("method") or "")


def _how_far(
    progress: Progress | None,
    values: Values | None,
    record: Mapping[str, Any] | None,
    stored: _InStore,
) -> tuple[int, int | None, bool]:
    """Trainings that are there, that are planned, and whether that is only the most there may be."""
    there = stored.game.outcomes if stored.game else 0
    if progress is not None:
        if progress.asked is not None:
            there = max(progress.known or 0, progress.reused + stored.fresh)  # the file is a moment behind
            return min(there, progress.asked), progress.asked, False
        return there, progress.budget, progress.budget is not None
    if values is not None:
        return values.evaluations, values.evaluations, False
    budget = (record or {}).get("budget")
    return there, budget, budget is not None


def _state(
    progress: Progress | None,
    values: Values | None,
    error: Mapping[str, Any] | None,
    stored: _InStore,
) -> str:
    if progress is not None:
        return progress.state if progress.state != "running" or progress.lives else "killed"
    if values is not None:
        return "ended"
    if error is not None:
        return "failed"
    if stored.claimed:
        return "running"
    return "not known" if stored.may_be_written else "at rest"


def _left(progress: Progress | None, done: int, planned: int | None, fresh: int, last: str) -> float | None:
    """The time left at the pace of this run so far; by the clock of the machine that it is on."""
    if progress is None or planned is None or fresh < _FRESH or progress.state != "running":
        return None
    took = (datetime.fromisoformat(last) - datetime.fromisoformat(progress.began)).total_seconds()
    return max(0.0, took / fresh * (planned - done))


def _stored(row: LatestRow, names: Sequence[str], rules: Rules | None) -> Stored:
    utility = None if rules is None else row.metrics.get(rules.stored_as)
    clients = tuple(names[i] for i in members(row.mask) if i < len(names))
    return Stored(clients, row.replicate, utility, row.seconds, row.created)


def _failures(
    progress: Progress | None, values: Values | None, error: Mapping[str, Any] | None
) -> Iterator[str]:
    if progress is not None:
        yield from ([progress.error] if progress.error else [])
        yield from progress.incidents
    if values is not None:
        yield from map(str, values.details.get("incidents", ()))
    if error is not None:
        yield str(error.get("error") or "The run failed and does not say why.")
        incidents = error.get("incidents")
        yield from map(str, incidents if isinstance(incidents, list) else ())


def _nodes(progress: Progress | None, values: Values | None) -> tuple[Node, ...]:
    if progress is not None:
        return progress.nodes
    if values is None or "messages" not in values.details:
        return ()
    there = tuple(Node(name, "there") for name in values.names if name not in values.absent)
    return there + tuple(Node(name, "absent", why) for name, why in values.absent.items())


def _title(folder: Path | None, game_id: str, record: Mapping[str, Any] | None) -> str:
    if folder is None:
        return game_id
    return str(((record or {}).get("cover") or {}).get("consortium") or folder.resolve().name)
