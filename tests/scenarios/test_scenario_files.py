"""A user's own folder: what is understood, and what is refused with a clear message."""

from __future__ import annotations

import gzip
import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.errors import MissingExtraError, ScenarioError
from fedvalue.scenarios import load_scenario
from fedvalue.scenarios._readings import as_numbers

GOOD = {
    "a.csv": "age,ward,outcome\n40,x,ill\n60,y,well\n",
    "b.csv": "age,ward,outcome\n50,x,well\n",
    "test.csv": "age,ward,outcome\n55,z,ill\n",
}


@pytest.fixture
def folder(tmp_path):
    def write(files):
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (tmp_path / name).write_bytes(data)
        return tmp_path

    return write


def load(where, **options):
    return load_scenario("files", folder=where, **{"label": "outcome", **options})


def test_a_folder_of_tables(folder):
    s = load(folder(GOOD))
    assert (s.names, s.classes, s.task) == (("a", "b"), 2, "classification")
    assert s.details["class_names"] == ["ill", "well"]
    # Of two clients the scale is that of the one which spreads: 50 ± 10.
    np.testing.assert_allclose(s.clients[0].x, [[-1, 1, 0], [1, 0, 1]], rtol=1e-6)
    np.testing.assert_allclose(s.test.x, [[0.5, 0, 0]], rtol=1e-6)  # ward z: not known from training
    assert s.clients[0].y.tolist() == [0, 1]
    assert load(folder(GOOD), standardise=False).clients[0].x[0, 0] == 40
    assert load(folder(GOOD), drop="ward").test.x.shape == (1, 1)
    by_data_dir = load_scenario("files", data_dir=folder(GOOD), label="outcome")
    assert by_data_dir.fingerprint == s.fingerprint


def test_the_test_set_has_no_say_in_features_and_classes(folder):
    before = load(folder(GOOD))
    after = load(folder({"test.csv": "age,ward,outcome\n1000,q,ill\n-9,x,well\n"}))
    for a, b in zip(before.clients, after.clients, strict=True):
        np.testing.assert_array_equal(a.x, b.x)


def test_spellings_of_a_table(folder):
    want = load(folder(GOOD)).fingerprint
    assert (
        load(folder({"a.csv": "\ufeffage;ward;outcome\r\n40;x;ill\r\n60; y;well\r\n\r\n"})).fingerprint
        == want
    )
    assert load(folder({"b.csv": "outcome,ward,age\nwell,x,5e1\n"})).fingerprint == want
    where = folder({"a.csv.gz": gzip.compress(GOOD["a.csv"].encode())})
    (where / "a.csv").unlink()
    (where / "notes.txt").write_text("not a client")
    (where / ".hidden.csv").write_text("")
    assert load(where).fingerprint == want


def test_order_of_clients_is_by_number(folder):
    files = {f"site-{k}.csv": GOOD["a.csv"] for k in (10, 9, 1)}
    assert load(folder({**files, "test.csv": GOOD["test.csv"]})).names == ("site-1", "site-9", "site-10")


def test_a_file_without_rows_is_a_free_rider(folder):
    s = load(folder({**GOOD, "c.csv": "age,ward,outcome\n"}))
    assert [len(c) for c in s.clients] == [2, 1, 0]
    assert s.clients[2].x.shape == (0, 3)


def test_named_test_parts(folder):
    files = {**GOOD, "test-north.csv": GOOD["a.csv"], "test-south.csv": GOOD["b.csv"]}
    del files["test.csv"]
    s = load(folder(files))
    parts = {name: rows.tolist() for name, rows in s.test_parts.items()}
    assert parts == {"test-north": [0, 1], "test-south": [2]}


def numeric(labels, extra="1"):
    return "x,y\n" + "".join(f"{k % 7},{label}\n" for k, label in enumerate([*labels, extra]))


@pytest.mark.parametrize(
    ("labels", "task", "classes"),
    [
        (range(3), None, 3),
        ([3, 7, 9, 1], None, 4),
        (range(30), None, 0),
        ([0.5, 1.5], None, 0),
        (range(30), "classification", 30),
        (range(3), "regression", 0),
    ],
)
def test_the_task_is_inferred_or_said(folder, labels, task, classes):
    s = load(folder({"a.csv": numeric(labels), "test.csv": "x,y\n3,1\n"}), label="y", task=task)
    assert s.classes == classes
    assert s.task == ("classification" if classes else "regression")


