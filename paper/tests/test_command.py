"""`fedvalue reproduce`: from the name of a table or figure to the files that it leaves."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.store import UtilityStore
from fedvalue_paper import names
from fedvalue_paper.sources import sources_digest

TINY = """
title = "Tiny"
paper = "Fig. 0"
claim = "Nothing is claimed."
methods = ["exact-perm", "dig-fl", "ipss", "equal"]
budgets = [5]
seeds = 2
[games]
scenario = "digits"
clients = 3
samples = 12
test_size = 50
training = {rounds = 2, epochs = 1, batch = 8, rate = 0.01}
[game.linear]
model = "linear"
[game.mlp]
model = "mlp"
[table]
split = ["model"]
columns = ["trainings", "paper_seconds", "wall_seconds", "error", "skill", "kendall"]
[[figure]]
name = "error"
kind = "bars"
x = "model"
y = "error"
[scale.smoke]
takes = "1 s"
[variant.authors.method.dig-fl]
name = "loo"
"""
QUICK = ("tiny",)
FOLDER = "reproduction/tiny-smoke"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # for the processes that are started
    monkeypatch.setenv("FEDVALUE_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def _tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two experiments of two games with a handful of trainings, in place of the paper's."""
    (tmp_path / "files").mkdir()
    for name in ("tiny", "other"):
        (tmp_path / "files" / f"{name}.toml").write_text(TINY, encoding="utf-8")
    monkeypatch.setattr("fedvalue_paper.spec._folder", lambda: tmp_path / "files")


def reproduce(*args: object) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, args)])


def output(*args: object) -> str:
    found = reproduce(*args)
    assert found.exit_code == 0, found.output
    return found.stdout


def failure(*args: object, code: int = 2) -> str:
    found = reproduce(*args)
    assert found.exit_code == code, found.output
    assert found.stdout == ""
    return found.stderr


