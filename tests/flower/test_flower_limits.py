"""What one client may claim and send: noted, refused or clipped, and what that is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import QUICK, digits, outcomes
from flower_fakes import CLOSE, DIGITS, SIZES, FakeGrid, Twist, changed, federation, parties, told
from flwr.app import Message, RecordDict

import fedvalue as fv
from fedvalue.errors import FedvalueError, InputError, UnavailableError
from fedvalue.flower._limits import Limits
from fedvalue.flower._reports import remote_scenario
from fedvalue.flower._roster import Roster
from fedvalue.flower._settings import Settings
from fedvalue.flower._trainer import FlowerTrainer
from fedvalue.flower._valuation import Valuation
from fedvalue.flower._wire import ARRAYS, TRAIN
from fedvalue.games import FederatedGame
from fedvalue.learners import make_learner
from fedvalue.trainers import LocalTrainer
from fedvalue.training import Training

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")


def scaled(times: float, rounds: tuple[str, ...] = ("1", "2")) -> Twist:
    """Every update is so many times as long."""

    def twist(message: Message, reply: RecordDict) -> RecordDict:
        if message.metadata.message_type != TRAIN or message.metadata.group_id not in rounds:
            return reply
        start = {name: array.numpy() for name, array in message.content[ARRAYS].items()}
        return changed(
            reply, lambda a: {k: (start[k] + times * (v - start[k])).astype(v.dtype) for k, v in a.items()}
        )

    return twist


def trained(
    trainer: FlowerTrainer, masks: Any, rules: Training = QUICK
) -> tuple[dict[int, Any], Exception | None]:
    found: dict[int, Any] = {}
    try:
        for mask, outcome in trainer.train(digits(SIZES), make_learner("mlp"), rules, list(masks)):
            found[mask] = dict(outcome.metrics)
    except FedvalueError as error:
        return found, error
    return found, None


class TestUpdates:
    @pytest.mark.parametrize("rounds", [("1",), ("2",)])
    def test_one_a_thousand_times_as_long_is_refused_and_its_sender_named(
        self, rounds: tuple[str, ...]
    ) -> None:
        _, grid, trainer = federation(patience=0.0)
        grid.twists[1] = scaled(1000, rounds)
        found, error = trained(trainer, [1, 4, 5, 7])
        assert isinstance(error, UnavailableError)
        assert list(error.reasons) == [1]
        assert "times as long as the median of the others; at most 100 times are accepted" in error.reasons[1]
        assert found.keys() == {1, 4, 5}
        expected = outcomes(LocalTrainer("cpu"), digits(SIZES), "mlp", QUICK, [1, 4, 5])
        assert all(found[mask] == pytest.approx(expected[mask], **CLOSE) for mask in found)

    def test_a_client_that_trains_by_itself_is_watched_too(self) -> None:
        _, grid, trainer = federation(patience=0.0)
        grid.twists[1] = scaled(1000)
        _, error = trained(trainer, [1, 2, 4])
        assert isinstance(error, UnavailableError)
        assert list(error.reasons) == [1]

    def test_thirty_times_is_noted_and_accepted(self) -> None:
        _, grid, trainer = federation(patience=0.0)
        grid.twists[1] = scaled(30, ("1",))
        found, error = trained(trainer, [7])
        assert error is None
        assert found.keys() == {7}
        assert trainer.roster is not None
        assert any("client 1 sent an update" in said for said in trainer.roster.incidents)

    def test_where_it_was_agreed_nothing_is_refused_but_it_is_still_noted(self) -> None:
        _, grid, trainer = federation(patience=0.0, limits=Limits(update=0))
        grid.twists[1] = scaled(1000, ("1",))
        _, error = trained(trainer, [7])
        assert not isinstance(error, UnavailableError)
        assert trainer.roster is not None
        assert any("times as long as the median" in said for said in trainer.roster.incidents)

    def test_an_update_turned_round_is_noted(self) -> None:
        _, grid, trainer = federation(patience=0.0)
        grid.twists[1] = scaled(-1, ("1",))
        trained(trainer, [7])
        assert trainer.roster is not None
        assert any("client 1 sent an update that points against" in said for said in trainer.roster.incidents)

    def test_honest_clients_are_left_alone(self) -> None:
        _, _, trainer = federation(patience=0.0)
        _, error = trained(trainer, range(8))
        assert error is None
        assert trainer.roster is not None
        assert trainer.roster.incidents == []

    def test_whoever_trains_on_from_a_spoilt_model_is_not_blamed(self) -> None:
        """With no limit client 1 leads the common model astray; the others, who then take long steps, are not noted."""
        _, grid, trainer = federation(patience=0.0, limits=Limits(update=0))
        grid.twists[1] = scaled(60, ("1",))
        trained(trainer, [7])
        assert trainer.roster is not None
        assert [said for said in trainer.roster.incidents if "client 0" in said or "client 2" in said] == []


def with_claims(*sizes: int) -> FakeGrid:
    """Nodes that say that they have so many rows."""
    grid = FakeGrid(parties(digits(SIZES)))

    def claims(size: int) -> Callable[[Message, RecordDict], RecordDict]:
        return lambda message, reply: (
            told(reply, size=size) if message.metadata.message_type != TRAIN else reply
        )

    grid.twists |= {place: claims(size) for place, size in enumerate(sizes)}
    return grid


def opened(grid: FakeGrid, limits: Limits | None = None) -> FlowerTrainer:
    """A trainer that has looked at who claims what."""
    roster = Roster.gather(grid, len(SIZES), 1.0, DIGITS)
    trainer = FlowerTrainer(grid, roster, limits=limits, deadline=0.3, patience=0.0)
    test = digits(SIZES).test
    scenario = remote_scenario(roster.reports, test, "classification", 10)
    trainer._opened(scenario, make_learner("mlp"), QUICK)
    return trainer


class TestClaims:
    def test_nobody_has_so_many_rows(self) -> None:
        with pytest.raises(FedvalueError, match="1,000,000,000,000,000 rows, more than anybody has"):
            Roster.gather(with_claims(10**15, 20, 64), 3, 0.5, DIGITS)

    def test_far_more_than_the_others_is_refused(self) -> None:
        with pytest.raises(
            InputError, match=r"client 0 says that it has .* and at most 1000 times as many are accepted"
        ):
            opened(with_claims(10**9, 20, 64))

    def test_fifty_times_is_noted(self) -> None:
        roster = opened(with_claims(37 * 50, 20, 64)).roster
        assert roster is not None
        assert roster.incidents == ["client 0 says that it has 1,850 rows; the median of the others is 42"]

    def test_a_limit_can_be_agreed(self) -> None:
        with pytest.raises(InputError, match="at most 20 times"):
            opened(with_claims(37 * 50, 20, 64), Limits(claim=20))
        assert opened(with_claims(10**9, 20, 64), Limits(claim=0)).roster is not None

    @pytest.mark.parametrize("limit", [0.5, 1.0, -3.0])
    def test_limits_that_make_no_sense(self, limit: float) -> None:
        with pytest.raises(InputError, match="above 1, or 0 for no limit"):
            Limits(claim=limit)
        with pytest.raises(InputError, match="max-update"):
            Settings.from_config({"clients": 3, "max-update": limit})

    def test_they_are_settings_of_the_app(self) -> None:
        settings = Settings.from_config(
            {"clients": 3, "max-claim": 20, "max-update": 50, "weights": "clipped", "max-share": 0.4}
        )
        assert settings.limits == Limits(20.0, 50.0)
        assert (settings.training.weights, settings.training.max_share) == ("clipped", 0.4)


@pytest.mark.parametrize("weights", [{"weights": "equal"}, {"weights": "clipped", "max_share": 0.4}])
def test_weights_by_rule_are_the_same_as_in_one_process(weights: dict[str, Any]) -> None:
    rules = replace(QUICK, **weights)
    _, _, trainer = federation(patience=0.0)
    found, error = trained(trainer, [3, 7], rules)
    assert error is None
    expected = outcomes(LocalTrainer("cpu"), digits(SIZES), "mlp", rules, [3, 7])
    others = outcomes(LocalTrainer("cpu"), digits(SIZES), "mlp", QUICK, [7])
    for mask in (3, 7):
        assert found[mask] == pytest.approx(expected[mask], **CLOSE)
    assert found[7]["loss"] != pytest.approx(others[7]["loss"], rel=1e-4)


class TestGroups:
    GROUPS = "Holding=client 0, client 1; Other=client 2"

    def test_a_setting_says_who_belongs_together(self) -> None:
        settings = Settings.from_config({"clients": 3, "groups": self.GROUPS})
        assert settings.parties == {"Holding": ["client 0", "client 1"], "Other": ["client 2"]}
        assert Settings.from_config({"clients": 3}).parties is None
        with pytest.raises(InputError, match="cannot value clients in groups"):
            Settings.from_config({"clients": 3, "groups": self.GROUPS, "method": "ipss"})

    def test_values_are_those_of_one_process_and_of_those_who_are_there(self, tmp_path: Path) -> None:
        groups = Settings.from_config({"clients": 3, "groups": self.GROUPS}).parties
        scenario, grid, trainer = federation(patience=0.0)
        there = fv.value(FederatedGame(scenario, "mlp", QUICK), "exact", groups=groups, noise=False)
        assert trainer.roster is not None
        game = FederatedGame(scenario, "mlp", QUICK, trainer=trainer)
        valuation = Valuation(
            method="exact", budget=None, seed=0, missing="use-known", store=tmp_path / "s.db", out=tmp_path,
            evaluated_at="server", options={"noise": False}, groups=groups,
        )  # fmt: skip
        values = valuation.run(game, trainer.roster)
        assert values.mean == pytest.approx(there.mean, abs=1e-6)
        assert values.groups == there.groups
        del grid.parties[101]
        later = FlowerTrainer(grid, trainer.roster, deadline=0.3, patience=0.0)
        other = FederatedGame(scenario, "mlp", replace(QUICK, seed=5), trainer=later)
        rest = valuation.run(other, trainer.roster)
        assert rest.names == ("client 0", "client 2")
        assert rest.groups == {}  # of the holding one client is left
        assert list(rest.absent) == ["client 1"]
