"""Finding, fetching and showing data: files, checksums, `fedvalue data`."""

from __future__ import annotations

import gzip
import json
import types
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets
from scenario_data import write_data_sets
from typer.testing import CliRunner

from fedvalue.cli._pairs import scenario_options
from fedvalue.cli.data import app
from fedvalue.errors import InputError, ScenarioError
from fedvalue.scenarios import Dataset, Scenario, _fetch, adult, load_scenario, mnist, where
from fedvalue.scenarios._fetch import fetch
from fedvalue.scenarios._sources import cache_folder

REAL = Path(__file__).parents[3] / "shared" / "data"
real_data = pytest.mark.skipif(not REAL.is_dir(), reason="the real data sets are not here")


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDVALUE_DATA", raising=False)
    return tmp_path / "cache" / "fedvalue"


def openml(monkeypatch, answer):
    def fake(name, **options):
        assert options["parser"] == "liac-arff"  # the one that works without pandas
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fake)


def fake_mnist():
    pixels = np.zeros((70_000, 784), dtype=np.uint8)
    pixels[:, 0] = np.arange(70_000) % 256
    return types.SimpleNamespace(data=pixels, target=(np.arange(70_000) % 10).astype(str).astype(object))


def test_where_data_is_looked_for(monkeypatch, tmp_path, cache):
    assert cache_folder() == cache
    assert where("adult") is None
    (tmp_path / "env").mkdir()
    monkeypatch.setenv("FEDVALUE_DATA", str(write_data_sets(tmp_path / "env")))
    assert where("adult") == tmp_path / "env"
    assert load_scenario("adult", clients=3).n == 3
    (tmp_path / "given").mkdir()
    given = write_data_sets(tmp_path / "given")
    assert where("adult", given) == given
    assert where("adult", tmp_path) == tmp_path / "env"


def test_writer_ids_and_digits_may_lie_apart(tmp_path, cache):
    given = tmp_path / "given"
    given.mkdir()
    write_data_sets(given)
    cache.mkdir(parents=True)
    (given / "mnist").rename(cache / "mnist")
    assert where("femnist", given) == given
    assert load_scenario("femnist", clients=2, data_dir=given).name == "mnist-by-writer"
    assert where("femnist") is None


@pytest.mark.parametrize("name", ["mnist", "femnist", "adult", "sent140"])
def test_missing_data_says_what_where_and_how(name, tmp_path, cache):
    with pytest.raises(ScenarioError) as caught:
        load_scenario(name, data_dir=tmp_path)
    message = str(caught.value)
    assert isinstance(caught.value, InputError)
    assert f"{name}/" in message
    assert str(tmp_path) in message
    assert str(cache) in message
    assert "fedvalue data fetch" in message or "put two" in message


def test_only_what_is_missing_is_named(tmp_path):
    write_data_sets(tmp_path)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(ScenarioError, match=r"Missing data: mnist/t10k-labels-idx1-ubyte\.gz\. "):
        load_scenario("mnist", data_dir=tmp_path)


def test_broken_files(tmp_path):
    write_data_sets(tmp_path)
    images = tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz"
    whole = images.read_bytes()
    images.write_bytes(whole[:-50])
    with pytest.raises(ScenarioError, match="cannot be read"):
        load_scenario("mnist", data_dir=tmp_path)
    images.write_bytes(gzip.compress(gzip.decompress(whole)[:-5]))
    with pytest.raises(ScenarioError, match="not a complete idx file"):
        load_scenario("mnist", data_dir=tmp_path)
    (tmp_path / "adult" / "adult.data").write_text("39, State-gov\n")
    with pytest.raises(ScenarioError, match="line 1: expected 14 features"):
        load_scenario("adult", data_dir=tmp_path)
    (tmp_path / "sent140" / "sent140_by_user.csv.gz").write_bytes(gzip.compress(b"who,what\n1,2\n"))
    with pytest.raises(ScenarioError, match="columns user, label"):
        load_scenario("sent140", data_dir=tmp_path)


@pytest.mark.slow
def test_fetched_content_must_be_the_known_one(monkeypatch, cache):
    openml(monkeypatch, fake_mnist())
    with pytest.raises(ScenarioError, match="not the known content"):
        fetch("mnist")
    assert not cache.exists()
    assert fetch("mnist", unverified=True) == cache / "mnist"
    assert not list(cache.rglob("*.part"))
    s = load_scenario("mnist", samples=10)
    assert len(s.test) == 10_000
    recorded = json.loads((cache / "mnist" / "checksums.json").read_text())
    assert set(recorded) == {Path(name).name for name in mnist.NEEDS}
    labels = cache / "mnist" / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(gzip.decompress(labels.read_bytes())[::-1]))
    with pytest.raises(ScenarioError, match="not what was fetched"):
        load_scenario("mnist")


@pytest.mark.parametrize("error", [URLError(ConnectionRefusedError(111, "refused")), ValueError("no set")])
def test_no_connection(monkeypatch, cache, error):
    openml(monkeypatch, error)
    with pytest.raises(ScenarioError, match=r"could not be fetched from OpenML.*Check the network"):
        fetch("adult")
    assert not cache.exists()


def test_fetch_of_something_else(monkeypatch):
    with pytest.raises(ScenarioError, match="Data sets: mnist, adult"):
        fetch("sent140")
    openml(monkeypatch, types.SimpleNamespace(data=np.zeros((3, 784)), target=np.zeros(3)))
    with pytest.raises(ScenarioError, match="Expected 70,000 rows"):
        fetch("mnist")


