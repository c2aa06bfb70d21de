"""Rules of local training against torch: optimisers, schedules, clipping, accumulation, weights of classes, bfloat16."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import pytest
import torch
from federations import (
    MASKS,
    digits,
    final_models,
    initial_module,
    largest_difference,
    line,
    orders_of,
    rules,
    trained,
)
from marks import first_fast
from torch import nn, optim

from fedvalue.coalitions import members
from fedvalue.errors import InputError
from fedvalue.learners.torch import TorchLearner
from fedvalue.learners.torch._optimizers import clip, optimizer_of
from fedvalue.training import APART, OPTIMIZERS, Training

pytestmark = pytest.mark.usefixtures("one_thread")

SCENARIO = digits()
Make = Callable[[Iterable[torch.Tensor]], Any]

# rules → torch's own way to say the same
CASES: dict[str, tuple[dict[str, Any], Make]] = {
    "adamw": ({"optimizer": "adamw", "weight_decay": 0.1}, lambda p: optim.AdamW(p, 0.01, weight_decay=0.1)),
    "rmsprop": ({"optimizer": "rmsprop", "optimizer_options": {"alpha": 0.9}}, lambda p: optim.RMSprop(p, 0.01, alpha=0.9)),
    "adam decay": ({"weight_decay": 0.1}, lambda p: optim.Adam(p, 0.01, weight_decay=0.1)),
    "adam options": (
        {"optimizer_options": "betas=0.8:0.9,amsgrad=true"},
        lambda p: optim.Adam(p, 0.01, betas=(0.8, 0.9), amsgrad=True),
    ),
    "sgd": (
        {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.01, "optimizer_options": "nesterov=true"},
        lambda p: optim.SGD(p, 0.01, momentum=0.9, weight_decay=0.01, nesterov=True),
    ),
    "adagrad": ({"optimizer": "adagrad"}, lambda p: optim.Adagrad(p, 0.01)),
    "adadelta": ({"optimizer": "adadelta", "rate": 1}, lambda p: optim.Adadelta(p, 1)),
    "adamax": ({"optimizer": "adamax"}, lambda p: optim.Adamax(p, 0.01)),
    "nadam": ({"optimizer": "nadam"}, lambda p: optim.NAdam(p, 0.01)),
    "radam": ({"optimizer": "radam"}, lambda p: optim.RAdam(p, 0.01)),
    "rprop": ({"optimizer": "rprop"}, lambda p: optim.Rprop(p, 0.01)),
    "asgd": ({"optimizer": "asgd"}, lambda p: optim.ASGD(p, 0.01)),
    "adafactor": ({"optimizer": "adafactor"}, lambda p: optim.Adafactor(p, 0.01, weight_decay=0)),
    "lbfgs": (
        {"optimizer": "lbfgs", "rate": 0.1, "optimizer_options": {"max_iter": 2}},
        lambda p: optim.LBFGS(p, 0.1, max_iter=2),
    ),
}  # fmt: skip


def by_hand(
    session: Any, training: Training, make: Make, schedule: Any = None, weight: Any = None, most: float = 0
) -> dict[str, torch.Tensor]:
    """FedAvg with torch's own optimiser, schedule, loss and clipping, one coalition and client after the other."""
    found, orders = [], orders_of(session)
    for mask in MASKS:
        model = initial_module("mlp", SCENARIO, training.seed)
        dummy = make([torch.zeros(1, requires_grad=True)])
        rate = schedule(dummy) if schedule else None
        for t in range(1, training.rounds + 1):
            clients, parts = members(mask), []
            for i in clients:
                local = deepcopy(model)
                optimizer = make(local.parameters())
                optimizer.param_groups[0]["lr"] = dummy.param_groups[0]["lr"]
                x, y = (torch.from_numpy(a) for a in (SCENARIO.clients[i].x, SCENARIO.clients[i].y))
                criterion = nn.CrossEntropyLoss(weight=weight(y) if weight else None)
                for rows in orders(i, t):

                    def closure(local: Any = local, rows: Any = rows, optimizer: Any = optimizer) -> Any:
                        optimizer.zero_grad()
                        loss = criterion(local(x[rows]), y[rows])  # noqa: B023
                        loss.backward()
                        if most:
                            nn.utils.clip_grad_norm_(local.parameters(), most)
                        return loss

                    optimizer.step(closure)
                parts.append((len(y), local))
            total = sum(count for count, _ in parts)
            pairs = [(count / total, dict(local.named_parameters())) for count, local in parts]
            mean = {name: sum(w * p[name].detach() for w, p in pairs) for name in pairs[0][1]}
            model.load_state_dict(mean)
            if rate:
                dummy.step()
                rate.step()
        found.append({name: p.detach() for name, p in model.named_parameters()})
    return {name: torch.stack([m[name] for m in found]) for name in found[0]}


def of_game(training: Training, together: bool | None) -> tuple[Any, dict[str, torch.Tensor]]:
    session, stack = trained("mlp", SCENARIO, training, together)
    return session, stack


