"""What the surrogate itself costs when utilities are free, with one seed and with several.

    python bench/surrogate.py [--size n,γ]

`plan` is what a dry run needs: the choice of all trainings. `values` is everything after the last training: the fit,
the values, their errors and the forecast. Both are seconds of CPU time, summed over threads; what they take on the clock
is less where there are several cores, and more where they are shared. Every line is a process of its own, started
afresh, so that its peak of memory is its own; that contains the interpreter, NumPy and SciPy.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time

import numpy as np

from _table import table
from fedvalue.coalitions import membership
from fedvalue.estimators import ESTIMATORS

SIZES = [(10, 128), (100, 461), (1000, 3002)]
BARS = {(10, 128): "1.5 s", (100, 461): "10 s", (1000, 3002): "60 s, 2 GB; plan 5 s"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=_size, action="append", metavar="n,γ", help="may be repeated")
    parser.add_argument("--methods", default="surrogate,surrogate-adaptive")
    arguments = parser.parse_args()
    sizes = arguments.size or SIZES
    lines = [
        [f"{n:,}", f"{budget:,}", name, *_in_own_process(name, n, budget, several), BARS.get((n, budget), "")]
        for n, budget in sizes
        for name in arguments.methods.split(",")
        for several in (False, True)
    ]
    header = ["clients", "trainings", "method", "seeds", "asks", "plan s", "values s", "peak MB", "bar"]
    print(table(header, lines))


def _size(text: str) -> tuple[int, int]:
    n, budget = text.split(",")
    return int(n), int(budget)


def _in_own_process(name: str, n: int, budget: int, several: bool) -> list[str]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (name, n, budget, several))


def measure(name: str, n: int, budget: int, several: bool) -> list[str]:
    """Number of seeds and of asks, CPU seconds of the first ask and of all later ones, peak of memory in MB."""
    plan_of = ESTIMATORS[name].plan
    assert plan_of is not None
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(n))
    began = time.process_time()
    plan = plan_of(n, budget, np.random.default_rng(0), most_seeds=None if several else 1)
    ask = next(plan)
    first, later, asks, seeds = time.process_time() - began, 0.0, 1, set[int]()
    while True:
        trials = [trial if isinstance(trial, tuple) else (trial, 0) for trial in ask]
        seeds |= {seed for _, seed in trials}
        utilities = np.sqrt(membership([mask for mask, _ in trials], n) @ weights)
        utilities += 0.01 * rng.standard_normal(len(trials))
        began = time.process_time()
        try:
            ask = plan.send(utilities)
        except StopIteration:
            later += time.process_time() - began
            break
        later += time.process_time() - began
        asks += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [str(len(seeds)), str(asks), f"{first:.2f}", f"{later:.2f}", f"{peak:,.0f}"]


if __name__ == "__main__":
    main()
