"""Federated training: its rules, FedAvg over stacks of models, and recorded runs.

What a model must be able to do to be trained so is the contract `Session`; learners fulfil it.
"""

from fedvalue.training._cost import (
    Work,
    first_passes,
    passes_of,
    seconds_per_pass_of,
    work_of,
    work_of_all,
    work_of_trials,
)
from fedvalue.training._fedavg import (
    canonical_masks,
    data_weights,
    first_round,
    later_rounds,
    recorded_rounds,
)
from fedvalue.training._measure import UNTRAINED_MODELS, measured, measured_untrained, not_measured
from fedvalue.training._rules import Training
from fedvalue.training._session import (
    AveragingSession,
    Deterministic,
    Doubtful,
    Drawing,
    Learner,
    Ruled,
    Session,
    Stack,
    StartingLearner,
    Weighed,
)
from fedvalue.training._traces import Trace, TraceGames, need_updates
from fedvalue.training._waves import CHECKPOINT_SECONDS, Pace, waves

__all__ = [
    "CHECKPOINT_SECONDS",
    "UNTRAINED_MODELS",
    "AveragingSession",
    "Deterministic",
    "Doubtful",
    "Drawing",
    "Learner",
    "Pace",
    "Ruled",
    "Session",
    "Stack",
    "StartingLearner",
    "Trace",
    "TraceGames",
    "Training",
    "Weighed",
    "Work",
    "canonical_masks",
    "data_weights",
    "first_passes",
    "first_round",
    "later_rounds",
    "measured",
    "measured_untrained",
    "need_updates",
    "not_measured",
    "passes_of",
    "recorded_rounds",
    "seconds_per_pass_of",
    "waves",
    "work_of",
    "work_of_all",
    "work_of_trials",
]
