"""What every trainer must do, and what the local one does besides.

A further backend joins the conformance suite by an entry in BACKENDS.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedvalue as fv
from federations import (
    QUICK,
    CountingLearner,
    Metrics,
    digits,
    line,
    outcomes,
    words,
)
from fedvalue.coalition import members
from fedvalue.errors import InputError
from fedvalue.federation import FederatedGame
from fedvalue.learners import make_learner
from fedvalue.outcome import METRICS
from fedvalue.scenarios.base import Dataset, Scenario
from fedvalue.trainers import TRAINERS, make_trainer
from fedvalue.trainers.base import Trainer
from fedvalue.trainers.local import LocalTrainer, choose_device
from fedvalue.training import Training, canonical_masks, data_weights, waves

pytestmark = pytest.mark.usefixtures("one_thread")


def flower(memory: int | None) -> Trainer:
    from flower_fakes import FakeFederation

    return FakeFederation(memory)


def ray(memory: int | None) -> Trainer:
    from fedvalue.trainers.ray import RayTrainer
    from ray_help import shared_ray

    shared_ray()
    return RayTrainer(workers=1, memory=memory)  # one, so that seconds add up to those on the clock


# name → a fresh trainer, with the given bound on memory
BACKENDS: dict[str, Callable[[int | None], Trainer]] = {
    "local": lambda memory: LocalTrainer("cpu", memory),
    "flower": flower,
    "ray": ray,
}

# Clients 0 to 2 have data, 3 and 4 have none, 5 is a copy of 1.
SIZES = (37, 20, 64, 0)
WITH_DATA, EMPTY, COPIES = (0, 1, 2, 5), (3, 4), (1, 5)


def crowd(scenario: Callable[..., Scenario]) -> Scenario:
    return scenario((*SIZES, 0), copy_of=1)


CASES = {
    "mlp": ("mlp", lambda: crowd(digits)),
    "linear regression": ("linear", lambda: crowd(line)),
    "text": ("text-mean", lambda: words((*SIZES, 0))),
    "least squares": ("least-squares", lambda: crowd(line)),
    "xgboost": ("xgboost", lambda: crowd(line)),
}
FLOAT = {"abs": 1e-5, "rel": 1e-5}  # sums in float32, in another order


class Conforming:
    """A backend with something to train."""

    def __init__(self, backend: str, case: str) -> None:
        self.backend = backend
        self.model, build = CASES[case]
        self.scenario = build()
        self.training = QUICK
        self.n = self.scenario.n

    def trainer(self, memory: int | None = None) -> Trainer:
        return BACKENDS[self.backend](memory)

    def train(self, masks: Sequence[int], memory: int | None = None, **changes: Any) -> dict[int, Metrics]:
        """By a fresh trainer."""
        rules = Training(**{**self.training.__dict__, **changes})
        return outcomes(self.trainer(memory), self.scenario, self.model, rules, masks)

    def game(self, **options: Any) -> FederatedGame:
        metric = "loss" if self.scenario.classes else "mse"
        return FederatedGame(
            self.scenario, self.model, self.training, metric=metric, trainer=self.trainer(), **options
        )


@cache
def conforming(backend: str, case: str) -> Conforming:
    if case == "xgboost":
        pytest.importorskip("xgboost", reason="needs the extra xgboost")
    if backend == "flower":
        pytest.importorskip("flwr", reason="needs the extra flower")
        if case in ("least squares", "xgboost"):
            pytest.skip("models in a Flower federation are sets of named arrays")
    if backend == "ray":
        pytest.importorskip("ray", reason="needs the extra ray")
    return Conforming(backend, case)


PAIRS = [
    pytest.param((b, c), id=f"{b}-{c}", marks=[pytest.mark.slow] if b == "ray" else [])
    for b in BACKENDS
    for c in CASES
]


@pytest.fixture(params=PAIRS)
def it(request: pytest.FixtureRequest) -> Conforming:
    return conforming(*request.param)


@cache
def everything(it: Conforming) -> dict[int, Metrics]:
    """All coalitions, asked at once."""
    return it.train(range(1 << it.n))


def copies_of(it: Conforming) -> tuple[int, int] | None:
    return COPIES if it.n > 5 else None


class TestEveryTrainer:
    def test_every_registered_trainer_is_checked_here(self) -> None:
        assert TRAINERS.keys() <= BACKENDS.keys()

    def test_the_empty_coalition_is_the_initial_model(self, it: Conforming) -> None:
        session = make_learner(it.model).session(it.scenario, it.training, "cpu", None)
        assert everything(it)[0] == session.evaluate(session.initial())[0]

    def test_coalitions_of_clients_without_data_are_the_initial_model(self, it: Conforming) -> None:
        initial = everything(it)[0]
        for mask in (0b01000, 0b10000, 0b11000):
            assert everything(it)[mask] == initial
        assert it.train([0b11000]) == {0b11000: initial}

    def test_a_client_without_data_changes_nothing(self, it: Conforming) -> None:
        found = everything(it)
        for mask in range(1 << it.n):
            assert found[mask] == found[mask & ~0b11000]

    def test_others_change_something(self, it: Conforming) -> None:
        found = everything(it)
        for i in range(3):
            assert found[1 << i] != found[0]
            assert found[0b111] != found[0b111 ^ 1 << i]

    def test_the_same_seed_gives_the_same_bytes(self, it: Conforming) -> None:
        masks = [0, 3, 7, 6]
        assert it.train(masks) == it.train(masks)

    def test_another_seed_gives_other_models(self, it: Conforming) -> None:
        if it.model == "least-squares":
            pytest.skip("least squares draw nothing")
        one, other = it.train([3, 7]), it.train([3, 7], seed=it.training.seed + 1)
        assert all(one[mask] != other[mask] for mask in (3, 7))

    def test_what_is_asked_together_does_not_matter(self, it: Conforming) -> None:
        """Neither the order nor the company nor the number of calls."""
        found = everything(it)
        trainer = it.trainer()
        backwards = outcomes(trainer, it.scenario, it.model, it.training, [7, 6, 5, 1])
        later = outcomes(trainer, it.scenario, it.model, it.training, [3, 0, 1])
        for mask, metrics in [*backwards.items(), *later.items(), *it.train([7]).items()]:
            assert metrics == pytest.approx(found[mask], **FLOAT)

    def test_memory_bounds_the_waves_and_not_the_result(self, it: Conforming) -> None:
        found = it.train([0, 1, 5, 6, 7], memory=1)
        for mask, metrics in found.items():
            assert metrics == pytest.approx(everything(it)[mask], **FLOAT)

    def test_every_coalition_comes_once(self, it: Conforming) -> None:
        asked = [7, 0, 7, 3, 0b11011, 3]
        found = list(it.trainer().train(it.scenario, make_learner(it.model), it.training, asked))
        assert sorted(mask for mask, _ in found) == sorted(set(asked))

    def test_nothing_asked_nothing_trained(self, it: Conforming) -> None:
        assert list(it.trainer().train(it.scenario, make_learner(it.model), it.training, [])) == []

    def test_outcomes_say_where_and_how_long(self, it: Conforming) -> None:
        began = time.perf_counter()
        found = dict(it.trainer().train(it.scenario, make_learner(it.model), it.training, range(8)))
        took = time.perf_counter() - began
        for outcome in found.values():
            assert outcome.backend == it.backend
            assert outcome.device == "cpu"
            assert outcome.seconds > 0
        seconds = sum(outcome.seconds for outcome in found.values())
        # What Ray itself takes for a task, some milliseconds, is no cost of a training.
        assert (0 if it.backend == "ray" else 0.2 * took) < seconds <= took

    def test_all_metrics_of_the_task_come(self, it: Conforming) -> None:
        for metrics in everything(it).values():
            assert metrics.keys() == set(METRICS[it.scenario.task])

    def test_values_of_clients_without_data_and_of_copies(self, it: Conforming) -> None:
        phi = fv.value(it.game(), "exact").mean
        assert [phi[i] for i in EMPTY] == [0.0, 0.0]
        assert all(phi[i] != 0 for i in range(3))
        if copies := copies_of(it):
            # Their utilities are equal to the bit; the formula adds them up in another order.
            assert phi[copies[0]] == pytest.approx(phi[copies[1]], rel=1e-14)

    def test_the_three_formulas_agree(self, it: Conforming) -> None:
        found = fv.compare(it.game(), ["exact", "exact-cc", "exact-perm"])
        for other in ("exact-cc", "exact-perm"):
            assert found[other].mean == pytest.approx(found["exact"].mean, abs=1e-12)

    def test_copies_take_each_others_place(self, it: Conforming) -> None:
        if (copies := copies_of(it)) is None:
            pytest.skip("no copies among these clients")
        found, (one, other) = everything(it), (1 << copies[0], 1 << copies[1])
        for mask in range(1 << it.n):
            if mask & one and not mask & other:
                assert found[mask] == found[mask ^ one ^ other]
        # Twice the data weighs more, but only beside others: two equal models average to themselves.
        assert found[one | 1] != found[one | other | 1]

    def test_trainings_may_be_read_side_by_side(self, it: Conforming) -> None:
        """Two readers of one trainer, under different rules: neither gets the other's models."""
        trainer, learner = it.trainer(1), make_learner(it.model)
        other = Training(**{**it.training.__dict__, "seed": 9})
        masks = [0, 1, 2, 6, 7]
        readers = [trainer.train(it.scenario, learner, rules, masks) for rules in (it.training, other)]
        mixed = list(zip(*readers, strict=True))
        for column, seed in ((0, it.training.seed), (1, 9)):
            alone = it.train(masks, memory=1, seed=seed)
            assert {pair[column][0]: dict(pair[column][1].metrics) for pair in mixed} == alone

    def test_a_recorded_run_is_the_training_of_all(self, it: Conforming) -> None:
        learner = make_learner(it.model)
        if not learner.averages:
            with pytest.raises(InputError, match="Gradient methods do not apply"):
                it.trainer().trace(it.scenario, learner, it.training)
            return
        trace = it.trainer().trace(it.scenario, learner, it.training)
        assert trace.clients == tuple(i for i, data in enumerate(it.scenario.clients) if len(data))
        assert len(trace.starts) == len(trace.locals) == it.training.rounds
        found = trace.session.evaluate(trace.end)[0]
        assert found == pytest.approx(everything(it)[(1 << it.n) - 1], **FLOAT)


