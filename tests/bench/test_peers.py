"""How other packages' estimators are kept to the budget, on toy games; and that they are, where they are installed (`make peers`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedvalue as fv

BENCH = Path(__file__).parents[2] / "bench"
ERRORS = {
    ("ours", "8", "game", 0): 1.0,
    ("ours", "8", "game", 1): 3.0,
    ("A one", "8", "game", 0): 8.0,
    ("B two", "8", "game", 1): 4.0,  # a slow one, with fewer seeds
}
TABLE = np.random.default_rng(5).normal(size=32)

needs_peers = pytest.mark.skipif(
    not (find_spec("pydvl") and find_spec("lightgbm")),
    reason="shapiq 1.8 and pyDVL are not installed: make peers",
)


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(BENCH)
    import peers

    peers._largest_parameter.cache_clear()
    yield peers
    for name in ("peers", "_counting", "_peers_pydvl", "_peers_shapiq", "_peer_tables", "_table"):
        sys.modules.pop(name, None)


def first_masks(game: Any, masks: list[int]) -> np.ndarray:
    """A peer's values that say what it looked up: the mean of that for all clients."""
    rows = np.array(masks)[:, None] >> np.arange(game.n) & 1
    return np.full(game.n, game.rows(rows.astype(bool)).mean())


class TestBudget:
    def test_a_coalition_that_comes_twice_is_charged_once(self, peers: Any) -> None:
        game = peers.CountingTable(TABLE)
        assert game.rows(
            np.array([[1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 1, 1, 0, 0]], bool)
        ) == pytest.approx(TABLE[[1, 1, 6]])
        assert game.members((1, 2)) == TABLE[6]
        assert game.seen == {1, 6}

    @pytest.mark.parametrize(("budget", "distinct"), [(4, 4), (7, 7), (8, 8)])
    def test_one_that_repeats_itself_gets_as_many_calls_as_still_fit(
        self, peers: Any, monkeypatch: pytest.MonkeyPatch, budget: int, distinct: int
    ) -> None:
        """It asks for every coalition three times: 24 calls make eight coalitions."""
        peer = peers.Peer(
            lambda game, calls, seed: first_masks(game, [k // 3 for k in range(calls)]), repeats=True
        )
        monkeypatch.setitem(peers.PEERS, "thrice", peer)
        found = peers.peer_values("thrice", TABLE, budget, 0)
        assert found.coalitions == distinct
        assert found.values == pytest.approx(np.full(5, TABLE[:distinct].mean()))

    def test_too_small_a_budget_gives_nothing(self, peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(peers.PEERS, "large", peers.Peer(lambda *_: np.zeros(5), least=9))
        assert peers.peer_values("large", TABLE, 8, 0) is None
        assert peers.peer_values("large", TABLE, 9, 0) is not None

    def test_one_that_takes_more_is_not_let_through(
        self, peers: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        greedy = peers.Peer(lambda game, calls, seed: first_masks(game, list(range(calls + 1))))
        monkeypatch.setitem(peers.PEERS, "greedy", greedy)
        with pytest.raises(RuntimeError, match="greedy evaluated 9 coalitions of 8"):
            peers.peer_values("greedy", TABLE, 8, 0)

    def test_the_step_from_nobody_may_be_taken_apart(
        self, peers: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The exact values are the same with and without: v(∅) counts −1/n for everybody."""
        asked = []

        def exact(game: Any, calls: int, seed: int) -> np.ndarray:
            asked.append(game.utilities[0])
            return fv.value(game.utilities, "exact").mean

        monkeypatch.setitem(peers.PEERS, "exact", peers.Peer(exact))
        plain, apart = (peers.peer_values("exact", TABLE, 32, 0, apart=yes).values for yes in (False, True))
        assert asked == pytest.approx([TABLE[0], TABLE[-1]])
        assert apart == pytest.approx(plain)


class TestTables:
    def test_the_best_peer_of_a_game_is_named(self, peers: Any) -> None:
        from _peer_tables import best_peer_table

        last = best_peer_table(ERRORS, "ours", ["A one", "B two", "C three"], ["8", "16"]).splitlines()[-1]
        assert last.split() == ["game", "0.50", "two", "–"]

    def test_only_namesakes_that_ran_are_compared(self, peers: Any) -> None:
        from _peer_tables import namesake_table, seconds_table

        errors = {
            (m, "8", g, s): 2.0 for m in ("permutation", "shapiq Permutation") for g in "ab" for s in (0, 1)
        }
        (row,) = namesake_table(errors, ["8"]).splitlines()[2:]
        assert row.split() == ["permutation", "/", "shapiq", "Permutation", "1.000", "±", "0.000"]
        assert seconds_table(ERRORS, ["ours"], ["8", "16"]).splitlines()[-1].split() == [
            "ours",
            "2.000",
            "–",
        ]


@needs_peers
@pytest.mark.filterwarnings("ignore")
class TestPeers:
    def test_each_is_held_to_the_budget(self, peers: Any) -> None:
        for name in peers.installed_peers():
            for seed in (0, 1):
                found = peers.peer_values(name, TABLE, 14, seed)
                assert 2 <= found.coalitions <= 14, name
                assert np.isfinite(found.values).all(), name

    @pytest.mark.parametrize("apart", [False, True])
    def test_those_that_count_coalitions_are_exact_with_all_of_them(self, peers: Any, apart: bool) -> None:
        truth = fv.value(TABLE, "exact").mean
        of_proxies = {
            "shapiq ProxySHAP",
            peers.SHAPLEIG,
        }  # what boosted trees or a Gaussian process say of it
        exact = [n for n in peers.installed_peers() if not peers.PEERS[n].repeats and n not in of_proxies]
        assert len(exact) > 8
        for name in exact:
            found = peers.peer_values(name, TABLE, 32, 0, apart=apart)
            assert found.values == pytest.approx(truth, abs=1e-3), name
