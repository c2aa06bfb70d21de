"""Several inputs by name or in order, and outputs of other shapes than one row of classes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from federations import MASKS, QUICK, final_models, largest_difference, outcomes, steps_of
from torch import Tensor, nn

from fedvalue.coalitions import members
from fedvalue.errors import InputError, ScenarioError
from fedvalue.learners import make_learner
from fedvalue.learners.torch import TorchLearner
from fedvalue.scenarios import IGNORED, Dataset, Scenario, by_client, mapped, rows_joined
from fedvalue.trainers import LocalTrainer

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES, TEST = (21, 12, 33, 5), 40


def federated(x: Any, y: Any, task: str = "classification", classes: int = 3, **more: Any) -> Scenario:
    """Clients with consecutive rows, the test set behind them."""
    everything, start, parts = Dataset(x, y), 0, []
    for size in (*SIZES, TEST):
        parts.append(everything.rows(slice(start, start + size)))
        start += size
    names = tuple(f"client {i}" for i in range(len(SIZES)))
    return Scenario("small", tuple(parts[:-1]), names, parts[-1], task, classes, **more)


def texts(per_token: bool = False, form: str = "named", **more: Any) -> Scenario:
    """Token ids with a mask; the class is that of the first token, or each token has its own."""
    rng = np.random.default_rng(4)
    rows = sum(SIZES) + TEST
    ids = rng.integers(1, 12, (rows, 6))
    mask = np.arange(6) < rng.integers(2, 7, rows)[:, None]
    y = np.where(mask, ids % 3, IGNORED) if per_token else ids[:, 0] % 3
    x = {"input_ids": ids, "attention_mask": mask} if form == "named" else (ids, mask)
    return federated(x, y, **more)


class Reader(nn.Module):
    """Words as vectors, those that the mask leaves out being zero; an answer for a text or for each token."""

    def __init__(self, per_token: bool = False) -> None:
        super().__init__()
        self.per_token = per_token
        self.words, self.head = nn.Embedding(20, 8), nn.Linear(8 if per_token else 48, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        vectors = self.words(input_ids) * attention_mask.unsqueeze(-1)
        return self.head(vectors if self.per_token else vectors.flatten(-2))


class Answer:
    """What models of transformers return."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


class Wrapped(Reader):
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return Answer(super().forward(input_ids, attention_mask))


def images(channels_first: bool = True, classes: int = 3) -> Scenario:
    """Of each pixel the class, or without classes another image."""
    x = np.random.default_rng(2).normal(size=(sum(SIZES) + TEST, 1, 4, 4))
    y = np.digitize(x[:, 0], [-0.5, 0.5]) if classes else 3 * x[:, 0] + 1
    return federated(x, y, "classification" if classes else "regression", classes)


class Painter(nn.Module):
    def __init__(self, outputs: int, squeeze: bool = False) -> None:
        super().__init__()
        self.layer, self.squeeze = nn.Linear(1, outputs), squeeze

    def forward(self, x: Tensor) -> Tensor:
        painted = self.layer(x.movedim(-3, -1))
        return painted.squeeze(-1) if self.squeeze else painted.movedim(-1, -3)


CASES = {
    "by name": (texts(), lambda: Reader()),
    "in order": (texts(form="in order"), lambda: Reader()),
    "in an answer": (texts(), lambda: Wrapped()),
    "labels of tokens": (texts(per_token=True), lambda: Reader(per_token=True)),
    "labels of pixels": (images(), lambda: Painter(3)),
    "images to images": (images(classes=0), lambda: Painter(1, squeeze=True)),
    "bare numbers": (
        federated(np.ones((sum(SIZES) + TEST, 2)) * np.arange(sum(SIZES) + TEST)[:, None] / 99,
                  np.arange(sum(SIZES) + TEST) / 9.0, "regression", 0),
        lambda: nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)),
    ),
}  # fmt: skip


