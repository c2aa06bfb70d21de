"""Folders as people really send them: refused by name, reported, or the same as the clean folder; never silently wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from dirty_folders import CORPUS, Dirty, verdict

# Every third case for every change, all of them before a release.
CASES = [
    pytest.param(case, id=case.name, marks=pytest.mark.slow if number % 3 else ())
    for number, case in enumerate(CORPUS)
]


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_wrong_in_silence(case: Dirty, tmp_path: Path) -> None:
    came, said = verdict(case, tmp_path)
    assert (came, case.says in said) == (case.expect, True), said[:2000]


def test_the_corpus_is_large_and_its_names_differ() -> None:
    assert len({case.name for case in CORPUS}) == len(CORPUS) >= 120
