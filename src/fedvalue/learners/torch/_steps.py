"""Local training of a stack: the optimiser steps that a client makes in one round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import vmap

from fedvalue.learners.torch._cuda_graph import StepRunner
from fedvalue.learners.torch._dropout import CountedDropout
from fedvalue.learners.torch._inputs import Samples, taken
from fedvalue.learners.torch._linear import StackedLinear, column_major
from fedvalue.learners.torch._losses import Losses
from fedvalue.learners.torch._optimizers import MadeOptimizer, can_be_recorded, can_rest, clip, optimizer_of
from fedvalue.learners.torch._random import seeded_generators
from fedvalue.training import Training

if TYPE_CHECKING:
    from fedvalue.learners.torch._cuda_adam import StackAdam

__all__ = ["Batches", "LocalSteps", "TorchStack"]


TorchStack = dict[str, Tensor]
"""Parameters of R models, each a tensor with a leading dimension of R."""


@dataclass(frozen=True)
class Batches:
    """One client's round: sample numbers (steps × batch), their weights in the loss, and for what a model draws in training
    a key of every step (dropout) and a seed (all else)."""

    index: Tensor
    weight: Tensor
    key: Tensor
    seed: int

    @staticmethod
    def drawn(
        seed: np.random.SeedSequence,
        samples: int,
        width: int,
        epochs: int,
        offset: int,
        device: str,
        counts: NDArray[np.float32] | None = None,
    ) -> Batches:
        """All samples of a client in another order in every epoch; they are numbered from `offset`.

        `counts` is what each sample counts in the loss of its batch, which is a weighted mean; None: all the same.
        """
        rng = np.random.default_rng(seed)
        steps = -(-samples // width)
        # Filled up with a sample of its own: weight 0 does not make another client's infinite loss vanish.
        index = np.full((epochs, steps * width), offset, np.int64)
        weight = np.zeros((epochs, steps * width), np.float32)
        for epoch in range(epochs):
            order = rng.permutation(samples)
            index[epoch, :samples] = order + offset
            weight[epoch, :samples] = 1 if counts is None else counts[order]
        weight = weight.reshape(epochs * steps, width)
        weight /= weight.sum(1, keepdims=True)
        first, *keys = seed.generate_state(1 + epochs * steps).tolist()
        return Batches(
            torch.from_numpy(index.reshape(epochs * steps, width)).to(device),
            torch.from_numpy(weight).to(device),
            torch.tensor(keys, dtype=torch.int64, device=device),
            first,
        )

    def padded(self, steps: int) -> Batches:
        """With further steps in which no sample counts."""
        more = steps - len(self.key)
        index, weight, key = (
            torch.cat([part, part[-1:].expand(more, *part.shape[1:])]) for part in self._tensors()
        )
        weight[len(self.key) :] = 0
        return Batches(index, weight, key, self.seed)

    def _tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.index, self.weight, self.key


@dataclass(frozen=True)
class LocalSteps:
    """How models are trained on samples `x`, `y` of all clients in round `t` under the rules of a training."""

    forward: Callable[[TorchStack, Samples], tuple[Tensor, TorchStack]]
    losses: Losses
    training: Training
    x: Samples
    y: Tensor
    drops: bool = False
    state: tuple[str, ...] = ()  # buffers that change in training; no optimiser knows of them
    whole: bool = False  # batches hold a client's own samples and no others: all clients have equally many
    draws: bool = False  # random numbers of torch's one sequence, which must be seeded
    t: int = 1
    runner: StepRunner = field(default_factory=StepRunner)

    def together(self, stack: TorchStack, clients: Sequence[Batches], owner: Sequence[int]) -> TorchStack:
        """All rows in step: one forward, one backward and one optimiser step for the whole stack.

        Row r is trained on the batches `clients[owner[r]]`. All clients make the same number of steps, or, where
        `can_rest`, those with fewer rest at the end. Where each has as many rows as the others, one after the other, they
        share its samples: nothing is copied, and first layers become one product.
        """
        on_cuda = self.y.is_cuda
        layout = column_major if on_cuda else Tensor.contiguous
        leaves = {name: layout(t).requires_grad_() for name, t in stack.items() if name not in self.state}
        state = {name: stack[name] for name in self.state}
        anchor = self._anchor(leaves)
        optimizer = self._optimizer(leaves)
        outputs_of = self._outputs(len(clients), owner)
        place = torch.tensor(owner, device=self.y.device)

        def step(index: Tensor, weight: Tensor, key: Tensor) -> None:
            optimizer.zero_grad(set_to_none=True)
            if self.whole:
                index, weight = _without_filling(index, weight)
            for part, (some, counts) in enumerate(self._parts(index, weight)):
                with nullcontext() if on_cuda else StackedLinear():
                    outputs, changed = outputs_of({**leaves, **state}, some, key + part if part else key)
                state.update(_detached(changed))
                loss = (self.losses(outputs, self.y[some[place]]) * counts[place]).sum()
                held = anchor and not part
                torch.autograd.backward(loss + self._proximal(leaves, anchor) if held else loss)
            self._clip(leaves, stacked=True)
            if resting:
                cast("StackAdam", optimizer).step_of((weight > 0).any(-1)[place].to(torch.int8))
            else:
                optimizer.step()

        most = max(len(batches.key) for batches in clients)
        resting = any(len(batches.key) < most for batches in clients)
        padded = [batches.padded(most) for batches in clients] if resting else clients
        steps = (torch.stack([getattr(c, name) for c in padded]) for name in ("index", "weight", "key"))
        self.runner.run(step, *steps, record=on_cuda and self._is_recorded)
        return {name: tensor.detach().contiguous() for name, tensor in {**leaves, **state}.items()}

    def output(self, model: TorchStack, x: Samples, key: Tensor) -> tuple[Tensor, TorchStack]:
        """What a model says of samples in a step of its training, which has this key, and the buffers that it then has."""
        with CountedDropout(key) if self.drops else nullcontext(), self._precision():
            outputs, state = self.forward(model, x)
        return outputs.float(), state

    def _outputs(
        self, clients: int, owner: Sequence[int]
    ) -> Callable[[TorchStack, Tensor, Tensor], tuple[Tensor, TorchStack]]:
        """What the rows of a stack say, from the samples and the key of every client."""
        rows = len(owner) // clients
        in_blocks = list(owner) == [client for client in range(clients) for _ in range(rows)]
        shared = vmap(self.output, in_dims=(0, None, None))
        if clients == 1:
            return lambda stack, index, key: shared(stack, taken(self.x, index[0]), key[0])
        if rows == 1 or not in_blocks:
            forward = vmap(self.output)
            place = torch.tensor(owner, device=self.y.device)
            return lambda stack, index, key: forward(stack, taken(self.x, index[place]), key[place])
        blocks = vmap(shared)

        def outputs(stack: TorchStack, index: Tensor, key: Tensor) -> tuple[Tensor, TorchStack]:
            in_clients = {
                name: tensor.reshape(clients, rows, *tensor.shape[1:]) for name, tensor in stack.items()
            }
            said, state = blocks(in_clients, taken(self.x, index), key)
            return said.flatten(0, 1), {name: tensor.flatten(0, 1) for name, tensor in state.items()}

        return outputs

    def each(self, stack: TorchStack, clients: Sequence[Batches], owner: Sequence[int]) -> TorchStack:
        """One row after the other, as a plain loop would."""
        trained = [
            self._one({name: tensor[row] for name, tensor in stack.items()}, clients[of])
            for row, of in enumerate(owner)
        ]
        return {name: torch.stack([model[name] for model in trained]) for name in stack}

    def _one(self, model: TorchStack, batches: Batches) -> TorchStack:
        leaves = {n: t.clone().requires_grad_() for n, t in model.items() if n not in self.state}
        state = {name: model[name] for name in self.state}
        anchor = self._anchor(leaves)
        optimizer = self._optimizer(leaves)
        steps = zip(batches.index, batches.weight, batches.key, strict=True)
        # What is drawn is drawn alike for every coalition.
        with seeded_generators(batches.seed) if self.draws else nullcontext():
            for index, weight, key in steps:

                def gradients(index: Tensor = index, weight: Tensor = weight, key: Tensor = key) -> Tensor:
                    optimizer.zero_grad(set_to_none=True)
                    total = self._loss_of(leaves, state, anchor, index, weight, key)
                    self._clip(leaves, stacked=False)
                    return total

                if self.training.optimizer == "lbfgs":
                    cast(Any, optimizer).step(gradients)
                else:
                    gradients()
                    optimizer.step()
        return {name: leaf.detach() for name, leaf in {**leaves, **state}.items()}

    def _loss_of(
        self,
        leaves: TorchStack,
        state: TorchStack,
        anchor: TorchStack,
        index: Tensor,
        weight: Tensor,
        key: Tensor,
    ) -> Tensor:
        """The loss of one model in a step, whose gradients it leaves behind, as well as its changed `state`."""
        found = []
        for part, (some, counts) in enumerate(self._parts(index, weight)):
            real = counts > 0
            samples = some[real]
            if not len(samples):
                continue
            outputs, changed = self.output(
                {**leaves, **state}, taken(self.x, samples), key + part if part else key
            )
            state.update(_detached(changed))
            loss = (self.losses(outputs, self.y[samples]) * counts[real]).sum()
            if anchor and not part:
                loss = loss + self._proximal(leaves, anchor)
            torch.autograd.backward(loss)
            found.append(loss.detach())
        return reduce(torch.add, found)

    def _parts(self, index: Tensor, weight: Tensor) -> Iterable[tuple[Tensor, Tensor]]:
        """A step's samples and their weights, by the minibatches whose gradients add up to that of the step."""
        if self.training.accumulate == 1:
            return ((index, weight),)
        parts = (torch.split(tensor, self.training.batch, -1) for tensor in (index, weight))
        return zip(*parts, strict=True)

    def _precision(self) -> AbstractContextManager[Any]:
        if self.training.precision == "float32":
            return nullcontext()
        return torch.autocast(self.y.device.type, torch.bfloat16, cache_enabled=False)

    def _clip(self, leaves: TorchStack, stacked: bool) -> None:
        if self.training.clip:
            clip(list(leaves.values()), self.training.clip, stacked)

    def _anchor(self, leaves: TorchStack) -> TorchStack:
        """The global model that FedProx holds on to; nothing without μ."""
        return {k: v.detach().clone() for k, v in leaves.items()} if self.training.mu else {}

    def _proximal(self, leaves: TorchStack, anchor: TorchStack) -> Tensor:
        distances = [(leaves[name] - start).square().sum() for name, start in anchor.items()]
        return self.training.mu / 2 * torch.stack(distances).sum()

    @property
    def _is_recorded(self) -> bool:
        return can_be_recorded(self.training) and self.losses.recorded and not self.whole

    @property
    def can_rest(self) -> bool:
        """Whether rows of a stack may make fewer steps than others."""
        return not self.whole and can_rest(self.training, self.y.device)

    def _optimizer(self, leaves: TorchStack) -> MadeOptimizer:
        return optimizer_of(self.training, list(leaves.values()), self.training.rate_in(self.t))


def _detached(tensors: TorchStack) -> TorchStack:
    return {name: tensor.detach() for name, tensor in tensors.items()}


def _without_filling(index: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """A step without the samples that only fill it up; all clients have as many of their own."""
    own = int(torch.nonzero(weight.amax(0))[-1]) + 1
    return index[:, :own], weight[:, :own]
