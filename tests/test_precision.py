"""What intervals are made of and what would narrow them, where a game has a limited number of seeds."""

from __future__ import annotations

import numpy as np
import pytest

import fedvalue as fv

ROWS = np.sqrt([mask.bit_count() for mask in range(64)]) + np.random.default_rng(0).normal(0, 0.02, (4, 64))


def test_a_table_that_is_used_up_needs_further_seeds() -> None:
    values = fv.value(fv.TableGame(ROWS), "exact")
    assert (values.evaluations, values.most_seeds) == (252, 4)
    assert values.advice()[0].endswith(
        "every training of the 4 seeds that this game has is used; about 16 seeds instead would halve it."
    )
    remedy = values.remedy()
    assert remedy is not None
    assert (remedy.trainings, remedy.at_most) == (None, 0.0)


def test_what_is_left_of_a_table_is_said_with_what_it_buys() -> None:
    values = fv.value(fv.TableGame(ROWS), budget=240, seed=0)
    gain = values.expected_gain(12)
    assert gain is not None
    assert (
        f"12 trainings with the 4 seeds that this game has are left, and would narrow it by about {gain:.0%}"
        in (values.advice()[0])
    )


def test_trainings_that_a_table_has_are_advised_as_ever() -> None:
    values = fv.value(fv.TableGame(ROWS), budget=20, seed=0)
    remedy = values.remedy()
    assert remedy is not None
    assert remedy.trainings is not None
    assert f"{remedy.trainings} more trainings" in values.advice()[0]


def test_the_limit_is_kept_in_files() -> None:
    values = fv.value(fv.TableGame(ROWS), budget=64, seed=0)
    assert fv.Values.from_dict(values.to_dict()).most_seeds == 4
    assert fv.value(fv.TableGame(ROWS[0]), budget=20).most_seeds is None


def test_what_no_number_of_trainings_halves_needs_test_rows_as_well() -> None:
    """Test rows are a quarter of the widest variance, but less of all together."""
    values = fv.Values(
        [1.0, 1.0],
        ["a", "b"],
        "surrogate",
        100,
        stderr=np.sqrt([1.0, 0.9]),
        parts={"coalitions": np.diag([0.7, 0.8]), "test": np.diag([0.3, 0.1])},
        test_rows=500,
        seeds=8,
    )
    assert values.expected_gain(10**9) == pytest.approx(1 - np.sqrt(0.3), abs=1e-3)
    assert values.advice()[0] == (
        "The ± is mostly coalitions that were not trained (79% of the variance): more trainings alone would narrow it by "
        "45% at most; 300 more and four times as many test rows would halve it."
    )
