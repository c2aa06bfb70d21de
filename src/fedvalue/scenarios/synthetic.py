"""Linear regression with known theory: y = x·w + noise, standard normal features. Milliseconds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._build import Ask, Pool
from fedvalue.scenarios._checks import number, stream, whole
from fedvalue.scenarios._partition import Rows
from fedvalue.scenarios._scale import Scale

__all__ = ["build"]

_SAMPLES = 100
_TEST_SIZE = 1000
_MOST_NUMBERS = 1 << 30  # 8 GiB while they are drawn


def build(ask: Ask, *, features: int = 10, noise_sd: float = 1.0) -> Pool:
    """n clients × `samples` (100) rows and a test set (1,000) of the same kind; weights of length 1.

    With weights of length 1 the targets have variance 1 + noise_sd²: the best mean squared error
    is noise_sd², that of a model which knows nothing 1 + noise_sd².
    """
    d = whole("features", features, 1)
    sd = number("noise_sd", noise_sd, 0)
    tested = _TEST_SIZE if ask.test_size is None else ask.test_size
    total = (ask.clients or 1) * (_SAMPLES if ask.samples is None else ask.samples)
    if (total + tested) * d > _MOST_NUMBERS:
        raise ScenarioError(
            f"{total + tested:,} rows of {d:,} features are more than {_MOST_NUMBERS:,} numbers. Ask for fewer clients, samples, "
            "test rows or features."
        )
    weights = stream(ask.seed, "weights").standard_normal(d)
    weights /= np.linalg.norm(weights)

    def draw(count: int, purpose: str) -> tuple[NDArray[Any], NDArray[Any]]:
        rng = stream(ask.seed, purpose)
        x = rng.standard_normal((count, d))
        y = x @ weights + sd * rng.standard_normal(count)
        return x.astype(np.float32), y.astype(np.float32)

    train_x, train_y = draw(total, "synthetic train")
    test_x, test_y = draw(tested, "synthetic test")

    def encode(rows: Rows, test_rows: Rows) -> tuple[NDArray[Any], NDArray[Any], int]:
        return train_x[rows], test_x[test_rows], 0

    details = {"source": "generated", "weights": weights.tolist(), "noise_sd": sd}
    # Its targets have the scale of the theory: they are trained as they are.
    return Pool("synthetic", train_y, test_y, encode, classes=0, details=details, target_scale=Scale())
