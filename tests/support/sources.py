"""Code from text that has a source text, as the cells of a notebook have."""

from __future__ import annotations

import linecache
import textwrap
from itertools import count
from typing import Any

_CELLS = count()


def run_cell(source: str, **names: Any) -> dict[str, Any]:
    """Runs a cell and returns its names; `names` are there before."""
    source, file = textwrap.dedent(source), f"<cell {next(_CELLS)}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    space = {"__name__": "notebook", **names}
    exec(compile(source, file, "exec", dont_inherit=True), space)
    return space
