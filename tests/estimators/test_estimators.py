"""One conformance suite over every registered estimator, then what each method defines for itself."""

from __future__ import annotations

from itertools import combinations, islice
from math import comb

import numpy as np
import pytest
from cases import CASES, REAL_GAMES, SAMPLING, Case, drive
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from marks import first_fast
from scipy.optimize import linprog
from scipy.special import stdtrit

import fedvalue as fv
from fedvalue.coalitions import full_mask, layer, mask_of, members, membership, subset_total
from fedvalue.estimators import group_testing
from fedvalue.estimators.permutation import _orders
from fedvalue.testing import check_estimator
from fedvalue.testing._promises import OF_ONE_RUN, violation
from fedvalue.testing.games import (
    GAMES,
    KnownGame,
    Recorder,
    brute_force,
    learning_curve,
    random_table,
    saturating,
)

EXACT = [name for name, method in SAMPLING.items() if method.guarantee == "exact"]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_game = pytest.mark.parametrize("game", GAMES, ids=str)

# What each method promises besides the contract, in the words of fedvalue.testing.PROMISES; a method that is not
# listed is held to the contract alone. Exact methods promise everything. Orders telescope (efficient) and see only
# marginal contributions (null), but who comes when is chance. Stratum means treat clients alike where only size
# counts, and filling an empty stratum with the mean of the others keeps that but breaks `null`; the paper's design
# leaves it at 0, the other way round. Complementary contributions of a null player are not 0, only their sum is.
# Truncation gives up what an order has left: tmc is not efficient, and it is close to v(N) by a fraction of v(N);
# gtb weighs utilities, not differences: neither takes a shift.
AFFINE = {"scaled", "shifted"}
ALIKE = {"symmetric", "anonymous", "relabelled", "deterministic"}
PROMISED: dict[str, set[str]] = {
    "surrogate": {"efficient", "anonymous"} | AFFINE,
    "surrogate-adaptive": {"efficient", "anonymous"} | AFFINE,
    "stratified-mc": {"anonymous"} | AFFINE,
    "stratified-cc": {"anonymous"} | AFFINE,
    "stratified-mc,design=paper": {"null"} | AFFINE,
    "stratified-cc,design=paper": AFFINE,
    "stratified-mc,allocation=proportional": {"anonymous"} | AFFINE,
    "stratified-cc,allocation=proportional": {"anonymous"} | AFFINE,
    "k-greedy": {"null"} | ALIKE | AFFINE,
    "k-greedy,k=2": {"null"} | ALIKE | AFFINE,
    "ipss": {"null"} | AFFINE,
    "ipss,balance=strict": {"null", "anonymous"} | AFFINE,
    "ipss-balanced": {"efficient", "anonymous"} | AFFINE,
    "permutation": {"efficient", "null"} | AFFINE,
    "permutation,balanced=False": {"efficient", "null"} | AFFINE,
    "tmc": {"null", "scaled"},
    "tmc,patience=0,tolerance=0.0001": {"null", "scaled"},
    "gtb": {"efficient", "scaled"},
    "cc": AFFINE,
    "cc-neyman": AFFINE,
    "cc-bernstein": AFFINE,
    "cc-paired": {"anonymous"} | AFFINE,
    "loo": {"null"} | ALIKE | AFFINE,
    "equal": {"efficient"} | ALIKE | AFFINE,
}
NAMED = {str(case): case for case in CASES}
every_promising_case = pytest.mark.parametrize("case", [NAMED[name] for name in PROMISED], ids=str)


def budgets(case: Case, n: int) -> list[int]:
    """From the smallest that the method takes to one short of everything, in a few steps."""
    least = case.minimum(n)
    return sorted({least, *(max(least, part) for part in (n + 2, 1 << n - 1, (1 << n) - 1))})


def applies(promise: str, game: KnownGame) -> bool:
    on = {"null": game.nulls, "symmetric": game.copies, "anonymous": game.only_size_counts}
    return bool(on.get(promise, True))


def _saturates_early() -> KnownGame:
    """From two clients on nearly v(N) = 100: orders are truncated here, even by TMC's patient default."""
    n = 9
    table = np.array([min(mask.bit_count(), 2) * 49.996 for mask in range(1 << n)])
    table[-1] = 100.0
    return KnownGame("saturates-early", n, table, np.full(n, np.nan))


def dear(case: Case) -> bool:
    """Whose many runs take seconds: surrogates, and plain CC, whose mean settles only after thousands."""
    return "surrogate" in case.method or case.method == "cc"


