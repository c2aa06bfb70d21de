"""Every error that fedvalue raises on purpose.

    FedvalueError
    ├── InputError            an argument is wrong: nothing was run (command line: exit code 2)
    │   ├── GameError         the game itself: table length, number of clients, names
    │   ├── MethodError       unknown method, unknown or impossible option
    │   ├── BudgetError       the budget is below what the method needs
    │   └── ScenarioError     the data: unknown scenario, missing files, arrays that cannot be used
    ├── UtilityError          one coalition could not be evaluated; the others are kept
    │   ├── UnavailableError  clients of a federation did not answer; what needs them is missing
    │   └── UnrecordedError   values are computed again, and the store lacks a training for it
    ├── StoreError            the store cannot be opened, read or written
    │   └── NoStoreError      there is none at the path that was given (an InputError, too)
    ├── MissingExtraError     an optional dependency is not installed
    └── ConformanceError      a piece of one's own breaks its contract (raised by `fedvalue.testing` only)

A message says what was expected, what came, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "BudgetError",
    "ConformanceError",
    "FedvalueError",
    "FedvalueWarning",
    "GameError",
    "InputError",
    "MethodError",
    "MissingExtraError",
    "NoStoreError",
    "ScenarioError",
    "StoreError",
    "UnavailableError",
    "UnrecordedError",
    "UtilityError",
]


class FedvalueError(Exception):
    """Root of everything that fedvalue raises on purpose."""


class InputError(FedvalueError, ValueError):
    """An argument is wrong; nothing was run."""


class GameError(InputError):
    """The game is malformed: its table, its number of clients or its names."""


class MethodError(InputError):
    """The method is unknown, or one of its options is unknown or impossible."""


class BudgetError(InputError):
    """The budget does not cover what the method needs."""


class ScenarioError(InputError):
    """The clients' data cannot be found, read or used as asked."""


class UtilityError(FedvalueError):
    """One coalition could not be evaluated; what was finished before it is kept.

    `coalition` holds the client indices of the coalition that failed.
    """

    def __init__(self, message: str, coalition: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.coalition = coalition


class UnavailableError(UtilityError):
    """Clients of a federation were needed and did not answer, or not as they must.

    `reasons` says why for each client number.
    """

    def __init__(self, message: str, coalition: tuple[int, ...], reasons: Mapping[int, str]) -> None:
        super().__init__(message, coalition)
        self.reasons = dict(reasons)


class UnrecordedError(UtilityError):
    """Values are computed again from what was recorded, and a training that they need is not there."""


class StoreError(FedvalueError):
    """The store cannot be opened, read or written."""


class NoStoreError(StoreError, InputError):
    """There is no store at the path that was given; nothing was run."""


class MissingExtraError(FedvalueError, ModuleNotFoundError):
    """An optional dependency is needed for this and is not installed."""


class ConformanceError(FedvalueError, AssertionError):
    """An estimator, game, trainer or store does not do what its contract says; raised by `fedvalue.testing`."""


class FedvalueWarning(UserWarning):
    """Something works, but not with the certainty one might expect."""
