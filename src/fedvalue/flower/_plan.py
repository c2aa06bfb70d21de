"""The dry run of a valuation in a federation: who is there, what would be asked of them, and about how long that takes.

Nodes say what data they have and train nothing. How long a message takes is measured by asking them once more; how long
training takes is measured here, on rows of the same form, because nobody trains at the nodes without reason.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from fedvalue._checks import texts_by_name
from fedvalue._text import count, duration, listed, plural, size
from fedvalue.agreement import Agreement, Party, PayoutTerms
from fedvalue.coalitions import members as members_of
from fedvalue.errors import InputError
from fedvalue.flower._arrays import bytes_of, to_arrays
from fedvalue.flower._reports import PartialScenario
from fedvalue.flower._roster import Roster
from fedvalue.flower._session import need_arrays, need_built_in
from fedvalue.games import FederatedGame
from fedvalue.run import agreement_on, method_request, planned_trials, stored_trials
from fedvalue.scenarios import Dataset, Scenario
from fedvalue.trainers import seconds_per_pass
from fedvalue.training import work_of_all, work_of_trials

__all__ = ["PLAN_FILE", "FederationPlan", "foreseen", "plan_of"]

PLAN_FILE = "plan.json"
_FORMAT = "fedvalue.flower-plan/1"
_BACKWARD = 3  # a training step costs about three forward passes
_ROWS = 256  # of a client, on which the time is measured
_NAMED = 20


@dataclass(frozen=True)
class FederationPlan:
    """What a valuation would do, as far as that can be told. `rows` are those of the clients that are there.

    `seconds` is made of `message_rounds` times `seconds_per_message`, `seconds_of_training` at the client with the most to do,
    and `seconds_of_measuring`. `checkpoint` is the most that is kept after a round, in bytes. `job` and `members` are what an
    agreement would say of this valuation.
    """

    method: str
    rows: Mapping[str, int]
    absent: Mapping[str, str]
    asked: int
    stored: int
    asks: int
    trainings: int
    local_trainings: int
    waves: int
    message_rounds: int
    messages: int
    bytes_sent: int
    seconds_per_message: float
    seconds_of_training: float
    seconds_of_measuring: float
    checkpoint: int
    job: Mapping[str, Any] = field(default_factory=dict)
    members: Sequence[Mapping[str, Any]] = ()

    @property
    def seconds(self) -> float:
        """About how long all of it takes."""
        messages = self.message_rounds * self.seconds_per_message
        return messages + self.seconds_of_training + self.seconds_of_measuring

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"format": _FORMAT, **asdict(self), "seconds": self.seconds}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FederationPlan:
        """What `to_dict` gave."""
        if data.get("format") != _FORMAT:
            raise InputError(f"Expected a plan in the format {_FORMAT!r}. Got {data.get('format')!r}.")
        members = data.get("members", [])
        if not isinstance(members, (list, tuple)) or not all(
            isinstance(one, dict) and "key" in one for one in members
        ):
            raise InputError("The members of a plan must be a list of clients, each with its key.")
        return cls(**{name: value for name, value in data.items() if name not in ("format", "seconds")})

    def agree(
        self,
        operator: Party,
        keys: Mapping[str, str] = MappingProxyType({}),
        payout: PayoutTerms | None = None,
        title: str = "",
    ) -> Agreement:
        """The terms of this valuation as an agreement that nobody has signed yet.

        The members' public keys are those that are registered for signing, or in `keys`, by name.
        """
        if not self.job:
            raise InputError(
                "This plan was made by an earlier release and does not say what would be agreed on. Make a dry run again."
            )
        if self.absent:
            gone = listed(list(self.absent), _NAMED)
            raise InputError(
                f"Absent: {gone}. All who shall agree must be there, so that it is known which rows they have."
            )
        known = {member["name"]: member["key"] for member in self.members if member["key"]}
        known |= texts_by_name("keys", keys, "names of clients to their public keys")
        return agreement_on(self.job, self.members, operator, known, payout or PayoutTerms(), title)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The plan in words."""
        there = listed([f"{name} ({plural(rows, 'row')})" for name, rows in self.rows.items()], _NAMED)
        lines = [f"There: {there}."]
        if self.absent:
            gone = listed([f"{name} ({why})" for name, why in self.absent.items()], _NAMED)
            lines.append(f"Absent: {gone}. The others would be valued without them.")
        stored = f", {count(self.stored)} of them in the store" if self.stored else ""
        lines.append(f"Plan: {self.method}, {plural(self.asked, 'training')} of coalitions{stored}.")
        if self.asks > 1:
            lines.append(
                "The method decides as it goes: other utilities may lead it to fewer or other coalitions."
            )
        lines += [
            f"Local trainings of clients: {count(self.local_trainings)}, in {plural(self.waves, 'wave')} of coalitions.",
            f"Messages: {count(self.messages)} in {plural(self.message_rounds, 'message round')}, with about "
            f"{size(self.bytes_sent)} of models to the nodes and as much back.",
            f"Time: about {duration(self.seconds)}: {duration(self.message_rounds * self.seconds_per_message)} for messages "
            f"({self.seconds_per_message:.1f} s each round, as the nodes answered now), "
            f"{duration(self.seconds_of_training)} for training at the client with the most to do and "
            f"{duration(self.seconds_of_measuring)} for measuring, both as fast as this machine is. Nodes may be faster or "
            "slower.",
        ]
        if self.checkpoint:
            lines.append(f"Kept after every round, until the run ends: at most {size(self.checkpoint)}.")
        elif self.trainings:
            lines.append(
                "Nothing is kept between rounds (checkpoints = false): a run that is killed begins again."
            )
        return [*lines, "Nothing was trained."]


