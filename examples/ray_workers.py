"""The same trainings on Ray: two workers on this machine, and values that are those of a single process.

With `address="auto"` they are those of the cluster that this machine belongs to. Nothing else changes: not the identity of the
game, so a store that was begun here continues there, and not the values.
"""

import numpy as np
import torch
from rich.console import Console

import fedvalue as fv


def main() -> fv.Values:
    torch.set_num_threads(1)
    scenario = fv.load_scenario("digits", clients=5, samples=60, partition="size")
    rules = fv.Training(rounds=2, epochs=2, batch=32, rate=0.01)
    here = fv.value(fv.FederatedGame(scenario, "mlp", rules), method="exact")
    there = fv.value(fv.FederatedGame(scenario, "mlp", rules, trainer="ray", workers=2), method="exact")
    Console().print(there.table())
    print(f"The largest difference from one process: {np.abs(here.mean - there.mean).max():.1e}")
    return there


if __name__ == "__main__":
    main()
