"""v(∅) of games that can be trained again: a mean over seeds. Nothing is trained for it, so it is no part of a budget."""

from __future__ import annotations

from fedvalue.coalitions import Trial
from fedvalue.games import Game, Reading, Reseeded
from fedvalue.yardsticks import OVER_SEEDS, Empty

__all__ = ["has_any_seed", "over_seeds", "trials_of_empty"]

_SEEDS = 16


def has_any_seed(game: Game, reading: Reading) -> bool:
    """Whether seeds are as good as each other: then v(∅) is the same mean for every method, for those of one seed, too."""
    return isinstance(game, Reseeded) and game.seeds is None and not reading.is_empty(0)


def trials_of_empty(game: Game, reading: Reading) -> list[Trial]:
    """What v(∅) over several seeds is the mean of, where it differs between them: nobody fixes it by a rule."""
    if reading.is_empty(0) or not isinstance(game, Reseeded):
        return []
    return [(0, seed) for seed in range(game.seeds or _SEEDS)]


def over_seeds(models: int) -> Empty:
    """How v(∅) was fixed then."""
    return Empty(OVER_SEEDS, f"no clients (mean of {models} seeds)", models)
