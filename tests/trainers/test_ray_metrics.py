"""Metrics of one's own travel to the workers of Ray."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="needs the extra ray")

from federations import QUICK, digits
from numpy.typing import NDArray
from ray_help import shared_ray

import fedvalue as fv
from fedvalue.errors import UtilityError
from fedvalue.games import FederatedGame

pytestmark = [pytest.mark.usefixtures("one_thread", "all_untrained_models"), pytest.mark.slow]

Array = NDArray[Any]


@pytest.fixture(autouse=True)
def _ray() -> None:
    shared_ray()


def test_workers_compute_it_as_this_process_does() -> None:
    two = 2

    def top_two(logits: Array, labels: Array) -> float:
        return float((np.argsort(logits, axis=1)[:, -two:] == labels[:, None]).any(1).mean())

    scenario = digits((20, 30))
    here = FederatedGame(scenario, "linear", QUICK, metric=top_two, device="cpu")
    there = FederatedGame(scenario, "linear", QUICK, metric=top_two, trainer="ray", workers=1)
    found, wanted = (dict(game.evaluate(range(4))) for game in (there, here))
    assert there.stored_as == here.stored_as
    for mask, outcome in wanted.items():
        assert found[mask].metrics == pytest.approx(outcome.metrics, abs=1e-6)
        assert found[mask].backend == "ray"


def test_what_goes_wrong_there_is_told_here() -> None:
    def fails(logits: Array, labels: Array) -> float:
        raise ZeroDivisionError("no sales")

    metric = fv.Metric("fails", fails)
    game = FederatedGame(digits((20, 30)), "linear", QUICK, metric=metric, trainer="ray", workers=1)
    with pytest.raises(UtilityError, match="The metric 'fails' raised ZeroDivisionError: no sales"):
        fv.value(game, "exact")