class TestLocalTrainer:
    def test_round_one_is_trained_once_per_client(self) -> None:
        learner = CountingLearner("mlp")
        rules = Training(rounds=3, epochs=1, batch=16)
        found = dict(LocalTrainer("cpu").train(crowd(digits), learner, rules, range(64)))
        assert len(found) == 64
        # Clients 0 and 2 take part or not, of the copies 1 and 5 none, one or both.
        different = set(canonical_masks(crowd(digits), range(64)).values())
        assert len(different) == 2 * 2 * 3
        members_in_all = sum(mask.bit_count() for mask in different)
        first = [client for client, t in learner.trained if t == 1]
        assert sorted(first) == list(WITH_DATA)
        for t in (2, 3):
            assert sum(r == t for _, r in learner.trained) == members_in_all
        assert len(learner.trained) == len(WITH_DATA) + 2 * members_in_all

    def test_a_later_call_does_not_repeat_round_one(self) -> None:
        learner, trainer = CountingLearner("mlp"), LocalTrainer("cpu")
        one = outcomes(trainer, digits(), learner, QUICK, [0b0111])
        assert sum(t == 1 for _, t in learner.trained) == 3
        again = outcomes(trainer, digits(), learner, QUICK, [0b0101, 0b0111])
        assert sum(t == 1 for _, t in learner.trained) == 3
        assert len(learner.sessions) == 1
        assert again[0b0111] == pytest.approx(one[0b0111], abs=1e-5)

    def test_a_coalition_of_one_in_one_round_is_its_first_training(self) -> None:
        learner = CountingLearner("mlp")
        outcomes(LocalTrainer("cpu"), digits(), learner, Training(rounds=1, epochs=1), range(16))
        assert learner.trained == [(0, 1), (1, 1), (2, 1), (3, 1)]

    def test_tiny_memory_trains_coalition_after_coalition(self) -> None:
        learner = CountingLearner("mlp")
        found = LocalTrainer("cpu", memory=1).train(digits(), learner, QUICK, [1, 2, 3, 7])
        order = [mask for mask, _ in found]
        assert learner.sessions[0].rows == 1
        assert order == [1, 2, 3, 7]
        assert learner.together == [3, 1, 1, 2, 3]  # round 1 of three clients, then round 2 of each

    def test_outcomes_arrive_wave_by_wave(self) -> None:
        """What is finished can be stored before the next wave begins."""
        learner = CountingLearner("mlp")
        found = LocalTrainer("cpu", memory=1).train(digits(), learner, QUICK, [3, 12])
        assert next(found)[0] == 3
        assert len(learner.trained) == 4 + 2
        assert next(found)[0] == 12
        assert len(learner.trained) == 4 + 2 + 2

    def test_another_scenario_learner_or_rule_opens_another_session(self) -> None:
        learner, trainer = CountingLearner("mlp"), LocalTrainer("cpu")
        for scenario, rules in (
            (digits(), QUICK),
            (digits(), QUICK),
            (digits((20, 20)), QUICK),
            (digits((20, 20)), Training(rounds=1)),
        ):
            outcomes(trainer, scenario, learner, rules, [1])
        assert len(learner.sessions) == 3

    @pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
    def test_an_absent_device_is_refused(self, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
        with pytest.raises(InputError, match=rf"'{device}' was asked for and this machine has none"):
            list(FederatedGame(digits(), "mlp", QUICK, device=device).evaluate([1]))

    def test_devices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for cuda, mps, chosen in ((True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")):
            monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
            monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
            assert choose_device("auto") == chosen
            assert choose_device("cpu") == "cpu"
        with pytest.raises(InputError, match=r"must be auto, cpu, cuda or mps. Got 'tpu'"):
            choose_device("tpu")

    def test_numbered_devices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        assert [choose_device(name) for name in ("cuda", "cuda:1", "cpu:0")] == ["cuda", "cuda:1", "cpu"]
        for absent, says in {
            "cuda:9": r"'cuda:9' was asked for and this machine has 2 of that kind, counted from 0",
            "cpu:1": r"has 1 of that kind",
            "cuda:": r"Got 'cuda:'. One of several is written cuda:1",
            "cuda:x": r"Got 'cuda:x'",
        }.items():
            with pytest.raises(InputError, match=says):
                choose_device(absent)

    def test_unknown_trainers_are_answered_with_the_known_ones(self) -> None:
        with pytest.raises(
            InputError, match=r"Unknown trainer 'locl'. Did you mean 'local'\? Trainers: local, flower"
        ):
            make_trainer("locl")
        with pytest.raises(InputError, match=r"Unknown trainer 'spaceship'. Trainers: local, flower"):
            FederatedGame(digits(), trainer="spaceship")

    def test_a_trainer_of_ones_own_is_taken_as_it_is(self) -> None:
        mine = LocalTrainer("cpu")
        assert FederatedGame(digits(), trainer=mine).trainer is mine
        with pytest.raises(InputError, match=r"options device, memory go with the name.*LocalTrainer"):
            FederatedGame(digits(), trainer=mine, device="cpu", memory=1)


# Which client has which data: 0 stands for none, equal numbers for equal data.
HOLDINGS = st.lists(st.integers(0, 3), min_size=1, max_size=7).filter(any)


def holding(kinds: Sequence[int]) -> Scenario:
    """Clients by the kind of their data."""
    sets = [Dataset(np.full((kind, 1), kind), np.arange(kind) % 2) for kind in range(4)]
    names = tuple(f"c{i}" for i in range(len(kinds)))
    test = Dataset([[0.0], [1.0]], [0.0, 1.0])
    return Scenario("held", tuple(sets[kind] for kind in kinds), names, test, "regression", 0)


class TestRules:
    @given(HOLDINGS)
    def test_canonical_coalitions_hold_the_same_data(self, kinds: list[int]) -> None:
        masks = range(1 << len(kinds))
        canonical = canonical_masks(holding(kinds), masks)
        assert list(canonical) == list(masks)
        for mask, trained in canonical.items():
            assert sorted(kinds[i] for i in members(trained)) == sorted(
                kinds[i] for i in members(mask) if kinds[i]
            )
            assert canonical[trained] == trained

    @given(HOLDINGS)
    def test_coalitions_with_the_same_data_are_one_training(self, kinds: list[int]) -> None:
        canonical = canonical_masks(holding(kinds), range(1 << len(kinds)))
        data = {mask: tuple(sorted(kinds[i] for i in members(mask) if kinds[i])) for mask in canonical}
        assert len(set(canonical.values())) == len(set(data.values()))
        assert all(canonical[mask] == 0 for mask in canonical if not data[mask])

    @given(st.lists(st.integers(1, 2**12), unique=True, max_size=40), st.integers(1, 50))
    def test_waves_hold_everything_once_and_keep_to_the_bound(self, masks: list[int], rows: int) -> None:
        found = list(waves(masks, rows))
        assert sorted(mask for wave in found for mask in wave) == sorted(masks)
        for wave in found:
            assert wave
            assert len(wave) == 1 or sum(mask.bit_count() for mask in wave) <= rows
        for wave, following in pairwise(found):  # none could have held more
            assert sum(mask.bit_count() for mask in wave) + following[0].bit_count() > rows

    def test_data_weights(self) -> None:
        scenario = digits((10, 30, 60))
        assert data_weights(scenario, [(0,), (0, 1), (0, 1, 2)]) == [1.0, 0.25, 0.75, 0.1, 0.3, 0.6]

    def test_replicates_have_their_own_seeds(self) -> None:
        seeds = [QUICK.replicate(r).seed for r in range(50)]
        assert QUICK.replicate(0) is QUICK
        assert len(set(seeds)) == 50
        assert QUICK.replicate(7) == QUICK.replicate(7)
        rest = {k: v for k, v in QUICK.replicate(7).__dict__.items() if k != "seed"}
        assert rest == {k: v for k, v in QUICK.__dict__.items() if k != "seed"}

    @pytest.mark.parametrize(
        ("rules", "says"),
        [
            ({"rounds": 0}, "rounds must be a whole number of at least 1. Got 0"),
            ({"epochs": 1.5}, "epochs must be a whole number"),
            ({"batch": -1}, "batch must be"),
            ({"batch": None}, "batch must be"),
            ({"rounds": float("nan")}, "rounds must be"),
            ({"rounds": "3"}, "rounds must be"),
            ({"seed": -1}, "seed must be a whole number of at least 0"),
            ({"seed": 0.5}, "seed must be"),
            ({"seed": 1 << 64}, "seed must be"),
            ({"rate": 0.0}, "rate must be positive"),
            ({"rate": float("inf")}, "rate must be a finite number"),
            ({"rate": "fast"}, "rate must be a finite number"),
            ({"mu": float("nan"), "algorithm": "fedprox"}, "mu must be a finite number"),
            ({"mu": -0.1, "algorithm": "fedprox"}, "mu at least 0"),
            ({"mu": 0.1}, "mu belongs to fedprox"),
            ({"momentum": 1.0, "optimizer": "sgd"}, "momentum in"),
            ({"momentum": 0.9}, "momentum belongs to sgd. Got momentum=0.9 with adam"),
            ({"optimizer": "adamw"}, r"optimizer must be one of \('adam', 'sgd'\)"),
            ({"algorithm": "fedavgg"}, "algorithm must be one of"),
        ],
        ids=str,
    )
    def test_impossible_rules_are_refused(self, rules: dict[str, Any], says: str) -> None:
        with pytest.raises(InputError, match=says):
            Training(**rules)

    def test_numbers_of_any_type_are_the_same_rules(self) -> None:
        plain = Training(rounds=3, batch=8, rate=1.0, seed=2)
        other = Training(rounds=np.int64(3), batch=8.0, rate=1, seed=np.uint8(2))  # type: ignore[arg-type]
        assert other == plain
        assert repr(other) == repr(plain)
