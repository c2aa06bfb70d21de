"""How far a run is, for those who watch it: a small file in its folder, which is gone once there are values.

A run that fails leaves it with the reason; one that is killed leaves it as it was, and its process is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedvalue._checks import fits
from fedvalue._files import json_from, write_json
from fedvalue.errors import InputError
from fedvalue.run._observers import Evaluation, Observer, Observers
from fedvalue.store import lives, new_owner

__all__ = ["PROGRESS_FILE", "Node", "Progress", "ProgressFile", "read_progress"]

PROGRESS_FILE = "progress.json"
_FORMAT = "fedvalue.progress/1"
_SECONDS = 0.5  # between two times that it is written while outcomes come
_STATES = ("running", "failed", "interrupted")
_TEXTS = (
    "game_id", "method", "metric", "stored_as", "empty", "owner", "began", "updated", "state", "stage", "error",
)  # fmt: skip
_KINDS: dict[str, Any] = {
    **dict.fromkeys(_TEXTS, str),
    **dict.fromkeys(("budget", "seeds", "known", "asked"), int | None),
    **dict.fromkeys(("replicates", "reused"), int),
    **dict.fromkeys(("names", "incidents"), list[str]),
    "store": str | None,
    "higher_is_better": bool,
}
"""What the file holds under these names: it may come from elsewhere, or from another version."""


@dataclass(frozen=True)
class Node:
    """A client of a federation, and what its node is at: "there" or "absent", and why."""

    client: str
    state: str
    why: str = ""


@dataclass(frozen=True)
class Progress:
    """Which run it is, where it keeps its trainings, and how far it is.

    `known` of `asked` trainings are there, `reused` ones from the store included; None before the method has asked. `owner` is the
    process, `began` and `updated` are moments as stores keep them.
    """

    game_id: str
    names: tuple[str, ...]
    store: str | None
    method: str
    budget: int | None
    metric: str
    stored_as: str
    higher_is_better: bool
    replicates: int
    empty: str
    seeds: int | None
    groups: Mapping[str, Sequence[str]] | None
    owner: str
    began: str
    updated: str
    state: str = "running"
    stage: str = ""
    known: int | None = None
    asked: int | None = None
    reused: int = 0
    error: str = ""
    incidents: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = field(default=())

    @property
    def lives(self) -> bool:
        """Whether the process may still be at work; of another machine's nobody knows here."""
        return lives(self.owner)


def read_progress(folder: Path) -> Progress | None:
    """What a run has left in its folder; None where there is nothing, or nothing that can be read."""
    try:
        data = json_from((folder / PROGRESS_FILE).read_bytes())
        if data.pop("format") != _FORMAT or data["state"] not in _STATES:
            return None
        nodes = tuple(Node(**node) for node in data.pop("nodes"))
        texts = [text for node in nodes for text in (node.client, node.state, node.why)]
        members = list((data["groups"] or {}).values())
        is_sound = fits(texts, list[str]) and fits(members, list[list[str]]) and _is_moment(data["began"])
        if not (
            is_sound
            and _is_moment(data["updated"])
            and all(fits(data[name], _KINDS[name]) for name in _KINDS)
        ):
            return None
        lists = {name: tuple(data[name]) for name in ("names", "incidents")}
        return Progress(**{**data, **lists, "nodes": nodes})
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _is_moment(text: str) -> bool:
    return datetime.fromisoformat(text).tzinfo is not None


class ProgressFile:
    """Keeps the file while a run goes on. That it cannot be written costs the run nothing.

    `nodes` and `incidents` are asked for whenever it is written.
    """

    def __init__(
        self,
        folder: Path,
        facts: Mapping[str, Any],
        store: str | None,
        nodes: Callable[[], Sequence[Node]] = tuple,
        incidents: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._file = folder / PROGRESS_FILE
        self._nodes, self._incidents = nodes, incidents
        now = _now()
        of_run = {name: facts.get(name) for name in ("game_id", "method", "budget", "metric", "stored_as")}
        self._progress = Progress(
            **of_run,  # type: ignore[arg-type]
            higher_is_better=bool(facts["higher_is_better"]),
            replicates=int(facts["replicates"]),
            empty=str(facts["empty"]),
            seeds=facts.get("seeds"),
            groups=facts.get("groups"),
            names=tuple(facts["scenario"]["clients"]),
            store=store,
            owner=new_owner(),
            began=now,
            updated=now,
        )
        self._written = 0.0

    @contextmanager
    def kept(self, observer: Observer) -> Iterator[Observer]:
        """An observer that keeps the file and tells another one. The file says how it ended, or is gone."""
        self._write()
        own = Observer(self._on_stage, self._on_outcome, on_ask=self._on_ask)
        both = Observers([own, observer])
        try:
            yield Observer(both.on_stage, both.on_outcome, both.on_values, both.on_ask)
        except KeyboardInterrupt:
            self._write(state="interrupted")
            raise
        except BaseException as error:
            self._write(state="failed", error=str(error) or type(error).__name__)
            raise
        with suppress(OSError):
            self._file.unlink(missing_ok=True)

    def _on_stage(self, text: str) -> None:
        self._write(stage=text)

    def _on_ask(self, known: int, asked: int) -> None:
        self._write(known=known, asked=asked, stage="")

    def _on_outcome(self, evaluation: Evaluation) -> None:
        reused = self._progress.reused + evaluation.reused
        self._progress = replace(self._progress, known=evaluation.done, asked=evaluation.total, reused=reused)
        if evaluation.done == evaluation.total or time.monotonic() - self._written >= _SECONDS:
            self._write()

    def _write(self, **changes: Any) -> None:
        self._progress = replace(
            self._progress,
            **changes,
            updated=_now(),
            nodes=tuple(self._nodes()),
            incidents=tuple(self._incidents()),
        )
        self._written = time.monotonic()
        with suppress(InputError, OSError):
            write_json(self._file, {"format": _FORMAT, **asdict(self._progress)})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