def by_hand(scenario: Scenario, module: nn.Module, session: Any, mask: int) -> dict[str, Tensor]:
    """FedAvg with Adam, whatever goes into the module and comes out."""
    clients = members(mask)
    total = sum(len(scenario.clients[i]) for i in clients)
    model = copy.deepcopy(module)
    for t in range(1, QUICK.rounds + 1):
        average = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
        for i in clients:
            local, data = copy.deepcopy(model), scenario.clients[i]
            optimizer = torch.optim.Adam(local.parameters(), lr=QUICK.rate)
            for rows, _ in steps_of(session)(i, t):
                optimizer.zero_grad()
                x = mapped(lambda array, rows=rows: torch.from_numpy(array[rows]), data.x)
                outputs = (
                    local(**x) if isinstance(x, dict) else local(*x) if isinstance(x, tuple) else local(x)
                )
                outputs = getattr(outputs, "logits", outputs)
                y = torch.from_numpy(scenario.scale.scaled(data.y)[rows])
                loss_of_rows(outputs, y, scenario.classes).mean().backward()
                optimizer.step()
            for name, p in local.named_parameters():
                average[name] += len(data) / total * p.detach()
        model.load_state_dict(average)
    return {name: p.detach() for name, p in model.named_parameters()}


def loss_of_rows(outputs: Tensor, y: Tensor, classes: int) -> Tensor:
    """Of each row the mean over its places."""
    found = []
    for said, true in zip(outputs, y, strict=True):
        if not classes:
            found.append((said.flatten() - true.flatten()).square().mean())
        elif true.dim() == 2:
            found.append(nn.functional.cross_entropy(said[None], true[None]))
        else:
            found.append(nn.functional.cross_entropy(said, true))
    return torch.stack(found)


