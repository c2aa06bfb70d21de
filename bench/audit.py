"""How often an audit of values over several seeds names a client wrongly, and how often it finds a harmful one.

    python bench/audit.py DIR [--budgets 64,128] [--runs 8]

DIR as for `truth.py`: rows of `accuracy` are trainings of all 2^n coalitions with other seeds. A run draws its seeds from these
rows at random, values the clients and audits the values. The truth is the Shapley value of the mean over all rows; the
equal games have the same rows, with the clients of every coalition exchanged at random from run to run and each
client's mean value taken off, so that nobody is worth anything and every "harmful" is a false alarm.

    false alarms  audits that call a client harmful whose true value is not below 0, or one that contributes nothing or is
                  interchangeable where that is not so in the mean over all rows
    found         of the clients whose true value is below 0 by more than three of its own standard errors
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import fedvalue as fv
from _table import table
from truth import Array, Truth

_CERTAIN = 3.0  # standard errors of the mean over all rows: what is further below zero is harmful in truth
_SAME = 1e-9


def audited(rows: Array, budget: int, run: int, store: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """What an audit says: kinds of findings, and whom they name."""
    game = fv.TableGame(rows)
    values = fv.value(game, budget=budget, seed=run, store=store)
    for finding in fv.audit(values, store=store).findings:
        yield finding.kind, tuple(game.names.index(name) for name in finding.clients)


def without_worth(truth: Truth, rows: Array, run: int) -> Array:
    """The same luck of training in a game in which nobody is worth anything, in expectation."""
    n = len(truth.values)
    masks = np.arange(1 << n)
    bits = (masks[:, None] >> np.arange(n)) & 1
    order = np.random.default_rng([run, 1]).permutation(n)
    luck = rows - truth.rows.mean(0)
    return luck[:, (bits[:, order] << np.arange(n)).sum(1)]


def is_false(truth: Truth, kind: str, clients: tuple[int, ...]) -> bool:
    """Whether the mean over all rows contradicts a finding."""
    mean, masks = truth.rows.mean(0), np.arange(truth.rows.shape[1])
    if kind == "harmful":
        return any(truth.values[i] >= 0 for i in clients)
    if kind == "no contribution":
        return any(np.abs(mean[masks | (1 << i)] - mean[masks]).max() > _SAME for i in clients)
    if kind == "interchangeable":
        return bool(np.ptp(truth.values[list(clients)]) > _SAME)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budgets", default="64,128")
    parser.add_argument("--runs", type=int, default=8)
    given = parser.parse_args()
    games = [Truth.read(path) for path in sorted(given.folder.glob("*.npz"))]
    lines = []
    for budget in map(int, given.budgets.split(",")):
        false, false_equal, found, harmful, audits = 0, 0, 0, 0, 0
        for truth in games:
            below = set(np.flatnonzero(truth.values < -_CERTAIN * truth.own_error))
            for run in range(given.runs):
                rows = truth.rows[np.random.default_rng(run).permutation(len(truth.rows))]
                with tempfile.TemporaryDirectory() as folder:
                    named = list(audited(rows, budget, run, Path(folder) / "real.db"))
                    luck = without_worth(truth, rows, run)
                    equal = list(audited(luck, budget, run, Path(folder) / "equal.db"))
                audits += 1
                false += any(is_false(truth, kind, clients) for kind, clients in named)
                false_equal += any(kind == "harmful" for kind, _ in equal)
                harmful += len(below)
                found += len(below & {i for kind, who in named if kind == "harmful" for i in who})
        share = f"{found} of {harmful}" if harmful else "none there"
        lines.append([str(budget), str(audits), str(false), str(false_equal), share])
    print(table(["trainings", "audits", "false alarms", "nobody worth anything", "found"], lines))


if __name__ == "__main__":
    main()
