"""Models that draw random numbers while they are made: the same for a seed, whatever was drawn before."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedvalue as fv
from fedvalue.store import fingerprint


def by_numpy() -> nn.Module:
    layer = nn.Linear(64, 10)
    layer.weight.data = torch.from_numpy(np.random.normal(size=(10, 64)).astype("f4"))  # noqa: NPY002
    return layer


def by_random() -> nn.Module:
    layer = nn.Linear(64, 10)
    nn.init.constant_(layer.bias, random.random())
    return layer


def by_torch() -> nn.Module:
    return nn.Linear(64, 10)


def with_generator() -> nn.Module:
    layer = nn.Linear(64, 10)
    nn.init.constant_(layer.bias, float(np.random.default_rng().normal()))
    return layer


def game(make: Callable[[], nn.Module], seed: int = 0, **options: Any) -> fv.FederatedGame:
    scenario = fv.load_scenario("digits", clients=3, samples=20, test_size=40)
    rules = fv.Training(rounds=1, epochs=1, seed=seed)
    return fv.FederatedGame(scenario, lambda s: nn.Sequential(nn.Flatten(), make()), rules, **options)


def draw() -> tuple[float, float, float]:
    return float(np.random.normal()), random.random(), float(torch.rand(1))  # noqa: NPY002


@pytest.mark.parametrize("make", [by_numpy, by_random, by_torch])
def test_the_same_seed_makes_the_same_model(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    """A run that was stopped, and one that goes on in a process that has drawn other numbers."""
    first = game(make)
    before = fv.value(first, "exact").mean
    draw()
    second = game(make)
    half = dict(second.evaluate([0b001, 0b111]))
    assert first.id == second.id
    assert not second.doubts
    assert {m: o.metrics for m, o in half.items()} == {
        m: o.metrics for m, o in first.evaluate([0b001, 0b111])
    }
    draw()
    resumed = fv.value(game(make), "exact", store=tmp_path / "store.db")
    assert resumed.mean.tolist() == before.tolist()
    assert game(make, seed=1).id != first.id


def test_making_a_model_leaves_random_numbers_as_they_were() -> None:
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    torch.manual_seed(3)
    expected = draw()
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    torch.manual_seed(3)
    game(by_numpy)
    assert draw() == expected


def test_a_generator_without_a_seed_is_a_doubt(tmp_path: Path) -> None:
    found = game(with_generator)
    assert found.doubts == (
        "random numbers that with_generator draws without a seed (np.random.default_rng())",
    )
    with pytest.raises(fv.GameError, match=r"default_rng\(\).*key="):
        fv.value(found, "exact", store=tmp_path / "store.db")


def test_random_numbers_of_numpy_in_a_forward_pass_are_a_doubt() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 10)
            self.start = np.random.normal()  # noqa: NPY002 - seeded, because it is drawn while the model is made

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scaled: torch.Tensor = self.layer(x) * (1 + 0 * random.random())
            return scaled

    assert game(Noisy).doubts == ("random numbers that forward draws without a seed (random.random)",)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTM(4, 4, bidirectional=True),
        lambda: nn.TransformerEncoderLayer(4, 2, activation="gelu"),
        lambda: nn.TransformerEncoderLayer(4, 2, activation=nn.functional.softplus),
    ],
)
def test_layers_of_torch_are_no_doubt(make: Callable[[], nn.Module]) -> None:
    """Recurrent ones hold weak references to their parameters, others functions of compiled modules without a file."""

    def digest(seed: int) -> str:
        torch.manual_seed(seed)
        found, doubts = fingerprint(make())
        assert not doubts
        return found

    assert digest(0) == digest(0) != digest(1)
