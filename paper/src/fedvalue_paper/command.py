"""`fedvalue reproduce`: a table or figure of the paper, run here, with its numbers beside the paper's claim."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedvalue.cli import complain, new_table, print_json, print_table, say
from fedvalue.errors import FedvalueError, InputError
from fedvalue_paper.effort import Silent, work_of

if TYPE_CHECKING:
    from rich.progress import Progress

    from fedvalue_paper import Experiment
    from fedvalue_paper.output import Published
    from fedvalue_paper.recompute import Recomputed
    from fedvalue_paper.tables import Part

__all__ = ["reproduce"]

_ALL = "all"


def _complete_name(incomplete: str) -> list[str]:
    from fedvalue_paper import names

    return [name for name in (*names(), _ALL) if name.startswith(incomplete)]


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(autocompletion=_complete_name, help="An experiment (see --list), or all."),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="smoke (seconds, scikit-learn's digits), small (minutes, real data) or paper (its sizes)."
        ),
    ] = "smoke",
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for the results and the store that all experiments share.")
    ] = Path("reproduction"),
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the data. [default: $FEDVALUE_DATA, the cache folder]")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds per method and budget. [default: what the scale says]")
    ] = None,
    variant: Annotated[
        str, typer.Option(help="authors: what the authors' code runs under a name, where it differs.")
    ] = "",
    from_utilities: Annotated[
        Path | None,
        typer.Option(
            help="Train nothing: recompute tables and figures from what a finished run kept, and compare."
        ),
    ] = None,
    accept_changes: Annotated[
        bool,
        typer.Option(
            "--accept-changes",
            help="With --from-utilities: rows that differ, because a method has changed since, are no error.",
        ),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is in the folder.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin anew; trained coalitions stay in the store.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the table and the manifest as JSON.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only the table: no progress, no remarks.")
    ] = False,
) -> None:
    """Reproduce a table or figure of the paper.

    Writes rows.csv, table.csv, table.md, the figures and manifest.json to OUT/NAME-SCALE, and utilities.npz and
    rows.csv.gz, from which --from-utilities computes all of it again. A run that was stopped goes on with
    --resume.
    """
    from fedvalue_paper import names, read
    from fedvalue_paper.spec import having

    if list_all or name is None:
        _list(json)
        return
    if resume and overwrite:
        raise InputError("--resume and --overwrite exclude each other.")
    if resume and from_utilities is not None:
        raise InputError("--resume and --from-utilities exclude each other: nothing is trained.")
    if accept_changes and from_utilities is None:
        raise InputError("--accept-changes goes with --from-utilities: nothing else is compared.")
    documents = [read(each) for each in (names() if name == _ALL else [name])]
    if name == _ALL and variant:
        documents = having(variant, documents)
    experiments = [document.at(scale, variant, seeds) for document in documents]
    folders = [out / _folder_name(experiment) for experiment in experiments]
    for experiment, folder in zip(experiments, folders, strict=True):
        _check_folder(experiment, folder, resume, overwrite)
    results, failed = [], []
    for experiment, folder in zip(experiments, folders, strict=True):
        try:
            if from_utilities is None:
                done = _reproduce(experiment, folder, out, data_dir, device, overwrite, quiet or json)
            else:
                done = _recompute(
                    experiment, folder, from_utilities, accept_changes, overwrite, quiet or json
                )
            results.append(done)
        except FedvalueError as error:
            if name != _ALL:
                raise
            complain(f"{experiment.name}: {error}")
            failed.append(experiment.name)
            continue
        if not json:
            _show(experiment, results[-1], folder, quiet, several=name == _ALL)
    if json:
        print_json([_plain(result) for result in results] if name == _ALL else _plain(results[0]))
    if failed:
        complain(f"Not reproduced: {', '.join(failed)}. With --resume, the same command does only these.")
        raise typer.Exit(1)


def _list(json: bool) -> None:
    from fedvalue_paper import SCALES, names, read

    documents = [read(name) for name in names()]
    if json:
        print_json(
            [
                {
                    "name": document.name,
                    "paper": document.paper,
                    "title": document.title,
                    "takes": {scale: document.takes(scale) for scale in SCALES},
                    "variants": list(document.variants),
                }
                for document in documents
            ]
        )
        return
    table = new_table("name", "paper", "what", *SCALES, wrap=("what",))
    for document in documents:
        table.add_row(
            document.name, document.paper, document.title, *(document.takes(scale) for scale in SCALES)
        )
    print_table(table)
    say()
    say("Times are rough, for an empty store: on two cores, or on what is named; those with ~ are estimates.")
    say("fedvalue reproduce NAME --scale smoke|small|paper; NAME may be all.")


def _folder_name(experiment: Experiment) -> str:
    return "-".join(filter(None, (experiment.name, experiment.scale, experiment.variant)))


def _check_folder(experiment: Experiment, folder: Path, resume: bool, overwrite: bool) -> None:
    """What is there is kept unless it may go; a run goes on only with the settings that it began with."""
    from fedvalue_paper.manifest import settings_of, written_settings

    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file. Choose another folder with --out.")
        if not folder.exists() or not any(folder.iterdir()) or overwrite:
            return
    except OSError as error:
        raise InputError(f"Cannot read {folder}: {error.strerror}.") from error
    if not resume:
        raise InputError(
            f"{folder} is not empty. Add --resume to go on with what is there, or --overwrite to begin anew."
        )
    found = written_settings(folder)
    if found != settings_of(experiment):
        what = "other settings" if found else "no readable manifest.json"
        raise InputError(f"{folder} has {what}: its rows cannot be used. Add --overwrite to begin anew.")


def _reproduce(
    experiment: Experiment,
    folder: Path,
    out: Path,
    data_dir: Path | None,
    device: str,
    overwrite: bool,
    quiet: bool,
) -> Published:
    from fedvalue.trainers import choose_device
    from fedvalue_paper.engine import play
    from fedvalue_paper.manifest import command_of
    from fedvalue_paper.output import Notes, begin, forget_empty, note_seconds, publish

    began = time.perf_counter()
    notes = Notes(choose_device(device), command_of(experiment, data_dir is not None))
    begin(experiment, folder, notes, fresh=overwrite)
    try:
        with _watching(_folder_name(experiment), work_of(experiment), quiet) as watch:
            rows, played = play(experiment, out, folder, data_dir=data_dir, device=notes.device, watch=watch)
            watch.stage("table and figures")
            return publish(experiment, rows, played, folder, notes, time.perf_counter() - began)
    except FedvalueError:
        forget_empty(folder)
        raise
    except OSError as error:  # a full disk, a folder that was taken away
        raise FedvalueError(
            f"Cannot read or write {error.filename or folder}: {error.strerror or error}. "
            "What is finished is kept: the same command with --resume goes on from there."
        ) from error
    except KeyboardInterrupt as error:
        note_seconds(folder, time.perf_counter() - began)
        complain("Interrupted. What is finished is kept: the same command with --resume goes on from there.")
        raise typer.Exit(130) from error


def _recompute(
    experiment: Experiment, folder: Path, path: Path, accept_changes: bool, overwrite: bool, quiet: bool
) -> Published:
    from fedvalue_paper.manifest import command_of
    from fedvalue_paper.output import Notes, begin, publish_again
    from fedvalue_paper.recompute import recompute, source_of

    began = time.perf_counter()
    source = source_of(experiment, path, _folder_name(experiment))
    if source.folder.resolve() == folder.resolve():
        raise InputError(f"{folder} is what it would be compared with. Choose another folder with --out.")
    notes = Notes(
        "cpu",
        f"{command_of(experiment, False)} --from-utilities RESULTS{' --accept-changes' * accept_changes}",
    )
    begin(experiment, folder, notes, fresh=overwrite)
    with _watching(_folder_name(experiment), work_of(experiment), quiet) as watch:
        found = recompute(experiment, source, folder, watch, accept_changes=accept_changes)
        watch.stage("table and figures")
        published = publish_again(experiment, found, source, folder, notes, time.perf_counter() - began)
    if not quiet:
        say(_summary(_folder_name(experiment), found, source.folder))
    return published


def _summary(name: str, found: Recomputed, source: Path) -> str:
    """How many rows came out as they were, and of which methods some did not."""
    changed = sum(found.changed.values())
    of_methods = ", ".join(f"{count} of {label}" for label, count in found.changed.items())
    rows = f"{name}: {found.computed} rows were computed from utilities"
    if changed:
        rows += f", {changed} came out differently ({of_methods}) and {'is' if changed == 1 else 'are'} new"
    return (
        f"{rows}; {'the others' if changed else 'they'} are equal to those of {source}. {found.taken} rows of gradient "
        "methods and all seconds by the clock were taken over."
    )


def _show(experiment: Experiment, result: Published, folder: Path, quiet: bool, several: bool) -> None:
    from fedvalue_paper.tables import legend

    if not quiet:
        say(f"{experiment.title} ({experiment.paper}), scale {experiment.scale}")
        say(f"The paper: {experiment.claim}")
        if experiment.note:
            say(f"Note: {experiment.note}")
        say()
    for part in result.parts:
        if part.title:
            say(part.title)
        print_table(_rich(part))
        say()
    if quiet:
        return
    if not several:
        for line in legend(experiment.table):
            say(line)
    written = ", ".join(path.name for path in result.files)
    say(f"Written to {folder}: {written}.")
    if several:
        say()


def _rich(part: Part) -> Any:
    from rich.markup import escape

    right = [heading for heading in part.headings if heading not in part.left]
    table = new_table(*part.headings, right=right)
    for line in part.lines:
        table.add_row(*(escape(cell) if cell != "\\" else cell for cell in line))
    return table


def _plain(result: Published) -> dict[str, Any]:
    return {"manifest": result.manifest, "table": list(result.lines)}


@contextmanager
def _watching(title: str, work: float, quiet: bool) -> Iterator[Silent]:
    """A bar with the time left on a terminal, a line for every game elsewhere."""
    if quiet:
        yield Silent()
        return
    if not sys.stderr.isatty():
        yield _Lines(title)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn(title),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=60) as bar:
        yield _Bar(bar, work)


class _Lines(Silent):
    """A plain line on stderr for every game: for logs."""

    def __init__(self, title: str) -> None:
        self.title = title

    def game(self, number: int, games: int, label: str) -> None:
        typer.echo(f"{self.title}: game {number} of {games}: {label}", err=True)


class _Bar(Silent):
    """Moves the bar, and says beside it which game is played and what is done there."""

    def __init__(self, bar: Progress, work: float) -> None:
        self.bar = bar
        self.task = bar.add_task("", total=work or 1.0)
        self.playing = ""

    def game(self, number: int, games: int, label: str) -> None:
        self.playing = f"{number}/{games} {label}"
        self.stage("")

    def stage(self, text: str) -> None:
        self.bar.update(self.task, description=": ".join(filter(None, (self.playing, text))))

    def advance(self, work: float) -> None:
        self.bar.advance(self.task, work)
