"""Payouts: the rules, exact money, how firm the amounts are, and the command with what it writes."""

from __future__ import annotations

import csv
import io
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

import fedvalue as fv
from fedvalue._files import sealed
from fedvalue.cli import app
from fedvalue.payout import RULES, Payout, payout
from fedvalue.values import Values

DOCS = Path(__file__).parents[2] / "docs" / "payout.md"
ODD_NAMES = [
    "quote \" and ' and `tick`",
    "<script>alert(1)</script>",
    "Klinik 👩‍⚕️ Süd",
    "two\nlines\r\nhere",
    "a|b\\|c",
    '=HYPERLINK("http://evil.example")',
    "+1",
    "-1",
    "@cmd",
    "\x1b[31mred",
    "[bold]rich[/bold]",
]


def exact(*mean: float) -> Values:
    return Values(list(mean), [f"c{i}" for i in range(len(mean))], "exact", 8, guarantee="exact")


def estimated(mean: list[float], stderr: float | list[float], **more: Any) -> Values:
    names = [f"c{i}" for i in range(len(mean))]
    errors = np.broadcast_to(np.asarray(stderr, dtype=float), len(mean)).copy()
    return Values(mean, names, "surrogate", 32, stderr=errors, guarantee="biased", **more)


def amounts(found: Payout) -> list[str]:
    return [str(line.amount) for line in found.lines]


class TestRules:
    def test_proportional_pays_by_value(self) -> None:
        assert amounts(payout(exact(3, 1, 0), 100, "proportional")) == ["75.00", "25.00", "0.00"]

    def test_proportional_names_the_negative_values_that_it_refuses(self) -> None:
        with pytest.raises(fv.InputError, match=r"'c1' \(-0.5\), 'c2' \(-2\)") as error:
            payout(exact(3, -0.5, -2), 100, "proportional")
        assert "floor" in str(error.value)

    def test_floor_pays_negative_values_nothing(self) -> None:
        found = payout(exact(3, 1, -5), 100, "floor")
        assert amounts(found) == ["75.00", "25.00", "0.00"]
        assert [line.note for line in found.lines] == ["", "", "below zero"]

    def test_shift_lifts_everyone_by_the_same(self) -> None:
        assert amounts(payout(exact(2, 0, -1), 100, "shift")) == ["75.00", "25.00", "0.00"]

    def test_shift_speaks_of_no_group_where_there_is_none(self) -> None:
        assert [line.note for line in payout(exact(2, 0, -1), 100, "shift").lines] == [
            "",
            "",
            "the lowest value",
        ]
        assert [line.note for line in payout(exact(3, 2, 1), 100, "shift").lines] == [
            "",
            "",
            "the lowest value",
        ]

    def test_shift_pays_equal_values_equally(self) -> None:
        assert amounts(payout(exact(-2, -2, -2, -2), 100, "shift")) == ["25.00"] * 4

    def test_threshold_pays_only_what_is_surely_above_zero(self) -> None:
        found = payout(estimated([3, 1, 1, -3], [0.1, 0.1, 0.6, 0.1]), 100, "threshold")
        assert amounts(found) == ["75.00", "25.00", "0.00", "0.00"]
        assert [line.note for line in found.lines] == ["", "", "interval covers zero", "below zero"]

    def test_threshold_on_exact_values_is_floor(self) -> None:
        assert amounts(payout(exact(3, 1, -1), 100, "threshold")) == ["75.00", "25.00", "0.00"]

    def test_threshold_needs_intervals(self) -> None:
        with pytest.raises(fv.InputError, match="needs intervals, and the method 'loo' gives none"):
            payout(Values([1.0, 2.0], "ab", "loo", 4, guarantee="biased"), 100, "threshold")

    @pytest.mark.parametrize("parts", [{}, {"test": np.eye(2) * 1e-6}])
    def test_threshold_takes_nothing_for_certain_without_the_luck_of_training(self, parts: Any) -> None:
        one_seed = Values([1.0, 2.0], "ab", "exact", 4, guarantee="exact", random=True, parts=parts)
        with pytest.raises(fv.InputError, match="luck of training is not in the intervals"):
            payout(one_seed, 100, "threshold")
        known = Values(
            [0.1, 2.0], "ab", "exact", 4, guarantee="exact", random=True, parts={"training": np.eye(2) * 0.01}
        )
        assert amounts(payout(known, 100, "threshold")) == ["0.00", "100.00"]

    def test_rounding_errors_of_floats_are_not_negative_values(self) -> None:
        assert amounts(payout(exact(1, 1, -1e-17), 10, "proportional")) == ["5.00", "5.00", "0.00"]

    @pytest.mark.parametrize("rule", ["proportional", "floor", "threshold"])
    def test_a_rule_that_would_pay_nobody_says_what_to_do(self, rule: str) -> None:
        with pytest.raises(fv.InputError, match=r"pays nobody: no value is above zero.*shift"):
            payout(exact(0, 0), 100, rule)

    def test_all_negative(self) -> None:
        with pytest.raises(fv.InputError, match="pays nobody"):
            payout(exact(-1, -2), 100, "floor")
        assert amounts(payout(exact(-1, -2), 100, "shift")) == ["100.00", "0.00"]

    @pytest.mark.parametrize("rule", RULES)
    def test_one_client_gets_everything(self, rule: str) -> None:
        assert amounts(payout(exact(0.3), 99, rule)) == ["99.00"]

    @pytest.mark.parametrize("rule", RULES)
    def test_a_thousand_clients(self, rule: str) -> None:
        rng = np.random.default_rng(0)
        values = estimated(rng.uniform(0, 1, 1000).tolist(), 0.05)
        found = payout(values, "12345.67", rule, min_share="0.0004", draws=200)
        assert sum(line.amount for line in found.lines) == Decimal("12345.67")


