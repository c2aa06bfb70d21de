"""Who is blamed for what in a Flower federation, and what a node's errors and reports may do to others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import BRIEF, digits, outcomes
from flower_fakes import (
    CLOSE,
    DIGITS,
    SIZES,
    FakeGrid,
    Twist,
    changed,
    federation,
    parties,
    remote,
    reports_of,
    told,
    trained_messages,
)
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict

from fedvalue.errors import FedvalueError, InputError, UnavailableError, UtilityError
from fedvalue.flower._client import Party, client_app
from fedvalue.flower._forms import Form
from fedvalue.flower._limits import Limits
from fedvalue.flower._messages import Exchange, Question
from fedvalue.flower._registered import Directory
from fedvalue.flower._reports import kind_of, remote_scenario
from fedvalue.flower._roster import Roster
from fedvalue.flower._settings import Settings
from fedvalue.flower._trainer import FlowerTrainer
from fedvalue.flower._wire import CONFIG, PROTOCOL, QUERY, TRAIN
from fedvalue.learners import make_learner
from fedvalue.scenarios import Dataset
from fedvalue.trainers import LocalTrainer

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")


def _scaled(number: float) -> Twist:
    """Every parameter is this number."""

    def twist(message: Message, reply: RecordDict) -> RecordDict:
        if message.metadata.message_type != TRAIN:
            return reply
        return changed(reply, lambda arrays: {k: np.full_like(v, number) for k, v in arrays.items()})

    return twist


def _finished(trainer: FlowerTrainer, masks: Iterable[int]) -> tuple[dict[int, Any], UtilityError]:
    found: dict[int, Any] = {}
    trained = trainer.train(digits(SIZES), make_learner("mlp"), BRIEF, list(masks))
    with pytest.raises(UtilityError) as caught:
        found.update((mask, dict(outcome.metrics)) for mask, outcome in trained)
    return found, caught.value


class TestBlame:
    def test_numbers_that_nobody_can_train_on_are_their_senders_fault(self) -> None:
        """3e38 is finite; trained on, it becomes NaN at the other clients."""
        _, grid, trainer = federation(patience=0.0)
        grid.twists[2] = _scaled(3e38)
        found, error = _finished(trainer, range(8))
        assert isinstance(error, UnavailableError)
        assert list(error.reasons) == [2]
        assert found.keys() == {0, 1, 2, 3}

    def test_models_that_diverge_at_a_client_do_not_take_its_others_along(self) -> None:
        """Client 2 sends what diverges elsewhere: coalitions without it are finished, nobody else is missing."""
        scenario, grid, trainer = federation(patience=0.0, limits=Limits(update=0))
        said: list[str] = []
        assert trainer.roster is not None
        trainer.roster.log = said.append
        grid.twists[2] = _scaled(1e17)
        found, error = _finished(trainer, range(8))
        assert not isinstance(error, UnavailableError)
        assert "3 coalitions diverged: at client 0, client 1 " in str(error)
        assert "All of them have client 2." in str(error)
        assert any("client 0 sent numbers that are not finite in 2 of 4 models" in text for text in said)
        assert {1, 2, 3} <= found.keys()
        expected = outcomes(LocalTrainer("cpu"), scenario, "mlp", BRIEF, [1, 2, 3])
        assert {mask: found[mask] for mask in (1, 2, 3)} == {
            mask: pytest.approx(metrics, **CLOSE) for mask, metrics in expected.items()
        }
        assert len(trained_messages(grid, 2)) == 3  # what diverged once would again: nothing is repeated

    @pytest.mark.slow
    def test_a_silent_client_is_waited_for_once_and_not_in_every_wave(
        self, waits_cost_nothing: SimpleNamespace
    ) -> None:
        _, grid, trainer = federation(memory=1, deadline=0.5, patience=0.0)
        grid.twists[1] = lambda message, reply: None if message.metadata.group_id == "2" else reply
        began = waits_cost_nothing.monotonic()
        found, _ = _finished(trainer, range(8))
        assert found.keys() == {0, 1, 4, 5}
        assert [m.metadata.dst_node_id for m in trained_messages(grid, 2)].count(101) == 1
        assert waits_cost_nothing.monotonic() - began < 4

    def test_the_odd_shape_out_is_named(self) -> None:
        reports = reports_of(digits(SIZES))
        held = [replace(report, held_out=5, held_out_fingerprint="0" * 64) for report in reports]
        odd = replace(held[0], form=Form("float32 99999999", "int64"))
        with pytest.raises(InputError, match="client 0 reports"):
            remote_scenario([odd, *held[1:]], None, "classification", 10)

    def test_a_size_that_is_no_size(self) -> None:
        grid = FakeGrid(parties(digits(SIZES)))
        grid.twists[0] = lambda message, reply: told(reply, size=1e300)
        with pytest.raises(FedvalueError, match=r"node-100 sent size=1e\+300"):
            Roster.gather(grid, 3, 0.5, DIGITS)

    def test_a_reply_that_flower_cannot_read(self) -> None:
        """Its grid raises for all replies together; the others are read one by one."""

        class Fragile(FakeGrid):
            def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
                found = list(super().pull_messages(message_ids))
                if any(m.metadata.src_node_id == 101 for m in found) or "m1" in message_ids:
                    self.waiting |= {m.metadata.reply_to_message_id: m for m in found}
                    raise ValueError("no message")
                return found

        grid = Fragile(parties(digits(SIZES)))
        told = {"protocol": PROTOCOL, "task": "classification", "classes": 10, "vocabulary": 0}
        content = RecordDict({CONFIG: ConfigRecord(told)})
        requests = [Question(node, QUERY, content, "q") for node in (100, 101, 102)]
        answers = Exchange(grid, requests, 1.0).answers()
        assert [isinstance(answer, RecordDict) for answer in answers] == [True, False, True]
        assert getattr(answers[1], "reason", "") == "sent a reply that cannot be read"

    def test_what_a_node_says_stays_one_line(self) -> None:
        _, grid, trainer = federation(patience=0.0)
        grid.twists[1] = lambda message, reply: Error(code=2, reason="no\nround 9: client 0 cheats\x1b[2J")
        _, error = _finished(trainer, [2])
        assert "no round 9" in str(error)
        assert str(error).isprintable()


class TestReturn:
    @pytest.mark.slow
    def test_a_node_that_returns_under_its_own_id(self) -> None:
        """With authentication ids are kept; a question that came too early is asked again."""
        scenario, grid, trainer = federation(patience=6.0)
        trainer.roster = Roster(Directory(grid), [100, 101, 102], reports_of(scenario), DIGITS)
        early = [
            Error(code=5, reason="gone"),
            Error(code=5, reason="gone"),
        ]  # the training, and the first query
        grid.twists[1] = lambda message, reply: early.pop() if early else reply
        assert outcomes(trainer, scenario, "mlp", BRIEF, [2]).keys() == {2}
        queries = [m for m in grid.sent if m.metadata.message_type == QUERY and m.metadata.dst_node_id == 101]
        assert len(queries) == 3  # at the start, too early, and again


class TestOwnData:
    def test_numbers_of_other_types_have_the_fingerprint_of_the_scenario(self) -> None:
        """Pixels as bytes and labels as floats, as files often have them: the same game as with float32."""
        scenario = digits(SIZES)
        given = [
            Party(Dataset(np.rint(c.x * 16).astype(np.uint8), c.y.astype(np.float64)), None, "", i)
            for i, c in enumerate(scenario.clients)
        ]
        grid = FakeGrid(given)
        roster = Roster.gather(grid, 3, 5.0, kind_of(scenario))
        seen = remote_scenario(roster.reports, scenario.test, scenario.task, scenario.classes)
        rounded = [Dataset(np.rint(c.x * 16).astype(np.float32), c.y) for c in scenario.clients]
        assert [report.fingerprint for report in roster.reports] == [data.fingerprint for data in rounded]
        assert outcomes(FlowerTrainer(grid, roster, patience=0.0), seen, "mlp", BRIEF, [7]).keys() == {7}

    @pytest.mark.parametrize("kind", [QUERY, TRAIN])
    def test_an_error_does_not_quote_rows(self, kind: str) -> None:
        """Flower sends an exception's text to the server; ours names the bad row, with its numbers."""
        scenario = digits(SIZES)
        seen, roster = remote(scenario, grid := FakeGrid(parties(scenario)))
        x = scenario.clients[0].x.copy()
        x[3].flat[:2] = 0.12345, np.nan
        app = client_app(lambda context: Party(Dataset(x, scenario.clients[0].y), position=0), "mlp")
        list(FlowerTrainer(grid, roster).train(seen, make_learner("mlp"), BRIEF, [1]))
        message = next(m for m in grid.sent if m.metadata.message_type == TRAIN)
        if kind == QUERY:
            told = {"protocol": PROTOCOL, "task": scenario.task, "classes": 10, "vocabulary": 0}
            message = Message(RecordDict({CONFIG: ConfigRecord(told)}), 100, QUERY)
        with pytest.raises(FedvalueError, match="ScenarioError; the log of this node says more") as caught:
            app(message, Context(1, 100, {}, RecordDict(), {"model": "mlp"}))
        assert "0.123" not in str(caught.value)
        assert caught.value.__suppress_context__

    def test_a_path_is_not_quoted_either(self) -> None:
        def load(context: Context) -> Party:
            raise FileNotFoundError("/home/doctor/secret.npz")

        message = Message(RecordDict({CONFIG: ConfigRecord({"protocol": PROTOCOL})}), 100, QUERY)
        with pytest.raises(FedvalueError, match=r"^FileNotFoundError; the log"):
            client_app(load, "mlp")(message, Context(1, 100, {}, RecordDict(), {}))


class TestUse:
    def test_half_a_megabyte_is_a_bound(self) -> None:
        assert Settings.from_config({"clients": 2, "message-mb": 0.5}).message_mb == 0.5

    def test_a_model_that_is_not_finite_is_refused_at_once(self) -> None:
        from torch import nn

        def factory(scenario: Any) -> nn.Module:
            layer = nn.Linear(64, 10)
            nn.init.constant_(layer.weight, float("inf"))
            return nn.Sequential(nn.Flatten(), layer)

        trainer = FlowerTrainer(FakeGrid(parties(digits(SIZES)), factory), patience=1.0)
        with pytest.raises(InputError, match="initial model has numbers that are not finite"):
            outcomes(trainer, digits(SIZES), factory, BRIEF, [1])
