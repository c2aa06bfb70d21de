"""The head of a report, its pot, its incidents and its annex: what is said, what is not, and that it adds up."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_report import HOSTILE, SMALL, Page, complete, done, failure, sampled, saturating, trainings

import fedvalue as fv
from fedvalue.payout import payout
from fedvalue.report import Cover, Terms, as_html, as_markdown, gather
from fedvalue.report._annex import rules_of
from fedvalue.report._charts import _value_scale, _without_start
from fedvalue.report._incidents import incidents_of
from fedvalue.report._method import cost_lines
from fedvalue.report._pairs import scale_of, shade
from fedvalue.report._pot import pot_lines
from fedvalue.report._trained import Absent, Synergy, grow
from fedvalue.values import Values

HEAD = Cover("Herzverbund <Nord>", "Q1 | 2026", "2026-04-15", "Data Trust & Co.")
RECORD: dict[str, Any] = {
    "format": "fedvalue.run/1", "game_id": "g", "metric": "accuracy", "method": "exact", "seed": 0, "model": "mlp",
    "scenario": {
        "name": "digits", "partition": "size", "clients": list("abc"), "rows": [10, 20, 3000],
        "test": {"rows": 99, "fingerprint": "0123abcd"},
    },
    "training": {"rounds": 4, "momentum": 0.0, "algorithm": "fedavg"}, "backend": "flower", "cover": {"period": "Q9", "operator": "Ops"},
}  # fmt: skip


# The head


def test_the_head_says_whose_period_and_pot() -> None:
    facts = gather(*complete(saturating(3)), terms=Terms("1000", "EUR"), cover=HEAD)
    assert facts.title == "Herzverbund <Nord>"
    assert facts.heading[:5] == (
        ("Period", "Q1 | 2026"), ("Date", "2026-04-15"), ("Operator", "Data Trust & Co."), ("Pot", "1,000.00 EUR"),
        ("Clients", "3"),
    )  # fmt: skip
    page, text = as_html(facts), as_markdown(facts)
    assert "<h1>Herzverbund &lt;Nord&gt;</h1>" in page
    assert text.startswith("# Herzverbund &lt;Nord&gt;\n")
    assert "- Period: Q1 \\| 2026\n" in text
    assert Page(page).data["cover"]["operator"] == "Data Trust & Co."


def test_nothing_said_is_nothing_shown() -> None:
    facts = gather(Values([0.2], ("a",), "exact", 2, guarantee="exact"))
    assert [label for label, _ in facts.heading] == ["Clients", "Measured by"]
    assert facts.title == "What the data of 1 client is worth"


def test_the_record_fills_in_what_was_not_given() -> None:
    values, known = complete(saturating(3), list("abc"))
    facts = gather(values, known, RECORD, cover=Cover(operator="Other"))
    assert (facts.cover.period, facts.cover.operator) == ("Q9", "Other")
    odd = gather(values, known, RECORD | {"cover": {"period": 7, "date": None, "more": 1}})
    assert (odd.cover.period, odd.cover.date) == ("7", "")
    assert gather(values, known, RECORD | {"cover": "x" * 900}).cover == Cover()


@pytest.mark.parametrize("text", [*HOSTILE, "\x1b[31m"])
def test_whatever_the_head_says_is_text(text: str) -> None:
    given = text[:200]
    facts = gather(*complete(saturating(2)), cover=Cover(given, given, given, given))
    page = Page(as_html(facts))
    assert len(page.all("script")) == 1
    assert not {tag for _, tag, _ in page.elements} & {"img", "form"}
    assert page.data["cover"]["period"] == given


@pytest.mark.parametrize(
    ("given", "message"),
    [({"period": 3}, "must be a text"), ({"operator": "x" * 201}, "at most 200 letters")],
)
def test_a_head_that_is_none(given: dict[str, Any], message: str) -> None:
    with pytest.raises(fv.InputError, match=message):
        Cover(**given)


def test_dates_of_python_are_dates(tmp_path: Path) -> None:
    values, _ = complete(saturating(2))
    fv.report(values, tmp_path / "r.md", date=datetime.date(2026, 4, 15), consortium="C")
    assert "- Date: 2026-04-15" in (tmp_path / "r.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_run_keeps_what_its_head_says(tmp_path: Path, one_thread: None) -> None:
    out = tmp_path / "out"
    done("run", *SMALL, "--exact", "--out", out, "--consortium", "C", "--period", "Q1", "--operator", "O")
    record = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert record["cover"] == {"consortium": "C", "period": "Q1", "operator": "O"}
    assert len(record["scenario"]["rows"]) == 4
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<h1>C</h1>" in page
    assert "<dd>Q1</dd>" in page
    done("report", out, "--period", "Q2", "--format", "md")
    text = (out / "report.md").read_text(encoding="utf-8")
    assert "- Period: Q2" in text
    assert "- Operator: O" in text
    assert f"fingerprint {record['scenario']['test']['fingerprint']}" in text
    assert "at most 200 letters" in failure("report", out, "--period", "x" * 201)


# Rows, totals, the pot


def test_rows_and_totals_add_up() -> None:
    values, known = complete(saturating(3), list("abc"))
    facts = gather(values, known, RECORD, Terms("1000", "EUR"))
    assert [client.rows for client in sorted(facts.clients, key=lambda c: c.index)] == [10, 20, 3000]
    assert facts.rows == 3030
    page = as_html(facts)
    assert '<tfoot role="rowgroup"><tr role="row" class="total">' in page
    assert "3,030" in page
    assert f"| **Total** | | 3,030 | +{facts.sum:.4f} | | 100.0% | **1,000.00** | |" in as_markdown(facts)


@pytest.mark.parametrize(
    "rows", [None, "many", [1, 2], [1, 2, 3.5], [1, 2, None], [True, False, True], {"a": 1}]
)
def test_rows_that_are_none_are_left_out(rows: Any) -> None:
    values, known = complete(saturating(3), list("abc"))
    facts = gather(values, known, RECORD | {"scenario": {"rows": rows}})
    assert facts.rows is None
    assert '<th scope="col" class="num" role="columnheader">Rows</th>' not in as_html(facts)


def test_rows_of_those_who_answered() -> None:
    values = Values([0.2, 0.1], ("a", "c"), "exact", 4, guarantee="exact", clients=[0, 2])
    assert [client.rows for client in gather(values, None, RECORD).clients] == [10, 3000]


def test_what_is_set_aside_and_absent_belongs_to_the_total() -> None:
    values = Values([0.3, 0.1], ("a", "b"), "exact", 4, guarantee="exact", absent={"c": "did not answer"})
    facts = gather(values, terms=Terms("1000", "EUR", absent="escrow=0.2"))
    paid = facts.payout
    assert not isinstance(paid, Absent)
    assert sum(line.amount for line in paid.lines) + paid.held == 1000
    page = as_html(facts)
    assert "Set aside" in page
    assert "200.00" in page
    assert "| Set aside |" in as_markdown(facts)
    assert "c was absent; by the rule escrow, 200.00 EUR are set aside." in facts.verdict
    assert "It is paid 600.00 EUR: 60.0% of the pot." in facts.statements[0].paragraphs[0]


def test_the_pot_in_a_sentence() -> None:
    many = payout(
        Values([*range(9, 0, -1), 0.0, -1.0], [f"c{i}" for i in range(11)], "exact", 4, guarantee="exact"),
        4500,
    )
    assert pot_lines(many) == (
        "Of the pot of 4,500.00, c0 gets the most, 900.00, and c8 the least of the 9 clients who are paid, 100.00; c9 and "
        "c10 get nothing.",
    )
    one = payout(Values([1.0], ["only"], "exact", 2, guarantee="exact"), 5, currency="EUR")
    assert pot_lines(one) == ("Of the pot of 5.00 EUR, only gets 5.00.",)
    unsure = payout(Values([2.0, 1.0], ["a", "b"], "surrogate", 3, stderr=[0.1, 0.1]), 30)
    assert "a gets 20.00 (between " in pot_lines(unsure)[0]
    assert pot_lines(Absent("why")) == ()


# Incidents


def test_incidents_are_listed_once_with_what_is_known() -> None:
    values = Values(
        [0.2], ("a",), "exact", 2, guarantee="exact", absent={"<b>": "did not answer"},
        suspicious=("a has copies.",), details={"incidents": ["a came back", "a came back"]},
    )  # fmt: skip
    told = [{"kind": "refused", "what": "x | y", "when": "2026-01-01"}, "a came back", 7]
    record = RECORD | {"incidents": told}
    found = incidents_of(values, record)
    assert [one.kind for one in found] == ["absent", "data", "noted", "refused", "noted"]
    facts = gather(values, None, record)
    page, text = as_html(facts), as_markdown(facts)
    assert "&lt;b&gt;: did not answer" in page
    assert "| refused | x \\| y | 2026-01-01 |" in text


@pytest.mark.parametrize(
    ("record", "note"),
    [
        (None, "No incident is recorded with these values."),
        ({"backend": "local"}, "All data was in one place"),
        (RECORD, "none failed or was asked again"),
    ],
)
def test_no_incident_is_said_as_far_as_it_is_known(record: dict[str, Any] | None, note: str) -> None:
    facts = gather(Values([0.2], ("a",), "exact", 2, guarantee="exact"), None, record)
    if facts.origin.record is None and record is not None:
        facts = replace(facts, origin=replace(facts.origin, record=record))
    assert note in as_html(facts)


# The annex


@pytest.mark.parametrize("store", [None, "s.db"])
def test_trainings_with_other_seeds_are_counted(store: str | None, tmp_path: Path) -> None:
    given = None if store is None else tmp_path / store
    result = fv.run("digits", clients=2, samples=20, rounds=1, epochs=1, method="exact", store=given)
    assert result.values.luck_trainings
    luck, history = result.values.luck_trainings, result.history()
    assert history.made == f"{4 + luck} trainings of 4 coalitions, {luck} of them with other seeds"
    assert f"The store holds {history.made}, which took " in " ".join(cost_lines(result.values, history))


def test_the_annex_has_the_rules_that_were_run() -> None:
    values, known = complete(saturating(3), list("abc"))
    paid = payout(values, 100)
    rules = dict(rules_of(values, RECORD, known, paid))
    assert rules["Rules of training"] == "rounds 4, algorithm fedavg"
    assert rules["Test set"] == "99 rows, fingerprint 0123abcd"
    assert rules["Data"] == "digits, partition size"
    files = {"scenario": {"name": "files", "partition": "file"}}
    assert dict(rules_of(values, files, known, paid))["Data"] == "files"
    assert rules["In the store"] == "8 trainings of 8 coalitions"
    assert rules["Payout"] == "rule floor, in steps of 0.01"
    luck = dict(rules_of(values, RECORD, replace(known, other_seeds={7: 2, 3: 1}), paid))
    assert luck["In the store"] == "11 trainings of 8 coalitions, 3 of them with other seeds"
    nothing = dict(rules_of(values, None, Absent("no store"), Absent("nobody")))
    assert nothing["Model"] == nothing["Test set"] == nothing["In the store"] == "not recorded"
    odd = rules_of(values, {"scenario": 3, "training": [1], "learner": None, "model": "\n<x>"}, known, paid)
    assert dict(odd)["Model"] == " <x>"


def test_an_agreement_is_named_and_there_is_room_to_sign() -> None:
    values, known = complete(saturating(3), ["A", "<B>", "C"])
    without = as_html(gather(values, known, cover=HEAD))
    assert "No agreement is recorded with this run." in without
    assert "Operator: <bdi>Data Trust &amp; Co.</bdi>" in without
    assert without.count('<tr class="sign">') == 4
    agreed = gather(replace(values, agreement="f" * 64), known)
    for text in (as_html(agreed), as_markdown(agreed)):
        assert "f" * 64 in text
    many = as_html(gather(*sampled(60, [f"c{i}" for i in range(60)])))
    assert many.count('<tr class="sign">') == 41
    assert "Further clients sign on a sheet of their own." in many


def test_no_jargon_before_the_annex() -> None:
    facts = gather(*complete(saturating(4)), terms=Terms("10", "EUR"))
    main, annex = as_html(facts).split('<div class="annex">')
    for word in ("MC-SV", "Holm", "values by", "by the method", "Gaussian"):
        assert word not in main
    assert "MC-SV" in annex
    assert "Holm’s method" in annex


# Scales


def test_the_untrained_model_does_not_squeeze_all_others() -> None:
    table = {0: 0.1} | {mask: 0.83 + 0.01 * mask for mask in range(1, 16)}
    drawn, start = _without_start(grow(table))
    assert start == 0.1
    assert [layer.size for layer in drawn.layers] == [1, 2, 3, 4]
    values = Values([0.2] * 4, list("abcd"), "exact", 16, guarantee="exact")
    page = as_html(gather(values, trainings(table)))
    assert "The untrained model, with 0.1000, lies far outside and is left out." in page
    near, none = _without_start(grow({0: 0.8, **{mask: 0.83 + 0.01 * mask for mask in range(1, 16)}}))
    assert none is None
    assert near.layers[0].size == 0


def test_one_client_far_away_does_not_squeeze_all_others() -> None:
    values = Values([*np.linspace(0.01, 0.02, 60), -50.0], [f"c{i}" for i in range(61)], "loo", 62)
    facts = gather(values)
    scale = _value_scale(facts.clients)
    assert scale.high - scale.low < 0.1
    assert "A bar that leaves its chart runs far from all others." in as_html(facts)


def test_small_effects_look_small() -> None:
    weights = np.array([0.2, 0.3, 0.4])
    table = np.array([sum(weights[i] for i in range(3) if mask >> i & 1) for mask in range(8)])
    table[7] -= 0.01  # an effect of a thirtieth of what a client is worth
    facts = gather(*complete(table))
    assert isinstance(facts.synergy, Synergy)
    end = scale_of(facts, facts.synergy)
    assert end == pytest.approx(np.mean([client.value for client in facts.clients]))
    assert {shade(pair.effect, end) for pair in facts.synergy.pairs} <= {"none", "m1"}
    assert f"replace each other −{end:.4f}" in as_html(facts)
    assert Decimal(str(round(end / 4, 4))) > 0
