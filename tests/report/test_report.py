"""Reports: facts against brute force and closed forms, pages that hold whatever clients are called, bad input."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from importlib import import_module
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import Markup
from numpy.typing import NDArray
from typer.testing import CliRunner, Result

import fedvalue as fv
from fedvalue._files import sealed
from fedvalue.cli import app
from fedvalue.coalitions import full_mask
from fedvalue.report import FORMATS, Facts, Terms, _page, as_html, as_markdown, gather
from fedvalue.report._origin import command_of
from fedvalue.report._templates import style_sheet
from fedvalue.report._trained import Absent, Convergence, Synergy, converge, grow, pair_up
from fedvalue.store import History, read_history
from fedvalue.values import Values
from fedvalue.yardsticks import Empty

Array = NDArray[np.float64]
SMALL = ("--clients", "4", "--samples", "20", "--rounds", "1", "--epochs", "1", "--no-config")
NO_STORE = "This needs the trainings behind the values."
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>document.title='owned'</script>",
    "<!-- <script> ]]>",
    "\"><svg onload='alert(1)'>",
    "line\nbreak\rand\ttab",
    "👩‍🔬 emoji & 'quotes'",
    "\u202eright to left",
    "x" * 3000,
    "\ud800 half a sign",
    "",
    "| a | b | [link](javascript:x) `code` # *",
)


def cli(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def done(*args: object) -> str:
    found = cli(*args)
    assert found.exit_code == 0, found.output
    return found.stdout


def failure(*args: object, code: int = 2) -> str:
    found = cli(*args)
    assert found.exit_code == code, found.output
    assert found.stdout == ""
    assert found.stderr.startswith("Error: ")
    assert "Traceback" not in found.stderr
    return found.stderr


def trainings(utilities: dict[int, float]) -> History:
    runs = {mask: [utility] for mask, utility in utilities.items()}
    return History(
        runs, {mask: tuple(of) for mask, of in runs.items()}, 1.5, ("local on cpu",), "then", "now"
    )


def complete(table: Array, names: Sequence[str] | None = None) -> tuple[Values, History]:
    """Exact values of a table and its coalitions."""
    n = len(table).bit_length() - 1
    game = fv.TableGame(table, names=list(names or (f"c{i}" for i in range(n))))
    return fv.value(game, "exact"), trainings(dict(enumerate(table.tolist())))


def saturating(n: int, seed: int = 0) -> Array:
    weights = np.random.default_rng(seed).uniform(0.2, 1.5, n)
    sums = np.array([sum(weights[i] for i in range(n) if mask >> i & 1) for mask in range(1 << n)])
    return np.asarray(1 - np.exp(-sums / 2))


def sampled(n: int, names: Sequence[str], count: int = 40) -> tuple[Values, History]:
    """Values with intervals, as the surrogate gives them."""
    rng = np.random.default_rng(1)
    mean, half = rng.normal(0.01, 0.004, n), np.full(n, 0.001)
    values = Values(
        mean, names, "surrogate", count, 2.0, half, guarantee="biased", covariance=np.diag(half**2),
        seed=0, budget=count, game_id="game-1",
    )  # fmt: skip
    masks = [0, full_mask(n), *(1 << i for i in range(n))]
    masks += [int.from_bytes(rng.bytes(n // 8 + 1), "big") & full_mask(n) for _ in range(count)]
    weights = rng.uniform(0, 1, n)
    return values, trainings(
        {mask: float(1 - np.exp(-sum(weights[i] for i in range(n) if mask >> i & 1))) for mask in masks}
    )


class Page(HTMLParser):
    """A page read strictly: every element is closed in its place."""

    EMPTY = frozenset({"meta"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[tuple[str, ...], str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.comments: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tuple(self.open), tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        where = self.open[-1] if self.open else ""
        self.texts[where] = self.texts.get(where, "") + data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for _, tag, attributes in self.elements if tag in tags]

    @property
    def data(self) -> dict[str, Any]:
        return dict(json.loads(self.texts["script"]))


# Facts


class TestSynergy:
    def test_a_complete_game_against_the_definition(self) -> None:
        n, table = 5, np.random.default_rng(3).standard_normal(32)
        found = pair_up(n, dict(enumerate(table.tolist())))
        assert isinstance(found, Synergy)
        assert [(pair.first, pair.second) for pair in found.pairs] == list(combinations(range(n), 2))
        for pair in found.pairs:
            i, j = 1 << pair.first, 1 << pair.second
            others = [mask for mask in range(32) if not mask & (i | j)]
            effects = [table[s | i | j] - table[s | i] - table[s | j] + table[s] for s in others]
            assert pair.quadruples == len(others) == 8
            assert pair.effect == pytest.approx(np.mean(effects))

    def test_closed_forms(self) -> None:
        weights = np.array([1.0, 2.0, 4.0, 8.0])
        additive = {m: float(sum(weights[i] for i in range(4) if m >> i & 1)) for m in range(16)}
        squares = {mask: total**2 for mask, total in additive.items()}  # (a + b)² − a² − b² = 2ab
        flat, curved = pair_up(4, additive), pair_up(4, squares)
        assert isinstance(flat, Synergy)
        assert isinstance(curved, Synergy)
        assert [pair.effect for pair in flat.pairs] == pytest.approx([0.0] * 6)
        expected = [2 * weights[p.first] * weights[p.second] for p in curved.pairs]
        assert [pair.effect for pair in curved.pairs] == pytest.approx(expected)

    def test_what_was_not_trained_is_unknown_and_not_zero(self) -> None:
        utilities = {0b000: 0.0, 0b001: 0.5, 0b010: 0.4, 0b011: 0.6, 0b100: 0.1, 0b111: 0.9}
        found = pair_up(3, utilities)
        assert isinstance(found, Synergy)
        assert [(pair.first, pair.second, pair.quadruples) for pair in found.pairs] == [(0, 1, 1)]
        assert found.possible == 3
        values = Values([0.3, 0.3, 0.3], list("abc"), "loo", 6, guarantee="biased")
        page = as_html(gather(values, trainings(utilities)))
        assert page.count('class="unknown"') == 2
        assert "2 of 3 pairs are unknown" in page
        assert isinstance(pair_up(3, {0: 0.0, 7: 1.0}), Absent)
        assert isinstance(pair_up(1, {0: 0.0, 1: 1.0}), Absent)


class TestGrowth:
    def test_layers_of_a_complete_game(self) -> None:
        n, table = 6, saturating(6)
        found = grow(dict(enumerate(table.tolist())))
        assert [layer.coalitions for layer in found.layers] == [comb(n, k) for k in range(n + 1)]
        pairs = [table[mask] for mask in range(64) if mask.bit_count() == 2]
        layer = found.layers[2]
        assert (layer.lowest, layer.highest) == (min(pairs), max(pairs))
        assert layer.mean == pytest.approx(np.mean(pairs))
        assert len(found.dots) == found.coalitions == 64

    def test_too_many_dots_are_thinned_and_the_extremes_stay(self) -> None:
        table = np.random.default_rng(0).standard_normal(1 << 14)
        found = grow(dict(enumerate(table.tolist())))
        assert found.coalitions == 1 << 14
        assert len(found.dots) < 2000
        for layer in found.layers[1:-1]:
            dots = [utility for size, utility in found.dots if size == layer.size]
            assert (min(dots), max(dots)) == (layer.lowest, layer.highest)


class TestConvergence:
    def test_ends_at_the_exact_values_where_all_is_known(self) -> None:
        values, known = complete(saturating(5))
        found = converge(values, {mask: of[0] for mask, of in known.utilities.items()})
        assert isinstance(found, Convergence)
        assert found.counts[-1] == found.trained == 32
        np.testing.assert_allclose(found.values[-1], values.mean, atol=1e-9)
        total = known.utilities[31][0] - known.utilities[0][0]
        np.testing.assert_allclose([sum(of) for of in found.values], total)
        assert len(found.counts) <= 12

    @pytest.mark.slow
    def test_a_prefix_knows_only_what_was_trained_by_then(self) -> None:
        values, known = complete(saturating(6))
        order = {mask: of[0] for mask, of in reversed(known.utilities.items())}
        changed = dict(order)
        for mask in list(order)[30:-1]:
            changed[mask] += 1.0
        left, right = converge(values, order), converge(values, changed)
        assert isinstance(left, Convergence)
        assert isinstance(right, Convergence)
        early = [k for k, count in enumerate(left.counts) if count <= 30]
        assert early
        assert all(left.values[k] == right.values[k] for k in early)
        assert left.values[-1] != right.values[-1]

    @pytest.mark.parametrize(
        ("utilities", "why"),
        [
            ({0: 0.0, 1: 0.5, 2: 0.4, 4: 0.3}, "without any client"),
            ({0: 0.0, 7: 1.0}, "Only 2 coalitions"),
        ],
    )
    def test_says_what_is_missing(self, utilities: dict[int, float], why: str) -> None:
        found = converge(Values([0.1, 0.2, 0.3], list("abc"), "loo", 4), utilities)
        assert isinstance(found, Absent)
        assert why in found.why

    def test_values_in_another_unit_are_not_compared(self) -> None:
        found = converge(Values([0.1], ["a"], "dig-fl", 1, metric="accuracy", unit="loss"), {0: 0.0, 1: 1.0})
        assert found == Absent("The values of dig-fl are in loss, which trained coalitions do not show.")

    def test_the_verdict_names_another_unit(self) -> None:
        values = Values([0.1, 0.2], ["a", "b"], "dig-fl", 1, metric="accuracy", unit="loss")
        assert gather(values).verdict[0] == (
            "Of the 2 clients, b is worth the most (+0.2000 in loss, 66.7% of the total) and a the least "
            "(+0.1000 in loss)."
        )

    def test_many_clients_and_coalitions_stay_within_bounds(self) -> None:
        n = 201
        found = converge(*_plain(sampled(n, [f"c{i}" for i in range(n)], 5)))
        assert isinstance(found, Absent)


def _plain(pair: tuple[Values, History]) -> tuple[Values, dict[int, float]]:
    return pair[0], {mask: of[0] for mask, of in pair[1].utilities.items()}


class TestFacts:
    def test_the_verdict_is_three_sentences(self) -> None:
        facts = gather(*complete(saturating(4), ["Aachen", "Bern", "Como", "Delft"]))
        assert len(facts.verdict) == 3
        assert all(text.endswith(".") and "\n" not in text for text in facts.verdict)
        best = facts.clients[0]
        assert f"{best.name} is worth the most (+{best.value:.4f}" in facts.verdict[0]
        assert "All 16 coalitions (sets of clients) were used, so the values are exact." in facts.verdict[1]

    def test_the_verdict_names_whom_the_audit_found(self) -> None:
        table = saturating(6)
        for null in (1, 4):
            table = np.array([table[mask & ~(1 << null)] for mask in range(64)])
        assert gather(*complete(table)).verdict[2] == "The audit flags c1 and c4 (no contribution)."
        assert gather(*complete(saturating(6))).verdict[2] == (
            "The audit of 64 trained coalitions: no test singled out a client. Not everything could be checked."
        )

    def test_clients_are_ranked_with_everything_there_is(self) -> None:
        values, known = sampled(12, [f"c{i}" for i in range(12)])
        facts = gather(values, known, terms=Terms("1000", "EUR"))
        assert [client.rank for client in facts.clients] == list(range(1, 13))
        assert [client.value for client in facts.clients] == sorted(values.mean.tolist(), reverse=True)
        interval = values.interval()
        assert interval is not None
        for client in facts.clients:
            assert (client.low, client.high) == tuple(interval[client.index])
            assert client.share == pytest.approx(values.share[client.index])
        paid = [Decimal(str(client.paid).replace(",", "")) for client in facts.clients]
        assert sum(paid) == 1000
        assert paid == sorted(paid, reverse=True)

    def test_small_values_keep_their_digits(self) -> None:
        facts = gather(Values([2e-7, 1e-7], ["a", "b"], "exact", 4, guarantee="exact"))
        assert "a is worth the most (+0.000000200" in facts.verdict[0]
        assert "+0.000000100" in as_html(facts)

    def test_rounding_errors_do_not_rank(self) -> None:
        values = Values([0.1, 0.3, 0.3 + 1e-16, 0.3 - 1e-16], list("abcd"), "exact", 16, guarantee="exact")
        assert [client.name for client in gather(values).clients] == list("bcda")

    def test_without_a_pot_payouts_are_percent(self) -> None:
        facts = gather(*complete(saturating(4)))
        assert facts.unit == "%"
        assert sum(Decimal(str(client.paid)) for client in facts.clients) == 100

    @pytest.mark.parametrize(
        ("values", "note"),
        [
            (Values([1.0], ["a"], "exact", 2, guarantee="exact"), "nothing was estimated"),
            (Values([1.0], ["a"], "loo", 2, guarantee="biased"), "loo has no valid standard error"),
            (
                Values([1.0], ["a"], "surrogate", 2, stderr=[0.1], guarantee="biased"),
                "It covers coalitions that were not trained.",
            ),
        ],
    )
    def test_an_interval_is_there_or_its_absence_is_explained(self, values: Values, note: str) -> None:
        facts = gather(values)
        assert note in facts.interval_note
        assert (facts.clients[0].low is None) == (values.stderr is None)

    def test_what_is_exact_has_no_interval_even_where_the_method_has_one(self) -> None:
        values = Values([1.0, 2.0], ["a", "b"], "surrogate", 4, stderr=[0.0, 0.0], guarantee="exact")
        assert [client.low for client in gather(values).clients] == [None, None]

    def test_negative_values_are_shown_and_nobody_is_paid(self) -> None:
        values = Values([-0.2, -0.1], ["a", "b"], "exact", 4, guarantee="exact")
        facts = gather(values)
        assert isinstance(facts.payout, Absent)
        assert [client.share for client in facts.clients] == [None, None]
        for text in (as_html(facts), as_markdown(facts)):
            assert "No payout: The rule" in text.replace("&#39;", "'")
            assert "−0.2000" in text
        with pytest.raises(fv.InputError, match="pays nobody"):
            gather(values, terms=Terms("100"))
        assert gather(values, terms=Terms(rule="shift")).clients[0].paid == "100.00"

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (Values([np.nan, 1.0], ["a", "b"], "exact", 4), "must be a finite number. That of 'a' is not"),
            (Values([], [], "exact", 0), "no clients"),
        ],
    )
    def test_unusable_values_are_refused(self, values: Values, message: str) -> None:
        with pytest.raises(fv.InputError, match=re.escape(message)):
            gather(values)

    def test_trainings_of_other_clients_are_refused(self) -> None:
        values = Values([1.0], ["a"], "exact", 2, guarantee="exact")
        with pytest.raises(fv.InputError, match="beyond the 1"):
            gather(values, trainings({0: 0.0, 9: 1.0}))
        with pytest.raises(fv.InputError, match="finite"):
            gather(values, trainings({0: 0.0, 1: float("nan")}))

    def test_parts_that_need_trainings_say_so_in_one_line(self) -> None:
        facts = gather(Values([1.0, 2.0], ["a", "b"], "exact", 4, guarantee="exact"))
        parts = (facts.growth, facts.synergy, facts.convergence, facts.audit)
        assert {part.why for part in parts if isinstance(part, Absent)} == {
            "This needs the trainings behind the values. Name their store if there is one (--store, or store= in Python)."
        }
        assert all(isinstance(part, Absent) for part in parts)
        assert as_html(facts).count(NO_STORE) >= 4


# Pages


@pytest.fixture(scope="module")
def page() -> Page:
    """An ordinary page."""
    return Page(as_html(gather(*complete(saturating(5)), terms=Terms("500", "CHF"))))


class TestHtml:
    def test_nothing_is_loaded_and_nothing_runs(self, page: Page) -> None:
        assert [attributes["type"] for attributes in page.all("script")] == ["application/json"]
        assert page.all("link", "img", "iframe", "object", "embed", "video", "form", "base") == []
        for attributes in (found for _, _, found in page.elements):
            assert not [
                key for key in attributes if key.startswith("on") or key in ("src", "srcset", "action")
            ]
        assert all(str(found["href"]).startswith("#") for found in page.all("a"))
        assert not re.search(r"url\(|@import|http", page.texts["style"])
        policy = next(found["content"] for found in page.all("meta") if "http-equiv" in found)
        assert policy is not None
        assert "default-src 'none'" in policy
        assert "script-src" not in policy

    def test_a_reader_without_eyes_gets_all(self, page: Page) -> None:
        ids = [found["id"] for _, _, found in page.elements if "id" in found]
        assert len(ids) == len(set(ids))
        assert {str(found["href"])[1:] for found in page.all("a")} <= set(ids)
        for path, tag, found in page.elements:
            if tag == "svg" and "svg" not in path:
                assert found.get("role") == "img" or found.get("aria-hidden") == "true"
        images = sum(found.get("role") == "img" for found in page.all("svg"))
        described = [path for path, tag, _ in page.elements if tag == "desc"]
        assert (
            images
            == len(described)
            == sum(tag == "title" and path[-1] == "svg" for path, tag, _ in page.elements)
        )
        assert len(page.all("caption")) == len(page.all("table"))
        assert all("scope" in found for found in page.all("th"))
        assert page.all("html")[0]["lang"] == "en"
        assert [tag for _, tag, _ in page.elements if tag == "h1"] == ["h1"]

    def test_numbers_are_embedded(self, page: Page) -> None:
        values, _ = complete(saturating(5))
        again = Values.from_dict(page.data["values"])
        np.testing.assert_array_equal(again.mean, values.mean)
        assert page.data["format"] == "fedvalue.report/1"
        assert page.data["payout"]["pot"] == "500"
        assert len(page.data["growth"]["dots"]) == 32

    def test_names_are_text_whatever_they_are(self) -> None:
        values, known = sampled(len(HOSTILE), HOSTILE)
        others = {f"{name}?": "<em>gone</em>" for name in HOSTILE}
        values = replace(values, metric="<u>", method="<q>", game_id="<s>", absent=others)
        record = _record(HOSTILE) | {"game_id": "<s>", "versions": {"<dfn>": "<kbd>"}}
        text = as_html(gather(values, known, terms=Terms("10", "<b>"), record=record, guarantee=["<var>"]))
        page = Page(text)
        assert page.comments == []
        tags = {tag for _, tag, _ in page.elements}
        assert not tags & {"img", "form", "em", "u", "q", "s", "dfn", "kbd", "var"}
        assert "--partition &#39;size&lt;&#39;" in text
        assert len(page.all("script")) == 1
        assert page.data["values"]["names"] == list(HOSTILE)
        assert "\u202e" not in text
        assert "onerror=alert(1)>" not in text.split("<script")[0]
        assert "\u2028" not in text
        text.encode()  # also half a sign can be written

    def test_the_same_facts_are_the_same_bytes(self) -> None:
        known = complete(saturating(4))
        first, second = gather(*known), gather(*known)
        for write in FORMATS.values():
            assert write(first) == write(second)

    @pytest.mark.slow
    def test_a_hundred_clients_stay_below_a_megabyte(self) -> None:
        names = [f"Clinic number {i} of the consortium, department <{i}>" for i in range(100)]
        text = as_html(gather(*sampled(100, names, 461)))
        Page(text)
        assert len(text.encode()) < 1_000_000

    @pytest.mark.slow
    def test_thousand_clients(self) -> None:
        values, known = sampled(1000, [f"c{i}" for i in range(1000)], 60)
        facts = gather(values, known)
        page = Page(as_html(facts))
        assert "correlation" not in page.data["values"]
        assert len(page.data["values"]["mean"]) == 1000
        assert "more than 200 clients" in as_markdown(facts)

    def test_one_client(self) -> None:
        facts = gather(*complete(np.array([0.1, 0.9]), ["only"]))
        page = Page(as_html(facts))
        assert facts.title == "What the data of 1 client is worth"
        assert facts.verdict[0] == (
            "With the one client, the utility goes from 0.1000 (no clients) to 0.9000; only is the only client and worth "
            "+0.8000."
        )
        assert page.data["values"]["mean"] == [0.8]


@pytest.mark.parametrize("dark", [False, True])
def test_colours_can_be_told_from_what_is_behind(dark: bool) -> None:
    rules = re.findall(r":root \{(.*?)\}", style_sheet(), re.S)
    assert len(rules) == 2
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", rules[dark]))
    assert set(re.findall(r"var\(--(\w+)\)", style_sheet())) == set(colours)

    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(first: str, second: str) -> float:
        low, high = sorted(luminance(colours[name]) for name in (first, second))
        return (high + 0.05) / (low + 0.05)

    texts = [(ink, behind) for ink in ("ink", "quiet", "link") for behind in ("page", "card")]
    texts += [(f"{side}{k}t", f"{side}{k}") for side in "pm" for k in range(1, 5)]
    assert {pair: round(contrast(*pair), 2) for pair in texts if contrast(*pair) < 4.5} == {}
    marks = [(mark, "page") for mark in ("plus", "minus", "whisker", "dot")]
    assert {pair: round(contrast(*pair), 2) for pair in marks if contrast(*pair) < 3} == {}


def test_markdown_shows_names_as_they_are() -> None:
    values, known = sampled(len(HOSTILE), HOSTILE)
    text = as_markdown(gather(values, known))
    assert "<img" not in text
    assert "<script" not in text
    assert "[link](" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    columns = {len(re.findall(r"(?<!\\)\|", row)) for row in rows[: 2 + len(HOSTILE)]}
    assert columns == {8}  # a bar in a name makes no column
    assert "\n\n\n" not in text
    assert text.startswith("# What the data of 11 clients is worth\n")
    for part in ("Who gets what", "Audit", "Cost", "Method, guarantee and limits"):
        assert f"\n## {part}\n" in text


def test_a_further_section_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def chart(facts: Facts) -> Markup:
        return Markup("<p>{} by {}</p>").format(facts.clients[0].name, facts.method.name)

    monkeypatch.setattr(_page, "SECTIONS", (*_page.SECTIONS, _page.Section("more", "One <more>", chart)))
    text = as_html(gather(*complete(saturating(3), ["<a>", "<a>b", "<a>c"])))
    assert '<a href="#more">One &lt;more&gt;</a>' in text
    assert re.search(r'<section id="more".*?</h2>\s*<p>&lt;a&gt;\w? by exact</p></section>', text, re.S)


class TestAnyGame:
    """Values of any game have a report, with a store and without, and no record of a run."""

    @staticmethod
    def utility(members: Sequence[int]) -> float:
        return 1 - 0.5 ** len(members)

    @pytest.mark.parametrize(
        ("method", "said"),
        [
            (
                "exact",
                "With all 4 clients, the utility goes from 0.0000 (no clients) to 0.9375; all are worth the same",
            ),
            (
                "surrogate",
                "With all 4 clients, the utility goes from 0.0000 (no clients) to 0.9375; all are worth",
            ),
            (
                "permutation",
                "With all 4 clients, the utility goes from 0.0000 (no clients) to 0.9375; all are worth",
            ),
            ("loo", "Of the 4 clients, all are worth the same (+0.0625)."),  # needs no empty coalition
        ],
    )
    def test_a_function(self, method: str, said: str, tmp_path: Path) -> None:
        game = fv.FunctionGame(4, self.utility, batch=False)
        with fv.UtilityStore(tmp_path / "s.db") as store:
            values = fv.value(game, method, store=store)
        plain = fv.report(values, tmp_path / "plain.html").read_text(encoding="utf-8")
        stored = fv.report(values, tmp_path / "all.html", store=tmp_path / "s.db").read_text(encoding="utf-8")
        assert plain.count(NO_STORE) >= 4
        assert NO_STORE not in stored
        for text in (plain, stored):
            page = Page(text)
            assert page.data["run"] is None
            assert page.data["values"]["metric"] == "utility"
            assert said in text
            assert "There is no record of the run" in text
            assert "test data" not in text
        assert re.search(
            rf"The store holds \d+ trainings of {len(Page(stored).data['growth']['dots'])} coalitions", stored
        )

    def test_a_method_that_asks_for_neither_end(self) -> None:
        values = Values([0.3, 0.1], ["a", "b"], "mine", 2, guarantee="")
        facts = gather(values)
        assert facts.verdict[0].startswith(
            "Of the 2 clients, a is worth the most (+0.3000, 75.0% of the total)"
        )
        assert facts.method.description == "A method that is not part of fedvalue."
        Page(as_html(facts))

    def test_less_is_better(self) -> None:
        values = Values(
            [1.2, 0.8], ["a", "b"], "exact", 4, guarantee="exact", metric="loss", higher_is_better=False,
            utility_of_none=-2.3, utility_of_all=-0.3,
        )  # fmt: skip
        known = trainings({0: -2.3, 1: -0.9, 2: -1.3, 3: -0.3})
        facts = gather(values, known)
        assert "the loss goes from 2.3000 (untrained model) to 0.3000" in facts.verdict[0]
        assert "its negative loss against its number of clients" in as_html(facts)


def test_clients_that_took_no_part_are_named_at_the_top_and_among_the_limits() -> None:
    values, known = complete(saturating(3), ["Aachen", "Bern", "Como"])
    values = replace(
        values, absent={"Delft": "did not answer", "Essen | *": "disconnected"}, clients=(0, 1, 3)
    )
    facts = gather(values, known)
    assert facts.verdict[1] == (
        "2 further clients took no part and have no value: Delft (did not answer); Essen | * (disconnected)."
    )
    assert sum("Delft (did not answer)" in line for line in facts.method.limits) == 1
    for text in (as_html(facts), as_markdown(facts)):
        top, rest = text.split("Who gets what", 1)
        assert "2 further clients took no part" in top
        assert "Not valued: Delft (did not answer)." in rest
    one = gather(replace(values, absent={"Delft": "did not answer"}))
    assert one.verdict[1] == "1 further client took no part and has no value: Delft (did not answer)."
    many = gather(replace(values, absent={f"c{i}": "left" for i in range(9)}))
    assert many.verdict[1].endswith("c3 (left); and 5 more.")


# Where a run comes from


def _record(names: Sequence[str]) -> dict[str, Any]:
    return {
        "format": "fedvalue.run/1", "game_id": "g", "metric": "accuracy", "method": "surrogate", "seed": 0,
        "scenario": {"name": "digits", "partition": "size<", "clients": list(names), "fingerprint": "f"},
        "versions": {"fedvalue": "0"}, "device": "cpu",
    }  # fmt: skip


@pytest.mark.parametrize(
    "args",
    [
        (*SMALL, "--exact", "--partition", "demo"),
        *(pytest.param(args, marks=pytest.mark.slow) for args in (
            (*SMALL, "--method", "cc", "--budget", "8", "--seed", "3", "--metric", "loss", "--optimizer", "sgd"),
            ("--no-config", "--scenario", "synthetic", "--clients", "4", "--samples", "9", "--method", "k-greedy",
             "--option", "k=2", "--scenario-option", "noise_sd=0.3", "--replicates", "2"),
            (*SMALL, "--algorithm", "fedprox", "--mu", "0.5", "--model", "linear"),
        )),
    ],
)  # fmt: skip
def test_the_command_of_a_report_repeats_the_run(
    args: tuple[str, ...], tmp_path: Path, one_thread: None
) -> None:
    done("run", *args, "--out", tmp_path / "out")
    page = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    command = shlex.split(command_of(page.data["run"]))
    assert command[:2] == ["fedvalue", "run"]
    assert "".join(command_of(page.data["run"]).split()) in "".join(page.texts["span"].split())
    again = json.loads(done(*command[1:], "--json", "-"))
    first = json.loads((tmp_path / "out" / "values.json").read_text(encoding="utf-8"))
    assert (again["mean"], again["game_id"]) == (first["mean"], first["game_id"])


@pytest.mark.parametrize(
    ("change", "own"),
    [
        ({"scenario": {"name": "digits", "partition": "its own"}}, "scenario"),
        ({"scenario": {"name": "mine", "partition": "size"}}, "scenario"),
        ({"model": "make_model"}, "model"),
        ({"model": "make_model", "method": "my-plan"}, "model and method"),
    ],
)
def test_no_command_repeats_what_only_python_has(change: dict[str, Any], own: str) -> None:
    values, known = sampled(3, list("abc"))
    for text in (as_html(facts := gather(values, known, _record("abc") | change)), as_markdown(facts)):
        assert f"made in Python with its own {own}, so no command repeats it." in text
        assert "fedvalue run" not in text
    assert facts.origin.record == _record("abc") | change


@pytest.mark.parametrize(
    ("method", "guarantee", "evaluations", "said"),
    [
        ("exact", "exact", 4, ""),
        ("permutation", "unbiased", 3, "Not all coalitions were trained"),
        ("surrogate", "biased", 3, "these values approximate it; Not all coalitions were trained"),
        ("loo", "biased", 4, "these values approximate it"),
        ("dig-fl", "biased", 1, "these values approximate it; Only all clients together were trained"),
    ],
)
def test_limits_are_those_of_the_method(method: str, guarantee: str, evaluations: int, said: str) -> None:
    values = Values([0.2, 0.1], ("a", "b"), method, evaluations, guarantee=guarantee, budget=1)
    text = as_markdown(gather(values))
    kinds = (
        "these values approximate it",
        "Not all coalitions were trained",
        "Only all clients together were trained",
    )
    assert [kind for kind in kinds if kind in text] == [kind for kind in said.split("; ") if kind]
    assert "| Budget | 1 coalition |" in text


def test_coalitions_that_the_store_knew_before_count() -> None:
    values = Values([0.2] * 5, tuple("abcde"), "surrogate", 6, guarantee="biased", known_before=10)
    text = as_markdown(gather(values))
    assert "The values are estimated from 16 of 32 coalitions" in text
    assert "The method used 6 of 32 coalitions and 10 more from the store." in text
    assert "| Also used from the store | 10 coalitions; without them" in text
    exact = Values([0.2] * 4, tuple("abcd"), "surrogate", 6, guarantee="exact", known_before=10)
    text = as_markdown(gather(exact))
    assert "All 16 coalitions (sets of clients) were used" in text
    assert "Not all coalitions" not in text


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (fv.Cost(4, 0), ""),
        (fv.Cost(1, 3), "1 of 4 evaluations were made in this run; the store had the others."),
        (fv.Cost(0, 4), "All 4 evaluations came from the store."),
    ],
)
def test_what_the_store_had_is_told_from_what_was_trained(cost: fv.Cost, said: str) -> None:
    values = Values([0.2, 0.1], ("a", "b"), "exact", 4, guarantee="exact", cost=cost)
    lines = gather(values).cost
    assert lines[1:] == ((said,) if said else ())
    assert lines[0].startswith("The method used 4 of 4 coalitions.")


def test_noise_is_told_where_it_was_measured() -> None:
    values = Values([0.2, 0.1], ("a", "b"), "exact", 4, guarantee="exact", noise=0.0123, replicates=3)
    text = as_markdown(gather(values))
    assert (
        "varies by 0.0123 (standard deviation). The values are computed from the mean of 3 trainings" in text
    )
    assert "Training noise was not measured" not in text


def test_exact_values_say_nothing_about_noise_that_was_not_measured() -> None:
    values, trained = complete(saturating(3))
    text = as_markdown(gather(values, trained))
    assert "It is unknown whether the ranking is real" in text
    assert "wrong with a probability" not in text


def of_one_seed(**parts: float) -> Values:
    """Exact values of one seed of two clients, whose error has these parts."""
    errors = {"coalitions": np.zeros((2, 2)), **{name: np.eye(2) * part for name, part in parts.items()}}
    evaluations = 12 if "training" in parts else 4
    return Values(
        [0.2, 0.1], ("a", "b"), "exact", evaluations, guarantee="exact", random=True, parts=errors, budget=evaluations,
        metric="accuracy", utility_of_none=0.5, utility_of_all=0.8,
        empty=Empty("initial", "untrained model (mean of 64)", 64),
    )  # fmt: skip


def test_a_part_of_the_error_that_is_zero_is_not_named() -> None:
    facts = gather(of_one_seed(training=1e-4, test=1e-4))
    assert list(facts.parts) == ["training", "test"]
    assert "It covers the luck of training and the sample of test rows." in facts.interval_note
    assert "coalitions that were not trained" not in as_html(facts)


def test_intervals_from_test_rows_alone_are_those_of_a_seed() -> None:
    facts = gather(of_one_seed(test=1e-4), trainings({0: 0.5, 1: 0.7, 2: 0.6, 3: 0.8}))
    assert "is to be expected over other samples of test rows, with this seed," in facts.interval_note
    assert "It does not cover the luck of training." in facts.interval_note
    assert "The ranking is real for this seed:" in " ".join(facts.verdict)


def test_a_budget_is_in_trainings_where_there_are_several_seeds() -> None:
    assert "| Budget | 12 trainings |" in as_markdown(gather(of_one_seed(training=1e-4)))
    assert "| Budget | 4 coalitions |" in as_markdown(gather(of_one_seed(test=1e-4)))
    spread = Values([0.2, 0.1], ("a", "b"), "surrogate", 64, guarantee="biased", seeds=8, budget=64)
    assert "| Budget | 64 trainings |" in as_markdown(gather(spread))


def test_brackets_are_not_nested() -> None:
    assert "from 0.5000 (untrained model, mean of 64) to" in gather(of_one_seed(test=1e-4)).verdict[0]


def test_rounding_errors_are_no_synergy() -> None:
    weights = np.random.default_rng(0).random(5)
    table = np.array([sum(weights[i] for i in range(5) if mask >> i & 1) for mask in range(32)])
    facts = gather(*complete(table))
    assert isinstance(facts.synergy, Synergy)
    assert [pair.effect for pair in facts.synergy.pairs] == [0.0] * 10
    page = as_html(facts)
    assert "No pair is worth more or less together than separately." in page
    assert not re.search(r'class="[pm]\d"', page.split('class="key"')[0])
    assert "Complement each other most" not in as_markdown(facts)


def test_small_utilities_keep_their_digits() -> None:
    facts = gather(*complete(np.array([0.0, 2e-6, 3e-6, 4e-6])))
    assert "from 0.00000000 (no clients) to 0.00000400" in facts.verdict[0]
    assert "| 1 | 2 | 0.00000200 | 0.00000250 | 0.00000300 |" in as_markdown(facts)
    assert "−0.000</text>" not in as_html(facts)


def test_clients_without_a_name_are_called_so_in_sentences() -> None:
    values, trained = complete(np.array([0.0, 0.2, 0.5, 0.9]), ("a", "b"))
    facts = gather(
        replace(values, names=("", " \n")), trained
    )  # games refuse such names, files of values may have them
    assert "(no name) is worth the most" in facts.verdict[0]
    assert as_markdown(facts).count("| (no name) |") >= 2


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """A run in runs/one whose trainings are in trainings.db."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / "link").symlink_to(folder / "runs")
    (folder / "runs").mkdir()
    done("run", *SMALL, "--exact", "--store", folder / "trainings.db", "--out", folder / "link" / "one")
    return folder


