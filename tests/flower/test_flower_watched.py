"""What somebody who watches a federation is told: nodes that are there, nodes that are not, and what goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import digits
from flower_fakes import SIZES, FakeGrid, N, parties

from fedvalue.errors import FedvalueError
from fedvalue.flower._server import Task, value_federation
from fedvalue.flower._settings import Settings
from fedvalue.run import PROGRESS_FILE, Node
from fedvalue.watch import RunNow, snapshot

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")


def watched(out: Path, deadline: float = 30.0, lost: int | None = None) -> list[RunNow]:
    """A federation in which client-1 never came, as it is after every reply of client-0; `lost` goes in round 1."""
    grid = FakeGrid([type(p)(p.train, p.held_out, "", p.position) for p in parties(digits(SIZES))])
    del grid.parties[101]
    seen: list[RunNow] = []

    def look(message: Any, reply: Any) -> Any:
        if message.metadata.message_type == "train.fedvalue":
            seen.extend(snapshot(out).runs)
        return reply

    def lose(message: Any, reply: Any) -> Any:
        return None if message.metadata.message_type == "train.fedvalue" else reply

    grid.twists[0] = look
    if lost is not None:
        grid.twists[lost] = lose
    rules = {"rounds": 2, "epochs": 1, "batch": 16, "seed": 3, "method": "exact", "noise": False}
    config = {"clients": N, "out": str(out), "patience": 0.3, "deadline": deadline, **rules}
    value_federation(grid, Settings.from_config(config), Task("classification", 10, digits(SIZES).test))
    return seen


def test_nodes_are_there_or_absent_with_the_reason(tmp_path: Path) -> None:
    seen = watched(tmp_path)
    absent = Node("client-1", "absent", "did not answer within 0 s")
    assert seen
    for now in seen:
        assert now.state == "running"
        assert now.nodes == (Node("client-0", "there"), Node("client-2", "there"), absent)
        assert now.failures == ("client-1 did not answer within 0 s; the others are valued without it",)
    assert not (tmp_path / PROGRESS_FILE).exists()
    (ended,) = snapshot(tmp_path).runs
    assert (ended.state, ended.nodes, ended.failures) == ("ended", seen[0].nodes, seen[0].failures)


@pytest.mark.slow
def test_a_federation_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(FedvalueError) as error:
        watched(tmp_path, deadline=0.3, lost=2)
    (now,) = snapshot(tmp_path).runs
    assert now.state == "failed"
    assert now.failures[0] == str(error.value)
    assert any("client-2" in line for line in now.failures)
