"""Torch models, trained many at a time as one program.

A stack holds the parameters of R models as tensors with a leading dimension of R. A training step of all
of them is one forward pass under `vmap`, one backward pass and one optimiser step: the models do not
interact, so each row gets exactly its own gradient, and elementwise optimisers treat a stack like a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from fedvalue.errors import InputError
from fedvalue.learners._scores import outcomes
from fedvalue.learners._threads import one_thread
from fedvalue.learners.memory import available_memory, row_cost
from fedvalue.learners.torch._buffers import HeldBuffers
from fedvalue.learners.torch._checks import check_batches
from fedvalue.learners.torch._dropout import may_drop
from fedvalue.learners.torch._echo import Echo
from fedvalue.learners.torch._faithful import Faithful
from fedvalue.learners.torch._inputs import call, filled, taken, tensors
from fedvalue.learners.torch._linear import LINE, StackedLinear
from fedvalue.learners.torch._losses import losses_of
from fedvalue.learners.torch._models import PooledConv2d
from fedvalue.learners.torch._parts import Program, as_real, on_device, side_by_side
from fedvalue.learners.torch._random import drawn_so_far, seeded_generators
from fedvalue.learners.torch._rows import Order, in_step
from fedvalue.learners.torch._rules import check_rules, sample_weights, widest_batch
from fedvalue.learners.torch._stacking import same_but_for_training, why_not_evaluated, why_not_stacked
from fedvalue.learners.torch._steps import Batches, LocalSteps, TorchStack
from fedvalue.learners.torch._updates import average, loss_drops, step
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario, leaves, rows_joined
from fedvalue.training import Training

if TYPE_CHECKING:
    from fedvalue.learners.torch._learner import TorchLearner

__all__ = ["TorchSession", "TorchStack"]

Part = TypeVar("Part")
Result = TypeVar("Result")

# On a CPU more rows in training gain nothing (their working set leaves the cache), and a wave of more rows
# would keep finished work from the store for longer.
_ROWS_IN_TRAINING, _ROWS_IN_WAVE = 64, 320
_ROWS_TO_SHARE = 16  # from here on it pays to train rows that share samples by themselves
_TEST_CHUNK = 4096
# Launches cost more than steps in vain: rows that make up to so many times as many steps are trained together on CUDA.
_LITTLE_REST = 1.25
_TWO_SEEDS = (0, 1)
_TRIED = 4  # samples: of two, a norm over the batch would leave nothing but their signs
_BYTES_OF_ORDERS = 64 << 20
# Convolutions of a single model on so few samples are slower with two threads than with one.
_SAMPLES_FOR_ONE_THREAD = 32


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
        self.lock = RLock()  # a call of the module swaps its parameters: one thread of the user's at a time
        self.learner = learner
        checked = learner.checked(scenario, training.seed)
        self.module, self.form = checked.module.to(device), checked.form
        self.convolves = any(
            isinstance(part, (nn.modules.conv._ConvNd, PooledConv2d)) for part in self.module.modules()
        )
        self.losses = losses_of(learner.loss, self.form, scenario, self.module, device)
        if training.class_weights and not self.losses.per_sample:
            raise InputError(
                "class_weights need a loss that returns the loss of every sample, not their mean."
            )
        self.apart = self.note = check_rules(scenario, training, self.module) or self.losses.apart
        self.x = tensors(rows_joined([c.x for c in scenario.clients]), device)
        # Targets are trained on a common scale; what comes out is measured in their own unit.
        self.scale = scenario.scale
        targets = self.scale.scaled(np.concatenate([c.y for c in scenario.clients]))
        self.y = torch.from_numpy(targets).to(device)
        self.state, self.whole, self.draws = checked.state, checked.whole, checked.draws
        if checked.least > 1:
            widest = self._widest_batch()
            check_batches(scenario, widest if training.algorithm == "fedsgd" else min(training.batch, widest))
        self.offsets = np.cumsum([0, *(len(c) for c in scenario.clients)])
        self.test_x = tensors(scenario.test.x, device)
        self.test_y = torch.from_numpy(scenario.test.y).to(device)
        self.parts = {k: torch.from_numpy(v).to(device) for k, v in scenario.test_parts.items()}
        drops, whole = may_drop(self.module), (self.state, self.whole)
        plain = Program(self.module, self.state).stepped
        self.steps = LocalSteps(plain, self.losses, training, self.x, self.y, drops, *whole)
        self.faithful: Faithful | None = None
        program = self._program(learner)
        if learner.together is not None and not self.apart:
            self.together = learner.together
        if not self.together and not isinstance(learner.model, str):
            # Modules of one's own that are trained one by one may draw random numbers, of which torch has one sequence.
            program.channels_last = self.convolves and device == "cpu"
            self.steps = replace(self.steps, draws=device != "cpu" or self._draws())
        self.in_parts = device == "cpu" and not self.steps.draws and not self.draws
        copies = program.copies if self.faithful is None else partial(self.faithful.copies, program)
        self.programs = copies(torch.get_num_threads() if self.in_parts else 1)
        self.faithful = None  # a few models large
        self.minibatches = lru_cache(maxsize=self._orders_to_keep())(self._minibatches)
        half = (
            memory or available_memory(device)
        ) // 2  # one for models that wait, one for those in training
        most = (_ROWS_IN_WAVE, _ROWS_IN_TRAINING) if device == "cpu" else (half, half)
        at_once = (
            min(training.batch, self._widest_batch()) if training.accumulate > 1 else self._widest_batch()
        )
        self.cost = self._row_cost(at_once)
        shares = (half, half // len(self.programs))
        fitting = zip(most, shares, self.cost, strict=True)
        self.rows, self.chunk = (max(1, min(most, share // cost)) for most, share, cost in fitting)

    def memory(self, rows: int) -> int:
        """An upper estimate of the bytes that so many local trainings side by side take."""
        held, trained = self.cost
        return rows * held + min(rows, self.chunk * len(self.programs)) * trained

    def initial(self) -> TorchStack:
        return self.drawn([None])

    def drawn(self, seeds: Sequence[int | None]) -> TorchStack:
        # Parameters that the user has frozen are part of the module, like buffers that stay as they are.
        with self.lock:  # another thread's call may have swapped the parameters
            trained = [name for name, p in self.module.named_parameters() if p.requires_grad]
            rows: dict[str, list[Tensor]] = {name: [] for name in (*trained, *self.state)}
            for seed in seeds:
                module = self.module if seed is None else self.learner.another(self.scenario, seed)
                held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
                for name, tensors_of_name in rows.items():
                    tensors_of_name.append(as_real(held[name].detach()).to(self.device))
        return {name: torch.stack(tensors) for name, tensors in rows.items()}

    @cached_property
    def reseeds(self) -> bool:
        """Whether models of other seeds differ in what is trained and in nothing else: they are trained as one program."""
        return isinstance(self.learner.model, str) or same_but_for_training(
            *(self.learner.another(self.scenario, seed) for seed in _TWO_SEEDS)
        )

    def take(self, stack: TorchStack, rows: Sequence[int]) -> TorchStack:
        index = torch.as_tensor(rows, dtype=torch.long, device=self.device)
        return {name: tensor[index] for name, tensor in stack.items()}

    def average(self, stack: TorchStack, groups: Sequence[int], weights: Sequence[float]) -> TorchStack:
        return average(stack, groups, weights)

    def local(self, stack: TorchStack, owners: Sequence[int], t: int) -> TorchStack:
        return self.reseeded(stack, owners, [None] * len(owners), t)

    def reseeded(
        self, stack: TorchStack, owners: Sequence[int], seeds: Sequence[int | None], t: int
    ) -> TorchStack:
        orders = list(zip(owners, seeds, strict=True))  # whose samples each row sees, in what order

        def train(program: Program, rows: list[int]) -> TorchStack:
            steps = replace(self.steps, forward=program.stepped, t=t)
            place = {order: number for number, order in enumerate(dict.fromkeys(orders[row] for row in rows))}
            batches = [self.minibatches(client, t, seed) for client, seed in place]
            in_stack = steps.together if self.together else steps.each
            return in_stack(self.take(stack, rows), batches, [place[orders[row]] for row in rows])

        parts = list(self._equal_steps(orders))
        found = self._each_part(train, parts, training=True)
        if parts == [list(range(len(owners)))]:
            return found[0]
        trained = {name: torch.empty_like(tensor) for name, tensor in stack.items()}
        for rows, done in zip(parts, found, strict=True):
            index = torch.as_tensor(rows, device=self.device)
            for name, tensor in done.items():
                trained[name][index] = tensor
        return trained

    def evaluate(self, stack: TorchStack) -> list[dict[str, float]]:
        return [dict(outcome.metrics) for outcome in self._outcomes(stack, told=False)]

    def outcomes(self, stack: TorchStack) -> list[Outcome]:
        return self._outcomes(stack, told=True)

    def _outcomes(self, stack: TorchStack, told: bool) -> list[Outcome]:
        found: list[Outcome] = []
        count = len(next(iter(stack.values())))
        # What can be trained at once can be evaluated at once, or fewer models on more samples: not on a CPU, where
        # a product of another shape is another sum, and equal samples would no longer have equal outputs.
        chunk = min(self.chunk, count if self.together else -(-count // len(self.programs)))
        samples = min(self.chunk * self._widest_batch() // chunk, _TEST_CHUNK)
        if self.device == "cpu":
            samples = -(-min(self._widest_batch(), len(self.test_y)) // LINE) * LINE

        def outputs(program: Program, start: int) -> Tensor:
            return self._outputs(program, {k: v[start : start + chunk] for k, v in stack.items()}, samples)

        at_once = chunk * len(self.programs)
        for first in range(0, count, at_once):
            starts = range(first, min(count, first + at_once), chunk)
            of_models = torch.cat(self._each_part(outputs, starts, training=False))
            with self.lock, one_thread() if self.in_parts else nullcontext():
                of_test = (self.test_y, self.scenario.task, self.parts, self.own_metrics, self.scale)
                found += outcomes(self.form.lined_up(of_models), *of_test, told=told)
        return found

    def _each_part(
        self, work: Callable[[Program, Part], Result], parts: Sequence[Part], training: bool
    ) -> list[Result]:
        small = self.device == "cpu" and self._widest_batch() <= _SAMPLES_FOR_ONE_THREAD
        with self.lock, on_device(self.device, self.convolves):
            echo = self.echo  # of the time before
            for program in self.programs:
                program.module.train(training)
            found = self._worked(work, parts, small)
            if echo is not None:
                for program in self.programs:
                    echo.check(program.module)
            return found

    def _worked(
        self, work: Callable[[Program, Part], Result], parts: Sequence[Part], small: bool
    ) -> list[Result]:
        if self.in_parts:
            before, drawn = torch.get_rng_state(), drawn_so_far()
            found = side_by_side(work, parts, self.programs)
            if self.together or drawn == drawn_so_far():
                return found
            # The module has drawn random numbers, but not when it was tried: again, one after the other.
            torch.set_rng_state(before)
            self.in_parts, self.steps = False, replace(self.steps, draws=True)
        with one_thread() if small else nullcontext():
            return [work(self.programs[0], part) for part in parts]

    @cached_property
    def echo(self) -> Echo | None:
        """What a module of one's own says now; our own remember nothing."""
        own = not isinstance(self.learner.model, str)
        return Echo(self.module, filled(taken(self.test_x, slice(0, 2)), 2)) if own else None

    step = staticmethod(step)

    def loss_drops(self, before: TorchStack, after: TorchStack) -> list[float]:
        if not self.losses.per_sample:
            raise InputError(
                "This method needs the slope of the loss on all test rows: return the loss of every sample, not their mean."
            )
        test_y = torch.from_numpy(self.scale.scaled(self.scenario.test.y)).to(self.device)
        cuts = [slice(start, start + _TEST_CHUNK) for start in range(0, len(test_y), _TEST_CHUNK)]
        pieces = [(taken(self.test_x, cut), test_y[cut]) for cut in cuts]
        forward = self.programs[0]
        losses = (lambda model, x=x, y=y: self.losses(forward(model, x), y) for x, y in pieces)
        with self.lock:
            self.module.eval()
            drops = loss_drops(losses, before, after, len(test_y), self.state)
        # Squared errors are in the unit of the targets; what unit a loss of one's own has is not known.
        return [drop * self.scale.spread**2 for drop in drops] if self.losses.own is None else drops

    @torch.no_grad()
    def _outputs(self, program: Program, stack: TorchStack, samples: int) -> Tensor:
        count = len(self.test_y)
        starts = range(0, count, samples)
        pieces = [taken(self.test_x, slice(start, start + samples)) for start in starts]
        if self.device == "cpu":  # the last one is filled up
            pieces[-1] = filled(pieces[-1], samples)
        if self.together and not self.draws:
            forward = vmap(program, in_dims=(0, None))
            with StackedLinear() if self.device == "cpu" else nullcontext():
                return torch.cat([forward(stack, piece) for piece in pieces], dim=1)[:, :count]
        rows = range(len(next(iter(stack.values()))))
        models = [{name: tensor[row] for name, tensor in stack.items()} for row in rows]
        said = []
        for model in models:  # what is drawn is drawn alike for every coalition
            with seeded_generators(self.training.seed) if self.draws else nullcontext():
                said.append(torch.cat([program(model, piece) for piece in pieces])[:count])
        return torch.stack(said)

    def _equal_steps(self, orders: Sequence[Order]) -> Iterator[list[int]]:
        """Rows that can be trained in step, at most `self.chunk` at a time, and a part for every thread.

        Their clients make the same number of steps, or about the same where rows may rest. To share samples pays where there
        are enough rows, always for convolutions, whose unfolded images are much larger than the models, and never for other
        models on CUDA, where launches cost more.
        """
        least = 1 if self.convolves else _ROWS_TO_SHARE if self.device == "cpu" else len(orders) + 1
        chunk = min(self.chunk, -(-len(orders) // len(self.programs)))
        return in_step(orders, self._alike({client for client, _ in orders}), chunk, least)

    def _program(self, learner: TorchLearner) -> Program:
        """How the module is called. Where its models are trained one after the other, `apart` says why."""
        plain, in_steps = (Program(self.module, self.state, in_steps) for in_steps in (False, True))
        looped = self.convolves and self.device == "cpu" and not learner.together
        self.together = not self.apart and not looped
        if isinstance(learner.model, str):
            return plain
        tried = filled(taken(self.test_x, slice(0, _TRIED)), _TRIED)
        self.faithful = Faithful(self.module, self.steps, self.initial(), tried)
        self.faithful.check(plain)
        if not self.together:
            return plain
        samples, why = filled(taken(self.test_x, slice(0, 2)), 2), ""
        # On CUDA torch's own attention passes the trial, and the backward pass then fails for samples of another length.
        for program in (in_steps,) if self.device.startswith("cuda") else (plain, in_steps):
            output = replace(self.steps, forward=program.stepped).output
            self.module.train()
            why = why_not_stacked(output, self.initial(), self.state, samples)
            self.module.eval()
            why = why or why_not_evaluated(program, self.initial(), samples)
            if not (why or self.faithful.holds_stacked(program)):
                why = "in a stack it has other gradients than alone, perhaps because of hooks"
            if not why:
                return program
        self.together = False
        self.apart = self.note = (
            f"Models are trained one after the other, not as one program: {why}. Results are the same, but take longer."
        )
        return plain

    @torch.no_grad()
    def _draws(self) -> bool:
        """Whether the module draws random numbers in training other than those of dropout, which are counted."""
        samples, key = filled(taken(self.test_x, slice(0, 2)), 2), torch.zeros((), dtype=torch.int64)
        model = {name: tensor[0] for name, tensor in self.initial().items()}
        self.module.train()
        with seeded_generators(0):
            before = drawn_so_far()
            self.steps.output(model, samples, key.to(self.device))
            return drawn_so_far() != before

    def _row_cost(self, batch: int) -> tuple[int, int]:
        """What a model takes; two samples make a pass where one alone cannot."""
        count = 2 if self.whole else 1
        samples = filled(taken(self.x, slice(0, 1)), count)
        of_sample = sum(tensor[:1].nbytes for _, tensor in leaves(samples))
        held = HeldBuffers(self.module)
        own: list[Tensor] = [p for p in self.module.parameters() if p.requires_grad]
        own += [self.module.get_buffer(name) for name in self.state]
        cost = row_cost(self.module, own, lambda: call(self.module, samples), of_sample, -(-batch // count))
        held.put_back()
        return cost

    def _orders_to_keep(self) -> int:
        """Of samples in minibatches: those of all clients in a few rounds, and of as many seeds as memory allows."""
        numbers = self._epochs() * max(len(c) for c in self.scenario.clients)
        return max(
            4 * self.scenario.n, _BYTES_OF_ORDERS // (12 * numbers)
        )  # eight bytes and a weight of four

    def _widest_batch(self) -> int:
        return widest_batch(self.scenario, self.training)

    def _steps(self, client: int) -> int:
        """How many a client makes in a round."""
        return self._epochs() * -(-len(self.scenario.clients[client]) // self._widest_batch())

    def _alike(self, clients: Iterable[int]) -> dict[int, int]:
        """For each client the steps that it makes, or rests through, with those that make about as many."""
        found: dict[int, int] = {}
        if self.whole:  # equally many samples: their last batches are of one size
            return {client: len(self.scenario.clients[client]) for client in clients}
        most = 0
        for client in sorted(clients, key=lambda client: (-self._steps(client), client)):
            steps = self._steps(client)
            if most > steps and not (self.steps.can_rest and most <= _LITTLE_REST * steps):
                most = 0
            most = most or steps
            found[client] = most
        return found

    def _epochs(self) -> int:
        return 1 if self.training.algorithm == "fedsgd" else self.training.epochs

    def _minibatches(self, client: int, t: int, seed: int | None = None) -> Batches:
        """Which samples each step of a client's round t sees; the last batch of an epoch may be smaller."""
        data, own = self.scenario.clients[client], self.training.seed
        entropy = [own if seed is None else seed, int(data.fingerprint[:16], 16), t]
        drawn, offset = np.random.SeedSequence(entropy), int(self.offsets[client])
        counts = sample_weights(data.y, self.training)
        return Batches.drawn(
            drawn, len(data), self._widest_batch(), self._epochs(), offset, self.device, counts
        )
