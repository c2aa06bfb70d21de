"""Optimisers by the names that rules of training have for them, and pairs as one line of text, as rules hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fedvalue._checks import did_you_mean
from fedvalue.errors import InputError

__all__ = ["APART", "OPTIMIZERS", "check_optimizer", "pairs_of", "pairs_text"]

_STACKED = {
    "adam": "Adam", "sgd": "SGD", "adamw": "AdamW", "rmsprop": "RMSprop", "adagrad": "Adagrad", "adadelta": "Adadelta",
    "adamax": "Adamax", "nadam": "NAdam", "radam": "RAdam", "rprop": "Rprop", "asgd": "ASGD",
}  # fmt: skip
APART: Mapping[str, str] = {
    "lbfgs": "it searches along a line for each model by itself",
    "adafactor": "its steps depend on the norms of whole tensors",
    "muon": "it orthogonalises whole matrices",
}
"""Optimisers whose step of a number depends on others of the model: models are trained one after the other, and why."""

OPTIMIZERS: Mapping[str, str] = {**_STACKED, "lbfgs": "LBFGS", "adafactor": "Adafactor", "muon": "Muon"}
"""By name, the class in torch.optim."""

_OWN_RULE = {"lr": "rate", "weight_decay": "weight_decay"}
_MECHANICS = ("foreach", "fused", "capturable", "differentiable", "maximize")  # how, not what; or uphill
_NO_DECAY = ("lbfgs", "rprop")


def check_optimizer(name: str, options: Mapping[str, Any], weight_decay: float) -> None:
    """Refuses an optimiser that does not exist, and options that rules have another name for."""
    if name not in OPTIMIZERS:
        raise InputError(
            f"Unknown optimizer {name!r}. {did_you_mean(name, OPTIMIZERS)}Optimizers: {', '.join(OPTIMIZERS)}."
        )
    own = {**_OWN_RULE, **({"momentum": "momentum"} if name == "sgd" else {})}
    for option in options:
        if option in own:
            raise InputError(f"{option} is not an option of the optimizer: say {own[option]}=… instead.")
        if option in _MECHANICS:
            raise InputError(f"{option} cannot be chosen: it is not a rule of training. Leave it out.")
    if name == "adamw" and not weight_decay:
        raise InputError("adamw needs weight_decay above 0, such as 0.01. Without it, it would be adam.")
    if weight_decay and name in _NO_DECAY:
        raise InputError(
            f"{name} has no weight decay. Got weight_decay={weight_decay:g}; leave it out, or choose sgd."
        )


def pairs_text(what: str, given: object) -> str:
    """A dict, or key=value,key=value, as one line of text in the order of the keys.

    >>> pairs_text("optimizer_options", {"nesterov": True, "betas": (0.8, 0.99)})
    'betas=0.8:0.99,nesterov=true'
    """
    if isinstance(given, str):
        pairs = _split(what, given)
    elif isinstance(given, Mapping):
        pairs = {str(key): _text(what, value) for key, value in given.items()}
    else:
        raise InputError(f"{what} must be a dict, or a text such as name=value,name=value. Got {given!r}.")
    return ",".join(f"{key}={pairs[key]}" for key in sorted(pairs))


def pairs_of(text: str) -> dict[str, Any]:
    """What such a text says.

    >>> pairs_of("betas=0.8:0.99,nesterov=true,ns_steps=5")
    {'betas': (0.8, 0.99), 'nesterov': True, 'ns_steps': 5}
    """
    return {key: _value(said) for key, said in _split("The text", text).items()}


def _split(what: str, text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value) or key in pairs:
            word = "balanced, or " if what == "class_weights" else ""
            raise InputError(f"{what} must be {word}name=value,name=value, each name once. Got {text!r}.")
        pairs[key] = _text(what, _value(value))
    return pairs


def _text(what: str, value: Any) -> str:
    if isinstance(value, (list, tuple)) and value and not any(isinstance(v, (list, tuple)) for v in value):
        return ":".join(_text(what, part) for part in value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.isprintable() and not set(value) & set(",=:"):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"Values of {what} are numbers, names, true, false or tuples of them. Got {value!r}."
        ) from error
    if not math.isfinite(number):
        raise InputError(f"Numbers of {what} must be finite. Got {value!r}.")
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _value(text: str) -> Any:
    if ":" in text:
        return tuple(_value(part) for part in text.split(":"))
    named = {"true": True, "false": False, "none": None}
    if text.lower() in named:
        return named[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
