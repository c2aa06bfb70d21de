"""The job that the options of `fedvalue run` describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from fedvalue.cli._exact import exact_or
from fedvalue.cli._pairs import method_options, model_options, names, scenario_options

if TYPE_CHECKING:
    from fedvalue.run import Job

__all__ = ["job_of"]

_OF_COMMAND = ("name", "clients", "partition", "samples", "seed", "data_dir")
_OWN = (
    "exact", "json", "dry_run", "config", "no_config", "quiet", "no_noise", "option", "group", "claims", "scenario_option",
    "model_option",
)  # not of the job  # fmt: skip


def job_of(ctx: typer.Context) -> Job:
    """From the options as they were parsed; what a method of one's own has is imported, so call it within `notes`."""
    from fedvalue.run import Job
    from fedvalue.weights import read_groups

    asked = ctx.params
    method, budget = exact_or(ctx, asked["method"], asked["budget"], asked["exact"])
    given: dict[str, Any] = {name: value for name, value in asked.items() if name not in _OWN}
    given["scenario_options"] = scenario_options(asked["scenario_option"] or (), _OF_COMMAND)
    given["model_options"] = model_options(asked["model_option"] or ())
    options = method_options(method, asked["option"] or ()) | ({"noise": False} if asked["no_noise"] else {})
    groups = read_groups(asked.get("group") or ())
    given["metrics"] = names(*asked["metrics"] or ())
    given |= {"method": method, "budget": budget, "options": options, "groups": groups}
    return Job(**given)
