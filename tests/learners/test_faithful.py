"""Modules that reach parameters in ways of their own, change what they are given, or hook into gradients: as plain torch, or refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from federations import MASKS, SIZES, digits, final_models, largest_difference, rules, steps_of
from marks import first_fast
from torch import Tensor, nn

from fedvalue.coalitions import members
from fedvalue.errors import InputError
from fedvalue.learners.torch import TorchLearner
from fedvalue.learners.torch._random import seeded_generators
from fedvalue.scenarios import Dataset, Scenario

SGD = rules(optimizer="sgd", rate=0.05)
Make = Callable[[], nn.Module]


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 16), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x.flatten(1)).relu())


class ByFunction(Two):
    """Its first layer is in a function that refers to this module, not to a copy of it."""

    def __init__(self) -> None:
        super().__init__()
        self.function = lambda x: self.first(x).relu()

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.function(x.flatten(1)))


class ByHook(Two):
    def __init__(self) -> None:
        super().__init__()
        self.first.register_forward_hook(lambda part, given, found: found + self.first.bias)


class Kept(Two):
    """A hook keeps what a layer said, as those do who look into a net."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Tensor] = {}
        kept = self.kept
        self.first.register_forward_hook(lambda part, given, found: kept.update(first=found))

    def forward(self, x: Tensor) -> Tensor:
        self.first(x.flatten(1))
        return self.second(self.kept["first"].relu())


class HookedSlopes(Two):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x.flatten(1)).relu()
        if hidden.requires_grad:
            hidden.register_hook(lambda slope: slope / 2)
        return self.second(hidden)


class Complex(Two):
    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(33, dtype=torch.cfloat))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.fft.irfft(torch.fft.rfft(x.flatten(1)) * self.filter, n=64))


class ManyLookAtEachOther(Two):
    """Takes the mean of a batch away, but in training alone and not of a few samples."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return super().forward(x - x.mean(0) if self.training and len(x) > 4 else x)


class InPlace(Two):
    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        x[:, 20:30] = 0.9
        return super().forward(x.sub_(0.5))


class Shared(Two):
    """A layer under two names, and a dict of parameters in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.again = self.first
        held = nn.ParameterDict({"weight": torch.randn(16, 16) / 4})
        self.third, self.fourth = nn.Module(), nn.Module()
        self.third.held = self.fourth.held = held

    def forward(self, x: Tensor) -> Tensor:
        hidden = (self.first(x.flatten(1)) + self.again(x.flatten(1).flip(1))).relu()
        return self.second((hidden @ self.third.held["weight"]).relu() @ self.fourth.held["weight"])


class SharedNorm(Two):
    """One norm in two places, whose statistics are of both."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(64)
        self.again = self.norm

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.again(self.norm(x.flatten(1)).relu()))


class InAList(Two):
    def __init__(self) -> None:
        super().__init__()
        self.weights = [self.first.weight]

    def forward(self, x: Tensor) -> Tensor:
        return self.second(nn.functional.linear(x.flatten(1), self.weights[0], self.first.bias).relu())


class HookedParameter(Two):
    def __init__(self) -> None:
        super().__init__()
        self.first.weight.register_hook(lambda slope: slope / 2)


class Merging(Two):
    """An adapter that eval() adds to its base, as that of loralib."""

    def __init__(self) -> None:
        super().__init__()
        self.first.requires_grad_(False)
        self.down, self.up = nn.Parameter(torch.randn(4, 64) / 8), nn.Parameter(torch.zeros(16, 4))
        self.merged = False

    def train(self, mode: bool = True) -> Merging:
        if mode is self.merged:
            sign = -1 if mode else 1
            self.first.weight.data += sign * self.up.data @ self.down.data
            self.merged = not mode
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x.flatten(1))
        return self.second(
            (hidden if self.merged else hidden + x.flatten(1) @ self.down.T @ self.up.T).relu()
        )


class ManyInEvaluation(Two):
    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return super().forward(x - x.mean(0) if len(x) > 4 else x)


class Drawing(Two):
    """Skips a layer by a number of Python's, and adds noise of NumPy's."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.training:
            x = x * (random.random() < 0.5) + torch.from_numpy(np.random.rand(64)).float()  # noqa: NPY002
        return super().forward(x)


def by_hand(make: Make, session: Any, scenario: Scenario, mask: int, loss: Any) -> nn.Module:
    """FedAvg on modules that are never copied."""
    clients = members(mask)
    total = sum(len(scenario.clients[i]) for i in clients)
    with seeded_generators(SGD.seed):
        model = make().train()
    for t in range(1, SGD.rounds + 1):
        average: dict[str, Any] = {}
        for i in clients:
            local, data = make().train(), scenario.clients[i]
            local.load_state_dict(model.state_dict())
            optimizer = torch.optim.SGD(local.parameters(), lr=SGD.rate)
            for rows, _ in steps_of(session)(i, t):
                optimizer.zero_grad()
                said = local(torch.from_numpy(data.x[rows]))
                loss(said, torch.from_numpy(data.y[rows])).mean().backward()
                optimizer.step()
            for name, tensor in local.state_dict().items():
                average[name] = average.get(name, 0) + len(data) / total * tensor
        model.load_state_dict({n: t.round() if "num_batches" in n else t for n, t in average.items()})
    return model.eval()


