"""What is told of a run, whatever the tool: the observers of a run turn into parameters, numbers by step and files."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self, TypedDict

from fedvalue._checks import as_path, expect, positive
from fedvalue._files import write_json
from fedvalue.adapters.tracking._line import Line, Message
from fedvalue.adapters.tracking._names import flat
from fedvalue.adapters.tracking._numbers import Numbers
from fedvalue.adapters.tracking._tools import Row, Tool
from fedvalue.errors import FedvalueWarning, InputError
from fedvalue.games import GameLike, as_game
from fedvalue.run import RECORD_FILE, REPORT_FILE, VALUES_FILE, Evaluation, Job, Result
from fedvalue.values import Values

__all__ = ["Following", "Tracker"]

_COLLECTED = 1.0  # seconds for which numbers are collected: a tool is told many at a time
_TRACKING_FILE = "tracking.json"  # in the folder of a run of which something was not tracked
_FORMAT = "fedvalue.tracking/1"
_VALUES = "the values"


class Following(TypedDict):
    """Observers, as keywords of `fv.value`, `fv.compare` and `fv.run`."""

    on_stage: Callable[[str], None]
    on_outcome: Callable[[Evaluation], None]
    on_values: Callable[[Values], None]


class Tracker:
    """Tells tools of one run, in a `with` block; values so far at most `every` so many seconds.

    A tool that fails before the run begins is an error. One that fails later is told nothing more, with a warning at once; the
    run goes on. What it was not told is in `untold`, in a warning at the end and, where the job has a folder, in tracking.json
    there. `failures` has what was raised.

    Tools are told in threads of their own, and the run waits for them only at its beginning, when files are kept and at its end: for
    `patience` seconds at most. One that has not answered then has failed.
    """

    def __init__(self, *tools: Tool, every: float = 10.0, patience: float = 60.0) -> None:
        if not tools:
            raise InputError('A tracker needs at least one tool, such as MLflow("consortium").')
        for tool in tools:
            expect(
                "A tool of a tracker", tool, Tool, "MLflow(…), WandB(…), TensorBoard(…) or one of your own"
            )
        self.tools, self.every = tools, positive("every", every, "seconds")
        self.patience = positive("patience", patience, "seconds")
        self.failures: list[Exception] = []
        self.untold: list[str] = []
        self._lines: list[Line] = []
        self._rows: list[Row] = []
        self._sent = 0.0
        self._is_taken = False
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        try:
            for tool in self.tools:
                self._lines.append(self._begun(tool))
        except BaseException:
            self._end(failed=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Where warnings are errors, none hides what the run failed with.
        with suppress(*([] if kind is None else [FedvalueWarning])):
            try:
                self._send()
            finally:
                self._end(failed=kind is not None)

    def run(self, job: Job, progress: bool = False) -> Result:
        """Runs the job, and keeps its report, its values and its record as files."""
        expect("job", job, Job, "an fv.Job", 'fv.Job("digits", clients=6) is one.')
        numbers = Numbers(job.prepared.game, job.groups, self.every, one_seed=job.one_seed)
        following = self._following(numbers, job.record())
        self._folder = None if job.out is None else Path(job.out)
        result = job.run(progress, **following)
        with TemporaryDirectory() as temporary:
            folder = self._folder or result.save(Path(temporary) / "run")
            for name in (REPORT_FILE, VALUES_FILE, RECORD_FILE):
                self._keep(folder / name)
            self._wait()
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
        self._keep(file)
        self._wait()

    def _keep(self, file: Path) -> None:
        self._each(Message(lambda tool: tool.file(file), others=(file.name,)))

    def _following(self, numbers: Numbers, known: Mapping[str, Any]) -> Following:
        if not self._lines or self._is_taken:
            raise InputError("A tracker follows one run, in a with block: with Tracker(…) as tracker: …")
        self._is_taken = True
        parameters = flat(known)
        for line in self._lines:
            self._at_once(line, Message(lambda tool: tool.parameters(parameters)))

        def on_stage(text: str) -> None:
            self._send(_COLLECTED)

        def on_outcome(evaluation: Evaluation) -> None:
            self._rows.append(numbers.of_outcome(evaluation))
            self._send(_COLLECTED)

        def on_values(values: Values) -> None:
            self._send()
            row, words = numbers.of_values(values), flat(numbers.words_of(values))
            self._each(Message(lambda tool: tool.numbers([row]), others=(_VALUES,)))
            self._each(Message(lambda tool: tool.parameters(words), others=(_VALUES,)))

        return Following(on_stage=on_stage, on_outcome=on_outcome, on_values=on_values)

    def _send(self, collected: float = 0.0) -> None:
        """Tells what was collected, if the last time is long enough ago."""
        if not self._rows or time.monotonic() - self._sent < collected:
            return
        rows, self._rows = self._rows, []
        self._each(Message(lambda tool: tool.numbers(rows), outcomes=len(rows)))
        self._sent = time.monotonic()

    def _each(self, message: Message) -> None:
        for line in self._lines:
            line.tell(message)
        self._look()

    def _begun(self, tool: Tool) -> Line:
        line = Line(tool)
        try:
            self._at_once(line, Message(lambda tool: tool.begin()))
        except BaseException:
            line.stop()
            raise
        return line

    def _at_once(self, line: Line, message: Message) -> None:
        """What is done before anything is trained: its failure is that of the user's settings."""
        line.tell(message)
        line.wait(self.patience)
        if line.error is not None:
            self.failures.append(line.error)
            raise InputError(f"{line.name} cannot follow the run: {line.said}") from line.error

    def _wait(self) -> None:
        for line in self._lines:
            line.wait(self.patience)
        self._look()

    def _look(self) -> None:
        """Warns of tools that have failed, once."""
        for line in self._lines:
            if line.error is not None and line.error not in self.failures:
                self.failures.append(line.error)
                _warn(f"{line.name} is told nothing more of this run, which goes on without it: {line.said}")

    def _end(self, failed: bool) -> None:
        for line in self._lines:
            line.end(failed, self.patience)
        self.untold = [f"{line.name}: {line.untold}" for line in self._lines if line.untold]
        self._record()
        self._look()
        self._lines = []
        for untold in self.untold:
            _warn(f"The run has {'failed' if failed else 'ended'}. Not tracked by {untold}.")

    def _record(self) -> None:
        """Leaves in the folder of the run what was not tracked of it."""
        if self._folder is None or not self._folder.is_dir():
            return
        path = self._folder / _TRACKING_FILE
        if not self.untold:
            path.unlink(missing_ok=True)  # of an earlier run of the same job
            return
        tools = [
            {"tool": line.name, "error": line.said, "not_tracked": line.untold}
            for line in self._lines
            if line.untold
        ]
        with suppress(OSError):
            write_json(path, {"format": _FORMAT, "tools": tools})


def _warn(text: str) -> None:
    warnings.warn(text, FedvalueWarning, stacklevel=3)
