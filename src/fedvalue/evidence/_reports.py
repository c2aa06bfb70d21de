"""Reports in the folder of a run: written again from values and trainings, and compared letter by letter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from fedvalue._version import __version__
from fedvalue.errors import FedvalueError
from fedvalue.evidence._payouts import shared_out_in
from fedvalue.evidence._run import LeftRun
from fedvalue.evidence._verdict import Check, sound, unchecked, wrong
from fedvalue.payout import RULES
from fedvalue.report import Terms, render
from fedvalue.run import RECORD_FILE
from fedvalue.store import History, StoreUntil, UtilityStore, read_history
from fedvalue.values import Values

__all__ = ["is_report", "reports"]

_DATA = re.compile(rb'<script type="application/json" id="fedvalue-report">(.*?)</script>', re.DOTALL)
_TITLE = b"# What the data of "


def is_report(file: Path) -> bool:
    """Whether a file is one that `fedvalue report` writes."""
    if file.suffix == ".html":
        return b'id="fedvalue-report"' in file.read_bytes()
    return file.suffix == ".md" and file.read_bytes().startswith(_TITLE)


def reports(run: LeftRun, store: UtilityStore | None, values: Values) -> Iterator[Check]:
    """Every report must be one that these values and trainings give."""
    files = [file for file in run.files if is_report(file)]
    if not files:
        return
    if run.record is None and (run.folder / RECORD_FILE).exists():
        yield unchecked("The report", "it cannot be written again without the record of the run")
        return
    written_by = ((run.record or {}).get("versions") or {}).get("fedvalue", __version__)
    if written_by != __version__:
        yield unchecked(
            "The report",
            f"it was written by fedvalue {written_by}; this is {__version__}, which words it otherwise",
        )
        return
    histories = list(_histories(store, values))
    # Runs of Flower write theirs without the record.
    records = [(run.record, (run.record or {}).get("budget"))]
    records += [] if (run.record or {}).get("format") == "fedvalue.run/1" else [(None, None)]
    for file in files:
        content = file.read_bytes()
        ways = product(_terms(run, content), histories, records)
        kind = file.suffix.lstrip(".")
        if any(content == _rendered(values, h, r, t, kind, budget) for t, h, (r, budget) in ways):
            yield sound(file.name, "written again from values and trainings, it is the same to the letter")
        else:
            yield wrong(
                file.name, "values and trainings do not give this report, by whatever terms of payout"
            )


def _rendered(
    values: Values, history: History | None, record: Any, terms: Terms, kind: str, budget: int | None
) -> bytes | None:
    try:
        return render(values, history, record, terms, kind, budget)
    except FedvalueError:
        return None


def _histories(store: UtilityStore | None, values: Values) -> Iterator[History | None]:
    """The trainings up to the end of the run, all that are there now, and none: a report may be written later, or without."""
    if store is not None:
        grown = values.chain is not None and store.head(values.game_id).rows > values.chain.rows
        if values.chain is not None:
            yield read_history(StoreUntil(store, values.game_id, values.chain.rows), values)
        if grown or values.chain is None:
            yield read_history(store, values)
    yield None


def _terms(run: LeftRun, content: bytes) -> Iterator[Terms]:
    """By which terms a report may have been written: a page says so itself, for a text they are tried."""
    found = _DATA.search(content)
    if found is not None:
        try:
            yield Terms(**json.loads(found[1])["terms"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        return
    anyway = run.values is not None and bool(run.values.warning)
    yield Terms()
    for data in shared_out_in(run):
        yield Terms(_text(data, "pot"), _text(data, "currency"), _text(data, "rule"), anyway)
    for rule in RULES:
        yield Terms(None, "", rule, anyway)


def _text(data: Mapping[str, Any], name: str) -> str:
    return str(data.get(name, ""))