@pytest.mark.parametrize("case", CASES)
def test_stack_loop_and_plain_loop_train_the_same_models(case: str) -> None:
    scenario, make = CASES[case]
    together, apart = (
        TorchLearner(lambda scenario: make(), together=way).session(scenario, QUICK, "cpu", None)
        for way in (None, False)
    )
    assert together.together
    stack, each = (final_models(session, scenario, QUICK, MASKS) for session in (together, apart))
    assert largest_difference(stack, each) < 3e-4
    plain = by_hand(scenario, together.module, together, MASKS[2])
    assert largest_difference({name: p[2] for name, p in stack.items()}, plain) < 3e-4
    moved = max(
        float((stack[name][2] - p.detach()).abs().max()) for name, p in together.module.named_parameters()
    )
    assert moved > 0.03
    for one, other in zip(together.evaluate(stack), apart.evaluate(stack), strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def test_metrics_of_tokens_count_those_that_have_a_label() -> None:
    scenario, make = CASES["labels of tokens"]
    session = TorchLearner(lambda scenario: make()).session(scenario, QUICK, "cpu", None)
    stack = final_models(session, scenario, QUICK, MASKS)
    found = session.outcomes(stack)[3]
    model = copy.deepcopy(session.module)
    model.load_state_dict({name: p[3] for name, p in stack.items()})
    logits = model(**mapped(torch.from_numpy, scenario.test.x)).detach()
    labels = torch.from_numpy(scenario.test.y)
    counts = labels != IGNORED
    right = (logits.argmax(-1) == labels)[counts].double()
    assert found.metrics["accuracy"] == pytest.approx(float(right.mean()))
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    assert found.metrics["loss"] == pytest.approx(float(loss), rel=1e-5)
    assert found.rows["accuracy"].rows == TEST


def test_influences_of_rows_are_what_their_tokens_add() -> None:
    from fedvalue.learners._places import by_place, in_rows

    labels = torch.tensor([[0, 1, IGNORED], [1, IGNORED, IGNORED], [0, 0, 1]])
    logits = torch.randn(2, 3, 3, 2, generator=torch.Generator().manual_seed(1))
    outputs, flat, row_of = by_place(logits, labels)
    assert row_of is not None
    right = (outputs.argmax(-1) == flat).double()
    accuracy = right.mean(1, keepdim=True)
    moved = in_rows(right - accuracy, row_of, 3)
    weight = torch.tensor([1 / 3 + 1e-6, 1 / 3, 1 / 3], dtype=torch.float64)[row_of]
    heavier = (right * weight).sum(1) / weight.sum()
    torch.testing.assert_close((heavier - accuracy[:, 0]) / 1e-6, moved[:, 0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("form", ["named", "in order"])
def test_inputs_keep_their_types_and_a_vocabulary_holds_only_where_it_is_given(form: str) -> None:
    scenario = texts(form=form)
    kinds = [array.dtype.kind for _, array in sorted(_leaves(scenario.test.x))]
    assert sorted(kinds) == ["b", "i"]
    assert scenario.thinned(3).clients[0].y.shape == (3,)
    assert texts(form=form, vocabulary=12).vocabulary == 12
    with pytest.raises(ScenarioError, match=r"from 0 to 10 as token ids of client 'client 0'. Got 11"):
        texts(form=form, vocabulary=11)


def _leaves(x: Any) -> list[tuple[str, Any]]:
    return list(x.items()) if isinstance(x, dict) else [(str(k), array) for k, array in enumerate(x)]


def test_fingerprints_tell_inputs_apart_and_those_of_plain_arrays_are_as_ever() -> None:
    plain = Dataset(np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0, 1, 0]))
    assert plain.fingerprint.startswith("8478d9dc50f4bb47")
    one = Dataset({"b": plain.x, "a": plain.x}, plain.y)
    assert one.fingerprint == Dataset({"a": plain.x, "b": plain.x}, plain.y).fingerprint
    others = [
        {"a": plain.x},
        {"a": plain.x, "c": plain.x},
        (plain.x, plain.x),
        {"a": plain.x, "b": plain.x + 1},
    ]
    assert len({one.fingerprint, plain.fingerprint, *(Dataset(x, plain.y).fingerprint for x in others)}) == 6


def test_rows_can_be_held_out_joined_and_described() -> None:
    scenario = by_client(texts(per_token=True))
    assert {name: len(rows) for name, rows in scenario.test_parts.items()}["client 0"] == 4
    joined = rows_joined([c.x for c in scenario.clients])
    assert len(joined["input_ids"]) == sum(map(len, scenario.clients))
    assert "attention_mask 6, input_ids 6" in str(scenario)
    assert scenario.summary()[0]["labels"]


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        ({}, [0, 1], "at least one array"),
        ({"a": np.zeros((2, 3)), "b": np.zeros((3, 3))}, [0, 1], r"one row per sample.*\(3, 3\) \(b\)"),
        ({"a": np.array([[1.0], [np.nan]])}, [0, 1], "Only finite numbers"),
        (np.zeros((2, 3)), [[0], [1]], "must be a single column"),
        (np.zeros((2, 3)), [[0, -1], [1, -100]], "Expected whole numbers from 0 to 1.*Got -1"),
    ],
)
def test_wrong_inputs_and_labels_are_refused(x: Any, y: Any, says: str) -> None:
    def made() -> Scenario:
        data = Dataset(x, y)
        return Scenario("s", (data,), ("a",), data, "classification", 2)

    with pytest.raises(ScenarioError, match=says):
        made()


def test_models_by_name_say_that_they_take_one_array() -> None:
    for model in ("mlp", "text-mean", "xgboost"):
        with pytest.raises(
            InputError, match=rf"'{model}' needs features in one array.*attention_mask, input_ids"
        ):
            make_learner(model).session(texts(vocabulary=12), QUICK, "cpu", None)
    with pytest.raises(InputError, match=r"one answer a row.*\(4, 4\)"):
        make_learner("mlp").session(images(), QUICK, "cpu", None)
    with pytest.raises(
        InputError, match=r"outputs of shape \(2, 4, 4, 3\) for 2 samples. Got shape \(2, 2, 4, 4\)"
    ):
        TorchLearner(lambda scenario: Painter(2)).session(images(), QUICK, "cpu", None)


def test_a_coalition_is_valued_with_any_of_them() -> None:
    scenario, make = CASES["labels of tokens"]
    found = outcomes(LocalTrainer("cpu"), scenario, lambda scenario: make(), QUICK, [0, 15])
    assert found[15]["accuracy"] > found[0]["accuracy"]
