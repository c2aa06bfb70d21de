"""The command line, as a person or a script meets it."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import fedvalue as fv
from fedvalue._text import count
from fedvalue.cli import app
from fedvalue.cli._options import complete
from fedvalue.cli._pairs import method_options

ON_TABLES = {method.name for method in fv.methods() if method.plan is not None}  # the others need a training
PAPER_TABLE = [0.10, 0.50, 0.70, 0.80, 0.60, 0.90, 0.90, 0.96]


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def output(*args: object) -> str:
    """What a command that works prints."""
    found = run(*args)
    assert found.exit_code == 0, found.output
    assert found.stderr == ""
    return found.stdout


def failure(code: int, *args: object) -> str:
    """The message of a command that fails."""
    found = run(*args)
    assert found.exit_code == code, found.output
    assert found.stdout == ""
    return found.stderr


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    path = tmp_path / "paper.npz"
    np.savez(path, utility=PAPER_TABLE, names=["Ann", "Bob", "Cyd"])
    return path


@pytest.fixture
def game(tmp_path: Path) -> Path:
    """Seven clients whose worth grows with their number."""
    size = np.array([[mask >> i & 1 for i in range(7)] for mask in range(128)]) @ np.arange(1.0, 8.0)
    path = tmp_path / "game.npz"
    np.savez(path, accuracy=np.sqrt(size), loss=-np.sqrt(size), n=7)
    return path


# As real processes


def fedvalue(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "fedvalue.cli", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_installed_command() -> None:
    command = Path(sys.executable).with_name("fedvalue")
    found = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60)
    assert found.stdout == f"fedvalue {fv.__version__}\n"


def test_value_in_a_pipe_is_plain(paper: Path) -> None:
    found = fedvalue("value", "--table", paper, "--method", "exact")
    assert (found.returncode, found.stderr) == (0, "")
    lines = found.stdout.splitlines()
    assert lines[0] == "Data value by exact"
    assert lines[2].split()[:4] == ["Ann", "+0.2200", "–", "25.6%"]
    assert lines[5] == "All clients together: 0.9600; v(∅), no clients: 0.1000."
    assert lines[6].startswith("Cost: 8 of 8 coalitions, 0.")
    assert lines[7].startswith("Not known, and not in any ±: the luck of test rows")
    assert lines[8].startswith("Exact")
    assert not set("\x1b┏┃│") & set(found.stdout)


def test_help_needs_no_heavy_import() -> None:
    code = (
        "import sys; sys.argv = ['fedvalue', '--help']\n"
        "from fedvalue.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([m for m in ('torch', 'scipy', 'sklearn', 'matplotlib', 'sqlite3.dump', 'rich.table') "
        "if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_a_reader_that_leaves_early_causes_no_traceback(game: Path) -> None:
    command = [sys.executable, "-m", "fedvalue.cli", "compare", "--table", str(game), "--budget", "16"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(timeout=30)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_of_80_columns_nothing_is_cut_off(game: Path) -> None:
    import fcntl
    import os
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 80, 0, 0))
    command = [sys.executable, "-m", "fedvalue.cli", "compare", "--table", str(game), "--budget", "20"]
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")} | {"TERM": "xterm"}
    process = subprocess.Popen([*command, "--seeds", "3"], stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:  # how Linux says that the other side was closed
        pass
    os.close(ours)
    assert process.wait(timeout=30) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode()).replace("\r", "")
    rows = rows_of(text)
    assert set(rows) == ON_TABLES
    assert {row[-1] for row in rows.values()} == {"exact", "unbiased", "biased"}
    assert "…" not in text
    assert "─" * 40 in text


# Around the commands


def test_version_and_help() -> None:
    assert output("--version") == f"fedvalue {fv.__version__}\n"
    text = output("--help")
    for command in ("methods", "value", "compare", "store", "--install-completion"):
        assert command in text
    assert "..." not in text.split("Commands:")[1], "a summary of a command is too long for a line"


def test_the_package_can_be_run_as_a_module() -> None:
    asked = [sys.executable, "-m", "fedvalue", "--version"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == output("--version")


def test_the_script_is_the_module_that_answers_an_early_interrupt() -> None:
    scripts = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())["project"][
        "scripts"
    ]
    assert scripts == {"fedvalue": "fedvalue.__main__:main"}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("seconds", [0.01, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0])
def test_an_interrupt_at_the_start_is_one_sentence(seconds: float) -> None:
    """Counted from the moment when Python has come to our first line: what it does before is not ours."""
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "fedvalue",
        "run",
        "--clients",
        "9",
        "--exact",
        "--no-config",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        before = itertools.takewhile(lambda line: "fedvalue._interrupt" not in line, process.stderr)
        assert len(list(before)) < 200, "what is imported before Ctrl-C is answered stays small"
        threading.Timer(seconds, process.send_signal, [signal.SIGINT]).start()
        said = [line for line in process.stderr if not line.startswith("import time:")]
        assert process.wait(60) == 130
    assert [line for line in said if line.startswith("Error: Interrupted.")] == said[-1:]
    assert "Traceback" not in "".join(said)


def test_bars_are_plain_where_the_output_has_no_others(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", [0.0, 1.0, -0.5, 0.5])
    asked = [
        sys.executable,
        "-m",
        "fedvalue",
        "value",
        "--table",
        str(tmp_path / "t.npy"),
        "--method",
        "exact",
    ]
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    printed = subprocess.run(asked, capture_output=True, text=True, check=True, env=env).stdout
    assert [line.split()[-1] for line in printed.splitlines()[2:4]] == ["|################", "########|"]


@pytest.mark.parametrize("group", ["store"])
def test_summaries_of_groups_fit(group: str) -> None:
    assert "..." not in output(group, "--help").split("Commands:")[1]


@pytest.mark.parametrize("args", [["nonsense"], ["value"], ["value", "--nonsense"], ["store", "nonsense"]])
def test_wrong_usage_is_2(args: list[str]) -> None:
    assert "Error: " in failure(2, *args)


def test_completion_offers_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete("method")("cc") == ["cc", "cc-neyman", "cc-bernstein", "cc-paired"]


def test_counts_for_people() -> None:
    assert [count(1), count(1 << 20), count(1 << 100)] == ["1", "1,048,576", "2^100"]


# methods


def test_methods() -> None:
    text = output("methods")
    for method in fv.methods():
        (line,) = [line for line in text.splitlines() if line.split()[0] == method.name]
        assert method.guarantee in line
        assert method.description in line
        assert method.reference in line


def test_methods_as_json() -> None:
    rows = json.loads(output("methods", "--json"))
    assert [row["name"] for row in rows] == [method.name for method in fv.methods()]
    assert set(rows[0]) == {"name", "description", "guarantee", "reference"}


# value


def test_value_equals_the_library(game: Path) -> None:
    found = json.loads(
        output("value", "--table", game, "--method", "cc", "--budget", 40, "--seed", 3, "--json", "-")
    )
    with np.load(game) as arrays:
        expected = fv.value(arrays["accuracy"], method="cc", budget=40, seed=3)
    values = fv.Values.from_dict(found)
    assert values.mean.tolist() == expected.mean.tolist()
    assert values.evaluations == expected.evaluations <= 40
    assert values.game_id == expected.game_id


def test_value_says_what_it_cost_and_what_it_guarantees(game: Path) -> None:
    default = output("value", "--table", game, "--budget", 20)
    assert "Method: surrogate, the default" in default
    assert "No ±" not in default
    biased = output("value", "--table", game, "--budget", 20, "--method", "ipss")
    assert "the default" not in biased
    assert "Cost: 20 of 128 coalitions" in biased
    assert "Biased" in biased
    assert "No ±" in biased
    unbiased = output("value", "--table", game, "--method", "permutation", "--budget", 125)
    assert "Unbiased" in unbiased
    assert "No ±" not in unbiased
    thin = output("value", "--table", game, "--method", "stratified-cc", "--budget", 4)
    assert "Not unbiased at this budget" in thin
    everything = output("value", "--table", game, "--budget", 500)
    assert "Cost: 128 of 128 coalitions" in everything
    assert "Exact" in everything
    assert "The budget covers all coalitions" in everything


def test_value_to_a_json_file(paper: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert "Written to" in output("value", "--table", paper, "--json", out)
    first = json.loads(out.read_text())
    assert first["names"] == ["Ann", "Bob", "Cyd"]
    assert output("value", "--table", paper, "--json", out, "--quiet") == ""
    assert json.loads(out.read_text())["mean"] == first["mean"]
    assert [p.name for p in tmp_path.iterdir() if ".part" in p.name] == []


def test_quiet_value_is_the_table_alone(paper: Path) -> None:
    lines = output("value", "--table", paper, "-q").splitlines()
    assert len(lines) == 2 + 3
    assert "Cost" not in lines[-1]


def test_value_with_a_store(paper: Path, tmp_path: Path) -> None:
    db = tmp_path / "s.db"
    first = output("value", "--table", paper, "--method", "exact", "--store", db, "-q")
    assert output("value", "--table", paper, "--method", "exact", "--store", db, "-q") == first
    assert "8 outcomes of 1 game" in output("store", "verify", db)


def test_negate(game: Path) -> None:
    gains = json.loads(output("value", "--table", game, "--json", "-"))
    losses = json.loads(output("value", "--table", game, "--array", "loss", "--negate", "--json", "-"))
    assert losses["mean"] == pytest.approx(gains["mean"])


def test_options_reach_the_method(game: Path) -> None:
    one = json.loads(
        output(
            "value", "--table", game, "--method", "k-greedy", "--option", "k=1", "--budget", 50, "--json", "-"
        )
    )
    assert one["details"]["k"] == 1
    assert one["evaluations"] == 8


def test_option_types() -> None:
    assert method_options("tmc", ["tolerance=1", "patience=0"]) == {"tolerance": 1.0, "patience": 0}
    assert method_options("tmc", ["tolerance=.05"]) == {"tolerance": 0.05}
    assert method_options("permutation", ["balanced=False"]) == {"balanced": False}
    assert method_options("k-greedy", ["k=none"]) == {"k": None}
    assert method_options("stratified-mc", ["design=paper", "allocation=[1, 2]"]) == {
        "design": "paper",
        "allocation": [1, 2],
    }


@pytest.mark.parametrize(
    ("method", "option", "message"),
    [
        ("k-greedy", "k=many", "must be a whole number or none"),
        ("k-greedy", "k=1.5", "must be a whole number or none"),
        ("k-greedy", "k=true", "must be a whole number or none"),
        ("k-greedy", "k=-1", "from 0 to 3"),
        ("permutation", "balanced=1", "true or false"),
        ("tmc", "tolerance=little", "must be a number"),
        ("stratified-mc", "design=nice", "paired or paper"),
        ("stratified-mc", 'allocation=["a"]', "a list in brackets"),
        ("ipss", "k=1", "no option 'k'"),
        ("ipss", "k", "key=value"),
        ("ipss", "=1", "key=value"),
    ],
)
def test_wrong_options(paper: Path, method: str, option: str, message: str) -> None:
    text = failure(2, "value", "--table", paper, "--method", method, "--budget", 7, "--option", option)
    assert message in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--budget", "0"], "at least 1"),
        (["--budget", "-3"], "at least 1"),
        (["--budget", "2", "--method", "permutation"], "at least 4"),
        (["--budget", "4", "--method", "exact"], "needs all 8"),
        (["--budget", "many"], "--budget"),
        (["--seed", "-1"], "seed"),
        (["--method", "IPSS"], "ipss"),
        (["--json", "/no/such/folder/out.json"], "no such folder"),
        (["--option", "a=1", "--option", "a=2"], "twice"),
    ],
)
def test_wrong_input_is_2(paper: Path, args: list[str], message: str) -> None:
    assert message in failure(2, "value", "--table", paper, *args)


# Table files


def test_every_kind_of_file(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", PAPER_TABLE)
    (tmp_path / "t.json").write_text(json.dumps(PAPER_TABLE))
    np.savez_compressed(tmp_path / "t.npz", anything=np.array(PAPER_TABLE, dtype=np.float32), n=3)
    for name in ("t.npy", "t.json", "t.npz"):
        found = json.loads(output("value", "--table", tmp_path / name, "--json", "-"))
        assert np.round(found["mean"], 4).tolist() == [0.22, 0.32, 0.32]


def test_an_ambiguous_npz_lists_its_arrays(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, first=np.zeros(4), second=np.zeros(8), other=np.zeros((2, 2)), n=2)
    text = failure(2, "value", "--table", path)
    assert "--array" in text
    assert "first (4), second (8), other (2×2), n (a single one)" in text
    assert "first (4)" in failure(2, "value", "--table", path, "--array", "third")
    output("value", "--table", path, "--array", "second")


def broken_files(folder: Path) -> dict[str, tuple[Path, int, str]]:
    """File, exit code and a part of the message, by what is wrong with it."""

    def npz(name: str, **arrays: Any) -> Path:
        np.savez(folder / f"{name}.npz", **arrays)
        return folder / f"{name}.npz"

    def raw(name: str, data: bytes) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    good = npz("good", utility=np.arange(64.0))
    data = bytearray(good.read_bytes())
    data[150:250] = b"\xff" * 100
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)}
    )
    with zipfile.ZipFile(folder / "boast.npz", "w") as archive:
        archive.writestr("utility.npy", header.getvalue() + b"\0" * 64)
    return {
        "missing": (folder / "none.npz", 2, "no file"),
        "folder": (folder, 2, ".npz, .npy or .json"),
        "suffix": (raw("t.csv", b"0,1"), 2, ".npz, .npy or .json"),
        "length": (npz("length", utility=np.zeros(7)), 2, "2**n"),
        "one": (npz("one", utility=np.zeros(1)), 2, "2**n"),
        "empty array": (npz("nothing", utility=np.zeros(0)), 2, "2**n"),
        "three axes": (npz("matrix", utility=np.zeros((2, 4, 4))), 2, "2**n"),
        "rows of three": (npz("rows", utility=np.zeros((4, 3))), 2, "2**n"),
        "nan": (npz("nan", utility=[0.0, np.nan]), 1, "finite"),
        "infinite": (npz("inf", utility=[0.0, np.inf]), 1, "finite"),
        "text": (npz("text", utility=["a", "b"]), 2, "real numbers"),
        "complex": (npz("complex", utility=[1j, 2j]), 2, "real numbers"),
        "pickle": (npz("pickle", utility=np.array([1, None], dtype=object)), 2, "cannot be read"),
        "no array": (npz("void"), 2, "--array"),
        "names": (npz("names", utility=np.zeros(4), names=["a"]), 2, "names"),
        "no names": (npz("numbers", utility=np.zeros(4), names=[1, 2]), 2, "names"),
        "escapes": (npz("escape", utility=np.zeros(4), names=["a", "\x1b[2J"]), 2, "printable"),
        "cut off": (raw("cut.npz", good.read_bytes()[:200]), 2, "damaged"),
        "overwritten": (raw("flipped.npz", bytes(data)), 2, "damaged"),
        "empty": (raw("empty.npz", b""), 2, "damaged"),
        "no zip": (raw("words.npz", b"hello " * 50), 2, "damaged"),
        "boast": (folder / "boast.npz", 2, "cannot be read"),
        "npy empty": (raw("empty.npy", b""), 2, "damaged"),
        "npy words": (raw("words.npy", b"\x93NUMPY hello"), 2, "damaged"),
        "npy boast": (raw("boast.npy", header.getvalue()), 2, "damaged"),
        "json broken": (raw("broken.json", b"[1, 2"), 2, "damaged"),
        "json deep": (raw("deep.json", b"[" * 100_000), 2, "damaged"),
        "json object": (raw("object.json", b'{"a": 1}'), 2, "one list"),
        "json words": (raw("words.json", b'["1", "2"]'), 2, "one list"),
        "json nan": (raw("nan.json", b"[0, NaN]"), 1, "finite"),
        "json bytes": (raw("bytes.json", b"\xff\xfe\x00"), 2, "damaged"),
        "json huge": (raw("huge.json", b"[0, 1" + b"0" * 400 + b"]"), 2, "cannot be read"),
    }


def test_broken_files_are_refused_in_one_line(tmp_path: Path) -> None:
    for what, (path, code, message) in broken_files(tmp_path).items():
        text = failure(code, "value", "--table", path)
        assert message in text, what
        assert text.startswith("Error: "), what
        assert text.count("\n") == 1, what


@pytest.mark.parametrize("name", ["t.npz", "t.npy", "t.json"])
def test_a_file_that_unpacks_to_too_much_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("fedvalue.games._table_file._LARGEST_BYTES", 1_000)
    np.savez_compressed(tmp_path / "t.npz", utility=np.zeros(1 << 12))
    np.save(tmp_path / "t.npy", np.zeros(1 << 12))
    (tmp_path / "t.json").write_text(json.dumps([0.0] * (1 << 12)))
    assert "too large" in failure(2, "value", "--table", tmp_path / name)


# compare


def rows_of(text: str) -> dict[str, list[str]]:
    lines = [line for line in text.splitlines() if line]
    names = {method.name for method in fv.methods()}
    return {line.split()[0]: line.split() for line in lines if line.split()[0] in names}


def test_compare_sorts_by_error_and_contains_the_equal_split(game: Path) -> None:
    text = output("compare", "--table", game, "--methods", "loo,cc,exact", "--budget", 20)
    rows = rows_of(text)
    assert next(iter(rows)) == "exact"
    assert set(rows) == {"exact", "loo", "cc", "equal"}
    errors = [float(row[2]) for row in rows.values()]
    assert errors == sorted(errors)
    assert rows["exact"][1:4] == ["128", "0.0", "+1.00"]
    assert rows["equal"][3] == "+0.00"
    assert int(rows["cc"][1]) <= 20


@pytest.mark.parametrize(
    "args", [["--seeds", 1], ["--method", "exact", "--seeds", 1], ["--seeds", 2, "--budget", 12]]
)
def test_seeds_mean_the_same_as_in_python(tmp_path: Path, args: list[object]) -> None:
    rows = np.random.default_rng(0).random((8, 8))
    np.save(tmp_path / "rows.npy", rows)
    found = json.loads(output("value", "--table", tmp_path / "rows.npy", *args, "--json", "-"))
    given = dict(zip((str(arg).lstrip("-") for arg in args[::2]), args[1::2], strict=True))
    same = fv.value(fv.TableGame(rows), **given)
    assert (found["method"], found.get("seeds", 1)) == (same.method, given["seeds"])
    assert fv.Values.from_dict(found).mean.tolist() == same.mean.tolist()
    if given["seeds"] == 1:
        assert same.mean.tolist() == fv.value(rows[0], "exact").mean.tolist()


def test_outputs_say_what_values_are_counted_from(game: Path, tmp_path: Path) -> None:
    text = output("compare", "--table", game, "--methods", "ipss", "--budget", 20)
    assert text.endswith("Values are counted from v(∅), no clients: 0.0000.\n")
    np.save(tmp_path / "rows.npy", [[0.1, 0.5, 0.6, 0.9], [0.3, 0.5, 0.7, 0.9]])
    text = output("compare", "--table", tmp_path / "rows.npy", "--budget", 4)
    assert text.endswith("no clients: 0.1000; over several seeds from the mean of its rows, 0.2000.\n")
    text = output("value", "--table", game, "--method", "ipss", "--budget", 20)  # which does not ask for all
    assert "; v(∅), no clients: 0.0000." in text


def test_compare_all_names_what_it_cannot_run(game: Path) -> None:
    text = output("compare", "--table", game, "--budget", 7)
    assert "Not run: permutation. permutation needs a budget of at least 8 coalitions for 7 clients." in text
    rows, left_out = rows_of(text), text.count("Not run: ")
    assert len(rows) + left_out == len(ON_TABLES)


@pytest.mark.slow
def test_compare_with_several_seeds(game: Path) -> None:
    found = json.loads(output("compare", "--table", game, "--budget", 20, "--seeds", 4, "--json"))
    rows = {row["method"]: row for row in found["scores"]}
    with np.load(game) as arrays:
        table = arrays["accuracy"]
    truth = fv.value(table, method="exact")
    errors = [
        fv.scoring.relative_l2(fv.value(table, method="permutation", budget=20, seed=seed), truth)
        for seed in range(4)
    ]
    assert rows["permutation"]["relative_error"] == pytest.approx(np.mean(errors))
    assert rows["permutation"]["relative_error_sd"] == pytest.approx(np.std(errors, ddof=1))
    assert rows["exact"]["relative_error_sd"] == 0
    assert rows["equal"]["kendall"] is None
    assert " ± " in output("compare", "--table", game, "--methods", "cc", "--budget", 20, "--seeds", 2)


def test_the_equal_row_is_there_even_when_the_budget_is_below_its_two_coalitions(game: Path) -> None:
    assert "equal" in rows_of(output("compare", "--table", game, "--methods", "ipss", "--budget", 1))


def test_compare_rows_are_not_folded(game: Path) -> None:
    for row in rows_of(output("compare", "--table", game, "--budget", 20, "--quiet")).values():
        assert row[-1] in ("exact", "unbiased", "biased")


def test_compare_without_the_exact_values(game: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("fedvalue.run._benchmark"), "LARGEST_TRUTH", 5)
    text = output("compare", "--table", game, "--methods", "ipss", "--budget", 20)
    assert rows_of(text)["ipss"][2:6] == ["–"] * 4
    assert "so no errors are shown" in text


@pytest.mark.parametrize("args", [["--methods", "ipps"], ["--budget", "0"], ["--seeds", "0"]])
def test_compare_wrong_input(game: Path, args: list[str]) -> None:
    assert failure(2, "compare", "--table", game, *args)


# store


@pytest.fixture
def db(paper: Path, tmp_path: Path) -> Path:
    """A store that knows the paper's game fully."""
    path = tmp_path / "s.db"
    output("value", "--table", paper, "--method", "exact", "--store", path)
    return path


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    """A store with two metrics of a game of a hundred clients."""
    path = tmp_path / "partial.db"
    with fv.UtilityStore(path) as store:
        store.register("hundred", 100, {"names": [f"c{i}" for i in range(100)]})
        outcomes = [fv.Outcome({"accuracy": 0.1 * k, "loss": 1.0 - k}, 2.5, "local", "cpu") for k in range(3)]
        store.append("hundred", zip([0, 1 << 99, (1 << 100) - 1], outcomes, strict=True))
    return path


