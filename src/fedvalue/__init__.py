"""What is each data provider in a federated-learning consortium worth?

>>> import fedvalue as fv
>>> game = fv.TableGame([0.10, 0.50, 0.70, 0.80, 0.60, 0.90, 0.90, 0.96])
>>> fv.value(game, method="exact").mean.round(2).tolist()
[0.22, 0.32, 0.32]
"""

from fedvalue import metrics
from fedvalue._version import __version__
from fedvalue.errors import (
    BudgetError,
    FedvalueError,
    FedvalueWarning,
    GameError,
    InputError,
    MethodError,
    MissingExtraError,
    StoreError,
    UtilityError,
)
from fedvalue.estimators import Method
from fedvalue.game import FunctionGame, Game, TableGame
from fedvalue.outcome import Outcome
from fedvalue.run import compare, methods, value
from fedvalue.store import UtilityStore
from fedvalue.values import Values

__all__ = [
    "BudgetError",
    "FedvalueError",
    "FedvalueWarning",
    "FunctionGame",
    "Game",
    "GameError",
    "InputError",
    "Method",
    "MethodError",
    "MissingExtraError",
    "Outcome",
    "StoreError",
    "TableGame",
    "UtilityError",
    "UtilityStore",
    "Values",
    "__version__",
    "compare",
    "methods",
    "metrics",
    "value",
]
