"""Options of a method from the command line: `--option k=2` becomes `k=2` of the type that is expected."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fedvalue.errors import InputError, MethodError
from fedvalue.estimators import ESTIMATORS

__all__ = ["parse_options"]


def parse_options(method: str, texts: Sequence[str]) -> dict[str, Any]:
    """The options of a method; unknown methods and unknown options are left to the run to refuse.

    >>> parse_options("tmc", ["patience=3", "tolerance=0"])
    {'patience': 3, 'tolerance': 0.0}
    """
    known = get_type_hints(ESTIMATORS[method].function) if method in ESTIMATORS else {}
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, given = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise InputError(f"An option is written as key=value. Got {text!r}.")
        if name in options:
            raise InputError(f"The option {name!r} was given twice.")
        options[name] = _typed(method, name, given.strip(), known.get(name, Any))
    return options


def _typed(method: str, name: str, text: str, kind: Any) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = {"true": True, "false": False, "none": None}.get(text.lower(), text)
    if isinstance(value, int) and not isinstance(value, bool) and _fits(1.5, kind):
        value = float(value)
    if not _fits(value, kind):
        raise MethodError(f"The option {name!r} of {method} must be {_words(kind)}. Got {text!r}.")
    return value


def _fits(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if origin is not None:  # a sequence
        (item,) = get_args(kind)
        return isinstance(value, list) and all(_fits(one, item) for one in value)
    return type(value) is kind


def _words(kind: Any) -> str:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return " or ".join(_words(one) for one in get_args(kind))
    if origin is Literal:
        return " or ".join(map(str, get_args(kind)))
    if origin is not None:
        return "a list in brackets"
    words = {int: "a whole number", float: "a number", bool: "true or false", NoneType: "none"}
    return words.get(kind, str(kind))
