"""What the held-out rows of nodes say about models, in blocks: it tells how much is luck of the test rows, and no row.

A node puts its held-out rows into fixed blocks and sends, with every metric, one number for each: the metric, moved by
what the block adds to it. Their mean is the metric. The server puts the blocks of all nodes together so that the
variance is the one that the same rows would have in one test set: what differs between rows of a node, seen in its
blocks, and what differs between nodes, seen in their metrics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedvalue.per_row import BLOCKS, PerRow

__all__ = ["KEPT", "LEAST_ROWS", "NodeTold", "block_count", "in_blocks", "pooled", "why_unknown"]

LEAST_ROWS = 8
"""So many rows of a node are in each of its blocks, or more."""

KEPT = 256
"""So many blocks of all nodes are kept about, and two at least of each: what a store has to hold is bounded."""

_FEWEST = 8  # blocks of all nodes: of fewer, a variance says next to nothing

Array = NDArray[np.float64]


class NodeTold(NamedTuple):
    """What one node said of many models: the metric of each and, unless it has too few rows, a row of blocks for each."""

    rows: int
    metric: Array
    blocks: Array | None


def block_count(rows: int) -> int:
    """Into how many blocks a node puts so many held-out rows; 0 where they would say nothing, or too much.

    It follows from the number of rows alone: whoever could have the same rows put into other blocks would learn about
    single rows from the difference. Models are measured in 64 blocks at most, so it is those that are put together.

    >>> [block_count(rows) for rows in (15, 16, 64, 100, 200, 512, 100_000)]
    [0, 2, 8, 8, 21, 64, 64]
    """
    if rows < 2 * LEAST_ROWS:
        return 0
    if rows < BLOCKS:
        return rows // LEAST_ROWS
    return BLOCKS // math.ceil(LEAST_ROWS / (rows // BLOCKS))


def in_blocks(said: PerRow, metric: float, blocks: int) -> Array:
    """What rows, or smaller blocks of them, say about a model, as so many blocks around the metric."""
    numbers = said.array()
    numbers -= numbers.mean()  # the metric, but for half precision
    if said.length == said.rows:  # maybe in the order of a file that is sorted by label
        numbers = numbers[np.random.default_rng(said.rows).permutation(said.rows)]
    summed: Array = metric + _joined(numbers, blocks) * (blocks / said.length)
    return summed


def pooled(nodes: Sequence[NodeTold]) -> Array:
    """A row of numbers for each model. Their mean is the mean of the metric, weighted by rows; their variance, divided
    by how many they are, is that of this mean over other samples of test rows.

    By the analysis of variance: the squares within a node, which its blocks show, and those between nodes. Rows of nodes
    that told no blocks are taken to differ as much as those of the others. All stays linear in what the nodes said, so
    that sums over models, which values are, have the right variance, too.
    """
    total = sum(node.rows for node in nodes)
    whole: Array = np.sum([node.rows * node.metric for node in nodes], axis=0) / total
    within = sum(node.rows - 1 for node in nodes)
    seen = sum(node.rows - 1 for node in nodes if node.blocks is not None)
    columns: list[Array] = []
    for rows, metric, blocks in nodes:
        if blocks is not None:
            count = min(blocks.shape[1], max(2, KEPT * rows // total))
            moved = _joined(blocks - metric[:, None], count) * (rows / blocks.shape[1])
            moved -= moved.mean(1, keepdims=True)
            columns.append(moved * math.sqrt(count / (count - 1) * (rows - 1) / rows * within / seen))
        between = math.sqrt(rows / 2) * (metric - whole)[:, None]
        columns += [between, -between]  # a pair, so that the mean stays
    table = np.concatenate(columns, axis=1)
    count = table.shape[1]
    numbers: Array = whole[:, None] + table * math.sqrt(count * (count - 1) / (total * (total - 1)))
    return numbers


def _joined(numbers: NDArray[Any], count: int) -> Array:
    """Sums of neighbours, so many along the last axis."""
    starts = [part[0] for part in np.array_split(np.arange(numbers.shape[-1]), count)]
    sums: Array = np.add.reduceat(numbers, starts, axis=-1)
    return sums


def why_unknown(held_out: Iterable[int]) -> str | None:
    """Why nodes that hold out so many rows cannot tell how much is luck of the test rows; None where they can."""
    sizes = [rows for rows in held_out if rows]
    seen = sum(rows - 1 for rows in sizes if block_count(rows))
    if sum(map(block_count, sizes)) >= _FEWEST and 2 * seen >= sum(rows - 1 for rows in sizes):
        return None
    return (
        "How far another sample of test rows would move the values is not known: the nodes hold out too few rows "
        f"({', '.join(map(str, sizes[:6]))}{', …' if len(sizes) > 6 else ''}). A node tells of blocks of at least "
        f"{LEAST_ROWS} rows, and it takes {_FEWEST} blocks, with at least half of all rows in them."
    )
