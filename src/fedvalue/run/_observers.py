"""Whoever wants to follow a run: told what is being done, what became known, and what came out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

from fedvalue.coalitions import members
from fedvalue.errors import InputError
from fedvalue.outcome import Outcome
from fedvalue.values import Values

__all__ = ["Evaluation", "Observer", "Observers", "OnOutcome", "OnStage", "OnValues"]


@dataclass(frozen=True)
class Evaluation:
    """A coalition whose utility became known: evaluated just now, or `reused` from the store.

    `done` of `total` that are asked for so far are known, replicates counted one by one.

    >>> import fedvalue as fv
    >>> seen = []
    >>> _ = fv.value([0.0, 1.0, 1.0, 3.0], "exact", on_outcome=seen.append)
    >>> [(one.coalition, one.utility) for one in seen]
    [((), 0.0), ((0,), 1.0), ((1,), 1.0), ((0, 1), 3.0)]
    """

    mask: int
    replicate: int
    utility: float
    outcome: Outcome
    reused: bool
    done: int
    total: int

    @property
    def coalition(self) -> tuple[int, ...]:
        """The clients, by number."""
        return members(self.mask)


OnStage: TypeAlias = Callable[[str], None]
OnOutcome: TypeAlias = Callable[[Evaluation], None]
OnValues: TypeAlias = Callable[[Values], None]


@dataclass(frozen=True)
class Observer:
    """Functions that a run calls; None: not interested. What they raise ends the run, with everything kept.

    `on_ask` is told (known, asked for) before a batch of evaluations begins.
    """

    on_stage: OnStage | None = None
    on_outcome: OnOutcome | None = None
    on_values: OnValues | None = None
    on_ask: Callable[[int, int], None] | None = None

    def __post_init__(self) -> None:
        for of in fields(self):
            if not (getattr(self, of.name) is None or callable(getattr(self, of.name))):
                raise InputError(f"{of.name} must be a function. Got {getattr(self, of.name)!r}.")


class Observers:
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._stage = [o.on_stage for o in observers if o.on_stage]
        self._outcome = [o.on_outcome for o in observers if o.on_outcome]
        self._values = [o.on_values for o in observers if o.on_values]
        self._ask = [o.on_ask for o in observers if o.on_ask]

    @property
    def want_outcomes(self) -> bool:
        """Whether anybody wants to know of single outcomes."""
        return bool(self._outcome)

    def on_stage(self, text: str) -> None:
        for tell in self._stage:
            tell(text)

    def on_outcome(self, evaluation: Evaluation) -> None:
        for tell in self._outcome:
            tell(evaluation)

    def on_values(self, values: Values) -> None:
        for tell in self._values:
            tell(values)

    def on_ask(self, known: int, asked: int) -> None:
        for tell in self._ask:
            tell(known, asked)
