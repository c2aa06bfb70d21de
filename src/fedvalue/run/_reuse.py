"""A job after clients have joined, left or changed their data: what is known of the others is not trained again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedvalue.coalitions import mask_of
from fedvalue.estimators import coalitions_of_others
from fedvalue.run._adopt import adoptable
from fedvalue.run._job import Job
from fedvalue.run._requests import admit
from fedvalue.store import UtilityStore

__all__ = ["sparing"]

_METHOD = "surrogate"


def sparing(job: Job, new: Sequence[str]) -> Job:
    """The job with a plan that trains coalitions with the new clients only, where the store knows enough of the others.

    That is for the surrogate with one seed. Any other method asks for what it asks for, and what the store knows of that
    is not trained again either.
    """
    game, asked, path = job.prepared.game, job.request(), job.store_path
    clients = [game.names.index(name) for name in new]
    admit(game, [asked], job.budget, job.seed)
    suits = (
        asked.method.name == _METHOD
        and asked.most_seeds == 1
        and not asked.exact
        and "new" not in job.options
    )
    if not suits or path is None or not 0 < len(clients) < game.n:
        return job
    known: set[int] = set()
    if path.exists():
        with UtilityStore(path, create=False) as store:
            known = {
                own for _, trials in adoptable(store, game) for (_, seed), own in trials.items() if seed == 0
            }
            known |= {mask for mask, seed in store.trials(game.id) if seed == 0}
    of_others = [mask for mask in known if mask and not mask & mask_of(clients)]
    needed = coalitions_of_others(game.n, asked.budget, job.seed, clients)
    return replace(job, options={**job.options, "new": clients}) if len(of_others) >= needed else job
