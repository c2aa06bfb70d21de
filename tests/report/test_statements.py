"""Statements: the same words as the report, nothing about anybody else, whatever clients are called."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from test_report import HOSTILE, Page, complete, done, failure, sampled, saturating, trainings

import fedvalue as fv
from fedvalue.report import Facts, Terms, as_html, as_markdown, gather, write_statements
from fedvalue.report._compared import without_each
from fedvalue.report._statement_pages import file_name, statement_page
from fedvalue.store import History
from fedvalue.values import Values

CITIES = ["Aachen", "Bern", "Como", "Delft"]


@pytest.fixture(scope="module")
def facts() -> Facts:
    return gather(*complete(saturating(4), CITIES), terms=Terms("1000", "EUR"))


def said(facts: Facts, name: str) -> str:
    return " ".join(next(one.paragraphs for one in facts.statements if one.client.name == name) or ())


def test_a_statement_says_the_amount_the_reason_and_what_all_reach_without_it(facts: Facts) -> None:
    table = saturating(4)
    for client in facts.clients:
        text = said(facts, client.name)
        assert f"It is paid {client.paid} EUR:" in text
        assert "in proportion to their values" in text  # the rule in words
        assert f"Its value is +{client.value:.4f}" in text
        without = table[15 ^ 1 << client.index]
        assert f"reach utility {without:.4f} without it, and {table[15]:.4f} with it" in text
        assert f"Alone it reaches {table[1 << client.index]:.4f} (no clients: 0.0000)." in text


def test_coalitions_smaller_than_agreed_are_not_shown_though_the_store_has_them() -> None:
    values, known = complete(saturating(4), CITIES)
    facts = gather(values, known, {"options": {"min_coalition": 3}})
    assert not any("Alone it reaches" in said(facts, name) for name in CITIES)
    assert "without it, and" in said(facts, CITIES[0])
    assert [layer.size for layer in facts.growth.layers] == [0, 3, 4]  # type: ignore[union-attr]


def test_all_statements_have_one_number_for_all_clients_together() -> None:
    """Without a, seed 0 was trained; without b, seed 1: all clients reach 0.5 with the one and 0.9 with the other."""
    values = Values(
        [0.3, 0.3],
        ("a", "b"),
        "surrogate",
        8,
        guarantee="biased",
        seeds=2,
        utility_of_none=0.1,
        utility_of_all=0.7,
    )
    found = {0: [0.1], 3: [0.5, 0.9], 2: [0.2], 1: [0.4]}
    prints = {mask: tuple(seen) for mask, seen in found.items()}
    history = History(found, prints, 0.0, (), "", "", {0: [0], 3: [0, 1], 2: [0], 1: [1]})
    facts = gather(values, history)
    assert "to 0.7000 (estimate over 2 seeds)" in facts.verdict[0]
    for name, change in (("a", "0.3000"), ("b", "0.5000")):
        text = said(facts, name)
        assert "All clients together reach utility 0.7000 (estimate over 2 seeds)." in text
        assert f"it is better with it, by {change}." in text
        assert "0.9000" not in text
    assert "means of trainings with different seeds" in as_markdown(facts)
    assert "means of trainings with different seeds" in as_html(facts)


def test_nobody_else_is_in_a_page(facts: Facts, tmp_path: Path) -> None:
    files = write_statements(facts, tmp_path / "new" / "folder")
    assert [file.name for file in files] == [f"{i + 1}-{name.lower()}.html" for i, name in enumerate(CITIES)]
    assert sum(Decimal(str(client.paid)) for client in facts.clients) == 1000
    for file, name in zip(files, CITIES, strict=True):
        text = file.read_text(encoding="utf-8")
        page = Page(text)
        own = next(client for client in facts.clients if client.name == name)
        assert page.data["client"] == name
        assert page.data["payout"] == own.paid
        for other in facts.clients:
            if other.name != name:
                assert other.name not in text
                assert str(other.paid) not in text
                assert f"{other.value:.4f}" not in re.sub(r"reach\w* [\d.]+", "", text)


@pytest.mark.parametrize("kind", ["no contribution", "interchangeable", "dependent", "harmful"])
def test_findings_that_name_two_clients_do_not(kind: str) -> None:
    facts = gather(*complete(saturating(4), CITIES))
    finding = fv.audit(*_looked()).findings[0]
    changed = replace(finding, kind=kind, clients=("Aachen", "Bern"), statement="Aachen and Bern …")
    from fedvalue.report._statement import _remarks

    audit = replace(facts.audit, findings=(changed,))  # type: ignore[type-var]
    told = {client.name: " ".join(_remarks(client, audit)) for client in facts.clients}
    assert told["Aachen"].startswith("Audit: ")
    assert "Bern" not in told["Aachen"]
    assert bool(told["Bern"]) == (kind != "dependent")  # it is Aachen that depends
    assert told["Como"] == told["Delft"] == ""


def _looked() -> tuple[Values, dict[int, list[float]]]:
    table = np.array([saturating(4)[mask & 7] for mask in range(16)])
    values, known = complete(table, CITIES)
    return values, {mask: list(of) for mask, of in known.utilities.items()}


def test_what_others_bring_too_and_what_is_new() -> None:
    twins = gather(*complete(np.array([0.0, 1.0, 1.0, 1.05]), ["a", "b"]))
    assert "most of what it brings alone, the others bring too" in said(twins, "a")
    strangers = gather(*complete(np.array([0.0, 1.0, 1.0, 2.0]), ["a", "b"]))
    assert "most of what it brings alone is also new" in said(strangers, "a")
    assert "The other client reaches utility 1.0000 without it" in said(strangers, "a")


def test_a_client_below_zero_hears_why_it_gets_nothing() -> None:
    facts = gather(*complete(np.array([0.0, 1.0, -0.5, 0.2]), ["a", "b"]), terms=Terms("10", "EUR"))
    text = said(facts, "b")
    assert "It is paid nothing, because its value is below zero. By the rule floor, clients with" in text
    assert "has a worse utility with its data than without. That does not say why." in text
    assert "worse with it, by 0.8000" in text


def test_trainings_are_compared_within_a_seed() -> None:
    values = Values([0.2, 0.2], ("a", "b"), "surrogate", 8, guarantee="biased", seeds=2, utility_of_none=0.1)
    runs = {0: [0.1], 1: [0.5, 0.9], 2: [0.4], 3: [0.8, 0.6]}
    seeds = {0: [0], 1: [0, 1], 2: [2], 3: [0, 1]}
    first, second = without_each(values, History(runs, {}, 0.0, (), "", "", seeds))
    assert first.last is None  # b alone has another seed than both together
    assert second.last is not None
    assert (second.last.first, second.last.second, second.last.trainings) == pytest.approx((0.7, 0.7, 2))
    assert first.alone is not None
    assert (first.alone.first, first.alone.second) == pytest.approx((0.1, 0.7))
    assert "trainings of all clients and of all others with the same random numbers" in said(gather(values, History(
        {m: [x[0]] for m, x in runs.items()}, {m: (m,) for m in runs}, 0.0, (), "", "", {0: [0], 1: [0], 2: [2], 3: [0]})), "a")  # fmt: skip


def test_luck_is_told_beside_a_single_comparison() -> None:
    values, known = complete(saturating(3))
    noisy = gather(replace(values, noise=0.01), known)
    assert f"up to ±{1.96 * 0.01 * np.sqrt(2):.4f} (95%)" in noisy.statements[0].paragraphs[2]
    assert "Luck of training" not in " ".join(gather(values, known).statements[0].paragraphs)


def test_less_is_better_is_said_in_the_metric_itself() -> None:
    values = Values(
        [1.2, 0.8], ["a", "b"], "exact", 4, guarantee="exact", metric="loss", higher_is_better=False,
        utility_of_none=-2.3, utility_of_all=-0.3,
    )  # fmt: skip
    text = said(gather(values, trainings({0: -2.3, 1: -0.9, 2: -1.3, 3: -0.3})), "a")
    assert "by so much its data lowers the loss" in text
    assert "reaches loss 1.3000 without it, and 0.3000 with it: better with it, by 1.0000" in text
    assert "Alone it reaches 0.9000 (untrained model: 2.3000)." in text


def test_names_are_only_names(tmp_path: Path) -> None:
    facts = gather(*sampled(len(HOSTILE), HOSTILE), terms=Terms("10", "<b>"))
    files = write_statements(facts, tmp_path)
    assert len({file.name for file in files}) == len(HOSTILE)
    assert all(re.fullmatch(r"\d\d-[a-z0-9-]{1,40}\.html", file.name) for file in files)
    assert {file.parent for file in files} == {tmp_path}
    for file, name in zip(files, HOSTILE, strict=True):
        text = file.read_text(encoding="utf-8")
        page = Page(text)
        assert page.data["client"] == name
        assert page.comments == []
        assert len(page.all("script")) == 1
        assert not {tag for _, tag, _ in page.elements} & {"img", "b"}
        assert "http" not in page.texts["style"]
    assert file_name("con") == "con"  # with a number in front, it is no device
    assert file_name("/../../etc") == "etc"


def test_the_same_facts_are_the_same_bytes_and_markdown_is_a_twin(facts: Facts, tmp_path: Path) -> None:
    one = facts.statements[0]
    assert statement_page(facts, one) == statement_page(facts, one)
    text = statement_page(facts, one, "md")
    assert text.startswith(f"# Statement for {one.client.name}\n")
    assert "\n\n\n" not in text
    for paragraph in one.paragraphs:
        for where in (as_html(facts), as_markdown(facts)):
            assert paragraph.split(":")[0] in where
    (file, *_) = write_statements(facts, tmp_path, "md")
    assert file.suffix == ".md"


def test_many_are_folded_and_are_not_printed() -> None:
    page = as_html(gather(*sampled(14, [f"c{i}" for i in range(14)])))
    assert "The statements for the other 2 clients, which are not printed" in page
    assert page.count('<article class="statement">') == 14


def test_the_command_and_python_write_them(tmp_path: Path) -> None:
    values, _ = complete(saturating(3), ["A", "B", "C"])
    values.save(tmp_path / "values.json")
    told = done("report", tmp_path, "--pot", "10", "--statements", tmp_path / "s")
    assert told == f"Written to {tmp_path / 'report.html'}, and 3 statements to {tmp_path / 's'}.\n"
    fv.report(values, tmp_path / "r.html", pot=10, statements=tmp_path / "t")
    for name in ("1-a.html", "2-b.html", "3-c.html"):
        one, other = ((tmp_path / folder / name).read_text(encoding="utf-8") for folder in "st")
        assert Page(one).data == Page(other).data
    (tmp_path / "file").write_text("")
    assert "Cannot write to" in failure("report", tmp_path, "--statements", tmp_path / "file")


def test_values_alone_have_statements_too() -> None:
    facts = gather(Values([0.3, 0.1], ["a", "b"], "loo", 3, guarantee="biased"), terms=Terms("10"))
    text = said(facts, "a")
    assert "How far this amount could be off is not known." in text
    assert "trainings of all clients and of all others with the same random numbers" in text
    assert json.dumps(facts.to_dict(), default=str)


class TestParties:
    """A member hears of its group, and a copy that it shares; the others are not named."""

    def of(self) -> Facts:
        values = Values(
            [0.3, -0.1, 0.4, 0.2], CITIES, "exact", 16, guarantee="exact", groups={"Holding": CITIES[:2]}
        )
        return gather(values, terms=Terms("1000", "EUR"))

    def test_a_member_hears_of_its_group_its_value_and_how_it_is_divided(self, tmp_path: Path) -> None:
        facts = self.of()
        for name, other in (CITIES[:2], CITIES[1::-1]):
            text = said(facts, name)
            assert "It belongs to the group Holding: 2 clients that join as one party." in text
            assert "The value of the group is +0.2000" in text
            assert "divided among its members in proportion to their values in it" in text
            assert "members of a group one after the other" in text
            assert other not in text
        assert "group Holding" not in said(facts, "Como")
        pages = write_statements(facts, tmp_path)
        assert "one client and its group only" in pages[0].read_text(encoding="utf-8")
        assert "one client only" in pages[2].read_text(encoding="utf-8")
        assert [Page(p.read_text(encoding="utf-8")).data["group"] for p in pages[1:3]] == ["Holding", None]

    def test_a_copy_hears_that_it_shares(self) -> None:
        alike = [0.0, 0.4, 0.3, 0.5, 0.4, 0.4, 0.5, 0.5]  # the first and the third
        table = np.array([alike[mask & 7] + 0.25 * (mask >> 3) for mask in range(16)])
        facts = gather(*complete(table, CITIES), terms=Terms("1000", "EUR", copies="share"))
        paid = {client.name: client.paid for client in facts.clients}
        assert paid == {"Aachen": "200.00", "Bern": "266.67", "Como": "200.00", "Delft": "333.33"}
        assert "interchangeable with 1 other client: they share one part equally" in said(facts, "Aachen")
        assert "amounts are not in proportion" in said(facts, "Bern")
        assert "share one part equally" not in said(facts, "Bern")

    def test_the_report_says_who_is_paid_as_one(self) -> None:
        facts = self.of()
        page, text = as_html(facts), as_markdown(facts)
        assert {c.name: c.paid_with for c in facts.clients} == {
            "Aachen": "group Holding", "Bern": "group Holding", "Como": "", "Delft": "",
        }  # fmt: skip
        assert [(group.name, group.members, group.paid) for group in facts.groups] == [
            ("Holding", ("Aachen", "Bern"), "250.00")
        ]
        assert "Groups, which are paid as one party" in page
        assert "| Holding | Aachen, Bern | +0.2000 |" in text
        assert "Each statement can be read alone and names no other client; a member" in page
