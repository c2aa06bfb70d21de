"""Options from a file: `fedvalue.toml` in the current folder, or the one named by --config.

    [run]
    scenario = "files"
    data-dir = "hospitals"
    label = "outcome"
    budget = 64

The command line wins. Keys are the names of the options; dashes and underscores are the same.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from fedvalue._checks import did_you_mean
from fedvalue.errors import InputError

__all__ = ["FILE", "no_config", "read_config", "used_config"]

FILE = "fedvalue.toml"
_ABOUT_CONFIG = ("config", "no_config", "help")  # options that make no sense in the file itself
_BOTH = "--config and --no-config contradict each other; give one of them."
_DECLINED = "fedvalue.no_config"
_USED = "fedvalue.config"


def no_config(ctx: typer.Context, declined: bool) -> bool:
    """Callback of --no-config."""
    ctx.meta[_DECLINED] = declined
    if declined and ctx.params.get("config") is not None:
        raise InputError(_BOTH)
    return declined


def read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Callback of --config: what the file says becomes the default of the other options."""
    declined = ctx.meta.get(_DECLINED, False)
    if path is not None and declined:
        raise InputError(_BOTH)
    found = path or (Path(FILE) if not declined and Path(FILE).is_file() else None)
    if found is not None and not ctx.resilient_parsing:
        ctx.default_map = _defaults(ctx, found, str(ctx.info_name))
        ctx.meta[_USED] = found, [name.replace("_", "-") for name in ctx.default_map]
    return found


def used_config(ctx: typer.Context) -> str:
    """Which options came from a file, in a sentence; empty where none did."""
    path, names = ctx.meta.get(_USED, (None, []))
    return f"From {path}: {', '.join(names)}." if names else ""


def _defaults(ctx: typer.Context, path: Path, table: str) -> dict[str, Any]:
    given = _parsed(path)
    for name, content in given.items():
        if name != table or not isinstance(content, dict):
            raise InputError(
                f"{path}: options belong in the table [{table}]. Got {name!r} outside it.{_hint(name, [table])}"
            )
    options = {p.name: p for p in ctx.command.params if p.name and p.name not in _ABOUT_CONFIG}
    keys = {_key(option): name for name, p in options.items() for option in p.opts if option.startswith("--")}
    defaults: dict[str, Any] = {}
    for key, value in given.get(table, {}).items():
        if _key(key) not in keys:
            shown = [known.replace("_", "-") for known in keys]
            raise InputError(
                f"{path}: [{table}] has no option {key!r}.{_hint(key, shown)} Options: {', '.join(shown)}."
            )
        name = keys[_key(key)]
        if name in defaults:
            raise InputError(f"{path}: [{table}] has the option {key!r} twice.")
        defaults[name] = _checked(ctx, options[name], value, f"{path}: [{table}] {key}")
    return defaults


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # TOML, its encoding, or brackets beyond measure
        reason = str(error).rstrip(".") if isinstance(error, ValueError) else "it is nested too deeply"
        raise InputError(f"{path} cannot be read as TOML: {reason}.") from error


def _checked(ctx: typer.Context, option: Any, value: Any, where: str) -> Any:
    """The value as the texts that the command line would have given, checked as those are."""
    texts: str | list[str]
    if isinstance(value, Mapping) and option.multiple:
        texts = [f"{key}={_text(one, where)}" for key, one in value.items()]
    elif isinstance(value, list) and option.multiple:
        texts = [_text(one, where) for one in value]
    else:
        text = _text(value, where)
        texts = [text] if option.multiple else text
    try:
        option.process_value(ctx, texts)
    except typer.BadParameter as error:
        raise InputError(f"{where}: {error.message.rstrip('.')}. Got {value!r}.") from error
    return texts


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InputError(f"{where} must be a text, a number, true or false. Got {value!r}.")


def _key(name: str) -> str:
    return name.removeprefix("--").replace("-", "_")


def _hint(name: str, known: list[str]) -> str:
    return f" {did_you_mean(name.replace('_', '-'), known)}".rstrip()
