"""Where numbers lie and how far they spread, so that no single client can move it much.

Each client's numbers are first taken by themselves: the lowest and the highest twentieth are drawn in, then mean and
standard deviation. The common scale is the median over clients of both. A wild cell moves one client's statistics
a little (a lot only with fewer than twenty rows); a client in other units is one voice among many. Of two clients
neither can outvote the other: the test set decides between them. Where it has no say, the one that spreads less does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Scale", "common_scale", "own_scale"]

_ENDS = 0.05


@dataclass(frozen=True)
class Scale:
    """Numbers are trained as (number − centre) / spread.

    >>> Scale(10.0, 2.0).scaled(np.array([12.0])).tolist(), Scale(10.0, 2.0).original(np.array([1.0])).tolist()
    ([1.0], [12.0])
    """

    centre: float = 0.0
    spread: float = 1.0

    def scaled(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Numbers in units of the spread, about the centre; as they are where there is nothing to do."""
        if self.is_plain:
            return numbers
        return ((numbers.astype(np.float64) - self.centre) / self.spread).astype(numbers.dtype)

    def original(self, numbers: Any) -> Any:
        """The way back, for arrays and tensors: in float64 unless there is nothing to do."""
        if self.is_plain:
            return numbers
        wide = numbers.astype(np.float64) if isinstance(numbers, np.ndarray) else numbers.double()
        return wide * self.spread + self.centre

    @property
    def is_plain(self) -> bool:
        """Whether numbers stay what they are."""
        return self.centre == 0 and self.spread == 1


def own_scale(numbers: NDArray[Any]) -> Scale:
    """Of one client: mean and standard deviation with the ends drawn in; spread 0 where all numbers are equal.

    >>> own_scale(np.array([1.0, 3.0] * 20 + [1e9])).centre
    2.024390243902439
    """
    ordered = np.sort(numbers.astype(np.float64), axis=None)
    cut = int(_ENDS * len(ordered))
    inner = np.clip(ordered, ordered[cut], ordered[-1 - cut])
    if inner[0] == inner[-1]:  # nearly constant: a rare event still has a spread
        inner = ordered
    if inner[0] == inner[-1]:
        return Scale(float(inner[0]), 0.0)
    return Scale(float(inner.mean()), float(inner.std()))


def common_scale(parts: Sequence[NDArray[Any]], test: NDArray[Any] | None = None) -> Scale:
    """Of all clients; those without numbers have no say, those whose numbers are all equal none in the spread.

    Of two clients neither can outvote the other: there the test set has a voice, too.

    >>> sane = [np.array([1.0, 3.0]), np.array([2.0, 4.0])]
    >>> common_scale([*sane, np.array([1e7, 3e7])])
    Scale(centre=3.0, spread=1.0)
    """
    found = [own_scale(part) for part in parts if len(part)]
    varying = [scale for scale in found if scale.spread > 0]
    if not found:
        return Scale()
    if len(found) == len(varying) == 2 and test is not None and len(test):
        return common_scale([*parts, test])
    if len(found) == 2:
        least = min(varying or found, key=lambda scale: scale.spread)
        return Scale(least.centre, least.spread or 1.0)
    centre = float(np.median([scale.centre for scale in found]))
    return Scale(centre, float(np.median([scale.spread for scale in varying])) if varying else 1.0)
