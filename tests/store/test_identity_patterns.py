"""What a user changes between two runs with one store: never stale utilities, and nothing trained again for nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from identity_patterns import HARMLESS, PATTERNS, Pattern, outcome_of, values_of

import fedvalue as fv

# Functions of users leave files to be closed by Python.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


# Every fourth one for every change, all of them before a release.
CASES = [
    pytest.param(pattern, id=pattern.name, marks=pytest.mark.slow if number % 4 else ())
    for number, pattern in enumerate(PATTERNS)
]


@pytest.mark.parametrize("pattern", CASES)
def test_no_change_hands_out_stale_utilities(pattern: Pattern, tmp_path: Path) -> None:
    assert outcome_of(pattern, tmp_path) in ("other id", "refused")


def test_there_are_at_least_as_many_patterns_as_were_found() -> None:
    assert len({pattern.name for pattern in PATTERNS}) == len(PATTERNS) >= 53


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_change_trains_nothing_again(name: str, tmp_path: Path) -> None:
    before, after = HARMLESS[name]
    store = tmp_path / "store.db"
    first = values_of(tmp_path / "a", before, store)
    assert values_of(tmp_path / "b", after, store) == first
    with fv.UtilityStore(store) as opened:
        assert [game.coalitions for game in opened.games()] == [8]


SCRIPT = """
import sys, fedvalue as fv
sys.path.insert(0, ".")
import main
game = main.game() if hasattr(main, "game") else fv.FunctionGame(3, main.utility)
try:
    print(fv.value(game, "exact", store=sys.argv[1]).game_id)
except fv.FedvalueError as error:
    print("refused")
"""


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS[::7], ids=lambda pattern: pattern.name)
def test_in_processes_of_their_own(pattern: Pattern, tmp_path: Path) -> None:
    printed = []
    for number, files in enumerate((pattern.files, pattern.changed)):
        folder = tmp_path / str(number)
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "store.db")]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        printed.append(done.stdout.strip())
    assert "refused" in printed or printed[0] != printed[1]
