"""A period that a federation has valued: nothing is trained, and what its run left is taken over into the folder."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedvalue._files import json_ready
from fedvalue.agreement import Agreement, read_agreement
from fedvalue.errors import InputError
from fedvalue.evidence import refuse_wrong
from fedvalue.periods._accounts import said_the_same
from fedvalue.periods._close import Begun, keys_of
from fedvalue.periods._entry import Period
from fedvalue.periods._folder import SEALED, STORE_FILE, check_name
from fedvalue.periods._members import Client, attend
from fedvalue.periods._store import holds, refuse_altered_store
from fedvalue.periods._terms import refuse_other_terms
from fedvalue.replies import book_beside
from fedvalue.report import FEDERATION
from fedvalue.run import (
    AGREEMENT_FILE,
    EVIDENCE_FILE,
    find_store,
    read_record,
    read_values,
)
from fedvalue.store import Head, UtilityStore
from fedvalue.values import Values

__all__ = ["LeftByFederation", "begin_federation", "read_federation"]

_SAID = ("learner", "training", "metric", "empty", "replicates", "method", "budget", "options", "groups")


@dataclass(frozen=True)
class LeftByFederation:
    """What a run in a federation has left in its folder."""

    folder: Path
    values: Values
    record: Mapping[str, Any]
    store: Path
    agreed: Agreement | None

    def clients(self) -> tuple[Client, ...]:
        """Who has a value, with the rows that its node reported."""
        told = self.record["scenario"]
        known = {
            c[0]: Client(*c) for c in zip(told["clients"], told["fingerprints"], told["rows"], strict=True)
        }
        return tuple(known[name] for name in self.values.names)

    def terms(self) -> dict[str, Any]:
        """What the utility of a coalition depends on besides its members, and how values are made of utilities."""
        told = self.record["scenario"]
        terms = {
            "test": told["test"]["fingerprint"],
            "test parts": told["parts"],
            "task": told["task"],
            "plan": None,
            "seeds": None,  # they are among the options
            **{name: self.record[name] for name in _SAID},
            "evaluated_at": self.record["evaluated_at"],
        }
        found: dict[str, Any] = json.loads(json.dumps(json_ready(terms)))
        return found

    def take(self, into: Path) -> None:
        """Copies everything that belongs to the values, the store among it: the federation goes on with its own."""
        try:
            into.mkdir(parents=True, exist_ok=True)
            for name in (*SEALED, EVIDENCE_FILE):
                (into / name).unlink(missing_ok=True)  # of another run that was not closed
                if (
                    name not in (STORE_FILE, book_beside(into / STORE_FILE).name)
                    and (self.folder / name).is_file()
                ):
                    shutil.copyfile(self.folder / name, into / name)
            with (
                closing(sqlite3.connect(f"file:{self.store.resolve()}?mode=ro", uri=True)) as source,
                closing(sqlite3.connect(into / STORE_FILE)) as copy,
            ):
                source.backup(copy)
            if book_beside(self.store).is_file():
                shutil.copyfile(book_beside(self.store), book_beside(into / STORE_FILE))
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"Cannot copy {self.folder} to {into}: {error}.") from error


def read_federation(run: Path) -> LeftByFederation:
    """The run in this folder; one that is not of a federation, or whose trainings were altered, is refused."""
    values, record = read_values(run), read_record(run)
    if record is None or record.get("format") != FEDERATION:
        raise InputError(
            f"{run} is not the folder of a run in a Flower federation. Other periods are closed with a job."
        )
    scenario = record.get("scenario")
    if (
        not isinstance(scenario, dict)
        or "fingerprints" not in scenario
        or values.game_id != record.get("game_id")
    ):
        raise InputError(
            f"{run} does not say which rows its clients have: it was run with an earlier release. "
            "Run it again with this one; what is in its store is not trained again."
        )
    store = find_store(run, None)
    if not store.is_file():
        raise InputError(f"There is no store at {store}, and a period keeps the trainings that it rests on.")
    _refuse_altered(store, values)
    file = run / AGREEMENT_FILE
    agreed = read_agreement(file) if values.agreement and file.is_file() else None
    if values.agreement and (agreed is None or agreed.hash != values.agreement or agreed.problems()):
        raise InputError(
            f"The values were made under the agreement {values.agreement}, and {file} is not it, with all its signatures."
        )
    refuse_wrong(run)
    return LeftByFederation(run, values, record, store, agreed)


def begin_federation(
    folder: Path,
    name: str,
    left: LeftByFederation,
    closed: Sequence[Period],
    renamed: Mapping[str, str],
    new_terms: bool,
    same: Collection[str],
) -> Begun:
    """The period of such a run, after the same checks as for a job."""
    check_name(name, closed)
    refuse_altered_store(folder, closed)
    told = left.values.to_dict()
    if paid := [one.name for one in closed if read_values(folder / one.name).to_dict() == told]:
        raise InputError(
            f"The period {paid[0]} was closed with this run already. Nobody is paid twice by it."
        )
    clients, values = left.clients(), left.values
    attendance = attend(clients, closed, renamed, values.absent)
    said_the_same(attendance, same)
    terms = left.terms()
    if closed and not new_terms:
        refuse_other_terms(terms, values.names, closed[-1], attendance.was)
    keys = {**dict(left.record.get("keys") or {}), **keys_of(left.agreed)}
    groups = left.record.get("groups")
    return Begun(name, clients, attendance, terms, closed, same, left.agreed, groups, keys, values.absent)


def _refuse_altered(store: Path, values: Values) -> None:
    with UtilityStore(store, create=False) as opened:
        wrong = opened.verify()
        heads = [Head(entry.place + 1, entry.link) for entry in opened.entries(values.game_id)]
    if wrong or values.chain is None or not holds(heads, values.chain):
        said = wrong[0] if wrong else f"{store} has not the trainings that the values rest on"
        raise InputError(
            f"Nobody is paid by trainings that were altered: {said}. `fedvalue verify` says more."
        )
