"""Games on pooled rows: scikit-learn estimators, whatever rows they take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.metrics import balanced_accuracy_score, get_scorer, make_scorer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import fedvalue as fv
from fedvalue.errors import GameError, InputError, UtilityError
from fedvalue.games._row_scores import BY_ROW
from fedvalue.learners.scikit import Answers
from fedvalue.testing import check_game

Pair = tuple[NDArray[Any], NDArray[Any]]


def rows(count: int, seed: int, classes: int = 2) -> Pair:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, 3))
    return x, np.digitize(x[:, 0] + 0.5 * rng.standard_normal(count), [0.0, 0.8][: classes - 1])


CLIENTS = {"Aachen": rows(30, 0), "Bern": rows(20, 1), "Como": rows(10, 2)}
TEST = rows(60, 9)


def game(estimator: Any = None, scoring: Any = "accuracy", **more: Any) -> fv.PooledGame:
    estimator = LogisticRegression() if estimator is None else estimator  # an unfitted ensemble has no length
    return fv.PooledGame(estimator, CLIENTS, TEST, scoring, **more)


def utility(of: fv.PooledGame, mask: int, seed: int = 0) -> float:
    ((_, outcome),) = of.evaluate([mask], seed)
    return of.utility(outcome)


def by_hand(estimator: Any, members: Sequence[str], scoring: str) -> float:
    x, y = (np.concatenate(part) for part in zip(*(CLIENTS[name] for name in members), strict=True))
    return float(get_scorer(scoring)(estimator.fit(x, y), *TEST))


class Centring(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A step that learns."""

    def fit(self, x: Any, y: Any = None) -> Centring:
        self.mean_ = x.mean(0)
        return self

    def transform(self, x: Any) -> Any:
        return x - self.mean_


class Counting(Centring):
    """A step that remembers something beyond its copies."""

    fits = [0]  # noqa: RUF012

    def fit(self, x: Any, y: Any = None) -> Counting:
        self.fits[0] += 1
        return super().fit(x * self.fits[0])


class Doubling(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A step of one's own."""

    def __init__(self, factor: float = 2.0) -> None:
        self.factor = factor

    def fit(self, x: Any, y: Any = None) -> Doubling:
        return self

    def transform(self, x: Any) -> Any:
        return x * self.factor


class Noisy(Doubling):
    """One that draws without a seed."""

    def transform(self, x: Any) -> Any:
        return x + np.random.standard_normal(x.shape)  # noqa: NPY002


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "neg_log_loss", "f1", "balanced_accuracy"])
def test_utilities_are_what_scikit_learn_says_of_pooled_rows(scoring: str) -> None:
    found = utility(game(scoring=scoring), 0b101)
    assert found == pytest.approx(by_hand(LogisticRegression(), ["Aachen", "Como"], scoring), abs=1e-12)


@pytest.mark.parametrize("scoring", ["r2", "neg_mean_squared_error", "neg_mean_absolute_error"])
def test_regressions_count_from_the_best_constant(scoring: str) -> None:
    clients = [(x, 3 * x[:, 0] + x[:, 1] ** 2) for x, _ in CLIENTS.values()]
    test = (TEST[0], 3 * TEST[0][:, 0])
    of = fv.PooledGame(LinearRegression(), clients, test, scoring)
    x, y = (np.concatenate(part) for part in zip(*clients, strict=True))
    assert utility(of, 0b111) == pytest.approx(get_scorer(scoring)(LinearRegression().fit(x, y), *test))
    constant = np.median(y) if "absolute" in scoring else y.mean()
    errors = test[1] - constant
    by_scoring = {
        "r2": 1 - (errors**2).mean() / test[1].var(),
        "neg_mean_squared_error": -(errors**2).mean(),
        "neg_mean_absolute_error": -np.abs(errors).mean(),
    }
    assert utility(of, 0) == pytest.approx(by_scoring[scoring])


