"""Every kind of module: a stack, a loop over its models and a plain loop of torch train the same."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from federations import MASKS, digits, final_models, largest_difference, rules, steps_of, words
from marks import first_fast
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.lazy import LazyModuleMixin

from fedvalue.coalitions import members
from fedvalue.errors import FedvalueWarning, InputError
from fedvalue.learners.torch import TorchLearner
from fedvalue.learners.torch._dropout import CountedDropout
from fedvalue.learners.torch._functions import InSteps, OneByOne
from fedvalue.scenarios import Scenario
from fedvalue.trainers import LocalTrainer
from fedvalue.training import Training

pytestmark = pytest.mark.usefixtures("one_thread")

SGD = rules(optimizer="sgd", rate=0.05)
Make = Callable[[], nn.Module]


class Rows(nn.Module):
    """Images as texts of eight words, each a vector of eight numbers; a layer reads them."""

    def __init__(self, layer: nn.Module, width: int = 8) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        found = self.layer(x[:, 0])
        return self.head((found[0] if isinstance(found, tuple) else found).mean(1))


class Attention(nn.Module):
    def __init__(self, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(8, 2, dropout, batch_first=True)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(8) if causal else None)

    def forward(self, x: Tensor) -> Tensor:
        said: Tensor = self.heads(x, x, x, attn_mask=self.mask, need_weights=False)[0]
        return said


class Product(nn.Module):
    """Attention by torch's function."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.Linear(8, 24)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(*self.inputs(x).chunk(3, -1), is_causal=True)


class RunningMean(nn.Module):
    """Keeps a mean of what it saw, in place or as another tensor every time."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(64))
        self.layer, self.in_place = nn.Linear(64, 10), in_place

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.training and self.in_place:
            self.seen.mul_(0.9).add_(0.1 * x.mean(0))
        elif self.training:
            self.seen = 0.9 * self.seen + 0.1 * x.mean(0)
        return self.layer(x - self.seen)


class Words(nn.Module):
    def __init__(self, bag: bool = False) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(23, 6) if bag else nn.Embedding(23, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        found = self.words(tokens)
        return self.head(found if found.dim() == 2 else found.mean(1))


class Padded(nn.Module):
    """Dark pixels are padding: their vector is not zero, and stays as it is."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.words, self.place, self.head = (
            nn.Embedding(4, 6, padding_idx=0, **options),
            nn.Linear(64, 6),
            nn.Linear(6, 10),
        )
        with torch.no_grad():
            self.words.weight[0] = 0.5

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.words((x.flatten(1) * 3).long()).mean(1) + self.place(x.flatten(1)))


class Masked(nn.Module):
    """A transformer that does not look at dark rows at the end of an image."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        dark = x[:, 0].sum(-1).flip(-1).cumsum(-1).flip(-1) == 0
        return self.head(self.layers(x[:, 0], src_key_padding_mask=dark)[:, 0])


class Evaluating(nn.Module):
    """Decides by numbers, but not in training."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.layer(x.flatten(1))
        return outputs if self.training or self.layer.bias.sum() > 0 else 2 * outputs


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(1) + (0.1 * torch.rand(64) if self.training else 0))


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.layer(x.flatten(1))
        return outputs if self.layer.bias.sum() > 0 else 2 * outputs


def flat(*layers: nn.Module, width: int = 16) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), *layers, nn.Linear(width, 10))


