"""Torch models, trained many at a time as one program.

A stack holds the parameters of R models as tensors with a leading dimension of R. A training step of all
of them is one forward pass under `vmap`, one backward pass and one optimiser step: the models do not
interact, so each row gets exactly its own gradient, and elementwise optimisers treat a stack like a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fedvalue.errors import InputError
from fedvalue.learners._scores import scores
from fedvalue.learners.memory import available_memory, row_cost
from fedvalue.learners.metrics import Metric
from fedvalue.learners.torch._checks import can_be_stacked, check_module, make_module
from fedvalue.learners.torch._models import MODELS, ModelFactory, PooledConv2d
from fedvalue.learners.torch._steps import Batches, LocalSteps, TorchStack
from fedvalue.learners.torch._updates import loss_drops, step
from fedvalue.scenarios import Scenario
from fedvalue.store import fingerprint
from fedvalue.training import Training

__all__ = ["TorchLearner", "TorchSession", "TorchStack"]

# On a CPU more rows in training gain nothing (their working set leaves the cache), and a wave of more rows
# would keep finished work from the store for longer.
_ROWS_IN_TRAINING, _ROWS_IN_WAVE = 64, 320
_ROWS_TO_SHARE = 16  # from here on it pays to train the rows of one client by themselves
_TEST_CHUNK = 4096
# Convolutions of a single model on so few samples are slower with two threads than with one.
_SAMPLES_FOR_ONE_THREAD = 32


class TorchLearner:
    """A torch model by name ('mlp', 'cnn', …) or by a function scenario → nn.Module of one's own.

    `together=None` trains stacks as one program, except convolutions on a CPU, where a loop over the models
    is faster (grouped convolutions cost twice as much there), and modules that `vmap` cannot stack, such as
    those with dropout. Both ways agree within float tolerance.

    A store recognises a model of one's own by the source text of its function and by the module that it makes;
    `key="…"` replaces that with a name, which must change whenever the model does.
    """

    averages = True
    own_metrics: Mapping[str, Metric] = {}

    def __init__(
        self, model: str | ModelFactory = "mlp", *, together: bool | None = None, key: str | None = None
    ) -> None:
        if isinstance(model, str) and model not in MODELS:
            raise InputError(f"Unknown model {model!r}. Models: {', '.join(MODELS)}.")
        if isinstance(model, nn.Module) or not (isinstance(model, str) or callable(model)):
            raise InputError(
                "A model is given by name or as a function scenario → nn.Module that makes it. "
                f"Got a {type(model).__name__}."
            )
        self.model = model
        self.together = together
        self.key = key

    def identity(self) -> Mapping[str, Any]:
        if isinstance(self.model, str):
            return {"model": self.model}
        if self.key is not None:
            return {"model": "own", "key": self.key}
        return {"model": "own", "code": fingerprint(self.model)[0]}

    @property
    def doubts(self) -> tuple[str, ...]:
        """What the identity cannot cover (own models only). Files that it reads show in the module."""
        if isinstance(self.model, str) or self.key is not None:
            return ()
        return fingerprint(self.model, reads=False)[1]

    def start(self, scenario: Scenario, seed: int) -> Mapping[str, Any]:
        """What a model of one's own is made of and begins with: pretrained weights may come from anywhere."""
        if isinstance(self.model, str) or self.key is not None:
            return {}
        return {"start": fingerprint(self.module(scenario, seed))[0]}

    def session(
        self, scenario: Scenario, training: Training, device: str, memory: int | None
    ) -> TorchSession:
        return TorchSession(self, scenario, training, device, memory)

    def module(self, scenario: Scenario, seed: int) -> nn.Module:
        """The initial model: the same for a seed, whatever was drawn before."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return check_module(make_module(self._factory, scenario), scenario)

    def another(self, scenario: Scenario, seed: int) -> nn.Module:
        """One more such model, which needs no checks; seeding every device there is would take longer than making it."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            module: nn.Module = make_module(self._factory, scenario)
            return module

    @property
    def _factory(self) -> ModelFactory:
        return MODELS[self.model] if isinstance(self.model, str) else self.model


