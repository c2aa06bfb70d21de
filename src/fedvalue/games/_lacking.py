"""Stored trainings that lack the metric which counts: it was given after they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedvalue._text import plural
from fedvalue.coalitions import members
from fedvalue.errors import InputError, StoreError
from fedvalue.games._base import Game, Grounded, Measured
from fedvalue.outcome import UTILITY, Outcome, plain_metric
from fedvalue.per_row import PerRow
from fedvalue.store import agree

__all__ = ["Reading", "completed", "lacking"]

_NAMED = 4


class Reading:
    """How a game reads outcomes. What kind of game it is is asked once, and not for each of a million outcomes."""

    def __init__(self, game: Game) -> None:
        self.grounded = game if isinstance(game, Grounded) else None
        self.measured = game if isinstance(game, Measured) else None

    def is_empty(self, mask: int) -> bool:
        """Whether the utility of a coalition follows from a rule and not from a training."""
        return self.grounded is not None and self.grounded.is_empty(mask)

    def lacks_metric(self, mask: int, outcome: Outcome) -> bool:
        """Whether the outcome of a coalition has no number for the metric of the game, or for its rule about ∅."""
        if self.grounded is not None and self.grounded.is_empty(mask):
            return self.grounded.empty_as not in outcome.metrics
        return self.measured is not None and self.measured.stored_as not in outcome.metrics

    def rows_of_utility(self, mask: int, outcome: Outcome) -> PerRow | None:
        """What test rows said of the utility of a coalition, up to its sign; None where that is not known.

        A function of one's own that returns a plain number for ∅ means one that does not depend on test rows.
        """
        if self.grounded is not None and self.grounded.is_empty(mask):
            return outcome.rows.get(self.grounded.empty_as)
        told = outcome.rows.get(UTILITY if self.measured is None else self.measured.stored_as)
        return PerRow.fixed(0.0) if told is None and mask == 0 else told


def lacking(game: Game, stored: Mapping[int, Outcome]) -> dict[int, Outcome]:
    """Those of the stored outcomes that have to be made again to have the metric; refused unless the game says so.

    The untrained model costs nothing, and is not counted.
    """
    reading = Reading(game)
    found = {mask: outcome for mask, outcome in stored.items() if reading.lacks_metric(mask, outcome)}
    dear = [mask for mask in found if mask and not reading.is_empty(mask)]
    if dear and isinstance(game, Measured) and not game.retrain:
        more = f" and {len(dear) - _NAMED:,} more" if len(dear) > _NAMED else ""
        raise InputError(
            f"{plural(len(dear), 'training')} in the store {'lacks' if len(dear) == 1 else 'lack'} the metric "
            f"{game.metric!r}: {_named(game.names, dear[:_NAMED])}{more}. They were made before the metric was given, or "
            "with another function of that name. Train them again for it with retrain=True (--retrain), which adds "
            f"the metric and changes nothing else, or choose one that they have: {', '.join(_built_in(stored[dear[0]]))}."
        )
    return found


def completed(game: Game, mask: int, before: Outcome, again: Outcome) -> Outcome:
    """A training that was made again: the numbers that were stored, and those that were lacking.

    It must come to the same as before, or the metric would be that of another model. What a coalition without data is
    worth is no metric of that model.
    """
    if not Reading(game).is_empty(mask) and not agree(before.metrics, again.metrics):
        differing = [
            f"{name} {again.metrics[name]:.6g}, stored {number:.6g}"
            for name, number in before.metrics.items()
            if name in again.metrics and not agree({name: number}, again.metrics)
        ]
        raise StoreError(
            f"The training of {_named(game.names, [mask])} came out differently than the stored one "
            f"({'; '.join(differing[:3]) or 'no metric in common'}), so its metric cannot be added. Train on the same "
            "device and with the same versions as then, or use another store."
        )
    return again._replace(metrics={**again.metrics, **before.metrics}, rows={**again.rows, **before.rows})


def _named(names: Sequence[str], masks: Sequence[int]) -> str:
    coalitions = [[names[i] for i in members(mask)] for mask in masks]
    return ", ".join(f"{{{', '.join(who[:6])}{', …' if len(who) > 6 else ''}}}" for who in coalitions)


def _built_in(outcome: Outcome) -> list[str]:
    return [name for name in outcome.metrics if "/" not in name and plain_metric(name) == name]