def check(training: Training, make: Make, same: float = 2e-5, **more: Any) -> None:
    session, stack = of_game(training, None)
    assert session.together is (training.optimizer not in APART)
    expected = by_hand(session, training, make, **more)
    assert largest_difference(stack, expected) < same
    _, each = of_game(training, False)
    assert largest_difference(each, expected) < same
    _, again = of_game(training, None)
    assert largest_difference(stack, again) == 0


@pytest.mark.parametrize("case", first_fast(CASES, keep=2))
def test_optimisers_are_those_of_torch(case: str) -> None:
    changes, make = CASES[case]
    check(rules(**changes), make, same=2e-3 if case == "rprop" else 5e-5)


def test_every_optimiser_is_tested() -> None:
    assert {changes.get("optimizer", "adam") for changes, _ in CASES.values()} == set(OPTIMIZERS) - {"muon"}


def test_muon_takes_matrices_only() -> None:
    with pytest.raises(InputError, match="muon"):
        of_game(rules(optimizer="muon"), None)


S = optim.lr_scheduler
SCHEDULES: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "linear": ({"schedule": "linear"}, lambda o: S.LinearLR(o, 1, 0, total_iters=4)),
    "cosine": ({"schedule": "cosine"}, lambda o: S.CosineAnnealingLR(o, T_max=4)),
    "step": ({"schedule": "step", "decay": 0.5, "decay_every": 2}, lambda o: S.StepLR(o, 2, 0.5)),
    "warm-up": (
        {"schedule": "linear", "warmup": 1},
        lambda o: S.SequentialLR(
            o, [S.ConstantLR(o, 0.5, total_iters=1), S.LinearLR(o, 1, 0, total_iters=3)], milestones=[1]
        ),
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, about its own calls in SequentialLR
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_those_of_torchs_schedules(name: str) -> None:
    changes, schedule = SCHEDULES[name]
    training = Training(rounds=4, rate=0.3, **changes)
    optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    torchs, expected = schedule(optimizer), []
    for _ in range(4):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        torchs.step()
    assert [training.rate_in(t) for t in range(1, 5)] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "more"),
    first_fast(
        [
            pytest.param({"clip": 0.5}, {"most": 0.5}, id="clipping"),
            pytest.param(
                {"schedule": "cosine", "rounds": 3},
                {"schedule": lambda o: S.CosineAnnealingLR(o, T_max=3)},
                id="schedule",
            ),
            pytest.param(
                {"class_weights": {0: 5, 3: 0.5}},
                {"weight": lambda y: torch.tensor([5, 1, 1, 0.5, 1, 1, 1, 1, 1, 1])},
                id="weights of classes",
            ),
        ],
        keep=3,
    ),
)
def test_rules_of_steps_are_those_of_torch(changes: dict[str, Any], more: dict[str, Any]) -> None:
    check(rules(optimizer="sgd", **changes), lambda p: optim.SGD(p, 0.01), **more)


def test_balanced_weights_are_those_of_scikit_learn_for_each_client() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    def weight(y: torch.Tensor) -> torch.Tensor:
        present = y.unique().numpy()
        found = torch.ones(10)
        balanced = compute_class_weight("balanced", classes=present, y=y.numpy())
        found[torch.from_numpy(present)] = torch.from_numpy(balanced).float()
        return found

    check(rules(optimizer="sgd", class_weights="balanced"), lambda p: optim.SGD(p, 0.01), weight=weight)


@pytest.mark.slow
def test_accumulated_minibatches_are_one_large_batch() -> None:
    for together in (True, False):
        _, large = trained("mlp", SCENARIO, rules(batch=16, optimizer="sgd", clip=1), together)
        _, small = trained("mlp", SCENARIO, rules(batch=4, accumulate=4, optimizer="sgd", clip=1), together)
        assert largest_difference(small, large) < 1e-6
    assert rules(accumulate=4).identity() != rules().identity()


def test_each_model_of_a_stack_is_clipped_by_itself() -> None:
    stack = [torch.zeros(2, 3, requires_grad=True), torch.zeros(2, requires_grad=True)]
    stack[0].grad, stack[1].grad = torch.tensor([[3.0, 0, 0], [0.1, 0, 0]]), torch.tensor([4.0, 0.1])
    clip(stack, 1, stacked=True)
    assert stack[0].grad[:, 0].tolist() == pytest.approx([0.6, 0.1], abs=1e-5)
    assert stack[1].grad.tolist() == pytest.approx([0.8, 0.1], abs=1e-5)


