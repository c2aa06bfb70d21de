"""Clients in groups: Owen values from every path, paid group by group."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from marks import first_fast
from numpy.typing import NDArray
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.coalitions import membership
from fedvalue.estimators import ESTIMATORS
from fedvalue.weights import owen

Array = NDArray[np.float64]
GROUPS = {"Holding": ["a", "d"], "Union": ["b", "e", "f"]}
NAMES = tuple("abcdefgh")
N = len(NAMES)
INSIDE = membership(range(1 << N), N).astype(float)
NOBODY_TOGETHER = tuple((i,) for i in range(N))


def federation(seed: int, luck: float = 0.01) -> tuple[Array, Array]:
    """Utilities of a saturating game that is trained with 16 seeds, and what is to be expected of them."""
    rng = np.random.default_rng(seed)
    size = INSIDE.sum(1)
    expected = (
        1 - np.exp(-INSIDE @ rng.uniform(0.2, 1.5, N) / 2) + 0.01 * rng.standard_normal(1 << N) * (size > 0)
    )
    tied = INSIDE @ rng.standard_normal((N, 16)) / np.maximum(size, 1)[:, None]
    rows = expected + luck * (tied.T + rng.standard_normal((16, 1 << N)) * (size > 0))
    return rows, expected


def truth(table: Array) -> Array:
    return owen(N, fv.Values(np.zeros(N), NAMES, "", 0, groups=GROUPS).blocks).apply(table)


class TestValues:
    def test_exact(self) -> None:
        _, expected = federation(0)
        values = fv.value(fv.TableGame(expected, names=NAMES), "exact", groups=GROUPS)
        assert values.mean == pytest.approx(truth(expected))
        assert values.groups == {name: tuple(of) for name, of in GROUPS.items()}
        whole = values.of_groups()
        assert whole.names == ("Holding", "Union", "c", "g", "h")
        assert whole.mean.sum() == pytest.approx(expected[-1] - expected[0])
        assert whole.stderr is None or not whole.stderr.any()

    def test_exact_over_several_seeds_knows_its_error(self) -> None:
        rows, _ = federation(0)
        values = fv.value(fv.TableGame(rows, names=NAMES), "exact", groups=GROUPS)
        of_rows = np.array([truth(row) for row in rows])
        assert values.mean == pytest.approx(of_rows.mean(0))
        assert values.stderr == pytest.approx(of_rows.std(0, ddof=1) / 4)
        assert values.of_groups().stderr is not None

    @pytest.mark.parametrize("method", first_fast(["surrogate", "surrogate-adaptive"]))
    @pytest.mark.parametrize("seeds", first_fast([1, 8]))
    def test_the_surrogate_without_groups_is_what_it_is_with_groups_of_one(
        self, method: str, seeds: int
    ) -> None:
        rows, _ = federation(1)
        plan = ESTIMATORS[method].plan
        assert plan is not None
        found = []
        for groups in (None, NOBODY_TOGETHER):
            going = plan(
                N,
                40,
                np.random.default_rng(0),
                most_seeds=seeds,
                weights=None if groups is None else owen(N, groups),
            )
            ask = next(going)
            try:
                while True:
                    ask = going.send(
                        np.array([rows[t[1], t[0]] if isinstance(t, tuple) else rows[0, t] for t in ask])
                    )
            except StopIteration as done:
                found.append(done.value)
        one, other = found
        assert other.mean == pytest.approx(one.mean, abs=1e-10)
        assert other.covariance == pytest.approx(one.covariance, rel=1e-6, abs=1e-12)
        assert other.parts.get("training", 0) == pytest.approx(
            one.parts.get("training", 0), rel=1e-6, abs=1e-12
        )
        assert other.forecast == pytest.approx(one.forecast, abs=1e-3)
        told = np.random.default_rng(0).normal(size=(41 if seeds > 1 else 40, 3))
        assert other.linear(told) == pytest.approx(one.linear(told), abs=1e-7)

    @pytest.mark.parametrize("run", first_fast(range(12)))
    def test_intervals_of_the_surrogate_hold_owen_values(self, run: int) -> None:
        rows, expected = federation(run)
        values = fv.value(fv.TableGame(rows, names=NAMES), budget=48, seed=run, groups=GROUPS)
        interval = values.interval()
        assert interval is not None
        wanted = truth(expected)
        assert ((interval[:, 0] <= wanted) & (wanted <= interval[:, 1])).mean() >= 0.5
        assert np.abs(values.mean - wanted).mean() < 0.015
        assert values.mean.sum() == pytest.approx(values.utility_of_all, abs=1e-9)

    def test_what_was_trained_is_used_with_other_groups(self, tmp_path: Path) -> None:
        rows, _ = federation(2)
        game = fv.TableGame(rows, names=NAMES)
        fv.value(game, budget=40, store=tmp_path / "s.db")
        again = fv.value(game, budget=40, store=tmp_path / "s.db", groups=GROUPS)
        assert again.cost is not None
        assert again.cost.trained == 0

    def test_methods_that_cannot_say_so(self) -> None:
        with pytest.raises(
            fv.MethodError, match=r"ipss cannot value clients in groups. Methods that can: exact, surr"
        ):
            fv.value(fv.TableGame(federation(0)[1], names=NAMES), "ipss", budget=30, groups=GROUPS)

    def test_json_keeps_them(self) -> None:
        values = fv.value(fv.TableGame(federation(0)[1], names=NAMES), "exact", groups=GROUPS)
        again = fv.Values.from_dict(json.loads(json.dumps(values.to_dict())))
        assert again.groups == values.groups
        with pytest.raises(fv.InputError, match="a client that they are not of: 'x'"):
            fv.Values([1.0], ("a",), "exact", 2, groups={"H": ("a", "x")})


class TestRuns:
    def test_same_data_counts_as_equal_in_one_group_only(self) -> None:
        data = fv.load_scenario("synthetic", clients=4, samples=20)
        same = replace(data, clients=(*[data.clients[0]] * 3, data.clients[1]), names=tuple("abcd"))
        values = fv.run(same, method="exact", groups={"H": ["a", "b"]}).values
        assert values.mean[0] == pytest.approx(values.mean[1])
        assert values.mean[2] != pytest.approx(values.mean[0])

    def test_the_command_the_page_and_the_payout(self, tmp_path: Path) -> None:
        out = tmp_path / "run"
        command = [
            "run", "--no-config", "--scenario", "synthetic", "--clients", "4", "--samples", "20", "--exact", "--group",
            "Holding=client-0,client-2", "--out", str(out),
        ]  # fmt: skip
        printed = CliRunner().invoke(app, command)
        assert printed.exit_code == 0, printed.output
        assert "these are Owen values" in printed.output.replace("\n", " ")
        record = json.loads((out / "run.json").read_text())
        assert record["groups"] == {"Holding": ["client-0", "client-2"]}
        page = (out / "report.html").read_text()
        assert "join as one party" in page
        assert "--group Holding=client-0,client-2" in page
        paid = CliRunner().invoke(app, ["payout", str(out), "--pot", "1000", "--rule", "shift"])
        assert "Groups are paid as one party: Holding (client-0, client-2)" in paid.output.replace("\n", " ")
        other = CliRunner().invoke(app, [*command[:-4], "--out", str(out)])
        assert other.exit_code != 0
        assert "groups" in other.output

    def test_the_other_side_computes_them_again(self, tmp_path: Path) -> None:
        groups = {"Holding": ["client-0", "client-2"]}
        fv.run("synthetic", clients=4, samples=20, method="exact", groups=groups, out=tmp_path / "run")
        said = str(fv.verify(tmp_path / "run"))
        assert "computed again by exact from the store, they are the same to the last bit" in said
        assert "Nothing is wrong" in said

    @pytest.mark.parametrize("text", ["Holding", "=a,b", "H=a,b --group H=c"])
    def test_a_group_is_written_in_one_way(self, text: str) -> None:
        given = ["run", "--no-config", "--scenario", "synthetic", "--group", *text.split()]
        printed = CliRunner().invoke(app, given)
        assert printed.exit_code == 2
        assert "roup" in printed.output


class TestPayout:
    NAMES = ("a", "b", "c", "d")

    def values(self, *mean: float, **more: object) -> fv.Values:
        return fv.Values(
            list(mean), self.NAMES, "exact", 16, guarantee="exact", groups={"H": ("a", "b")}, **more
        )  # type: ignore[arg-type]

    def amounts(self, *mean: float, rule: str = "floor") -> list[str]:
        found = fv.payout(self.values(*mean), 100, rule)
        assert sum(line.amount for line in found.lines) == Decimal(100)
        return [str(line.amount) for line in found.lines]

    def test_the_group_first_then_its_members(self) -> None:
        assert self.amounts(3, 1, 4, 2) == ["30.00", "10.00", "40.00", "20.00"]

    def test_a_member_below_zero_costs_its_group_and_gets_nothing(self) -> None:
        assert self.amounts(3, -1, 2, 0) == ["50.00", "0.00", "50.00", "0.00"]
        line = fv.payout(self.values(3, -1, 2, 0), 100).lines[1]
        assert line.note == "below zero in its group"

    def test_a_group_below_zero_gets_nothing(self) -> None:
        assert self.amounts(1, -2, 2, 2) == ["0.00", "0.00", "50.00", "50.00"]

    def test_a_member_above_zero_hears_that_its_group_is_below(self) -> None:
        from fedvalue.report import Terms, gather

        values = self.values(1, -2, 2, 2)
        assert [line.note for line in fv.payout(values, 100).lines[:2]] == ["its group: below zero"] * 2
        for rule, why in (
            ("floor", "because the value of its group is below zero."),
            ("shift", "because no other has a lower value than its group"),
        ):
            told = gather(values, terms=Terms("100", "EUR", rule)).statements
            one = next(one for one in told if one.client.name == "a")
            assert why in one.paragraphs[0]
            assert "because its value is below zero" not in " ".join(one.paragraphs)

    def test_where_no_member_is_above_zero_they_share_equally(self) -> None:
        assert self.amounts(-1, -1, -3, 2, rule="shift") == ["8.33", "8.33", "0.00", "83.34"]

    def test_ranges_are_those_of_groups(self) -> None:
        covariance = np.array([[1, -1, 0, 0], [-1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]) * 0.25
        found = fv.payout(self.values(3, 1, 4, 2, parts={"coalitions": covariance}), 100)
        group, c = found.lines[:2], found.lines[2]
        assert c.low == c.high == c.amount  # what moves within the group moves nobody else
        assert all(line.low is not None and line.low < line.amount for line in group)
        assert found.stability.orders is not None
        assert {order.above for order in found.stability.orders} <= {"H", "c", "d"}
