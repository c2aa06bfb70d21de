"""What holds for all values together: is the ranking real, how large is the noise, what would more trainings buy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedvalue._text import plural
from fedvalue.audit._noise import single_noise
from fedvalue.audit._tests import quantile, together
from fedvalue.values import Values

if TYPE_CHECKING:
    from fedvalue.audit._findings import Case

__all__ = ["noise_statement", "not_assessed", "outlook", "ranking"]

_FEW_REPEATS = 4  # trainings: with fewer, Student's t takes more than ten times the error for a finding


def ranking(case: Case) -> str:
    """How many pairs of clients differ by more than their uncertainty."""
    worth, n = case.worth, case.known.n
    if n < 2:
        return "There is one client, so nothing to rank."
    if worth.covariance is None or worth.bound:
        why = (
            "training noise was not measured"
            if worth.exact
            else f"the method {case.values.method} gives no interval"
        )
        return f"It is unknown whether the ranking is real: {why}."
    differences, errors = (of[np.triu_indices(n, 1)] for of in worth.differences())
    rounding = 1e-9 * case.known.spread
    reach = quantile(np.minimum(worth.dof[:, None], worth.dof[None, :])[np.triu_indices(n, 1)])
    same = int((np.abs(differences) <= rounding).sum())
    apart = int((np.abs(differences) > np.maximum(reach * errors, rounding)).sum())
    pairs = n * (n - 1) // 2
    source = "training noise" if worth.runs is not None else "the uncertainty of the estimates"
    verdict = (
        "is real" if apart == pairs - same else "is partly real" if apart > 0.05 * pairs else "may be chance"
    )
    verdict += _for_which(case)
    equal = f"; in {same} both have the same value" if same else ""
    return (
        f"The ranking {verdict}: {apart} of {pairs} pairs of clients differ by more than {source} explains "
        f"(95% each){equal}."
    )


def _for_which(case: Case) -> str:
    """What a ranking holds for, where the luck of training is not in it."""
    values = case.values
    if not values.random or case.worth.runs is not None or values.errors["training"] is not None:
        return ""
    return " for this seed" if values.one_seed else " for these seeds"


def noise_statement(case: Case) -> str:
    """Training noise, as far as it was measured."""
    single = single_noise(case.known)
    if single is None and case.values.errors["training"] is not None:
        return _noise_of_values(case.values)
    if single is None:
        if not case.values.random:
            return "Training noise was not measured."
        return (
            "Training noise was not measured: all trainings had the same seed. The method surrogate measures it, which "
            "trains with several seeds unless --seeds 1 is given."
        )
    if case.known.seeds.any():
        noise = single if case.values.noise is None else case.values.noise
        return (
            f"Training noise: one training varies by {noise:.4f} (standard deviation between seeds); its part of every "
            "value is in the interval."
        )
    said = (
        f"Training noise: one training varies by {single:.4f} (standard deviation over {case.known.replicates} "
        "trainings of each coalition)."
    )
    if case.worth.runs is not None and case.worth.covariance is not None:
        said += f" It moves a value by ±{quantile(case.worth.dof[0]) * float(np.sqrt(case.worth.covariance[0, 0])):.4f} (95%)."
    return said


def _noise_of_values(values: Values) -> str:
    """Training noise that the run measured, where the trainings that are compared had one seed."""
    further = f" with {plural(values.luck_trainings, 'training')}" if values.luck_trainings else ""
    one = "" if values.noise is None else f" One training varies by {values.noise:.4f} (standard deviation)."
    return f"Training noise was measured{further} of other seeds; its part of every value is in the interval.{one}"


def outlook(values: Values, more: int | None) -> str:
    """What further trainings would buy, and what the intervals are mostly made of."""
    said = " ".join(values.advice())
    left = (1 << values.n) - values.evaluations
    if values.seeds == 1 and (values.guarantee == "exact" or left <= 0):
        all_ = "More coalitions would not help, since all are counted already; more seeds would reduce training noise."
        return f"{all_} {said}".rstrip()
    k = values.evaluations if more is None else more
    k = k if values.seeds > 1 else min(k, left)
    gain = values.expected_gain(k)
    if gain is None:
        return f"How much further trainings would help is unknown: the method {values.method} gives no interval. {said}".rstrip()
    return f"{k:,} more trainings would narrow the widest interval by about {gain:.0%}. {said}".rstrip()


def counted(values: Values) -> str:
    """Which luck the intervals hold, for the sentence on false alarms."""
    parts = {
        "coalitions": "coalitions not trained",
        "training": "the luck of training",
        "test": "the luck of test rows",
    }
    known = [parts[name] for name, error in values.errors.items() if error is not None and error.any()]
    return f", which count {', '.join(known[:-1])}{' and ' if known[1:] else ''}{known[-1]}" if known else ""


def empty_statement(values: Values) -> str:
    """What values are counted from."""
    if values.utility_of_none is None:
        return ""
    return f"Values are counted from v(∅) = {values.sign * values.utility_of_none:.4f}, {values.empty_label}."


def not_assessed(case: Case) -> tuple[str, ...]:
    """What the trained coalitions do not allow to look at."""
    from fedvalue.audit._findings import MOST_FOR_PAIRS, can_depend, can_harm

    known, worth, said = case.known, case.worth, []
    if worth.covariance is None and not worth.exact:
        said.append(
            f"The method {case.values.method} gives no interval: no value can be shown to be zero or negative."
        )
    if not can_harm(case) and (worth.covariance is not None or worth.exact):
        said.append(
            "No client was checked for harm: how far the luck of training moves a value was not measured. Replicates, or "
            "the method surrogate with several seeds, measure it."
        )
    elif worth.repeats < _FEW_REPEATS:
        said.append(
            f"Checks for harm had little to go by: only {plural(int(worth.repeats), 'training')} of a coalition with another "
            "seed showed how far luck goes. A larger budget has more of them."
        )
    elif worth.bound:
        said.append(
            "Checks for harm had little to go by: the luck of training was not measured, so a client was found only if far "
            "below zero and far from all others. Replicates, or the method surrogate with several seeds, measure it."
        )
    seed = " with the same seed" if case.values.seeds > 1 else ""
    untested = sum(not pairs.any() for i, (_, pairs) in enumerate(case.steps) if i not in case.idle)
    if untested:
        said.append(
            f"{untested} of {known.n} clients were not checked for contributing nothing: no two coalitions that differ only in "
            f"the client were trained{seed}."
        )
    if known.n > MOST_FOR_PAIRS:
        said.append(f"Pairs were not compared: more than {MOST_FOR_PAIRS} clients.")
    else:
        unknown = sum(together(known, i, j) is None for i, j in case.pairs if not case.is_certain(i, j))
        if unknown:
            said.append(
                f"{unknown} of {len(case.pairs)} pairs were not checked for copies: the two together and each "
                f"alone were not all trained{seed}."
            )
    if known.n > 1 and not can_depend(case):
        said.append(
            "Dependence on one other client was not checked: that takes exact values without groups and a measure of training "
            "noise."
        )
    return tuple(said)