def test_store_ls(db: Path, partial: Path) -> None:
    assert "8 of 8" in output("store", "ls", db)
    assert "3 of 2^100" in output("store", "ls", partial)
    (row,) = json.loads(output("store", "ls", partial, "--json"))
    assert (row["id"], row["clients"], row["coalitions"]) == ("hundred", 100, 3)
    fv.UtilityStore(db.with_name("new.db")).close()
    assert "empty" in output("store", "ls", db.with_name("new.db"))


def test_store_show(db: Path, partial: Path) -> None:
    text = output("store", "show", db, "table-")
    assert "Ann, Bob, Cyd" in text
    assert "8 of 8" in text
    found = json.loads(output("store", "show", partial, "h", "--json"))
    assert found["metrics"] == ["accuracy", "loss"]
    assert found["seconds"] == 7.5
    assert found["computed_by"] == ["local on cpu"]
    assert [line["size"] for line in found["by_size"]] == [0, 1, 100]
    assert "exactly one game" in failure(1, "store", "show", db, "nothing")


def test_store_show_does_not_obey_names(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    fv.value(fv.TableGame([0.0, 1.0, 1.0, 2.0]), "exact", store=path)
    with fv.UtilityStore(path) as opened:
        opened.rename("table", ["\x1b[31mred\x07", "two\nlines"])
    text = output("store", "show", path, "table-")
    assert " [31mred , two lines" in text
    assert not set(text) & set("\x1b\x07")


def test_flower_demo_refuses_an_unknown_method_before_anything_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import fedvalue.scenarios

    monkeypatch.setattr(fedvalue.scenarios, "load_scenario", lambda *_, **__: pytest.fail("was loaded"))
    assert "Unknown method 'bogus'" in failure(2, "flower", "demo", "--method", "bogus")


def test_store_export_csv_and_jsonl(partial: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.csv"
    assert "3 outcomes" in output("store", "export", partial, "h", "--out", out)
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["clients"] for row in rows][:2] == ["", "99"]
    assert [row["accuracy"] for row in rows] == ["0.0", "0.1", "0.2"]
    assert rows[1]["mask"] == f"{1 << 99:x}"
    out = tmp_path / "o.jsonl"
    assert output("store", "export", partial, "h", "--out", out, "--quiet") == ""
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines[1]["clients"] == [99]
    assert lines[1]["metrics"] == {"accuracy": 0.1, "loss": 0.0}


def test_store_export_npz_is_a_table(db: Path, paper: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.npz"
    output("store", "export", db, "table", "--out", out)
    again = output("value", "--table", out, "--method", "exact", "-q")
    assert again == output("value", "--table", paper, "--method", "exact", "-q")


def test_store_export_npz_of_repeated_evaluations(tmp_path: Path) -> None:
    db, out = tmp_path / "s.db", tmp_path / "o.npz"
    with fv.UtilityStore(db) as store:
        store.register("g", 1)
        for replicate, masks in enumerate([(0, 1), (0, 1), (1,)]):  # the third lacks v(∅)
            outcomes = [(m, fv.Outcome({"f1": float(m + 10 * replicate), "loss": -1.0})) for m in masks]
            store.append("g", outcomes, replicate)
    assert "1 of 2" not in output("store", "ls", db)
    assert "f1, loss" in failure(2, "store", "export", db, "g", "--out", out)
    assert "f1, loss" in failure(2, "store", "export", db, "g", "--out", out, "--metric", "f2")
    output("store", "export", db, "g", "--out", out, "--metric", "f1")
    with np.load(out) as arrays:
        assert sorted(arrays.files) == ["f1", "loss", "seeds", "utilities"]
        assert arrays["utilities"].tolist() == [[0.0, 1.0], [10.0, 11.0], [5.0, 21.0]]
    found = json.loads(output("store", "show", db, "g", "--json"))
    assert (found["coalitions"], found["outcomes"], found["replicates"]) == (2, 5, 3)


def test_store_export_refusals(partial: Path, paper: Path, tmp_path: Path) -> None:
    db = tmp_path / "few.db"
    output("value", "--table", paper, "--budget", 5, "--store", db)
    text = failure(2, "store", "export", db, "t", "--out", tmp_path / "o.npz")
    assert "8 coalitions" in text
    assert "3 are missing" in text
    assert "missing" in failure(2, "store", "export", partial, "h", "--out", tmp_path / "o.npz")
    assert ".csv, .jsonl or .npz" in failure(2, "store", "export", partial, "h", "--out", tmp_path / "o.xls")
    assert "Cannot write" in failure(2, "store", "export", partial, "h", "--out", tmp_path / "no" / "o.csv")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith((".o", "o."))] == []


def test_store_verify(db: Path) -> None:
    assert output("store", "verify", db) == "No problems: 8 outcomes of 1 game.\n"
    with fv.UtilityStore(db) as store:
        store._db.execute("UPDATE outcomes SET mask='f0' WHERE mask='2'")
    found = run("store", "verify", db)
    assert found.exit_code == 1
    assert "beyond the 3" in found.stdout
    assert "2 problems" in found.stderr  # the row by itself, and that the one in the chain is gone
    assert json.loads(run("store", "verify", db, "--json").stdout)["sound"] is False


def test_store_merge(db: Path, partial: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.db"
    text = output("store", "merge", target, db, partial)
    assert f"{db}: 8 added, 0 already there, 0 conflicts." in text
    assert f"{partial}: 3 added" in text
    (report,) = json.loads(output("store", "merge", target, db, "--json"))
    assert (report["added"], report["present"], report["conflicts"]) == (0, 8, [])
    assert "11 outcomes of 2 games" in output("store", "verify", target)


def test_store_merge_conflicts_are_1(partial: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine.db"
    with fv.UtilityStore(target) as store:
        store.register("hundred", 100)
        store.append("hundred", [(0, fv.Outcome({"accuracy": 0.9, "loss": 0.0}))])
    found = run("store", "merge", target, partial)
    assert found.exit_code == 1
    assert "2 added, 1 already there, 1 conflict." in found.stdout
    assert "hundred / 0" in found.stderr


@pytest.mark.parametrize("command", [["ls"], ["show"], ["verify"], ["export"]])
def test_store_commands_do_not_make_stores(tmp_path: Path, command: list[str]) -> None:
    db = tmp_path / "none.db"
    more = {"show": ["g"], "export": ["g", "--out", tmp_path / "o.csv"]}.get(command[0], [])
    assert "no store" in failure(2, "store", *command, db, *more)
    assert "no store" in failure(2, "store", "merge", tmp_path / "new.db", db)
    assert list(tmp_path.iterdir()) == []


def test_help_shows_defaults_without_escapes() -> None:
    result = CliRunner().invoke(app, ["run", "--help"])
    assert "[default: surrogate]" in result.stdout
    assert "\\[" not in result.stdout
