"""Values: what an estimator found out about each client, and how sure it is."""

from fedvalue.values._benefits import Benefits
from fedvalue.values._disclosure import Disclosed, Disclosure
from fedvalue.values._parts import Chain, Cost, Estimate
from fedvalue.values._values import PARTS, Values, benefits_in

__all__ = [
    "PARTS",
    "Benefits",
    "Chain",
    "Cost",
    "Disclosed",
    "Disclosure",
    "Estimate",
    "Values",
    "benefits_in",
]
