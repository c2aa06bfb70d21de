"""The registry of learners: what can be trained. Modules are imported when a learner is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from typing import Any, cast

from fedvalue._checks import did_you_mean
from fedvalue._extras import need
from fedvalue._imports import own_object
from fedvalue.errors import InputError
from fedvalue.learners.scikit import is_estimator, is_estimator_class
from fedvalue.training import Learner

__all__ = ["LEARNERS", "is_of_transformers", "make_learner"]

_TORCH = "fedvalue.learners.torch:TorchLearner"

# name → where it is made; torch models are described in learners/models.py
LEARNERS: dict[str, str] = {
    "mlp": _TORCH,
    "mlp-dropout": _TORCH,
    "cnn": _TORCH,
    "linear": _TORCH,
    "text-mean": _TORCH,
    "lstm": _TORCH,
    "least-squares": "fedvalue.learners.least_squares:LeastSquares",
    "xgboost": "fedvalue.learners.xgboost_bagging:XGBoostBagging",
}
_SCIKIT = "sklearn:"
_NEEDS = {"xgboost": ("xgboost", "torch")}  # the others need torch alone


def make_learner(model: str | Learner | Callable[..., Any], **options: Any) -> Learner:
    """A learner by name, by 'package.module:factory' or ':learner', by a function scenario → nn.Module, or as it is.

    An estimator of scikit-learn, as an object or by 'sklearn:package.Class' with its settings as options, is fitted to
    pooled rows. A model of transformers is trained as it is, or its adapters over it.

    The class of a module is such a function, too; one that takes nothing is called with nothing. Learners by name have
    options, such as the depth of trees.
    """
    if isinstance(model, str) and model.startswith(_SCIKIT):
        need("sklearn", f"The model {model!r}")
        need("torch", f"The model {model!r}")  # metrics are computed by it
        from fedvalue.learners.pooled_estimator import named_estimator

        return named_estimator(model, options)
    if options and (not isinstance(model, str) or model not in LEARNERS):
        raise InputError(
            f"{', '.join(options)}: only models by name have options ({', '.join(LEARNERS)}). Got {model!r}; give them to "
            "the function or learner itself."
        )
    if isinstance(model, str):
        if model in LEARNERS:
            for package in _NEEDS.get(model, ("torch",)):
                need(package, f"The model {model!r}")
            module, name = LEARNERS[model].split(":")
            return _made(model, getattr(import_module(module), name), options)
        if ":" not in model:
            raise InputError(
                f"Unknown model {model!r}. {did_you_mean(model, LEARNERS)}Models: {', '.join(LEARNERS)}, sklearn:package.Class, or package.module:factory."
            )
        expected = "a function of the scenario, or of nothing, that returns an nn.Module, or a learner"
        model = own_object(model, "model", expected, lambda m: callable(m) or _is_learner(m))
    if isinstance(model, type) and _is_learner(model):
        raise InputError(f"{model.__name__} is a class of learners. Make one of it: {model.__name__}(…).")
    if _is_learner(model):
        return cast(Learner, model)
    if is_estimator(model) or is_estimator_class(model):  # which is refused in words
        need("torch", "An estimator as the model of a scenario")
        from fedvalue.learners.pooled_estimator import PooledEstimator

        return PooledEstimator(model)
    need("torch", "A model of your own")
    from fedvalue.learners.torch import TorchLearner, TunedLearner

    if is_of_transformers(model):
        return TunedLearner(model)
    return TorchLearner(cast(Callable[..., Any], model))


def _made(model: str, kind: Callable[..., Learner], options: Mapping[str, Any]) -> Learner:
    known = [p.name for p in signature(kind).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise InputError(
                f"The model {model!r} has no option {option!r}. {did_you_mean(option, known)}Its options: "
                f"{', '.join(known) or 'none'}."
            )
    return kind(model, **options)


def is_of_transformers(model: object) -> bool:
    """Whether this is a model of the package transformers, with or without adapters; imports nothing."""
    kinds = (kind.__module__.partition(".")[0] for kind in type(model).__mro__)
    return hasattr(model, "parameters") and any(kind in ("transformers", "peft") for kind in kinds)


def _is_learner(model: object) -> bool:
    return hasattr(model, "session")
