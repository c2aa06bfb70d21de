"""Trainings with several seeds: side by side, and bit for bit what each would be alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from federations import DATA_OF, QUICK, TORCH_MODELS, digits, line
from marks import first_fast
from torch import nn

import fedvalue as fv
from fedvalue.coalitions import Trial
from fedvalue.games import FederatedGame, evaluate_trials
from fedvalue.learners import make_learner
from fedvalue.learners.torch import TorchLearner
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.trainers import LocalTrainer, Trainer, train_trials
from fedvalue.training import Learner, Reseeding, Trace, Training, reseeds, work_of_trials

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = (37, 20, 37, 9)
TRIALS: list[Trial] = [(0b0111, 0), (0b0011, 1), (0b1111, 2), (0b0011, 0), (0b1010, 2), (0, 1), (0b0001, 3)]

Metrics = dict[Trial, dict[str, float]]


def together(
    trainer: Trainer, scenario: Scenario, model: Any, rules: Training, trials: Sequence[Trial]
) -> Metrics:
    found: Metrics = {}
    for trial, outcome in train_trials(trainer, scenario, make_learner(model), rules, trials):
        assert trial not in found
        found[trial] = dict(outcome.metrics)
    assert found.keys() == set(trials)
    return found


def alone(scenario: Scenario, model: Any, rules: Training, trials: Sequence[Trial]) -> Metrics:
    """Every trial by a trainer of its own that knows of no other seed."""
    found: Metrics = {}
    for mask, seed in trials:
        (pair,) = LocalTrainer("cpu").train(scenario, make_learner(model), rules.replicate(seed), [mask])
        found[mask, seed] = dict(pair[1].metrics)
    return found


class OneSeed:
    """A learner of one's own: its sessions hide that they could train several seeds."""

    averages = True

    def __init__(self) -> None:
        self.inner = make_learner("mlp")
        self.opened: list[int] = []

    def identity(self) -> dict[str, Any]:
        return {"model": "one-seed"}

    def session(self, scenario: Scenario, training: Training, device: str, memory: int | None) -> Any:
        self.opened.append(training.seed)
        inner = self.inner.session(scenario, training, device, memory)

        class Plain:
            initial, take, local = inner.initial, inner.take, inner.local
            average, evaluate = inner.average, inner.evaluate
            rows, device = inner.rows, inner.device

        return Plain()


class Frozen(nn.Module):
    """Random features that are not trained: with every seed another module."""

    def __init__(self, trained: bool = False) -> None:
        super().__init__()
        self.features = nn.Linear(64, 24).requires_grad_(trained)
        self.head = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.features(x.flatten(1))))


class Buffered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.rand(64))
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x.flatten(1) * self.scale)


def whole() -> nn.Module:
    return Frozen(trained=True)


def with_dropout() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Dropout(0.3), nn.Linear(16, 10))


def lazy() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(16), nn.ReLU(), nn.Linear(16, 10))