class TestConformance:
    @pytest.mark.parametrize(
        "case",
        [pytest.param(case, marks=pytest.mark.slow if case.options or dear(case) else ()) for case in CASES],
        ids=str,
    )
    def test_every_registered_method_keeps_to_the_contract(self, case: Case) -> None:
        promises = PROMISED.get(str(case), set())
        check_estimator(case.method, options=case.options, promises=promises, smallest=case.smallest)

    @pytest.mark.parametrize(
        ("case", "promise"),
        [(NAMED[name], p) for name, kept in PROMISED.items() for p in OF_ONE_RUN if p not in kept],
        ids=str,
    )
    def test_what_is_not_promised_is_not_kept(self, case: Case, promise: str) -> None:
        games = [game for game in [*GAMES, _saturates_early()] if applies(promise, game)]
        runs = (
            (game, case.run(game.table, budget, seed))
            for game in games
            for seed in range(4)
            for budget in budgets(case, game.n)
        )
        kept_everywhere = all(violation(promise, game, values.mean) <= 1e-3 for game, values in runs)
        assert not kept_everywhere, "promise it, or find a game that shows otherwise"

    @every_promising_case
    def test_what_does_not_promise_to_be_deterministic_depends_on_the_seed(self, case: Case) -> None:
        budget = max(case.minimum(5), 21)  # five of size 3 for IPSS, which can be balanced
        found = {tuple(case.run(random_table(5, 3).table, budget, seed).mean) for seed in range(5)}
        assert (len(found) == 1) == ("deterministic" in PROMISED[str(case)])

    @given(st.integers(1, 6).flatmap(lambda n: arrays(float, 1 << n, elements=st.floats(-10, 10))))
    @settings(max_examples=40)
    def test_exact_methods_agree_with_the_mean_over_all_orders(self, table: np.ndarray) -> None:
        truth = brute_force(table)
        for method in EXACT:
            assert fv.value(table, method).mean == pytest.approx(truth, abs=1e-12)

    @every_case
    def test_one_client_is_worth_everything(self, case: Case) -> None:
        if case.smallest == 1:
            assert case.run([0.25, 1.0], None).mean.tolist() == [0.75]

    @pytest.mark.parametrize("method", EXACT)
    def test_a_hundred_clients_are_too_many_for_exact_values(self, method: str) -> None:
        with pytest.raises(fv.BudgetError, match="sampling method"):
            fv.value(Recorder(100, curve_of_size), method)

    @pytest.mark.parametrize(
        "case", [c for n, c in NAMED.items() if "anonymous" in PROMISED.get(n, "") and n != "equal"], ids=str
    )
    def test_where_only_size_counts_a_few_samples_of_every_size_are_enough(self, case: Case) -> None:
        game = saturating(6)
        if case.method in ("k-greedy", "loo", "ipss"):
            assert not np.allclose(case.run(game.table, 40).mean, game.values)
        else:
            assert case.run(game.table, 40).mean == pytest.approx(game.values, abs=1e-12)


def curve_of_size(mask: int) -> float:
    return 1 - 1 / (1 + mask.bit_count()) + 0.01 * (mask & 1)


# Intervals are only as good as the number of samples behind them: on games with diminishing returns an order
# gives nearly everything to whoever comes first, and a handful of orders (n = 10, budget 64: eight) covers
# the true value 60 % of the time. Checked here from where they hold; below the nominal level there is room
# for strata that are not quite independent.
COVERED = [
    (Case("permutation"), 120),
    (Case("permutation", {"balanced": False}), 80),
    (Case("cc"), 100),
    (Case("cc-paired"), 90),
    (Case("stratified-mc"), 80),
    (Case("stratified-cc"), 80),
]


def coverage(case: Case, table: np.ndarray, truth: np.ndarray, budget: int, seeds: int) -> float:
    """Share of 95% intervals, over clients and runs that give one, that hold the true value."""
    inside = []
    for seed in range(seeds):
        run = drive(case.method, table, budget, seed, **case.options)
        if run.stderr is not None:
            half = stdtrit(run.dof, 0.975) * run.stderr
            inside.append(np.abs(run.mean - truth) <= half + 1e-12)
    assert len(inside) > seeds / 2, "too few runs give an interval to judge by"
    return float(np.mean(inside))


