"""What was noticed about data stays with its values, and no client can harm others through what is common to all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedvalue as fv
from fedvalue.scenarios import load_scenario

Change = Callable[[str, np.ndarray], np.ndarray]


def folder(path: Path, clients: str, change: Change = lambda name, x: x, labels: int = 2) -> Path:
    """A line between two classes, and what a client makes of its features."""
    rng = np.random.default_rng(0)
    path.mkdir()
    for name in (*clients, "test"):
        x = rng.normal(0, 1, (80, 2))
        y = (x.sum(1) > 0).astype(int) if labels == 2 or name != clients[-1] else np.arange(80) % labels
        x = change(name, x)
        rows = [f"{a:.8g},{b:.8g},{label}" for (a, b), label in zip(x, y, strict=True)]
        (path / f"{name}.csv").write_text("\n".join(["p,q,y", *rows]) + "\n")
    return path


def other_units(name: str, x: np.ndarray) -> np.ndarray:
    return x * [1000, 1] if name == "b" else x


def test_it_is_in_the_values_the_audit_the_report_and_the_payout(tmp_path: Path, one_thread: None) -> None:
    data = folder(tmp_path / "data", "abc", other_units)
    result = fv.run(
        "files", data_dir=data, label="y", model="linear", rounds=16, method="exact", out=tmp_path / "o"
    )
    assert any("b: p lies far from that of the others" in text for text in result.values.suspicious)
    again = fv.Values.from_dict(result.values.to_dict())
    assert again.suspicious == result.values.suspicious
    assert "suspicious data" in {finding.kind for finding in result.audit().findings}
    assert "as if in other units" in (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    policy = result.payout(1000, anyway=True).policy
    assert any(line.startswith("Suspicious data: b: p") for line in policy)


def test_of_two_clients_one_cannot_make_the_others_data_worthless(tmp_path: Path, one_thread: None) -> None:
    def narrow(name: str, x: np.ndarray) -> np.ndarray:
        return x * [1e-4, 1] if name == "b" else x

    def alone(where: Path) -> float:
        game = fv.FederatedGame(
            load_scenario("files", folder=where, label="y"), "linear", fv.Training(rate=0.05)
        )
        ((_, outcome),) = game.evaluate([0b01])
        return outcome.metrics["accuracy"]

    honest, attacked = folder(tmp_path / "h", "ab"), folder(tmp_path / "a", "ab", narrow)
    assert alone(honest) > 0.9
    assert alone(attacked) == pytest.approx(alone(honest), abs=0.03)
    report = load_scenario("files", folder=attacked, label="y").report
    assert report is not None
    assert any(text.startswith("b: p") for text in report.suspicious)
    assert not any(text.startswith("a: ") for text in report.suspicious)


def test_one_client_cannot_turn_classes_into_quantities(tmp_path: Path) -> None:
    data = folder(tmp_path / "data", "abcd", labels=60)
    with pytest.raises(fv.ScenarioError, match=r"few different numbers in most files .* many at d"):
        load_scenario("files", folder=data, label="y")
    assert load_scenario("files", folder=data, label="y", task="regression").classes == 0


def test_a_metric_that_a_constant_answer_maximises_is_no_verdict(one_thread: None) -> None:
    def recall(outputs: np.ndarray, labels: np.ndarray) -> float:
        return float((outputs.argmax(1)[labels == 1] == 1).mean())

    values = fv.run("digits", clients=3, samples=60, rounds=1, metric=recall, method="exact").values
    assert values.baseline is None
    assert values.learned is None
    assert values.warning == ""


def test_untrained_trees_do_not_prefer_the_first_class(one_thread: None) -> None:
    pytest.importorskip("xgboost", reason="needs the extra xgboost")
    scenario = load_scenario("digits", clients=3, samples=40)
    values = fv.value(fv.FederatedGame(scenario, "xgboost", fv.Training(rounds=1)), "equal")
    assert values.utility_of_none == pytest.approx(0.1)


def test_there_are_no_shares_of_a_loss() -> None:
    values = fv.Values([1.0, -3.0], ["a", "b"], "exact", 4)
    assert np.isnan(values.share).all()
    assert "%" not in str(values).split("\n", 2)[2]
