"""Values: what they hold, how they are written down and shown."""

from __future__ import annotations

import json
from io import StringIO

import numpy as np
import pytest
from cases import CASES, Case
from rich.console import Console
from scipy import stats

import fedvalue as fv
from fedvalue.testing.games import additive, random_table


def some_values(**changes: object) -> fv.Values:
    fields: dict = {"mean": [3.0, -1.0], "names": ("a", "b"), "method": "cc", "evaluations": 8}
    return fv.Values(**(fields | changes))


def rendered(values: fv.Values, width: int = 100) -> str:
    written = StringIO()
    Console(file=written, width=width, color_system=None).print(values.table())
    return written.getvalue()


class TestInterval:
    def test_none_without_a_standard_error(self) -> None:
        assert some_values().interval() is None

    @pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
    @pytest.mark.parametrize("dof", [None, [3.0, 3.0]])
    def test_it_is_students_with_the_degrees_of_freedom_or_normal(
        self, level: float, dof: list | None
    ) -> None:
        interval = some_values(stderr=[0.5, 2.0], dof=dof).interval(level)
        law = stats.norm if dof is None else stats.t(3)
        assert interval is not None
        assert interval[0] == pytest.approx(law.interval(level) * np.array(0.5) + 3.0)
        assert interval[1] == pytest.approx(law.interval(level) * np.array(2.0) - 1.0)

    @pytest.mark.parametrize("level", [0, 1, -0.5, 95])
    def test_an_impossible_level_is_refused(self, level: float) -> None:
        with pytest.raises(fv.InputError, match="between 0 and 1"):
            some_values(stderr=[0.5, 2.0]).interval(level)


class TestShape:
    @pytest.mark.parametrize("field", ["mean", "stderr", "dof"])
    @pytest.mark.parametrize("wrong", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]]])
    def test_one_number_per_name_is_needed(self, field: str, wrong: list) -> None:
        with pytest.raises(fv.InputError, match=rf"Values\.{field}"):
            some_values(**{field: wrong})

    def test_shares_add_up_to_one_and_are_undefined_where_the_sum_is_zero(self) -> None:
        assert some_values().share.tolist() == [1.5, -0.5]
        assert np.isnan(some_values(mean=[1.0, -1.0]).share).all()
        assert np.isnan(some_values(mean=[0.1 + 0.2, -0.3]).share).all()  # 5e-17 is rounding, no sum

    def test_fields_cannot_be_replaced(self) -> None:
        with pytest.raises(AttributeError):
            some_values().mean = np.zeros(2)  # type: ignore[misc]


class TestJson:
    @pytest.mark.parametrize("game", [random_table(5, 2), additive()], ids=str)
    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_every_result_survives_a_round_trip_through_strict_json(self, case: Case, game) -> None:
        budget = None if "exact" in case.method else max(28, case.minimum(5))
        values = case.run(game.table, budget, seed=3)
        text = json.dumps(values.to_dict(), allow_nan=False)
        again = fv.Values.from_dict(json.loads(text))
        assert again.to_dict() == values.to_dict()
        assert again.names == values.names
        assert again.mean.tolist() == values.mean.tolist()

    @pytest.mark.parametrize("data", [{}, {"format": "other"}, [], None, "text"])
    def test_something_else_is_refused(self, data: object) -> None:
        with pytest.raises(fv.InputError, match="format"):
            fv.Values.from_dict(data)  # type: ignore[arg-type]

    @pytest.mark.parametrize("missing", ["mean", "names", "method", "evaluations"])
    def test_what_is_missing_is_named(self, missing: str) -> None:
        data = some_values().to_dict()
        del data[missing]
        with pytest.raises(fv.InputError, match=missing):
            fv.Values.from_dict(data)

    def test_an_unknown_field_is_refused(self) -> None:
        with pytest.raises(fv.InputError, match="colour"):
            fv.Values.from_dict(some_values().to_dict() | {"colour": "red"})


class TestTable:
    def test_it_shows_names_values_uncertainty_and_shares(self) -> None:
        text = rendered(some_values(stderr=[0.5, 0.25]))
        for expected in ("Data value by cc", "a", "+3.0000", "0.9800", "150.0%", "-1.0000", "0.4900", "█"):
            assert expected in text

    def test_markup_in_names_is_shown_literally(self) -> None:
        names = ("[red]x[/red]", "[/]", "[link=http://a]b")
        text = rendered(some_values(mean=[1.0, 2.0, 3.0], names=names))
        assert all(name in text for name in names)

    def test_bars_are_as_long_as_the_values(self) -> None:
        lines = rendered(some_values(mean=[4.0, 2.0, 0.0], names=("a", "b", "c"))).splitlines()
        bars = [line.count("█") for line in lines if "%" in line and "±" not in line]
        assert bars == [24, 12, 0]

    def test_negative_bars_go_left_from_an_axis(self) -> None:
        lines = rendered(some_values(mean=[4.0, -2.0, 0.0], names=("a", "b", "c"))).splitlines()
        bars = [line.split("│")[-3:-1] for line in lines if "%" in line and "±" not in line]
        assert [(left.count("█"), right.count("█")) for left, right in bars] == [(0, 16), (8, 0), (0, 0)]
        assert bars[1][0].rstrip(" ").endswith("█")

    def test_bars_without_unicode(self) -> None:
        column = some_values(mean=[4.0, -2.0], names=("a", "b")).table(unicode=False).columns[-1]
        assert [str(cell) for cell in column.cells] == [f"{'':8}|{16 * '#'}", f"{8 * '#'}|"]

    @pytest.mark.parametrize("mean", [[0.0, 0.0], [1.0, -1.0]])
    def test_values_that_sum_to_zero_have_no_share(self, mean: list[float]) -> None:
        assert "nan" not in rendered(some_values(mean=mean))
