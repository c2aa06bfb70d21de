"""What trainings cost: counted from the plan, in seconds only by scaling what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from fedvalue.coalition import members
from fedvalue.outcome import Outcome
from fedvalue.scenarios.base import Scenario
from fedvalue.text import duration
from fedvalue.training import Training, canonical_masks

__all__ = ["Cost", "cost_of", "cost_of_all", "duration", "measured_speed", "size"]

_BACKWARD = 3  # a training step costs about three forward passes


@dataclass(frozen=True)
class Cost:
    """Trainings of some coalitions. Those that are the same training (a client without data, equal data)
    are trained once; round 1 is one local training per client, shared by all.

    `passes` are samples times forward passes, which time is about proportional to.
    """

    coalitions: int
    trained: int
    first_round: int
    per_later_round: int
    rounds: int
    passes: float

    @property
    def client_trainings(self) -> int:
        """Local trainings in all rounds."""
        return self.first_round + (self.rounds - 1) * self.per_later_round


def cost_of(scenario: Scenario, training: Training, masks: Iterable[int]) -> Cost:
    """What training these coalitions takes."""
    asked = list(masks)
    distinct = set(canonical_masks(scenario, asked).values())
    coalitions = [members(mask) for mask in distinct if mask]
    clients = {i for coalition in coalitions for i in coalition}
    sizes = [len(data) for data in scenario.clients]
    return _cost(
        scenario,
        training,
        (len(asked), len(coalitions), len(distinct)),
        (len(clients), sum(sizes[i] for i in clients)),
        (sum(map(len, coalitions)), float(sum(sizes[i] for coalition in coalitions for i in coalition))),
    )


def cost_of_all(scenario: Scenario, training: Training) -> Cost:
    """What training all 2**n coalitions takes, without listing them.

    >>> from fedvalue.scenarios import load_scenario
    >>> s = load_scenario("synthetic", clients=4, partition="free-riders", samples=9)
    >>> cost_of_all(s, Training()) == cost_of(s, Training(), range(16))
    True
    """
    alike = Counter(data.fingerprint for data in scenario.clients if len(data))
    rows = {data.fingerprint: len(data) for data in scenario.clients}
    # Of g clients with equal data 0, 1, … or g take part, whichever: g/2 on average over all coalitions.
    distinct = prod(g + 1 for g in alike.values())
    return _cost(
        scenario,
        training,
        (1 << scenario.n, distinct - 1, distinct),
        (alike.total(), sum(g * rows[key] for key, g in alike.items())),
        (distinct * alike.total() // 2, distinct / 2 * sum(g * rows[key] for key, g in alike.items())),
    )


def _cost(
    scenario: Scenario,
    training: Training,
    coalitions: tuple[int, int, int],
    first: tuple[int, int],
    later: tuple[int, float],
) -> Cost:
    epochs = 1 if training.algorithm == "fedsgd" else training.epochs
    seen = first[1] + (training.rounds - 1) * later[1]
    passes = _BACKWARD * epochs * seen + float(coalitions[2]) * len(scenario.test)
    return Cost(coalitions[0], coalitions[1], first[0], later[0], training.rounds, passes)


def measured_speed(scenario: Scenario, training: Training, outcomes: Mapping[int, Outcome]) -> float | None:
    """Measured on trained coalitions; None where there are none."""
    passes = cost_of(scenario, training, outcomes).passes
    seconds = sum(outcome.seconds for outcome in outcomes.values())
    return seconds / passes if passes and seconds else None


def size(count: float) -> str:
    """Bytes for people.

    >>> size(4_000_000_000), size(1_536)
    ('4.0 GB', '2 kB')
    """
    for scale, name in ((1e9, "GB"), (1e6, "MB")):
        if count >= scale:
            return f"{count / scale:.1f} {name}" if count < 10 * scale else f"{count / scale:,.0f} {name}"
    return f"{count / 1000:.0f} kB"
