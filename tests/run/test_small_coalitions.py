"""No small coalitions, and a seed for every training: what is trained, what is refused, what an operator can solve."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import first_fast
from numpy.typing import NDArray
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.coalitions import Trial, members
from fedvalue.estimators import ESTIMATORS, Plan
from fedvalue.estimators.exact import shapley_values
from fedvalue.learners import make_learner
from fedvalue.training import data_weights, first_round

Array = NDArray[np.float64]
SMALL: dict[str, Any] = {"clients": 4, "samples": 20, "rounds": 1, "epochs": 1, "model": "linear"}


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """Trainings here are tiny."""


def smooth(n: int, seed: int = 0) -> Array:
    """A table that rises and levels off, clients being of different weight."""
    weight = np.random.default_rng(seed).dirichlet(np.full(n, 3.0))
    inside = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    return np.asarray(0.1 + 0.8 * np.sqrt(inside @ weight))


def asked_by(method: str, n: int, budget: int, **options: Any) -> list[Trial]:
    """Everything that a method asks for, on a table."""
    plan = ESTIMATORS[method].plan
    assert plan is not None
    found: list[Trial] = []
    steps: Plan = plan(n, budget, np.random.default_rng(0), **options)
    ask = next(steps)
    table = smooth(n)
    while True:
        trials = [one if isinstance(one, tuple) else (int(one), 0) for one in ask]
        found += trials
        noise = 1e-3 * np.random.default_rng(len(found)).standard_normal(len(trials))
        try:
            ask = steps.send(np.array([table[mask] for mask, _ in trials]) + noise)
        except StopIteration:
            return found


class TestNoSmallCoalitions:
    @pytest.mark.parametrize("method", first_fast(["surrogate", "surrogate-adaptive"]))
    @pytest.mark.parametrize("seeds", first_fast([1, None]))
    @pytest.mark.parametrize(
        ("n", "least"),
        [
            (3, 2),
            (6, 2),
            *(
                pytest.param(*case, marks=pytest.mark.slow)
                for case in ((2, 1), (4, 3), (9, 3), (9, 5), (12, 2))
            ),
        ],
    )
    def test_none_is_asked_for_at_any_budget(
        self, method: str, seeds: int | None, n: int, least: int
    ) -> None:
        for budget in (2, n + 2, 6 * n, min(2**n + 5, 200)):
            more = {"most_seeds": None} if seeds is None else {"seeds": 1}
            trials = asked_by(method, n, budget, min_coalition=least, **more)
            sizes = {mask.bit_count() for mask, _ in trials}
            assert sizes <= {0, *range(least, n + 1)}
            assert len({trial for trial in trials if trial[0]}) <= budget
            assert n in sizes

    def test_with_one_it_is_the_plan_that_it_was(self) -> None:
        assert asked_by("surrogate", 10, 64) == asked_by("surrogate", 10, 64, min_coalition=1)

    @pytest.mark.slow
    @pytest.mark.parametrize("least", first_fast([2, 3]))
    def test_values_keep_valid_intervals(self, least: int) -> None:
        held = []
        for seed in range(6):
            table = smooth(8, seed)
            values = fv.value(fv.TableGame(table), "surrogate", budget=40, min_coalition=least)
            bounds, truth = values.interval(), shapley_values(8, table)
            assert bounds is not None
            assert values.mean.sum() == pytest.approx(table[-1] - table[0])
            held.append(((bounds[:, 0] <= truth) & (truth <= bounds[:, 1])).mean())
            assert np.abs(values.mean - truth).max() < np.abs(truth - truth.mean()).max()
        assert np.mean(held) > 0.85
        assert "is extrapolated from larger ones" in values.notes[-1]

    def test_it_is_never_exact(self) -> None:
        values = fv.value(fv.TableGame(smooth(5)), "surrogate", budget=100, min_coalition=2)
        assert values.guarantee == "biased"
        assert values.stderr is not None
        assert values.stderr.min() > 0
        assert values.evaluations == 2**5 - 5

    def test_what_was_known_of_small_coalitions_is_not_used(self, tmp_path: Path) -> None:
        game = fv.TableGame(smooth(6))
        with fv.UtilityStore(tmp_path / "store.db") as store:
            fv.value(game, "exact", store=store)
            again = fv.value(game, "surrogate", budget=20, min_coalition=2, store=store)
        assert again.known_before == 2**6 - 20 - 6
        assert again.guarantee == "biased"

    @pytest.mark.parametrize("method", ["exact", "ipss", "permutation", "loo", "gtg"])
    def test_methods_that_need_them_are_refused(self, method: str) -> None:
        with pytest.raises(fv.MethodError, match=rf"^{method} .* choose surrogate or surrogate-adaptive"):
            fv.run("digits", **SMALL, method=method, min_coalition=2)

    def test_a_plan_of_ones_own_is_held_to_it(self) -> None:
        def mine(n: int, budget: int, rng: np.random.Generator, *, min_coalition: int = 1) -> Plan:
            yield [0, (1 << n) - 1]
            yield [0b11, 0b100]
            return fv.Estimate(np.zeros(n))

        with pytest.raises(
            fv.MethodError, match=r"asked for the coalition \(2,\), and no coalition of fewer than 2"
        ):
            fv.value(fv.TableGame(smooth(4)), mine, min_coalition=2)

    def test_members_without_data_or_with_the_same_do_not_count(self) -> None:
        for options, says in (
            ({"empty": 1, "copies": 0}, "has no data"),
            ({"empty": 0, "copies": 1}, "has the data of"),
        ):
            scenario = fv.load_scenario(
                "digits", clients=5, samples=20, partition="same+free-riders", **options
            )
            with pytest.raises(fv.MethodError, match=f"{says}.*Leave such clients out"):
                fv.run(scenario, rounds=1, epochs=1, min_coalition=2)

    @pytest.mark.parametrize("least", [0, -1, 4, 9])
    def test_numbers_that_leave_nothing_are_refused(self, least: int) -> None:
        with pytest.raises((fv.InputError, fv.MethodError), match="min_coalition"):
            fv.run("digits", **SMALL, min_coalition=least)

    def test_a_job_trains_records_and_repeats_it(self, tmp_path: Path) -> None:
        words = ["run", "--no-config", "--clients", "4", "--samples", "20", "--rounds", "1", "--epochs", "1"]
        words += [
            "--model",
            "linear",
            "--budget",
            "12",
            "--min-coalition",
            "2",
            "--out",
            str(tmp_path / "run"),
        ]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        with fv.UtilityStore(tmp_path / "run" / "store.db") as store:
            (game,) = store.games()
            masks = {mask for seed in range(12) for mask in store.read(game.id, None, seed)}
        assert {mask.bit_count() for mask in masks} <= {0, 2, 3, 4}
        record = json.loads((tmp_path / "run" / "run.json").read_text())
        assert record["options"] == {"min_coalition": 2}
        assert "--option min_coalition=2" in (tmp_path / "run" / "report.html").read_text()

    def test_a_dry_run_plans_it(self) -> None:
        plan = fv.Job("digits", **SMALL, budget=11, seeds=1, min_coalition=2).plan()
        assert plan.work.trained == 10  # 11 coalitions with ∅


def _sums(seeds: Sequence[int], masks: Sequence[int], model: str) -> tuple[Array, Array, Array]:
    """What a server sees that is told sums alone: for every coalition the mean update of its clients in round 1, as an
    operator knows the first model. And the weights in it, and the updates of single clients with the first seed."""
    scenario = fv.load_scenario("digits", clients=6, samples=40, partition="distribution")
    rules, learner = fv.Training(rounds=2, epochs=1, batch=16, rate=0.01), make_learner(model)
    updates = {}
    for seed in set(seeds):
        session = learner.session(scenario, rules.replicate(seed), "cpu", None)
        first = _flat(first_round(session, [(client, 0) for client in range(6)]))
        updates[seed] = first - _flat(session.initial())
    weights = np.zeros((len(masks), 6))
    for row, mask in enumerate(masks):
        weights[row, list(members(mask))] = data_weights(scenario, [members(mask)])
    sums = np.array([w @ updates[seed] for w, seed in zip(weights, seeds, strict=True)])
    return sums, weights, updates[0]


def _flat(stack: Any) -> Array:
    return np.concatenate(
        [array.detach().numpy().reshape(len(array), -1) for array in stack.values()], axis=1
    )


def _off(found: Array, truth: Array) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


class TestSums:
    """docs/privacy.md: sums hide no client that takes part in many of them, unless they have no update in common."""

    def trials(self, **more: Any) -> tuple[list[int], list[int]]:
        found = [trial for trial in asked_by("surrogate", 6, 24, min_coalition=3, **more) if trial[0]]
        return [mask for mask, _ in found], [seed for _, seed in found]

    def test_sums_of_a_shared_round_1_give_every_single_update(self) -> None:
        masks, seeds = self.trials()
        assert min(mask.bit_count() for mask in masks) == 3  # though nobody was alone, or in a pair
        sums, weights, single = _sums(seeds, masks, "mlp")
        assert np.linalg.matrix_rank(weights) == 6
        assert _off(np.linalg.lstsq(weights, sums)[0], single) < 1e-6

    def test_with_a_seed_for_every_coalition_they_do_not(self) -> None:
        masks, seeds = self.trials(own_seeds=True, most_seeds=None)
        assert len(set(seeds)) == len(seeds)
        sums, weights, single = _sums(seeds, masks, "mlp")
        # Twenty-three sums of up to six unknown updates each, none of which is in another.
        assert _off(np.linalg.lstsq(weights, sums)[0], single) > 0.9

    def test_of_a_linear_model_they_give_nearly_the_same_even_so(self) -> None:
        # Its updates hardly depend on the seed: what the documentation warns of.
        masks, seeds = self.trials(own_seeds=True, most_seeds=None)
        sums, weights, single = _sums(seeds, masks, "linear")
        assert _off(np.linalg.lstsq(weights, sums)[0], single) < 0.5


class TestOwnSeeds:
    def test_no_two_trainings_share_a_seed(self) -> None:
        seen: list[Trial] = []
        values = fv.run(
            "digits", **SMALL, budget=12, own_seeds=True,
            on_outcome=lambda evaluation: seen.append((evaluation.mask, evaluation.replicate)),
        ).values  # fmt: skip
        trained = [trial for trial in seen if trial[0]]
        assert len({seed for _, seed in trained}) == len(trained) == values.evaluations == 12
        assert values.seeds == 12
        assert values.stderr is not None

    def test_a_model_that_draws_nothing_has_no_second_seed(self) -> None:
        with pytest.raises(fv.MethodError, match="A model that draws no random numbers has one"):
            fv.run("synthetic", clients=4, samples=20, own_seeds=True)

    @pytest.mark.parametrize(
        ("more", "says"),
        [({"seeds": 3}, "Leave out the number of seeds"), ({"method": "exact"}, "choose surrogate")],
    )
    def test_what_contradicts_it_is_refused(self, more: dict[str, Any], says: str) -> None:
        with pytest.raises(fv.MethodError, match=says):
            fv.run("digits", **SMALL, own_seeds=True, **more)
