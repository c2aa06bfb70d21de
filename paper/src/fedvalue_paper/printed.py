"""The numbers that the paper prints, beside those that came out here: by the authors' definitions and by the paper's text.

`python -m fedvalue_paper.printed RESULTS SCALE` writes the table of everything that a folder of results holds.
"""

from __future__ import annotations

import csv
import math
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from fedvalue.errors import InputError
from fedvalue_paper.figures.style import METHODS as LOOKS
from fedvalue_paper.spec import SCALES, Experiment

__all__ = ["VARIANT", "Compared", "compared", "markdown", "write_beside"]

VARIANT, FILE = "authors", "printed.md"
Line: TypeAlias = Mapping[str, Any]
_SETTINGS = ("partition", "model", "n")  # what the lines of these tables are told apart by
_NOTHING = "–"


@dataclass(frozen=True)
class Compared:
    """One number of the paper (or the ends of a range), and what stands for it here; nothing where it was not run."""

    paper: str
    tex: int
    setting: str
    what: str
    printed: tuple[float, ...]
    authors: tuple[float, ...]
    text: tuple[float, ...]


def compared(experiment: str, authors: Sequence[Line], text: Sequence[Line]) -> list[Compared]:
    """The numbers that the paper prints about an experiment, with those of two tables of results: those that either has."""
    data = tomllib.loads((Path(__file__).parent / "printed.toml").read_text(encoding="utf-8"))
    tables = [each for each in data["table"] if each["experiment"] == experiment]
    ratios = [each for each in data["ratio"] if each["experiment"] == experiment]
    found = [one for table in tables for one in _of_table(table, authors, text)]
    found += [one for ratio in ratios for one in _of_ratio(ratio, authors, text)]
    return [one for one in found if one.authors or one.text]


def markdown(found: Sequence[Compared]) -> str:
    """As a table; a range stands with its two ends."""
    head = "| paper | line | setting | | printed | authors' definitions | the paper's text |"
    lines = [
        f"| {one.paper} | {one.tex} | {one.setting} | {one.what} | "
        f"{_text(one.printed)} | {_text(one.authors)} | {_text(one.text)} |"
        for one in found
    ]
    return "\n".join([head, "| --- | ---: | --- | --- | ---: | ---: | ---: |", *lines]) + "\n"


def write_beside(experiment: Experiment, folder: Path) -> list[Path]:
    """The comparison in the folder of the authors' variant, with the usual results of the same scale where they are there.

    Nothing for another variant, or where the paper prints no number.
    """
    if experiment.variant != VARIANT:
        return []
    usual = folder.with_name(folder.name.removesuffix(f"-{VARIANT}"))
    found = compared(experiment.name, _read(folder), _read(usual))
    if not found:
        return []
    missing = (
        "" if _read(usual) else f"The last column is empty: there are no results in {usual.name} yet.\n\n"
    )
    about = (
        f"# {experiment.paper}: printed, and run here\n\n"
        f"Scale `{experiment.scale}`. Lines are those of the paper's LaTeX source; times are of another machine than the "
        f"paper's.\n\n{missing}"
    )
    path = folder / FILE
    path.write_text(about + markdown(found), encoding="utf-8")
    return [path]


def _of_table(table: Line, authors: Sequence[Line], text: Sequence[Line]) -> Iterator[Compared]:
    measure = table["measure"]
    for line in table["lines"]:
        where = {key: line[key] for key in _SETTINGS if key in line}
        for method, printed in zip(table["methods"], line["numbers"], strict=True):
            if math.isnan(printed):
                continue
            theirs = _values(authors, method, table.get("authors", measure), where)
            ours = _values(text, method, measure, where)
            yield Compared(
                table["paper"], line["tex"], _named(where), LOOKS[method].label, (printed,),
                tuple(theirs.values()), tuple(ours.values()),
            )  # fmt: skip


def _of_ratio(ratio: Line, authors: Sequence[Line], text: Sequence[Line]) -> Iterator[Compared]:
    measure, where = ratio["measure"], ratio["where"]
    for pair in ratio["pairs"]:
        numbers: list[tuple[float, ...]] = []
        for lines, name in ((authors, ratio.get("authors", measure)), (text, measure)):
            above, below = (_values(lines, pair[end], name, where) for end in ("of", "to"))
            found = [above[key] / below[key] for key in above if below.get(key)]
            if ratio.get("mean"):
                numbers.append((fmean(found),) if found else ())
            else:
                numbers.append(tuple(sorted({min(found), max(found)})) if found else ())
        what = f"{LOOKS[pair['of']].label} / {LOOKS[pair['to']].label}"
        yield Compared(ratio["paper"], ratio["tex"], _named(where), what, tuple(pair["printed"]), *numbers)


def _values(lines: Sequence[Line], method: str, measure: str, where: Line) -> dict[tuple[str, ...], float]:
    """A measure of a method by setting, in those settings that fit."""
    fitting = [
        line
        for line in lines
        if line["label"] == LOOKS[method].label
        and all(str(line.get(key)) == str(value) for key, value in where.items())
    ]
    return {
        tuple(str(line.get(key)) for key in _SETTINGS): float(line[measure])
        for line in fitting
        if line.get(measure)
    }


def _read(folder: Path) -> list[dict[str, str]]:
    """The lines of a table of results; none where there is none."""
    try:
        with (folder / "table.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        return []


def _named(where: Line) -> str:
    return ", ".join(f"n = {value}" if key == "n" else str(value) for key, value in where.items())


def _text(numbers: Sequence[float]) -> str:
    return " to ".join(f"{n:,.0f}" if 1000 <= n < 1e6 else f"{n:.3g}" for n in numbers) or _NOTHING


def main(arguments: Sequence[str]) -> None:
    """Prints the comparison of all experiments in a folder of results."""
    if len(arguments) != 2 or arguments[1] not in SCALES:
        given = " ".join(arguments) or "nothing"
        raise InputError(f"Expected a folder of results and a scale ({', '.join(SCALES)}). Got {given}.")
    results, scale = Path(arguments[0]), arguments[1]
    found = [
        one
        for name in ("synthetic", "femnist", "adult")
        for one in compared(
            name, _read(results / f"{name}-{scale}-{VARIANT}"), _read(results / f"{name}-{scale}")
        )
    ]
    sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main(sys.argv[1:])
