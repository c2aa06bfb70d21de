"""Values: what an estimator found out about each client, and how sure it is."""

from fedvalue.values._benefits import NOT_TOLD, Benefits, benefits_in
from fedvalue.values._client import ClientValue
from fedvalue.values._disclosure import Disclosed, Disclosure
from fedvalue.values._index import expect_shapley
from fedvalue.values._parts import Chain, Cost, Estimate
from fedvalue.values._values import PARTS, Values

__all__ = [
    "NOT_TOLD",
    "PARTS",
    "Benefits",
    "Chain",
    "ClientValue",
    "Cost",
    "Disclosed",
    "Disclosure",
    "Estimate",
    "Values",
    "benefits_in",
    "expect_shapley",
]
