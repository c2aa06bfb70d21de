"""Tables of several seeds: what `fedvalue store export` writes, and what reads it back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.games import read_table
from fedvalue.store import export

ROWS = np.sqrt([mask.bit_count() for mask in range(8)]) + np.random.default_rng(0).normal(0, 0.1, (3, 8))


def stored(path: Path, trained: Sequence[tuple[int, int]], metric: str = "accuracy") -> Path:
    """A store with these trainings of the table, each a coalition and a seed."""
    with fv.UtilityStore(path) as store:
        store.register("game", 3)
        for mask, seed in trained:
            store.append("game", [(mask, fv.Outcome({metric: float(ROWS[seed, mask])}))], seed)
    return path


def exported(path: Path) -> tuple[int, Path]:
    out = path.with_suffix(".npz")
    with fv.UtilityStore(path, create=False) as store:
        return export(store, "game", out), out


def test_complete_seeds_are_rows_that_can_be_valued(tmp_path: Path) -> None:
    every = [(mask, seed) for seed in range(3) for mask in range(8)]
    written, out = exported(stored(tmp_path / "s.db", every))
    assert written == 24
    with np.load(out) as arrays:
        assert arrays["utilities"].tolist() == arrays["accuracy"].tolist() == ROWS.tolist()
        assert arrays["seeds"].tolist() == [0, 1, 2]
    game = read_table(out)
    assert game.seeds == 3
    assert fv.value(game, "exact").mean == pytest.approx(fv.value(fv.TableGame(ROWS), "exact").mean)
    compared = CliRunner().invoke(
        app, ["compare", "--table", str(out), "--methods", "surrogate", "--budget", "8"]
    )
    assert compared.exit_code == 0, compared.output


def test_a_seed_without_its_untrained_model_is_complete(tmp_path: Path) -> None:
    known = [(0, 0), *((mask, seed) for seed in range(2) for mask in range(1, 8))]
    _, out = exported(stored(tmp_path / "s.db", known))
    with np.load(out) as arrays:
        assert arrays["utilities"][:, 0].tolist() == [ROWS[0, 0]] * 2
        assert arrays["utilities"][:, 1:].tolist() == ROWS[:2, 1:].tolist()


def test_of_one_complete_seed_and_parts_of_others_the_complete_one_is_the_table(tmp_path: Path) -> None:
    known = [*((mask, 1) for mask in range(8)), (3, 0), (7, 2)]
    written, out = exported(stored(tmp_path / "s.db", known))
    assert written == 8
    with np.load(out) as arrays:
        assert arrays["utilities"].tolist() == ROWS[1].tolist()
        assert "seeds" not in arrays.files


def test_lower_is_better_with_several_seeds_too(tmp_path: Path) -> None:
    every = [(mask, seed) for seed in range(2) for mask in range(8)]
    _, out = exported(stored(tmp_path / "s.db", every, "loss"))
    with np.load(out) as arrays:
        assert arrays["utilities"].tolist() == (-ROWS[:2]).tolist()
        assert arrays["loss"].tolist() == ROWS[:2].tolist()


class TestGaps:
    KNOWN = ((0, 0), (1, 0), (7, 0), (2, 2), (5, 2), (7, 2))

    def test_what_was_not_trained_is_nan(self, tmp_path: Path) -> None:
        written, out = exported(stored(tmp_path / "s.db", self.KNOWN))
        with np.load(out) as arrays:
            table = arrays["utilities"]
            assert arrays["seeds"].tolist() == [0, 2]
        assert table.shape == (2, 8)
        assert np.argwhere(np.isfinite(table)).tolist() == [
            [0, 0], [0, 1], [0, 7], [1, 0], [1, 2], [1, 5], [1, 7],
        ]  # fmt: skip
        assert (written, table[1, 5]) == (7, ROWS[2, 5])

    def test_such_a_table_is_refused_in_one_sentence(self, tmp_path: Path) -> None:
        _, out = exported(stored(tmp_path / "s.db", self.KNOWN))
        with pytest.raises(
            fv.InputError, match=r"needs all coalitions with every seed.* 9 of 16 are missing"
        ):
            read_table(out)

    def test_the_command_says_so(self, tmp_path: Path) -> None:
        path = stored(tmp_path / "s.db", self.KNOWN)
        found = CliRunner().invoke(
            app, ["store", "export", str(path), "game", "--out", str(tmp_path / "o.npz")]
        )
        assert found.exit_code == 0, found.output
        text = " ".join(found.stdout.split())
        assert "a row for each of 2 seeds" in text
        assert "9 of 16 entries are NaN, and --table does not take such a file" in text

    def test_one_seed_with_gaps_is_no_table(self, tmp_path: Path) -> None:
        with pytest.raises(fv.InputError, match="full table of 8 coalitions"):
            exported(stored(tmp_path / "s.db", self.KNOWN[:3]))
