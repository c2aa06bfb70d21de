"""Games that count a metric of one's own: what is trained, what is stored, and what an old store has to say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from federations import QUICK, CountingTrainer, digits, line, utilities
from numpy.typing import NDArray
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.coalitions import Trial
from fedvalue.errors import GameError, InputError, StoreError, UtilityError
from fedvalue.games import FederatedGame
from fedvalue.outcome import Outcome
from fedvalue.scenarios import Scenario
from fedvalue.training import Learner, Training

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = (30, 20, 10)
Array = NDArray[Any]


def top_two(logits: Array, labels: Array) -> float:
    """The share of rows whose class is among the two likeliest."""
    return float((np.argsort(logits, axis=1)[:, -2:] == labels[:, None]).any(1).mean())


def matthews(predicted: Array, labels: Array) -> float:
    return float(sk.matthews_corrcoef(labels, predicted))


def game(scenario: Scenario | None = None, **options: Any) -> FederatedGame:
    given = {"model": "linear", "training": QUICK, "trainer": CountingTrainer(), **options}
    return FederatedGame(scenario or digits(SMALL), **given)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store in which everything was trained by accuracy."""
    fv.value(game(), "exact", store=tmp_path / "store.db", noise=False)
    return tmp_path / "store.db"


def stored(path: Path, one: FederatedGame) -> dict[int, dict[str, float]]:
    with fv.UtilityStore(path) as opened:
        assert opened.verify() == []
        return {mask: dict(outcome.metrics) for mask, outcome in opened.read(one.id).items()}


class TestCounting:
    def test_a_function_a_metric_and_a_path_are_the_same(self) -> None:
        by_function = game(metric=top_two)
        by_object = game(metric=fv.Metric("top_two", top_two))
        found = utilities(by_function)
        assert found == pytest.approx(utilities(by_object), abs=0)
        assert (by_function.metric, by_function.stored_as) == ("top_two", by_object.stored_as)
        assert by_function.id == game().id  # trainings are the same, whatever counts

    @pytest.mark.slow
    def test_against_scikit_learn_and_the_built_in_metrics(self) -> None:
        one = game(metric=fv.Metric("mcc", matthews, takes="predictions"))
        same = game(metric=fv.Metric("acc", lambda said, y: sk.accuracy_score(y, said), takes="predictions"))
        assert utilities(same) == pytest.approx(utilities(game()), abs=1e-12)
        assert np.corrcoef(utilities(one)[1:], utilities(same)[1:])[0, 1] > 0.9

    def test_where_lower_is_better_the_negative_counts(self) -> None:
        errors = fv.Metric("errors", lambda said, y: float((said != y).sum()), False, takes="predictions")
        one = game(metric=errors)
        values = fv.value(one, "exact")
        assert values.utility_of_all == pytest.approx(utilities(game(metric="correct"))[-1] - 120)
        assert (values.metric, values.higher_is_better, values.unit) == ("errors", False, "errors")
        assert values.mean == pytest.approx(fv.value(game(metric="correct"), "exact").mean)

    def test_outcomes_hold_it_beside_the_others_and_for_every_part(self) -> None:
        one = game(digits(SMALL, parts=True), metric=top_two)
        metrics = dict(one.evaluate([5]))[5].metrics
        plain = dict(game(digits(SMALL, parts=True)).evaluate([5]))[5].metrics
        own = {one.stored_as, f"a/{one.stored_as}", f"b/{one.stored_as}"}
        assert metrics.keys() == plain.keys() | own
        assert {name: metrics[name] for name in plain} == plain
        whole = 45 * metrics[f"a/{one.stored_as}"] + 75 * metrics[f"b/{one.stored_as}"]
        assert whole == pytest.approx(120 * metrics[one.stored_as])

    def test_regressions_and_gradient_methods(self) -> None:
        slack = fv.Metric("slack", lambda said, y: float(np.median(np.abs(said - y))), higher_is_better=False)
        one = game(line(SMALL), metric=slack)
        results = fv.compare(one, ["exact", "or"])
        assert {values.metric for values in results.values()} == {"slack"}
        assert results["or"].utility_of_all == pytest.approx(results["exact"].utility_of_all, rel=1e-5)

    def test_replicates(self) -> None:
        values = fv.value(game(metric=top_two, replicates=2), "exact")
        assert values.noise is not None
        assert values.noise > 0

    def test_values_carry_the_name_under_which_it_is_stored(self, tmp_path: Path) -> None:
        one = game(metric=top_two)
        values = fv.value(one, "exact", store=tmp_path / "s.db")
        again = fv.Values.from_dict(json.loads(json.dumps(values.to_dict())))
        assert (again.metric, again.stored_as) == ("top_two", one.stored_as)
        assert "stored_as" not in fv.value(game(), "exact").to_dict()
        audit = fv.audit(again, store=tmp_path / "s.db")
        assert audit.coalitions == 8
        fv.report(again, tmp_path / "r.md", store=tmp_path / "s.db")
        assert "top\\_two" in (tmp_path / "r.md").read_text(encoding="utf-8")


