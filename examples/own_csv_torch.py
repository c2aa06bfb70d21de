"""Your own CSV files and your own PyTorch model: five wineries train a network together.

Each winery has a file, and after every round its model is averaged with those of the others (FedAvg). All 32 coalitions
are trained. This script writes the files first; with a folder of your own, leave `write_files` out.
"""

import csv
import random
import tempfile
from pathlib import Path

import torch
from rich.console import Console
from sklearn.datasets import load_wine
from torch import nn

import fedvalue as fv

BOTTLES = {"alba": 40, "bozen": 30, "chiusi": 15, "dozza": 10, "empty": 0}


class Network(nn.Module):
    """Any module will do. One that takes the scenario can ask it for the shape of the data."""

    def __init__(self, scenario: fv.Scenario) -> None:
        super().__init__()
        features = scenario.test.x.shape[1]
        self.layers = nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, scenario.classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def write_files(folder: Path) -> None:
    """A file per client, and one to test on; the last column is the grape."""
    wine = load_wine()
    rows = [[*x.tolist(), wine.target_names[y]] for x, y in zip(wine.data, wine.target, strict=True)]
    random.Random(0).shuffle(rows)
    for name, count in {**BOTTLES, "test": 83}.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([[*wine.feature_names, "grape"], *rows[:count]])
        rows = rows[count:]


def main() -> fv.Values:
    torch.set_num_threads(1)  # the networks are so small that more threads would only slow them down
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        scenario = fv.load_scenario("files", data_dir=folder, label="grape")
    for client in scenario.summary():
        print(f"{client['name']:8}{client['samples']:4} bottles, by grape {client['labels']}")
    game = fv.FederatedGame(scenario, Network, fv.Training(rounds=3, epochs=3, batch=16, rate=0.01))
    values = fv.value(game, method="exact")
    Console().print(values.table())
    return values


if __name__ == "__main__":
    main()
