"""Where a report comes from: the command that repeats the run, versions, seeds and fingerprints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedvalue._text import plural
from fedvalue.estimators import ESTIMATORS
from fedvalue.learners import LEARNERS
from fedvalue.scenarios import SCENARIOS
from fedvalue.store import History
from fedvalue.values import Values

__all__ = ["FEDERATION", "Origin", "command_of", "origin_of", "part_of", "rows_of"]

_FORMAT = "fedvalue.run/1"
FEDERATION = "fedvalue.flower/1"
"""The format of the record that a valuation in a Flower federation leaves."""
_UNNAMED = "its own"  # the partition of a scenario that was made in Python


@dataclass(frozen=True)
class Origin:
    """Where the values come from. `told` says what was valued, `rows` are labels and texts to show.

    `command` is None where no command gives these values; `no_command` then says why. `record` is that of the run, `until`
    when its last training was stored.
    """

    told: tuple[str, ...]
    command: str | None
    no_command: str
    rows: tuple[tuple[str, str], ...]
    record: Mapping[str, Any] | None
    until: str = ""

    @property
    def parts(self) -> list[str]:
        """The command, each option with its value."""
        return re.split(" (?=--)", self.command or "")


def origin_of(values: Values, record: Mapping[str, Any] | None, trainings: History | None) -> Origin:
    """All that it takes to check or repeat the values."""
    until = "" if trainings is None else trainings.last
    rows = [("Game", values.game_id or "not named"), ("Method", values.method)]
    rows += [("Seed", str(values.seed))] if values.seed is not None else []
    rows += [("Agreement", values.agreement)] if values.agreement else []
    if values.chain is not None:
        rows.append(
            ("Chain of the store", f"{plural(values.chain.rows, 'row')}, the last {values.chain.link}")
        )
    counted = "training" if values.seeds > 1 or values.luck_trainings else "coalition"
    rows += [("Budget", plural(values.budget, counted))] if values.budget is not None else []
    if values.known_before:
        needed = f"{plural(values.known_before, 'coalition')}; without them, the same run gives other values"
        rows.append(("Also used from the store", needed))
    if record is not None and record.get("format") == FEDERATION:
        return _of_federation(record, [*rows, *_times(trainings)], until)
    if record is None or record.get("format") != _FORMAT:
        why = "There is no record of the run beside these values, so the command is not known."
        return Origin((), None, why, (*rows, *_times(trainings)), None, until)
    # Where the trainings are kept says nothing about the values.
    record = {key: part for key, part in record.items() if key != "store"}
    scenario, own = part_of(record, "scenario"), _own(record)
    known = (
        ("scenario", scenario.get("name")),
        ("partition", scenario.get("partition")),
        ("model", record.get("model")),
    )
    told = [f"{what} {which}" for what, which in known if which not in (None, _UNNAMED)]
    versions = [f"{name} {version}" for name, version in part_of(record, "versions").items()]
    rows += [
        ("Fingerprint of the data", str(scenario.get("fingerprint", "not recorded"))),
        ("Versions", ", ".join(versions) or "not recorded"),
        ("Device", str(record.get("device", "not recorded"))),
        *_times(trainings),
    ]
    why = f"The run was made in Python with its own {' and '.join(own)}, so no command repeats it."
    return Origin(tuple(told), None if own else command_of(record), why, tuple(rows), record, until)


def rows_of(values: Values, record: Mapping[str, Any] | None) -> list[int] | None:
    """How many rows each client of the values trained on; None where the record of the run does not say.

    >>> rows_of(Values([1.0], ["b"], "exact", 2, clients=[1]), {"scenario": {"rows": [20, 30]}})
    [30]
    """
    known = part_of(record or {}, "scenario").get("rows")
    numbers = known if isinstance(known, list) and all(type(rows) is int for rows in known) else []
    places = range(values.n) if values.clients is None else values.clients
    complete = values.clients is not None or len(numbers) == values.n
    return [numbers[i] for i in places] if complete and max(places) < len(numbers) else None


def _of_federation(record: Mapping[str, Any], rows: list[tuple[str, str]], until: str) -> Origin:
    """Who took part with how many rows, how the run was set, and what it took."""
    scenario, settings = part_of(record, "scenario"), part_of(record, "settings")
    clients = zip(scenario.get("clients", ()), scenario.get("rows", ()), strict=False)
    versions = [f"{name} {version}" for name, version in part_of(record, "versions").items()]
    told = [f"{name} {_text(value)}" for name, value in settings.items() if value not in (None, "")]
    rows += [
        ("Rows of the clients", ", ".join(f"{name} {count}" for name, count in clients)),
        ("Fingerprint of the data", str(scenario.get("fingerprint", "not recorded"))),
        ("Models measured by", str(record.get("evaluated_at", "not recorded"))),
        ("Settings", ", ".join(told) or "not recorded"),
        ("Versions", ", ".join(versions) or "not recorded"),
        ("Began and ended", f"{record.get('began', 'not recorded')}, {record.get('ended', 'not recorded')}"),
        ("Messages", f"{record.get('messages', '?')} in {record.get('message_rounds', '?')} message rounds"),
    ]
    why = "The values were made in a Flower federation: its nodes have the data. The settings below make the same run again."
    kept = {key: part for key, part in record.items() if key != "store"}
    return Origin(("a Flower federation",), None, why, tuple(rows), kept, until)


def _times(trainings: History | None) -> list[tuple[str, str]]:
    if trainings is None or not trainings.first:  # a run without a store does not say when
        return []
    return [("First training stored", trainings.first), ("Last training stored", trainings.last)]


def _own(record: Mapping[str, Any]) -> list[str]:
    """What no option of the command can name: objects of Python."""
    scenario, asked = part_of(record, "scenario"), part_of(record, "asked")
    named = {
        "scenario": scenario.get("partition") != _UNNAMED and scenario.get("name") in SCENARIOS,
        "model": record.get("model") in (None, *LEARNERS) or ":" in str(record["model"]),
        "method": record.get("method") in ESTIMATORS or bool(asked.get("method")),
        "loss": "loss" not in part_of(record, "learner") or bool(asked.get("loss")),
        "metric": record.get("stored_as") in (None, record.get("metric")) or bool(asked.get("metric")),
    }
    return [what for what, can_be in named.items() if not can_be]


def command_of(record: Mapping[str, Any]) -> str:
    """The command line that makes the same run again, every option spelled out.

    >>> command_of({"scenario": {"name": "digits", "partition": "size"}, "method": "exact", "seed": 3})
    'fedvalue run --no-config --scenario digits --partition size --method exact --seed 3'
    """
    scenario, training = part_of(record, "scenario"), part_of(record, "training")
    options: dict[str, Any] = {
        "scenario": scenario.get("name"),
        "clients": _number_of_clients(scenario),
        "partition": scenario.get("partition"),
        "samples": scenario.get("samples"),
        "data-dir": scenario.get("data_dir"),
        "test": scenario.get("tested"),
        "model": record.get("model"),
        **{
            name.replace("_", "-"): value
            for name, value in training.items()
            if name != "seed" and value != 0.0
        },
        "loss": part_of(record, "asked").get("loss"),
        "metric": part_of(record, "asked").get("metric") or record.get("metric"),
        "replicates": record.get("replicates"),
        "empty": record.get("empty"),
        "method": part_of(record, "asked").get("method") or record.get("method"),
        "budget": record.get("budget"),
        "seeds": _seeds(record),
        "seed": record.get("seed"),
        "backend": None if record.get("backend") == "local" else record.get("backend"),
        "device": record.get("device"),
    }
    words = ["fedvalue", "run", "--no-config"]
    for name, value in options.items():
        words += [f"--{name}", _text(value)] if value is not None else []
    chosen = (
        ("scenario-option", part_of(scenario, "options")),
        ("model-option", part_of(record, "model_options")),
        ("option", part_of(record, "options")),
    )
    for name, of in chosen:
        for key, value in of.items():
            words += ["--label", _text(value)] if key == "label" else [f"--{name}", f"{key}={_text(value)}"]
    for name, of in part_of(record, "groups").items():
        words += ["--group", f"{name}={','.join(map(str, of))}"]
    return shlex.join(words)


def _seeds(record: Mapping[str, Any]) -> Any:
    """Over how many seeds the trainings were spread, where the method leaves that open; earlier runs had one."""
    method = ESTIMATORS.get(str(record.get("method")))
    if method is None or "seeds" not in method.options or "seeds" in part_of(record, "options"):
        return None
    return record.get("seeds", 1)


def _number_of_clients(scenario: Mapping[str, Any]) -> int | None:
    """Where every file is a client, their number is not to be chosen."""
    clients = scenario.get("clients")
    return len(clients) if isinstance(clients, list) and scenario.get("name") != "files" else None


def part_of(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of a record, empty where there is none."""
    part = record.get(name)
    return part if isinstance(part, Mapping) else {}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
