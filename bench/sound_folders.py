"""Dirty folders that come out wrong in silence: there must be none.

    python bench/sound_folders.py

Writes every folder of the corpus in tests/support/dirty_folders.py, and beside it the folder as it should have been.
A dirty one is wrong in silence where a scenario is built, its arrays differ from the clean folder's, and its report
does not say what is odd.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from dirty_folders import CORPUS, REFUSED, REPORTED, SAME, verdict


def figures() -> list[tuple[str, str]]:
    """What came of the corpus, in words."""
    came: Counter[str] = Counter()
    silent = []
    for case in CORPUS:
        with tempfile.TemporaryDirectory() as folder:
            what, _ = verdict(case, Path(folder))
        came[what] += 1
        if what not in (REFUSED, REPORTED, SAME):
            silent.append(case.name)
    return [
        ("dirty folders", str(len(CORPUS))),
        ("refused with file, line or name", str(came[REFUSED])),
        ("used, and what is odd is reported", str(came[REPORTED])),
        ("used, equal to the clean folder", str(came[SAME])),
        ("wrong in silence", ", ".join([str(len(silent)), *silent])),
    ]


if __name__ == "__main__":
    from _table import table

    print(table(["dirty folders", "count"], figures()))
