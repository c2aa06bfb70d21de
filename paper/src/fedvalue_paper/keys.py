"""Which keys the file of an experiment may have, and what they hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from fedvalue.errors import InputError

__all__ = ["check"]

_GRID = {"seeds", "budgets", "methods", "games", "game", "method", "note", "exact_up_to", "settings"}
_ALLOWED = {
    "": _GRID | {"title", "paper", "claim", "table", "figure", "scale", "variant"},
    "scale": _GRID | {"takes"},
    "variant": {"method", "methods", "budgets", "note", "games", "game", "table", "figure", "settings"},
    "game": {
        "scenario", "clients", "partition", "samples", "test_size", "options", "seed", "training_seed", "model", "training",
        "metric", "table", "names", "skip", "empty", "own_numbers", "dropout",
    },
    "method": {"name", "label", "options", "budgets", "seeds", "expected", "over_seeds", "most_clients"},
    "table": {"split", "rows", "columns", "across"},
    "training": {
        "rounds", "epochs", "batch", "optimizer", "rate", "momentum", "algorithm", "mu",
    },
    "figure": {
        "name", "kind", "x", "y", "series", "panels", "x_scale", "y_scale", "x_label", "y_label",
        "band", "where",
    },
}  # fmt: skip
# What a key holds, wherever it stands: one of these types, or a list of them.
_TEXTS = dict.fromkeys(("title", "paper", "claim", "note", "takes", "name", "label", "across"), (str,))
_TABLES = dict.fromkeys(("scale", "variant", "game", "games", "method", "options", "training"), (Mapping,))
_SINGLE: dict[str, tuple[type, ...]] = {
    **_TEXTS,
    **_TABLES,
    "exact_up_to": (int,),
    "most_clients": (int,),
    "seeds": (int, list),
}
_LISTS: dict[str, tuple[type, ...]] = {
    "methods": (str,), "split": (str,), "rows": (str,), "columns": (str,), "panels": (str,), "names": (str,),
    "budgets": (int, str), "expected": (int, float), "figure": (Mapping,), "seeds": (int,), "settings": (list,),
}  # fmt: skip
_WORDS: dict[type, str] = {
    str: "text", int: "a whole number", float: "a number", Mapping: "a table", list: "a list",
}  # fmt: skip


def check(file: str, content: Mapping[str, Any]) -> None:
    """Unknown keys and values of a wrong type are refused by name, wherever they stand."""
    _known(file, "", content, _ALLOWED[""])
    for key in ("title", "paper", "claim", "methods", "scale", "table"):
        if key not in content:
            raise InputError(f"{file}: {key!r} is missing.")
    parts = [("", content)]
    for scale, part in content["scale"].items():
        _known(file, f"scale.{scale}", part, _ALLOWED["scale"])
        parts.append((f"scale.{scale}.", part))
    for variant, part in content.get("variant", {}).items():
        _known(file, f"variant.{variant}", part, _ALLOWED["variant"])
        parts.append((f"variant.{variant}.", part))
    for place, part in parts:
        for number, figure in enumerate(part.get("figure", ()), 1):
            _known(file, f"{place}figure {number}", figure, _ALLOWED["figure"])
        _known(file, f"{place}table", part.get("table", {}), _ALLOWED["table"])
        blocks = {f"{place}game.{key}": block for key, block in part.get("game", {}).items()}
        blocks |= {f"{place}games": part["games"]} if "games" in part else {}
        for where, block in blocks.items():
            _known(file, where, block, _ALLOWED["game"])
            _known(file, f"{where}.training", block.get("training", {}), _ALLOWED["training"])
        for key, entry in part.get("method", {}).items():
            _known(file, f"{place}method.{key}", entry, _ALLOWED["method"])


def _known(file: str, place: str, given: Any, allowed: Collection[str]) -> None:
    where = f"{file}, [{place}]" if place else file
    if not isinstance(given, Mapping):
        raise InputError(f"{where} must be a table. Got {given!r}.")
    for key in given:
        if key not in allowed:
            near = get_close_matches(str(key), allowed, n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise InputError(f"{where}: unknown key {key!r}. {hint}Keys: {', '.join(sorted(allowed))}.")
        _check_type(where, key, given[key])


def _check_type(where: str, key: str, value: Any) -> None:
    """What a key holds is of the type that it must have."""
    single, of_list = _SINGLE.get(key, ()), _LISTS.get(key, ())
    if single and not _is(value, single):
        raise InputError(f"{where}: {key!r} must be {_words(single)}. Got {value!r}.")
    if not of_list or (single and not isinstance(value, list)):
        return
    if not isinstance(value, list) or not all(_is(one, of_list) for one in value):
        raise InputError(f"{where}: {key!r} must be a list, each entry {_words(of_list)}. Got {value!r}.")


def _is(value: Any, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


def _words(types: tuple[type, ...]) -> str:
    return " or ".join(_WORDS[each] for each in types)
