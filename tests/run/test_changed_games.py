"""What changes while it is evaluated is never stored under an id that says otherwise."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

import fedvalue as fv

DATA = np.array([1.0, 1.0, 1.0])
NET = np.array([1.0])
TABLE = {0: 5.0, 1: 3.0, 2: 2.0}


def total(coalition: tuple[int, ...]) -> float:
    return float(sum(DATA[i] for i in coalition))


def grow(x: np.ndarray) -> float:
    x *= 1.5
    return float(x[0])


def goes_on_training(coalition: tuple[int, ...]) -> float:
    return grow(NET) + len(coalition)


@functools.cache
def remembered(i: int) -> float:
    return TABLE[i]


def from_memory(coalition: tuple[int, ...]) -> float:
    return sum(remembered(i) for i in coalition)


@pytest.fixture(autouse=True)
def _as_before() -> None:
    DATA[:] = 1.0
    NET[:] = 1.0
    TABLE[0] = 5.0
    remembered.cache_clear()


def test_data_changed_by_an_observer_is_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    def change(evaluation: object) -> None:
        DATA[0] = 9.0

    with pytest.raises(fv.GameError, match="changed while it was evaluated"):
        fv.value(fv.FunctionGame(3, total, batch=False), "exact", store=path, on_outcome=change)
    DATA[:] = 1.0
    assert fv.value(fv.FunctionGame(3, total, batch=False), "exact", store=path).mean.tolist() == [1, 1, 1]


def test_a_model_that_goes_on_training_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    game = fv.FunctionGame(3, goes_on_training, batch=False)
    with pytest.raises(fv.GameError, match="make a new one in every call"):
        fv.value(game, "exact", store=path)
    with fv.UtilityStore(path) as store:
        assert store.read(game.id) == {}


def test_without_a_store_it_is_the_users_own_affair() -> None:
    assert fv.value(fv.FunctionGame(3, goes_on_training, batch=False), "exact").n == 3


def test_a_key_is_the_users_word(tmp_path: Path) -> None:
    game = fv.FunctionGame(3, goes_on_training, batch=False, key="trust me")
    assert fv.value(game, "exact", store=tmp_path / "s.db").n == 3


def test_a_function_that_remembers_is_a_doubt_once_it_does(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    assert fv.value(fv.FunctionGame(3, from_memory, batch=False), "exact", store=path).mean.tolist() == [
        5,
        3,
        2,
    ]
    TABLE[0] = 99.0
    game = fv.FunctionGame(3, from_memory, batch=False)
    assert any("remembers results of earlier calls" in doubt for doubt in game.doubts)
    with pytest.raises(fv.GameError, match="cache_clear"):
        fv.value(game, "exact", store=path)
    remembered.cache_clear()
    assert fv.value(fv.FunctionGame(3, from_memory, batch=False), "exact", store=path).mean.tolist() == [
        99,
        3,
        2,
    ]
