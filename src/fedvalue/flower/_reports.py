"""What clients report of data that stays with them, and the scenario that a server makes of it.

A server needs three facts of a client: how many rows it has, the fingerprint of its data (a game's identity,
and equal data is recognised) and what a row is made of. With them its game has the identity that the same
scenario has in one process, and utilities can be exchanged between both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedvalue.errors import InputError
from fedvalue.flower._forms import Form
from fedvalue.flower._names import check_names, is_name, too_alike
from fedvalue.flower._wire import ConfigRecord, WireError, count_in
from fedvalue.replies import test_at_nodes
from fedvalue.scenarios import Dataset, Scenario

__all__ = [
    "MOST_ROWS",
    "ClientReport",
    "Kind",
    "PartialScenario",
    "RemoteData",
    "in_order",
    "kind_of",
    "remote_scenario",
]

Kind = tuple[str, int, int]  # task, classes, vocabulary: which types of number rows and labels have

MOST_ROWS = 10**12  # that anybody may claim
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, eq=False)
class RemoteData(Dataset):
    """Data that lives elsewhere: its size and fingerprint are known; `x`, `y` are stand-ins of its shape."""

    here: ClassVar[bool] = False
    size: int = 0
    digest: str = ""

    def __len__(self) -> int:
        return self.size

    @property
    def fingerprint(self) -> str:
        """As reported by who has the data."""
        return self.digest

    @property
    def changed(self) -> bool:
        """Who has the data says so, not this party."""
        return False


@dataclass(frozen=True, eq=False)
class PartialScenario(Scenario):
    """A scenario of which one party sees a part: its own data, or what others report of theirs.

    What can only be checked with all data at hand (labels of several classes, equal shapes) is not.
    """

    def __post_init__(self) -> None:
        for key in ("clients", "test"):
            given = getattr(self, key)
            converted = tuple(map(self._own, given)) if key == "clients" else self._own(given)
            object.__setattr__(self, key, converted)

    def _own(self, data: Dataset) -> Dataset:
        return data if isinstance(data, RemoteData) else self._converted(data, "this party")

    def summary(self) -> list[dict[str, Any]]:
        """Names and numbers of rows: labels are not known here."""
        pairs = zip(self.names, self.clients, strict=True)
        return [{"name": name, "samples": len(data)} for name, data in pairs]


def kind_of(scenario: Scenario) -> Kind:
    """What a node must know of a scenario to report the fingerprint that its data has there."""
    return scenario.task, scenario.classes, scenario.vocabulary


@dataclass(frozen=True)
class ClientReport:
    """What a node says of its data, in answer to a query; `position` is −1 where it was given none."""

    size: int
    fingerprint: str
    form: Form
    position: int = -1
    name: str = ""
    held_out: int = 0
    held_out_fingerprint: str = ""

    def called(self, place: int) -> str:
        """Its name, or a name from its partition-id; who is there beside it does not change that."""
        return self.name or f"client-{self.position if self.position >= 0 else place}"

    def to_record(self) -> ConfigRecord:
        return ConfigRecord(
            {
                "size": self.size,
                "fingerprint": self.fingerprint,
                "form": self.form.to_text(),
                "position": self.position,
                "name": self.name,
                "held-out": self.held_out,
                "held-out-fingerprint": self.held_out_fingerprint,
            }
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ClientReport:
        name = record.get("name", "")
        if name != "" and not is_name(name):
            raise WireError("reported a name that is not a line of text")
        held_out, size = count_in(record, "held-out"), count_in(record, "size")
        if max(held_out, size) > MOST_ROWS:
            raise WireError(f"reported {max(held_out, size):,} rows, more than anybody has")
        return cls(
            size,
            _digest(record, "fingerprint"),
            Form.from_text(record.get("form")),
            count_in(record, "position", -1),
            name,
            held_out,
            _digest(record, "held-out-fingerprint") if held_out else "",
        )


def _digest(record: Mapping[str, Any], key: str) -> str:
    text = record.get(key)
    if not isinstance(text, str) or len(text) != 64 or not set(text) <= _HEX:
        raise WireError(f"reported no {key} of its data")
    return text


def in_order(reports: Mapping[int, ClientReport], clients: int) -> list[int]:
    """The nodes as client 0, 1, …: by their `partition-id` where they have one, else by their names.

    Where some of the `clients` are absent, the others keep their partition-ids.
    """
    positions = {node: report.position for node, report in reports.items()}
    if all(position >= 0 for position in positions.values()):
        taken = set(positions.values())
        if len(taken) < len(positions) or max(taken) >= clients:
            raise InputError(
                f"The nodes must have the partition-ids 0 to {clients - 1}, one each. They report "
                f"{sorted(positions.values())}. Start every SuperNode with its own --node-config partition-id=…"
            )
        return sorted(positions, key=lambda node: positions[node])
    names = [report.name for report in reports.values()]
    if "" in names or too_alike(names):
        raise InputError(
            "The nodes cannot be told apart: each must have its own partition-id or its own name in "
            f"--node-config. Partition-ids {sorted(positions.values())}, names {sorted(names)}."
        )
    return sorted(reports, key=lambda node: reports[node].name)


def remote_scenario(
    reports: Sequence[ClientReport],
    test: Dataset | None,
    task: str,
    classes: int,
    vocabulary: int = 0,
    test_parts: Mapping[str, Any] | None = None,
    name: str = "federation",
    by_client: bool = False,
) -> Scenario:
    """The scenario of clients that reported; without a test set they are measured on what each holds out. With
    `by_client` what is measured at each of them is told, too: the rows of each are a part with its name.
    """
    kind: Kind = (task, classes, vocabulary)
    if test is None:
        form = Form.from_text(Counter(report.form.to_text() for report in reports).most_common(1)[0][0])
    else:
        test = PartialScenario(name, (), (), test, *kind).test  # in the types of numbers that are trained on
        form = Form.of(test)
    for place, report in enumerate(reports):
        if report.form != form and (report.size or report.form.x != form.x):  # no rows have no labels
            raise InputError(
                f"All clients must have rows of one form. Expected {form}; client {place} reports {report.form}."
            )
    if not any(report.size for report in reports):
        raise InputError("No client has any data. At least one must have rows to train on.")
    rows = form.stand_ins(classes, vocabulary)

    def stand_in(size: int, digest: str) -> RemoteData:
        one = rows.rows(slice(0, min(size, 1)))
        return RemoteData(one.x, one.y, size, digest)

    names = tuple(report.called(place) for place, report in enumerate(reports))
    check_names(names)
    if test is None:
        held = [(report.held_out, report.held_out_fingerprint) for report in reports]
        if not any(size for size, _ in held):
            raise InputError(
                "Evaluation by the nodes was asked for, and none of them holds rows out for it. "
                "Give held-out rows to the client apps, or a test set to the server."
            )
        test = RemoteData(rows.x, rows.y, sum(size for size, _ in held), test_at_nodes(held))
        test_parts = _parts_of_nodes(names, reports) if by_client else None
    clients = tuple(stand_in(report.size, report.fingerprint) for report in reports)
    parts = {key: np.asarray(chosen, np.int64) for key, chosen in (test_parts or {}).items()}
    return PartialScenario(name, clients, names, test, *kind, parts)


def _parts_of_nodes(names: Sequence[str], reports: Sequence[ClientReport]) -> dict[str, Any]:
    """Held-out rows one client after the other, as if they were one test set."""
    ends = np.cumsum([report.held_out for report in reports])
    return {
        name: np.arange(end - report.held_out, end)
        for name, report, end in zip(names, reports, ends, strict=True)
        if report.held_out
    }