def images(*layers: nn.Module, channels: int = 4) -> nn.Module:
    middle = nn.Sequential(nn.Conv2d(1, channels, 3, padding=1), *layers, nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(middle, nn.Flatten(), nn.Linear(16 * channels, 10))


def adapter() -> nn.Module:
    base = flat(nn.ReLU()).requires_grad_(False)
    return nn.Sequential(base, nn.Linear(10, 4), nn.Linear(4, 10))


def encoder(dropout: float = 0.0) -> nn.Module:
    return Rows(nn.TransformerEncoderLayer(8, 2, 16, dropout, batch_first=True))


STACKED: dict[str, Make] = {
    "batch norm": lambda: flat(nn.BatchNorm1d(16), nn.ReLU()),
    "attention": lambda: Rows(Attention()),
    "long short-term memory": lambda: Rows(nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True), 12),
    "running mean": lambda: RunningMean(in_place=False),
    "batch norm of images": lambda: images(nn.BatchNorm2d(4)),
    "lazy batch norm": lambda: nn.Sequential(nn.Flatten(), nn.LazyBatchNorm1d(), nn.LazyLinear(10)),
    "running instance norm": lambda: images(nn.InstanceNorm2d(4, affine=True, track_running_stats=True)),
    "running mean in place": lambda: RunningMean(in_place=True),
    "group norm": lambda: images(nn.GroupNorm(2, 4)),
    "layer norm": lambda: flat(nn.LayerNorm(16), nn.GELU()),
    "gated recurrent unit": lambda: Rows(nn.GRU(8, 8, batch_first=True)),
    "simple recurrent net": lambda: Rows(nn.RNN(8, 8, nonlinearity="relu", batch_first=True)),
    "causal attention": lambda: Rows(Attention(causal=True)),
    "product attention": lambda: Rows(Product()),
    "transformer encoder": encoder,
    "masked transformer": Masked,
    "words with padding": Padded,
    "words by their frequency": lambda: Padded(scale_grad_by_freq=True),
    "convolution along time": lambda: Rows(nn.Conv1d(8, 8, 3, padding=1)),
    "transposed convolution": lambda: nn.Sequential(
        nn.ConvTranspose2d(1, 2, 3), nn.Flatten(), nn.Linear(200, 10)
    ),
    "frozen base with an adapter": adapter,
}
DROPPING: dict[str, Make] = {
    "dropout": lambda: flat(nn.ReLU(), nn.Dropout(0.3)),
    "dropout in attention": lambda: Rows(Attention(0.3)),
    "alpha dropout": lambda: flat(nn.SELU(), nn.AlphaDropout(0.2)),
    "dropout of channels": lambda: images(nn.Dropout2d(0.3)),
    "dropout between recurrent layers": lambda: Rows(nn.LSTM(8, 8, 2, batch_first=True, dropout=0.3)),
    "dropout in a transformer": lambda: encoder(0.2),
}
LOOPED: dict[str, tuple[Make, str]] = {
    "random numbers of its own": (Noisy, "the model draws random numbers of its own"),
    "batch norm over all batches": (
        lambda: flat(nn.BatchNorm1d(16, momentum=None), nn.ReLU()),
        "the model decides by the numbers that it computes",
    ),
    "decisions by numbers": (Branching, "the model decides by the numbers that it computes"),
    "decisions by numbers in evaluation": (Evaluating, "the model decides by the numbers that it computes"),
    "bags of words": (lambda: Words(bag=True), "torch cannot compute one of the layers"),
    "slopes of the input": (
        lambda: nn.Sequential(nn.Flatten(), nn.PReLU(), nn.Linear(64, 10)),
        "stretches its parameters over the samples",
    ),
}


def session_of(make: Make, training: Training, together: bool | None = None, scenario: Any = None) -> Any:
    learner = TorchLearner(lambda scenario: make(), together=together)
    return learner.session(scenario or digits(), training, "cpu", None)


