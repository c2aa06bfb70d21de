"""The one model of what trainings cost: counted in advance, in seconds only by scaling what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from fedvalue.coalitions import Trial, by_seed, members, membership
from fedvalue.scenarios import Scenario
from fedvalue.training._fedavg import canonical_masks
from fedvalue.training._rules import Training

__all__ = [
    "Work",
    "first_passes",
    "passes_of",
    "seconds_per_pass_of",
    "work_of",
    "work_of_all",
    "work_of_trials",
]

_BACKWARD = 3  # a training step costs about three forward passes


@dataclass(frozen=True)
class Work:
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


def work_of(scenario: Scenario, training: Training, masks: Iterable[int]) -> Work:
    """What training these coalitions takes."""
    asked = list(masks)
    distinct = set(canonical_masks(scenario, asked).values())
    often = membership([mask for mask in distinct if mask], scenario.n).sum(0)
    sizes = np.array([len(data) for data in scenario.clients])
    return _work(
        scenario,
        training,
        (len(asked), len(distinct - {0}), len(distinct)),
        (int((often > 0).sum()), int(sizes[often > 0].sum())),
        (int(often.sum()), float(often @ sizes)),
    )


def work_of_trials(scenario: Scenario, training: Training, trials: Iterable[Trial]) -> Work:
    """What trainings with several seeds take: nothing is shared between two of them.

    >>> from fedvalue.scenarios import load_scenario
    >>> s = load_scenario("synthetic", clients=3, samples=9)
    >>> work = work_of_trials(s, Training(rounds=2), [(0b011, 0), (0b001, 0), (0b110, 1)])
    >>> work.trained, work.first_round, work.per_later_round
    (3, 4, 5)
    """
    seeds = [work_of(scenario, training, masks) for masks in by_seed(trials).values()]
    return Work(
        sum(work.coalitions for work in seeds),
        sum(work.trained for work in seeds),
        sum(work.first_round for work in seeds),
        sum(work.per_later_round for work in seeds),
        training.rounds,
        sum(work.passes for work in seeds),
    )


def work_of_all(scenario: Scenario, training: Training) -> Work:
    """What training all 2**n coalitions takes, without listing them.

    >>> from fedvalue.scenarios import load_scenario
    >>> s = load_scenario("synthetic", clients=4, partition="free-riders", samples=9)
    >>> work_of_all(s, Training()) == work_of(s, Training(), range(16))
    True
    """
    alike = Counter(data.fingerprint for data in scenario.clients if len(data))
    rows = {data.fingerprint: len(data) for data in scenario.clients}
    # Of g clients with equal data 0, 1, … or g take part, whichever: g/2 on average over all coalitions.
    distinct = prod(g + 1 for g in alike.values())
    return _work(
        scenario,
        training,
        (1 << scenario.n, distinct - 1, distinct),
        (alike.total(), sum(g * rows[key] for key, g in alike.items())),
        (distinct * alike.total() // 2, distinct / 2 * sum(g * rows[key] for key, g in alike.items())),
    )


def _work(
    scenario: Scenario,
    training: Training,
    coalitions: tuple[int, int, int],
    first: tuple[int, int],
    later: tuple[int, float],
) -> Work:
    seen = first[1] + (training.rounds - 1) * later[1]
    passes = _BACKWARD * _epochs(training) * seen + float(coalitions[2]) * len(scenario.test)
    return Work(coalitions[0], coalitions[1], first[0], later[0], training.rounds, passes)


def passes_of(scenario: Scenario, training: Training, masks: Iterable[int]) -> dict[int, float]:
    """The forward passes of each coalition by itself; round 1 is shared by all and not counted.

    >>> from fedvalue.scenarios import load_scenario
    >>> s = load_scenario("synthetic", clients=2, samples=10, partition="same")
    >>> rules = Training(rounds=2, epochs=1)
    >>> {mask: passes - len(s.test) for mask, passes in passes_of(s, rules, [0b00, 0b01, 0b11]).items()}
    {0: 0, 1: 30, 3: 60}
    """
    each = _BACKWARD * _epochs(training) * (training.rounds - 1)
    passes = [each * len(data) for data in scenario.clients]
    return {mask: len(scenario.test) + sum(passes[i] for i in members(mask)) for mask in masks}


def first_passes(scenario: Scenario, training: Training, clients: Iterable[int]) -> float:
    """The forward passes of these clients' first round."""
    return float(_BACKWARD * _epochs(training) * sum(len(scenario.clients[i]) for i in clients))


def seconds_per_pass_of(scenario: Scenario, training: Training, seconds: Mapping[int, float]) -> float | None:
    """What a pass took in coalitions that were trained; None where there are none."""
    passes, total = work_of(scenario, training, seconds).passes, sum(seconds.values())
    return total / passes if passes and total else None


def _epochs(training: Training) -> int:
    return 1 if training.algorithm == "fedsgd" else training.epochs
