"""Folders as people really send them: a clean one, some dirt, and what must come of it.

Nothing may be wrong in silence: a dirty folder is refused with a sentence that names the place, or what is odd about it
is in the report, or the arrays are those of the clean folder.
"""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from fedvalue.errors import FedvalueError
from fedvalue.scenarios import Scenario, load_scenario

REFUSED, REPORTED, SAME = "refused", "reported", "same"
CLIENTS = ("c0", "c1", "c2", "c3")
HEADER = ["age", "pressure", "price", "count", "rate", "delta", "visit", "ward", "smoker", "outcome"]
ROWS = 40

Rows = list[list[str]]
Files = dict[str, Rows]


def clean() -> Files:
    """A copy of the clean tables, to be altered."""
    return {name: [list(row) for row in rows] for name, rows in _drawn().items()}


@cache
def _drawn() -> Files:
    """Four clients and a test set: whole numbers, decimals, a fraction, a date, categories, a label of 0 and 1."""
    draw = np.random.default_rng(11)
    files = {}
    for name in (*CLIENTS, "test"):
        rows = [list(HEADER)]
        for _ in range(ROWS):
            age, pressure = draw.normal(55, 12), draw.normal(130, 15)
            risk = (age - 55) / 12 + (pressure - 130) / 15 + draw.normal(0, 0.5)
            rows.append(
                [
                    f"{age:.0f}",
                    f"{pressure:.1f}",
                    f"{draw.uniform(300, 9000):.2f}",
                    f"{draw.integers(100, 9000)}",
                    f"{draw.uniform(0, 0.9):.3f}",
                    f"{draw.normal(0, 5):.2f}",
                    str(date(2020, 1, 1) + timedelta(days=int(draw.integers(0, 1500)))),
                    "xyz"[draw.integers(3)],
                    ("no", "yes")[draw.integers(2)],
                    str(int(risk > 0)),
                ]
            )
        files[name] = rows
    return files


def csv_of(rows: Rows, delimiter: str = ",") -> str:
    def cell(text: str) -> str:
        return f'"{text}"' if delimiter in text else text

    return "".join(delimiter.join(map(cell, row)) + "\n" for row in rows)


