"""Why coalitions could not be trained, in words: who is missing, or where models came to numbers that are not finite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from fedvalue._text import plural
from fedvalue.coalitions import members
from fedvalue.errors import UnavailableError, UtilityError
from fedvalue.flower._nodes import Nodes
from fedvalue.scenarios import Scenario

__all__ = ["unavailable"]


def unavailable(nodes: Nodes, scenario: Scenario, masks: Sequence[int]) -> UtilityError:
    """Who is missing and why, or where models diverged."""
    if nodes.diverged and not nodes.lost:
        return _diverged(nodes, scenario, masks)
    reasons = {client: failure.reason for client, failure in sorted(nodes.lost.items())}
    told = [f"{scenario.names[client]} {reason}" for client, reason in reasons.items()]
    return UnavailableError(
        f"{plural(len(masks), 'coalition')} could not be trained: {'; '.join(told[:6])}. What was finished is kept: start "
        "these nodes again and run the same valuation, or set missing='use-known' to value the others alone.",
        members(masks[0]),
        reasons,
    )


def _diverged(nodes: Nodes, scenario: Scenario, masks: Sequence[int]) -> UtilityError:
    """Nobody was away, so nobody is named as missing; who is part of all these coalitions is worth a look."""
    where = ", ".join(scenario.names[i] for i in sorted(nodes.diverged)[:6])
    shared = members(reduce(and_, masks))
    suspects = f" All of them have {', '.join(scenario.names[i] for i in shared[:6])}." if shared else ""
    return UtilityError(
        f"The training of {plural(len(masks), 'coalition')} diverged: at {where} their models came to numbers that are not "
        f"finite.{suspects} The others are kept. Lower the rate, or ask whether a client manipulates its models.",
        members(masks[0]),
    )
