"""Random folders from a grammar of dirt: never anything but a FedvalueError, and never a row lost in silence.

FEDVALUE_FUZZ=long tries many more.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from dirty_folders import CLIENTS, clean, csv_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedvalue.errors import FedvalueError
from fedvalue.scenarios import check_folder, load_scenario

LONG = os.environ.get("FEDVALUE_FUZZ") == "long"
fuzz = settings(
    max_examples=4000 if LONG else 30 if settings.default.max_examples < 100 else 120,
    suppress_health_check=list(HealthCheck),
    derandomize=not LONG,
)

NASTY = st.sampled_from(
    [
        "0",
        "1",
        "2",
        "-1",
        "3.5",
        "3,5",
        "1.234",
        "1,234",
        "1.234,5",
        "12%",
        "€5",
        "$1,000.50",
        "1e5",
        "1e400",
        "inf",
        "nan",
        "NaN",
        "NA",
        "?",
        "-",
        ".",
        "None",
        "null",
        "yes",
        "no",
        "True",
        "FALSE",
        "2024-01-02",
        "03/04/2024",
        "13/04/2024",
        "12:30",
        "2024-02-30",
        "20240102",
        "007",
        "x",
        "X",
        "y",
        "ill",
        "well",
        "=1+1",
        "<b>",
        "(5)",
        "0x1F",
        "١٢",
        "½",
        "−3",
        "+4",
        "-999",
        "1_0",
    ]
) | st.sampled_from(
    ["", " ", "\xa0", "\u200b", '"', '""', 'a"b', "a,b", "a;b", "a b", "\t", "'", "\ufeff", "é", "🏥"]
)
PUT = st.binary(max_size=3) | st.text('",;\n\r 0159.-%xNa', max_size=3).map(str.encode)
NUMBER = st.integers(-5, 99).map(str) | st.floats(-1e3, 1e3, allow_nan=False).map(lambda x: f"{x:.2f}")
CELL = {
    "number": NUMBER,
    "category": st.sampled_from("abc"),
    "date": st.dates().map(str),
    "flag": st.sampled_from(["0", "1"]),
    "nasty": NASTY,
    "text": st.text(st.characters(blacklist_categories=("Cc", "Cs")), max_size=8),
}
NAME = st.sampled_from(["age", "ward", "when", "id", "x", "Age", "", "1", 'a"b', "a b", "é", "label"])
FILE = st.sampled_from(
    ["a", "b", "c1", "c10", "A", "test-x", "tests", "train", "a b", "é", "nul", "-a", "x.y"]
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], dict[str, list[list[str]]]]:
    """A header and the rows of some files; mostly sane, so that the dirt reaches what lies behind the first check."""
    kinds = draw(st.lists(st.sampled_from([*CELL]), min_size=1, max_size=4))
    header = [*(draw(NAME) if draw(st.integers(0, 9)) == 0 else f"f{i}" for i in range(len(kinds))), "label"]
    labels = draw(st.sampled_from(["flag", "flag", "flag", "category", "number", "nasty"]))
    files = {}
    for name in [
        *draw(st.lists(st.sampled_from(CLIENTS) | FILE, min_size=1, max_size=4, unique=True)),
        "test",
    ]:
        rows = []
        for _ in range(draw(st.integers(0, 8))):
            row = [draw(CELL[kind]) for kind in (*kinds, labels)]
            if draw(st.integers(0, 15)) == 0:
                row[draw(st.integers(0, len(row) - 1))] = draw(NASTY)
            rows.append(row)
        files[name] = rows
    return header, files


@st.composite
def folders(draw: st.DrawFn) -> dict[str, bytes]:
    """Files by name, with what goes wrong on the way to the disk."""
    header, files = draw(tables())
    written = {}
    for name, rows in files.items():
        delimiter = draw(st.sampled_from(",,,,;\t|"))
        quoted = draw(st.booleans())
        lines = []
        for row in [header, *rows]:
            cells = [f'"{c.replace(chr(34), chr(34) * 2)}"' if quoted or delimiter in c else c for c in row]
            lines.append(delimiter.join(cells))
            if draw(st.integers(0, 19)) == 0:
                lines.append(draw(st.sampled_from(["", "  ", delimiter * len(header), "x", '"'])))
        end = draw(st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"]))
        encoding = draw(st.sampled_from(["utf-8"] * 30 + ["utf-8-sig", "utf-16"]))
        written[name] = (end.join(lines) + end * draw(st.integers(0, 2))).encode(encoding, "replace")
    return written


def rows_in(content: bytes) -> int:
    """Lines below the header, those at the end of the file that are blank left out."""
    lines = re.split("\r\n|\n|\r", content.decode("utf-8-sig"))
    while lines and not lines[-1].strip():
        lines.pop()
    return len(lines) - 1


def accounted_for(folder: Path, contents: dict[str, bytes], **options: Any) -> bool:
    """Reads the folder; whether it was accepted, every row then being used or reported."""
    for name, content in contents.items():
        (folder / f"{name}.csv").write_bytes(content)
    report = check_folder(folder, label="label", **options)
    try:
        scenario = load_scenario("files", folder=folder, label="label", **options)
    except FedvalueError:
        return False
    assert report.refused == ()
    assert scenario.report == report
    for party in report.parties:
        assert rows_in(contents[party.name]) == party.rows + party.blank
        assert not party.blank or any("blank line" in finding for finding in party.findings)
    used = {name: len(data) for name, data in zip(scenario.names, scenario.clients, strict=True)}
    assert {**used, "test": len(scenario.test)} == {party.name: party.rows for party in report.parties}
    assert set(contents) == {party.name for party in report.parties}
    return True


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "task": st.sampled_from(["classification", "regression"]),
        "decimal": st.sampled_from([".", ","]),
        "dates": st.sampled_from(["day-first", "month-first"]),
        "missing": st.sampled_from(["x", -999, ["a", "0"]]),
        "labels": st.just("exact"),
        "drop": st.just("f0"),
        "keep": st.just("f0"),
    },
)


@fuzz
@given(folders(), OPTIONS)
def test_random_folders(contents: dict[str, bytes], options: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        accounted_for(Path(folder), contents, **options)


@pytest.mark.slow
@fuzz
@given(
    st.sampled_from([*CLIENTS, "test"]),
    st.lists(
        st.tuples(st.integers(0, 2600), st.integers(0, 3), st.binary(max_size=3)), min_size=1, max_size=4
    ),
)
def test_bytes_that_went_wrong(name: str, damage: list[tuple[int, int, bytes]]) -> None:
    contents = {of: csv_of(rows).replace("outcome", "label").encode() for of, rows in clean().items()}
    for place, cut, put in damage:
        contents[name] = contents[name][:place] + put + contents[name][place + cut :]
    with tempfile.TemporaryDirectory() as folder:
        accounted_for(Path(folder), contents)


@pytest.mark.parametrize("labels", [("0", "1"), ("ill", "well")])
def test_the_grammar_also_makes_folders_that_are_accepted(labels: tuple[str, str], tmp_path: Path) -> None:
    rows = "".join(f"{k % 7}.5,{labels[k % 2]}\n" for k in range(8)).encode()
    assert accounted_for(tmp_path, {"a": b"f0,label\n" + rows, "test": b"f0,label\n\n" + rows})
