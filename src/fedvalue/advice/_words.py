"""The advice in words: what to run, the error to expect, what it is made of, and what one seed would give."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fedvalue._text import count, duration, percent, plural
from fedvalue.advice._expected import EXACT, test_rows_add

if TYPE_CHECKING:
    from fedvalue.advice import Advice

__all__ = ["accuracy", "what_dominates", "what_one_seed_gives", "what_to_run"]

_CALLED = {
    "coalitions": "coalitions that are not trained",
    "training": "the luck of training",
    "test": "the luck of test rows",
}
_BUYS = {
    "coalitions": "more trainings help",
    "training": "more trainings with further seeds help",
    "test": "more test rows help, more trainings hardly",
}
_USUAL_ROWS = 2000


def what_to_run(advice: Advice) -> str:
    """Method, budget and time."""
    choice = advice.choice
    time = "" if choice.seconds is None else f", about {duration(choice.seconds)}"
    if advice.of_one_seed:
        everything = f"2^{advice.clients}" if advice.clients > 40 else count(1 << advice.clients)
        what = f"{count(choice.budget)} of {everything} coalitions of one seed"
    else:
        what = f"{plural(choice.trainings, 'training')} over {plural(choice.seeds, 'seed')}"
    return f"{plural(advice.clients, 'client')}: {choice.method} with {what}{time}."


def accuracy(advice: Advice) -> str:
    """The error to expect, beside that of the equal split."""
    error = advice.choice.expected
    if advice.choice.method == EXACT:
        return "Exact values of one seed: no error of estimation. Another seed would give others."
    against = (
        "the exact values of that seed" if advice.of_one_seed else "the values to be expected over seeds"
    )
    return (
        f"Expected relative error against {against}: {percent(error.error)} % (four of five games: {percent(error.low)} to "
        f"{percent(error.high)} %, larger where clients differ more). Paying everyone the same: "
        f"{percent(advice.equal_split)} %."
    )


def what_dominates(advice: Advice) -> str:
    """What the error is mostly made of, what would narrow it, and what is not in it."""
    if advice.of_one_seed:
        return ""
    choice = advice.choice
    parts = {name: part for name, part in choice.expected.parts.items() if part is not None}
    largest = max(parts, key=lambda name: parts[name])
    shares = ", ".join(f"{_CALLED[name]} {part**2 / _square(parts):.0%}" for name, part in parts.items())
    said = f"Of its variance: {shares}; {_BUYS[largest]}."
    if advice.test_rows is not None:
        return said
    rows = test_rows_add(advice.clients, choice.budget, _USUAL_ROWS)
    total = math.hypot(choice.expected.error, rows)
    return (
        f"{said}\nThe luck of test rows is not in it: {_USUAL_ROWS:,} of them would make it {percent(total)} % "
        "(--test-rows says how many there are)."
    )


def _square(parts: dict[str, float]) -> float:
    return sum(part**2 for part in parts.values()) or 1.0


def what_one_seed_gives(advice: Advice) -> str:
    """The errors of the same trainings, and of all coalitions, with one seed."""
    if advice.of_one_seed:
        return ""
    said = []
    if advice.one_seed is not None:
        same = advice.one_seed
        said.append(f"{plural(same.trainings, 'training')} {percent(same.expected.error)} %")
    if advice.exact is not None:
        everything = advice.exact
        said.append(f"all {count(everything.budget)} coalitions {percent(everything.expected.error)} %")
    return f"With one seed: {', '.join(said)}." if said else ""
