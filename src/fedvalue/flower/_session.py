"""A session whose local trainings happen at the nodes of a Flower federation.

Everything but the local trainings (and, where the nodes hold out the test rows, the evaluation) is the
learner's own session, on the server. A training that a node did not deliver is a row of NaN: averaging
carries it into the coalitions that need it and no others, and rows that are not finite are not sent again.
Trainings are deterministic, so what came back is remembered by what was sent: a coalition that is tried
again goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from fedvalue.coalitions import Trial, members
from fedvalue.errors import InputError
from fedvalue.flower._arrays import (
    Arrays,
    bytes_of,
    finite_rows,
    from_arrays,
    missing_row,
    row_digest,
    to_arrays,
)
from fedvalue.flower._checkpoint import Checkpoint, Key, Wave
from fedvalue.flower._evaluation import Measure
from fedvalue.flower._limits import Limits, Watch
from fedvalue.flower._messages import Failure
from fedvalue.flower._nodes import AloneTraining, Nodes
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.training import AveragingSession, Drawing, Learner, Seeds, Stack, Telling, Training, reseeds

__all__ = ["FlowerSession", "need_arrays", "need_built_in"]

_ARRAYS_ONLY = (
    "Only models that are sets of named arrays can be trained in a Flower federation: torch models are, trees and models that "
    "are solved from all rows are not. Choose such a model, or train on this machine."
)


def need_arrays(learner: Learner) -> None:
    """Refuses a learner whose models nodes could not be sent, before it looks for rows that are not here."""
    if not learner.averages:
        raise InputError(_ARRAYS_ONLY)


def need_built_in(scenario: Scenario, own: Sequence[str]) -> None:
    """Refuses metrics of one's own, by these names, where the nodes measure."""
    if own and not scenario.test.here:
        raise InputError(
            f"The metric {', '.join(map(repr, own))} needs the test rows on the server, and here the nodes hold them and measure "
            "models with the built-in metrics. Give the server a test set, or choose a built-in metric."
        )


@dataclass
class _Remembered:
    """Trained rows by what was sent, the oldest dropped beyond `most` bytes; first rounds are kept always.

    So are the final models of clients that trained by themselves: at most one for each client.
    """

    most: int
    held: int = 0
    first: dict[Key, Arrays] = field(default_factory=dict)
    later: dict[Key, Arrays] = field(default_factory=dict)
    alone: dict[int, Arrays] = field(default_factory=dict)

    def get(self, key: Key) -> Arrays | None:
        return self.first.get(key) or self.later.get(key)

    def add(self, key: Key, row: Arrays) -> None:
        if key[0] == 1:
            self.first[key] = row
            return
        self.later[key] = row
        self.held += bytes_of(row)
        while self.held > self.most:
            self.held -= bytes_of(self.later.pop(next(iter(self.later))))