def as_openml(order):
    """Adult as OpenML has it: one table, categories as numbers, missing ones as NaN."""
    parts = {}
    for part in ("data", "test"):
        text = gzip.decompress((REAL / "adult" / f"adult.{part}.gz").read_bytes()).decode()
        parts[part] = adult.parse_rows(text, part)
    *columns, labels = zip(*(row for part in order for row in parts[part]), strict=True)
    categories, values = {}, []
    for name, cells in zip(adult.COLUMNS, columns, strict=True):
        if name in adult.NUMERIC:
            values.append(np.array(cells, dtype=float))
        else:
            categories[name] = sorted(set(cells) - {"?"})
            number = {cell: float(k) for k, cell in enumerate(categories[name])} | {"?": np.nan}
            values.append(np.array([number[cell] for cell in cells]))
    return types.SimpleNamespace(
        data=np.column_stack(values), feature_names=list(adult.COLUMNS), categories=categories, target=labels
    )


@real_data
@pytest.mark.slow
@pytest.mark.parametrize("order", [("test", "data"), ("data", "test")])
def test_fetched_adult_equals_the_original(monkeypatch, order):
    openml(monkeypatch, as_openml(order))
    fetch("adult")
    fetched = load_scenario("adult", clients=4, samples=50)
    assert fetched.fingerprint == load_scenario("adult", clients=4, samples=50, data_dir=REAL).fingerprint


@real_data
def test_the_known_checksums_are_those_of_mnist(monkeypatch):
    x, y, test_x, test_y, sources = mnist.read(REAL)
    assert {
        f"{Path(name).name}.gz": digest for name, digest in sources.items()
    }.items() <= _fetch.KNOWN.items()
    assert _fetch._idx(x[:7])[16:] == x[:7].tobytes()
    assert len(y) + len(test_y) == 70_000 == len(x) + len(test_x)


def invoke(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_ls(tmp_path):
    listed = invoke("ls")
    assert "nothing to download" in listed
    assert "adult: looked in" in listed
    assert "fedvalue data fetch adult" in listed
    (tmp_path / "d").mkdir()
    assert f"found in {tmp_path / 'd'}" in invoke("ls", "--data-dir", write_data_sets(tmp_path / "d"))


def test_show(tmp_path):
    shown = invoke("show", "digits", "--partition", "demo", "--samples", 30)
    assert "copy-of-client-0" in shown
    assert "█" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert load_scenario("digits", partition="demo", samples=30).fingerprint[:24] in shown
    regression = invoke("show", "synthetic", "--clients", 3, "--test-parts", 2, "-o", "noise-sd=0.5")
    assert "mean target" in regression
    assert "part-1: 500 rows" in regression
    write_data_sets(tmp_path)
    assert "aachen" in invoke("show", "files", "--data-dir", tmp_path / "files", "--label", "outcome")
    with pytest.raises(InputError, match="key=value"):
        invoke("show", "digits", "-o", "alpha")


def test_a_printed_scenario_says_what_the_command_says():
    scenario = load_scenario("digits", clients=3, partition="size", samples=30, test_parts=2)
    assert str(scenario) == "\n".join(scenario.lines())
    asked = ("digits", "--clients", 3, "--partition", "size", "--samples", 30, "--test-parts", 2)
    assert invoke("show", *asked).splitlines() == str(scenario).splitlines()
    assert "array(" not in str(scenario)
    assert not set("".join(scenario.lines(unicode=False)[5:])) & set("▁▂▃▄▅▆▇█")


def test_a_printed_scenario_of_others_holds_no_control_characters():
    rows = Dataset([[0.0], [1.0]], [0.5, 1.5])
    empty = Dataset(np.zeros((0, 1)), [])
    scenario = Scenario("a\x1b[31m", (rows, empty), ("b\n", "c"), test=rows, task="regression", classes=0)
    assert str(scenario).splitlines()[0] == "a [31m: 2 clients, partition –"
    assert str(scenario).splitlines()[4:] == [
        "client      samples  mean target   sd",
        "b                 2            1  0.5",
        "c                 0            –    –",
        "(test set)        2            1  0.5",
    ]


def test_show_json():
    shown = json.loads(invoke("show", "digits", "--clients", 3, "--partition", "size", "--json"))
    assert [client["samples"] for client in shown["clients"]] == [225, 449, 674]
    assert sum(shown["test"]["labels"]) == 449
    assert shown["details"]["partition"] == "size"
    assert len(shown["fingerprint"]) == 64


@pytest.mark.slow
def test_fetch_command(monkeypatch, tmp_path):
    openml(monkeypatch, fake_mnist())
    said = invoke("fetch", "mnist", "--data-dir", tmp_path / "here", "--unverified")
    assert f"mnist is in {tmp_path / 'here' / 'mnist'}" in said
    assert where("mnist", tmp_path / "here") is not None


def test_option_values():
    pairs = ["a=1", "b=0.5", "c=TRUE", "d=none", "e=some text", "f-g=x=y"]
    assert scenario_options(pairs, ()) == {
        "a": 1,
        "b": 0.5,
        "c": True,
        "d": None,
        "e": "some text",
        "f_g": "x=y",
    }


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["seed=3"], "'seed' is an option of the command"),
        (["data-dir=x"], "'data_dir' is an option of the command"),
        (["alpha=1", "alpha=2"], "'alpha' was given twice"),
        (["alpha"], "written as key=value"),
    ],
)
def test_options_that_cannot_be(pairs, message):
    with pytest.raises(InputError, match=message):
        scenario_options(pairs, ("seed", "data_dir"))
