"""Stacks of torch models: equal to a plain PyTorch loop over one model after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from federations import (
    DATA_OF,
    MASKS,
    QUICK,
    SAME,
    TORCH_MODELS,
    check_equal_to_loop,
    digits,
    initial_module,
    largest_difference,
    line,
    orders_of,
    outcomes,
    party,
    rules,
    trained,
)
from marks import first_fast
from torch import nn

from fedvalue.errors import InputError
from fedvalue.learners import LEARNERS
from fedvalue.learners.torch import TorchLearner
from fedvalue.learners.torch._models import MODELS
from fedvalue.scenarios import Dataset, Scenario
from fedvalue.trainers import LocalTrainer

pytestmark = pytest.mark.usefixtures("one_thread")


# Convolutions and recurrent cells take ten times as long.
QUICK_FIRST = [pytest.param(m, marks=pytest.mark.slow if m in ("cnn", "lstm") else ()) for m in TORCH_MODELS]


class TestAgainstAPlainLoop:
    def test_every_torch_model_is_checked_here(self) -> None:
        assert DATA_OF.keys() == LEARNERS.keys()
        assert list(MODELS) == TORCH_MODELS

    @pytest.mark.parametrize("model", QUICK_FIRST)
    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({}, id="adam"),
            pytest.param({"optimizer": "sgd", "rate": 0.1}, id="sgd", marks=pytest.mark.slow),
        ],
    )
    def test_batched_equals_one_by_one(self, model: str, changes: dict[str, Any]) -> None:
        check_equal_to_loop(model, DATA_OF[model](), rules(**changes))

    @pytest.mark.parametrize(
        "changes",
        first_fast(
            [
                pytest.param({"batch": 50}, id="batch larger than some clients"),
                pytest.param({"batch": 1000}, id="batch larger than all clients"),
                pytest.param(
                    {"batch": 1, "epochs": 1, "optimizer": "sgd"}, id="single samples", marks=pytest.mark.slow
                ),
                pytest.param({"optimizer": "sgd", "rate": 0.05, "momentum": 0.9}, id="momentum"),
                pytest.param({"algorithm": "fedprox", "mu": 0.5}, id="fedprox adam"),
                pytest.param(
                    {"algorithm": "fedprox", "mu": 0.5, "optimizer": "sgd", "rate": 0.1}, id="fedprox sgd"
                ),
                pytest.param({"algorithm": "fedsgd", "rate": 0.5, "rounds": 3}, id="fedsgd"),
                pytest.param({"rounds": 1}, id="one round"),
                pytest.param({"seed": 11, "rounds": 3, "epochs": 1}, id="another seed"),
            ],
            keep=3,
        ),
    )
    def test_rules(self, changes: dict[str, Any]) -> None:
        check_equal_to_loop("mlp", digits(), rules(**changes))

    @pytest.mark.parametrize("model", ["mlp", "linear"])
    @pytest.mark.parametrize("changes", [{}, {"algorithm": "fedsgd", "rate": 0.1}], ids=["fedavg", "fedsgd"])
    def test_regression(self, model: str, changes: dict[str, Any]) -> None:
        check_equal_to_loop(model, line(), rules(**changes))

    def test_clients_with_equally_many_steps_train_in_one_stack(self) -> None:
        check_equal_to_loop("mlp", digits((20, 17, 30, 32)), rules())

    def test_an_own_module(self) -> None:
        def normalised(scenario: Scenario) -> nn.Module:
            return nn.Sequential(
                nn.Flatten(), nn.Linear(64, 12), nn.LayerNorm(12), nn.GELU(), nn.Linear(12, 10)
            )

        check_equal_to_loop(normalised, digits(), rules())

    def test_padding_never_shows(self) -> None:
        """A client's filled-up batch must not touch the data of another, whose loss may be infinite."""
        good = line()
        broken = Dataset(np.full_like(good.clients[0].x, 3e38), good.clients[0].y)
        parties = (broken, *good.clients[1:])
        scenario = Scenario("broken", parties, good.names, good.test, "regression", 0)
        for together in (True, False):
            session = TorchLearner("mlp", together=together).session(scenario, rules(), "cpu", None)
            stack = session.local(session.take(session.initial(), [0, 0, 0]), [0, 1, 3], 1)
            for tensor in stack.values():
                assert not bool(tensor[0].isfinite().all())
                assert bool(tensor[1:].isfinite().all())

    def test_rows_do_not_see_each_other(self) -> None:
        """A model that is not a number leaves the others of its stack alone."""
        session, stack = trained("mlp", digits(), rules(), together=True)
        for tensor in stack.values():
            tensor[0] = float("nan")
        after = session.local(session.take(stack, [0, 1]), [1, 1], 1)
        assert all(not tensor[0].isfinite().any() for tensor in after.values())
        assert all(tensor[1].isfinite().all() for tensor in after.values())
        bad, good = session.evaluate(session.take(stack, [0, 1]))
        assert all(np.isnan(list(bad.values())))
        assert all(np.isfinite(list(good.values())))

    def test_training_leaves_the_given_stack_as_it_is(self) -> None:
        for together in (True, False):
            session, stack = trained("mlp", digits(), rules(), together)
            before = {name: tensor.clone() for name, tensor in stack.items()}
            session.local(stack, [0, 1, 2, 3], 2)
            session.average(stack, [0, 0, 1, 1], [0.5, 0.5, 0.3, 0.7])
            session.evaluate(stack)
            assert largest_difference(stack, before) == 0

    def test_memory_splits_the_stack_and_changes_nothing(self) -> None:
        session, stack = trained("mlp", digits(), rules(), together=True)
        tight, split = trained("mlp", digits(), rules(), together=True, memory=1)
        assert (tight.rows, tight.chunk) == (1, 1)
        assert session.chunk > 4
        assert largest_difference(stack, split) < SAME["adam"]
        for a, b in zip(session.evaluate(stack), tight.evaluate(split), strict=True):
            assert a == pytest.approx(b, abs=1e-5)

    def test_minibatches_hold_every_sample_once_per_epoch(self) -> None:
        session = TorchLearner("mlp").session(digits(), rules(), "cpu", None)
        for client, size in enumerate((37, 20, 64, 5)):
            batches = orders_of(session)(client, 1)
            steps = -(-size // 16)
            assert [len(rows) for rows in batches] == ([16] * (steps - 1) + [size - 16 * (steps - 1)]) * 2
            epochs = np.concatenate(batches).reshape(2, size)
            assert np.sort(epochs, axis=1).tolist() == [list(range(size))] * 2
            assert size == 5 or epochs[0].tolist() != epochs[1].tolist()

    def test_minibatches_depend_on_data_seed_and_round_only(self) -> None:
        """Common random numbers: whoever holds the data, whatever else there is."""
        one, other = digits(), digits((37, 20), copy_of=0)
        here, there = (TorchLearner("mlp").session(s, rules(), "cpu", None) for s in (one, other))
        again = TorchLearner("mlp").session(one, rules(seed=4), "cpu", None)

        def order(session: Any, client: int, t: int) -> list[int]:
            return np.concatenate(orders_of(session)(client, t)).tolist()

        assert order(here, 0, 1) == order(there, 0, 1) == order(there, 2, 1)
        assert order(here, 0, 1) != order(here, 0, 2)
        assert order(here, 0, 1) != order(again, 0, 1)


class TestAlgorithms:
    def test_fedprox_without_mu_would_be_fedavg_and_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"fedprox needs mu above 0, such as 0.01 \(--mu 0.01\)"):
            rules(algorithm="fedprox")

    @pytest.mark.slow
    def test_a_larger_mu_holds_the_model_closer_to_the_global_one(self) -> None:
        start = dict(initial_module("mlp", digits(), 3).named_parameters())
        away = []
        for mu in (1e-9, 0.1, 1.0, 10.0):
            training = rules(algorithm="fedprox", mu=mu, optimizer="sgd", rate=0.05, rounds=1, epochs=8)
            _, stack = trained("mlp", digits(), training, together=True)
            away.append(sum(float((stack[k][-1] - p).detach().square().sum()) for k, p in start.items()))
        assert away == sorted(away, reverse=True)
        assert away[-1] < 0.1 * away[0]

    @pytest.mark.parametrize(
        ("scenario", "model"), [(digits(), "mlp"), (line(), "mlp"), (line(), "linear")], ids=str
    )
    def test_fedsgd_is_one_gradient_step_averaged_by_data_size(self, scenario: Scenario, model: str) -> None:
        """Which is a gradient step on the pooled data of the coalition."""
        training = rules(algorithm="fedsgd", rate=0.3, rounds=1)
        _, stack = trained(model, scenario, training, together=True)
        for row, mask in enumerate(MASKS):
            module = initial_module(model, scenario, 3)
            data = [c for i, c in enumerate(scenario.clients) if mask >> i & 1]
            x = torch.from_numpy(np.concatenate([c.x for c in data]))
            y = torch.from_numpy(np.concatenate([c.y for c in data]))
            if scenario.classes:
                chances = module(x).softmax(1)[torch.arange(len(y)), y]
                loss = -chances.log().sum() / len(y)
            else:
                loss = ((module(x)[:, 0] - y) ** 2).sum() / len(y)
            names, parameters = zip(*module.named_parameters(), strict=True)
            gradients = torch.autograd.grad(loss, parameters)
            for name, p, g in zip(names, parameters, gradients, strict=True):
                assert stack[name][row].numpy() == pytest.approx((p - 0.3 * g).detach().numpy(), abs=2e-6)

    def test_fedsgd_does_not_depend_on_what_it_does_not_use(self) -> None:
        one = rules(algorithm="fedsgd", rate=0.3, seed=0)
        many = rules(algorithm="fedsgd", rate=0.3, seed=0, epochs=9, batch=3, optimizer="sgd", momentum=0.9)
        assert one.identity() == many.identity()
        stacks = [trained("mlp", digits(), training, together=True)[1] for training in (one, many)]
        assert largest_difference(*stacks) == 0

    def test_averages_weigh_by_data(self) -> None:
        session = TorchLearner("linear").session(digits(), rules(), "cpu", None)
        stack = {name: torch.randn(5, *p.shape) for name, p in session.module.named_parameters()}
        found = session.average(stack, [0, 1, 0, 2, 1], [0.25, 0.9, 0.75, 1.0, 0.1])
        for name, tensor in stack.items():
            wanted = [
                0.25 * tensor[0] + 0.75 * tensor[2],
                0.9 * tensor[1] + 0.1 * tensor[4],
                tensor[3],
            ]
            assert found[name].numpy() == pytest.approx(torch.stack(wanted).numpy(), abs=1e-6)


class TestLearning:
    @pytest.mark.parametrize("model", QUICK_FIRST)
    def test_every_model_learns(self, model: str) -> None:
        scenario = DATA_OF[model]((60, 60, 60))
        training = rules(epochs=6, rounds=3)
        found = outcomes(LocalTrainer("cpu"), scenario, model, training, [0, 7])
        assert found[7]["loss"] < 0.8 * found[0]["loss"]
        assert found[7]["accuracy"] > found[0]["accuracy"] + 0.2

    def test_one_class_and_one_sample(self) -> None:
        """Clients with very little still train."""
        source = digits()
        clients = (party(source.clients[0], slice(0, 1)), party(source.clients[1], slice(0, 2)))
        scenario = Scenario("tiny", clients, ("a", "b"), source.test, "classification", 10)
        found = outcomes(LocalTrainer("cpu"), scenario, "mlp", QUICK, range(4))
        assert all(np.isfinite(list(metrics.values())).all() for metrics in found.values())