class TestMinimumShare:
    def test_it_comes_from_the_others_in_proportion(self) -> None:
        found = payout(exact(6, 3, 1), 100, min_share="0.25")
        assert amounts(found) == ["50.00", "25.00", "25.00"]
        assert [line.note for line in found.lines][2] == "raised to the minimum share"

    def test_who_is_not_paid_by_the_rule_gets_none(self) -> None:
        assert amounts(payout(exact(9, 1, 0, -1), 100, min_share="0.2")) == ["80.00", "20.00", "0.00", "0.00"]

    def test_shift_pays_everyone(self) -> None:
        assert amounts(payout(exact(9, 1, -1), 100, "shift", min_share="0.2")) == ["60.00", "20.00", "20.00"]

    def test_all_of_the_pot_may_be_promised(self) -> None:
        assert amounts(payout(exact(*range(1, 11)), 100, min_share=0.1)) == ["10.00"] * 10

    @pytest.mark.parametrize("share", [0.34, -0.1, 1.1, "many"])
    def test_impossible_ones_are_refused(self, share: Any) -> None:
        with pytest.raises(fv.InputError, match="minimum share"):
            payout(exact(1, 2, 3), 100, min_share=share)


class TestMoney:
    def test_a_lower_value_is_not_rounded_above_a_higher_one(self) -> None:
        """Both are raised to the same minimum, and a single cent is left."""
        assert amounts(payout(exact(1, 2, 1000), "1.50", min_share="0.25")) == ["0.37", "0.38", "0.75"]

    def test_ties_go_to_the_client_listed_first(self) -> None:
        assert amounts(payout(exact(1, 1, 1), 100)) == ["33.34", "33.33", "33.33"]

    def test_other_steps(self) -> None:
        assert amounts(payout(exact(1, 1, 1), 1000, step=5)) == ["335", "335", "330"]
        assert amounts(payout(exact(1, 2), 1, step="0.001")) == ["0.333", "0.667"]

    @pytest.mark.parametrize("pot", [0, -1, "0.00"])
    def test_a_pot_must_hold_something(self, pot: Any) -> None:
        with pytest.raises(fv.InputError, match="more than 0"):
            payout(exact(1), pot)

    @pytest.mark.parametrize("pot", ["a lot", "nan", float("inf"), "1,000"])
    def test_a_pot_is_a_number(self, pot: Any) -> None:
        with pytest.raises(fv.InputError, match="plain number"):
            payout(exact(1), pot)

    def test_a_pot_must_be_a_multiple_of_the_step(self) -> None:
        with pytest.raises(fv.InputError, match=r"Pay out 10.00 or 10.01"):
            payout(exact(1), "10.005")
        with pytest.raises(fv.InputError, match="step above 0"):
            payout(exact(1), 10, step=0)
        with pytest.raises(fv.InputError, match="Round less finely"):
            payout(exact(1), 10**9, step="0.000000001")

    @pytest.mark.parametrize("field", ["mean", "stderr"])
    def test_nan_is_refused_by_name(self, field: str) -> None:
        values = estimated([1.0, 2.0], [0.1, 0.1])
        object.__setattr__(values, field, np.array([1.0, np.nan]))  # nobody can by accident
        with pytest.raises(fv.InputError, match=r"finite number. That of 'c1'"):
            payout(values, 100)

    def test_unknown_rules_and_odd_currencies(self) -> None:
        with pytest.raises(fv.InputError, match="Rules: proportional, floor"):
            payout(exact(1), 100, "fair")
        with pytest.raises(fv.InputError, match="currency"):
            payout(exact(1), 100, currency="EUR\n\n# Free money")

    # Six decimals: next to 100, smaller ones would count as rounding errors.
    values_lists = st.lists(st.floats(-100, 100).map(lambda x: round(x, 6)), min_size=1, max_size=12)

    @given(values_lists, st.integers(1, 10**7), st.sampled_from(["floor", "shift"]), st.floats(0, 0.08))
    def test_amounts_add_up_to_the_pot(self, mean: list[float], cents: int, rule: str, least: float) -> None:
        if rule == "floor" and max(mean) <= 0:
            return
        pot = Decimal(cents) / 100
        found = payout(exact(*mean), pot, rule, min_share=least)
        assert sum(line.amount for line in found.lines) == pot
        assert all(line.amount >= 0 for line in found.lines)
        promised = Decimal(str(least)) * pot - Decimal("0.01")
        paid = [
            line for line in found.lines if rule == "shift" or not line.note.startswith(("below", "zero"))
        ]
        assert all(line.amount >= promised for line in paid)

    @given(values_lists, st.integers(1, 10**6))
    def test_floor_never_pays_less_for_more(self, mean: list[float], cents: int) -> None:
        if max(mean) <= 0:
            return
        lines = payout(exact(*mean), Decimal(cents) / 100, min_share="0.05").lines
        for a in lines:
            assert all(a.amount >= b.amount for b in lines if a.value > b.value)

    @given(
        st.permutations(range(6)),
        st.lists(st.floats(-1, 5).map(lambda x: round(x, 6)), min_size=6, max_size=6, unique=True),
    )
    def test_the_order_of_clients_does_not_matter(self, order: list[int], mean: list[float]) -> None:
        if max(mean) <= 0:
            return
        one = payout(exact(*mean), 1000)
        other = payout(exact(*(mean[i] for i in order)), 1000)
        for place, i in enumerate(order):
            apart = abs(one.lines[i].amount - other.lines[place].amount)
            assert apart <= Decimal("0.01")  # equal remainders are dealt by order