class Watched(CountingTrainer):
    """Notes what it was asked to train, and may train something else."""

    def __init__(self, rate: float | None = None) -> None:
        super().__init__()
        self.asked: list[int] = []
        self.rate = rate

    def train_trials(
        self, scenario: Scenario, learner: Learner, training: Training, trials: Sequence[Trial], *claim: Any
    ) -> Iterator[tuple[Trial, Outcome]]:
        self.asked += [mask for mask, _ in trials]
        rules = training if self.rate is None else Training(**{**vars(training), "rate": self.rate})
        yield from super().train_trials(scenario, learner, rules, trials, *claim)


class TestHostile:
    @pytest.mark.parametrize(
        ("result", "said"),
        [
            (float("nan"), "must return a finite number. Got nan"),
            ((0.5, 0.5), "must return one number. Got (0.5, 0.5)"),
            (ValueError("empty"), "raised ValueError: empty"),
            (np.complex128(0.5 + 1j), "must return one number. Got np.complex128(0.5+1j)"),
            (torch.tensor(0.5 + 1j), "must return one number. Got tensor(0.5000+1.j)"),
        ],
        ids=["nan", "tuple", "raises", "complex", "complex tensor"],
    )
    def test_it_is_noticed_on_the_untrained_model(self, result: Any, said: str) -> None:
        def hostile(outputs: Array, labels: Array) -> Any:
            if isinstance(result, Exception):
                raise result
            return result

        trainer = Watched()
        with pytest.raises(UtilityError) as caught:
            list(game(metric=hostile, trainer=trainer).evaluate([1, 7]))
        assert f"The metric 'hostile' {said}" in str(caught.value)
        assert "untrained model" in str(caught.value)
        assert trainer.asked == [0]

    def test_one_model_on_which_it_fails_takes_no_other_with_it(self, tmp_path: Path) -> None:
        calls: list[int] = []

        def fails_once(logits: Array, labels: Array) -> float:
            calls.append(1)
            correct = int((logits.argmax(1) == labels).sum())
            if correct == worst:
                raise RuntimeError(f"{worst} are too few")
            return float(correct)

        table = utilities(game(metric="correct"))
        worst = int(table[3])
        assert list(table).count(worst) == 1
        one = game(metric=fv.Metric("fails_once", fails_once, key="test"))
        with pytest.raises(
            UtilityError, match=r"'fails_once' raised RuntimeError: .*client 0, client 1\)"
        ) as e:
            fv.value(one, "exact", store=tmp_path / "s.db")
        assert e.value.coalition == (0, 1)
        kept = stored(tmp_path / "s.db", one)
        assert sorted(kept) == [0, 1, 2, 4, 5, 6, 7]
        assert {mask: metrics[one.stored_as] for mask, metrics in kept.items()} == {
            mask: table[mask] if mask else metrics["correct"] for mask, metrics in kept.items()
        }

    def test_a_training_that_diverged_is_no_fault_of_the_metric(self) -> None:
        wild = Training(rounds=2, epochs=3, batch=16, rate=1e30, optimizer="sgd")
        with pytest.raises(UtilityError, match="diverged"):
            list(game(line(SMALL), training=wild, metric=lambda_free).evaluate([7]))

    def test_warming_up_does_not_call_it_on_a_few_rows(self) -> None:
        rows: set[int] = set()

        def counts(logits: Array, labels: Array) -> float:
            rows.add(len(labels))
            return 0.0

        scenario = digits((200, 150))
        metric = fv.Metric("counts", counts, key="test")
        given = {"metric": metric, "device": "cpu", "warm_up": True}
        list(FederatedGame(scenario, "linear", QUICK, **given).evaluate([3]))
        assert max(rows) == len(scenario.test)
        assert min(rows) >= len(scenario.test) * 15 // 16  # for the error that test rows leave