@pytest.mark.parametrize("name", BY_ROW)
def test_what_rows_say_is_the_score_and_its_error(name: str) -> None:
    """Against scikit-learn, and a jackknife that leaves out one row after the other."""
    x, y = rows(60, 5)
    if name == "r2" or name.startswith("neg_mean"):
        model, y = LinearRegression(), x[:, 0] + 0.5 * x[:, 1] ** 2
    else:
        model = LogisticRegression()
    scorer, fitted = get_scorer(name), model.fit(x, y)
    said = BY_ROW[name](Answers(fitted, x, getattr(fitted, "classes_", None)), y)
    assert said.mean() == pytest.approx(scorer(model, x, y), abs=1e-12)
    without = [scorer(model, np.delete(x, i, 0), np.delete(y, i)) for i in range(60)]
    assert said.std(ddof=1) / 60**0.5 == pytest.approx(np.sqrt(59 * np.var(without)), rel=0.1)


def test_values_know_their_metric_where_they_count_from_and_the_luck_of_test_rows() -> None:
    values = fv.value(game(scoring="roc_auc"), method="exact")
    assert (values.metric, values.guarantee, values.promise) == ("roc_auc", "exact", "exact")
    assert values.utility_of_none == 0.5
    assert values.empty is not None
    assert values.empty.label == "most frequent class"
    assert values.test_rows == 60
    assert values.stderr is not None
    assert (values.stderr > 0.001).all()
    of_accuracy = game().evaluate([0b111])
    assert next(of_accuracy)[1].rows["accuracy"].kind == "bits"


def test_a_model_that_learns_nothing_is_said_first_and_pays_nobody() -> None:
    rng = np.random.default_rng(1)
    noise = [(x, rng.integers(0, 2, len(x))) for x, _ in CLIENTS.values()]
    values = fv.value(fv.PooledGame(LogisticRegression(), noise, (TEST[0], rng.integers(0, 2, 60))), "exact")
    assert values.learned is False
    assert "always answering the most frequent class has" in values.warning
    with pytest.raises(InputError, match="learns nothing"):
        fv.payout(values, 100)
    assert fv.value(game(scoring="roc_auc"), "exact").learned
    assert game(scoring="f1").baseline() is None


def test_the_contract_of_games_is_kept() -> None:
    check_game(
        game(),
        same=[game(), game(LogisticRegression(n_jobs=1))],
        different=[
            game(LogisticRegression(C=2.0)),
            game(scoring="f1"),
            game(least_rows=2),
            fv.PooledGame(LogisticRegression(), CLIENTS, CLIENTS["Bern"]),
        ],
    )


def test_run_audit_report_and_comparison(tmp_path: Path) -> None:
    values = fv.value(game(), method="exact", store=tmp_path / "s.db")
    again = fv.value(game(), method="exact", store=tmp_path / "s.db")
    assert again.cost is not None
    assert again.cost.trained == 0
    assert (again.mean == values.mean).all()
    assert str(fv.audit(values, store=tmp_path / "s.db"))
    page = fv.report(values, tmp_path / "r.html", store=tmp_path / "s.db").read_text(encoding="utf-8")
    assert "Aachen" in page
    assert "accuracy" in page
    results = fv.compare(game(), ["exact", "ipss"], budget=6)
    assert results["exact"].mean.sum() == pytest.approx(values.mean.sum())
    assert fv.Values.from_dict(values.to_dict()).empty == values.empty


def test_frames_with_their_pipeline() -> None:
    def frame(count: int, seed: int) -> pd.DataFrame:
        x, y = rows(count, seed)
        town = np.where(x[:, 1] > 0, "north", "south")
        return pd.DataFrame({"age": x[:, 0], "town": town, "ill": np.where(y == 1, "yes", "no")})

    columns = ColumnTransformer([("n", StandardScaler(), ["age"]), ("c", OneHotEncoder(), ["town"])])
    clients = {"a": frame(20, 0), "b": frame(20, 1)[["ill", "town", "age"]], "empty": frame(0, 2)}
    of = fv.PooledGame(make_pipeline(columns, LogisticRegression()), clients, frame(40, 3), label="ill")
    assert of.idle == (2,)
    assert utility(of, 0b011) > utility(of, 0b100) == utility(of, 0)
    with pytest.raises(GameError, match=r"Name its label column"):
        fv.PooledGame(LogisticRegression(), clients, frame(40, 3))
    with pytest.raises(GameError, match=r"has no column 'sick'. Columns: age, town, ill"):
        fv.PooledGame(LogisticRegression(), clients, frame(40, 3), label="sick")
    clients["b"] = clients["b"].drop(columns="age")
    with pytest.raises(GameError, match=r"client 'b' and of the test set differ in age"):
        fv.PooledGame(LogisticRegression(), clients, frame(40, 3), label="ill")


