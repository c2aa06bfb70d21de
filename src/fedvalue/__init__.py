"""What is each data provider in a federated-learning consortium worth?

>>> import fedvalue as fv
>>> game = fv.TableGame([0.10, 0.50, 0.70, 0.80, 0.60, 0.90, 0.90, 0.96])
>>> fv.value(game, method="exact").mean.round(2).tolist()
[0.22, 0.32, 0.32]
"""

from fedvalue import scoring
from fedvalue._version import __version__
from fedvalue.agreement import Agreement, Party, PayoutTerms, read_agreement
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
from fedvalue.estimators import Method, Plan
from fedvalue.evidence import Verdict, sign, verify
from fedvalue.games import FederatedGame, FunctionGame, Game, PooledGame, TableGame
from fedvalue.learners.losses import Loss
from fedvalue.learners.metrics import Metric
from fedvalue.outcome import Outcome
from fedvalue.payout import AbsentRule, Payout, payout
from fedvalue.periods import Period, Periods
from fedvalue.report import report
from fedvalue.run import (
    DryRun,
    Evaluation,
    Job,
    Result,
    benchmark,
    compare,
    methods,
    run,
    value,
    what_if_claimed,
)
from fedvalue.scenarios import Dataset, Scenario, load_scenario
from fedvalue.store import Store, UtilityStore
from fedvalue.trainers import Trainer
from fedvalue.training import Learner, Training
from fedvalue.values import Benefits, Cost, Disclosed, Disclosure, Estimate, Values
from fedvalue.what_if import WhatIf, copies_once, what_if

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
