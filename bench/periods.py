"""What has to be trained after one client has joined: against the coalitions with the joiner, and from scratch.

    python bench/periods.py [--clients 10] [--samples 60] [--budgets 32,64,128] [--seeds 5]

The first table is made of real periods: all but one client of `digits`, then all of them, valued exactly by an MLP, and once
more with the client in the middle gone. `joiner`: coalitions with the joiner, which is the bar for `trained`; trainings with
further seeds, which show the luck of training, stand apart.

The second is the surrogate with one seed on the utilities that were trained, every client being the joiner in turn: its
plan from scratch, and the plan that trains coalitions with the joiner only, given as many of the others from a plan for
these. Errors are root mean squares over clients, joiners and seeds, in per cent of v(N) − v(∅); `held` is how many 95 %
intervals hold the exact value.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedvalue as fv
from _table import table
from fedvalue.estimators import ESTIMATORS

Array = NDArray[np.float64]
_QUANTILE = 1.959963984540054


def part(scenario: fv.Scenario, places: Sequence[int]) -> fv.Scenario:
    clients, names = (tuple(all_of[i] for i in places) for all_of in (scenario.clients, scenario.names))
    return replace(scenario, clients=clients, names=names)


def real_periods(scenario: fv.Scenario, folder: Path) -> tuple[list[list[str]], Array]:
    """Rows of the first table, and the utility of every coalition of all clients."""
    n, middle = scenario.n, scenario.n // 2
    store = folder / "store.db"
    rows = []
    utilities = np.zeros(1 << n)
    for said, places, joiner in (
        (f"{n - 1} clients", [*range(n - 1)], None),
        ("one joins", [*range(n)], n - 1),
        ("one leaves", [i for i in range(n) if i != middle], None),
    ):
        job = fv.Job(part(scenario, places), method="exact", store=store, device="cpu")
        result = job.run()
        if len(places) == n:
            for (mask, seed), outcome in result.outcomes.items():
                if seed == 0:
                    utilities[mask] = job.prepared.game.utility(outcome)
        own = [mask for mask, seed in result.trained if seed == 0]
        further = len(result.trained) - len(own)
        bar = "–" if joiner is None else str(1 << joiner)
        rows.append([said, str(1 << len(places)), bar, str(len(own)), str(further)])
    return rows, utilities


def played(plan: Any, utilities: Array) -> tuple[fv.Estimate, list[int]]:
    """What an estimator gives on a table of utilities, and what it asked for."""
    asked: list[int] = []
    ask = next(plan)
    while True:
        asked += ask
        try:
            ask = plan.send(utilities[list(ask)])
        except StopIteration as done:
            return done.value, asked


def reused(utilities: Array, n: int, budget: int, seeds: int) -> list[str]:
    """A row of the second table."""
    surrogate = ESTIMATORS["surrogate"].plan
    truth = fv.value(utilities, "exact").mean
    assert surrogate is not None
    scale = 100 / abs(utilities[-1] - utilities[0])
    masks = np.arange(1 << n)
    errors: dict[str, list[Array]] = {"scratch": [], "reused": []}
    held: dict[str, list[bool]] = {"scratch": [], "reused": []}
    counts: dict[str, list[int]] = {"scratch": [], "joiner": [], "trained": []}
    for joiner in range(n):
        order = [*(i for i in range(n) if i != joiner), joiner]  # the joiner comes last
        moved = sum(((masks >> place) & 1) << client for place, client in enumerate(order))
        v, values = utilities[moved], truth[order]
        for seed in range(seeds):
            rng = [np.random.default_rng([seed, k]) for k in range(3)]
            _, before = played(surrogate(n - 1, budget, rng[0], seeds=1), v[: 1 << (n - 1)])
            known = {mask: (float(v[mask]), 0.0) for mask in before}
            plain, plan = played(surrogate(n, budget, rng[1], seeds=1), v)
            spared, asked = played(surrogate(n, budget, rng[2], seeds=1, known=known, new=[n - 1]), v)
            for way, estimate in (("scratch", plain), ("reused", spared)):
                errors[way].append(estimate.mean - values)
                held[way] += (abs(errors[way][-1]) <= _QUANTILE * np.asarray(estimate.stderr)).tolist()
            counts["scratch"].append(sum(mask > 0 for mask in plan))
            counts["joiner"].append(sum(mask >> (n - 1) & 1 for mask in asked))
            counts["trained"].append(sum(mask > 0 and mask not in known for mask in asked))
    means = [f"{np.mean(counts[name]):.1f}" for name in ("scratch", "joiner", "trained")]
    spread = [f"{scale * np.sqrt(np.mean(np.square(errors[way]))):.2f}" for way in errors]
    return [str(budget), *means, *spread, *(f"{np.mean(held[way]):.2f}" for way in held)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--budgets", default="32,64,128")
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    scenario = fv.load_scenario(
        "digits", clients=asked.clients, samples=asked.samples, partition="size+label-flip"
    )
    with tempfile.TemporaryDirectory() as folder:
        rows, utilities = real_periods(scenario, Path(folder))
    print(table(["period", "coalitions", "joiner", "trained", "further seeds"], rows))
    head = ["budget", "scratch", "joiner", "trained", "error: scratch", "reused", "held: scratch", "reused"]
    budgets = [int(budget) for budget in asked.budgets.split(",")]
    print()
    print(table(head, [reused(utilities, asked.clients, budget, asked.seeds) for budget in budgets]))


if __name__ == "__main__":
    main()
