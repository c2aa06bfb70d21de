"""Outcomes of coalitions that a store knows from games with other members: taken over, not trained again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fedvalue.coalitions import Trial
from fedvalue.games import Game, Kindred, Members, Reading, is_named
from fedvalue.store import Store, Surveyed, register

__all__ = ["adopt", "adoptable", "enter_game"]

_AT_ONCE = 1000


def enter_game(store: Store, game: Game) -> None:
    """Makes the game known to the store, and gives it what games with other members have in common with it."""
    members = game.members() if isinstance(game, Kindred) else None
    of_members = None if members is None else members.to_plain()
    register(store, game.id, game.names, is_named(game), of_members)
    adopt(store, game)


def adopt(store: Store, game: Game) -> int:
    """Stores every such outcome under this game, too; how many there were. What is there stays.

    One that lacks the metric which counts, as it may be one of the user's own, is left where it is: it says nothing here.
    """
    taken, reading = 0, Reading(game)
    for other, trials in adoptable(store, game):
        assert isinstance(game, Kindred)
        for seed in sorted({seed for _, seed in trials}):
            theirs = {mask: own for (mask, of), own in trials.items() if of == seed}
            masks = list(theirs)
            for start in range(0, len(masks), _AT_ONCE):
                found = store.read(other, masks[start : start + _AT_ONCE], seed)
                ours = ((theirs[mask], game.adopted(theirs[mask], found[mask])) for mask in found)
                kept = [(mask, outcome) for mask, outcome in ours if not reading.lacks_metric(mask, outcome)]
                store.append(game.id, kept, seed)
                taken += len(kept)
    return taken


def adoptable(store: Store, game: Game) -> Iterator[tuple[str, Mapping[Trial, int]]]:
    """Games that know something of this one: which of their trials, and which coalitions of this one these are.

    What is stored between two of them counts as known for the second.
    """
    if not isinstance(game, Kindred) or not isinstance(store, Surveyed):
        return
    for other, description in store.descriptions().items():
        theirs = Members.from_plain(description.get("members"))
        translate = None if theirs is None or other == game.id else game.kin(other, theirs)
        if translate is None:
            continue
        known = store.trials(game.id)
        found: dict[Trial, int] = {}
        for mask, seed in sorted(store.trials(other)):
            own = translate(mask)
            if own is not None and (own, seed) not in known:
                found[mask, seed] = own
        if found:
            yield other, found
