"""What is told of a run, whatever the tool: the observers of a run turn into parameters, numbers by step and files."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self, TypedDict

from fedvalue._checks import as_path, expect, positive
from fedvalue.adapters.tracking._names import flat
from fedvalue.adapters.tracking._numbers import Numbers
from fedvalue.adapters.tracking._tools import Row, Tool
from fedvalue.errors import FedvalueWarning, InputError
from fedvalue.games import GameLike, as_game
from fedvalue.run import RECORD_FILE, REPORT_FILE, VALUES_FILE, Evaluation, Job, Result
from fedvalue.values import Values

__all__ = ["Following", "Tracker"]

_PATIENCE = 1.0  # seconds for which numbers are collected: a tool is told many at a time


class Following(TypedDict):
    """Observers, as keywords of `fv.value`, `fv.compare` and `fv.run`."""

    on_stage: Callable[[str], None]
    on_outcome: Callable[[Evaluation], None]
    on_values: Callable[[Values], None]


class Tracker:
    """Tells tools of one run, in a `with` block; values so far at most `every` so many seconds.

    A tool that fails before the run begins is an error. One that fails later costs its user a warning and the rest of what it
    would have been told (`failures` has what was raised); the run goes on.
    """

    def __init__(self, *tools: Tool, every: float = 10.0) -> None:
        if not tools:
            raise InputError('A tracker needs at least one tool, such as MLflow("consortium").')
        for tool in tools:
            expect(
                "A tool of a tracker", tool, Tool, "MLflow(…), WandB(…), TensorBoard(…) or one of your own"
            )
        self.tools, self.every = tools, positive("every", every, "seconds")
        self.failures: list[Exception] = []
        self._begun: list[Tool] = []
        self._told: list[Tool] = []  # those that have begun and not failed
        self._rows: list[Row] = []
        self._sent = 0.0
        self._is_taken = False

    def __enter__(self) -> Self:
        try:
            for tool in self.tools:
                _at_once(tool, tool.begin)
                self._begun.append(tool)
        except BaseException:
            self._end(failed=True)
            raise
        self._told = list(self._begun)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._send()
        finally:
            self._end(failed=kind is not None)

    def run(self, job: Job, progress: bool = False) -> Result:
        """Runs the job, and keeps its report, its values and its record as files."""
        expect("job", job, Job, "an fv.Job", 'fv.Job("digits", clients=6) is one.')
        numbers = Numbers(job.prepared.game, job.groups, self.every, one_seed=job.one_seed)
        result = job.run(progress, **self._following(numbers, job.record()))
        with TemporaryDirectory() as temporary:
            folder = result.save(Path(temporary) / "run") if job.out is None else Path(job.out)
            for name in (REPORT_FILE, VALUES_FILE, RECORD_FILE):
                self.keep(folder / name)
        return result

    def observers(
        self, game: GameLike, groups: Mapping[str, Sequence[str]] | None = None, *, by_method: bool = False
    ) -> Following:
        """The observers of one call of `fv.value(game, …)`; with `by_method` of `fv.compare(game, …)`.

        Without `groups`, values so far are Shapley values.
        """
        the_game = as_game(game)
        numbers = Numbers(the_game, groups, self.every, by_method=by_method)
        known = {
            "game_id": the_game.id,
            "clients": the_game.names,
            "groups": groups,
            "replicates": the_game.replicates,
        }
        return self._following(numbers, known)

    def keep(self, path: str | PathLike[str]) -> None:
        """Keeps a copy of a file with the run."""
        file = as_path("The path of a file", path)
        if not file.is_file():
            raise InputError(f"There is no file {file} to keep with the run.")
        self._each(lambda tool: tool.file(file))

    def _following(self, numbers: Numbers, known: Mapping[str, Any]) -> Following:
        if not self._begun or self._is_taken:
            raise InputError("A tracker follows one run, in a with block: with Tracker(…) as tracker: …")
        self._is_taken = True
        parameters = flat(known)
        for tool in self._begun:
            _at_once(tool, partial(tool.parameters, parameters))

        def on_stage(text: str) -> None:
            self._send(_PATIENCE)

        def on_outcome(evaluation: Evaluation) -> None:
            self._rows.append(numbers.of_outcome(evaluation))
            self._send(_PATIENCE)

        def on_values(values: Values) -> None:
            self._rows.append(numbers.of_values(values))
            self._send()
            self._each(lambda tool: tool.parameters(flat(numbers.words_of(values))))

        return Following(on_stage=on_stage, on_outcome=on_outcome, on_values=on_values)

    def _send(self, patience: float = 0.0) -> None:
        """Tells what was collected, if the last time is long enough ago."""
        if not self._rows or time.monotonic() - self._sent < patience:
            return
        rows, self._rows = self._rows, []
        self._each(lambda tool: tool.numbers(rows))
        self._sent = time.monotonic()

    def _each(self, tell: Callable[[Tool], None]) -> None:
        for tool in list(self._told):
            self._tell(tool, tell)

    def _tell(self, tool: Tool, tell: Callable[[Tool], None]) -> None:
        try:
            tell(tool)
        except Exception as error:
            self._told.remove(tool)
            self.failures.append(error)
            warnings.warn(
                f"{_name(tool)} is told nothing more of this run, which goes on without it: {_said(error)}",
                FedvalueWarning,
                stacklevel=2,
            )

    def _end(self, failed: bool) -> None:
        with ExitStack() as ending:  # each is ended, whatever another one raises
            for tool in self._begun:
                ending.callback(self._close, tool, failed)
            self._begun = []

    def _close(self, tool: Tool, failed: bool) -> None:
        if tool in self._told:
            self._tell(tool, lambda one: one.end(failed))
            return
        with suppress(Exception):  # it was warned of
            tool.end(failed=True)


def _at_once(tool: Tool, do: Callable[[], None]) -> None:
    """What is done before anything is trained: its failure is that of the user's settings."""
    try:
        do()
    except Exception as error:
        raise InputError(f"{_name(tool)} cannot follow the run: {_said(error)}") from error


def _name(tool: Tool) -> str:
    return type(tool).__name__


def _said(error: Exception) -> str:
    """What was raised, in a line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