class TestIntervals:
    @pytest.mark.parametrize(
        "game",
        first_fast([random_table(7, 11), pytest.param(learning_curve(), marks=pytest.mark.slow)]),
        ids=str,
    )
    @pytest.mark.parametrize(("case", "budget"), first_fast(COVERED), ids=str)
    def test_intervals_hold_the_true_value_about_as_often_as_they_say(
        self, case: Case, budget: int, game: KnownGame
    ) -> None:
        assert coverage(case, game.table, game.values, budget, seeds=200) >= 0.88

    @pytest.mark.slow
    @pytest.mark.parametrize(("case", "budget"), [(case, 256) for case, _ in COVERED], ids=str)
    def test_intervals_hold_on_real_federated_games(self, case: Case, budget: int) -> None:
        files = sorted(REAL_GAMES.glob("*.npz"))
        if not files:
            pytest.skip(f"no enumerated games in {REAL_GAMES.name}/ beside the repository")
        covered = {}
        for file in files:
            table = np.load(file)["accuracy"].astype(float)
            truth = fv.value(table, "exact").mean
            covered[file.stem] = coverage(case, table, truth, budget, seeds=20)
        assert np.mean(list(covered.values())) >= 0.88, covered


TABLE_1 = np.array([0.10, 0.50, 0.70, 0.80, 0.60, 0.90, 0.90, 0.96])  # bit 0 is the paper's client 1


class TestPaperExamples:
    @pytest.mark.parametrize("method", EXACT)
    def test_table_1(self, method: str) -> None:
        assert fv.value(TABLE_1, method).mean.round(12).tolist() == [0.22, 0.32, 0.32]

    def test_example_3_takes_all_singletons_and_five_pairs(self) -> None:
        recorder = Recorder(4, random_table(4, 0).table)
        values = fv.value(recorder, "ipss", budget=10)
        assert values.details == {"k_star": 1, "sampled": 5}
        assert sorted(mask.bit_count() for mask in recorder.evaluated) == [0] + [1] * 4 + [2] * 5


def marginals_over(
    table: np.ndarray, coalitions: set[int], client: int, size: int, partner_of: str = "marginal"
) -> list[float]:
    """v(S) − v(S̄) for all S ∋ client of that size with S and its partner among the coalitions, slowly."""
    n = len(table).bit_length() - 1
    found = []
    for clients in combinations(range(n), size):
        mask = mask_of(clients)
        other = mask & ~(1 << client) if partner_of == "marginal" else full_mask(n) & ~mask
        if client in clients and mask in coalitions and other in coalitions:
            found.append(float(table[mask] - table[other]))
    return found


