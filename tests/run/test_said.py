"""What results say of themselves: tables where they are printed, and nothing that is not so."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import fedvalue as fv
from fedvalue.estimators import guarantee_lines
from fedvalue.learners.metrics import METRICS
from fedvalue.run import read_values
from fedvalue.run._options import JobOptions
from fedvalue.store import export, lower_is_better

SMALL = {"clients": 3, "samples": 20, "rounds": 1, "epochs": 1}


class TestPrinting:
    def test_values_are_a_table(self) -> None:
        values = fv.Values([0.75, -0.25], ("a", "b"), "exact", 4, guarantee="exact")
        assert str(values).splitlines() == [
            "Data value by exact (exact)",
            "client    value  ± 95%   share",
            "a       +0.7500      –  150.0%",
            "b       -0.2500      –  -50.0%",
        ]

    def test_a_payout_is_a_table_and_its_policy(self) -> None:
        values = fv.Values([3.0, 1.0], ("a", "b"), "exact", 4, guarantee="exact")
        lines = str(fv.payout(values, 100, currency="EUR")).splitlines()
        assert lines[:4] == [
            "client    value  share  payout EUR",
            "a       +3.0000  75.0%       75.00",
            "b       +1.0000  25.0%       25.00",
            "total                       100.00",
        ]
        assert len(lines) > 4

    def test_an_audit_is_sentences(self) -> None:
        table = [0.0, 1.0, 1.0, 1.5, 1.2, 1.7, 1.8, 2.1] * 2
        values = fv.value(table, "exact")
        text = str(fv.audit(values, {mask: [utility] for mask, utility in enumerate(table)}))
        assert "client-3" in text.splitlines()[0]
        assert "Finding(" not in text

    def test_a_result_has_the_table_of_its_values(self) -> None:
        result = fv.run("synthetic", clients=3, samples=20, method="exact")
        assert str(result.values) in str(result)


class TestWaiting:
    def test_a_dry_run_does_not_wait_for_values_that_nobody_wants(self) -> None:
        def plan(n: int, budget: int, rng: np.random.Generator) -> fv.Plan:
            utilities = yield list(range(budget))
            raise AssertionError(f"{len(utilities)} made-up utilities were sent")

        job = fv.Job("synthetic", clients=4, samples=20, method=plan, budget=6)
        assert job.plan().coalitions == 6

    def test_computing_values_is_a_stage(self) -> None:
        stages: list[str] = []
        game = fv.FunctionGame(6, lambda cs: [float(len(c)) for c in cs])
        fv.value(game, "surrogate", budget=20, on_stage=stages.append)
        assert stages[-1] == "computing values by surrogate"


class TestTruth:
    def test_values_that_are_exact_by_the_store_say_so(self, tmp_path: Path) -> None:
        game = fv.FunctionGame(6, lambda cs: [float(len(c)) ** 0.5 for c in cs])
        store = tmp_path / "store.db"
        fv.value(game, "exact", store=store)
        values = fv.value(game, "surrogate", budget=16, store=store)
        assert values.guarantee == "exact"
        assert guarantee_lines(values, 16) == [
            "Exact: surrogate asked for 16 coalitions, and the store knew the other 48, so these are the Shapley "
            "values of the game."
        ]

    def test_coalitions_that_a_store_knew_are_not_said_to_lack_test_rows(self, tmp_path: Path) -> None:
        game = fv.FunctionGame(4, lambda c: np.arange(20) < 5 + 3 * len(c), batch=False, key="rows")
        exact = fv.value(game, "exact", store=tmp_path / "store.db")
        assert exact.errors["test"] is not None
        values = fv.value(game, "surrogate", budget=10, store=tmp_path / "store.db")
        assert values.mean == pytest.approx(exact.mean)
        assert values.advice() == [
            "Not known, and not in any ±: the luck of test rows, because surrogate did not ask for all that the store "
            "knew; the method exact does, and knows it."
        ]

    def test_an_interval_is_for_the_expected_value_and_not_for_another_run(self) -> None:
        """The difference of two runs varies by √2 times as much as each of them."""
        rows = np.sqrt([mask.bit_count() for mask in range(64)]) + np.random.default_rng(0).normal(
            0, 0.02, (4, 64)
        )
        (line,) = guarantee_lines(fv.value(fv.TableGame(rows), budget=40))
        assert "made to hold these in 95 of 100 cases" in line
        assert "two runs may differ by 1.4 times the ±" in line

    def test_gradient_methods_look_at_one_training_whatever_the_replicates(self) -> None:
        result = fv.run("digits", **SMALL, method="dig-fl", replicates=2)
        noise = next(line for line in result.lines() if line.startswith("Training noise"))
        assert "look at one recorded training, not at the mean of 2" in noise
        assert "computed from the mean" not in noise

    def test_the_dry_run_counts_what_is_trained_for_comparison(self) -> None:
        job = fv.Job("digits", clients=4, samples=20, rounds=1, epochs=1, method="ipss", budget=8)
        plan = job.plan()
        assert (
            plan.to_dict()["plan"]["trainings"] + 1 == job.run().cost.trained
        )  # the untrained model is no training
        assert "Also evaluated, for comparison: all clients together." in plan.lines()

    def test_the_loss_is_said_where_one_was_chosen(self) -> None:
        usual, focal = (str(fv.run("digits", **SMALL, budget=8, loss=loss)) for loss in (None, "focal"))
        assert ", loss" not in usual
        assert ", loss focal, seed 0" in focal

    def test_an_exported_table_holds_utilities(self, tmp_path: Path) -> None:
        fv.run("digits", **SMALL, method="exact", metric="loss", store=tmp_path / "s.db")
        with fv.UtilityStore(tmp_path / "s.db") as store:
            export(store, "federation", tmp_path / "loss.npz", "loss")
        found = np.load(tmp_path / "loss.npz")
        assert (found["utilities"] == -found["loss"]).all()
        assert found["loss"].min() > 0

    def test_an_export_knows_which_metrics_are_better_when_lower(self) -> None:
        for names in METRICS.values():
            for name, higher in names.items():
                assert lower_is_better(name) is not higher


class TestSeal:
    def test_a_number_that_was_changed_by_hand_is_noticed(self, tmp_path: Path) -> None:
        result = fv.run("synthetic", clients=3, samples=20, method="exact", out=tmp_path / "run")
        file = tmp_path / "run" / "values.json"
        assert read_values(file).mean.tolist() == result.values.mean.tolist()
        data = json.loads(file.read_text())
        data["mean"][0] += 1e-9
        file.write_text(json.dumps(data))
        with pytest.raises(fv.InputError, match=r"values\.json: .*does not match its checksum"):
            read_values(tmp_path / "run")


def test_the_options_of_run_are_those_of_a_job() -> None:
    of_job = {field.name: field.type for field in fields(fv.Job) if field.name not in ("scenario", "_")}
    assert {name: hint.__forward_arg__ for name, hint in JobOptions.__annotations__.items()} == of_job
