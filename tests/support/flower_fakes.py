"""A Flower federation in one process: a grid of a few lines whose nodes answer with our own client code.

Importing this needs flwr: test files skip themselves before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from federations import digits, party
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.task_identity import TaskIdentity

from fedvalue.agreement import make_key, read_public_line
from fedvalue.coalitions import Trial
from fedvalue.flower._client import Party, answer
from fedvalue.flower._forms import Form
from fedvalue.flower._registered import RegisteredClient, key_of, write_roster
from fedvalue.flower._reports import ClientReport, kind_of, remote_scenario
from fedvalue.flower._roster import Roster
from fedvalue.flower._settings import Settings
from fedvalue.flower._trainer import FlowerTrainer
from fedvalue.flower._wire import ARRAYS, CONFIG, to_record
from fedvalue.learners import make_learner
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Dataset, Scenario
from fedvalue.trainers import ClaimTrials
from fedvalue.training import Learner, Trace, Training

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as in a ServerApp

SIZES = (37, 20, 64)
N = len(SIZES)
DIGITS = ("classification", 10, 0)  # task, classes and vocabulary
ALL = (1 << N) - 1
CLOSE = {"abs": 1e-5, "rel": 1e-5}

Twist = Callable[[Message, RecordDict], RecordDict | Error | None]


class FakeGrid:
    """Nodes 100, 101, … answer at once. `twists` change what a client replies; None is silence."""

    def __init__(self, parties: Sequence[Party], model: Any = "mlp") -> None:
        self.parties = {100 + i: party for i, party in enumerate(parties)}
        self.learner = make_learner(model)
        self.keys: dict[int, bytes] = {}  # with which nodes were registered, as Flower keeps them
        self.signing: dict[int, Path] = {}  # with which nodes sign their replies
        self.twists: dict[int, Twist] = {}
        self.sent: list[Message] = []
        self.replies: list[Message] = []
        self.waiting: dict[str, Message] = {}

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [NodeInfo(node_id=node, public_key=self.keys.get(node, b"")) for node in self.parties]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        for message in messages:
            identifier = f"m{len(self.sent)}"
            message.metadata.__dict__["_message_id"] = identifier
            self.sent.append(message)
            reply = self._reply(message)
            if reply is not None:
                self.replies.append(reply)
                self.waiting[identifier] = reply
            yield identifier

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self.waiting.pop(identifier) for identifier in message_ids if identifier in self.waiting]

    def _reply(self, message: Message) -> Message | None:
        node = message.metadata.dst_node_id
        if node not in self.parties:
            return Message(Error(code=5, reason="gone"), reply_to=message)
        try:
            found: RecordDict | Error | None = self._answer(message, node)
        except Exception as error:
            found = Error(code=2, reason=str(error))
        twist = self.twists.get(self.parties[node].position)
        if twist is not None and isinstance(found, RecordDict):
            found = twist(message, found)
        return None if found is None else Message(found, reply_to=message)

    def _answer(self, message: Message, node: int) -> RecordDict:
        return answer(message, self.parties[node], self.learner, key=self.signing.get(node))

    @property
    def rounds(self) -> list[str]:
        """The kinds of the messages sent, each group once."""
        return list(dict.fromkeys(f"{m.metadata.message_type}:{m.metadata.group_id}" for m in self.sent))


def parties(scenario: Scenario, held_out: Sequence[Dataset] | None = None) -> list[Party]:
    """The scenario's clients as nodes of their own."""
    return [
        Party(data, held_out[i] if held_out else None, scenario.names[i], i)
        for i, data in enumerate(scenario.clients)
    ]


