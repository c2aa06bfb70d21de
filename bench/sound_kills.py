"""What is lost when a run of about four seconds is killed again and again.

    python bench/sound_kills.py

A federated run with default settings is killed (SIGKILL) at a random moment of its training and started again, with
the same store, until it is finished; then the next run begins, until there were thirty kills. A training that was
begun and not stored has to be repeated: at most those of one wave for each kill.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import fedvalue as fv
from _table import table
from fedvalue.trainers import LocalTrainer

KILLS = 30
SECONDS = 4.0
TRAINING = fv.Training(batch=32, rate=0.01)


class Noting(LocalTrainer):
    """Writes down which coalitions it begins with, wave by wave."""

    def __init__(self, log: Path) -> None:
        super().__init__("cpu")
        self.log = log

    def train(
        self, scenario, learner, training, masks, claim: Callable[[Sequence[int]], Sequence[int]] = list
    ):
        def noted(asked: Sequence[int]) -> Sequence[int]:
            mine = claim(asked)
            with self.log.open("a") as log:
                log.write(f"{len(mine)}\n" if mine else "")
            return mine

        return super().train(scenario, learner, training, masks, noted)


def figures() -> list[tuple[str, str]]:
    """What was measured, and what came out."""
    torch.set_num_threads(1)  # before the forks: threads do not survive them
    scenario, chance = fv.load_scenario("digits", clients=8), random.Random(0)
    budget = _budget(scenario)
    kills = finished = trainings = begun = 0
    lost: list[int] = []
    while kills < KILLS:
        with tempfile.TemporaryDirectory() as folder:
            store, log = Path(folder) / "store.db", Path(folder) / "log"
            done = False
            while not done:
                noted = _total(log)
                kept = _kept(store)
                done = _run(
                    scenario, budget, store, log, chance.uniform(0.2, SECONDS) if kills < KILLS else None
                )
                kills += not done
                if not done:
                    lost.append(_total(log) - noted - (_kept(store) - kept))
            finished += 1
            trainings += _kept(store)
            begun += _total(log)
    return [
        ("kills of runs of about four seconds", f"{kills}, {finished} runs finished all the same"),
        (
            "thirty kills: repeated trainings",
            f"{begun - trainings} of {trainings} ({max(lost)} at most for a kill)",
        ),
    ]


def _run(scenario: fv.Scenario, budget: int, store: Path, log: Path, killed_after: float | None) -> bool:
    """Values the game in a process of its own; False where that was killed."""
    child = os.fork()
    if not child:
        try:
            game = fv.FederatedGame(scenario, "mlp", TRAINING, trainer=Noting(log))
            fv.value(game, "surrogate", budget, store=store)
            os._exit(0)
        finally:
            os._exit(1)
    deadline = None if killed_after is None else time.monotonic() + killed_after
    while deadline is None or time.monotonic() < deadline:
        ended, status = os.waitpid(child, 0 if deadline is None else os.WNOHANG)
        if ended:
            if status:
                raise SystemExit("A run failed.")
            return True
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _budget(scenario: fv.Scenario) -> int:
    """As many coalitions as take about four seconds here."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        _run(scenario, 24, Path(folder) / "store.db", Path(folder) / "log", None)
        return max(24, min(256, round(24 * SECONDS / (time.perf_counter() - began))))


def _total(log: Path) -> int:
    return sum(map(int, log.read_text().split())) if log.exists() else 0


def _kept(store: Path) -> int:
    if not store.exists():
        return 0
    with fv.UtilityStore(store) as opened:
        if opened.verify():
            raise SystemExit(f"The store is damaged: {opened.verify()}")
        return sum(game.coalitions for game in opened.games())


if __name__ == "__main__":
    print(table(["kills", "figure"], figures()))
