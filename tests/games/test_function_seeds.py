"""Functions of one's own that take a seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from marks import first_fast

import fedvalue as fv
from fedvalue.store import read_history


def lucky(coalitions: Sequence[tuple[int, ...]], seed: int) -> list[float]:
    return [len(c) + 0.1 * float(np.random.default_rng([seed, *c]).standard_normal()) for c in coalitions]


def lucky_one(coalition: tuple[int, ...], *, seed: int = 0) -> float:
    return lucky([coalition], seed)[0]


TABLE = np.array([lucky([tuple(i for i in range(4) if m >> i & 1) for m in range(16)], s) for s in range(6)])


@pytest.mark.parametrize(("fn", "batch"), [(lucky, True), (lucky_one, False)])
@pytest.mark.parametrize("jobs", first_fast([1, 2]))
def test_a_function_is_called_with_every_seed(fn, batch: bool, jobs: int) -> None:  # type: ignore[no-untyped-def]
    game = fv.FunctionGame(4, fn, batch=batch, jobs=jobs)
    assert game.seeds is None
    for seed in (0, 3):
        found = {mask: outcome.metrics["utility"] for mask, outcome in game.evaluate(range(16), seed)}
        assert [found[mask] for mask in range(16)] == pytest.approx(TABLE[seed])


def test_methods_spread_trainings_over_seeds_and_a_store_keeps_them(tmp_path: Path) -> None:
    game = fv.FunctionGame(4, lucky, key="lucky")
    first = fv.value(game, "surrogate", budget=12, seeds=3, store=tmp_path / "s.db")
    again = fv.value(game, "surrogate", budget=12, seeds=3, store=tmp_path / "s.db")
    assert first.seeds == 3
    assert again.cost is not None
    assert again.cost.trained == 0
    with fv.UtilityStore(tmp_path / "s.db") as store:
        stored = [store.read(game.id, None, seed) for seed in range(3)]
    for seed, outcomes in enumerate(stored):
        assert all(o.metrics["utility"] == pytest.approx(TABLE[seed, m]) for m, o in outcomes.items())
    assert all(stored)


def test_replicates_are_seeds_too() -> None:
    game = fv.FunctionGame(4, lucky, replicates=6)
    assert game.seeds == 1
    assert fv.value(game, "exact").mean == pytest.approx(fv.value(TABLE.mean(0), "exact").mean)


def test_without_such_a_parameter_there_is_one_seed() -> None:
    assert fv.FunctionGame(2, lambda coalitions: [0.0 for _ in coalitions]).seeds == 1
    assert (
        fv.FunctionGame(2, lambda seed: [0.0 for _ in seed]).seeds == 1
    )  # which is what takes the coalitions
    assert fv.FunctionGame(2, max).seeds == 1


def test_no_clients_are_worth_the_same_by_every_method(tmp_path: Path) -> None:
    """The mean over seeds, which costs no trainings, also where values are of one seed; and a store holds one meaning."""
    game, store = fv.FunctionGame(4, lucky, key="lucky"), tmp_path / "s.db"
    mean = float(np.mean([lucky([()], seed)[0] for seed in range(16)]))
    for method, options in [
        ("ipss", {"budget": 8}),
        ("exact", {}),
        ("surrogate", {"budget": 12}),
        ("surrogate", {"budget": 12, "seeds": 1}),
        ("loo", {}),
    ]:
        values = fv.value(game, method, store=store, **options)
        assert values.utility_of_none == pytest.approx(mean, abs=1e-12)
        assert values.empty_label == "no clients (mean of 16 seeds)"
        if method in ("exact", "surrogate"):
            assert values.utility_of_all is not None
            assert values.mean.sum() == pytest.approx(values.utility_of_all - mean)
        with fv.UtilityStore(store) as opened:
            assert np.mean(read_history(opened, values).utilities[0]) == pytest.approx(mean)
