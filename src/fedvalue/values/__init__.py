"""Values: what an estimator found out about each client, and how sure it is."""

from fedvalue.values._parts import Chain, Cost, Estimate
from fedvalue.values._values import PARTS, Values

__all__ = ["PARTS", "Chain", "Cost", "Estimate", "Values"]
