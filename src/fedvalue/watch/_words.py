"""What the page says of a run, in words."""

from __future__ import annotations

from fedvalue._text import count, duration
from fedvalue.indices import SHAPLEY
from fedvalue.precision import advice, dominant
from fedvalue.values import Values
from fedvalue.watch._snapshot import RunNow

__all__ = ["STATES", "errors_of", "facts", "moment", "on_values"]

_AGAIN = "The same command goes on from what is stored."
STATES = {
    "running": ("Running", ""),
    "ended": ("Ended", ""),
    "failed": ("Failed", "What is below says why. What was trained is kept."),
    "interrupted": ("Interrupted", f"Somebody stopped it. {_AGAIN}"),
    "killed": ("Killed", f"Its process is gone and left no result. {_AGAIN}"),
    "at rest": ("At rest", "Nobody has the store open. It does not say what else was planned."),
    "not known": ("State not known", "The store alone does not say whether a run is at work on it."),
}
"""A heading and a sentence for every state of a run."""


def facts(run: RunNow) -> list[tuple[str, str]]:
    """Labels and what is known."""
    found = [("Trainings", _how_far(run))]
    if run.claimed:
        found.append(("Being trained now", count(run.claimed)))
    if run.state == "running":
        found.append(("Time left", _left(run)))
    if run.stage and run.state == "running":
        found.append(("At", run.stage))
    if run.method:
        found.append(("Method", run.method))
    if run.rules is not None:
        found.append(("Metric", run.rules.metric))
    found.append(("Clients", count(len(run.names))))
    if run.last:
        found.append(("Last sign of life" if run.state == "running" else "Last stored", moment(run.last)))
    return found


def moment(text: str) -> str:
    """A moment as stores keep it, to the second.

    >>> moment("2026-03-01T09:30:12.500+00:00")
    '2026-03-01 09:30:12 UTC'
    """
    return f"{text[:19].replace('T', ' ')} UTC"


def on_values(run: RunNow, values: Values, outcomes: int) -> str:
    """What the values are, in front of them."""
    if run.values is not None:
        called = "values of the run" if values.index == SHAPLEY else f"{values.title} of the clients"
        return f"The {called}, by {values.method}."
    used = f"{count(values.evaluations)} of the " if values.evaluations < outcomes else ""
    said = f"From {used or 'the '}{count(outcomes)} trainings stored so far, by the surrogate."
    if run.method and run.method != "surrogate":
        said += f" The run will have its values by {run.method} at its end."
    if run.rules is not None and not run.rules.is_known:
        said += f" The store does not say which metric counts: these are of {run.rules.metric}."
    return said


def errors_of(run: RunNow, values: Values) -> list[str]:
    """What dominates the error, and what the ± does not count."""
    if run.values is not None:
        return advice(values)
    if run.coalitions == 1 << values.n and dominant(values) is None:
        return [
            "All coalitions are trained: given these trainings the values are exact. How luck would change them is not counted."
        ]
    if dominant(values) is None:
        return ["How far these values may be off is not known yet."]
    return [
        *advice(values)[:1],
        "Until the run ends, the ± counts coalitions that were not trained and, over several seeds, the luck of training; it does "
        "not count the luck of test rows.",
    ]


def _left(run: RunNow) -> str:
    if run.done == run.planned and not run.at_most:
        return "all are trained; values are computed"
    return "not known yet" if run.seconds_left is None else f"about {duration(run.seconds_left)}"


def _how_far(run: RunNow) -> str:
    if run.state == "ended":
        return count(run.done)
    if run.planned is None:
        return f"{count(run.done)} (planned: not known)"
    return f"{count(run.done)} of {'at most ' if run.at_most else ''}{count(run.planned)}"
