"""What every trainer must do, and what the local one does besides.

A further backend joins the conformance suite by an entry in BACKENDS.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from federations import (
    QUICK,
    CountingLearner,
    digits,
    line,
    outcomes,
    words,
)
from hypothesis import given
from hypothesis import strategies as st
from marks import first_fast

import fedvalue as fv
from fedvalue.coalitions import members
from fedvalue.errors import InputError
from fedvalue.games import FederatedGame
from fedvalue.learners import make_learner
from fedvalue.learners.metrics import METRICS
from fedvalue.scenarios import Dataset, Scenario, load_scenario
from fedvalue.testing import check_game, check_trainer
from fedvalue.trainers import TRAINERS, LocalTrainer, Trainer, choose_device, make_trainer
from fedvalue.training import Pace, Training, canonical_masks, data_weights, waves

pytestmark = pytest.mark.usefixtures("one_thread")


def flower(memory: int | None) -> Trainer:
    from flower_fakes import FakeFederation

    return FakeFederation(memory)


def ray(memory: int | None) -> Trainer:
    from ray_help import shared_ray

    from fedvalue.trainers.ray import RayTrainer

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


class Conforming:
    """A backend with something to train."""

    def __init__(self, backend: str, case: str) -> None:
        self.backend = backend
        self.model, build = CASES[case]
        in_steps = case not in ("least squares", "xgboost")  # which know rounds only
        self.rules = QUICK if in_steps else Training(rounds=QUICK.rounds)
        self.scenario = build()

    def trainer(self, memory: int | None = None) -> Trainer:
        return BACKENDS[self.backend](memory)

    def game(self) -> FederatedGame:
        metric = "loss" if self.scenario.classes else "mse"
        return FederatedGame(self.scenario, self.model, self.rules, metric=metric, trainer=self.trainer())


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


# One kind of models locally and one elsewhere are tried at once; the rest takes longer.
QUICKLY = {("local", "least squares")}
PAIRS = [
    pytest.param((b, c), id=f"{b}-{c}", marks=[] if (b, c) in QUICKLY else [pytest.mark.slow])
    for b in BACKENDS
    for c in CASES
]


@pytest.fixture(params=PAIRS)
def it(request: pytest.FixtureRequest) -> Conforming:
    return conforming(*request.param)


class TestEveryTrainer:
    def test_every_registered_trainer_is_checked_here(self) -> None:
        assert TRAINERS.keys() <= BACKENDS.keys()

    def test_it_keeps_to_the_contract(self, it: Conforming) -> None:
        check_trainer(it.trainer, model=it.model, scenario=it.scenario, training=it.rules)

    def test_every_client_with_data_changes_something(self, it: Conforming) -> None:
        """Else the suite could not tell one model from another."""
        learner = make_learner(it.model)
        found = {
            mask: outcome.metrics
            for mask, outcome in it.trainer().train(it.scenario, learner, it.rules, range(1 << it.scenario.n))
        }
        for i in range(3):
            assert found[1 << i] != found[0]
            assert found[0b111] != found[0b111 ^ 1 << i]
        if it.scenario.n > 5:  # twice the data weighs more, beside others
            one, other = (1 << i for i in COPIES)
            assert found[one | 1] != found[one | other | 1]

    def test_outcomes_say_where_and_how_long(self, it: Conforming) -> None:
        began = time.perf_counter()
        found = dict(it.trainer().train(it.scenario, make_learner(it.model), it.rules, range(8)))
        took = time.perf_counter() - began
        for outcome in found.values():
            assert outcome.backend == it.backend
            assert outcome.device == "cpu"
        seconds = sum(outcome.seconds for outcome in found.values())
        # What Ray itself takes for a task, some milliseconds, is no cost of a training.
        assert (0 if it.backend == "ray" else 0.2 * took) < seconds <= took

    def test_all_metrics_of_the_task_come(self, it: Conforming) -> None:
        ((_, outcome),) = it.trainer().train(it.scenario, make_learner(it.model), it.rules, [1])
        assert outcome.metrics.keys() == set(METRICS[it.scenario.task])

    def test_values_of_clients_without_data_and_of_copies(self, it: Conforming) -> None:
        found = fv.compare(it.game(), ["exact", "exact-cc", "exact-perm"])
        phi = found["exact"].mean
        assert [phi[i] for i in EMPTY] == [0.0, 0.0]
        assert all(phi[i] != 0 for i in range(3))
        if it.scenario.n > 5:
            # Their utilities are equal to the bit; the formula adds them up in another order.
            assert phi[COPIES[0]] == pytest.approx(phi[COPIES[1]], rel=1e-14)
        for other in ("exact-cc", "exact-perm"):
            assert found[other].mean == pytest.approx(phi, abs=1e-12)

    @pytest.mark.parametrize("backend", ["local", "flower"])
    def test_the_game_of_it_keeps_to_the_contract_of_games(self, backend: str) -> None:
        check_game(conforming(backend, "linear regression").game())


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
        with pytest.raises(InputError, match=rf"'{device}' was requested, but this machine has none"):
            list(FederatedGame(digits(), "mlp", QUICK, device=device).evaluate([1]))

    def test_devices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        for cuda, mps, chosen in ((True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")):
            monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
            monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
            assert choose_device("auto") == chosen
            assert choose_device("cpu") == "cpu"
        with pytest.raises(InputError, match=r"must be auto, cpu, cuda or mps. Got 'tpu'"):
            choose_device("tpu")

    def test_without_torch_there_is_the_cpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A learner of one's own may need no torch."""
        monkeypatch.setitem(sys.modules, "torch", None)
        assert [choose_device(name) for name in ("auto", "cpu")] == ["cpu", "cpu"]
        with pytest.raises(InputError, match="this machine has none"):
            choose_device("cuda")

    def test_numbered_devices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        assert [choose_device(name) for name in ("cuda", "cuda:1", "cpu:0")] == ["cuda", "cuda:1", "cpu"]
        for absent, says in {
            "cuda:9": r"'cuda:9' was requested, but this machine has 2 of that kind, counted from 0",
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

    @given(
        st.lists(st.tuples(st.integers(1, 2**12), st.integers(0, 2)), unique=True, max_size=40),
        st.integers(1, 50),
    )
    def test_waves_hold_everything_once_and_keep_to_the_bound(
        self, trials: list[tuple[int, int]], rows: int
    ) -> None:
        found = list(waves(trials, rows))
        assert sorted(trial for wave in found for trial in wave) == sorted(trials)
        for wave in found:
            assert wave
            assert len(wave) == 1 or sum(mask.bit_count() for mask, _ in wave) <= rows
        for wave, following in pairwise(found):  # none could have held more
            assert sum(mask.bit_count() for mask, _ in wave) + following[0][0].bit_count() > rows
        seeds = [seed for wave in found for _, seed in wave]
        assert seeds == sorted(seeds)

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
            ({"optimizer": "adamm"}, "Unknown optimizer 'adamm'. Did you mean 'adam'"),
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


class TestWaves:
    """Results are stored as trainings finish, and do not depend on when."""

    @pytest.mark.parametrize(
        ("model", "given"),
        first_fast([
            ("least-squares", {}),
            *((model, {"epochs": 1, "batch": 16, "rate": 0.01, "optimizer": optimizer})
              for model in ("linear", "mlp") for optimizer in ("sgd", "adam")),
        ]),
    )  # fmt: skip
    def test_the_bits_are_the_same_whatever_the_bound(self, model: str, given: dict[str, Any]) -> None:
        scenario = load_scenario("synthetic", clients=4, samples=40, partition="size")
        rules, masks = Training(rounds=2, **given), range(16)
        at_once = outcomes(LocalTrainer("cpu", checkpoint=math.inf), scenario, model, rules, masks)
        for checkpoint in (1e-6, 0.01, 0.05):
            trainer = LocalTrainer("cpu", checkpoint=checkpoint)
            assert outcomes(trainer, scenario, model, rules, masks) == at_once

    @pytest.mark.parametrize("model", first_fast(["mlp", "linear"]))
    @pytest.mark.parametrize("rows", first_fast([3, 1, 20, 65]))
    def test_the_bits_are_the_same_however_many_fit(self, model: str, rows: int) -> None:
        """Classes, and stacks that end anywhere."""
        scenario, masks, learner = digits((40, 30, 20, 33)), range(16), make_learner(model)
        whole, cut = LocalTrainer("cpu", checkpoint=math.inf), LocalTrainer("cpu", checkpoint=math.inf)
        cut._opened(scenario, learner, QUICK).session.rows = rows
        assert outcomes(cut, scenario, learner, QUICK, masks) == outcomes(
            whole, scenario, learner, QUICK, masks
        )

    def test_waves_begin_short_and_grow_to_their_bound(self) -> None:
        pace = Pace(5.0)
        pace.began(10.0, seconds=1.0)
        lengths = []
        for _ in range(5):
            lengths.append(pace.share() * 0.1)
            pace.took(pace.share(), lengths[-1])
        assert lengths == pytest.approx([0.5, 1.0, 2.0, 4.0, 5.0])

    def test_on_an_accelerator_the_first_round_is_taken_for_the_slowest(self) -> None:
        """A stack is ten times as fast as the first round there: then no wave takes longer than the bound."""
        pace = Pace(20.0, "cuda")
        pace.began(10.0, seconds=1.0)
        lengths = []
        for _ in range(4):
            lengths.append(pace.share() * 0.01)
            pace.took(pace.share(), lengths[-1])
        assert lengths == pytest.approx([6.0, 6.0, 12.0, 20.0])
        assert Pace(1.0, "cuda").seconds == 1.0

    @pytest.mark.parametrize(("device", "times"), [("cpu", 8), ("cuda", 20)])
    def test_waves_of_stacks_last_long_beside_the_steps_that_each_repeats(
        self, device: str, times: int
    ) -> None:
        """Three more rounds of four seconds each: waves of 20 s would spend most of it on a few models."""
        pace, bounded = Pace(None, device), Pace(20.0, device)
        for one in (pace, bounded):
            one.began(10.0, seconds=4.0, later_rounds=3)
        assert (pace.seconds, pace.bound) == (times * 12.0, times * 12.0)
        assert (bounded.seconds, bounded.bound) == (20.0, 20.0)  # somebody has said so
        short = Pace(None, "cpu")
        short.began(10.0, seconds=0.01, later_rounds=3)
        assert (short.seconds, short.bound) == (0.5, 20.0)

    def test_a_stack_tells_how_many_rounds_are_left_and_a_loop_does_not(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: list[int] = []
        began = Pace.began

        def noted(pace: Pace, work: float, seconds: float, later_rounds: int = 0) -> None:
            told.append(later_rounds)
            began(pace, work, seconds, later_rounds)

        monkeypatch.setattr(Pace, "began", noted)
        rules = Training(rounds=3, epochs=1, batch=16, rate=0.05)
        for model in ("mlp", "cnn"):  # convolutions are trained one model after the other on a CPU
            dict(LocalTrainer("cpu").train(digits(), make_learner(model), rules, [1, 3]))
        dict(
            LocalTrainer("cpu").train(
                load_scenario("synthetic", clients=3), make_learner("least-squares"), Training(rounds=2), [1]
            )
        )
        assert told == [2, 0, 0]

    def test_a_wave_holds_what_its_time_allows(self) -> None:
        of_masks = {1: 1.0, 2: 1.0, 4: 1.0, 3: 2.0, 7: 50.0, 5: 2.0}
        work = {(mask, 0): passes for mask, passes in of_masks.items()}
        found = [[mask for mask, _ in wave] for wave in waves(list(work), 100, work, lambda: 3.0)]
        assert found == [[1, 2, 4], [3], [5], [7]]  # one that is too long is a wave all the same
        assert len(list(waves(list(work), 100, work, lambda: 50.0))) == 1  # hardly longer

    def test_a_slow_training_is_handed_over_in_the_meantime(self) -> None:
        """Short waves: the first outcomes come long before the last, and round 1 is trained once."""
        learner, handed = CountingLearner("mlp"), []
        trainer = LocalTrainer("cpu", checkpoint=1e-6)
        for mask, _ in trainer.train(digits(), learner, QUICK, range(1, 16)):
            handed.append((mask, len(learner.trained)))
        assert [mask for mask, _ in handed] == sorted(range(1, 16), key=lambda m: (m.bit_count(), m))
        assert [done for _, done in handed[:3]] == [4 + 1, 4 + 2, 4 + 3]  # a wave each, after round 1 of all
        assert sum(t == 1 for _, t in learner.trained) == 4

    @pytest.mark.parametrize("bad", [0, -1, "20", True, math.nan])
    def test_a_bound_that_is_none(self, bad: object) -> None:
        with pytest.raises(InputError, match="checkpoint must be a positive number of seconds"):
            LocalTrainer("cpu", checkpoint=bad)  # type: ignore[arg-type]


def test_threads_that_use_one_game_get_what_one_thread_gets() -> None:
    scenario, rules = digits((40, 30, 20, 10)), Training(rounds=2, epochs=1, batch=16, rate=0.05)
    expected = dict(FederatedGame(scenario, "mlp", rules, device="cpu").evaluate(range(16)))
    game = FederatedGame(scenario, "mlp", rules, device="cpu")
    parts = [[1, 2, 3], [4, 8, 12], [15, 7], [0, 5, 9], [6, 10, 11], [13, 14]]
    with ThreadPoolExecutor(6) as threads:
        found = {
            mask: outcome.metrics
            for part in threads.map(lambda masks: list(game.evaluate(masks)), parts)
            for mask, outcome in part
        }
    assert found == {mask: outcome.metrics for mask, outcome in expected.items()}
