"""Small federations to train for real, and the plain training loop that they are checked against."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import nn

from fedvalue.coalitions import Trial, members
from fedvalue.games import FederatedGame
from fedvalue.learners import LEARNERS, make_learner
from fedvalue.learners.torch import TorchLearner
from fedvalue.learners.torch._dropout import CountedDropout
from fedvalue.learners.torch._models import MODELS
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Dataset, Scale, Scenario
from fedvalue.trainers import LocalTrainer, Trainer
from fedvalue.training import Learner, Session, Training, first_round, later_rounds

Metrics = dict[str, float]
Parameters = dict[str, torch.Tensor]

QUICK = Training(rounds=2, epochs=2, batch=16, rate=0.01, seed=3)
BRIEF = replace(QUICK, epochs=1)  # where every pass over the rows is as good as the first
SIZES = (37, 20, 64, 5)  # with batches of 16: 3, 2, 4 and 1 steps, the last of an epoch smaller

MASKS = (0b0001, 0b0110, 0b1011, 0b1111)
# Sums in float32, in another order: seen 3e-8 at most with SGD. Adam divides by the gradient's size and so
# enlarges what rounding did to gradients near zero: seen 4e-5 after these few steps.
SAME = {"adam": 3e-4, "sgd": 1e-6}
Factory = Callable[[Scenario], nn.Module]
Step: TypeAlias = tuple[NDArray[np.int64], torch.Tensor]


def party(data: Dataset, rows: slice) -> Dataset:
    return data.rows(rows)


def federation(
    drawn: Dataset, sizes: Sequence[int], *, test: int, classes: int, copy_of: int | None = None, **more: Any
) -> Scenario:
    """Clients with consecutive rows, the test set behind them; a copy of a client may come last."""
    ends = np.cumsum(sizes)
    clients = [party(drawn, slice(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    clients += [] if copy_of is None else [clients[copy_of]]
    names = tuple(f"client {i}" for i in range(len(clients)))
    task = "classification" if classes else "regression"
    held_out = party(drawn, slice(ends[-1], ends[-1] + test))
    more = {"target_scale": Scale(), **more}  # references are computed on the targets as they are
    return Scenario("small", tuple(clients), names, held_out, task, classes, **more)


@cache
def all_digits() -> Dataset:
    x, y = load_digits(return_X_y=True)
    return Dataset((x / 16).astype(np.float32).reshape(-1, 1, 8, 8), y)


@cache
def digits(
    sizes: tuple[int, ...] = SIZES, copy_of: int | None = None, parts: bool = False, test: int = 120
) -> Scenario:
    """Real digits, 8 × 8; the test set, of 120 rows or others, may have two disjoint parts, `a` and `b`."""
    halves = {"a": np.arange(45), "b": np.arange(45, 120)} if parts else {}
    return federation(all_digits(), sizes, test=test, classes=10, copy_of=copy_of, test_parts=halves)


@cache
def words(sizes: tuple[int, ...] = SIZES) -> Scenario:
    """Texts of up to 7 words from 23, padded with 0; the class says which of three words come more often."""
    rng = np.random.default_rng(5)
    count = sum(sizes) + 60
    label = rng.integers(0, 3, count)
    text = np.where(rng.random((count, 7)) < 0.4, label[:, None] + 1, rng.integers(4, 23, (count, 7)))
    text[np.arange(7) >= rng.integers(0, 8, count)[:, None]] = 0  # some texts have no word at all
    return federation(Dataset(text, label), sizes, test=60, classes=3, vocabulary=23)


@cache
def line(sizes: tuple[int, ...] = SIZES, copy_of: int | None = None) -> Scenario:
    """Linear regression with five features."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal((sum(sizes) + 100, 5))
    y = x @ rng.standard_normal(5) + 0.3 * rng.standard_normal(len(x)) + 1
    return federation(Dataset(x, y), sizes, test=100, classes=0, copy_of=copy_of)


# The data that each learner by name is trained on here.
DATA_OF: dict[str, Callable[..., Scenario]] = {
    "mlp": digits,
    "mlp-dropout": digits,
    "cnn": digits,
    "linear": digits,
    "text-mean": words,
    "lstm": words,
    "least-squares": line,
    "xgboost": digits,
}
TORCH_MODELS = [name for name, where in LEARNERS.items() if where.endswith(":TorchLearner")]


def final_models(session: Session, scenario: Scenario, training: Training, masks: Sequence[int]) -> Any:
    """The stack of trained models, a row for each coalition."""
    clients = [i for i, data in enumerate(scenario.clients) if len(data)]
    begun = [(client, 0) for client in clients]
    first, rows = first_round(session, begun), {start: row for row, start in enumerate(begun)}
    return later_rounds(session, scenario, training.rounds, [(mask, 0) for mask in masks], first, rows)


def plain_fedavg(
    initial: nn.Module,
    scenario: Scenario,
    training: Training,
    mask: int,
    steps: Callable[[int, int], Sequence[Step]],
) -> nn.Module:
    """FedAvg, FedProx or FedSGD of one coalition as anyone would write it, with torch's own optimisers.

    `steps(client, t)` are the rows of each minibatch of a client in round t, with the key of its dropout.
    """
    clients = members(mask)
    total = sum(len(scenario.clients[i]) for i in clients)
    model = deepcopy(initial)
    for t in range(1, training.rounds + 1):
        average = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
        for i in clients:
            local = deepcopy(model)
            plain_local(local, scenario.clients[i], training, steps(i, t), scenario.classes == 0)
            for name, p in local.named_parameters():
                average[name] += len(scenario.clients[i]) / total * p.detach()
        model.load_state_dict(average, strict=False)
    return model


