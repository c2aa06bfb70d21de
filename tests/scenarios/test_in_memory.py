"""Scenarios of arrays, frames and data sets: the rules of a folder, without the folder."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import fedvalue as fv
from fedvalue.errors import MissingExtraError, ScenarioError
from fedvalue.scenarios import load_scenario

pd = pytest.importorskip("pandas")


def frame(rows: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(
        {
            "clinic": rng.choice(["a10", "a2", "B"], rows),
            "age": rng.normal(60, 10, rows).round(),
            "since": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), "D"),
            "ward": pd.Categorical(rng.choice(["x", "y"], rows)),
            "smoker": rng.choice([True, False], rows),
        }
    )
    made["ill"] = np.where(made.age + 5 * made.smoker > 62, "yes", "no")
    made.loc[3, "age"] = np.nan
    return made


class TestFrames:
    def test_the_same_as_a_folder_of_files(self, tmp_path):
        data, tests = frame(60), frame(30, seed=1)
        for name, rows in data.groupby("clinic"):
            rows.drop(columns="clinic").to_csv(tmp_path / f"{name}.csv", index=False)
        tests.drop(columns="clinic").to_csv(tmp_path / "test.csv", index=False)
        from_files = load_scenario("files", folder=tmp_path, label="ill")
        made = fv.Scenario.from_frames(data, client="clinic", label="ill", test=tests)
        assert made.names == from_files.names == ("a2", "a10", "B")
        assert made.fingerprint == from_files.fingerprint
        assert [c.kind for c in made.report.columns] == ["number", "date", "category", "yes/no"]
        assert made.training == from_files.training

    def test_a_dict_of_frames_and_parts_of_the_test_set(self):
        data = frame()
        by_name = {name: rows.drop(columns="clinic") for name, rows in data.groupby("clinic")}
        made = fv.Scenario.from_frames(
            by_name, label="ill", test={"old": by_name["B"], "new": by_name["a2"]}, drop="since"
        )
        assert made.names == tuple(by_name)
        assert {name: len(rows) for name, rows in made.test_parts.items()} == {
            "old": len(by_name["B"]),
            "new": len(by_name["a2"]),
        }
        assert {c.name for c in made.report.columns} == {"age", "ward", "smoker"}

    def test_tested_by_client(self):
        made = fv.Scenario.from_frames(frame(), client="clinic", label="ill", test="by-client")
        assert set(made.test_parts) == set(made.names)
        assert len(made.test) + sum(map(len, made.clients)) == 60

    def test_other_kinds_of_frames_are_converted(self):
        class Polars:
            def __init__(self, data: pd.DataFrame) -> None:
                self.data = data

            def to_pandas(self) -> pd.DataFrame:
                return self.data

        made = fv.Scenario.from_frames(Polars(frame()), client="clinic", label="ill", test=Polars(frame()))
        assert (
            made.fingerprint
            == fv.Scenario.from_frames(frame(), client="clinic", label="ill", test=frame()).fingerprint
        )

    @pytest.mark.parametrize(
        ("change", "options", "said"),
        [
            (lambda d: d, {"client": "clinc"}, "Did you mean 'clinic'"),
            (lambda d: d, {"client": None}, "Which rows are whose"),
            (lambda d: d, {"label": "il"}, "Did you mean 'ill'"),
            (lambda d: d, {"dorp": "age"}, "Did you mean 'drop'"),
            (lambda d: d, {"test": "by client"}, "Did you mean 'by-client'"),
            (lambda d: d, {"test": None}, "test set is empty"),
            (lambda d: d, {"test": [1, 2]}, "must be a data frame. Got a list"),
            (lambda d: [1, 2], {}, "must be a data frame. Got a list"),
            (lambda d: d.assign(clinic=d.clinic.where(d.index > 1)), {}, "says nothing in 2 rows"),
            (lambda d: d.assign(clinic=["b", *d.clinic[1:]]), {}, "'B' and 'b': one client, or two"),
            (
                lambda d: d.assign(z=[[1]] * len(d)),
                {"test": "by-client"},
                "a2, row 1: column 'z' holds a list",
            ),
            (lambda d: d.assign(z=1j), {"test": "by-client"}, "complex numbers"),
            (lambda d: d.assign(z=[f"n {i}" for i in range(len(d))]), {"test": "by-client"}, "free text"),
            (lambda d: d.rename(columns={"ward": "age"}), {}, "several columns called age"),
            (lambda d: d.assign(ill=d.ill.where(d.index > 0)), {}, "row 0: the label 'ill' is missing"),
            (lambda d: d.assign(age=np.inf), {}, "float32"),
        ],
    )
    def test_mistakes(self, change, options, said):
        given = {"client": "clinic", "label": "ill", "test": frame(30, 1), **options}
        with pytest.raises(ScenarioError, match=said):
            fv.Scenario.from_frames(change(frame()), **given)

    def test_without_pandas(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'fedvalue\[pandas\]'"):
            fv.Scenario.from_frames({}, label="y", test=None, client="c")


class TestArrays:
    def test_labels_of_any_kind_are_numbered(self):
        rows = np.eye(3)
        made = fv.Scenario.from_arrays(
            {"a": (rows, ["low", "mid", "high"]), "b": (rows[:1], ["low"])}, test=(rows[:2], ["mid", "low"])
        )
        assert made.details["class_names"] == ["high", "low", "mid"]
        assert [c.y.tolist() for c in made.clients] == [[1, 2, 0], [1]]
        assert made.test.y.tolist() == [2, 1]

    def test_numbers_of_classes_that_are_given_stay(self):
        rows = np.eye(2)
        made = fv.Scenario.from_arrays([(rows, [7, 2])], test=(rows, [2, 7]), classes=10)
        assert (made.classes, made.clients[0].y.tolist()) == (10, [7, 2])

    def test_fractions_are_targets(self):
        made = fv.Scenario.from_arrays([([[1.0], [2.0]], [0.5, 1.7])], test=([[1.5]], [1.1]))
        assert (made.task, made.classes) == ("regression", 0)
        as_asked = fv.Scenario.from_arrays([([[1.0], [2.0]], [1, 2])], test=([[1.5]], [1]), task="regression")
        assert as_asked.classes == 0

    def test_tensors_that_require_gradients_and_sparse_matrices(self):
        torch = pytest.importorskip("torch")
        sparse = pytest.importorskip("scipy.sparse")
        x, y = torch.eye(4, requires_grad=True), torch.tensor([0, 1, 0, 1])
        made = fv.Scenario.from_arrays([(x, y), (sparse.eye(4).tocsr(), y)], test=(x, y))
        assert np.array_equal(made.clients[0].x, made.clients[1].x)

    def test_a_class_for_every_token_and_inputs_by_name(self):
        x = {"input_ids": np.ones((3, 4), int), "attention_mask": np.ones((3, 4), int)}
        pair = (x, [[0, 1, -100, -100]] * 3)
        made = fv.Scenario.from_arrays([pair, pair], test=pair, classes=2, vocabulary=5)
        assert (made.test.y.shape, made.classes) == ((3, 4), 2)
        assert sorted(made.test.x) == ["attention_mask", "input_ids"]

    def test_labels_of_a_task_of_ones_own_stay_as_they_are(self):
        x = np.eye(3)
        pair = (x, [[1, 0], [0, 1], [1, 1]])
        made = fv.Scenario.from_arrays([pair, pair], test=pair, task="own")
        assert (made.task, made.classes, made.test.y.tolist()) == ("own", 0, pair[1])
        assert fv.Scenario.from_arrays(
            [(x, [[1], [0], [1]])], test=(x, [[1]] * 3), task="own"
        ).test.y.shape == (3, 1)
        with pytest.raises(fv.InputError, match=r"has no argument 'x'. Arguments: clients, test"):
            fv.Scenario.from_arrays([pair], test=pair, x=1)  # type: ignore[call-arg]
        with pytest.raises(fv.ScenarioError, match=r"leave classes=… out"):
            fv.Scenario.from_arrays([pair, pair], test=pair, task="own", classes=2)

    def test_tested_by_client_with_own_names(self):
        pairs = [(np.arange(20.0)[:, None], [0, 1] * 10)] * 2
        made = fv.Scenario.from_arrays(pairs, test="by-client", names=["u", "v"])
        assert set(made.test_parts) == {"u", "v"}

    @pytest.mark.parametrize(
        ("clients", "options", "said"),
        [
            ({}, {}, "Got nothing in it"),
            (np.zeros((3, 2)), {}, "Got a ndarray"),
            ([1], {}, "Got a int"),
            ([([[1.0]], [0], [1])], {}, "Got 3 entries"),
            ([([[1.0], [2.0]], [0, 1, 2])], {}, "one row per sample"),
            ([([[1.0]], [0])], {}, "same label"),
            ([([[1.0], [2.0]], [0, 5])], {}, "the test set, row 1.*'1', which no client has"),
            ([([[1.0], [2.0]], [[0, 1], [1, 0]])], {}, r"\(2, 2\): several a row"),
            ([([[1.0], [2.0]], [0, 1])], {"names": ["a", "b"]}, "1 different text"),
            ({"a": ([[1.0], [2.0]], [0, 1])}, {"test": "mine"}, "Unknown test"),
            ({"a": ([[1.0], [2.0]], [0, 1])}, {"names": ["a"]}, "Leave names=… out"),
            ([([[1.0], [2.0]], [0, np.nan])], {}, "client-0, row 2: the label"),
            (
                [([[1.0], [2.0], [3.0]], [0, 1, -100])],
                {},
                "client-0, row 3: the label 'label' is -100.*leave these rows out",
            ),
            (
                [([[1.0], [2.0]], [0, 1])],
                {"test": ([[1.0]], [-100])},
                "test set, row 1: the label 'label' is -100",
            ),
        ],
    )
    def test_mistakes(self, clients, options, said):
        with pytest.raises(ScenarioError, match=f"(?s){said}"):
            fv.Scenario.from_arrays(clients, **{"test": ([[1.0]], [1]), **options})

    def test_minus_a_hundred_is_a_number_where_it_is_meant_as_one(self):
        x, y = np.arange(40.0).reshape(-1, 1), np.linspace(-100, 50, 40)
        assert fv.Scenario.from_arrays([(x, y)], test=(x, y)).task == "regression"
        named = fv.Scenario.from_arrays([(x[:4], [-100, 0, 0, 0])], test=(x[:1], [0]), classes=["-100", "0"])
        assert named.classes == 2

    def test_frames_with_columns_in_another_order_are_refused(self):
        pd = pytest.importorskip("pandas")
        rows = pd.DataFrame({"u": [1.0, 2.0], "v": [3.0, 4.0]})
        pairs = {"a": (rows, [0, 1]), "b": (rows[["v", "u"]], [0, 1])}
        with pytest.raises(ScenarioError, match=r"same order. a has u, v; b has v, u"):
            fv.Scenario.from_arrays(pairs, test=(rows, [0, 1]))

    def test_labels_in_another_order_than_their_rows_are_refused(self):
        pd = pytest.importorskip("pandas")
        rows, labels = pd.DataFrame({"u": [1.0, 2.0]}), pd.Series([0, 1])
        with pytest.raises(ScenarioError, match="of a have the same index in another order"):
            fv.Scenario.from_arrays({"a": (rows, labels[::-1])}, test=(rows, labels))
        with pytest.raises(ScenarioError, match="same index in another order"):
            fv.Dataset(rows, labels[::-1])
        other = pd.Series([0, 1], index=[7, 8])  # rows that were numbered anew
        assert fv.Dataset(rows, other).y.tolist() == [0, 1]


class TestDatasets:
    def test_of_torch(self):
        torch = pytest.importorskip("torch")
        x, y = torch.randn(12, 1, 4, 4), torch.arange(12) % 2
        data = torch.utils.data.TensorDataset(x, y)
        made = fv.Scenario.from_datasets({"u": data, "v": data}, test=data)
        assert made.test.x.shape == (12, 1, 4, 4)
        assert made.clients[1].y.tolist() == y.tolist()

    @pytest.mark.slow
    def test_of_hugging_face(self):
        datasets = pytest.importorskip("datasets")
        rows = {"age": [40, 60] * 5, "dose": [0.5, 1.5] * 5, "label": [0, 1] * 5}
        data = datasets.Dataset.from_dict(rows)
        made = fv.Scenario.from_datasets([data, data], test=data)
        assert made.clients[0].x[0].tolist() == [40.0, 0.5]
        tokens = datasets.Dataset.from_dict(
            {"input_ids": [[1, 2]] * 4, "mask": [[1, 1]] * 4, "labels": [0, 1] * 2}
        )
        assert sorted(fv.Scenario.from_datasets([tokens], test=tokens).test.x) == ["input_ids", "mask"]
        table = datasets.Dataset.from_dict({"text": ["good day", "a bad day"] * 5, "label": [1, 0] * 5})
        read = fv.Scenario.from_frames({"u": table, "v": table}, label="label", test=table, text="text")
        assert read.vocabulary == 2 + len({"good", "day", "a", "bad"})

    @pytest.mark.parametrize(
        ("data", "options", "said"),
        [
            (iter([]), {}, "must have a length"),
            ([], {}, "is empty"),
            ([1, 2], {}, "must be .features, label."),
            ([{"x": 1, "y": 0}], {}, "Name it: label="),
            ([{"x": 1, "label": 0}], {"features": "z"}, "Unknown column 'z'"),
            ([{"label": 0}], {}, "no column besides the label"),
            ([{"x": "word", "label": 0}], {}, "holds <U4, not numbers"),
            ([([1, 2], 0), ([1], 1)], {}, "one shape in all rows"),
            ([{"x": 1, "label": 0}], {"tset": 1}, "Unknown option 'tset'"),
        ],
    )
    def test_mistakes(self, data, options, said):
        with pytest.raises(ScenarioError, match=said):
            fv.Scenario.from_datasets([data], test=data, **options)
