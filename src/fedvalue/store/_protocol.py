"""What a run needs of a store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from fedvalue.coalitions import Trial
from fedvalue.outcome import Outcome
from fedvalue.store._chain import Head
from fedvalue.store._names import description_with

__all__ = ["Chained", "Claiming", "Registering", "Store", "Surveyed", "agree", "register"]

_SAME = {"rel_tol": 1e-6, "abs_tol": 1e-9}  # deterministic trainings; another library may round otherwise


class Store(Protocol):
    """Keeps outcomes by game, coalition (a bitmask) and replicate; `UtilityStore` does so in a file.

    >>> import fedvalue as fv
    >>> class InMemory:
    ...     def __init__(self):
    ...         self.known = {}
    ...     def read(self, game_id, masks=None, replicate=0):
    ...         known = self.known.get((game_id, replicate), {})
    ...         return {m: of for m, of in known.items() if masks is None or m in masks}
    ...     def append(self, game_id, outcomes, replicate=0):
    ...         self.known.setdefault((game_id, replicate), {}).update(outcomes)
    >>> store = InMemory()
    >>> fv.value([0.0, 1.0, 1.0, 3.0], "exact", store=store).cost.trained
    4
    >>> fv.value([0.0, 1.0, 1.0, 3.0], "exact", store=store).cost.trained
    0
    """

    def read(
        self, game_id: str, masks: Sequence[int] | None = None, replicate: int = 0
    ) -> Mapping[int, Outcome]:
        """The known outcomes of a game, of all coalitions or of the given ones."""
        ...

    def append(self, game_id: str, outcomes: Iterable[tuple[int, Outcome]], replicate: int = 0) -> None:
        """Adds outcomes, all or none of them. A number that is there is never changed.

        A coalition that is known already only gets the metrics that it lacks, and those only if the others `agree`. A
        store may leave out the `rows` of outcomes: then the part of errors from test rows is not known for what it gives
        back.
        """
        ...


@runtime_checkable
class Registering(Protocol):
    """A store that also keeps what a game is: for people who look into it. A run does without."""

    def register(self, game_id: str, n: int, description: Mapping[str, Any] | None = None) -> None: ...


@runtime_checkable
class Chained(Protocol):
    """A store whose rows are chained by hashes. Values write the head of the chain down; without, they do not."""

    def head(self, game_id: str) -> Head: ...


@runtime_checkable
class Claiming(Protocol):
    """A store through which several processes share the work. A run does without: then each does what it asks for.

    Whoever begins on coalitions claims them for some seconds, under a name that tells whether it is still there
    (`new_owner`), and renews its claims while it works. To append an outcome ends the claim on its coalition.
    """

    def claim(
        self, game_id: str, masks: Sequence[int], replicate: int, owner: str, seconds: float
    ) -> Sequence[int]:
        """Claims those of the coalitions that no other owner who is still there is at, and gives them."""
        ...

    def renew(self, owner: str, seconds: float) -> None:
        """Prolongs all claims of an owner. May be called from another thread."""
        ...

    def release(self, owner: str) -> None:
        """Ends all claims of an owner."""
        ...


@runtime_checkable
class Surveyed(Protocol):
    """A store that tells which games it knows, and which trials of each. A run does without: then games share nothing."""

    def descriptions(self) -> Mapping[str, Mapping[str, Any]]:
        """What was said of every game when it was registered, oldest first."""
        ...

    def trials(self, game_id: str) -> set[Trial]:
        """Every coalition of a game that is there, with its replicate or seed."""
        ...


def register(
    store: Store,
    game_id: str,
    names: Sequence[str],
    are_given: bool,
    members: Mapping[str, Any] | None = None,
) -> None:
    """Makes a game known to a store that wants to know, and whose data it is played with.

    `are_given`: whether somebody gave the clients their names.
    """
    if isinstance(store, Registering):
        of_members = {} if members is None else {"members": dict(members)}
        store.register(game_id, len(names), {**description_with(names, are_given), **of_members})


def agree(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether two outcomes are of the same model: they have metrics in common, with the same numbers.

    >>> agree({"accuracy": 0.5, "loss": 1.0}, {"accuracy": 0.5}), agree({"loss": 1.0}, {"loss": 1.1})
    (True, False)
    """
    shared = [name for name in one if name in other]
    return bool(shared) and all(math.isclose(one[name], other[name], **_SAME) for name in shared)
