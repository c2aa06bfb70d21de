"""Ray on the loopback interface for tests, and learners that fail in its workers.

The learners are here and not in a test file because workers import this module by its name.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedvalue.learners import make_learner
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.trainers.ray._cluster import _loopback
from fedvalue.training import Training

# For workers: this folder, and what the tests themselves are run with.
WORKER_PATH = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
# Nothing is written to the home folder: the token of a test's cluster is its own.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_TOKEN": "0123456789abcdef" * 4,
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # the loopback interface
    "PYTHONPATH": WORKER_PATH,
    "OMP_NUM_THREADS": "1",
}


@contextmanager
def surroundings() -> Iterator[None]:
    """The environment of all Ray processes of a test."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


@contextmanager
def folder() -> Iterator[Path]:
    """A folder with a short name: sockets lie deep in it."""
    path = Path(tempfile.mkdtemp(prefix="fvt-", dir="/tmp"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@cache
def shared_ray() -> None:
    """A Ray for all tests of this process, with two CPUs; trainers without an address find it."""
    import ray

    resources = ExitStack()
    atexit.register(resources.close)
    resources.enter_context(surroundings())
    where = resources.enter_context(folder())
    with _loopback():
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=128 << 20,
            _temp_dir=str(where),
        )
    resources.callback(ray.shutdown)


class Failing:
    """The model `model`, whose trainings of client `at` fail in the way `how`.

    `once` names a file: it fails as long as that is not there, and makes it. `log` is a folder with a file for
    every local training of a later round.
    """

    def __init__(self, how: str, *, at: int = 0, model: str = "mlp", once: str = "", log: str = "") -> None:
        self.how, self.at, self.once, self.log = how, at, once, log
        self.inner = make_learner(model)
        self.averages = self.inner.averages

    def identity(self) -> Mapping[str, Any]:
        return self.inner.identity()

    def session(self, scenario: Scenario, training: Training, device: str, memory: int | None) -> Any:
        session: Any = self.inner.session(scenario, training, device, memory)
        train = session.local

        def local(stack: Any, owners: Sequence[int], t: int) -> Any:
            if t > 1 and self.at in owners:
                self._fail(len(owners))
            if t > 1 and self.log:
                name = f"{time.time_ns()}-{os.getpid()}"
                (Path(self.log) / name).write_text(" ".join(map(str, owners)))
            if t > 1 and self.how == "slow":
                time.sleep(1.5)
            return train(stack, owners, t)

        session.local = local
        return session

    def _fail(self, rows: int) -> None:
        if self.once:
            try:
                Path(self.once).touch(exist_ok=False)
            except FileExistsError:
                return
        if self.how == "raise":
            raise ValueError("the model of client 0 is broken")
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "hang":
            time.sleep(600)
        if self.how == "allocate" or (self.how == "allocate for many" and rows > 4):
            np.ones(1 << 50)


class Telling:
    """Least squares whose metrics besides are threads and memory, and which says nothing of test rows."""

    averages = False

    def __init__(self) -> None:
        self.inner = make_learner("least-squares")

    def identity(self) -> Mapping[str, Any]:
        return self.inner.identity()

    def session(self, scenario: Scenario, training: Training, device: str, memory: int | None) -> Any:
        session: Any = self.inner.session(scenario, training, device, memory)
        outcomes = session.outcomes
        told = {"threads": float(torch.get_num_threads()), "memory": float(memory or 0)}
        session.outcomes = lambda stack: [Outcome({**found.metrics, **told}) for found in outcomes(stack)]
        return session
