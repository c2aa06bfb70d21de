"""What takes Shapley values, and refuses others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedvalue.errors import InputError
from fedvalue.indices import SHAPLEY

if TYPE_CHECKING:
    from fedvalue.values._values import Values

__all__ = ["expect_shapley"]


def expect_shapley(values: Values, what: str) -> None:
    """Refuses values by another index, whose properties are others; Owen values are Shapley values of groups."""
    if values.index != SHAPLEY:
        raise InputError(
            f"{what} takes Shapley values. These are by the index {values.index}: value the clients without an index; "
            "with the same store nothing is trained again."
        )