class TestStability:
    def test_ranges_follow_the_errors(self) -> None:
        found = payout(estimated([2.0, 2.0], 0.1, covariance=np.eye(2) * 0.01), 100)
        for line in found.lines:
            assert line.low is not None
            assert line.high is not None
            # A share a/(a+b) errs by about 0.1·√2/4/2 of 100 percent points.
            assert 45 < line.low < 47.5 < 52.5 < line.high < 55
        assert found.stability.draws == 4000
        assert "4,000 payouts" in found.stability.statement

    def test_replicates_give_ranges_everywhere(self) -> None:
        game = fv.run("synthetic", clients=3, samples=20, method="exact", replicates=3)
        found = game.payout(1000)
        line = found.lines[-1]
        assert line.low is not None
        assert line.high is not None
        assert line.low < line.amount < line.high
        for text in (str(found), found.to_markdown()):
            assert f"{found.text(line.low)} – {found.text(line.high)}" in text

    def test_errors_that_move_together_leave_shares_alone(self) -> None:
        together = payout(estimated([2.0, 2.0], 0.1, covariance=np.full((2, 2), 0.01)), 100).lines[0]
        assert together.low == together.high == Decimal("50.00")

    def test_it_is_the_same_every_time(self) -> None:
        values = estimated([2.0, 1.0, 0.1], 0.3, dof=[3.0, 4.0, np.inf])
        assert payout(values, 100).to_dict() == payout(values, 100).to_dict()

    def test_without_covariance_errors_are_said_to_be_taken_as_independent(self) -> None:
        found = payout(estimated([2.0, 1.0], 0.5), 100)
        assert "independent" in found.stability.statement
        order = found.stability.orders[0] if found.stability.orders else None
        assert order is not None
        assert order.at_most
        assert order.wrong == pytest.approx(0.1587, abs=1e-3)  # one standard error apart at worst

    def test_with_covariance_the_order_has_its_probability(self) -> None:
        found = payout(estimated([2.0, 1.0], 0.5, covariance=np.eye(2) * 0.5), 100)
        assert found.stability.orders is not None
        assert found.stability.orders[0].wrong == pytest.approx(0.1587, abs=1e-3)
        assert not found.stability.orders[0].at_most
        assert "c0 above c1 16%" in found.to_markdown()

    def test_no_interval_is_invented(self) -> None:
        found = payout(Values([1.0, 2.0], "ab", "loo", 4, guarantee="biased"), 100)
        assert found.stability.ranges is None
        assert found.stability.orders is None
        assert "gives no interval" in found.stability.statement
        assert [line.low for line in found.lines] == [None, None]

    def test_exact_values_move_nothing_and_ties_are_named(self) -> None:
        found = payout(exact(1, 1, 2), 100)
        assert "exact" in found.stability.statement
        assert "Equal in value: c0 and c1." in found.to_markdown()

    @pytest.mark.parametrize("part", ["training", "test"])
    def test_orders_of_exact_values_are_news_where_the_luck_of_training_is_in_them(self, part: str) -> None:
        values = Values(
            [1.0, 2.0], "ab", "exact", 20, guarantee="exact", random=True, parts={part: np.eye(2) * 1e-4}
        )
        said = "The order of two neighbours is wrong with a probability below 5%."
        assert (said in payout(values, 100).to_markdown()) == (part == "training")

    def test_draws_in_which_nobody_is_paid_are_counted(self) -> None:
        found = payout(estimated([0.1, -0.2], 0.5), 100)
        assert 0.1 < found.stability.pays_nobody < 0.6
        assert "pays nobody" in found.stability.statement

    def test_few_such_draws_are_not_called_none(self) -> None:
        found = payout(estimated([0.1, 0.1], 0.057), 100)
        assert 0 < found.stability.pays_nobody < 0.0005
        assert "In less than 0.1% of the draws" in found.stability.statement

    def test_too_few_draws_are_refused(self) -> None:
        with pytest.raises(fv.InputError, match="at least 100 draws"):
            payout(exact(1), 100, draws=5)


