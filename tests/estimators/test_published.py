"""Worked examples and statements of the IPSS paper, and the options that follow its text or its authors' code."""

from __future__ import annotations

from functools import partial
from itertools import combinations, product
from math import comb, gcd
from typing import Any

import numpy as np
import pytest
from cases import SAMPLING, drive

import fedvalue as fv
from fedvalue.coalitions import full_mask, layer, mask_of, membership, subset_total
from fedvalue.estimators import stratified
from fedvalue.testing import check_estimator
from fedvalue.testing.games import Recorder, brute_force, random_table

# Fig. 2 and Fig. 5: the paper prints the utilities in a figure; these agree with every number of Examples 2 and 3.
# In the order of bitmasks, bit 0 being the paper's client 1.
FIG_2 = np.array(
    [0.10, 0.88, 0.85, 0.90, 0.80, 0.92, 0.85, 0.92, 0.75, 0.88, 0.88, 0.91, 0.82, 0.90, 0.85, 0.95]
)
MARKED = ((), (1,), (2,), (3,), (1, 2), (1, 3), (2, 3), (1, 2, 3), (2, 3, 4), (1, 2, 3, 4))
"""The ten coalitions that are marked in Fig. 2."""


def of(*clients: int) -> int:
    """The bitmask of clients that are counted from 1, as in the paper."""
    return mask_of(client - 1 for client in clients)


def stratified_on(
    monkeypatch: pytest.MonkeyPatch, method: str, table: np.ndarray, masks: list[int]
) -> fv.Estimate:
    """Algorithm 1 when these are the coalitions that were sampled."""
    monkeypatch.setattr(stratified, "_independent_strata", lambda *_: masks)
    return drive(method, table, len(masks), 0, design="paper")


class TestExample2:
    """Fig. 2: the unified framework with ten coalitions of four clients; client 1 is really worth 0.26."""

    def test_the_exact_value(self) -> None:
        assert fv.value(FIG_2, "exact").mean[0] == pytest.approx(0.26, abs=1e-12)

    def test_case_1_marginal_contributions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        strata = (
            FIG_2[of(1)] - FIG_2[0],
            (FIG_2[of(1, 2)] - FIG_2[of(2)] + FIG_2[of(1, 3)] - FIG_2[of(3)]) / 2,
            FIG_2[of(1, 2, 3)] - FIG_2[of(2, 3)],
            FIG_2[of(1, 2, 3, 4)] - FIG_2[of(2, 3, 4)],
        )
        assert strata == pytest.approx((0.78, 0.085, 0.07, 0.10))
        estimate = stratified_on(monkeypatch, "stratified-mc", FIG_2, [of(*clients) for clients in MARKED])
        assert estimate.mean[0] == pytest.approx(0.25875, abs=1e-12)

    def test_case_2_complementary_contributions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sizes 1 and 4 give 0.03 and 0.85; of sizes 2 and 3 no pair was sampled, and they count 0."""
        estimate = stratified_on(monkeypatch, "stratified-cc", FIG_2, [of(*clients) for clients in MARKED])
        assert estimate.mean[0] == pytest.approx((0.03 + 0 + 0 + 0.85) / 4, abs=1e-12)
        assert estimate.mean[0] == pytest.approx(0.22, abs=1e-12)


def test_example_3_is_fig_5() -> None:
    """IPSS with γ = 10 and the paper's five pairs: 0.22, 0.20, 0.1842, 0.1667."""
    pairs = [of(1, 2), of(1, 3), of(1, 4), of(2, 4), of(3, 4)]
    drawn = next(
        seed
        for seed in range(100)
        if sorted(pairs)
        == sorted(pairs_drawn(seed))  # one of many draws that are as balanced as five pairs can be
    )
    assert drive("ipss", FIG_2, 10, drawn).mean == pytest.approx([0.22, 0.20, 0.1842, 0.1667], abs=5e-5)


