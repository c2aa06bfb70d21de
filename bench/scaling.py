"""How long a valuation of 20, 100 and 1,000 clients takes on a machine, a GPU, 8 and 64 GPUs: a model, printed.

    python bench/scaling.py

The coalitions are those that the method really asks for; what a local training costs was measured, as said beside each
constant. Everything else is arithmetic: no training takes place here. `docs/scaling.md` says what it means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import fedvalue as fv
from _table import table
from fedvalue._text import count, duration
from fedvalue.run import default_budget

# The clients of the paper: 2,710 images of 28 × 28 in float32 with a label each, 2,000 images to test on.
SAMPLES, TEST, IMAGE_BYTES = 2710, 2000, 28 * 28 * 4 + 8
FORWARD = 1 / 3  # of a training step: a step is a forward pass and a backward pass of twice the cost

# What a worker does besides: seconds of starting, and the part of its time in which it trains.
CORE_START = 5.0  # Ray 3 s, then a worker and torch 2 s (bench/ray.py on two cores)
GPU_START = 10.0  # an estimate: Ray starts a process, torch and CUDA for every task with a GPU
TASK = 30.0  # seconds, to which tasks are cut
SMALL_STACKS = 1.1  # tasks of few coalitions train smaller stacks: bench/ray.py, 64 coalitions cut in 12

OUTCOME_BYTES = 330  # a row of the store with all metrics: 1,024 take 332 kB
STORE_ROWS = 31_600  # appended in a second, in batches of 100 (bench/store.py)


@dataclass(frozen=True)
class Model:
    """A model, its rules, and seconds for one sample in one epoch of a stack."""

    name: str
    rounds: int
    epochs: int
    bytes: int
    core: float
    gpu: float


MODELS = (
    # core: bench/ray.py, 64 coalitions, one thread. GPU: bench/throughput.py, 1,024 coalitions in 2.8 s on an H200.
    Model("mlp", rounds=4, epochs=4, bytes=210_600, core=5.1e-6, gpu=1.7e-8),
    # core: 24 coalitions, one thread, by CPU time. GPU: likewise, 2 rounds × 2 epochs in 12.2 s.
    Model("cnn", rounds=2, epochs=2, bytes=142_248, core=1.8e-4, gpu=4.4e-7),
)


@dataclass(frozen=True)
class Machine:
    """Workers, each with a core or a GPU, on so many machines."""

    name: str
    workers: int
    machines: int
    gpu: bool


MACHINES = (
    Machine("2 cores", 2, 1, gpu=False),
    Machine("1 GPU", 1, 1, gpu=True),
    Machine("8 GPUs", 8, 1, gpu=True),
    Machine("64 GPUs", 64, 8, gpu=True),
)


@dataclass(frozen=True)
class Asked:
    """What a method asks for: coalitions, and how many members they have together."""

    clients: int
    method: str
    coalitions: int
    members: int


def asked(clients: int, method: str, budget: int | None = None) -> Asked:
    """Plays the method on a game that costs nothing."""
    if method == "exact":
        return Asked(clients, method, 1 << clients, clients << (clients - 1))
    sizes: list[int] = []

    def utility(coalitions: Sequence[tuple[int, ...]]) -> list[float]:
        sizes.extend(map(len, coalitions))
        return [1 - 0.97 ** len(coalition) for coalition in coalitions]

    fv.value(fv.FunctionGame(clients, utility, key="sizes"), method, budget or default_budget(clients))
    return Asked(clients, method, len(sizes), sum(sizes))


def seconds_of_work(plan: Asked, model: Model, gpu: bool) -> float:
    """Of one core or GPU: every first round once, every member of every coalition in the later ones, the tests."""
    per_sample = model.gpu if gpu else model.core
    local = plan.clients + (model.rounds - 1) * plan.members
    return per_sample * (local * SAMPLES * model.epochs + plan.coalitions * TEST * FORWARD)


def hours(plan: Asked, model: Model, machine: Machine) -> float:
    """On the clock. Tasks with GPUs start anew each time; first rounds are repeated in every worker."""
    alone = seconds_of_work(plan, model, machine.gpu)
    per_sample = model.gpu if machine.gpu else model.core
    first = per_sample * plan.clients * SAMPLES * model.epochs
    busy = min(machine.workers, plan.coalitions)
    share = first + (alone - first) / busy * (SMALL_STACKS if busy > 1 else 1.0)
    starts = GPU_START * math.ceil(share / TASK) if machine.gpu else CORE_START
    return (share + starts) / 3600


def data_bytes(clients: int) -> int:
    return (clients * SAMPLES + TEST) * IMAGE_BYTES


def message_bytes(plan: Asked, model: Model) -> float:
    """Of a federation, in a round to one node: a model for every coalition with its client."""
    return plan.members / plan.clients * model.bytes


def size(number: float) -> str:
    """Bytes for people, in two digits."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if number >= unit:
            return f"{number / unit:.1f} {name}" if number < 10 * unit else f"{number / unit:.0f} {name}"
    return f"{number / 1e3:.0f} kB"


def print_times(plans: Sequence[Asked]) -> None:
    for model in MODELS:
        rows = [
            (
                f"{plan.clients:,}",
                plan.method,
                count(plan.coalitions),
                count(plan.clients + (model.rounds - 1) * plan.members),
                *(duration(3600 * hours(plan, model, machine)) for machine in MACHINES),
            )
            for plan in plans
        ]
        header = ("clients", "method", "coalitions", "local trainings", *(m.name for m in MACHINES))
        print(
            f"\n{model.name}, {model.rounds} rounds × {model.epochs} epochs, {SAMPLES:,} samples a client\n"
        )
        print(table(header, rows))


def print_bytes(plans: Sequence[Asked]) -> None:
    mlp = MODELS[0]
    cells: dict[str, Callable[[Asked], str]] = {
        "data, to each machine": lambda plan: size(data_bytes(plan.clients)),
        "to 8 machines": lambda plan: size(8 * data_bytes(plan.clients)),
        "store": lambda plan: size(plan.coalitions * OUTCOME_BYTES),
        "rows/s, 64 GPUs": lambda plan: f"{plan.coalitions / (3600 * hours(plan, mlp, MACHINES[-1])):,.1f}",
        "federation: a message": lambda plan: size(message_bytes(plan, mlp)),
        "all messages": lambda plan: size(2 * mlp.rounds * plan.members * mlp.bytes),
    }
    rows = [(f"{plan.clients:,}", plan.method, *(cell(plan) for cell in cells.values())) for plan in plans]
    print(f"\nBytes that move (mlp); the store takes {STORE_ROWS:,} rows/s\n")
    print(table(("clients", "method", *cells), rows))


def main() -> None:
    # n·ln n coalitions, as without --budget; of 1,000 clients 3n + 2, which docs/choosing.md takes to be enough.
    plans = [
        asked(20, "surrogate"),
        asked(20, "exact"),
        asked(100, "surrogate"),
        asked(1000, "surrogate", 3002),
    ]
    print_times(plans)
    print_bytes(plans)


if __name__ == "__main__":
    main()
