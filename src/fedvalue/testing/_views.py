"""The conformance suite of methods that look at one recorded training."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fedvalue.estimators import Method
from fedvalue.games import FederatedGame
from fedvalue.run import value
from fedvalue.testing._crowd import COPIES, EMPTY, RULES, crowd
from fedvalue.testing._promises import PROMISES, TOLERANCE, checked_promises
from fedvalue.testing._subject import Subject
from fedvalue.values import Values

__all__ = ["check_view"]

_OF_VIEWS = ("null", "symmetric", "deterministic")


def check_view(method: Method, options: Mapping[str, Any], promises: Iterable[str]) -> None:
    """Holds the view of a recorded training to its contract."""
    held_to = checked_promises(promises, _OF_VIEWS)
    subject = Subject(method, options, held_to)
    for metric in ("loss", "accuracy"):
        game = FederatedGame(crowd(), "mlp", RULES, metric=metric, device="cpu")
        _check_on(subject, game, f"a recorded training of {game.n} clients, metric {metric}")


def _check_on(subject: Subject, game: FederatedGame, given: str) -> None:
    assert subject.method.view is not None
    expect, trace = subject.examiner.expect, game.trace_games()
    means: list[list[float]] = []
    for seed in (1, 1, 2, 3):
        with subject.examiner.no_error("a view is a function of (trace, rng) and its options", given):
            estimate = subject.method.view(trace, np.random.default_rng(seed), **subject.options)
        subject.check_estimate(game.n, estimate, f"seed={seed} on {given}")
        means.append(np.asarray(estimate.mean).tolist())
    expect(means[0] == means[1], "the same seed gives the same values", given, means[0], means[1])
    if "deterministic" in subject.promises:
        expect(
            means[0] == means[2] == means[3],
            f"promised: {PROMISES['deterministic']}",
            given,
            means[0],
            means[2:],
        )
    for mean in means:
        if "null" in subject.promises:
            expect(mean[EMPTY] == 0, f"promised: {PROMISES['null']}", given, "0 without data", mean[EMPTY])
        if "symmetric" in subject.promises:
            one, other = (mean[i] for i in COPIES)
            expect(abs(one - other) <= TOLERANCE, f"promised: {PROMISES['symmetric']}", given, one, other)
    with subject.examiner.no_error(
        "a method can be passed to `value`, and its values written as JSON", given
    ):
        values = value(game, subject.method, seed=1, **subject.options)
        again = Values.from_dict(json.loads(json.dumps(values.to_dict(), allow_nan=False)))
    expect(again.mean.tolist() == means[0], "`value` gives what the view gives", given, means[0], again.mean)
    expect(values.evaluations == 1, "a view costs one training", given, 1, values.evaluations)
