"""The page: its sections as HTML, each with a name by which a browser finds the one that it replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from fedvalue._text import count, duration, shortened
from fedvalue._version import __version__
from fedvalue.report import Scale, called, core_range, page_environment, style_sheet, ticks
from fedvalue.values import Values
from fedvalue.watch._snapshot import RunNow, Snapshot
from fedvalue.watch._so_far import SoFar
from fedvalue.watch._words import STATES, errors_of, facts, moment, on_values

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Settling", "notices", "page", "script", "sections", "style"]

_OPEN = 40  # clients that are open to see; the others unfold
_HEIGHT = 64  # of the chart of intervals, in pixels

Settling = Sequence[tuple[int, float]]
"""By how many trainings there were, how far the widest interval reached to either side."""


class Row(NamedTuple):
    """A client with its value; places in the chart are per cent."""

    rank: int
    name: str
    value: float
    low: float | None
    high: float | None
    zero: float
    left: float
    width: float
    whisker: tuple[float, float] | None


@dataclass(frozen=True)
class Shown:
    """The values of a run as the page shows them."""

    rows: list[Row]
    axis: list[tuple[float, str]]
    said: str
    errors: list[str]
    unit: str
    curve: list[tuple[float, float]]
    settled: str


def sections(now: Snapshot, so_far: Mapping[str, SoFar], settling: Mapping[str, Settling]) -> dict[str, str]:
    """Every section of the page by its id, in their order."""
    parts = notices(now)
    for number, run in enumerate(now.runs):
        found = so_far.get(run.key)
        values = run.values or (found.values if found else None)
        shown = None if values is None else _shown(run, values, found, settling.get(run.key, ()))
        about = {"run": run, "id": f"r{number}"}
        parts[f"r{number}-head"] = _render("head", **about, state=STATES[run.state], facts=facts(run))
        why_not = (
            found.why_not if found else "Being computed." if run.outcomes else "No training is stored yet."
        )
        parts[f"r{number}-values"] = _render("values", **about, shown=shown, why_not=why_not, open=_OPEN)
        if run.nodes:
            parts[f"r{number}-nodes"] = _render("nodes", **about)
        if run.failures:
            parts[f"r{number}-failures"] = _render("failures", **about)
        if run.latest:
            parts[f"r{number}-latest"] = _render("latest", **about)
    return parts


def notices(now: Snapshot) -> dict[str, str]:
    """The section of what could not be read."""
    return {"troubles": _render("troubles", troubles=now.troubles, runs=now.runs)}


def page(parts: Mapping[str, str], title: str, query: str) -> str:
    """The whole page as it is now; `query` is what its addresses have to carry."""
    return (
        _environment()
        .get_template("page.html.j2")
        .render(parts=_safe(parts), title=title, query=query, version=__version__)
    )


def style() -> str:
    """The CSS of the report, and what the live page has besides."""
    return f"{style_sheet()}\n{_source('watch.css')}"


def script() -> str:
    """The JavaScript of the page."""
    return _source("watch.js")


def _shown(run: RunNow, values: Values, found: SoFar | None, settling: Settling) -> Shown:
    interval = values.interval()
    bounds = [float(x) for x in (values.mean if interval is None else interval.ravel())]
    low, high = core_range([*bounds, *values.mean.tolist()], [0.0])
    room = 0.02 * (high - low) or 1.0
    scale = Scale(low - room if low < 0 else low, high + room)
    order = sorted(range(values.n), key=lambda i: (-values.mean[i], i))
    rows = []
    for rank, i in enumerate(order, 1):
        value, zero, end = float(values.mean[i]), scale(0.0), scale(float(values.mean[i]))
        ends = None if interval is None else (float(interval[i, 0]), float(interval[i, 1]))
        whisker = None if ends is None else (scale(ends[0]), scale(ends[1]))
        low_end, high_end = ends or (None, None)
        rows.append(
            Row(
                rank,
                values.names[i],
                value,
                low_end,
                high_end,
                zero,
                min(zero, end),
                round(abs(end - zero), 2),
                whisker,
            )
        )
    outcomes = found.outcomes if found else run.outcomes
    return Shown(
        rows,
        [(scale(tick), f"{tick:g}".replace("-", "−")) for tick in ticks(scale.low, scale.high, 4)],
        on_values(run, values, outcomes),
        errors_of(run, values),
        values.unit,
        *_settled(settling),
    )


def _settled(settling: Settling) -> tuple[list[tuple[float, float]], str]:
    """The widest interval against the number of trainings, and what the chart says in words."""
    if len(settling) < 2:
        return [], ""
    counts, reach = [at for at, _ in settling], [half for _, half in settling]
    across, up = (
        Scale(counts[0], max(counts[-1], counts[0] + 1)),
        Scale(max(reach) * 1.05 or 1.0, 0.0, _HEIGHT),
    )
    said = (
        f"The widest interval reached ± {reach[0]:.4f} at {count(counts[0])} trainings and reaches ± {reach[-1]:.4f} at "
        f"{count(counts[-1])}."
    )
    return [(across(at), up(half)) for at, half in settling], said


def _render(template: str, **known: object) -> str:
    return _environment().get_template(f"{template}.html.j2").render(**known)


def _safe(parts: Mapping[str, str]) -> Mapping[str, str]:
    from markupsafe import Markup

    return {name: Markup(part) for name, part in parts.items()}


def _source(name: str) -> str:
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


@cache
def _environment() -> Environment:
    environment = page_environment("fedvalue.watch")
    functions = (called, count, duration, moment, shortened, _number)
    environment.globals |= {function.__name__.lstrip("_"): function for function in functions}
    environment.globals["height"] = _HEIGHT
    return environment


def _number(value: float) -> str:
    return f"{value:+.4f}"
