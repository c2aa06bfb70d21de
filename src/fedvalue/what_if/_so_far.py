"""What clients are worth by the trainings that are known so far, while a run is still going on. Nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedvalue.coalitions import Trial, full_mask
from fedvalue.errors import InputError
from fedvalue.estimators import weighted_values
from fedvalue.values import Values
from fedvalue.weights import blocks_of, owen
from fedvalue.what_if._sums import MODEL, Trained

__all__ = ["values_so_far"]


def values_so_far(
    names: Sequence[str],
    trained: Trained,
    groups: Mapping[str, Sequence[str]] | None = None,
    *,
    several_seeds: bool = False,
    most: int | None = None,
) -> Values:
    """Shapley values, with `groups` Owen values, by the surrogate, whatever method the run itself has.

    They are those of the expected utility, or of one seed (or the mean of replicates) without `several_seeds`.
    Of more than `most` trainings a choice is used.

    >>> values_so_far(("a", "b"), Trained({0: [0.0], 1: [1.0], 2: [3.0], 3: [4.0]})).mean.round(3).tolist()
    [1.0, 3.0]
    """
    n = len(names)
    missing = [
        what
        for mask, what in ((0, "the untrained model"), (full_mask(n), "the coalition of all clients"))
        if mask not in trained.utilities
    ]
    if missing:
        raise InputError(
            f"Values begin when {' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} measured."
        )
    trials = _some(trained.trials(several_seeds), full_mask(n), most)
    blocks = blocks_of(names, groups)
    found = weighted_values(n, trials, None if blocks is None else owen(n, blocks))
    certain = np.any(found.stderr)
    return Values(
        found.mean,
        tuple(names),
        MODEL,
        len(trials),
        stderr=found.stderr if certain else None,
        dof=found.dof if certain else None,
        covariance=found.covariance if certain else None,
        parts=found.parts,
        guarantee="biased",
        groups={name: tuple(of) for name, of in (groups or {}).items()},
        seeds=len({seed for _, seed in trials}),
    )


def _some(trials: Mapping[Trial, float], full: int, most: int | None) -> dict[Trial, float]:
    """All trials or, of many, the same random choice every time, with ∅ and the coalition of all clients."""
    if most is None or len(trials) <= most:
        return dict(trials)
    ends = [trial for trial in trials if trial[0] in (0, full)]
    others = sorted(trials.keys() - set(ends))
    chosen = np.random.default_rng(0).permutation(len(others))[: max(0, most - len(ends))]
    return {trial: trials[trial] for trial in (*ends, *(others[j] for j in chosen))}
