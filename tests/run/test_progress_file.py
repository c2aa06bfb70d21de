"""The file by which a run says how far it is: there while it runs, gone at its end, and never in its way."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fedvalue as fv
from fedvalue.run import PROGRESS_FILE, Evaluation, Progress, read_progress
from fedvalue.store import lives, new_owner


def run(out: Path, on_outcome: Callable[[Evaluation], Any]) -> None:
    fv.run("synthetic", clients=3, samples=20, model="least-squares", out=out, on_outcome=on_outcome)


def test_it_is_there_while_the_run_goes_on_and_gone_at_the_end(tmp_path: Path) -> None:
    seen: list[Progress | None] = []
    run(tmp_path / "run", lambda evaluation: seen.append(read_progress(tmp_path / "run")))
    first, last = seen[0], seen[-1]
    assert first is not None
    assert last is not None
    assert first.names == ("client-0", "client-1", "client-2")
    assert (first.state, first.method, first.store, first.lives) == ("running", "surrogate", "store.db", True)
    assert (last.known, last.asked) == (8, 8)
    assert first.began <= first.updated <= last.updated
    assert read_progress(tmp_path / "run") is None
    assert not (tmp_path / "run" / PROGRESS_FILE).exists()


@pytest.mark.parametrize(
    ("error", "state", "said"),
    [(ValueError("no luck"), "failed", "no luck"), (KeyboardInterrupt(), "interrupted", "")],
)
def test_how_a_run_came_to_no_end_stays(tmp_path: Path, error: BaseException, state: str, said: str) -> None:
    def stop(evaluation: Evaluation) -> None:
        raise error

    with pytest.raises(type(error)):
        run(tmp_path, stop)
    left = read_progress(tmp_path)
    assert left is not None
    assert (left.state, left.error) == (state, said)
    run(tmp_path, lambda evaluation: None)
    assert read_progress(tmp_path) is None


def test_a_file_that_cannot_be_written_costs_the_run_nothing(tmp_path: Path) -> None:
    (tmp_path / PROGRESS_FILE).mkdir()
    run(tmp_path, lambda evaluation: None)
    assert (tmp_path / "values.json").exists()


def test_a_process_that_is_gone(tmp_path: Path) -> None:
    seen: list[Progress | None] = []
    run(tmp_path, lambda evaluation: seen.append(read_progress(tmp_path)))
    assert seen[0] is not None
    machine, pid, _, rest = new_owner().split("|")
    assert not replace(
        seen[0], owner=f"{machine}|{pid}|1|{rest}"
    ).lives  # another process has this number now
    assert lives(f"elsewhere|{pid}|1|{rest}")  # nobody knows


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": "fedvalue.progress/1", "state": "running"}', '{"a": 1']
)
def test_what_cannot_be_read_is_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / PROGRESS_FILE).write_text(content)
    assert read_progress(tmp_path) is None


def test_one_of_a_later_format_is_nothing(tmp_path: Path) -> None:
    kept: list[str] = []
    run(tmp_path, lambda evaluation: kept.append((tmp_path / PROGRESS_FILE).read_text()))
    data = json.loads(kept[0])
    (tmp_path / PROGRESS_FILE).write_text(json.dumps(data))
    assert read_progress(tmp_path) is not None
    (tmp_path / PROGRESS_FILE).write_text(json.dumps({**data, "format": "fedvalue.progress/9"}))
    assert read_progress(tmp_path) is None
