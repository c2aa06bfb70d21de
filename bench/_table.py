"""Plain tables for a terminal, a file or a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["table"]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their longest cell, the first to the left, the others to the right."""
    cells = [list(header), *map(list, rows)]
    widths = [max(len(row[j]) for row in cells) for j in range(len(header))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in cells
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
