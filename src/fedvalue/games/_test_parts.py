"""The test rows of single clients: what a coalition is worth to one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fedvalue.errors import InputError
from fedvalue.games._empty import EmptyCoalition
from fedvalue.learners.metrics import Counted, of_part
from fedvalue.outcome import Outcome
from fedvalue.per_row import PerRow
from fedvalue.scenarios import Scenario

__all__ = ["EmptyOfPart", "TestPart", "test_parts_of"]


class EmptyOfPart(Protocol):
    """What a coalition without data is worth on these rows."""

    @property
    def stored_as(self) -> str: ...

    def added_to(self, outcome: Outcome) -> Outcome: ...


@dataclass(frozen=True)
class TestPart:
    """The part of the test set that is a client's own. `weight` is how much the metric on it counts in that on all
    rows, where it `adds_up`; else its share of the rows."""

    client: int
    rows: int
    weight: float
    adds_up: bool
    higher_is_better: bool
    stored_as: str
    empty: EmptyOfPart

    __test__ = False  # no test, whatever pytest makes of its name

    def read(self, outcome: Outcome, is_empty: bool) -> tuple[float, PerRow | None]:
        """The utility of a coalition on these rows, and what they said, up to its sign."""
        name = self.empty.stored_as if is_empty else self.stored_as
        if is_empty:
            outcome = self.empty.added_to(outcome)
        if name not in outcome.metrics:
            raise InputError(
                f"Some trainings have no {self.stored_as}: it could not be computed on these rows."
            )
        number = outcome.metrics[name]
        return number if self.higher_is_better else -number, outcome.rows.get(name)


def test_parts_of(scenario: Scenario, counted: Counted, empty: EmptyCoalition) -> tuple[TestPart, ...]:
    """The parts of a test set that consists of the clients' own rows; none of any other."""
    owners: Mapping[str, int] = scenario.test_owners
    parts = []
    for name, client in owners.items():
        of_client, rows = of_part(counted, name), len(scenario.test_parts[name])
        share = rows / len(scenario.test)
        parts.append(
            TestPart(
                client,
                rows,
                1.0 if counted.is_sum else share,
                counted.adds_up,
                counted.higher_is_better,
                of_client.stored_as,
                empty.of_part(of_client, share if counted.is_sum else 1.0),
            )
        )
    return tuple(parts)