def by_hand(session: Any, scenario: Scenario, training: Training, mask: int) -> dict[str, Tensor]:
    """FedAvg as anyone would write it: everything that a state dict holds is averaged by data size."""
    clients = members(mask)
    total = sum(len(scenario.clients[i]) for i in clients)
    model = copy.deepcopy(session.module).train()
    for t in range(1, training.rounds + 1):
        average = {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in model.state_dict().items()}
        for i in clients:
            local, data = copy.deepcopy(model), scenario.clients[i]
            optimizer = torch.optim.SGD([p for p in local.parameters() if p.requires_grad], lr=training.rate)
            for rows, key in steps_of(session)(i, t):
                optimizer.zero_grad()
                with CountedDropout(key), InSteps():
                    outputs = local(torch.from_numpy(data.x[rows]))
                loss = nn.functional.cross_entropy(outputs, torch.from_numpy(data.y[rows]))
                if training.mu:
                    pairs = zip(local.parameters(), model.parameters(), strict=True)
                    loss = loss + training.mu / 2 * sum(
                        (p - start.detach()).square().sum() for p, start in pairs
                    )
                loss.backward()
                optimizer.step()
            for name, tensor in local.state_dict().items():
                average[name] += len(data) / total * tensor.double()
        model.load_state_dict(
            {
                name: tensor.round() if name.endswith("num_batches_tracked") else tensor
                for name, tensor in average.items()
            }
        )
    return model.eval().state_dict()


@pytest.mark.parametrize("kind", first_fast({**STACKED, **DROPPING}, keep=2))
def test_a_stack_a_loop_and_a_plain_loop_train_the_same(kind: str) -> None:
    make = {**STACKED, **DROPPING}[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        together, apart = session_of(make, SGD, True), session_of(make, SGD, False)
        stack, each = (final_models(session, digits(), SGD, MASKS) for session in (together, apart))
        found, others = together.evaluate(stack), apart.evaluate(stack)
    assert together.together
    assert not together.apart
    if not any(isinstance(part, LazyModuleMixin) for part in make().modules()):  # trying it has left no trace
        untouched = dict(make().named_buffers())
        assert all(torch.equal(together.initial()[name][0], untouched[name]) for name in together.state)
    assert largest_difference(stack, each) < 1e-5
    for one, other in zip(found, others, strict=True):
        assert one == pytest.approx(other, abs=1e-4)
    plain = by_hand(together, digits(), SGD, MASKS[2])
    assert largest_difference({n: t[2] for n, t in stack.items()}, {n: plain[n] for n in stack}) < 2e-5
    start = {name: tensor.expand_as(stack[name]) for name, tensor in together.initial().items()}
    assert largest_difference(stack, start) > 0.01
    model = copy.deepcopy(together.module).eval()
    with OneByOne():
        said = functional_call(model, plain, (together.test_x,))
    assert found[2]["accuracy"] == pytest.approx(float((said.argmax(1) == together.test_y).double().mean()))
    again = final_models(session_of(make, SGD, True), digits(), SGD, MASKS)
    assert all(torch.equal(again[name], tensor) for name, tensor in stack.items())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("kind", [*STACKED, *DROPPING])
def test_a_stack_on_cuda_trains_as_one_on_a_cpu(kind: str) -> None:
    make = {**STACKED, **DROPPING}[kind]
    here = final_models(session_of(make, SGD, True), digits(), SGD, MASKS)
    session = TorchLearner(lambda scenario: make()).session(digits(), SGD, "cuda", None)
    assert session.together, session.note
    there = {name: t.cpu() for name, t in final_models(session, digits(), SGD, MASKS).items()}
    assert largest_difference(here, there) < 5e-3  # convolutions are computed in TF32


def test_convolutions_that_draw_numbers_are_not_stacked_even_where_that_is_asked_for() -> None:
    """On a CPU convolutions are looped, and whether they could be stacked is not tried unless somebody wants it."""
    session = session_of(lambda: nn.Sequential(nn.Conv2d(1, 1, 1), Noisy()), SGD, True)
    assert "the model draws random numbers of its own" in session.note
    assert not session.together
    assert session_of(STACKED["group norm"], SGD, True).together


@pytest.mark.parametrize("kind", first_fast(LOOPED))
def test_what_cannot_be_stacked_is_trained_one_after_the_other_and_says_why(kind: str) -> None:
    make, why = LOOPED[kind]
    scenario = words() if "words" in kind else digits()
    for asked in (None, True):
        session = session_of(make, SGD, asked, scenario)
        assert not session.together
        assert session.note.startswith("Models are trained one after the other, not as one program: ")
        assert why in session.note
    one, other = (final_models(session, scenario, SGD, MASKS) for _ in range(2))
    assert all(torch.equal(one[name], tensor) for name, tensor in other.items())
    if scenario is digits() and make is not Noisy:
        plain = by_hand(session, scenario, SGD, MASKS[2])
        assert largest_difference({n: t[2] for n, t in one.items()}, plain) < 2e-5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["batch norm of images", "random numbers of its own"])
