"""How good fitted models are on test rows: scorers of scikit-learn by name, or of one's own."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import did_you_mean
from fedvalue.errors import GameError
from fedvalue.games._pooled_rows import Rows, taken
from fedvalue.games._row_scores import BY_ROW
from fedvalue.learners.scikit import Answers
from fedvalue.per_row import pseudo_values
from fedvalue.store import fingerprint

__all__ = ["AS_METRIC", "Scoring"]

# Scorers, and the metrics of which it is known how far luck brings a model that knows nothing.
AS_METRIC = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced_accuracy",
    "roc_auc": "auc",
    "neg_log_loss": "loss",
    "r2": "r2",
    "neg_mean_squared_error": "mse",
    "neg_mean_absolute_error": "mae",
}
_ABSOLUTE = ("neg_mean_absolute_error", "neg_median_absolute_error")


class Scoring:
    """A scorer by one of scikit-learn's names, or a function (estimator, x, y) → number; higher is better."""

    def __init__(self, scoring: str | Callable[..., float] | None, is_classifier: bool) -> None:
        if scoring is None:
            scoring = "accuracy" if is_classifier else "r2"
        self.given = scoring
        if isinstance(scoring, str):
            self.name, self.scorer = scoring, _by_name(scoring)
        elif callable(scoring):
            function = getattr(scoring, "_score_func", scoring)
            name = getattr(function, "__name__", "score")
            self.name, self.scorer = name if name.isidentifier() else "score", scoring
        else:
            raise GameError(
                f"scoring must be the name of a scorer, such as 'roc_auc', or a function (estimator, x, y) → number. "
                f"Got {scoring!r}."
            )
        # Scorers of scikit-learn do nothing with features but hand them to the model.
        self.asks_only = hasattr(self.scorer, "_score_func")
        self.is_absolute = self.name in _ABSOLUTE

    def identity(self) -> tuple[str, tuple[str, ...]]:
        """A digest of what changes scores, and what cannot be looked into."""
        return fingerprint(self.given, seeded=())

    def __call__(self, model: Any, test: Rows, classes: NDArray[Any] | None) -> float | NDArray[np.float64]:
        """What single test rows say of a model, where that can be told: their mean is the score. Else the score."""
        asked = Answers(model, test.x, classes)
        everything = np.arange(len(test))
        if isinstance(self.given, str) and self.given in BY_ROW:
            return BY_ROW[self.given](asked, test.y)
        score = partial(self._score, asked if self.asks_only else model, test)
        number = score(everything)
        if not math.isfinite(number):
            return number
        numbers = pseudo_values(number, len(test), partial(_finite, score))
        return number if numbers is None else numbers

    def _score(self, model: Any, test: Rows, rows: NDArray[np.intp]) -> float:
        from sklearn.exceptions import UndefinedMetricWarning

        with warnings.catch_warnings():  # a constant answer has no precision, a few rows have no R²
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            x = rows if self.asks_only else taken(test.x, rows)
            number = self.scorer(model, x, test.y[rows])
        if np.iscomplexobj(number):  # as a float it would lose a part
            raise TypeError(f"it gives {number!r}")
        return float(number)


def _finite(score: Callable[[NDArray[np.intp]], float], rows: NDArray[np.intp]) -> float | None:
    """The score of some rows; None where it cannot be computed: no row of a class may be left."""
    try:
        number = score(rows)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _by_name(name: str) -> Any:
    from sklearn.metrics import get_scorer, get_scorer_names

    try:
        return get_scorer(name)
    except ValueError:
        known = get_scorer_names()
        raise GameError(
            f"scikit-learn has no scorer {name!r}. {did_you_mean(name, known)}See sklearn.metrics.get_scorer_names()."
        ) from None
