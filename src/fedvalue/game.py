"""Games: v(S) for lists of coalitions.

A game knows its number of clients, their names, an `id` that changes with anything that changes its
utilities and with nothing else, and how to evaluate coalitions, handing each outcome over as it finishes.
Where evaluations are noisy they can be repeated: the utility of a coalition is the mean over `replicates`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedvalue.calls import Agenda, Failed, Replied, calls_here
from fedvalue.coalition import members
from fedvalue.errors import GameError, UtilityError
from fedvalue.identity import fingerprint
from fedvalue.outcome import UTILITY, Outcome

__all__ = ["FunctionGame", "Game", "GameLike", "TableGame", "as_game"]


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

    `jobs=4` calls the function in four processes, side by side, which pays from a tenth of a second per call on;
    the utilities are the same. `timeout` is what a coalition may take, in seconds (a chunk: their sum); then its
    process is ended. A coalition that fails, by an exception, a timeout, a crash or a result that is no number,
    is tried again `retries` times before the run ends, with what was finished kept. On Linux these processes are
    forks of this one, so any function will do, and each computes with one thread; `start="spawn"` starts fresh
    ones, as CUDA needs it, for a function that can be imported. In them, global random numbers are seeded for
    every call: a function that draws some gives the same with two jobs as with four, but not as with one.

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
        jobs: int = 1,
        timeout: float | None = None,
        retries: int = 0,
        start: str | None = None,
    ) -> None:
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise GameError(f"A game needs at least one client. Got n={n!r}.")
        if not callable(fn):
            raise GameError(f"fn must be a function of coalitions. Got {type(fn).__name__}.")
        self.n = int(n)
        self.fn = fn
        self.batch = batch
        self.chunk = None if chunk is None else _whole("chunk", chunk, 1)
        self.replicates = _whole("replicates", replicates, 1)
        self.jobs = _whole("jobs", jobs, 1)
        self.retries = _whole("retries", retries, 0)
        self.timeout = None if timeout is None else _seconds(timeout)
        self.start = None if start is None else _start_method(start)
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
        in_workers = self.jobs > 1 or self.timeout is not None
        # A worker has one coalition at a time where it can: only that one is lost with it.
        alone = not self.batch and (in_workers or self.chunk is None)
        agenda = Agenda(masks, 1 if alone else self.chunk, self.retries)
        replies = (
            self._in_workers(agenda, replicate) if in_workers else calls_here(self.fn, self.batch, agenda)
        )
        with closing(replies):
            for call, reply, seconds in replies:
                for mask, utility in agenda.settle(call, reply, seconds):
                    yield mask, Outcome({UTILITY: utility}, seconds / len(call.masks), backend="function")
        if agenda.failed:
            raise self._error(agenda.failed)

    def _in_workers(self, agenda: Agenda, replicate: int) -> Generator[Replied, None, None]:
        from fedvalue.workers import calls_in_workers

        limits = (self.jobs, self.timeout, self.start)
        return calls_in_workers(self.fn, self.batch, agenda, replicate, *limits)

    def _error(self, failed: Sequence[Failed]) -> UtilityError:
        first, others = failed[0], len(failed) - 1
        who, error = members(first.mask), first.failure.error
        names = ", ".join(self.names[i] for i in who[:8]) or "nobody"
        attempts = f" in {first.attempts} attempts, at last" if first.attempts > 1 else ""
        text = (
            f"The utility function failed for coalition {who} ({names}{', …' if len(who) > 8 else ''}){attempts}: "
            f"{first.failure.reason}. {f'It failed for {others} more, too. ' if others else ''}Coalitions that were "
            "finished are kept; mend the function and run again."
        )
        if first.failure.where and error is None:  # an exception of this process shows its own traceback
            text += f"\nRaised here, the innermost line last:\n{first.failure.where}"
        raised = UtilityError(text, who)
        raised.__cause__ = error
        return raised


def _whole(name: str, number: int, least: int) -> int:
    if not isinstance(number, (int, np.integer)) or isinstance(number, bool) or number < least:
        raise GameError(f"{name} must be a whole number of at least {least}. Got {number!r}.")
    return int(number)


def _start_method(start: str) -> str:
    from multiprocessing import get_all_start_methods

    known = get_all_start_methods()
    if start not in known:
        raise GameError(f"start must be one of {', '.join(known)} on this system, or None. Got {start!r}.")
    return start


def _seconds(timeout: float) -> float:
    number = isinstance(timeout, (int, float, np.integer, np.floating)) and not isinstance(timeout, bool)
    if not number or not 0 < timeout < math.inf:
        raise GameError(f"timeout must be a positive number of seconds, or None. Got {timeout!r}.")
    return float(timeout)


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
