"""Whether a store ever hands out the utilities of code or data that was changed since.

    python bench/sound_identity.py

Each pattern of tests/support/identity_patterns.py is a small project that is valued, changed so that its utilities
change, and valued again with the same store. The second valuation must be another game, or be refused. Each harmless
change must leave the game the same.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from identity_patterns import HARMLESS, PATTERNS, STALE, outcome_of, values_of

import fedvalue as fv

__all__ = ["figures"]


def figures() -> list[tuple[str, str]]:
    """What was counted, and the figure."""
    warnings.simplefilter("ignore", ResourceWarning)  # functions of users leave files open
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Counter(
            outcome_of(pattern, Path(folder) / f"pattern{number}") for number, pattern in enumerate(PATTERNS)
        )
        again = sum(_is_another_game(Path(folder) / f"harmless{i}", name) for i, name in enumerate(HARMLESS))
    total = len(PATTERNS)
    return [
        ("identity patterns, stale in silence", f"{outcomes[STALE]} of {total}"),
        ("identity patterns, another game", f"{outcomes['other id']} of {total}"),
        ("identity patterns, refused", f"{outcomes['refused']} of {total}"),
        ("harmless changes that make another game", f"{again} of {len(HARMLESS)}"),
    ]


def _is_another_game(folder: Path, name: str) -> bool:
    before, after = HARMLESS[name]
    store = folder / "store.db"
    folder.mkdir()
    try:
        return values_of(folder / "a", before, store)[0] != values_of(folder / "b", after, store)[0]
    except fv.FedvalueError:
        return True


if __name__ == "__main__":
    for what, figure in figures():
        print(f"{what}: {figure}")
