"""Audits: what they find in games that are known to have it, and that they find nothing elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import first_fast
from numpy.typing import NDArray
from typer.testing import CliRunner, Result

import fedvalue as fv
from fedvalue._files import sealed
from fedvalue.audit import Audit, audit
from fedvalue.cli import app
from fedvalue.coalitions import mask_of, membership
from fedvalue.estimators.exact import shapley_values
from fedvalue.values import Values

Array = NDArray[np.float64]
N = 8
INSIDE = membership(range(1 << N), N).astype(float)


def kinds(found: Audit) -> list[tuple[str, tuple[str, ...]]]:
    return [(finding.kind, finding.clients) for finding in found.findings]


def saturating(rng: np.random.Generator, inside: Array = INSIDE) -> Array:
    """Ordinary clients: everyone adds something, the later the less."""
    weights = rng.uniform(0.5, 1.5, inside.shape[1])
    noise = 0.004 * rng.standard_normal(len(inside))
    noise[0] = 0.0
    return 1 - np.exp(-inside @ weights / 2) + noise


def audited(runs: Array, level: float = 0.05) -> Audit:
    """The audit of exact values; `runs` has a row per replicate."""
    runs = np.atleast_2d(runs)
    n = runs.shape[1].bit_length() - 1
    mean = shapley_values(n, runs.mean(axis=0))
    values = Values(mean, [f"c{i}" for i in range(n)], "exact", 1 << n, guarantee="exact")
    return audit(values, {mask: runs[:, mask].tolist() for mask in range(1 << n)}, level=level)


def sampled(table: Array, method: str, budget: int, seed: int) -> Audit:
    """The audit of what a method finds out within a budget."""
    n = len(table).bit_length() - 1
    asked: dict[int, list[float]] = {}

    def utility(coalitions: list[tuple[int, ...]]) -> list[float]:
        masks = [mask_of(clients) for clients in coalitions]
        asked.update({mask: [float(table[mask])] for mask in masks})
        return [float(table[mask]) for mask in masks]

    values = fv.value(fv.FunctionGame(n, utility, key="sampled"), method, budget, seed=seed)
    return audit(values, asked)


def without(table: Array, client: int) -> Array:
    """The game in which a client never changes anything."""
    return np.array([table[mask & ~(1 << client)] for mask in range(len(table))])


def copied(table: Array, original: int, copy: int) -> Array:
    """The game in which one client can be any of two, and both are as good as one."""

    def one(mask: int) -> int:
        return mask & ~(1 << copy) | (1 << original if mask >> copy & 1 else 0)

    return np.array([table[one(mask)] for mask in range(len(table))])


def harmed(table: Array, client: int, harm: float) -> Array:
    """The game in which a client lowers the utility by this much."""
    return without(table, client) - harm * INSIDE[:, client]


class TestFindings:
    def test_a_client_without_effect(self) -> None:
        found = audited(without(saturating(np.random.default_rng(0)), 3))
        assert kinds(found) == [("no contribution", ("c3",))]
        (finding,) = found.findings
        assert finding.compared == 1 << N - 1
        assert all(row.first_utility == row.second_utility for row in finding.evidence)
        assert all(set(row.second) - set(row.first) == {"c3"} for row in finding.evidence)
        assert finding.p_value is not None
        assert finding.p_value < 0.001

    def test_a_client_without_effect_but_for_noise(self) -> None:
        rng = np.random.default_rng(1)
        table = without(saturating(rng), 3)
        found = audited(table + 0.01 * rng.standard_normal((6, len(table))))
        assert kinds(found) == [("no contribution", ("c3",))]
        assert "beyond training noise" in found.findings[0].statement

    def test_a_copy(self) -> None:
        found = audited(copied(saturating(np.random.default_rng(2)), 1, 6))
        assert kinds(found) == [("interchangeable", ("c1", "c6"))]
        assert "+0.0000 more than one of them alone" in found.findings[0].statement

    def test_a_copy_but_for_noise(self) -> None:
        rng = np.random.default_rng(3)
        table = copied(saturating(rng), 1, 6)
        found = audited(table + 0.01 * rng.standard_normal((6, len(table))))
        assert kinds(found) == [("interchangeable", ("c1", "c6"))]

    def test_three_of_a_kind_are_one_finding(self) -> None:
        table = copied(copied(saturating(np.random.default_rng(4)), 1, 6), 1, 7)
        assert kinds(audited(table)) == [("interchangeable", ("c1", "c6", "c7"))]

    def test_equals_that_add_up_are_no_copies(self) -> None:
        weights = np.array([1.0, 1.0, 0.8, 1.1, 1.3, 0.7, 0.9, 1.2])
        assert kinds(audited(INSIDE @ weights)) == []

    @pytest.mark.parametrize(("replicates", "harm"), [(1, 0.6), (3, 0.05)])
    def test_a_harmful_client(self, replicates: int, harm: float) -> None:
        """Replicates show what noise is; without them, only harm far beyond all differences is reported."""
        rng = np.random.default_rng(5)
        runs = harmed(saturating(rng), 2, harm) + 0.003 * rng.standard_normal((replicates, 1 << N))
        found = audited(runs)
        assert kinds(found) == [("harmful", ("c2",))]
        assert "below zero" in found.findings[0].statement

    def test_two_harmful_clients(self) -> None:
        table = harmed(harmed(saturating(np.random.default_rng(6)), 2, 0.7), 5, 0.6)
        assert kinds(audited(table)) == [("harmful", ("c2",)), ("harmful", ("c5",))]

    def test_a_client_that_is_worth_something_with_one_other_only(self) -> None:
        rng = np.random.default_rng(7)
        table = INSIDE @ rng.uniform(0.9, 1.1, N) - INSIDE[:, 4] + 1.9 * INSIDE[:, 4] * INSIDE[:, 0]
        found = audited(table + 0.01 * rng.standard_normal((3, len(table))))
        assert ("dependent", ("c4", "c0")) in kinds(found)
        assert all(kind == "dependent" for kind, _ in kinds(found))

    def test_no_gap_where_v_of_no_clients_is_a_mean_over_seeds(self, tmp_path: Path) -> None:
        def lucky(coalition: tuple[int, ...], seed: int) -> float:
            draw = np.random.default_rng([seed, 7])
            return len(coalition) ** 0.5 + 0.1 * float(draw.normal()) + 0.05 * sum(coalition)

        game = fv.FunctionGame(4, lucky, batch=False, key="lucky")
        values = fv.value(game, "exact", store=tmp_path / "s.db")
        assert values.mean.sum() == pytest.approx(values.utility_of_all - values.utility_of_none)
        assert "efficiency gap" not in [kind for kind, _ in kinds(audit(values, store=tmp_path / "s.db"))]

    def test_a_gap(self) -> None:
        values = Values([0.2, 0.2], ["a", "b"], "ipss", 4, guarantee="biased")
        found = audit(values, {0: [0.0], 1: [0.4], 2: [0.4], 3: [1.0]})
        assert kinds(found) == [("efficiency gap", ())]
        assert found.findings[0].p_value is None
        assert "add up to 0.4000; all clients together reach 1.0000" in found.findings[0].statement

    def test_wide_intervals_are_no_evidence_of_nothing(self) -> None:
        table = without(saturating(np.random.default_rng(8)), 3)
        exact = shapley_values(N, table)
        known = {mask: [float(table[mask])] for mask in range(1 << N)}
        names = [f"c{i}" for i in range(N)]
        for stderr, expected in ((0.0005, ["no contribution"]), (0.05, [])):
            values = Values(exact, names, "some", 1 << N, stderr=np.full(N, stderr), guarantee="unbiased")
            assert [kind for kind, _ in kinds(audit(values, known))] == expected

    def test_helping_and_harming_alike_is_not_the_same_as_doing_nothing(self) -> None:
        sign = np.where(INSIDE.sum(axis=1) % 2, 1.0, -1.0)
        table = saturating(np.random.default_rng(9))
        table = without(table, 3) + 0.2 * INSIDE[:, 3] * sign
        assert ("no contribution", ("c3",)) not in kinds(audited(table))


class TestBelowZero:
    """Nobody whose value is below zero goes unmentioned, and nothing is concluded that the trainings cannot show."""

    NAMES = ("Bonn", "Graz", "Jena", "Wien")

    def flipped(self, **more: Any) -> tuple[Values, Audit]:
        """Four hospitals, all coalitions of one seed; with Jena, everyone does worse."""
        inside = membership(range(16), 4)
        table = 0.1 + 0.2 * inside[:, [0, 1, 3]].sum(1) - 0.3 * inside[:, 2]
        values = Values(shapley_values(4, table), self.NAMES, "exact", 16, metric="accuracy", **more)
        return values, audit(values, {mask: [float(u)] for mask, u in enumerate(table)})

    def test_one_seed_without_luck_names_it_and_what_all_reach_without_it(self) -> None:
        _, found = self.flipped(guarantee="exact", random=True)
        assert found.findings == ()
        assert [f.clients for f in found.below_zero] == [("Jena",)]
        (below,) = found.below_zero
        assert below.statement == (
            "Jena is below zero: its value is -0.3000. Without it the others reach accuracy 0.7000, with it all reach "
            "0.4000 (one training each). Whether another seed would say the same is not known: the luck of training was "
            "not measured."
        )
        assert [(row.first, row.first_utility, row.second_utility) for row in below.evidence] == [
            (("Bonn", "Graz", "Wien"), pytest.approx(0.7), pytest.approx(0.4))
        ]
        for text in (str(found), found.to_markdown(), json.dumps(found.to_dict())):
            assert "Jena is below zero" in text
            assert "Nothing stands out" not in text

    def test_test_rows_alone_do_not_make_it_harm(self) -> None:
        _, found = self.flipped(guarantee="exact", random=True, parts={"test": np.eye(4) * 1e-8})
        assert found.findings == ()
        assert found.tests["harmful"] == 0
        assert "was not measured" in found.below_zero[0].statement

    def test_an_interval_on_one_seed_alone_does_not_make_it_harm(self) -> None:
        parts = {"coalitions": np.eye(4) * 1e-8}
        _, found = self.flipped(guarantee="biased", random=True, parts=parts)
        assert found.findings == ()
        assert [f.clients for f in found.below_zero] == [("Jena",)]
        assert any("No client was checked for harm" in text for text in found.not_assessed)

    def test_luck_that_is_known_makes_it_harm(self) -> None:
        _, found = self.flipped(guarantee="exact", random=True, parts={"training": np.eye(4) * 1e-4})
        assert kinds(found) == [("harmful", ("Jena",))]
        assert found.below_zero == ()
        assert (
            "Without it the others reach accuracy 0.7000, with it all reach 0.4000"
            in found.findings[0].statement
        )

    def test_who_all_reach_more_with_is_not_called_harmful(self) -> None:
        """Alone it is far worse than nothing; together with the other, it helps."""
        table = [0.0, -3.0, 0.16, 0.23]
        values = Values(
            shapley_values(2, np.array(table)),
            ("Bonn", "Graz"),
            "exact",
            4,
            guarantee="exact",
            parts={"test": np.eye(2) * 1e-4},
        )
        found = audit(values, {mask: [utility] for mask, utility in enumerate(table)})
        assert not any(finding.kind == "harmful" for finding in found.findings)
        (below,) = found.below_zero
        assert (
            "So all of them reach more with it: its value is below zero because of smaller" in below.statement
        )
        assert below.p_value is not None
        assert below.p_value < 0.01
        assert "lowers" not in str(found)
        assert "not shown to be" not in str(found)

    def test_a_run_says_who_all_reach_more_with(self) -> None:
        result = fv.run("synthetic", clients=2, samples=20, method="exact")
        assert result.outcomes[3, 0].metrics["r2"] > result.outcomes[2, 0].metrics["r2"]
        (said,) = (line for line in result.lines() if line.startswith("Below zero"))
        assert said.endswith("All clients together still reach more with it: smaller coalitions reach less.")

    def test_an_interval_that_reaches_above_zero_is_said(self) -> None:
        _, found = self.flipped(guarantee="exact", random=True, parts={"training": np.eye(4)})
        assert "It may be chance: the interval reaches above zero." in found.below_zero[0].statement

    def test_where_the_others_were_not_trained_that_is_said(self) -> None:
        values = Values([-0.1, 0.5], ("a", "b"), "loo", 2, guarantee="biased")
        found = audit(values, {0: [0.0], 3: [0.4]})
        assert "What the others reach without it is not known" in found.below_zero[0].statement
        assert "loo gives no interval" in found.below_zero[0].statement

    def test_a_loss_is_shown_as_it_is(self) -> None:
        values = Values(
            [-0.2, 0.6], ("a", "b"), "exact", 4, guarantee="exact", metric="loss", higher_is_better=False
        )
        found = audit(values, {0: [-1.0], 1: [-1.2], 2: [-0.4], 3: [-0.6]})
        assert "the others reach loss 0.4000, with it all reach 0.6000" in found.below_zero[0].statement


class TestFewTrainings:
    """How far luck goes is judged by coalitions that were trained again: with few of these, tails are long."""

    def spread_over(self, again: int) -> Audit:
        """Values of three clients, one five standard errors below zero; `again` trainings of one coalition."""
        stderr = np.full(3, 0.02)
        values = Values(
            [0.3, -0.1, 0.3], "abc", "surrogate", 32, stderr=stderr, seeds=again + 1, random=True,
            parts={"training": np.diag(stderr**2)},
        )  # fmt: skip
        seeds = {0: [0], 1: [0], 2: list(range(again + 1)), 7: [0]}
        utilities = {mask: [0.1 * mask + 0.01 * seed for seed in of] for mask, of in seeds.items()}
        return audit(values, utilities, seeds=seeds)

    def test_five_standard_errors_are_much_where_luck_is_known_well(self) -> None:
        assert kinds(self.spread_over(20)) == [("harmful", ("b",))]

    @pytest.mark.parametrize("again", [1, 2])
    def test_and_little_where_it_is_hardly_known(self, again: int) -> None:
        found = self.spread_over(again)
        assert found.findings == ()
        assert [f.clients for f in found.below_zero] == [("b",)]
        assert "more than chance for this client alone, but not" in found.below_zero[0].statement
        assert any("had little to go by" in text for text in found.not_assessed)


class TestNothingToFind:
    def test_clients_that_only_count_by_number(self) -> None:
        assert kinds(audited(np.sqrt(INSIDE.sum(axis=1)))) == []

    def test_a_game_in_which_nothing_matters(self) -> None:
        assert kinds(audited(np.full(1 << N, 0.5))) == []

    def test_one_client(self) -> None:
        assert kinds(audited(np.array([0.1, 0.9]))) == []
        assert "one client" in audited(np.array([0.1, 0.9])).ranking

    def test_unknown_noise_accuses_nobody_of_harm(self) -> None:
        found = audited(np.array([0.0, 1.0, -0.5, 0.4]))
        assert kinds(found) == []
        (below,) = found.below_zero
        assert below.clients == ("c1",)
        assert below.p_value is None
        assert (
            "Without it the others reach utility 1.0000, with it all reach 0.4000 (one training each)"
            in below.statement
        )
        assert "the luck of training was not measured" in below.statement
        assert found.verdict.startswith("No test singled out a client, but these are below zero: c1.")
        assert any("No client was checked for harm" in text for text in found.not_assessed)

    @pytest.mark.parametrize("method", ["loo", "ipss"])
    def test_methods_without_intervals(self, method: str) -> None:
        found = sampled(saturating(np.random.default_rng(0)), method, 40, 0)
        assert [kind for kind, _ in kinds(found) if kind != "efficiency gap"] == []
        assert any("gives no interval" in text for text in found.not_assessed)


def coverage(rng: np.random.Generator) -> Array:
    """Clients bring overlapping sets of things: many equal utilities."""
    brings = rng.random((N, 80)) < rng.uniform(0.1, 0.35, (N, 1))
    found: Array = (INSIDE @ brings > 0).mean(axis=1)
    return found


def rounded(rng: np.random.Generator) -> Array:
    """Accuracy on a test set of 200: coalitions tie by chance."""
    found: Array = np.round(saturating(rng) * 200) / 200
    return found


def small_values(rng: np.random.Generator) -> Array:
    """Additive with noise, and clients that are worth next to nothing."""
    return INSIDE @ rng.uniform(0.02, 1.0, N) + 0.03 * rng.standard_normal(1 << N)


def wrong(found: Audit, table: Array) -> bool:
    """Whether someone is named who is not like that, by the exact values."""
    truth = shapley_values(N, table)
    allowed = 0.1 * np.ptp(table) / N
    for finding in found.findings:
        value = truth[int(finding.clients[0][-1])] if finding.clients else 0.0
        fits = {"harmful": value < 0, "no contribution": abs(value) <= allowed, "efficiency gap": True}
        if not fits.get(finding.kind, False):
            return True
    return False


GAMES: list[Callable[[np.random.Generator], Array]] = [saturating, rounded, coverage, small_values]


class TestFalseAlarms:
    """In games without such clients, at most the stated 5 % of audits may name someone."""

    @pytest.mark.slow
    @pytest.mark.parametrize("game", first_fast(GAMES))
    @pytest.mark.parametrize(
        ("method", "budget", "games"),
        [
            pytest.param("surrogate", 32, 25, marks=pytest.mark.slow),
            ("cc", 100, 60),
            pytest.param("stratified-mc", 100, 60, marks=pytest.mark.slow),
        ],
    )
    def test_with_few_trainings(
        self, game: Callable[[np.random.Generator], Array], method: str, budget: int, games: int
    ) -> None:
        alarms = 0
        for seed in range(games):
            table = game(np.random.default_rng(seed))
            alarms += wrong(sampled(table, method, budget, seed), table)
        assert alarms <= 0.05 * games

    @pytest.mark.slow
    @pytest.mark.parametrize("replicates", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 4))])
    def test_when_noise_goes_with_clients(self, replicates: int) -> None:
        """Clients worth the same, whose luck in training shows wherever they take part."""
        alarms = 0
        for seed in range(150):
            rng = np.random.default_rng(seed)
            runs = []
            for _ in range(replicates):
                luck = 1 + 0.15 * rng.standard_normal(N)
                runs.append(1 - np.exp(-INSIDE @ luck / 2) + 0.002 * rng.standard_normal(1 << N))
            alarms += bool(audited(np.array(runs)).findings)
        assert alarms <= 0.05 * 150

    @pytest.mark.slow
    @pytest.mark.parametrize("replicates", [1, 3])
    def test_when_all_values_are_noise_around_zero(self, replicates: int) -> None:
        """The worst case for `harmful`: half of all values are below zero, by noise alone."""
        alarms = 0
        for seed in range(400):
            rng = np.random.default_rng(seed)
            luck = rng.standard_normal((replicates, N))
            alarms += any(kind == "harmful" for kind, _ in kinds(audited(luck @ INSIDE.T)))
        assert alarms <= 0.05 * 400

    def test_the_level_can_be_chosen(self) -> None:
        table = harmed(saturating(np.random.default_rng(5)), 2, 0.6)
        p = audited(table).findings[0].p_value
        assert p is not None
        assert kinds(audited(table, level=p / 2)) == []
        with pytest.raises(fv.InputError, match="level"):
            audited(table, level=0.0)


class TestInGeneral:
    def test_the_ranking(self) -> None:
        rng = np.random.default_rng(0)
        apart = INSIDE @ np.arange(1.0, N + 1) + 0.01 * rng.standard_normal((3, 1 << N))
        assert f"is real: {N * (N - 1) // 2} of {N * (N - 1) // 2} pairs" in audited(apart).ranking
        luck = np.ones(N) + 0.2 * rng.standard_normal((4, N))
        assert "is real" not in audited(luck @ INSIDE.T).ranking
        assert "It is unknown whether" in audited(apart[0]).ranking

    def test_noise_is_measured_on_replicates(self) -> None:
        rng = np.random.default_rng(0)
        found = audited(saturating(rng) + 0.02 * rng.standard_normal((5, 1 << N)))
        assert "varies by 0.0196" in found.noise
        assert "5 trainings of each coalition" in found.noise

    def test_what_more_trainings_would_buy(self) -> None:
        values = Values([1.0, 1.0], "ab", "permutation", 1, stderr=[0.1, 0.1], guarantee="unbiased")
        known = {0: [0.0], 3: [2.0]}
        assert (
            "3 more trainings would narrow the widest interval by about 50%"
            in audit(values, known, more=3).outlook
        )

    def test_what_was_not_looked_at_is_said(self) -> None:
        found = sampled(saturating(np.random.default_rng(0)), "surrogate", 32, 0)
        assert any("pairs were not checked for copies" in text for text in found.not_assessed)
        assert any("Dependence" in text for text in found.not_assessed)

    def test_the_rate_is_stated(self) -> None:
        found = audited(saturating(np.random.default_rng(0)))
        assert "at most 5% of such audits name one" in found.rate
        assert found.tests == {"no contribution": 8, "interchangeable": 28, "harmful": 8, "dependent": 56}

    def test_json_and_markdown(self) -> None:
        table = without(saturating(np.random.default_rng(0)), 0)
        mean = shapley_values(N, table)
        names = ["<b>|x\n*", *(f"c{i}" for i in range(1, N))]
        values = Values(mean, names, "exact", 1 << N, guarantee="exact")
        found = audit(values, {mask: [float(v)] for mask, v in enumerate(table)})
        data = json.loads(json.dumps(found.to_dict()))
        assert data["format"] == "fedvalue.audit/1"
        assert data["findings"][0]["clients"] == ["<b>|x\n*"]
        text = found.to_markdown()
        assert "<b>" not in text
        assert r"&lt;b&gt;\|x \*" in text

    @pytest.mark.parametrize(
        ("utilities", "message"),
        [({}, "no trained coalitions"), ({0: [0.0], 9: [1.0]}, "beyond the 2"), ({0: [np.nan]}, "finite")],
    )
    def test_bad_utilities_are_refused(self, utilities: dict[int, list[float]], message: str) -> None:
        values = Values([1.0, 1.0], "ab", "exact", 4, guarantee="exact")
        with pytest.raises(fv.InputError, match=message):
            audit(values, utilities)

    def test_many_clients(self) -> None:
        """A hundred clients and their usual budget are looked at in seconds."""
        n = 100
        rng = np.random.default_rng(0)
        weights = rng.uniform(0.5, 1.5, n)
        asked: dict[int, list[float]] = {}

        def utility(coalitions: list[tuple[int, ...]]) -> list[float]:
            found = [float(1 - np.exp(-weights[list(c)].sum() / 30)) for c in coalitions]
            asked.update({mask_of(c): [v] for c, v in zip(coalitions, found, strict=True)})
            return found

        values = fv.value(fv.FunctionGame(n, utility, key="many"), "permutation", 461)
        assert audit(values, asked).findings == ()


def of_one_seed(mean: list[float], **parts: Array) -> Values:
    """Exact values of one seed, of eight clients, whose error has these parts."""
    further = {"evaluations": 64 + (1 << N) - 1, "noise": 0.0132, "dof": np.full(N, 12.0)}
    more: dict[str, Any] = further if "training" in parts else {"evaluations": 1 << N}
    names = [f"c{i}" for i in range(N)]
    errors = {"coalitions": np.zeros((N, N)), **parts}
    return Values(mean, names, "exact", guarantee="exact", random=True, parts=errors, **more)


class TestLuck:
    """What audits say of trainings with several seeds, and of exact values that know how much of them is luck."""

    TABLE = INSIDE @ np.array([-1.0, *np.linspace(0.5, 2.0, N - 1)])
    MEAN = TABLE[1 << np.arange(N)].tolist()

    def audited(self, values: Values) -> Audit:
        return audit(values, {mask: [float(v)] for mask, v in enumerate(self.TABLE)})

    def test_exact_values_whose_luck_was_measured_say_so(self) -> None:
        found = self.audited(of_one_seed(self.MEAN, training=np.eye(N) * 1e-4, test=np.eye(N) * 1e-4))
        assert "measured with 64 trainings of other seeds" in found.noise
        assert "varies by 0.0132" in found.noise
        assert "which count the luck of training and the luck of test rows" in found.rate
        assert found.ranking.startswith("The ranking is real:")

    def test_intervals_are_those_of_the_table(self) -> None:
        values = of_one_seed(self.MEAN, training=np.eye(N) * 1e-4)
        interval = values.interval()
        assert interval is not None
        (harmful,) = (finding for finding in self.audited(values).findings if finding.kind == "harmful")
        assert f"-1.0000 ± {interval[0, 1] - values.mean[0]:.4f} (95%)" in harmful.statement

    def test_pairs_apart_go_by_the_degrees_of_freedom(self) -> None:
        mean = [0.0, *np.linspace(10.0, 70.0, N - 2), 2.0]  # 0 and 2 are 2 standard errors apart
        covariance = np.eye(N) / 2
        names, known = [f"c{i}" for i in range(N)], {0: [0.0], 1: [1.0], (1 << N) - 1: [282.0]}
        sure, unsure = (
            Values(mean, names, "surrogate", 3, stderr=np.full(N, 0.5**0.5), covariance=covariance, dof=dof)
            for dof in (None, np.full(N, 5.0))
        )
        assert "28 of 28 pairs" in audit(sure, known).ranking
        assert "27 of 28 pairs" in audit(unsure, known).ranking

    def test_a_ranking_without_the_luck_of_training_is_that_of_a_seed(self) -> None:
        found = self.audited(of_one_seed(self.MEAN, test=np.eye(N) * 1e-4))
        assert "not measured: all trainings had the same seed" in found.noise
        assert found.ranking.startswith("The ranking is real for this seed:")

    def spread(self, covariance: Array, mean: list[float], guarantee: str = "biased") -> Audit:
        """The audit of values over four seeds; no coalition was trained with the seed of another, but two pairs."""
        names = ["idle", "one", "other", "Wien", "Graz"]
        stderr = np.sqrt(np.diag(covariance))
        values = Values(
            mean, names, "surrogate", 8, stderr=stderr, covariance=covariance, seeds=4, random=True,
            guarantee=guarantee, parts={"training": covariance},
        )  # fmt: skip
        values = Values.from_dict(json.loads(json.dumps(values.to_dict())))
        utilities = {0: [0.0], 8: [0.4, 0.5], 24: [0.6, 0.7], 31: [1.0], 2: [0.2], 4: [0.3]}
        seeds = {0: [0], 8: [1, 2], 24: [1, 2], 31: [3], 2: [1], 4: [2]}
        return audit(values, utilities, seeds=seeds)

    KNOWN = np.diag([0.0, 1.0, 1.0, 1.0, 1.0]) * 0.01
    KNOWN[1, 2] = KNOWN[2, 1] = 0.01
    WORTH = (0.0, 0.2, 0.2, 0.3, 0.3)

    def test_what_is_certain_is_found_without_a_test(self) -> None:
        found = self.spread(self.KNOWN, list(self.WORTH))
        assert kinds(found) == [("no contribution", ("idle",)), ("interchangeable", ("one", "other"))]
        assert [finding.p_value for finding in found.findings] == [None, None]
        assert "it has no data, so its value is 0 for certain" in found.findings[0].statement
        assert "same data, so their value is the same for certain" in found.findings[1].statement

    def test_what_is_not_certain_is_not(self) -> None:
        assert kinds(self.spread(np.zeros((5, 5)), list(self.WORTH))) == []  # nothing is known of any error
        assert kinds(self.spread(np.eye(5) * 0.01, list(self.WORTH))) == []
        assert kinds(self.spread(self.KNOWN, [0.1, 0.2, 0.25, 0.3, 0.3])) == []

    def test_what_takes_one_seed_is_said(self) -> None:
        missing = self.spread(self.KNOWN, list(self.WORTH)).not_assessed
        assert any("each alone were not all trained with the same seed" in text for text in missing)
        assert (
            "3 of 5 clients were not checked for contributing nothing: no two coalitions that differ only in the client "
            "were trained with the same seed."
        ) in missing

    def test_evidence_names_the_seed(self) -> None:
        covariance = np.eye(5) * 1e-6
        found = self.spread(covariance, [0.1, 0.2, 0.25, 0.3, -0.4])
        (harmful,) = found.findings
        assert [(row.first, row.seed) for row in harmful.evidence] == [(("Wien",), 1), (("Wien",), 2)]
        assert "| Wien | 0.4000 | with Graz (seed 1) |" in found.to_markdown()
        assert "| Wien | 0.5000 | with Graz (seed 2) |" in found.to_markdown()

    def test_an_interval_is_shown_where_no_two_coalitions_can_be_compared(self) -> None:
        (harmful,) = self.spread(np.eye(5) * 1e-6, [0.1, -0.2, 0.25, 0.3, 0.3]).findings
        assert harmful.compared == 0
        assert "Its value is -0.2000 ± 0.0020 (95%), below zero." in harmful.statement

    def test_names_stay_as_they_are(self) -> None:
        values = Values([1.0, 1.0], "ab", "exact", 4, guarantee="exact", suspicious=("graz2: no rows",))
        found = audit(values, {0: [0.0], 1: [1.0], 2: [1.0], 3: [2.0]})
        assert found.findings[0].statement == "graz2: no rows"

    def test_quiet_names_the_client_whose_data_are_suspicious(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from fedvalue.cli.audit import _show

        values = Values([1.0, 1.0], "ab", "exact", 4, guarantee="exact", suspicious=("b: other units",))
        _show(audit(values, {0: [0.0], 1: [1.0], 2: [1.0], 3: [2.0]}), quiet=True)
        assert "suspicious data: b: other units" in capsys.readouterr().out


@cache
def _table(partition: str, replicates: int) -> tuple[Values, dict[int, list[float]], dict[int, Any]]:
    """Exact values of ten clients of the digits, and all trainings."""
    from fedvalue.scenarios import load_scenario
    from fedvalue.training import Training

    scenario = load_scenario("digits", clients=10, partition=partition, seed=0)
    training = Training(batch=32, rate=0.01, seed=0)
    game = fv.FederatedGame(scenario, "mlp", training, replicates=replicates, device="cpu")
    utilities: dict[int, list[float]] = {}
    prints: dict[int, Any] = {}
    for replicate in range(replicates):
        for mask, outcome in game.evaluate(range(1 << game.n), replicate):
            utilities.setdefault(mask, []).append(game.utility(outcome))
            prints[mask] = (*prints.get(mask, ()), *outcome.metrics.items())
    mean = shapley_values(game.n, np.array([np.mean(utilities[mask]) for mask in range(1 << game.n)]))
    return Values(mean, game.names, "exact", 1024, guarantee="exact"), utilities, prints


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
class TestDigits:
    """Real trainings: the demo of the Makefile, and ten clients who are all the same."""

    def test_the_demo_has_three_findings_and_no_others(self) -> None:
        assert kinds(audit(*_table("demo", 1))) == [
            ("no contribution", ("free-rider",)),
            ("interchangeable", ("client-0", "copy-of-client-0")),
            ("harmful", ("label-flipper",)),
        ]

    def test_ten_identical_clients_have_none(self) -> None:
        assert kinds(audit(*_table("same", 1))) == []


class TestCommand:
    @pytest.fixture
    def folder(self, tmp_path: Path, one_thread: None) -> Path:
        """A small run, whose third client is without data."""
        options = [
            "--clients",
            5,
            "--samples",
            30,
            "--rounds",
            2,
            "--epochs",
            1,
            "--exact",
            "--replicates",
            2,
        ]
        options += ["--partition", "free-riders", "--scenario-option", "copies=1", "--no-config", "-q"]
        args = ["run", *map(str, options), "--out", str(tmp_path / "run")]
        assert CliRunner().invoke(app, args).exit_code == 0
        return tmp_path / "run"

    def run(self, *args: object) -> Result:
        return CliRunner().invoke(app, ["audit", *map(str, args)])

    def test_the_folder_of_a_run(self, folder: Path, tmp_path: Path) -> None:
        found = self.run(folder, "--md", tmp_path / "audit.md")
        assert found.exit_code == 0, found.output
        assert "5 clients, 32 trained coalitions, values by exact: 2 findings." in found.stdout
        assert "NO CONTRIBUTION: free-rider" in found.stdout
        assert "INTERCHANGEABLE: client-0, copy-of-client-0" in found.stdout
        assert "False alarms" in found.stdout
        assert (tmp_path / "audit.md").read_text(encoding="utf-8").startswith("# Audit")
        quiet = self.run(folder, "-q")
        assert quiet.stdout.splitlines() == [
            "no contribution: free-rider",
            "interchangeable: client-0, copy-of-client-0",
        ]
        parsed = json.loads(self.run(folder / "values.json", "--json", "-").stdout)
        assert [finding["kind"] for finding in parsed["findings"]] == ["no contribution", "interchangeable"]

    def test_values_and_a_store(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "game.npz", utility=without(saturating(np.random.default_rng(0)), 3))
        made = ["value", "--table", tmp_path / "game.npz", "--method", "exact", "-q"]
        made += ["--json", tmp_path / "v.json", "--store", tmp_path / "s.db"]
        assert CliRunner().invoke(app, list(map(str, made))).exit_code == 0
        found = self.run(tmp_path / "v.json", "--store", tmp_path / "s.db", "-q")
        assert found.stdout == "no contribution: client-3\n"

    def test_bad_input_is_explained(self, folder: Path, tmp_path: Path) -> None:
        def failure(*args: object) -> str:
            found = self.run(*args)
            assert found.exit_code in (1, 2), found.output
            assert found.stdout == ""
            return found.stderr

        assert "There is no file" in failure(tmp_path / "none")
        (tmp_path / "empty").mkdir()
        assert "holds no values.json" in failure(tmp_path / "empty")
        text = (folder / "values.json").read_text(encoding="utf-8")
        (tmp_path / "v.json").write_text(text, encoding="utf-8")
        assert "Give its path with --store" in failure(tmp_path / "v.json")
        with fv.UtilityStore(tmp_path / "other.db"):
            pass
        assert "holds no trainings of the game" in failure(folder, "--store", tmp_path / "other.db")
        assert "level" in failure(folder, "--level", 2)
        changed = json.loads(text)
        changed["metric"] = "applause"
        (folder / "values.json").write_text(json.dumps(changed), encoding="utf-8")
        assert "does not match its checksum" in failure(folder)
        del changed["checksum"]
        (folder / "values.json").write_text(json.dumps(changed), encoding="utf-8")
        assert "has no checksum" in failure(folder)
        (folder / "values.json").write_text(json.dumps(sealed(changed)), encoding="utf-8")
        assert "no metric 'applause'" in failure(folder)
        changed["replicates"] = "two"
        (folder / "values.json").write_text(json.dumps(changed), encoding="utf-8")
        assert "their replicates is 'two'" in failure(folder)
