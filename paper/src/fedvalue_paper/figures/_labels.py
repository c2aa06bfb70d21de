"""Where labels go, in points: plain geometry on boxes, so that it can be tested without drawing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import hypot
from typing import NamedTuple

__all__ = ["Box", "overlapping", "place_around", "spread_apart"]

_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
_DISTANCES = (5.0, 11.0, 18.0, 27.0, 38.0)
_SWEEPS = 6


class Box(NamedTuple):
    """A rectangle: left, bottom, right, top."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: Box) -> float:
        """The area that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(width, 0.0) * max(height, 0.0)

    def outside(self, bounds: Box) -> float:
        """How far it sticks out of the bounds."""
        across = max(bounds.left - self.left, 0.0) + max(self.right - bounds.right, 0.0)
        return across + max(bounds.bottom - self.bottom, 0.0) + max(self.top - bounds.top, 0.0)


def spread_apart(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Centres of labels of the given heights, as near to the wanted ones as possible without overlap.

    The order is kept. Labels that touch form a block around the mean of what its members want (least
    squares, by pooling neighbours). Where all of them do not fit between `low` and `high`, they run over `high`.

    >>> spread_apart([5, 5, 20], [4, 4, 4], 0, 30)
    [3.0, 7.0, 20.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    blocks: list[tuple[list[int], float, float]] = []  # members, height, place of the lower edge
    for i in order:
        members, height, edge = [i], heights[i], wanted[i] - heights[i] / 2
        edge = max(low, min(edge, high - height))
        while blocks and blocks[-1][2] + blocks[-1][1] > edge:
            before, _, _ = blocks.pop()
            members = before + members
            edge, height = _edge_of(members, wanted, heights)
            edge = max(low, min(edge, high - height))
        blocks.append((members, height, edge))
    centres = [0.0] * len(wanted)
    for members, _, edge in blocks:
        for i in members:
            centres[i] = edge + heights[i] / 2
            edge += heights[i]
    return centres


def _edge_of(
    members: Sequence[int], wanted: Sequence[float], heights: Sequence[float]
) -> tuple[float, float]:
    """The lower edge of a stack that is on average where its members want to be, and its height."""
    total, below = 0.0, 0.0
    for i in members:
        total += wanted[i] - heights[i] / 2 - below
        below += heights[i]
    return total / len(members), below


def place_around(
    anchors: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    obstacles: Sequence[Box],
    bounds: Box,
) -> list[Box]:
    """A box of the given size near each anchor, clear of obstacles and of the other boxes as far as possible.

    Every label takes the cheapest of a few places around its anchor, again and again while the others move.
    """
    choices = [_candidates(anchor, size) for anchor, size in zip(anchors, sizes, strict=True)]
    fixed = [
        [_cost(box, anchor, obstacles, bounds) for box in boxes]
        for anchor, boxes in zip(anchors, choices, strict=True)
    ]
    chosen = [
        boxes[min(range(len(boxes)), key=costs.__getitem__)]
        for boxes, costs in zip(choices, fixed, strict=True)
    ]
    for _ in range(_SWEEPS):
        before = list(chosen)
        for i, boxes in enumerate(choices):
            others = chosen[:i] + chosen[i + 1 :]
            costs = [
                cost + 10 * sum(box.overlap(other) for other in others)
                for box, cost in zip(boxes, fixed[i], strict=True)
            ]
            chosen[i] = boxes[min(range(len(boxes)), key=costs.__getitem__)]
        if chosen == before:
            break
    return chosen


def _candidates(anchor: tuple[float, float], size: tuple[float, float]) -> list[Box]:
    (x, y), (width, height) = anchor, size
    boxes = []
    for distance in _DISTANCES:
        for side, up in _SIDES:
            reach = distance / hypot(side, up)
            left = x + side * reach + (side - 1) / 2 * width
            bottom = y + up * reach + (up - 1) / 2 * height
            boxes.append(Box(left, bottom, left + width, bottom + height))
    return boxes


def _cost(box: Box, anchor: tuple[float, float], obstacles: Sequence[Box], bounds: Box) -> float:
    nearest_x = min(max(anchor[0], box.left), box.right)
    nearest_y = min(max(anchor[1], box.bottom), box.top)
    distance = hypot(nearest_x - anchor[0], nearest_y - anchor[1])
    return distance + 3 * sum(box.overlap(other) for other in obstacles) + 1000 * box.outside(bounds)


def overlapping(boxes: Sequence[Box], tolerance: float = 1e-6) -> bool:
    """Whether any two boxes cover more than the tolerated area together.

    >>> overlapping([Box(0, 0, 2, 2), Box(1, 1, 3, 3)]), overlapping([Box(0, 0, 1, 1), Box(1, 0, 2, 1)])
    (True, False)
    """
    return any(one.overlap(other) > tolerance for one, other in combinations(boxes, 2))
