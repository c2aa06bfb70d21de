"""How often the intervals of who benefits hold what all coalitions give.

    python bench/benefits.py [--clients 8] [--samples 200] [--budgets 24,48,96] [--seeds 2]

Small federations of digits, each client tested on rows of its own. `surrogate` with one seed against `exact` with the same
seed: the matrix of what the data of each does for each, the sums of what clients give, and their balances. The error from
the sample of test rows is left out of the intervals, because both are measured on the same rows. `rms` is the root mean
square of error / standard error; 1 if they are as they should be.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedvalue as fv
from _table import table

Array = NDArray[np.float64]
PARTITIONS = ("distribution", "size", "label-noise")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--samples", type=int, default=160)
    parser.add_argument("--budgets", default="24,48,96")
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    # What test rows add to an interval has nothing to do with coalitions that were not trained.
    sys.modules["fedvalue.run._benefits"].of_test_rows = lambda *given: None
    lines = []
    for budget in map(int, arguments.budgets.split(",")):
        found = [
            _apart(partition, seed, budget, arguments.clients, arguments.samples)
            for partition in PARTITIONS
            for seed in range(arguments.seeds)
        ]
        line = [str(budget)]
        for of_kind in zip(*found, strict=True):
            z = np.concatenate([z.ravel() for z in of_kind])
            line += [f"{(np.abs(z) < 1.96).mean():.3f}", f"{np.sqrt(np.mean(z**2)):.2f}"]
        lines.append(line)
    print(table(["γ", "matrix", "rms", "given", "rms", "balance", "rms"], lines))


def _apart(partition: str, seed: int, budget: int, clients: int, samples: int) -> tuple[Array, Array, Array]:
    """Errors in standard errors."""
    rules: dict[str, Any] = {
        "clients": clients, "samples": samples, "test": "by-client", "partition": partition, "model": "linear",
        "rounds": 1, "epochs": 1, "seed": seed,
    }  # fmt: skip
    truth = fv.run("digits", **rules, method="exact", options={"noise": False}).values.benefits
    found = fv.run("digits", **rules, budget=budget, seeds=1).values.benefits
    assert found is not None
    assert truth is not None
    return (
        (found.matrix - truth.matrix) / found.stderr,
        (found.given - truth.given) / found.given_stderr,
        (found.balance - truth.balance) / found.balance_stderr,
    )


if __name__ == "__main__":
    main()