@dataclass(frozen=True)
class Dirty:
    """A kind of dirt. `change` alters the tables, `damage` the written folder; `base` alters the clean truth, too."""

    name: str
    expect: str
    says: str = ""
    change: Callable[[Files], Any] | None = None
    damage: Callable[[Path], Any] | None = None
    base: Callable[[Files], Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    delimiter: str = ","

    def write_clean(self, folder: Path) -> Path:
        """The folder as it should have been."""
        return replace(self, change=None, damage=None, delimiter=",").write(folder)

    def write(self, folder: Path) -> Path:
        """The dirty folder."""
        folder.mkdir()
        files = clean()
        for alter in (self.base, self.change):
            if alter is not None:
                alter(files)
        for name, rows in files.items():
            text = csv_of(rows, self.delimiter)
            (folder / f"{name}.csv").write_text(text, encoding="utf-8", newline="")
        if self.damage is not None:
            self.damage(folder)
        return folder


def verdict(case: Dirty, place: Path) -> tuple[str, str]:
    """What came of a dirty folder (refused, reported, same, or wrong), and what was said about it."""
    try:
        built = load_scenario(
            "files", folder=case.write(place / "dirty"), **{"label": "outcome", **case.options}
        )
    except FedvalueError as error:
        return REFUSED, str(error)
    said = told(built)
    if case.expect == REPORTED and case.says in said:
        return REPORTED, said
    return (SAME if equal(built, _truth(case, place / "clean")) else "wrong"), said


_TRUTHS: dict[Any, Scenario] = {}


def _truth(case: Dirty, folder: Path) -> Scenario:
    """The clean folder's scenario, which most cases have in common; read once."""
    if case.base not in _TRUTHS:
        _TRUTHS[case.base] = load_scenario("files", folder=case.write_clean(folder), label="outcome")
    return _TRUTHS[case.base]


def told(scenario: Scenario) -> str:
    """Everything that the report says about columns and files."""
    report = scenario.report
    assert report is not None
    columns = [f"{column.name}: {what}" for column in report.columns for what in column.done]
    return "\n".join([*columns, *report.done, *report.suspicious])


def equal(one: Scenario, other: Scenario) -> bool:
    """Whether two scenarios hold the same rows for the same clients."""
    if one.names != other.names or one.test.x.shape != other.test.x.shape:
        return False
    pairs = zip((*one.clients, one.test), (*other.clients, other.test), strict=True)
    return all(
        a.x.shape == b.x.shape and np.allclose(a.x, b.x, rtol=1e-4, atol=1e-4) and np.array_equal(a.y, b.y)
        for a, b in pairs
    )


# --- ways to make things dirty ---


def column(name: str, write: Callable[[str], str], *who: str) -> Callable[[Files], None]:
    """Every cell of a column written differently, in all files or by some clients."""

    def change(files: Files) -> None:
        place = HEADER.index(name)
        for of in who or files:
            for row in files[of][1:]:
                row[place] = write(row[place])

    return change


def cells(name: str, texts: Mapping[int, str], who: str = "c1") -> Callable[[Files], None]:
    """Some cells of a column, by their row."""

    def change(files: Files) -> None:
        for row, text in texts.items():
            files[who][row][HEADER.index(name)] = text

    return change


def both(*changes: Callable[[Files], Any]) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        for one in changes:
            one(files)

    return change


def added(name: str, write: Callable[[str, int], str]) -> Callable[[Files], None]:
    """A further column in front; cells by file and row."""

    def change(files: Files) -> None:
        for of, rows in files.items():
            rows[0].insert(0, name)
            for k, row in enumerate(rows[1:]):
                row.insert(0, write(of, k))

    return change


def text(edit: Callable[[str], str], name: str = "c1.csv") -> Callable[[Path], None]:
    """The text of a file changed."""

    def damage(folder: Path) -> None:
        path = folder / name
        path.write_text(edit(path.read_text(encoding="utf-8")), encoding="utf-8", newline="")

    return damage


def line(number: int, edit: Callable[[str], str]) -> Callable[[Path], None]:
    def change(content: str) -> str:
        lines = content.split("\n")
        lines[number - 1] = edit(lines[number - 1])
        return "\n".join(lines)

    return text(change)


def data(edit: Callable[[bytes], bytes], name: str = "c1.csv") -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(edit((folder / name).read_bytes()))

    return damage


def extra(name: str, of: str = "c0.csv") -> Callable[[Path], None]:
    """One more file, with the content of another."""
    return lambda folder: (folder / name).write_bytes((folder / of).read_bytes())


def renamed(old: str, new: str) -> Callable[[Path], None]:
    return lambda folder: (folder / old).rename(folder / new)


def comma(number: str) -> str:
    return number.replace(".", ",")


def grouped(separator: str, decimal: str = ".") -> Callable[[str], str]:
    def write(number: str) -> str:
        whole, point, rest = number.partition(".")
        return f"{int(whole):,}".replace(",", separator) + (decimal if point else "") + rest

    return write


def scaled(factor: float) -> Callable[[str], str]:
    return lambda number: f"{float(number) * factor:.10g}"


def dated(pattern: str) -> Callable[[str], str]:
    return lambda day: date.fromisoformat(day).strftime(pattern)


def classes(no: str, yes: str) -> Callable[[str], str]:
    return lambda label: yes if label == "1" else no


def drawn(of: str, k: int) -> int:
    """A number that looks random, the same in every run."""
    return crc32(f"{of} {k}".encode())


def _drawn_from_all(files: Files) -> None:
    """Fourteen clients, of each of which the test set has three rows."""
    rows = [row for name in CLIENTS for row in files.pop(name)[1:]]
    head, files["test"] = files["test"][0], [files["test"][0]]
    for i in range(14):
        files[f"c{i}"] = [head, *rows[i::14][:11]]
        files["test"] += rows[i::14][:3]


def _npz(folder: Path) -> None:
    """A client as NPZ among tables."""
    (folder / "c1.csv").unlink()
    np.savez(folder / "c1.npz", x=np.zeros((3, 9)), y=np.zeros(3))


def _zip_bomb_like(folder: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x.npy", b"no array")
    for path in folder.glob("*.csv"):
        path.unlink()
    for name in (*CLIENTS, "test"):
        (folder / f"{name}.npz").write_bytes(buffer.getvalue())


_LOW = column("visit", lambda day: f"{day[:8]}{int(day[8:]) % 12 + 1:02d}")  # every day could be a month
_TEXT = column("outcome", classes("well", "ill"))
_NO_FRACTION = column("price", lambda number: f"{1000 + int(float(number))}")

NUMBERS = (
    Dirty("decimal commas at one client", SAME, change=column("pressure", comma, "c1"), delimiter=";"),
    Dirty("decimal commas everywhere", SAME, change=both(*(column(c, comma) for c in ("pressure", "price", "rate", "delta"))), delimiter=";"),
    Dirty("decimal commas quoted", SAME, change=column("pressure", comma, "c1")),
    Dirty("decimal commas among whole numbers", SAME, base=column("pressure", lambda n: n.removesuffix(".0") if int(float(n)) % 2 else f"{float(n):.0f}"), change=column("pressure", comma, "c1"), delimiter=";"),
    Dirty("point for thousands, comma for decimals", SAME, change=column("price", grouped(".", ",")), delimiter=";"),
    Dirty("point for thousands at one client", SAME, change=column("price", grouped(".", ","), "c2"), delimiter="\t"),
    Dirty("comma for thousands", SAME, change=column("price", grouped(","))),
    Dirty("space for thousands", SAME, change=column("price", grouped(" "))),
    Dirty("no-break space for thousands", SAME, change=column("price", grouped("\xa0"))),
    Dirty("narrow no-break space for thousands", SAME, change=column("price", grouped("\u202f", ",")), delimiter=";"),
    Dirty("apostrophe for thousands", SAME, change=column("price", grouped("'"))),
    Dirty("typographic apostrophe", SAME, change=column("price", grouped("’"))),
    Dirty("whole numbers with commas, nothing decides", REFUSED, "decimal=", base=_NO_FRACTION, change=both(column("price", grouped(","), "c1"), *(column(c, lambda n: str(int(float(n) * 1000)), "c1") for c in ("pressure", "rate", "delta")))),
    Dirty("commas in a file of points", SAME, change=column("count", grouped(","))),
    Dirty("points in a file of points", REPORTED, "count lies far from that of the others", change=column("count", grouped("."), "c1"), base=column("count", lambda n: str(int(n) + 1000))),
    Dirty("points for thousands among small numbers, decimals elsewhere", REFUSED, "decimal=", change=column("count", grouped("."), "c1")),
    Dirty("points for thousands among small numbers", REFUSED, "decimal=", change=both(column("count", grouped("."), "c1"), *(column(c, lambda n: str(int(float(n) * 1000)), "c1") for c in ("pressure", "price", "rate", "delta")))),
    Dirty("points for thousands, decided", SAME, base=both(*(column(c, lambda n: str(int(float(n) * 1000))) for c in ("pressure", "price", "rate", "delta"))), change=column("count", grouped(".")), options={"decimal": ","}),
    Dirty("commas for thousands, decided", SAME, base=_NO_FRACTION, change=column("price", grouped(",")), options={"decimal": "point"}),
    Dirty("two ways in one file", REFUSED, "two ways in one file", change=cells("pressure", {3: "121,5", 4: "121.5"})),
    Dirty("per cent", SAME, change=column("rate", lambda n: f"{float(n) * 100:.1f}%")),
    Dirty("per cent with a space", SAME, change=column("rate", lambda n: f"{float(n) * 100:.1f} %")),
    Dirty("per cent with commas at one client", SAME, change=both(column("rate", lambda n: f"{float(n) * 100:.1f}%"), column("rate", comma, "c3"))),
    Dirty("per cent at one client only", REFUSED, "several units", change=column("rate", lambda n: f"{float(n) * 100:.1f}%", "c1")),
    Dirty("per cent, and a client without rows", REPORTED, "c1: no rows", change=column("rate", lambda n: f"{float(n) * 100:.1f}%"), damage=text(lambda t: t.split("\n", 1)[0] + "\n")),
    Dirty("per cent in one cell", REFUSED, "several units", change=cells("rate", {5: "12%"})),
    Dirty("euros in front", SAME, change=column("price", lambda n: f"€{n}")),
    Dirty("euros behind", SAME, change=column("price", lambda n: f"{n} €")),
    Dirty("euros the German way", SAME, change=column("price", lambda n: f"{grouped('.', ',')(n)} €"), delimiter=";"),
    Dirty("dollars", SAME, change=column("price", lambda n: f"${grouped(',')(n)}")),
    Dirty("currency by letters", SAME, change=column("price", lambda n: f"CHF {n}")),
    Dirty("currency at one client", REPORTED, "taken to be so", change=column("price", lambda n: f"€ {n}", "c1")),
    Dirty("two currencies", REFUSED, "several units", change=both(column("price", lambda n: f"€{n}"), column("price", lambda n: n.replace("€", "$"), "c1"))),
    Dirty("powers of ten", SAME, change=column("price", lambda n: f"{float(n):.6e}")),
    Dirty("plus signs", SAME, change=column("age", lambda n: f"+{n}", "c1")),
    Dirty("typographic minus", SAME, change=column("delta", lambda n: n.replace("-", "−"), "c1")),
    Dirty("spaces around", SAME, change=column("age", lambda n: f"  {n} ", "c1")),
    Dirty("no-break spaces around", SAME, change=column("age", lambda n: f"\xa0{n}\xa0", "c1")),
    Dirty("invisible characters", SAME, change=column("age", lambda n: f"\u200b{n}", "c1")),
    *(
        Dirty(f"{wrong!r} as a number", REFUSED, "column 'age' holds numbers", change=cells("age", {4: wrong}))
        for wrong in ("5O", "50 kg", "1_000", "(50)", "1/2", "0x1F", "12..5", "1,23,456", "٥٠", "old", "50;", "5 0", "=A1", "#REF!", "1e999999")
    ),
    Dirty("infinity", REFUSED, "float32", change=cells("age", {4: "inf"})),
    Dirty("beyond float32", REFUSED, "float32", change=cells("age", {4: "1e300"})),
    Dirty("a text in the test set", REFUSED, "test.csv, line 5: column 'age'", change=cells("age", {4: "old"}, "test")),
)  # fmt: skip

DATES = (
    Dirty("days with points", SAME, change=column("visit", dated("%d.%m.%Y"), "c1")),
    Dirty("days with slashes, some beyond 12", SAME, change=column("visit", dated("%d/%m/%Y"), "c1")),
    Dirty("months first, some days beyond 12", SAME, change=column("visit", dated("%m/%d/%Y"), "c1")),
    Dirty("months first with dashes", SAME, change=column("visit", dated("%m-%d-%Y"), "c2")),
    Dirty("slashes that decide nothing", REFUSED, "dates=", base=_LOW, change=column("visit", dated("%d/%m/%Y"), "c1")),
    Dirty("slashes decided by an option", SAME, base=_LOW, change=column("visit", dated("%m/%d/%Y"), "c1"), options={"dates": "month-first"}),
    Dirty("both orders in one file", REFUSED, "two ways", change=both(column("visit", dated("%d/%m/%Y"), "c1"), cells("visit", {1: "25/12/2020", 2: "12/25/2020"}))),
    Dirty("year with slashes", SAME, change=column("visit", dated("%Y/%m/%d"))),
    Dirty("dates without separators", SAME, change=column("visit", dated("%Y%m%d"))),
    Dirty("dates without separators at one client", REFUSED, "column 'visit'", change=cells("visit", {3: "2020131"})),
    Dirty("timestamps", SAME, change=column("visit", lambda day: f"{day}T00:00:00", "c1")),
    Dirty("timestamps with a space", SAME, change=column("visit", lambda day: f"{day} 00:00", "c1")),
    Dirty("timestamps with a zone", SAME, change=column("visit", lambda day: f"{day}T00:00:00Z")),
    Dirty("timestamps in another zone", SAME, change=column("visit", lambda day: f"{day}T02:00:00+02:00")),
    Dirty("a zone, and a client without rows", REPORTED, "c1: no rows", change=column("visit", lambda day: f"{day}T00:00:00Z"), damage=text(lambda t: t.split("\n", 1)[0] + "\n")),
    Dirty("a zone at one client only", REFUSED, "mixes", change=column("visit", lambda day: f"{day}T00:00:00Z", "c1")),
    Dirty("a day that does not exist", REFUSED, "column 'visit' holds dates, but here '2021-02-30'", change=cells("visit", {4: "2021-02-30"})),
    Dirty("years of two digits", REFUSED, "column 'visit' holds dates", change=column("visit", dated("%d.%m.%y"), "c1")),
    Dirty("names of months", REFUSED, "column 'visit' holds dates", change=column("visit", dated("%d %b %Y"), "c1")),
    Dirty("hours among dates", REFUSED, "mixes", change=cells("visit", {4: "12:30"})),
    Dirty("a missing date", REPORTED, "visit: 1 missing cell", change=cells("visit", {4: ""})),
)  # fmt: skip

MISSING = (
    *(
        Dirty(f"{nothing!r} for nothing", REPORTED, "age: 2 missing cells set to the median", change=cells("age", {3: nothing, 9: nothing}))
        for nothing in ("", "NaN", "NA", "n/a", "null", "None", "?", "-", "--", ".", "<NA>", "#N/A", " ")
    ),
    Dirty("missing in the test set only", REPORTED, "missing cells of the test set", change=cells("age", {3: ""}, "test")),
    Dirty("missing at one client", REPORTED, "c1: age is missing in all rows", change=column("age", lambda n: "", "c1")),
    Dirty("missing in most rows", REPORTED, "c1: age is missing in 75 % of the rows", change=cells("age", dict.fromkeys(range(1, 31), "NA"))),
    Dirty("missing everywhere", REFUSED, "drop='age'", change=column("age", lambda n: "")),
    Dirty("-999 for nothing", REPORTED, "missing=-999", change=cells("age", dict.fromkeys((2, 5, 9), "-999"))),
    Dirty("-999 for nothing, often and in all files", REPORTED, "missing=-999", change=column("age", lambda n: "-999" if int(n) % 4 == 0 else n)),
    Dirty("9999 for nothing", REPORTED, "missing=9999", change=cells("pressure", dict.fromkeys((2, 5, 9), "9999"))),
    Dirty("-999 named as nothing", REPORTED, "age: 3 missing cells", change=cells("age", dict.fromkeys((2, 5, 9), "-999")), options={"missing": -999}),
    Dirty("a word named as nothing", REPORTED, "age: 1 missing cell", change=cells("age", {4: "old"}), options={"missing": "old"}),
    Dirty("a missing category", REPORTED, "ward: 2 missing cells", change=cells("ward", {3: "", 4: "NA"})),
)  # fmt: skip

IDENTIFIERS = (
    Dirty("names of records", REFUSED, "drop='record'", change=added("record", lambda of, k: f"{of}-{k:04d}")),
    Dirty("names of records, dropped", SAME, change=added("record", lambda of, k: f"{of}-{k:04d}"), options={"drop": "record"}),
    Dirty("hexadecimal ids", REFUSED, "drop='uuid'", change=added("uuid", lambda of, k: f"{drawn(of, k):08x}-af")),
    Dirty("free text", REFUSED, "drop='notes'", change=added("notes", lambda of, k: f"patient {k} of {of} was seen, and went")),
    Dirty("free text, quoted", SAME, change=added("notes", lambda of, k: f"seen, {k} of {of}"), options={"drop": ["notes"]}),
    Dirty("rows numbered in each file", REFUSED, "numbers the records", change=added("n", lambda of, k: str(k + 1))),
    Dirty("rows numbered from nought", REFUSED, "drop='Unnamed: 0'", change=added("Unnamed: 0", lambda of, k: str(k))),
    Dirty("rows numbered over all files", REFUSED, "numbers the records", change=added("row", lambda of, k: str(40 * [*CLIENTS, "test"].index(of) + (7 * k) % 40))),
    Dirty("ids by name", REFUSED, "drop='patient_id'", change=added("patient_id", lambda of, k: str(100003 * ([*CLIENTS, "test"].index(of) * 40 + k + 1) % 999983))),
    Dirty("ids under another name", REPORTED, "as identifiers do", change=added("patient", lambda of, k: str(100000 + 7919 * ([*CLIENTS, "test"].index(of) * 40 + k + 1)))),
    Dirty("an id that repeats", REPORTED, "named like an identifier", change=added("ward_id", lambda of, k: str(k % 5))),
    Dirty("ids by name, in humps", REFUSED, "drop='patientID'", change=added("patientID", lambda of, k: str(drawn(of, k)))),
    Dirty("addresses", REFUSED, "drop='email'", change=added("email", lambda of, k: f"p{k}@{of}.org")),
    Dirty("postal codes", REFUSED, "drop='zip'", change=added("zip", lambda of, k: f"0{drawn(of, k) % 10000:04d}")),
    Dirty("a few postal codes", REPORTED, "zip: 3 categories", change=added("zip", lambda of, k: ("01067", "50667", "80331")[k % 3])),
    Dirty("postal codes that lost their zeros at one client", REPORTED, "with zeros in front", change=added("zip", lambda of, k: ("1067", "50667", "80331")[k % 3] if of == "c1" else ("01067", "50667", "80331")[k % 3])),
    Dirty("a column without a name", REFUSED, "has no name", change=added("", lambda of, k: str(k))),
)  # fmt: skip

LABELS = (
    *(
        Dirty(f"{yes!r} at one client", REPORTED, "written in several ways", change=column("outcome", classes(no, yes), "c1"))
        for no, yes in (("no", "yes"), ("False", "True"), ("FALSE", "TRUE"), ("N", "Y"), ("f", "t"), ("No", "Yes"))
    ),
    Dirty("1.0 at one client", SAME, change=column("outcome", classes("0.0", "1.0"), "c1")),
    Dirty("1,0 at one client", SAME, change=column("outcome", classes("0,0", "1,0"), "c1")),
    Dirty("yes in the test set", REPORTED, "written in several ways", change=column("outcome", classes("no", "yes"), "test")),
    Dirty("spaces around labels", SAME, change=column("outcome", lambda n: f" {n} ", "c1")),
    Dirty("other words at one client", REFUSED, "c1.csv, line 2: the labels are numbers at c0", change=column("outcome", classes("negative", "positive"), "c1")),
    Dirty("1 and 2 at one client", REPORTED, "only this client has the class '2'", change=column("outcome", classes("1", "2"), "c1")),
    Dirty("-1 and 1 at one client", REPORTED, "only this client has the class '-1'", change=column("outcome", classes("-1", "1"), "c1")),
    *(
        Dirty(f"{nothing!r} as a label", REFUSED, "the label 'outcome' is missing", change=cells("outcome", {3: nothing, 7: nothing}))
        for nothing in ("?", "None", "", "NaN", "NA", "-", "null")
    ),
    *(
        Dirty(f"{wrong!r} as a label", REFUSED, "c1.csv, line 4: the labels", change=cells("outcome", {3: wrong}))
        for wrong in ("O", "0'", "1?", "ill", "unknown")
    ),
    Dirty("a missing label in the test set", REFUSED, "test.csv, line 4: the label", change=cells("outcome", {3: "?"}, "test")),
    Dirty("a class that only the test set has", REFUSED, "which no client has", change=cells("outcome", {3: "2"}, "test")),
    Dirty("chances at one client", REFUSED, "a fraction at c1", change=column("outcome", classes("0.03", "0.97"), "c1")),
    Dirty("one class only", REFUSED, "the same label", change=column("outcome", lambda n: "1")),
    Dirty("capital letters", REPORTED, "are one class", base=_TEXT, change=column("outcome", str.upper, "c1")),
    Dirty("capital letters in one cell", REPORTED, "are one class", base=_TEXT, change=column("outcome", str.title, "c2")),
    Dirty("spaces behind classes", SAME, base=_TEXT, change=column("outcome", lambda w: f"{w} ", "c1")),
    Dirty("a class mistyped", REPORTED, "only this client has the class 'wel'", base=_TEXT, change=cells("outcome", {3: "wel"})),
    Dirty("unknown at all clients", REPORTED, "'unknown' is a class of its own", base=_TEXT, change=lambda files: [cells("outcome", {3: "unknown"}, who)(files) for who in files]),
    Dirty("another language", REFUSED, "none of its labels", base=_TEXT, change=column("outcome", lambda w: {"ill": "krank", "well": "gesund"}[w], "c1")),
    Dirty("numbers for classes", REFUSED, "the labels are numbers at c1", base=_TEXT, change=column("outcome", lambda w: {"ill": "1", "well": "0"}[w], "c1")),
    Dirty("letters in two cases", REFUSED, "labels=exact", base=column("outcome", classes("a", "b")), change=cells("outcome", {3: "A", 4: "B"})),
    Dirty("many whole numbers", REFUSED, "task=classification or task=regression", change=lambda files: [column("outcome", lambda n: n, "c0")(files), *(row.__setitem__(-1, str(k % 25)) for rows in files.values() for k, row in enumerate(rows[1:]))]),
    Dirty("a date as the label", REFUSED, "holds dates", options={"label": "visit"}),
    Dirty("a record as the label", REFUSED, "names the records", change=added("record", lambda of, k: f"{of}-{k}" if of != "test" else f"c0-{k}"), options={"label": "record"}),
    Dirty("a label that does not exist", REFUSED, "Did you mean 'outcome'", options={"label": "outcom"}),
)  # fmt: skip

SCALES = (
    Dirty("one wild cell", REPORTED, "c1: age is 10000 in line 4", change=cells("age", {3: "10000"})),
    Dirty("other units", REPORTED, "c1: age lies far", change=column("age", scaled(1e7), "c1")),
    Dirty("grams", REPORTED, "c2: pressure lies far", change=column("pressure", scaled(1000), "c2")),
    Dirty("kilos", REPORTED, "c2: price lies far", change=column("price", scaled(0.001), "c2")),
    Dirty("minutes", REPORTED, "c3: delta lies far", change=column("delta", scaled(60), "c3")),
    Dirty("another zero", REPORTED, "c1: pressure lies far", change=column("pressure", lambda n: f"{float(n) + 1000:.1f}", "c1")),
    Dirty("other units in the test set", REPORTED, "test: age lies far", change=column("age", scaled(100), "test")),
    Dirty("seconds for days", REPORTED, "c1: count lies far", change=column("count", scaled(86400), "c1")),
    Dirty("age in months", REPORTED, "c1: age lies far", change=column("age", scaled(12), "c1")),
    Dirty("age in months in the test set", REPORTED, "test: age lies far", change=column("age", scaled(12), "test")),
    Dirty("two columns mixed up", REPORTED, "c1: pressure lies far", change=lambda files: [row.__setitem__(slice(0, 2), row[1::-1]) for row in files["c1"][1:]]),
    Dirty("two clients in other units", REPORTED, "lies far", change=column("age", scaled(1000), "c1", "c2")),
)  # fmt: skip

CATEGORIES = (
    *(
        Dirty(f"{yes!r} in a column of yes and no", REPORTED, "clients write it differently", change=column("smoker", lambda w, no=no, yes=yes: {"no": no, "yes": yes}[w], "c1"))
        for no, yes in (("0", "1"), ("False", "True"), ("n", "y"))
    ),
    Dirty("YES in a column of yes and no", SAME, change=column("smoker", str.upper, "c1")),
    Dirty("maybe in a column of yes and no", REPORTED, "smoker: 3 categories", change=cells("smoker", {3: "maybe"})),
    Dirty("maybe in the test set", REFUSED, "column 'smoker' holds yes and no", change=cells("smoker", {3: "maybe"}, "test")),
    Dirty("capital categories", SAME, change=column("ward", str.upper, "c1")),
    Dirty("accents in two ways", SAME, base=column("ward", lambda w: w.replace("x", "\u00e9")), change=column("ward", lambda w: w.replace("\u00e9", "e\u0301"), "c1")),
    Dirty("spaces behind categories", SAME, change=column("ward", lambda w: f"{w}  ", "c1")),
    Dirty("categories of one's own", REPORTED, "c1: its ward has nothing in common", change=column("ward", lambda w: f"station {w}", "c1")),
    Dirty("numbers for categories", REPORTED, "c1: its ward has nothing in common", change=column("ward", lambda w: str("xyz".index(w)), "c1")),
    Dirty("numbers with a unit for categories", REPORTED, "if it is a quantity", change=column("age", lambda n: f"{n} y")),
    Dirty("a category that only the test set has", REPORTED, "that no client has", change=cells("ward", {3: "q"}, "test")),
)  # fmt: skip

TABLES = (
    Dirty("an open quote", REFUSED, "c1.csv, line 5: a quoted cell does not end", damage=line(5, lambda row: f'"{row}')),
    Dirty("an open quote in the label", REFUSED, "a quoted cell does not end", damage=line(5, lambda row: f'{row[:-1]}"{row[-1]}')),
    Dirty("an open quote in the last line", REFUSED, "line 41: a quoted cell", damage=line(41, lambda row: f'{row[:-1]}"{row[-1]}')),
    Dirty("two open quotes", REFUSED, "line 5: a quoted cell", damage=lambda folder: [line(5, lambda row: f'"{row}')(folder), line(20, lambda row: f'"{row}')(folder)]),
    Dirty("a quote that closes lines later", REFUSED, "line 5: a quoted cell", damage=lambda folder: [line(5, lambda row: f'"{row}')(folder), line(20, lambda row: row.replace(",", '",', 1))(folder)]),
    Dirty("a quote inside a quoted cell", REFUSED, "line 5: a quote in the middle", damage=line(5, lambda row: f'"4"0",{row}')),
    Dirty("a line break in a cell", REFUSED, "line 5: a quoted cell", damage=line(5, lambda row: '"' + row.replace(",", '\n",', 1))),
    Dirty("a stray quote in a number", REFUSED, "column 'age' holds numbers", damage=line(5, lambda row: row.replace(",", '",', 1))),
    Dirty("a giant cell", REFUSED, "c1.csv, line 5: a cell has more than 131,072", damage=line(5, lambda row: "9" * 140_000 + row)),
    Dirty("a giant text", REFUSED, "column 'age' holds numbers", damage=line(5, lambda row: "x" * 100_000 + row)),
    Dirty("a NUL byte", REFUSED, "c1.csv, line 5: holds the control character 0x00", damage=line(5, lambda row: f"\0{row}")),
    Dirty("an escape character", REFUSED, "control character 0x1b", damage=line(5, lambda row: f"\x1b[31m{row}")),
    Dirty("Latin-1", REFUSED, "c1.csv, line 3: not UTF-8", change=cells("ward", {2: "é"}), damage=data(lambda raw: raw.decode().encode("latin-1"))),
    Dirty("UTF-16", REFUSED, "UTF-16", damage=data(lambda raw: raw.decode().encode("utf-16"))),
    Dirty("a byte order mark", SAME, damage=data(lambda raw: b"\xef\xbb\xbf" + raw)),
    Dirty("lines of Windows", SAME, damage=data(lambda raw: raw.replace(b"\n", b"\r\n"))),
    Dirty("lines of an old Macintosh", SAME, damage=data(lambda raw: raw.replace(b"\n", b"\r"))),
    Dirty("no end of the last line", SAME, damage=data(lambda raw: raw.rstrip(b"\n"))),
    Dirty("a short row", REFUSED, "c1.csv, line 5: expected 10 cells", damage=line(5, lambda row: row[: row.rindex(",")])),
    Dirty("a long row", REFUSED, "c1.csv, line 5: expected 10 cells", damage=line(5, lambda row: f"{row},7")),
    Dirty("a decimal comma unquoted", REFUSED, "line 5: expected 10 cells", damage=line(5, lambda row: row.replace(".", ",", 1))),
    Dirty("a column twice", REFUSED, "columns of the same name: age", damage=line(1, lambda row: row.replace("pressure", "age"))),
    Dirty("a column less", REFUSED, "missing ['delta']", damage=text(lambda t: csv_of([r.split(",")[:5] + r.split(",")[6:] for r in t.splitlines()]))),
    Dirty("a column more", REFUSED, "not expected ['bed']", damage=text(lambda t: "".join(f"{r},{k if k else 'bed'}\n" for k, r in enumerate(t.splitlines())))),
    Dirty("a column in capitals", REFUSED, "not expected ['Age']", damage=line(1, lambda row: row.replace("age", "Age"))),
    Dirty("columns in another order", SAME, damage=text(lambda t: csv_of([r.split(",")[::-1] for r in t.splitlines()]))),
    Dirty("no header", REFUSED, "missing", damage=text(lambda t: t.split("\n", 1)[1])),
    Dirty("numbers for a header", REFUSED, "expected the names of the columns", damage=text(lambda t: "1,2,3,4,5,6,7,8,9,10\n" + t.split("\n", 1)[1])),
    Dirty("an empty file", REFUSED, "c1.csv has no columns", damage=text(lambda t: "")),
    Dirty("blank lines only", REFUSED, "c1.csv has no columns", damage=text(lambda t: "\n\n  \n")),
    Dirty("a header only", REPORTED, "c1: no rows", damage=text(lambda t: t.split("\n", 1)[0] + "\n")),
    Dirty("a test set without rows", REFUSED, "The test set is empty", damage=text(lambda t: t.split("\n", 1)[0] + "\n", "test.csv")),
    Dirty("blank lines between rows", REPORTED, "c1: 2 blank lines passed over", damage=line(5, lambda row: f"\n{row}\n")),
    Dirty("rows of commas", REPORTED, "c1: 1 blank line passed over", damage=line(5, lambda row: f",,,,,,,,,\n{row}")),
    Dirty("semicolons", SAME, delimiter=";"),
    Dirty("tabs", SAME, delimiter="\t"),
    Dirty("bars", SAME, delimiter="|"),
    Dirty("semicolons at one client", SAME, damage=text(lambda t: t.replace(",", ";"))),
    Dirty("the delimiter said", SAME, damage=text(lambda t: "sep=;\n" + t.replace(",", ";"))),
    Dirty("spaces behind commas", SAME, damage=text(lambda t: t.replace(",", ", "))),
    Dirty("all cells quoted", SAME, damage=text(lambda t: "".join(",".join(f'"{c}"' for c in r.split(",")) + "\n" for r in t.splitlines()))),
    Dirty("compressed", SAME, damage=lambda folder: [(folder / "c1.csv.gz").write_bytes(gzip.compress((folder / "c1.csv").read_bytes())), (folder / "c1.csv").unlink()]),
    Dirty("compressed and cut off", REFUSED, "c1.csv.gz cannot be read", damage=lambda folder: [(folder / "c1.csv.gz").write_bytes(gzip.compress((folder / "c1.csv").read_bytes())[:-20]), (folder / "c1.csv").unlink()]),
    Dirty("a remark above the header", REFUSED, "expected 1 cell as in the header", damage=text(lambda t: "# exported in May\n" + t)),
    Dirty("a sum below the rows", REFUSED, "c1.csv, line 42", damage=text(lambda t: t + "Total,130,,,,,,,,\n")),
    Dirty("the header once more", REFUSED, "line 42", damage=text(lambda t: t + t.split("\n", 1)[0] + "\n")),
    Dirty("a page of the web", REFUSED, "c1.csv", damage=text(lambda t: "<!DOCTYPE html>\n<html><body>404</body></html>\n")),
    Dirty("a picture", REFUSED, "c1.csv, line 1: not UTF-8", damage=data(lambda raw: b"\x89PNG\r\n\x1a\n" + bytes(range(256)))),
    Dirty("a comma at the end of lines", REFUSED, "column 11 has no name", damage=text(lambda t: t.replace("\n", ",\n"))),
    Dirty("the middle of a row lost", REFUSED, "line 5: expected 10 cells", damage=line(5, lambda row: row[:8] + row[20:])),
    Dirty("a conflict of versions", REFUSED, "line 5: expected 10 cells", damage=line(5, lambda row: f"<<<<<<< HEAD\n{row}")),
    Dirty("rows twice", REPORTED, "c3: 40 rows of 40 also in c1", damage=lambda folder: (folder / "c3.csv").write_bytes((folder / "c1.csv").read_bytes())),
    Dirty("all rows of a client twice", REPORTED, "c1: 40 rows of 80 are further copies", damage=text(lambda t: t + t.split("\n", 1)[1])),
    Dirty("the rows of another, each twice", REPORTED, "c3: 80 rows of 80 also in c1", damage=lambda folder: (folder / "c3.csv").write_text((folder / "c1.csv").read_text() + (folder / "c1.csv").read_text().split("\n", 1)[1])),
    Dirty("a test set drawn from everybody's rows", REPORTED, "test: 42 rows of 42 also at the clients", change=_drawn_from_all),
    Dirty("the test set among the clients", REPORTED, "test: 40 rows of 40 also in c1", damage=lambda folder: (folder / "c1.csv").write_bytes((folder / "test.csv").read_bytes())),
    Dirty("arrays among tables", REFUSED, "mixes NPZ", damage=_npz),
    Dirty("arrays that are none", REFUSED, "must hold the arrays", damage=_zip_bomb_like),
)  # fmt: skip

NAMES = (
    Dirty("a client called test-lab", REFUSED, "test-lab.csv: a client, or a part of the test set?", damage=extra("test-lab.csv")),
    Dirty("a lone part of a test set", REFUSED, "It is the only one of its kind", damage=renamed("test.csv", "test-lab.csv")),
    Dirty("TEST in capitals", SAME, damage=renamed("test.csv", "TEST.csv")),
    Dirty("Test with a capital", SAME, damage=renamed("test.csv", "Test.csv")),
    *(
        Dirty(f"{name} as a test set", REFUSED, "a client, or test data?", damage=renamed("test.csv", f"{name}.csv"))
        for name in ("tests", "test_set", "testset", "test data", "test1", "test_north", "holdout", "validation", "val", "c0-test", "c0_test", "Testing")
    ),
    Dirty("all rows in one file", REFUSED, "expected one file per client", damage=extra("train.csv")),
    Dirty("no test set", REFUSED, "no test set", damage=lambda folder: (folder / "test.csv").unlink()),
    Dirty("no clients", REFUSED, "no client files", damage=lambda folder: [(folder / f"{name}.csv").unlink() for name in CLIENTS]),
    *(
        Dirty(f"a client saved as {name}", REFUSED, f"{name}: files of this kind are not read", damage=renamed("c1.csv", name))
        for name in ("c1.xlsx", "c1.tsv", "c1.csv.zip", "c1.csv.bak", "c1.csv~", "c1.jsonl", "c1.feather", "c1.csv.txt")
    ),
    Dirty("a folder called like a file", REFUSED, "is not a file", damage=lambda folder: (folder / "c9.csv").mkdir()),
    Dirty("a link to nowhere", REFUSED, "is not a file", damage=lambda folder: (folder / "c9.csv").symlink_to(folder / "gone.csv")),
    Dirty("one name in two cases", REFUSED, "several files of one name", damage=extra("C1.csv")),
    Dirty("one name in two formats", REFUSED, "several files of one name", damage=extra("c1.csv.gz")),
    Dirty("a line break in a name", REFUSED, "rename it", damage=extra("c\n9.csv")),
    Dirty("a space before a name", REFUSED, "rename it", damage=extra(" c9.csv")),
    Dirty("a space behind a name", REFUSED, "rename it", damage=extra("c9 .csv")),
    Dirty("a name that is not UTF-8", REFUSED, "rename it", damage=lambda folder: Path(os.fsdecode(os.fsencode(folder) + b"/c\xff.csv")).write_bytes(b"age\n1\n")),
    Dirty("a suffix in capitals", SAME, damage=renamed("c1.csv", "c1.CSV")),
    Dirty("notes beside the tables", REPORTED, "left aside, being no tables: notes.txt", damage=lambda folder: (folder / "notes.txt").write_text("hello")),
    Dirty("hidden files", REPORTED, "left aside", damage=extra(".c9.csv")),
    Dirty("a lock of a spreadsheet", REPORTED, "left aside", damage=extra("~$c1.csv")),
    Dirty("a folder inside", REPORTED, "left aside", damage=lambda folder: (folder / "more").mkdir()),
)  # fmt: skip

CORPUS = (*NUMBERS, *DATES, *MISSING, *IDENTIFIERS, *LABELS, *SCALES, *CATEGORIES, *TABLES, *NAMES)
