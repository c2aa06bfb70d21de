"""What the sampling estimators themselves cost when utilities are free.

    python bench/overhead.py                 # n = 100, γ = 664 and n = 1000, γ = 6908

`plan` is the estimator alone: its generator is driven by hand with a vectorised utility (the square
root of the weight of a coalition's clients), and the time spent in that utility is not counted. `value`
is the whole of fv.value on a FunctionGame of coalition sizes: budget, cache and conversion of masks to
client tuples included. Each method runs in a process of its own, and is given up after --limit seconds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

import numpy as np

import fedvalue as fv
from _table import table
from fedvalue.coalitions import membership

SIZES = [(100, 664), (1000, 6908)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=_size, action="append", metavar="n,γ", help="may be repeated")
    parser.add_argument("--methods", help="comma-separated; all sampling methods by default")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds per method and size")
    arguments = parser.parse_args()
    sampling = [m.name for m in fv.methods() if m.guarantee != "exact" and not m.view]
    names = arguments.methods.split(",") if arguments.methods else sampling
    for n, budget in arguments.size or SIZES:
        print(f"n = {n}, γ = {budget}: seconds\n", flush=True)
        rows = ([name, *_in_own_process(name, n, budget, arguments.limit)] for name in names)
        print(table(["method", "evaluations", "asks", "plan", "value"], rows), "\n", flush=True)


def _size(text: str) -> tuple[int, int]:
    n, budget = text.split(",")
    return int(n), int(budget)


def _in_own_process(name: str, n: int, budget: int, limit: float) -> list[str]:
    """The cells of a row; those that were not reached within the limit say so."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_measure, args=(name, n, budget, sender))
    process.start()
    sender.close()
    deadline = time.monotonic() + limit
    cells: list[str] = []
    while len(cells) < 4 and receiver.poll(max(0.0, deadline - time.monotonic())):
        try:
            cells += receiver.recv()
        except EOFError:  # the process ended without a result, and has said why
            break
    process.terminate()
    process.join()
    reason = f"> {limit:.0f}" if time.monotonic() >= deadline else "failed"
    return cells + [reason] * (4 - len(cells))


def _measure(name: str, n: int, budget: int, sender: Connection) -> None:
    sender.send(list(_plan_cells(name, n, budget)))
    game = fv.FunctionGame(n, lambda coalitions: [len(coalition) / n for coalition in coalitions])
    began = time.perf_counter()
    fv.value(game, name, budget)
    sender.send([f"{time.perf_counter() - began:.2f}"])


def _plan_cells(name: str, n: int, budget: int) -> Iterator[str]:
    """Distinct coalitions asked, number of asks, seconds of the plan alone."""
    (method,) = (method for method in fv.methods() if method.name == name)
    weights = np.random.default_rng(0).dirichlet(np.ones(n))
    evaluated: set[int] = set()
    asks, seconds = 0, 0.0
    plan = method.plan(n, budget, np.random.default_rng(0))
    answer = None
    while True:
        began = time.perf_counter()
        try:
            asked = next(plan) if answer is None else plan.send(answer)
        except StopIteration:
            break
        finally:
            seconds += time.perf_counter() - began
        evaluated.update(asked)
        asks += 1
        answer = np.sqrt(membership(asked, n) @ weights)
    yield from (str(len(evaluated)), str(asks), f"{seconds:.2f}")


if __name__ == "__main__":
    main()
