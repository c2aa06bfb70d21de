"""Replies under the signatures of nodes: refused where they do not fit, kept beside the store, and checked by anybody."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from books import Lines, lines_of, write_lines
from federations import digits
from flower_fakes import SIZES, Signing, held_out_parts, parties, told
from flwr.app import Message, RecordDict

import fedvalue as fv
from fedvalue.errors import UnavailableError
from fedvalue.evidence import Check
from fedvalue.flower._server import Task, value_federation
from fedvalue.flower._wire import CONFIG
from fedvalue.replies import read_book

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

WHAT = "What the nodes signed"


def task(signing: Signing, at_server: bool = True) -> Task:
    return Task("classification", 10, digits(SIZES).test if at_server else None)


def said(out: Path) -> list[Check]:
    return [check for check in fv.verify(out).checks if check.what == WHAT]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[Signing, Path]:
    """Three clients that sign, valued by all coalitions with two seeds."""
    folder = tmp_path_factory.mktemp("signed")
    signing = Signing(folder, parties(digits(SIZES)))
    value_federation(signing.grid(), signing.settings(folder / "out", replicates=2), task(signing))
    return signing, folder / "out"


def altered(left: Path, copy: Path, change: Callable[[Lines], Lines], anew: bool = False) -> Path:
    """A copy of the run whose book was changed; `anew` also makes all hashes again, and the head in the values."""
    shutil.copytree(left, copy)
    write_lines(copy, change(lines_of(copy)), anew)
    return copy


class TestSound:
    def test_every_training_is_signed_round_by_round(self, left: tuple[Signing, Path]) -> None:
        (check,) = said(left[1])
        assert check.state == "sound", check.text
        assert check.text.startswith("every local training in 14 trainings: ")
        assert fv.verify(left[1]).sound

    def test_the_book_is_small_and_names_no_coalition_to_the_nodes(self, left: tuple[Signing, Path]) -> None:
        entries = [entry for entry, problem in read_book(left[1] / "store.db.replies") if not problem]
        replies = [entry.said for entry in entries if entry.kind == "reply"]
        assert {reply["client"] for reply in replies} == {0, 1, 2}
        models = sum(len(reply["sent"]) + len(reply["back"]) for reply in replies)
        assert (left[1] / "store.db.replies").stat().st_size < 1_500 + 600 * len(entries) + 40 * models
        assert not any("mask" in key or "coalition" in key for reply in replies for key in reply)

    def test_models_measured_at_the_nodes_are_those_in_the_store(self, tmp_path: Path) -> None:
        signing = Signing(tmp_path, parties(digits(SIZES), held_out_parts(digits(SIZES), (20, 40, 60))))
        settings = signing.settings(tmp_path / "out", evaluate="nodes")
        value_federation(signing.grid(), settings, task(signing, False))
        (check,) = said(tmp_path / "out")
        assert check.state == "sound", check.text

    def test_clients_that_train_all_rounds_alone(self, tmp_path: Path) -> None:
        signing = Signing(tmp_path, parties(digits(SIZES)))
        settings = signing.settings(tmp_path / "out", method="ipss", budget=4, checkpoints=False)
        grid = signing.grid()
        value_federation(grid, settings, task(signing))
        assert any(m.content[CONFIG].get("alone") for m in grid.sent if CONFIG in m.content)
        assert {check.state for check in said(tmp_path / "out")} == {"sound"}

    def test_a_recorded_run_of_all_clients(self, tmp_path: Path) -> None:
        signing = Signing(tmp_path, parties(digits(SIZES)))
        value_federation(signing.grid(), signing.settings(tmp_path / "out", method="or"), task(signing))
        (check,) = said(tmp_path / "out")
        assert check.text.startswith("every local training in 1 training:")

    def test_without_keys_everything_is_as_before_and_the_verdict_says_so(self, tmp_path: Path) -> None:
        signing = Signing(tmp_path, parties(digits(SIZES)), without=range(3))
        value_federation(signing.grid(), signing.settings(tmp_path / "out", method="loo"), task(signing))
        assert not (tmp_path / "out" / "store.db.replies").exists()
        (check,) = said(tmp_path / "out")
        assert check.state == "unchecked"
        assert "not signed by the nodes" in check.text

    def test_one_that_has_no_key_is_named(self, tmp_path: Path) -> None:
        signing = Signing(tmp_path, parties(digits(SIZES)), without=[1])
        value_federation(signing.grid(), signing.settings(tmp_path / "out", method="loo"), task(signing))
        states = {check.state: check.text for check in said(tmp_path / "out")}
        assert set(states) == {"sound", "unchecked"}
        assert signing.members[1].name in states["unchecked"]


class TestRefused:
    @pytest.mark.parametrize(
        ("twist", "says"),
        [
            (lambda s, m, r: RecordDict({**r, CONFIG: _without(r)}), "without a signature"),
            (lambda s, m, r: told(r, signature="AAAA"), "signature does not fit"),
            (lambda s, m, r: told(r, signature=_first_of_the_run(s, r)), "signature does not fit"),
        ],
        ids=["missing", "wrong", "of another round"],
    )
    def test_the_culprit_is_named(self, twist: Any, says: str, tmp_path: Path) -> None:
        signing = Signing(tmp_path, parties(digits(SIZES)))
        grid, seen = signing.grid(), dict[str, Any]()

        def lie(message: Message, reply: RecordDict) -> RecordDict:
            is_training = message.metadata.message_type == "train.fedvalue"
            return twist(seen, message, reply) if is_training else reply

        grid.twists[1] = lie
        name = signing.members[1].name
        with pytest.raises(UnavailableError, match=f"{name}.*{says}"):
            value_federation(grid, signing.settings(tmp_path / "out"), task(signing))

    def test_a_key_of_somebody_else_is_refused(self, tmp_path: Path) -> None:
        signing = Signing(tmp_path, parties(digits(SIZES)))
        grid = signing.grid()
        grid.signing[101] = grid.signing[100]
        with pytest.raises(UnavailableError, match="signature does not fit"):
            value_federation(grid, signing.settings(tmp_path / "out"), task(signing))


def _without(reply: RecordDict) -> Any:
    config = dict(reply[CONFIG])
    config.pop("signature")
    return type(reply[CONFIG])(config)


def _first_of_the_run(seen: dict[str, Any], reply: RecordDict) -> str:
    first: str = seen.setdefault("signature", reply[CONFIG]["signature"])
    return first


def _replies(lines: Lines) -> list[dict[str, Any]]:
    return [line["reply"] for line in lines if "reply" in line]


def _digit(lines: Lines) -> Lines:
    back = _replies(lines)[-1]["back"]
    back[0] = ("A" if back[0][0] != "A" else "B") + back[0][1:]
    return lines


def _swap(lines: Lines) -> Lines:
    one, other = _replies(lines)[:2]
    one["signature"], other["signature"] = other["signature"], one["signature"]
    return lines


def _other_round(lines: Lines) -> Lines:
    last = next(reply for reply in _replies(lines) if reply["round"] == 2)
    first = next(r for r in _replies(lines) if r["round"] == 1 and r["client"] == last["client"])
    last.update({**first, "round": 2})
    return lines


def _repeat(lines: Lines) -> Lines:
    return [*lines, json.loads(json.dumps(next(line for line in reversed(lines) if "reply" in line)))]


def _somebody_else(lines: Lines) -> Lines:
    reply = _replies(lines)[0]
    reply["client"] = (reply["client"] + 1) % 3
    return lines


def _drop(lines: Lines) -> Lines:
    return [line for line in lines if line.get("reply", {}).get("client") != 2]


class TestFound:
    @pytest.mark.parametrize("change", [_digit, _swap, _other_round, _repeat, _somebody_else, _drop])
    @pytest.mark.parametrize("anew", [False, True], ids=["as it is", "all hashes made again"])
    def test_what_was_altered(
        self, change: Callable[[Lines], Lines], anew: bool, left: tuple[Signing, Path], tmp_path: Path
    ) -> None:
        checks = said(altered(left[1], tmp_path / "out", change, anew))
        bad = {check.state for check in checks}
        if change is _drop and anew:  # nobody can tell removed replies from those that never were
            assert bad == {"sound", "undecided"}
            assert "are not signed" in checks[0].text
        elif change is _repeat and not anew:
            assert bad == {"sound"}  # what comes after the end of the run counts for nothing
        else:
            assert "wrong" in bad, checks

    def test_lines_that_are_missing_at_the_end(self, left: tuple[Signing, Path], tmp_path: Path) -> None:
        (check,) = said(altered(left[1], tmp_path / "out", lambda lines: lines[:-1]))
        assert "is not the one that the values name" in check.text

    def test_any_byte_of_the_book(self, left: tuple[Signing, Path], tmp_path: Path) -> None:
        whole = (left[1] / "store.db.replies").read_bytes()
        head = json.loads((left[1] / "values.json").read_text())["details"]["replies"]
        rng, file = random.Random(7), tmp_path / "book"
        changes = [(place, rng.choice(range(1, 256))) for place in rng.sample(range(len(whole)), 100)]
        ends = [(place, ord("\n") ^ ord("\r")) for place, byte in enumerate(whole) if byte == ord("\n")]
        for place, flipped in changes + ends:
            other = whole[place] ^ flipped
            file.write_bytes(whole[:place] + bytes([other]) + whole[place + 1 :])
            lines = list(read_book(file))
            as_named = (len(lines), lines[-1][0].link) == (head["lines"], head["link"])
            assert not as_named or any(problem for _, problem in lines), place

    def test_a_book_that_is_gone(self, left: tuple[Signing, Path], tmp_path: Path) -> None:
        shutil.copytree(left[1], tmp_path / "out")
        (tmp_path / "out" / "store.db.replies").unlink()
        (check,) = said(tmp_path / "out")
        assert (check.state, "is not there" in check.text) == ("wrong", True)


class TestKilled:
    def test_a_line_that_was_not_finished_is_dropped_and_the_same_reply_is_kept_once(
        self, left: tuple[Signing, Path], tmp_path: Path
    ) -> None:
        signing, out = left
        copy = tmp_path / "out"
        shutil.copytree(out, copy)
        (copy / "store.db").unlink()
        book = copy / "store.db.replies"
        lines = book.read_bytes().splitlines(keepends=True)
        book.write_bytes(b"".join(lines[:-3]) + lines[-3][:40])
        value_federation(signing.grid(), signing.settings(copy, replicates=2), task(signing))
        assert {check.state for check in said(copy)} == {"sound"}
        assert len(book.read_bytes().splitlines()) == len(lines) + 1  # another sitting, nothing twice
