"""Every registered scenario through one suite, on small files of the real formats, and on real data."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scenario_data import write_data_sets

import fedvalue.scenarios as package
from fedvalue.errors import ScenarioError
from fedvalue.scenarios import SCENARIOS, Dataset, Scenario, load_scenario
from fedvalue.scenarios._partition import PARTITIONS

REAL = Path(__file__).parents[3] / "shared" / "data"
real_data = pytest.mark.skipif(not REAL.is_dir(), reason="the real data sets are not here")

SMALL = {name: {"clients": 4, "samples": 20} for name in SCENARIOS}
SMALL["files"] = {"samples": 20, "label": "outcome"}


@pytest.fixture(autouse=True)
def no_data_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDVALUE_DATA", raising=False)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return write_data_sets(tmp_path_factory.mktemp("data"))


def load(name, data_dir, **changes):
    options = {**SMALL[name], **changes}
    if name == "files":
        options["folder"] = data_dir / "files"
    return load_scenario(name, data_dir=data_dir, **options)


def rows_of(data: Dataset) -> list[bytes]:
    return [row.tobytes() for row in data.x]


@pytest.mark.parametrize("name", SCENARIOS)
class TestEveryScenario:
    def test_arrays(self, name, data_dir):
        s = load(name, data_dir)
        assert s.n == len(s.names) == len(set(s.names)) == 4
        assert sum(len(c) for c in s.clients) == 80
        shape = s.test.x.shape[1:]
        for data in (*s.clients, s.test):
            assert data.x.dtype == (np.int64 if s.vocabulary else np.float32)
            assert data.y.dtype == (np.int64 if s.classes else np.float32)
            assert data.x.shape == (len(data), *shape)
            assert np.isfinite(data.x).all()
            assert data.x.flags.c_contiguous
        assert json.loads(json.dumps(s.details))["scenario"] == name
        assert s.details["warnings"] == []
        assert [row["samples"] for row in s.summary()] == [len(c) for c in s.clients]

    def test_seeds(self, name, data_dir):
        first = load(name, data_dir, seed=1)
        assert first.fingerprint == load(name, data_dir, seed=1).fingerprint
        assert first.fingerprint != load(name, data_dir, seed=2).fingerprint

    def test_clients_and_test_set_are_disjoint(self, name, data_dir):
        s = load(name, data_dir)
        rows = [row for client in s.clients for row in rows_of(client)]
        assert len(set(rows)) == len(rows)
        assert not set(rows) & set(rows_of(s.test))

    def test_fingerprint_is_about_arrays(self, name, data_dir):
        s = load(name, data_dir)
        renamed = replace(s, name="other", names=tuple("abcd"), details={})
        assert renamed.fingerprint == s.fingerprint
        x = s.clients[2].x.copy()
        x.flat[0] = 0 if x.flat[0] else 1
        changed = (*s.clients[:2], Dataset(x, s.clients[2].y), *s.clients[3:])
        assert replace(s, clients=changed).fingerprint != s.fingerprint
        assert replace(s, clients=s.clients[::-1]).fingerprint != s.fingerprint
        assert replace(s, test_parts={"a": np.arange(3)}).fingerprint != s.fingerprint

    def test_the_test_set_teaches_nothing(self, name, data_dir):
        full, less = load(name, data_dir), load(name, data_dir, test_size=7)
        assert len(less.test) == 7
        for a, b in zip(full.clients, less.clients, strict=True):
            np.testing.assert_array_equal(a.x, b.x)
            np.testing.assert_array_equal(a.y, b.y)

    def test_every_partition_that_it_accepts(self, name, data_dir):
        for partition in SCENARIOS[name].partitions:
            s = load(name, data_dir, partition=partition)
            assert s.n == 4
            assert s.details["partition"] == partition
            known = PARTITIONS.get(partition)
            loses_rows = partition in ("free-riders", "demo")
            assert sum(len(c) for c in s.clients) == 80 or loses_rows or known is None

    def test_test_parts(self, name, data_dir):
        s = load(name, data_dir, test_parts=3)
        assert list(s.test_parts) == ["part-0", "part-1", "part-2"]
        together = np.sort(np.concatenate(list(s.test_parts.values())))
        np.testing.assert_array_equal(together, np.arange(len(s.test)))

    def test_more_samples_than_there_are(self, name, data_dir):
        if load(name, data_dir).details.get("source") != "generated":
            with pytest.raises(ScenarioError, match="at most samples="):
                load(name, data_dir, samples=100_000)
        with pytest.raises(ScenarioError, match="samples must be"):
            load(name, data_dir, samples=0)
        with pytest.raises(ScenarioError, match="seed must be"):
            load(name, data_dir, seed=-1)


def test_every_file_is_registered():
    folder = Path(package.__file__).parent
    files = {p.stem for p in folder.glob("*.py") if not p.stem.startswith("_")} - {"base", "partition"}
    assert files == set(SCENARIOS)
    for name, entry in SCENARIOS.items():
        assert entry.builder.__module__ == f"fedvalue.scenarios.{name}"
        assert entry.partition in entry.partitions


def test_import_is_light():
    """Scikit-learn takes longer to import than a dry run takes otherwise: its digits are read without it."""
    code = (
        "import sys, fedvalue.scenarios as s; s.load_scenario('digits'); "
        "print(*{'sklearn', 'torch', 'pyarrow', 'pandas', 'scipy.stats'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_unknown_scenario():
    with pytest.raises(ScenarioError, match="Did you mean 'mnist'"):
        load_scenario("mnits")


def test_digits_are_those_of_scikit_learn(monkeypatch):
    from fedvalue.scenarios import digits

    read = digits._images_and_labels()
    monkeypatch.setattr(digits, "_FILE", ("elsewhere",))
    for one, other in zip(read, digits._images_and_labels(), strict=True):
        assert np.array_equal(one, other)


def test_digits_are_stratified():
    s = load_scenario("digits")
    assert len(s.test) == 449
    assert sum(len(c) for c in s.clients) == 1797 - 449
    assert np.ptp(np.bincount(s.test.y)) <= 3
    assert 0 == s.test.x.min() < s.test.x.max() == 1


@pytest.mark.parametrize(
    "many", [{"clients": 2**31}, {"samples": 10**12}, {"features": 10**9}, {"test_size": 10**12}]
)
def test_absurd_sizes_are_refused_before_anything_is_drawn(many: dict[str, int]) -> None:
    with pytest.raises(
        ScenarioError, match=r"from 1 to 10,000|Ask for fewer clients, samples, test rows or features"
    ):
        load_scenario("synthetic", **many)


def test_synthetic_follows_its_theory():
    s = load_scenario("synthetic", clients=2, samples=20_000, noise_sd=0.5, features=4)
    x = np.concatenate([c.x for c in s.clients])
    y = np.concatenate([c.y for c in s.clients])
    weights, rest, *_ = np.linalg.lstsq(x, y, rcond=None)
    np.testing.assert_allclose(weights, s.details["weights"], atol=0.02)
    assert rest[0] / len(y) == pytest.approx(0.25, rel=0.05)
    assert y.var() == pytest.approx(1.25, rel=0.05)
    assert s.task == "regression"
    with pytest.raises(ScenarioError, match="noise_sd"):
        load_scenario("synthetic", noise_sd=-1)
    with pytest.raises(ScenarioError, match="Unknown partition 'label-flip'"):
        load_scenario("synthetic", partition="label-flip")


def test_adult_is_standardised_by_all_its_training_rows(data_dir):
    """Whoever takes part: the same person has the same features in every game."""
    s = load_scenario("adult", data_dir=data_dir, clients=1, partition="same")
    few, many = (load_scenario("adult", data_dir=data_dir, clients=n) for n in (2, 4))
    np.testing.assert_array_equal(few.clients[0].x, many.clients[0].x)
    np.testing.assert_array_equal(few.test.x, s.test.x)
    x = np.concatenate([c.x for c in s.clients]).astype(np.float64)
    numeric = [i for i in range(x.shape[1]) if len(np.unique(x[:, i])) > 2]
    np.testing.assert_allclose(x[:, numeric].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(x[:, numeric].std(axis=0), 1, atol=1e-6)
    others = np.delete(x, numeric, axis=1)
    assert set(np.unique(others)) <= {0.0, 1.0}
    fewer = load("adult", data_dir, keep_occupation=False)
    assert fewer.test.x.shape[1] == s.test.x.shape[1] - 5  # one-hot, of all rows
    with pytest.raises(ScenarioError, match="5 occupations"):
        load("adult", data_dir, clients=6)
    assert "unknown" in load("adult", data_dir, clients=5).names


def test_words_of_the_test_set_are_unknown(data_dir):
    s = load("sent140", data_dir, samples=40)
    assert s.vocabulary == 2 + len(np.unique(np.concatenate([c.x for c in s.clients])[:, :40])) - 1
    assert (s.test.x == 1).any()
    assert not (np.concatenate([c.x for c in s.clients]) == 1).any()
    short = load("sent140", data_dir, vocabulary=10, length=2)
    assert short.vocabulary == 10
    assert short.test.x.shape[1] == 2


def test_writers_and_leaf(data_dir, tmp_path):
    s = load("femnist", data_dir)
    assert s.name == "mnist-by-writer"
    assert all(name.startswith("writer-") for name in s.names)
    assert load("femnist", data_dir, partition="size").name == "mnist"
    assert load("femnist", data_dir, writers=2).names[0] == "writers-0"
    dealt = [load_scenario("femnist", data_dir=data_dir, clients=n, writers="all") for n in (2, 5)]
    two, five = (sum(map(len, each.clients)) for each in dealt)  # a fixed total: more clients have less each
    assert (
        two == five > sum(map(len, load_scenario("femnist", data_dir=data_dir, clients=2, writers=2).clients))
    )
    with pytest.raises(ScenarioError, match='a number, or "all"'):
        load("femnist", data_dir, writers="some")
    draw = np.random.default_rng(0)
    for part in ("train", "test"):
        data = {f"f{u}": {"x": draw.random((9, 784)).tolist(), "y": [0, 61, *[u] * 7]} for u in range(6)}
        (tmp_path / "femnist" / part).mkdir(parents=True)
        path = tmp_path / "femnist" / part / "all.json"
        path.write_text(json.dumps({"users": list(data), "user_data": data}))
    leaf = load_scenario("femnist", clients=3, data_dir=tmp_path)
    assert (leaf.name, leaf.classes, leaf.test.x.shape) == ("femnist", 62, (54, 1, 28, 28))
    assert set(leaf.names) < {f"writer-f{u}" for u in range(6)}
    assert "classes that no client has" in leaf.details["warnings"][0]
    path.write_text('{"users": ["f1"], "user_data": {}}')
    with pytest.raises(ScenarioError, match="LEAF's format"):
        load_scenario("femnist", clients=1, data_dir=tmp_path)


def tiny(**changes):
    a = Dataset(np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1]))
    b = Dataset(np.zeros((0, 1)), np.zeros(0, dtype=int))
    given = {"clients": (a, b), "names": ("a", "b"), "test": a, "task": "classification", "classes": 2}
    return Scenario(**{"name": "tiny", **given, **changes})


def test_a_scenario_converts_and_completes():
    s = tiny()
    assert s.clients[1].x.shape == (0, 1)
    assert s.clients[0].x.dtype == np.float32
    assert s.summary()[1] == {"name": "b", "samples": 0, "labels": [0, 0]}
    assert tiny(clients=(s.clients[0], Dataset([], []))).fingerprint == s.fingerprint
    assert tiny(test_parts={"low": [True, False, False]}).test_parts["low"].tolist() == [0]
    targets = tiny(task="regression", classes=0)
    assert targets.summary()[1] == {"name": "b", "samples": 0, "mean": None, "sd": None}
    assert targets.clients[0].y.dtype == np.float32
    assert tiny(vocabulary=3).clients[0].x.dtype == np.int64
    unseen = tiny(classes=3, test=Dataset([[0.0]], [2])).details["warnings"]
    assert unseen == ["The test set holds classes that no client has: [2]."]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clients": (), "names": ()}, "at least one client"),
        ({"names": ("a", "a")}, "different"),
        ({"clients": (Dataset([[0.0, 1.0]], [0]), Dataset([[1.0]], [1]))}, "one shape"),
        ({"clients": (Dataset([[np.nan]], [0]), Dataset([[1.0]], [1]))}, "features of client 'a'"),
        ({"clients": (Dataset([[1e300]], [0]), Dataset([[1.0]], [1]))}, "beyond float32"),
        ({"clients": (Dataset([[1.0]], [np.nan]), Dataset([[1.0]], [1]))}, "labels of client 'a'"),
        ({"clients": (Dataset([[1.0]], [2]), Dataset([[1.0]], [1]))}, "from 0 to 1 as labels"),
        ({"clients": (Dataset([[1.0]], [1e30]), Dataset([[1.0]], [1]))}, "from 0 to 1"),
        ({"clients": (Dataset([[1.0]], [0.5]), Dataset([[1.0]], [1]))}, "whole numbers"),
        ({"clients": (Dataset([["x"]], [0]), Dataset([[1.0]], [1]))}, "Only numbers"),
        ({"clients": (Dataset([[1.0], [2.0]], [0]), Dataset([[1.0]], [1]))}, "one row per sample"),
        ({"clients": (Dataset([], []), Dataset([], []))}, "No client has any data"),
        ({"clients": (Dataset([[1.0]], [1]), Dataset([[1.0]], [1]))}, "the same label, 1"),
        ({"test": Dataset(np.zeros((0, 1)), [])}, "test set is empty"),
        ({"task": "ranking"}, "must be 'classification'"),
        ({"classes": 1}, "at least two classes"),
        ({"task": "regression"}, "no classes"),
        ({"vocabulary": 2}, "token ids"),
        ({"test_parts": {"p": [0, 0]}}, "Part 'p'"),
        ({"test_parts": {"p": [3]}}, "Part 'p'"),
    ],
)
def test_what_a_scenario_refuses(changes, message):
    with pytest.raises(ScenarioError, match=message):
        tiny(**changes)


@real_data
@pytest.mark.parametrize(
    ("name", "shape", "test_rows", "smallest", "largest"),
    [
        pytest.param("mnist", (1, 28, 28), 10_000, 6000, 6000, marks=pytest.mark.slow),
        pytest.param("femnist", (1, 28, 28), 10_000, 19, 131, marks=pytest.mark.slow),
        pytest.param("adult", (108,), 16_281, 1370, 4140, marks=pytest.mark.slow),
        ("sent140", (32,), 9091, 1400, 1800),
    ],
)
def test_real_data(name, shape, test_rows, smallest, largest):
    s = load_scenario(name, data_dir=REAL)
    assert s.n == 10
    assert s.test.x.shape == (test_rows, *shape)
    assert all(smallest <= len(c) <= largest for c in s.clients)
    assert s.details["warnings"] == []
    assert len(s.fingerprint) == 64


@real_data
@pytest.mark.slow
def test_real_counts():
    s = load_scenario("mnist", data_dir=REAL)
    assert sum(np.bincount(c.y) for c in s.clients).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip
    paper = load_scenario("mnist", samples=2710, partition="size", data_dir=REAL)
    assert [len(c) for c in paper.clients] == pytest.approx([27_100 * i / 55 for i in range(1, 11)], abs=1)
    everyone = load_scenario("adult", clients=15, data_dir=REAL)
    assert sum(len(c) for c in everyone.clients) == 32_561
    assert sum(int(c.y.sum()) for c in everyone.clients) == 7841
    assert int(everyone.test.y.sum()) == 3846
    assert (everyone.names[0], everyone.names[-1]) == ("Prof-specialty", "Armed-Forces")