class TestStore:
    """An external store is recorded with the run, so that later commands find it, also where both were moved."""

    @pytest.fixture
    def run(self, stored: Path, tmp_path: Path) -> Path:
        shutil.copytree(stored, tmp_path / "all")
        return tmp_path / "all" / "runs" / "one"

    def test_report_and_audit_find_it(self, run: Path) -> None:
        record = json.loads((run / "run.json").read_text(encoding="utf-8"))
        assert record["store"] == "../../trainings.db"
        assert not (run / "store.db").exists()
        assert "16 trained coalitions" in done("audit", run)
        assert "16 trained coalitions" in (run / "report.html").read_text(encoding="utf-8")
        assert "16 trained coalitions" in done("audit", run / "values.json")

    def test_a_store_that_is_gone(self, run: Path) -> None:
        (run.parents[1] / "trainings.db").unlink()
        assert "Give its path with --store" in failure("audit", run)
        done("report", run)  # what can be said without is said
        assert NO_STORE in (run / "report.html").read_text(encoding="utf-8")

    def test_a_record_that_names_nonsense(self, run: Path) -> None:
        (run / "run.json").write_text(json.dumps(sealed({"store": [1]})))
        assert "no usable store" in failure("report", run)
        for text in ("[]", "{", "null", "[" * 100_000):
            (run / "run.json").write_text(text)
            assert "not the record of a run" in failure("report", run)

    def test_coalitions_are_in_the_order_of_training(self, tmp_path: Path) -> None:
        with fv.UtilityStore(tmp_path / "s.db") as store:
            store.register("g", 3)
            for mask in (7, 0, 5, 2):
                store.append("g", [(mask, fv.Outcome({"utility": float(mask)}, 0.5, "local", "cpu"))])
                time.sleep(0.003)  # the store's clock has milliseconds
            values = Values([1.0, 2.0, 4.0], list("abc"), "exact", 8, game_id="g")
            found = read_history(store, values)
        assert list(found.utilities.items()) == [(7, [7.0]), (0, [0.0]), (5, [5.0]), (2, [2.0])]
        assert (found.seconds, found.computed_by) == (2.0, ("local on cpu",))
        assert found.first < found.last