def rows(folder: str) -> list[dict[str, str]]:
    with Path(folder, "rows.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def without_times(folder: str) -> list[dict[str, str]]:
    return [{key: value for key, value in row.items() if "seconds" not in key} for row in rows(folder)]


# What it prints and leaves


def test_the_list_says_what_there_is_and_how_long_it_takes() -> None:
    lines = output("--list").splitlines()
    assert lines[0].split() == ["name", "paper", "what", "smoke", "small", "paper"]
    assert [line.split()[0] for line in lines[1:14]] == names()
    assert output() == output("--list")
    listed = json.loads(output("--list", "--json"))
    assert [entry["name"] for entry in listed] == names()
    assert all(entry["takes"].keys() == {"smoke", "small", "paper"} for entry in listed)


def test_the_readme_names_every_option() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    options = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", output("--help"), flags=re.M)) - {"--help"}
    assert len(options) > 9
    assert {option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", readme)} == set()


def test_an_experiment_from_its_name_to_its_files() -> None:
    text = output("example1")
    assert "Table I, Example 1" in text
    assert "The paper: " in text
    assert "0.2200 0.3200 0.3200" in text
    assert (
        "Written to reproduction/example1-smoke: rows.csv, rows.csv.gz, utilities.npz, table.csv, table.md, manifest.json."
        in text
    )
    folder = Path("reproduction/example1-smoke")
    assert {path.name for path in folder.iterdir()} == {
        "rows.csv", "rows.csv.gz", "utilities.npz", "table.csv", "table.md", "manifest.json",
    }  # fmt: skip
    assert "| MC-SV | 8 | 0.2200 0.3200 0.3200 |" in (folder / "table.md").read_text(encoding="utf-8")
    assert len(rows(str(folder))) == 7


@pytest.mark.slow
@pytest.mark.usefixtures("_tiny")
def test_tables_figures_and_store_of_a_trained_experiment(trainings: list[int]) -> None:
    text = output(*QUICK)
    assert len(trainings) == 2 * 8  # two games of three clients
    assert text.count("equal split") == 2
    assert "≈ " in text  # Perm-Shapley's time is extrapolated
    for name in ("error.png", "error.svg", "error.pdf"):
        assert Path(FOLDER, name).stat().st_size > 1000
    with UtilityStore("reproduction/store.db", create=False) as store:
        assert [game.coalitions for game in store.games()] == [8, 8]
    trainings.clear()  # another experiment on the same games
    output("other")
    assert trainings == []


@pytest.mark.slow
@pytest.mark.usefixtures("_tiny")
def test_the_manifest_has_everything_but_paths(tmp_path: Path) -> None:
    output(*QUICK)
    text = Path(FOLDER, "manifest.json").read_text(encoding="utf-8")
    record = json.loads(text)
    assert record["finished"] is True
    assert record["command"] == "fedvalue reproduce tiny --scale smoke"
    assert record["versions"].keys() >= {"fedvalue", "python", "numpy", "torch"}
    assert [game["label"] for game in record["games"]] == ["linear", "mlp"]
    assert all(len(game["cost_of_a_training"]["measured"]) == 2 for game in record["games"])
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text


@pytest.mark.slow
def test_json_is_the_table_and_the_manifest() -> None:
    found = reproduce("example3", "--json")
    assert found.exit_code == 0
    data = json.loads(found.stdout)
    assert data["manifest"]["experiment"] == "example3"
    ipss = next(line for line in data["table"] if line["label"] == "IPSS, the paper's pairs")
    assert ipss["off"] < 5e-5


@pytest.mark.usefixtures("_tiny")
@pytest.mark.slow
def test_progress_in_a_log_is_a_line_for_every_game() -> None:
    found = reproduce(*QUICK)
    assert found.stderr.splitlines() == [
        "tiny-smoke: game 1 of 2: linear",
        "tiny-smoke: game 2 of 2: mlp",
    ]
    assert reproduce(*QUICK, "--overwrite", "--quiet").stderr == ""


@pytest.mark.usefixtures("_tiny")
@pytest.mark.slow
def test_the_variant_of_the_authors_has_a_folder_of_its_own() -> None:
    output(*QUICK, "--variant", "authors", "-q")
    found = {row["label"]: row["method"] for row in rows(f"{FOLDER}-authors")}
    assert (found["DIG-FL"], found["IPSS"]) == ("loo", "ipss")


# Going on, beginning anew


def test_a_folder_with_files_is_left_alone() -> None:
    output("example1")
    message = failure("example1")
    assert "reproduction/example1-smoke is not empty" in message
    assert "--resume" in message
    assert "--overwrite" in message
    assert "exclude each other" in failure("example1", "--resume", "--overwrite")
    (Path("reproduction") / "example3-smoke").write_text("a file")
    assert "is a file" in failure("example3")


@pytest.mark.slow
@pytest.mark.usefixtures("_tiny")
def test_resume_repeats_nothing_and_overwrite_everything(trainings: list[int]) -> None:
    output(*QUICK)
    before = rows(FOLDER)
    trainings.clear()
    output(*QUICK, "--resume")
    assert rows(FOLDER) == before
    kept = Path(FOLDER, "my-notes.md")
    kept.write_text("mine")
    output(*QUICK, "--overwrite")
    assert trainings == []  # the store stays
    assert without_times(FOLDER) == [
        {key: value for key, value in row.items() if "seconds" not in key} for row in before
    ]
    assert kept.read_text() == "mine"


@pytest.mark.usefixtures("_tiny")
@pytest.mark.slow
def test_the_command_in_the_manifest_gives_the_same_rows() -> None:
    output(*QUICK, "--seeds", "1", "--variant", "authors", "-q")
    record = json.loads(Path(f"{FOLDER}-authors", "manifest.json").read_text(encoding="utf-8"))
    assert record["command"] == "fedvalue reproduce tiny --scale smoke --variant authors --seeds 1"
    output(*QUICK, "--seeds", "2", "-q")  # as many as usual
    record = json.loads(Path(FOLDER, "manifest.json").read_text(encoding="utf-8"))
    assert record["command"] == "fedvalue reproduce tiny --scale smoke"


@pytest.mark.slow
def test_a_figure_with_nothing_to_show_is_left_out() -> None:
    output("theory", "--seeds", "1", "-q")  # one run has no variance
    found = {path.name for path in Path("reproduction/theory-smoke").glob("*.png")}
    assert found == {"truncation.png", "bound.png"}
    assert json.loads(Path("reproduction/theory-smoke/manifest.json").read_text())["finished"]


def test_resume_refuses_rows_of_other_settings() -> None:
    output("example1")
    path = Path("reproduction/example1-smoke/manifest.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**record, "settings": "other"}))
    assert "has other settings" in failure("example1", "--resume")
    path.write_text("{")
    assert "no readable manifest.json" in failure("example1", "--resume")
    output("example1", "--overwrite")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_a_killed_experiment_goes_on(trainings: list[int]) -> None:
    command = [sys.executable, "-m", "fedvalue.cli", "reproduce", "sent140", "--out", "killed", "-q"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    written = Path("killed/sent140-smoke/rows.csv")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if written.exists() and len(written.read_text(encoding="utf-8").splitlines()) > 45:
            break  # in the second of four games
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL
    done = rows("killed/sent140-smoke")
    text = written.read_text(encoding="utf-8")
    written.write_text(text + text.splitlines()[-1][:40], encoding="utf-8")  # as if cut off in a line
    with UtilityStore("killed/store.db") as store:
        known = sum(game.coalitions for game in store.games())
    assert not json.loads(Path("killed/sent140-smoke/manifest.json").read_text(encoding="utf-8"))["finished"]

    output("sent140", "--out", "killed", "--resume", "-q")
    assert len(trainings) == 2 * (8 + 32) - known
    assert rows("killed/sent140-smoke")[: len(done)] == done  # with their times: they were not run again
    output("sent140", "--out", "whole", "-q")
    for again, once in zip(
        without_times("killed/sent140-smoke"), without_times("whole/sent140-smoke"), strict=True
    ):
        assert {k: again[k] for k in ("label", "n", "seed")} == {k: once[k] for k in ("label", "n", "seed")}
        if once["error"]:  # batches of other sizes: the last bits of a training differ, and with them a digit
            assert float(again["error"]) == pytest.approx(float(once["error"]), abs=0.1)


@pytest.mark.slow
@pytest.mark.usefixtures("_tiny")
def test_interrupted_on_the_keyboard() -> None:
    def stop(*args: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fv.FederatedGame, "evaluate", stop)
        found = reproduce(*QUICK, "-q")
    assert found.exit_code == 130
    assert "the same command with --resume goes on" in found.stderr
    assert reproduce(*QUICK, "-q", "--resume").exit_code == 0
    stopped, ended = json.loads(Path(FOLDER, "manifest.json").read_text(encoding="utf-8"))["parts"]
    assert (stopped["finished"], ended["finished"]) == (False, True)
    assert min(stopped["seconds"], ended["seconds"]) > 0  # together they are what it took
    assert stopped["sources"] == ended["sources"] == sources_digest()


# What goes wrong


def test_unknown_names_are_answered_with_the_list() -> None:
    message = failure("femnits")
    assert "Did you mean 'femnist'" in message
    assert all(name in message for name in names())
    assert "Unknown scale 'tiny'" in failure("femnist", "--scale", "tiny")
    assert "smoke, small, paper" in failure("all", "--scale", "tiny")
    assert "authors" in failure("femnist", "--variant", "ours")
    assert "auto, cpu, cuda or mps" in failure("femnist", "--device", "tpu")


@pytest.mark.parametrize(
    ("name", "file", "how"),
    [
        ("synthetic", "mnist/train-images-idx3-ubyte.gz", "fedvalue data fetch mnist"),
        ("femnist", "femnist/mnist_writer_ids.npz", "fedvalue data fetch femnist"),
        ("adult", "adult/adult.data.gz", "fedvalue data fetch adult"),
        ("sent140", "sent140/sent140_by_user.csv.gz", "user,tweet_id,label,date,text"),
    ],
)
def test_missing_data_is_named_with_how_to_get_it(name: str, file: str, how: str) -> None:
    (nowhere := Path("nowhere")).mkdir()
    message = failure(name, "--scale", "small", "--data-dir", nowhere, "-q")
    assert file in message
    assert how in message
    assert not Path(f"reproduction/{name}-small").exists()  # so that the same command works afterwards


@pytest.mark.slow
def test_a_missing_extra_is_named_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    found = reproduce("adult", "--seeds", "1", "-q")
    assert found.exit_code == 1
    assert "pip install 'fedvalue[xgboost]'" in found.stderr


@pytest.mark.usefixtures("_tiny")
@pytest.mark.slow
def test_all_of_a_variant_are_those_that_have_it(tmp_path: Path) -> None:
    plain = TINY.partition("[variant")[0]
    (tmp_path / "files" / "other.toml").write_text(plain, encoding="utf-8")
    assert "There are: authors." in failure("all", "--variant", "ours")
    output("all", "--variant", "authors", "-q")
    assert {path.name for path in Path("reproduction").iterdir() if path.is_dir()} == {"tiny-smoke-authors"}


def test_a_disk_that_does_not_answer_is_told_without_a_stack_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> Any:
        raise OSError(28, "No space left on device", "rows.csv")

    with monkeypatch.context() as patched:
        patched.setattr("fedvalue_paper.rows.RowFile.append", full)
        message = failure("example1", "-q", code=1)
        assert "Cannot read or write rows.csv: No space left on device." in message
        assert "--resume" in message
    output("example1", "--resume")
    monkeypatch.setattr(Path, "iterdir", full)
    assert "Cannot read reproduction/example1-smoke: No space left on device." in failure("example1")


def test_what_cannot_be_removed_does_not_hide_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fixed(*args: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    (nowhere := Path("nowhere")).mkdir()
    monkeypatch.setattr(Path, "rmdir", fixed)
    assert "Missing data" in failure("adult", "--scale", "small", "--data-dir", nowhere, "-q")


@pytest.mark.slow
def test_all_goes_on_where_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ["example1", "femnist", "example3"]
    monkeypatch.setattr("fedvalue_paper.names", lambda: chosen)
    (nowhere := Path("nowhere")).mkdir()
    found = reproduce("all", "--scale", "small", "--data-dir", nowhere)
    assert found.exit_code == 1
    assert "femnist: Missing data" in found.stderr
    assert "Not reproduced: femnist." in found.stderr
    assert "Table I, Example 1" in found.stdout
    assert "Fig. 5, Example 3" in found.stdout


# All of them


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_smoke(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, trainings: list[int]
) -> None:
    """From training to tables, and once more from the utilities alone."""
    if name == "adult":
        pytest.importorskip("xgboost", reason="needs the extra xgboost")
    out = tmp_path_factory.getbasetemp() / "smoke"  # one store: some experiments share their games
    text = output(name, "--out", out, "-q")
    folder = out / f"{name}-smoke"
    record = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert record["finished"]
    assert text.strip()
    found = rows(str(folder))
    assert found
    assert all(row["values"] for row in found if row["applicable"] == "true")
    equal = [row for row in found if row["method"] == "equal" and row["skill"]]
    assert all(abs(float(row["skill"])) < 1e-9 for row in equal)
    assert equal or name == "scalability"
    shutil.copytree(folder, tmp_path / folder.name)  # without the store
    trainings.clear()
    output(name, "--out", tmp_path / "again", "--from-utilities", tmp_path / folder.name, "-q")
    assert trainings == []
