"""The rules of training where a user leaves them open."""

from __future__ import annotations

from typing import Any

from fedvalue.scenarios import Scenario
from fedvalue.training._rules import Training
from fedvalue.training._session import Learner, Ruled

__all__ = ["usual_training"]


def usual_training(scenario: Scenario, learner: Learner, **given: Any) -> Training:
    """What suits the data, as far as it applies to the model; rules that are given take its place."""
    suited = scenario.training
    if isinstance(learner, Ruled):  # what suits the data is for models that are trained in steps
        suited = {name: rule for name, rule in suited.items() if name in learner.rules}
    return Training(**{**suited, **given})
