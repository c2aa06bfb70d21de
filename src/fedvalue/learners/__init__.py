"""The registry of learners: what can be trained. Modules are imported when a learner is made."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any, cast

from fedvalue.errors import InputError
from fedvalue.learners.base import Learner

__all__ = ["LEARNERS", "make_learner"]

_TORCH = "fedvalue.learners.torch_stack:TorchLearner"

# name → where it is made; torch models are described in learners/models.py
LEARNERS: dict[str, str] = {
    "mlp": _TORCH,
    "cnn": _TORCH,
    "linear": _TORCH,
    "text-mean": _TORCH,
    "lstm": _TORCH,
    "least-squares": "fedvalue.learners.least_squares:LeastSquares",
    "xgboost": "fedvalue.learners.xgboost_bagging:XGBoostBagging",
}


def make_learner(model: str | Learner | Callable[..., Any]) -> Learner:
    """A learner by name, by 'package.module:factory', by a function scenario → nn.Module, or as it is.

    The class of a module is such a function, too; one that takes nothing is called with nothing.
    """
    if hasattr(model, "session"):
        return cast(Learner, model)
    if isinstance(model, str):
        if model in LEARNERS:
            module, name = LEARNERS[model].split(":")
            return cast(Learner, getattr(import_module(module), name)(model))
        if ":" not in model:
            near = get_close_matches(model, LEARNERS, n=2, cutoff=0.4)
            hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
            raise InputError(
                f"Unknown model {model!r}. {hint}Models: {', '.join(LEARNERS)}, or package.module:factory."
            )
        model = _own_factory(model)
    from fedvalue.learners.torch_stack import TorchLearner

    return TorchLearner(model)


def _own_factory(path: str) -> Callable[..., Any]:
    """A factory of the user's own, given as package.module:factory."""
    module, _, name = path.partition(":")
    try:
        factory = getattr(import_module(module), name)
    except Exception as error:  # whatever the user's own module raises
        raise InputError(
            f"The model {path!r} cannot be imported: {type(error).__name__}: {error}. It must be "
            "package.module:factory, where factory takes the scenario (or nothing) and returns an nn.Module, and "
            "the module must be on the Python path."
        ) from error
    if not callable(factory):
        raise InputError(f"The model {path!r} must be a function scenario → nn.Module.")
    return cast(Callable[..., Any], factory)
