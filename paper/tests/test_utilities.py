"""What claims say that were counted in committed utilities."""

from __future__ import annotations

import csv
import gzip
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedvalue_paper.claims import read_claims
from fedvalue_paper.kept import UTILITIES, read_kept

RESULTS = Path(__file__).parents[1] / "results"
ARGUMENTS = {claim.id: claim.argument for claim in read_claims()}


def tables(folder: str) -> list[NDArray[np.float64]]:
    """All utilities of the MLP and of the CNN, by bitmask."""
    _, games = read_kept(RESULTS / folder / UTILITIES)
    assert [kept.label for kept in games] == ["mlp", "cnn"]
    return [np.array([kept.utilities[mask] for mask in range(1 << len(kept.sizes))]) for kept in games]


def steps(table: NDArray[np.float64]) -> list[tuple[int, float]]:
    """What each client adds to each coalition without it, with the size of that coalition."""
    n = len(table).bit_length() - 1
    return [
        (mask.bit_count(), float(table[mask | 1 << i] - table[mask]))
        for i in range(n)
        for mask in range(1 << n)
        if not mask >> i & 1
    ]


def mean_steps(table: NDArray[np.float64]) -> list[float]:
    found = steps(table)
    return [float(np.mean([step for size, step in found if size == s])) for s in range(10)]


def test_how_often_a_further_client_does_not_lower_the_accuracy() -> None:
    shares = {}
    for folder in ("motivation-paper", "motivation-small"):
        of_models = [[step >= 0 for _, step in steps(table)] for table in tables(folder)]
        assert {len(of_model) for of_model in of_models} == {5120}
        shares[folder] = [f"{np.mean(of_model):.0%}".replace("%", " %") for of_model in of_models]
    mlp, cnn = shares["motivation-paper"]
    assert f"in {mlp} (MLP) and {cnn} (CNN) of the 5,120 cases" in ARGUMENTS["monotone-utility"]
    assert "it is {} and {}.".format(*shares["motivation-small"]) in ARGUMENTS["monotone-utility"]
    assert all(step > 0 for table in tables("motivation-paper") for step in mean_steps(table))


def test_how_what_a_further_client_adds_falls() -> None:
    mlp, cnn = map(mean_steps, tables("motivation-paper"))
    said = ARGUMENTS["diminishing"]
    assert f"from {mlp[0]:.4f} (MLP) and {cnn[0]:.4f} (CNN) for the first" in said
    assert f"to {mlp[-1]:.4f} and {cnn[-1]:.4f} for the tenth" in said
    pairs = [pair for of_model in (mlp, cnn) for pair in pairwise(of_model)]
    ((before, after),) = [pair for pair in pairs if pair[1] >= pair[0]]
    assert len(pairs) == 18
    assert f"in 17 of 18 steps; the other is a rise from {before:.4f} to {after:.4f}" in said


def values(folder: str, model: str, label: str) -> NDArray[np.float64]:
    """The values of every run of a method, one line each."""
    with gzip.open(RESULTS / folder / "rows.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["model"], row["label"]) == (model, label)]
    return np.array([[float(value) for value in row["values"].split()] for row in rows])


def test_how_alike_the_clients_bear_the_error_of_ipss() -> None:
    said, ranges, spreads = ARGUMENTS["fair-error"], [], []
    for model in ("mlp", "cnn"):
        (exact,) = values("motivation-paper", model, "MC-Shapley")
        lacking = 100 * (exact - values("motivation-paper", model, "IPSS")) / exact.mean()
        assert lacking.min() > 0
        ranges.append(f"{lacking.min():.1f} % {{}} {lacking.max():.1f} %")
        spreads.append(f"{100 * np.ptp(exact) / exact.mean():.1f} %")
    between, to = ([each.format(word) for each in ranges] for word in ("and", "to"))
    assert "between {} (MLP) and between {} (CNN)".format(*between) in said
    assert "within {} and {} of a mean value".format(*spreads) in said
    readme = " ".join((RESULTS.parent / "README.md").read_text(encoding="utf-8").split())
    assert "every client lacks {} of a mean value with the MLP, {} with the CNN".format(*to) in readme
