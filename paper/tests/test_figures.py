"""Figures: what is drawn is right, words are legible, looks are fixed, files do not change."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marks import first_fast
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.text import Text

from fedvalue.errors import InputError
from fedvalue.estimators import ESTIMATORS
from fedvalue.learners import LEARNERS
from fedvalue.scenarios._partition import PARTITIONS
from fedvalue_paper import names, read
from fedvalue_paper.figures import FigureSpec, draw, save
from fedvalue_paper.figures._axes import LINEAR, Scale, fit_range, fit_scale, log_ticks, shareable
from fedvalue_paper.figures._rows import KINDS, Entry, Spread, entries_of, marks_of, pareto_front
from fedvalue_paper.figures.style import METHODS, in_order, lightness, looks_for
from fedvalue_paper.figures.words import MODELS as MODEL_WORDS
from fedvalue_paper.figures.words import PARTITIONS as PARTITION_WORDS
from fedvalue_paper.figures.words import in_words, number_text
from fedvalue_paper.grid import games_of
from fedvalue_paper.measures import MEASURES
from fedvalue_paper.output import draw_figures

Row = dict[str, Any]
# The labels that the paper's figures and ours show together.
SAMPLED = ["Ext-TMC", "Ext-GTB", "CC-Shapley", "IPSS", "CC-paired", "IPSS-balanced", "surrogate"]
OTHERS = ["Perm-Shapley", "MC-Shapley", "DIG-FL", "GTG-Shapley", "OR", "λ-MR"]
SHOWN = [*OTHERS, *SAMPLED, "equal split"]
# Linear RGB as seen without one kind of cones (Machado et al. 2009).
SEEN = {
    "normal": np.eye(3),
    "deuteranopia": np.array(
        [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    ),
    "protanopia": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "tritanopia": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}


def rows_of(
    labels: Sequence[object], budgets: Sequence[int] = (8, 16, 32, 64), seeds: int = 3, **fixed: object
) -> list[Row]:
    return [
        {
            "label": label,
            "budget": budget,
            "seed": seed,
            "error": (1 + rank + 0.1 * seed) / budget,
            "paper_seconds": budget * (1.0 + rank + 0.1 * seed),
            "extrapolated": label == "Perm-Shapley",
            **fixed,
        }
        for rank, label in enumerate(labels)
        for budget in budgets
        for seed in range(seeds)
    ]


def panels_of(labels: Sequence[object]) -> list[Row]:
    return [row for n in (3, 6, 10) for model in ("MLP", "CNN") for row in rows_of(labels, n=n, model=model)]


def texts(figure: Figure) -> list[Text]:
    """Everything that is written, ticks included."""
    figure.draw_without_rendering()
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]  # type: ignore[attr-defined]


def words(figure: Figure) -> set[str]:
    return {text.get_text() for text in texts(figure)}


def legends(figure: Figure) -> list[Legend]:
    return figure.findobj(Legend)  # type: ignore[return-value]


def shown(names: Sequence[str]) -> set[str]:
    """Names as they stand in a legend."""
    return {f"{name} (ours)" if looks_for([name])[name].ours else name for name in names}


def lines_of(figure: Figure) -> list[Line2D]:
    """The lines of the first panel, without the ends of error bars."""
    return [line for line in figure.axes[0].lines if line.get_marker() not in ("_", "|")]


def whiskers(figure: Figure) -> list[np.ndarray]:
    """Both ends of every error bar."""
    found = [c for axes in figure.axes for c in axes.collections if isinstance(c, LineCollection)]
    return [segment for collection in found for segment in collection.get_segments()]


class TestLooks:
    @pytest.mark.parametrize("name", METHODS)
    def test_a_look_is_found_by_name_and_by_label(self, name: str) -> None:
        label = METHODS[name].label
        assert looks_for([name])[name] is looks_for([label])[label] is METHODS[name]

    def test_there_are_no_looks_of_methods_that_do_not_exist(self) -> None:
        assert set(METHODS) <= set(ESTIMATORS)

    def test_a_method_without_a_look_of_its_own_is_drawn_like_any_series(self) -> None:
        looks = looks_for([*METHODS, "mine"])
        assert looks["mine"].label == "mine"
        assert (looks["mine"].colour, looks["mine"].marker) not in {
            (look.colour, look.marker) for look in METHODS.values()
        }
        spec = FigureSpec(name="own", kind="line", x="budget", y="error", series="label")
        assert "mine" in words(draw(spec, rows_of(["IPSS", "mine"])))

    def test_no_two_methods_look_the_same_without_colour(self) -> None:
        plain = [(lightness(look.colour) // 1, look.marker, look.dash) for look in METHODS.values()]
        assert len(set(plain)) == len({look.label for look in METHODS.values()}) == len(METHODS)

    def test_methods_shown_together_have_their_own_colour_and_marker(self) -> None:
        looks = looks_for(SHOWN).values()
        assert len({look.colour for look in looks}) == len(SHOWN)
        assert len({(look.marker, look.ours) for look in looks}) == len(SHOWN)

    def test_ours_are_told_apart_from_published_methods(self) -> None:
        ours = {name for name, look in METHODS.items() if look.ours}
        assert ours == {"cc-paired", "ipss-balanced", "surrogate", "surrogate-adaptive"}
        lines = lines_of(draw(FigureSpec("f", "line", "budget", "error"), rows_of(["IPSS", "surrogate"])))
        assert [line.get_markerfacecolor() for line in lines] == [METHODS["ipss"].colour, "white"]
        bars = (
            draw(FigureSpec("f", "bars", "budget", "error"), rows_of(["IPSS", "surrogate"]))
            .axes[0]
            .containers
        )
        faces = [to_rgb(bar[0].get_facecolor()[:3]) for bar in bars if isinstance(bar, BarContainer)]
        assert set(faces) == {to_rgb(METHODS["ipss"].colour), (1.0, 1.0, 1.0)}

    def test_designs_of_a_method_have_its_colour(self) -> None:
        names = ["MC-SV", "CC-SV", "MC-SV, paired", "CC-SV, paired", "MC-SV, uniform"]
        assert in_order(names) == ["MC-SV", "MC-SV, paired", "MC-SV, uniform", "CC-SV", "CC-SV, paired"]
        looks = looks_for(names)
        assert looks["MC-SV, paired"].colour == looks["MC-SV, uniform"].colour == looks["MC-SV"].colour
        assert looks["MC-SV, paired"].dash == looks["CC-SV, paired"].dash != looks["MC-SV"].dash
        assert len({look.marker for look in looks.values()}) == len(names)

    def test_lines_shown_together_have_their_own_dashes(self) -> None:
        assert len({look.dash for look in looks_for(SAMPLED).values()}) == len(SAMPLED)

    def test_colours_stay_apart_in_grey(self) -> None:
        greys = sorted(lightness(look.colour) for look in looks_for(SHOWN).values())
        assert np.diff(greys).min() > 2.5
        assert np.diff(sorted(lightness(look.colour) for look in looks_for(SAMPLED).values())).min() > 5
        assert greys[-1] < 82  # still seen on white

    @pytest.mark.parametrize("eye", SEEN)
    def test_colours_stay_apart_for_colour_blind_readers(self, eye: str) -> None:
        seen = [lab(look.colour, SEEN[eye]) for look in looks_for(SHOWN).values()]
        assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > 12

    def test_other_series_get_distinct_looks_in_the_order_given(self) -> None:
        looks = looks_for([*range(40), "IPSS"])
        assert len({(look.colour, look.marker, look.dash) for look in looks.values()}) == 41
        assert looks_for([7, 8])[7].colour == looks_for([7])[7].colour

    def test_order_of_a_legend(self) -> None:
        assert in_order(["surrogate", "IPSS", "Perm-Shapley", "IPSS"]) == [
            "Perm-Shapley",
            "IPSS",
            "surrogate",
        ]
        assert in_order([10, 3, 6, 3]) == [3, 6, 10]
        assert in_order(["MLP", "CNN"]) == ["MLP", "CNN"]


def lab(colour: str, seen: np.ndarray) -> np.ndarray:
    linear = np.array([c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)])
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    relative = xyz @ np.clip(seen @ linear, 0, 1) / (0.9505, 1.0, 1.089)
    f = np.where(relative > 0.008856, np.cbrt(relative), 7.787 * relative + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30)


class TestRows:
    @given(POINTS)
    def test_front_is_what_nothing_dominates(self, points: list[tuple[float, float]]) -> None:
        beaten = {p for p in points for q in points if q != p and q[0] <= p[0] and q[1] <= p[1]}
        assert pareto_front(points) == sorted(set(points) - beaten)

    def test_mean_and_deviation_of_repeats(self) -> None:
        spec = FigureSpec("f", "scatter", "own_x", "own_y")
        entries = [Entry((), "a", 0, x, y) for x, y in ((1.0, 4.0), (2.0, 6.0), (3.0, 8.0))]
        assert marks_of(spec, entries) == [(0, (2.0, 1.0, 3.0), (6.0, 4.0, 8.0))]
        assert marks_of(spec, entries[:1]) == [(0, (1.0, 1.0, 1.0), (4.0, 4.0, 4.0))]

    def test_repeats_are_grouped_by_place(self) -> None:
        entries = [Entry((), "a", x, x, y) for x, y in ((2.0, 1.0), (1.0, 5.0), (2.0, 3.0))]
        marks = marks_of(FigureSpec("f", "line", "budget", "error"), entries)
        assert [(mark.x.mean, mark.y.mean) for mark in marks] == [(1.0, 5.0), (2.0, 2.0)]

    def test_equal_repeats_have_no_spread(self) -> None:
        (mark,) = marks_of(FigureSpec("f", "line", "budget", "error"), [Entry((), "a", 0, 0.1, 0.1)] * 7)
        assert mark.x.low == mark.x.high
        assert mark.y.low == mark.y.high

    @pytest.mark.parametrize(
        ("column", "numbers", "ends"),
        [("error", (0.0, 0.0, 0.9), (0.0, 0.82)), ("skill", (1.0, 1.0, 0.1), (0.18, 1.0))],
    )
    def test_error_bars_end_where_nothing_can_be(
        self, column: str, numbers: tuple[float, ...], ends: tuple[float, float]
    ) -> None:
        entries = [Entry((), "a", 0, 1.0, y) for y in numbers]
        (mark,) = marks_of(FigureSpec("f", "line", "budget", column), entries)
        assert (round(mark.y.low, 2), round(mark.y.high, 2)) == ends

    def test_what_does_not_apply_is_left_out(self) -> None:
        rows = rows_of(["IPSS"], seeds=1)
        for value in (None, math.nan, math.inf, np.nan):
            rows.append({**rows[0], "error": value})
        rows += [{**rows[0], "label": None}, {**rows[0], "budget": None}]
        assert len(entries_of(FigureSpec("f", "line", "budget", "error"), rows)) == 4

    def test_where_takes_a_value_or_a_list(self) -> None:
        def count(**where: object) -> int:
            return len(entries_of(FigureSpec("f", "line", "budget", "error", where=where), rows_of(SHOWN)))

        assert count(label="IPSS") == 12
        assert count(label=["IPSS", "OR"], budget=[8, 16], seed=0) == 4

    def test_only_the_time_of_the_paper_is_extrapolated(self) -> None:
        rows = rows_of(["Perm-Shapley"])
        assert entries_of(FigureSpec("f", "scatter", "paper_seconds", "error"), rows)[0].extrapolated
        assert not entries_of(FigureSpec("f", "line", "budget", "error"), rows)[0].extrapolated


class TestBadInput:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"kind": "pie"}, "line, scatter, bars, front"),
            ({"x_scale": "sqrt"}, "linear, log, symlog"),
            ({"y_scale": "sqrt"}, "linear, log, symlog"),
            ({"band": "iqr"}, "sd, none"),
            ({"panels": "model"}, "list of columns"),
        ],
    )
    def test_unknown_settings(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            FigureSpec(**{"name": "f", "kind": "line", "x": "budget", "y": "error", **settings})

    @pytest.mark.parametrize(
        "settings",
        [
            {"x": "gamma"},
            {"y": "gamma"},
            {"series": "gamma"},
            {"panels": ("gamma",)},
            {"where": {"gamma": 1}},
        ],
    )
    def test_unknown_columns_are_named_with_those_that_exist(self, settings: dict[str, Any]) -> None:
        spec = FigureSpec(**{"name": "f", "kind": "line", "x": "budget", "y": "error", **settings})
        with pytest.raises(InputError, match=r"'f'.*column 'gamma'.*budget, error, extrapolated"):
            draw(spec, rows_of(["IPSS"]))

    @pytest.mark.parametrize("rows", [[], rows_of(["OR"]), [{**rows_of(["IPSS"])[0], "error": None}]])
    def test_nothing_to_draw(self, rows: list[Row]) -> None:
        with pytest.raises(InputError, match="expected rows with numbers"):
            draw(FigureSpec("f", "line", "budget", "error", where={"label": "IPSS"}), rows)

    @pytest.mark.parametrize("value", ["many", True])
    def test_words_for_numbers(self, value: object) -> None:
        with pytest.raises(InputError, match="must hold numbers"):
            draw(FigureSpec("f", "line", "budget", "error"), [{**rows_of(["IPSS"])[0], "error": value}])


def bare(*numbers: float) -> list[Spread]:
    return [Spread(number, number, number) for number in numbers]


class TestAxes:
    @pytest.mark.parametrize("name", ["log", "symlog"])
    def test_zero_has_a_place_on_a_symmetric_logarithmic_axis(self, name: str) -> None:
        numbers = (0.0, 1e-17, 0.012, 1.0)
        scale = fit_scale(name, numbers)
        assert (scale.name, scale.threshold) == ("symlog", 0.01)
        axis = fit_range(scale, bare(*numbers))
        assert axis.low < 0 < 1 < axis.high
        assert axis.ticks is not None
        assert axis.ticks[:2] == (0.0, 0.01)

    def test_what_lies_far_below_everything_else_counts_as_zero(self) -> None:
        assert fit_scale("symlog", [3e-8, 0.02, 0.4]).threshold == 0.01
        assert fit_scale("symlog", [3e-4, 0.02, 0.4]).threshold == 1e-4
        assert fit_scale("symlog", [10.0**-k for k in range(10)]).threshold == 1e-9

    def test_negative_numbers_mirror_the_axis(self) -> None:
        axis = fit_range(fit_scale("log", [-30.0, 0.5]), bare(-30.0, 0.5))
        assert axis.low < -30
        assert axis.ticks is not None
        assert 0.0 in axis.ticks
        assert min(axis.ticks) <= -10

    @given(st.sampled_from([LINEAR, Scale("log"), Scale("symlog", 0.01, 0.7)]), st.floats(1e-6, 1e6))
    def test_places_can_be_turned_into_numbers_again(self, scale: Scale, number: float) -> None:
        assert scale.number(scale.place(number)) == pytest.approx(number)

    def test_a_symmetric_axis_is_the_one_of_matplotlib(self) -> None:
        rows = rows_of(["IPSS"], seeds=1) + rows_of(["MC-Shapley"], error=0.0)
        axes = draw(FigureSpec("f", "line", "budget", "error", y_scale="symlog"), rows).axes[0]
        assert axes.get_yscale() == "symlog"
        scale = fit_scale("symlog", [row["error"] for row in rows])
        theirs = axes.yaxis.get_transform().transform(np.array([0.0, 0.005, 0.01, 0.03, 0.1]))
        ours = np.array([scale.place(number) for number in (0.0, 0.005, 0.01, 0.03, 0.1)])
        assert np.allclose(theirs / theirs[-1], ours / ours[-1])
        assert any(line.get_ydata() == [0.0, 0.0] for line in axes.lines)  # 0 is marked

    def test_a_deviation_larger_than_the_mean_does_not_stretch_a_logarithmic_axis(self) -> None:
        axis = fit_range(Scale("log"), [Spread(0.1, 0.0, 0.4), Spread(0.5, 0.4, 0.6)])
        assert axis.low > 0.01

    @pytest.mark.parametrize("value", [0.0, 0.3, -0.3, 1e9, 1e-9])
    def test_one_value_gets_an_axis_around_it(self, value: float) -> None:
        for name in ("linear", "log", "symlog"):
            axis = fit_range(fit_scale(name, [value]), bare(value))
            assert axis.low < value < axis.high

    @given(st.floats(1e-9, 1e9), st.floats(1.01, 1e9))
    def test_logarithmic_ticks_are_few_and_inside(self, low: float, factor: float) -> None:
        ticks = log_ticks(low, low * factor)
        assert 1 <= len(ticks) <= 8
        assert ticks == sorted(ticks)
        assert factor < 3 or all(0.99 * low <= tick <= 1.01 * low * factor for tick in ticks)

    def test_few_values_of_x_are_the_ticks(self) -> None:
        spreads = bare(16, 32, 64)
        assert fit_range(Scale("log"), spreads, (16, 32, 64)).ticks == (16, 32, 64)
        assert fit_range(LINEAR, spreads, (16, 32, 64)).ticks is None
        assert fit_range(LINEAR, spreads, (20, 40, 60)).ticks == (20, 40, 60)

    def test_panels_share_an_axis_unless_one_would_be_squeezed(self) -> None:
        assert shareable(LINEAR, [[0, 1], [0.5, 2]])
        assert not shareable(LINEAR, [[0, 1], [0, 100]])
        assert shareable(Scale("log"), [[1, 10], [1, 100]])

    def test_an_axis_writes_its_numbers_in_one_way(self) -> None:
        rows = [{"label": "IPSS", "n": n, "variance": 10.0**-n} for n in (1, 2, 3, 4, 5)]
        axes = draw(FigureSpec("f", "line", "n", "variance", y_scale="log"), rows).axes[0]
        ticks = [tick.get_text() for tick in axes.get_yticklabels()]
        assert ticks == ["10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹"]

    def test_numbers(self) -> None:
        assert [number_text(v) for v in (0.1 + 0.2, 1500, 2.5e-7, -3)] == ["0.3", "1500", "2.5·10⁻⁷", "−3"]


class TestWords:
    def test_every_partition_and_model_has_words(self) -> None:
        assert set(PARTITIONS) <= set(PARTITION_WORDS)
        assert set(LEARNERS) <= set(MODEL_WORDS)

    def test_titles_ticks_and_legend_are_words(self) -> None:
        rows = [
            row
            for partition, model in product(PARTITION_WORDS, MODEL_WORDS)
            for row in rows_of(["IPSS"], (8,), 1, partition=partition, model=model, n=3)
        ]
        said = words(draw(FigureSpec("f", "bars", "partition", "error", panels=("model", "n")), rows))
        said |= words(draw(FigureSpec("f", "bars", "model", "error", series="partition"), rows))
        assert {"MLP, 3 clients", "MLP", "Noisy labels"} <= said
        assert not said & {*PARTITION_WORDS, *MODEL_WORDS}
        assert not any(" = " in text for text in said)

    def test_what_has_no_words_is_shown_as_it_is(self) -> None:
        assert in_words("model", "my-net") == "my-net"
        assert in_words("partition", "size+mine") == "Different size, same distribution, mine"

    def test_labels_of_axes_have_words_unless_given(self) -> None:
        axes = draw(FigureSpec("f", "line", "budget", "error"), rows_of(["IPSS"])).axes[0]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("γ, coalitions evaluated", "Relative error")
        spec = FigureSpec("f", "line", "budget", "error", x_label="mine", y_label="my own")
        axes = draw(spec, rows_of(["IPSS"])).axes[0]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("mine", "my own")


class TestDrawing:
    @pytest.mark.parametrize("kind", first_fast(KINDS, keep=2))
    @pytest.mark.parametrize(
        "panels", first_fast([(), pytest.param(("model", "n"), marks=pytest.mark.slow)], keep=2)
    )
    @pytest.mark.parametrize("count", first_fast([2, 6, pytest.param(13, marks=pytest.mark.slow)], keep=2))
    def test_every_series_is_named_without_overlap_inside_the_picture(
        self, kind: str, panels: tuple[str, ...], count: int
    ) -> None:
        names = SHOWN[-count:]
        spec = FigureSpec("f", kind, "budget", "error", panels=panels, x_scale="log", y_scale="log")
        figure = draw(spec, panels_of(names) if panels else rows_of(names))
        (legend,) = legends(figure)
        assert {text.get_text() for text in legend.get_texts()} == shown(names)
        width, height = figure.canvas.get_width_height()
        said = texts(figure)
        for text in said:
            left, bottom, right, top = Text.get_window_extent(text).extents
            assert -1 <= left <= right <= width + 1, text
            assert -1 <= bottom <= top <= height + 1, text
        boxes = [(text, Text.get_window_extent(text)) for text in said]
        for (one, box), (other, beside) in combinations(boxes, 2):
            wide = min(box.x1, beside.x1) - max(box.x0, beside.x0)
            high = min(box.y1, beside.y1) - max(box.y0, beside.y0)
            assert wide < 1 or high < 1, (one, other)

    def test_lines_show_means_and_error_bars(self) -> None:
        figure = draw(FigureSpec("f", "line", "budget", "error"), rows_of(["IPSS"]))
        (line,) = lines_of(figure)
        assert line.get_color() == METHODS["ipss"].colour
        assert np.allclose(line.get_xydata(), [(b, 1.1 / b) for b in (8, 16, 32, 64)])
        assert len(whiskers(figure)) == 4
        bare = draw(FigureSpec("f", "line", "budget", "error", band="none"), rows_of(["IPSS"]))
        assert whiskers(bare) == []

    @pytest.mark.parametrize("kind", KINDS)
    def test_partitions_and_trainings_are_averaged_and_nothing_is_drawn_twice(self, kind: str) -> None:
        names = ["Ext-TMC", "IPSS", "equal split"]
        spec = FigureSpec("f", kind, "budget", "error", y_scale="log")
        once = draw(spec, rows_of(names))
        rows = [
            {**row, "game_seed": g, "training_seed": t, "error": row["error"] * (1 + 0.2 * g + 0.1 * t)}
            for row, g, t in product(rows_of(names), range(3), range(2))
        ]
        several = draw(spec, rows)
        assert words(several) >= shown(names)
        for kind_of in ("lines", "collections", "patches"):
            assert len(getattr(several.axes[0], kind_of)) == len(getattr(once.axes[0], kind_of))
        assert len(whiskers(several)) == len(whiskers(once))
        longest = [max(np.ptp(segment[:, 1]) for segment in whiskers(figure)) for figure in (once, several)]
        assert longest[1] > longest[0]  # the spread over them is shown

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("scale", ["linear", "symlog"])
    def test_error_bars_of_errors_do_not_go_below_zero(self, kind: str, scale: str) -> None:
        rows = [{**row, "error": 2.0 * (row["seed"] == 0)} for row in rows_of(["IPSS", "surrogate"], seeds=9)]
        ends = whiskers(draw(FigureSpec("f", kind, "budget", "error", y_scale=scale), rows))
        assert ends
        assert min(segment[:, 1].min() for segment in ends) == 0.0

    def test_a_level_that_means_something_is_marked(self) -> None:
        rows = [{"label": "IPSS", "n": n, "skill": 0.1 * n} for n in (3, 4)]
        axes = draw(FigureSpec("f", "line", "n", "skill"), rows).axes[0]
        assert [0.0, 0.0] in [list(line.get_ydata()) for line in axes.lines]
        assert axes.get_ylim()[0] < 0

    def test_bars_need_a_zero_to_stand_on(self) -> None:
        def bars(scale: str) -> int:
            figure = draw(FigureSpec("f", "bars", "budget", "error", y_scale=scale), rows_of(["IPSS", "OR"]))
            return sum(isinstance(found, BarContainer) for found in figure.axes[0].containers)

        assert (bars("linear"), bars("symlog"), bars("log")) == (8, 8, 0)
        below = [{"label": "IPSS", "n": n, "gap": -5.0 - n} for n in (3, 4)]
        low, high = draw(FigureSpec("f", "bars", "n", "gap"), below).axes[0].get_ylim()
        assert low < -9 < 0 < high

    def test_the_equal_split_is_a_quiet_line(self) -> None:
        for kind in KINDS:
            spec = FigureSpec("f", kind, "label" if kind == "bars" else "budget", "error")
            rows = rows_of(["IPSS", "equal split"])
            lines = [
                line for line in draw(spec, rows).axes[0].lines if line.get_color() == METHODS["equal"].colour
            ]
            assert [line.get_marker() in ("", "None") for line in lines] == [True]

    def test_a_front_goes_on_to_the_edge_and_never_rises(self) -> None:
        axes = draw(FigureSpec("f", "front", "budget", "error"), rows_of(["IPSS"])).axes[0]
        (step,) = [line for line in axes.lines if line.get_drawstyle() == "steps-post"]
        xs, ys = step.get_xdata(), step.get_ydata()
        assert xs[-1] == axes.get_xlim()[1]
        assert (np.diff(ys) <= 0).all()

    @pytest.mark.slow
    def test_extrapolated_times_are_marked(self) -> None:
        spec = FigureSpec("f", "scatter", "paper_seconds", "error")
        said = words(draw(spec, rows_of(SHOWN)))
        assert {"Perm-Shapley*", "IPSS", "Time (s), trained one by one  (* extrapolated)"} <= said

    def test_panels_are_named_in_order(self) -> None:
        figure = draw(
            FigureSpec("f", "line", "budget", "error", panels=("model", "n")), panels_of(["IPSS"])[::-1]
        )
        titles = [axes.get_title("left") for axes in figure.axes]
        assert titles == [f"{model}, {n} clients" for model in ("CNN", "MLP") for n in (3, 6, 10)]

    @pytest.mark.slow
    def test_the_users_own_matplotlib_settings_change_nothing(self, tmp_path: Path) -> None:
        spec = FigureSpec("f", "line", "budget", "error")
        plain = save(draw(spec, rows_of(SAMPLED)), tmp_path / "a")
        with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "black", "text.color": "red"}):
            own = save(draw(spec, rows_of(SAMPLED)), tmp_path / "b")
            assert matplotlib.rcParams["font.size"] == 20
        assert [p.read_bytes() for p in plain] == [p.read_bytes() for p in own]


HOSTILE = [
    "$x_1$ \\alpha",
    "a_name_that_" + "goes_on_" * 12,
    "<svg>&\"'",
    "数据\n提供者",
    "$",
    "{",
    "IPSS",
    "",
]


@pytest.mark.slow
class TestHostile:
    @pytest.mark.parametrize("kind", KINDS)
    def test_names_are_taken_literally(self, kind: str, tmp_path: Path) -> None:
        spec = FigureSpec(
            "f",
            kind,
            "budget",
            "error",
            x_label="γ_{max}$",
            y_label="$\\frac{" * 9,
            panels=("who",),
        )
        figure = draw(spec, rows_of(HOSTILE, who="$_$") + rows_of(HOSTILE, who="x" * 200))
        assert "$x_1$ \\alpha" in words(figure)
        assert all(path.stat().st_size > 1000 for path in save(figure, tmp_path / "f"))

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("scale", ["linear", "log", "symlog"])
    @pytest.mark.parametrize("error", [0.0, 0.3, 1e-17])
    def test_one_point_and_equal_values(self, kind: str, scale: str, error: float, tmp_path: Path) -> None:
        spec = FigureSpec("f", kind, "budget", "error", x_scale=scale, y_scale=scale)
        for rows in (rows_of(["IPSS"], (8,), 1, error=error), rows_of(SHOWN, (8,), 3, error=error)):
            assert len(save(draw(spec, rows), tmp_path / "f")) == 3

    @pytest.mark.parametrize("kind", KINDS)
    def test_zeros_among_others_on_a_logarithmic_axis(self, kind: str) -> None:
        rows = rows_of(["IPSS", "OR"]) + rows_of(["MC-Shapley"], error=0.0)
        figure = draw(FigureSpec("f", kind, "budget", "error", x_scale="log", y_scale="log"), rows)
        assert "0" in [tick.get_text() for tick in figure.axes[0].get_yticklabels()]

    @pytest.mark.parametrize("kind", KINDS)
    def test_very_many_series_get_a_legend(self, kind: str) -> None:
        figure = draw(
            FigureSpec("f", kind, "budget", "error"), rows_of([f"s{i}" for i in range(40)], (8, 16), 1)
        )
        assert {f"s{i}" for i in range(40)} <= words(figure)

    def test_a_series_missing_from_a_panel(self) -> None:
        rows = rows_of(["IPSS", "OR"], n=3) + rows_of(["IPSS"], n=6)
        assert {"IPSS", "OR"} <= words(draw(FigureSpec("f", "line", "budget", "error", panels=("n",)), rows))


class TestFiles:
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", first_fast(KINDS))
    def test_the_same_rows_give_the_same_bytes(self, kind: str, tmp_path: Path) -> None:
        spec = FigureSpec("f", kind, "budget", "error", y_scale="log")
        first = save(draw(spec, rows_of(SAMPLED)), tmp_path / "new" / "a.b")
        second = save(draw(spec, rows_of(SAMPLED)), tmp_path / "c")
        assert [path.name for path in first] == ["a.b.png", "a.b.svg", "a.b.pdf"]
        assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
        for path in first:
            assert not re.search(rb"date|20\d\d-\d\d", path.read_bytes().lower().split(b"stream")[0])

    @pytest.mark.slow
    def test_text_stays_text(self, tmp_path: Path) -> None:
        _, svg, pdf = save(draw(FigureSpec("f", "line", "budget", "error"), rows_of(SAMPLED)), tmp_path / "f")
        assert {"IPSS", "surrogate (ours)", "Relative error"} <= texts_of(svg)
        assert b"/FontFile2" in pdf.read_bytes()  # embedded TrueType

    def test_pictures_are_as_wide_as_a_column_or_the_page(self) -> None:
        spec = FigureSpec("f", "line", "budget", "error")
        assert draw(spec, rows_of(SAMPLED)).get_figwidth() == 3.5
        wide = FigureSpec("f", "line", "budget", "error", panels=("n",))
        assert draw(wide, panels_of(SAMPLED)).get_figwidth() == 7.16


def texts_of(svg: Path) -> set[str]:
    return set(re.findall(r"<text[^>]*>([^<]*)</text>", svg.read_text(encoding="utf-8")))


def made_up(experiment: Any) -> list[Row]:
    """Rows as an experiment might leave them: every method on every game, over two partitions and trainings."""
    rows = []
    for game, (rank, listed) in product(games_of(experiment), enumerate(experiment.methods)):
        for run, seed in product(range(4), range(2)):
            number = (rank + 1) * (1 + 0.3 * seed) / (run + 1) * (0.0 if listed.name == "exact" else 1.0)
            rows.append(
                {
                    "partition": game.get("partition", "writer"),
                    "model": game.get("model", "mlp"),
                    "n": game.n,
                    "samples": game.get("samples", 20),
                    "method": listed.name,
                    "label": listed.label,
                    "budget": 8 << run,
                    "k": run + 1,
                    "seed": seed,
                    "game_seed": run % 2,
                    "training_seed": seed,
                    "extrapolated": False,
                    **game.options,
                    **{name: number for name in MEASURES if name not in ("n", "k", "samples")},
                    "skill": 1 - number,
                    "variance": number,
                    "error_variance": number,
                    "paper_seconds": 0.1 + number,
                    "wall_seconds": 0.1 + number,
                }
            )
    return rows


# Where everything that is good lies near 0.
SYMLOG = {
    "motivation": ["time-error", "wall-error"],
    "key-combinations": ["error"],
    "synthetic": ["error"],
    "femnist": ["error"],
    "adult": ["error"],
    "sent140": ["error"],
    "pareto": ["front"],
    "scalability": ["free-riders", "copies"],
    "variance": ["variance", "error-variance", "error"],
    "theory": ["truncation"],
}
DRAWN = [
    (name, variant)
    for name in names()
    for variant in ("", *read(name).variants)
    if read(name).at("paper").figures
]


@pytest.mark.parametrize(
    ("name", "variant"), first_fast(sorted(DRAWN, key=lambda case: case[0] != "key-combinations"))
)
def test_figures_of_the_paper(name: str, variant: str, tmp_path: Path) -> None:
    experiment = read(name).at("paper", variant)
    paths = draw_figures(experiment, made_up(experiment), tmp_path)
    stems = [given["name"] for given in experiment.figures]
    assert [path.name for path in paths] == [
        f"{stem}.{kind}" for stem in stems for kind in ("png", "svg", "pdf")
    ]
    raw = {*PARTITION_WORDS, *MODEL_WORDS, *METHODS} - {look.label for look in METHODS.values()}
    for path in paths[1::3]:
        said = texts_of(path)
        assert not said & raw
        assert not any(" = " in text or "_" in text for text in said)
        assert path.read_text(encoding="utf-8").count('id="legend_1"') == 1
        assert 'id="legend_2"' not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "variant"), DRAWN)
def test_values_near_zero_are_on_symmetric_logarithmic_axes(name: str, variant: str) -> None:
    figures = read(name).at("paper", variant).figures
    found = {given["name"] for given in figures if given.get("y_scale") == "symlog"}
    assert found == {given["name"] for given in figures} & {*SYMLOG.get(name, ())}
