"""The suite of stores, as a user sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

import fedvalue as fv
from fedvalue.store import agree
from fedvalue.testing import ConformanceError, check_store


class Memory:
    """A store of one's own: a dictionary."""

    def __init__(self) -> None:
        self.rows: dict[Any, fv.Outcome] = {}

    def key(self, game_id: str, mask: int, replicate: int) -> Any:
        return game_id, mask, replicate

    def read(
        self, game_id: str, masks: Sequence[int] | None = None, replicate: int = 0
    ) -> Mapping[int, fv.Outcome]:
        if masks is None:
            masks = [mask for game, mask, r in self.rows if game == game_id and r == replicate]
        known = {mask: self.rows.get(self.key(game_id, mask, replicate)) for mask in masks}
        return {mask: outcome for mask, outcome in known.items() if outcome is not None}

    def append(self, game_id: str, outcomes: Iterable[tuple[int, fv.Outcome]], replicate: int = 0) -> None:
        for mask, outcome in list(outcomes):
            key = self.key(game_id, mask, replicate)
            self.rows[key] = self.joined(self.rows.setdefault(key, outcome), outcome)

    def joined(self, known: fv.Outcome, new: fv.Outcome) -> fv.Outcome:
        if agree(known.metrics, new.metrics):
            return known._replace(metrics={**new.metrics, **known.metrics})
        return known


def test_a_right_one_passes() -> None:
    check_store(Memory)
    shared = Memory()
    check_store(lambda: shared, persistent=True)


def test_what_has_close_is_closed() -> None:
    closed = []

    class Closing(Memory):
        def close(self) -> None:
            closed.append(self)

    check_store(Closing)
    assert len(closed) > 5


class LastWins(Memory):
    def joined(self, known: fv.Outcome, new: fv.Outcome) -> fv.Outcome:
        return new


class FirstRowWins(Memory):
    def joined(self, known: fv.Outcome, new: fv.Outcome) -> fv.Outcome:
        return known


class AddsAnything(Memory):
    def joined(self, known: fv.Outcome, new: fv.Outcome) -> fv.Outcome:
        return known._replace(metrics={**new.metrics, **known.metrics})


class Forgets(Memory):
    def joined(self, known: fv.Outcome, new: fv.Outcome) -> fv.Outcome:
        return fv.Outcome(super().joined(known, new).metrics)


class Rounds(Memory):
    def joined(self, known: fv.Outcome, new: fv.Outcome) -> fv.Outcome:
        metrics = super().joined(known, new).metrics
        return known._replace(metrics={name: round(number, 6) for name, number in metrics.items()})


class OneReplicate(Memory):
    def key(self, game_id: str, mask: int, replicate: int) -> Any:
        return game_id, mask, 0


class OneGame(Memory):
    def key(self, game_id: str, mask: int, replicate: int) -> Any:
        return "game", mask, replicate


class Narrow(Memory):
    def key(self, game_id: str, mask: int, replicate: int) -> Any:
        return game_id, mask & (1 << 64) - 1, replicate


class OneByOne(Memory):
    def append(self, game_id: str, outcomes: Any, replicate: int = 0) -> None:
        for pair in outcomes:
            super().append(game_id, [pair], replicate)


class Live(Memory):
    """Hands out what it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.games: dict[Any, dict[int, fv.Outcome]] = {}

    def read(self, game_id: str, masks: Any = None, replicate: int = 0) -> Mapping[int, fv.Outcome]:
        everything = self.games.setdefault((game_id, replicate), {})
        return everything if masks is None else super().read(game_id, masks, replicate)

    def append(self, game_id: str, outcomes: Any, replicate: int = 0) -> None:
        super().append(game_id, outcomes, replicate)
        self.games.setdefault((game_id, replicate), {}).update(super().read(game_id, None, replicate))


class Everything(Memory):
    def read(self, game_id: str, masks: Any = None, replicate: int = 0) -> Mapping[int, fv.Outcome]:
        return super().read(game_id, None, replicate)


class Invents(Memory):
    def read(self, game_id: str, masks: Any = None, replicate: int = 0) -> Mapping[int, fv.Outcome]:
        invented = {mask: fv.Outcome({"utility": 0.0}) for mask in masks or []}
        return {**invented, **super().read(game_id, masks, replicate)}


class NeedsLists(Memory):
    def append(self, game_id: str, outcomes: Any, replicate: int = 0) -> None:
        assert len(outcomes) >= 0
        super().append(game_id, outcomes, replicate)


class RegistersOnce(Memory):
    def __init__(self) -> None:
        super().__init__()
        self.known: set[str] = set()

    def register(self, game_id: str, n: int, description: Any = None) -> None:
        if game_id in self.known:
            raise KeyError(game_id)
        self.known.add(game_id)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (LastWins, r"LastWins: a number that is there is never changed\n.*coalition 0x3\n.*0\.3(.*\n)*.*99\.0"),
        (FirstRowWins, r"gets the metrics that it lacks.*\n.*coalition 0x3\n.*1\.5"),
        (AddsAnything, r"if those that it has agree.*\n.*coalition 0x4(.*\n)*.*2\.5"),
        (OneReplicate, r"replicates are kept apart"),
        (Narrow, r"bitmasks have any width"),
        (OneByOne, r"an append that fails adds nothing(.*\n)*.*also \[1\]"),
        (Live, r"what was read does not change(.*\n)*.*\[1, 2\]"),
        (Everything, r"leaves out the others(.*\n)*.*no coalition asked for"),
        (Invents, r"leaves out the others(.*\n)*.*also \[3, 5000\]"),
        (Forgets, r"read back as it was(.*\n)*.*'test'"),
        (Rounds, r"read back as it was(.*\n)*.*0x0"),
        (NeedsLists, r"outcomes can be appended(.*\n)*.*TypeError"),
        (RegistersOnce, r"registered, more than once(.*\n)*.*KeyError"),
        (object, r"a store has read and append"),
    ],
)  # fmt: skip
def test_a_broken_store_is_told_what_it_broke(make: Any, rule: str) -> None:
    with pytest.raises(ConformanceError, match=rule):
        check_store(make)


def test_a_store_that_mixes_games_is_found_out() -> None:
    shared = OneGame()
    with pytest.raises(
        ConformanceError, match=r"a game of which nothing is known is empty|read back as it was"
    ):
        check_store(lambda: shared)


def test_what_is_lost_when_closed_is_not_persistent() -> None:
    with pytest.raises(
        ConformanceError, match=r"there when the store is opened again(.*\n)*.*nothing for \[3, "
    ):
        check_store(Memory, persistent=True)
