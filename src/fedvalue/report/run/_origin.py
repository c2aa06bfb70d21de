"""Where a report comes from: the command that repeats the run, versions, seeds and fingerprints."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedvalue.text import plural
from fedvalue.trainings import Trainings
from fedvalue.values import Values

__all__ = ["Origin", "command_of", "known_before", "origin_of"]

_FORMAT = "fedvalue.run/1"


@dataclass(frozen=True)
class Origin:
    """`rows` are labels and texts to show; `command` is None where no record says how the run was made."""

    command: str | None
    rows: tuple[tuple[str, str], ...]
    record: Mapping[str, Any] | None


def origin_of(values: Values, record: Mapping[str, Any] | None, trainings: Trainings | None) -> Origin:
    """All that it takes to check or repeat the values."""
    rows = [("Game", values.game_id or "not named"), ("Method", values.method)]
    rows += [("Seed", str(values.seed))] if values.seed is not None else []
    rows += [("Budget", plural(values.budget, "coalition"))] if values.budget is not None else []
    before = known_before(values)
    if before:
        needed = (
            f"{plural(before, 'coalition')} of its store, without which the same command gives other values"
        )
        rows.append(("Used besides", needed))
    told = dict(record) if record is not None and record.get("format") == _FORMAT else None
    if told is not None:
        scenario = _part(told, "scenario")
        rows.append(("Fingerprint of the data", str(scenario.get("fingerprint", "not recorded"))))
        rows += [(f"Version of {name}", str(version)) for name, version in _part(told, "versions").items()]
        rows.append(("Device", str(told.get("device", "not recorded"))))
    if trainings is not None:
        rows += [("First training stored", trainings.first), ("Last training stored", trainings.last)]
    return Origin(None if told is None else command_of(told), tuple(rows), told)


def known_before(values: Values) -> int:
    """Coalitions that the method found in the store and used, beyond those that it asked for."""
    found = values.details.get("known_before", 0)
    return found if isinstance(found, int) else 0


def command_of(record: Mapping[str, Any]) -> str:
    """The command line that makes the same run again, every option spelled out.

    >>> command_of({"scenario": {"name": "digits", "partition": "size"}, "method": "exact", "seed": 3})
    'fedvalue run --no-config --scenario digits --partition size --method exact --seed 3'
    """
    scenario, training = _part(record, "scenario"), _part(record, "training")
    options: dict[str, Any] = {
        "scenario": scenario.get("name"),
        "clients": _number_of_clients(scenario),
        "partition": scenario.get("partition"),
        "samples": scenario.get("samples"),
        "data-dir": scenario.get("data_dir"),
        "model": record.get("model"),
        **{name: value for name, value in training.items() if name != "seed" and value != 0.0},
        "metric": record.get("metric"),
        "replicates": record.get("replicates"),
        "method": record.get("method"),
        "budget": record.get("budget"),
        "seed": record.get("seed"),
        "backend": None if record.get("backend") == "local" else record.get("backend"),
        "device": record.get("device"),
    }
    words = ["fedvalue", "run", "--no-config"]
    for name, value in options.items():
        words += [f"--{name}", _text(value)] if value is not None else []
    for name, of in (("scenario-option", scenario), ("option", record)):
        for key, value in _part(of, "options").items():
            words += ["--label", _text(value)] if key == "label" else [f"--{name}", f"{key}={_text(value)}"]
    return shlex.join(words)


def _number_of_clients(scenario: Mapping[str, Any]) -> int | None:
    """Where every file is a client, their number is not to be chosen."""
    clients = scenario.get("clients")
    return len(clients) if isinstance(clients, list) and scenario.get("name") != "files" else None


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = record.get(name)
    return part if isinstance(part, Mapping) else {}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
