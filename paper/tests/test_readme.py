"""The README quotes committed results: which are of today's settings, and figures that stand in their tables."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest

from fedvalue_paper import names
from fedvalue_paper.kept import UTILITIES
from fedvalue_paper.manifest import is_older

PAPER = Path(__file__).parents[1]
README = (PAPER / "README.md").read_text(encoding="utf-8")
FOLDERS = sorted(path for path in (PAPER / "results").iterdir() if path.is_dir())
SECTIONS = {text.partition("\n")[0]: text for text in README.split("\n## ")[1:]}
# What is computed from the tables in the text, or quoted from the paper or from other tests.
DERIVED = {
    "example3": {"3.3e-5"},  # the distance from the paper's digits
    "synthetic": {"22.1", "7.9"},  # the paper's factor, and how often as much
    "scalability": {"1.7", "7.7", "9.2", "1.2", "7.8", "7.5", "9.5", "8.2"},  # how often as much
    "variance": {"7.7"},
    "theory": {"0.25875"},  # tests/estimators/test_published.py
}


def numbers(folder: Path) -> set[float]:
    found: set[float] = set()
    with (folder / "table.csv").open(encoding="utf-8", newline="") as file:
        for cell in (cell for line in csv.reader(file) for word in line for cell in word.split()):
            try:
                found.add(abs(float(cell)))
            except ValueError:
                continue
    return {number for number in found if math.isfinite(number)}


def quoted(section: str) -> set[str]:
    """Numbers with a decimal point, but for those of the paper's claim and those in links and code."""
    text = re.sub(r"\*\*Claims?:\*\*.*?(?=\n\n)", "", section, flags=re.S)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)
    return set(re.findall(r"(?<![\w.,])\d[\d,]*\.\d+(?:e-?\d+)?(?![\w]|\.\d)", text))


def stands_in(number: str, pool: set[float]) -> bool:
    """Whether a number of the pool reads like this one when it is rounded to as many digits."""
    plain = number.replace(",", "")
    digits, _, power = plain.partition("e")
    half = 0.5000001 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return any(abs(each - float(plain)) <= half for each in pool)


@pytest.mark.parametrize("scale", ["paper", "small"])
def test_it_says_which_results_are_of_older_settings(scale: str) -> None:
    (row,) = re.findall(rf"^\| at `{scale}` \| ([^|]*) \| ([^|]*) \|$", README, flags=re.M)
    of_scale = [path for path in FOLDERS if path.name.endswith(f"-{scale}")]
    older = {path.name.removesuffix(f"-{scale}") for path in of_scale if is_older(path)}
    today, before = (set(re.findall(r"`([\w-]+)`", cell)) for cell in row)
    assert (today, before) == ({path.name.removesuffix(f"-{scale}") for path in of_scale} - older, older)


def test_results_of_todays_settings_keep_what_they_are_computed_from() -> None:
    for path in FOLDERS:
        assert (path / UTILITIES).exists() == (not is_older(path)), path.name


@pytest.mark.parametrize("name", names())
def test_its_figures_stand_in_the_tables(name: str) -> None:
    pool = set[float]().union(*(numbers(path) for path in FOLDERS if path.name.rpartition("-")[0] == name))
    missing = {number for number in quoted(SECTIONS[name]) if not stands_in(number, pool)}
    assert missing - DERIVED.get(name, set()) == set()


RUN_AS_PUBLISHED = ("DIG-FL", "Ext-TMC", "Ext-GTB", "CC-Shapley", "GTG-Shapley", "OR", "λ-MR", "IPSS")
WORDS = {3: "three", 4: "four", 5: "five", 6: "six", 8: "eight", 10: "ten"}


def by_setting(folder: str, column: str, *keys: str) -> list[dict[str, float]]:
    """For every setting of a table the column by method."""
    settings: dict[tuple[str, ...], dict[str, float]] = {}
    with (PAPER / "results" / folder / "table.csv").open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            if line[column]:
                of_setting = settings.setdefault(tuple(line[key] for key in keys), {})
                of_setting[line["label"]] = float(line[column])
    return list(settings.values())


def on_one_line(name: str) -> str:
    return " ".join(SECTIONS[name].split())


@pytest.mark.parametrize(
    ("name", "keys", "said"),
    [
        ("synthetic", ("partition", "model"), "IPSS has the lowest error in {} of {} settings"),
        ("femnist", ("model", "n"), "run as published it has the lowest error in {} of {} settings"),
        ("adult", ("model", "n"), "run as published it has the lowest error in {} of {} settings"),
        ("sent140", ("model", "n"), "its error is the lowest of those run as published in {} of {} settings"),
    ],
)
def test_in_how_many_settings_ipss_errs_least(name: str, keys: tuple[str, ...], said: str) -> None:
    settings = by_setting(f"{name}-paper", "error", *keys)
    least = [
        min((label for label in RUN_AS_PUBLISHED if label in by), key=lambda label, by=by: by[label])
        for by in settings
    ]
    assert said.format(WORDS[least.count("IPSS")], WORDS[len(settings)]) in on_one_line(name)


def test_how_often_which_scheme_varies_less_at_paper() -> None:
    counts = []
    for design in ("", ", paired"):
        settings = by_setting("variance-paper", "variance", "model", "n", "budget")
        gaps = [by[f"MC-SV{design}"] - by[f"CC-SV{design}"] for by in settings if f"MC-SV{design}" in by]
        counts += [sum(gap < -1e-15 for gap in gaps), sum(gap > 1e-15 for gap in gaps), len(gaps)]
    lower, higher, cells, lower_paired, higher_paired, _ = counts
    assert (
        f"{cells} cells of the table, MC-SV has the lower variance in {lower} and the higher one in {higher}; "
        f"in the paired design in {lower_paired} and {higher_paired}"
    ) in on_one_line("variance")


def test_a_figure_that_stands_nowhere_is_seen() -> None:
    assert quoted("**Claim:** 0.22\nhere.\n\n0.123 ± 0.004 and 4.2e-5 in `0.5`, 1,234.5 s (5.1)") == {
        "0.123", "0.004", "4.2e-5", "1,234.5", "5.1",
    }  # fmt: skip
    assert stands_in("4.2e-5", {4.16e-5})
    assert not stands_in("4.2e-5", {4.1e-5, 4.26e-5})
    assert stands_in("1,234.5", {1234.46})
