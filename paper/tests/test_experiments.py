"""Experiments as data: files, grid, measures, engine and table."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedvalue as fv
from fedvalue_paper import SCALES, Experiment, names, read, tables
from fedvalue_paper.costs import Cost, CostFile, measure_cost, orders_trained
from fedvalue_paper.engine import Played, play, with_variance
from fedvalue_paper.expected import setting_of
from fedvalue_paper.figures import style
from fedvalue_paper.grid import Run, budget_for, games_of, runs_of
from fedvalue_paper.keys import _ALLOWED
from fedvalue_paper.manifest import command_of, is_older, manifest, settings_of
from fedvalue_paper.measures import COLUMNS, MEASURES, Finding, measured
from fedvalue_paper.rows import Row, RowFile, columns_of
from fedvalue_paper.spec import Shown
from fedvalue_paper.tables import aggregated, legend, markdown, parts_of, table_csv

ALL = [
    "example1",
    "example3",
    "motivation",
    "key-combinations",
    "synthetic",
    "femnist",
    "adult",
    "sent140",
    "budget",
    "pareto",
    "scalability",
    "variance",
    "theory",
]
RESULTS = Path(__file__).parents[1] / "results"
REAL = Path(__file__).parents[3] / "shared" / "data"
HEAD = """
title = "Test"
paper = "Fig. 0"
claim = "Nothing is claimed."
methods = ["exact", "ipss", "or", "equal"]
budgets = [5]
seeds = 2
[table]
columns = ["trainings", "paper_seconds", "wall_seconds", "error", "skill"]
[scale.smoke]
takes = "1 s"
"""
DIGITS = """
[games]
scenario = "digits"
clients = 3
samples = 12
test_size = 50
training = {rounds = 2, epochs = 1, batch = 8, rate = 0.01}
[game.mlp]
model = "linear"
"""
REGRESSION = """
[game.line]
scenario = "synthetic"
clients = 4
samples = 15
model = "least-squares"
metric = "mse"
options = {features = 3, noise_sd = [0.3, 1.0]}
"""


def written(folder: Path, text: str, name: str = "own") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def own(tmp_path: Path) -> Any:
    def make(text: str, **changes: Any) -> Experiment:
        return replace(read(written(tmp_path, HEAD + text)).at("smoke"), **changes)

    return make


def played(experiment: Experiment, out: Path) -> list[Row]:
    folder = out / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    return play(experiment, out, folder)[0]


# The files of the paper, and what came of them


def test_there_is_one_file_for_every_table_and_figure() -> None:
    assert names() == ALL


@pytest.mark.parametrize("name", ALL)
class TestPaperFiles:
    def test_it_can_be_read_at_every_scale(self, name: str) -> None:
        document = read(name)
        for scale in SCALES:
            experiment = document.at(scale)
            assert experiment.takes
            assert len(experiment.claim) > 60
            for game in games_of(experiment):
                assert list(runs_of(experiment, game.n))

    def test_every_table_carries_the_equal_split_and_ours(self, name: str) -> None:
        listed = {entry.name for entry in read(name).at("paper").methods}
        assert {"equal", "surrogate"} <= listed
        assert "ipss-balanced" in listed or name == "theory"

    def test_every_table_says_how_often_a_method_is_better_than_the_equal_split(self, name: str) -> None:
        columns = set(read(name).at("paper").table.columns)
        assert "better" in columns or name == "scalability"  # its sizes have no exact values

    @pytest.mark.parametrize("scale", ["small", "paper"])
    def test_several_training_seeds_are_held_against_expected_values(self, name: str, scale: str) -> None:
        experiment = read(name).at(scale)
        seeds = Counter(setting_of(spec) for spec in games_of(experiment) if spec.n <= experiment.exact_up_to)
        if max(seeds.values(), default=1) > 1:
            assert {"error_expected", "better_expected"} <= set(experiment.table.columns)
            assert any(run.over_seeds for run in runs_of(experiment, 3))

    def test_smoke_needs_no_files_and_enumerates_little(self, name: str) -> None:
        experiment = read(name).at("smoke")
        for game in games_of(experiment):
            assert game.get("scenario", "table") in ("digits", "synthetic", "table")
            assert game.n <= 20

    def test_columns_and_figures_name_what_rows_have(self, name: str) -> None:
        from fedvalue_paper.figures.plots import FigureSpec

        experiment = read(name).at("smoke")
        known = {*columns_of(experiment), "variance", "error_variance"}
        shown = experiment.table
        across = (shown.across,) if shown.across else ()
        assert {*shown.split, *shown.rows, *shown.columns, *across} <= known
        for given in experiment.figures:
            spec = FigureSpec(**given)
            assert {spec.x, spec.y, spec.series, *spec.panels, *spec.where} <= known

    def test_variants_only_replace_methods_that_are_listed(self, name: str) -> None:
        document = read(name)
        for variant in document.variants:
            before = {entry.key: entry for entry in document.at("paper").methods}
            after = {entry.key: entry for entry in document.at("paper", variant).methods}
            assert before.keys() >= after.keys()
            assert before != after
            assert all(entry.label == before[key].label for key, entry in after.items())


def test_a_method_without_a_label_is_called_by_its_name(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [entry.label for entry in own(DIGITS).methods]
    others = {name: look for name, look in style.METHODS.items() if name != "ipss"}
    monkeypatch.setattr(style, "METHODS", others)
    after = [entry.label for entry in own(DIGITS).methods]
    assert (before, after) == (
        ["MC-Shapley", "IPSS", "OR", "equal split"],
        ["MC-Shapley", "ipss", "OR", "equal split"],
    )


# Results of earlier settings and methods, to be run again; nothing may be added here.
OLDER = {f"{name}-paper" for name in ("pareto", "scalability", "synthetic", "theory", "variance")}


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/manifest.json")), ids=lambda path: path.parent.name)
def test_results_belong_to_the_settings_and_the_command_of_today(path: Path) -> None:
    record = json.loads(path.read_text(encoding="utf-8"))
    experiment = read(record["experiment"]).at(record["scale"], record["variant"] or "")
    assert is_older(path.parent) == (path.parent.name in OLDER)
    assert record["command"] in {command_of(experiment, own_data) for own_data in (False, True)}


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/table.csv")), ids=lambda path: path.parent.name)
def test_no_older_result_claims_to_be_of_a_method_that_was_not_run(path: Path) -> None:
    older = path.parent.name in OLDER
    texts = path.read_text(encoding="utf-8"), path.with_suffix(".md").read_text(encoding="utf-8")
    shown = [line for text in texts for line in text.splitlines() if not line.startswith("The paper: ")]
    assert not older or not any("CC-Shapley" in line for line in shown)


def test_every_experiment_has_results() -> None:
    assert {path.parent.name.rsplit("-", 1)[0] for path in RESULTS.glob("*/manifest.json")} == set(ALL)


def test_the_ten_methods_of_the_paper_are_compared() -> None:
    ten = {"exact-perm", "exact", "dig-fl", "tmc", "gtb", "cc", "gtg", "or", "lambda-mr", "ipss"}
    for name in ("motivation", "synthetic", "femnist", "adult", "sent140"):
        assert ten | {"equal", "cc-paired", "ipss-balanced", "surrogate"} == {
            m.name for m in read(name).at("paper").methods
        }


@pytest.mark.parametrize("name", ["example1", pytest.param("example3", marks=pytest.mark.slow)])
def test_worked_examples_give_the_numbers_of_the_paper(name: str, tmp_path: Path) -> None:
    rows = played(read(name).at("paper"), tmp_path)
    distances = [row["off"] for row in rows if row["off"] is not None]
    assert distances
    assert max(distances) < 5e-5


@pytest.mark.slow
@pytest.mark.skipif(
    not REAL.is_dir(), reason="needs the real data sets, which are not part of the repository"
)
@pytest.mark.parametrize("name", ["femnist", "scalability", "synthetic", "adult", "sent140"])
def test_real_data_covers_the_sizes_of_both_large_scales(name: str) -> None:
    for scale in ("small", "paper"):
        largest = {game.get("model"): game for game in games_of(read(name).at(scale))}
        for game in largest.values():
            chosen = {key: game.get(key) for key in ("partition", "samples", "test_size")}
            scenario = fv.load_scenario(
                game.get("scenario"), clients=game.n, data_dir=REAL, **chosen, **game.options
            )
            assert scenario.n == game.n


# Reading files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "colour = 1", r"own.toml, \[scale.smoke\]: unknown key 'colour'"),
        ("seed = 2\n" + HEAD, "unknown key 'seed'. Did you mean 'seeds'"),
        (
            HEAD + "[game.x]\nclients = 3\nsample = 2",
            r"\[game.x\]: unknown key 'sample'. Did you mean 'samples'",
        ),
        (HEAD + "[scale.smoke.games]\ntraining = {round = 2}", r"\[scale.smoke.games.training\].*'rounds'"),
        (HEAD + "[method.ipss]\nbudget = [3]", r"\[method.ipss\]: unknown key 'budget'"),
        ("title = 'x'", "'paper' is missing"),
        (
            HEAD.replace('["exact", "ipss", "or", "equal"]', '"ipss"'),
            "'methods' must be a list, each entry text",
        ),
        (HEAD.replace("[5]", "5"), "'budgets' must be a list, each entry a whole number or text. Got 5"),
        (HEAD.replace("[5]", "[2.5]"), "'budgets' must be a list"),
        (HEAD.replace("seeds = 2", "seeds = true"), "'seeds' must be a whole number or a list. Got True"),
        (HEAD.replace("seeds = 2", "seeds = ['a']"), "'seeds' must be a list, each entry a whole number"),
        (HEAD.replace('claim = "Nothing is claimed."', "claim = 3"), "'claim' must be text. Got 3"),
        (HEAD.split("[scale")[0].replace("[table]", "scale = 3\n[table]"), "'scale' must be a table. Got 3"),
        (HEAD + "[method]\nipss = 3", r"\[method.ipss\] must be a table. Got 3"),
        (HEAD + "[[figure]]\nnmae = 'x'", r"\[figure 1\]: unknown key 'nmae'. Did you mean 'name'"),
        ("title = ", "cannot be read as an experiment"),
    ],
)
def test_a_wrong_file_is_refused_by_the_name_of_the_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(fv.InputError, match=message):
        read(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no games"),
        ("[game.x]\nscenario = 'digits'", "needs 'scenario' and 'clients'"),
        (DIGITS + "[method.ipss]\nname = 'ipps'", "unknown method 'ipps'"),
        (DIGITS + "[method.ipss]\nbudgets = ['many']", "A budget is a number"),
        (DIGITS + "[method.ipss]\nbudgets = ['inf%']", "A budget is a number"),
    ],
)
def test_a_wrong_grid_is_refused(own: Any, text: str, message: str) -> None:
    def make() -> list[Run]:
        experiment = own(text)
        return [run for game in games_of(experiment) for run in runs_of(experiment, game.n)]

    with pytest.raises(fv.InputError, match=message):
        make()


def test_unknown_names_are_answered_with_what_there_is() -> None:
    with pytest.raises(fv.InputError, match=r"'femnits'. Did you mean 'femnist'"):
        read("femnits")
    with pytest.raises(fv.InputError, match=r"Unknown scale 'tiny'.*smoke, small, paper"):
        read("femnist").at("tiny")
    with pytest.raises(fv.InputError, match="variant of 'theory': 'authors'"):
        read("theory").at("smoke", "authors")


def test_a_scale_says_only_what_differs(tmp_path: Path) -> None:
    text = HEAD + DIGITS + (
        "[method.ipss]\nlabel = 'ours'\noptions = {a = 1}\n"
        "[scale.large]\nseeds = 9\n"
        "[scale.large.games]\nclients = 5\ntraining = {epochs = 7}\n"
        "[scale.other]\n[scale.other.games]\nscenario = 'synthetic'\n[scale.other.game.mlp]\nmodel = 'mlp'\n"
        "[variant.theirs.method.ipss]\nname = 'tmc'\n"
    )  # fmt: skip
    document = read(written(tmp_path, text))
    (large,) = games_of(document.at("large"))
    assert (large.n, large.get("samples"), document.at("large").seeds) == (5, 12, tuple(range(9)))
    assert large.training == {"rounds": 2, "epochs": 7, "batch": 8, "rate": 0.01}
    (other,) = games_of(document.at("other"))  # another scenario begins without the samples of the first
    assert other.get("samples") is None
    assert other.get("model") == "mlp"
    theirs = document.at("smoke", "theirs").methods[1]
    assert (theirs.name, theirs.label, theirs.options) == ("tmc", "ours", {})


def test_settings_before_a_scenario_are_kept(own: Any) -> None:
    text = "[games]\nclients = 3\nsamples = 7\noptions = {features = 2}\n[game.a]\nscenario = 'synthetic'\n"
    (game,) = games_of(own(text))
    assert (game.get("samples"), game.options) == (7, {"features": 2})


def test_a_figure_may_have_the_keys_of_its_specification() -> None:
    from fedvalue_paper.figures.plots import FigureSpec

    assert {field.name for field in fields(FigureSpec)} == _ALLOWED["figure"]


# The grid


def test_budgets_by_number_share_and_rule() -> None:
    assert [budget_for("paper", n) for n in (3, 6, 10)] == [5, 8, 32]
    assert budget_for("n ln n", 20) == math.ceil(20 * math.log(20))
    assert [budget_for(share, 5) for share in ("1%", "50%", "100%")] == [2, 16, 32]


def test_lists_are_crossed_and_what_is_certain_is_run_once(own: Any) -> None:
    experiment = own(
        DIGITS.replace("clients = 3", "clients = [3, 4]\nseed = [0, 1]")
        + "[method.ipss]\nbudgets = [4, 5, 8, 9]\n[method.or]\nname = 'k-greedy'\noptions = {k = '1..n'}"
    )
    games = games_of(experiment)
    assert [game.label for game in games] == [
        "n = 3, seed = 0", "n = 3, seed = 1", "n = 4, seed = 0", "n = 4, seed = 1",
    ]  # fmt: skip
    runs = list(runs_of(experiment, 3))
    assert [run.options["k"] for run in runs if run.method == "k-greedy"] == [1, 2, 3]
    # Eight of eight coalitions leave nothing to chance, and nine are none.
    assert [(r.budget, r.seed) for r in runs if r.method == "ipss"] == [
        (4, 0),
        (4, 1),
        (5, 0),
        (5, 1),
        (8, 0),
    ]
    assert [(r.budget, r.seed) for r in runs if r.method in ("exact", "equal")] == [(None, 0)] * 2


# Measures


def found(values: list[float], method: str = "ipss", **about: Any) -> dict[str, float | None]:
    run = Run(
        method, method, about.pop("options", {}), about.pop("budget", None), 0, about.pop("expected", None)
    )
    result = fv.Values(values, [str(i) for i in range(len(values))], method, 4)
    return measured(Finding(run, result, **about))


def test_measures_against_the_truth() -> None:
    truth = fv.Values([2.0, 0.0], ["0", "1"], "exact", 4)
    result = found([1.0, 0.0], truth=truth, gain=2.0, expected=(1.25, 0.0))
    assert result["error"] == 0.5
    assert result["skill"] == pytest.approx(1 - 1 / math.sqrt(2))
    assert (result["efficiency_gap"], result["mean_error"], result["off"]) == (1.0, 0.5, 0.25)
    assert found([1.0, 1.0], truth=truth)["kendall"] is None  # an equal split has no order
    assert found([1.0, 1.0])["error"] is None


def test_rounding_errors_are_no_ranking() -> None:
    truth = fv.Values([3.0, 2.0, 1.0], ["0", "1", "2"], "exact", 8)
    tied = found([0.1 + 0.2, 0.3, 0.3], truth=truth)  # one of them is 4e-17 larger
    assert (tied["kendall"], tied["spearman"]) == (None, None)
    half = found([0.5, 0.1 + 0.2, 0.3], truth=truth)
    assert half["kendall"] == pytest.approx(2 / math.sqrt(3 * 2))
    assert found([0.0, 0.0, 0.0], truth=truth)["kendall"] is None


def test_free_riders_and_copies() -> None:
    scenario = fv.load_scenario("digits", clients=5, partition="same+free-riders", samples=10)
    result = found(
        [3.0, 0.0, 0.0, 0.4, 2.0], scenario=scenario
    )  # the fourth has no data, the fifth copies the first
    assert (result["free_rider_error"], result["symmetry_error"]) == (0.4, 1.0)
    norm = np.linalg.norm([3.0, 0.4, 2.0])
    assert result["free_rider_relative"] == pytest.approx(0.4 / norm)
    assert found([1.0] * 4, scenario=fv.load_scenario("synthetic", clients=4))["free_rider_error"] is None


def test_the_bound_of_the_paper() -> None:
    scenario = fv.load_scenario("synthetic", clients=10, samples=50, features=10)
    truth = fv.Values([1.0] * 10, [str(i) for i in range(10)], "exact", 4)
    result = found([0.9] * 10, "k-greedy", options={"k": 2}, scenario=scenario, truth=truth)
    bound = (10 - 2) * 50 / ((2 * 50 - 12) * (10 * 50 - 13))  # ten features and an intercept
    assert result["bound"] == pytest.approx(bound)
    assert result["bound_ratio"] == pytest.approx(0.1 / bound)
    assert result["bound_order"] == pytest.approx((10 - 2) / (2 * 10 * 50))
    assert result["lemma_value"] == pytest.approx((1 - 11 / (10 * 50 - 12)) / 10)
    assert found([0.9] * 10, "ipss", budget=32, scenario=scenario)["bound_order"] == 9 / (1 * 10 * 50)
    assert found([0.9] * 10, "cc", budget=32, scenario=scenario)["bound"] is None


def test_every_measure_has_a_heading() -> None:
    assert set(MEASURES) <= set(COLUMNS)


# Costs


def test_time_of_the_paper() -> None:
    cost = Cost(fixed=1.0, per_sample=0.1, measured=((10, 2.0), (60, 7.0)), device="cpu")
    sizes = [10, 20, 30]
    assert cost.of([0b001, 0b110], sizes) == pytest.approx(1 + 1 + 1 + 5)
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    prefixes = [order[:k] for order in orders for k in (1, 2, 3)]
    assert orders_trained(3) == len(prefixes)
    one_by_one = sum(1.0 + 0.1 * sum(sizes[i] for i in prefix) for prefix in prefixes)
    assert cost.of_all_orders(sizes) == pytest.approx(one_by_one)


def test_costs_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    scenario = fv.load_scenario("digits", clients=3, samples=10, partition="size+free-riders")
    game = fv.FederatedGame(scenario, "linear", fv.Training(1, 1), device="cpu")
    first = CostFile(tmp_path / "costs.json").of(game, "cpu")
    assert [samples for samples, _ in first.measured] == [5, 10]  # one has no data, one copies the first
    monkeypatch.setattr("fedvalue_paper.costs.measure_cost", pytest.fail)
    assert CostFile(tmp_path / "costs.json").of(game, "cpu") == first


def test_a_busy_moment_does_not_turn_the_cost_around(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = fv.load_scenario("digits", clients=3, samples=10)
    game = fv.FederatedGame(scenario, "linear", fv.Training(1, 1), device="cpu")
    asked: list[int] = []

    def seconds(game: Any, mask: int) -> float:
        asked.append(mask)
        return (0.01 if mask == 1 else 0.03) + (1 if len(asked) < 8 else 0) / 10  # busy at first

    monkeypatch.setattr("fedvalue_paper.costs.seconds_alone", seconds)
    cost = measure_cost(game, "cpu")
    assert asked == [1, *[1, 7] * 5]
    assert cost.measured == ((10, 0.01), (30, 0.03))
    assert cost.per_sample == pytest.approx(0.001)


# Rows


def test_rows_come_back_as_they_were_and_a_cut_line_is_dropped(tmp_path: Path) -> None:
    columns = ["label", "n", "error", "applicable", "reason", "values", "budget"]
    row = {"label": "a, b", "n": 3, "error": 1 / 3, "applicable": True, "values": "1 2", "budget": None}
    file = RowFile(tmp_path / "rows.csv", columns)
    assert file.read() == []
    file.write([row])
    file.append([row, row])
    text = file.path.read_text()
    file.path.write_text(text[:-4])  # killed while it wrote
    assert file.read() == [{**row, "reason": None}] * 2
    assert RowFile(file.path, [*columns, "more"]).read() == []  # of another grid


# The engine


def test_one_game_from_the_grid_to_the_rows(
    own: Any, tmp_path: Path, one_thread: None, trainings: list[int]
) -> None:
    rows = played(own(DIGITS), tmp_path)
    assert sorted(trainings) == list(range(8))  # enumerated once, whatever the methods ask
    by_label = {row["label"]: row for row in reversed(rows)}
    assert [row["method"] for row in rows] == ["exact", "ipss", "ipss", "or", "equal"]
    assert by_label["MC-Shapley"]["error"] == 0
    assert by_label["MC-Shapley"]["trainings"] == 8
    assert by_label["IPSS"]["trainings"] == 5
    assert 0 < by_label["IPSS"]["paper_seconds"] < by_label["MC-Shapley"]["paper_seconds"]
    assert 0 < by_label["OR"]["wall_seconds"] == by_label["OR"]["paper_seconds"]
    assert by_label["equal split"]["skill"] == pytest.approx(0)
    vectors = [list(map(float, row["values"].split())) for row in rows if row["label"] == "IPSS"]
    assert by_label["IPSS"]["variance"] == pytest.approx(np.var(vectors, axis=0, ddof=1).mean())
    assert by_label["OR"]["variance"] is None  # one run: it has no seed to vary over


def test_a_variance_counts_once_for_every_game_and_not_where_nothing_ran() -> None:
    def row(game: str, seed: int, values: str | None, budget: int = 5) -> Row:
        about = {"game_id": game, "label": "a", "budget": budget, "seed": seed, "n": 3}
        return {**about, "applicable": values is not None, "values": values}

    rows = with_variance(
        [row("x", 0, "0 0 0"), row("x", 1, "2 2 2"), row("y", 0, "0 0 0"), row("y", 1, "4 4 4")]
    )
    assert [each["variance"] for each in rows] == [2.0, None, 8.0, None]
    assert aggregated(rows, Shown(columns=("variance",)))[0]["variance"] == 5.0
    assert with_variance([row("x", 0, "1 2 3", budget=8)])[0]["variance"] == 0
    assert with_variance([row("x", 0, None, budget=8)])[0]["variance"] is None


def test_a_second_experiment_on_the_same_game_trains_nothing(
    own: Any, tmp_path: Path, one_thread: None, trainings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = played(own(DIGITS), tmp_path)
    trainings.clear()
    monkeypatch.setattr("fedvalue_paper.costs.measure_cost", pytest.fail)
    second = played(own(DIGITS, name="second"), tmp_path)
    assert trainings == []
    plain = [{k: v for k, v in row.items() if "seconds" not in k and k != "experiment"} for row in first]
    assert [
        {k: v for k, v in row.items() if "seconds" not in k and k != "experiment"} for row in second
    ] == plain


def test_rows_that_are_there_are_not_made_again(
    own: Any, tmp_path: Path, one_thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = played(own(DIGITS, seeds=(0,)), tmp_path)
    ran: list[str] = []
    original = fv.value

    def value(game: Any, method: str, *args: Any, **options: Any) -> Any:
        ran.append(method)
        return original(game, method, *args, **options)

    monkeypatch.setattr("fedvalue_paper.engine.value", value)
    assert played(own(DIGITS, seeds=(0,)), tmp_path) == first
    assert ran == []
    played(own(DIGITS, seeds=(0, 1)), tmp_path)
    assert ran == ["exact", "ipss"]  # the truth to measure by, and the seed that is new


def test_gradient_methods_and_large_games_do_not_apply_everywhere(own: Any, tmp_path: Path) -> None:
    rows = played(own(REGRESSION, exact_up_to=3, budgets=(2, 6)), tmp_path)
    why = {(row["label"], row["budget"]): row.get("reason") for row in rows}
    assert "averaged" in why["OR", None]
    assert "2^4" in why["MC-Shapley", None]
    assert why["IPSS", 6] is None
    assert {row["noise_sd"] for row in rows} == {0.3, 1.0}
    assert all(row.get("error") is None for row in rows)  # nothing to measure by


def test_a_budget_that_is_too_small_is_said(own: Any, tmp_path: Path) -> None:
    rows = played(own(REGRESSION + "[method.ipss]\nname = 'tmc'\nbudgets = [3, 8]\n"), tmp_path)
    reasons = {row["budget"]: row.get("reason") for row in rows if row["method"] == "tmc"}
    assert reasons == {3: "needs a budget of at least 5", 8: None}


# The table and the manifest


def lines(**columns: list[Any]) -> list[Row]:
    length = len(next(iter(columns.values())))
    return [{"applicable": True, **{k: v[i] for k, v in columns.items()}} for i in range(length)]


def test_means_and_deviations_over_seeds() -> None:
    shown = Shown(split=("n",), rows=("label",), columns=("trainings", "error", "paper_seconds"))
    rows = lines(n=[3] * 3, label=["a", "a", "b"], trainings=[5, 5, 18], error=[0.25, 0.75, 0.0],
                 paper_seconds=[1.0, 3.0, 4e9], extrapolated=[False, False, True])  # fmt: skip
    rows.append({"n": 3, "label": "c", "applicable": False})
    (part,) = parts_of(aggregated(rows, shown), shown)
    assert part.title == "n = 3"
    assert part.headings == ("method", "trainings", "error", "paper\ntime s")
    assert part.lines == (
        ("a", "5", "0.500 ± 0.354", "2.00"),
        ("b", "18", "0", "≈ 4.0e9"),
        ("c", "\\", "\\", "\\"),
    )
    text = table_csv(aggregated(rows, shown))
    assert text.splitlines()[0] == "n,label,runs,games,trainings,error,error_sd,paper_seconds,extrapolated"
    assert text.splitlines()[1].startswith("3,a,2,1,5.0,0.5,0.35355")
    assert any(line.startswith("±") for line in legend(shown))


def test_of_several_games_the_deviation_is_that_of_their_means() -> None:
    shown = Shown(rows=("label",), columns=("error",))
    rows = lines(label=["a"] * 4, game_id=["x", "x", "y", "y"], error=[0.1, 0.3, 0.5, 0.7])
    (part,) = parts_of(aggregated(rows, shown), shown)
    assert part.title == "2 games"
    assert part.lines == (("a", "0.400 ± 0.283"),)


def test_settings_stand_above_the_table(own: Any) -> None:
    experiment = replace(own(DIGITS), settings=(("batch", "16", "32"),))
    assert "|  | paper | here |\n| --- | --- | --- |\n| batch | 16 | 32 |" in markdown(experiment, [])


SEVERAL = DIGITS.replace("[games]", "[games]\ntraining_seed = [0, 1, 2]", 1)


def several(own: Any, text: str = SEVERAL) -> Experiment:
    experiment = own(text)
    every = replace(experiment.methods[0], key="all", name="surrogate", label="all seeds", over_seeds=True)
    return replace(experiment, methods=(*experiment.methods, every))


@pytest.mark.slow
def test_errors_against_the_mean_over_training_seeds(own: Any, tmp_path: Path) -> None:
    rows, played = play(several(own), tmp_path, tmp_path)
    assert len(played) == 3
    exact = np.array([row["values"].split() for row in rows if row["method"] == "exact"], float)
    assert len(np.unique(exact.round(6), axis=0)) == 3
    mean = exact.mean(0)
    for row in rows:
        if row["applicable"]:
            found = np.array(row["values"].split(), float)
            assert row["error_expected"] == pytest.approx(fv.scoring.relative_l2(found, mean))
            assert row["better_expected"] == float(fv.scoring.skill(found, mean) > 0)
    over = [row for row in rows if row["label"] == "all seeds"]
    assert {row["training_seed"] for row in over} == {None}
    assert all(row["error"] is None and row["trainings"] == row["budget"] for row in over)
    trainings = len([row for row in rows if row["method"] == "exact"]) * 2 ** rows[0]["n"]
    assert all(0 < row["sample_epochs"] < trainings * 1000 for row in over)
    again, _ = play(several(own), tmp_path, tmp_path)
    assert again == rows


def test_a_method_may_be_left_out_where_there_are_many_clients(own: Any) -> None:
    experiment = own(DIGITS)
    first, *others = experiment.methods
    limited = replace(experiment, methods=(replace(first, most_clients=3), *others))
    assert first.name in {run.method for run in runs_of(limited, 3)}
    assert first.name not in {run.method for run in runs_of(limited, 4)}


def test_with_one_training_seed_nothing_is_expected(own: Any, tmp_path: Path) -> None:
    one = SEVERAL.replace("training_seed = [0, 1, 2]", "training_seed = 1")
    rows, _ = play(several(own, one), tmp_path, tmp_path)
    assert all(row["error_expected"] is None and row["label"] != "all seeds" for row in rows)


def test_an_infinite_mean_has_no_deviation() -> None:
    shown = Shown(columns=("skill",))
    rows = lines(label=["a"] * 3, skill=[0.5, 0.25, -math.inf])
    (part,) = parts_of(aggregated(rows, shown), shown)
    assert part.lines == (("a", "−∞"),)


@pytest.mark.parametrize(
    ("number", "form", "text"),
    [
        (0.41, ".3g", "0.410"), (47.94, ".3g", "47.9"), (1234.5, ".3g", "1,234"), (4.2e7, ".3g", "4.2e7"),
        (3.1e-6, ".3g", "3.1e-6"), (1e-16, ".3g", "0"), (-0.004, "+.2f", "+0.00"), (5e-5, "+.2f", "+0.00"),
        (36_288_000, ",.0f", "36,288,000"), (2e13, ",.0f", "2.0e13"), (-math.inf, "+.2f", "−∞"),
    ],
)  # fmt: skip
def test_numbers_for_people(number: float, form: str, text: str) -> None:
    assert tables._number(number, form) == text


def test_budgets_side_by_side() -> None:
    shown = Shown(rows=("label",), columns=("error",), across="budget")
    rows = lines(label=["a", "a", "b", "c"], budget=[8, 16, 8, None], error=[0.5, 0.25, 0.1, 1.0])
    (part,) = parts_of(aggregated(rows, shown), shown)
    assert part.headings == ("method", "γ = 8", "γ = 16", "own cost")
    assert part.lines == (("a", "0.500", "0.250", ""), ("b", "0.100", "", ""), ("c", "", "", "1.00"))


def test_markdown_has_the_claim_and_marks_what_does_not_apply(own: Any) -> None:
    experiment = own(DIGITS)
    rows = [*lines(label=["a|b"], error=[0.5], trainings=[3]), {"label": "c", "applicable": False}]
    text = markdown(experiment, parts_of(aggregated(rows, experiment.table), experiment.table))
    assert "The paper: Nothing is claimed." in text
    assert "| a\\|b | 3 | – | – | 0.500 | – |" in text
    assert "| c | \\\\ | \\\\ |" in text
    assert "does not apply" in text


def test_the_manifest_tells_where_numbers_come_from(own: Any) -> None:
    experiment = own(DIGITS)
    scenario = fv.load_scenario("digits", clients=3, samples=10)
    cost = Cost(0.1, 0.2, ((10, 2.1), (30, 6.1)), "cpu")
    played, parts = [Played("x", 3, "federation-1", cost, scenario)], [{"seconds": 1.0, "finished": True}]
    record = manifest(experiment, played, "cpu", "fedvalue …", parts, True)
    assert record["parts"] == parts
    assert not record["resumed"]
    assert manifest(experiment, played, "cpu", "fedvalue …", parts * 2, True)["resumed"]
    assert record["versions"]["fedvalue"] == fv.__version__
    assert record["hardware"]["device"] == "cpu"
    (game,) = record["games"]
    assert game["data_fingerprint"] == scenario.fingerprint
    assert game["cost_of_a_training"]["measured"] == [
        {"samples": 10, "seconds": 2.1},
        {"samples": 30, "seconds": 6.1},
    ]
    assert settings_of(experiment) == settings_of(replace(experiment, seeds=(1, 2, 3), claim="other"))
    assert settings_of(experiment) != settings_of(replace(experiment, budgets=(6,)))


def test_a_training_has_a_seed_of_its_own_where_it_is_given(own: Any, tmp_path: Path) -> None:
    """The same partition trained twice, and v(∅) and the cost in samples beside every run."""
    text = DIGITS.replace("[games]", "[games]\ntraining_seed = [0, 1]", 1)
    rows, _ = play(own(text), tmp_path, tmp_path)
    assert {(row["game_seed"], row["training_seed"]) for row in rows} == {(0, 0), (0, 1)}
    assert len({row["game_id"] for row in rows}) == 2
    assert all(
        row["empty"] is not None and row["empty_rule"] == "initial" for row in rows if row["applicable"]
    )
    exact = next(row for row in rows if row["method"] == "exact")
    rules = fv.Training(**own(text).blocks[0].settings["training"])
    each = exact["samples"] * rules.rounds * rules.epochs  # a client is in half of all coalitions
    assert exact["sample_epochs"] == pytest.approx(each * exact["n"] * 2 ** (exact["n"] - 1), rel=0.01)


def test_the_variance_of_the_error_is_that_over_seeds() -> None:
    rows: list[Row] = [
        {"label": "x", "budget": 4, "n": 3, "seed": seed, "values": "1 2", "error": error}
        for seed, error in enumerate((0.1, 0.2, 0.6))
    ]
    found = [row["error_variance"] for row in with_variance(rows)]
    assert found == [pytest.approx(0.07), None, None]
    assert (
        with_variance([row | {"budget": 8} for row in rows])[0]["error_variance"] == 0.0
    )  # everything is known
    assert with_variance(rows[:1])[0]["error_variance"] is None