class TestFiles:
    @pytest.fixture
    def odd(self) -> Payout:
        mean = [float(i + 1) for i in range(len(ODD_NAMES))]
        return payout(Values(mean, ODD_NAMES, "exact", 8, guarantee="exact"), 1000, currency="EUR")

    def test_json_keeps_names_and_amounts_as_they_are(self, odd: Payout) -> None:
        data = json.loads(json.dumps(odd.to_dict()))
        assert [line["client"] for line in data["lines"]] == ODD_NAMES
        assert sum(Decimal(line["amount"]) for line in data["lines"]) == Decimal(data["pot"]) == 1000

    def test_csv_holds_no_formulas(self, odd: Payout) -> None:
        rows = list(csv.DictReader(io.StringIO(odd.to_csv(), newline="")))
        assert len(rows) == len(ODD_NAMES)
        assert sum(Decimal(row["payout"]) for row in rows) == 1000
        for row, name in zip(rows, ODD_NAMES, strict=True):
            assert row["client"].removeprefix("'") == name
            assert not row["client"].startswith(("=", "+", "-", "@", "\t", "\r"))
        assert rows[5]["client"].startswith("'=")
        assert rows[0]["client"] == ODD_NAMES[0]

    def test_markdown_shows_names_and_renders_none_of_them(self, odd: Payout) -> None:
        text = odd.to_markdown()
        table = [line for line in text.splitlines() if line.startswith("|")]
        assert len(table) == len(ODD_NAMES) + 3
        assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table} == {7}  # columns, no more
        assert "<script" not in text
        assert "http://" not in text
        assert "\x1b" not in text
        assert "👩‍⚕️" in text
        assert "**1,000.00**" in text
        assert "## Policy" in text

    def test_the_policy_is_written_out(self) -> None:
        said = " ".join(payout(exact(1, 2), "1000", "floor", "0.1", currency="EUR").policy)
        assert "1,000 EUR" in said
        assert "below zero are paid nothing" in said
        assert "at least 0.1 of the pot" in said
        assert "multiples of 0.01 EUR" in said


