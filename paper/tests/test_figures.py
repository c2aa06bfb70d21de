"""Figures: what is drawn is right, names do not overlap, looks are fixed, files do not change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from fedvalue.errors import InputError
from fedvalue.estimators import ESTIMATORS
from fedvalue_paper.figures import FigureSpec, draw, save
from fedvalue_paper.figures._axes import fit_range, log_ticks, number_text, shareable
from fedvalue_paper.figures._labels import Box, overlapping, place_around, spread_apart
from fedvalue_paper.figures._rows import KINDS, Entry, entries_of, mark_of, marks_by_x, pareto_front
from fedvalue_paper.figures.style import METHODS, in_order, lightness, looks_for

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


def boxes_of(figure: Figure, names: Sequence[str]) -> list[Box]:
    return [Box(*Text.get_window_extent(text).extents) for text in texts(figure) if text.get_text() in names]


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
        assert len({look.colour for look in looks}) == len({look.marker for look in looks}) == len(SHOWN)

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

    def test_text_is_dark_enough_to_read(self) -> None:
        inks = [matplotlib.colors.to_hex(look.ink) for look in METHODS.values()]
        assert max(map(lightness, inks)) < 60

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
        mark = mark_of([Entry((), "a", x, y) for x, y in ((1.0, 4.0), (2.0, 6.0), (3.0, 8.0))])
        assert mark[:4] == (2.0, 6.0, 1.0, 2.0)
        assert mark_of([Entry((), "a", 1.0, 4.0)])[2:4] == (0.0, 0.0)

    def test_repeats_are_grouped_by_x(self) -> None:
        marks = marks_by_x([Entry((), "a", x, y) for x, y in ((2.0, 1.0), (1.0, 5.0), (2.0, 3.0))])
        assert [(mark.x, mark.y) for mark in marks] == [(1.0, 5.0), (2.0, 2.0)]

    def test_equal_repeats_have_no_spread(self) -> None:
        assert mark_of([Entry((), "a", 0.1, 0.1)] * 7)[2:4] == (0.0, 0.0)

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
            ({"x_scale": "sqrt"}, "linear, log"),
            ({"y_scale": "sqrt"}, "linear, log"),
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

    def test_negative_numbers_on_a_logarithmic_axis(self) -> None:
        with pytest.raises(InputError, match="linear scale"):
            draw(FigureSpec("f", "line", "budget", "error", y_scale="log"), rows_of(["IPSS"], error=-0.5))


class TestAxes:
    def test_zero_has_a_place_below_everything_else_on_a_logarithmic_axis(self) -> None:
        axis = fit_range(
            "log", [(0.0, 0.0, 0.0), (1e-17, 1e-17, 1e-17), (0.01, 0.01, 0.01), (1, 1, 1)], "error"
        )
        assert axis.low < axis.at(0.0) == axis.at(1e-17) < axis.at(0.01) == 0.01
        assert axis.ticks is not None
        assert axis.ticks[0] == axis.zero

    def test_a_deviation_larger_than_the_mean_ends_at_the_edge(self) -> None:
        axis = fit_range("log", [(0.1, -0.2, 0.4), (0.5, 0.4, 0.6)], "error")
        assert axis.at(-0.2) == axis.low > 0.01

    @pytest.mark.parametrize("value", [0.0, 0.3, -0.3, 1e9, 1e-9])
    def test_one_value_gets_an_axis_around_it(self, value: float) -> None:
        for scale in ("linear", "log") if value >= 0 else ("linear",):
            axis = fit_range(scale, [(value, value, value)], "error")
            assert axis.low < axis.at(value) < axis.high

    @given(st.floats(1e-9, 1e9), st.floats(1.01, 1e9))
    def test_logarithmic_ticks_are_few_and_inside(self, low: float, factor: float) -> None:
        ticks = log_ticks(low, low * factor)
        assert 1 <= len(ticks) <= 8
        assert ticks == sorted(ticks)
        assert factor < 3 or all(0.99 * low <= tick <= 1.01 * low * factor for tick in ticks)

    def test_few_values_of_x_are_the_ticks(self) -> None:
        spans = [(float(x), float(x), float(x)) for x in (16, 32, 64)]
        assert fit_range("log", spans, "budget", (16, 32, 64)).ticks == (16, 32, 64)
        assert fit_range("linear", spans, "budget", (16, 32, 64)).ticks is None
        assert fit_range("linear", spans, "budget", (20, 40, 60)).ticks == (20, 40, 60)

    def test_panels_share_an_axis_unless_one_would_be_squeezed(self) -> None:
        assert shareable("linear", [[0, 1], [0.5, 2]])
        assert not shareable("linear", [[0, 1], [0, 100]])
        assert shareable("log", [[1, 10], [1, 100], [0.0, 1e-18, 1, 20]])

    def test_numbers(self) -> None:
        assert [number_text(v) for v in (0.1 + 0.2, 1500, 2.5e-7, -3)] == ["0.3", "1500", "2.5·10⁻⁷", "−3"]


def test_labels_at_the_top_stay_inside_the_figure() -> None:
    rows = [{"label": label, "n": n, "time": float(n)} for label in SAMPLED for n in (14, 20)]
    rows += [{"label": "OR", "n": n, "time": 1.0} for n in (14, 20)]
    figure = draw(FigureSpec("time", "line", "n", "time", y_scale="log"), rows)
    names = [text for text in figure.axes[0].texts if text.get_text() in SAMPLED]
    assert len(names) == len(SAMPLED)
    assert max(Text.get_window_extent(text).y1 for text in names) <= figure.bbox.y1 + 0.5


class TestPlacement:
    @settings(deadline=None)
    @given(st.lists(st.tuples(st.floats(-20, 120), st.floats(1, 8)), max_size=12))
    def test_stacked_labels_touch_at_most_and_keep_order(self, labels: list[tuple[float, float]]) -> None:
        wanted, heights = [w for w, _ in labels], [h for _, h in labels]
        centres = spread_apart(wanted, heights, 0, 100)
        stack = sorted(zip(centres, wanted, heights, strict=True))
        for (below, want, height), (above, next_want, next_height) in pairwise(stack):
            assert above - below >= (height + next_height) / 2 - 1e-6
            assert want <= next_want
        if stack:
            assert stack[0][0] - stack[0][2] / 2 >= -1e-6
            assert stack[-1][0] + stack[-1][2] / 2 <= 100 + 1e-6

    def test_labels_with_room_stay_where_they_belong(self) -> None:
        assert spread_apart([10, 50, 30], [5, 5, 5], 0, 100) == [10, 50, 30]

    def test_labels_around_marks_avoid_each_other_and_the_marks(self) -> None:
        rng = np.random.default_rng(0)
        bounds = Box(0, 0, 300, 200)
        anchors = [(float(x), float(y)) for x, y in rng.uniform((20, 20), (280, 180), (13, 2))]
        marks = [Box(x - 3, y - 3, x + 3, y + 3) for x, y in anchors]
        placed = place_around(anchors, [(50.0, 9.0)] * 13, marks, bounds)
        assert not overlapping(placed)
        assert all(box.outside(bounds) == 0 for box in placed)
        assert sum(box.overlap(mark) for box in placed for mark in marks) < 5

    def test_marks_at_one_place_still_get_labels_apart(self) -> None:
        placed = place_around([(100.0, 100.0)] * 5, [(40.0, 9.0)] * 5, [], Box(0, 0, 200, 200))
        assert not overlapping(placed)


class TestDrawing:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("panels", [(), pytest.param(("model", "n"), marks=pytest.mark.slow)])
    @pytest.mark.parametrize("count", [2, 6, pytest.param(13, marks=pytest.mark.slow)])
    def test_every_series_is_named_without_overlap_inside_the_picture(
        self, kind: str, panels: tuple[str, ...], count: int
    ) -> None:
        names = SHOWN[-count:]
        spec = FigureSpec(
            "f", kind, "budget", "error", panels=panels, title="A title", x_scale="log", y_scale="log"
        )
        figure = draw(spec, panels_of(names) if panels else rows_of(names))
        assert set(names) <= words(figure)
        assert not overlapping(boxes_of(figure, names), tolerance=4)
        width, height = figure.canvas.get_width_height()
        for text in texts(figure):
            left, bottom, right, top = Text.get_window_extent(text).extents
            assert -1 <= left <= right <= width + 1, text
            assert -1 <= bottom <= top <= height + 1, text

    def test_lines_show_means_and_bands(self) -> None:
        figure = draw(FigureSpec("f", "line", "budget", "error"), rows_of(["IPSS"]))
        (line,) = figure.axes[0].lines
        assert line.get_color() == METHODS["ipss"].colour
        assert np.allclose(line.get_xydata(), [(b, 1.1 / b) for b in (8, 16, 32, 64)])
        assert len(figure.axes[0].collections) == 1
        bare = draw(FigureSpec("f", "line", "budget", "error", band="none"), rows_of(["IPSS"]))
        assert len(bare.axes[0].collections) == 0

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
        assert {"Perm-Shapley*", "IPSS", "paper seconds  (* extrapolated)"} <= words(
            draw(spec, rows_of(SHOWN))
        )
        many = FigureSpec("f", "scatter", "paper_seconds", "error", panels=("n",))
        assert "Perm-Shapley*" in words(draw(many, panels_of(SHOWN)))

    def test_panels_are_named_in_order(self) -> None:
        figure = draw(
            FigureSpec("f", "line", "budget", "error", panels=("model", "n")), panels_of(["IPSS"])[::-1]
        )
        titles = [axes.get_title("left") for axes in figure.axes]
        assert titles == [f"{model} · n = {n}" for model in ("CNN", "MLP") for n in (3, 6, 10)]

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
            title="$ " * 80,
            x_label="γ_{max}$",
            y_label="$\\frac{" * 9,
            panels=("who",),
        )
        figure = draw(spec, rows_of(HOSTILE, who="$_$") + rows_of(HOSTILE, who="x" * 200))
        assert "$x_1$ \\alpha" in words(figure)
        assert all(path.stat().st_size > 1000 for path in save(figure, tmp_path / "f"))

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("scale", ["linear", "log"])
    @pytest.mark.parametrize("error", [0.0, 0.3, 1e-17])
    def test_one_point_and_equal_values(self, kind: str, scale: str, error: float, tmp_path: Path) -> None:
        spec = FigureSpec("f", kind, "budget", "error", x_scale=scale, y_scale=scale)
        for rows in (rows_of(["IPSS"], (8,), 1, error=error), rows_of(SHOWN, (8,), 3, error=error)):
            assert len(save(draw(spec, rows), tmp_path / "f")) == 2

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


@pytest.mark.slow
class TestFiles:
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_same_rows_give_the_same_bytes(self, kind: str, tmp_path: Path) -> None:
        spec = FigureSpec("f", kind, "budget", "error", y_scale="log")
        first = save(draw(spec, rows_of(SAMPLED)), tmp_path / "new" / "a.b")
        second = save(draw(spec, rows_of(SAMPLED)), tmp_path / "c")
        assert [path.name for path in first] == ["a.b.png", "a.b.svg"]
        assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
        assert b"date" not in first[1].read_bytes().lower()

    def test_pictures_are_as_wide_as_a_column_or_the_page(self) -> None:
        spec = FigureSpec("f", "line", "budget", "error")
        assert draw(spec, rows_of(SAMPLED[:6])).get_figwidth() == 3.5
        wide = FigureSpec("f", "line", "budget", "error", panels=("n",))
        assert draw(wide, panels_of(SAMPLED)).get_figwidth() == 7.16