def lambda_free(predictions: Array, targets: Array) -> float:
    return float(np.abs(predictions - targets).mean())


class TestOldStores:
    def test_the_error_names_what_lacks_it(self, store: Path) -> None:
        trainer = Watched()
        with pytest.raises(InputError) as caught:
            fv.value(game(metric=top_two, trainer=trainer), "exact", store=store)
        said = str(caught.value)
        assert "7 trainings in the store lack the metric 'top_two'" in said
        assert "{client 0}, {client 1}, {client 0, client 1}, {client 2} and 3 more" in said
        assert "retrain=True (--retrain)" in said
        assert "accuracy" in said
        assert trainer.asked == []

    def test_the_store_serves_every_other_metric_as_before(self, store: Path) -> None:
        with fv.UtilityStore(store) as opened:
            before = list(opened.rows(game().id))
        with pytest.raises(InputError, match="lack"):
            fv.value(game(metric=top_two), "exact", store=store)
        with fv.UtilityStore(store) as opened:
            assert list(opened.rows(game().id)) == before
        trainer = Watched()
        fv.value(game(metric="auc", trainer=trainer), "exact", store=store, noise=False)
        assert trainer.asked == []

    def test_the_untrained_model_is_measured_for_free(self, tmp_path: Path) -> None:
        path = tmp_path / "s.db"
        plain, one = game(), game(metric=top_two, trainer=(trainer := Watched()))
        with fv.UtilityStore(path) as opened:
            opened.register(plain.id, plain.n)
            opened.append(plain.id, plain.evaluate([0]))
        values = fv.value(one, "exact", store=path)
        assert values.mean == pytest.approx(fv.value(game(metric=top_two), "exact").mean, abs=1e-12)
        assert stored(path, one)[0][one.empty_as] == values.utility_of_none
        assert one.stored_as in stored(path, one)[0]
        assert set(trainer.asked) == set(range(8))

    def test_coalitions_that_are_new_are_trained_with_it(self, tmp_path: Path) -> None:
        path = tmp_path / "s.db"
        fv.value(game(), "loo", store=path)  # everyone, and everyone but one
        with fv.UtilityStore(path) as opened:
            fresh = [mask for mask in range(1, 8) if mask not in opened.read(game().id)]

        def plan(n: int, budget: int, rng: np.random.Generator) -> Any:
            utilities = yield fresh
            return fv.Estimate(np.full(n, utilities.mean()))

        one = game(metric=top_two)
        values = fv.value(one, plan, budget=len(fresh), store=path)
        assert values.mean[0] == pytest.approx(utilities(one)[fresh].mean())
        assert values.utility_of_all is None  # is in the store, but not by this metric
        known = stored(path, one)
        assert all(one.stored_as in known[mask] for mask in fresh)
        assert one.stored_as not in known[7]

    def test_training_again_adds_the_metric_and_changes_nothing(self, store: Path) -> None:
        before = stored(store, game())
        trainer = Watched()
        one = game(metric=top_two, retrain=True, trainer=trainer)
        values = fv.value(one, "exact", store=store, noise=False)
        assert values.mean == pytest.approx(fv.value(game(metric=top_two), "exact").mean, abs=1e-12)
        assert values.cost is not None
        assert (values.cost.trained, values.cost.reused) == (8, 0)
        after = stored(store, one)
        assert {mask: metrics.pop(one.stored_as) for mask, metrics in after.items()}.keys() == before.keys()
        assert after[0].pop(one.empty_as) == values.utility_of_none
        assert after == before
        asked = len(trainer.asked)
        fv.value(game(metric=top_two, trainer=trainer), "exact", store=store, noise=False)  # now it is there
        assert len(trainer.asked) == asked

    def test_a_training_that_comes_out_differently_is_refused(self, store: Path) -> None:
        before = stored(store, game())
        other = game(metric=top_two, retrain=True, trainer=Watched(rate=0.02))
        with pytest.raises(StoreError, match=r"\{client 0\} came out differently .*accuracy .*, stored"):
            fv.value(other, "exact", store=store)
        after = stored(store, game())
        assert {mask: {n: m[n] for n in before[mask]} for mask, m in after.items()} == before
        assert all(other.stored_as not in metrics for mask, metrics in after.items() if mask)

    def test_two_functions_of_one_name_are_two_metrics(self, tmp_path: Path) -> None:
        path = tmp_path / "s.db"

        def first(logits: Array, labels: Array) -> float:
            return float((logits.argmax(1) == labels).mean())

        def second(logits: Array, labels: Array) -> float:
            return float((logits.argmax(1) == labels).sum())

        one, other = (fv.Metric("hits", function) for function in (first, second))
        shares = fv.value(game(metric=one), "exact", store=path)
        with pytest.raises(
            InputError, match=r"lack the metric 'hits': .* with another function of that name"
        ):
            fv.value(game(metric=other), "exact", store=path)
        counts = fv.value(game(metric=other, retrain=True), "exact", store=path)
        assert counts.mean == pytest.approx(120 * shares.mean)
        assert (counts.metric, shares.metric) == ("hits", "hits")
        assert fv.value(game(metric=one), "exact", store=path).mean == pytest.approx(shares.mean, abs=0)
        assert fv.audit(shares, store=path).coalitions == fv.audit(counts, store=path).coalitions == 8

    def test_what_the_surrogate_learns_from_has_the_metric(self, store: Path) -> None:
        values = fv.value(game(metric=top_two, retrain=True), "surrogate", budget=6, store=store)
        assert values.known_before == 0
        later = fv.value(game(metric=top_two), "surrogate", budget=6, store=store)
        assert later.mean == pytest.approx(values.mean)

    def test_gradient_methods_do_not_need_the_stored_training(self, store: Path) -> None:
        one = game(metric=top_two)
        values = fv.value(one, "or", store=store)
        assert values.utility_of_all == pytest.approx(utilities(one)[7])
        assert one.stored_as in stored(store, one)[7]  # the recorded run was a training of it

    def test_an_audit_looks_only_at_trainings_that_have_it(self, tmp_path: Path) -> None:
        path = tmp_path / "s.db"
        fv.value(game(), "loo", store=path)

        def plan(n: int, budget: int, rng: np.random.Generator) -> Any:
            yield [1, 2, 4]
            return fv.Estimate(np.zeros(n))

        values = fv.value(game(metric=top_two), plan, budget=3, store=path)
        assert fv.audit(values, store=path).coalitions == 3

    def test_a_metric_that_some_have_does_not_tell_models_apart(self, tmp_path: Path) -> None:
        """Two clients with the same data stay interchangeable, also where one training was measured by more."""
        twins = digits((20, 20), copy_of=0)
        path = tmp_path / "s.db"
        values = fv.value(game(twins), "exact", store=path)
        before = fv.audit(values, store=path)
        one = game(twins, metric=top_two)
        with fv.UtilityStore(path) as opened:
            opened.append(one.id, one.evaluate([1]))
        assert fv.audit(values, store=path) == before


