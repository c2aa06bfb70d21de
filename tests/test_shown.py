"""Values, results, audits and payouts in a notebook: tables, pictures, frames, and single clients by name."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex

import fedvalue as fv
from fedvalue import _html
from fedvalue.errors import InputError, MissingExtraError
from fedvalue.run import _notebook
from fedvalue.values import ClientValue

mpl.use("Agg")
HOSTILE = '<script>alert("x")</script>&$\\frac$'
NAMES = ("Aachen", HOSTILE, "Como")
TABLE = [0.1, 0.5, 0.4, 0.6, 0.1, 0.5, 0.38, 0.55]


def values(**changes: Any) -> fv.Values:
    given = {"stderr": [0.01, 0.02, 0.01], "parts": {"test": np.diag([1e-4, 4e-4, 1e-4])}, "metric": "$a$"}
    return fv.Values([0.3, 0.15, -0.02], NAMES, "surrogate", 8, **{**given, **changes})


def audit() -> fv.Audit:
    exact = fv.value(fv.TableGame(TABLE, names=NAMES), method="exact")
    return fv.audit(exact, {mask: [utility] for mask, utility in enumerate(TABLE)})


def result() -> Any:
    rng = np.random.default_rng(0)
    rows = [fv.Dataset(x := rng.standard_normal((8, 2)), (x[:, 0] > 0).astype(int)) for _ in range(4)]
    scenario = fv.Scenario("own", tuple(rows[:3]), NAMES, rows[3], "classification", 2)
    return fv.run(scenario, model="sklearn:sklearn.linear_model.LogisticRegression", method="exact")


class Tags(HTMLParser):
    """Collects what is opened and never closed, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("make", [values, audit, result, lambda: fv.payout(values(), 100, currency="EUR")])
def test_tables_are_whole_and_hostile_names_are_text(make: Callable[[], Any]) -> None:
    page = make()._repr_html_()
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert "script" not in tags.seen
    assert HOSTILE in tags.text
    assert "http" not in page
    assert "nan" not in page


@pytest.mark.parametrize("make", [values, audit, result, lambda: fv.payout(values(), 100, currency="EUR")])
def test_consoles_show_what_print_shows(make: Callable[[], Any]) -> None:
    thing, shown = make(), []
    thing._repr_pretty_(SimpleNamespace(text=shown.append), False)
    assert shown == [str(thing)]


def test_bars_begin_at_zero_and_go_both_ways() -> None:
    page = values(stderr=None, parts={})._repr_html_()
    bars = [
        tuple(map(float, found)) for found in re.findall(r"left:([\d.]+)px;width:([\d.]+)px;top:2px", page)
    ]
    (first, wide), (second, _), (below, narrow) = bars
    assert first == second == pytest.approx(10.0)  # of 160, as -0.02 is of 0.32
    assert (wide, below, narrow) == (150.0, 0.0, 10.0)
    whiskers = values()._repr_html_()
    assert whiskers.count("top:6px") == 3


def test_long_tables_are_cut_and_infinite_numbers_draw_nothing() -> None:
    page = _html.table("t", ["a"], [["x"]] * 130, [float("inf")] * 130)
    assert "30 more." in page
    assert page.count("<tr>") == 101
    assert "inf" not in page


