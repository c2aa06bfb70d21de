"""The Flower trainer in one process: nodes of a few lines that answer with our own client code, or do not.

What every trainer must do is checked in test_trainers.py; real processes are in test_flower_processes.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import QUICK, digits, outcomes
from flower_fakes import (
    ALL,
    CLOSE,
    DIGITS,
    SIZES,
    FakeGrid,
    N,
    federation,
    parties,
    remote,
    reports_of,
    rows_in,
    told,
    trained_messages,
)
from flwr.app import Array, ArrayRecord, Message, RecordDict
from torch import nn

import fedvalue as fv
from fedvalue.coalitions import members
from fedvalue.errors import FedvalueError, InputError
from fedvalue.flower._forms import Form
from fedvalue.flower._reports import ClientReport, in_order, remote_scenario
from fedvalue.flower._roster import Roster
from fedvalue.flower._trainer import FlowerTrainer
from fedvalue.flower._wire import (
    ARRAYS,
    CONFIG,
    METRICS,
    WireError,
    from_record,
    shapes_of,
    to_record,
)
from fedvalue.games import FederatedGame
from fedvalue.learners import make_learner
from fedvalue.learners.torch import TorchLearner
from fedvalue.scenarios import Scale, Scenario
from fedvalue.store import UtilityStore
from fedvalue.trainers import LocalTrainer, make_trainer
from fedvalue.training import Training

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

# What the server may learn of a node besides models.
FROM_NODES = {"size", "fingerprint", "form", "position", "name", "held-out", "held-out-fingerprint"}
FROM_NODES |= {"protocol", "game", "round", "rows", "num-examples"}

EIGHT = Form("float32 8", "int64")


def with_batch_norm(scenario: Scenario) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8, bias=False), nn.BatchNorm1d(8), nn.Linear(8, 10))


class TestSameResults:
    def test_buffers_travel_with_the_parameters(self) -> None:
        """Running statistics and numbers of batches come back from the nodes and are averaged on the server."""
        scenario = digits(SIZES)
        learner = TorchLearner(with_batch_norm)
        grid = FakeGrid(parties(scenario), learner)
        seen, roster = remote(scenario, grid)
        game = FederatedGame(seen, learner, QUICK, metric="loss", trainer=FlowerTrainer(grid, roster))
        local = FederatedGame(scenario, learner, QUICK, metric="loss")
        masks = [3, 7, 15]
        found, expected = (dict(game.evaluate(masks)) for game in (game, local))
        for mask in masks:
            assert found[mask].metrics["loss"] == pytest.approx(expected[mask].metrics["loss"], abs=1e-5)
        arrays = trained_messages(grid)[-1].content[ARRAYS]
        assert {"2.running_mean", "2.running_var", "2.num_batches_tracked"} < set(arrays)

    def test_utilities_values_and_identity_are_those_of_the_local_trainer(self) -> None:
        scenario, grid, _ = federation()
        seen, roster = remote(scenario, grid)
        local = FederatedGame(scenario, "mlp", QUICK, metric="loss")
        there = FederatedGame(seen, "mlp", QUICK, metric="loss", trainer=FlowerTrainer(grid, roster))
        assert there.id == local.id
        assert there.scenario.summary()[1] == {"name": "client 1", "samples": 20}
        found, expected = (fv.value(game, "exact") for game in (there, local))
        assert found.mean == pytest.approx(expected.mean, abs=1e-6)
        # The server has the test rows, and says as much about them.
        assert found.parts["test"] == pytest.approx(expected.parts["test"], rel=0.01)
        assert found.test_rows == len(scenario.test)

    def test_a_valuation_begun_here_is_continued_there_and_back(self, tmp_path: Path) -> None:
        scenario, grid, _ = federation()
        seen, roster = remote(scenario, grid)
        there = FederatedGame(seen, "mlp", QUICK, trainer=FlowerTrainer(grid, roster))
        local = FederatedGame(scenario, "mlp", QUICK)
        with UtilityStore(tmp_path / "store.db") as store:
            fv.value(local, "loo", store=store)
            known = set(store.read(local.id))
            fv.value(there, "exact", store=store)
            backends = {mask: outcome.backend for mask, outcome in store.read(local.id).items()}
        assert {mask for mask, backend in backends.items() if backend == "local"} == known
        assert {backend for mask, backend in backends.items() if mask not in known} == {"flower"}
        assert len(backends) == 8

    def test_gradient_methods_agree_and_reuse_the_run(self) -> None:
        scenario, grid, trainer = federation()
        games = [FederatedGame(scenario, "mlp", QUICK, metric="loss", trainer=t) for t in ("local", trainer)]
        views = [fv.compare(game, ["or", "dig-fl"]) for game in games]
        for name in ("or", "dig-fl"):
            assert views[1][name].mean == pytest.approx(views[0][name].mean, abs=1e-5)
        before = len(grid.sent)
        assert len(trained_messages(grid)) == N * QUICK.rounds
        outcomes(trainer, scenario, games[1].learner, QUICK, [ALL])
        assert len(grid.sent) == before  # the recorded run is the training of the grand coalition

    def test_a_model_of_ones_own(self) -> None:
        from torch import nn

        def factory(scenario: Scenario) -> nn.Module:
            return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))

        scenario = digits(SIZES)
        trainer = FlowerTrainer(FakeGrid(parties(scenario), factory))
        found = outcomes(trainer, scenario, factory, QUICK, [3, 7])
        expected = outcomes(LocalTrainer("cpu"), scenario, factory, QUICK, [3, 7])
        assert found[7] == pytest.approx(expected[7], **CLOSE)


class TestMessages:
    def test_several_seeds_take_the_message_rounds_of_one(self) -> None:
        scenario, grid, trainer = federation()
        learner, rules = make_learner("mlp"), replace(QUICK, rounds=3)
        trials = [(mask, seed) for seed in range(3) for mask in (0b001, 0b011, ALL)]
        found = dict(trainer.train_trials(scenario, learner, rules, trials))
        assert trainer.message_rounds == 3
        assert [len(trained_messages(grid, t)) for t in (1, 2, 3)] == [N, N, N]
        assert [rows_in(message) for message in trained_messages(grid, 1)] == [3, 3, 3]
        expected = dict(LocalTrainer("cpu").train_trials(scenario, learner, rules, trials))
        assert found.keys() == expected.keys()
        for trial, outcome in found.items():
            assert outcome.metrics == pytest.approx(expected[trial].metrics, **CLOSE)

    def test_seeds_that_are_no_numbers_are_refused_by_a_node(self) -> None:
        _, grid, trainer = federation()
        trials = [(ALL, 0), (ALL, 1)]
        list(trainer.train_trials(digits(SIZES), make_learner("mlp"), QUICK, trials))
        message = trained_messages(grid, 1)[0]
        for seeds in ([1], ["a", "b"], 7):
            message.content[CONFIG]["seeds"] = seeds
            with pytest.raises(WireError, match="seeds that are not 2 whole numbers"):
                grid._answer(message, message.metadata.dst_node_id)

    def test_as_many_message_rounds_as_training_rounds(self) -> None:
        scenario, grid, trainer = federation()
        rules = Training(rounds=3, epochs=1, batch=32)
        outcomes(trainer, scenario, "mlp", rules, range(8))
        assert grid.rounds == ["query.fedvalue:query", *(f"train.fedvalue:{t}" for t in (1, 2, 3))]
        assert trainer.message_rounds == 3
        for t in (1, 2, 3):
            assert len(trained_messages(grid, t)) == N  # one message for each node
        assert [rows_in(m) for m in trained_messages(grid, 1)] == [1, 1, 1]
        assert [rows_in(m) for m in trained_messages(grid, 2)] == [4, 4, 4]

    def test_large_stacks_are_cut(self) -> None:
        scenario, grid, trainer = federation()
        whole = outcomes(trainer, scenario, "mlp", QUICK, range(8))
        one = sum(a.nbytes for a in _stack().values())
        scenario, grid, trainer = federation(message_bytes=int(2.5 * one))
        assert outcomes(trainer, scenario, "mlp", QUICK, range(8)) == {
            mask: pytest.approx(metrics, **CLOSE) for mask, metrics in whole.items()
        }
        assert {rows_in(m) for m in trained_messages(grid, 2)} == {2}
        assert len(trained_messages(grid, 2)) == 2 * N
        assert trainer.message_rounds == QUICK.rounds

    def test_client_data_never_appears_in_a_message(self) -> None:
        scenario, grid, trainer = federation()
        outcomes(trainer, scenario, "mlp", QUICK, range(8))
        trainer.trace(scenario, make_learner("mlp"), QUICK)
        assert len(grid.replies) > 3 * N
        largest = 4 * sum(a.nbytes for a in _stack().values())
        for message in (*grid.sent, *grid.replies):
            text = _bytes_of(message)
            assert len(text) < largest + 20_000
            for client in scenario.clients:
                assert client.y.tobytes() not in text
                for row in client.x:
                    assert row.tobytes() not in text
        for reply in grid.replies:
            assert set(reply.content) <= {ARRAYS, CONFIG, METRICS}
            for record in (reply.content.get(CONFIG), reply.content.get(METRICS)):
                assert record is None or set(record) <= FROM_NODES

    def test_nothing_is_pickled(self) -> None:
        scenario, grid, trainer = federation()
        outcomes(trainer, scenario, "mlp", QUICK, [7])
        for message in (*grid.sent, *grid.replies):
            for record in message.content.array_records.values():
                for array in record.values():
                    assert array.stype == "numpy.ndarray"
                    assert array.data.startswith(b"\x93NUMPY")
                    assert "O" not in array.dtype
                    assert array.numpy().dtype == np.float32

    def test_a_wave_at_a_time_where_memory_is_small(self) -> None:
        scenario, grid, trainer = federation(memory=1)
        found = outcomes(trainer, scenario, "mlp", QUICK, [1, 3, 7])
        assert found.keys() == {1, 3, 7}
        assert len(trained_messages(grid, 1)) == N  # the first round is shared by all waves
        assert trainer.message_rounds == 1 + 3


def _stack(rows: int = 1) -> dict[str, Any]:
    initial = make_learner("mlp").session(digits(SIZES), QUICK, "cpu", None).initial()
    return {name: np.repeat(tensor.numpy(), rows, axis=0) for name, tensor in initial.items()}


def _bytes_of(message: Message) -> bytes:
    parts = [a.data for record in message.content.array_records.values() for a in record.values()]
    return b"".join([*parts, repr(message.content.config_records).encode()])


class TestRoster:
    def test_too_few_and_too_many(self) -> None:
        grid = FakeGrid(parties(digits(SIZES)))
        with pytest.raises(FedvalueError, match="Expected 4 clients; 3 answered within 0 s"):
            Roster.gather(grid, 4, 0.3, DIGITS)
        with pytest.raises(InputError, match="Expected 2 clients; 3 nodes answered"):
            Roster.gather(grid, 2, 1.0, DIGITS)

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"size": -1}, "expected a whole number of at least 0"),
            ({"size": "many"}, "sent no number 'size'"),
            ({"fingerprint": "abc"}, "reported no fingerprint"),
            ({"form": "8"}, "reported no form"),
            ({"form": "[" * 100_000}, "reported no form"),
            ({"form": '{"x": {}, "y": "int64"}'}, "reported inputs without names"),
            ({"form": '{"x": {"a\\n": "bool"}, "y": "int64"}'}, "reported inputs without names"),
            ({"form": '{"x": "float32 -8", "y": "int64"}'}, "rows of the form 'float32 -8'"),
            ({"form": '{"x": ["object 8"], "y": "int64"}'}, "rows of the form 'object 8'"),
            ({"form": '{"x": "float32 99999 99999", "y": "int64"}'}, "more than anybody has"),
            ({"name": "a\nb"}, "not a line of text"),
            ({"name": "a" * 101}, "not a line of text"),
            ({"held-out": 3, "held-out-fingerprint": "?"}, "reported no held-out-fingerprint"),
        ],
        ids=str,
    )
    def test_a_report_is_checked(self, changes: dict[str, Any], says: str) -> None:
        record = {**reports_of(digits(SIZES))[0].to_record(), **changes}
        with pytest.raises(WireError, match=says):
            ClientReport.from_record(record)

    @pytest.mark.slow
    def test_a_node_that_reports_nonsense_does_not_take_part(self) -> None:
        grid = FakeGrid(parties(digits(SIZES)))
        grid.twists[0] = lambda message, reply: told(reply, size=-5)
        with pytest.raises(FedvalueError, match="node-100 sent size=-5"):
            Roster.gather(grid, 3, 1.0, DIGITS)

    def test_order_by_position_or_by_name(self) -> None:
        one = ClientReport(5, "0" * 64, EIGHT)
        named = {7: ClientReport(5, "0" * 64, EIGHT, -1, "b"), 9: ClientReport(5, "1" * 64, EIGHT, -1, "a")}
        assert in_order(named, 2) == [9, 7]
        placed = {7: ClientReport(5, "0" * 64, EIGHT, 1, "x"), 9: ClientReport(5, "1" * 64, EIGHT, 0, "x")}
        assert in_order(placed, 2) == [9, 7]
        with pytest.raises(InputError, match="cannot be told apart"):
            in_order({1: one, 2: one}, 2)
        with pytest.raises(InputError, match=r"partition-ids 0 to 1, one each. They report \[1, 1\]"):
            in_order({1: placed[7], 2: placed[7]}, 2)
        with pytest.raises(InputError, match=r"partition-ids 0 to 0, one each"):
            in_order({1: placed[7]}, 1)

    def test_a_scenario_with_other_data_is_refused(self) -> None:
        _, _, trainer = federation()
        with pytest.raises(InputError, match=r"the data of clients \[1, 2\] differs"):
            outcomes(trainer, digits((37, 21, 64)), "mlp", QUICK, [1])

    def test_rows_of_other_shapes_and_no_rows_at_all(self) -> None:
        reports = reports_of(digits(SIZES))
        with pytest.raises(InputError, match="rows of one form"):
            remote_scenario(
                [*reports, ClientReport(3, "0" * 64, EIGHT)], digits(SIZES).test, "classification", 10
            )
        with pytest.raises(InputError, match="No client has any data"):
            remote_scenario([replace(reports[0], size=0)], digits(SIZES).test, "classification", 10)


class TestUse:
    def test_the_trainer_needs_a_grid(self) -> None:
        with pytest.raises(InputError, match="needs its grid"):
            make_trainer("flower")
        with pytest.raises(InputError, match="deadline must be positive"):
            FlowerTrainer(FakeGrid([]), deadline=0)

    def test_models_that_are_no_arrays_are_refused(self) -> None:
        from federations import line

        trainer = FlowerTrainer(FakeGrid(parties(line()), "least-squares"))
        with pytest.raises(InputError, match="sets of named arrays"):
            outcomes(trainer, line(), "least-squares", Training(), [1])

    def test_nodes_train_targets_on_the_common_scale(self) -> None:
        from federations import line

        scenario = replace(line(), target_scale=Scale(100.0, 30.0))
        trainer = FlowerTrainer(FakeGrid(parties(scenario), "mlp"))
        there, here = (outcomes(t, scenario, "mlp", QUICK, [1, 7]) for t in (trainer, LocalTrainer("cpu")))
        assert {mask: found["mse"] for mask, found in there.items()} == pytest.approx(
            {mask: found["mse"] for mask, found in here.items()}, rel=1e-5
        )
        assert here[7] != outcomes(LocalTrainer("cpu"), line(), "mlp", QUICK, [7])[7]

    def test_arrays_survive_the_wire(self) -> None:
        arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones((2, 1), np.float32)}
        content = RecordDict({ARRAYS: to_record(arrays)})
        back = from_record(content, shapes_of(arrays))
        assert all(np.array_equal(back[name], arrays[name]) for name in arrays)
        fortran = RecordDict({ARRAYS: ArrayRecord({"a": Array(np.asfortranarray(arrays["a"]))})})
        assert np.array_equal(from_record(fortran, shapes_of({"a": arrays["a"]}))["a"], arrays["a"])

    def test_clients_of_every_coalition_are_asked_and_no_others(self) -> None:
        scenario, grid, trainer = federation()
        outcomes(trainer, scenario, "mlp", QUICK, [0b011])
        assert {m.metadata.dst_node_id for m in trained_messages(grid)} == {100 + i for i in members(0b011)}
