"""Trainings with several seeds: which of them are the same, and which a session trains side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TypeAlias

from fedvalue.coalitions import Trial
from fedvalue.scenarios import Scenario
from fedvalue.training._fedavg import canonical_masks
from fedvalue.training._rules import Training
from fedvalue.training._session import Reseeding, Session

__all__ = ["Seeds", "canonical_trials", "reseeds", "side_by_side"]

Seeds: TypeAlias = Mapping[int, int | None]
"""By the numbers of trials, the seeds that a session trains them with; None is that of its own rules."""


def canonical_trials(scenario: Scenario, trials: Sequence[Trial]) -> dict[Trial, list[Trial]]:
    """The trials that are trained, and for each those that it stands for: with its seed, and the same data."""
    canonical = canonical_masks(scenario, [mask for mask, _ in trials])
    found: dict[Trial, list[Trial]] = {}
    for mask, number in dict.fromkeys(trials):
        found.setdefault((canonical[mask], number), []).append((mask, number))
    return found


def reseeds(session: Session) -> bool:
    """Whether a session can train with several seeds side by side."""
    return isinstance(session, Reseeding) and session.reseeds


def side_by_side(
    session: Session, training: Training, trials: Sequence[Trial]
) -> Iterator[tuple[Training, Seeds]]:
    """The seeds of these trials in the groups that share a session, with the rules of that session.

    `session` is that of the rules `training`. Where it can, it trains as many seeds as its memory allows: the first
    round of every client is kept for each. Where not, every seed has a session to itself.
    """
    numbers = sorted({number for _, number in trials})
    if not reseeds(session):
        for number in numbers:
            yield training.replicate(number), {number: None}
        return
    clients = reduce(or_, (mask for mask, _ in trials), 0).bit_count()
    at_once = max(1, session.rows // max(1, clients))
    for start in range(0, len(numbers), at_once):
        some = numbers[start : start + at_once]
        yield training, {number: training.replicate(number).seed if number else None for number in some}
