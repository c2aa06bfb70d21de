"""What is measured of every run, and what is shown of it. To add a measure: a function and a line below."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue import scoring
from fedvalue.estimators.k_greedy import full_layers
from fedvalue.scenarios import Scenario
from fedvalue.values import Values
from fedvalue_paper.grid import Run

__all__ = ["COLUMNS", "MEASURES", "Column", "Finding", "is_better", "measured"]


@dataclass(frozen=True)
class Finding:
    """What a run found, and what it is held against: exact values and v(N) − v(∅), where they are known."""

    run: Run
    values: Values
    truth: Values | None = None
    gain: float | None = None
    scenario: Scenario | None = None


@dataclass(frozen=True)
class Column:
    """A column of a table: what stands above it, how its numbers are written, what it means.

    A line break in a heading is used on narrow terminals only. `spread`: whether the deviation over runs is
    shown beside the mean.
    """

    heading: str
    form: str = ""
    meaning: str = ""
    spread: bool = False


Measure = Callable[[Finding], float | None]
_ROUNDING = 1e-9
_CUT_OFF = ("k-greedy", "ipss")  # all up to a size k*, which the bound is about; IPSS some of the next, too


def measured(finding: Finding) -> dict[str, float | None]:
    """Every measure of a run; None where it does not apply or is not a number."""
    found = {name: measure(finding) for name, measure in MEASURES.items()}
    return {
        name: None if value is None or math.isnan(value) else float(value) for name, value in found.items()
    }


def _against_truth(metric: Callable[[Values, Values], float]) -> Measure:
    return lambda finding: None if finding.truth is None else metric(finding.values, finding.truth)


def _by_estimate(finding: Finding) -> float | None:
    """‖φ̂ − φ‖ / ‖φ̂‖, the error that the authors printed in Table IV and Fig. 6."""
    if finding.truth is None:
        return None
    error, norm = _norm(finding.values.mean - finding.truth.mean), _norm(finding.values.mean)
    return error / norm if norm else 0.0 if error == 0 else math.inf


def _better(finding: Finding) -> float | None:
    """1 where the run is closer to the exact values than the equal split, else 0: the mean over runs says how often."""
    skill = MEASURES["skill"](finding)
    return None if skill is None or math.isnan(skill) else is_better(skill)


def is_better(skill: float) -> float:
    """1 for a skill above 0, else 0; one that is 0 but for rounding, as the equal split's own, is not above it."""
    return float(skill > _ROUNDING)


def _mean_error(finding: Finding) -> float | None:
    """|mean φ̂ − mean φ| / |mean φ|: the error that clients have in common, which the paper's bound is about."""
    if finding.truth is None:
        return None
    true = float(finding.truth.mean.mean())
    return abs(float(finding.values.mean.mean()) - true) / abs(true) if true else None


def _efficiency_gap(finding: Finding) -> float | None:
    return None if finding.gain is None else scoring.efficiency_gap(finding.values, finding.gain)


def _off(finding: Finding) -> float | None:
    """The largest distance from the numbers that the paper prints."""
    expected = finding.run.expected
    return None if expected is None else float(np.abs(finding.values.mean - expected).max())


def _free_rider_error(finding: Finding) -> float | None:
    """‖φ̂ of clients without data‖, which ought to be 0."""
    clients = [role["client"] for role in _roles(finding) if role["role"] == "free-rider"]
    return _norm(finding.values.mean[clients]) if clients else None


def _symmetry_error(finding: Finding) -> float | None:
    """‖φ̂ of a copy − φ̂ of its original‖ over all copies, which ought to be 0."""
    copies, originals = _copied(finding)
    return _norm(finding.values.mean[copies] - finding.values.mean[originals]) if copies else None


def _symmetry_by_originals(finding: Finding) -> float | None:
    """The same in parts of ‖φ̂ of the originals‖, as the authors have it."""
    error, (_, originals) = _symmetry_error(finding), _copied(finding)
    norm = _norm(finding.values.mean[originals])
    return None if error is None or norm == 0 else error / norm


