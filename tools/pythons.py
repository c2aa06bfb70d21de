"""Which Pythons are installed here.

python tools/pythons.py 3.13 3.12     # the path of the first of them that is there; ends with 1 where none is
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["pythons"]


def pythons(versions: Sequence[str]) -> list[str]:
    """The interpreters of these versions that are there: where pyenv keeps them, or on the PATH under their versions."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob("*/bin/python"))
    found = []
    for version in versions:
        of_pyenv = (str(path) for path in kept if path.parts[-3].startswith(f"{version}."))
        path = next(of_pyenv, None) or shutil.which(f"python{version}")
        if path:
            found.append(path)
    return found


def main() -> int:
    there = pythons(sys.argv[1:])
    if there:
        print(there[0])
        return 0
    print(f"None of these Pythons is installed: {', '.join(sys.argv[1:])}.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
