"""What is each data provider in a federated-learning consortium worth?

>>> import fedvalue as fv
>>> game = fv.TableGame([0.10, 0.50, 0.70, 0.80, 0.60, 0.90, 0.90, 0.96])
>>> fv.value(game, method="exact").mean.round(2).tolist()
[0.22, 0.32, 0.32]
"""

from fedvalue import metrics
from fedvalue._version import __version__
from fedvalue.audit import Audit, audit
from fedvalue.errors import (
    BudgetError,
    FedvalueError,
    FedvalueWarning,
    GameError,
    InputError,
    MethodError,
    MissingExtraError,
    ScenarioError,
    StoreError,
    UtilityError,
)
from fedvalue.estimators import Method
from fedvalue.federation import FederatedGame
from fedvalue.game import FunctionGame, Game, TableGame
from fedvalue.outcome import Outcome
from fedvalue.payout import Payout, payout
from fedvalue.run import compare, methods, value
from fedvalue.scenarios import Dataset, Scenario, load_scenario
from fedvalue.store import UtilityStore
from fedvalue.training import Training
from fedvalue.values import Values

__all__ = [
    "Audit",
    "BudgetError",
    "Dataset",
    "FederatedGame",
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
    "Payout",
    "Scenario",
    "ScenarioError",
    "StoreError",
    "TableGame",
    "Training",
    "UtilityError",
    "UtilityStore",
    "Values",
    "__version__",
    "audit",
    "compare",
    "load_scenario",
    "methods",
    "metrics",
    "payout",
    "value",
]