class TestPlots:
    def test_axes_are_returned_with_everything_on_them(self) -> None:
        ax = values().plot()
        assert ax.get_yticklabels()[0].get_text() == "Aachen"
        assert len(ax.patches) == 3
        ax.figure.canvas.draw()  # a name is no formula
        assert ax.get_xlabel() == r"value, in \$a\$, ± 95%"
        assert values().plot_errors().get_legend().get_texts()[0].get_text() == "test rows"
        unknown = fv.value([0.0, 1.0, 2.0, 4.0], method="permutation", budget=3)
        assert [text.get_text() for text in unknown.plot_errors().texts] == ["not known"]
        of_run = result()
        assert len(of_run.plot_coalitions().collections[0].get_offsets()) == 8
        assert of_run.plot(ax=ax) is ax

    def test_intervals_have_the_colour_of_the_axes(self) -> None:
        with mpl.rc_context({"axes.edgecolor": "#d5d9e2"}):  # as on dark pages
            (lines,) = values().plot().collections
        assert to_hex(lines.get_colors()[0]) == "#d5d9e2"

    def test_what_are_no_axes_and_no_matplotlib(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(InputError, match=r"ax must be axes of matplotlib, or None. Got a int."):
            values().plot(ax=3)  # type: ignore[arg-type]
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'fedvalue\[plots\]'"):
            values().plot()

    @pytest.fixture(autouse=True)
    def _closed(self) -> Any:
        from matplotlib import pyplot

        yield
        pyplot.close("all")


class TestOneClient:
    def test_by_name_and_by_number(self) -> None:
        found = values()
        one = found["Como"]
        assert isinstance(one, ClientValue)
        assert one == found[np.int64(2)] == list(found)[2]
        assert (one.name, one.value, one.stderr) == ("Como", -0.02, 0.01)
        assert one.low is not None
        assert one.low < one.value < (one.high or 0.0)
        assert str(one) == "Como: -0.0200 ± 0.0196 (-4.7%)"
        assert values(stderr=None, parts={})[0].low is None

    def test_length_membership_and_iteration(self) -> None:
        found = values()
        assert len(found) == 3
        assert "Aachen" in found
        assert "Bern" not in found
        assert {one.name: float(one) for one in found}["Aachen"] == 0.3

    @pytest.mark.parametrize("wrong", ["Aachn", 3, -1, 1.0, None, slice(0, 2)])
    def test_nobody_by_that_name(self, wrong: Any) -> None:
        with pytest.raises(InputError, match=r"Did you mean 'Aachen'|must be a whole number from 0 to 2"):
            values()[wrong]

    def test_arrays_cannot_be_changed(self) -> None:
        for array in (values().mean, values().stderr, values().parts["test"]):
            assert array is not None
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_frames() -> None:
    frame = fv.payout(values(), 100).to_frame()
    assert list(frame["client"]) == list(NAMES)
    assert frame["amount"].sum() == 100


class TestProgress:
    """With a notebook that is not there: what it would show is kept."""

    @pytest.fixture
    def shown(self, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
        lines: list[dict[str, str]] = []

        class ZMQInteractiveShell:
            pass

        def display(data: dict[str, str], raw: bool, display_id: bool) -> SimpleNamespace:
            lines.append(data)
            return SimpleNamespace(update=lambda data, raw: lines.append(data))

        ipython: Any = ModuleType("IPython")
        ipython.get_ipython = ZMQInteractiveShell
        ipython.display = SimpleNamespace(display=display)
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setattr(_notebook, "_WRITTEN_SECONDS", 0.0)
        return lines

    def test_a_bar_is_drawn_and_gone_at_the_end(
        self, shown: list[dict[str, str]], capsys: pytest.CaptureFixture[str]
    ) -> None:
        fv.value(TABLE, method="exact", progress=True)
        assert any("8 of 8 coalitions" in line.get("text/html", "") for line in shown)
        assert shown[-1] == {"text/plain": ""}
        assert capsys.readouterr() == ("", "")

    def test_also_when_it_fails(self, shown: list[dict[str, str]]) -> None:
        def fails(coalition: tuple[int, ...]) -> float:
            raise ValueError("no")

        with pytest.raises(fv.UtilityError):
            fv.value(fv.FunctionGame(2, fails, batch=False), method="exact", progress=True)
        assert shown[-1] == {"text/plain": ""}


def test_methods_to_compare_may_come_from_anywhere() -> None:
    assert list(fv.compare(TABLE, (name for name in ("exact", "equal")), budget=8)) == ["exact", "equal"]
