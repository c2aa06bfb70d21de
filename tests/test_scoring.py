"""Metrics: known answers, edge cases, and what they have in common."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedvalue as fv
from fedvalue import scoring

PAIRED = [scoring.relative_l2, scoring.skill, scoring.kendall, scoring.spearman, scoring.payout_error]
every_metric = pytest.mark.parametrize("metric", PAIRED, ids=lambda m: m.__name__)
vectors = arrays(float, 4, elements=st.floats(-100, 100).map(lambda x: round(x, 3)))


@pytest.mark.parametrize(
    ("metric", "estimate", "truth", "expected"),
    [
        (scoring.relative_l2, [3.0, 4.0], [0.0, 4.0], 0.75),
        (scoring.relative_l2, [0.0, 0.0], [0.0, 0.0], 0.0),
        (scoring.relative_l2, [1.0, 0.0], [0.0, 0.0], math.inf),
        (scoring.skill, [1.5, 0.5], [2.0, 0.0], 0.5),
        (scoring.skill, [0.0, 2.0], [2.0, 0.0], -1.0),
        (scoring.skill, [1.0, 1.0], [1.0, 1.0], 0.0),
        (scoring.skill, [1.0, 1.1], [1.0, 1.0], -math.inf),
        (scoring.kendall, [1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        (scoring.kendall, [1, 2, 3, 4], [1, 2, 4, 3], 2 / 3),
        (scoring.kendall, [1, 1, 1, 1], [1, 2, 4, 3], math.nan),
        (scoring.spearman, [1, 2, 3, 4], [1, 2, 4, 3], 0.8),
        (scoring.spearman, [1, 2, 4, 3], [2, 2, 2, 2], math.nan),
        (scoring.payout_error, [1.0, 1.0], [1.0, 3.0], 25.0),
        (scoring.payout_error, [2.0, 6.0], [1.0, 3.0], 0.0),
        (scoring.payout_error, [1.0, -1.0], [1.0, 3.0], math.nan),
    ],
)
def test_known_answers(metric, estimate: list, truth: list, expected: float) -> None:
    assert metric(estimate, truth) == pytest.approx(expected, nan_ok=True)


@given(pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=30))
def test_rankings_count_ties_as_scipy_does(pairs: list[tuple[int, int]]) -> None:
    from scipy.stats import kendalltau, spearmanr

    found, true = zip(*pairs, strict=True)
    assert scoring.kendall(found, true) == pytest.approx(kendalltau(found, true).statistic, nan_ok=True)
    if len(set(found)) > 1 < len(set(true)):  # of constants scipy warns
        assert scoring.spearman(found, true) == pytest.approx(spearmanr(found, true).statistic)


@given(truth=vectors)
@every_metric
def test_the_truth_itself_has_no_error(metric, truth: np.ndarray) -> None:
    assume(np.ptp(truth) > 1 and abs(truth.sum()) > 1)
    errors = (scoring.relative_l2, scoring.payout_error)
    assert metric(truth, truth) == pytest.approx(0.0 if metric in errors else 1.0)


@given(estimate=vectors, truth=vectors, factor=st.sampled_from([0.25, 2.0, 1024.0]))
@every_metric
def test_the_unit_of_the_values_does_not_matter(
    metric, estimate: np.ndarray, truth: np.ndarray, factor: float
) -> None:
    assume(np.linalg.norm(truth) > 1e-3)
    expected = metric(estimate, truth)
    assert metric(factor * estimate, factor * truth) == pytest.approx(expected, nan_ok=True)


@every_metric
def test_values_are_as_good_as_arrays(metric) -> None:
    estimate, truth = [1.0, 2.0, 4.0], [1.0, 3.0, 2.0]
    as_values = fv.Values(mean=estimate, names=("a", "b", "c"), method="cc", evaluations=8)
    assert metric(as_values, truth) == metric(estimate, truth)


@pytest.mark.parametrize(
    ("estimate", "truth"),
    [([1.0], [1.0, 2.0]), ([], []), ([[1.0, 2.0]], [[1.0, 2.0]]), ([np.nan, 1.0], [1.0, 2.0])],
)
@every_metric
def test_what_cannot_be_compared_is_refused(metric, estimate: list, truth: list) -> None:
    with pytest.raises(fv.InputError):
        metric(estimate, truth)


def test_the_efficiency_gap_is_what_is_missing_from_the_total() -> None:
    assert scoring.efficiency_gap([0.5, 0.2], total=1.0) == pytest.approx(0.3)
    table = np.array([0.1, 0.5, 0.7, 0.96])
    assert scoring.efficiency_gap(fv.value(table, "exact"), 0.86) == pytest.approx(0)
