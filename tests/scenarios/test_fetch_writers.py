"""`fedvalue data fetch femnist`: the writers of MNIST's digits, from a server that answers well or badly."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from https_server import babbles, drips, https_server, leads_to, sends
from marks import first_fast
from scenario_data import idx
from typer.testing import CliRunner

from fedvalue.cli.data import app
from fedvalue.errors import ScenarioError
from fedvalue.scenarios import FETCHERS, _download, _fetch, fetch, load_scenario, mnist, where
from fedvalue.scenarios._sources import sha256

REAL = Path(__file__).parents[3] / "shared" / "data"
real_data = pytest.mark.skipif(not REAL.is_dir(), reason="the real data sets are not here")
TRAIN, TEST = (f"/qmnist-{part}-labels-idx2-int.gz" for part in ("train", "test"))
NAME = "mnist_writer_ids.npz"


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDVALUE_DATA", raising=False)
    return tmp_path / "cache" / "fedvalue"


def table(rows=60_000):
    """100 digits of each writer, with the labels 0 … 9 in turn."""
    row = np.arange(rows)
    zero = 0 * row
    return np.column_stack([row % 10, zero, row // 100, row % 100, 30 + row % 10, row, zero, zero])


def packed(rows, cut=0):
    content = bytes([0, 0, 12, 2]) + np.asarray(rows.shape, ">u4").tobytes() + rows.astype(">i4").tobytes()
    return gzip.compress(content[: len(content) - cut], 1)


def changed(column, value):
    rows = table()
    rows[7, column] = value
    return packed(rows)


GOOD = packed(table())


@pytest.fixture
def replies(monkeypatch, tmp_path):
    """What the server answers, by path; at first all is well."""
    found = {TRAIN: sends(GOOD), TEST: sends(GOOD)}
    with https_server(tmp_path, found) as (address, certificate):
        monkeypatch.setattr(_fetch, "QMNIST", address + "/qmnist-{part}-labels-idx2-int.gz")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.setenv("no_proxy", "*")
        found["address"] = address
        yield found


def trusted(monkeypatch):
    """The content that the server sends counts as the known one."""
    rows = {"train": table(), "test": table(10_000)}
    kept = {
        f"{part}_{name}": t[:, at] for part, t in rows.items() for name, (at, _) in _fetch._COLUMNS.items()
    }
    content = b"".join(name.encode() + kept[name].astype("<i4").tobytes() for name in sorted(kept))
    monkeypatch.setitem(_fetch.KNOWN, NAME, sha256(content))


def write_digits(folder, shift=0):
    """MNIST with labels 0 … 9 in turn and images without anything on them."""
    (folder / "mnist").mkdir(parents=True)
    for part, rows in (("train", 60_000), ("t10k", 10_000)):
        images = idx(np.zeros((rows, 28, 28), np.uint8))
        (folder / "mnist" / f"{part}-images-idx3-ubyte").write_bytes(images)
        labels = idx(((np.arange(rows) + shift) % 10).astype(np.uint8))
        (folder / "mnist" / f"{part}-labels-idx1-ubyte").write_bytes(labels)


def test_writers_and_digits_make_the_scenario(monkeypatch, replies, cache):
    trusted(monkeypatch)
    assert fetch("femnist") == cache / "femnist"
    assert where("femnist") is None  # the digits are missing, and the message says how to get them
    with pytest.raises(ScenarioError, match=r"Missing data: mnist/.*To get it: fedvalue data fetch mnist\."):
        load_scenario("femnist", clients=3)
    write_digits(cache)
    assert where("femnist") == cache
    scenario = load_scenario("femnist", clients=3)
    assert scenario.name == "mnist-by-writer"
    assert [len(client) for client in scenario.clients] == [100, 100, 100]


def test_the_same_content_gives_the_same_file_and_changes_are_noticed(monkeypatch, replies, cache):
    trusted(monkeypatch)
    path = fetch("femnist") / NAME
    first = path.read_bytes()
    assert fetch("femnist") / NAME == path
    assert path.read_bytes() == first
    with zipfile.ZipFile(path) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert json.loads((path.parent / "checksums.json").read_text()) == {NAME: sha256(first)}
    assert {file.name for file in path.parent.iterdir()} == {NAME, "checksums.json"}
    with np.load(path) as arrays:
        assert {name: (array.dtype.name, len(array)) for name, array in arrays.items()} == {
            f"{part}_{name}": (kind, rows)
            for part, rows in (("train", 60_000), ("test", 10_000))
            for name, kind in (("writer", "int16"), ("label", "uint8"), ("hsf", "uint8"), ("digit_index", "uint8"))
        }  # fmt: skip
        others = dict(arrays)
    others["train_writer"][0] += 1
    np.savez_compressed(path, **others)
    write_digits(cache)
    with pytest.raises(ScenarioError, match=r"not what was fetched.*fedvalue data fetch femnist"):
        load_scenario("femnist", clients=3)


def test_other_content_is_refused_unless_wanted(replies, cache):
    with pytest.raises(ScenarioError, match=rf"qmnist sent as femnist is not the known content \({NAME}\)"):
        fetch("femnist")
    assert not cache.exists()
    fetch("femnist", unverified=True)
    write_digits(cache, shift=1)
    with pytest.raises(
        ScenarioError, match=r"labels .* are not those of the MNIST files.*data fetch femnist"
    ):
        load_scenario("femnist", clients=3)


@pytest.mark.parametrize("content", first_fast([b"PK\x03\x04 and then nothing", b"<html>", b""]))
def test_a_broken_file_of_writers(cache, content):
    write_digits(cache)
    (cache / "femnist").mkdir()
    (cache / "femnist" / NAME).write_bytes(content)
    with pytest.raises(
        ScenarioError, match=r"must hold the arrays.*Get it again: fedvalue data fetch femnist"
    ):
        load_scenario("femnist", clients=3)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (sends(b"gone", 404), "the server answered 404 Not Found"),
        (sends(b"<html>Please log in</html>"), "expected a complete gzip file"),
        (sends(b""), "expected an idx file of integers"),
        (sends(GOOD[:-2000]), "expected a complete gzip file"),
        (sends(GOOD[:2000], Content_Length=str(len(GOOD))), "expected a complete gzip file"),
        (sends(GOOD[:-8] + bytes(8)), "expected a complete gzip file"),
        (sends(gzip.compress(bytes(40_000_000), 1)), "at most 4.0 MB when unpacked"),
        (sends(bytes(4_000_001)), "at most 4.0 MB, more came"),
        (sends(gzip.compress(b"class,writer\n5,2154\n")), "expected an idx file of integers"),
        (sends(packed(table(59_999))), "expected 60,000 rows of 8 numbers, got 59,999 of 8"),
        (sends(packed(table()[:, :4])), "expected 60,000 rows of 8 numbers, got 60,000 of 4"),
        (sends(packed(table(), cut=4)), "expected 1,920,012 bytes in the gzip file, got 1,920,008"),
        (sends(changed(2, 70_000)), "expected writer from 0 to 32767, got 0 to 70000"),
        (sends(changed(0, -1)), "expected label from 0 to 255, got -1 to 9"),
        (leads_to("http://localhost/elsewhere"), "302 and leads to an address without https"),
        (leads_to("file:///etc/passwd"), "302"),
        (leads_to(TRAIN), "302.*infinite loop"),
        (babbles, r"BadStatusLine: what\? \[31m"),
    ],
)  # fmt: skip
def test_bad_replies(replies, cache, reply, says):
    replies[TRAIN] = reply
    with pytest.raises(
        ScenarioError, match=rf"fetched from https.*train.*{says}.*Check the network"
    ) as caught:
        fetch("femnist", unverified=True)
    assert str(caught.value).isprintable()
    assert not cache.exists()


def test_nothing_is_kept_of_half_an_answer(replies, cache):
    replies[TEST] = sends(b"gone", 404)
    with pytest.raises(ScenarioError, match=r"qmnist-test-labels.*404"):
        fetch("femnist", unverified=True)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("setting", "says"), [("_PATIENCE", "timed out"), ("_LONGEST", r"not complete after 0\.15 s")]
)
def test_a_slow_server(monkeypatch, replies, setting, says):
    monkeypatch.setattr(_download, setting, 0.15)
    replies[TRAIN] = drips(0.5 if setting == "_PATIENCE" else 0.02)
    with pytest.raises(ScenarioError, match=says):
        fetch("femnist")


def test_redirects_over_https_are_followed_a_few_times(replies):
    for step in range(5):
        replies[f"/{step}"] = leads_to(f"{replies['address']}/{step + 1}")
    replies["/5"] = sends(GOOD)
    replies[TRAIN] = leads_to("/3")
    fetch("femnist", unverified=True)
    replies[TRAIN] = leads_to("/0")
    with pytest.raises(ScenarioError, match="302"):
        fetch("femnist", unverified=True)


def test_a_certificate_that_nobody_vouches_for(monkeypatch, replies):
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(ScenarioError, match="certificate verify failed"):
        fetch("femnist", unverified=True)


def test_no_connection(monkeypatch, tmp_path, cache):
    with https_server(tmp_path, {}) as (address, _):
        pass  # nobody listens there any more
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(_fetch, "QMNIST", address + "/{part}")
    with pytest.raises(
        ScenarioError, match=r"refused.*Check the network and try again, or run the command on"
    ):
        fetch("femnist")
    assert not cache.exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_no_half_file(monkeypatch, replies, cache, error):
    def fails(*args):
        raise error

    monkeypatch.setattr(Path, "replace", fails)
    expected = ScenarioError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        fetch("femnist", unverified=True)
    if expected is ScenarioError:
        assert str(caught.value).endswith("No space left on device. Name another folder: --data-dir.")
    assert list((cache / "femnist").iterdir()) == []


def test_a_folder_that_cannot_be_made(replies, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ScenarioError, match=r"femnist cannot be kept in .*Name another folder: --data-dir"):
        fetch("femnist", tmp_path / "file", unverified=True)


def invoke(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_the_command_says_where_from_and_what_is_still_missing(replies, tmp_path):
    said = invoke("fetch", "femnist", "--data-dir", tmp_path / "here", "--unverified")
    assert "Fetching femnist from github.com/facebookresearch/qmnist …" in said
    assert f"femnist is in {tmp_path / 'here' / 'femnist'}" in said
    assert "The digits are still missing: fedvalue data fetch mnist" in said
    write_digits(tmp_path / "here")
    assert "missing" not in invoke("fetch", "femnist", "--data-dir", tmp_path / "here", "--unverified")


def test_all_data_sets(monkeypatch, replies, cache):
    for name in ("mnist", "adult"):
        files = {Path(file).name: b"content" for file in getattr(_fetch, name).NEEDS}
        monkeypatch.setitem(FETCHERS, name, FETCHERS[name]._replace(get=lambda folder, files=files: files))
    said = invoke("fetch", "all", "--unverified")
    assert [line for line in said.splitlines() if " is in " in line] == [
        f"{name} is in {cache / name}" for name in ("mnist", "adult", "femnist")
    ]
    assert "missing" not in said


def test_what_is_missing_is_named_with_the_command():
    assert "fedvalue data fetch femnist" in invoke("ls")
    with pytest.raises(
        ScenarioError, match=r"Missing data: femnist/.*To get it: fedvalue data fetch femnist"
    ):
        invoke("show", "femnist")


@real_data
def test_the_known_content_is_that_of_the_original(replies):
    """As QMNIST has it: all columns that are kept, and 50,000 more test rows."""
    with np.load(REAL / "femnist" / NAME) as arrays:
        original = dict(arrays)
    for part, path in (("train", TRAIN), ("test", TEST)):
        rows = table()
        for name, (at, _) in _fetch._COLUMNS.items():
            rows[: len(original[f"{part}_{name}"]), at] = original[f"{part}_{name}"]
        replies[path] = sends(packed(rows))
    with np.load(fetch("femnist") / NAME) as fetched:
        assert {name: (array.dtype, array.tobytes()) for name, array in fetched.items()} == {
            name: (array.dtype, array.tobytes()) for name, array in original.items()
        }
    # MNIST's own checksums say that these are the labels of its digits.
    for part, file in (("train", "train"), ("test", "t10k")):
        assert sha256(idx(original[f"{part}_label"])) == _fetch.KNOWN[f"{file}-labels-idx1-ubyte.gz"]


@real_data
@pytest.mark.slow
def test_fetched_writers_and_real_digits_are_the_scenario_of_the_real_data(monkeypatch, cache):
    digits = dict(zip(mnist.NEEDS, map(Path.read_bytes, (REAL / name for name in mnist.NEEDS)), strict=True))
    contents = {Path(name).name: gzip.decompress(data) for name, data in digits.items()}
    monkeypatch.setitem(FETCHERS, "mnist", FETCHERS["mnist"]._replace(get=lambda folder: contents))
    writers = {NAME: (REAL / "femnist" / NAME).read_bytes()}
    monkeypatch.setitem(FETCHERS, "femnist", FETCHERS["femnist"]._replace(get=lambda folder: writers))
    fetch("mnist")
    fetch("femnist")
    fetched = load_scenario("femnist", clients=3)
    assert fetched.fingerprint == load_scenario("femnist", clients=3, data_dir=REAL).fingerprint
