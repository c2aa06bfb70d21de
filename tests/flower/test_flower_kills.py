"""ServerApp and SuperLink are killed in the middle of a round, as processes: the next run goes on from the round before.

`bench/federation_kills.py` kills each in every round; test_flower_checkpoints.py has the same in one process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import digits
from flower_kills import killed_and_continued
from flower_processes import IMPATIENT, alive, until

from fedvalue.flower._demo import lay_out, run_app, start
from fedvalue.flower._processes import Federation

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

SIZES = (40, 30)
CLIENTS = len(SIZES)
SETTINGS: dict[str, Any] = {
    "method": "exact-cc", "rounds": 3, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3,
}  # fmt: skip
LONG = 400.0  # for one valuation on a busy machine


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(IMPATIENT, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"), prepend=os.pathsep)
    yield tmp_path
    if sys.platform == "linux":
        until(lambda: not alive(tmp_path), f"the end of {alive(tmp_path)}", 40)


def test_what_was_under_way_goes_on(home: Path) -> None:
    app = lay_out(home, digits(SIZES), SETTINGS)
    with Federation(home) as federation:
        federation.link_options = ("--insecure", "--database", str(home / "link.db"))
        start(federation, digits(SIZES))
        expected = run_app(federation, app, home / "undisturbed", {}, LONG)
        values, messages = killed_and_continued(federation, app, CLIENTS, "SuperLink", 3, LONG)
        assert values.mean.tolist() == expected.mean.tolist()  # bit by bit
        assert set(messages) == {1, 2, 3}
        assert messages[1] == messages[2] == CLIENTS
        assert CLIENTS < messages[3] <= 2 * CLIENTS  # one round at most
        assert "after round 2." in federation.log("superlink-dies-in-3-again", 10**6)
