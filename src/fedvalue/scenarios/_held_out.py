"""Each client's own held-out rows as a named part of the test set: what the data of each does for the others.

Of every client a fifth of its rows is drawn, in the proportions of its labels, and becomes the part of the test set
that has the client's name; it trains on the rest. The draw depends on the order and the labels of the client's own
rows and on nothing else: no seed, no other client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import checked_call
from fedvalue._text import listed, plural
from fedvalue.errors import ScenarioError
from fedvalue.scenarios._base import Scenario
from fedvalue.scenarios._checks import number, stream, unknown
from fedvalue.scenarios._dataset import Dataset
from fedvalue.scenarios._features import rows_joined
from fedvalue.scenarios._partition import Rows, subset

__all__ = ["BY_CLIENT", "Tested", "by_client", "hold_out", "is_by_client", "without_own_rows"]

BY_CLIENT = "by-client"
_HELD_OUT = 0.2
_LEAST = 5  # rows of a client: one to test on and four to train on
_NAMED = 6


@dataclass(frozen=True)
class Tested:
    """What clients train on, what they are tested on, and which test rows are whose."""

    clients: list[Dataset]
    test: Dataset
    parts: dict[str, Rows]


def is_by_client(test: str | None) -> bool:
    """Whether clients are to be tested on rows of their own; None is the test set that comes with the data."""
    if test not in (None, BY_CLIENT):
        raise unknown("test", test, [BY_CLIENT])
    return test == BY_CLIENT


@checked_call
def by_client(scenario: Scenario, held_out: float = _HELD_OUT) -> Scenario:
    """The same clients, tested on rows of their own: of each, this fraction is drawn from its rows and becomes a part
    of the test set with its name. The test set there was is left aside.

    >>> a, b = Dataset([[0.0]] * 10, [0, 1] * 5), Dataset([[1.0]] * 20, [0, 1] * 10)
    >>> s = by_client(Scenario("tiny", (a, b), ("a", "b"), test=a, task="classification", classes=2))
    >>> len(s.clients[0]), {name: len(rows) for name, rows in s.test_parts.items()}
    (8, {'a': 2, 'b': 4})
    """
    if not all(client.here for client in scenario.clients):
        raise ScenarioError("Rows of clients that are elsewhere cannot be held out here.")
    if scenario.test_owners:
        raise ScenarioError(
            "The test set consists of rows of the clients' own already. Leave test='by-client' out."
        )
    tested = hold_out(scenario.names, scenario.clients, held_out)
    details = {name: told for name, told in scenario.details.items() if name != "warnings"}
    return replace(
        scenario,
        clients=tuple(tested.clients),
        test=tested.test,
        test_parts=tested.parts,
        details={**details, "test": BY_CLIENT, "warnings": without_own_rows(scenario.names, tested.parts)},
    )


def hold_out(names: Sequence[str], clients: Sequence[Dataset], fraction: float = _HELD_OUT) -> Tested:
    """The clients without the rows that they are tested on, and these rows. A client without data has none."""
    share = number("The fraction of rows that is held out", fraction, 0, 0.5, above=True)
    drawn = [_drawn(name, data.y, share) for name, data in zip(names, clients, strict=True)]
    left = [np.setdiff1d(np.arange(len(data)), test) for data, test in zip(clients, drawn, strict=True)]
    pairs = [(data, test) for data, test in zip(clients, drawn, strict=True) if len(test)]
    if not pairs:
        raise ScenarioError("No client has any data. At least one must have rows to train on.")
    tested = [data.rows(test) for data, test in pairs]
    sizes = [len(test) for test in drawn]
    ends = np.cumsum(sizes)
    return Tested(
        [data.rows(rows) for data, rows in zip(clients, left, strict=True)],
        Dataset(rows_joined([part.x for part in tested]), np.concatenate([part.y for part in tested])),
        {n: np.arange(end - size, end) for n, size, end in zip(names, sizes, ends, strict=True) if size},
    )


def without_own_rows(names: Sequence[str], parts: dict[str, Rows]) -> list[str]:
    """What has to be said of clients that have no test rows of their own."""
    without = [name for name in names if name not in parts]
    return (
        [f"No test rows of its own: {listed(without, _NAMED)}. What others do for it is not known."]
        if without
        else []
    )


def _drawn(name: str, labels: NDArray[Any], share: float) -> Rows:
    if not len(labels):
        return np.arange(0)
    if len(labels) < _LEAST:
        raise ScenarioError(
            f"{name} has {plural(len(labels), 'row')}: too few to test it on rows of its own, which takes at least "
            f"{_LEAST}. Give it more, leave it out, or measure all clients on one test set (no test='by-client')."
        )
    if labels.ndim > 1:  # rows with many labels each have no groups
        labels = np.zeros(len(labels))
    return np.sort(subset(labels, max(1, round(share * len(labels))), stream(0, BY_CLIENT)))