def test_sparse_rows_texts_tensors_and_scenarios_give_the_same_as_arrays() -> None:
    sparse = {name: (csr_matrix(x), y) for name, (x, y) in CLIENTS.items()}
    of = fv.PooledGame(LogisticRegression(), sparse, (csr_matrix(TEST[0]), TEST[1]))
    assert utility(of, 0b110) == utility(game(), 0b110)
    tensors = ((torch.tensor(x, requires_grad=True), torch.tensor(y)) for x, y in CLIENTS.values())
    assert utility(fv.PooledGame(LogisticRegression(), tensors, TEST), 0b110) == utility(game(), 0b110)
    texts = [(["good day", "bad day"], [1, 0]), (["good", "bad"], [1, 0])]
    of = fv.PooledGame(make_pipeline(CountVectorizer(), LogisticRegression()), texts, texts[0])
    assert utility(of, 0b11) == 1.0
    parties = tuple(fv.Dataset(x, y) for x, y in CLIENTS.values())
    scenario = fv.Scenario("drawn", parties, tuple(CLIENTS), fv.Dataset(*TEST), "classification", 2)
    of = fv.PooledGame(LogisticRegression(), scenario)
    assert of.names == tuple(CLIENTS)
    assert utility(of, 0b110) == pytest.approx(utility(game(), 0b110))


class TestSeeds:
    def test_every_step_is_seeded_and_can_be_trained_again(self) -> None:
        of = game(make_pipeline(StandardScaler(), RandomForestClassifier(2)), "neg_mean_squared_error")
        assert (of.seeds, of.random) == (None, True)
        assert utility(of, 7, 0) == utility(of, 7, 0) != utility(of, 7, 1)
        assert fv.value(of, budget=16).seeds > 1

    def test_a_number_stays_and_what_draws_nothing_has_one_seed(self) -> None:
        for estimator in (
            RandomForestClassifier(3, random_state=4),
            LogisticRegression(),
            LinearSVC(dual=False),
        ):
            assert (game(estimator).seeds, game(estimator).random) == (1, False)
        assert game(SGDClassifier()).random

    def test_a_splitter_that_draws_is_refused(self) -> None:
        search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=KFold(3, shuffle=True))
        with pytest.raises(
            InputError, match=r"cv of the estimator, a KFold, draws random numbers without a seed"
        ):
            game(search)
        game(GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=KFold(3)))

    def test_what_goes_on_learning_begins_anew_with_every_coalition(self) -> None:
        of = game(make_pipeline(StandardScaler(), SGDClassifier(random_state=0, warm_start=True)))
        there = {mask: outcome.metrics for mask, outcome in of.evaluate([1, 2, 4, 7])}
        back = {mask: outcome.metrics for mask, outcome in of.evaluate([7, 4, 2, 1])}
        assert there == back

    def test_a_function_that_goes_on_with_a_model_is_warned_of(self) -> None:
        model = SGDClassifier()

        def going_on(coalition: Sequence[int]) -> float:
            return float(model.partial_fit(*TEST, classes=[0, 1]).score(*TEST))

        with pytest.warns(
            fv.errors.FedvalueWarning, match="model, which going_on changes .*depend on what was asked before"
        ):
            fv.FunctionGame(2, going_on, batch=False)

    def test_what_cannot_be_seeded_is_a_doubt(self) -> None:
        assert game(make_pipeline(Doubling(), LogisticRegression())).doubts == ()
        (doubt,) = game(make_pipeline(Noisy(), LogisticRegression())).doubts
        assert "draws without a seed" in doubt

    def test_what_own_steps_learn_in_a_fit_is_no_doubt(self) -> None:
        assert game(make_pipeline(Centring(), LogisticRegression())).doubts == ()
        (doubt,) = game(make_pipeline(Counting(), LogisticRegression())).doubts
        assert "fits, which methods of Counting change" in doubt

    def test_settings_of_own_steps_count(self) -> None:
        ids = {game(make_pipeline(Doubling(factor), LogisticRegression())).id for factor in (2.0, 2.0, 3.0)}
        assert len(ids) == 2
        assert game(key="mine").id == game(SGDClassifier(), key="mine").id


