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
from fedvalue.training._counted import claims_apart, counted, counted_rows
from fedvalue.training._fedavg import (
    Begun,
    canonical_masks,
    continued_rounds,
    data_weights,
    first_round,
    later_rounds,
    recorded_rounds,
    same_data,
)
from fedvalue.training._measure import (
    UNTRAINED_MODELS,
    measured,
    measured_untrained,
    not_measured,
    outcomes_of,
)
from fedvalue.training._optimizers import APART, OPTIMIZERS
from fedvalue.training._rules import Training
from fedvalue.training._seeds import Seeds, canonical_trials, reseeds, side_by_side
from fedvalue.training._session import (
    AveragingSession,
    Doubtful,
    Drawing,
    Hindered,
    Learner,
    Pooling,
    Reseeding,
    Ruled,
    Seedless,
    Separable,
    Session,
    Stack,
    StartingLearner,
    Stepping,
    Telling,
    Weighed,
)
from fedvalue.training._traces import Trace, TraceGames, need_updates
from fedvalue.training._usual import usual_training
from fedvalue.training._waves import Pace, waves

__all__ = [
    "APART",
    "OPTIMIZERS",
    "UNTRAINED_MODELS",
    "AveragingSession",
    "Begun",
    "Doubtful",
    "Drawing",
    "Hindered",
    "Learner",
    "Pace",
    "Pooling",
    "Reseeding",
    "Ruled",
    "Seedless",
    "Seeds",
    "Separable",
    "Session",
    "Stack",
    "StartingLearner",
    "Stepping",
    "Telling",
    "Trace",
    "TraceGames",
    "Training",
    "Weighed",
    "Work",
    "canonical_masks",
    "canonical_trials",
    "claims_apart",
    "counted",
    "counted_rows",
    "continued_rounds",
    "data_weights",
    "first_passes",
    "first_round",
    "later_rounds",
    "measured",
    "measured_untrained",
    "need_updates",
    "not_measured",
    "outcomes_of",
    "passes_of",
    "recorded_rounds",
    "reseeds",
    "same_data",
    "seconds_per_pass_of",
    "side_by_side",
    "usual_training",
    "waves",
    "work_of",
    "work_of_all",
    "work_of_trials",
]
