"""The work of trainings with one seed or several."""

from __future__ import annotations

from collections.abc import Iterable

from fedvalue.coalitions import Trial
from fedvalue.scenarios import Scenario
from fedvalue.training import Training, Work, work_of

__all__ = ["by_seed", "work_of_trials"]


def by_seed(trials: Iterable[Trial]) -> dict[int, list[int]]:
    """The coalitions that are trained with every seed, each once.

    >>> by_seed([(3, 0), (1, 1), (3, 0), (2, 0)])
    {0: [3, 2], 1: [1]}
    """
    found: dict[int, list[int]] = {}
    for mask, seed in dict.fromkeys(trials):
        found.setdefault(seed, []).append(mask)
    return found


def work_of_trials(scenario: Scenario, training: Training, trials: Iterable[Trial]) -> Work:
    """What these trainings take: round 1 is shared by the coalitions of a seed, not by those of others."""
    works = [work_of(scenario, training, masks) for masks in by_seed(trials).values()]
    return Work(
        sum(work.coalitions for work in works),
        sum(work.trained for work in works),
        sum(work.first_round for work in works),
        sum(work.per_later_round for work in works),
        training.rounds,
        sum(work.passes for work in works),
    )
