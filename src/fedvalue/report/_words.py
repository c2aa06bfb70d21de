"""Numbers, names and texts as a report shows them."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from typing import TYPE_CHECKING

import numpy as np

from fedvalue._text import one_line, shortened
from fedvalue.values import Values

if TYPE_CHECKING:
    from fedvalue.report._clients import Client
    from fedvalue.report._parties import Group

__all__ = [
    "MOST_NAMED",
    "NAME",
    "called",
    "decimals_of",
    "fixed",
    "interval_text",
    "named",
    "over_seeds",
    "ranked",
    "share_text",
    "signed",
    "unbracketed",
]

NAME = 48  # letters of a name; the raw values have it in full
MOST_NAMED = 4  # findings or clients in a sentence


def signed(number: float, decimals: int) -> str:
    """A number with its sign, a true minus; what rounds to nothing has none.

    >>> signed(0.25, 3), signed(-0.25, 3), signed(-1e-9, 3)
    ('+0.250', '−0.250', '0.000')
    """
    text = f"{number:+.{decimals}f}"
    return text.replace("-", "−") if text.strip("+-0.") else text[1:]


def fixed(number: float, decimals: int) -> str:
    """A number whose sign is shown only where it is a minus."""
    return f"{number:.{decimals}f}".replace("-", "−")


def called(name: str) -> str:
    """The name of a client in a text: on one line, shortened, and a word for none.

    >>> called("clinic"), called(" ")
    ('clinic', '(no name)')
    """
    return shortened(name, NAME) if one_line(name).strip() else "(no name)"


def interval_text(client: Client | Group, decimals: int) -> str:
    """From where to where, or a dash."""
    if client.low is None or client.high is None:
        return "–"
    return f"{signed(client.low, decimals)} to {signed(client.high, decimals)}"


def share_text(client: Client) -> str:
    """The part of all value in percent, or a dash."""
    return "–" if client.share is None else f"{client.share:.1%}".replace("-", "−")


def ranked(values: Values) -> list[int]:
    """Clients by value, the highest first; those that differ by rounding errors alone as they are listed.

    >>> ranked(Values([0.1, 0.3, 0.3 + 1e-16], ("a", "b", "c"), "exact", 8))
    [1, 2, 0]
    """
    largest = float(np.abs(values.mean).max()) or 1.0
    return sorted(range(values.n), key=lambda i: -round(float(values.mean[i]) / largest, 12))


def decimals_of(values: Values) -> int:
    """How many decimals values are shown with: small values keep their digits."""
    largest = float(np.abs(values.mean).max()) or 1.0
    return min(max(4, 2 - floor(log10(largest))), 12)


def named(names: Sequence[str]) -> str:
    shown = [called(name) for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        return f"{', '.join(shown)} and {len(names) - MOST_NAMED} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def unbracketed(text: str) -> str:
    """A text that goes into brackets.

    >>> unbracketed("untrained model (mean of 64)")
    'untrained model, mean of 64'
    """
    return text.replace(" (", ", ").replace(")", "")


def over_seeds(values: Values) -> str:
    """Behind what all clients reach, where that is no mean of trainings but what the values add up to."""
    known = values.utility_of_all is not None and values.seeds > 1
    return f" (estimate over {values.seeds} seeds)" if known else ""
