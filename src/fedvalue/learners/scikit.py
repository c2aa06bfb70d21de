"""scikit-learn: how an estimator is fitted to pooled rows, and what it says about test rows.

`Recipe` makes fitted models of an estimator: unfitted copies of it, whose random numbers follow from a seed. Where the
rows do not suffice for a fit, the model is the best constant answer. `Answers` is such a model after it was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import whole
from fedvalue._extras import need
from fedvalue.errors import InputError
from fedvalue.store import fingerprint

__all__ = ["Answers", "Recipe", "is_estimator", "is_estimator_class"]

_SEED = "random_state"
_PARALLEL = "n_jobs"  # changes no model
_EXPECTED = "an unfitted classifier or regressor of scikit-learn, or a pipeline that ends in one"

# Estimators of scikit-learn that have a random_state and, with these settings, never draw.
_DRAW_NOTHING: Mapping[str, tuple[str, tuple[Any, ...]]] = {
    "LogisticRegression": ("solver", ("lbfgs", "newton-cg", "newton-cholesky")),
    "LogisticRegressionCV": ("solver", ("lbfgs", "newton-cg", "newton-cholesky")),
    "Ridge": ("solver", ("auto", "svd", "cholesky", "lsqr", "sparse_cg", "lbfgs")),
    "RidgeClassifier": ("solver", ("auto", "svd", "cholesky", "lsqr", "sparse_cg", "lbfgs")),
    "Lasso": ("selection", ("cyclic",)),
    "ElasticNet": ("selection", ("cyclic",)),
    "LassoCV": ("selection", ("cyclic",)),
    "ElasticNetCV": ("selection", ("cyclic",)),
    "SVC": ("probability", (False, "deprecated")),
    "NuSVC": ("probability", (False, "deprecated")),
    "LinearSVC": ("dual", (False,)),
    "PCA": ("svd_solver", ("full", "covariance_eigh")),
}
_QUESTIONS = ("predict", "predict_proba", "decision_function")


def is_estimator(thing: object) -> bool:
    """Whether this is an object with the methods that scikit-learn asks of an estimator."""
    return not isinstance(thing, type) and _has_methods(thing)


def is_estimator_class(thing: object) -> bool:
    """Whether this is the class of such objects."""
    return isinstance(thing, type) and _has_methods(thing)


def _has_methods(thing: object) -> bool:
    return hasattr(thing, "fit") and hasattr(thing, "get_params")


class Recipe:
    """How an estimator is fitted: every time an unfitted copy of it, so that no model knows of another.

    Every `random_state` that is None is set from the seed; a number stays. An estimator without such a one draws
    nothing, nor do those of scikit-learn whose settings need no random numbers (`draws`). Rows of a single class, and
    fewer than `least_rows`, are not fitted: their model is the best constant answer.
    """

    def __init__(self, estimator: Any, least_rows: int = 1) -> None:
        base = need("sklearn.base", "An estimator of scikit-learn")
        if isinstance(estimator, type):
            raise InputError(
                f"The estimator must be an object. Got the class {estimator.__name__}: say {estimator.__name__}()."
            )
        if not is_estimator(estimator):
            raise InputError(f"The estimator must be {_EXPECTED}. Got a {type(estimator).__name__}.")
        try:
            self.estimator = base.clone(estimator)
            self.is_classifier = bool(base.is_classifier(estimator))
            fits = self.is_classifier or base.is_regressor(estimator)
        except (TypeError, RuntimeError, AttributeError) as error:
            raise InputError(f"The estimator cannot be copied: {error}.") from error
        if not fits:
            raise InputError(
                f"The estimator must be {_EXPECTED}. Got a {type(estimator).__name__}, which says that it is neither; "
                "a class of your own does so by deriving from ClassifierMixin or RegressorMixin."
            )
        self.least_rows = whole("least_rows", least_rows, 1)
        self.seeded = _seeded(estimator.get_params(deep=True), estimator)

    @property
    def draws(self) -> bool:
        """Whether another seed would give another model."""
        return bool(self.seeded)

    def identity(self) -> tuple[str, tuple[str, ...]]:
        """A digest of all that changes the models, and what cannot be looked into."""
        from sklearn.base import clone

        settings = self.estimator.get_params(deep=True)
        parallel = {name: None for name in settings if name.rpartition("__")[2] == _PARALLEL}
        neutral = clone(self.estimator).set_params(**parallel)
        return fingerprint("pooled", neutral, self.least_rows, seeded=(), cloned=True)

    def fitted(self, x: Any, y: NDArray[Any], seed: int) -> Any:
        """A model of these rows, of which there must be one."""
        from sklearn.base import clone

        if len(y) < self.least_rows or (self.is_classifier and (y == y[0]).all()):
            return self.constant(y)
        model = clone(self.estimator).set_params(**self._states(seed))
        model.fit(x.copy(), y.copy())  # steps may work in place, such as StandardScaler(copy=False)
        return model

    def constant(self, y: NDArray[Any], absolute: bool = False) -> Any:
        """The best answer that ignores the features: the most frequent class with the frequencies of all as
        probabilities, or the mean, or, where the absolute error counts, the median.
        """
        from sklearn.dummy import DummyClassifier, DummyRegressor

        ignored = np.zeros((len(y), 1))
        if self.is_classifier:
            return DummyClassifier(strategy="prior").fit(ignored, y)
        return DummyRegressor(strategy="median" if absolute else "mean").fit(ignored, y)

    def _states(self, seed: int) -> dict[str, int]:
        """The same for every coalition: what differs between two is not luck."""
        return {
            name: int(np.random.SeedSequence([seed, place]).generate_state(1)[0] >> 1)
            for place, name in enumerate(self.seeded)
        }


class Answers:
    """A fitted model that is asked about all test rows once. Features are given to it by row number, as scorers do.

    It knows all `classes` that there are: those that its model never saw have probability 0.
    """

    def __init__(self, model: Any, x: Any, classes: NDArray[Any] | None) -> None:
        self.model = model
        self.x = x
        self.classes = classes
        self.said: dict[str, NDArray[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "classes_" and self.classes is not None:
            return self.classes
        found = getattr(self.model, name)  # what the model lacks, these lack
        if name not in _QUESTIONS:
            return found

        def asked(rows: NDArray[np.intp]) -> NDArray[Any]:
            if name not in self.said:
                self.said[name] = self._all_classes(
                    name, np.asarray(found(self.x.copy()))
                )  # nor may a step change it
            answers: NDArray[Any] = self.said[name][rows]
            return answers

        asked.__name__ = name
        return asked

    def _all_classes(self, name: str, said: NDArray[Any]) -> NDArray[Any]:
        own = getattr(self.model, "classes_", None)
        if name == "predict" or self.classes is None or own is None or len(own) == len(self.classes):
            return said
        columns = np.column_stack([-said, said]) if said.ndim == 1 else said
        unseen = 0.0 if name == "predict_proba" else float(columns.min()) - 1.0
        table = np.full((len(said), len(self.classes)), unseen)
        table[:, np.searchsorted(self.classes, own)] = columns
        return table


def _seeded(settings: Mapping[str, Any], estimator: Any) -> tuple[str, ...]:
    """The settings that a seed decides."""
    found = []
    for name, value in sorted(settings.items()):
        if name.rpartition("__")[2] == _SEED:
            owner = settings[name.removesuffix(f"__{_SEED}")] if "__" in name else estimator
            if value is None and not _draws_nothing(owner):
                found.append(name)
            elif value is not None:
                whole(f"{name} of the estimator", value, 0)
        elif not is_estimator(value) and getattr(value, _SEED, 0) is None and getattr(value, "shuffle", True):
            raise InputError(
                f"{name} of the estimator, a {type(value).__name__}, draws random numbers without a seed. Give it a "
                f"{_SEED}."
            )
    return tuple(found)


def _draws_nothing(estimator: Any) -> bool:
    kind = type(estimator)
    setting, values = _DRAW_NOTHING.get(kind.__name__, ("", ()))
    return kind.__module__.startswith("sklearn.") and getattr(estimator, setting, None) in values