def _relative(measure: Measure) -> Measure:
    """As a part of ‖φ̂‖: values that are small altogether are not the better for it."""

    def relative(finding: Finding) -> float | None:
        found, norm = measure(finding), _norm(finding.values.mean)
        return None if found is None or norm == 0 else found / norm

    return relative


def _mean_value(finding: Finding) -> float | None:
    return float(finding.values.mean.mean())


def _lemma_value(finding: Finding) -> float | None:
    """(m₀ − μ|x|/(nt − |x| − 1))/n, what the paper's Lemma 1 expects a client's value to be.

    m₀ is what the initial model errs by beyond the noise: 1 in the scenario `synthetic`, μ its noise's variance.
    """
    if finding.scenario is None or "noise_sd" not in finding.scenario.details:
        return None
    n, _, t, d = _sizes(finding, finding.scenario)
    noise = float(finding.scenario.details["noise_sd"]) ** 2
    return (1 - noise * d / (n * t - d - 1)) / n if n * t > d + 1 else None


def _bound(finding: Finding) -> float | None:
    """(n − k)t / ((kt − |x| − 1)(nt − |x| − 2)), the last line of the proof of the paper's Theorem 3."""
    if finding.scenario is None or finding.run.method not in _CUT_OFF:
        return None
    n, k, t, d = _sizes(finding, finding.scenario)
    below = (k * t - d - 1) * (n * t - d - 2)
    return (n - k) * t / below if k * t > d + 1 and below > 0 else None


def _bound_order(finding: Finding) -> float | None:
    """(n − k)/(k·n·t), the order that the theorem states."""
    if finding.scenario is None or finding.run.method not in _CUT_OFF:
        return None
    n, k, t, _ = _sizes(finding, finding.scenario)
    return (n - k) / (k * n * t) if k and t else None


def _bound_ratio(finding: Finding) -> float | None:
    """The error of the mean in parts of the bound: up to 1 the bound holds."""
    error, bound = _mean_error(finding), _bound(finding)
    return error / bound if error is not None and bound else None


def _sizes(finding: Finding, scenario: Scenario) -> tuple[int, int, float, int]:
    """n, k*, samples per client, and coefficients: the features and an intercept."""
    n, run = scenario.n, finding.run
    k = run.options.get("k", full_layers(n, run.budget) if run.budget else n)
    samples = sum(map(len, scenario.clients)) / n
    return n, int(k), samples, math.prod(scenario.test.x.shape[1:]) + 1


def _copied(finding: Finding) -> tuple[list[int], list[int]]:
    """Copies, and the original of each."""
    pairs = [(role["client"], role["of"]) for role in _roles(finding) if role["role"] == "copy"]
    return [copy for copy, _ in pairs], [original for _, original in pairs]


def _roles(finding: Finding) -> list[Mapping[str, Any]]:
    return [] if finding.scenario is None else list(finding.scenario.details.get("roles", ()))


def _norm(vector: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(vector))


MEASURES: dict[str, Measure] = {
    "error": _against_truth(scoring.relative_l2),
    "error_by_estimate": _by_estimate,
    "skill": _against_truth(scoring.skill),
    "better": _better,
    "kendall": _against_truth(scoring.kendall),
    "spearman": _against_truth(scoring.spearman),
    "payout_error": _against_truth(scoring.payout_error),
    "efficiency_gap": _efficiency_gap,
    "mean_error": _mean_error,
    "free_rider_error": _free_rider_error,
    "symmetry_error": _symmetry_error,
    "free_rider_relative": _relative(_free_rider_error),
    "symmetry_relative": _relative(_symmetry_error),
    "symmetry_by_originals": _symmetry_by_originals,
    "mean_value": _mean_value,
    "lemma_value": _lemma_value,
    "bound": _bound,
    "bound_order": _bound_order,
    "bound_ratio": _bound_ratio,
    "off": _off,
}