class FlowerSession:
    """See `fedvalue.training.Session`; `nodes` says why trainings are missing. `measure` is set where nodes evaluate.

    `first_rounds` are trainings of round 1 that another session with the same app has come to know. With a `checkpoint`
    local trainings of round 1 are kept on disk, where `keeps_every_round` those of all rounds.
    """

    keeps_every_round = False

    def __init__(
        self,
        inner: AveragingSession,
        nodes: Nodes,
        memory: int,
        measure: Measure | None = None,
        first_rounds: Mapping[Key, Arrays] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.inner = inner
        self.nodes = nodes
        self.training = Training()  # the rules, as its trainer has them
        self.watch = Watch(Limits(), nodes.roster)
        self.seeds: Seeds = {}  # of the trials that are trained now
        self.under_way: Sequence[Trial] = ()  # those that advance together
        self.measure = measure
        self.device = inner.device
        first = inner.initial()
        if not isinstance(first, Mapping):
            raise InputError(_ARRAYS_ONLY)
        if not finite_rows(first).all():
            raise InputError(
                "The initial model has numbers that are not finite; it cannot be trained in a federation."
            )
        self.rows = max(1, memory // (6 * bytes_of(to_arrays(first))))
        self.checkpoint = checkpoint
        known = {**(first_rounds or {}), **(checkpoint.trained if checkpoint else {})}
        self._remembered = _Remembered(memory // 4, first=known)
        if isinstance(inner, Drawing):
            self.drawn = inner.drawn  # else the model is given, and no other can be drawn
        if measure is not None:
            self.outcomes: Callable[[Stack], list[Outcome]] = lambda stack: measure(nodes, to_arrays(stack))
        elif isinstance(inner, Telling):
            self.outcomes = inner.outcomes

    @property
    def first_rounds(self) -> Mapping[Key, Arrays]:
        """What is known of round 1, which all coalitions share."""
        return self._remembered.first

    def initial(self) -> Stack:
        return self.inner.initial()

    def take(self, stack: Stack, rows: Sequence[int]) -> Stack:
        return self.inner.take(stack, rows)

    def average(self, stack: Stack, groups: Sequence[int], weights: Sequence[float]) -> Stack:
        return self.inner.average(stack, groups, weights)

    def step(self, models: Stack, before: Stack, after: Stack, weights: NDArray[np.float64]) -> Stack:
        return self.inner.step(models, before, after, weights)

    def evaluate(self, stack: Stack) -> list[dict[str, float]]:
        if self.measure is None:
            return self.inner.evaluate(stack)
        return [dict(outcome.metrics) for outcome in self.outcomes(stack)]

    def loss_drops(self, before: Stack, after: Stack) -> list[float]:
        if self.measure is not None:
            raise InputError(
                "DIG-FL needs the gradient of the test loss on the server, and here the nodes hold the test rows. "
                "Give the server a test set, or choose another method."
            )
        return self.inner.loss_drops(before, after)

    def local(self, stack: Stack, owners: Sequence[int], t: int) -> Stack:
        return self.reseeded(stack, owners, [None] * len(owners), t)

    @property
    def reseeds(self) -> bool:
        """Whether nodes can train models of several seeds side by side, as this process could."""
        return reseeds(self.inner)

    def reseeded(self, stack: Stack, owners: Sequence[int], seeds: Sequence[int | None], t: int) -> Stack:
        arrays = to_arrays(stack)
        orders = zip(owners, seeds, strict=True)
        keys = [_key(arrays, row, owner, seed, t) for row, (owner, seed) in enumerate(orders)]
        self._note_sent([None if key is None else key[3] for key in keys], t)
        trained = {key: known for key in keys if key is not None and (known := self._remembered.get(key))}
        wanted: dict[int, dict[Key, int]] = {}
        for row, (owner, key) in enumerate(zip(owners, keys, strict=True)):
            if key is not None and key not in trained and not self.nodes.is_silent(owner):
                wanted.setdefault(owner, {})[key] = row
        rows = {owner: list(of_key.values()) for owner, of_key in wanted.items()}
        new: dict[Key, Arrays] = {}
        for (_, row), model in self._accepted(arrays, self.nodes.train(arrays, rows, t, seeds), t).items():
            key = keys[row]
            assert key is not None  # such rows are not sent
            trained[key] = new[key] = model
            self._remembered.add(key, model)
        if self.checkpoint is not None and new and (t == 1 or self.keeps_every_round):
            self.checkpoint.keep_trained(new)
        missing = missing_row(arrays)
        models = [missing if key is None else trained.get(key, missing) for key in keys]
        return from_arrays({name: np.stack([model[name] for model in models]) for name in arrays}, like=stack)

    def _note_sent(self, digests: Sequence[bytes | None], t: int) -> None:
        """Whose models they are that are sent after the first round: a row for each member of each coalition."""
        starts, row = list[int](), 0
        for mask, _ in self.under_way:
            starts.append(row)
            row += mask.bit_count()
        if t > 1 and row == len(digests) and self.nodes.witness is not None:
            sent = [digests[start] for start in starts]
            self.nodes.witness.sends(t, self._told(self.under_way, sent))

    def note_measured(self, trials: Sequence[Trial], models: Stack) -> None:
        """Whose models they are that are measured after the last round."""
        if self.nodes.witness is not None:
            arrays = to_arrays(models)
            digests = [row_digest(arrays, row) for row in range(len(trials))]
            self.nodes.witness.measures(self.training.rounds, self._told(trials, digests))

    def _told(
        self, trials: Sequence[Trial], digests: Sequence[bytes | None]
    ) -> Iterator[tuple[Trial, int, bytes | None]]:
        given = [self.seeds.get(number) for _, number in trials]
        seeds = [self.training.seed if seed is None else seed for seed in given]
        return zip(trials, seeds, digests, strict=True)

    def _accepted(
        self, sent: Arrays, trained: dict[tuple[int, int], Arrays], t: int
    ) -> dict[tuple[int, int], Arrays]:
        """What came back of clients whose updates are not far longer than those of the others; the rest is lost."""
        refused = self.watch.too_long(sent, trained, t)
        for client, reason in refused.items():
            self.nodes.lose(client, Failure(reason), t)
        return {place: model for place, model in trained.items() if place[0] not in refused}

    def take_wave(self, trials: Sequence[Trial]) -> Wave | None:
        """Those of these coalitions that a process which was killed had under way."""
        return None if self.checkpoint is None else self.checkpoint.take_wave(trials)

    def keep_wave(self, trials: Sequence[Trial], t: int, models: Stack) -> None:
        """The models of these coalitions have round t behind them."""
        if self.checkpoint is not None:
            self.checkpoint.keep_wave(trials, t, to_arrays(models))

    def begin_alone(self, trials: Sequence[Trial], rounds: int) -> tuple[list[Trial], AloneTraining]:
        """Those of the coalitions that are one client each, and in none of the others, on their way to the end.

        To average one model is to leave it as it is: between the rounds of such a coalition there is nothing to ask
        the server for, and one message does for all of them. Flower starts an app for every message, which takes
        seconds. A client of larger coalitions gets a message in every round anyway, and trains all its models as
        one stack, which is faster than one of them after the others: it does not go alone. Nor does anybody where there are several
        seeds, or where no more than a round may be lost: on its way through all rounds, a client keeps nothing.
        """
        possible = self.checkpoint is None and {number for _, number in trials} == {0}
        masks = [mask for mask, _ in trials] if possible else []
        in_larger = reduce(or_, (mask for mask in masks if mask.bit_count() > 1), 0)
        single = [members(mask)[0] for mask in masks if mask.bit_count() == 1 and not mask & in_larger]
        known = self._remembered.alone
        training = self.nodes.begin_alone(
            to_arrays(self.initial()), [client for client in single if client not in known], rounds
        )
        gone = [client for client in single if client in known or client in training.clients]
        return [(1 << client, 0) for client in gone], training

    def finish_alone(
        self, trials: Sequence[Trial], training: AloneTraining
    ) -> list[tuple[list[Trial], Stack]]:
        """The coalitions whose clients have answered, with their final models; waits for those on their way."""
        initial, known = self.initial(), self._remembered.alone
        ended_alone = training.finished()
        first_models = {(client, 0): first for client, (first, _) in ended_alone.items()}
        accepted = self._accepted(to_arrays(initial), first_models, 1)
        for client, (first, last) in ended_alone.items():
            if (client, 0) not in accepted:
                continue
            key = _key(to_arrays(initial), 0, client, None, 1)
            assert key is not None  # an initial model that is not finite was refused
            self._remembered.add(key, first)  # which all coalitions with this client share
            known[client] = last
        ended = [trial for trial in trials if members(trial[0])[0] in known]
        models = [known[members(mask)[0]] for mask, _ in ended]
        rows = {name: np.stack([model[name] for model in models]) for name in initial if models}
        return [(ended, from_arrays(rows, like=initial))] if ended else []


def _key(arrays: Arrays, row: int, client: int, seed: int | None, t: int) -> Key | None:
    """By what a training is recognised; None for a row that is missing."""
    digest = row_digest(arrays, row)
    return None if digest is None else (t, client, seed, digest)
