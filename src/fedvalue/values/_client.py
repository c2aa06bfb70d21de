"""One client among the values of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedvalue._checks import did_you_mean, whole
from fedvalue._text import listed, one_line
from fedvalue.errors import InputError

__all__ = ["ClientValue", "number_of"]


@dataclass(frozen=True)
class ClientValue:
    """What one client is worth: its value, the standard error and the bounds of its 95% interval, and its share.

    The errors are None where the method has no valid ones; the share is nan where there is nothing to have a share in.

    >>> one = ClientValue("Aachen", 0.3, 0.01, 0.28, 0.32, 0.6)
    >>> print(one, float(one))
    Aachen: +0.3000 ± 0.0200 (60.0%) 0.3
    """

    name: str
    value: float
    stderr: float | None
    low: float | None
    high: float | None
    share: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        width = "" if self.low is None or self.high is None else f" ± {(self.high - self.low) / 2:.4f}"
        share = "" if self.share != self.share else f" ({self.share:.1%})"
        return f"{one_line(self.name)}: {self.value:+.4f}{width}{share}"


def number_of(client: int | str, names: Sequence[str]) -> int:
    """The number of a client that is given by name or number."""
    if isinstance(client, str):
        if client not in names:
            raise InputError(
                f"There is no client {client!r}. {did_you_mean(client, names)}Clients: {listed(names, 12)}."
            )
        return names.index(client)
    return whole("The number of a client", client, 0, len(names) - 1)
