"""The history in a real browser: nothing is asked for, nothing complains, and it fits a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import Browser, find_browser

import fedvalue as fv
from fedvalue.periods import Periods

PROGRAM = find_browser()
pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="no chromium on the path: apt-get install chromium"),
    pytest.mark.slow,
]


def test_it_can_be_seen_on_a_phone_and_a_desk(tmp_path: Path, one_thread: None) -> None:
    assert PROGRAM is not None
    periods = Periods(tmp_path / "consortium")
    for name, clients in (("2026-Q1", 3), ("2026-Q2", 4)):
        job = fv.Job("synthetic", clients=clients, samples=20, method="exact", options={"noise": False})
        same = [] if clients == 3 else ["client-0"]  # its rows are others, and it has a debt
        periods.close(
            name, job, pot=100, currency="EUR", debts="carry", anyway=True, new_terms=True, same=same
        )
    page = periods.folder / "history.html"
    with Browser(PROGRAM, tmp_path / "profile") as browser:
        for width in (390, 1100):
            browser.open(page, width)
            assert browser.messages == []
            assert browser.requests == [page.resolve().as_uri()]
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            wider = (
                "[...document.querySelectorAll('.scroll')].filter(s => s.scrollWidth > s.clientWidth).length"
            )
            assert browser.evaluate(wider) == 0  # on a phone the rows of tables stand one below the other
            drawn = "[...document.querySelectorAll('svg')].map(s => s.querySelectorAll('circle').length)"
            assert browser.evaluate(drawn) == [2, 2, 2, 1]
