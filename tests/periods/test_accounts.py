"""An account belongs to rows or to a key: a name alone gets nobody what another one has left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from federations import line

import fedvalue as fv
from fedvalue.agreement import Party, make_key, read_public_line
from fedvalue.errors import InputError
from fedvalue.periods import Periods
from fedvalue.scenarios import Scenario

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = line((20, 12, 30, 9))  # of Aachen, Bern, Como, and of a stranger
NAMES = ("Aachen", "Bern", "Como")
POT: dict[str, Any] = {"pot": 1000, "currency": "EUR"}


def of(*clients: int, names: tuple[str, ...] = ()) -> Scenario:
    return replace(
        ROWS, clients=tuple(ROWS.clients[i] for i in clients), names=names or tuple(NAMES[i] for i in clients)
    )


def job(scenario: Scenario, **more: Any) -> fv.Job:
    return fv.Job(scenario, model="least-squares", rounds=1, method="exact", options={"noise": False}, **more)


@pytest.fixture
def left(tmp_path: Path) -> Periods:
    """Bern has left, with what it earned in escrow."""
    periods = Periods(tmp_path / "consortium")
    periods.close("Q1", job(of(0, 1, 2)), **POT, escrow=["Bern"])
    periods.close("Q2", job(of(0, 2)), **POT)
    return periods


def test_a_stranger_under_the_name_of_a_leaver_is_refused_before_anything_is_trained(left: Periods) -> None:
    stranger = job(of(0, 3, 2, names=NAMES))
    held = left.closed[-1].balances.of("Bern").escrow
    assert held
    with pytest.raises(InputError, match="comes back with other rows"):
        left.close("Q3", stranger, **POT, release=["Bern"])
    assert len(left.closed) == 2
    assert not (left.folder / "Q3").exists() or not (left.folder / "Q3" / "values.json").exists()
    said = left.close(
        "Q3", stranger, **POT, release=["Bern"], same=["Bern"]
    )  # somebody's word, which is written down
    assert said.members[1].status == "returned, said to be the same"
    assert "said to be the same" in (left.folder / "history.html").read_text()
    assert left.verify() == []


def test_who_comes_back_with_its_rows_needs_no_word(left: Periods) -> None:
    assert left.close("Q3", job(of(0, 1, 2)), **POT, release=["Bern"]).members[1].status == "returned"


def test_changed_rows_are_doubted_where_the_account_holds_something(tmp_path: Path) -> None:
    periods = Periods(tmp_path)
    periods.close("Q1", job(of(0, 1, 2)), **POT, escrow=["Bern"])
    with pytest.raises(InputError, match="other rows, and its account holds a debt or escrow"):
        periods.close("Q2", job(of(0, 3, 2, names=NAMES)), **POT)
    changed = periods.close("Q2", job(of(0, 1, 3, names=NAMES)), **POT)  # nothing is held for Como
    assert [member.status for member in changed.members] == ["stayed", "stayed", "changed"]
    again = periods.close("Q3", job(of(0, 1, 3, names=NAMES)), **POT, same=["Bern"])
    assert again.members[1].status == "stayed"  # there was nothing to vouch for


@pytest.mark.parametrize("part", ["same", "escrow", "release", "renamed"])
def test_a_text_is_not_a_list_of_its_letters(part: str, left: Periods) -> None:
    with pytest.raises(
        InputError, match=rf"^{part} must be a (list of names|dict from old names).* Got 'Bern'\.$"
    ):
        left.close("Q3", job(of(0, 1, 2)), **POT, **{part: "Bern"})
    assert not (left.folder / "Q3").exists()


def test_names_that_nobody_had_cannot_be_the_same(left: Periods) -> None:
    with pytest.raises(InputError, match="same names 'Delft'"):
        left.close("Q3", job(of(0, 2)), **POT, same=["Delft"])


def test_an_account_belongs_to_a_key(tmp_path: Path) -> None:
    lines = {}
    for who in ("operator", "bern", "other"):
        make_key(tmp_path / who)
        lines[who] = read_public_line(tmp_path / f"{who}.pub")
    periods = Periods(tmp_path / "consortium")

    def close(name: str, scenario: Scenario, who: str) -> Any:
        plain = job(scenario)
        draft = plain.agree(
            Party("Clearing", lines["operator"]), {"Bern": lines[who]}, fv.PayoutTerms(pot="1000")
        )
        agreed = draft.sign(tmp_path / "operator").sign(tmp_path / who)
        return periods.close(name, replace(plain, agreement=agreed), pot="1000")

    close("Q1", of(0, 1, 2), "bern")
    periods.close("Q2", job(of(0, 2)))
    with pytest.raises(InputError, match="another key than it had then"):
        close("Q3", of(0, 1, 2), "other")  # the same rows, which may have been bought
    periods.close("Q3", job(of(0, 1, 2)))  # a period without keys takes the account from nobody
    with pytest.raises(InputError, match="another key than it had then"):
        close("Q4", of(0, 1, 2), "other")
    assert close("Q4", of(0, 3, 2, names=NAMES), "bern").members[1].status == "changed"
    assert periods.verify() == []


def test_rows_of_a_client_that_left_long_ago_are_recognised_under_another_name(left: Periods) -> None:
    joined = left.close("Q3", job(of(0, 1, 2, names=("Aachen", "Delft", "Como"))), **POT)
    assert joined.members[1].status == "joined with the rows of Bern"
    assert joined.balances.of("Bern").escrow