def test_arrays(folder, tmp_path):
    draw = np.random.default_rng(0)
    for name, rows in (("a", 8), ("b", 0), ("test", 4)):
        y = (["cat", "dog"] * 4)[:rows]
        np.savez(tmp_path / f"{name}.npz", x=draw.random((rows, 1, 5, 5)), y=np.array(y, dtype=str))
    s = load_scenario("files", folder=tmp_path)
    assert s.clients[0].x.shape == (8, 1, 5, 5)
    assert 0 <= s.test.x.min() <= s.test.x.max() <= 1  # images are not standardised
    for name, rows in (("a", 8), ("b", 5), ("test", 4)):
        np.savez(tmp_path / f"{name}.npz", x=draw.random((rows, 3)) * 9, target=draw.random(rows))
    s = load_scenario("files", folder=tmp_path, label="target")
    assert s.task == "regression"
    together = np.concatenate([c.x for c in s.clients])
    np.testing.assert_allclose(together.mean(axis=0), 0, atol=1)
    assert (together.std(axis=0) > 0.5).all()
    assert (together.std(axis=0) < 2).all()
    np.savez(tmp_path / "b.npz", x=draw.random((5, 2)), target=draw.random(5))
    with pytest.raises(ScenarioError, match=r"b.npz has \(2,\)"):
        load_scenario("files", folder=tmp_path, label="target")
    np.savez(tmp_path / "b.npz", x=np.full((5, 3), np.nan), target=draw.random(5))
    with pytest.raises(ScenarioError, match="row 1: 'x' holds NaN"):
        load_scenario("files", folder=tmp_path, label="target")
    np.savez(tmp_path / "b.npz", features=draw.random((5, 3)))
    with pytest.raises(ScenarioError, match=r"Got \['features'\]"):
        load_scenario("files", folder=tmp_path, label="target")
    (tmp_path / "b.npz").write_bytes(b"no archive")  # NumPy would advise to load pickled objects
    with pytest.raises(ScenarioError, match=r"b\.npz is no NPZ file: damaged, or of another kind"):
        load_scenario("files", folder=tmp_path, label="target")


class _Parquet(types.ModuleType):
    """Stands in for pyarrow.parquet: a table that knows its columns."""

    @staticmethod
    def read_table(path):
        rows = [line.split(",") for line in path.read_text().split()]
        columns = {name: [_value(row[i]) for row in rows[1:]] for i, name in enumerate(rows[0])}
        column = lambda name: types.SimpleNamespace(to_pylist=lambda: columns[name])  # noqa: E731
        return types.SimpleNamespace(column_names=list(columns), column=column)


def _value(text):
    return int(text) if text.isdigit() else text or None


def test_parquet(folder, monkeypatch):
    csv = load(folder(GOOD)).fingerprint
    where = folder({f"{name[0]}.parquet": GOOD[name] for name in ("a.csv", "b.csv")})
    (where / "a.csv").unlink()
    (where / "b.csv").unlink()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedvalue\[parquet\]'"):
        load(where)
    monkeypatch.setitem(sys.modules, "pyarrow", types.ModuleType("pyarrow"))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", _Parquet("pyarrow.parquet"))
    assert load(where).fingerprint == csv  # Parquet beside CSV: both are tables
    folder({"b.parquet": "age,ward,outcome\n50,x,?\n"})
    with pytest.raises(ScenarioError, match=r"b.parquet, row 1: the label 'outcome' is missing"):
        load(where)


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({"b.csv": "age,outcome\n50,well\n"}, {}, r"b.csv differs from a.csv: missing \['ward'\]"),
        ({"b.csv": "age,ward,bed,outcome\n50,x,1,well\n"}, {}, r"not expected \['bed'\]"),
        ({"b.csv": "age,ward,outcome\n50,x,\n"}, {}, "b.csv, line 2: the label 'outcome' is missing"),
        ({"b.csv": "age,ward,outcome\n50,x,NaN\n"}, {}, "is missing or not finite"),
        ({"b.csv": "age,ward,outcome\n50,x,NA\n"}, {}, "the label 'outcome' is missing or not finite, 'NA'"),
        ({"b.csv": "age,ward,outcome\n1e300,x,well\n"}, {}, "'1e300'; 1 such cell"),
        ({"b.csv": "age,ward,outcome\ninf,x,well\n"}, {}, "line 2: column 'age'.*float32"),
        ({"test.csv": "age,ward,outcome\nold,x,well\n"}, {}, "test.csv, line 2: column 'age'.*missing=old"),
        ({"b.csv": "age,ward,outcome\n50,well\n"}, {}, "b.csv, line 2: expected 3 cells"),
        ({"b.csv": "age,age,outcome\n"}, {}, "columns of the same name"),
        ({"b.csv": ",age,ward,outcome\n0,50,x,well\n"}, {}, "b.csv, line 1: column 1 has no name"),
        ({"b.csv": ""}, {}, "needs the header row"),
        ({"b.csv": b"\xff\xfe\x00"}, {}, "UTF-16 text, not UTF-8"),
        ({"b.csv.gz": b"not gzip"}, {}, "several files of one name"),
        ({"c.csv.gz": b"not gzip"}, {}, "c.csv.gz cannot be read"),
        ({"c.npz": b"not zip"}, {}, "mixes NPZ files with tables"),
        (
            {"test.csv": "age,ward,outcome\n5,x,dead\n"},
            {},
            "test.csv, line 2: the test set has the label 'dead', which no client",
        ),
        ({"test.csv": "age,ward,outcome\n"}, {}, "test set is empty"),
        ({"a.csv": "age,ward,outcome\n40,x,well\n"}, {}, "the same label, 'well'"),
        ({"a.csv": "age,ward,outcome\n", "b.csv": "age,ward,outcome\n"}, {}, "has any rows"),
        ({}, {"label": "outcom"}, "Unknown column 'outcom'. Did you mean 'outcome'"),
        ({}, {"label": None}, r"label=COLUMN.*: age, ward, outcome"),
        ({}, {"drop": "age,ward"}, "at least one column"),
        ({}, {"drop": "bed"}, "Unknown column 'bed'"),
        ({}, {"task": "regression"}, "regression needs numbers"),
        ({}, {"task": "ranking"}, "Unknown task"),
        ({}, {"standardise": "yes"}, "true or false"),
        ({}, {"clients": 10}, "has 2 client files"),
        ({}, {"partition": "size"}, "Unknown partition 'size'"),
    ],
)
def test_bad_input(folder, files, options, message):
    where = folder({**GOOD, **files})
    with pytest.raises(ScenarioError, match=f"(?s){message}"):
        load(where, **options)


