"""A session whose local trainings happen at the nodes of a Flower federation.

Everything but the local trainings (and, where the nodes hold out the test rows, the evaluation) is the
learner's own session, on the server. A training that a node did not deliver is a row of NaN: averaging
carries it into the coalitions that need it and no others, and rows that are not finite are not sent again.
Trainings are deterministic, so what came back is remembered by what was sent: a coalition that is tried
again goes on where it was stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import InputError
from fedvalue.learners.base import AveragingSession, Stack
from fedvalue.trainers.flower_grid import Exchange, Failure, Request
from fedvalue.trainers.flower_nodes import Roster
from fedvalue.trainers.flower_stacks import Packing
from fedvalue.trainers.flower_wire import Arrays, RecordDict, WireError, rows_of, sound_rows

__all__ = ["FlowerSession", "Remembered", "finite_rows", "from_arrays", "joined", "key_of", "to_arrays"]

Key = tuple[int, int, bytes]  # round, client, digest of the model that was sent
Evaluation = Callable[["FlowerSession", Arrays], list[dict[str, float]]]


@dataclass
class Remembered:
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
        self.held += _bytes(row)
        while self.held > self.most:
            self.held -= _bytes(self.later.pop(next(iter(self.later))))


class FlowerSession:
    """See `fedvalue.learners.base.Session`; `lost` says why a client's trainings are missing."""

    def __init__(
        self,
        inner: AveragingSession,
        roster: Roster,
        packing: Packing,
        seconds: float,
        memory: int,
        evaluation: Evaluation | None = None,
    ) -> None:
        self.inner = inner
        self.roster = roster
        self.packing = packing
        self.seconds = seconds
        self.evaluation = evaluation
        self.device = inner.device
        first = inner.initial()
        if not isinstance(first, Mapping):
            raise InputError(
                "Only models that are sets of named arrays can be trained in a Flower federation (torch models "
                "are). Choose such a model, or train on this machine."
            )
        self.rows = max(1, memory // (6 * _bytes(to_arrays(first))))
        self.remembered = Remembered(memory // 4)
        self.lost: dict[int, Failure] = {}
        self.diverged: set[int] = set()  # clients at which some models came to numbers that are not finite
        if not finite_rows(first).all():
            raise InputError(
                "The initial model has numbers that are not finite; it cannot be trained in a federation."
            )

    def forget_losses(self) -> None:
        """Another attempt begins: everybody is asked again."""
        self.lost.clear()
        self.diverged.clear()

    def initial(self) -> Stack:
        return self.inner.initial()

    def take(self, stack: Stack, rows: Sequence[int]) -> Stack:
        return self.inner.take(stack, rows)

    def average(self, stack: Stack, groups: Sequence[int], weights: Sequence[float]) -> Stack:
        return self.inner.average(stack, groups, weights)

    def step(self, models: Stack, before: Stack, after: Stack, weights: NDArray[np.float64]) -> Stack:
        return self.inner.step(models, before, after, weights)

    def evaluate(self, stack: Stack) -> list[dict[str, float]]:
        if self.evaluation is None:
            return self.inner.evaluate(stack)
        return self.evaluation(self, to_arrays(stack))

    def loss_drops(self, before: Stack, after: Stack) -> list[float]:
        if self.evaluation is not None:
            raise InputError(
                "DIG-FL needs the gradient of the test loss on the server, and here the nodes hold the test rows. "
                "Give the server a test set, or choose another method."
            )
        return self.inner.loss_drops(before, after)

    def local(self, stack: Stack, owners: Sequence[int], t: int) -> Stack:
        arrays = to_arrays(stack)
        keys = [key_of(arrays, row, owner, t) for row, owner in enumerate(owners)]
        found = {key: known for key in keys if key is not None and (known := self.remembered.get(key))}
        wanted: dict[int, dict[Key, int]] = {}
        for row, (owner, key) in enumerate(zip(owners, keys, strict=True)):
            if key is not None and key not in found and not self._gone(owner):
                wanted.setdefault(owner, {})[key] = row
        for key, trained in self._train(arrays, wanted, t).items():
            found[key] = trained
            self.remembered.add(key, trained)
        missing = {name: _missing(array[0]) for name, array in arrays.items()}
        rows = [missing if key is None else found.get(key, missing) for key in keys]
        return from_arrays({name: np.stack([row[name] for row in rows]) for name in arrays}, like=stack)

    def _train(self, arrays: Arrays, wanted: Mapping[int, Mapping[Key, int]], t: int) -> dict[Key, Arrays]:
        """One message round: every client its rows."""
        sent: list[tuple[int, list[Key], Arrays]] = []
        contents: list[RecordDict] = []
        for client, rows in wanted.items():
            keys, start = list(rows), 0
            mine = {name: array[list(rows.values())] for name, array in arrays.items()}
            for count, content in self.packing.pack(mine, client, t):
                part = {name: array[start : start + count] for name, array in mine.items()}
                sent.append((client, keys[start : start + count], part))
                contents.append(content)
                start += count
        trained: dict[Key, Arrays] = {}
        answers = self.send(self.packing.kind, [client for client, _, _ in sent], contents, t)
        for (client, keys, part), answer in zip(sent, answers, strict=True):
            back, sound = self.checked(answer, part, client, t)
            trained |= {keys[row]: {name: a[row].copy() for name, a in back.items()} for row in sound}
        return trained

    def send(
        self, kind: str, clients: Sequence[int], contents: Sequence[RecordDict], t: int
    ) -> list[RecordDict | Failure]:
        """One message round to these clients; counted, because they are what takes the time."""
        if not clients:
            return []
        self.roster.rounds += 1
        return self.post(kind, clients, contents, t).answers()

    def post(
        self, kind: str, clients: Sequence[int], contents: Sequence[RecordDict], t: int, rounds: int = 1
    ) -> Exchange:
        """Messages to these clients, each with the work of so many rounds; nothing is waited for."""
        self.roster.messages += len(contents)
        nodes = self.roster.nodes
        pairs = zip(clients, contents, strict=True)
        requests = [Request(nodes[client], kind, content, str(t)) for client, content in pairs]
        return Exchange(self.roster.grid, requests, rounds * self.seconds)

    def checked(
        self, answer: RecordDict | Failure, sent: Arrays, client: int, t: int, least: int = 1
    ) -> tuple[Arrays, list[int]]:
        """What came back, and which rows of it can be used; nothing and none if fewer than `least` can.

        A client whose other models are sound did train: that some diverge may be the doing of another client,
        whose models went into them. So these rows are left out, and not the client.
        """
        if not isinstance(answer, Failure):
            try:
                back = self.packing.unpack(answer, sent, client, t)
                count, sound = rows_of(back), sound_rows(back)
                if len(sound) < least:
                    raise WireError("sent numbers that are not finite (NaN, infinite or very large)")
                if len(sound) < count:
                    self.diverged.add(client)
                    text = f"sent numbers that are not finite in {count - len(sound)} of {count} models"
                    self.roster.log(f"round {t}: client {client} {text}; these are left out")
                return back, sound
            except WireError as error:
                answer = Failure(str(error))
        self.lose(client, answer, t)
        return {}, []

    def _gone(self, client: int) -> bool:
        """Whether it was silent in this attempt: every further message would wait for the deadline again."""
        return client in self.lost and self.lost[client].gone

    def lose(self, client: int, failure: Failure, t: int) -> None:
        """Notes that a client did not do its part, and says so."""
        self.lost[client] = failure
        self.roster.log(f"round {t}: client {client} {failure.reason}; its part is left out")


def to_arrays(stack: Stack) -> Arrays:
    """The stack as NumPy arrays, on the CPU."""
    return {name: t.detach().cpu().numpy() if hasattr(t, "detach") else t for name, t in stack.items()}


def from_arrays(arrays: Arrays, like: Stack) -> Stack:
    """The arrays as what `like` is made of: torch tensors where they are some, on the same device."""
    first = next(iter(like.values()))
    if not hasattr(first, "detach"):
        return arrays
    import torch

    return {name: torch.from_numpy(array).to(first.device) for name, array in arrays.items()}


def joined(stacks: Sequence[Stack]) -> Stack:
    """The rows of all these stacks as one."""
    parts = [to_arrays(stack) for stack in stacks]
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return from_arrays(rows, like=stacks[0])


def finite_rows(stack: Stack) -> NDArray[np.bool_]:
    """Which rows are models; the others miss a training."""
    parts = [
        np.isfinite(array.reshape(len(array), -1)).all(1)
        for array in to_arrays(stack).values()
        if array.dtype.kind == "f"
    ]
    return cast(NDArray[np.bool_], np.logical_and.reduce(parts))


def key_of(arrays: Arrays, row: int, client: int, t: int) -> Key | None:
    """By what a training is recognised; None for a row that is no model."""
    digest = hashlib.sha256()
    for array in arrays.values():
        values = np.ascontiguousarray(array[row])
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            return None
        digest.update(values.tobytes())
    return t, client, digest.digest()


def _missing(like: NDArray[Any]) -> NDArray[Any]:
    return np.full_like(like, np.nan) if like.dtype.kind == "f" else np.zeros_like(like)


def _bytes(arrays: Mapping[str, Any]) -> int:
    return sum(array.nbytes for array in arrays.values())
