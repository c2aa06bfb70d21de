"""Money over periods: nothing appears or vanishes, nobody gains by rounding, debts and escrow are what was agreed."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedvalue.errors import InputError
from fedvalue.payout import payout
from fedvalue.periods import Account, Balances, Settlement
from fedvalue.periods._balances import settle
from fedvalue.values import Values

NAMES = ("a", "b", "c", "d")


def of(mean: list[float], names: tuple[str, ...] = NAMES, **more: Any) -> Values:
    return Values(mean, names[: len(mean)], "exact", 8, guarantee="exact", **more)


def paid(values: Values, pot: Any, before: Balances | None = None, **more: Any) -> Settlement:
    before = before or Balances()
    step, rule = more.pop("step", "0.01"), more.pop("rule", "floor")
    pot = Decimal(str(pot))
    return settle(payout(values, pot + before.reserve, rule, 0, step), pot, before, **more)


def check(settled: Settlement, step: Decimal) -> None:
    """What must hold whatever happened."""
    lines = settled.lines
    assert sum(line.earned for line in lines) == settled.pot + settled.reserve_before
    for line in lines:
        assert line.earned == line.paid - line.released + line.to_escrow + line.held
        assert min(line.earned, line.owes, line.held, line.to_escrow, line.released, line.paid) >= 0
        assert min(line.after.debt, line.after.escrow) >= 0
        assert all(
            amount % step == 0 for amount in (line.earned, line.owes, line.held, line.paid, line.to_escrow)
        )
    assert settled.after.reserve == sum(line.held for line in lines)


class TestOnePeriod:
    def test_without_anything_carried_over_it_is_the_payout(self) -> None:
        values = of([3.0, 1.0, -0.5, 0.0])
        settled = paid(values, 100)
        assert [line.paid for line in settled.lines] == [line.amount for line in payout(values, 100).lines]
        check(settled, Decimal("0.01"))

    def test_who_is_below_zero_owes_as_much_as_it_would_have_earned_above(self) -> None:
        settled = paid(of([3.0, 1.0, -0.5]), 100, debts="carry")
        assert [line.owes for line in settled.lines] == [0, 0, Decimal("11.11")]
        assert settled.after.of("c").debt == Decimal("11.11")
        assert paid(of([3.0, 1.0, -0.5]), 100).after.of("c").debt == 0

    def test_nobody_owes_more_than_the_pot(self) -> None:
        """However little those above zero are worth."""
        settled = paid(of([0.001, -0.5, 0.0005]), 1000, debts="carry")
        assert settled.after.of("b").debt == Decimal("997.01")

    def test_only_who_is_surely_below_zero_owes_by_the_rule_threshold(self) -> None:
        values = of([3.0, -0.5, -2.0], stderr=[0.1, 1.0, 0.1])
        settled = paid(values, 100, rule="threshold", debts="carry")
        assert [line.owes > 0 for line in settled.lines] == [False, False, True]

    @pytest.mark.parametrize(
        ("more", "match"),
        [
            ({"debts": "never"}, "debts must be forgive or carry"),
            ({"debts": "carry", "rule": "shift"}, "with the rules floor and threshold"),
            ({"escrow": ["x"]}, "escrow names clients without an account: x"),
            ({"release": ["x"]}, "release names clients without an account"),
            ({"escrow": ["a"], "release": ["a"]}, "'a' is to be kept in escrow and to be released"),
        ],
    )
    def test_terms_that_cannot_be_are_refused(self, more: dict[str, Any], match: str) -> None:
        with pytest.raises(InputError, match=match):
            paid(of([1.0, 1.0]), 10, **more)


class TestOverPeriods:
    def test_a_debt_is_held_against_what_is_earned_later_and_shared_out_then(self) -> None:
        first = paid(of([1.0, 1.0, -1.0]), 100, debts="carry")
        assert first.after.of("c").debt == Decimal("33.33")
        second = paid(of([1.0, 1.0, 2.0]), 100, first.after, debts="carry")
        c = second.lines[2]
        assert (c.earned, c.held, c.paid, c.after.debt) == (50, Decimal("33.33"), Decimal("16.67"), 0)
        assert second.after.reserve == Decimal("33.33")
        third = paid(of([1.0, 1.0, 1.0]), 100, second.after, debts="carry")
        assert sum(line.earned for line in third.lines) == Decimal("133.33")
        assert third.after.reserve == 0

    def test_what_is_in_escrow_is_released_later_also_to_one_who_left(self) -> None:
        first = paid(of([1.0, 1.0]), 100, escrow=["b"])
        assert "In escrow: what b earns is held back until a later period releases it." in first.policy
        assert [line.paid for line in first.lines] == [50, 0]
        second = paid(of([1.0]), 100, first.after, release=["b"])
        assert {line.name: line.paid for line in second.lines} == {"a": 100, "b": 50}
        assert second.after.of("b").escrow == 0

    def test_nobody_gains_by_rounding(self) -> None:
        """A cent that cannot be divided by three goes to each of them in turn."""
        after, got = Balances(), dict.fromkeys("abc", Decimal(0))
        for _ in range(30):
            settled = paid(of([1.0, 1.0, 1.0]), "0.01", after)
            after = settled.after
            for line in settled.lines:
                got[line.name] += line.paid
        assert got == dict.fromkeys("abc", Decimal("0.10"))

    @pytest.mark.slow
    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def test_nothing_appears_or_vanishes_whatever_happens(self, data: st.DataObject) -> None:
        step = Decimal(data.draw(st.sampled_from(["0.01", "1", "5"])))
        after, total, out = Balances(), Decimal(0), Decimal(0)
        due = dict.fromkeys(NAMES, Fraction(0))
        for _ in range(data.draw(st.integers(1, 5))):
            names = tuple(data.draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True)))
            mean = data.draw(st.lists(st.floats(-1, 1), min_size=len(names), max_size=len(names)))
            mean[0] = abs(mean[0]) + 0.1
            pot = step * data.draw(st.integers(1, 10**6))
            known = sorted({*names, *after.accounts})
            escrow = data.draw(st.lists(st.sampled_from(names), unique=True))
            release = [n for n in data.draw(st.lists(st.sampled_from(known), unique=True)) if n not in escrow]
            debts = data.draw(st.sampled_from(["forgive", "carry"]))
            more = {"debts": debts, "escrow": escrow, "release": release, "step": step}
            settled = paid(of(mean, names), pot, after, **more)
            check(settled, step)
            assert all(line.owes <= pot for line in settled.lines)
            shares = {line.name: Fraction(line.share) for line in settled.lines}
            for name, share in shares.items():
                due[name] += share / sum(shares.values()) * Fraction(pot + after.reserve)
            for line in settled.lines:
                due[line.name] -= Fraction(line.earned)
            after, total = settled.after, total + pot
            out += sum(line.paid for line in settled.lines)
            again = Balances.from_plain(after.to_plain())
            assert again == after
        kept = sum((account.escrow for account in after.accounts.values()), Decimal(0)) + after.reserve
        assert total == out + kept
        for name, left in due.items():  # what is carried over is what rounding withheld, and not much
            assert abs(after.of(name).rounding - left / Fraction(step)) < Fraction(1, 10**6)
            assert abs(after.of(name).rounding) < len(NAMES)

    def test_accounts_go_on_under_another_name(self) -> None:
        before = Balances({"a": Account(Decimal(5))}, Decimal(1))
        assert before.renamed({"a": "z"}) == Balances({"z": Account(Decimal(5))}, Decimal(1))