class TestCommand:
    @pytest.fixture
    def values_file(self, tmp_path: Path) -> Path:
        path = tmp_path / "values.json"
        values = Values([3.0, 1.0, -1.0], ["Ann", "=Bob", "C\x1b[31m\nyd"], "exact", 8, guarantee="exact")
        return values.save(path)

    def run(self, *args: object) -> Result:
        return CliRunner().invoke(app, ["payout", *map(str, args)])

    def output(self, *args: object) -> str:
        found = self.run(*args)
        assert found.exit_code == 0, found.output
        assert found.stderr == ""
        return found.stdout

    def failure(self, *args: object) -> str:
        found = self.run(*args)
        assert found.exit_code == 2, found.output
        assert found.stdout == ""
        return found.stderr

    def test_the_table(self, values_file: Path) -> None:
        text = self.output(values_file, "--pot", 100000, "--currency", "EUR")
        assert re.search(r"Ann +\+3\.0000 +75\.0% +75,000\.00", text)
        assert "total" in text
        assert "\x1b" not in text
        assert "rule floor" in text
        assert self.output(values_file.parent, "--pot", 100000, "--currency", "EUR") == text

    def test_every_format_goes_to_a_file_or_to_stdout_alone(self, values_file: Path, tmp_path: Path) -> None:
        parsed = json.loads(self.output(values_file, "--pot", 100, "--json", "-"))
        assert [line["amount"] for line in parsed["lines"]] == ["75.00", "25.00", "0.00"]
        assert self.output(values_file, "--pot", 100, "--md", "-").startswith("# Payout")
        assert self.output(values_file, "--pot", 100, "--csv", "-").startswith("client,value")
        files = {kind: tmp_path / f"out.{kind}" for kind in ("json", "csv", "md")}
        options = [part for kind, path in files.items() for part in (f"--{kind}", path)]
        assert "Written to" in self.output(values_file, "--pot", 100, *options)
        assert all(path.stat().st_size for path in files.values())
        assert "Only one format" in self.failure(values_file, "--pot", 100, "--json", "-", "--csv", "-")
        assert "no such folder" in self.failure(values_file, "--pot", 100, "--csv", tmp_path / "no" / "x.csv")

    def test_rules_and_rounding_are_options(self, values_file: Path) -> None:
        text = self.output(
            values_file, "--pot", 100, "--rule", "shift", "--min-share", 0.2, "--round", 1, "-q"
        )
        assert [line.split()[-1] for line in text.splitlines()[1:3]] == ["53", "27"]

    def test_bad_input_is_explained(self, values_file: Path, tmp_path: Path) -> None:
        assert "There is no file" in self.failure(tmp_path / "none.json", "--pot", 1)
        (tmp_path / "empty").mkdir()
        assert "holds no values.json" in self.failure(tmp_path / "empty", "--pot", 1)
        assert "more than 0" in self.failure(values_file, "--pot", -1)
        assert "Rules:" in self.failure(values_file, "--pot", 1, "--rule", "fair")
        assert "cannot pay negative" in self.failure(values_file, "--pot", 1, "--rule", "proportional")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("not json", "does not hold JSON"),
            ("\udcff".encode("utf-8", "surrogateescape").decode("latin-1"), "does not hold JSON"),
            ("[1, 2]", "Expected values in the format"),
            (json.dumps(sealed({"format": "fedvalue.values/1"})), "fedvalue.values/1"),
            (json.dumps(sealed({"format": "fedvalue.values/2", "mean": [1]})), "missing"),
            (
                json.dumps(sealed({**exact(1.0, 2.0).to_dict(), "mean": [1.0, None]})),
                "finite number. That of 'c1'",
            ),
            (json.dumps(sealed({**exact(1.0, 2.0).to_dict(), "mean": [1.0]})), "one number per name"),
        ],
    )
    def test_files_that_hold_no_values(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "odd.json"
        path.write_text(text, encoding="utf-8")
        assert message in self.failure(path, "--pot", 1)


def test_every_rule_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert [rule for rule in RULES if f"### {rule}" not in text] == []


def test_exact_values_of_one_seed_whose_luck_is_not_known() -> None:
    values = fv.Values([3.0, 1.0], ("a", "b"), "exact", 4, guarantee="exact", random=True)
    found = fv.payout(values, 100)
    assert found.stability.orders is None
    assert "Another seed would change them" in found.stability.statement


@pytest.mark.parametrize("pot", ["1_000", "\u0661\u0660\u0660", "１００"])
def test_a_pot_is_written_in_plain_digits(pot: str) -> None:
    values = fv.Values([1.0, 1.0], ["a", "b"], "exact", 4)
    with pytest.raises(fv.InputError, match="plain number"):
        fv.payout(values, pot)