def test_bad_folders(folder, tmp_path):
    with pytest.raises(ScenarioError, match="Which folder"):
        load_scenario("files", label="y")
    with pytest.raises(ScenarioError, match="There is no folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(ScenarioError, match="no client files"):
        load(tmp_path)
    with pytest.raises(ScenarioError, match="no test set"):
        load(folder({"a.csv": GOOD["a.csv"]}))


def test_names_of_records_and_slips_of_the_pen(folder):
    lines = "".join(f"p{k},{k % 5},{'ill' if k % 2 else 'well'}\n" for k in range(1100))
    files = {"a.csv": "id,age,outcome\n" + lines, "test.csv": "id,age,outcome\np1,2,ill\n"}
    with pytest.raises(ScenarioError, match="drop='id'"):
        load(folder(files))
    assert load(folder(files), drop=["id"]).test.x.shape == (1, 1)
    with pytest.raises(ScenarioError, match="texts such as 'some'"):
        load(folder({"a.csv": numeric(range(40), "some"), "test.csv": "x,y\n3,1\n"}), label="y")
    with pytest.raises(ScenarioError, match="line 32: the label 'y'"):
        load(folder({"a.csv": numeric(range(30), "inf"), "test.csv": "x,y\n3,1\n"}), label="y")


def test_a_missing_number_is_no_third_class(folder):
    files = {"a.csv": "x,y\n1,0\n2,1\n", "b.csv": "x,y\n1,0\n3,null\n", "test.csv": "x,y\n1,1\n"}
    with pytest.raises(ScenarioError, match=r"b.csv, line 3: the label 'y' is missing"):
        load(folder(files), label="y")


def test_changes_on_real_clients(folder):
    s = load(folder({**GOOD, "c.csv": GOOD["a.csv"]}), partition="free-riders")
    assert s.names == ("a", "free-rider", "copy-of-a")
    for path in list(folder({}).iterdir()):
        path.unlink()
    where = folder({"a.csv": numeric([0.5, 2.5]), "test.csv": "x,y\n3,1\n"})
    with pytest.raises(ScenarioError, match="needs classes"):
        load(where, label="y", partition="label-flip")


@given(st.lists(st.from_regex(r"[+-]?[0-9]{1,4}([.,][0-9]{0,5})?|\u00e9?", fullmatch=True), max_size=6))
def test_a_column_of_usual_numbers_is_read_as_its_cells_are(cells):
    together, apart = as_numbers(cells), [as_numbers([cell, "\u00e9"]) for cell in cells]
    np.testing.assert_array_equal(together.one, [found.one[0] for found in apart])
    np.testing.assert_array_equal(together.other, [found.other[0] for found in apart])


def test_parquet_as_pandas_writes_it(tmp_path):
    """Numbers, dates, categories and missing cells are what they are in CSV."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    fingerprints = []
    for kind in ("csv", "parquet"):
        where = tmp_path / kind
        where.mkdir()
        for seed, name in enumerate(("a", "b", "test")):
            draw = np.random.default_rng(seed)
            frame = pandas.DataFrame(
                {
                    "age": draw.integers(20, 90, 30),
                    "crp": np.where(draw.random(30) < 0.1, np.nan, draw.random(30).round(3)),
                    "seen": pandas.Timestamp("2026-01-01")
                    + pandas.to_timedelta(draw.integers(0, 300, 30), "D"),
                    "ward": pandas.Categorical(draw.choice(["east", "west"], 30)),
                    "smokes": draw.random(30) < 0.5,
                    "outcome": draw.choice(["ill", "well"], 30),
                }
            )
            path = where / f"{name}.{kind}"
            frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
        fingerprints.append(load(where).fingerprint)
    assert fingerprints[0] == fingerprints[1]