class TorchSession:
    """See `fedvalue.training._fedavg._session.Session`."""

    def __init__(
        self,
        learner: TorchLearner,
        scenario: Scenario,
        training: Training,
        device: str,
        memory: int | None,
    ) -> None:
        self.scenario = scenario
        self.training = training
        self.device = device
        self.own_metrics = learner.own_metrics
        self.learner = learner
        self.module = learner.module(scenario, training.seed).to(device)
        self.buffers = dict(self.module.named_buffers())
        self.convolves = _holds(self.module, nn.modules.conv._ConvNd, PooledConv2d)
        self.regression = scenario.classes == 0
        self.x = torch.from_numpy(np.concatenate([c.x for c in scenario.clients])).to(device)
        self.y = torch.from_numpy(np.concatenate([c.y for c in scenario.clients])).to(device)
        self.steps = LocalSteps(self._forward, self._losses, training, self.x, self.y)
        self.offsets = np.cumsum([0, *(len(c) for c in scenario.clients)])
        self.test_x = torch.from_numpy(scenario.test.x).to(device)
        self.test_y = torch.from_numpy(scenario.test.y).to(device)
        self.parts = {k: torch.from_numpy(v).to(device) for k, v in scenario.test_parts.items()}
        self.together = self._is_faster_together(learner) if learner.together is None else learner.together
        self.minibatches = lru_cache(maxsize=4 * scenario.n)(self._minibatches)
        half = (
            memory or available_memory(device)
        ) // 2  # one for models that wait, one for those in training
        most = (_ROWS_IN_WAVE, _ROWS_IN_TRAINING) if device == "cpu" else (half, half)
        self.cost = row_cost(self.module, self.x[:1], self._widest_batch())
        self.rows, self.chunk = (max(1, min(m, half // c)) for m, c in zip(most, self.cost, strict=True))

    def memory(self, rows: int) -> int:
        """An upper estimate of the bytes that so many local trainings side by side take."""
        held, trained = self.cost
        return rows * held + min(rows, self.chunk) * trained

    def initial(self) -> TorchStack:
        return self.drawn([None])

    def drawn(self, seeds: Sequence[int | None]) -> TorchStack:
        # Parameters that the user has frozen are part of the module, like buffers.
        trained = [name for name, p in self.module.named_parameters() if p.requires_grad]
        rows: dict[str, list[Tensor]] = {name: [] for name in trained}
        for seed in seeds:
            module = self.module if seed is None else self.learner.another(self.scenario, seed)
            parameters = dict(module.named_parameters())
            for name in trained:
                rows[name].append(parameters[name].detach().to(self.device))
        return {name: torch.stack(tensors) for name, tensors in rows.items()}

    def take(self, stack: TorchStack, rows: Sequence[int]) -> TorchStack:
        index = torch.as_tensor(rows, dtype=torch.long, device=self.device)
        return {name: tensor[index] for name, tensor in stack.items()}

    def average(self, stack: TorchStack, groups: Sequence[int], weights: Sequence[float]) -> TorchStack:
        # One member of every group after the other, instead of a scattered sum: the order of additions,
        # and with it every bit of the result, is the same on every device.
        position: dict[int, list[int]] = {}
        for row, group in enumerate(groups):
            position.setdefault(group, []).append(row)
        turns = [
            [(group, rows[turn]) for group, rows in position.items() if turn < len(rows)]
            for turn in range(max(map(len, position.values()), default=0))
        ]
        moves = [torch.tensor(turn, device=self.device).unbind(1) for turn in turns]
        weight = torch.as_tensor(weights, dtype=torch.float32, device=self.device)
        averaged = {}
        for name, tensor in stack.items():
            total = tensor.new_zeros(len(position), *tensor.shape[1:])
            for into, rows in moves:
                total[into] += tensor[rows] * weight[rows].view(-1, *[1] * (tensor.dim() - 1))
            averaged[name] = total
        return averaged

    def local(self, stack: TorchStack, owners: Sequence[int], t: int) -> TorchStack:
        small = self.device == "cpu" and not self.together and self._widest_batch() <= _SAMPLES_FOR_ONE_THREAD
        with self._on_device(), _one_thread() if small else nullcontext():
            return self._local(stack, owners, t)

    def _local(self, stack: TorchStack, owners: Sequence[int], t: int) -> TorchStack:
        self.module.train()
        train = self.steps.together if self.together else self.steps.each
        trained = {name: torch.empty_like(tensor) for name, tensor in stack.items()}
        for rows in self._equal_steps(owners, t):
            clients = sorted({owners[row] for row in rows})
            batches = [self.minibatches(client, t) for client in clients]
            done = train(self.take(stack, rows), batches, [clients.index(owners[row]) for row in rows])
            if rows == list(range(len(owners))):
                return done
            index = torch.as_tensor(rows, device=self.device)
            for name, tensor in done.items():
                trained[name][index] = tensor
        return trained

    def evaluate(self, stack: TorchStack) -> list[dict[str, float]]:
        found: list[dict[str, float]] = []
        count = len(next(iter(stack.values())))
        # What can be trained at once can be evaluated at once, or fewer models on more samples.
        chunk = min(count, self.chunk)
        samples = self.chunk * self._widest_batch() // chunk
        for start in range(0, count, chunk):
            part = {name: tensor[start : start + chunk] for name, tensor in stack.items()}
            with self._on_device():
                outputs = self._outputs(part, min(samples, _TEST_CHUNK))
            found += scores(outputs, self.test_y, self.scenario.task, self.parts, self.own_metrics)
        return found

    step = staticmethod(step)

    def loss_drops(self, before: TorchStack, after: TorchStack) -> list[float]:
        self.module.eval()
        split_x, split_y = (torch.split(part, _TEST_CHUNK) for part in (self.test_x, self.test_y))
        pieces = zip(split_x, split_y, strict=True)
        losses = (lambda model, x=x, y=y: self._losses(self._forward(model, x), y) for x, y in pieces)
        return loss_drops(losses, before, after, len(self.test_y))

    @torch.no_grad()
    def _outputs(self, stack: TorchStack, samples: int) -> Tensor:
        self.module.eval()
        pieces = torch.split(self.test_x, samples)
        if self.together:
            forward = vmap(self._forward, in_dims=(0, None))
            return torch.cat([forward(stack, piece) for piece in pieces], dim=1)
        rows = range(len(next(iter(stack.values()))))
        models = [{name: tensor[row] for name, tensor in stack.items()} for row in rows]
        return torch.stack([torch.cat([self._forward(m, piece) for piece in pieces]) for m in models])

    def _forward(self, parameters: TorchStack, x: Tensor) -> Tensor:
        outputs: Tensor = functional_call(self.module, {**parameters, **self.buffers}, (x,))
        return outputs

    def _losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of every sample, in the shape of y."""
        if self.regression:
            return (outputs.squeeze(-1) - y).square()
        flat = nn.functional.cross_entropy(outputs.flatten(0, -2), y.flatten(), reduction="none")
        return flat.view(y.shape)

    def _equal_steps(self, owners: Sequence[int], t: int) -> Iterator[list[int]]:
        """Rows that can be trained in step, at most `self.chunk` at a time.

        Their clients make the same number of steps. Many rows of one client are trained by themselves: they
        share its samples, where others would need copies. Always so for convolutions, whose unfolded images
        are much larger than the models; never for other models on CUDA, where launches cost more.
        """
        least = 1 if self.convolves else _ROWS_TO_SHARE if self.device == "cpu" else len(owners) + 1
        count = Counter(owners)
        in_step: dict[tuple[int, int], list[int]] = {}
        for row, owner in enumerate(owners):
            alone = owner if count[owner] >= least else -1
            in_step.setdefault((len(self.minibatches(owner, t).index), alone), []).append(row)
        for rows in in_step.values():
            for start in range(0, len(rows), self.chunk):
                yield rows[start : start + self.chunk]

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        """On CUDA, makes the device the current one, which streams and graphs belong to.

        Our convolutions are matrix products there; they get the precision that torch's own have. That is
        TF32, unless `torch.backends.cudnn.allow_tf32` says otherwise. Other models stay in float32.
        """
        if not self.device.startswith("cuda"):
            yield
            return
        before = torch.backends.cuda.matmul.allow_tf32
        if self.convolves:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32
        try:
            with torch.cuda.device(self.device):
                yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    def _is_faster_together(self, learner: TorchLearner) -> bool:
        if self.convolves and self.device == "cpu":
            return False
        return isinstance(learner.model, str) or can_be_stacked(
            self._forward, self.initial(), self.test_x[:2]
        )

    def _widest_batch(self) -> int:
        most = max(len(c) for c in self.scenario.clients)
        return most if self.training.algorithm == "fedsgd" else min(self.training.batch, most)

    def _minibatches(self, client: int, t: int) -> Batches:
        """Which samples each step of a client's round t sees; the last batch of an epoch may be smaller."""
        data = self.scenario.clients[client]
        width = self._widest_batch()
        epochs = 1 if self.training.algorithm == "fedsgd" else self.training.epochs
        seed = np.random.SeedSequence([self.training.seed, int(data.fingerprint[:16], 16), t])
        rng = np.random.default_rng(seed)
        steps = -(-len(data) // width)
        # Filled up with a sample of its own: weight 0 does not make another client's infinite loss vanish.
        index = np.full((epochs, steps * width), self.offsets[client], np.int64)
        weight = np.zeros((epochs, steps * width), np.float32)
        for epoch in range(epochs):
            index[epoch, : len(data)] = rng.permutation(len(data)) + self.offsets[client]
            weight[epoch, : len(data)] = 1
        weight = weight.reshape(epochs * steps, width)
        weight /= weight.sum(1, keepdims=True)
        return Batches(
            torch.from_numpy(index.reshape(epochs * steps, width)).to(self.device),
            torch.from_numpy(weight).to(self.device),
            int(seed.generate_state(1)[0]),
        )


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _holds(module: nn.Module, *kinds: type[nn.Module]) -> bool:
    return any(isinstance(part, kinds) for part in module.modules())
