"""What a Flower federation survives: nodes that are silent, gone, broken or hostile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from marks import first_fast

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import BRIEF, digits, outcomes, party
from flower_fakes import (
    CLOSE,
    DIGITS,
    SIZES,
    FakeGrid,
    N,
    changed,
    federation,
    parties,
    reports_of,
    rows_in,
    told,
    trained_messages,
)
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict

import fedvalue as fv
from fedvalue.errors import UnavailableError
from fedvalue.flower._client import Party
from fedvalue.flower._registered import Directory
from fedvalue.flower._roster import Roster
from fedvalue.flower._trainer import FlowerTrainer
from fedvalue.flower._valuation import value_of_those_who_answer
from fedvalue.flower._wire import (
    ARRAYS,
    CONFIG,
)
from fedvalue.games import FederatedGame
from fedvalue.learners import make_learner
from fedvalue.scenarios import Scenario
from fedvalue.store import UtilityStore
from fedvalue.trainers import LocalTrainer
from fedvalue.training import Training

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")


def _with_first(reply: RecordDict, array: Array) -> RecordDict:
    first = next(iter(reply[ARRAYS]))
    return RecordDict({**reply, ARRAYS: ArrayRecord({**reply[ARRAYS], first: array})})


def _lying_header() -> Array:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"
    header += b" " * (64 - (10 + len(header) + 1) % 64) + b"\n"
    return Array(
        "float32", (1, 64), "numpy.ndarray", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    )


def _objects() -> Array:
    import io

    file = io.BytesIO()
    np.save(file, np.array([print], dtype=object), allow_pickle=True)
    return Array("object", (1,), "numpy.ndarray", file.getvalue())


HOSTILE: dict[str, tuple[Callable[[RecordDict], RecordDict | Error | None], str]] = {
    "nan": (lambda r: changed(r, lambda a: {k: v * np.nan for k, v in a.items()}), "not finite"),
    "infinite": (lambda r: changed(r, lambda a: {k: v * 0 + np.inf for k, v in a.items()}), "not finite"),
    "shapes": (lambda r: changed(r, lambda a: {k: v[..., :1] for k, v in a.items()}), "of shape"),
    "rows": (lambda r: changed(r, lambda a: {k: v[:0] for k, v in a.items()}), "of shape"),
    "types": (lambda r: changed(r, lambda a: {k: v.astype("f8") for k, v in a.items()}), "type float64"),
    "a key less": (
        lambda r: changed(r, lambda a: dict(list(a.items())[1:])),
        "other arrays than those asked",
    ),
    "a key more": (
        lambda r: changed(r, lambda a: {**a, "more": np.ones(3)}),
        "other arrays than those asked",
    ),
    "stale": (lambda r: told(r, round=99), "a stale reply, of round 99"),
    "another game": (lambda r: told(r, game="0" * 16), "answered for another game"),
    "no round": (lambda r: told(r, round="two"), "sent no number 'round'"),
    "no settings": (lambda r: RecordDict({ARRAYS: r[ARRAYS]}), "sent no record 'config'"),
    "no arrays": (lambda r: RecordDict({CONFIG: r[CONFIG]}), "sent no record 'arrays'"),
    "other record": (lambda r: RecordDict({**r, ARRAYS: ConfigRecord()}), "sent no record 'arrays'"),
    "garbage": (lambda r: _with_first(r, Array("f", (1,), "numpy.ndarray", b"??")), "cannot be read"),
    "pickle": (lambda r: _with_first(r, _objects()), "type object"),
    "another form": (lambda r: _with_first(r, Array("f", (1,), "pickle", b"c")), "unknown form 'pickle'"),
    "huge header": (lambda r: _with_first(r, _lying_header()), "of shape"),
    "error": (lambda r: Error(code=2, reason="no disk"), "raised an error: no disk"),
    "crash": (lambda r: Error(code=8, reason=""), "crashed"),
    "silence": (lambda r: None, "did not answer within"),
}


class TestFaults:
    @pytest.mark.parametrize(
        "how",
        first_fast(
            [pytest.param(how, marks=pytest.mark.slow if i % 3 else ()) for i, how in enumerate(HOSTILE)],
            keep=3,
        ),
    )
    def test_a_bad_reply_is_rejected_and_named_and_the_run_survives(self, how: str) -> None:
        """From round 2 on client 1 sends something else; coalitions without it are as if nothing happened."""
        scenario, grid, trainer = federation(patience=0.0)
        change, says = HOSTILE[how]
        grid.twists[1] = lambda message, reply: (
            change(reply) if message.metadata.message_type == "train.fedvalue" and message.metadata.group_id == "2"
            else reply
        )  # fmt: skip
        found: dict[int, Any] = {}
        trained = trainer.train(scenario, make_learner("mlp"), BRIEF, range(8))
        with pytest.raises(UnavailableError, match=says) as caught:
            found.update((mask, dict(outcome.metrics)) for mask, outcome in trained)
        assert found.keys() == {0, 1, 4, 5}
        assert list(caught.value.reasons) == [1]
        assert "client 1 " in str(caught.value)
        assert "4 coalitions could not be trained" in str(caught.value)
        expected = outcomes(LocalTrainer("cpu"), scenario, "mlp", BRIEF, [1, 4, 5])
        for mask in (1, 4, 5):
            assert found[mask] == pytest.approx(expected[mask], **CLOSE)

    def test_what_finished_is_stored_and_nothing_is_trained_twice(self, tmp_path: Path) -> None:
        scenario, grid, trainer = federation(patience=0.0)
        game = FederatedGame(scenario, "mlp", BRIEF, trainer=trainer)
        del grid.parties[101]  # gone after it was asked who it is
        trainer.roster = Roster(Directory(grid), [100, 101, 102], reports_of(scenario), DIGITS)
        with UtilityStore(tmp_path / "s.db") as store:
            with pytest.raises(UnavailableError, match="client 1 is not there"):
                fv.value(game, "exact", store=store, noise=False)
            assert set(store.read(game.id)) == {0, 1, 4, 5}
            before = len(grid.sent)
            grid.parties[101] = parties(scenario)[1]
            values = fv.value(game, "exact", store=store, noise=False)
        later = grid.sent[before:]
        assert [m.metadata.dst_node_id for m in later if m.metadata.group_id == "1"] == [101]
        # In round 2 the others train only what is part of a coalition with client 1.
        assert sorted(rows_in(m) for m in later if m.metadata.group_id == "2") == [2, 2, 4]
        assert values.mean == pytest.approx(
            fv.value(FederatedGame(scenario, "mlp", BRIEF), "exact", noise=False).mean, abs=1e-6
        )

    def test_a_node_that_returns_under_another_id_is_recognised(self) -> None:
        scenario, grid, trainer = federation(patience=3.0)
        rules = Training(rounds=3, epochs=1, batch=32)

        def dies(message: Message, reply: RecordDict) -> RecordDict | Error:
            if message.metadata.group_id == "2":
                grid.parties[555] = grid.parties.pop(101)
                del grid.twists[1]
                return Error(code=5, reason="gone")
            return reply

        grid.twists[1] = dies
        told: list[str] = []
        assert trainer.roster is not None
        trainer.roster.log = told.append
        found = outcomes(trainer, scenario, "mlp", rules, range(8))
        expected = outcomes(LocalTrainer("cpu"), scenario, "mlp", rules, range(8))
        assert found == {mask: pytest.approx(metrics, **CLOSE) for mask, metrics in expected.items()}
        assert any("client 1 answers again" in text for text in told)
        # Its first round and what the others did in rounds 1 and 2 is remembered.
        assert [m.metadata.dst_node_id for m in trained_messages(grid, 1)] == [100, 101, 102]
        assert [m.metadata.dst_node_id for m in trained_messages(grid, 2)] == [100, 101, 102, 555]

    def test_a_node_that_returns_with_other_data_is_not_taken_back(self) -> None:
        scenario, grid, trainer = federation(patience=0.4)
        trainer.roster = Roster(Directory(grid), [100, 101, 102], reports_of(scenario), DIGITS)
        grid.parties[555] = Party(party(scenario.test, slice(20)), None, "client 1", 1)
        del grid.parties[101]
        with pytest.raises(UnavailableError, match="is not there"):
            outcomes(trainer, scenario, "mlp", BRIEF, [2])
        assert [m.metadata.message_type for m in grid.sent if m.metadata.dst_node_id == 555] == [
            "query.fedvalue"
        ]

    def test_waiting_ends_at_the_deadline(self, waits_cost_nothing: SimpleNamespace) -> None:
        scenario, grid, trainer = federation(deadline=0.2, patience=0.2)
        trainer.roster = Roster(Directory(grid), [100, 101, 102], reports_of(scenario), DIGITS)
        grid.twists = {i: lambda message, reply: None for i in range(N)}
        began = waits_cost_nothing.monotonic()
        with pytest.raises(UnavailableError, match=r"client 0 .*client 1 .*client 2"):
            outcomes(trainer, scenario, "mlp", BRIEF, [7])
        assert waits_cost_nothing.monotonic() - began < 5

    def test_a_node_whose_data_changed_refuses(self) -> None:
        scenario, grid, trainer = federation(patience=0.0)
        trainer.roster = Roster(Directory(grid), [100, 101, 102], reports_of(scenario), DIGITS)
        grid.parties[102] = Party(party(scenario.test, slice(64)), None, "client 2", 2)
        with pytest.raises(UnavailableError, match="is not what it was when the valuation began"):
            outcomes(trainer, scenario, "mlp", BRIEF, [4])

    def test_a_node_with_another_model_refuses(self) -> None:
        scenario = digits(SIZES)
        trainer = FlowerTrainer(FakeGrid(parties(scenario), "linear"), patience=0.2)
        with pytest.raises(UnavailableError, match="another model than this node has agreed to"):
            outcomes(trainer, scenario, "mlp", BRIEF, [1])

    @pytest.mark.slow
    def test_a_recorded_run_waits_for_the_lost(self) -> None:
        scenario, grid, trainer = federation(patience=1.0)
        once = [Error(code=8, reason="")]
        grid.twists[0] = lambda message, reply: (
            once.pop() if once and message.metadata.group_id == "2" else reply
        )
        assert trainer.trace(scenario, make_learner("mlp"), BRIEF).clients == (0, 1, 2)
        grid.twists[0] = lambda message, reply: None
        with pytest.raises(UnavailableError, match="1 coalition could not be trained: client 0"):
            trainer.trace(scenario, make_learner("mlp"), Training(rounds=1))

    @pytest.mark.parametrize("factor", first_fast([-1.0, 30.0]))
    def test_a_manipulated_update_lowers_the_value_of_its_sender(self, factor: float) -> None:
        """It is a well-formed reply and is averaged; the valuation is what shows it."""
        scenario = digits((60, 60, 60))
        grid = FakeGrid(parties(scenario))
        rules = Training(rounds=2, epochs=3, batch=16, rate=0.01)
        honest = fv.value(FederatedGame(scenario, "mlp", rules), "exact").mean

        def twisted(message: Message, reply: RecordDict) -> RecordDict:
            if message.metadata.message_type != "train.fedvalue":
                return reply
            sent = {name: array.numpy() for name, array in message.content[ARRAYS].items()}
            return changed(
                reply, lambda a: {k: sent[k] + np.float32(factor) * (v - sent[k]) for k, v in a.items()}
            )

        grid.twists[2] = twisted
        values = fv.value(FederatedGame(scenario, "mlp", rules, trainer=FlowerTrainer(grid)), "exact").mean
        assert values[2] < honest[2] - 0.1
        assert values[2] == min(values)


class TestThoseWhoAnswer:
    # 3 coalitions with 4 seeds each, or 4 with 2 replicates, ∅ among them.
    @pytest.mark.parametrize(("replicates", "trainings"), first_fast([(1, 12), (2, 8)]))
    def test_values_of_the_rest_are_those_of_their_own_game(
        self, tmp_path: Path, replicates: int, trainings: int
    ) -> None:
        scenario, grid, trainer = federation(patience=0.0)
        game = FederatedGame(scenario, "mlp", BRIEF, trainer=trainer, replicates=replicates)
        trainer.roster = Roster(Directory(grid), [100, 101, 102], reports_of(scenario), DIGITS)
        del grid.parties[101]
        with UtilityStore(tmp_path / "s.db") as store:
            with pytest.raises(UnavailableError) as caught:
                fv.value(game, "exact", store=store)
            values = value_of_those_who_answer(game, caught.value, "exact", None, 0, store)
            again = value_of_those_who_answer(game, caught.value, "exact", None, 0, store)
        assert "4 coalitions could not be trained" in str(caught.value)  # with whatever seeds
        assert values.names == ("client 0", "client 2")
        assert (values.clients, values.game_id) == ((0, 2), game.id)  # where the store has their trainings
        assert list(values.absent) == ["client 1"]
        assert "is not there" in values.absent["client 1"]
        assert values.cost is not None
        assert again.cost is not None
        assert values.cost.trained + values.cost.reused == trainings
        assert values.cost.trained >= 0
        assert (again.cost.trained, again.cost.reused) == (0, trainings)
        two = digits(SIZES)
        alone = Scenario("two", (two.clients[0], two.clients[2]), ("a", "b"), two.test, two.task, two.classes)
        expected = fv.value(FederatedGame(alone, "mlp", BRIEF, replicates=replicates), "exact")
        assert values.mean == pytest.approx(expected.mean, abs=1e-6)

    def test_further_losses_are_left_out_too_and_nobody_left_is_an_error(self, tmp_path: Path) -> None:
        scenario, grid, trainer = federation(patience=0.0)
        trainer.roster = Roster(Directory(grid), [100, 101, 102], reports_of(scenario), DIGITS)
        game = FederatedGame(scenario, "mlp", BRIEF, trainer=trainer)
        del grid.parties[102]
        first = UnavailableError("lost", (1,), {1: "is not there"})
        with UtilityStore(tmp_path / "s.db") as store:
            store.register(game.id, 3)
            values = value_of_those_who_answer(game, first, "exact", None, 0, store)
            assert values.names == ("client 0",)
            grid.parties.clear()
            with pytest.raises(UnavailableError):
                value_of_those_who_answer(
                    FederatedGame(scenario, "mlp", Training(rounds=1), trainer=trainer),
                    first,
                    "exact",
                    None,
                    0,
                    store,
                )
