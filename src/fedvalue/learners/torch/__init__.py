"""Torch models, trained many at a time as one program."""

from fedvalue.learners.torch._stack import TorchLearner

__all__ = ["TorchLearner"]
