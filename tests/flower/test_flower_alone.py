"""Coalitions of one client in a Flower federation: one message for all rounds, and the same results as ever."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import digits, outcomes
from flower_fakes import (
    ALL,
    CLOSE,
    DIGITS,
    SIZES,
    FakeGrid,
    N,
    Received,
    changed,
    federation,
    held_out_parts,
    parties,
    trained_messages,
)
from flwr.app import Error, Message, RecordDict

from fedvalue.errors import FedvalueError, UnavailableError
from fedvalue.flower._roster import Roster
from fedvalue.flower._server import Task, value_federation
from fedvalue.flower._settings import Settings
from fedvalue.flower._trainer import FlowerTrainer
from fedvalue.flower._wire import CONFIG, EVALUATE, PROTOCOL, TRAIN
from fedvalue.learners import make_learner
from fedvalue.trainers import LocalTrainer
from fedvalue.training import Training

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

RULES = Training(rounds=3, epochs=1, batch=16, rate=0.01, seed=3)
ALONE, PAIR = 0b001, 0b110
MASKS = [0, 0b001, 0b010, 0b100, PAIR]  # what IPSS asks for with γ = 5: client 0 is in no pair


def alone(message: Message) -> bool:
    return message.metadata.message_type == TRAIN and bool(message.content[CONFIG]["alone"])


def sent_to(grid: FakeGrid) -> list[tuple[int, str]]:
    """Node and round of every training that was asked for."""
    return [(m.metadata.dst_node_id, m.metadata.group_id) for m in trained_messages(grid)]


def expected(masks: Iterable[int], rules: Training = RULES) -> dict[int, Any]:
    found = outcomes(LocalTrainer("cpu"), digits(SIZES), "mlp", rules, list(masks))
    return {mask: pytest.approx(metrics, **CLOSE) for mask, metrics in found.items()}


class TestMessages:
    def test_a_node_outside_of_larger_coalitions_gets_one_message(self) -> None:
        scenario, grid, trainer = federation()
        assert outcomes(trainer, scenario, "mlp", RULES, MASKS) == expected(MASKS)
        assert sorted(sent_to(grid)) == [(100, "1"), *((node, t) for node in (101, 102) for t in "123")]
        assert [m.metadata.dst_node_id for m in grid.sent if alone(m)] == [100]
        assert trainer.message_rounds == RULES.rounds
        assert trainer.messages == 1 + 2 * RULES.rounds

    def test_the_model_is_to_the_bit_that_of_round_after_round(self) -> None:
        scenario, _, together = federation()
        one = outcomes(together, scenario, "mlp", RULES, [ALONE])
        scenario, grid, trainer = federation(message_bytes=1)
        assert outcomes(trainer, scenario, "mlp", RULES, [ALONE]) == one
        assert sent_to(grid) == [(100, "1"), (100, "2"), (100, "3")]

    def test_all_alone_is_one_message_round_and_the_first_round_is_known_then(self) -> None:
        (scenario, grid, trainer), model = federation(), make_learner("mlp")
        assert outcomes(trainer, scenario, model, RULES, [1, 2, 4]) == expected([1, 2, 4])
        assert (trainer.message_rounds, trainer.messages) == (1, N)
        assert outcomes(trainer, scenario, model, RULES, [1, 2, 4]) == expected([1, 2, 4])
        assert trainer.messages == N  # known
        outcomes(trainer, scenario, model, RULES, [ALL])
        assert sorted(sent_to(grid)[N:]) == [(100 + i, t) for i in range(N) for t in "23"]

    @pytest.mark.parametrize(
        ("rounds", "models"), [(3, 1.5), (1, 100)], ids=["two models are too many", "one round"]
    )
    def test_nobody_goes_alone_where_it_cannot_or_need_not(self, rounds: int, models: float) -> None:
        rules = Training(rounds=rounds, epochs=1, batch=16)
        initial = make_learner("mlp").session(digits(SIZES), rules, "cpu", None).initial()
        one = sum(tensor.numpy().nbytes for tensor in initial.values())
        scenario, grid, trainer = federation(message_bytes=int(models * one))
        assert outcomes(trainer, scenario, "mlp", rules, [1, 2]) == expected([1, 2], rules)
        assert not any(alone(m) for m in grid.sent)
        assert (trainer.message_rounds, trainer.messages) == (rounds, 2 * rounds)

    def test_copies_are_one_training_and_clients_without_rows_none(self) -> None:
        scenario = digits((37, 20, 0), copy_of=1)
        grid, model = FakeGrid(parties(scenario)), make_learner("mlp")
        trainer = FlowerTrainer(grid)
        found = outcomes(trainer, scenario, model, RULES, [0b0010, 0b1000, 0b0100])
        assert sent_to(grid) == [(101, "1")]
        assert found[0b0010] == found[0b1000] != found[0b0100]
        outcomes(trainer, scenario, model, RULES, [0b1010])  # both of them: an average of two
        assert sorted(sent_to(grid)[1:]) == [(101, "2"), (101, "3"), (103, "1"), (103, "2"), (103, "3")]

    @pytest.mark.slow
    def test_small_memory_costs_waves_and_no_further_messages_to_the_lonely(self) -> None:
        scenario, grid, trainer = federation(memory=1)
        assert outcomes(trainer, scenario, "mlp", RULES, MASKS) == expected(MASKS)
        assert [node for node, _ in sent_to(grid)].count(100) == 1

    def test_a_recorded_run_asks_round_by_round(self) -> None:
        scenario, grid, trainer = federation()
        trainer.trace(scenario, make_learner("mlp"), RULES)
        assert len(trained_messages(grid)) == N * RULES.rounds
        assert not any(alone(m) for m in grid.sent)

    def test_a_client_app_of_another_release_is_told_apart_at_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("fedvalue.flower._client.PROTOCOL", 1)
        with pytest.raises(FedvalueError, match=f"speaks protocol 1 of fedvalue; the server sent {PROTOCOL}"):
            Roster.gather(FakeGrid(parties(digits(SIZES))), N, 0.5, DIGITS)


class Slow(FakeGrid):
    """Nodes that answer to a message for all rounds only when `ready` says so."""

    ready: Callable[[], bool] = staticmethod(lambda: True)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        lonely = {m.metadata.message_id for m in self.sent if alone(m)}
        return super().pull_messages([i for i in message_ids if i not in lonely or self.ready()])


class TestTime:
    def test_the_others_do_not_wait_and_are_told_first(self) -> None:
        scenario = digits(SIZES)
        grid = Slow(parties(scenario))
        told: list[int] = []
        grid.ready = lambda: PAIR in told
        trainer = FlowerTrainer(grid, deadline=5.0)
        for mask, _ in trainer.train(scenario, make_learner("mlp"), RULES, MASKS):
            told.append(mask)
        assert sorted(told) == sorted(MASKS)
        assert told[-1] == ALONE

    def test_a_deadline_for_every_round(self) -> None:
        scenario, grid, trainer = federation(deadline=0.2, patience=0.0)
        grid.twists[0] = lambda message, reply: None
        with pytest.raises(UnavailableError, match="client 0 did not answer within 1 s"):
            outcomes(trainer, scenario, "mlp", RULES, MASKS)
        lonely, other = (
            next(m for m in trained_messages(grid) if alone(m) is is_alone) for is_alone in (True, False)
        )
        assert lonely.metadata.ttl - other.metadata.ttl == pytest.approx(2 * 0.2)

    def test_nodes_measure_when_they_have_trained(self, tmp_path: Path) -> None:
        """Every message to a node waits for the one before: one that still trains would miss the deadline."""
        scenario = digits(SIZES)
        grid = Slow(parties(scenario, held_out_parts(scenario, (10, 40, 70))))
        asked: list[int] = []

        def ready() -> bool:
            """After the evaluation of the empty coalition no other one was asked for."""
            asked.append(sum(m.metadata.message_type == EVALUATE for m in grid.sent))
            return True

        grid.ready = ready
        rules = {"rounds": 3, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3, "out": str(tmp_path)}
        settings = Settings.from_config(
            {
                "clients": N,
                "method": "ipss",
                "budget": 5,
                "evaluate": "nodes",
                "share-all-models": True,
                "checkpoints": False,
                **rules,
            }
        )
        values = value_federation(grid, settings, Task("classification", 10))
        assert asked == [N]
        assert sum(alone(m) for m in grid.sent) == 1
        assert values.details["message_rounds"] == 3 + 3  # query, empty coalition, all others
        assert values.details["messages"] == len(grid.sent) == N + N + (1 + 2 * 3) + N


def _rows(change: Callable[[Any], Any]) -> Callable[[RecordDict], RecordDict]:
    return lambda reply: changed(reply, lambda arrays: {name: change(a) for name, a in arrays.items()})


def _not_finite(row: int) -> Callable[[Any], Any]:
    return lambda array: np.where((np.arange(2) == row).reshape(-1, *[1] * (array.ndim - 1)), np.nan, array)


FAULTS: dict[str, tuple[Callable[[RecordDict], RecordDict | Error], str]] = {
    "the first model only": (_rows(lambda a: a[:1]), "of shape"),
    "every round's model": (_rows(lambda a: np.repeat(a, 2, 0)[:3]), "of shape"),
    "first not finite": (_rows(lambda a: _not_finite(0)(a).astype(a.dtype)), "not finite"),
    "last not finite": (_rows(lambda a: _not_finite(1)(a).astype(a.dtype)), "not finite"),
    "crash in the middle": (lambda reply: Error(code=8, reason=""), "crashed"),
}


class TestFaults:
    @pytest.mark.parametrize(
        "how", [pytest.param(how, marks=pytest.mark.slow if i else ()) for i, how in enumerate(FAULTS)]
    )
    def test_a_bad_reply_costs_its_sender_alone(self, how: str) -> None:
        scenario, grid, trainer = federation(patience=0.0)
        change, says = FAULTS[how]
        grid.twists[0] = lambda message, reply: change(reply) if alone(message) else reply
        found: dict[int, Any] = {}
        trained = trainer.train(scenario, make_learner("mlp"), RULES, MASKS)
        with pytest.raises(UnavailableError, match=says) as caught:
            found.update((mask, dict(outcome.metrics)) for mask, outcome in trained)
        assert found == expected(set(MASKS) - {ALONE})
        assert list(caught.value.reasons) == [0]

    def test_a_node_that_comes_back_is_asked_again(self) -> None:
        scenario, grid, trainer = federation(patience=3.0)
        once = [Error(code=5, reason="gone")]
        grid.twists[0] = lambda message, reply: once.pop() if once and alone(message) else reply
        assert outcomes(trainer, scenario, "mlp", RULES, MASKS) == expected(MASKS)
        assert [m.metadata.dst_node_id for m in grid.sent if alone(m)] == [100, 100]

    def test_what_was_trained_is_kept_when_it_cannot_be_measured(self, tmp_path: Path) -> None:
        scenario = digits(SIZES)
        grid = FakeGrid(parties(scenario, held_out_parts(scenario, (10, 40, 70))))
        early = [Error(code=5, reason="gone")]
        grid.twists[1] = lambda message, reply: (
            early.pop() if early and message.metadata.message_type == EVALUATE else reply
        )
        config = {
            "clients": N,
            "method": "ipss",
            "budget": 4,
            "evaluate": "nodes",
            "share-all-models": True,
            "rounds": 3,
            "epochs": 1,
            "checkpoints": False,
        }
        settings = Settings.from_config({**config, "patience": 3.0, "out": str(tmp_path)})
        value_federation(grid, settings, Task("classification", 10))
        assert not early
        assert len(trained_messages(grid)) == N


@pytest.mark.parametrize(("method", "budget", "kept"), [("exact-cc", 8, True), ("ipss", 5, False)])
def test_models_of_one_client_alone_reach_nobody_else(
    method: str, budget: int, kept: bool, tmp_path: Path
) -> None:
    """With evaluation on the server, which is the default, also where a client trains all rounds by itself."""
    scenario = digits(SIZES)
    grid = FakeGrid(parties(scenario))
    models = Received(grid, N, stacked=True)
    config = {
        "clients": N,
        "method": method,
        "budget": budget,
        "rounds": 3,
        "epochs": 1,
        "checkpoints": kept,
        "out": str(tmp_path),
    }
    value_federation(grid, Settings.from_config(config), Task("classification", 10, scenario.test))
    assert all(len(models.alone[client]) >= 2 for client in range(N))
    assert [found for client in range(N) for found in models.receivers(client) if found != {client}] == []
    assert any(models.receivers(client) for client in range(N))
