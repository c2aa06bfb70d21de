"""Games: v(S) for lists of coalitions.

A game knows its number of clients, their names, an `id` that changes with anything that changes its
utilities and with nothing else, and how to evaluate coalitions, handing each outcome over as it finishes.
Where evaluations are noisy they can be repeated: the utility of a coalition is the mean over `replicates`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedvalue.coalition import members
from fedvalue.errors import GameError, UtilityError
from fedvalue.identity import fingerprint
from fedvalue.outcome import UTILITY, Outcome

__all__ = ["FunctionGame", "Game", "GameLike", "TableGame", "as_game"]

# A call that takes longer than this is not widened: what a killed process loses stays this small.
_SHORT_CALL_SECONDS = 0.01


class Game(Protocol):
    """What a game must offer. `evaluate` yields each coalition as soon as it is finished, in any order."""

    @property
    def n(self) -> int: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def id(self) -> str: ...
    @property
    def doubts(self) -> tuple[str, ...]: ...
    @property
    def replicates(self) -> int: ...
    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]: ...
    def utility(self, outcome: Outcome) -> float: ...


GameLike: TypeAlias = "Game | ArrayLike"


class TableGame:
    """A game given by all its utilities: entry m belongs to the coalition whose bitmask is m.

    >>> game = TableGame([0.0, 1.0, 2.0, 4.0], names=["a", "b"])
    >>> game([0b11, 0b01])
    [4.0, 1.0]
    """

    replicates = 1
    doubts: tuple[str, ...] = ()

    def __init__(self, utilities: ArrayLike, names: Sequence[str] | None = None) -> None:
        try:
            table = np.array(utilities, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise GameError(f"A table of utilities must hold numbers only. {error}.") from error
        length = table.size
        if table.ndim != 1 or length < 2 or length & (length - 1):
            raise GameError(
                "A table of utilities must be a vector of 2**n numbers for n ≥ 1 clients, one for each "
                f"coalition, indexed by bitmask. Got shape {table.shape}."
            )
        self.n = length.bit_length() - 1
        bad = np.flatnonzero(~np.isfinite(table))
        if bad.size:
            who = members(int(bad[0]))
            raise UtilityError(
                f"Utilities must be finite. Entry {bad[0]} of the table, coalition {who}, is "
                f"{table[bad[0]]}; {bad.size} of {length} entries are not finite.",
                who,
            )
        table.flags.writeable = False
        self.utilities: NDArray[np.float64] = table
        self.names = client_names(self.n, names)
        self.id = "table-" + fingerprint(table)[0][:24]

    def __call__(self, masks: Sequence[int]) -> list[float]:
        index = np.fromiter(masks, dtype=np.int64, count=len(masks))
        return cast("list[float]", self.utilities[index].tolist())

    def utility(self, outcome: Outcome) -> float:
        """The number that was looked up."""
        return outcome.metrics[UTILITY]

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        """Looks the coalitions up."""
        for mask, utility in zip(masks, self(masks), strict=True):
            yield mask, Outcome({UTILITY: utility}, backend="table")


class FunctionGame:
    """A game given by a function: `fn([(0, 2), (1,)]) -> [0.9, 0.7]`, tuples of client indices.

    With `batch=False` the function takes one coalition and returns one number. Fast functions are
    called with many coalitions at a time, slow ones (over ten milliseconds) one by one, so that a killed
    process loses nothing that was finished; `chunk=64` always passes up to 64, for functions
    that train many coalitions together.

    For a store the game needs an identity. By default it is taken from the function's code and the data
    it refers to; `key="…"` replaces that with a name of yours (data version, model, settings): change it
    whenever the utilities change. A noisy function can be called `replicates` times per coalition; the
    utility is the mean.

    >>> FunctionGame(2, lambda coalitions: [float(len(c)) for c in coalitions])([0b00, 0b11])
    [0.0, 2.0]
    """

    def __init__(
        self,
        n: int,
        fn: Callable[..., Any],
        names: Sequence[str] | None = None,
        *,
        batch: bool = True,
        chunk: int | None = None,
        key: str | None = None,
        replicates: int = 1,
    ) -> None:
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise GameError(f"A game needs at least one client. Got n={n!r}.")
        if not callable(fn):
            raise GameError(f"fn must be a function of coalitions. Got {type(fn).__name__}.")
        if chunk is not None and (not isinstance(chunk, int) or chunk < 1):
            raise GameError(f"chunk must be at least 1 or None. Got {chunk!r}.")
        if replicates < 1:
            raise GameError(f"replicates must be at least 1. Got {replicates!r}.")
        self.n = int(n)
        self.replicates = replicates
        self.fn = fn
        self.batch = batch
        self.chunk = chunk
        self.names = client_names(self.n, names)
        identified_by = fn if key is None else ("key", str(key))
        digest, self.doubts = fingerprint(self.n, batch, identified_by)
        self.id = "function-" + digest[:24]

    def __call__(self, masks: Sequence[int]) -> list[float]:
        found = {mask: outcome.metrics[UTILITY] for mask, outcome in self.evaluate(masks)}
        return [found[mask] for mask in masks]

    def utility(self, outcome: Outcome) -> float:
        """The number that the function returned."""
        return outcome.metrics[UTILITY]

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        """Calls the function, and yields each utility as soon as the call that gave it returns."""
        start, width = 0, self.chunk or 1
        while start < len(masks):
            chunk = masks[start : start + width]
            began = time.perf_counter()
            utilities = self._call(chunk)
            elapsed = time.perf_counter() - began
            yield from self._outcomes(chunk, utilities, elapsed)
            start += len(chunk)
            if self.chunk is None and self.batch:
                width = width * 2 if elapsed < _SHORT_CALL_SECONDS else max(1, width // 2)

    def _call(self, masks: Sequence[int]) -> list[Any]:
        coalitions = [members(mask) for mask in masks]
        try:
            found = self.fn(coalitions) if self.batch else [self.fn(c) for c in coalitions]
            utilities = list(found)
        except Exception as error:
            if len(masks) > 1:  # one by one: keeps the good ones and finds out which one fails
                return [utility for mask in masks for utility in self._call_alone(mask)]
            raise UtilityError(
                f"The utility function failed for coalition {self._name(masks[0])}: "
                f"{type(error).__name__}: {error}. Coalitions finished before are kept; mend the "
                "function and run again.",
                coalitions[0],
            ) from error
        if len(utilities) != len(masks):
            raise UtilityError(
                f"The utility function must return one number per coalition ({len(masks)}). "
                f"Got {len(utilities)}, for coalitions beginning with {self._name(masks[0])}.",
                coalitions[0],
            )
        return utilities

    def _call_alone(self, mask: int) -> list[Any]:
        try:
            return self._call([mask])
        except UtilityError as error:
            return [error]

    def _outcomes(
        self, masks: Sequence[int], utilities: list[Any], seconds: float
    ) -> Iterator[tuple[int, Outcome]]:
        """The good ones first: they are safe before the first bad one stops the run."""
        failures = []
        for mask, utility in zip(masks, utilities, strict=True):
            try:
                number = float(utility)
            except (TypeError, ValueError, OverflowError):
                failures.append((mask, utility))
                continue
            if not math.isfinite(number):
                failures.append((mask, utility))
                continue
            yield mask, Outcome({UTILITY: number}, seconds / len(masks), backend="function")
        for mask, utility in failures:
            if isinstance(utility, UtilityError):
                raise utility
            raise UtilityError(
                f"The utility of a coalition must be a finite number. Got {utility!r} for coalition "
                f"{self._name(mask)}. It was not stored; what was finished is kept.",
                members(mask),
            )

    def _name(self, mask: int) -> str:
        who = members(mask)
        return f"{who} ({', '.join(self.names[i] for i in who[:8])}{', …' if len(who) > 8 else ''})"


def client_names(n: int, names: Sequence[str] | None) -> tuple[str, ...]:
    """The given names as text, or client-0, client-1, …"""
    if names is None:
        return tuple(f"client-{i}" for i in range(n))
    given = tuple(str(name) for name in names)
    if len(given) != n or len(set(given)) != n:
        raise GameError(f"names must hold {n} different names. Got {len(given)}: {list(given)[:12]}.")
    return given


def as_game(game: GameLike) -> Game:
    """The game itself, or a table game made of a plain array of 2**n utilities."""
    if hasattr(game, "evaluate") and hasattr(game, "n"):
        return cast(Game, game)
    if callable(game):
        raise GameError("A function alone does not say how many clients there are. Use FunctionGame(n, fn).")
    return TableGame(game)
