"""ServerApp and SuperLink are killed in the middle of a round, as processes: the next run goes on from the round before."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import digits
from flower_processes import IMPATIENT, alive, flwr, kill, messages_by_round, run_number, until

import fedvalue as fv
from fedvalue.flower._demo import lay_out, run_app, start
from fedvalue.flower._processes import Federation
from fedvalue.run import read_values

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


def asked(federation: Federation, run: str) -> Counter[int]:
    """Messages to train that nodes have received in a run, by round."""
    logs = (federation.log(f"node-{place}", 10**7) for place in range(CLIENTS))
    return sum((messages_by_round(log, run) for log in logs), Counter())


def killed_and_continued(
    federation: Federation, app: Path, name: str, t: int, *victims: str
) -> tuple[fv.Values, Counter[int]]:
    """The run is killed when a node has begun with round t; the values of the next one, and what both asked for."""
    out = federation.home / name
    federation.start_run(app, {"out": str(out)}, name)
    first = run_number(federation, name)
    until(lambda: asked(federation, first)[t] > 0, f"round {t}", LONG)
    kill(federation, *victims)
    assert not (out / "values.json").exists()
    if "superlink" in victims:
        federation.start_link()
    else:
        federation.start_executor()
    flwr(federation, "stop", first, "demo")
    federation.start_run(app, {"out": str(out)}, f"{name}-again")
    second = run_number(federation, f"{name}-again")
    federation.wait(f"{name}-again", LONG)
    assert not (out / "error.json").exists(), (out / "error.json").read_text(encoding="utf-8")
    assert not (out / "store.db.rounds").exists()
    return read_values(out), asked(federation, first) + asked(federation, second)


def test_what_was_under_way_goes_on(home: Path) -> None:
    app = lay_out(home, digits(SIZES), SETTINGS)
    with Federation(home) as federation:
        federation.link_options = ("--insecure", "--database", str(home / "link.db"))
        start(federation, digits(SIZES))
        expected = run_app(federation, app, home / "undisturbed", {}, LONG)
        for name, t, victims in (
            ("serverapp-dies", 3, ("superexec",)),
            ("superlink-dies", 4, ("superlink", "superexec")),
        ):
            values, messages = killed_and_continued(federation, app, name, t, *victims)
            assert values.mean.tolist() == expected.mean.tolist()  # bit by bit
            assert set(messages) == {1, 2, 3, 4}
            assert all(messages[other] == CLIENTS for other in messages if other != t)
            assert CLIENTS < messages[t] <= 2 * CLIENTS  # one round at most
            assert f"after round {t - 1}." in federation.log(f"{name}-again", 10**6)