def pairs_drawn(seed: int) -> list[int]:
    recorder = Recorder(4, FIG_2)
    fv.value(recorder, "ipss", 10, seed)
    return [mask for mask in recorder.evaluated if mask.bit_count() == 2]


class TestTheorem1:
    """ "Alg. 1 provides an unbiased estimation": only where no stratum of a client stays empty."""

    @pytest.mark.parametrize("method", ["stratified-mc", "stratified-cc"])
    @pytest.mark.parametrize(
        ("m", "unbiased"), [((3, 3), True), ((2, 2), False), ((3, 1), False), ((1, 3), False)]
    )
    def test_over_all_samples_of_three_clients(
        self, monkeypatch: pytest.MonkeyPatch, method: str, m: tuple[int, int], unbiased: bool
    ) -> None:
        n, table = 3, random_table(3, 4).table
        truth, runs, full = brute_force(table), [], [[] for _ in range(n)]  # type: ignore[var-annotated]
        of_stratum = strata_of(table, method)
        for ones, twos in product(combinations(layer(n, 1), m[0]), combinations(layer(n, 2), m[1])):
            masks = [0, *ones, *twos, full_mask(n)]
            values = stratified_on(monkeypatch, method, table, masks).mean
            runs.append((values, nonempty(n, set(masks), method)))
            for i in range(n):
                if runs[-1][1][i].all():
                    full[i].append(values[i])
        mean = np.mean([values for values, _ in runs], axis=0)
        sampled = np.mean([has for _, has in runs], axis=0)
        # The expectation has every stratum as often as it has a sample ...
        assert mean == pytest.approx((sampled * of_stratum).sum(1) / n, abs=1e-12)
        # ... which is the Shapley value where that is always, and where it is looked at only then.
        assert bool(np.allclose(mean, truth, atol=1e-12)) == unbiased
        for i in range(n):
            if full[i]:
                assert np.mean(full[i]) == pytest.approx(truth[i], abs=1e-12)


def partner(n: int, mask: int, i: int, method: str) -> int:
    return mask ^ 1 << i if method == "stratified-mc" else full_mask(n) ^ mask


def strata_of(table: np.ndarray, method: str) -> np.ndarray:
    """The mean contribution of every client at every size, slowly."""
    n = len(table).bit_length() - 1
    means = np.zeros((n, n))
    for i, k in product(range(n), range(1, n + 1)):
        inside = [mask for mask in layer(n, k) if mask >> i & 1]
        means[i, k - 1] = np.mean([table[mask] - table[partner(n, mask, i, method)] for mask in inside])
    return means


def nonempty(n: int, masks: set[int], method: str) -> np.ndarray:
    """Which strata have a complete pair among the coalitions."""
    return np.array(
        [
            [
                any(mask >> i & 1 and {mask, partner(n, mask, i, method)} <= masks for mask in layer(n, k))
                for k in range(1, n + 1)
            ]
            for i in range(n)
        ]
    )