class TestDoubts:
    def test_they_are_those_of_the_game(self) -> None:
        class Opaque:
            __slots__ = ()

        thing = Opaque()

        def refers(logits: Array, labels: Array) -> float:
            return float(bool(thing))

        metric = fv.Metric("refers", refers)
        one = game(metric=metric)
        assert one.doubts == metric.doubts
        assert game(metric=fv.Metric("refers", refers, key="v1")).doubts == ()

    def test_what_a_store_would_not_see_change_needs_a_key(self, tmp_path: Path) -> None:
        (tmp_path / "weights").write_text("2.0")

        def weighted(logits: Array, labels: Array) -> float:
            return float((tmp_path / "weights").read_text()) * float((logits.argmax(1) == labels).mean())

        without = fv.value(game(metric=weighted), "exact")
        with pytest.raises(GameError, match="Metric take both"):
            fv.value(game(metric=weighted), "exact", store=tmp_path / "s.db")
        keyed = fv.Metric("weighted", weighted, key="weights of May")
        assert (
            fv.value(game(metric=keyed), "exact", store=tmp_path / "s.db").mean.tolist()
            == without.mean.tolist()
        )


OWN = """
import numpy as np
import fedvalue as fv

def top_two(logits, labels):
    return (np.argsort(logits, axis=1)[:, -2:] == labels[:, None]).any(1).mean()

errors = fv.Metric("errors", lambda said, y: (said != y).mean(), higher_is_better=False, takes="predictions")
number = 0.5
"""


