"""Results of several sittings count as one as long as the sources are the same that their numbers depend on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import fedvalue
import fedvalue_paper
from fedvalue_paper import sources


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both packages, to be altered."""
    for package in (fedvalue, fedvalue_paper):
        copy = tmp_path / package.__name__
        shutil.copytree(
            Path(str(package.__file__)).parent, copy, ignore=shutil.ignore_patterns("__pycache__")
        )
        monkeypatch.setattr(package, "__file__", str(copy / "__init__.py"))
    return tmp_path


def digest() -> str:
    return sources.sources_digest.__wrapped__()


def test_it_changes_with_what_numbers_depend_on_and_with_nothing_else(copies: Path) -> None:
    before = digest()
    for shown in ("fedvalue/report/_page.py", "fedvalue/py.typed", "fedvalue_paper/figures/plots.py"):
        with (copies / shown).open("a", encoding="utf-8") as file:
            file.write("# other words\n")
        assert digest() == before, shown
    found = {before}
    for used in (
        "fedvalue/training/_fedavg.py",
        "fedvalue/estimators/surrogate/_design.py",
        "fedvalue/coalitions.py",
        "fedvalue_paper/measures.py",
    ):
        with (copies / used).open("a", encoding="utf-8") as file:
            file.write("# other sums\n")
        found.add(digest())
    assert len(found) == 5
    (copies / "fedvalue" / "games" / "_new.py").write_text("", encoding="utf-8")
    assert digest() not in found


def test_what_is_listed_is_there() -> None:
    library, paper = (Path(str(package.__file__)).parent for package in (fedvalue, fedvalue_paper))
    assert [name for name in sources._LIBRARY if not (library / name).exists()] == []
    assert [name for name in sources._SHOWING if not (paper / name).exists()] == []
