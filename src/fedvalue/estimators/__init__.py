"""The registry of estimators. To add one: a file here and an entry below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any

from fedvalue.coalitions import subset_total
from fedvalue.estimators._guarantee import guarantee_lines
from fedvalue.estimators._method import GUARANTEES, UNSTATED, Method, own_method
from fedvalue.estimators._plan import Plan
from fedvalue.estimators.baselines import equal, loo
from fedvalue.estimators.complementary import cc, cc_bernstein, cc_neyman
from fedvalue.estimators.complementary_paired import cc_paired
from fedvalue.estimators.exact import exact_cc, exact_mc, exact_perm
from fedvalue.estimators.gradients import dig_fl, gtg, lambda_mr, one_round
from fedvalue.estimators.group_testing import gtb
from fedvalue.estimators.ipss import ipss, ipss_balanced
from fedvalue.estimators.k_greedy import k_greedy
from fedvalue.estimators.permutation import permutation, tmc
from fedvalue.estimators.stratified import stratified_cc, stratified_mc
from fedvalue.estimators.surrogate import (
    coalitions_of_others,
    extra_trainings,
    surrogate,
    surrogate_adaptive,
    weighted_values,
)
from fedvalue.values import Values

__all__ = [
    "ESTIMATORS",
    "GUARANTEES",
    "UNSTATED",
    "Method",
    "Plan",
    "coalitions_of_others",
    "extra_trainings",
    "guarantee_lines",
    "own_method",
    "rest_on",
    "weighted_values",
]

PAPER = "Wei et al., Efficient Data Valuation Approximation in Federated Learning"
ZHANG = "Zhang et al., Efficient Sampling Approaches to Shapley Value Approximation, SIGMOD 2023"


def _all(n: int, options: Mapping[str, Any]) -> int:
    return 1 << n


def _at_least(count: int) -> Callable[[int, Mapping[str, Any]], int]:
    return lambda n, options: min(count, 1 << n)


def _one_order(n: int, options: Mapping[str, Any]) -> int:
    return n + 1


def _k_layers(n: int, options: Mapping[str, Any]) -> int:
    k = options.get("k")  # checked by the plan
    return subset_total(n, min(max(int(k), 0), n)) if isinstance(k, Integral) else 1


_METHODS = (
    Method(
        "exact", exact_mc, "Shapley value from all 2^n coalitions by marginal contributions (MC-SV)",
        "exact", f"{PAPER}, Eq. 4; Shapley 1953", _all, fixed=True, uses_seeds=True, uses_weights=True,
        solves=True,
    ),
    Method(
        "exact-cc", exact_cc, "Shapley value from all 2^n coalitions by complementary contributions (CC-SV)",
        "exact", f"{PAPER}, Eq. 5", _all, fixed=True,
    ),
    Method(
        "exact-perm", exact_perm, "Shapley value as the mean over all n! orders (Perm-SV)",
        "exact", f"{PAPER}, Sec. V-A", _all, fixed=True,
    ),
    Method(
        "surrogate", surrogate, "Gaussian process over coalitions, its Shapley values in closed form; the default",
        "biased", "fedvalue; Bayesian quadrature, O'Hagan 1991", _at_least(2), uses_known=True, uses_seeds=True,
        uses_weights=True,
    ),
    Method(
        "surrogate-adaptive", surrogate_adaptive,
        "The surrogate, later coalitions chosen by what the first ones leave uncertain",
        "biased", "fedvalue; Bayesian quadrature, O'Hagan 1991", _at_least(2), uses_known=True, uses_seeds=True,
        uses_weights=True,
    ),
    Method(
        "stratified-mc", stratified_mc, "Samples coalitions size by size, marginal contributions",
        "unbiased", f"{PAPER}, Alg. 1", _at_least(2),
    ),
    Method(
        "stratified-cc", stratified_cc, "Samples coalitions size by size, complementary contributions",
        "unbiased", f"{PAPER}, Alg. 1", _at_least(2),
    ),
    Method(
        "k-greedy", k_greedy, "All coalitions of at most k clients, none larger",
        "biased", f"{PAPER}, Alg. 2", _k_layers, fixed=True,
    ),
    Method(
        "ipss", ipss, "All small coalitions, then a balanced sample of the next size, none larger",
        "biased", f"{PAPER}, Alg. 3", _at_least(1),
    ),
    Method(
        "ipss-balanced", ipss_balanced, "IPSS with the sampled size averaged and the rest of v(N) distributed evenly",
        "biased", f"fedvalue, after {PAPER}, Alg. 3", _at_least(2),
    ),
    Method(
        "permutation", permutation, "Mean marginal contribution over balanced random orders",
        "unbiased", "Castro et al. 2009; Mitchell et al. 2022", _one_order,
    ),
    Method(
        "tmc", tmc, "Random orders, each cut short when it has reached v(N) (Extended-TMC)",
        "biased", "Ghorbani and Zou, Data Shapley, ICML 2019", _one_order,
    ),
    Method(
        "gtb", gtb, "Group testing: differences of values from random coalitions (Extended-GTB)",
        "biased", "Jia et al., Towards Efficient Data Valuation, AISTATS 2019", _at_least(3),
    ),
    Method(
        "cc", cc, "Random splits of the clients, complementary contributions, as published (CC-Shapley)",
        "unbiased", f"{ZHANG}, Alg. 1", _at_least(4),
    ),
    Method(
        "cc-neyman", cc_neyman, "CC-Shapley with a pilot and Neyman allocation over sizes, as published",
        "biased", f"{ZHANG}, Alg. 2", _at_least(4),
    ),
    Method(
        "cc-bernstein", cc_bernstein, "CC-Shapley that follows the widest empirical-Bernstein bounds, as published",
        "biased", f"{ZHANG}, Alg. 3", _at_least(4),
    ),
    Method(
        "cc-paired", cc_paired, "CC-Shapley improved: N | ∅ always, no split twice, empty strata filled in",
        "unbiased", f"improved here, after {ZHANG}", _at_least(4),
    ),
    Method(
        "loo", loo, "Leave-one-out: what the grand coalition loses without the client",
        "biased", "the paper's authors ran it under the name DIG-FL", lambda n, options: n + 1, fixed=True,
    ),
    Method(
        "equal", equal, "Equal split of v(N) − v(∅): the baseline that a method has to beat",
        "biased", "–", _at_least(2), fixed=True,
    ),
    Method(
        "or", None, "One recorded training: values of models assembled from all updates (OR)",
        "biased", "Song et al., Profit Allocation for Federated Learning, IEEE Big Data 2019",
        _at_least(1), fixed=True, view=one_round,
    ),
    Method(
        "lambda-mr", None, "One recorded training: values per round, later rounds counting less (λ-MR)",
        "biased", "Wei et al., Efficient and Fair Data Valuation for Horizontal Federated Learning, 2020",
        _at_least(1), fixed=True, view=lambda_mr,
    ),
    Method(
        "gtg", None, "One recorded training: guided truncated orders in every round (GTG-Shapley)",
        "biased", "Liu et al., GTG-Shapley, ACM TIST 2022", _at_least(1), fixed=True, view=gtg,
    ),
    Method(
        "dig-fl", None, "One recorded training: how far each update descends the test loss (DIG-FL)",
        "biased", "Wang et al., Efficient Participant Contribution Evaluation, ICDE 2022",
        _at_least(1), fixed=True, view=dig_fl,
    ),
)  # fmt: skip

ESTIMATORS: dict[str, Method] = {method.name: method for method in _METHODS}


def rest_on(values: Values) -> str:
    """What values rest on where trainings are repeated, in words; gradient methods look at one of them."""
    method = ESTIMATORS.get(values.method)
    if method is not None and method.view:
        return (
            f"values of {values.method} look at one recorded training, not at the mean of {values.replicates}"
        )
    return f"values are computed from the mean of {values.replicates} trainings of each coalition"
