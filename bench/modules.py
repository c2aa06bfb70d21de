"""How much faster coalitions of models of one's own are trained than one after the other by a plain loop.

    python bench/modules.py                          # a small net of each kind, on this machine's CPU
    python bench/modules.py --kinds batch-norm-cnn   # one of them
    python bench/modules.py --device cuda

Six clients with rows drawn at random, 64 coalitions, FedAvg of 2 rounds × 2 epochs with Adam and batches of 32. The plain
loop is what one would write first: for each coalition, round and client an nn.Module trained by torch.optim.Adam, and
everything in its state_dict averaged by data size. Both train from the same initial model on the same batches; the script
says how far apart they end. The plain loop is timed on `--sample` coalitions and scaled by the number of local trainings.
Both are timed in turns, and the fastest of each counts. On a machine that others use as well the seconds on the clock say
little; those of the cores, with the plain loop on one thread (`OMP_NUM_THREADS=1` spares it the waiting for each other), more.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings

import numpy as np
import torch
from torch import nn

from fedvalue.coalitions import members
from fedvalue.games import FederatedGame
from fedvalue.learners.torch import TorchLearner
from fedvalue.scenarios import Dataset, Scenario
from fedvalue.training import Training

RULES = Training(rounds=2, epochs=2, batch=32, rate=1e-3)
CLIENTS, CLASSES = 6, 10


class Reader(nn.Module):
    """Token ids to classes: word vectors, a layer over the words, their mean."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.words, self.layer, self.head = nn.Embedding(100, 32), layer, nn.Linear(32, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found = self.layer(self.words(tokens))
        return self.head((found[0] if isinstance(found, tuple) else found).mean(1))


def batch_norm_cnn() -> nn.Module:
    """Two convolutions with BatchNorm and pools, as in the first lessons."""

    def block(channels: int, filters: int) -> list[nn.Module]:
        conv = nn.Conv2d(channels, filters, 3, padding=1, bias=False)
        return [conv, nn.BatchNorm2d(filters), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(*block(1, 8), *block(8, 16), nn.Flatten(), nn.Linear(16 * 7 * 7, CLASSES))


def batch_norm_mlp() -> nn.Module:
    hidden = [nn.Linear(784, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(64, CLASSES))


KINDS = {
    "batch-norm-cnn": batch_norm_cnn,
    "batch-norm-mlp": batch_norm_mlp,
    "lstm": lambda: Reader(nn.LSTM(32, 32, batch_first=True)),
    "transformer": lambda: Reader(nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)),
}


def rows(kind: str, count: int, rng: np.random.Generator) -> Dataset:
    y = rng.integers(0, CLASSES, count)
    if kind in ("lstm", "transformer"):
        words = np.where(rng.random((count, 16)) < 0.4, y[:, None], rng.integers(10, 100, (count, 16)))
        return Dataset({"tokens": words}, y)
    patterns = np.random.default_rng(1).normal(size=(CLASSES, 1, 28, 28))
    return Dataset(patterns[y] + 2 * rng.normal(size=(count, 1, 28, 28)), y)


def scenario_of(kind: str, samples: int) -> Scenario:
    rng = np.random.default_rng(0)
    clients = tuple(rows(kind, samples, rng) for _ in range(CLIENTS))
    names = tuple(f"client {i}" for i in range(CLIENTS))
    return Scenario(kind, clients, names, rows(kind, 512, rng), "classification", CLASSES)


def plain_loop(session, mask: int, device: str) -> float:
    """FedAvg of one coalition, the usual way; the accuracy of its model."""
    clients, scenario = members(mask), session.scenario
    model = copy.deepcopy(session.module).train()
    sizes = [len(scenario.clients[i]) for i in clients]
    for t in range(1, RULES.rounds + 1):
        states = []
        for i in clients:
            local = copy.deepcopy(model)
            optimizer = torch.optim.Adam(local.parameters(), lr=RULES.rate)
            batches = session.minibatches(i, t)
            for index, weight in zip(batches.index, batches.weight, strict=True):
                index = index[weight > 0]
                optimizer.zero_grad()
                nn.functional.cross_entropy(said(local, session.x, index), session.y[index]).backward()
                optimizer.step()
            states.append(local.state_dict())
        average = {
            name: sum(state[name] * (size / sum(sizes)) for state, size in zip(states, sizes, strict=True))
            for name in states[0]
        }
        model.load_state_dict(average)
    with torch.no_grad():
        everyone = torch.arange(len(session.test_y), device=device)
        return float(
            (said(model.eval(), session.test_x, everyone).argmax(1) == session.test_y).float().mean()
        )


def said(module: nn.Module, x, index: torch.Tensor) -> torch.Tensor:
    return (
        module(**{name: part[index] for name, part in x.items()}) if isinstance(x, dict) else module(x[index])
    )


def measure(kind: str, device: str, samples: int, sample: int, repeats: int) -> None:
    scenario, learner = scenario_of(kind, samples), TorchLearner(lambda scenario: KINDS[kind]())
    masks = list(range(1, 1 << CLIENTS))
    session = learner.session(scenario, RULES, device, None)
    dict(FederatedGame(scenario, learner, Training(rounds=1, epochs=1), device=device).evaluate([1]))
    timed = np.random.default_rng(0).choice(masks, sample, replace=False).tolist()
    scale = sum(m.bit_count() for m in masks) / sum(m.bit_count() for m in timed)
    ours, loops, cores = [], [], []
    for _ in range(repeats):
        game = FederatedGame(scenario, learner, RULES, device=device)
        synchronise(device)
        began, of_cores = time.perf_counter(), time.process_time()
        outcomes = dict(game.evaluate(masks))
        synchronise(device)
        ours.append(time.perf_counter() - began)
        our_cores = time.process_time() - of_cores
        began, of_cores = time.perf_counter(), time.process_time()
        plain = {mask: plain_loop(session, mask, device) for mask in timed}
        synchronise(device)
        loops.append((time.perf_counter() - began) * scale)
        cores.append((our_cores, (time.process_time() - of_cores) * scale))
    apart = max(abs(outcomes[mask].metrics["accuracy"] - plain[mask]) for mask in timed)
    our_cores, of_loop = (min(seconds) for seconds in zip(*cores, strict=True))
    how = "one program" if session.together else "one by one"
    print(
        f"{kind:15s} {len(masks)} coalitions  {how}  {min(ours):7.2f} s  plain loop ~{min(loops):7.2f} s  "
        f"ratio {min(loops) / min(ours):5.2f}, of the cores' seconds {of_loop / our_cores:5.2f}  largest difference in accuracy {apart:.4f}",
        flush=True,
    )


def synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--samples", type=int, default=256, help="per client")
    parser.add_argument("--sample", type=int, default=6, help="coalitions that the plain loop is timed on")
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind in arguments.kinds.split(","):
        measure(kind, arguments.device, arguments.samples, arguments.sample, arguments.repeats)


if __name__ == "__main__":
    main()