def test_convolutions_are_trained_side_by_side_on_a_cpu_unless_they_draw(kind: str) -> None:
    make = STACKED.get(kind) or LOOPED[kind][0]
    torch.set_num_threads(2)
    try:
        session = session_of(make, SGD)
        two = final_models(session, digits(), SGD, MASKS)
    finally:
        torch.set_num_threads(1)
    draws = kind in LOOPED
    assert (session.together, session.in_parts, len(session.programs)) == (
        False,
        not draws,
        1 if draws else 2,
    )
    one = final_models(session_of(make, SGD), digits(), SGD, MASKS)
    assert largest_difference(two, one) < (1e-5 if draws else 1e-12)


class Counting(nn.Module):
    """Counts its calls in an attribute of Python, and says something else from the twentieth on."""

    def __init__(self, training: bool) -> None:
        super().__init__()
        self.layer, self.calls, self.when = nn.Linear(64, 10), 0, training
        self.kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls += self.training is self.when
        self.kept = x
        return self.layer(x.flatten(1)) * (2 if self.calls > 20 else 1)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_calls_that_are_counted_show_as_soon_as_they_count(training: bool, together: bool) -> None:
    """Not in the checks, which are a few calls. What is kept of calls without harm is nobody's business."""
    session = session_of(lambda: Counting(training), SGD, together)

    def many_calls() -> None:
        for _ in range(20):
            session.evaluate(final_models(session, digits(), SGD, MASKS))

    with pytest.raises(InputError, match="has come to say something else of the same samples"):
        many_calls()


@pytest.mark.slow
def test_numbers_that_are_drawn_late_are_those_of_the_seed_all_the_same() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Conv2d(1, 2, 3), nn.Linear(72, 10)
            self.register_buffer("start", self.head.bias.detach().clone())

        def forward(self, x: Tensor) -> Tensor:
            moved = (self.head.bias - self.start).abs().max() > 0.01
            noise = torch.rand(10) if moved else torch.zeros(10)
            return self.head(self.layer(x).flatten(1)) + noise

    torch.set_num_threads(2)
    try:
        session = session_of(Late, SGD)
        assert session.in_parts
        final_models(session, digits(), SGD, MASKS)
        assert not session.in_parts
        one, other = (final_models(session, digits(), SGD, MASKS) for _ in range(2))
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(one[name], tensor) for name, tensor in other.items())


def test_models_by_name_and_most_others_have_nothing_to_say() -> None:
    assert session_of(STACKED["layer norm"], SGD).note == ""
    assert TorchLearner("mlp-dropout").session(digits(), SGD, "cpu", None).note == ""


