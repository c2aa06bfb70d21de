"""The main job, prepared: options resolved, the data read, the game made, where results go decided."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

from fedvalue._version import __version__
from fedvalue.cli._backend import where
from fedvalue.cli._measure import small_part, warm_up
from fedvalue.cli.data import usual_partition
from fedvalue.errors import FedvalueWarning, InputError
from fedvalue.federation import FederatedGame
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario, load_scenario
from fedvalue.trace_games import TraceGames
from fedvalue.trainers.base import Trace
from fedvalue.trainers.local import choose_device
from fedvalue.training import Training

__all__ = ["Ask", "Job", "notes_to", "own_modules", "parse_memory", "prepare"]

FORMAT = "fedvalue.run/1"
_SMALL = {"batch": 32, "rate": 0.01}
# What suits a scenario where nothing is said. A few hundred samples per client are too few steps for the
# usual batches of 64 at a rate of 0.001: ten digits clients would reach an accuracy of 0.65, not 0.95.
SUITED: dict[str, dict[str, Any]] = {
    "digits": _SMALL,
    "files": _SMALL,
    "synthetic": {"model": "least-squares"},
    "sent140": {"model": "text-mean"},
}
_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}


@dataclass(frozen=True)
class Ask:
    """What the command line asks for; None where it does not say. `training` holds only what it says."""

    scenario: str
    clients: int | None
    partition: str | None
    samples: int | None
    scenario_options: Mapping[str, Any]
    data_dir: Path | None
    model: str | None
    training: Mapping[str, Any]
    metric: str | None
    replicates: int
    method: str
    budget: int | None
    options: Mapping[str, Any]
    seed: int
    device: str
    memory: int | None
    backend: str = "local"
    backend_options: Mapping[str, Any] = field(default_factory=dict)


class MeteredGame(FederatedGame):
    """A federated game that remembers what was trained for it, by coalition and replicate.

    `here` is the device of this process, where trainings are warmed up that take place here.
    """

    def __init__(self, *args: Any, here: str, trainer: str, **options: Any) -> None:
        super().__init__(*args, trainer=trainer, **options)
        self.here = here
        self.trained: dict[tuple[int, int], Outcome] = {}
        self.warm = trainer != "local"

    def evaluate(self, masks: Any, replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        self._warm_up()
        for mask, outcome in super().evaluate(masks, replicate):
            self.trained[mask, replicate] = outcome
            yield mask, outcome

    def trace(self) -> Trace:
        if self.averages:
            self._warm_up()
        return super().trace()

    def trace_games(self, keep: Callable[[int, Outcome], None] | None = None) -> TraceGames:
        def note(mask: int, outcome: Outcome) -> None:
            self.trained[mask, 0] = outcome
            if keep is not None:
                keep(mask, outcome)

        return super().trace_games(note)

    def _warm_up(self) -> None:
        if not self.warm:
            self.warm = True
            warm_up(self.scenario, self.learner, self.training, self.here)


@dataclass(frozen=True)
class Job:
    """Everything that is known before the first training."""

    ask: Ask
    partition: str
    model: str
    device: str
    scenario: Scenario
    game: MeteredGame

    @property
    def where(self) -> str:
        """Where trainings run, in words."""
        return where(self.game.trainer, self.device)

    def close(self) -> None:
        """Ends what the trainer may have started."""
        if hasattr(self.game.trainer, "close"):
            self.game.trainer.close()

    def identity(self) -> dict[str, Any]:
        """What makes two runs the same run: they have the same values."""
        return {
            "game_id": self.game.id,
            "metric": self.game.metric,
            "replicates": self.game.replicates,
            "method": self.ask.method,
            "budget": self.ask.budget,
            "options": dict(self.ask.options),
            "seed": self.ask.seed,
        }

    def record(self) -> dict[str, Any]:
        """The configuration as it was resolved, for run.json."""
        ask = self.ask
        return {
            "format": FORMAT,
            **self.identity(),
            "scenario": {
                "name": ask.scenario,
                "partition": self.partition,
                "clients": list(self.scenario.names),
                "samples": ask.samples,
                "options": {
                    key: str(v) if isinstance(v, Path) else v for key, v in ask.scenario_options.items()
                },
                "data_dir": None if ask.data_dir is None else str(ask.data_dir),
                "fingerprint": self.scenario.fingerprint,
            },
            "model": self.model,
            "learner": dict(self.game.learner.identity()),
            "training": asdict(self.game.training),
            "backend": ask.backend,
            "device": getattr(self.game.trainer, "device", self.device),
            "memory": ask.memory,
            "versions": {
                "fedvalue": __version__,
                "python": python_version(),
                **{name: version(name) for name in ("numpy", "torch", "scikit-learn")},
            },
        }


def prepare(ask: Ask) -> Job:
    """Reads the data and makes the game; whatever is wrong with the options is noticed here."""
    partition = usual_partition(ask.scenario, ask.partition)
    rules = {**SUITED.get(ask.scenario, {}), **ask.training}
    model = str(ask.model or rules.pop("model", "mlp"))
    rules.pop("model", None)
    training = Training(**rules, seed=ask.seed)
    scenario = load_scenario(
        ask.scenario,
        clients=ask.clients,
        partition=partition,
        samples=ask.samples,
        seed=ask.seed,
        data_dir=ask.data_dir,
        **ask.scenario_options,
    )
    # A cluster has devices of its own; here a model is only looked at, and measured for a plan.
    device = choose_device(ask.device if ask.backend == "local" else "cpu")
    game = MeteredGame(
        scenario,
        model,
        training,
        metric=ask.metric,
        replicates=ask.replicates,
        here=device,
        trainer=ask.backend,
        device=device if ask.backend == "local" else ask.device,
        memory=ask.memory,
        **ask.backend_options,
    )
    # A model that does not go with the data or the rules is refused here, on a few rows.
    game.learner.session(small_part(scenario, training.batch), training, device, ask.memory)
    return Job(ask, str(partition), model, device, scenario, game)


def parse_memory(text: str | None) -> int | None:
    """4GB, 500 MB, 2GiB or plain bytes.

    >>> parse_memory("4GB"), parse_memory("1.5 GiB"), parse_memory("1000000")
    (4000000000, 1610612736, 1000000)
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", text.lower())
    count = int(float(found[1]) * _UNITS[found[2]]) if found and found[2] in _UNITS else 0
    if count < 1_000_000:
        raise InputError(f"Memory is written as 4GB, 500MB or 2GiB, at least 1MB. Got {text!r}.")
    return count


@contextmanager
def own_modules() -> Iterator[None]:
    """Modules in the current folder can be imported, for --model package.module:factory."""
    here = str(Path.cwd())
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        yield
    finally:
        if added and here in sys.path:
            sys.path.remove(here)


@contextmanager
def notes_to(show: Callable[[str], None]) -> Iterator[None]:
    """Warnings of fedvalue itself are shown as notes, each once."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", FedvalueWarning)
        usual = warnings.showwarning
        said: set[str] = set()

        def note(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
            if not issubclass(category, FedvalueWarning):
                usual(message, category, *rest, **named)
            elif str(message) not in said:
                said.add(str(message))
                show(str(message))

        warnings.showwarning = note
        yield