class Driven:
    """A trainer of one's own, which knows of one seed at a time."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, list[int]]] = []

    def train(
        self, scenario: Scenario, learner: Learner, training: Training, masks: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]:
        self.calls.append((training.seed, list(masks)))
        yield from LocalTrainer("cpu").train(scenario, learner, training, masks)

    def trace(self, scenario: Scenario, learner: Learner, training: Training) -> Trace:
        return LocalTrainer("cpu").trace(scenario, learner, training)


class TestBits:
    @pytest.mark.parametrize("model", first_fast(["mlp", "linear", "least-squares", "xgboost"]))
    def test_a_trial_is_what_it_would_be_alone(self, model: str) -> None:
        scenario = DATA_OF[model](SIZES)
        rules = QUICK if model in ("mlp", "linear") else Training(rounds=3)
        found = together(LocalTrainer("cpu"), scenario, model, rules, TRIALS)
        assert found == alone(scenario, model, rules, TRIALS)
        seeds_matter = found[0b0011, 0] != found[0b0011, 1]
        assert seeds_matter == (model != "least-squares")

    @pytest.mark.slow
    @pytest.mark.parametrize("algorithm", [{}, {"algorithm": "fedprox", "mu": 0.1}, {"optimizer": "sgd"}])
    @pytest.mark.parametrize("model", TORCH_MODELS)
    def test_every_model_under_every_rule(self, model: str, algorithm: dict[str, Any]) -> None:
        scenario, rules = DATA_OF[model](SIZES), Training(rounds=2, epochs=2, batch=16, **algorithm)
        for memory in (None, 1):
            found = together(LocalTrainer("cpu", memory), scenario, model, rules, TRIALS)
            assert found == alone(scenario, model, rules, TRIALS)

    @pytest.mark.parametrize("threads", first_fast([1, 2]))
    def test_many_trials_that_share_samples_and_threads(self, threads: int) -> None:
        rng = np.random.default_rng(0)
        trials = [(int(mask), seed) for seed in range(3) for mask in rng.choice(range(1, 64), 24, False)]
        scenario, rules = digits((16, 16, 16, 16, 16, 40)), Training(rounds=2, epochs=1, batch=16)
        few = trials[::7]
        torch.set_num_threads(threads)
        found = together(LocalTrainer("cpu"), scenario, "mlp", rules, trials)
        torch.set_num_threads(1)
        assert {trial: found[trial] for trial in few} == alone(scenario, "mlp", rules, few)

    @pytest.mark.slow
    def test_convolutions_in_one_program_share_samples_within_a_seed(self) -> None:
        """As on CUDA; products are those of another library there, and sums may differ in the last bits."""
        trials = [(mask, seed) for seed in range(2) for mask in (0b0011, 0b0111, 0b1111)]
        learner = TorchLearner("cnn", together=True)
        found = together(LocalTrainer("cpu"), digits(SIZES), learner, QUICK, trials)
        expected = alone(digits(SIZES), learner, QUICK, trials)
        for trial, metrics in found.items():
            assert metrics["loss"] == pytest.approx(expected[trial]["loss"], abs=1e-4)

    @pytest.mark.parametrize("make", first_fast([whole, Frozen, Buffered, with_dropout, lazy]))
    def test_models_of_ones_own(self, make: Callable[[], nn.Module]) -> None:
        learner = TorchLearner(make, key="own")
        session = learner.session(digits(SIZES), QUICK, "cpu", None)
        assert reseeds(session) == (make not in (Frozen, Buffered))
        found = together(LocalTrainer("cpu"), digits(SIZES), learner, QUICK, TRIALS)
        assert found == alone(digits(SIZES), learner, QUICK, TRIALS)

    @pytest.mark.slow
    def test_a_learner_that_knows_one_seed_has_a_session_for_each(self) -> None:
        learner = OneSeed()
        found = together(LocalTrainer("cpu"), digits(SIZES), learner, QUICK, TRIALS)
        assert set(learner.opened) == {QUICK.replicate(seed).seed for seed in range(4)}
        trained = [trial for trial in TRIALS if trial[0]]
        expected = alone(digits(SIZES), "mlp", QUICK, trained)
        assert {trial: found[trial] for trial in trained} == expected

    def test_a_trainer_that_knows_one_seed_is_driven_seed_by_seed(self) -> None:
        trainer = Driven()
        found = together(trainer, digits(SIZES), "linear", QUICK, TRIALS)
        assert [seed for seed, _ in trainer.calls] == [QUICK.replicate(k).seed for k in (0, 1, 2, 3)]
        assert trainer.calls[0][1] == [0b0111, 0b0011]
        assert found == alone(digits(SIZES), "linear", QUICK, TRIALS)


class TestTogether:
    def test_one_session_trains_all_seeds_and_round_one_once_per_client_and_seed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        learner = make_learner("linear")
        trained: list[tuple[int, int]] = []  # round, rows
        opened = learner.session

        def session(*given: Any) -> Any:
            found = opened(*given)
            inner = found.reseeded

            def counted(stack: Any, owners: Sequence[int], seeds: Sequence[int | None], t: int) -> Any:
                trained.append((t, len(owners)))
                return inner(stack, owners, seeds, t)

            found.reseeded = counted
            return found

        monkeypatch.setattr(learner, "session", session)
        trials = [(mask, seed) for seed in range(3) for mask in (0b0011, 0b0110, 0b1111)]
        rules = Training(rounds=3, epochs=1)
        trainer = LocalTrainer("cpu", checkpoint=float("inf"))
        found = dict(train_trials(trainer, digits(SIZES), learner, rules, trials))
        assert found.keys() == set(trials)
        assert trained == [(1, 12), (2, 24), (3, 24)]
        list(train_trials(trainer, digits(SIZES), learner, rules, [(0b0001, 1), (0b1000, 2)]))
        assert trained[3:] == [(2, 2), (3, 2)]  # round one was kept

    def test_little_memory_takes_the_seeds_one_after_the_other(self) -> None:
        trials = [(mask, seed) for seed in range(3) for mask in (1, 7)]
        little = LocalTrainer("cpu", memory=1)
        assert together(little, digits(SIZES), "linear", QUICK, trials) == alone(
            digits(SIZES), "linear", QUICK, trials
        )

    def test_claims_are_asked_by_wave_and_kept_to(self) -> None:
        asked: list[Trial] = []

        def claim(trials: Sequence[Trial]) -> list[Trial]:
            asked.extend(trials)
            return [trial for trial in trials if trial[1] != 1]

        trials = [(mask, seed) for seed in range(3) for mask in (0, 1, 3)]
        learner = make_learner("linear")
        found = LocalTrainer("cpu").train_trials(digits(SIZES), learner, QUICK, trials, claim)
        assert {trial for trial, _ in found} == {trial for trial in trials if trial[1] != 1}
        assert sorted(asked) == sorted(trials)

    def test_equal_data_are_one_training_within_a_seed(self) -> None:
        scenario = digits((20, 9), copy_of=0)
        trials = [(0b001, 0), (0b100, 0), (0b001, 5), (0b100, 5)]
        found = together(LocalTrainer("cpu"), scenario, "linear", QUICK, trials)
        assert found[0b001, 0] == found[0b100, 0] != found[0b001, 5] == found[0b100, 5]

    def test_the_work_of_trials_is_that_of_every_seed(self) -> None:
        trials = [(0b0011, 0), (0b0001, 0), (0b1100, 4), (0, 4)]
        work = work_of_trials(digits(SIZES), Training(rounds=3), trials)
        assert (work.coalitions, work.trained, work.first_round, work.per_later_round) == (4, 3, 4, 5)


class TestGames:
    def test_replicates_are_trained_together(self) -> None:
        asked: list[list[Trial]] = []

        class Noting(LocalTrainer):
            def train_trials(self, *given: Any) -> Iterator[tuple[Trial, Outcome]]:
                asked.append(list(given[3]))
                yield from super().train_trials(*given)

        game = FederatedGame(line(), "linear", QUICK, trainer=Noting("cpu"), replicates=3)
        values = fv.value(game, "exact")
        assert [len(trials) for trials in asked] == [3 << game.n]
        single = FederatedGame(line(), "linear", QUICK, device="cpu")
        tables = [dict(single.evaluate(range(1 << game.n), seed)) for seed in range(3)]
        mean = [np.mean([single.utility(table[mask]) for table in tables]) for mask in range(1 << game.n)]
        assert values.mean == pytest.approx(fv.value(mean, "exact").mean)

    def test_sessions_say_that_they_reseed(self) -> None:
        session = make_learner("mlp").session(digits(SIZES), QUICK, "cpu", None)
        assert isinstance(session, Reseeding)
        assert session.reseeds


class TestOwnTrainers:
    def test_one_that_overrides_train_alone_is_called_for_every_seed(self) -> None:
        """What was made for one seed is not passed by when there are several."""

        class Watched(LocalTrainer):
            seeds: ClassVar[list[int]] = []

            def train(self, scenario, learner, training, masks, claim=list):  # type: ignore[no-untyped-def]
                self.seeds.append(training.seed)
                yield from super().train(scenario, learner, training, masks, claim)

        game = fv.FederatedGame(digits(SIZES), "linear", QUICK, trainer=Watched())
        trials = [(1, 0), (3, 1), (2, 2)]
        found = dict(evaluate_trials(game, trials))
        assert found.keys() == set(trials)
        assert Watched.seeds == [QUICK.replicate(seed).seed for seed in range(3)]
        plain = dict(evaluate_trials(fv.FederatedGame(digits(SIZES), "linear", QUICK), trials))
        assert {t: o.metrics for t, o in found.items()} == {t: o.metrics for t, o in plain.items()}
