"""What is certain before anything is trained: no data is worth nothing, the same data the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedvalue as fv
from fedvalue.run._certain import conditioned
from fedvalue.scenarios import load_scenario


def normal(n: int, seed: int) -> fv.Estimate:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    parts = {"coalitions": root @ root.T, "training": np.diag(rng.random(n))}
    covariance = parts["coalitions"] + parts["training"]
    weights = rng.normal(size=(n, 7))
    return fv.Estimate(
        rng.normal(size=n),
        np.sqrt(np.diag(covariance)),
        covariance=covariance,
        parts=parts,
        linear=lambda v: weights @ v,
    )


class TestConditioned:
    @given(st.integers(0, 1000))
    def test_it_is_what_many_draws_that_keep_to_it_say(self, seed: int) -> None:
        """Adding the equations as observations without noise gives the same normal distribution."""
        estimate = normal(5, seed)
        found = conditioned(estimate, [4], [(0, 2)])
        equations = np.array([[0.0, 0, 0, 0, 1], [1.0, 0, -1, 0, 0]])
        precision = np.linalg.inv(estimate.covariance) + equations.T @ equations * 1e9
        covariance = np.linalg.inv(precision)
        mean = covariance @ np.linalg.solve(estimate.covariance, estimate.mean)
        assert found.mean == pytest.approx(mean, abs=1e-4)
        assert found.covariance == pytest.approx(covariance, abs=1e-4)

    def test_to_the_last_bit(self) -> None:
        found = conditioned(normal(6, 3), [1], [(0, 4, 5)])
        assert found.mean[1] == found.stderr[1] == 0.0
        assert found.mean[0] == found.mean[4] == found.mean[5]

    def test_parts_add_up_and_the_weights_go_along(self) -> None:
        estimate = normal(5, 1)
        found = conditioned(estimate, [2], [(0, 1)])
        assert found.parts["coalitions"] + found.parts["training"] == pytest.approx(found.covariance)
        utilities = np.random.default_rng(0).normal(size=(7, 3))
        values = found.linear(utilities)
        assert values[2] == pytest.approx(np.zeros(3))
        assert values[0] == pytest.approx(values[1])

    @pytest.mark.parametrize("covariance", [None, np.zeros((3, 3))])
    def test_without_errors_there_is_nothing_to_do(self, covariance: np.ndarray | None) -> None:
        estimate = replace(normal(3, 0), covariance=covariance)
        assert conditioned(estimate, [0], []) is estimate

    def test_what_keeps_to_it_already_stays(self) -> None:
        once = conditioned(normal(5, 2), [3], [(1, 2)])
        again = conditioned(once, [3], [(1, 2)])
        assert again.mean == pytest.approx(once.mean)
        assert again.covariance == pytest.approx(once.covariance, abs=1e-12)


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_federation_with_a_free_rider_and_a_copy(seeds: int) -> None:
    scenario = load_scenario("digits", partition="demo", clients=6, samples=20)
    free_rider, copy = scenario.names.index("free-rider"), scenario.names.index("copy-of-client-0")
    game = fv.FederatedGame(scenario, "linear", fv.Training(rounds=1, epochs=1))
    assert game.idle == (free_rider,)
    assert game.alike == ((0, copy),)
    values = fv.value(game, "surrogate", budget=24, seeds=seeds)
    assert values.mean[free_rider] == 0.0
    assert values.stderr[free_rider] == 0.0
    assert values.mean[copy] == values.mean[0]
    assert values.probability_order(0, copy) == 0.5
    assert values.utility_of_all - values.utility_of_none == pytest.approx(values.mean.sum(), abs=1e-9)
