"""Clients that are absent from the start: the others keep their names and are valued, and the absent are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import BRIEF, digits
from flower_fakes import SIZES, FakeGrid, N, parties, public_line

import fedvalue as fv
from fedvalue.errors import FedvalueError, InputError
from fedvalue.flower._registered import RegisteredClient, key_of, write_roster
from fedvalue.flower._server import Task, value_federation
from fedvalue.flower._settings import Settings
from fedvalue.games import FederatedGame
from fedvalue.scenarios import Scenario

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

RULES = {"rounds": 2, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3, "method": "exact", "noise": False}


def valued(grid: FakeGrid, out: Path, **more: Any) -> fv.Values:
    config = {"clients": N, "out": str(out), "patience": 0.3, **RULES, **more}
    return value_federation(
        grid, Settings.from_config(config), Task("classification", 10, digits(SIZES).test)
    )


def without(*absent: int, named: bool = False) -> FakeGrid:
    members = parties(digits(SIZES))
    if not named:  # nodes that only say their partition-id
        members = [type(p)(p.train, p.held_out, "", p.position) for p in members]
    grid = FakeGrid(members)
    for client in absent:
        del grid.parties[100 + client]
    return grid


class TestAbsentFromTheStart:
    @pytest.mark.parametrize("missing", ["refuse", "use-known"])
    def test_the_others_are_valued_under_their_own_names(self, tmp_path: Path, missing: str) -> None:
        values = valued(without(1), tmp_path, missing=missing)
        assert values.names == ("client-0", "client-2")  # nobody had to renumber
        assert values.absent == {"client-1": "did not answer within 0 s"}
        assert (
            "client-1 did not answer within 0 s; the others are valued without it"
            in (values.details["incidents"])
        )
        two = digits(SIZES)
        alone = Scenario("two", (two.clients[0], two.clients[2]), ("a", "b"), two.test, two.task, two.classes)
        expected = fv.value(FederatedGame(alone, "mlp", BRIEF), "exact", noise=False)
        assert values.mean == pytest.approx(expected.mean, abs=1e-6)

    def test_everything_that_is_left_names_them(self, tmp_path: Path) -> None:
        values = valued(without(0), tmp_path)
        saved = json.loads((tmp_path / "values.json").read_text(encoding="utf-8"))
        assert list(saved["absent"]) == ["client-0"]
        assert "Absent: client-0 (did not answer within 0 s)." in str(values)
        assert values.table().caption is not None
        assert fv.audit(values, store=tmp_path / "store.db").absent == values.absent
        assert "client-0 (did not answer" in (tmp_path / "report.html").read_text(encoding="utf-8")
        assert [line.name for line in fv.payout(values, 100, "shift").absent] == ["client-0"]

    def test_a_quorum_must_be_there(self, tmp_path: Path) -> None:
        with pytest.raises(FedvalueError, match=r"Expected 3 clients; 2 answered within 0 s\."):
            valued(without(1), tmp_path, quorum=3)
        with pytest.raises(FedvalueError, match="1 answered within 0 s, and it takes 2 to begin"):
            valued(without(1, 2), tmp_path)
        with pytest.raises(FedvalueError, match="1 answered within 0 s, and it takes 2 to begin"):
            valued(without(0, 1), tmp_path, quorum=2)
        with pytest.raises(InputError, match="A quorum of 4 is more than the 3 clients"):
            valued(without(), tmp_path, quorum=4)

    def test_who_has_only_a_name_leaves_an_unknown_gap(self, tmp_path: Path) -> None:
        grid = without(1, named=True)
        grid.parties = {node: type(p)(p.train, p.held_out, p.name, -1) for node, p in grid.parties.items()}
        values = valued(grid, tmp_path)
        assert values.names == ("client 0", "client 2")
        assert values.absent == {"unknown client 1": "did not answer within 0 s"}

    def test_registered_clients_are_named_also_without_a_key(self, tmp_path: Path) -> None:
        keys = [public_line() for _ in range(N)]
        names = ("Hospital A", "Hospital B", "Charité Berlin")
        clients = [RegisteredClient(names[i], keys[i] if i < 2 else "") for i in range(N)]
        write_roster(tmp_path / "roster.json", clients)
        grid = without(2)
        grid.parties = {node: type(p)(p.train, p.held_out, "", -1) for node, p in grid.parties.items()}
        grid.keys = {100 + i: key_of(keys[i], "a key") for i in range(2)}
        values = valued(grid, tmp_path, roster=str(tmp_path / "roster.json"))
        assert values.names == names[:2]
        assert values.absent == {"Charité Berlin": "has no registered key"}

    def test_one_that_is_lost_later_is_named_beside_those_who_never_came(self, tmp_path: Path) -> None:
        grid = without(0)

        def gone(message: Any, reply: Any) -> Any:
            if message.metadata.message_type == "query.fedvalue":
                return reply
            del grid.parties[101]
            return None

        grid.twists[1] = gone
        values = valued(grid, tmp_path, missing="use-known", deadline=0.3)
        assert (values.names, values.clients) == (("client-2",), (1,))  # in the game of those two
        assert list(values.absent) == ["client-0", "client-1"]

    def test_one_that_comes_back_finds_what_was_trained_without_it(self, tmp_path: Path) -> None:
        before = valued(without(1), tmp_path)
        grid = without()
        values = valued(grid, tmp_path)
        assert values.names == ("client-0", "client-1", "client-2")
        sent = [m for m in grid.sent if m.metadata.message_type == "train.fedvalue"]
        second = [m.content["config"]["rows"] for m in sent if m.metadata.group_id == "2"]
        assert sum(second) == 1 + 2 + 2 + 3  # the coalitions with client 1
        assert before.game_id != values.game_id
        (kept,) = (tmp_path / "earlier").iterdir()
        assert json.loads((kept / "values.json").read_text(encoding="utf-8"))["absent"] == before.absent
