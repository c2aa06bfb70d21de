"""Names and places follow from registered keys: what nodes say of themselves must agree with them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from cryptography.hazmat.primitives.asymmetric import ed25519
from federations import digits
from flower_fakes import DIGITS, SIZES, FakeGrid, N, parties, public_line

from fedvalue.errors import FedvalueError, InputError
from fedvalue.flower import Settings, Task, value_federation
from fedvalue.flower._forms import Form
from fedvalue.flower._names import check_names
from fedvalue.flower._registered import RegisteredClient, key_of, read_roster, write_roster
from fedvalue.flower._reports import ClientReport, remote_scenario
from fedvalue.flower._roster import Roster
from fedvalue.flower._wire import WireError

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

NAMES = ("Hospital A", "Hospital B", "Charité Berlin")


KEYS = [public_line() for _ in range(N + 1)]
CLIENTS = [RegisteredClient(name, key) for name, key in zip(NAMES, KEYS, strict=False)]


def grid_of(*claims: tuple[str, int]) -> FakeGrid:
    """Nodes with the keys of the three clients in their order, that claim these names and places."""
    members = [
        replace(party, name=name, position=place)
        for party, (name, place) in zip(parties(digits(SIZES)), claims, strict=True)
    ]
    grid = FakeGrid(members)
    grid.keys = {100 + i: key_of(KEYS[i], "a key") for i in range(N)}
    return grid


HONEST = tuple((name, place) for place, name in enumerate(NAMES))


def gather(grid: FakeGrid, seconds: float = 2.0) -> Roster:
    return Roster.gather(grid, N, seconds, DIGITS, registered=CLIENTS)


class TestBinding:
    @pytest.mark.parametrize(
        "claims",
        [HONEST, (("", -1),) * N, (("hospital  a", 0), ("", 1), ("Charite\u0301 Berlin", -1))],
        ids=["the same", "nothing", "written in another way"],
    )
    def test_names_and_places_are_those_of_the_keys(self, claims: tuple[tuple[str, int], ...]) -> None:
        roster = gather(grid_of(*claims))
        assert roster.nodes == [100, 101, 102]
        assert [(report.name, report.position) for report in roster.reports] == list(HONEST)

    def test_places_do_not_depend_on_the_order_of_the_nodes(self) -> None:
        grid = grid_of(*[("", -1)] * N)
        grid.keys = {100: grid.keys[102], 101: grid.keys[100], 102: grid.keys[101]}
        roster = gather(grid)
        assert roster.nodes == [101, 102, 100]

    @pytest.mark.parametrize(
        ("claim", "says"),
        [
            (("Hospital A", 1), "the key of 'Hospital B' calls itself 'Hospital A'"),
            (("Hospital B", 0), r"the key of 'Hospital B' claims partition-id 0 \('Hospital A'\)\."),
            (("Hospital A", 0), "calls itself 'Hospital A' and claims partition-id 0"),
            (
                ("Hospital B", 7),
                r"claims partition-id 7\. This key belongs to 'Hospital B' with partition-id 1",
            ),
            (("\u041dospital B", 1), "calls itself"),  # a Cyrillic letter
        ],
    )
    def test_another_name_or_place_is_refused(self, claim: tuple[str, int], says: str) -> None:
        with pytest.raises(InputError, match=says) as caught:
            gather(grid_of(HONEST[0], claim, HONEST[2]))
        assert "101" not in str(caught.value)  # no numbers of nodes

    def test_a_node_with_the_key_of_nobody_is_not_asked(self) -> None:
        grid = grid_of(*HONEST)
        stranger = parties(digits(SIZES))[0]
        grid.parties[103] = replace(stranger, name="Hospital A", position=0)
        grid.keys[103] = key_of(KEYS[N], "a key")
        roster = gather(grid)
        assert roster.nodes == [100, 101, 102]
        assert 103 not in {message.metadata.dst_node_id for message in grid.sent}
        assert "node-103 is connected with a key that is not in the roster" in roster.incidents[0]

    def test_who_has_left_is_neither_waited_for_nor_absent(self, tmp_path: Path) -> None:
        grid = grid_of(*HONEST)
        del grid.parties[101]
        clients = [CLIENTS[0], RegisteredClient(NAMES[1], left=True), CLIENTS[2]]
        write_roster(tmp_path / "roster.json", clients)
        assert read_roster(tmp_path / "roster.json") == clients
        roster = Roster.gather(grid, N, 60.0, DIGITS, registered=clients, quorum=2)
        assert [report.name for report in roster.reports] == [NAMES[0], NAMES[2]]
        assert roster.absent == {}
        assert roster.incidents == []
        with pytest.raises(InputError, match="It takes 3 clients to begin, and the roster has 2"):
            Roster.gather(grid, N, 0.5, DIGITS, registered=clients)

    @pytest.mark.slow
    def test_who_is_missing_is_named(self) -> None:
        grid = grid_of(*HONEST)
        del grid.parties[101]
        grid.twists[2] = lambda message, reply: None  # silence is not an answer either
        with pytest.raises(FedvalueError, match=r"1 answered.*heard of Hospital B, Charité Berlin\."):
            gather(grid, 0.5)
        broken = grid_of(*HONEST)
        broken.twists[1] = lambda message, reply: reply.__class__({})
        with pytest.raises(FedvalueError, match="Hospital B sent"):
            gather(broken, 0.5)

    def test_one_that_comes_back_must_still_have_its_key(self) -> None:
        grid = grid_of(*HONEST)
        roster = gather(grid)
        thief = grid.parties.pop(101)
        grid.parties[103], grid.keys[103] = thief, grid.keys[100]  # the data of B, under the key of A
        assert roster.find_again({1}, 0.5) == set()
        assert "The node with the key of 'Hospital A' calls itself 'Hospital B'" in roster.incidents[-1]
        grid.keys[103] = grid.keys[101]
        assert roster.find_again({1}, 2.0) == {1}
        assert roster.incidents[-1] == "Hospital B answers again"

    def test_the_whole_way_from_the_setting(self, tmp_path: Path) -> None:
        write_roster(tmp_path / "roster.json", CLIENTS)
        config = {"clients": N, "method": "loo", "rounds": 1, "epochs": 1, "out": str(tmp_path / "out")}
        settings = Settings.from_config({**config, "roster": str(tmp_path / "roster.json")})
        task = Task("classification", 10, digits(SIZES).test)
        assert value_federation(grid_of(*[("", -1)] * N), settings, task).names == NAMES
        with pytest.raises(InputError, match="the roster has 3"):
            value_federation(grid_of(*HONEST), replace(settings, clients=2), task)


class TestRoster:
    def test_it_is_read_as_it_was_written(self, tmp_path: Path) -> None:
        write_roster(tmp_path / "roster.json", CLIENTS)
        assert read_roster(tmp_path / "roster.json") == CLIENTS

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (lambda data: {**data, "format": "x"}, "has format 'x'"),
            (lambda data: [], "is not a roster"),
            (lambda data: {**data, "clients": [{"nom": "A"}]}, "is not a roster"),
            (lambda data: {**data, "clients": [{"name": "a\x1b[31m"}]}, "line of text"),
            (lambda data: {**data, "clients": data["clients"][:1] * 2}, "too much alike"),
            (
                lambda data: {
                    **data,
                    "clients": [data["clients"][0], {**data["clients"][1], "key": KEYS[0]}],
                },
                "have the same key",
            ),
            (lambda data: {**data, "clients": [{"name": "A", "key": "ssh-rsa x"}]}, "the key of 'A'"),
        ],
    )
    def test_what_is_wrong_with_it_is_said(self, change: Any, says: str, tmp_path: Path) -> None:
        file = tmp_path / "roster.json"
        write_roster(file, CLIENTS)
        file.write_text(json.dumps(change(json.loads(file.read_text(encoding="utf-8")))), encoding="utf-8")
        with pytest.raises(InputError, match=says):
            read_roster(file)

    def test_a_client_without_a_key_cannot_take_part(self, tmp_path: Path) -> None:
        without = [*CLIENTS[:2], RegisteredClient("Charité Berlin")]
        with pytest.raises(InputError, match="No key is registered for 'Charité Berlin'"):
            Roster.gather(grid_of(*HONEST), N, 1.0, DIGITS, registered=without)
        with pytest.raises(InputError, match="Cannot read"):
            read_roster(tmp_path / "nowhere.json")

    def test_keys_of_other_kinds_are_refused(self) -> None:
        with pytest.raises(InputError, match="ssh-keygen -t ecdsa"):
            key_of(public_line(ed25519.Ed25519PrivateKey.generate()), "it")


class TestNames:
    @pytest.mark.parametrize(
        "other",
        [
            "Charité  Berlin",
            "CHARITÉ BERLIN",
            "Charité Berlin\u200d",
            "Charite\u0301 Berlin",
            "Ｃharité Berlin",
        ],
    )
    def test_near_duplicates_are_refused(self, other: str) -> None:
        with pytest.raises(InputError, match="too much alike"):
            check_names(["Charité Berlin", other])
        members = parties(digits(SIZES))
        members[0] = replace(members[0], name="Charité Berlin")
        members[1] = replace(members[1], name=other)
        roster = Roster.gather(FakeGrid(members), N, 1.0, DIGITS)
        with pytest.raises(InputError, match="too much alike"):
            remote_scenario(roster.reports, digits(SIZES).test, "classification", 10)

    def test_what_a_terminal_obeys_is_refused_and_emoji_are_not(self) -> None:
        record = ClientReport(3, "0" * 64, Form("float32 1", "int64"), 0, "x").to_record()
        for name in ("a\x1b[31m", "a\nb", "\u202eb", "x" * 101, "\u200d"):
            with pytest.raises(WireError, match="not a line of text"):
                ClientReport.from_record({**record, "name": name})
        for name in ("👩\u200d⚕️ clinic", "Ärzte & Söhne", ""):
            assert ClientReport.from_record({**record, "name": name}).name == name
