"""The table of an experiment: means over runs, as lines for people, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from fedvalue_paper.measures import COLUMNS, Column
from fedvalue_paper.rows import Row
from fedvalue_paper.spec import Experiment, Shown

__all__ = ["Part", "aggregated", "legend", "markdown", "parts_of", "table_csv"]

NOT_APPLICABLE, NOTHING = "\\", "–"
_LISTS = ("values", "expected")
_ALWAYS = ("error", "skill", "kendall")
_EMPTY = ("empty", "empty_rule")
_ROUNDING = 1e-12  # what is left of 0 in floating point


@dataclass(frozen=True)
class Part:
    """One table for people: a title, headings and lines of text. `left` columns hold names, not numbers."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    left: tuple[str, ...]


def aggregated(rows: Sequence[Row], shown: Shown) -> list[Row]:
    """A mean and a deviation over all runs that a line of the table stands for.

    Error, skill and rank correlation are always among them, whether they are shown or not.
    """
    always = [name for name in _ALWAYS if any(row.get(name) is not None for row in rows)]
    columns = list(dict.fromkeys([*shown.columns, *always]))
    columns += [name for name in _EMPTY if any(row.get(name) is not None for row in rows)]
    by = [*shown.split, *shown.rows, *([shown.across] if shown.across else [])]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in by), []).append(row)
    return [{**dict(zip(by, key, strict=True)), **_summary(group, columns)} for key, group in groups.items()]


