"""Tables and figures once more from kept utilities: nothing is trained, and the same comes out."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from fedvalue.cli import app
from fedvalue_paper import read
from fedvalue_paper.costs import Cost
from fedvalue_paper.files import read_text, write_whole
from fedvalue_paper.kept import UTILITIES, Kept, read_kept, write_kept
from fedvalue_paper.measures import is_better
from fedvalue_paper.recompute import KEPT_ROWS

RESULTS = Path(__file__).parents[1] / "results"
COMMITTED = sorted(path.parent for path in RESULTS.glob(f"*/{UTILITIES}"))


def reproduce(*args: object) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, args)])


def kept_game(n: int, utilities: dict[int, float]) -> Kept:
    cost = Cost(0.1, 0.01, ((1, 0.11), (9, 0.19)), "cpu")
    return Kept(
        "g", "id", tuple(map(str, range(n))), "accuracy", True, "initial", "digits", {}, (3,) * n, 7, (2,), cost,
        utilities,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("n", "utilities"),
    [
        (2, {0: 0.1234567890123, 1: 1 / 7, 2: 3 / 7, 3: 5 / 7}),  # counts of seven test samples, and v(∅)
        (2, {0: -0.5, 1: -1 / 3, 2: -np.pi, 3: -1e-9}),
        (50, {0: 0.1, 1: 1 / 7}),  # so few that nobody counts up to all of them
        (70, {0: 0.1, 1 << 69: 2 / 7, (1 << 70) - 1: 4 / 7, 5: 1 / 7}),  # not complete, beyond 64 bits
    ],
)
def test_utilities_come_back_bit_for_bit(tmp_path: Path, n: int, utilities: dict[int, float]) -> None:
    write_kept(tmp_path / UTILITIES, {"experiment": "x"}, [kept_game(n, utilities)])
    header, (found,) = read_kept(tmp_path / UTILITIES)
    assert header["experiment"] == "x"
    assert found == kept_game(n, utilities)


def cells(table: Path) -> list[float | str]:
    with table.open(encoding="utf-8", newline="") as file:
        return [as_number(cell) for line in csv.reader(file) for cell in line]


def as_number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def test_the_equal_split_is_not_better_than_itself() -> None:
    assert [is_better(skill) for skill in (1e-16, -1e-16, 0.0, 0.01)] == [0.0, 0.0, 0.0, 1.0]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained")
    assert reproduce("example1", "--out", out, "--seeds", "2", "-q").exit_code == 0
    (out / "store.db").unlink()
    return out


@pytest.fixture(scope="module")
def theory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("theory")
    assert reproduce("theory", "--out", out, "--seeds", "2", "-q").exit_code == 0
    (out / "store.db").unlink()
    return out


@pytest.mark.slow
def test_it_says_what_it_computed_and_trains_nothing(
    theory: Path, tmp_path: Path, trainings: list[int]
) -> None:
    found = reproduce("theory", "--seeds", "2", "--out", tmp_path, "--from-utilities", theory)
    assert found.exit_code == 0, found.output
    assert trainings == []
    assert "rows were computed from utilities; they are equal to those of" in found.stdout
    for name in ("rows.csv", "table.csv", "table.md"):
        assert (tmp_path / "theory-smoke" / name).read_text() == (theory / "theory-smoke" / name).read_text()
    record = json.loads((tmp_path / "theory-smoke" / "manifest.json").read_text(encoding="utf-8"))
    assert record["recomputed"][0]["rows_computed"] > 0
    assert record["recomputed"][0]["rows_changed"] == {}
    assert record["games"][0]["empty"]["rule"] == "initial"


@pytest.fixture
def older(trained: Path, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A finished run one of whose rows is of a method that has changed since, and that row."""
    source = tmp_path / "older" / "example1-smoke"
    shutil.copytree(trained / "example1-smoke", source)
    with (source / "rows.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rows[4]["error"] = "0.5"
    with (source / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (source / KEPT_ROWS).unlink()
    return source, rows[4]


def test_a_row_that_differs_is_named(older: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    source, row = older
    found = reproduce("example1", "--seeds", "2", "--out", tmp_path / "out", "--from-utilities", source, "-q")
    assert found.exit_code != 0
    assert f"The row of {row['label']} on {row['game']}" in found.stderr
    assert "0.5" in found.stderr
    assert "--accept-changes" in found.stderr
    assert not (tmp_path / "out" / "example1-smoke" / "table.csv").exists()


def test_accepted_rows_take_the_place_of_the_old_ones(
    trained: Path, older: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    source, row = older
    ask = ("example1", "--seeds", "2", "--from-utilities")
    found = reproduce(*ask, source, "--accept-changes", "--out", tmp_path / "new")
    assert found.exit_code == 0, found.output
    assert (
        f"10 rows were computed from utilities, 1 came out differently (1 of {row['label']}) and is new"
        in found.stdout
    )
    new, fresh = tmp_path / "new" / "example1-smoke", trained / "example1-smoke"
    assert read_text(new / KEPT_ROWS) == (fresh / "rows.csv").read_text(encoding="utf-8")
    assert (new / "table.md").read_text() == (fresh / "table.md").read_text()
    assert (new / UTILITIES).read_bytes() == (fresh / UTILITIES).read_bytes()
    # The new folder is all that is needed, and remembers.
    again = reproduce(*ask, new, "--accept-changes", "--out", tmp_path / "again")
    assert "10 rows were computed from utilities; they are equal to those of" in again.stdout
    record = json.loads((tmp_path / "again" / "example1-smoke" / "manifest.json").read_text(encoding="utf-8"))
    assert [step["rows_changed"] for step in record["recomputed"]] == [{row["label"]: 1}, {}]
    assert all(step["finished"] and step["seconds"] > 0 for step in record["recomputed"])
    assert all(
        step["command"].endswith("--from-utilities RESULTS --accept-changes") for step in record["recomputed"]
    )


def test_rows_that_come_out_as_they_were_stay_bit_for_bit(trained: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(trained / "example1-smoke", source)
    text = read_text(source / KEPT_ROWS)
    assert ",0.22 0.32" in text
    write_whole(
        source / KEPT_ROWS, text.replace(",0.22 0.32", ",0.22000000001 0.32")
    )  # another machine's last bits
    out = tmp_path / "out"
    found = reproduce("example1", "--seeds", "2", "--out", out, "--from-utilities", source, "-q")
    assert found.exit_code == 0, found.output
    assert read_text(out / "example1-smoke" / KEPT_ROWS) == read_text(source / KEPT_ROWS)


def test_changes_are_accepted_only_where_something_is_compared(tmp_path: Path) -> None:
    found = reproduce("example1", "--accept-changes", "--out", tmp_path / "out")
    assert found.exit_code == 2
    assert "--accept-changes goes with --from-utilities" in found.stderr
    assert not (tmp_path / "out").exists()


def test_files_that_do_not_fit_are_refused(trained: Path, tmp_path: Path) -> None:
    folder = trained / "example1-smoke"
    ask = ("example1", "--out", tmp_path / "out", "-q", "--from-utilities")
    assert "its seeds is [0, 1]" in reproduce(*ask, folder).stderr
    assert "its scale is 'smoke'" in reproduce(*ask, folder, "--scale", "small").stderr
    assert "There are no utilities" in reproduce(*ask, tmp_path).stderr
    damaged = tmp_path / UTILITIES
    damaged.write_bytes((folder / UTILITIES).read_bytes()[:-300])
    assert "is damaged" in reproduce(*ask, damaged).stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("folder", COMMITTED, ids=lambda folder: folder.name)
def test_committed_results_come_out_again(folder: Path, tmp_path: Path) -> None:
    record = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert read(record["experiment"])
    options = record["command"].split()[2:]
    options = options[: options.index("--data-dir")] if "--data-dir" in options else options
    found = reproduce(*options, "--out", tmp_path, "--from-utilities", folder, "-q")
    assert found.exit_code == 0, found.output
    now, before = (cells(path / "table.csv") for path in (tmp_path / folder.name, folder))
    assert [cell for cell in now if isinstance(cell, str)] == [
        cell for cell in before if isinstance(cell, str)
    ]
    assert [cell for cell in now if not isinstance(cell, str)] == pytest.approx(
        [cell for cell in before if not isinstance(cell, str)], rel=1e-6, abs=1e-9, nan_ok=True
    )  # the last bits depend on the library of linear algebra
