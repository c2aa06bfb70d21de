"""Values from one's own folder: regressions in their own unit, and no client who can spoil what others get."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from dirty_folders import CLIENTS, HEADER, Dirty, cells, clean, column, csv_of, scaled
from sklearn.datasets import load_diabetes
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.errors import InputError, ScenarioError
from fedvalue.scenarios import Dataset, Scale, Scenario, check_folder, load_scenario
from fedvalue.scenarios._scale import common_scale

pytestmark = pytest.mark.usefixtures("one_thread")


def write(folder: Path, files: dict[str, list[list[str]]]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, rows in files.items():
        (folder / f"{name}.csv").write_text(csv_of(rows))
    return folder


@pytest.fixture(scope="module")
def diabetes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five clients and a test set: progressions of 25 to 346."""
    data = load_diabetes(scaled=False)
    order = np.random.default_rng(0).permutation(len(data.target))
    parts = np.array_split(order, 6)
    header = [*data.feature_names, "progression"]
    table = np.column_stack([data.data, data.target])
    files = {
        name: [header, *([f"{v:.10g}" for v in table[row]] for row in rows)]
        for name, rows in zip((*"abcde", "test"), parts, strict=True)
    }
    return write(tmp_path_factory.mktemp("d") / "diabetes", files)


# All rows in one batch: the order of rows, which follows from the data, does not matter.
IN_ONE = fv.Training(batch=1000, rate=0.05)


def metrics(
    scenario: Scenario, model: str, mask: int, training: fv.Training | None = None
) -> dict[str, float]:
    ((_, outcome),) = fv.FederatedGame(scenario, model, training).evaluate([mask])
    return dict(outcome.metrics)


@pytest.mark.parametrize("model", ["mlp", "xgboost"])
def test_a_game_trains_by_default_as_a_run_does(diabetes: Path, model: str) -> None:
    if model == "xgboost":
        pytest.importorskip("xgboost", reason="needs the extra xgboost")
    scenario = load_scenario("files", folder=diabetes, label="progression")
    run, of_object = (
        fv.Job("files", scenario_options={"folder": diabetes}, label="progression", model=model),
        fv.Job(scenario, model=model),
    )
    game = fv.FederatedGame(scenario, model)
    suited = {} if model == "xgboost" else {"batch": 32, "rate": 0.01}  # trees know rounds only
    assert game.training == fv.Training(**suited)
    assert run.prepared.game.training == of_object.prepared.game.training == game.training
    assert run.prepared.game.id == of_object.prepared.game.id == game.id
    assert fv.FederatedGame(scenario, model, fv.Training()).training == fv.Training()  # what is given counts


class TestRegression:
    @pytest.mark.parametrize(
        ("model", "least"), [("mlp", 0.3), ("linear", 0.3), ("least-squares", 0.3), ("xgboost", 0.25)]
    )
    def test_every_model_learns_from_targets_far_from_zero(
        self, diabetes: Path, model: str, least: float
    ) -> None:
        scenario = load_scenario("files", folder=diabetes, label="progression")
        assert scenario.test.y.max() > 200  # in their own unit
        found = metrics(scenario, model, 31)
        assert found["r2"] > least
        variance = scenario.test.y.astype(np.float64).var()
        assert found["mse"] == pytest.approx((1 - found["r2"]) * variance, rel=1e-5)
        assert 20 < found["mae"] < 80

    def test_the_unit_of_the_targets_does_not_matter(self, diabetes: Path) -> None:
        one = load_scenario("files", folder=diabetes, label="progression")
        other = Scenario(
            "scaled",
            tuple(Dataset(c.x, c.y * 1000) for c in one.clients),
            one.names,
            Dataset(one.test.x, one.test.y * 1000),
            "regression",
            0,
        )
        a, b = metrics(one, "linear", 31, IN_ONE), metrics(other, "linear", 31, IN_ONE)
        assert a["r2"] == pytest.approx(b["r2"], abs=1e-4)
        assert 1e6 * a["mse"] == pytest.approx(b["mse"], rel=1e-3)

    def test_gradient_methods_are_in_the_unit_of_the_targets(self, diabetes: Path) -> None:
        one = load_scenario("files", folder=diabetes, label="progression")
        other = Scenario(
            "scaled",
            tuple(Dataset(c.x, c.y * 10) for c in one.clients),
            one.names,
            Dataset(one.test.x, one.test.y * 10),
            "regression",
            0,
        )
        method = next(m.name for m in fv.methods() if m.name in ("digfl", "dig-fl"))
        a, b = (fv.value(fv.FederatedGame(s, "linear", IN_ONE), method).mean for s in (one, other))
        assert 100 * a == pytest.approx(b, rel=1e-2)

    def test_a_scale_of_ones_own_and_synthetic_data_are_left_alone(self) -> None:
        assert load_scenario("synthetic", clients=2).scale == Scale()
        data = Dataset([[0.0], [1.0]], [5.0, 9.0])
        plain = Scenario("s", (data,), ("a",), data, "regression", 0, target_scale=Scale())
        derived = Scenario("s", (data,), ("a",), data, "regression", 0)
        assert (derived.scale, plain.scale) == (Scale(7.0, 2.0), Scale())
        assert derived.fingerprint != plain.fingerprint
        assert derived.thinned(1).scale == derived.scale

    def test_targets_that_float32_cannot_tell_apart(self) -> None:
        data = Dataset([[0.0], [1.0]], [1.7e9, 1.7e9 + 2000])
        with pytest.raises(ScenarioError, match=r"Subtract 1\.7e\+09"):
            Scenario("s", (data,), ("a",), data, "regression", 0)


