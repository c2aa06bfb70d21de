"""How long honest updates are next to those of the others, and where they point: what the limits of a federation leave room for.

    python bench/updates.py [--samples 60]

For clients of the digits, divided in several ways, after one round from the same model:

    length     the longest update / the median of the others
    direction  the lowest cosine of an update with the mean direction of the others
"""

from __future__ import annotations

import argparse

import numpy as np

import fedvalue as fv
from _table import table

_WAYS = (
    ("same", {}),
    ("size", {}),
    ("distribution", {}),
    ("label-flip", {}),
    ("dirichlet", {"alpha": 0.1}),
    ("dirichlet", {"alpha": 0.01}),
)


def measured(
    partition: str, options: dict[str, float], clients: int, model: str, samples: int
) -> tuple[float, float]:
    job = fv.Job(
        "digits", clients=clients, samples=samples, partition=partition, scenario_options=options, model=model,
        rounds=1, epochs=4,
    )  # fmt: skip
    trace = job.prepared.game.trace()
    start, ended = dict(trace.starts[0]), dict(trace.locals[0])
    names = [name for name, array in start.items() if np.asarray(array).dtype.kind == "f"]
    updates = np.concatenate(
        [
            (np.asarray(ended[name]) - np.asarray(start[name])).reshape(len(trace.clients), -1)
            for name in names
        ],
        axis=1,
    )
    length = np.linalg.norm(updates, axis=1)
    unit = updates / length[:, None]
    longest, lowest = 0.0, 1.0
    for i in range(len(unit)):
        others = np.delete(unit, i, axis=0).mean(0)
        longest = max(longest, float(length[i] / np.median(np.delete(length, i))))
        lowest = min(lowest, float(unit[i] @ others / np.linalg.norm(others)))
    return longest, lowest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=60)
    samples = parser.parse_args().samples
    lines, all_found = [], []
    for partition, options in _WAYS:
        for clients in (4, 10):
            for model in ("mlp", "linear"):
                found = measured(partition, options, clients, model, samples)
                all_found.append(found)
                shown = " ".join([partition, *(f"{name}={value}" for name, value in options.items())])
                lines.append([shown, str(clients), model, f"{found[0]:.1f}", f"{found[1]:.2f}"])
    longest, lowest = max(x for x, _ in all_found), min(x for _, x in all_found)
    lines.append(["all", "", "", f"{longest:.1f}", f"{lowest:.2f}"])
    print(table(["partition", "clients", "model", "length", "direction"], lines))


if __name__ == "__main__":
    main()
