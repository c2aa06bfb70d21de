"""What is each data provider in a federated-learning consortium worth?

>>> import fedvalue as fv
>>> game = fv.TableGame([0.10, 0.50, 0.70, 0.80, 0.60, 0.90, 0.90, 0.96])
>>> fv.value(game, method="exact").mean.round(2).tolist()
[0.22, 0.32, 0.32]
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fedvalue._version import __version__

if TYPE_CHECKING:
    from fedvalue import scoring as scoring
    from fedvalue.agreement import Agreement as Agreement
    from fedvalue.agreement import Party as Party
    from fedvalue.agreement import PayoutTerms as PayoutTerms
    from fedvalue.agreement import read_agreement as read_agreement
    from fedvalue.audit import Audit as Audit
    from fedvalue.audit import audit as audit
    from fedvalue.errors import BudgetError as BudgetError
    from fedvalue.errors import FedvalueError as FedvalueError
    from fedvalue.errors import FedvalueWarning as FedvalueWarning
    from fedvalue.errors import GameError as GameError
    from fedvalue.errors import InputError as InputError
    from fedvalue.errors import MethodError as MethodError
    from fedvalue.errors import MissingExtraError as MissingExtraError
    from fedvalue.errors import ScenarioError as ScenarioError
    from fedvalue.errors import StoreError as StoreError
    from fedvalue.errors import UtilityError as UtilityError
    from fedvalue.estimators import Method as Method
    from fedvalue.estimators import Plan as Plan
    from fedvalue.evidence import Verdict as Verdict
    from fedvalue.evidence import sign as sign
    from fedvalue.evidence import verify as verify
    from fedvalue.games import FederatedGame as FederatedGame
    from fedvalue.games import FunctionGame as FunctionGame
    from fedvalue.games import Game as Game
    from fedvalue.games import PooledGame as PooledGame
    from fedvalue.games import TableGame as TableGame
    from fedvalue.learners.losses import Loss as Loss
    from fedvalue.learners.metrics import Metric as Metric
    from fedvalue.outcome import Outcome as Outcome
    from fedvalue.payout import AbsentRule as AbsentRule
    from fedvalue.payout import Payout as Payout
    from fedvalue.payout import payout as payout
    from fedvalue.periods import Period as Period
    from fedvalue.periods import Periods as Periods
    from fedvalue.report import report as report
    from fedvalue.run import DryRun as DryRun
    from fedvalue.run import Evaluation as Evaluation
    from fedvalue.run import Job as Job
    from fedvalue.run import Result as Result
    from fedvalue.run import benchmark as benchmark
    from fedvalue.run import compare as compare
    from fedvalue.run import methods as methods
    from fedvalue.run import run as run
    from fedvalue.run import value as value
    from fedvalue.run import what_if_claimed as what_if_claimed
    from fedvalue.scenarios import Dataset as Dataset
    from fedvalue.scenarios import Scenario as Scenario
    from fedvalue.scenarios import load_scenario as load_scenario
    from fedvalue.store import Store as Store
    from fedvalue.store import UtilityStore as UtilityStore
    from fedvalue.trainers import Trainer as Trainer
    from fedvalue.training import Learner as Learner
    from fedvalue.training import Training as Training
    from fedvalue.values import Benefits as Benefits
    from fedvalue.values import Cost as Cost
    from fedvalue.values import Disclosed as Disclosed
    from fedvalue.values import Disclosure as Disclosure
    from fedvalue.values import Estimate as Estimate
    from fedvalue.values import Values as Values
    from fedvalue.what_if import OtherIndices as OtherIndices
    from fedvalue.what_if import WhatIf as WhatIf
    from fedvalue.what_if import copies_once as copies_once
    from fedvalue.what_if import other_indices as other_indices
    from fedvalue.what_if import what_if as what_if

__all__ = [
    "AbsentRule",
    "Agreement",
    "Audit",
    "Benefits",
    "BudgetError",
    "Cost",
    "Dataset",
    "Disclosed",
    "Disclosure",
    "DryRun",
    "Estimate",
    "Evaluation",
    "FederatedGame",
    "FedvalueError",
    "FedvalueWarning",
    "FunctionGame",
    "Game",
    "GameError",
    "InputError",
    "Job",
    "Learner",
    "Method",
    "MethodError",
    "Loss",
    "Metric",
    "MissingExtraError",
    "OtherIndices",
    "Outcome",
    "Party",
    "Payout",
    "PayoutTerms",
    "Period",
    "Periods",
    "Plan",
    "PooledGame",
    "Result",
    "Scenario",
    "ScenarioError",
    "Store",
    "StoreError",
    "TableGame",
    "Trainer",
    "Training",
    "UtilityError",
    "UtilityStore",
    "Values",
    "Verdict",
    "WhatIf",
    "__version__",
    "audit",
    "benchmark",
    "compare",
    "copies_once",
    "load_scenario",
    "methods",
    "other_indices",
    "payout",
    "read_agreement",
    "report",
    "run",
    "scoring",
    "sign",
    "value",
    "verify",
    "what_if",
    "what_if_claimed",
]

# Where the names are: a room is loaded with the first of its names that is asked for.
_HOMES = {
    "fedvalue.agreement": "Agreement Party PayoutTerms read_agreement",
    "fedvalue.audit": "Audit audit",
    "fedvalue.errors": "BudgetError FedvalueError FedvalueWarning GameError InputError MethodError MissingExtraError ScenarioError StoreError UtilityError",
    "fedvalue.estimators": "Method Plan",
    "fedvalue.evidence": "Verdict sign verify",
    "fedvalue.games": "FederatedGame FunctionGame Game PooledGame TableGame",
    "fedvalue.learners.losses": "Loss",
    "fedvalue.learners.metrics": "Metric",
    "fedvalue.outcome": "Outcome",
    "fedvalue.payout": "AbsentRule Payout payout",
    "fedvalue.periods": "Period Periods",
    "fedvalue.report": "report",
    "fedvalue.run": "DryRun Evaluation Job Result benchmark compare methods run value what_if_claimed",
    "fedvalue.scenarios": "Dataset Scenario load_scenario",
    "fedvalue.store": "Store UtilityStore",
    "fedvalue.trainers": "Trainer",
    "fedvalue.training": "Learner Training",
    "fedvalue.values": "Benefits Cost Disclosed Disclosure Estimate Values",
    "fedvalue.what_if": "OtherIndices WhatIf copies_once other_indices what_if",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


class _Front(ModuleType):
    """This module, as it is asked for names."""

    def __getattr__(self, name: str) -> Any:
        if name == "scoring":
            return import_module("fedvalue.scoring")
        if name not in _HOME_OF:
            from fedvalue._checks import did_you_mean

            raise AttributeError(
                f"fedvalue has no {name!r}. {did_you_mean(name, __all__)}".strip(), name=name, obj=self
            )
        found = getattr(import_module(_HOME_OF[name]), name)
        setattr(self, name, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        # Whatever imports the room `fedvalue.audit` puts it here under its name, which is that of the function `audit`.
        if not (isinstance(value, ModuleType) and name in _HOME_OF):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Front
