"""What amounts depend on: against values computed anew, and where nothing can be said."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from test_report import Page, complete, sampled, saturating

import fedvalue as fv
from fedvalue.payout import payout
from fedvalue.report import Absent, as_html, as_markdown, gather
from fedvalue.report._other_metrics import other_metrics
from fedvalue.report._sensitivity import Sensitivity, sensitivity
from fedvalue.store import History, read_history
from fedvalue.values import Values

Array = NDArray[np.float64]


def metrics_of(mask: int) -> dict[str, float]:
    """Three metrics of a coalition of four, and one of them on two parts of the test rows."""
    size = mask.bit_count()
    accuracy = 0.2 + 0.15 * size + 0.05 * (mask & 1) + mask * 37 % 11 / 100
    return {
        "accuracy": accuracy, "loss": 2.0 - 0.3 * size - 0.2 * (mask >> 1 & 1), "auc": 0.5 + 0.1 * size + 0.05 * (mask >> 2 & 1),
        "correct": float(round(100 * accuracy)), "late/accuracy": accuracy - 0.1 * (mask >> 3 & 1), "late/loss": 1.0,
    }  # fmt: skip


def stored(tmp_path: Path, method: str, budget: int | None = None) -> tuple[Values, History]:
    """Values of a run whose store has several metrics."""
    accuracy = np.array([metrics_of(mask)["accuracy"] for mask in range(16)])
    values = fv.value(fv.TableGame(accuracy), method, budget=budget)
    values = replace(values, metric="accuracy", stored_as="accuracy", unit="accuracy")
    with fv.UtilityStore(tmp_path / "s.db") as store:
        store.register(values.game_id, 4)
        store.append(values.game_id, [(mask, fv.Outcome(metrics_of(mask))) for mask in range(16)])
        return values, read_history(store, values)


def expected(metric: str) -> Array:
    sign = -1 if metric.endswith("loss") else 1
    return fv.value([sign * metrics_of(mask)[metric] for mask in range(16)], "exact").mean


@pytest.mark.parametrize(("method", "budget"), [("exact", None), ("permutation", 12), ("surrogate", 12)])
def test_other_metrics_are_what_the_method_gives(tmp_path: Path, method: str, budget: int | None) -> None:
    values, known = stored(tmp_path, method, budget)
    found = other_metrics(values, known)
    assert not isinstance(found, Absent)
    assert [(other.metric, other.part) for other in found] == [
        ("auc", ""),
        ("accuracy", "late"),
        ("loss", ""),
    ]
    for other, metric in zip(found, ("auc", "late/accuracy", "loss"), strict=True):
        close = 1e-9 if method == "exact" else 0.1
        np.testing.assert_allclose(other.mean, expected(metric), atol=close)


def test_values_of_other_options_are_not_explained(tmp_path: Path) -> None:
    values, known = stored(tmp_path, "surrogate", 9)
    found = other_metrics(replace(values, seed=5), known)
    assert isinstance(found, Absent)
    assert "takes the method once more, on the stored trainings" in found.why
    lacking = History(
        {m: u for m, u in known.utilities.items() if m in (0, 15)}, known.prints, 0.0, (), "", "", known.seeds,
        known.measured, known.untrained,
    )  # fmt: skip
    assert other_metrics(values, known) != found
    short = {mask: prints for mask, prints in known.prints.items() if mask in (0, 15)}
    assert isinstance(other_metrics(values, replace(lacking, prints=short)), Absent)


def test_a_store_with_one_metric_says_so() -> None:
    found = other_metrics(*complete(saturating(3)))
    assert found == Absent("The store has no other metric of these trainings.")


def test_amounts_of_every_alternative_add_up(tmp_path: Path) -> None:
    values, known = stored(tmp_path, "exact")
    paid = payout(values, 1000, currency="EUR")
    found = sensitivity(values, paid, known)
    assert isinstance(found, Sensitivity)
    told = [other.what for other in found.alternatives]
    assert told == [
        "Rule proportional", "Rule shift", "Rule threshold", "Metric auc", "Metric loss", "Test rows late alone",
    ]  # fmt: skip
    for other in found.alternatives:
        assert sum(other.amounts) == 1000
        change = [a - line.amount for a, line in zip(other.amounts, paid.lines, strict=True)]
        assert other.moved == sum((x for x in change if x > 0), Decimal(0))
        if other.moved:
            assert other.gains == (change.index(max(change)), max(change))
            assert other.loses == (change.index(min(change)), -min(change))
    loss = next(other for other in found.alternatives if other.what == "Metric loss")
    shares = expected("loss") / expected("loss").sum()
    np.testing.assert_allclose([float(a) for a in loss.amounts], 1000 * shares, atol=0.01)


def test_a_rule_that_cannot_be_applied_says_why() -> None:
    values = Values([0.5, -0.1], ("a", "b"), "loo", 3, guarantee="biased")
    found = sensitivity(values, payout(values, 100), Absent("No store."))
    assert isinstance(found, Sensitivity)
    assert [what for what, _ in found.not_possible] == [
        "Rule proportional", "Rule threshold", "Other metrics and test rows",
    ]  # fmt: skip
    assert found.luck == ()
    text = as_html(gather(values))
    assert "How much is luck, of training or of test rows, is not known" in text
    assert "Rule proportional: cannot be computed." in text


def test_luck_of_one_kind_alone_is_narrower_than_of_all() -> None:
    parts = {"coalitions": np.eye(3) * 4e-4, "training": np.eye(3) * 1e-4, "test": np.zeros((3, 3))}
    values = Values([0.3, 0.2, 0.1], list("abc"), "surrogate", 8, guarantee="biased", parts=parts)
    paid = payout(values, 1000)
    found = sensitivity(values, paid, Absent("No store."))
    assert isinstance(found, Sensitivity)
    assert [luck.what for luck in found.luck] == ["Other coalitions trained", "Other seeds of training"]
    for luck in found.luck:
        for (low, high), line in zip(luck.ranges, paid.lines, strict=True):
            assert line.low is not None
            assert line.high is not None
            assert low <= line.amount <= high
            assert high - low < line.high - line.low
    assert found.luck[0].typical > found.luck[1].typical > 0


def test_nobody_paid_nothing_to_depend() -> None:
    facts = gather(Values([-0.2, -0.1], ["a", "b"], "exact", 4, guarantee="exact"))
    assert isinstance(facts.sensitivity, Absent)
    for text in (as_html(facts), as_markdown(facts)):
        assert "Nobody is paid, so there are no amounts" in text


def test_it_is_in_the_report(tmp_path: Path) -> None:
    values, known = stored(tmp_path, "exact")
    facts = gather(values, known)
    for text in (as_html(facts), as_markdown(facts)):
        assert "Metric loss" in text
        assert "Test rows late alone" in text
    assert "How sure the model is of right answers." in as_html(facts)
    told = Page(as_html(facts)).data["sensitivity"]
    assert [sum(map(Decimal, other["amounts"])) for other in told["alternatives"]] == [100] * 6


@pytest.mark.slow
def test_many_clients_take_seconds() -> None:
    values, known = sampled(201, [f"c{i}" for i in range(201)], 60)
    facts = gather(values, known)
    assert not isinstance(facts.sensitivity, Absent)
