"""How the models of a round are put into messages: as stacks for our own app, one by one for any other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from fedvalue.flower._arrays import Arrays, bytes_of, rows_of
from fedvalue.flower._reports import MOST_ROWS
from fedvalue.flower._wire import (
    ARRAYS,
    CONFIG,
    PROTOCOL,
    TRAIN,
    ConfigRecord,
    RecordDict,
    WireError,
    count_in,
    from_record,
    metrics_of,
    settings_of,
    shapes_of,
    to_record,
)
from fedvalue.learners.losses import Losing
from fedvalue.replies import Sitting
from fedvalue.scenarios import Scenario
from fedvalue.store import fingerprint
from fedvalue.training import Learner, Training

__all__ = ["Models", "Packing", "Stacks", "learner_digest", "num_examples"]


class Packing(Protocol):
    """Rows of one client ↔ messages."""

    @property
    def kind(self) -> str:
        """Flower's message type of a local training."""
        ...

    def pack(
        self, rows: Arrays, client: int, t: int, seeds: Sequence[int | None] = ()
    ) -> Iterator[tuple[int, RecordDict]]:
        """Messages with the number of rows in each, in order. `seeds`: those of the rows, None is that of the rules."""
        ...

    def pack_alone(self, model: Arrays, client: int) -> RecordDict | None:
        """A message that has the client train all rounds by itself; None where that cannot be asked of it.

        It starts from this model, a stack of one, and answers with its model after the first and the last round.
        """
        ...

    def unpack(self, content: RecordDict, sent: Arrays, client: int, t: int) -> Arrays:
        """The trained rows of a reply, sound or not, or a WireError that says what is wrong with it."""
        ...


def learner_digest(learner: Learner) -> str:
    """By which a node recognises that it was asked for the model that it has."""
    return fingerprint(dict(learner.identity()))[0][:16]


def named_loss(learner: Learner) -> str:
    """The loss by its name, which nodes are told; one of the user's own they must have."""
    loss = learner.loss if isinstance(learner, Losing) else None
    return loss if isinstance(loss, str) else ""


@dataclass(frozen=True)
class Stacks:
    """Many models per message, as our own client app trains them: one message, unless they are too large."""

    scenario: Scenario
    learner: Learner
    training: Training
    largest: int  # bytes of arrays in one message
    kind: str = TRAIN
    game: str = field(init=False)

    def __post_init__(self) -> None:
        identity = (self.scenario.fingerprint, dict(self.learner.identity()), self.training.identity())
        object.__setattr__(self, "game", fingerprint(identity)[0][:16])

    def pack(
        self, rows: Arrays, client: int, t: int, seeds: Sequence[int | None] = ()
    ) -> Iterator[tuple[int, RecordDict]]:
        count, width = rows_of(rows), max(1, self._fitting(rows))
        for start in range(0, count, width):
            part = {name: array[start : start + width] for name, array in rows.items()}
            size = min(width, count - start)
            settings = self.settings(client, t, size)
            if any(seed is not None for seed in seeds):
                own = self.training.seed
                settings["seeds"] = [own if seed is None else seed for seed in seeds[start : start + width]]
            yield size, RecordDict({ARRAYS: to_record(part), CONFIG: settings})

    def pack_alone(self, model: Arrays, client: int) -> RecordDict | None:
        if self.training.rounds == 1 or self._fitting(model) < 2:  # two come back
            return None
        return RecordDict({ARRAYS: to_record(model), CONFIG: self.settings(client, 1, 1, alone=True)})

    def _fitting(self, rows: Arrays) -> int:
        """How many such models a message may hold."""
        return self.largest // max(1, bytes_of({name: array[:1] for name, array in rows.items()}))

    def settings(self, client: int, t: int, rows: int, alone: bool = False) -> ConfigRecord:
        """What the node must know to train, and to notice that it is not the one who is meant."""
        scenario = self.scenario
        return ConfigRecord(
            {
                "protocol": PROTOCOL,
                "game": self.game,
                "round": t,
                "rows": rows,
                "alone": alone,
                "data": scenario.clients[client].fingerprint,
                "learner": learner_digest(self.learner),
                "loss": named_loss(self.learner),
                "training": json.dumps(self.training.plain()),
                "task": scenario.task,
                "classes": scenario.classes,
                "vocabulary": scenario.vocabulary,
                "target-centre": scenario.scale.centre,
                "target-spread": scenario.scale.spread,
            }
        )

    def sitting(self, keys: Sequence[str]) -> Sitting:
        """What the nodes are asked about, for the book of their signed replies."""
        scenario = self.scenario
        return Sitting(
            self.game,
            scenario.fingerprint,
            learner_digest(self.learner),
            json.dumps(self.training.plain()),
            tuple(scenario.names),
            tuple(data.fingerprint for data in scenario.clients),
            tuple(keys),
        )

    def unpack(self, content: RecordDict, sent: Arrays, client: int, t: int) -> Arrays:
        self.check(content, t)
        return from_record(content, shapes_of(sent), sound=False)

    def check(self, content: RecordDict, t: int) -> None:
        """Refuses what does not answer this game's round t."""
        config = settings_of(content)
        if config.get("game") != self.game:
            raise WireError("answered for another game")
        if (answered := count_in(config, "round")) != t:
            raise WireError(f"sent a stale reply, of round {answered} in round {t}")


@dataclass(frozen=True)
class Models:
    """One model per message by the convention of Flower's templates, for client apps that know nothing of us.

    `sizes` are the numbers of examples that clients have reported; they must not change any more.
    """

    config: Mapping[str, Any]
    sizes: dict[int, int] = field(default_factory=dict)
    kind: str = "train"

    def pack(
        self, rows: Arrays, client: int, t: int, seeds: Sequence[int | None] = ()
    ) -> Iterator[tuple[int, RecordDict]]:
        """Such an app is told of no seed."""
        for row in range(rows_of(rows)):
            model = {name: np.asarray(array[row]) for name, array in rows.items()}
            config = ConfigRecord({**self.config, "server-round": t})
            yield 1, RecordDict({ARRAYS: to_record(model), CONFIG: config})

    def pack_alone(self, model: Arrays, client: int) -> None:
        """Such an app trains one round for a message."""

    def unpack(self, content: RecordDict, sent: Arrays, client: int, t: int) -> Arrays:
        examples = num_examples(content)
        if examples > MOST_ROWS:
            raise WireError(f"says that it trained on {examples:,} examples, more than anybody has")
        if examples != self.sizes.setdefault(client, examples):
            raise WireError(f"trained on {examples} examples; before, it had {self.sizes[client]}")
        expected = {name: (array.shape[1:], array.dtype) for name, array in sent.items()}
        return {name: array[None] for name, array in from_record(content, expected).items()}


def num_examples(content: RecordDict) -> int:
    """What an app says of the number of rows that it used."""
    return count_in(metrics_of(content), "num-examples")
