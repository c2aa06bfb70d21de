"""ServerApp and SuperLink are killed in the middle of a round, as processes: the next run goes on from the round before."""

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
    "method": "exact-cc", "rounds": 4, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3,
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
        for victim, t in (("ServerApp", 3), ("SuperLink", 4)):
            values, messages = killed_and_continued(federation, app, CLIENTS, victim, t, LONG)
            assert values.mean.tolist() == expected.mean.tolist()  # bit by bit
            assert set(messages) == {1, 2, 3, 4}
            assert all(messages[other] == CLIENTS for other in messages if other != t)
            assert CLIENTS < messages[t] <= 2 * CLIENTS  # one round at most
            again = federation.log(f"{victim.lower()}-dies-in-{t}-again", 10**6)
            assert f"after round {t - 1}." in again
