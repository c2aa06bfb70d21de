"""The main job on the command line: `fedvalue run`, from the options to the files that it leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import first_fast
from scenario_data import table
from typer.testing import CliRunner, Result

import fedvalue as fv
from fedvalue._text import duration
from fedvalue.cli import app
from fedvalue.training import work_of, work_of_all

SMALL = ("--clients", "3", "--samples", "20", "--rounds", "1", "--epochs", "1")
# Long enough to be stopped in the middle: 2^8 coalitions that finish in many groups.
LONG = ("--clients", "8", "--samples", "40", "--rounds", "4", "--epochs", "2", "--exact", "--no-noise")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # for the processes that are started


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[int]]]:
    """The lists of coalitions that games were asked to train."""
    asked: list[list[int]] = []
    original = fv.FederatedGame.evaluate_trials

    def evaluate_trials(self: fv.FederatedGame, trials: Any, claim: Any = list) -> Any:
        asked.append([mask for mask, _ in trials])
        return original(self, trials, claim)

    monkeypatch.setattr(fv.FederatedGame, "evaluate_trials", evaluate_trials)
    return asked


def run(*args: object) -> Result:
    return CliRunner().invoke(app, ["run", *map(str, args)])


def output(*args: object) -> str:
    found = run(*args)
    assert found.exit_code == 0, found.output
    # So small a training may learn nothing, which is said.
    assert not [line for line in found.stderr.splitlines() if not line.startswith("Warning: The ")]
    return found.stdout


def failure(*args: object, code: int = 2) -> str:
    found = run(*args)
    assert found.exit_code == code, found.output
    assert found.stdout == ""
    return found.stderr


def as_json(*args: object) -> dict[str, Any]:
    return json.loads(output(*args, "--json", "-"))


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "fedvalue.cli", "run", *map(str, args)]


# What it prints


def test_a_run_from_the_data_to_the_values() -> None:
    lines = output(*SMALL, "--rounds", "4", "--epochs", "4", "--budget", "7").splitlines()
    assert lines[0] == "digits, partition size: 3 clients, 60 rows to train on, 449 to test on."
    assert lines[1].startswith("mlp, fedavg with 4 rounds × 4 epochs, batch 32, adam, rate 0.01, seed 0, on ")
    assert [line.split()[0] for line in lines[5:8]] == ["client-0", "client-1", "client-2"]
    text = "\n".join(lines[8:])
    assert re.search(
        r"All clients together: accuracy 0\.\d{4}; untrained model \(mean of \d+\): 0\.\d{4}\.", text
    )
    assert re.search(r"An equal split would give each [+-]0\.\d{4}\.", text)
    assert re.search(r"Cost: 7 of 8 coalitions, 6 trainings \(\d+ local ones\), [\d.]+ s\.", text)
    assert re.search(r"Exact values would take 7 trainings, about .* extrapolated", text)
    assert "Biased" in text


def test_values_are_those_of_the_library() -> None:
    found = as_json(*SMALL, "--method", "cc", "--budget", "6", "--seed", "2")
    scenario = fv.load_scenario("digits", clients=3, samples=20, partition="size", seed=2)
    training = fv.Training(rounds=1, epochs=1, batch=32, rate=0.01, seed=2)
    game = fv.FederatedGame(scenario, "mlp", training, device="cpu")
    expected = fv.value(game, "cc", budget=6, seed=2)
    assert found["game_id"] == game.id
    assert found["mean"] == expected.mean.tolist()
    assert found["names"] == ["client-0", "client-1", "client-2"]
    ends = dict(game.evaluate([0, 7]))
    assert found["utility_of_none"] == game.utility(ends[0])
    split = (game.utility(ends[7]) - game.utility(ends[0])) / 3
    assert fv.Values.from_dict(found).equal_split == pytest.approx(split)
    assert fv.Values.from_dict(found).n == 3


@pytest.mark.slow
def test_further_metrics_are_listed_with_commas() -> None:
    assert "Unknown metric 'nonsense'" in failure(*SMALL, "--metrics", "log_loss,nonsense")
    listed = ("--metrics", "log_loss, f1_macro", "--metrics", "recall[1]")
    as_json(*SMALL, "--method", "loo", "--store", "s.db", *listed)
    for name in ("log_loss", "f1_macro", "recall[1]"):
        found = as_json(*SMALL, "--method", "loo", "--store", "s.db", *listed, "--metric", name)
        assert found["cost"]["trained"] == 0


def test_what_stands_out_is_said() -> None:
    text = output("--partition", "demo", "--clients", "5", "--rounds", "1", "--exact", "--no-noise")
    assert "No data: free-rider (+0.0000)." in text
    same = re.search(r"Same data: client-0 \((.+?)\), copy-of-client-0 \((.+?)\)\.", text)
    assert same is not None
    assert same[1] == same[2]
    assert re.search(r"Below zero( with this seed)?: label-flipper \(-", text)
    assert re.search(r"Cost: 32 of 32 coalitions, 11 trainings \(4 local ones\)", text)
    assert "saved 20 trainings" in text
    assert "Exact values would take" not in text
    assert "Exact for this seed: these are the Shapley values" in text


def test_exact_values_come_with_the_luck_of_training() -> None:
    luck = "all 8 coalitions,? and 21 trainings with other seeds,? to see how much is luck"
    assert re.search(luck, output(*SMALL, "--exact", "--dry-run"))
    text = output(*SMALL, "--exact")
    assert re.search(rf"Cost: {luck}, 28 trainings \(12 local ones\)", text)
    assert re.search(r"Training noise: .* varies by 0\.\d{4} ", text)
    assert "Exact for this seed: these are the Shapley values" in text


def test_replicates_and_their_noise() -> None:
    text = output(*SMALL, "--exact", "--replicates", "2")
    assert "8 of 8 coalitions, 2 times each, 14 trainings (6 local ones)" in text
    assert re.search(r"Training noise: .* varies by 0\.\d{4} ", text)


def test_another_metric_of_the_same_trainings(trainings: list[list[int]]) -> None:
    one_seed = (*SMALL, "--exact", "--no-noise", "--store", "s.db")
    first = as_json(*one_seed)
    assert len(trainings) == 1
    loss = as_json(*one_seed, "--metric", "loss")
    assert len(trainings) == 1
    assert (first["cost"]["trained"], loss["cost"]["trained"]) == (8, 0)
    assert first["mean"] != loss["mean"]
    text = output(*one_seed, "--metric", "loss")
    assert re.search(
        r"All clients together: loss \d\.\d{4}; untrained model \(mean of \d+\): 2\.\d{4}\.", text
    )
    assert "8 of 8 coalitions, all from the store" in text


@pytest.mark.parametrize("method", ["or", "lambda-mr", "gtg", "dig-fl"])
def test_gradient_methods(method: str) -> None:
    text = output(*SMALL, "--method", method)
    assert re.search(r"Cost: 1 of 8 coalitions, 1 training \(3 local ones\)", text)
    assert ("another unit (loss)" in text) is (method == "dig-fl")


def test_a_gradient_method_that_samples_its_models_says_so() -> None:
    assert "random orders of the clients" in output(*SMALL, "--method", "or", "--option", "models=6")
    assert "random orders" not in output(*SMALL, "--method", "or")


@pytest.mark.slow
def test_options_of_method_scenario_and_training() -> None:
    text = output(
        "--clients", "3", "--samples", "30", "--partition", "dirichlet", "--scenario-option", "alpha=5",
        "--method", "k-greedy", "--option", "k=1", "--model", "linear", "--rounds", "2", "--algorithm", "fedprox",
        "--mu", "0.1", "--optimizer", "sgd", "--momentum", "0.5", "--rate", "0.1", "--memory", "1GB",
    )  # fmt: skip
    assert "partition dirichlet: 3 clients" in text
    assert "linear, fedprox with 2 rounds × 4 epochs, batch 32, sgd, rate 0.1, momentum 0.5, mu 0.1" in text
    assert "Cost: 4 of 8 coalitions" in text


def test_rules_of_steps_are_said_and_recorded() -> None:
    Path("fedvalue.toml").write_text(
        '[run]\noptimizer = "rmsprop"\noptimizer-options = "alpha=0.9"\nschedule = "step"\ndecay = 0.5\ndecay-every = 1\n'
    )
    text = output(
        *SMALL, "--weight-decay", "0.01", "--warmup", "1", "--clip", "2", "--accumulate", "2", "--class-weights", "balanced",
        "--precision", "bf16", "--method", "loo", "--device", "cpu", "--out", "out",
    )  # fmt: skip
    said = (
        "rmsprop, rate 0.01, weight decay 0.01, optimizer options alpha=0.9, schedule step, warmup 1, decay 0.5, "
        "decay every 1, clip 2.0, accumulate 2, class weights balanced, precision bf16"
    )
    assert said in text
    assert "Note: bf16 saves no time on a CPU" in text
    rules = json.loads(Path("out/run.json").read_text())["training"]
    assert rules["optimizer_options"] == "alpha=0.9"
    assert rules["class_weights"] == "balanced"
    slow = run("--no-config", *SMALL, "--method", "loo", "--optimizer", "adafactor")
    assert "Note: The optimizer adafactor trains models one after the other" in slow.stderr


def test_defaults_follow_the_scenario() -> None:
    text = output("--scenario", "synthetic", "--clients", "4", "--exact")
    assert "least-squares, solved in closed form" in text
    assert "All clients together: r2 0." in text


def test_quiet_prints_the_table_only() -> None:
    lines = output(*SMALL, "--exact", "--quiet").splitlines()
    assert len(lines) == 5
    assert lines[0] == "Data value by exact"


# Files


def test_out_holds_values_configuration_and_store(trainings: list[list[int]]) -> None:
    text = output(*SMALL, "--exact", "--out", "results/one")
    out = Path("results/one")
    assert sorted(path.name for path in out.iterdir()) == [
        "disclosure.json",
        "report.html",
        "run.json",
        "store.db",
        "values.json",
    ]
    assert text.endswith("Written to results/one/values.json and results/one/report.html.\n")
    values = json.loads((out / "values.json").read_text())
    record = json.loads((out / "run.json").read_text())
    assert fv.Values.from_dict(values).guarantee == "exact"
    assert record["game_id"] == values["game_id"]
    assert record["training"] == {
        "rounds": 1, "epochs": 1, "batch": 32, "optimizer": "adam", "rate": 0.01, "momentum": 0.0,
        "algorithm": "fedavg", "mu": 0.0, "weights": "rows", "max_share": 0.0, "seed": 0,
    }  # fmt: skip
    assert record["scenario"]["fingerprint"]
    assert set(record["versions"]) == {"fedvalue", "python", "numpy", "scipy", "torch", "scikit-learn"}
    again = output(*SMALL, "--exact", "--out", "results/one")  # the same run: nothing is trained
    assert "all from the store" in again
    assert len(trainings) == 1


def test_out_of_another_run_is_left_alone() -> None:
    output(*SMALL, "--exact", "--out", "out")
    before = (Path("out/values.json").read_bytes(), Path("out/run.json").read_bytes())
    message = failure(*SMALL, "--method", "loo", "--out", "out")
    assert (
        "out holds another run (it differs in method). Choose another folder, or overwrite it (--overwrite)."
        in message
    )
    assert before == (Path("out/values.json").read_bytes(), Path("out/run.json").read_bytes())
    output(*SMALL, "--method", "loo", "--out", "out", "--overwrite")
    assert json.loads(Path("out/values.json").read_text())["method"] == "loo"
    Path("else").mkdir()
    Path("else/values.json").write_text("{}")
    assert "of unknown origin" in failure(*SMALL, "--exact", "--out", "else")


def test_json_goes_to_a_file_too() -> None:
    assert "Written to v.json." in output(*SMALL, "--exact", "--json", "v.json")
    assert json.loads(Path("v.json").read_text())["method"] == "exact"
    assert "no such folder" in failure(*SMALL, "--json", "nowhere/v.json")


# The plan


def test_dry_run_counts_what_a_run_does(trainings: list[list[int]]) -> None:
    args = ("--clients", "4", "--samples", "20", "--rounds", "3", "--epochs", "1")
    args += ("--method", "ipss", "--budget", "9")
    plan = as_json(*args, "--dry-run")["plan"]
    assert trainings == []
    done = as_json(*args)
    assert (plan["coalitions"], plan["asks"]) == (9, 1)
    (asked, rest) = trainings
    assert len(asked) == done["evaluations"] == 9
    assert rest == [15]  # all clients together, for comparison: counted as trained, not as asked for
    assert done["cost"]["trained"] == 10
    sizes = [mask.bit_count() for mask in (*asked, *rest)]
    assert plan["besides"] == ["all clients together"]
    assert plan["trainings"] == sum(size > 0 for size in sizes)
    assert (plan["first_round"], plan["per_later_round"]) == (4, sum(sizes))
    assert plan["client_trainings"] == 4 + 2 * sum(sizes)
    assert plan["exact_trainings"] == 15
    assert 0 < plan["seconds_estimate"] < 600  # measured, so not compared
    assert 0 < plan["exact_seconds_estimate"] < 600
    assert plan["memory_estimate"] > 10_000


def test_dry_run_in_words() -> None:
    one_seed = (*SMALL, "--exact", "--no-noise", "--store", "s.db")
    output(*one_seed)
    text = output(*one_seed, "--dry-run", "--memory", "2GB")
    assert "Plan: exact, 8 of 8 coalitions, 8 of them in the store." in text
    assert "Trainings: 7; local trainings of clients: 3 (3 in round 1, shared by all" in text
    assert "Time: about 0.00 s on " in text
    assert re.search(r"Memory: about .* kept below 2\.0 GB", text)
    assert text.endswith("Nothing was run.\n")
    text = output(*SMALL, "--dry-run", "--method", "tmc", "--budget", "7", "--out", "nothing")
    assert "decides as it goes" in text
    assert "estimated from a short measurement" in text
    assert not Path("nothing").exists()


@pytest.mark.parametrize("model", first_fast(["least-squares", "mlp"]))
def test_dry_run_tells_the_memory_of_every_learner(model: str) -> None:
    args = ("--scenario", "synthetic", "--clients", "3", "--rounds", "1", "--model", model, "--dry-run")
    assert as_json(*args)["plan"]["memory_estimate"] > 4 * 11 * 1300  # the data alone
    assert "Memory: about" in output(*args)


@pytest.mark.parametrize(("method", "models"), first_fast([("or", 8), ("lambda-mr", 16), ("dig-fl", 0)]))
def test_dry_run_of_gradient_methods_counts_the_models_that_they_evaluate(method: str, models: int) -> None:
    args = (*SMALL, "--rounds", "2", "--method", method, "--dry-run")
    plan = as_json(*args)["plan"]
    assert (plan["trainings"], plan["models_put_together"]) == (1, models)
    assert (f"and evaluated: about {models}." in output(*args)) == (models > 0)


@pytest.mark.slow
def test_dry_run_of_very_many_coalitions() -> None:
    args = ("--scenario", "synthetic", "--dry-run", "--clients")
    assert as_json(*args, "20", "--exact")["plan"]["coalitions"] == 1 << 20
    assert re.search(r"Exact values: over 10\^30 trainings, about 10\^\d+ years", output(*args, "100"))
    assert "up to 25 clients" in failure(*args, "26", "--exact")


@pytest.mark.parametrize("partition", ["size", "same+free-riders", "dirichlet+free-riders"])
def test_costs_in_closed_form(partition: str) -> None:
    scenario = fv.load_scenario("digits", clients=7, samples=30, partition=partition)
    training = fv.Training(rounds=3)
    listed, counted = work_of(scenario, training, range(128)), work_of_all(scenario, training)
    assert listed.passes == pytest.approx(counted.passes)
    assert (listed.trained, listed.client_trainings) == (counted.trained, counted.client_trainings)


def test_durations_for_people() -> None:
    times = [0.5, 59.4, 61, 5400, 1e5, 1e7, 1e9, 1e15]
    words = ["0.50 s", "59 s", "1.0 min", "1.5 h", "28 h", "116 days", "32 years", "10^8 years"]
    assert [duration(seconds) for seconds in times] == words


# The configuration file


def test_a_file_holds_options_and_the_command_line_wins() -> None:
    Path("fedvalue.toml").write_text(
        '[run]\nclients = 3\nsamples = 20\nrounds = 1\nepochs = 1\nmethod = "k-greedy"\noption = { k = 1 }\n'
        'scenario_option = ["alpha=5"]\npartition = "dirichlet"\nquiet = true\n'
    )
    found = as_json()
    assert (found["method"], found["evaluations"], len(found["names"])) == ("k-greedy", 4, 3)
    assert as_json("--clients", "4", "--option", "k=2")["evaluations"] == 11
    Path("other.toml").write_text('[run]\nmethod = "loo"\nclients = 2\nsamples = 20\nrounds = 1\n')
    assert as_json("--config", "other.toml")["method"] == "loo"
    assert as_json("--config", "other.toml", "--exact")["method"] == "exact"
    assert as_json("--no-config", *SMALL)["method"] == "surrogate"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run]\nclient = 3\n", "[run] has no option 'client'. Did you mean 'clients'"),
        ("[run]\nclients = 3.5\n", "integer. Got 3.5."),
        ("[run]\nclients = true\n", "integer. Got True."),
        ("[run]\nclients = [3]\n", "[run] clients must be a text, a number, true or false. Got [3]."),
        ("[run]\nconfig = 'x'\n", "[run] has no option 'config'"),
        ("[run]\ndata_dir = 'x'\ndata-dir = 'y'\n", "[run] has the option 'data-dir' twice"),
        ("clients = 3\n", "options belong in the table [run]. Got 'clients' outside it."),
        ("[runs]\nclients = 3\n", "Got 'runs' outside it. Did you mean 'run'?"),
        ("[run\n", "cannot be read as TOML"),
        ("[run]\nclients = 1\nclients = 2\n", "cannot be read as TOML"),
    ],
)
def test_a_wrong_file_is_refused(text: str, message: str) -> None:
    Path("fedvalue.toml").write_text(text)
    assert message in failure()


def test_a_file_that_is_not_there() -> None:
    assert "Cannot read nowhere.toml" in failure("--config", "nowhere.toml")
    Path("some.toml").write_text("[run]\n")
    for args in (["--config", "some.toml", "--no-config"], ["--no-config", "--config", "some.toml"]):
        assert "contradict each other" in failure(*args)


# Own data, own models


def test_a_folder_of_files() -> None:
    draw = np.random.default_rng(1)
    Path("wards").mkdir()
    for name in ("aachen", "bonn", "cologne", "test"):
        (Path("wards") / f"{name}.csv").write_text(table(draw, 30))
    args = ("--scenario", "files", "--data-dir", "wards", "--rounds", "1", "--exact")
    text = output(*args, "--label", "outcome")
    assert "files, partition file: 3 clients, 90 rows to train on, 30 to test on." in text
    assert "4 features from 1 number column, 1 category column; 2 classes of outcome: ill, well." in text
    named = [line.split()[0] for line in text.splitlines() if line.startswith(("aachen", "bonn", "cologne"))]
    assert named == ["aachen", "bonn", "cologne"]
    assert "'outcom'" in failure(*args, "--label", "outcom")


def test_a_model_of_ones_own_in_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])  # as the installed command has it
    Path("my_model_of_tests.py").write_text(
        "from torch import nn\n\n"
        "def small(scenario):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, scenario.classes))\n\n"
        "def wrong(scenario):\n    return 3\n"
    )
    before = list(sys.path)
    found = run(*SMALL, "--exact", "--model", "my_model_of_tests:small", "--store", "s.db")
    assert found.exit_code == 0, found.output
    assert "my_model_of_tests:small, fedavg" in found.stdout
    assert sys.path == before
    again = run(*SMALL, "--exact", "--model", "my_model_of_tests:small", "--store", "s.db")
    assert "all from the store" in again.stdout
    assert "must return an nn.Module" in failure(*SMALL, "--model", "my_model_of_tests:wrong")
    assert "cannot be imported" in failure(*SMALL, "--model", "my_model_of_tests:missing")


# Wrong input


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--scenario", "digit"], "Unknown scenario 'digit'. Did you mean 'digits'"),
        (["--partition", "sizes"], "Unknown partition 'sizes'. Did you mean 'size'"),
        (["--model", "mpl"], "Unknown model 'mpl'. Did you mean 'mlp'?"),
        (["--model", "nowhere:factory"], "cannot be imported"),
        (["--model", "least-squares"], "is for regression"),
        (["--metric", "acc"], "accuracy, correct, loss"),
        (["--method", "ipsss"], "Did you mean 'ipss'"),
        (["--exact", "--method", "cc"], "contradict each other"),
        (["--exact", "--budget", "5"], "exact needs all 8 coalitions"),
        (["--budget", "0"], "at least 1. Got 0"),
        (["--option", "k=2"], "has no option 'k'"),
        (["--option", "k"], "key=value"),
        (["--scenario-option", "alpha=1"], "'alpha'"),
        (["--scenario-option", "seed=1"], "'seed' is an option of the command"),
        (["--model", ":factory"], "cannot be imported"),
        (["--model", "os:getpid"], "must return an nn.Module. Got int"),
        (["--scenario", "files"], "Which folder?"),
        (["--memory", "much"], "Memory is written as 4GB"),
        (["--rounds", "0"], "rounds must be a whole number of at least 1"),
        (["--optimizer", "sdg"], "Unknown optimizer 'sdg'. Did you mean 'sgd'"),
        (["--optimizer-options", "alpha=0.9"], "The optimizer adam cannot be used so"),
        (["--model", "xgboost", "--clip", "1"], "clip do not apply to"),
        (["--algorithm", "fedprox", "--mu", "-1"], "mu at least 0"),
        (["--mu", "1"], "mu belongs to fedprox"),
        (["--device", "tpu"], "auto, cpu, cuda or mps"),
        (["--device", "cpu:7"], "has 1 of that kind"),
        (["--samples", "100000"], "at most samples="),
        (["--replicates", "0"], "--replicates"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_options(args: list[str], message: str, trainings: list[list[int]]) -> None:
    found = failure(*SMALL, *args, "--out", "out")
    assert message in found
    assert "Traceback" not in found
    assert not Path("out/values.json").exists()
    assert trainings == []


def test_a_device_that_is_not_there() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    assert "'cuda' was requested, but this machine has none" in failure(*SMALL, "--device", "cuda")


def test_gradient_methods_need_updates() -> None:
    message = failure("--scenario", "synthetic", "--clients", "3", "--method", "gtg")
    assert "Gradient methods do not apply" in message


@pytest.mark.slow
def test_diverging_training_is_named() -> None:
    found = run(*SMALL, "--exact", "--optimizer", "sgd", "--rate", "1e30", "--epochs", "4", "--store", "s.db")
    assert found.exit_code == 1
    assert "diverged" in found.stderr
    assert "lower the rate" in found.stderr


# Stopped and started again


def kept(store: Path) -> int:
    """How many outcomes a store has, while another process may be writing."""
    try:
        with fv.UtilityStore(store, create=False) as opened:
            return sum(game.outcomes for game in opened.games())
    except fv.StoreError:
        return 0


def stopped(how: signal.Signals, store: Path) -> tuple[int, str]:
    """Starts the long run and stops it when some of its coalitions are there."""
    process = subprocess.Popen(command(*LONG, "--store", store), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while kept(store) < 20 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, how)
    _, message = process.communicate(timeout=60)
    return process.returncode, message


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_goes_on(how: signal.Signals, trainings: list[list[int]]) -> None:
    store = Path("s.db")
    code, message = stopped(how, store)
    before = kept(store)
    assert 20 <= before < 256
    if how is signal.SIGINT:
        assert code == 130
        assert f"Interrupted. {before} trained coalitions are in s.db: the same command continues" in message
        assert "Traceback" not in message
    found = as_json(*LONG, "--store", store)
    assert found["cost"]["trained"] == len(trainings[0]) == 256 - before
    assert found["evaluations"] == 256
    if how is signal.SIGKILL:
        return
    whole = as_json(*LONG)
    np.testing.assert_allclose(found["mean"], whole["mean"], atol=0.02)


def test_interrupted_without_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(fv.FederatedGame, "evaluate_trials", stop)
    found = run(*SMALL)
    assert found.exit_code == 130
    assert "nothing was kept. With --store FILE, the same command could continue" in found.stderr


# Public names


def test_the_library_offers_what_the_command_uses() -> None:
    assert {"FederatedGame", "Training", "Scenario", "Dataset", "load_scenario", "ScenarioError"} <= set(
        fv.__all__
    )


def test_data_commands_are_there() -> None:
    found = CliRunner().invoke(app, ["data", "show", "digits", "--clients", "3"])
    assert found.exit_code == 0
    assert "digits: 3 clients, partition size" in found.stdout  # those that `run` would value