def parts_of(lines: Sequence[Row], shown: Shown) -> list[Part]:
    """The tables for people, one for each value of `split` (and, side by side, for each column)."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for line in lines:
        groups.setdefault(tuple(line[name] for name in shown.split), []).append(line)
    found = []
    for key, group in groups.items():
        facts = [_named(name, value) for name, value in zip(shown.split, key, strict=True)]
        games = max((line.get("games") or 0 for line in group), default=0)
        title = ", ".join([*facts, *([f"{games} games"] if games > 1 else []), *_empty(group)])
        if shown.across:
            found += [_side_by_side(title, group, shown, column) for column in shown.columns]
        else:
            found.append(_listed(title, group, shown))
    return found


def _empty(lines: Sequence[Row]) -> list[str]:
    """What v(∅) is in the games of a table, and how it was fixed; nothing where utilities are given as numbers."""
    found = sorted({line["empty"] for line in lines if line.get("empty") is not None})
    rules = {rule for line in lines if (rule := line.get("empty_rule"))}
    if not found or not rules:
        return []
    numbers = dict.fromkeys(format(number, ".4g") for number in (found[0], found[-1]))
    return [f"v(∅) = {' to '.join(numbers)} ({', '.join(sorted(rules))})"]


def legend(shown: Shown) -> list[str]:
    """A sentence for every column that needs one."""
    wanted = [_column(name) for name in shown.columns]
    said = [f"{_one_line(column.heading)}: {column.meaning}." for column in wanted if column.meaning]
    if any(column.spread for column in wanted):
        said.append(
            "±: standard deviation over games, that is partitions and training seeds, where a line stands for several "
            "of them; else over runs with other random numbers of the method."
        )
    return said


def markdown(experiment: Experiment, parts: Sequence[Part]) -> str:
    """The whole table with its claim, as Markdown."""
    about = f"{experiment.paper}; scale `{experiment.scale}`"
    variant = f", variant `{experiment.variant}`" if experiment.variant else ""
    text = [f"# {experiment.title}", f"{about}{variant}.", f"The paper: {experiment.claim}"]
    if experiment.note:
        text.append(experiment.note)
    if experiment.settings:
        text.append(_settings(experiment.settings))
    for part in parts:
        if part.title:
            text.append(f"## {part.title}")
        lines = [
            part.headings,
            tuple("---" if h in part.left else "---:" for h in part.headings),
            *part.lines,
        ]
        text.append("\n".join("| " + " | ".join(map(_escaped, line)) + " |" for line in lines))
    text.append("\n".join(f"- {line}" for line in _notes(experiment, parts)))
    return "\n\n".join(text) + "\n"


def _settings(lines: Sequence[tuple[str, str, str]]) -> str:
    head = ("", "paper", "here")
    rows = [head, ("---",) * 3, *lines]
    return "\n".join("| " + " | ".join(map(_escaped, row)) + " |" for row in rows)


def table_csv(lines: Sequence[Row]) -> str:
    """The aggregated table with all digits."""
    buffer = io.StringIO()
    names = list(dict.fromkeys(name for line in lines for name in line))
    writer = csv.DictWriter(buffer, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in line.items()} for line in lines)
    return buffer.getvalue()


def _summary(group: Sequence[Row], columns: Sequence[str]) -> Row:
    applicable = [row for row in group if row.get("applicable")]
    summary: Row = {"runs": len(applicable), "games": len({row.get("game_id") for row in applicable})}
    for name in columns:
        among = group if name == "empty_rule" else applicable
        found = [row[name] for row in among if row.get(name) is not None]
        if name == "empty_rule":
            summary[name] = ", ".join(sorted(set(found))) or None
            continue
        if name in _LISTS:
            vectors = [list(map(float, text.split())) for text in found]
            means = [fmean(numbers) for numbers in zip(*vectors, strict=True)]
            summary[name] = " ".join(f"{mean:.6g}" for mean in means) or None
            continue
        summary[name] = fmean(found) if found else None
        if _column(name).spread:
            of_games = _means_of_games(applicable, name)
            summary[f"{name}_sd"] = _deviation(of_games if len(of_games) > 1 else found)
    summary["extrapolated"] = any(row.get("extrapolated") for row in applicable)
    return summary


def _means_of_games(rows: Sequence[Row], name: str) -> list[float]:
    """A number for each game, which is one partition trained with one seed."""
    games: dict[Any, list[float]] = {}
    for row in rows:
        if row.get(name) is not None:
            games.setdefault(row.get("game_id"), []).append(row[name])
    return [fmean(numbers) for numbers in games.values()]


def _deviation(numbers: Sequence[float]) -> float | None:
    """None also beside an infinite mean: a deviation of the others would be none of it."""
    return stdev(numbers) if len(numbers) > 1 and all(map(math.isfinite, numbers)) else None


def _listed(title: str, group: Sequence[Row], shown: Shown) -> Part:
    left = [_column(name).heading for name in shown.rows]
    headings = [*left, *(_column(name).heading for name in shown.columns)]
    lines = [
        [*(_plain(line[name]) for name in shown.rows), *(_cell(line, name) for name in shown.columns)]
        for line in group
    ]
    texts = [_column(name).heading for name in shown.columns if name in _LISTS]
    return Part(title, tuple(headings), tuple(map(tuple, lines)), (left[0], *texts))


def _side_by_side(title: str, group: Sequence[Row], shown: Shown, column: str) -> Part:
    """A line for each of `rows`, one column for each value of `across`; what has none stands in the last."""
    values = sorted({line[shown.across] for line in group if line[shown.across] is not None})
    loose = [None] if any(line[shown.across] is None for line in group) else []
    keys = list(dict.fromkeys(tuple(line[name] for name in shown.rows) for line in group))
    cells = {(tuple(line[name] for name in shown.rows), line[shown.across]): line for line in group}
    left = [_column(name).heading for name in shown.rows]
    lines = [
        (
            *map(_plain, key),
            *(
                _cell(cells[key, value], column) if (key, value) in cells else ""
                for value in [*values, *loose]
            ),
        )
        for key in keys
    ]
    across = _column(shown.across).heading
    headings = (*left, *(f"{across} = {_plain(value)}" for value in values), *("own cost" for _ in loose))
    about = ": ".join(part for part in (title, _one_line(_column(column).heading)) if part)
    return Part(about, headings, tuple(lines), (left[0],))


def _cell(line: Mapping[str, Any], name: str) -> str:
    value, form = line.get(name), _column(name).form
    if value is None:
        return NOTHING if line["runs"] else NOT_APPLICABLE
    if name in _LISTS:
        return " ".join(format(float(number), form) for number in value.split())
    text = _number(value, form)
    if name == "paper_seconds" and line.get("extrapolated"):
        text = f"≈ {text}"
    sd = line.get(f"{name}_sd")
    return text if sd is None else f"{text} ± {_like(text, sd)}"


def _number(number: float, form: str) -> str:
    """In the form of the column; with a form such as .3g, so many digits, and powers of ten where these are too few."""
    if not math.isfinite(number):
        return NOTHING if math.isnan(number) else "−∞" if number < 0 else "∞"
    if abs(number) < _ROUNDING:
        return format(0, form)
    digits = form.endswith("g")
    if abs(number) >= 1e9 or (digits and not 1e-4 <= abs(number) < 1e6):
        mantissa, exponent = f"{number:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    if digits:
        decimals = max(0, int(form[1:-1]) - 1 - math.floor(math.log10(abs(number))))
        return f"{number:,.{decimals}f}"
    text = format(number, form)
    return text if any(digit in text for digit in "123456789") else format(0, form)  # no −0.00


def _like(text: str, number: float) -> str:
    """A deviation with as many decimals as its mean."""
    if "e" in text or not text[-1].isdigit():
        return _number(number, ".2g")
    return f"{number:,.{len(text.partition('.')[2])}f}"


def _plain(value: Any) -> str:
    if value is None:
        return NOTHING
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _named(name: str, value: Any) -> str:
    return f"{_column(name).heading} = {value:g}" if isinstance(value, int | float) else str(value)


def _column(name: str) -> Column:
    return COLUMNS.get(name, Column(name.replace("_", " "), ".3g"))


def _one_line(heading: str) -> str:
    return heading.replace("\n", " ")


def _escaped(cell: str) -> str:
    return _one_line(cell).replace("\\", "\\\\").replace("|", "\\|")


def _notes(experiment: Experiment, parts: Sequence[Part]) -> Iterator[str]:
    yield from legend(experiment.table)
    cells = {cell for part in parts for line in part.lines for cell in line}
    if NOT_APPLICABLE in cells:
        yield "\\\\: the method does not apply."
