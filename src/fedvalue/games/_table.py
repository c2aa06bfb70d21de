"""Games given by all their utilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedvalue._checks import as_array, checked_init, expect, whole
from fedvalue._text import is_one_line
from fedvalue.coalitions import members
from fedvalue.errors import GameError, UtilityError
from fedvalue.games._base import Game, client_names
from fedvalue.outcome import LARGEST, UTILITY, Outcome
from fedvalue.scenarios import Scenario
from fedvalue.store import fingerprint

__all__ = ["GameLike", "TableGame", "as_game"]

_MEMBERS = ("n", "names", "id", "doubts", "replicates", "evaluate", "utility")

GameLike: TypeAlias = "Game | ArrayLike"


@checked_init
class TableGame:
    """A game given by all its utilities: entry m belongs to the coalition whose bitmask is m.

    With several rows, each holds the utilities of a training of all coalitions with a seed of its own. Over several seeds,
    v(∅) is the mean over all rows, as ∅ is not trained; values of one seed are those of its row, with the v(∅) there.

    >>> game = TableGame([0.0, 1.0, 2.0, 4.0], names=["a", "b"])
    >>> game([0b11, 0b01])
    [4.0, 1.0]
    >>> TableGame([[0.0, 1.0, 2.0, 4.0], [0.2, 1.1, 2.0, 4.2]]).seeds
    2
    """

    replicates = 1
    doubts: tuple[str, ...] = ()

    def __init__(self, utilities: ArrayLike, names: Sequence[str] | None = None) -> None:
        table = as_array(utilities, "A table of utilities", np.float64, error=GameError)
        length = table.shape[-1] if table.ndim else 0
        if table.ndim not in (1, 2) or not len(table) or length < 2 or length & (length - 1):
            raise GameError(
                "A table of utilities must be a vector of 2**n numbers for n ≥ 1 clients, one for each "
                f"coalition, indexed by bitmask, or a matrix of such rows, one for each seed. Got shape {table.shape}."
            )
        self.n = length.bit_length() - 1
        bad = np.argwhere(~(np.abs(table) <= LARGEST))
        if bad.size:
            who = members(int(bad[0][-1]))
            raise UtilityError(
                f"Utilities must be finite numbers up to {LARGEST:g}. Entry {', '.join(map(str, bad[0]))} of the table, "
                f"coalition {who}, is {table[tuple(bad[0])]}; {len(bad)} of {table.size} entries are not finite, or too "
                "large.",
                who,
            )
        rows = np.atleast_2d(table)
        rows.flags.writeable = False
        self._rows = rows
        self.utilities: NDArray[np.float64] = rows[0]
        self.seeds = len(rows)
        self.names, self.named = client_names(self.n, names), names is not None
        self.id = "table-" + fingerprint(rows if len(rows) > 1 else rows[0])[0][:24]

    def __call__(self, masks: Sequence[int], seed: int = 0) -> list[float]:
        index = np.fromiter(
            (whole("A coalition", mask, 0, len(self.utilities) - 1, GameError) for mask in masks), np.int64
        )
        row = self._rows[whole("The seed", seed, 0, self.seeds - 1, GameError)]
        return cast("list[float]", row[index].tolist())

    def utility(self, outcome: Outcome) -> float:
        """The number that was looked up."""
        return outcome.metrics[UTILITY]

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        """Looks the coalitions up; a replicate is a row."""
        for mask, utility in zip(masks, self(masks, replicate), strict=True):
            yield mask, Outcome({UTILITY: utility}, backend="table")


def _check_members(game: Game) -> None:
    """What a store keeps for good, and what everything else relies on."""
    name = f"of a {type(game).__name__}"
    whole(f"n {name}", game.n, 1, error=GameError)
    whole(f"replicates {name}", game.replicates, 1, error=GameError)
    expect(f"names {name}", game.names, Sequence, f"a list of {game.n} texts", error=GameError)
    client_names(game.n, game.names)
    if not isinstance(game.id, str) or not is_one_line(game.id):
        raise GameError(f"id {name} must be a text without line breaks. Got {game.id!r:.60}.")
    for method in ("evaluate", "utility"):
        expect(f"{method} {name}", getattr(game, method), Callable, "a function", error=GameError)


def as_game(game: GameLike) -> Game:
    """The game itself, or a table game made of a plain array of 2**n utilities."""
    if hasattr(game, "evaluate") and hasattr(game, "n"):
        lacking = [name for name in _MEMBERS if not hasattr(game, name)]
        if lacking:
            raise GameError(
                f"A game of your own has the members {', '.join(_MEMBERS)}. A {type(game).__name__} lacks "
                f"{', '.join(lacking)}; see fedvalue.Game."
            )
        _check_members(cast(Game, game))
        return cast(Game, game)
    if isinstance(game, Scenario):
        raise GameError("A scenario alone says nothing of a model. Use FederatedGame(scenario, 'mlp').")
    if isinstance(game, (str, Mapping)):
        raise GameError(f"A game is a Game, or a list of 2**n utilities. Got a {type(game).__name__}.")
    if callable(game):
        raise GameError("A function alone does not say how many clients there are. Use FunctionGame(n, fn).")
    return TableGame(game)
