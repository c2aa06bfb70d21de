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
    """Root of everything that fedvalue raises on purpose.

    >>> import fedvalue as fv
    >>> try:
    ...     fv.value([0.0, 1.0, 2.0], "exact")
    ... except fv.FedvalueError as error:
    ...     print(type(error).__name__)
    GameError
    """


class InputError(FedvalueError, ValueError):
    """An argument is wrong; nothing was run.

    >>> import fedvalue as fv
    >>> try:
    ...     fv.payout(fv.value([0.0, 1.0, 1.0, 3.0]), pot=-100)
    ... except fv.InputError as error:
    ...     print(error)
    The pot must be more than 0. Got -100.
    """


class GameError(InputError):
    """The game is malformed: its table, its number of clients or its names.

    >>> import fedvalue as fv
    >>> try:
    ...     fv.TableGame([0.0, 1.0, 1.0, 3.0], names=["a", "a"])
    ... except fv.GameError as error:
    ...     print(error)
    names must hold 2 different names. Got 2: ['a', 'a'].
    """


class MethodError(InputError):
    """The method is unknown, or one of its options is unknown or impossible.

    >>> import fedvalue as fv
    >>> try:
    ...     fv.value([0.0, 1.0, 1.0, 3.0], "surogate")
    ... except fv.MethodError as error:
    ...     print(str(error).partition(" Methods:")[0])
    Unknown method 'surogate'. Did you mean 'surrogate' or 'surrogate-adaptive'?
    """


class BudgetError(InputError):
    """The budget does not cover what the method needs.

    >>> import fedvalue as fv
    >>> try:
    ...     fv.value(list(range(16)), "loo", budget=3)
    ... except fv.BudgetError as error:
    ...     print(error)
    loo needs a budget of at least 5 coalitions for 4 clients. Got 3.
    """


class ScenarioError(InputError):
    """The clients' data cannot be found, read or used as asked.

    >>> import fedvalue as fv
    >>> try:
    ...     fv.load_scenario("digit")
    ... except fv.ScenarioError as error:
    ...     print(str(error).partition(" Scenarios:")[0])
    Unknown scenario 'digit'. Did you mean 'digits'?
    """


class UtilityError(FedvalueError):
    """One coalition could not be evaluated; what was finished before it is kept.

    `coalition` holds the client indices of the coalition that failed.

    >>> import fedvalue as fv
    >>> def utility(coalition):
    ...     if coalition == (0, 1):
    ...         raise RuntimeError("out of memory")
    ...     return float(len(coalition))
    >>> try:
    ...     fv.value(fv.FunctionGame(3, utility, batch=False), "exact")
    ... except fv.UtilityError as error:
    ...     print("failed:", error.coalition)
    failed: (0, 1)
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
    """The store cannot be opened, read or written.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import fedvalue as fv
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> _ = path.write_text("nothing of fedvalue")
    >>> try:
    ...     fv.UtilityStore(path)
    ... except fv.StoreError as error:
    ...     print(str(error).replace(str(path.parent), "…"))
    …/notes.txt is not a fedvalue store, and was not changed.
    """


class NoStoreError(StoreError, InputError):
    """There is no store at the path that was given; nothing was run."""


class MissingExtraError(FedvalueError, ModuleNotFoundError):
    """An optional dependency is needed for this and is not installed.

    >>> import fedvalue as fv
    >>> from unittest.mock import patch
    >>> with patch.dict("sys.modules", {"pandas": None}):  # as if it were not there
    ...     try:
    ...         fv.value([0.0, 1.0]).to_frame()
    ...     except fv.MissingExtraError as error:
    ...         print(error)
    A frame needs pandas, which is not installed: pip install 'fedvalue[pandas]'
    """


class ConformanceError(FedvalueError, AssertionError):
    """An estimator, game, trainer or store does not do what its contract says; raised by `fedvalue.testing`."""


class FedvalueWarning(UserWarning):
    """Something works, but not with the certainty one might expect.

    >>> import warnings
    >>> import fedvalue as fv
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", fv.FedvalueWarning)  # where it must be certain
    ...     fv.value([0.0, 1.0, 1.0, 3.0], "exact").mean.tolist()
    [1.5, 1.5]
    """