class TestRules:
    def test_one_class_or_too_few_rows_give_the_constant(self) -> None:
        x, y = CLIENTS["Aachen"]
        one_class = x[y == 1], y[y == 1]
        of = fv.PooledGame(LogisticRegression(), [one_class, CLIENTS["Bern"]], TEST)
        assert utility(of, 0b01) == (TEST[1] == 1).mean()
        of = game(least_rows=11)
        majority = np.bincount(CLIENTS["Como"][1]).argmax()
        assert utility(of, 0b100) == (TEST[1] == majority).mean()
        assert utility(of, 0b110) == utility(game(), 0b110)

    def test_classes_that_a_coalition_has_never_seen(self) -> None:
        x, y = rows(40, 3, classes=3)
        of = fv.PooledGame(
            LogisticRegression(), [(x[y < 2], y[y < 2]), (x, y)], rows(30, 4, classes=3), "roc_auc_ovr"
        )
        assert 0.5 < utility(of, 0b01) < utility(of, 0b11) <= 1
        assert utility(of, 0) == 0.5

    def test_a_fit_that_fails_names_the_coalition_and_the_way_out(self) -> None:
        clients = [(x, x[:, 0]) for x, _ in (rows(3, 0), rows(8, 1))]
        of = fv.PooledGame(KNeighborsRegressor(5), clients, (TEST[0], TEST[0][:, 0]))
        with pytest.raises(UtilityError, match=r"coalition \(0,\) \(client-0\).*n_neighbors"):
            utility(of, 0b01)
        of = fv.PooledGame(KNeighborsRegressor(5), clients, (TEST[0], TEST[0][:, 0]), least_rows=5)
        assert utility(of, 0b01) < utility(of, 0b11)

    def test_scorings_of_ones_own(self) -> None:
        def share_of_ones(model: Any, x: Any, y: Any) -> float:
            return float(model.predict(x).mean())

        assert game(scoring=share_of_ones).metric == "share_of_ones"
        scorer = make_scorer(balanced_accuracy_score)
        assert utility(game(scoring=scorer), 3) == utility(game(scoring="balanced_accuracy"), 3)