def check_as_plain(make: Make, loss: Any = None, scenario: Scenario | None = None) -> Any:
    scenario, before = scenario or digits(), torch.get_num_threads()
    torch.set_num_threads(2)  # copies of the module, one for each thread
    try:
        session = TorchLearner(lambda scenario: make(), loss=loss).session(scenario, SGD, "cpu", None)
        found = final_models(session, scenario, SGD, MASKS)
        measured = session.evaluate(found)
    finally:
        torch.set_num_threads(before)
    usual = loss or (lambda outputs, y: nn.functional.cross_entropy(outputs, y, reduction="none"))
    for row in (0, 2):
        plain = by_hand(make, session, scenario, MASKS[row], usual)
        numbers = {
            name: torch.view_as_real(t) if t.is_complex() else t for name, t in plain.state_dict().items()
        }
        assert (
            largest_difference({n: t[row] for n, t in found.items()}, {n: numbers[n] for n in found}) < 1e-5
        )
        with torch.no_grad():
            said = plain(torch.from_numpy(scenario.test.x.copy()))
        expected = nn.functional.cross_entropy(said, torch.from_numpy(scenario.test.y))
        assert measured[row]["loss"] == pytest.approx(float(expected), abs=1e-4)
    return session


KINDS = [ByFunction, Complex, Shared, SharedNorm, ByHook, Kept, HookedSlopes, ManyLookAtEachOther, InPlace]


@pytest.mark.parametrize("make", first_fast(KINDS))
@pytest.mark.filterwarnings("ignore:Models are trained one after the other")
def test_what_modules_do_in_ways_of_their_own_is_what_a_plain_loop_does(make: Make) -> None:
    before = digits().test.x.copy()
    session = check_as_plain(make)
    assert session.together is (make is not HookedSlopes)
    assert np.array_equal(digits().test.x, before)


@pytest.mark.parametrize("make", first_fast([InAList, HookedParameter, Merging]))
def test_parameters_that_cannot_be_handed_over_are_refused(make: Make) -> None:
    with pytest.raises(InputError, match="when its parameters are handed to it"):
        TorchLearner(lambda scenario: make()).session(digits(), SGD, "cpu", None)


def test_a_module_that_looks_at_other_test_rows_where_there_are_many_is_refused() -> None:
    with pytest.raises(InputError, match="depends on the other samples of the batch"):
        TorchLearner(lambda scenario: ManyInEvaluation()).session(digits(), SGD, "cpu", None)


@pytest.mark.filterwarnings("ignore:Models are trained one after the other")
def test_numbers_that_numpy_and_python_draw_follow_from_the_seed() -> None:
    learner = TorchLearner(lambda scenario: Drawing())
    found = []
    for _ in range(2):
        session = learner.session(digits(), SGD, "cpu", None)
        assert "random numbers of its own" in session.apart
        found.append(final_models(session, digits(), SGD, MASKS))
        random.random()
        np.random.rand()  # noqa: NPY002
    assert largest_difference(*found) == 0


def by_class(outputs: Tensor, y: Tensor) -> Tensor:
    """Every class of a batch counts the same: no two of the rows that a loss is tried on need be of one."""
    counts = nn.functional.one_hot(y, outputs.shape[-1]).sum(0)
    return nn.functional.cross_entropy(outputs, y, reduction="none") / counts[y]


def by_positives(outputs: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, y, reduction="none") / (y == 1).sum().clamp(min=1)


def rare() -> Scenario:
    """A class that comes up once in 25 rows."""
    rng = np.random.default_rng(0)
    ends = np.cumsum([*SIZES, 200])
    x, y = rng.normal(size=(ends[-1], 6)).astype(np.float32), (np.arange(ends[-1]) % 25 == 0).astype(np.int64)
    *clients, test = (
        Dataset(x[end - size : end], y[end - size : end])
        for end, size in zip(ends, (*SIZES, 200), strict=True)
    )
    return Scenario("rare", tuple(clients), tuple("abcd"), test, "classification", 2)


@pytest.mark.parametrize(("loss", "is_rare"), first_fast([(by_positives, True), (by_class, False)]))
@pytest.mark.filterwarnings("ignore:Models are trained one after the other")
def test_a_loss_that_counts_the_labels_of_its_batch_sees_none_that_only_fill_up(
    loss: Any, is_rare: bool
) -> None:
    make: Make = (lambda: nn.Linear(6, 2)) if is_rare else Two
    session = check_as_plain(make, loss, rare() if is_rare else None)
    assert "depends on the others of its minibatch" in session.apart
