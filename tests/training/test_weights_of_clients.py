"""What counts of a client when models are averaged, and what a lie about its rows brings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from federations import QUICK, digits, outcomes
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.trainers import LocalTrainer
from fedvalue.training import Training, claims_apart, counted, data_weights

SHARES = (0.3, 0.4, 0.5, 0.9)


class TestCounted:
    def test_as_claimed(self) -> None:
        assert counted([3, 0, 7]) == [3.0, 0.0, 7.0]

    def test_equal_for_those_who_have_data(self) -> None:
        assert counted([3, 0, 7], "equal") == [1.0, 0.0, 1.0]

    @pytest.mark.parametrize(
        ("sizes", "share", "wanted"),
        [
            ([10, 10, 10], 0.4, [10, 10, 10]),
            ([10, 10, 980], 0.5, [10, 10, 20]),
            ([10, 980, 980], 0.4, [10, 20, 20]),
            ([1, 100], 0.5, [1, 1]),
            ([0, 1, 100, 100], 1 / 3, [0, 1, 1, 1]),
        ],
    )
    def test_clipped(self, sizes: list[int], share: float, wanted: list[float]) -> None:
        assert counted(sizes, "clipped", share) == pytest.approx(wanted)

    @given(st.lists(st.integers(0, 10**9), min_size=4, max_size=8), st.sampled_from(SHARES))
    def test_nobody_has_more_than_the_share_and_nobody_more_than_it_claims(
        self, sizes: list[int], share: float
    ) -> None:
        if share * sum(size > 0 for size in sizes) < 1:
            with pytest.raises(fv.InputError, match="max_share must be at least"):
                counted(sizes, "clipped", share)
            return
        found = np.array(counted(sizes, "clipped", share))
        assert (found <= np.array(sizes) * (1 + 1e-9)).all()
        assert found.max() <= share * found.sum() * (1 + 1e-9)
        clipped = found < np.array(sizes) * (1 - 1e-9)
        assert np.allclose(found[clipped], found.max())  # the others count in full

    def test_a_claim_far_beyond_the_share_counts_no_more_than_a_smaller_one(self) -> None:
        honest = counted([100, 100, 300], "clipped", 0.4)
        lying = counted([100, 100, 10**15], "clipped", 0.4)
        assert lying == honest

    def test_who_claims_far_more_than_the_others(self) -> None:
        assert claims_apart([10, 12, 11, 10**15], 10) == [3]
        assert claims_apart([10, 1000], 10) == []  # two cannot be told apart
        assert claims_apart([0, 0, 0], 10) == []


class TestRules:
    def test_nothing_changes_for_games_by_rows(self) -> None:
        assert "weights" not in Training().identity()
        assert Training(weights="equal").identity()["weights"] == "equal"
        assert Training(weights="clipped", max_share=0.5).identity()["max_share"] == 0.5

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"weights": "fair"}, "weights must be one of"),
            ({"weights": "clipped"}, "need max_share"),
            ({"weights": "clipped", "max_share": 1.0}, "need max_share"),
            ({"max_share": 0.4}, "belongs to clipped weights"),
        ],
    )
    def test_rules_that_make_no_sense(self, given: dict[str, Any], message: str) -> None:
        with pytest.raises(fv.InputError, match=message):
            Training(**given)

    def test_weights_of_coalitions(self) -> None:
        scenario = digits((10, 30, 60))
        assert data_weights(scenario, [(0, 2)], [1.0, 1.0, 1.0]) == [0.5, 0.5]

    def test_a_training_follows_them(self) -> None:
        scenario = digits((20, 20, 120))
        trained = {
            name: outcomes(LocalTrainer("cpu"), scenario, "mlp", replace(QUICK, **rules), [4, 7])
            for name, rules in {
                "rows": {},
                "equal": {"weights": "equal"},
                "third": {"weights": "clipped", "max_share": 1 / 3},
                "loose": {"weights": "clipped", "max_share": 0.9},
            }.items()
        }
        assert trained["third"][7] == pytest.approx(
            trained["equal"][7], rel=1e-4
        )  # nobody beyond a third: all alike
        assert trained["loose"][7] == trained["rows"][7]  # nobody has so much
        assert trained["rows"][7]["loss"] != pytest.approx(trained["equal"][7]["loss"], rel=1e-3)
        assert trained["rows"][4] == trained["equal"][4]  # alone, weights do not matter

    def test_models_without_weights_refuse_them(self) -> None:
        with pytest.raises(fv.InputError, match="weights does not apply"):
            fv.run("synthetic", clients=3, samples=20, method="exact", model="least-squares", weights="equal")


class TestWhatALieBrings:
    """A label-flipper takes part: who has more weight keeps it down, and so gains by claiming more rows (by re-averaging)."""

    def job(self, **rules: Any) -> fv.Job:
        return fv.Job(
            "digits", clients=4, samples=60, partition="size+label-flip", rounds=3, epochs=2, method="exact",
            options={"noise": False}, **rules,
        )  # fmt: skip

    def test_fifty_times_the_rows_pay_and_a_bound_stops_that(self) -> None:
        by_rows = fv.what_if_claimed(self.job().prepared.game, rows=(50.0,), scales=())
        clipped = fv.what_if_claimed(
            self.job(weights="clipped", max_share=0.3).prepared.game, rows=(50.0,), scales=()
        )
        equal = fv.what_if_claimed(self.job(weights="equal").prepared.game, rows=(50.0,), scales=())
        gains = {name: max(claim.gain for claim in found.claims) for name, found in
                 (("rows", by_rows), ("clipped", clipped), ("equal", equal))}  # fmt: skip
        assert gains["rows"] > 0.05
        assert gains["clipped"] < gains["rows"] / 5
        assert gains["equal"] == 0.0

    def test_honest_values_are_those_of_one_recorded_training(self) -> None:
        game = self.job().prepared.game
        found = fv.what_if_claimed(game, rows=(1.0,), scales=())
        whole = game.trace_games().whole_run(range(16))
        from fedvalue.estimators.exact import shapley_values

        assert [claim.value for claim in found.claims] == pytest.approx(shapley_values(4, whole), abs=1e-9)
        assert [claim.gain for claim in found.claims] == [0.0] * 4

    def test_a_scaled_update_and_what_is_said(self) -> None:
        result = self.job(weights="clipped", max_share=0.5).run()
        found = result.what_if_claimed(rows=(), scales=(1000.0,))
        assert all(claim.all_then < 0.7 for claim in found.claims)
        assert "clipped weights of at most 50%" in str(found)
        assert "nobody trains again" in found.to_dict()["statement"]

    def test_from_the_command_line(self) -> None:
        command = "run --no-config --clients 3 --samples 30 --rounds 1 --epochs 1 --budget 6 --weights clipped --max-share 0.5"
        printed = CliRunner().invoke(app, [*command.split(), "--claims"])
        assert printed.exit_code == 0, printed.output
        assert "clipped weights (at most 50% of all)" in printed.output
        assert "rows × 50" in printed.output

    @pytest.mark.parametrize("rows", [(0.0,), (-1.0,), (float("nan"),)])
    def test_factors_that_make_no_sense(self, rows: tuple[float, ...]) -> None:
        with pytest.raises(fv.InputError, match="list of factors above 0"):
            fv.what_if_claimed(self.job().prepared.game, rows=rows)

    def test_too_many_clients(self) -> None:
        game = fv.Job("digits", clients=11, samples=10).prepared.game
        with pytest.raises(fv.InputError, match="up to 10 clients"):
            fv.what_if_claimed(game)