class TestIpss:
    @pytest.mark.parametrize(("n", "budget"), [(3, 5), (4, 3), (4, 10), (5, 20), (6, 8), (6, 40), (6, 63)])
    def test_the_values_are_step_3_of_the_definition(self, n: int, budget: int) -> None:
        recorder = Recorder(n, random_table(n, budget).table)
        values = fv.value(recorder, "ipss", budget, seed=budget)
        table, evaluated = random_table(n, budget).table, set(recorder.evaluated)
        k_star = max(k for k in range(n + 1) if subset_total(n, k) <= budget)
        expected = [
            sum(
                sum(marginals_over(table, evaluated, i, k)) / comb(n - 1, k - 1)
                for k in range(1, min(k_star + 1, n) + 1)
            )
            / n
            for i in range(n)
        ]
        assert values.mean == pytest.approx(expected, abs=1e-12)
        assert values.evaluations == budget

    @pytest.mark.parametrize("n", first_fast([3, 4, 5, 7, 10, 13, 30, 100], keep=3))
    def test_everything_small_and_a_balanced_sample_of_the_next_size(self, n: int) -> None:
        for budget in sorted({1, 2, n, n + 1, n + 2, 2 * n + 1, 3 * n, 5 * n + 3, n * n // 2, n * n}):
            if budget >= 1 << n:
                continue
            recorder = Recorder(n, curve_of_size)
            values = fv.value(recorder, "ipss", budget, seed=budget)
            k_star = max(k for k in range(n + 1) if subset_total(n, k) <= budget)
            sampled = [mask for mask in recorder.evaluated if mask.bit_count() > k_star]
            assert {mask.bit_count() for mask in sampled} <= {k_star + 1}
            assert len(set(recorder.evaluated)) == budget
            assert len(sampled) == budget - subset_total(n, k_star)
            assert np.ptp(membership(sampled, n).sum(0)) <= 1
            assert values.details == {"k_star": k_star, "sampled": len(sampled)}

    def test_balanced_ipss_averages_the_sampled_size_and_spreads_the_rest(self) -> None:
        n, budget = 5, 12
        table = random_table(n, 2).table
        recorder = Recorder(n, table)
        values = fv.value(recorder, "ipss-balanced", budget, seed=3)
        below = {mask for mask in recorder.evaluated if mask != full_mask(n)}
        assert len(recorder.evaluated) == len(below) + 1 == budget
        layers = np.array([[np.mean(marginals_over(table, below, i, k)) for k in (1, 2)] for i in range(n)])
        phi = layers.sum(1) / n
        missing = table[-1] - table[0] - phi.sum()
        assert values.mean == pytest.approx(phi + missing / n, abs=1e-12)


class TestKGreedy:
    @every_game
    def test_all_sizes_are_exact(self, game: KnownGame) -> None:
        values = fv.value(game.table, "k-greedy", k=game.n)
        assert values.mean == pytest.approx(game.values, abs=1e-12)

    def test_k_says_how_large_the_coalitions_are_and_what_they_cost(self) -> None:
        for k in range(6):
            recorder = Recorder(5, random_table(5, 1).table)
            values = fv.value(recorder, "k-greedy", k=k)
            assert sorted(recorder.evaluated) == sorted(m for size in range(k + 1) for m in layer(5, size))
            assert values.details == {"k": k}
        assert fv.value(TABLE_1, "k-greedy", budget=7).details == {"k": 2}

    @pytest.mark.parametrize("k", [-1, 4, 1.5, "2", True])
    def test_an_impossible_k_is_refused(self, k: object) -> None:
        with pytest.raises(fv.MethodError, match="'k' must be a whole number from 0 to 3"):
            fv.value(TABLE_1, "k-greedy", k=k)

    def test_a_budget_that_does_not_cover_k_is_refused(self) -> None:
        with pytest.raises(fv.BudgetError, match="at least 7"):
            fv.value(TABLE_1, "k-greedy", budget=6, k=2)


class TestStratified:
    @pytest.mark.parametrize("method", ["stratified-mc", "stratified-cc"])
    @pytest.mark.parametrize("design", ["paper", "paired"])
    def test_the_values_are_the_mean_of_stratum_means(self, method: str, design: str) -> None:
        n = 5
        kind = "marginal" if method == "stratified-mc" else "complement"
        table = random_table(n, 4).table
        with_empty_strata = 0
        for budget in (10, 20, 28, 31):
            recorder = Recorder(n, table)
            values = fv.value(recorder, method, budget, seed=budget, design=design)
            strata = [
                [marginals_over(table, set(recorder.evaluated), i, k, kind) for k in range(1, n + 1)]
                for i in range(n)
            ]
            empty = sum(not stratum for row in strata for stratum in row)
            assert values.details == {"empty_strata": empty, "strata": n * n}
            with_empty_strata += empty > 0
            means = np.array([[np.mean(x) if x else np.nan for x in row] for row in strata])
            others = [np.nanmean(column) if np.isfinite(column).any() else 0.0 for column in means.T]
            filler = np.array(others) if design == "paired" else np.zeros(n)
            assert values.mean == pytest.approx(np.where(np.isnan(means), filler, means).mean(1), abs=1e-12)
        assert with_empty_strata

    @pytest.mark.parametrize("method", ["stratified-mc", "stratified-cc"])
    def test_the_paper_design_draws_what_the_allocation_says(self, method: str) -> None:
        recorder = Recorder(5, random_table(5, 4).table)
        fv.value(recorder, method, 20, design="paper", allocation=[2, 7, 0, 3, 1])
        sizes = [mask.bit_count() for mask in recorder.evaluated]
        assert [sizes.count(k) for k in range(6)] == [1, 2, 7, 0, 3, 1]

    @pytest.mark.parametrize(
        ("allocation", "sizes"), [("equal", [1, 4, 4, 4, 4, 1]), ("proportional", [1, 3, 5, 5, 3, 1])]
    )
    @pytest.mark.parametrize("case", [("stratified-mc", "paper"), ("stratified-mc", "paired")], ids=str)
    def test_named_allocations(self, case: tuple[str, str], allocation: str, sizes: list[int]) -> None:
        recorder = Recorder(5, random_table(5, 4).table)
        fv.value(recorder, case[0], 18, design=case[1], allocation=allocation)
        drawn = [mask.bit_count() for mask in recorder.evaluated]
        assert [drawn.count(k) for k in range(6)] == sizes

    @pytest.mark.parametrize("method", ["stratified-mc", "stratified-cc"])
    @pytest.mark.parametrize("budget", [8, 13, 20, 31])
    def test_every_paired_evaluation_has_its_partner(self, method: str, budget: int) -> None:
        recorder = Recorder(5, random_table(5, 4).table)
        fv.value(recorder, method, budget, seed=1)
        drawn = set(recorder.evaluated)
        grand = full_mask(5)
        for mask in drawn - {0, grand}:
            below = {mask ^ 1 << i for i in members(mask)}
            assert drawn & below if method == "stratified-mc" else grand ^ mask in drawn

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"allocation": [1, 2, 1]}, "k = 1..5"),
            ({"allocation": [1, 2, 1, -1, 1]}, "between 0 and"),
            ({"allocation": [6, 0, 0, 0, 1]}, "between 0 and"),
            ({"allocation": [1.5, 1, 1, 1, 1]}, "m_k"),
            ({"allocation": 5}, "m_k"),
            ({"allocation": "even"}, "'equal', 'proportional'"),
            ({"allocation": [5, 10, 4, 0, 1]}, "budget is 20"),
            ({"design": "pairs"}, "'paired', 'paper' or 'uniform'"),
            ({"design": "uniform", "allocation": "proportional"}, "has no strata"),
        ],
    )
    @pytest.mark.parametrize("method", ["stratified-mc", "stratified-cc"])
    def test_impossible_options_are_refused(self, method: str, options: dict, message: str) -> None:
        with pytest.raises(fv.MethodError, match=message):
            fv.value(random_table(5, 4).table, method, 20, **options)


