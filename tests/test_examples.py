"""Every example is run as a person would run it, and what it prints is looked at."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
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
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *SMALLER.get(name, [])],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
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


def check_lora_federation(text: str) -> None:
    values = table(text)
    assert len(values) == 8
    assert 0.02 < sum(value for value, _ in values.values()) < 0.6  # better than a coin
    names = list(values)
    assert values[names[-1]][0] < max(value for value, _ in values.values())  # it answers at random
    assert values[names[-2]] == values[names[0]]  # a copy


def check_xgboost_trees(text: str) -> None:
    values = table(text)
    assert min(values, key=lambda name: values[name]) == "careless"
    assert max(values, key=lambda name: values[name]) == "Aachen"
    assert 0.3 < sum(value for value, _ in values.values()) < 0.6


def check_flower_demo(text: str) -> None:
    assert len(table(text)) == 3
    rounds = re.search(r"(\d+) coalitions in (\d+) rounds of messages", text)
    assert rounds
    assert int(rounds[1]) >= 8
    assert rounds[2] == "3"  # two of training, and one that asks who is there


def check_ray_workers(text: str) -> None:
    assert len(table(text)) == 5
    assert "The largest difference from one process: 0.0e+00" in text


def check_payout_rules(text: str) -> None:
    rows = {
        line.split()[0]: [Decimal(word.replace(",", "")) for word in line.split()[1:]]
        for line in text.splitlines()[1:7]
    }
    assert [sum(amounts) for amounts in zip(*rows.values(), strict=True)] == [100_000] * 3
    assert rows["careless"] == [0, 0, 0]
    assert rows["small"][1] == 0 < rows["small"][0]  # its interval covers zero


CHECKS: dict[str, Callable[[str], None]] = {
    name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")
}
SLOW = {*CHECKS} - {"quickstart", "payout_rules"}
SMALLER = {"lora_federation": ["--texts", "60", "--budget", "20"]}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in CHECKS]
)
def test_examples_print_what_they_promise(name: str, tmp_path: Path) -> None:
    CHECKS[name](printed(name, tmp_path))


def test_no_example_is_left_out() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(CHECKS)


NOTEBOOK = EXAMPLES / "notebook.ipynb"


def test_the_notebook_holds_no_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []


@pytest.mark.slow
def test_the_notebook_shows_what_it_promises(tmp_path: Path) -> None:
    """In a kernel of its own, as Jupyter runs it."""
    pytest.importorskip("ipykernel")
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Jupyter itself
        client = nbclient.NotebookClient(
            notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
        )
        client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [output for output in shown if output.get("name") == "stderr"] == []
    pages = "".join(output.get("data", {}).get("text/html", "") for output in shown)
    assert "Data value by exact" in pages
    assert "payout EUR" in pages
    assert "of 8 coalitions" not in pages, "the progress of a run that has ended is still there"
    assert sum("image/png" in output.get("data", {}) for output in shown) == 2
    (printed,) = [output.text for output in shown if output.output_type == "stream"]
    assert printed.startswith("Como: -")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", WORKED)
def test_worked_examples_are_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 60
