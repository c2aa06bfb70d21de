"""Values of the clients of a federation whose client app stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from logging import INFO
from pathlib import Path
from typing import Any

import numpy as np
from flwr.common import log
from flwr.serverapp import Grid

from fedvalue.errors import InputError, UnavailableError
from fedvalue.federation import FederatedGame
from fedvalue.flower.rest import value_of_those_who_answer
from fedvalue.flower.server import write_values
from fedvalue.flower.settings import MISSING
from fedvalue.run import value
from fedvalue.store import UtilityStore
from fedvalue.trainers.flower_foreign import ForeignApp, ForeignTrainer
from fedvalue.training import Training
from fedvalue.values import Values

__all__ = ["value_foreign"]


def value_foreign(
    grid: Grid,
    *,
    clients: int,
    initial: Mapping[str, Any],
    key: str,
    rounds: int,
    config: Mapping[str, Any] | None = None,
    evaluate: Callable[[Mapping[str, Any]], Mapping[str, float]] | None = None,
    metrics: Mapping[str, str] | None = None,
    method: str = "surrogate",
    budget: int | None = None,
    metric: str = "accuracy",
    seed: int = 0,
    missing: str = "refuse",
    out: str | Path = "fedvalue-results",
    **options: Any,
) -> Values:
    """Trains coalitions by the usual train messages, one model in each, and values the nodes.

    `initial` is the model to start from (a state_dict, or named arrays), `config` what train messages carry.
    `evaluate` measures named arrays on the server: {"accuracy": …}; without it the app's own evaluate function
    does at every node, weighted by its num-examples, `metrics` being its names of "accuracy" and "loss". `key`
    names the game in the store: change it when the app or its data change. When
    nodes stay away, `missing` is "refuse" or "use-known", to value the others. Options are those of FlowerTrainer.
    """
    if missing not in MISSING:
        raise InputError(f"missing must be one of {MISSING}. Got {missing!r}.")
    incidents: list[str] = []
    tell = options.pop("log", lambda text: log(INFO, text))

    def told(text: str) -> None:
        incidents.append(text)
        tell(text)

    arrays = {name: _array(given) for name, given in initial.items()}
    app = ForeignApp(arrays, key, dict(config or {}), evaluate, metrics)
    trainer = ForeignTrainer(grid, app, clients, log=told, **options)
    game = FederatedGame(trainer.scenario, app, Training(rounds=rounds), metric=metric, trainer=trainer)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    with UtilityStore(folder / "store.db") as store:
        try:
            values = value(game, method, budget, seed, store)
        except UnavailableError as error:
            if missing == "refuse":
                raise
            values = value_of_those_who_answer(game, error, method, budget, seed, store)
    known: dict[str, Any] = {"message_rounds": trainer.message_rounds}
    known |= {"incidents": incidents} if incidents else {}
    values = replace(values, details={**values.details, **known})
    write_values(folder, values)
    return values


def _array(given: Any) -> np.ndarray[Any, np.dtype[Any]]:
    return np.asarray(given.detach().cpu().numpy() if hasattr(given, "detach") else given)
