"""Trains many different federated games completely, to measure methods on games that nobody chose them by.

    python bench/games.py OUT --data-dir DATA --device cuda [--worker 0/10]
    python bench/accuracy.py OUT --budgets 1n,1.4n,2.2n,3n,6.2n --seeds 3
    python bench/games.py OUT --data-dir DATA --device cuda --seeds 16 --most-clients 10
    python bench/truth.py OUT

144 settings are drawn with a fixed seed: four data sets, twelve ways to divide and spoil them, five models, 8 to 12
clients, 30 to 1,000 rows each, short and long trainings. Every coalition of each is trained, and accuracy and loss
are written as .npz. Settings that cannot be had (FEMNIST has too few rows for some) are named and left out, and so
are games in which next to nothing was learned: their values are noise around zero. With --worker k/w this process
takes every w-th setting, so that several can share a GPU; together they took a minute and a half on an H200.

With --seeds R every setting is trained R times, with other initial models and other minibatches: row r of the arrays is
`Training.replicate(r)`. --most-clients leaves out the settings with more, whose games take longest.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import fedvalue as fv
from fedvalue.scenarios import load_scenario
from fedvalue.training import Training

PARTITIONS = (
    "same", "distribution", "size", "dirichlet", "label-noise", "feature-noise", "label-flip", "free-riders", "demo",
    "size+label-flip", "dirichlet+free-riders", "size+label-noise",
)  # fmt: skip
DATA = ("mnist", "adult", "mnist", "sent140", "femnist", "adult", "mnist")
MODELS = {
    "mnist": ("mlp", "mlp", "cnn", "linear"),
    "femnist": ("mlp", "cnn"),
    "adult": ("mlp", "linear"),
    "sent140": ("text-mean", "text-mean", "lstm"),
}
NATURAL = {"adult": "occupation", "femnist": "writer", "sent140": "user"}
SLOW = ("cnn", "lstm")
LEARNED = 0.15  # least v(N) − v(∅) of a game that is kept


class Setting(NamedTuple):
    """One game."""

    number: int
    data: str
    partition: str
    clients: int
    samples: int
    model: str
    training: Training

    @property
    def name(self) -> str:
        kind = f"{self.data}-{self.partition}-{self.samples}-{self.model}"
        return f"{self.number:03d}-{kind}-n{self.clients}-r{self.training.rounds}e{self.training.epochs}"


def settings() -> list[Setting]:
    """All games, the same ones at every call."""
    rng = np.random.default_rng(11)
    return [_setting(number, rng) for number in range(1, 12 * len(PARTITIONS) + 1)]


def _setting(number: int, rng: np.random.Generator) -> Setting:
    data = DATA[number % len(DATA)]
    partition = PARTITIONS[(number - 1) % len(PARTITIONS)]
    if data == "sent140" and "feature" in partition:  # words have no numbers to be noisy
        data = "mnist"
    clients = int(rng.choice([8, 8, 9, 10, 10, 11, 12]))
    samples = int(rng.choice([30, 60, 100, 200, 500, 1000]))
    model = str(rng.choice(MODELS[data]))
    if data in NATURAL and rng.random() < 0.5:
        partition = NATURAL[data]
        if rng.random() < 0.4:
            partition += "+" + str(rng.choice(["label-flip", "free-riders"]))
    rounds, epochs = int(rng.choice([2, 4, 8])), int(rng.choice([1, 2, 4]))
    if model in SLOW:
        clients, rounds, epochs = min(clients, 10), min(rounds, 4), min(epochs, 2)
    if data == "sent140" or model in SLOW or clients > 10:
        samples = min(samples, 200)
    rate = float(rng.choice([1e-3, 1e-3, 3e-3, 1e-2]))
    batch, seed = 64 if samples > 60 else 16, int(rng.integers(1 << 30))
    training = Training(rounds=rounds, epochs=epochs, batch=batch, rate=rate, seed=seed)
    return Setting(number, data, partition, clients, samples, model, training)


def trained(setting: Setting, data_dir: Path, device: str, seeds: int | None) -> dict[str, np.ndarray]:
    """Every metric of all coalitions; a row for every seed where several are asked for."""
    scenario = load_scenario(
        setting.data,
        clients=setting.clients,
        partition=setting.partition,
        samples=setting.samples,
        test_size=2000,
        seed=setting.training.seed,
        data_dir=data_dir,
    )
    game = fv.FederatedGame(scenario, setting.model, setting.training, device=device)
    rows = [_of_one_seed(game, seed) for seed in range(seeds or 1)]
    return {m: np.array([row[m] for row in rows]) if seeds else rows[0][m] for m in rows[0]}


def _of_one_seed(game: fv.FederatedGame, seed: int) -> dict[str, np.ndarray]:
    everything = range(1 << game.n)
    outcomes = dict(game.evaluate(everything, seed))
    of_all_clients = outcomes[everything[-1]].metrics  # those of ∅ also say how its utility was fixed
    return {name: np.array([outcomes[m].metrics[name] for m in everything]) for name in of_all_clients}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the games")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--worker", default="0/1", metavar="K/W", help="only every W-th setting, from the K-th on"
    )
    parser.add_argument("--seeds", type=int, metavar="R", help="train every setting R times")
    parser.add_argument("--most-clients", type=int, default=12, metavar="N")
    arguments = parser.parse_args()
    first, step = map(int, arguments.worker.split("/"))
    arguments.out.mkdir(parents=True, exist_ok=True)
    wanted = [setting for setting in settings() if setting.clients <= arguments.most_clients]
    for setting in wanted[first::step]:
        began = time.perf_counter()
        try:
            metrics = trained(setting, arguments.data_dir, arguments.device, arguments.seeds)
        except fv.FedvalueError as error:
            print(f"{setting.name}: left out. {error}", file=sys.stderr)
            continue
        learned = float(np.mean(metrics["accuracy"][..., -1] - metrics["accuracy"][..., 0]))
        if learned < LEARNED:
            print(f"{setting.name}: left out, accuracy rises by {learned:.3f} only", file=sys.stderr)
            continue
        np.savez_compressed(arguments.out / f"{setting.name}.npz", n=setting.clients, **metrics)
        print(f"{setting.name}: {time.perf_counter() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
