"""What an experiment leaves in its folder: the table, the figures and the manifest beside the rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedvalue.errors import InputError
from fedvalue_paper.engine import ROWS, Played
from fedvalue_paper.files import read_text, write_bytes_whole, write_whole
from fedvalue_paper.kept import UTILITIES, write_kept
from fedvalue_paper.manifest import MANIFEST, manifest, part_of_run, written_manifest, written_parts
from fedvalue_paper.printed import write_beside
from fedvalue_paper.recompute import KEPT_ROWS, Recomputed, Source, about
from fedvalue_paper.rows import Row
from fedvalue_paper.spec import Experiment
from fedvalue_paper.tables import Part, aggregated, markdown, parts_of, table_csv

__all__ = [
    "Notes",
    "Published",
    "begin",
    "draw_figures",
    "forget_empty",
    "note_seconds",
    "publish",
    "publish_again",
]

_TABLE = ("table.csv", "table.md")


@dataclass(frozen=True)
class Notes:
    """What the manifest says besides what was played."""

    device: str
    command: str


@dataclass(frozen=True)
class Published:
    """What was written."""

    lines: Sequence[Row]
    parts: Sequence[Part]
    files: Sequence[Path]
    manifest: Mapping[str, Any]


def begin(experiment: Experiment, folder: Path, notes: Notes, fresh: bool) -> None:
    """Makes the folder and says in it what is run there; `fresh`: what an earlier run left is removed."""
    from fedvalue_paper.figures.plots import FORMATS

    try:
        folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            figures = [f"{given['name']}.{suffix}" for given in experiment.figures for suffix in FORMATS]
            for name in (ROWS, KEPT_ROWS, UTILITIES, *_TABLE, *figures, MANIFEST):
                (folder / name).unlink(missing_ok=True)
        parts = [*written_parts(folder), part_of_run(notes.device)]
        _write_json(manifest(experiment, (), notes.device, notes.command, parts, False), folder / MANIFEST)
    except OSError as error:
        raise InputError(f"Cannot write to {folder}: {error.strerror}.") from error


def forget_empty(folder: Path) -> None:
    """Leaves no trace of a run that failed before its first row, so that it can simply be repeated."""
    rows = folder / ROWS
    with suppress(OSError):  # where nothing can be removed, the error that led here is the one to tell
        if rows.exists() and len(rows.read_text(encoding="utf-8").splitlines()) > 1:
            return
        for path in (rows, folder / MANIFEST):
            path.unlink(missing_ok=True)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def note_seconds(folder: Path, seconds: float) -> None:
    """Writes down how long a process worked that was stopped: what a run took is the sum of all of them."""
    record = written_manifest(folder)
    if record:
        record["parts"][-1]["seconds"] = round(seconds, 2)
        _write_json(record, folder / MANIFEST)


def publish(
    experiment: Experiment,
    rows: Sequence[Row],
    played: Sequence[Played],
    folder: Path,
    notes: Notes,
    seconds: float,
) -> Published:
    """Writes the table, the figures, what they can be computed from again, and the manifest beside the rows."""
    write_whole(folder / KEPT_ROWS, read_text(folder / ROWS))
    write_kept(folder / UTILITIES, about(experiment), [game.kept for game in played if game.kept])
    *earlier, last = written_parts(folder)
    ended = [*earlier, {**last, "seconds": round(seconds, 2), "finished": True}]
    record = manifest(experiment, played, notes.device, notes.command, ended, True)
    return _published(experiment, rows, folder, record, (ROWS, KEPT_ROWS, UTILITIES))


def publish_again(
    experiment: Experiment, found: Recomputed, source: Source, folder: Path, notes: Notes, seconds: float
) -> Published:
    """The same from kept utilities, which are kept again: the folder can take the place of the one they come from.

    The manifest is that of the trainings, and says what was done since. A step stands there only when it is finished;
    early ones lack their seconds.
    """
    write_whole(folder / KEPT_ROWS, read_text(folder / ROWS))
    write_bytes_whole(folder / UTILITIES, source.utilities.read_bytes())
    before = written_manifest(source.folder)
    here = {
        **part_of_run(notes.device),
        "seconds": round(seconds, 2),
        "finished": True,
        "command": notes.command,
        "rows_computed": found.computed,
        "rows_taken_over": found.taken,
        "rows_changed": dict(found.changed),
    }
    earlier = [{**step, "finished": True} for step in before.get("recomputed", ())]
    record = {**before, "recomputed": [*earlier, here]}
    return _published(experiment, found.rows, folder, record, (ROWS, KEPT_ROWS, UTILITIES))


def _published(
    experiment: Experiment,
    rows: Sequence[Row],
    folder: Path,
    record: Mapping[str, Any],
    beside: Sequence[str],
) -> Published:
    lines = aggregated(rows, experiment.table)
    parts = parts_of(lines, experiment.table)
    (folder / _TABLE[0]).write_text(table_csv(lines), encoding="utf-8")
    (folder / _TABLE[1]).write_text(markdown(experiment, parts), encoding="utf-8")
    figures = draw_figures(experiment, rows, folder)
    _write_json(record, folder / MANIFEST)
    files = [folder / name for name in (*beside, *_TABLE)]
    files += write_beside(experiment, folder)
    return Published(lines, parts, [*files, *figures, folder / MANIFEST], record)


def draw_figures(experiment: Experiment, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Every figure as PNG, SVG and PDF; one for which there is nothing to show is left out."""
    from fedvalue_paper.figures.plots import FigureSpec, NothingToShow, draw, save

    paths: list[Path] = []
    for given in experiment.figures:
        settings: dict[str, Any] = {k: tuple(v) if k == "panels" else v for k, v in given.items()}
        spec = FigureSpec(**settings)
        with suppress(NothingToShow):
            paths += save(draw(spec, rows), folder / spec.name)
    return paths


def _write_json(data: Any, path: Path) -> None:
    write_whole(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
