"""Which code made a result: a digest of the sources that its numbers depend on.

A commit changes with every document. Processes with the same digest computed by the same code, so that what they finished one
after the other, at several commits, counts as one run.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import fedvalue
import fedvalue_paper

__all__ = ["sources_digest"]

# Of the library: data, what is trained and how, methods, and what drives and scores them.
_LIBRARY = (
    "coalitions.py", "outcome.py", "scoring.py", "weights.py", "yardsticks.py", "indices", "estimators", "games", "learners", "run",
    "scenarios", "trainers", "training", "values",
)  # fmt: skip
# Of this project, what only shows numbers: tables and figures can be made again from the rows.
_SHOWING = (
    "claims", "figures", "command.py", "manifest.py", "output.py", "printed.py", "sources.py", "tables.py",
)  # fmt: skip


@cache
def sources_digest() -> str:
    """Of the Python files that numbers depend on. Experiments are not among them: manifests have their fingerprint."""
    library, paper = (Path(str(package.__file__)).parent for package in (fedvalue, fedvalue_paper))
    files = [path for name in _LIBRARY for path in _python_files(library / name)]
    files += [
        path for entry in paper.iterdir() if entry.name not in _SHOWING for path in _python_files(entry)
    ]
    digest = hashlib.sha256()
    for path in sorted(files):
        root = library if path.is_relative_to(library) else paper
        name = f"{root.name}/{path.relative_to(root).as_posix()}"
        # Lines end in \n whatever the system; a length keeps two files from being read as one.
        text = path.read_text(encoding="utf-8")
        digest.update(f"{name} {len(text)}\n{text}".encode())
    return digest.hexdigest()[:24]


def _python_files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.py")) if place.is_dir() else [place] if place.suffix == ".py" else []