_ERROR = ".3g"
COLUMNS: dict[str, Column] = {
    "label": Column("method"),
    "model": Column("model"),
    "partition": Column("partition"),
    "n": Column("n", ".0f"),
    "empty": Column("v(∅)", ".4g", "utility without any data"),
    "budget": Column("γ", ".0f", "distinct coalitions that the method may evaluate"),
    "k": Column("K", ".0f", "largest size of the coalitions that are evaluated"),
    "trainings": Column("trainings", ",.0f", "coalitions evaluated; for Perm-Shapley n·n!, without reuse"),
    "error": Column("error", _ERROR, "‖estimate − exact‖ / ‖exact‖, the paper's l2 error", spread=True),
    "error_by_estimate": Column("error by\nestimate", _ERROR, "‖estimate − exact‖ / ‖estimate‖, as the authors divide in Table IV and Fig. 6", spread=True),
    "skill": Column("skill", "+.2f", "1 is exact, 0 no better than paying everyone the same", spread=True),
    "better": Column("better\nthan equal", ".0%", "share of the runs that are closer to the exact values than the equal split"),
    "error_expected": Column("error,\nexpected", _ERROR, "the same against the mean of the exact values over all training seeds", spread=True),
    "skill_expected": Column("skill,\nexpected", "+.2f", "skill against that mean", spread=True),
    "better_expected": Column("better,\nexpected", ".0%", "share of the runs that are closer to that mean than the equal split"),
    "kendall": Column("Kendall\nτ", "+.2f", "agreement of the ranking with the exact one, over the runs that rank at all", spread=True),
    "spearman": Column("Spearman\nρ", "+.2f", "agreement of the ranking with the exact one, over the runs that rank at all", spread=True),
    "payout_error": Column("payout\nerror %", ".1f", "largest error of a client's share, in percent of the pot", spread=True),
    "efficiency_gap": Column("efficiency\ngap", _ERROR, "|sum of the values − v(N) + v(∅)|"),
    "mean_error": Column("error\nof mean", _ERROR, "relative error of the mean value of a client", spread=True),
    "free_rider_error": Column("free riders", _ERROR, "norm of the values of clients without data", spread=True),
    "symmetry_error": Column("copies", _ERROR, "norm of the differences between copies and originals", spread=True),
    "free_rider_relative": Column("free riders,\nrelative", _ERROR, "the same in parts of ‖estimate‖", spread=True),
    "symmetry_relative": Column("copies,\nrelative", _ERROR, "the same in parts of ‖estimate‖", spread=True),
    "symmetry_by_originals": Column("copies by\noriginals", _ERROR, "the same in parts of the norm of the originals' values", spread=True),
    "mean_value": Column("mean\nvalue", ".3g", "of a client"),
    "lemma_value": Column("Lemma 1", ".3g", "the mean value that Lemma 1 expects"),
    "bound": Column("bound", _ERROR, "(n−k)t / ((kt−|x|−1)(nt−|x|−2)), from the proof of Theorem 3"),
    "bound_order": Column("bound's\norder", _ERROR, "(n−k)/(k·n·t)"),
    "bound_ratio": Column("error /\nbound", _ERROR, "up to 1 the bound holds for the mean value", spread=True),
    "off": Column("off", _ERROR, "largest distance from the numbers that the paper prints"),
    "variance": Column("variance", _ERROR, "variance of a client's value over seeds, mean over clients"),
    "error_variance": Column("error's\nvariance", _ERROR, "variance of the error over seeds"),
    "values": Column("values", ".4f"),
    "expected": Column("paper's values", ".4f"),
    "sample_epochs": Column("sample\nepochs", ".3g", "samples × rounds × epochs over its trainings: the cost, whatever the machine"),
    "paper_seconds": Column("paper\ntime s", ".3g", "its trainings one after the other, at the measured cost of each (≈: extrapolated)"),
    "wall_seconds": Column("wall\ntime s", ".3g", "what this engine took for these coalitions, and the method itself"),
}  # fmt: skip