# The command


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """The folder of a run."""
    out = tmp_path_factory.mktemp("runs") / "one"
    done("run", *SMALL, "--exact", "--out", out)
    return out


class TestCommand:
    @pytest.fixture
    def copy(self, finished: Path, tmp_path: Path) -> Path:
        return Path(shutil.copytree(finished, tmp_path / "copy"))

    def test_every_run_writes_one_and_the_command_the_same(self, copy: Path) -> None:
        written = (copy / "report.html").read_bytes()
        (copy / "report.html").unlink()
        assert done("report", copy) == f"Written to {copy / 'report.html'}.\n"
        assert (copy / "report.html").read_bytes() == written
        page = Page(written.decode())
        assert page.data["run"]["seed"] == 0
        assert page.data["synergy"]["possible"] == 6

    def test_formats(self, copy: Path, tmp_path: Path) -> None:
        for name, start in (("r.html", b"<!doctype html>"), ("r.MD", b"# What")):
            done("report", copy, "--out", tmp_path / name, "--quiet")
            assert (tmp_path / name).read_bytes().startswith(start)
        assert done("report", copy, "--format", "md", "--out", "-").startswith("# What the data of 4 clients")
        done("report", copy, "--format", "md")
        assert (copy / "report.md").exists()
        assert "Got 'png'" in failure("report", copy, "--format", "png")
        assert "Got 'txt'" in failure("report", copy, "--out", tmp_path / "r.txt")
        assert "no such folder" in failure("report", copy, "--out", tmp_path / "none" / "r.html")

    def test_money(self, copy: Path) -> None:
        money = ("--pot", "1000", "--currency", "EUR", "--format", "md", "--out", "-")
        assert "(--anyway)" in failure("report", copy, *money)  # this run has learned nothing
        text = done("report", copy, *money, "--anyway")
        assert "Payout (EUR)" in text
        assert "The pot of 1,000 EUR is shared out by the rule floor" in text
        assert "--pot" in failure("report", copy, "--currency", "EUR")
        assert "Unknown rule" in failure("report", copy, "--rule", "lottery")
        assert "must be a plain number" in failure("report", copy, "--pot", "much")

    def test_values_alone(self, copy: Path, tmp_path: Path) -> None:
        alone = tmp_path / "alone"
        alone.mkdir()
        shutil.copy(copy / "values.json", alone)
        done("report", alone / "values.json")
        text = (alone / "report.html").read_text(encoding="utf-8")
        Page(text)
        assert "There is no record of the run" in text
        assert text.count(NO_STORE) >= 4
        done("report", alone / "values.json", "--store", copy / "store.db")
        assert NO_STORE not in (alone / "report.html").read_text(encoding="utf-8")
        assert "There is no store" in failure("report", alone, "--store", tmp_path / "none.db")

    def test_values_beside_a_store_of_others(self, copy: Path) -> None:
        values = json.loads((copy / "values.json").read_text(encoding="utf-8"))
        (copy / "other.json").write_text(
            json.dumps(sealed(values | {"game_id": "another"})), encoding="utf-8"
        )
        before = (copy / "report.html").read_bytes()
        done("report", copy / "other.json", "--format", "md")
        text = (copy / "other-report.md").read_text(encoding="utf-8")
        assert text.count("holds no trainings of the game another") >= 4
        assert (copy / "report.html").read_bytes() == before
        store = copy / "store.db"
        assert "holds no trainings" in failure("report", copy / "other.json", "--store", store)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"format": "fedvalue.values/9"}, "fedvalue.values/9"),
            ({"mean": [None, 1.0, 1.0, 1.0]}, "must be a finite number"),
            ({"mean": [1.0]}, "one number per name"),
            ({"details": "none"}, "details is 'none'"),
            ({"evaluations": "many"}, "evaluations is 'many'"),
            ({"metric": 5}, "metric is 5"),
            ({"metric": "applause"}, "no metric 'applause'"),
            ({"game_id": "another"}, "holds no trainings of the game another"),
        ],
    )
    def test_bad_values(self, copy: Path, change: dict[str, Any], message: str) -> None:
        file = copy / "values.json"
        changed = json.loads(file.read_text(encoding="utf-8")) | change
        file.write_text(json.dumps(sealed(changed)), encoding="utf-8")
        before = (copy / "report.html").read_bytes()
        assert message in failure("report", copy)
        assert (copy / "report.html").read_bytes() == before  # nothing is half written

    def test_missing_and_broken_runs(self, copy: Path, tmp_path: Path) -> None:
        assert "There is no file" in failure("report", tmp_path / "none")
        (tmp_path / "empty").mkdir()
        assert "holds no values.json" in failure("report", tmp_path / "empty")
        (copy / "values.json").write_bytes(b"\xff\xfe{")
        assert "does not hold JSON" in failure("report", copy)

    def test_too_many_trainings_are_not_looked_at(self, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(import_module("fedvalue.run._finished"), "_MOST_COALITIONS", 15)
        done("report", copy)
        assert "More than 15 coalitions were trained" in (copy / "report.html").read_text(encoding="utf-8")

    def test_a_damaged_store(self, copy: Path) -> None:
        (copy / "store.db").write_bytes(b"not a store")
        assert "is not a fedvalue store" in failure("report", copy, code=1)

    def test_the_old_report_stays_until_there_are_new_values(self, copy: Path, one_thread: None) -> None:
        (copy / "report.html").write_text("of another run")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(import_module("fedvalue.run._job"), "run_requests", _interrupt)
            assert cli("run", *SMALL, "--method", "loo", "--out", copy, "--overwrite").exit_code != 0
        assert (copy / "report.html").read_text() == "of another run"
        done("run", *SMALL, "--method", "loo", "--out", copy, "--overwrite")
        assert (copy / "report.html").read_text() != "of another run"

    @pytest.mark.parametrize("other", [{"game_id": "another"}, {"method": "loo"}])
    def test_the_command_of_another_run_is_not_shown(self, copy: Path, other: dict[str, str]) -> None:
        record = json.loads((copy / "run.json").read_text(encoding="utf-8"))
        (copy / "run.json").write_text(json.dumps(sealed(record | other)), encoding="utf-8")
        done("report", copy)
        text = (copy / "report.html").read_text(encoding="utf-8")
        assert "There is no record of the run" in text
        assert "fedvalue run" not in text
        assert Page(text).data["run"] is None

    def test_another_version_of_the_record_is_not_believed(self, copy: Path) -> None:
        record = json.loads((copy / "run.json").read_text(encoding="utf-8"))
        (copy / "run.json").write_text(
            json.dumps(sealed(record | {"format": "fedvalue.run/9"})), encoding="utf-8"
        )
        done("report", copy)
        assert "There is no record of the run" in (copy / "report.html").read_text(encoding="utf-8")


def _interrupt(*args: object, **more: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_pages_are_written_without_matplotlib_and_templates_read_when_needed() -> None:
    code = (
        "import sys, fedvalue; print('jinja2' in sys.modules); from fedvalue.values import Values; from fedvalue.report import as_html, gather;"
        "as_html(gather(Values([1.0], ['a'], 'exact', 2, guarantee='exact')));"
        "print('matplotlib' in sys.modules, 'torch' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert printed.stdout.split() == ["False", "False", "False"]
