"""Whether a module does with parameters that are handed to it what it does with its own.

A stack calls a module with the parameters of one coalition after the other, or of all at once. Where a module reaches a
parameter by another way than its attributes (a list in Python, a function that refers to it), it would use that of the
module; where hooks change gradients, they may not see those of a stack; and a copy for another thread may use the original.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import vmap

from fedvalue.errors import InputError
from fedvalue.learners.torch._buffers import HeldBuffers
from fedvalue.learners.torch._inputs import Samples, call
from fedvalue.learners.torch._linear import StackedLinear
from fedvalue.learners.torch._parts import Program, as_real
from fedvalue.learners.torch._random import seeded_generators
from fedvalue.learners.torch._steps import LocalSteps, TorchStack
from fedvalue.scenarios import mapped

__all__ = ["Faithful"]

# Of the largest number: what is looked for is much larger than what rounding does, in bfloat16 as well.
_CLOSE, _CLOSE_IN_A_STACK = 0.02, 0.1

_Heard = tuple[
    Tensor, Tensor, Tensor
]  # outputs in training, the slopes of all parameters, outputs in evaluation


class Faithful:
    """What a module says of samples with other parameters than it began with, and its gradients: those of plain torch."""

    def __init__(self, module: nn.Module, steps: LocalSteps, initial: TorchStack, x: Samples) -> None:
        self.module, self.steps, self.samples = module, steps, x
        self.key = torch.zeros((), dtype=torch.int64, device=steps.y.device)
        self.initial = {name: tensor[0] for name, tensor in initial.items()}
        self.trained = [name for name in initial if name not in steps.state]
        with seeded_generators(0), torch.no_grad():
            self.model = {name: _moved(t) if name in self.trained else t for name, t in self.initial.items()}
        self.wanted = self._plainly()

    @property
    def x(self) -> Samples:
        """The samples, in memory that a module may change."""
        return mapped(Tensor.clone, self.samples)

    def check(self, program: Program) -> None:
        """Refuses a module that does something else with parameters that are handed to it."""
        if not self.holds(program):
            raise InputError(
                "The model says something else, or has other gradients, when its parameters are handed to it than when they "
                "are put into it. Does it reach a parameter through a list or a function instead of an attribute (take "
                "nn.ParameterList or nn.ModuleList), does a hook change the gradient of a parameter, or does train() or "
                "eval() change parameters?"
            )

    def holds(self, program: Program) -> bool:
        """Whether a program does what plain torch does, in training and in evaluation."""
        return _alike(self._alone(program), self.wanted)

    def holds_stacked(self, program: Program) -> bool:
        """Whether a stack, beside a model with other parameters, has the same gradients as a model alone."""
        alone = self._alone(program)
        output = replace(self.steps, forward=program.stepped).output
        program.module.train()
        pair = {name: torch.stack([self.initial[name], tensor]) for name, tensor in self.model.items()}
        with StackedLinear():
            heard = self._heard(
                lambda stack: vmap(output, in_dims=(0, None, None))(stack, self.x, self.key)[0], pair, row=1
            )
        program.module.eval()
        return all(_close(one, other, _CLOSE_IN_A_STACK) for one, other in zip(heard, alone, strict=False))

    def copies(self, program: Program, count: int) -> list[Program]:
        """So many copies of a program for threads that do the same; it alone where a copy does something else."""
        if count == 1:
            return [program]
        with seeded_generators(0), torch.no_grad():  # leaves nothing of a trial behind that cannot be copied
            held = HeldBuffers(self.module)
            call(self.module.eval(), self.x)
            held.put_back()
        try:
            programs = program.copies(count)
        except Exception:  # what a module holds may be anything
            return [program]
        alone = self._alone(program)
        alike = (_alike(self._alone(copied), alone) for copied in programs[1:])
        return programs if all(alike) else [program]

    def _alone(self, program: Program) -> _Heard:
        output = replace(self.steps, forward=program.stepped).output
        program.module.train()
        heard = self._heard(lambda model: output(model, self.x, self.key)[0], self.model)
        program.module.eval()
        with seeded_generators(0), torch.no_grad():
            return *heard, program(self.model, self.x).float()

    def _plainly(self) -> _Heard:
        """What the module does with the parameters in it."""
        module, held = self.module.train(), HeldBuffers(self.module)
        parameters: TorchStack = {n: p for n, p in module.named_parameters() if n in self.trained}
        before = {name: p.detach().clone() for name, p in parameters.items()}
        output = replace(self.steps, forward=lambda _, x: (call(module, x), {})).output
        try:
            _put(parameters, {name: self.model[name] for name in parameters})
            heard = self._heard(lambda _: output({}, self.x, self.key)[0], parameters)
            held.put_back()
            with seeded_generators(0), torch.no_grad():
                said = call(module.eval(), self.x)
        finally:
            module.train()
            _put(parameters, {name: as_real(tensor) for name, tensor in before.items()})
            held.put_back()
            module.eval()
        return *heard, said.float()

    def _heard(
        self, output: Callable[[TorchStack], Tensor], model: TorchStack, row: int | None = None
    ) -> tuple[Tensor, Tensor]:
        leaves = {
            name: t if t.is_leaf and t.requires_grad else t.detach().requires_grad_(name in self.trained)
            for name, t in model.items()
        }
        with seeded_generators(0), torch.enable_grad():
            outputs = output(leaves)
            said = outputs if row is None else outputs[row]
            weights = torch.arange(said.numel(), device=said.device).cos().view(said.shape)
            wanted: Sequence[Tensor] = [leaves[name] for name in self.trained]
            found = torch.autograd.grad((said.float() * weights).sum(), wanted, allow_unused=True)
        slopes = [
            torch.zeros_like(leaf) if slope is None else slope
            for leaf, slope in zip(wanted, found, strict=True)
        ]
        rows = [as_real(s).float() if row is None else s[row].float() for s in slopes]
        return said.detach().float(), torch.cat([s.flatten() for s in rows])


def _alike(one: _Heard, other: _Heard) -> bool:
    return all(_close(*pair, _CLOSE) for pair in zip(one, other, strict=True))


def _close(one: Tensor, other: Tensor, share: float) -> bool:
    most = float(torch.nan_to_num(other).abs().max())
    return torch.allclose(one, other, rtol=0.0, atol=share * most + 1e-6, equal_nan=True)


def _moved(tensor: Tensor) -> Tensor:
    """Other parameters, not far away."""
    drawn = torch.randn(2, *tensor.shape).to(tensor)
    return tensor * (1 + drawn[0] / 10) + drawn[1] / 100


@torch.no_grad()
def _put(parameters: TorchStack, numbers: TorchStack) -> None:
    for name, parameter in parameters.items():
        as_real(parameter).copy_(numbers[name])
