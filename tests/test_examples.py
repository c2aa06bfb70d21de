"""Every example is run as a person would run it, and what it prints is looked at."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
WORKED = (
    "own_function",
    "own_csv_torch",
    "regression_r2",
)  # the ones that the documentation promises to be short
ROW = re.compile(
    r"^│ (?P<name>.+?) +│ +(?P<value>[+-][\d.]+) │ +(?:–|[\d.]+) │ +(?P<share>[-\d.]+)% │", re.MULTILINE
)

Table = dict[str, tuple[float, float]]


def printed(name: str, folder: Path) -> str:
    """The output of an example that is started somewhere else, with nothing to complain about."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert list(folder.iterdir()) == [], "it left something behind"
    return done.stdout


def table(text: str) -> Table:
    """Value and share by client."""
    rows = {row["name"]: (float(row["value"]), float(row["share"])) for row in ROW.finditer(text)}
    assert sum(share for _, share in rows.values()) == pytest.approx(100, abs=0.5)
    return rows


def check_quickstart(text: str) -> None:
    values = table(text)
    assert values["Aachen"] > values["Bern"] > values["Como"] > values["Delft"] == values["Delft-copy"]
    assert values["Empty"] == (0.0, 0.0)
    errors = {name: float(error) for name, error in re.findall(r"(\S+) +([\d.]+)% +from", text)}
    assert errors["ipss-balanced"] < errors["ipss"] < errors["equal"]


def check_own_function(text: str) -> None:
    values = table(text)
    assert values["Como"] == values["copy of Como"]
    assert min(values, key=lambda name: values[name]) == "careless"
    assert max(values, key=lambda name: values[name]) == "Aachen"
    assert 0.45 < sum(value for value, _ in values.values()) < 0.5  # from a coin to a good model
    paid = {
        name.strip(): Decimal(amount) for name, amount in re.findall(r"^(.{14}) *([\d.]+) EUR$", text, re.M)
    }
    assert list(paid) == list(values)
    assert sum(paid.values()) == 10_000


def check_own_csv_torch(text: str) -> None:
    values = table(text)
    bottles = dict(re.findall(r"^(\w+) +(\d+) bottles", text, re.MULTILINE))
    assert bottles == {"alba": "40", "bozen": "30", "chiusi": "15", "dozza": "10", "empty": "0"}
    assert list(values) == list(bottles)
    assert values.pop("empty") == (0.0, 0.0)
    assert all(value > 0.02 for value, _ in values.values())


def check_regression_r2(text: str) -> None:
    values = table(text)
    assert len(values) == 8
    assert min(values, key=lambda name: values[name]) == "clinic-1 (mixed up)"
    assert values["clinic-1 (mixed up)"][0] < 0 < values["clinic-0"][0]
    assert 0.3 < sum(value for value, _ in values.values()) < 0.6  # R² of all, against a guess
    skills = {name: float(skill) for name, skill in re.findall(r"(\S+) +relative.*skill ([+-][\d.]+)", text)}
    assert list(skills) == ["surrogate", "ipss", "permutation", "equal"]
    assert skills["surrogate"] > skills["ipss"] > skills["equal"] == 0


CHECKS: dict[str, Callable[[str], None]] = {
    name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")
}
SLOW = {"own_csv_torch", "own_function", "regression_r2"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in CHECKS]
)
def test_examples_print_what_they_promise(name: str, tmp_path: Path) -> None:
    CHECKS[name](printed(name, tmp_path))


def test_no_example_is_left_out() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(CHECKS)


@pytest.mark.parametrize("name", WORKED)
def test_worked_examples_are_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 60