class TestStrictBalance:
    @pytest.mark.parametrize("n", [3, 4, 5, 6, 7, 10, 12])
    def test_as_many_of_the_next_size_as_allow_equality(self, n: int) -> None:
        for budget in sorted({2, n, n + 2, 2 * n + 1, 3 * n + 2, n * n // 2, n * n} & set(range(1, 1 << n))):
            recorder = Recorder(n, lambda mask: mask.bit_count() ** 0.5 + 0.01 * (mask & 1))
            values = fv.value(recorder, "ipss", budget, seed=budget, balance="strict")
            k = max(k for k in range(n + 1) if subset_total(n, k) <= budget)
            left = budget - subset_total(n, k)
            largest = max(p for p in range(left + 1) if p * (k + 1) % n == 0)
            sampled = [mask for mask in recorder.evaluated if mask.bit_count() > k]
            assert len(sampled) == values.details["sampled"] == largest
            assert np.ptp(membership(sampled, n).sum(0)) == 0
            assert values.evaluations == subset_total(n, k) + largest <= budget

    @pytest.mark.parametrize(("n", "budget", "sampled"), [(3, 5, 0), (6, 8, 0), (10, 32, 20)])
    def test_at_the_budgets_of_the_paper(self, n: int, budget: int, sampled: int) -> None:
        table = np.random.default_rng(n).random(1 << n)
        strict = fv.value(table, "ipss", budget, balance="strict")
        assert strict.details["sampled"] == sampled
        if not sampled:
            assert strict.mean.tolist() == fv.value(table, "k-greedy", k=1).mean.tolist()
        assert fv.value(table, "ipss", budget).evaluations == budget  # the default uses everything

    def test_another_balance_is_refused(self) -> None:
        with pytest.raises(fv.MethodError, match="'near' or 'strict'"):
            fv.value(random_table(3, 2).table, "ipss", 5, balance="exact")


class TestUniformDesign:
    @pytest.mark.parametrize("method", ["stratified-mc", "stratified-cc"])
    def test_every_coalition_is_equally_likely(self, method: str) -> None:
        n, budget, runs = 4, 5, 1600
        seen = np.zeros(1 << n)
        for seed in range(runs):
            asked = next(SAMPLING[method].plan(n, budget, np.random.default_rng(seed), design="uniform"))
            assert len(set(asked)) == budget
            seen[list(asked)] += 1
        p = budget / (1 << n)  # ∅ and N like the others
        assert np.abs(seen - runs * p).max() < 4 * np.sqrt(runs * p * (1 - p))

    @pytest.mark.parametrize("method", ["stratified-mc", "stratified-cc"])
    @pytest.mark.parametrize("n", [30, 70])
    def test_many_clients(self, method: str, n: int) -> None:
        asked = next(SAMPLING[method].plan(n, 200, np.random.default_rng(0), design="uniform"))
        assert len(set(asked)) == 200
        assert max(asked) < 1 << n
        assert membership(list(asked), n).mean(0) == pytest.approx(np.full(n, 0.5), abs=0.15)

    @pytest.mark.parametrize("method", ["stratified-mc", "stratified-cc"])
    def test_pairs_that_happen_to_exist_count_and_empty_strata_are_0(self, method: str) -> None:
        n, table = 5, random_table(5, 9).table
        of_run: list[Any] = []
        for seed in range(20):
            recorder = Recorder(n, table)
            values = fv.value(recorder, method, 20, seed, design="uniform")
            masks = set(recorder.evaluated)
            expected = np.zeros(n)
            for i, k in product(range(n), range(1, n + 1)):
                pairs = [(s, partner(n, s, i, method)) for s in layer(n, k) if s >> i & 1]
                found = [table[s] - table[other] for s, other in pairs if {s, other} <= masks]
                expected[i] += np.mean(found) / n if found else 0.0
            assert values.mean == pytest.approx(expected, abs=1e-12)
            of_run.append(values.details["empty_strata"])
        assert max(of_run) > 0

    @pytest.mark.parametrize("method", ["stratified-mc", "stratified-cc"])
    def test_it_keeps_to_the_contract(self, method: str) -> None:
        """As a method of its own: it is nearly always biased, where the others of its name are unbiased from some budget on."""
        plan = partial(SAMPLING[method].plan, design="uniform")  # type: ignore[arg-type]
        check_estimator(fv.Method("uniform", plan, guarantee="biased", minimum=lambda n, _: min(2, 1 << n)))


def test_strict_sizes_are_multiples_of_n_over_the_common_divisor() -> None:
    """The rule behind `balance="strict"`: p·k places among n clients can be equal only if n divides them."""
    for n, k in product(range(1, 13), range(1, 13)):
        step = n // gcd(n, k)
        assert [p for p in range(40) if p * k % n == 0] == list(range(0, 40, step))
        if k <= n:
            assert comb(n, k) % step == 0  # so the whole layer is always possible
