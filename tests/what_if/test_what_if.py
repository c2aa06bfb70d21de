"""What clients would be worth under other names, against games in which they have those names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import first_fast
from numpy.typing import NDArray
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.coalitions import membership
from fedvalue.estimators.exact import shapley_values
from fedvalue.what_if import Change, WhatIf, copies_once, what_if

Array = NDArray[np.float64]
N = 4
NAMES = tuple("abcd")


def table(seed: int = 0, n: int = N) -> Array:
    """Any game."""
    return np.random.default_rng(seed).normal(size=1 << n)


def asked(v: Array) -> WhatIf:
    n = len(v).bit_length() - 1
    values = fv.Values(shapley_values(n, v), tuple("abcdefgh")[:n], "exact", 1 << n, guarantee="exact")
    return what_if(values, {mask: [float(u)] for mask, u in enumerate(v)})


def changes(found: WhatIf, kind: str) -> dict[tuple[str, ...], Change]:
    return {change.clients: change for change in found.changes if change.kind == kind}


def in_two(v: Array, i: int, alone: float) -> Array:
    """The game in which client i is two, each of which adds the fraction `alone` of what i adds; the second comes last."""
    n = len(v).bit_length() - 1
    found = np.empty(2 << n)
    for mask in range(2 << n):
        others, parts = mask & ~(1 << i) & ((1 << n) - 1), (mask >> i & 1) + (mask >> n & 1)
        fraction = (0.0, alone, 1.0)[parts]
        found[mask] = v[others] + fraction * (v[others | 1 << i] - v[others])
    return found


class TestExactly:
    def test_a_copy_is_worth_what_it_is_in_the_game_with_the_copy(self) -> None:
        v = table()
        for i, name in enumerate(NAMES):
            wanted = shapley_values(N + 1, in_two(v, i, alone=1.0))
            found = changes(asked(v), "copied")[name,]
            assert found.high == found.low == pytest.approx(wanted[i] + wanted[N])
            assert found.now == pytest.approx(shapley_values(N, v)[i])

    @pytest.mark.parametrize("alone", [0.0, 0.3, 0.5, 1.0])
    def test_two_parts_are_worth_something_in_the_range(self, alone: float) -> None:
        v = table(1)
        for i, name in enumerate(NAMES):
            values = shapley_values(N + 1, in_two(v, i, alone))
            found = changes(asked(v), "in two parts")[name,]
            worth = values[i] + values[N]
            assert found.low - 1e-12 <= worth <= found.high + 1e-12
            if alone == 0.5:
                assert worth == pytest.approx(found.now)
            if alone in (0.0, 1.0):
                assert min(abs(worth - found.low), abs(worth - found.high)) < 1e-12

    def test_two_that_merge_are_worth_what_they_are_in_the_smaller_game(self) -> None:
        v = table(2)
        merged = np.array([v[(m & 1) * 0b101 | (m & 2) | (m & 4) << 1] for m in range(8)])  # a with c; b; d
        found = changes(asked(v), "merged")["a", "c"]
        assert found.high == pytest.approx(shapley_values(3, merged)[0])
        assert found.now == pytest.approx(shapley_values(N, v)[[0, 2]].sum())

    def test_replicates_give_an_interval_with_few_degrees_of_freedom(self) -> None:
        tables = np.array([table(seed) for seed in range(3)])
        mean = shapley_values(N, tables.mean(0))
        values = fv.Values(mean, NAMES, "exact", 16, guarantee="exact", replicates=3)
        found = what_if(values, {mask: tables[:, mask].tolist() for mask in range(16)})
        single = np.array([changes(asked(v), "copied")["a",].gain for v in tables])
        assert found.changes[0].gain == pytest.approx(single.mean())
        assert found.changes[0].half_width == pytest.approx(4.302653 * single.std(ddof=1) / np.sqrt(3))


class TestByTheSurrogate:
    def game(self, seed: int, luck: float) -> tuple[Array, Array]:
        n = 6
        inside, rng = membership(range(1 << n), n).astype(float), np.random.default_rng(seed)
        expected = 1 - np.exp(-inside @ rng.uniform(0.2, 1.2, n) / 2)
        rows = expected + luck * rng.standard_normal((16, 1 << n)) * (inside.sum(1) > 0)
        return rows, expected

    @pytest.mark.parametrize("seeds", first_fast([1, 8]))
    def test_its_intervals_hold_what_is_so(self, seeds: int, tmp_path: Path) -> None:
        held, width = [], []
        for run in range(3):
            rows, expected = self.game(run, luck=0.005 if seeds > 1 else 0.0)
            game = fv.TableGame(rows if seeds > 1 else rows[0])
            store = tmp_path / f"{run}.db"
            values = fv.value(game, "surrogate", budget=30, seed=run, store=store)
            found, wanted = what_if(values, store=store), asked(expected)
            assert found.source == "surrogate"
            for one, right in zip(found.changes, wanted.changes, strict=True):
                assert one.half_width is not None
                held.append(abs(one.gain - right.gain) <= one.half_width)
                width.append(one.half_width)
        assert np.mean(held) > 0.85
        assert np.mean(width) < 0.1

    def test_it_says_where_the_numbers_are_from(self, tmp_path: Path) -> None:
        rows, _ = self.game(0, 0.0)
        values = fv.value(fv.TableGame(rows[0]), "surrogate", budget=20, store=tmp_path / "s.db")
        assert "the surrogate estimates them" in str(what_if(values, store=tmp_path / "s.db"))
        exactly = asked(table())
        assert "follow from the game exactly" in str(exactly)
        for text in (str(exactly), exactly.to_markdown()):
            assert "what a part alone adds was not trained and is not known" in text
            assert "a copy is assumed to change nothing where its original is there" in text
        assert json.loads(json.dumps(exactly.to_dict()))["source"] == "exact"


class TestRefused:
    def test_too_many_clients(self) -> None:
        values = fv.Values(np.zeros(14), [f"c{i}" for i in range(14)], "surrogate", 2)
        with pytest.raises(fv.InputError, match="possible for up to 13"):
            what_if(values, {0: [0.0], (1 << 14) - 1: [1.0]})

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"groups": {"H": ("a", "b")}}, "Values in groups cannot be asked"),
            ({"unit": "loss of a round"}, "which trained coalitions do not show"),
        ],
    )
    def test_values_of_something_else(self, more: Any, message: str) -> None:
        values = fv.Values([1.0, 2.0], ("a", "b"), "exact", 4, guarantee="exact", **more)
        with pytest.raises(fv.InputError, match=message):
            what_if(values, {mask: [0.0] for mask in range(4)})

    def test_too_little_is_known(self) -> None:
        values = fv.Values([1.0, 2.0], ("a", "b"), "loo", 2)
        with pytest.raises(fv.InputError, match="were not both trained"):
            what_if(values, {3: [0.4], 1: [0.3]})


def copied(v: Array, original: int, copies: int = 1) -> Array:
    """The game in which a client has copies, which come last."""
    n = len(v).bit_length() - 1
    masks = np.arange(1 << n + copies)
    return v[masks & ((1 << n) - 1) | ((masks >> n > 0).astype(int) << original)]


class TestCopiesShareOnePart:
    @pytest.mark.parametrize("copies", [1, 2])
    def test_they_get_what_one_of_them_would_get(self, copies: int) -> None:
        rng = np.random.default_rng(5)
        inside = membership(range(32), 5).astype(float)
        v = 1 - np.exp(-inside @ rng.uniform(0.3, 1.2, 5) / 2)
        whole, n = copied(v, 1, copies), 5 + copies
        names = tuple("abcdefgh")[:n]
        values = fv.Values(shapley_values(n, whole), names, "exact", 1 << n, guarantee="exact")
        utilities = {mask: [float(u)] for mask, u in enumerate(whole)}
        once = copies_once(values, utilities)
        assert once.sets == (("b", *names[5:]),)
        assert once.values.mean == pytest.approx(shapley_values(5, v))
        alone = fv.payout(fv.Values(shapley_values(5, v), names[:5], "exact", 32, guarantee="exact"), 10000)
        shared = fv.payout(values, 10000, copies=once)
        each = fv.payout(values, 10000)
        of_copies = [float(line.amount) for line in shared.lines if line.name in once.sets[0]]
        assert sum(of_copies) == pytest.approx(float(alone.lines[1].amount), abs=0.02)
        assert max(of_copies) - min(of_copies) < 0.02
        assert sum(float(x.amount) for x in each.lines if x.name in once.sets[0]) > 1.1 * sum(of_copies)
        for one in (0, 2, 3, 4):  # nobody else loses by the copies
            assert float(shared.lines[one].amount) == pytest.approx(float(alone.lines[one].amount), abs=0.02)
        assert any("Interchangeable clients share one part" in sentence for sentence in shared.policy)

    def test_without_copies_everyone_is_paid_as_before(self) -> None:
        v = 1 - np.exp(-membership(range(16), 4).astype(float) @ np.array([0.2, 0.5, 0.8, 1.1]))
        values = fv.Values(shapley_values(4, v), NAMES, "exact", 16, guarantee="exact")
        once = copies_once(values, {mask: [float(u)] for mask, u in enumerate(v)})
        assert once.sets == ()
        assert fv.payout(values, 100, copies=once).lines == fv.payout(values, 100).lines

    @pytest.mark.parametrize("sets", [[["a"]], [["a", "x"]], [["a", "b"], ["b", "c"]]])
    def test_sets_that_make_no_sense(self, sets: Any) -> None:
        values = fv.Values(shapley_values(N, table()), NAMES, "exact", 16, guarantee="exact")
        with pytest.raises(fv.InputError, match="sets of two or more different clients"):
            copies_once(values, {mask: [float(u)] for mask, u in enumerate(table())}, sets=sets)

    def test_those_of_other_values(self) -> None:
        values = fv.Values([1.0, 1.0, 2.0], ("a", "b", "c"), "exact", 8, guarantee="exact")
        other = replace(values, names=("x", "y", "z"))
        once = copies_once(other, {mask: [float(mask.bit_count())] for mask in range(8)}, sets=[["x", "y"]])
        with pytest.raises(fv.InputError, match="not those of the values"):
            fv.payout(values, 100, copies=once)


def test_from_the_command_line(tmp_path: Path) -> None:
    data = fv.load_scenario("synthetic", clients=4, samples=20)
    twice = replace(data, clients=(*data.clients[:3], data.clients[2]), names=("a", "b", "c", "d"))
    out = tmp_path / "run"
    result = fv.run(twice, method="exact", replicates=2, out=out)
    assert result.what_if().source == "exact"
    printed = CliRunner().invoke(app, ["audit", str(out), "--what-if"])
    assert printed.exit_code == 0, printed.output
    assert "in two parts" in printed.output
    page = CliRunner().invoke(app, ["audit", str(out), "--what-if", "--md", "-"])
    assert "## What if" in page.output
    plain = CliRunner().invoke(app, ["audit", str(out), "--what-if", "--json", "-"])
    assert json.loads(plain.output)["what_if"]["source"] == "exact"
    paid = CliRunner().invoke(
        app, ["payout", str(out), "--pot", "1000", "--copies", "share", "--rule", "shift"]
    )
    assert "share one part" in paid.output.replace("\n", " ")
    assert result.payout(1000, "shift", copies="share").lines[2].share == pytest.approx(
        result.payout(1000, "shift", copies="share").lines[3].share
    )
    wrong = CliRunner().invoke(app, ["payout", str(out), "--pot", "1000", "--copies", "halve"])
    assert "each or share" in wrong.output
