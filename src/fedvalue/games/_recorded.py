"""A game from nothing but the outcomes in a store: for those who check values and have no data to train on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedvalue.coalitions import Trial, by_seed, full_mask, members
from fedvalue.errors import UnrecordedError
from fedvalue.games._test_parts import TestPart
from fedvalue.outcome import DRAWN, Outcome, empty_metric
from fedvalue.per_row import PerRow
from fedvalue.store import Store
from fedvalue.trainers import ClaimTrials
from fedvalue.values import NOT_TOLD, Values
from fedvalue.yardsticks import Empty

__all__ = ["RecordedGame"]

_NAMED = 4


class RecordedGame:
    """The game that values are of, as far as a store knows it. A coalition that was not trained is an UnrecordedError.

    `record` is what run.json says of it, if there is one: with how many seeds it can be trained, which clients are `idle`
    and which are `alike`.
    """

    def __init__(
        self, values: Values, store: Store, names: Sequence[str], record: Mapping[str, Any] | None = None
    ) -> None:
        told = (record or {}).get("game") or {}
        self.store = store
        self.id = values.game_id
        self.names = tuple(names)
        self.n = len(self.names)
        self.doubts: tuple[str, ...] = ()
        self.replicates = values.replicates
        self.metric, self.stored_as = values.metric, values.stored_as
        self.higher_is_better = values.higher_is_better
        self.retrain = False
        self.random = values.random
        self.test_rows = values.test_rows
        self.seeds = told.get("seeds", _seeds(values))
        self.idle = tuple(told.get("idle", ()))
        self.alike = tuple(map(tuple, told.get("alike", ())))
        self._empty = values.empty
        rule = "initial" if values.empty is None else values.empty.rule
        if rule == "number":
            rule = f"={values.sign * (values.utility_of_none or 0.0) + 0.0!r}"
        self.empty_as = self.stored_as if values.empty is None else empty_metric(self.stored_as, rule)
        self._benefits = values.benefits
        self._not_told = any(note.startswith(NOT_TOLD) for note in values.notes)
        self._without_data = sum(1 << i for i in self.idle)

    def is_empty(self, mask: int) -> bool:
        """Whether nobody in the coalition has data; of games whose v(∅) follows from no rule there is none."""
        return self._empty is not None and not mask & ~self._without_data

    def empty_of(self, outcome: Outcome) -> Empty:
        """How v(∅) was fixed, as the values have it; of how many models it is the mean, the outcome says."""
        assert self._empty is not None
        if self._empty.rule != "initial":
            return self._empty
        models = round(outcome.metrics.get(DRAWN, 1.0))
        label = self._empty.label.partition(" (mean of ")[0]
        return Empty("initial", label + (f" (mean of {models})" if models > 1 else ""), models)

    def parts_of_test(self) -> tuple[TestPart, ...]:
        """The test rows of each client, as the values have them. Values that say why they do not know what clients do for each
        other are of a game with such rows, too.
        """
        told, counted = self._benefits, self._counted_rows()
        if told is None and not self._not_told:
            return ()
        owners = (
            dict.fromkeys(self._owners(), 1)
            if told is None
            else dict(zip(told.owners, told.rows, strict=True))
        )
        rows = {name: counted.get(name, count) for name, count in owners.items()}
        total = sum(rows.values())
        adds_up_as_sum = told is not None and bool((told.weights == 1.0).all())
        return tuple(
            TestPart(
                self.names.index(name),
                count,
                1.0 if adds_up_as_sum else count / total,
                told is None or told.adds_up,
                self.higher_is_better,
                f"{name}/{self.stored_as}",
                _EmptyAsStored(name, self.stored_as, self.empty_as, count / total if adds_up_as_sum else 1.0),
            )
            for name, count in rows.items()
        )

    def _owners(self) -> list[str]:
        """Who has test rows of its own, as the training of all clients says."""
        metrics = self._of_all().metrics
        return [name for name in self.names if f"{name}/{self.stored_as}" in metrics] or list(self.names)

    def _counted_rows(self) -> dict[str, int]:
        """How many test rows of each client stand behind what the training of all clients reached, where that is known."""
        told = self._of_all().rows
        found = {name: told.get(f"{name}/{self.stored_as}") for name in self.names}
        return {name: row.rows for name, row in found.items() if row is not None and row.rows}

    def _of_all(self) -> Outcome:
        return self.store.read(self.id, [full_mask(self.n)]).get(full_mask(self.n), Outcome({}))

    def utility(self, outcome: Outcome) -> float:
        """The metric that counts, negated where lower is better."""
        number = outcome.metrics.get(self.empty_as, outcome.metrics.get(self.stored_as))
        if number is None:
            raise UnrecordedError(f"A training in the store has no metric {self.metric!r}.")
        return number if self.higher_is_better else -number

    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]:
        """What the store has; nothing is trained."""
        for (mask, _), outcome in self.evaluate_trials([(mask, replicate) for mask in masks]):
            yield mask, outcome

    def evaluate_trials(
        self, trials: Sequence[Trial], claim: ClaimTrials = list
    ) -> Iterator[tuple[Trial, Outcome]]:
        """The same with several seeds."""
        for seed, masks in by_seed(claim(trials)).items():
            found = self.store.read(self.id, masks, seed)
            for mask in masks:
                if mask not in found:
                    who = ", ".join(self.names[i] for i in members(mask)[:_NAMED]) or "no clients"
                    raise UnrecordedError(f"The store has no training of {who} ({mask:x}) with seed {seed}.")
                yield (mask, seed), found[mask]


@dataclass(frozen=True)
class _EmptyAsStored:
    """What a coalition without data is worth on the rows of one client: as stored, or the `share` of a number."""

    owner: str
    metric: str
    empty_as: str
    share: float

    @property
    def stored_as(self) -> str:
        return f"{self.owner}/{self.empty_as}"

    def added_to(self, outcome: Outcome) -> Outcome:
        plain, (_, _, number) = f"{self.owner}/{self.metric}", self.empty_as.rpartition("|=")
        if self.stored_as in outcome.metrics:
            return outcome
        if number and self.empty_as != number:
            worth = self.share * float(number)
            told: tuple[float, PerRow | None] = (worth, PerRow.fixed(worth))
        elif plain in outcome.metrics and self.empty_as == empty_metric(self.metric, "initial"):
            told = (outcome.metrics[plain], outcome.rows.get(plain))
        else:
            return outcome
        rows = dict(outcome.rows) if told[1] is None else {**outcome.rows, self.stored_as: told[1]}
        return outcome._replace(metrics={**outcome.metrics, self.stored_as: told[0]}, rows=rows)


def _seeds(values: Values) -> int | None:
    if values.most_seeds is not None:
        return values.most_seeds
    return None if values.random and values.replicates == 1 else 1