class TestJobs:
    ARGS = ("run", "--clients", "3", "--samples", "20", "--rounds", "1", "--epochs", "1", "--exact", "-q")

    @pytest.fixture
    def own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        """The name of a module with metrics, on the Python path."""
        name = f"own_metrics_{abs(hash(str(tmp_path))) % 10**8}"
        (tmp_path / f"{name}.py").write_text(OWN)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.chdir(tmp_path)
        return name

    def run(self, *args: str) -> Any:
        return CliRunner().invoke(app, [*self.ARGS, "--no-config", *args])

    @pytest.mark.slow
    def test_the_command_line(self, own: str) -> None:
        ran = self.run("--metric", f"{own}:top_two", "--out", "one")
        assert ran.exit_code == 0, ran.output
        values = json.loads(Path("one/values.json").read_text())
        assert values["metric"] == "top_two"
        assert values["stored_as"].startswith("top_two#")
        assert "top_two" in Path("one/report.html").read_text(encoding="utf-8")
        audited = CliRunner().invoke(app, ["audit", "one"])
        assert audited.exit_code == 0, audited.output
        ran = self.run("--metric", f"{own}:errors", "--json", "-")
        assert json.loads(ran.stdout)["higher_is_better"] is False

    @pytest.mark.slow
    def test_an_old_store_on_the_command_line(self, own: str) -> None:
        assert self.run("--store", "s.db").exit_code == 0
        for more in ((), ("--dry-run",)):
            refused = self.run("--store", "s.db", "--metric", f"{own}:top_two", *more)
            assert refused.exit_code == 2
            assert "7 trainings in the store lack the metric 'top_two'" in refused.stderr
        again = self.run("--store", "s.db", "--metric", f"{own}:top_two", "--retrain")
        assert again.exit_code == 0, again.output
        assert self.run("--store", "s.db", "--metric", f"{own}:top_two").stdout == again.stdout

    @pytest.mark.parametrize(
        ("metric", "said"),
        [("top_two", "Unknown metric 'top_two'"), ("{}:number", "must be a function"), ("{}:no", "imported")],
    )
    def test_mistakes(self, own: str, metric: str, said: str) -> None:
        refused = self.run("--metric", metric.format(own))
        assert refused.exit_code == 2
        assert said in refused.stderr

    @pytest.mark.slow
    def test_a_folder_belongs_to_one_function(self, tmp_path: Path) -> None:
        options: dict[str, Any] = {"clients": 3, "samples": 20, "rounds": 1, "epochs": 1, "method": "exact"}
        fv.run("digits", metric=fv.Metric("x", top_two), out=tmp_path / "o", **options)
        again = fv.run("digits", metric=fv.Metric("x", top_two), out=tmp_path / "o", **options)
        assert again.values.metric == "x"
        with pytest.raises(InputError, match="another run \\(it differs in metric\\)"):
            fv.run("digits", metric=fv.Metric("x", matthews), out=tmp_path / "o", **options)