def plan_of(
    game: FederatedGame,
    roster: Roster,
    *,
    method: str,
    options: Mapping[str, Any],
    budget: int | None,
    store: Path,
    memory: int,
    message_bytes: int,
    checkpoints: bool,
    patience: float,
    job: Mapping[str, Any],
    members: Sequence[Mapping[str, Any]],
) -> FederationPlan:
    """What valuing this game in the federation would take."""
    scenario, training = game.scenario, game.training
    need_arrays(game.learner)
    need_built_in(scenario, [game.metric] if game.stored_as != game.metric else [])
    asked, asks = planned_trials(game, method_request(method, options), budget, training.seed)
    stored = 0
    if asked is None:  # all coalitions of very many clients are counted, not listed
        work, total = work_of_all(scenario, training), 1 << game.n
        per_client = [float(1 << (game.n - 1))] * game.n
    else:
        trials = [(mask, r + number) for r in range(game.replicates) for mask, number in asked if mask]
        known = stored_trials(game, store, trials)
        left, total, stored = [trial for trial in trials if trial not in known], len(trials), len(known)
        work = work_of_trials(scenario, training, left)
        per_client = [0.0] * game.n
        for mask, _ in left:
            for client in members_of(mask):
                per_client[client] += 1
    model = bytes_of(to_arrays(game.learner.session(scenario, training, "cpu", None).initial()))
    abreast = max(1, memory // (6 * model))  # local trainings at once, as a session counts them
    waves = max(1, math.ceil(work.per_later_round / abreast)) if work.trained else 0
    later = waves * (training.rounds - 1)
    at_nodes = not scenario.test.here
    message_rounds = 1 + (1 + later if work.trained else 0) + (2 if at_nodes else 0)
    per_round = max(game.n, math.ceil(work.per_later_round * model / max(1, waves) / message_bytes))
    sent = model * work.client_trainings + (model * (work.trained + 1) * game.n if at_nodes else 0)
    speed = seconds_per_pass(_alike(scenario), game.learner, training, "cpu", [(1 << game.n) - 1])
    epochs = 1 if training.algorithm == "fedsgd" else training.epochs
    most = max(
        len(data) * (min(many, 1.0) + (training.rounds - 1) * many)
        for data, many in zip(scenario.clients, per_client, strict=True)
    )
    return FederationPlan(
        method=method,
        rows={name: len(data) for name, data in zip(game.names, scenario.clients, strict=True)},
        absent=dict(roster.absent),
        asked=total,
        stored=stored,
        asks=asks,
        trainings=work.trained,
        local_trainings=work.client_trainings,
        waves=waves,
        message_rounds=message_rounds,
        messages=2 * game.n + (work.first_round and game.n + later * per_round),
        bytes_sent=sent,
        seconds_per_message=_seconds_per_message(roster, patience),
        seconds_of_training=speed * _BACKWARD * epochs * most,
        seconds_of_measuring=speed * len(scenario.test) * work.trained,
        checkpoint=model * (work.first_round + math.ceil(work.trained / max(1, waves))) if checkpoints else 0,
        job=job,
        members=members,
    )


def foreseen(
    game: FederatedGame,
    method: str,
    budget: int | None,
    seed: int,
    store: Path,
    seconds: float,
) -> str:
    """What is ahead of an app that gets a message for every model: so many messages, at the pace of the first round.

    There every client had one message, which took so many `seconds` until the last had answered.
    """
    asked, _ = planned_trials(game, method_request(method, {}), budget, seed)
    if asked is None:
        return f"{count(1 << game.n)} trainings of coalitions are ahead, each with a message to every client in every round."
    trials = [trial for trial in asked if trial[0]]
    known = stored_trials(game, store, trials)
    left = [trial for trial in trials if trial not in known]
    work, later = work_of_trials(game.scenario, game.training, left), game.training.rounds - 1
    busiest = max(sum(mask >> client & 1 for mask, _ in left) for client in range(game.n))
    return (
        f"{plural(len(left), 'training')} of coalitions are ahead ({count(len(known))} are in the store): "
        f"{count(later * work.per_later_round)} messages in {plural(later, 'further round')}. Round 1 took "
        f"{duration(seconds)} with one message for each client, so training will take about "
        f"{duration(seconds * busiest * later)} if nodes work as fast as that."
    )


def _seconds_per_message(roster: Roster, patience: float) -> float:
    """How long it takes until all nodes have answered a question that gives them nothing to do."""
    began = time.monotonic()
    roster.ask_again(patience)
    return time.monotonic() - began


def _alike(scenario: Scenario) -> Scenario:
    """Rows of the same form and number, up to a few hundred: what is in them does not matter for the time."""
    there = scenario.test.rows(slice(None))  # where it is elsewhere, the rows that stand for it

    def drawn(data: Dataset) -> Dataset:
        return there.rows(np.arange(min(len(data), _ROWS)) % len(there))

    clients = tuple(drawn(data) for data in scenario.clients)
    kind = scenario.task, scenario.classes, scenario.vocabulary
    return PartialScenario("alike", clients, scenario.names, drawn(scenario.test), *kind)
