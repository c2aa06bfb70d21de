"""How often coalitions are evaluated when eight processes value the same game with one store.

    python bench/sound_writers.py

Every process asks for exact values. Each evaluation is logged; in the second setting two of the processes are killed
on the way. Nothing may be lost, and little done twice.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fedvalue as fv
from _table import table

WRITERS = 8

FUNCTION = """
import os, sys, time
import fedvalue as fv

folder, jobs = sys.argv[1], int(sys.argv[2])

def utility(coalition):
    with open(os.path.join(folder, "log"), "a") as log:
        log.write(f"{coalition}\\n")
    time.sleep(0.02)
    return len(coalition) ** 0.5

game = fv.FunctionGame(8, utility, batch=False, key="root", jobs=jobs)
print(fv.value(game, "exact", store=os.path.join(folder, "store.db")).mean.tolist())
"""
FEDERATION = """
import os, sys
import torch
import fedvalue as fv

torch.set_num_threads(1)
folder = sys.argv[1]
scenario = fv.load_scenario("digits", clients=6, samples=60)
game = fv.FederatedGame(scenario, "mlp", fv.Training(rounds=4, epochs=4, batch=32, rate=0.01), device="cpu")
values = fv.value(game, "exact", noise=False, store=os.path.join(folder, "store.db"))
with open(os.path.join(folder, "log"), "a") as log:
    log.write("trained\\n" * values.cost.trained)
print(values.mean.tolist())
"""


def figures() -> list[tuple[str, str]]:
    """What was measured, and what came out."""
    settings = (
        ("eight writers, a function", FUNCTION, "1", 0, 256),
        ("eight writers, two of them killed", FUNCTION, "1", 2, 256),
        ("eight writers, a function in two worker processes each", FUNCTION, "2", 0, 256),
        ("eight writers, a federation", FEDERATION, "", 0, 64),
    )
    return [
        (f"{what}: evaluations / coalitions", f"{_measured(code, jobs, kills, coalitions):.2f}")
        for what, code, jobs, kills, coalitions in settings
    ]


def _measured(code: str, jobs: str, kills: int, coalitions: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", code, folder, jobs]
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(WRITERS)]
        log = Path(folder) / "log"
        for writer in writers[:kills]:
            while not (log.exists() and len(log.read_text().splitlines()) > coalitions // 4):
                time.sleep(0.02)
            writer.send_signal(signal.SIGKILL)
        said = [writer.communicate(timeout=300)[0] for writer in writers]
        ended = [writer.returncode for writer in writers]
        if ended != [-signal.SIGKILL] * kills + [0] * (WRITERS - kills) or len(set(said[kills:])) != 1:
            raise SystemExit(f"The writers ended with {ended} and different values: {set(said)}")
        with fv.UtilityStore(Path(folder) / "store.db") as store:
            (game,) = store.games()
            if game.coalitions != coalitions or store.verify():
                raise SystemExit(f"{game.coalitions} of {coalitions} coalitions; {store.verify()}")
        return len(log.read_text().splitlines()) / coalitions


if __name__ == "__main__":
    print(table(["eight writers on one store", "figure"], figures()))
