"""The game of those who pool their rows: v(S) is the score of an estimator fitted to the rows of S."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import as_key, checked_init
from fedvalue.coalitions import members
from fedvalue.errors import GameError, InputError, UtilityError
from fedvalue.games._function import FunctionGame
from fedvalue.games._pooled_rows import Rows, clients_and_test, pooled
from fedvalue.games._scoring import AS_METRIC, Scoring
from fedvalue.learners.scikit import Recipe
from fedvalue.outcome import UTILITY, Outcome, empty_metric
from fedvalue.store import fingerprint
from fedvalue.trainers import Claim
from fedvalue.yardsticks import Baseline, Empty, margin_by_luck

__all__ = ["PooledGame"]

_RULE = "majority"  # of v(∅)


@checked_init
class PooledGame:
    """A game without federation: v(S) is the score of a scikit-learn estimator, fitted to the pooled rows of S.

    `clients` are pairs (x, y), frames with a column `label`, or `fv.Dataset`, as a list or a dict by name; `test` is
    another such. A `Scenario` has both. Features are arrays, frames, sparse matrices or texts: whatever the estimator
    takes, pipelines included. `scoring` is the name of a scorer (default: accuracy, or r2) or a function (estimator,
    x, y) → number, higher is better.

    A coalition whose rows are all of one class, or fewer than `least_rows`, is not fitted: its model always gives the
    best constant answer of these rows. v(∅) is that of the rows of all clients. A class that a coalition has never seen
    has probability 0.

    Every `random_state` that is None is set from the seed, the same for all coalitions; values are then estimated over
    several seeds. A number stays: values are those of that number. `replicates`, `jobs`, `timeout`, `retries`, `start`
    and `key` are as in a `FunctionGame`. A store recognises the game by the rows, the estimator with its settings
    (of your own classes the source text) and the scoring; not by the version of scikit-learn.

    >>> from sklearn.linear_model import LogisticRegression
    >>> a, b = ([[0.0], [0.2], [1.0]], [0, 0, 1]), ([[0.1], [0.9]], [0, 1])
    >>> game = PooledGame(LogisticRegression(), [a, b], test=([[0.0], [1.0]], [0, 1]))
    >>> [outcome.metrics["accuracy"] for _, outcome in game.evaluate([0b00, 0b11])]
    [0.5, 1.0]
    """

    higher_is_better = True
    retrain = False
    alike: tuple[tuple[int, ...], ...] = ()  # the order of rows may count

    def __init__(
        self,
        estimator: Any,
        clients: Any,
        test: Any = None,
        scoring: str | Callable[..., float] | None = None,
        *,
        label: str | None = None,
        names: Sequence[str] | None = None,
        least_rows: int = 1,
        key: str | None = None,
        replicates: int = 1,
        jobs: int = 1,
        timeout: float | None = None,
        retries: int = 0,
        start: str | None = None,
    ) -> None:
        if not isinstance(clients, Sequence) and isinstance(clients, Iterator):
            clients = list(clients)
        self.recipe = Recipe(estimator, least_rows)
        self.clients, known, self.test = clients_and_test(clients, test, label, names)
        self.scoring = Scoring(scoring, self.recipe.is_classifier)
        self.key = as_key(key, GameError)
        self.id, self.doubts = self._identity()
        self.metric = self.stored_as = self.scoring.name
        self.empty_as = empty_metric(self.stored_as, _RULE)
        self._without_rows = sum(1 << i for i, rows in enumerate(self.clients) if not len(rows))
        limits: dict[str, Any] = {"jobs": jobs, "timeout": timeout, "retries": retries, "start": start}
        classes = _classes((*self.clients, self.test)) if self.recipe.is_classifier else None
        fit = _Fit(self.recipe, self.clients, self.test, self.scoring, classes)
        self._calls = FunctionGame(
            len(self.clients), fit, known, batch=False, key=self.id, replicates=replicates, **limits
        )
        self.n, self.names, self.replicates = self._calls.n, self._calls.names, self._calls.replicates
        self.named = self._calls.named
        self._of_constant = self._try(fit)

    @property
    def seeds(self) -> int | None:
        """Any number where the estimator draws, unless utilities are means over replicates anyway."""
        return None if self.random and self.replicates == 1 else 1

    @property
    def random(self) -> bool:
        """Whether another seed would give other models."""
        return self.recipe.draws

    @property
    def _constant(self) -> str:
        """The best answer that ignores the features, in words."""
        if self.recipe.is_classifier:
            return "most frequent class"
        return "median of the targets" if self.scoring.is_absolute else "mean of the targets"

    @property
    def test_rows(self) -> int:
        """How many test rows models are measured on."""
        return len(self.test)

    @property
    def idle(self) -> tuple[int, ...]:
        """Clients without rows, which change no coalition."""
        return members(self._without_rows)

    @property
    def changed(self) -> bool:
        """Whether rows or the estimator are not what they were when the game was made."""
        return self._identity()[0] != self.id

    def is_empty(self, mask: int) -> bool:
        """Whether nobody in the coalition has rows."""
        return not mask & ~self._without_rows

    def empty_of(self, outcome: Outcome) -> Empty:
        """How v(∅) was fixed."""
        return Empty(_RULE, self._constant)

    def baseline(self) -> Baseline | None:
        """The best constant, which a model has to beat; None where it is not known how far luck alone would go."""
        metric = AS_METRIC.get(self.scoring.name) if isinstance(self.scoring.given, str) else None
        if metric is None:
            return None
        margin = margin_by_luck(metric, abs(self._of_constant), self.test.y)
        return Baseline(f"always answering the {self._constant}", self._of_constant, margin)

    def utility(self, outcome: Outcome) -> float:
        """The score; of a coalition without rows that of the best constant."""
        return outcome.metrics[self.stored_as]

    def evaluate(
        self, masks: Sequence[int], replicate: int = 0, claim: Claim = list
    ) -> Iterator[tuple[int, Outcome]]:
        """Fits and scores, and yields each coalition as it finishes; only those that `claim` leaves to this process."""
        for mask, outcome in self._calls.evaluate(masks, replicate, claim):
            as_names = [self.stored_as, *([self.empty_as] if self.is_empty(mask) else [])]
            told = [row._replace(rows=self.test_rows) for row in outcome.rows.values()]
            yield (
                mask,
                outcome._replace(
                    metrics=dict.fromkeys(as_names, outcome.metrics[UTILITY]),
                    rows={name: row for row in told for name in as_names},
                    backend="scikit-learn",
                ),
            )

    def _identity(self) -> tuple[str, tuple[str, ...]]:
        if self.key is not None:
            return f"pooled-{fingerprint(len(self.clients), ('key', str(self.key)))[0][:24]}", ()
        estimator, doubts = self.recipe.identity()
        scoring, more = self.scoring.identity()
        rows = [(rows.x, rows.y) for rows in (*self.clients, self.test)]
        digest, of_rows = fingerprint(estimator, scoring, rows)
        return f"pooled-{digest[:24]}", tuple(dict.fromkeys((*doubts, *more, *of_rows)))

    def _try(self, fit: _Fit) -> float:
        """The score of the best constant; refuses a scoring that does not go with the test rows, before any fit."""
        try:
            score = float(np.mean(fit((), 0)))
        except UtilityError as error:
            raise GameError(f"The scoring {self.metric!r} does not go with these rows: {error}.") from error
        if not np.isfinite(score):
            raise GameError(
                f"The scoring {self.metric!r} of the best constant answer is {score} on these test rows: it must be "
                "a finite number."
            )
        return score


class _Fit:
    """v(S) as a function of the members, for this process or for workers."""

    def __init__(
        self,
        recipe: Recipe,
        clients: Sequence[Rows],
        test: Rows,
        scoring: Scoring,
        classes: NDArray[Any] | None,
    ) -> None:
        self.recipe = recipe
        self.clients = clients
        self.test = test
        self.scoring = scoring
        self.classes = classes

    def __call__(self, coalition: tuple[int, ...], seed: int) -> float | NDArray[np.float64]:
        held = pooled([self.clients[i] for i in coalition if len(self.clients[i])] or self.clients)
        everybody = not any(len(self.clients[i]) for i in coalition)
        try:
            model = (
                self.recipe.constant(held.y, self.scoring.is_absolute)
                if everybody
                else self.recipe.fitted(held.x, held.y, seed)
            )
        except Exception as error:  # whatever the user's own steps raise
            raise UtilityError(
                f"it could not be fitted to {len(held):,} rows ({type(error).__name__}: {error}). Coalitions with fewer "
                "rows than least_rows are not fitted"
            ) from error
        try:
            return self.scoring(model, self.test, self.classes)
        except Exception as error:
            raise UtilityError(f"it could not be scored ({type(error).__name__}: {error})") from error


def _classes(parties: Sequence[Rows]) -> NDArray[Any]:
    try:
        return np.unique(np.concatenate([rows.y for rows in parties if len(rows)]))
    except TypeError as error:
        raise InputError(f"All labels must be of one kind, numbers or texts: {error}.") from error
