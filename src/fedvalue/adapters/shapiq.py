"""Games of fedvalue for shapiq's approximators, and games of shapiq valued here.

    from shapiq.approximator import KernelSHAP
    from fedvalue.adapters.shapiq import from_shapiq, to_shapiq

    KernelSHAP(game.n).approximate(64, to_shapiq(game, store="trainings.db"))
    fv.value(from_shapiq(their_game), method="surrogate", budget=64)

shapiq (Muschalik et al. 2024) takes coalitions as rows of a matrix of booleans, a column for each player, and
counts calls where fedvalue counts distinct coalitions.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import cache
from os import PathLike
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._extras import need
from fedvalue.coalitions import mask_of, members, membership
from fedvalue.errors import GameError
from fedvalue.games import FunctionGame, Game, GameLike, TableGame, as_game
from fedvalue.run import Ledger
from fedvalue.store import UtilityStore, fingerprint

__all__ = ["from_shapiq", "to_shapiq"]

Rows = NDArray[np.bool_]

# Attributes of a shapiq game that do not change its utilities: names, the centre, what it remembers, display.
_WITHOUT_EFFECT = {"game_id", "normalization_value", "player_name_lookup", "verbose", "_precompute_flag"}
_WITHOUT_EFFECT |= {"_empty_coalition_value_property", "_grand_coalition_value_property"}


def to_shapiq(
    game: GameLike, store: UtilityStore | str | PathLike[str] | None = None, *, normalize: bool = True
) -> Any:
    """The game as a `shapiq.Game`, for its approximators, its exact computer and its plots.

    Each coalition is evaluated once, however often it is asked for; with a `store` also those of other runs, by
    either package, are not evaluated again. As shapiq has it, utilities are centred: that of nobody is
    subtracted, and evaluated right away for that. `normalize=False` leaves them as they are.
    """
    base = need("shapiq").Game
    the_game = as_game(game)
    opened = store if store is None or isinstance(store, UtilityStore) else UtilityStore(store)
    ledger = Ledger(the_game, opened)
    adapted = _game_class(base)(the_game.n, normalize=False, player_names=list(the_game.names))
    adapted.ledger = ledger
    if opened is not None and opened is not store:
        weakref.finalize(adapted, opened.close)
    if normalize:
        adapted.normalization_value = float(adapted(adapted.empty_coalition)[0])
    return adapted


def from_shapiq(
    game: Callable[..., Any], names: Sequence[str] | None = None, key: str | None = None, **options: Any
) -> Game:
    """A shapiq game, a benchmark or an imputer for example, as a game that `fv.value` and `fv.compare` take.

    Its utilities are those before centring. A game that holds all of them becomes a table. Any other is
    recognised in a store by its class and its attributes; where one cannot be looked into, a store needs a
    `key`, a name of yours that changes when the utilities do. Clients are called as the players are, or by
    `names`. Options are those of `FunctionGame`.
    """
    n = getattr(game, "n_players", None)
    if not callable(game) or not isinstance(n, (int, np.integer)):
        raise GameError(
            f"Expected a shapiq game, which can be called and has n_players. Got a {type(game).__name__}. For a "
            "function over coalitions use FunctionGame(n, fn)."
        )
    players = list(getattr(game, "player_name_lookup", {})) or None if names is None else names

    def utilities(coalitions: list[tuple[int, ...]]) -> NDArray[np.float64]:
        rows = membership([mask_of(coalition) for coalition in coalitions], int(n))
        centre = float(getattr(game, "normalization_value", 0.0))
        return np.asarray(game(rows), dtype=np.float64) + centre

    if len(getattr(game, "game_values", ())) == 1 << int(n) and key is None and not options:
        return TableGame(utilities([members(mask) for mask in range(1 << int(n))]), players)
    content, doubts = _identity(game)
    found = FunctionGame(
        int(n), utilities, players, key=f"shapiq {content}" if key is None else key, **options
    )
    found.doubts = doubts if key is None else ()
    return found


def _identity(game: object) -> tuple[str, tuple[str, ...]]:
    """A digest of the class and the attributes of a game, and the names of those that cannot be looked into."""
    if isinstance(game, FunctionType):
        return fingerprint(game)
    made_of = {
        name: part for name, part in getattr(game, "__dict__", {}).items() if name not in _WITHOUT_EFFECT
    }
    prints = {name: fingerprint(part) for name, part in made_of.items()}
    content, _ = fingerprint(type(game), {name: digest for name, (digest, _) in prints.items()})
    return content, tuple(f"{name} ({type(made_of[name]).__name__})" for name in prints if prints[name][1])


def _utilities(ledger: Ledger, rows: Rows) -> NDArray[np.float64]:
    masks = [mask_of(np.flatnonzero(row).tolist()) for row in np.atleast_2d(rows)]
    ledger.learn([masks])
    return ledger.utilities(masks)


@cache
def _game_class(base: type[Any]) -> type[Any]:
    class FedvalueGame(base):  # type: ignore[misc]
        """A game of fedvalue, asked through its ledger."""

        ledger: Ledger

        def value_function(self, coalitions: Rows) -> NDArray[np.float64]:
            return _utilities(self.ledger, coalitions)

    return FedvalueGame
