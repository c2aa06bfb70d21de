"""Which rows of a stack are trained in step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

__all__ = ["Order", "in_step"]

Order: TypeAlias = tuple[int, int | None]
"""A client, and the seed by which its samples are shuffled."""


def in_step(orders: Sequence[Order], alike: Mapping[int, int], chunk: int, least: int) -> Iterator[list[int]]:
    """Rows by their orders, at most `chunk` at a time, together where their clients are `alike`.

    Rows with the samples of one client in one order share them, beside those of others that are as many. Where that makes
    fewer than `least`, rows are put together whatever their samples, which are copied then.

    >>> list(in_step([(0, None), (1, None), (0, None), (2, None)], {0: 4, 1: 4, 2: 8}, chunk=9, least=2))
    [[0, 2], [1], [3]]
    """
    rows_of: dict[Order, list[int]] = {}
    for row, order in enumerate(orders):
        rows_of.setdefault(order, []).append(row)
    sharing: dict[
        tuple[int, int, Order | None], list[int]
    ] = {}  # alone, if the rows of one order fill a part
    for order, rows in rows_of.items():
        alone = order if len(rows) > chunk else None
        sharing.setdefault((alike[order[0]], len(rows), alone), []).extend(rows)
    apart: dict[int, list[int]] = {}
    for (steps, each, _), rows in sharing.items():
        if len(rows) < least:
            apart.setdefault(steps, []).extend(rows)
        else:
            yield from _cut(rows, max(1, chunk // each) * each if each <= chunk else chunk)
    for rows in apart.values():
        yield from _cut(sorted(rows), chunk)


def _cut(rows: list[int], size: int) -> Iterator[list[int]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))
