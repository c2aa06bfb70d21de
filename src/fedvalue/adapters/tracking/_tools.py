"""Where runs are followed: three methods each, and a beginning and an end."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from fedvalue._checks import as_path, expect
from fedvalue._extras import need

__all__ = ["MLflow", "Plain", "Row", "TensorBoard", "Tool", "WandB"]

Plain: TypeAlias = "str | float | bool"


@dataclass(frozen=True)
class Row:
    """Numbers of one step by name, and when they became known (seconds since 1970)."""

    step: int
    at: float
    numbers: Mapping[str, float]


@runtime_checkable
class Tool(Protocol):
    """Where a run is followed. What its methods raise ends the tracking there, and not the run.

    They are called one after the other, in a thread that belongs to the tool.
    """

    def begin(self) -> None:
        """Opens a run there. What this raises comes before anything is trained, and goes to the user."""

    def parameters(self, known: Mapping[str, Plain]) -> None:
        """What is known of a run, flat; called several times, never twice with the same name."""

    def numbers(self, rows: Sequence[Row]) -> None:
        """Numbers by step, in their order."""

    def file(self, path: Path) -> None:
        """Keeps a copy of a file."""

    def end(self, failed: bool) -> None:
        """Closes the run there."""


class MLflow:
    """A run in an experiment of MLflow, at `uri` or where MLflow is set up to keep runs (MLFLOW_TRACKING_URI).

    With `run_id` it goes into that run, which is left open. No run of your own that is active is touched.
    """

    def __init__(
        self,
        experiment: str = "fedvalue",
        name: str | None = None,
        *,
        uri: str | None = None,
        run_id: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        # MLflow tells its makers from its first import on that it is used. Nothing leaves a machine here that nobody has asked for.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        need("mlflow", "Tracking by MLflow")
        expect("experiment", experiment, str, "a text")
        self.experiment, self.name, self.uri, self.run_id = experiment, name, uri, run_id
        self.tags = dict(tags or {})
        self._is_theirs = run_id is not None
        self._client: Any = None

    def begin(self) -> None:
        self._client = need("mlflow").MlflowClient(tracking_uri=self.uri)
        if self._is_theirs:
            self._client.get_run(self.run_id)
            return
        known = self._client.get_experiment_by_name(self.experiment)
        where = self._client.create_experiment(self.experiment) if known is None else known.experiment_id
        self.run_id = self._client.create_run(where, tags=self.tags, run_name=self.name).info.run_id

    def parameters(self, known: Mapping[str, Plain]) -> None:
        entities = need("mlflow.entities")
        for some in _portions(known.items(), 100):
            params = [entities.Param(name, str(value)) for name, value in some]
            self._client.log_batch(self.run_id, params=params)

    def numbers(self, rows: Sequence[Row]) -> None:
        metric = need("mlflow.entities").Metric
        found = (
            metric(name, number, int(1000 * row.at), row.step)
            for row in rows
            for name, number in row.numbers.items()
        )
        for some in _portions(found, 1000):
            self._client.log_batch(self.run_id, metrics=some)

    def file(self, path: Path) -> None:
        self._client.log_artifact(self.run_id, str(path))

    def end(self, failed: bool) -> None:
        if not self._is_theirs:
            self._client.set_terminated(self.run_id, "FAILED" if failed else "FINISHED")


class WandB:
    """A run in a project of Weights & Biases; `options` are those of `wandb.init`, such as entity, name, dir and mode="offline"."""

    def __init__(self, project: str = "fedvalue", **options: Any) -> None:
        need("wandb", "Tracking by Weights & Biases")
        expect("project", project, str, "a text")
        self.project, self.options = project, options
        self._run: Any = None

    def begin(self) -> None:
        # A run of the user's own that is open stays as it is.
        options = {"reinit": "create_new", **self.options}
        self._run = need("wandb").init(project=self.project, **options)

    def parameters(self, known: Mapping[str, Plain]) -> None:
        self._run.config.update(dict(known))

    def numbers(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._run.log(dict(row.numbers), step=row.step)

    def file(self, path: Path) -> None:
        artifact = need("wandb").Artifact(f"{self._run.id}-{path.stem}", type=path.stem)
        artifact.add_file(str(path))
        self._run.log_artifact(artifact)

    def end(self, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


class TensorBoard:
    """Event files in a folder, for `tensorboard --logdir`; what is to be kept as a file is copied beside them."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        need("tensorboard", "Tracking by TensorBoard")
        self.folder = as_path("The folder for TensorBoard", folder)
        self._writer: Any = None

    def begin(self) -> None:
        writer = need("tensorboard.summary.writer.event_file_writer")
        self._writer = writer.EventFileWriter(str(self.folder))

    def parameters(self, known: Mapping[str, Plain]) -> None:
        for name, value in known.items():
            self._add(f"parameters/{name}", time.time(), 0, **_text(str(value)))

    def numbers(self, rows: Sequence[Row]) -> None:
        for row in rows:
            for name, number in row.numbers.items():
                self._add(name, row.at, row.step, simple_value=number)
        self._writer.flush()

    def file(self, path: Path) -> None:
        shutil.copyfile(path, self.folder / path.name)

    def end(self, failed: bool) -> None:
        self._writer.close()

    def _add(self, tag: str, at: float, step: int, **what: Any) -> None:
        summaries = need("tensorboard.compat.proto.summary_pb2")
        summary = summaries.Summary(value=[summaries.Summary.Value(tag=tag, **what)])
        events = need("tensorboard.compat.proto.event_pb2")
        self._writer.add_event(events.Event(wall_time=at, step=step, summary=summary))


def _portions(of: Iterable[Any], most: int) -> Iterator[list[Any]]:
    """As many at a time as a server takes."""
    rest = iter(of)
    while some := list(islice(rest, most)):
        yield some


def _text(text: str) -> dict[str, Any]:
    """What a summary has for a text."""
    metadata = need("tensorboard.plugins.text.metadata").create_summary_metadata(None, None)
    return {"metadata": metadata, "tensor": need("tensorboard.util.tensor_util").make_tensor_proto([text])}
