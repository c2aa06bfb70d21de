"""Options that are given as key=value, or as names with commas between them, as what they stand for."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any, get_type_hints

from fedvalue._checks import fits, in_words
from fedvalue.errors import InputError, MethodError

__all__ = ["app_settings", "method_options", "model_options", "names", "scenario_options"]

_BARE_FRACTION = re.compile(r"[+-]?\.[0-9]+([eE][+-]?[0-9]+)?")


def names(*texts: str) -> list[str]:
    """What an option lists, with commas, by being repeated, or both.

    >>> names("exact, loo", "surrogate")
    ['exact', 'loo', 'surrogate']
    """
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def scenario_options(texts: Sequence[str], taken: Collection[str]) -> dict[str, Any]:
    """Options of a scenario or partition; not those that the command has itself.

    >>> scenario_options(["alpha=0.1", "keep-occupation=false", "label=income"], ())
    {'alpha': 0.1, 'keep_occupation': False, 'label': 'income'}
    """
    for name, text in (found := _pairs(texts)).items():
        if name in taken:
            raise InputError(
                f"{name!r} is an option of the command, not of the scenario. Got '{name}={text}'."
            )
    return {name: _literal(text) for name, text in found.items()}


def model_options(texts: Sequence[str]) -> dict[str, Any]:
    """Options of a model; those that it does not have are left to the run to refuse.

    >>> model_options(["depth=6", "rate=0.1"])
    {'depth': 6, 'rate': 0.1}
    """
    return {name: _literal(text) for name, text in _pairs(texts).items()}


def app_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Settings of a Flower app, whose words have hyphens between them.

    >>> app_settings(["method=ipss", "message-mb=32"])
    {'method': 'ipss', 'message-mb': 32}
    """
    return {name.replace("_", "-"): _literal(text) for name, text in _pairs(texts).items()}


def method_options(method: str, texts: Sequence[str]) -> dict[str, Any]:
    """Options of a method, of the types that it says; those it does not have are left to the run to refuse.

    >>> method_options("tmc", ["patience=3", "tolerance=0"])
    {'patience': 3, 'tolerance': 0.0}
    """
    pairs = _pairs(texts)
    if not pairs:
        return {}
    from fedvalue.run import as_method

    known = get_type_hints(as_method(method).function)
    return {name: _typed(method, name, text, known.get(name, Any)) for name, text in pairs.items()}


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, given = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise InputError(f"An option is written as key=value. Got {text!r}.")
        if name in pairs:
            raise InputError(f"The option {name!r} was given twice.")
        pairs[name] = given.strip()
    return pairs


def _literal(text: str) -> Any:
    """Numbers, lists, true, false and none as such; anything else is a text."""
    if _BARE_FRACTION.fullmatch(text):  # .05 is a number, though JSON has it otherwise
        return float(text)
    try:
        return json.loads(text)
    except ValueError:
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def _typed(method: str, name: str, text: str, kind: Any) -> Any:
    value = _literal(text)
    if isinstance(value, int) and not isinstance(value, bool) and fits(1.5, kind):
        value = float(value)
    if not fits(value, kind):
        raise MethodError(f"The option {name!r} of {method} must be {in_words(kind)}. Got {text!r}.")
    return value
