"""What rules of training ask of the data and of a stack."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedvalue.errors import InputError
from fedvalue.learners.torch._optimizers import try_optimizer
from fedvalue.scenarios import CLASSIFICATION, Scenario
from fedvalue.training import APART, Training

__all__ = ["check_rules", "sample_weights", "widest_batch"]


def check_rules(scenario: Scenario, training: Training, module: nn.Module) -> str:
    """Refuses rules that do not go with data or model. Returns why models cannot be trained together, if they cannot."""
    try_optimizer(training, [p for p in module.parameters() if p.requires_grad])
    if training.class_weights and scenario.task != CLASSIFICATION:
        raise InputError(f"class_weights need classes. This is a {scenario.task}; leave them out.")
    if training.class_weights and scenario.test.y.ndim > 1:
        raise InputError(
            "class_weights are for one label a row. Here a row has several; weigh them in a loss of your own."
        )
    beyond = [c for c in training.weight_of_class if c >= scenario.classes]
    if beyond:
        raise InputError(
            f"class_weights name the class {beyond[0]}; classes here are 0 to {scenario.classes - 1}."
        )
    if training.algorithm == "fedsgd" or training.optimizer not in APART:
        return ""
    return (
        f"The optimizer {training.optimizer} trains models one after the other: {APART[training.optimizer]}."
    )


def sample_weights(labels: NDArray[Any], training: Training) -> NDArray[np.float32] | None:
    """What each sample of a client counts in the loss; None where all count the same.

    Balanced: classes of the client count the same, each as a whole. A class without a weight of its own has 1.
    """
    if not training.class_weights:
        return None
    if training.class_weights == "balanced":
        _, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
        weights: NDArray[np.float32] = (len(labels) / (len(counts) * counts))[which].astype(np.float32)
        return weights
    of_class = training.weight_of_class
    return np.array([of_class.get(int(label), 1.0) for label in labels], np.float32)


def widest_batch(scenario: Scenario, training: Training) -> int:
    """How many samples a step holds, those without weight included: the same for all clients."""
    most = max(len(c) for c in scenario.clients)
    return most if training.algorithm == "fedsgd" else min(training.batch * training.accumulate, most)