def plain_local(
    model: nn.Module,
    data: Dataset,
    training: Training,
    steps: Sequence[Step],
    regression: bool,
) -> None:
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    start = [p.detach().clone() for p in model.parameters()]
    optimizer: torch.optim.Optimizer
    if training.algorithm == "fedsgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=training.rate)
        steps = [(np.arange(len(data)), steps[0][1])]
    elif training.optimizer == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=training.rate, momentum=training.momentum)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=training.rate)
    for rows, key in steps:
        optimizer.zero_grad()
        with CountedDropout(key):
            outputs = model(x[rows])
        if regression:
            loss = nn.functional.mse_loss(outputs[:, 0], y[rows])
        else:
            loss = nn.functional.cross_entropy(outputs, y[rows])
        if training.algorithm == "fedprox":
            pairs = zip(model.parameters(), start, strict=True)
            loss = loss + training.mu / 2 * sum(((p - p0) ** 2).sum() for p, p0 in pairs)
        loss.backward()
        optimizer.step()


def orders_of(session: Any) -> Callable[[int, int], list[NDArray[np.int64]]]:
    """The minibatches that a torch session draws, as row numbers within the client's data."""
    return lambda client, t: [rows for rows, _ in steps_of(session)(client, t)]


def steps_of(session: Any) -> Callable[[int, int], list[Step]]:
    """The same, each with the key by which its step drops out."""

    def steps(client: int, t: int) -> list[Step]:
        drawn = session.minibatches(client, t)
        numbers = zip(drawn.index.cpu().numpy(), drawn.weight.cpu().numpy(), drawn.key, strict=True)
        return [(index[weight > 0] - session.offsets[client], key) for index, weight, key in numbers]

    return steps


def largest_difference(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def outcomes(
    trainer: Trainer,
    scenario: Scenario,
    model: str | Learner | Callable[..., Any],
    training: Training,
    masks: Sequence[int],
) -> dict[int, Metrics]:
    """The metrics of every coalition, each of which must come exactly once."""
    found: dict[int, Metrics] = {}
    for mask, outcome in trainer.train(scenario, make_learner(model), training, masks):
        assert mask not in found
        found[mask] = dict(outcome.metrics)
    assert found.keys() == set(masks)
    return found


class CountingTrainer(LocalTrainer):
    """Remembers which coalitions it trained."""

    def __init__(self, **options: Any) -> None:
        super().__init__("cpu", **options)
        self.trained: list[int] = []

    def train_trials(self, *given: Any) -> Iterator[tuple[Trial, Outcome]]:
        for trial, outcome in super().train_trials(*given):
            self.trained.append(trial[0])
            yield trial, outcome


class CountingLearner:
    """Remembers every local training: (client, round), in the order of the rows."""

    def __init__(self, model: str) -> None:
        self.inner = make_learner(model)
        self.averages = self.inner.averages
        self.trained: list[tuple[int, int]] = []
        self.together: list[int] = []  # rows in each call
        self.sessions: list[Any] = []

    def identity(self) -> Mapping[str, Any]:
        return self.inner.identity()

    def session(self, scenario: Scenario, training: Training, device: str, memory: int | None) -> Any:
        session: Any = self.inner.session(scenario, training, device, memory)
        train = session.local

        def local(stack: Any, owners: Sequence[int], t: int) -> Any:
            self.trained += [(owner, t) for owner in owners]
            self.together.append(len(owners))
            return train(stack, owners, t)

        session.local = local
        self.sessions.append(session)
        return session


def utilities(game: FederatedGame) -> NDArray[np.float64]:
    """The table of all coalitions."""
    table = np.empty(1 << game.n)
    for mask, outcome in game.evaluate(range(1 << game.n)):
        table[mask] = game.utility(outcome)
    return table


def rules(**changes: Any) -> Training:
    given = {"rounds": 2, "epochs": 2, "batch": 16, "rate": 0.01, "seed": 3, **changes}
    return Training(**given)


def initial_module(model: str | Factory, scenario: Scenario, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[model](scenario) if isinstance(model, str) else model(scenario)


def trained(
    model: str | Factory,
    scenario: Scenario,
    training: Training,
    together: bool | None,
    memory: int | None = None,
) -> tuple[Any, Parameters]:
    session = TorchLearner(model, together=together).session(scenario, training, "cpu", memory)
    return session, final_models(session, scenario, training, MASKS)


def check_equal_to_loop(model: str | Factory, scenario: Scenario, training: Training) -> None:
    """Stack, loop over rows and independent loop: the same parameters and metrics for every coalition."""
    session, stack = trained(model, scenario, training, together=True)
    other, each = trained(model, scenario, training, together=False)
    start = initial_module(model, scenario, training.seed)
    same = SAME["sgd" if training.algorithm == "fedsgd" else training.optimizer]
    assert session.together
    assert not other.together
    assert largest_difference(stack, each) < same
    plain = [plain_fedavg(start, scenario, training, mask, steps_of(session)) for mask in MASKS]
    by_hand = {k: torch.stack([dict(m.named_parameters())[k].detach() for m in plain]) for k in stack}
    assert largest_difference(stack, by_hand) < same
    assert largest_difference(each, by_hand) < same
    moved = {k: torch.stack([p.detach()] * len(MASKS)) for k, p in start.named_parameters()}
    assert largest_difference(stack, moved) > 100 * same  # something was learnt
    found, alone, wanted = session.evaluate(stack), other.evaluate(each), session.evaluate(by_hand)
    for a, b, c in zip(found, alone, wanted, strict=True):
        assert a == pytest.approx(c, abs=1e-4)
        assert b == pytest.approx(c, abs=1e-4)
