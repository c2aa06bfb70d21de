"""Torch models, trained many at a time as one program."""

from fedvalue.learners.torch._learner import TorchLearner

__all__ = ["TorchLearner"]
