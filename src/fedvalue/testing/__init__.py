"""Conformance suites: hold an estimator, game, trainer or store of your own to the contract that fedvalue relies on.

Each suite is a function that returns nothing, or raises a `ConformanceError` (an AssertionError) that says which rule
was broken, with what input, what was expected and what came. Call it in a test:

>>> import fedvalue as fv
>>> from fedvalue.testing import check_estimator
>>> def alone(n, budget, rng):
...     utilities = yield [0, *(1 << i for i in range(n))]
...     return fv.Estimate(utilities[1:] - utilities[0])
>>> check_estimator(alone)
Traceback (most recent call last):
fedvalue.errors.ConformanceError: alone: a plan asks for no more distinct coalitions than its budget; the smallest budget it works with is the `minimum` of its Method
  with:     n=1, budget=1, seed=0 on the game random-1-7
  expected: at most 1
  got:      2
>>> method = fv.Method("alone", alone, minimum=lambda n, options: n + 1)
>>> check_estimator(method, promises=["null", "symmetric", "deterministic"])

The suites need neither pytest nor hypothesis. `games` has games with known values, and one that records what it is
asked. fedvalue's own pieces are checked by the same suites.
"""

from fedvalue.errors import ConformanceError
from fedvalue.testing import games
from fedvalue.testing._estimators import check_estimator
from fedvalue.testing._games import check_game
from fedvalue.testing._promises import PROMISES
from fedvalue.testing._stores import check_store
from fedvalue.testing._subject import drive
from fedvalue.testing._trainers import check_trainer

__all__ = [
    "PROMISES",
    "ConformanceError",
    "check_estimator",
    "check_game",
    "check_store",
    "check_trainer",
    "drive",
    "games",
]
