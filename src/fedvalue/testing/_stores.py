"""The conformance suite of stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np

from fedvalue.games import FunctionGame
from fedvalue.outcome import UTILITY, Outcome
from fedvalue.run import value
from fedvalue.store import Registering, Store
from fedvalue.testing._examiner import Examiner

__all__ = ["check_store"]

_ROUND_TRIP = "what was appended is read back as it was"
_FIRST_WINS = "a number that is there is never changed"
_LACKING = "a known coalition gets the metrics that it lacks, if those that it has agree"
_MANY = 2_000  # more than one statement of many databases can name


def check_store(make_store: Callable[[], Store], *, persistent: bool = False) -> None:
    """Holds a store to its contract; raises a ConformanceError that says what it broke and with what input.

    `make_store()` gives an open store, empty or not; the suite writes under ids of its own. With `persistent` it opens
    the same place every time: what one wrote, the next one must read. A store that has `close` is closed.
    """
    for check in _CHECKS:
        with _opened(make_store) as store:
            check(store)
    if persistent:
        _reopened(make_store)


@dataclass(frozen=True)
class _Store:
    """A store with a game of its own in it."""

    store: Store
    examiner: Examiner
    game: str

    def register(self, game: str, n: int) -> None:
        """Makes a game known, if the store wants to know."""
        if isinstance(self.store, Registering):
            rule = "a game can be registered, more than once"
            with self.examiner.no_error(rule, f"register({game!r}, {n})"):
                self.store.register(game, n, {"names": [f"client-{i}" for i in range(min(n, 8))]})
                self.store.register(game, n)

    def append(self, outcomes: Any, replicate: int = 0, game: str | None = None) -> None:
        with self.examiner.no_error("outcomes can be appended", f"append of {outcomes!r}"):
            self.store.append(game or self.game, outcomes, replicate)

    def read(self, masks: Any = None, replicate: int = 0, game: str | None = None) -> dict[int, Outcome]:
        asked = "all coalitions" if masks is None else f"{len(masks)} coalitions"
        given = f"read of {asked}, replicate {replicate}"
        with self.examiner.no_error("outcomes can be read", given):
            stored = self.store.read(game or self.game, masks, replicate)
        mapped, rule = isinstance(stored, Mapping), "read gives outcomes by coalition"
        self.examiner.expect(mapped, rule, given, "a mapping", stored)
        return dict(stored)

    def holds(
        self, expected: Mapping[int, Outcome], rule: str, given: str, masks: Any = None, replicate: int = 0
    ) -> None:
        """Reads, and compares all that an outcome holds."""
        stored = self.read(masks, replicate)
        missing = [mask for mask in expected if mask not in stored]
        wanted = f"{len(expected)} coalitions"
        self.examiner.expect(not missing, rule, given, wanted, f"nothing for {missing[:5]}")
        extra = [mask for mask in stored if mask not in expected]
        self.examiner.expect(not extra, rule, given, wanted, f"also {extra[:5]}")
        for mask, outcome in expected.items():
            one, two = _plain(outcome), _plain(stored[mask])
            self.examiner.expect(one == two, rule, f"{given}, coalition {mask:#x}", one, two)


@contextmanager
def _opened(make_store: Callable[[], Store]) -> Iterator[_Store]:
    store = make_store()
    try:
        opened = _Store(store, Examiner(type(store).__name__), f"conformance-{uuid4().hex}")
        for name in ("read", "append"):
            rule = "a store has read and append"
            opened.examiner.expect(hasattr(store, name), rule, "its attributes", name, "none of that name")
        opened.register(opened.game, 2_000)
        yield opened
    finally:
        if hasattr(store, "close"):
            store.close()


def _outcome(utility: float, **more: float) -> Outcome:
    return Outcome({UTILITY: utility, **more}, seconds=0.25, backend="test", device="cpu")


def _plain(outcome: Any) -> tuple[Any, ...]:
    return dict(outcome.metrics), outcome.seconds, outcome.backend, outcome.device


def _round_trip(store: _Store) -> None:
    given = {0b101: _outcome(0.1, loss=2.5), 0: _outcome(-1e-300), 0b111: _outcome(1 / 3)}
    store.holds({}, "a game of which nothing is known is empty", "nothing appended")
    store.append([])
    store.append(given.items())
    store.holds(given, _ROUND_TRIP, "three coalitions")
    store.append(pair for pair in [(0b110, _outcome(2.0))])  # any iterable
    store.holds(given | {0b110: _outcome(2.0)}, _ROUND_TRIP, "one more, from a generator")


def _some_masks(store: _Store) -> None:
    everything = {mask: _outcome(mask / 7) for mask in range(0, _MANY, 2)}
    store.append(everything.items())
    store.holds(everything, _ROUND_TRIP, f"{len(everything)} coalitions")
    rule = "reading some coalitions gives those that are known, and leaves out the others"
    store.holds({}, rule, "no coalition asked for", [])
    for masks in ([2, 3, 5_000], range(_MANY)):
        known = {mask: everything[mask] for mask in masks if mask in everything}
        store.holds(known, rule, f"{len(masks)} coalitions asked for, {len(known)} known", masks)


def _wide_masks(store: _Store) -> None:
    masks = [1 << 63, 1 << 64, (1 << 100) - 1, 1 << 1000]
    given = {mask: _outcome(float(j)) for j, mask in enumerate(masks)}
    store.append(given.items())
    rule = "bitmasks have any width: a consortium may have a thousand clients"
    store.holds(given, rule, "coalitions beyond 63 clients")
    store.holds(given, rule, "coalitions beyond 63 clients, asked for", masks)


def _first_wins(store: _Store) -> None:
    store.append([(3, _outcome(0.3)), (4, _outcome(0.4))])
    kept = {3: _outcome(0.3), 4: _outcome(0.4)}
    store.append(kept.items())
    store.holds(kept, "appending again changes nothing", "the same outcomes twice")
    store.append([(3, _outcome(99.0)), (5, _outcome(0.5))])
    store.holds(
        kept | {5: _outcome(0.5)}, _FIRST_WINS, "another outcome of a known coalition beside a new one"
    )
    store.append([(6, _outcome(0.6)), (6, _outcome(99.0))])
    store.holds({6: _outcome(0.6)}, _FIRST_WINS, "one coalition twice in one append", [6])


def _lacking_metrics(store: _Store) -> None:
    store.append([(3, _outcome(0.3)), (4, _outcome(0.4))])
    store.append([(3, _outcome(0.3, loss=1.5)), (4, _outcome(0.9, loss=2.5))])
    kept = {3: _outcome(0.3, loss=1.5), 4: _outcome(0.4)}
    store.holds(kept, _LACKING, "one more metric, once beside the same utility, once beside another one")
    store.append([(4, Outcome({"f1": 0.5}))])
    store.holds(kept, _LACKING, "a metric without any that is known")


def _in_a_run(store: _Store) -> None:
    game = FunctionGame(3, len, batch=False, key=store.game)
    given = 'value(game, "loo", store=store), twice'
    with store.examiner.no_error("a store can be passed to `value`", given):
        first, again = (value(game, "loo", store=store.store) for _ in range(2))
    assert again.cost is not None
    rule = "what is stored is not evaluated again"
    store.examiner.expect(again.cost.trained == 0, rule, given, "nothing evaluated", again.cost)
    same = first.mean.tolist() == again.mean.tolist()
    store.examiner.expect(same, rule, given, first.mean, again.mean)


def _kept_apart(store: _Store) -> None:
    other = f"{store.game}-other"
    store.register(other, 2)
    for replicate in range(3):
        store.append([(1, _outcome(float(replicate)))], replicate)
    store.append([(1, _outcome(-1.0)), (2, _outcome(-2.0))], game=other)
    for replicate in range(3):
        expected = {1: _outcome(float(replicate))}
        store.holds(expected, "replicates are kept apart", f"replicate {replicate}", replicate=replicate)
    store.holds({}, "replicates are kept apart", "a replicate that nobody wrote", replicate=7)
    unknown = store.read(game=f"{store.game}-unknown")
    store.examiner.expect(not unknown, "an unknown game has no outcomes", "read", "nothing", unknown)


def _all_or_none(store: _Store) -> None:
    def interrupted() -> Iterator[tuple[int, Outcome]]:
        yield 1, _outcome(0.1)
        raise InterruptedError

    with suppress(InterruptedError):
        store.store.append(store.game, interrupted())
    store.holds({}, "an append that fails adds nothing", "an iterator that fails after the first outcome")


def _not_a_live_view(store: _Store) -> None:
    """Runs append while they go through what they have read."""
    store.append([(1, _outcome(0.1))])
    read = store.store.read(store.game, None, 0)
    store.append([(2, _outcome(0.2))])
    rule = "what was read does not change with what is appended later"
    store.examiner.expect(list(read) == [1], rule, "read, then append", [1], list(read))


def _numbers_of_numpy(store: _Store) -> None:
    store.append([(1, Outcome({UTILITY: np.float32(0.5), "correct": np.int64(7)}))])  # type: ignore[dict-item]
    store.holds(
        {1: Outcome({UTILITY: 0.5, "correct": 7.0})}, "numbers of NumPy are numbers", "float32 and int64"
    )


def _reopened(make_store: Callable[[], Store]) -> None:
    given = {0b11: _outcome(0.1, loss=2.5), 1 << 70: _outcome(0.7)}
    with _opened(make_store) as first:
        first.append(given.items())
        game = first.game
    with _opened(make_store) as second:
        again = _Store(second.store, second.examiner, game)
        again.holds(
            given, "what was appended is there when the store is opened again", "the store closed and opened"
        )


_CHECKS = (
    _round_trip,
    _some_masks,
    _wide_masks,
    _first_wins,
    _lacking_metrics,
    _kept_apart,
    _all_or_none,
    _not_a_live_view,
    _numbers_of_numpy,
    _in_a_run,
)
