"""What a coalition's outcome depends on: the data of its members in their order, and the rules; not on anybody else."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from federations import QUICK, all_digits, digits, line, party
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from marks import first_fast
from torch import nn

from fedvalue.coalitions import members
from fedvalue.games import FederatedGame, Members
from fedvalue.games._members import translation
from fedvalue.learners.torch import TorchLearner
from fedvalue.outcome import Outcome, empty_rule
from fedvalue.scenarios import Scenario
from fedvalue.training import Training, canonical_masks

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = (37, 20, 64, 25, 18)
RULES = {
    "mlp": QUICK,
    "mlp-dropout": QUICK,
    "cnn": QUICK,
    "xgboost": Training(rounds=2),
    "least-squares": Training(rounds=1),
}
DATA: dict[str, Any] = {"xgboost": digits, "least-squares": line}
OPTIONS: dict[str, dict[str, Any]] = {}


@cache
def pool(model: str) -> Scenario:
    """Clients to choose from: five, a copy of the third, one without rows, and the first with fewer rows."""
    whole = DATA.get(model, digits)(SIZES)
    fewer = party(whole.clients[0], slice(0, 30))
    clients = (*whole.clients, whole.clients[2], party(whole.clients[0], slice(0, 0)), fewer)
    return replace(whole, clients=clients, names=tuple(f"client {i}" for i in range(len(clients))))


def chosen(model: str, places: tuple[int, ...], prefix: str = "") -> Scenario:
    whole = pool(model)
    clients = tuple(whole.clients[i] for i in places)
    return replace(whole, clients=clients, names=tuple(f"{prefix}{i}" for i in places))


@cache
def fresh(model: str, places: tuple[int, ...]) -> tuple[FederatedGame, dict[int, Outcome]]:
    """The game of some of them, and every coalition trained from scratch."""
    game = FederatedGame(chosen(model, places), model, RULES[model], device="cpu")
    return game, dict(game.evaluate(range(1 << game.n)))


def numbers(outcome: Outcome) -> tuple[Any, Any]:
    return dict(outcome.metrics), dict(outcome.rows)


def moved(model: str, before: tuple[int, ...], after: tuple[int, ...]) -> dict[int, Outcome]:
    """What a game takes over from another; each must be, bit by bit, what training it anew gives."""
    (old, outcomes), (new, trained) = fresh(model, before), fresh(model, after)
    theirs = old.members()
    assert theirs is not None
    translate = new.kin(old.id, theirs)
    if translate is None:
        return {}
    taken = {}
    for mask, outcome in outcomes.items():
        own = translate(mask)
        if own is not None:
            taken[own] = new.adopted(own, outcome)
            assert numbers(taken[own]) == numbers(trained[own]), (members(mask), members(own))
    return taken


class TestBitByBit:
    @pytest.mark.parametrize(
        "model", first_fast(["least-squares", "mlp", "xgboost", "mlp-dropout", "cnn"], keep=2)
    )
    def test_one_leaves_one_joins_one_adds_rows(self, model: str) -> None:
        taken = moved(model, (7, 1, 2, 3), (0, 1, 2, 4))  # 3 leaves, 4 joins, 7 becomes 0: more rows
        assert sorted(taken) == [0b0000, 0b0010, 0b0100, 0b0110]

    @pytest.mark.parametrize("model", first_fast(["least-squares", "mlp", "xgboost"], keep=2))
    def test_a_joiner_costs_the_coalitions_with_it(self, model: str) -> None:
        taken = moved(model, (0, 1, 2), (3, 0, 1, 2))
        assert sorted(taken) == [mask for mask in range(16) if not mask & 1]

    @pytest.mark.parametrize("model", first_fast(["least-squares", "xgboost", "mlp"]))
    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(data=st.data())
    def test_whoever_comes_and_goes_in_whatever_order(self, model: str, data: st.DataObject) -> None:
        lists = st.lists(st.sampled_from(range(8)), min_size=2, max_size=4, unique=True).filter(
            lambda places: any(i != 6 for i in places)
        )
        moved(model, tuple(data.draw(lists)), tuple(data.draw(lists)))

    def test_names_do_not_count(self) -> None:
        game = fresh("least-squares", (0, 1, 2))[0]
        renamed = FederatedGame(
            chosen("least-squares", (0, 1, 2), "hospital "), "least-squares", RULES["least-squares"]
        )
        assert renamed.id == game.id

    def test_who_stands_in_another_order_is_trained_again(self) -> None:
        """Sums of three in another order have other bits; of two they have the same, but nobody relies on that."""
        assert sorted(moved("mlp", (0, 1, 2), (2, 1, 0))) == [0b000, 0b001, 0b010, 0b100]
        assert sorted(moved("least-squares", (0, 1, 2), (1, 0, 2))) == [0, 0b001, 0b010, 0b100, 0b101, 0b110]

    def test_the_best_constant_answer_is_that_of_the_own_clients(self) -> None:
        rules = RULES["xgboost"]
        before, after = (
            FederatedGame(chosen("xgboost", places), "xgboost", rules, empty="majority", device="cpu")
            for places in ((0, 1), (1, 2, 3))
        )
        ((_, nobody),) = before.evaluate([0])
        ((_, trained),) = after.evaluate([0])
        assert any(empty_rule(name) == "majority" for name in nobody.metrics)
        adopted = after.adopted(0, nobody)
        assert numbers(adopted) == numbers(trained)
        assert adopted.metrics["loss|majority"] != nobody.metrics["loss|majority"]


def kin(before: FederatedGame, after: FederatedGame) -> bool:
    theirs = before.members()
    return theirs is not None and after.kin(before.id, theirs) is not None


class TestWhatAllHaveInCommon:
    def game(self, scenario: Scenario, **options: Any) -> FederatedGame:
        given = {"model": "linear", "training": QUICK, "device": "cpu", **options}
        return FederatedGame(scenario, **given)

    def test_another_metric_or_rule_for_nobody_is_the_same_training(self) -> None:
        one, other = chosen("mlp", (0, 1)), chosen("mlp", (1, 2))
        assert kin(self.game(one), self.game(other, metric="loss", empty="chance"))

    def test_other_rules_test_rows_or_scales_are_another(self) -> None:
        one, other = chosen("mlp", (0, 1)), chosen("mlp", (1, 2))
        game = self.game(other)
        assert kin(self.game(one), game)
        assert not kin(self.game(one, training=replace(QUICK, seed=4)), game)
        assert not kin(self.game(one, model="mlp"), game)
        test = party(one.test, slice(1, None))
        assert not kin(self.game(replace(one, test=test)), game)
        assert not kin(self.game(replace(one, test_parts={"a": np.arange(3)})), game)
        scaled = [replace(chosen("least-squares", p), target_scale=None) for p in ((0, 1), (1, 2))]
        rules = RULES["least-squares"]
        assert not kin(*(FederatedGame(s, "least-squares", rules) for s in scaled))

    def test_the_width_of_a_step_may_come_from_the_largest_client(self) -> None:
        """With batches of 64 and smaller clients, a larger one that joins makes every step wider."""
        wide = replace(QUICK, batch=64)
        small, large = chosen("mlp", (1, 3)), chosen("mlp", (1, 3, 2))
        assert not kin(self.game(small, training=wide), self.game(large, training=wide))
        assert kin(self.game(small), self.game(large))  # batches of 16: as wide either way
        four = replace(QUICK, accumulate=4)  # of 16
        assert not kin(self.game(small, training=four), self.game(large, training=four))
        every = replace(QUICK, algorithm="fedsgd")
        assert not kin(self.game(small, training=every), self.game(large, training=every))

    def test_all_clients_decide_how_far_weights_are_clipped(self) -> None:
        """Nobody's rows but the largest's, which joins; nobody's before or after; somebody's, to another cap after."""
        for share, few, many, same in (
            (0.4, (1, 3, 4), (1, 3, 4, 2), False),
            (0.46, (0, 1, 3), (0, 1, 3, 4), True),
            (0.36, (0, 1, 3), (0, 1, 3, 4), False),
        ):
            rules = replace(QUICK, weights="clipped", max_share=share)
            before, after = (self.game(chosen("mlp", places), training=rules) for places in (few, many))
            assert kin(before, after) == same, share
            together = (1 << len(few)) - 1
            one, other = (dict(game.evaluate([together]))[together] for game in (before, after))
            assert same or share > 0.36 or numbers(one) != numbers(other)
            assert not same or numbers(one) == numbers(other)
        equal = replace(QUICK, weights="equal")
        before, after = (self.game(chosen("mlp", p), training=equal) for p in ((1, 3, 4), (1, 3, 4, 2)))
        assert kin(before, after)
        assert numbers(dict(before.evaluate([7]))[7]) == numbers(dict(after.evaluate([7]))[7])

    def test_a_new_rule_or_part_of_a_scenario_has_to_be_looked_at(self) -> None:
        """Whoever adds one: does a training take anything by it from clients outside its coalition? Then it belongs into
        `members` of the game, or into `beyond` of the learner. Else add its name here."""
        rules = (
            "rounds epochs batch optimizer rate momentum algorithm mu seed weights max_share weight_decay optimizer_options "
            "schedule warmup decay decay_every clip accumulate class_weights precision"
        )
        assert {field.name for field in fields(Training)} == set(rules.split())
        scenario = (
            "name clients names test task classes vocabulary test_parts details target_scale report training"
        )
        assert {field.name for field in fields(Scenario)} == set(scenario.split())

    def test_a_model_that_looks_at_the_clients_is_another(self) -> None:
        one, other = chosen("mlp", (0, 1)), chosen("mlp", (0, 1, 2))

        def by_count(scenario: Scenario) -> nn.Module:
            return nn.Sequential(nn.Flatten(), nn.Linear(64, scenario.n), nn.Linear(scenario.n, 10))

        def plain(scenario: Scenario) -> nn.Module:
            return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

        assert not kin(self.game(one, model=by_count), self.game(other, model=by_count))
        assert kin(self.game(one, model=plain), self.game(other, model=plain))
        named = [TorchLearner(by_count, key="mine") for _ in range(2)]
        assert self.game(one, model=named[0]).members() is None
        assert not kin(self.game(one, model=plain), self.game(other, model=named[1]))

    def test_a_learner_that_promises_nothing_shares_nothing(self) -> None:
        class Own:
            averages = False

            def identity(self) -> dict[str, Any]:
                return {"model": "own"}

            def session(self, *given: Any) -> Any:
                return TorchLearner("linear").session(*given)

        assert self.game(chosen("mlp", (0, 1)), model=Own()).members() is None

    def test_an_id_that_does_not_fit_the_members_is_not_believed(self) -> None:
        before, after = self.game(chosen("mlp", (0, 1))), self.game(chosen("mlp", (1, 2)))
        theirs, others = before.members(), after.members()
        assert theirs is not None
        assert others is not None
        assert after.kin(before.id, theirs) is not None
        forged = replace(theirs, data=(theirs.data[0], others.data[1]))
        assert after.kin(before.id, forged) is None
        assert after.kin(before.id, replace(theirs, data=theirs.data[::-1])) is None
        assert after.kin(before.id, replace(theirs, beyond="")) is None


class TestTranslation:
    @settings(deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=6))
    def test_trained_data_is_that_of_the_trained_coalition(self, drawn: list[tuple[int, int]]) -> None:
        """Copies and clients without rows: as in trainings, which know them by their rows."""
        rows = all_digits()
        clients = [party(rows, slice(10 * kind, 10 * kind + 5 * here)) for kind, here in drawn]
        whole = Scenario(
            "s",
            (*clients, party(rows, slice(50, 70))),
            tuple("abcdefg"[: len(clients) + 1]),
            rows,
            "classification",
            10,
        )
        of = Members(tuple(c.fingerprint for c in whole.clients), tuple(map(len, whole.clients)), "")
        every = range(1 << whole.n)
        for mask, trained in canonical_masks(whole, list(every)).items():
            assert of.trained(mask) == tuple(whole.clients[i].fingerprint for i in members(trained))

    def test_it_is_the_way_back_too(self) -> None:
        one, other = Members(tuple("abcca"), (1,) * 5, ""), Members(tuple("bxca"), (1,) * 4, "")
        there, back = translation(one, other), translation(other, one)
        for mask in range(32):
            to = there(mask)
            assert to is None or back(to) == mask

    @pytest.mark.parametrize(
        "plain",
        [None, [], {}, {"data": ["a"], "rows": [1]}, {"data": "a", "rows": [1], "beyond": ""},
         {"data": ["a"], "rows": [1, 2], "beyond": ""}, {"data": [1], "rows": [1], "beyond": ""},
         {"data": ["a"], "rows": [True], "beyond": ""}, {"data": ["a"], "rows": ["1"], "beyond": ""}],
    )  # fmt: skip
    def test_what_is_no_list_of_members_is_none(self, plain: object) -> None:
        assert Members.from_plain(plain) is None

    def test_lists_of_members_come_back(self) -> None:
        of = Members(("a", "b"), (1, 0), "x")
        assert Members.from_plain(of.to_plain()) == of


def test_sums_of_statistics_do_not_depend_on_how_many_others_there_are() -> None:
    """Least squares adds up matrices: with other clients beside them, or in other company, to the same bits."""
    scenario = line((30, 20, 10, 8, 40, 12, 9))
    from fedvalue.learners.least_squares import LeastSquares

    whole = LeastSquares().session(scenario, Training(rounds=1), "cpu", None)
    few = replace(scenario, clients=scenario.clients[2:5], names=scenario.names[2:5])
    part = LeastSquares().session(few, Training(rounds=1), "cpu", None)
    rng = np.random.default_rng(0)
    for rows in (1, 2, 3, 7, 8, 9, 64):
        inner = rng.random((rows, 3)) < 0.5
        outer = np.zeros((rows, 7), bool)
        outer[:, 2:5] = inner
        for one, other in zip(part.models(inner), whole.models(outer), strict=True):
            assert np.array_equal(one, other)
    assert torch.get_num_threads() == 1
