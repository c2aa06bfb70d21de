"""The nodes at work on one game: asked by the number of their client, their replies checked, and who is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from logging import INFO

import numpy as np
from flwr.common import log

from fedvalue._text import plural
from fedvalue.flower._arrays import Arrays, rows_of, sound_rows
from fedvalue.flower._messages import Exchange, Failure
from fedvalue.flower._packing import Packing
from fedvalue.flower._roster import Roster
from fedvalue.flower._wire import RecordDict, WireError
from fedvalue.flower._witness import Witness

__all__ = ["AloneTraining", "Nodes"]


class Nodes:
    """Trains at the clients of the roster; a message has `seconds` for each round of work in it.

    `lost` says why a client's part is missing, `diverged` at which clients some models came to numbers that are
    not finite. With a `witness` clients whose keys are known must have signed what they send.
    """

    def __init__(
        self, roster: Roster, packing: Packing, seconds: float, witness: Witness | None = None
    ) -> None:
        self.roster = roster
        self.packing = packing
        self.seconds = seconds
        self.witness = witness
        self.lost: dict[int, Failure] = {}
        self.diverged: set[int] = set()

    def forget_losses(self) -> None:
        """Another attempt begins: everybody is asked again."""
        self.lost.clear()
        self.diverged.clear()

    def find_again(self, seconds: float) -> bool:
        """Whether a client that was lost answers again in time, so that another attempt makes sense."""
        return bool(self.roster.find_again(self.lost, seconds))

    def is_silent(self, client: int) -> bool:
        """Whether nothing was heard of it in this attempt: a further message would wait for the deadline again."""
        return client in self.lost and self.lost[client].gone

    def lose(self, client: int, failure: Failure, t: int) -> None:
        """Notes that a client did not do its part in round t."""
        self.lost[client] = failure
        self.roster.note(f"round {t}: {self.roster.called(client)} {failure.reason}; its part is left out")

    def ask(
        self, kind: str, clients: Sequence[int], contents: Sequence[RecordDict], t: int
    ) -> list[RecordDict | Failure]:
        """One message round to these clients; counted, because they are what takes the time."""
        if not clients:
            return []
        self.roster.rounds += 1
        what = f"round {t}" if t else "measuring"

        def tell(answered: int, asked: int) -> None:
            log(INFO, "%s: %d of %s answered", what, answered, plural(asked, "message"))

        return self.roster.post(kind, clients, contents, str(t), self.seconds).answers(tell)

    def train(
        self,
        models: Arrays,
        rows: Mapping[int, Sequence[int]],
        t: int,
        seeds: Sequence[int | None],
    ) -> dict[tuple[int, int], Arrays]:
        """One message round, in which every client trains its rows of these models, each with its seed.

        What came back and can be used, by client and row.
        """
        sent: list[tuple[int, Sequence[int], Arrays]] = []
        contents: list[RecordDict] = []
        for client, mine in rows.items():
            chosen, start = {name: array[list(mine)] for name, array in models.items()}, 0
            for count, content in self.packing.pack(chosen, client, t, [seeds[row] for row in mine]):
                part = {name: array[start : start + count] for name, array in chosen.items()}
                sent.append((client, mine[start : start + count], part))
                contents.append(content)
                start += count
        trained: dict[tuple[int, int], Arrays] = {}
        answers = self.ask(self.packing.kind, [client for client, _, _ in sent], contents, t)
        for (client, mine, part), content, answer in zip(sent, contents, answers, strict=True):
            back, sound = self.checked(answer, content, part, client, t)
            self.roster.tally.came(client, part, back, t)
            trained |= {(client, mine[i]): {name: a[i].copy() for name, a in back.items()} for i in sound}
        return trained

    def begin_alone(self, model: Arrays, clients: Sequence[int], rounds: int) -> AloneTraining:
        """Has each of these clients train all rounds by itself, where it can be asked to; nothing is waited for."""
        packed = {client: self.packing.pack_alone(model, client) for client in clients}
        contents = {client: content for client, content in packed.items() if content is not None}
        exchange = self.roster.post(
            self.packing.kind, list(contents), list(contents.values()), "1", rounds * self.seconds
        )
        return AloneTraining(self, model, contents, exchange)

    def checked(
        self,
        answer: RecordDict | Failure,
        question: RecordDict,
        sent: Arrays,
        client: int,
        t: int,
        least: int = 1,
    ) -> tuple[Arrays, list[int]]:
        """What came back, and which rows of it can be used; nothing and none if fewer than `least` can.

        A client whose other models are sound did train: that some diverge may be the doing of another client,
        whose models went into them. So these rows are left out, and not the client.
        """
        if not isinstance(answer, Failure):
            try:
                back = self.packing.unpack(answer, sent, client, t)
                if self.witness is not None:
                    self.witness.trained(self.packing.kind, client, question, answer, sent, back)
                count, sound = rows_of(back), sound_rows(back)
                if len(sound) < least:
                    raise WireError("sent numbers that are not finite (NaN, infinite or very large)")
                if len(sound) < count:
                    self.diverged.add(client)
                    text = f"sent numbers that are not finite in {count - len(sound)} of {count} models"
                    self.roster.note(f"round {t}: {self.roster.called(client)} {text}; these are left out")
                return back, sound
            except WireError as error:
                answer = Failure(str(error))
        self.lose(client, answer, t)
        return {}, []


class AloneTraining:
    """Clients that are on their way through all rounds by themselves, while others advance round by round."""

    def __init__(
        self, nodes: Nodes, model: Arrays, questions: Mapping[int, RecordDict], exchange: Exchange
    ) -> None:
        self.clients = list(questions)
        self._questions = questions
        self._nodes = nodes
        self._model = model
        self._exchange = exchange
        self._rounds_before = nodes.roster.rounds

    def finished(self) -> dict[int, tuple[Arrays, Arrays]]:
        """The models of each client after the first and the last round; waits for them.

        Only its own models went into these: if one is not sound, that is its doing, and it is lost.
        """
        roster = self._nodes.roster
        two = {name: np.broadcast_to(array, (2, *array.shape[1:])) for name, array in self._model.items()}
        trained: dict[int, tuple[Arrays, Arrays]] = {}
        for client, answer in zip(self.clients, self._exchange.answers(), strict=True):
            back, sound = self._nodes.checked(answer, self._questions[client], two, client, 1, least=2)
            roster.tally.came(client, two, back, 1)
            if sound:
                first, last = ({name: array[row] for name, array in back.items()} for row in sound)
                trained[client] = first, last
        if self.clients and roster.rounds == self._rounds_before:
            roster.rounds += 1  # beside others they take no message round of their own
        return trained