class TestNobodySpoilsWhatOthersGet:
    @pytest.mark.parametrize(
        "change",
        [cells("age", {3: "10000"}), cells("age", {3: "1e30"}), column("age", scaled(1e7), "c1")],
        ids=["a wild cell", "a very wild cell", "other units"],
    )
    def test_a_single_client_hardly_moves_the_scale(self, change: object, tmp_path: Path) -> None:
        case = Dirty("", "", change=change)  # type: ignore[arg-type]
        clean_one, dirty = (
            load_scenario("files", folder=where, label="outcome")
            for where in (case.write_clean(tmp_path / "clean"), case.write(tmp_path / "dirty"))
        )
        for i in (0, 2, 3):
            assert np.abs(clean_one.clients[i].x - dirty.clients[i].x).max() < 0.3
        before, after = (metrics(s, "linear", 0b1)["accuracy"] for s in (clean_one, dirty))
        assert after == pytest.approx(before, abs=0.06)
        assert metrics(dirty, "linear", 0b1101)["accuracy"] > 0.75
        assert any("c1: age" in finding for finding in dirty.report.suspicious)  # type: ignore[union-attr]

    @pytest.mark.parametrize("clients", [2, 3, 5])
    def test_scales_with_few_clients(self, clients: int) -> None:
        draw = np.random.default_rng(0)
        parts = [draw.normal(50, 10, 60) for _ in range(clients)]
        parts[-1] = parts[-1] * 1e7
        scale = common_scale(parts)
        assert 20 < scale.centre < 80
        assert 5 < scale.spread < 20


class TestMissingNumbers:
    def test_they_are_the_median_and_marked(self, tmp_path: Path) -> None:
        files = {
            "a": [["x", "y"], *([str(v), str(v % 2)] for v in (1, 2, 3))],
            "b": [["x", "y"], ["5", "1"], ["NA", "0"], ["7", "1"]],
            "test": [["x", "y"], ["", "1"]],
        }
        s = load_scenario("files", folder=write(tmp_path / "f", files), label="y", standardise=False)
        assert s.clients[1].x.tolist() == [[5, 0], [4, 1], [7, 0]]  # between 2 and 6, the medians of a and b
        assert s.test.x.tolist() == [[4, 1]]


class TestFolderOfOnesOwn:
    def test_it_selects_files(self, tmp_path: Path) -> None:
        folder = write(tmp_path / "mine", clean())
        result = fv.run(data_dir=folder, label="outcome", model="linear", rounds=1, method="exact")
        assert result.values.names == CLIENTS
        assert result.job.record()["scenario"]["name"] == "files"
        with pytest.raises(InputError, match="Which column is to be predicted"):
            fv.run(data_dir=folder)
        with pytest.raises(InputError, match="reads no files"):
            fv.run("digits", data_dir=folder)
        with pytest.raises(InputError, match="There is no folder"):
            fv.run(data_dir=tmp_path / "nowhere")
        with pytest.raises(InputError, match="There is no folder"):
            fv.run("adult", data_dir=tmp_path / "nowhere")
        with pytest.raises(InputError, match="no client files"):
            fv.run(data_dir=tmp_path, label="outcome")

    def test_known_data_want_a_name(self, tmp_path: Path) -> None:
        (tmp_path / "adult").mkdir()
        for name in ("adult.data", "adult.test"):
            (tmp_path / "adult" / name).write_text("")
        with pytest.raises(InputError, match="holds the data of adult"):
            fv.run(data_dir=tmp_path)