def test_who_values_coalitions_is_told_why_models_cannot_be_stacked() -> None:
    learner, trainer = TorchLearner(lambda scenario: Noisy()), LocalTrainer("cpu")
    with pytest.warns(FedvalueWarning, match=r"one after the other.*random numbers of its own"):
        dict(trainer.train(digits(), learner, SGD, [1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dict(trainer.train(digits(), learner, SGD, [2]))  # once is enough


@pytest.mark.parametrize("changes", [{"algorithm": "fedprox", "mu": 0.1}, {"algorithm": "fedsgd"}])
def test_statistics_are_averaged_under_other_algorithms_too(changes: dict[str, Any]) -> None:
    """The distance that FedProx punishes is one of parameters; FedSGD makes one step, and one more batch is seen."""
    training = rules(**{"optimizer": "sgd", "rate": 0.05, **changes})
    session = session_of(STACKED["batch norm"], training)
    stack = final_models(session, digits(), training, MASKS)
    plain = by_hand(session, digits(), training, MASKS[2])
    assert largest_difference({n: t[2] for n, t in stack.items()}, plain) < 2e-5
    if "mu" not in changes:
        assert stack["2.num_batches_tracked"].tolist() == [2] * len(MASKS)


def test_numbers_of_batches_are_averaged_and_rounded() -> None:
    session = session_of(STACKED["batch norm"], SGD)
    stack = session.take(session.initial(), [0, 0, 0])
    stack["2.num_batches_tracked"] = torch.tensor([3, 4, 9])
    averaged = session.average(stack, [0, 0, 1], [0.3, 0.7, 1.0])["2.num_batches_tracked"]
    assert (averaged.dtype, averaged.tolist()) == (torch.int64, [4, 9])


def test_a_batch_of_one_sample_is_refused_where_there_is_no_variance() -> None:
    scenario = digits((33, 20, 64, 5))
    with pytest.raises(
        InputError, match=r"two samples in each.*batches of 16.*client 0. Choose another batch, such as 15"
    ):
        session_of(STACKED["batch norm"], SGD, None, scenario)
    session_of(STACKED["batch norm of images"], SGD, None, scenario)  # each has many pixels
    with pytest.raises(InputError, match=r"client 1. Give every client at least two rows"):
        session_of(STACKED["batch norm"], SGD, None, digits((32, 1, 64, 5)))


def test_a_buffer_that_changes_after_all_is_found() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.passes = nn.Linear(64, 10), 0
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.passes += 1
            if self.passes > 30:
                self.seen += 1
            return self.layer(x.flatten(1))

    session = session_of(Late, SGD)
    with pytest.raises(
        InputError, match=r"changes its buffer 'seen' in training, but not in its first passes"
    ):
        final_models(session, digits(), SGD, MASKS)


@pytest.mark.slow
def test_frozen_parameters_are_held_once() -> None:
    """Bytes of a stack, of its programs and of the estimate follow what is trained, not the base."""

    def with_base(width: int) -> Make:
        def make() -> nn.Module:
            base = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, 8)).requires_grad_(
                False
            )
            return nn.Sequential(base, nn.Linear(8, 10))

        return make

    torch.set_num_threads(2)
    try:
        small, large = (session_of(with_base(width), SGD) for width in (8, 4000))
    finally:
        torch.set_num_threads(1)
    trained = 4 * (80 + 10)
    for session in (small, large):
        assert sum(tensor.nbytes for tensor in session.drawn([None] * 7).values()) == 7 * trained
        assert session.cost[0] == 6 * trained
    assert (
        large.cost[1] - small.cost[1] < 8 * 16 * 4 * 4000
    )  # what a batch of 16 leaves in the base, and no copy of it
    assert len(large.programs) == 2
    held = {p.data_ptr() for program in large.programs for p in program.module[0].parameters()}
    assert len(held) == len(list(large.module[0].parameters()))


def test_gradient_methods_know_what_is_trained() -> None:
    session = session_of(STACKED["batch norm"], SGD)
    before = session.initial()
    after = final_models(session, digits(), SGD, MASKS)
    drops = session.loss_drops(before, after)
    assert all(drop > 0 for drop in drops)
    moved = session.step(before, before, after, np.array([[1.0, 0, 0, 0], [0.25] * 4]))
    assert (
        largest_difference({n: t[:1] for n, t in moved.items()}, {n: t[:1] for n, t in after.items()}) < 1e-5
    )
    assert moved["2.num_batches_tracked"].dtype == torch.int64
