"""What trainings let leave each client, by the rules of a federated training."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fedvalue.coalitions import Trial
from fedvalue.scenarios import Scenario
from fedvalue.training import Training, canonical_trials
from fedvalue.values import Disclosed

__all__ = ["by_rule", "shown_to_others"]


def by_rule(scenario: Scenario, training: Training, trials: Collection[Trial]) -> list[Disclosed]:
    """What these trainings would let leave clients that are apart: every local training is sent once, round 1 is shared
    by all trainings with a seed."""
    made = [trial for trial in canonical_trials(scenario, list(trials)) if trial[0]]
    found = []
    for client, name in enumerate(scenario.names):
        mine = [(mask, seed) for mask, seed in made if mask >> client & 1]
        first, later = len({seed for _, seed in mine}), training.rounds - 1
        alone = sum(mask.bit_count() == 1 for mask, _ in mine)
        models = first + later * len(mine)
        gradients = models if training.algorithm == "fedsgd" else 0
        found.append(Disclosed(name, models, first + later * alone, gradients, counts=1))
    return found


def shown_to_others(
    scenario: Scenario,
    training: Training,
    trials: Collection[Trial],
    sent: Collection[Disclosed],
    measured_by_clients: bool,
) -> tuple[Disclosed, ...]:
    """With what other clients were sent: averages that they trained on from round 2 on, and final models to measure."""
    made = [mask for mask, _ in canonical_trials(scenario, list(trials)) if mask]
    found = []
    for client, of_client in enumerate(sent):
        mine = [mask.bit_count() for mask in made if mask >> client & 1]
        times = training.rounds - 1 + measured_by_clients
        alone = mine.count(1) if measured_by_clients and len(scenario.names) > 1 else 0
        found.append(
            replace(
                of_client,
                averages=times * sum(size > 1 for size in mine),
                pairs=times * mine.count(2),
                solo_shown=alone,
            )
        )
    return tuple(found)
