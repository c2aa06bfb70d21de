"""What a model becomes does not depend on how the work was cut: stacks, memory and threads leave every bit as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from federations import digits, line, words

from fedvalue.learners import make_learner
from fedvalue.scenarios import Dataset, Scenario
from fedvalue.training import Training, first_round, later_rounds

# Sizes with a rest in every respect: of samples, of features (5), of classes (10, 3, 1), of models.
SIZES = (37, 20, 37, 9)


def two_classes(sizes: tuple[int, ...]) -> Scenario:
    """With two or three outputs of models that share their samples, the library has another product for large stacks."""
    rng = np.random.default_rng(0)
    every = [rng.normal(size=(size, 8)).astype(np.float32) for size in (*sizes, 200)]
    *clients, test = (Dataset(x, (x[:, 0] > 0).astype(np.int64)) for x in every)
    names = tuple(f"c{i}" for i in range(len(sizes)))
    return Scenario("two classes", tuple(clients), names, test=test, task="classification", classes=2)


CASES = {
    "mlp": ("mlp", digits(SIZES)),
    "linear": ("linear", digits(SIZES)),
    "cnn": ("cnn", digits(SIZES)),
    "regression": ("mlp", line(SIZES)),
    "linear regression": ("linear", line(SIZES)),
    "two classes": ("linear", two_classes((80, 80, 40, 25))),
    "text-mean": ("text-mean", words(SIZES)),
}
MASKS = list(range(1, 16))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not torch.backends.mkl.is_available(), reason="other libraries of products were not looked at"
    ),
]


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def trained(
    model: str, scenario: Scenario, rules: Training, width: int, most: int
) -> dict[int, tuple[list[torch.Tensor], dict[str, float]]]:
    """Models and metrics, so many coalitions at a time and at most so many models in a thread."""
    session = make_learner(model).session(scenario, rules, "cpu", None)
    session.chunk = min(session.chunk, most)
    begun = [(i, 0) for i in range(scenario.n)]
    first, rows = first_round(session, begun), {start: row for row, start in enumerate(begun)}
    found = {}
    for start in range(0, len(MASKS), width):
        wave = MASKS[start : start + width]
        trials = [(mask, 0) for mask in wave]
        models = later_rounds(session, scenario, rules.rounds, trials, first, rows)
        for row, metrics in enumerate(session.evaluate(models)):
            found[wave[row]] = [tensor[row] for tensor in models.values()], metrics
    return found


FURTHER: dict[str, dict[str, Any]] = {
    "clip": {"clip": 0.5},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.1},
    "rmsprop": {"optimizer": "rmsprop"},
    "nadam": {"optimizer": "nadam", "accumulate": 2, "batch": 8},
}


@pytest.mark.parametrize("changes", FURTHER.values(), ids=FURTHER)
def test_by_other_rules_too(changes: dict[str, Any]) -> None:
    check_cuts("mlp", **changes)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("case", CASES)
def test_every_cut_gives_the_same_bits(case: str, optimizer: str) -> None:
    check_cuts(case, optimizer=optimizer)


def check_cuts(case: str, **changes: Any) -> None:
    model, scenario = CASES[case]
    rules = Training(**{"rounds": 3, "epochs": 1, "batch": 16, "rate": 0.01, **changes})
    with threads(1):
        alone = trained(model, scenario, rules, 1, 64)
    for count, width, most in ((1, 2, 64), (1, 7, 3), (1, 15, 64), (2, 1, 64), (2, 7, 64), (2, 15, 5)):
        with threads(count):
            found = trained(model, scenario, rules, width, most)
            assert torch.get_num_threads() == count
        for mask, (tensors, metrics) in found.items():
            expected, same = alone[mask]
            assert metrics == same, (count, width, most, mask)
            assert all(map(torch.equal, tensors, expected)), (count, width, most, mask)


def test_equal_samples_have_equal_outputs() -> None:
    """The test set is cut into pieces; a tie between two equal samples must stay one, for the area under the curve."""
    scenario = words(SIZES)
    session = make_learner("text-mean").session(scenario, Training(batch=16), "cpu", None)
    outputs = session._outputs(session.programs[0], session.initial(), 16)[0]
    texts: dict[tuple[int, ...], int] = {}
    again = 0
    for row, text in enumerate(scenario.test.x.tolist()):
        first = texts.setdefault(tuple(text), row)
        again += first != row
        assert torch.equal(outputs[row], outputs[first])
    assert again >= 3