def framed(columns: list[Any], of_test: list[Any]) -> fv.PooledGame:
    """Frames with such columns, the same names several times among them."""
    cells = np.eye(3)
    parties = [pd.DataFrame(cells, columns=names) for names in (columns, of_test)]
    return fv.PooledGame(LogisticRegression(), parties[:1], parties[1], label="y")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: game(scoring="roc-auc"), r"no scorer 'roc-auc'. Did you mean 'roc_auc'"),
        (lambda: game(LogisticRegression), r"Got the class LogisticRegression: say LogisticRegression\(\)"),
        (lambda: game("lr"), r"must be an unfitted classifier or regressor .* Got a str"),
        (lambda: game(KMeans()), r"neither"),
        (lambda: fv.PooledGame(LogisticRegression(), [(pd.DataFrame(TEST[0]), pd.Series(TEST[1])[::-1])], TEST), r"client 0 have the same index in another order"),
        (lambda: game(RandomForestClassifier(random_state=np.random.RandomState(0))), r"random_state .* whole number"),
        (lambda: fv.PooledGame(LogisticRegression(), CLIENTS), r"needs test rows"),
        (lambda: fv.PooledGame(LogisticRegression(), TEST, TEST), r"client 0 must be a pair"),
        (lambda: fv.PooledGame(LogisticRegression(), 3, TEST), r"clients must be a list, one entry per client"),
        (lambda: fv.PooledGame(LogisticRegression(), [(TEST[0], TEST[1][1:])], TEST), r"client 0 must have one row per sample"),
        (lambda: fv.PooledGame(LogisticRegression(), [(TEST[0][:, 1:], TEST[1])], TEST), r"features of one shape"),
        (lambda: fv.PooledGame(LogisticRegression(), [(TEST[0], [None] * 60)], TEST), r"Labels of client 0 are missing"),
        (lambda: framed(["y", "a", "a"], ["y", "a", "b"]), r"frame of client 0 has several columns called a\. Names"),
        (lambda: framed(["y", "y", "b"], ["y", "a", "b"]), r"frame of client 0 has several columns called y\. Names"),
        (lambda: framed(["y", "a", "b"], ["y", "a", "a"]), r"frame of the test set has several columns called a\. Names"),
        (lambda: framed(["y", 0, 1], ["y", "0", "1"]), r"must have the same columns\. .* differ in 0, 0, 1, 1"),
        (lambda: game(labels="y"), r"PooledGame has no argument 'labels'. Did you mean 'label'"),
        (lambda: game(DummyClassifier(), "r2_score"), r"no scorer 'r2_score'"),
        (lambda: fv.PooledGame(LogisticRegression(), [rows(30, 0, 3)], rows(30, 1, 3), "roc_auc"), r"does not go with these rows"),
    ],
)  # fmt: skip
def test_mistakes_are_one_clear_error(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.slow
def test_workers_give_the_same() -> None:
    here, there = game(SGDClassifier()), game(SGDClassifier(), jobs=2)
    assert here.id == there.id
    ours, theirs = dict(here.evaluate([0, 3, 7])), dict(there.evaluate([0, 3, 7]))
    assert {mask: (o.metrics, o.rows) for mask, o in ours.items()} == {
        mask: (o.metrics, o.rows) for mask, o in theirs.items()
    }


@pytest.mark.parametrize("federated", [True, False])
def test_steps_that_work_in_place_change_no_rows(federated: bool) -> None:
    def utilities(copy: bool) -> list[float]:
        steps = make_pipeline(StandardScaler(copy=copy), LogisticRegression())
        clients = {name: (3 * x + 5, y) for name, (x, y) in CLIENTS.items()}
        test = (3 * TEST[0] + 5, TEST[1])
        held = [x.copy() for x, _ in (*clients.values(), test)]
        of: Any = fv.PooledGame(steps, clients, test)
        if federated:
            of = fv.FederatedGame(fv.Scenario.from_arrays(clients, test=test), steps)
        found = [of.utility(outcome) for _ in range(2) for _, outcome in of.evaluate([1, 2, 3, 7])]
        assert all((x == was).all() for (x, _), was in zip((*clients.values(), test), held, strict=True))
        return found

    assert utilities(copy=False) == utilities(copy=True)


class Answering(LogisticRegression):  # type: ignore[misc]
    """Says what it should not."""

    def __init__(self, how: str = "column") -> None:
        super().__init__()
        self.how = how

    def predict(self, x: Any) -> Any:
        said = super().predict(x)
        return {
            "column": lambda: said[:, None],
            "nan": lambda: np.where(said > 0, np.nan, said),
            "text": lambda: said.astype(str),
        }.get(self.how, lambda: said)()

    def predict_proba(self, x: Any) -> Any:
        return 3 * super().predict_proba(x)


@pytest.mark.parametrize(
    ("how", "scoring", "says"),
    [
        ("nan", "accuracy", "predict gives NaN"),
        ("text", "accuracy", "predict gives <U21, labels are int64"),
        ("large", "neg_log_loss", "predict_proba gives numbers below 0 or above 1"),
    ],
)
def test_answers_that_scikit_learn_would_refuse_are_refused(how: str, scoring: str, says: str) -> None:
    with pytest.raises(UtilityError, match=says):
        utility(game(Answering(how), scoring), 0b111)


def test_answers_in_a_column_are_answers() -> None:
    assert utility(game(Answering("column")), 0b111) == utility(game(), 0b111)
