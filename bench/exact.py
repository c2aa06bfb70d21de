"""Time and memory of the exact methods on a table of all 2**n utilities.

    python bench/exact.py --clients 20,24

Each figure comes from a fresh process, so its peak memory is that of one run, the interpreter, numpy and
the table included. The first row, a game of one client, is what remains when there is nothing to do.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

import fedvalue as fv
from _table import table

METHODS = [method.name for method in fv.methods() if method.guarantee == "exact"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", default="20,24", metavar="n,n,…")
    parser.add_argument("--child", nargs=2, metavar=("METHOD", "n"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        method, n = arguments.child
        print(json.dumps(measure(method, int(n))))
        return
    runs = [(METHODS[0], "1")] + [(m, n) for n in arguments.clients.split(",") for m in METHODS]
    header = ["method", "n", "make the game s", "value it s", "peak memory MB"]
    print(table(header, (_row(method, n) for method, n in runs)))


def measure(method: str, n: int) -> tuple[float, float, float]:
    """Seconds to make the game, seconds to value it, peak memory of this process in MB."""
    utilities = np.random.default_rng(0).random(1 << n)
    began = time.perf_counter()
    game = fv.TableGame(utilities)
    made = time.perf_counter()
    fv.value(game, method)
    done = time.perf_counter()
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return made - began, done - made, kilobytes * 1024 / 1e6


def _row(method: str, n: str) -> list[str]:
    child = [sys.executable, __file__, "--child", method, n]
    measured = subprocess.run(child, check=True, capture_output=True, text=True).stdout
    making, valuing, megabytes = json.loads(measured)
    return [method, n, f"{making:.2f}", f"{valuing:.2f}", f"{megabytes:.0f}"]


if __name__ == "__main__":
    main()