class TestCommands:
    def test_a_run_says_what_it_reads(self, tmp_path: Path) -> None:
        files = clean()
        cells("age", {3: ""})(files)
        folder = write(tmp_path / "mine", files)
        command = [
            "run",
            "--data-dir",
            str(folder),
            "--label",
            "outcome",
            "--model",
            "linear",
            "--rounds",
            "1",
        ]
        found = CliRunner().invoke(app, [*command, "--no-config", "--exact"])
        assert found.exit_code == 0, found.output
        assert "12 features from 6 number columns, 1 date column" in found.stdout
        assert "2 classes of outcome: 0, 1" in found.stdout
        assert "age: 1 missing cell set to the median" in found.stdout

    def test_check(self, tmp_path: Path) -> None:
        files = clean()
        column("age", scaled(1000), "c1")(files)
        folder = str(write(tmp_path / "mine", files))
        found = CliRunner().invoke(app, ["data", "check", folder, "--label", "outcome"])
        assert found.exit_code == 0, found.output
        assert "Suspicious: c1: age lies far from that of the others" in found.stdout
        assert "visit     date" in found.stdout
        plain = json.loads(
            CliRunner().invoke(app, ["data", "check", folder, "--label", "outcome", "--json"]).stdout
        )
        assert plain["features"] == 11
        assert [party["rows"] for party in plain["parties"]] == [40] * 5
        assert plain["refused"] == []

    def test_every_finding_about_a_client_is_counted_at_the_client(self, tmp_path: Path) -> None:
        files = clean()
        column("ward", lambda ward: ward * 2, "c1")(files)  # xx, yy, zz
        cells("outcome", {3: "3"}, "c2")(files)
        folder = write(tmp_path / "mine", files)
        report = check_folder(folder, label="outcome", task="classification")
        assert {party.name: party.findings for party in report.parties if party.findings} == {
            "c1": ("c1: its ward has nothing in common with that of the others",),
            "c2": ("c2: only this client has the class '3' (1 row)",),
        }
        assert not report.findings

    def test_a_stand_in_for_nothing_in_all_files_is_the_only_thing_suspicious(self, tmp_path: Path) -> None:
        files = clean()
        column("age", lambda n: "-999" if int(n) % 4 == 0 else n)(files)
        report = check_folder(write(tmp_path / "mine", files), label="outcome")
        assert [finding.split(" in ")[0] for finding in report.suspicious] == [
            f"{name}: age is -999" for name in (*CLIENTS, "test")
        ]

    def test_negative_numbers_are_as_unclear_as_others(self, tmp_path: Path) -> None:
        def folder(name: str, cells: list[str]) -> Path:
            rows = [["x", "y"], *([cell, str(k % 2)] for k, cell in enumerate(cells))]
            clear = [["x", "y"], *([f"-{k}.5", str(k % 2)] for k in range(1, 9))]
            return write(tmp_path / name, {"a": clear, "b": rows, "test": clear})

        unclear = check_folder(folder("commas", ["-4,176", "-10,571", "-23,605"]), label="y").refused
        assert len(unclear) == 1
        assert "column 'x' can be read in two ways, such as '-4,176'" in unclear[0]
        decimals = folder("points", ["-4.176", "-1.571", "-2.605"])
        assert not check_folder(decimals, label="y").refused

    def test_check_refuses_everything_at_once(self, tmp_path: Path) -> None:
        files = clean()
        cells("age", {3: "old"})(files)
        cells("outcome", {4: "?"}, "c2")(files)
        folder = write(tmp_path / "mine", files)
        found = CliRunner().invoke(app, ["data", "check", str(folder), "--label", "outcome"])
        assert found.exit_code == 1
        assert "c1.csv, line 4: column 'age'" in found.stderr
        assert "c2.csv, line 5: the label 'outcome' is missing" in found.stderr
        report = check_folder(folder, label="outcome", drop="age")
        assert len(report.refused) == 1
        assert [column.name for column in report.columns] == HEADER[1:-1]
        with pytest.raises(ScenarioError, match="1 more refused: fedvalue data check"):
            load_scenario("files", folder=folder, label="outcome")

    @pytest.mark.parametrize(
        ("option", "said"),
        [
            ("drp=age", "Did you mean 'drop'"),
            ("decimal=x", "Unknown decimal 'x'"),
            ("dates=x", "Unknown order of dates"),
            ("labels=x", "Unknown way of reading labels"),
        ],
    )
    def test_impossible_options(self, option: str, said: str, tmp_path: Path) -> None:
        folder = str(write(tmp_path / "mine", clean()))
        found = CliRunner().invoke(app, ["data", "check", folder, "--label", "outcome", "-o", option])
        assert found.exit_code == 2
        assert said in found.stderr


@pytest.mark.parametrize(("impute", "becomes"), [(None, 3.0), ("median", 3.0), ("mean", 5.0), ("zero", 0.0)])
def test_what_a_missing_number_becomes(tmp_path: Path, impute: str | None, becomes: float) -> None:
    """Medians over clients: of 3, 3 and 3, or of the means 5, 5 and 5."""
    rows = [["x", "y"], ["1", "0"], ["3", "1"], ["11", "0"], ["", "1"]]
    folder = write(tmp_path / "d", dict.fromkeys(("a", "b", "c", "test"), rows))
    options = {} if impute is None else {"impute": impute}
    scenario = load_scenario("files", data_dir=folder, label="y", standardise=False, **options)
    assert scenario.clients[0].x[:, 0].tolist() == [1, 3, 11, becomes]
    to = "zero" if impute == "zero" else f"the {impute or 'median'}"
    assert f"3 missing cells set to {to}, and marked" in str(scenario.report)


def test_other_ways_to_impute_are_none(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", clean())
    with pytest.raises(ScenarioError, match=r"value for missing numbers 'mode'.*median, mean, zero"):
        load_scenario("files", data_dir=folder, label="outcome", impute="mode")
