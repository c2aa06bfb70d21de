"""Which coalitions are trained with which seeds.

A seed stands for one initial model and one order of minibatches. Luck is alike within a seed: all its trainings are
a little better or worse than usual, and so is a client in all its coalitions. Hence many seeds, so that luck averages
out, and in each of them trainings that can be compared with each other: both parts of a split, whose difference does
not depend on the level of the seed; all single clients with the same seed; the grand coalition with every other seed.
Single clients are luckiest or unluckiest by themselves, and count as much as all other sizes: with a larger budget they
are trained again, and with a smaller one some of them, as nothing else tells their luck from their merit. Beside halves
come pairs and triples, as many of each: without triples it does not show where an outlier among the clients is outvoted,
and luck makes N without a client the least telling of all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from math import comb

import numpy as np

from fedvalue.coalitions import Trial, complement, full_mask
from fedvalue.estimators.surrogate._design import fixed_plan, others

__all__ = ["PER_SEED", "candidate_trials", "default_seeds", "seeded_plan", "untrained_trials"]

PER_SEED = 8  # trainings; with fewer the levels of seeds are not known well
_MOST_SEEDS = 16  # beyond, luck is no longer what limits the values
_PER_COPY = 3  # times n trainings for every training of the single clients
_MOST_COPIES, _MOST_OF_SEEDS = (
    3,
    3 / 8,
)  # or this part of the seeds: luck that falls steeply with size is mostly theirs
_REPEATED = 4  # single clients that are trained again where there is no room for all: with three, luck is hardly known
_ENOUGH_SEEDS = 4  # for that; of three, such trainings take more from the splits than they tell (adult-small)
_MOST_OFFERED = 512  # trainings of single clients among which the best are looked for


def default_seeds(n: int, budget: int, most: int | None) -> int:
    """How many seeds a budget is spread over; `most` is how many the game has (None: as many as one likes).

    Few clients have fewer coalitions than a seed should have trainings: all of them, with more seeds.

    >>> [default_seeds(10, budget, None) for budget in (8, 32, 64, 128, 1024)]
    [1, 4, 8, 16, 16]
    >>> default_seeds(3, 64, None), default_seeds(5, 620, 20)
    (9, 20)
    """
    coalitions = full_mask(n)
    wanted = min(budget // min(PER_SEED, coalitions), max(_MOST_SEEDS, budget // coalitions))
    return max(1, min(wanted, budget if most is None else most))


def seeded_plan(n: int, budget: int, seeds: int, rng: np.random.Generator, least: int = 1) -> list[Trial]:
    """At most `budget` different trainings for n clients; ∅ is none and not among them. Nor are coalitions of fewer than
    `least` clients: those of that size then count for everyone alone.

    >>> plan = seeded_plan(4, 12, 2, np.random.default_rng(0))
    >>> len(set(plan)), [seed for mask, seed in plan if mask == 0b1111]
    (12, [0])
    """
    everyone = full_mask(n)
    most_copies = min(max(_MOST_COPIES, int(_MOST_OF_SEEDS * seeds)), seeds)
    copies = max(1, min(budget // (_PER_COPY * n), most_copies))
    repeated = min(_REPEATED, n) if copies == 1 and seeds >= _ENOUGH_SEEDS and budget >= _PER_COPY * n else 0
    levels = max(1, min(round(seeds / 2), budget // 3))  # seeds with the grand coalition
    again = levels - 1 + (copies - 1) * n + repeated  # trainings of coalitions that are in the plan already
    masks = [mask for mask in fixed_plan(n, max(budget - again, 1) + 1, rng, True, least) if mask]
    allowed = everyone if least == 1 else sum(comb(n, size) for size in range(least, n + 1))
    plan = _Dealt(seeds, min(budget, seeds * allowed))
    plan.add((everyone, seed) for seed in range(levels))
    alone = [mask for mask in masks[1 : n + 1] if mask.bit_count() == least and mask != everyone]
    for seed in range(seeds - copies, seeds):
        plan.add((mask, seed) for mask in alone)
    if repeated and alone:
        some = rng.choice(len(alone), min(repeated, len(alone)), replace=False)
        plan.add((alone[j], seeds - 2) for j in some)
    rest = [mask for mask in masks if mask != everyone and mask not in alone]
    for split in _splits(rest, n, rng):
        plan.deal(split)
    # More than every coalition once: further trainings of all of them.
    for _ in range(seeds if plan.left else 0):
        every = [mask for mask in range(1, everyone + 1) if mask.bit_count() >= least]
        for split in _splits(every, n, rng):
            plan.deal(split)
    return plan.trials


def candidate_trials(
    n: int,
    known: Collection[Trial],
    seeds: Sequence[int],
    among: int,
    rng: np.random.Generator,
    least: int = 1,
) -> list[Trial]:
    """Trainings that may be worth adding with some of these seeds: what a seed can compare is offered together.

    Single clients and N, with every seed if these are few, and of about `among` other coalitions, known or not, both
    parts of a split with a seed that is drawn for them.
    """
    whole = [full_mask(n), *((1 << i for i in range(n)) if least == 1 else ())]
    some = seeds if len(seeds) * len(whole) <= _MOST_OFFERED else [int(rng.choice(seeds))]
    offered = [(mask, seed) for seed in some for mask in whole]
    for split in _splits(others(n, whole, 2 * among, rng, least), n, rng):
        seed = int(rng.choice(seeds))
        both = {split[0], complement(split[0], n)}
        offered += [(mask, seed) for mask in both if mask.bit_count() >= least]
    return [trial for trial in dict.fromkeys(offered) if trial not in known]


def untrained_trials(
    n: int, known: Collection[Trial], seeds: Sequence[int], most: int, least: int = 1
) -> list[Trial]:
    """So many of the trainings that are left with these seeds, seed by seed: for few clients, who soon have no others.

    >>> untrained_trials(2, [(0b01, 0), (0b11, 1)], range(2), 3)
    [(2, 0), (3, 0), (1, 1)]
    """
    every = ((mask, seed) for seed in seeds for mask in range(1, 1 << n) if mask.bit_count() >= least)
    return list(islice((trial for trial in every if trial not in known), most))


def _splits(masks: Iterable[int], n: int, rng: np.random.Generator) -> list[list[int]]:
    """Coalitions in random order, next to their complements where these are there too."""
    together: dict[int, list[int]] = {}
    for mask in masks:
        together.setdefault(min(mask, complement(mask, n)), []).append(mask)
    splits = list(together.values())
    return [splits[j] for j in rng.permutation(len(splits))]


class _Dealt:
    """Different trainings, dealt out to seeds up to a budget."""

    def __init__(self, seeds: int, budget: int) -> None:
        self.budget = budget
        self.trials: list[Trial] = []
        self.taken: set[Trial] = set()
        self.load = np.zeros(seeds, dtype=np.intp)

    @property
    def left(self) -> int:
        return self.budget - len(self.trials)

    def add(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            if self.left and trial not in self.taken:
                self.trials.append(trial)
                self.taken.add(trial)
                self.load[trial[1]] += 1

    def deal(self, split: Sequence[int]) -> None:
        """Trains these together, with the seed that has the fewest trainings and none of these."""
        for seed in np.argsort(self.load, kind="stable"):
            if all((mask, int(seed)) not in self.taken for mask in split):
                self.add((mask, int(seed)) for mask in split)
                return
        for mask in split:  # no seed lacks all of them: each where it is missing
            free = [
                int(seed)
                for seed in np.argsort(self.load, kind="stable")
                if (mask, int(seed)) not in self.taken
            ]
            self.add((mask, seed) for seed in free[:1])
