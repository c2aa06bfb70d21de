"""What test rows say, packed: nothing is lost that matters, and nothing grows without bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.errors import InputError
from fedvalue.outcome import Outcome
from fedvalue.per_row import BLOCKS, MOST_ROWS, PerRow, blocks_of

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200)


@given(NUMBERS)
def test_numbers_come_back_to_a_thousandth_of_their_spread(numbers: list[float]) -> None:
    packed, array = PerRow.of(numbers), np.array(numbers)
    spread = np.abs(array - array.mean()).max()
    assert packed.array() == pytest.approx(array, abs=1e-3 * spread + 1e-9)
    assert packed.problem() is None
    assert PerRow.from_plain(packed.to_plain()) == packed


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=100))
def test_bits_come_back_exactly(bits: list[float]) -> None:
    packed = PerRow.of(bits)
    assert packed.kind == "bits"
    assert packed.array().tolist() == bits
    assert len(packed.data) == -(-len(bits) // 8)


@given(st.integers(2, 300), st.booleans())
def test_parts_of_them_are_parts_of_the_whole(length: int, bits: bool) -> None:
    numbers = np.random.default_rng(length).normal(size=length)
    packed = PerRow.of(numbers > 0 if bits else numbers)
    pieces = [packed.array(start, start + 16) for start in range(0, length, 16)]
    assert np.concatenate(pieces).tolist() == packed.array().tolist()


@pytest.mark.parametrize("rows", [1, 2, 63, 64, 65, 100, 1_000])
def test_every_row_is_in_one_block(rows: int) -> None:
    table = blocks_of(rows)
    assert len(table) == min(rows, BLOCKS)
    assert sorted(table[table < rows].tolist()) == list(range(rows))
    sizes = (table < rows).sum(1)
    assert sizes.max() - sizes.min() <= 1


def test_many_rows_are_put_into_blocks_with_the_same_mean_and_error() -> None:
    rng = np.random.default_rng(3)
    errors = []
    for _ in range(40):
        numbers = rng.normal(5.0, 2.0, MOST_ROWS + 17)
        packed = PerRow.of(numbers)
        assert (packed.length, packed.rows, len(packed.data)) == (BLOCKS, MOST_ROWS + 17, 144)
        assert packed.mean == pytest.approx(numbers.mean(), abs=1e-4)
        errors.append(packed.stderr**2)
    assert np.sqrt(np.mean(errors)) == pytest.approx(2.0 / np.sqrt(MOST_ROWS + 17), rel=0.1)


def test_the_largest_is_as_large_as_stated() -> None:
    assert len(PerRow.of(np.linspace(0, 2, MOST_ROWS)).data) == 32_784
    assert len(PerRow.of(np.arange(MOST_ROWS) % 2).data) == 2_048


def test_numbers_that_do_not_vary() -> None:
    assert PerRow.fixed(0.25).array().tolist() == [0.25]
    assert PerRow.fixed(0.25).stderr == 0
    assert not PerRow.fixed(0.25).varies
    assert PerRow.error(0.5).stderr == 0.5
    assert PerRow.of([0.3, 0.3]).stderr == 0


@pytest.mark.parametrize("wrong", [[], [[1.0]], [np.nan], 3.0, ["a"]])
def test_what_is_no_vector_of_numbers_is_refused(wrong: object) -> None:
    with pytest.raises(InputError, match="What test rows say must"):
        PerRow.of(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "damaged",
    [
        PerRow("bits", 9, b"x"),
        PerRow("half", 2, b"x" * 19),
        PerRow("other", 1, b"x"),
        PerRow("bits", 0, b""),
        PerRow("fixed", 1, PerRow.fixed(np.inf).data),
        PerRow("error", 1, PerRow.fixed(-1.0).data),
        PerRow("bits", "9", b"xx"),  # type: ignore[arg-type]
    ],
)
def test_damage_is_noticed(damaged: PerRow) -> None:
    assert damaged.problem()


def test_outcomes_travel_as_json_does() -> None:
    import json

    outcome = Outcome({"accuracy": 0.5}, 1.5, "local", "cpu", {"accuracy": PerRow.of([0, 1])})
    assert Outcome.from_plain(json.loads(json.dumps(outcome.to_plain()))) == outcome
    assert Outcome.from_plain(Outcome({"utility": 1.0}).to_plain()) == Outcome({"utility": 1.0}, rows={})
