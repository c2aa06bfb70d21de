"""What Ray gains with two workers, what it costs with one, and whether the driver stays small.

    python bench/ray.py                  # all of it, several minutes on a quiet machine with two cores
    python bench/ray.py --epochs 1       # shorter trainings, for a look

Every figure is taken in a fresh process; the ratios compare runs of the same command, so that they hold on a machine
that is busy all the time, and mean little on one that is busy now and then. The game has the size of the paper's
(clients with 2,710 images of 28 × 28, MLP, 4 rounds), on random images: what is in them does not change the time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import fedvalue as fv
from _table import table
from fedvalue.scenarios import Dataset, Scenario

CLIENTS, SAMPLES, TEST = 6, 2710, 2000
TOY_CLIENTS, TOY_BUDGET = 14, 10_000
BARS = {"two workers / one": "≥ 1.7", "one worker / local": "≤ 1.15", "driver grows by MB": "≤ 20"}


def images() -> Scenario:
    """Six clients, so that there are 64 coalitions."""
    rng = np.random.default_rng(0)

    def drawn(count: int) -> Dataset:
        return Dataset(rng.random((count, 1, 28, 28), np.float32), rng.integers(0, 10, count))

    names = tuple(f"client-{i}" for i in range(CLIENTS))
    parties = tuple(drawn(SAMPLES) for _ in names)
    return Scenario("images", parties, names, drawn(TEST), "classification", 10)


def time_training(workers: int, epochs: int) -> dict[str, float]:
    """All 64 coalitions, by so many workers of Ray with a thread each, or by none: in this process."""
    import torch

    torch.set_num_threads(1)
    options = {"trainer": "ray", "workers": workers} if workers else {"device": "cpu"}
    game = fv.FederatedGame(images(), "mlp", fv.Training(epochs=epochs), **options)
    said: list[tuple[str, float]] = []
    game.follow(lambda text: said.append((text, time.perf_counter())))
    began = time.perf_counter()
    losses = {mask: outcome.metrics["loss"] for mask, outcome in game.evaluate(range(1 << CLIENTS))}
    ended = time.perf_counter()
    # The first word after "starting Ray" is that workers are busy.
    started = said[1][1] if workers else began
    return {"start": started - began, "train": ended - started, "checksum": sum(losses.values())}


def watch_driver() -> dict[str, float]:
    """10,000 coalitions of a toy game into a store: the memory of this process on the way, and what is stored."""
    scenario = fv.load_scenario("synthetic", clients=TOY_CLIENTS)
    game = fv.FederatedGame(scenario, "least-squares", fv.Training(rounds=1), trainer="ray", workers=2)
    sizes: list[int] = []

    def look(done: int, total: int) -> None:
        if done % 500 < 2:
            sizes.append(resident())

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        began = time.perf_counter()
        values = fv.value(game, "stratified-mc", TOY_BUDGET, store=path, progress=look)
        seconds = time.perf_counter() - began
        with fv.UtilityStore(path) as store:
            rows, faults = len(store.read(game.id)), len(store.verify())
    first = next(size for size in sizes[1:] if size)  # when the first coalitions were there
    return {
        "seconds": seconds,
        "asked": values.evaluations,
        "stored": rows,
        "faults": faults,
        "first": first / 1e6,
        "growth": (max(sizes) - first) / 1e6,
    }


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def apart(*arguments: object) -> dict[str, float]:
    """The figures of a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(epochs: int, repeats: int) -> None:
    """Runs take turns, and the fastest of each kind counts: what disturbs is never to one's advantage."""
    ways = {"local": 0, "Ray, 1 worker": 1, "Ray, 2 workers": 2}
    runs = [
        {way: apart("--workers", k, "--epochs", epochs) for way, k in ways.items()} for _ in range(repeats)
    ]
    best = {way: min((run[way] for run in runs), key=lambda found: found["train"]) for way in ways}
    rows = [
        (
            way,
            f"{f['start']:.1f}",
            f"{f['train']:.1f}",
            f"{f['start'] + f['train']:.1f}",
            f"{f['checksum']:.4f}",
        )
        for way, f in best.items()
    ]
    print(
        f"64 coalitions of an MLP, {CLIENTS} clients with {SAMPLES:,} samples, 4 rounds × {epochs} epochs\n"
    )
    print(table(("one thread each", "start s", "train s", "in all s", "sum of losses"), rows))
    local, one, two = best.values()
    print(f"\ntwo workers / one:  {one['train'] / two['train']:.2f} × as fast ({BARS['two workers / one']})")
    whole = (one["start"] + one["train"]) / local["train"]
    print(
        f"one worker / local: {whole:.2f} of the time, starting Ray included ({BARS['one worker / local']})"
    )
    print(f"                    {one['train'] / local['train']:.2f} without")


def report_driver() -> None:
    found = apart("--toy")
    print(
        f"\n{found['asked']:,} coalitions of a toy game in {found['seconds']:.1f} s: {found['stored']:,} stored, "
        f"{found['faults']} faults; driver {found['first']:.0f} MB after the first coalitions, then "
        f"{found['growth']:+.1f} MB ({BARS['driver grows by MB']})"
    )


def main() -> None:
    # This file is called ray.py: with its folder on the path, `import ray` would find it instead of Ray.
    sys.path.remove(str(Path(__file__).resolve().parent))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--epochs", type=int, default=8, help="of a client in a round; 8 take a minute")
    parser.add_argument("--repeats", type=int, default=1, help="the fastest counts")
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--toy", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.workers is not None:
        print(json.dumps(time_training(arguments.workers, arguments.epochs)))
    elif arguments.toy:
        print(json.dumps(watch_driver()))
    else:
        compare(arguments.epochs, arguments.repeats)
        report_driver()


if __name__ == "__main__":
    main()
