"""The paper's project is a user of the library like any other."""

from __future__ import annotations

import ast
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import fedvalue_paper

FILES = sorted(Path(fedvalue_paper.__file__).parent.rglob("*.py"))


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_imports_only_public_rooms(path: Path) -> None:
    of_library = {name for name in imported(path) if name.split(".")[0] == "fedvalue"}
    private = {name for name in of_library if any(part.startswith("_") for part in name.split("."))}
    assert private <= {"fedvalue.__version__"}


def test_it_adds_its_command_by_an_entry_point() -> None:
    (entry,) = entry_points(group="fedvalue.commands", name="reproduce")
    assert entry.value == "fedvalue_paper.command:reproduce"
