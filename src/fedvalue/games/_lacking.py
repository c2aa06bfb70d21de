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

__all__ = ["completed", "lacking", "lacks_metric", "rows_of_utility"]

_NAMED = 4


def lacks_metric(game: Game, mask: int, outcome: Outcome) -> bool:
    """Whether the stored outcome of a coalition has no number for the metric of the game, or for its rule about ∅."""
    if isinstance(game, Grounded) and game.is_empty(mask):
        return game.empty_as not in outcome.metrics
    return isinstance(game, Measured) and game.stored_as not in outcome.metrics


def rows_of_utility(game: Game, mask: int, outcome: Outcome) -> PerRow | None:
    """What test rows said of the utility of a coalition, up to its sign; None where that is not known.

    A function of one's own that returns a plain number for ∅ means one that does not depend on test rows.
    """
    if _is_empty(game, mask):
        assert isinstance(game, Grounded)
        return outcome.rows.get(game.empty_as)
    told = outcome.rows.get(game.stored_as if isinstance(game, Measured) else UTILITY)
    return PerRow.fixed(0.0) if told is None and mask == 0 else told


def lacking(game: Game, stored: Mapping[int, Outcome]) -> dict[int, Outcome]:
    """Those of the stored outcomes that have to be made again to have the metric; refused unless the game says so.

    The untrained model costs nothing, and is not counted.
    """
    found = {mask: outcome for mask, outcome in stored.items() if lacks_metric(game, mask, outcome)}
    dear = [mask for mask in found if mask and not _is_empty(game, mask)]
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
    if not _is_empty(game, mask) and not agree(before.metrics, again.metrics):
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


def _is_empty(game: Game, mask: int) -> bool:
    return isinstance(game, Grounded) and game.is_empty(mask)


def _named(names: Sequence[str], masks: Sequence[int]) -> str:
    coalitions = [[names[i] for i in members(mask)] for mask in masks]
    return ", ".join(f"{{{', '.join(who[:6])}{', …' if len(who) > 6 else ''}}}" for who in coalitions)


def _built_in(outcome: Outcome) -> list[str]:
    return [name for name in outcome.metrics if "/" not in name and plain_metric(name) == name]
