"""What a plan returns, and values from outside, are looked through where they enter."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import fedvalue as fv

TABLE = [0.0, 1.0, 2.0, 4.0]
ONES = np.ones(2)


def returning(**returned: Any) -> Any:
    def plan(n: int, budget: int, rng: np.random.Generator) -> Any:
        yield [0, 3]
        return fv.Estimate(**{"mean": np.array([1.0, 3.0]), **returned})

    return plan


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"mean": ["a", "a"]}, "hold numbers only"),
        ({"mean": np.full(2, 1j)}, "complex"),
        ({"stderr": 1.0}, "per client"),
        ({"stderr": ["a", "b"]}, "hold numbers only"),
        ({"stderr": ONES, "dof": np.zeros(2)}, "above 0"),
        ({"stderr": ONES, "dof": -ONES}, "above 0"),
        ({"stderr": ONES, "dof": [np.nan, 1]}, "above 0"),
        ({"stderr": ONES, "dof": 5}, "above 0"),
        ({"covariance": np.full((2, 2), np.nan)}, "finite"),
        ({"covariance": np.eye(3)}, "2 by 2"),
        ({"covariance": np.triu(np.ones((2, 2)))}, "symmetric"),
        ({"covariance": -np.eye(2)}, "below 0"),
        ({"covariance": np.array([[1.0, 2.0], [2.0, 1.0]])}, "below 0"),
        ({"stderr": ONES, "covariance": 100 * np.eye(2)}, "square roots"),
        ({"parts": {"weather": np.eye(2)}}, "coalitions, training, test"),
        ({"parts": {"training": np.full((2, 2), np.inf)}}, "finite"),
        ({"details": 3}, "details as a dict"),
        ({"notes": "one"}, "list of sentences"),
        ({"forecast": [np.nan]}, "forecast"),
        ({"guarantee": "sure"}, "guarantees"),
    ],
)
def test_an_estimate_that_cannot_be_is_one_sentence(returned: dict[str, Any], message: str) -> None:
    with pytest.raises(fv.MethodError, match=message):
        fv.value(TABLE, returning(**returned), budget=2)


def test_an_estimate_that_can_be_is_taken_as_it_is() -> None:
    covariance = np.array([[1.0, 0.5], [0.5, 4.0]])
    dof = np.array([3.0, np.inf])
    plan = returning(
        mean=[1, 3], stderr=[1, 2], dof=dof, covariance=covariance, parts={"training": covariance}
    )
    values = fv.value(TABLE, plan, budget=2)
    assert values.covariance.tolist() == covariance.tolist()
    assert (values.stderr.tolist(), values.dof.tolist()) == ([1, 2], [3, np.inf])
    covariance[0, 0] = 9  # the plan's own arrays stay its own
    assert values.covariance[0, 0] == 1


@pytest.mark.parametrize("asks", [[0], []])
def test_a_plan_that_never_ends_is_told_to_return(asks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["fedvalue.run._valuation"], "_MOST_IDLE", 1000)

    def never(n: int, budget: int, rng: np.random.Generator) -> Any:
        while True:
            yield asks

    with pytest.raises(fv.MethodError, match=r"1,000 times in a row.*must return its Estimate"):
        fv.value(TABLE, never, budget=2)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("correlation", [float("nan")]),
        ("correlation", [float("inf")]),
        ("correlation", [7.0]),
        ("dof", [0.0, 0.0]),
        ("stderr", [-1.0, 1.0]),
        ("stderr", [float("nan"), 1.0]),
        ("parts", {"training": {"stderr": [1.0, float("inf")], "correlation": [0.0]}}),
    ],
)
def test_values_from_outside_are_checked(field: str, given: Any) -> None:
    data = fv.Values([1.0, 3.0], ["a", "b"], "own", 2, stderr=ONES, covariance=np.eye(2)).to_dict()
    with pytest.raises(fv.InputError):
        fv.Values.from_dict({**data, field: given})


def test_nobody_changes_values_that_were_shown() -> None:
    def spoil(values: fv.Values) -> None:
        for array in (values.mean, values.stderr, values.dof, values.covariance, *values.parts.values()):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 7

    values = fv.value(fv.TableGame(np.random.default_rng(0).random((4, 8))), "exact", on_values=spoil)
    assert np.abs(values.mean).max() < 7
