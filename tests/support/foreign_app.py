"""The example app that knows nothing of fedvalue: its modules, and what training it plainly gives."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedvalue.coalitions import members

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower_foreign"
LR = 0.05


@contextmanager
def example_modules() -> Iterator[dict[str, Any]]:
    """The modules of the example, importable within the block only."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        modules = {name: importlib.import_module(f"foreign.{name}") for name in ("task", "client_app")}
        # Its nodes read the digits for every message; in one process once is enough.
        modules["task"].load_digits = cache(modules["task"].load_digits)
        yield modules
    finally:
        sys.path.remove(str(EXAMPLE))
        for name in [name for name in sys.modules if name.split(".")[0] == "foreign"]:
            del sys.modules[name]


def start(modules: Mapping[str, Any]) -> dict[str, Any]:
    torch.manual_seed(0)
    return {name: tensor.numpy() for name, tensor in modules["task"].Net().state_dict().items()}


def plain_accuracy(modules: Mapping[str, Any], n: int, mask: int, rounds: int) -> float:
    """FedAvg of a coalition as anyone would write it, tested on the held-out rows of all nodes."""
    task = modules["task"]
    data = [task.load_data(i, n) for i in range(n)]
    state = {name: torch.tensor(array) for name, array in start(modules).items()}
    for _ in range(rounds if mask else 0):
        total = sum(len(data[i][0].dataset) for i in members(mask))
        mean = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in state.items()}
        for i in members(mask):
            net = task.Net()
            net.load_state_dict(state)
            task.train(net, data[i][0], 1, LR)
            for name, tensor in net.state_dict().items():
                mean[name] += tensor.double() * (len(data[i][0].dataset) / total)
        state = {name: tensor.to(state[name].dtype) for name, tensor in mean.items()}
    net = task.Net()
    net.load_state_dict(state)
    sizes = [len(test.dataset) for _, test in data]
    return float(np.average([task.test(net, test)[1] for _, test in data], weights=sizes))
