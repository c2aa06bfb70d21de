"""A job over several seeds: budget, store, folder, dry run, audit, payout and report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedvalue as fv
from fedvalue._files import sealed
from fedvalue.run import default_budget, default_method

SMALL: dict[str, Any] = {
    "clients": 5, "samples": 20, "model": "linear", "rounds": 2, "epochs": 2, "budget": 24, "seeds": 3, "device": "cpu",
}  # fmt: skip


def job(**options: Any) -> fv.Job:
    return fv.Job("digits", **{**SMALL, **options})


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> fv.Result:
    return job(out=tmp_path_factory.mktemp("run") / "out").run()


class TestDefaults:
    @pytest.mark.parametrize(
        ("n", "budget"), [(1, 8), (2, 24), (3, 56), (4, 64), (10, 64), (20, 64), (100, 461)]
    )
    def test_budget_over_several_seeds(self, n: int, budget: int) -> None:
        assert default_budget(n, several_seeds=True) == budget

    def test_a_game_with_any_number_of_seeds_is_spread_over_several(self) -> None:
        assert default_method(3, None, None) == default_method(10, 1024, None) == "surrogate"

    def test_few_clients_get_all_coalitions_with_every_seed(self) -> None:
        values = job(clients=3, budget=None, seeds=None).run().values
        assert values.seeds * 7 == values.evaluations
        assert values.dominant == "training"
        assert values.errors["coalitions"] == pytest.approx(np.zeros(3), abs=1e-9)


class TestRun:
    def test_trainings_are_counted(self, result: fv.Result) -> None:
        values = result.values
        assert (values.seeds, values.evaluations) == (3, 24)
        assert (result.cost.trained, result.cost.reused) == (24, 0)
        assert sum(mask > 0 for mask, _ in result.trained) == 24
        assert "24 trainings of coalitions, spread over 3 seeds" in "\n".join(result.lines())
        starts = "The ± is mostly", "The largest part of the ± is"
        assert any(line.startswith(starts) for line in result.lines())

    def test_the_same_again_trains_nothing(self, result: fv.Result) -> None:
        again = job(out=result.job.out).run()
        assert (again.cost.trained, again.cost.reused) == (0, 24)
        assert again.values.mean.tolist() == result.values.mean.tolist()
        assert "all from the store" in "\n".join(again.lines())

    def test_a_run_that_was_stopped_goes_on(self, tmp_path: Path, result: fv.Result) -> None:
        class StopError(Exception):
            pass

        def stop(evaluation: fv.Evaluation) -> None:
            if evaluation.replicate == 1:
                raise StopError

        half = job(store=tmp_path / "s.db")
        with pytest.raises(StopError):
            half.run(on_outcome=stop)
        rest = half.run()
        assert rest.cost.reused > 0
        assert rest.cost.trained + rest.cost.reused == 24
        assert rest.values.mean == pytest.approx(result.values.mean)

    def test_one_seed_is_another_run(self, result: fv.Result) -> None:
        with pytest.raises(fv.InputError, match="differs in seeds"):
            job(out=result.job.out, seeds=1).check_folder()

    def test_the_folder_of_an_earlier_version_had_one_seed(self, tmp_path: Path) -> None:
        one = job(seeds=1, out=tmp_path / "out")
        one.run(report=False)
        record = tmp_path / "out" / "run.json"
        told = {key: part for key, part in json.loads(record.read_text()).items() if key != "seeds"}
        record.write_text(json.dumps(sealed(told)))
        one.check_folder()
        with pytest.raises(fv.InputError, match="differs in seeds"):
            job(out=tmp_path / "out").check_folder()

    @pytest.mark.slow
    def test_without_a_store_everything_is_kept_on_request(self, tmp_path: Path) -> None:
        fresh = job().run()
        fresh.save(tmp_path / "out")
        again = job(out=tmp_path / "out").run()
        assert again.cost.trained == 0
        assert fresh.history().seeds == again.history().seeds
        assert fresh.history().utilities == again.history().utilities

    def test_replicates_and_seeds_contradict_each_other(self) -> None:
        with pytest.raises(fv.InputError, match="two ways to train again"):
            job(replicates=2).prepared  # noqa: B018

    def test_methods_with_one_seed_say_so(self) -> None:
        with pytest.raises(fv.MethodError, match="ipss trains with one seed"):
            job(method="ipss").prepared  # noqa: B018

    def test_seeds_are_given_once(self) -> None:
        with pytest.raises(fv.MethodError, match="given twice"):
            job(options={"seeds": 2}).prepared  # noqa: B018


class TestDryRun:
    @pytest.mark.slow
    def test_it_counts_what_the_run_trains(self, result: fv.Result) -> None:
        plan = job().plan()
        assert (plan.coalitions, plan.seeds, plan.work.trained, plan.stored) == (24, 3, 24, 0)
        assert "24 trainings of coalitions, spread over 3 seeds" in plan.lines()[0]
        assert plan.to_dict()["plan"]["seeds"] == 3

    @pytest.mark.slow
    def test_it_knows_the_store(self, result: fv.Result) -> None:
        plan = job(out=result.job.out).plan()
        assert plan.stored == 24
        assert plan.seconds == pytest.approx(0, abs=1e-6)


class TestWhatFollows:
    def test_an_audit_compares_within_a_seed(self, result: fv.Result) -> None:
        found = result.audit()
        assert found.coalitions == len({mask for mask, _ in result.outcomes})
        assert "between seeds" in found.noise
        assert "the luck of training" in found.rate
        assert "v(∅)" in found.empty
        with fv.UtilityStore(result.job.store_path) as store:
            assert fv.audit(result.values, store=store) == found

    def test_a_report_has_a_shade_for_every_part(self, result: fv.Result, tmp_path: Path) -> None:
        page = result.report(tmp_path / "r.html").read_text()
        assert 'class="of-coalitions"' in page
        assert 'class="of-training"' in page
        assert "of-test" in page.split("</style>")[0]
        text = result.report(tmp_path / "r.md").read_text()
        assert "| the luck of training |" in text
        for line in result.values.advice():
            assert line[:40] in page
            assert line[:40] in text

    def test_a_payout_has_ranges(self, result: fv.Result) -> None:
        paid = result.payout(100)
        assert all(line.low is not None and line.low <= line.amount <= line.high for line in paid.lines)