def test_bfloat16_is_near_float32_and_reproducible() -> None:
    _, exact = trained("mlp", SCENARIO, rules(optimizer="sgd"), True)
    _, rough = trained("mlp", SCENARIO, rules(optimizer="sgd", precision="bf16"), True)
    _, again = trained("mlp", SCENARIO, rules(optimizer="sgd", precision="bf16"), True)
    _, alone = trained("mlp", SCENARIO, rules(optimizer="sgd", precision="bf16"), False)
    assert 0 < largest_difference(exact, rough) < 0.02
    assert largest_difference(rough, again) == 0
    assert largest_difference(rough, alone) < 0.02
    assert all(tensor.dtype == torch.float32 for tensor in rough.values())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"optimizer": "adem"}, "Did you mean"),
        ({"optimizer": "adamw"}, "needs weight_decay"),
        ({"optimizer": "rprop", "weight_decay": 0.1}, "no weight decay"),
        ({"optimizer_options": {"lr": 1}}, "say rate"),
        ({"optimizer_options": {"fused": True}}, "cannot be chosen"),
        ({"optimizer_options": "betas"}, "name=value"),
        ({"schedule": "step"}, "decay_every"),
        ({"decay": 0.5}, "belong to the schedule step"),
        ({"class_weights": {"a": 1}}, "positive number by class"),
        ({"class_weights": "balance"}, "must be balanced, or name=value"),
        ({"class_weights": {0: 0}}, "positive number by class"),
        ({"clip": -1}, "at least 0"),
        ({"precision": "fp8"}, "precision must be one of"),
        ({"algorithm": "fedsgd", "accumulate": 2}, "do not apply"),
    ],
)
def test_wrong_rules_are_one_sentence(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Training(**wrong)


@pytest.mark.parametrize(
    ("wrong", "scenario", "said"),
    [
        ({"optimizer_options": "alpha=0.9"}, SCENARIO, "cannot be used so.*Its options in torch: betas"),
        ({"optimizer_options": "betas=2:3"}, SCENARIO, "cannot be used so"),
        ({"class_weights": "balanced"}, line(), "need classes"),
        ({"class_weights": {10: 2}}, SCENARIO, "classes here are 0 to 9"),
    ],
)
def test_rules_that_do_not_fit_are_one_sentence(wrong: dict[str, Any], scenario: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        trained("mlp", scenario, rules(**wrong), True)


def test_rules_that_are_as_usual_leave_identities_and_records_as_they_were() -> None:
    before = {
        "rounds": 4, "epochs": 4, "batch": 64, "optimizer": "adam", "rate": 0.001, "momentum": 0.0,
        "algorithm": "fedavg", "seed": 0,
    }  # fmt: skip
    assert Training().identity() == before
    assert Training().plain() == {**before, "mu": 0.0, "weights": "rows", "max_share": 0.0}
    given = Training(
        class_weights={1: 2.5, 0: 1}, optimizer="rmsprop", optimizer_options={"alpha": 0.9}, clip=1
    )
    assert Training(**given.plain()) == given
    assert given.identity()["class_weights"] == "0=1,1=2.5"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("case", [*CASES, "clip", "accumulate", "balanced", "bf16"])
def test_on_cuda_as_on_a_cpu(case: str) -> None:
    further = {"clip": {"clip": 0.5}, "accumulate": {"accumulate": 2}, "balanced": {"class_weights": "balanced"},
               "bf16": {"precision": "bf16"}}  # fmt: skip
    given = CASES[case][0] if case in CASES else {"optimizer": "sgd", **further[case]}
    if given.get("optimizer") in ("rmsprop", "nadam", "radam"):
        given = {
            **given,
            "optimizer_options": "eps=0.001",
        }  # else rounding of gradients near zero makes whole steps
    training = rules(**given)
    session, here = trained("mlp", SCENARIO, training, None)
    on_cuda = TorchLearner("mlp").session(SCENARIO, training, "cuda", None)
    stack = final_models(on_cuda, SCENARIO, training, MASKS)
    if case in ("adamw", "adam decay"):  # whose kernel has the usual eps, and is compared step by step below
        losses = [
            [found["loss"] for found in of.evaluate(models)]
            for of, models in ((session, here), (on_cuda, stack))
        ]
        assert losses[0] == pytest.approx(losses[1], rel=0.02)
        return
    there = {name: tensor.cpu() for name, tensor in stack.items()}
    assert largest_difference(here, there) < (5e-3 if case in ("rprop", "bf16") else 5e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(("name", "decay"), [("adam", 0), ("adam", 0.1), ("adamw", 0.1)])
def test_adam_on_cuda_takes_the_steps_of_torch(name: str, decay: float) -> None:
    """Gradients of any size, down to those that are nothing but rounding."""
    training = rules(optimizer=name, weight_decay=decay)
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(4, 30, 20, generator=generator), torch.randn(4, 7, generator=generator)]
    ours, theirs = ([t.clone().cuda().requires_grad_() for t in start] for _ in range(2))
    kind = optim.AdamW if name == "adamw" else optim.Adam
    stacked, plain = optimizer_of(training, ours, 0.01), kind(theirs, 0.01, weight_decay=decay)
    for _ in range(20):
        for one, other in zip(ours, theirs, strict=True):
            size = 10.0 ** torch.randint(-12, 3, one.shape, generator=generator)
            one.grad = (torch.randn(one.shape, generator=generator) * size).cuda()
            other.grad = one.grad.clone()
        stacked.step()
        plain.step()
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
