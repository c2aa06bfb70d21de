"""Any store will do: two methods, here on a dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pytest
from federations import QUICK, CountingTrainer, digits

import fedvalue as fv
from fedvalue import Outcome, Store
from fedvalue.store import Registering, agree
from fedvalue.testing import check_store

pytestmark = pytest.mark.usefixtures("one_thread")


class MemoryStore:
    """What a store must do, in a few lines."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], dict[int, Outcome]] = {}

    def read(
        self, game_id: str, masks: Sequence[int] | None = None, replicate: int = 0
    ) -> Mapping[int, Outcome]:
        known = self.kept.get((game_id, replicate), {})
        return {mask: known[mask] for mask in (known if masks is None else masks) if mask in known}

    def append(self, game_id: str, outcomes: Iterable[tuple[int, Outcome]], replicate: int = 0) -> None:
        known = self.kept.setdefault((game_id, replicate), {})
        for mask, outcome in list(outcomes):
            before = known.setdefault(mask, outcome)
            if agree(before.metrics, outcome.metrics):
                known[mask] = before._replace(metrics={**outcome.metrics, **before.metrics})


def test_it_needs_no_more_than_two_methods() -> None:
    store: Store = MemoryStore()
    assert not isinstance(store, Registering)
    check_store(MemoryStore)
    assert [name for name in vars(Store) if not name.startswith("_")] == ["read", "append"]


def test_nothing_is_evaluated_twice() -> None:
    calls: list[tuple[int, ...]] = []

    def utility(coalition: tuple[int, ...]) -> float:
        calls.append(coalition)
        return float(len(coalition)) ** 0.5

    store, game = MemoryStore(), fv.FunctionGame(4, utility, batch=False, key="root")
    first = fv.value(game, "exact", store=store)
    results = fv.compare(game, ["exact", "loo"], store=store)
    assert len(calls) == 16
    assert first.cost is not None
    assert first.cost.trained == 16
    assert results["exact"].mean.tolist() == first.mean.tolist()
    assert results["loo"].cost is not None
    assert results["loo"].cost.trained == 0


def test_replicates_of_a_federation() -> None:
    store, trainer = MemoryStore(), CountingTrainer()
    game = fv.FederatedGame(digits((30, 20)), "linear", QUICK, replicates=2, trainer=trainer)
    values = fv.value(game, "exact", store=store)
    assert sorted(trainer.trained) == sorted([*range(4)] * 2)
    assert fv.value(game, "exact", store=store).mean == pytest.approx(values.mean, abs=0)
    assert len(trainer.trained) == 8
    assert {replicate for _, replicate in store.kept} == {0, 1}


def top_two(logits: np.ndarray, labels: np.ndarray) -> float:
    return float((np.argsort(logits, axis=1)[:, -2:] == labels[:, None]).any(1).mean())


def test_a_metric_that_came_later() -> None:
    store, trainer = MemoryStore(), CountingTrainer()
    scenario = digits((30, 20))
    fv.value(fv.FederatedGame(scenario, "linear", QUICK, trainer=trainer), "exact", store=store)
    late = {"metric": top_two, "trainer": trainer}
    with pytest.raises(fv.InputError, match="3 trainings in the store lack the metric 'top_two'"):
        fv.value(fv.FederatedGame(scenario, "linear", QUICK, **late), "exact", store=store)
    again = fv.FederatedGame(scenario, "linear", QUICK, retrain=True, **late)
    fresh = fv.FederatedGame(scenario, "linear", QUICK, metric=top_two)
    values = fv.value(again, "exact", store=store)
    assert values.mean == pytest.approx(fv.value(fresh, "exact").mean, abs=1e-9)
    before = len(trainer.trained)
    assert fv.value(again, "exact", store=store).mean == pytest.approx(values.mean, abs=0)
    assert len(trainer.trained) == before
