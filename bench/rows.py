"""What it costs that outcomes keep what single test rows said: bytes in the store, and time to evaluate models.

    python bench/rows.py

Evaluates a stack of untrained models with and without rows (CPU time with one thread, the median of several turns), and stores the
outcomes of it, once without and once with rows. The last column is one local pass over the data of a client for each
model of the stack: what a training takes besides.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import fedvalue as fv
from _table import table
from fedvalue.learners import make_learner
from fedvalue.outcome import Outcome

MODELS = 64
TURNS = 5
GAME = "federation-0123456789abcdef01234567"


def main() -> None:
    torch.set_num_threads(1)
    header = [
        "scenario, model",
        "test rows",
        "bytes",
        "with rows",
        "ms a model",
        "with rows",
        "ratio",
        "ms a pass",
    ]
    print(table(header, _rows()))


def _rows() -> Iterator[list[str]]:
    digits = fv.load_scenario("digits", clients=8, partition="same")
    many = fv.load_scenario("digits", clients=8, partition="same", samples=40)
    repeated = fv.Scenario(
        "digits, test rows repeated",
        many.clients,
        many.names,
        fv.Dataset(_repeated(many.test.x, 10_000), _repeated(many.test.y, 10_000)),
        many.task,
        many.classes,
    )
    line = fv.load_scenario("synthetic", clients=8)
    for scenario, model in ((digits, "linear"), (digits, "mlp"), (repeated, "mlp"), (line, "least-squares")):
        session: Any = make_learner(model).session(scenario, fv.Training(epochs=1), "cpu", None)
        stack = session.take(session.initial(), [0] * MODELS)
        owners = [k % scenario.n for k in range(MODELS)]
        if model == "least-squares":
            stack = session.local(stack, owners, 1)
        times = [
            _milliseconds(work) / MODELS
            for work in (
                lambda session=session, stack=stack: session.evaluate(stack),
                lambda session=session, stack=stack: session.outcomes(stack),
                lambda session=session, stack=stack, owners=owners: session.local(stack, owners, 1),
            )
        ]
        outcomes = session.outcomes(stack)
        sizes = [
            _bytes([outcome._replace(rows=outcome.rows if told else {}) for outcome in outcomes])
            for told in (0, 1)
        ]
        name = f"{scenario.name}, {model}"
        measured = [f"{times[0]:.3f}", f"{times[1]:.3f}", f"{times[1] / times[0]:.2f}", f"{times[2]:.3f}"]
        yield [name, f"{len(scenario.test):,}", *(f"{size:,.0f}" for size in sizes), *measured]


def _repeated(array: Any, rows: int) -> Any:
    return array[[row % len(array) for row in range(rows)]]


def _milliseconds(work: Callable[[], object]) -> float:
    work()
    taken = []
    for _ in range(TURNS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return 1e3 * statistics.median(taken)


def _bytes(outcomes: list[Outcome]) -> float:
    """Of the file, for each of a thousand outcomes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        with fv.UtilityStore(path) as store:
            store.register(GAME, 10)
            store.append(GAME, [(mask, outcomes[mask % len(outcomes)]) for mask in range(1_000)])
        return path.stat().st_size / 1_000


if __name__ == "__main__":
    main()
