"""One figure: how far from the truth values are that rest on one seed, and values that rest on eight.

Ten clients share the handwritten digits that come with scikit-learn. All 1,024 coalitions are trained with each of 16
seeds. The truth is the Shapley value of the mean over eight of them; the other eight are there to be judged:

    equal split      paying everyone the same
    one seed         exact values of each of the eight seeds, 1,023 trainings each
    eight seeds      `surrogate` with 64 trainings spread over the eight seeds, several times

Distances are relative (l2). The truth is a mean over eight seeds and errs itself; the means below are corrected for that.

    python bench/seeds_figure.py [--out docs/seeds.svg] [--table FILE.npz] [--samples 40] [--runs 16]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fedvalue as fv
from _table import table
from fedvalue.estimators.exact import shapley_values

Array = NDArray[np.float64]
CLIENTS, SEEDS, TRAININGS = 10, 16, 64
INK, QUIET, COLOURS = "#1b2330", "#56616f", ("#56616f", "#b84e0c", "#1f4e9e")


@dataclass(frozen=True)
class Row:
    """One way to pay: its distances from the truth, and their mean without the error of the truth itself."""

    name: str
    distances: Array
    mean: float


def trained(path: Path | None, samples: int) -> Array:
    """Accuracies of all coalitions (columns) with every seed (rows); kept in a file where one is given."""
    if path is not None and path.exists():
        with np.load(path) as file:
            return file["accuracy"].astype(float)
    scenario = fv.load_scenario("digits", clients=CLIENTS, samples=samples, partition="size")
    rules = fv.Training(rounds=4, epochs=4, batch=32, rate=0.01)
    game = fv.FederatedGame(scenario, "mlp", rules)
    rows = np.empty((SEEDS, 1 << CLIENTS))
    for seed in range(SEEDS):
        began = time.perf_counter()
        for mask, outcome in game.evaluate(range(1 << CLIENTS), seed):
            rows[seed, mask] = game.utility(outcome)
        print(f"seed {seed}: {time.perf_counter() - began:.0f} s", flush=True)
    if path is not None:
        np.savez_compressed(path, accuracy=rows)
    return rows


def compared(rows: Array, runs: int) -> list[Row]:
    """Everyone's distance from the truth."""
    half, n = len(rows) // 2, rows.shape[1].bit_length() - 1
    rows[:, 0] = rows[:, 0].mean()  # v(∅) is the mean over untrained models
    values = np.array([shapley_values(n, row) for row in rows])
    judged, of_truth = values[:half], values[half:]
    truth = of_truth.mean(0)
    size = float(np.linalg.norm(truth))
    own = float(of_truth.var(0, ddof=1).sum()) / (len(of_truth) * size**2)  # squared error of the truth

    def row(name: str, found: Array) -> Row:
        distances = np.linalg.norm(np.atleast_2d(found) - truth, axis=1) / size
        return Row(name, distances, float(np.sqrt(max(np.mean(distances**2) - own, 0.0))))

    game = fv.TableGame(rows[:half])
    spread = [fv.value(game, "surrogate", budget=TRAININGS, seed=seed).mean for seed in range(runs)]
    return [
        row("equal split, no training", np.full(n, truth.mean())),
        row(f"exact, all {(1 << n) - 1:,} trainings of one seed", judged),
        row(f"{TRAININGS} trainings over {half} seeds", np.array(spread)),
    ]


def drawn(rows: list[Row]) -> str:
    """The distances as dots, their mean as a line: an SVG picture."""
    width, left, top, step = 720, 20, 56, 74
    most = 1.08 * max(float(row.distances.max()) for row in rows)
    height = top + step * len(rows) + 34

    def across(distance: float) -> float:
        return round(left + (width - 2 * left) * distance / most, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{left}" y="24" font-size="17" font-weight="600" fill="{INK}">How far from the values to be expected'
        "</text>",
        f'<text x="{left}" y="43" font-size="12.5" fill="{QUIET}">Digits, ten clients. A dot is a valuation, the line '
        "their mean. Further left is better.</text>",
    ]
    for k, (row, colour) in enumerate(zip(rows, COLOURS, strict=True)):
        y = top + step * k + 24
        mean = across(row.mean)
        parts.append(
            f'<text x="{left}" y="{y}" font-size="14" fill="{INK}">{row.name}: {row.mean:.1%}</text>'
        )
        parts.append(f'<line x1="{left}" y1="{y + 22}" x2="{width - left}" y2="{y + 22}" stroke="#d8dee6"/>')
        parts += [
            f'<circle cx="{across(float(d))}" cy="{y + 22}" r="6" fill="{colour}" fill-opacity=".5"/>'
            for d in row.distances
        ]
        parts.append(
            f'<line x1="{mean}" y1="{y + 10}" x2="{mean}" y2="{y + 34}" stroke="{colour}" stroke-width="3"/>'
        )
    foot = top + step * len(rows) + 22
    parts.append(f'<text x="{left}" y="{foot}" font-size="12" fill="{QUIET}">0</text>')
    parts.append(
        f'<text x="{width - left}" y="{foot}" font-size="12" fill="{QUIET}" text-anchor="end">relative error {most:.0%}'
        "</text>"
    )
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/seeds.svg"))
    parser.add_argument("--table", type=Path, help="file that keeps the trainings")
    parser.add_argument("--samples", type=int, default=40, help="rows of a client on average")
    parser.add_argument("--runs", type=int, default=16, help="valuations with several seeds")
    given = parser.parse_args()
    rows = compared(trained(given.table, given.samples), given.runs)
    given.out.write_text(drawn(rows), encoding="utf-8")
    shown = [(r.name, f"{r.mean:.4f}", f"{r.distances.min():.4f}", f"{r.distances.max():.4f}") for r in rows]
    print(table(("", "mean error", "least", "most"), shown))
    print(f"Written to {given.out}.")


if __name__ == "__main__":
    main()
