"""Rows that two clients share: found where they are copied, as they are or nearly, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from marks import first_fast
from numpy.typing import NDArray
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.scenarios import Dataset, Overlap, compare_rows, read_sketch, sketch

Array = NDArray[np.float64]
SECRET = "known to the clients alone"


def compared(parts: dict[str, Array], secret: str = SECRET) -> Overlap:
    return compare_rows([sketch(Dataset(x, np.zeros(len(x))), secret, name) for name, x in parts.items()])


def digits(clients: int = 4, partition: str = "same", seed: int = 0) -> dict[str, Array]:
    scenario = fv.load_scenario("digits", clients=clients, samples=200, partition=partition, seed=seed)
    return {
        name: data.x.reshape(len(data), -1)
        for name, data in zip(scenario.names, scenario.clients, strict=True)
    }


def unseen() -> Array:
    test = fv.load_scenario("digits", clients=4, samples=200, partition="same").test
    return test.x.reshape(len(test), -1)[:180]


class TestCopies:
    def kinds(self, copy: Array) -> list[tuple[str, str, str]]:
        found = compared({**digits(), "copy": copy})
        return [(pair.first, pair.second, pair.kind) for pair in found.suspicious]

    def test_the_same_rows_in_another_order(self) -> None:
        rows = digits()["client-0"]
        assert self.kinds(np.random.default_rng(0).permutation(rows)) == [("client-0", "copy", "same rows")]

    def test_some_of_them_among_rows_of_its_own(self) -> None:
        assert self.kinds(np.vstack([digits()["client-0"][:30], unseen()[:150]])) == [
            ("client-0", "copy", "same rows")
        ]

    @pytest.mark.parametrize("noise", [0.01, 0.05])
    def test_with_noise(self, noise: float) -> None:
        rows = digits()["client-0"]
        copy = rows + noise * np.random.default_rng(0).standard_normal(rows.shape)
        assert self.kinds(copy) == [("client-0", "copy", "near copies")]

    def test_rounded(self) -> None:
        assert self.kinds(np.round(digits()["client-0"], 1)) == [("client-0", "copy", "near copies")]

    def test_in_other_units(self) -> None:
        rows = digits()["client-0"]
        units = np.random.default_rng(1).uniform(0.1, 50, rows.shape[1])
        assert self.kinds(rows * units + 3) == [("client-0", "copy", "near copies")]

    def test_half_of_them_with_noise_among_rows_of_its_own(self) -> None:
        noisy = digits()["client-0"][:90]
        noisy = noisy + 0.02 * np.random.default_rng(0).standard_normal(noisy.shape)
        assert self.kinds(np.vstack([noisy, unseen()[:90]])) == [("client-0", "copy", "near copies")]

    def test_columns_of_very_different_size(self) -> None:
        rng = np.random.default_rng(2)
        rows = rng.lognormal(size=(900, 8)) * 10.0 ** np.arange(-3, 5)
        parts = {"a": rows[:300], "b": rows[300:600], "c": rows[600:]}
        assert compared(parts).suspicious == ()
        copy = parts["a"] * (1 + 0.01 * rng.standard_normal((300, 8)))
        found = compared({**parts, "copy": copy}).suspicious
        assert [(pair.first, pair.second) for pair in found] == [("a", "copy")]


class TestHidden:
    """Whoever copies may add rows of its own choice."""

    def kind(self, copy: Array, victim: Array | None = None) -> str:
        rng = np.random.default_rng(0)
        parts = {name: rng.standard_normal((300, 8)) for name in "abc"}
        parts["a"] = parts["a"] if victim is None else victim
        (pair,) = (p for p in compared({**parts, "copy": copy}).pairs if (p.first, p.second) == ("a", "copy"))
        return pair.kind

    def rows(self) -> Array:
        return np.random.default_rng(0).standard_normal((300, 8))

    def noise(self) -> Array:
        return 1e-3 * np.random.default_rng(1).standard_normal((300, 8))

    def far(self) -> Array:
        return 1e4 * np.random.default_rng(2).standard_normal((60, 8))

    @pytest.mark.parametrize("times", [2, 30])
    def test_by_every_row_more_than_once(self, times: int) -> None:
        assert self.kind(np.repeat(self.rows(), times, axis=0)) == "same rows"

    @pytest.mark.parametrize("change", [0, 1e-12])
    def test_by_some_rows_twice(self, change: float) -> None:
        near = self.rows() + self.noise()
        assert self.kind(np.vstack([near, near[:8] * (1 + change)])) == "near copies"

    def test_by_rows_far_off(self) -> None:
        assert self.kind(np.vstack([self.rows(), self.far()])) == "same rows"
        assert self.kind(np.vstack([self.rows() + self.noise(), self.far()])) == "near copies"

    def test_by_a_few_rows_far_off_and_other_units(self) -> None:
        units = 10.0 ** np.arange(-4, 4)
        assert self.kind(np.vstack([self.rows() * units, self.far()[:6] * units])) == "near copies"

    def test_behind_rows_that_the_honest_one_has_twice(self) -> None:
        victim = np.vstack([self.rows()[:-9], self.rows()[:9]])
        assert self.kind(victim + self.noise(), victim) == "near copies"
        assert self.kind(np.repeat(victim, 30, axis=0), victim) == "same rows"


class TestHonestClients:
    @pytest.mark.parametrize(
        "partition", first_fast(["same", "size", "distribution", "dirichlet", "label-flip"], keep=2)
    )
    def test_of_real_data(self, partition: str) -> None:
        for seed in range(3):
            assert compared(digits(6, partition, seed)).suspicious == ()

    def test_with_rows_that_everybody_has(self) -> None:
        """Few columns with few values: most rows are there many times, by chance."""
        rng = np.random.default_rng(3)
        for size in (50, 500):
            parts = {name: rng.integers(0, 3, (size, 4)).astype(float) for name in "abcd"}
            found = compared(parts)
            assert found.suspicious == ()
            assert max(max(pair.exact) for pair in found.pairs) > 0.5

    def test_with_different_sizes(self) -> None:
        rng = np.random.default_rng(4)
        for _ in range(5):
            parts = {
                name: rng.standard_normal((size, 10))
                for name, size in zip("abc", (30, 300, 1500), strict=True)
            }
            assert compared(parts).suspicious == ()

    def test_two_of_them_alone(self) -> None:
        rng = np.random.default_rng(5)
        for _ in range(20):
            parts = {name: rng.standard_normal((100, 3)).round(1) for name in "ab"}
            assert compared(parts).suspicious == ()

    def test_with_series_whose_rows_hang_together(self) -> None:
        rng = np.random.default_rng(6)
        parts = {name: np.cumsum(rng.standard_normal((400, 5)), axis=0) for name in "abcd"}
        assert compared(parts).suspicious == ()

    @pytest.mark.parametrize("levels", first_fast([3, 6, 10]))
    def test_one_much_larger_where_rows_repeat(self, levels: int) -> None:
        """The small one has few repeats or none, and nearly all its rows are in the large one, by chance."""
        for seed in range(10):
            rng = np.random.default_rng(seed)
            sizes = {"small": 30, "large": 3000}
            parts = {name: rng.integers(0, levels, (size, 3)).astype(float) for name, size in sizes.items()}
            assert compared(parts).suspicious == ()

    def test_with_one_constant_row(self) -> None:
        assert compared({name: np.zeros((100, 3)) for name in "abc"}).suspicious == ()


class TestSketches:
    def test_tell_nothing_without_the_secret(self) -> None:
        rows = np.random.default_rng(0).standard_normal((100, 5))
        one, other = (sketch(Dataset(rows, np.zeros(100)), secret, "a") for secret in (SECRET, SECRET[::-1]))
        assert not np.isin(one.exact, other.exact).any()
        bits = np.unpackbits(one.near ^ other.near, axis=1)
        assert 0.4 < bits.mean() < 0.6
        with pytest.raises(fv.InputError, match="different secrets"):
            compare_rows([one, sketch(Dataset(rows, np.zeros(100)), SECRET[::-1], "b")])

    def test_do_not_tell_the_order_or_the_labels(self) -> None:
        rng = np.random.default_rng(0)
        rows = rng.standard_normal((100, 5))
        order = rng.permutation(100)
        one = sketch(Dataset(rows, np.zeros(100)), SECRET, "a")
        other = sketch(Dataset(rows[order], np.ones(100)), SECRET, "a")
        assert np.array_equal(one.exact, other.exact)
        assert np.array_equal(one.near, other.near)

    def test_files(self, tmp_path: Path) -> None:
        one = sketch(Dataset(np.arange(60.0).reshape(30, 2), np.zeros(30)), SECRET.encode(), "Bonn")
        again = read_sketch(one.save(tmp_path / "bonn.npz"))
        assert (again.name, again.columns, again.key) == (one.name, one.columns, one.key)
        assert np.array_equal(again.exact, one.exact)
        assert np.array_equal(again.near, one.near)

    @pytest.mark.parametrize("content", [b"", b"not a file", b"PK\x03\x04 broken"])
    def test_files_that_are_none(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(fv.InputError, match="not a sketch"):
            read_sketch(tmp_path / "x.npz")

    def test_arrays_of_something_else(self, tmp_path: Path) -> None:
        np.savez(
            tmp_path / "x.npz", about=np.array(["a", "b", "c", "1"]), exact=np.zeros(3), near=np.zeros(3)
        )
        with pytest.raises(fv.InputError, match="not a sketch"):
            read_sketch(tmp_path / "x.npz")

    def test_a_short_secret_is_refused(self) -> None:
        with pytest.raises(fv.InputError, match="at least 16 bytes"):
            sketch(Dataset(np.zeros((3, 2)), np.zeros(3)), "short", "a")

    def test_few_rows_are_not_compared(self) -> None:
        found = compared({"a": np.eye(5), "b": np.eye(5)})
        assert found.pairs == ()
        assert "a was not compared: it has 5 rows" in found.lines()[1]

    def test_one_client_or_the_same_twice(self) -> None:
        one = sketch(Dataset(np.zeros((30, 2)), np.zeros(30)), SECRET, "a")
        for given in ([one], [one, one]):
            with pytest.raises(fv.InputError, match="different names"):
                compare_rows(given)


class TestCommands:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        rng = np.random.default_rng(0)
        rows = {name: rng.standard_normal((60, 4)) for name in ("aachen", "bern", "test")}
        rows["como"] = rows["aachen"] + 0.01 * rng.standard_normal((60, 4))
        (tmp_path / "data").mkdir()
        for name, x in rows.items():
            lines = [",".join([*(f"{v:.6f}" for v in row), "yes" if row.sum() > 0 else "no"]) for row in x]
            (tmp_path / "data" / f"{name}.csv").write_text("\n".join(["a,b,c,d,ill", *lines]))
        return tmp_path / "data"

    def test_the_files_of_a_folder(self, folder: Path) -> None:
        printed = CliRunner().invoke(app, ["data", "overlap", str(folder), "--label", "ill"])
        assert printed.exit_code == 1, printed.output
        assert "aachen and como: near copies." in printed.output
        plain = CliRunner().invoke(app, ["data", "overlap", str(folder), "--label", "ill", "--json"])
        pairs = json.loads(plain.output)["pairs"]
        assert [(p["first"], p["second"]) for p in pairs if p["kind"]] == [("aachen", "como")]

    def test_sketches_by_consent(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("of the clients, not of the operator")
        out = tmp_path / "sketches"
        made = CliRunner().invoke(
            app,
            [
                "data",
                "sketch",
                str(folder),
                "--label",
                "ill",
                "--secret",
                str(tmp_path / "secret"),
                "--out",
                str(out),
            ],
        )
        assert made.exit_code == 0, made.output
        files = sorted(map(str, out.glob("*.npz")))
        assert len(files) == 3
        printed = CliRunner().invoke(app, ["data", "overlap", *files])
        assert printed.exit_code == 1
        assert "aachen and como: near copies." in printed.output
        alone = CliRunner().invoke(app, ["data", "overlap", *files[:2]])
        assert alone.exit_code == 0
        assert "No two clients have more rows in common than chance explains." in alone.output
