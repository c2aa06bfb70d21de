"""Commands of other packages: what these name in the entry point group `fedvalue.commands`.

The name of an entry is the command; it points to a function that typer can turn into one. Nothing of another
package is imported before its command is called.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from fedvalue.errors import FedvalueError, InputError

__all__ = ["OpenGroup"]

_GROUP = "fedvalue.commands"
# Commands of projects in this repository that are not installed with the library.
_APART = {
    "reproduce": "`fedvalue reproduce` comes with a project of its own, which is installed from the repository "
    "of fedvalue: pip install ./paper"
}


class OpenGroup(TyperGroup):
    """The commands of the library, then those of other packages, which cannot replace one of the library."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of the help."""
        return list(dict.fromkeys([*super().list_commands(ctx), *sorted(_entries())]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command for the help: of another package, its name and what the package says about itself."""
        own = super().get_command(ctx, cmd_name)
        entry = _entries().get(cmd_name) if own is None else None
        return own if entry is None else TyperCommand(cmd_name, short_help=_summary(entry))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called: that of another package is imported here."""
        name = args[0]
        if name in self.commands:
            return super().resolve_command(ctx, args)
        try:
            command = _load(name)
        except FedvalueError:
            if ctx.resilient_parsing:  # a shell that completes a line offers nothing and stays quiet
                return None, None, args
            raise
        return super().resolve_command(ctx, args) if command is None else (name, command, args[1:])


def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=_GROUP)}


def _load(name: str) -> Any:
    """The command of another package, None where no package has it."""
    entry = _entries().get(name)
    if entry is None:
        if name in _APART:
            raise InputError(_APART[name])
        return None
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    try:
        app.command(name)(entry.load())
        return typer.main.get_command(app)
    except Exception as error:  # whatever goes wrong in a package that is not ours
        raise FedvalueError(
            f"The package {_package(entry)} adds the command {name!r}, which cannot be loaded "
            f"({type(error).__name__}: {error}). Install the package again, or uninstall it."
        ) from error


def _package(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else entry.dist.name


def _summary(entry: EntryPoint) -> str:
    text = "" if entry.dist is None else entry.dist.metadata.json.get("summary", "")
    return f"{text} ({_package(entry)})".strip()
