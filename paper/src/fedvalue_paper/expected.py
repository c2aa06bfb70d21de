"""Several training seeds of one setting: what one of them says against the mean of all, and methods that use them all.

The Shapley value is linear, so the mean of the exact values over training seeds is that of the mean utility.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue import scoring
from fedvalue.games import TableGame
from fedvalue.outcome import Outcome
from fedvalue_paper.grid import GameSpec
from fedvalue_paper.known import SharedGame
from fedvalue_paper.measures import is_better
from fedvalue_paper.rows import Row

__all__ = ["AllSeeds", "setting_of", "with_expected"]

_SETTING = ("scenario", "partition", "model", "n", "samples", "game_seed", "metric", "empty_rule", "variant")
_TRUTH = "exact"


def setting_of(spec: GameSpec) -> str:
    """What games have in common that differ in nothing but the training seed."""
    return repr((spec.n, _without(spec.settings), dict(spec.options), dict(spec.training)))


def with_expected(rows: Sequence[Row], options: Sequence[str]) -> list[Row]:
    """The rows with their errors against the mean of the exact values over training seeds, where there are several.

    `options` are those columns besides the usual ones that tell settings apart.
    """
    by = (*_SETTING, *options)
    exact: dict[tuple[Any, ...], dict[int, NDArray[np.float64]]] = {}
    for row in rows:
        if row["method"] == _TRUTH and row.get("applicable"):
            exact.setdefault(_key(row, by), {})[row["training_seed"]] = _values(row)
    means = {key: np.mean(list(seeds.values()), axis=0) for key, seeds in exact.items() if len(seeds) > 1}
    return [
        row | _against(row, means[key]) if (key := _key(row, by)) in means and row.get("values") else row
        for row in rows
    ]


class AllSeeds(TableGame):
    """A game of all training seeds of a setting; remembers which coalitions were asked for, as often as they were."""

    def __init__(self, games: Sequence[SharedGame]) -> None:
        every = range(1 << games[0].n)
        utilities = [[game.utility(outcome) for _, outcome in game.evaluate(every)] for game in games]
        super().__init__(utilities, games[0].names)
        self.sizes = games[0].sizes
        self.asked: list[int] = []

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        """Looks the coalitions up; a replicate is a training seed."""
        self.asked += masks
        return super().evaluate(masks, replicate)


def _against(row: Row, mean: NDArray[np.float64]) -> dict[str, float]:
    found = _values(row)
    skill = scoring.skill(found, mean)
    return {
        "error_expected": scoring.relative_l2(found, mean),
        "skill_expected": skill,
        "better_expected": is_better(skill),
    }


def _values(row: Mapping[str, Any]) -> NDArray[np.float64]:
    return np.array(row["values"].split(), dtype=np.float64)


def _key(row: Mapping[str, Any], by: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in by)


def _without(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key != "training_seed"}
