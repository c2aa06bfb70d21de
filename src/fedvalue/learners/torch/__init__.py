"""Torch models, trained many at a time as one program."""

from fedvalue.learners.torch._learner import TorchLearner
from fedvalue.learners.torch._tuned import TunedLearner

__all__ = ["TorchLearner", "TunedLearner"]
