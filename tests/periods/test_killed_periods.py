"""Killed while a period is closed, before every change of a file: it is closed or it is not, and the same command goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from federations import line
from kills import killed_before

import fedvalue as fv
from fedvalue.errors import InputError
from fedvalue.periods import Periods

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]

ROWS = line((20, 12, 30))
NAMES = ("Aachen", "Bern", "Como")
PAID: dict[str, Any] = {"pot": 1000, "currency": "EUR", "debts": "carry"}
_MOST = 100  # changes of files


def job(clients: int) -> fv.Job:
    scenario = replace(ROWS, clients=ROWS.clients[:clients], names=NAMES[:clients])
    return fv.Job(scenario, model="least-squares", rounds=1, method="exact", options={"noise": False})


def first(folder: Path) -> None:
    Periods(folder).close("Q1", job(2), **PAID, escrow=["Bern"])


def second(folder: Path) -> None:
    Periods(folder).close("Q2", job(3), **PAID, release=["Bern"])


@pytest.mark.parametrize(("before", "close"), [([], first), ([first], second)])
def test_a_period_is_closed_or_it_is_not(
    before: list[Callable[[Path], None]], close: Callable[[Path], None], tmp_path: Path
) -> None:
    whole, alone, stages = tmp_path / "whole", tmp_path / "alone", 0
    whole.mkdir()
    for earlier in before:
        earlier(whole)
    shutil.copytree(whole, alone)
    close(alone)
    *known, expected = Periods(alone).closed
    while True:
        folder = tmp_path / str(stages)
        shutil.copytree(whole, folder)
        killed = killed_before(stages, folder, lambda folder=folder: close(folder))
        periods = Periods(folder)
        closed = len(periods.closed) > len(known)
        if closed:  # all that may be missing are the pages, which are written anew
            with pytest.raises(InputError, match="is closed"):
                close(folder)
        else:
            close(folder)
        assert periods.verify() == [], stages
        period = periods.closed[-1]
        assert len(periods.closed) == len(known) + 1
        assert (period.members, period.money, period.balances) == (
            expected.members, expected.money, expected.balances,
        )  # fmt: skip
        if not killed:
            break
        stages += 1
        assert stages < _MOST
    assert stages > 10