class TestGroupTesting:
    @pytest.mark.parametrize(("n", "budget"), [(2, 3), (3, 6), (5, 12), (7, 40)])
    def test_the_closed_form_solves_the_published_linear_program(
        self, n: int, budget: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        drawn: list[int] = []
        draw = group_testing.random_subset
        monkeypatch.setattr(
            group_testing, "random_subset", lambda *args: drawn.append(draw(*args)) or drawn[-1]
        )
        table = random_table(n, 6).table
        values = fv.value(table, "gtb", budget, seed=2)
        tests = drawn[: values.details["tests"]]
        assert len(set(tests)) + 2 == values.evaluations <= budget
        epsilon, phi = smallest_epsilon(n, table, tests)
        assert epsilon == pytest.approx(0, abs=1e-9)
        assert values.mean == pytest.approx(phi, abs=1e-7)

    @pytest.mark.slow
    def test_sizes_are_drawn_as_published(self, monkeypatch: pytest.MonkeyPatch) -> None:
        n, sizes = 6, []
        draw = group_testing.random_subset
        monkeypatch.setattr(
            group_testing, "random_subset", lambda n, k, rng: sizes.append(k) or draw(n, k, rng)
        )
        for seed in range(200):
            drive("gtb", random_table(n, 6).table, 30, seed)
        published = np.array([1 / k + 1 / (n - k) for k in range(1, n)])
        published /= published.sum()
        seen = np.bincount(sizes, minlength=n)[1:]
        z = (seen - len(sizes) * published) / np.sqrt(len(sizes) * published * (1 - published))
        assert np.abs(z).max() < 4


def smallest_epsilon(n: int, table: np.ndarray, tests: list[int]) -> tuple[float, np.ndarray]:
    """min ε with Σφ = v(N) − v(∅) and |φ_i − φ_j − ΔU_ij| ≤ ε for all i < j."""
    z = 2 * sum(1 / k for k in range(1, n))
    beta = membership(tests, n).astype(float)
    utility = table[tests]
    rows, bounds = [], []
    for i, j in combinations(range(n), 2):
        delta = z / len(tests) * float(utility @ (beta[:, i] - beta[:, j]))
        row = np.zeros(n + 1)
        row[[i, j]] = 1, -1
        for sign in (1, -1):
            signed = sign * row
            signed[-1] = -1
            rows.append(signed)
            bounds.append(sign * delta)
    solved = linprog(
        [0.0] * n + [1.0],
        A_ub=rows,
        b_ub=bounds,
        A_eq=[[1.0] * n + [0.0]],
        b_eq=[table[-1] - table[0]],
        bounds=[(None, None)] * n + [(0, None)],
    )
    assert solved.success
    return solved.fun, solved.x[:n]


class TestTruncation:
    @pytest.mark.parametrize(
        ("options", "largest"),
        [
            ({"tolerance": 0.1, "patience": 0}, 4),  # v(4) = 0.9375 is the first within 10 % of v(N) ≈ 1
            ({"tolerance": 0.1, "patience": 2}, 6),
            ({"tolerance": 0.3, "patience": 0}, 2),
            ({"tolerance": 0.3, "patience": 5}, 7),
            ({}, 11),  # published: more than 5 in a row within 1 %, v(7) being the first: no order gets there
            ({"tolerance": 0.0, "patience": 0}, 11),
        ],
    )
    def test_no_coalition_is_evaluated_beyond_the_truncation(self, options: dict, largest: int) -> None:
        recorder = Recorder(12, lambda mask: 1 - 0.5 ** mask.bit_count())
        fv.value(recorder, "tmc", 60, **options)
        sizes = {mask.bit_count() for mask in recorder.evaluated}
        assert sizes == {0, 12} | set(range(1, largest + 1))

    def test_clients_after_the_truncation_are_credited_with_nothing(self) -> None:
        table = np.array([min(mask.bit_count(), 1) for mask in range(1 << 4)], dtype=float)
        values = fv.value(table, "tmc", 6, tolerance=0.0, patience=0)
        assert values.mean.sum() == pytest.approx(1)  # in every order, the first takes it all
        assert values.evaluations == 6

    def test_a_truncated_order_leaves_room_for_more_orders(self) -> None:
        game = saturating(9)
        whole, cut = (
            fv.value(game.table, "tmc", 100, tolerance=tolerance, patience=0) for tolerance in (0.0, 0.2)
        )
        assert cut.details["permutations"] > whole.details["permutations"]

    @pytest.mark.slow
    def test_it_stops_when_the_running_means_have_converged(self) -> None:
        recorder = Recorder(20, lambda mask: float(mask.bit_count()))
        values = fv.value(recorder, "tmc", 20_000, tolerance=0.0)
        assert 100 < values.details["permutations"] <= 200
        assert values.evaluations < 5_000
        assert fv.value(recorder, "tmc", 20_000, convergence=0.0).evaluations > 15_000


class TestPermutation:
    def test_an_order_is_followed_by_its_reverse(self) -> None:
        n = 6
        recorder = Recorder(n, random_table(n, 8).table)
        assert fv.value(recorder, "permutation", 2 * n).details == {"permutations": 2}
        assert {full_mask(n) ^ mask for mask in recorder.evaluated} == set(recorder.evaluated)

    def test_few_orders_have_no_standard_error(self) -> None:
        table = random_table(6, 8).table
        assert fv.value(table, "permutation", 12).stderr is None
        assert fv.value(table, "permutation", 60).stderr is not None
        assert fv.value(table, "permutation", 12, balanced=False).stderr is None
        assert fv.value(table, "permutation", 50, balanced=False).stderr is not None

    @pytest.mark.parametrize("n", [2, 3, 6, 7])
    def test_in_a_block_every_client_takes_every_place_equally_often(self, n: int) -> None:
        size = n if n % 2 == 0 else 2 * n
        orders = np.array(list(islice(_orders(n, np.random.default_rng(0), balanced=True), size)))
        places = np.array([np.bincount(orders[:, place], minlength=n) for place in range(n)])
        assert (places == size // n).all()

    def test_the_standard_error_is_that_of_independent_orders(self) -> None:
        table = random_table(6, 8).table
        runs = [drive("permutation", table, 45, seed, balanced=False) for seed in range(300)]
        measured = np.array([run.mean for run in runs]).std(0, ddof=1)
        claimed = np.sqrt(np.mean([run.stderr**2 for run in runs if run.stderr is not None], axis=0))
        assert claimed == pytest.approx(measured, rel=0.2)


class TestBaselines:
    @every_game
    def test_leave_one_out_is_what_the_others_lose(self, game: KnownGame) -> None:
        grand = full_mask(game.n)
        expected = [game.table[grand] - game.table[grand ^ 1 << i] for i in range(game.n)]
        values = fv.value(game.table, "loo")
        assert values.mean.tolist() == expected
        assert values.evaluations == game.n + 1

    @every_game
    def test_equal_split_shares_the_gain(self, game: KnownGame) -> None:
        values = fv.value(game.table, "equal")
        assert values.mean.tolist() == [(game.table[-1] - game.table[0]) / game.n] * game.n
        assert values.evaluations == 2