def held_out_parts(scenario: Scenario, sizes: Sequence[int]) -> list[Dataset]:
    """Consecutive parts of the test set, for nodes that measure."""
    ends = np.cumsum(sizes)
    return [party(scenario.test, slice(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


class FakeFederation:
    """A Flower trainer for any scenario: its nodes are made when the scenario is known."""

    def __init__(self, memory: int | None = None) -> None:
        self.memory = memory
        self.trainers: dict[tuple[str, Learner], FlowerTrainer] = {}

    def train(
        self, scenario: Scenario, learner: Learner, training: Training, masks: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]:
        return self._trainer(scenario, learner).train(scenario, learner, training, masks)

    def train_trials(
        self,
        scenario: Scenario,
        learner: Learner,
        training: Training,
        trials: Sequence[Trial],
        claim: ClaimTrials = list,
    ) -> Iterator[tuple[Trial, Outcome]]:
        return self._trainer(scenario, learner).train_trials(scenario, learner, training, trials, claim)

    def trace(self, scenario: Scenario, learner: Learner, training: Training) -> Trace:
        return self._trainer(scenario, learner).trace(scenario, learner, training)

    def _trainer(self, scenario: Scenario, learner: Learner) -> FlowerTrainer:
        key = scenario.fingerprint, learner
        if key not in self.trainers:
            grid = FakeGrid(parties(scenario), learner)
            self.trainers[key] = FlowerTrainer(grid, memory=self.memory, patience=5.0)
        return self.trainers[key]


def federation(**options: Any) -> tuple[Scenario, FakeGrid, FlowerTrainer]:
    scenario = digits(SIZES)
    grid = FakeGrid(parties(scenario))
    roster = Roster.gather(grid, N, 5.0, DIGITS)
    return scenario, grid, FlowerTrainer(grid, roster, **{"deadline": 0.3, "patience": 0.3, **options})


def remote(scenario: Scenario, grid: FakeGrid) -> tuple[Scenario, Roster]:
    """The scenario as a server sees it that has the test set and no client's data."""
    roster = Roster.gather(grid, scenario.n, 1.0, kind_of(scenario))
    seen = remote_scenario(roster.reports, scenario.test, *kind_of(scenario))
    return seen, roster


def trained_messages(grid: FakeGrid, t: int | None = None) -> list[Message]:
    kinds = [m for m in grid.sent if m.metadata.message_type == "train.fedvalue"]
    return [m for m in kinds if t is None or m.metadata.group_id == str(t)]


def rows_in(message: Message) -> int:
    return int(message.content[CONFIG]["rows"])


def changed(reply: RecordDict, change: Callable[[dict[str, Any]], dict[str, Any]]) -> RecordDict:
    arrays = {name: array.numpy().copy() for name, array in reply[ARRAYS].items()}
    return RecordDict({**reply, ARRAYS: to_record(change(arrays))})


def told(reply: RecordDict, **changes: Any) -> RecordDict:
    return RecordDict({**reply, CONFIG: ConfigRecord({**reply[CONFIG], **changes})})


def reports_of(scenario: Scenario) -> list[ClientReport]:
    sizes = [(len(c), c.fingerprint, Form.of(c)) for c in scenario.clients]
    return [ClientReport(*known, i, scenario.names[i]) for i, known in enumerate(sizes)]


def public_line(private: Any = None) -> str:
    """A public key as ssh-keygen writes it."""
    private = private or ec.generate_private_key(ec.SECP384R1())
    return str(private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())


class Signing:
    """Clients with two keys each, in `folder`: a grid of their nodes, and the roster.json of an operator who knows them."""

    def __init__(self, folder: Path, members: Sequence[Party], without: Sequence[int] = ()) -> None:
        self.folder, self.members = folder, members
        folder.mkdir(parents=True, exist_ok=True)
        self.keys = {i: folder / f"key-{i}" for i in range(len(members)) if i not in without}
        self.public = {i: read_public_line(make_key(key)) for i, key in self.keys.items()}
        self.lines = [public_line() for _ in members]
        self.roster = folder / "roster.json"
        write_roster(
            self.roster,
            [
                RegisteredClient(member.name, line, self.public.get(i, ""))
                for i, (member, line) in enumerate(zip(members, self.lines, strict=True))
            ],
        )

    def grid(self) -> FakeGrid:
        grid = FakeGrid(self.members)
        grid.keys = {100 + i: key_of(line, "a key") for i, line in enumerate(self.lines)}
        grid.signing = {100 + i: key for i, key in self.keys.items()}
        return grid

    def settings(self, out: Path, **more: Any) -> Settings:
        rules = {"rounds": 2, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3, "patience": 1.0}
        told = {"clients": len(self.members), "method": "exact", "roster": str(self.roster)}
        told |= {} if "method" in more else {"noise": False}
        shared = {"share-all-models": more.get("evaluate") == "nodes"}
        return Settings.from_config({**told, **shared, **rules, "out": str(out), **more})


class Received:
    """Records which client is sent which model, and which models a client has trained alone.

    `stacked`: messages hold many models, as ours do. All trainings must begin with one initial model.
    """

    def __init__(self, grid: FakeGrid, clients: int, stacked: bool = False) -> None:
        self.stacked = stacked
        self.sent_to: dict[bytes, set[int]] = {}
        self.alone: dict[int, set[bytes]] = {client: set() for client in range(clients)}
        self.initial: bytes | None = None
        for client in range(clients):
            grid.twists[client] = lambda message, reply, client=client: self._seen(client, message, reply)

    def _seen(self, client: int, message: Message, reply: RecordDict) -> RecordDict:
        if ARRAYS not in message.content:
            return reply
        sent = self._models(message.content)
        self.initial = self.initial or sent[0]
        for model in sent:
            self.sent_to.setdefault(model, set()).add(client)
        if ARRAYS in reply:
            # Trained from the initial model, or from one that this client has trained alone; by our own messages
            # one model may come back after its first and its last round.
            back = self._models(reply)
            begun = [sent[min(row, len(sent) - 1)] for row in range(len(back))]
            own = {self.initial, *self.alone[client]}
            self.alone[client] |= {new for new, model in zip(back, begun, strict=True) if model in own}
        return reply

    def _models(self, content: RecordDict) -> list[bytes]:
        arrays = [array.numpy() for _, array in sorted(content[ARRAYS].items())]
        rows = range(len(arrays[0])) if self.stacked else [...]
        return [b"".join(array[row].tobytes() for array in arrays) for row in rows]

    def receivers(self, client: int) -> list[set[int]]:
        """Who was sent each of the models that the client has trained alone, as far as they were sent."""
        return [self.sent_to[model] for model in self.alone[client] if model in self.sent_to]
