"""--exact, which stands for --method exact."""

from __future__ import annotations

import typer

from fedvalue.errors import InputError

__all__ = ["exact_or"]


def exact_or(ctx: typer.Context, method: str, budget: int | None, exact: bool) -> tuple[str, int | None]:
    """--exact is --method exact without a budget, unless the command line says otherwise."""

    def typed(name: str) -> bool:
        source = ctx.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    if not exact or (typed("method") and not typed("exact")):
        return method, budget
    if typed("method") and method != "exact":
        raise InputError(f"--exact and --method {method} contradict each other; give one of them.")
    return "exact", budget if typed("budget") else None
