"""A valuation in a federation, from the game to the results in a folder, also when clients are missing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from logging import INFO, WARNING
from pathlib import Path
from platform import python_version
from types import MappingProxyType
from typing import Any

from flwr.common import log

from fedvalue._files import sealed, write_file, write_json
from fedvalue._version import __version__
from fedvalue.agreement import Agreement
from fedvalue.errors import InputError, MethodError, UnavailableError
from fedvalue.flower._roster import Roster
from fedvalue.flower._settings import MISSING
from fedvalue.games import FederatedGame, RestrictedGame
from fedvalue.replies import Book
from fedvalue.report import FEDERATION, render
from fedvalue.run import (
    AGREEMENT_FILE,
    RECORD_FILE,
    REPORT_FILE,
    VALUES_FILE,
    Node,
    Observer,
    ProgressFile,
    add_disclosure,
    keep_earlier,
    seen_from,
    value,
)
from fedvalue.store import UtilityStore, read_history
from fedvalue.values import Values
from fedvalue.weights import without_clients

__all__ = ["Valuation", "value_of_those_who_answer"]

_LOGGED = Observer(on_stage=lambda text: log(INFO, text))
_LIMITS = ("max-claim", "max-update")  # clients beyond them are refused


@dataclass(frozen=True, kw_only=True)
class Valuation:
    """Which method, what to do when clients are missing, and where trainings and results go.

    `unknown` says why nothing is known of the luck of the test rows, where that is so from the start. `settings` are all that
    the run was told, for its record. `groups` are clients that join as one party, by name. `book` has the signatures of the nodes. The results carry the
    hash of an `agreement`; whether this is what was agreed is looked at before.
    """

    method: str
    budget: int | None
    seed: int
    missing: str
    store: Path
    out: Path
    evaluated_at: str
    options: Mapping[str, Any] = field(default_factory=dict)
    unknown: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] | None = None
    book: Book | None = None
    agreement: Agreement | None = None

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            raise InputError(f"missing must be one of {MISSING}. Got {self.missing!r}.")

    def run(self, game: FederatedGame, roster: Roster) -> Values:
        """Values the clients; leaves values.json, run.json and report.html, and every training in the store."""
        began = _now()
        for folder in (self.out, self.store.parent):
            folder.mkdir(parents=True, exist_ok=True)
        with UtilityStore(self.store) as store:
            try:
                with self._followed(game, roster).kept(_LOGGED) as observer:
                    values = self._valued(game, store, without_clients(self.groups, roster.absent), observer)
            except Exception:  # what left the clients has left them, whatever became of it
                add_disclosure(self.out, game.disclosure((), is_complete=False), game.id)
                raise
            facts: dict[str, Any] = {
                "message_rounds": roster.queries + roster.rounds,
                "messages": roster.messages,
                "evaluated_at": self.evaluated_at,
            }
            facts |= {"incidents": roster.incidents} if roster.incidents else {}
            if self.book is not None and self.book.lines:
                facts["replies"] = {"lines": self.book.lines, "link": self.book.link}
            notes = (*values.notes, self.unknown) if self.unknown and values.parts else values.notes
            values = replace(
                values,
                details={**values.details, **facts},
                notes=notes,
                absent={**roster.absent, **values.absent},
                agreement="" if self.agreement is None else self.agreement.hash,
            ).as_written()
            self._leave(
                values, store, {**self._record(game, values, roster), "began": began, "ended": _now()}
            )
        return values

    def _valued(
        self,
        game: FederatedGame,
        store: UtilityStore,
        groups: Mapping[str, Sequence[str]] | None,
        observer: Observer,
    ) -> Values:
        how = self.method, self.budget, self.seed
        try:
            return value(
                game,
                *how,
                store,
                groups=groups,
                on_stage=observer.on_stage,
                on_outcome=observer.on_outcome,
                **self.options,
            )
        except UnavailableError as error:
            if self.missing == "refuse":
                raise
            log(INFO, "Valuing those who answer: %s", error)
            return value_of_those_who_answer(game, error, *how, store, self.options, groups, observer)

    def _followed(self, game: FederatedGame, roster: Roster) -> ProgressFile:
        """A file in the folder that says how far the run is, and which nodes are there."""
        facts = self.terms(game)

        def nodes() -> list[Node]:
            gone = roster.absent
            there = [Node(name, "there") for name in game.names if name not in gone]
            return there + [Node(name, "absent", why) for name, why in gone.items()]

        return ProgressFile(
            self.out,
            {**facts, "scenario": {"clients": list(game.names)}},
            seen_from(self.out, self.store),
            nodes,
            lambda: roster.incidents,
        )

    def _leave(self, values: Values, store: UtilityStore, record: Mapping[str, Any]) -> None:
        """Earlier results are kept elsewhere. The values come last: whoever waits for them finds all."""
        keep_earlier(self.out)
        if self.agreement is not None:
            self.agreement.save(self.out / AGREEMENT_FILE)
        write_json(self.out / RECORD_FILE, sealed(record))
        try:
            content = render(values, read_history(store, values), record, budget=self.budget)
            with write_file(self.out / REPORT_FILE) as file:
                file.write(content)
        except Exception as error:  # what goes with the values must not cost them
            log(WARNING, "There is no report: %s", error)
        add_disclosure(self.out, values.disclosure, values.game_id)
        write_json(self.out / VALUES_FILE, sealed(values.to_dict()))

    def terms(self, game: FederatedGame) -> dict[str, Any]:
        """What is trained and how it is valued, as plain data: what can be agreed on before."""
        scenario = game.scenario
        test = {"rows": len(scenario.test), "fingerprint": scenario.test.fingerprint}
        return {
            "game_id": game.id,
            "metric": game.metric,
            "stored_as": game.stored_as,
            "higher_is_better": game.higher_is_better,
            "replicates": game.replicates,
            "empty": game.empty.removeprefix("="),
            "method": self.method,
            "budget": self.budget,
            "options": dict(self.options),
            "groups": None if self.groups is None else {name: list(of) for name, of in self.groups.items()},
            "seed": self.seed,
            "missing": self.missing,
            "evaluated_at": self.evaluated_at,
            "limits": {name: self.settings[name] for name in _LIMITS if name in self.settings},
            "scenario": {
                "name": scenario.name,
                "rows": [len(data) for data in scenario.clients],
                "fingerprint": scenario.fingerprint,
                "task": [scenario.task, scenario.classes, scenario.vocabulary],
                "test": test,
                "parts": {part: len(rows) for part, rows in sorted(scenario.test_parts.items())},
            },
            "learner": dict(game.learner.identity()),
            "training": game.training.plain(),
        }

    def _record(self, game: FederatedGame, values: Values, roster: Roster) -> dict[str, Any]:
        """Who took part and who did not, by which rules, what happened, and what it took."""
        terms = self.terms(game)
        clients: dict[str, Any] = {
            "clients": list(game.names),
            "fingerprints": [data.fingerprint for data in game.scenario.clients],
        }
        if self.evaluated_at == "nodes":
            clients["held_out"] = [[one.held_out, one.held_out_fingerprint] for one in roster.reports]
        return {
            "format": FEDERATION,
            **terms,
            "scenario": {**terms["scenario"], **clients},
            **({} if self.agreement is None else {"agreement": self.agreement.hash}),
            "keys": {name: key for name, key in zip(game.names, roster.signing_keys, strict=True) if key},
            "game": {
                "seeds": game.seeds,
                "idle": list(game.idle),
                "alike": [list(group) for group in game.alike],
            },
            "backend": "flower",
            "settings": dict(self.settings),
            "absent": dict(values.absent),
            "incidents": list(values.details.get("incidents", ())),
            "message_rounds": values.details["message_rounds"],
            "messages": values.details["messages"],
            "versions": {"fedvalue": __version__, "python": python_version(), "flwr": version("flwr")},
            "store": Path(os.path.relpath(self.store, self.out)).as_posix(),
        }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def value_of_those_who_answer(
    game: FederatedGame,
    error: UnavailableError,
    method: str,
    budget: int | None,
    seed: int,
    store: UtilityStore,
    options: Mapping[str, Any] = MappingProxyType({}),
    groups: Mapping[str, Sequence[str]] | None = None,
    observer: Observer | None = None,
) -> Values:
    """Values in the game of the clients that are left, after those that the error names were lost.

    A client that is missing gets no number at all: nothing is known of what its data adds.
    """
    lost, observer = dict(error.reasons), observer or _LOGGED
    while True:
        left = [i for i in range(game.n) if i not in lost]
        if not left:
            raise error
        rest = RestrictedGame(game, left, store)
        try:
            there = without_clients(groups, [game.names[i] for i in lost])
            values = value(
                rest,
                method,
                budget,
                seed,
                groups=there,
                on_stage=observer.on_stage,
                on_outcome=observer.on_outcome,
                **options,
            )
        except MethodError as impossible:  # gradient methods look at a run of all clients
            raise error from impossible
        except UnavailableError as further:
            if not set(further.reasons) - set(lost):
                raise
            lost |= further.reasons
            continue
        missing = {game.names[i]: reason for i, reason in sorted(lost.items())}
        return replace(values, clients=tuple(left), absent=missing)
