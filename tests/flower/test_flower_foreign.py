"""Client apps that know nothing of fedvalue: the example's own ClientApp, run in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import first_fast

pytest.importorskip("flwr", reason="needs the extra flower")

import torch
from flower_fakes import FakeGrid, Received, public_line
from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from foreign_app import LR, example_modules, plain_accuracy, start

import fedvalue as fv
from fedvalue.errors import FedvalueError, InputError, UnavailableError
from fedvalue.flower._client import Party
from fedvalue.flower._foreign import ForeignApp, ForeignTrainer, value_foreign
from fedvalue.flower._registered import RegisteredClient, key_of, write_roster
from fedvalue.games import FederatedGame
from fedvalue.scenarios import Dataset
from fedvalue.store import UtilityStore
from fedvalue.training import Training

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

N = 3


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, Any]]:
    """The modules of the example app."""
    with example_modules() as found:
        yield found


class ForeignGrid(FakeGrid):
    """Nodes that run the example's ClientApp."""

    def __init__(self, app: Any) -> None:
        nobody = Dataset(np.zeros((0, 1)), np.zeros(0))
        super().__init__([Party(nobody, position=i) for i in range(N)])
        self.app = app

    def _answer(self, message: Message, node: int) -> RecordDict:
        place = {"partition-id": self.parties[node].position, "num-partitions": N}
        context = Context(1, node, place, RecordDict(), {"local-epochs": 1})
        reply: Message = self.app(message, context)
        return reply.content


@pytest.fixture
def grid(modules: dict[str, Any]) -> ForeignGrid:
    return ForeignGrid(modules["client_app"].app)


def valued(grid: ForeignGrid, modules: Mapping[str, Any], out: Path, **more: Any) -> fv.Values:
    options = {"method": "exact", "rounds": 2, "config": {"lr": LR}, "key": "digits", **more}
    options.setdefault("share_all_models", "evaluate" not in options)
    return value_foreign(grid, clients=N, initial=start(modules), out=out, **options)


def on_server(modules: Mapping[str, Any]) -> Any:
    """A test on rows of the server."""
    task = modules["task"]

    def evaluate(arrays: Mapping[str, Any]) -> dict[str, float]:
        net = task.Net()
        net.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
        return {"accuracy": task.test(net, task.load_data(0, 1)[1])[1]}

    return evaluate


class TestForeignApps:
    def test_values_are_those_of_plain_fedavg(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        values = valued(grid, modules, tmp_path)
        table = [plain_accuracy(modules, N, mask, 2) for mask in range(1 << N)]
        assert values.mean == pytest.approx(fv.value(fv.TableGame(table), "exact").mean, abs=0.003)
        assert {path.name for path in tmp_path.iterdir()} >= {"values.json", "run.json", "report.html"}
        assert values.details["evaluated_at"] == "nodes"

    def test_what_is_ahead_is_said_before_it_begins(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        valued(grid, modules, tmp_path, evaluate=on_server(modules), method="loo")
        sent = sum((m.metadata.message_type, m.metadata.group_id) == ("train", "2") for m in grid.sent)
        assert (
            f"4 trainings of coalitions are ahead (0 are in the store): {sent} messages in 1 further round"
            in (caplog.text)
        )
        assert "round 1: 3 clients train, and say how much data they have" in caplog.text

    @pytest.mark.slow
    def test_audit_and_report(self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path) -> None:
        values = valued(grid, modules, tmp_path)
        assert (values.metric, values.unit, values.replicates) == ("accuracy", "accuracy", 1)
        found = fv.audit(values, store=tmp_path / "store.db")
        assert (found.coalitions, found.clients) == (8, N)
        page = fv.report(values, tmp_path / "page.md", store=tmp_path / "store.db").read_text(
            encoding="utf-8"
        )
        assert all(name in page for name in values.names)
        assert values.utility_of_none == pytest.approx(plain_accuracy(modules, N, 0, 2), abs=0.003)

    def test_all_messages_of_a_round_are_pushed_at_once_with_one_model_each(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        values = valued(grid, modules, tmp_path)
        kinds = [(m.metadata.message_type, m.metadata.group_id) for m in grid.sent]
        assert kinds.count(("train", "1")) == N  # the first round is one training for each client
        assert kinds.count(("train", "2")) == 4 * N
        assert kinds.count(("evaluate", "0")) == 8 * N
        assert values.details["message_rounds"] == 2 + 2  # training, the empty coalition, all others
        sent = next(m for m in grid.sent if m.metadata.message_type == "train")
        assert set(sent.content) == {"arrays", "config"}
        assert dict(sent.content["config"]) == {"lr": LR, "server-round": 1}
        assert sent.content["arrays"]["layers.0.weight"].numpy().shape == (32, 64)

    def test_an_app_that_is_told_no_seed_is_not_asked_twice(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        values = valued(grid, modules, tmp_path, method="surrogate")
        assert (values.seeds, values.evaluations) == (1, 8)
        assert values.random  # by itself, which nothing here can measure

    def test_clients_alone_are_asked_in_every_round_too(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        """Such an app knows no message for several rounds."""
        valued(grid, modules, tmp_path, method="ipss", budget=4)
        kinds = [(m.metadata.message_type, m.metadata.group_id) for m in grid.sent]
        assert [kinds.count(("train", t)) for t in "12"] == [N, N]

    def test_models_of_one_client_alone_reach_nobody_else(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        """Evaluation on the server: a node is sent the models of coalitions that it is in, and no others."""
        models = Received(grid, N)
        valued(grid, modules, tmp_path, evaluate=on_server(modules), rounds=3)
        # Those of rounds 1 and 2 are sent back for the next one; the last goes to nobody.
        assert [models.receivers(client) for client in range(N)] == [[{client}] * 2 for client in range(N)]

    def test_nodes_measure_only_where_all_models_may_be_shared(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        with pytest.raises(InputError, match=r"needs `evaluate`.*trained alone.*share_all_models=True"):
            valued(grid, modules, tmp_path, share_all_models=False)
        with pytest.raises(InputError, match="one of the two"):
            valued(grid, modules, tmp_path, evaluate=on_server(modules), share_all_models=True)
        assert grid.sent == []
        models = Received(grid, N)
        valued(grid, modules, tmp_path, share_all_models=True)
        everyone = set(range(N))
        assert all(everyone in models.receivers(client) for client in range(N))

    def test_a_function_for_the_strategies_of_flower_measures_too(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        seen = []

        def evaluate_fn(server_round: int, arrays: ArrayRecord) -> MetricRecord:
            seen.append(server_round)
            return MetricRecord({"accuracy": float(arrays["layers.0.bias"].numpy().mean())})

        def plain(model: Mapping[str, Any], layer: str = "layers.0.bias") -> dict[str, float]:
            return {"accuracy": float(model[layer].mean())}

        theirs = valued(grid, modules, tmp_path / "a", evaluate=evaluate_fn)
        assert theirs.mean == pytest.approx(valued(grid, modules, tmp_path / "b", evaluate=plain).mean)
        assert set(seen) == {2}

    @pytest.mark.slow
    def test_clients_are_known_by_their_keys(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        lines = [public_line() for _ in range(N)]
        names = ("Bern", "Aachen", "Como")
        clients = [RegisteredClient(name, line) for name, line in zip(names, lines, strict=True)]
        write_roster(tmp_path / "roster.json", clients)
        grid.keys = {100: key_of(lines[2], ""), 101: key_of(lines[0], ""), 102: key_of(lines[1], "")}
        options = {"evaluate": on_server(modules), "rounds": 1, "method": "loo"}
        values = valued(grid, modules, tmp_path, roster=tmp_path / "roster.json", **options)
        assert values.names == names
        grid.keys[100] = b"another"
        options |= {"roster": tmp_path / "roster.json", "patience": 0.1}
        with pytest.raises(FedvalueError, match=r"2 are connected.*Missing: Como\."):
            valued(grid, modules, tmp_path, quorum=N, **options)
        left = valued(grid, modules, tmp_path / "left", **options)
        assert (left.names, left.absent) == (names[:2], {"Como": "did not answer within 0 s"})

    @pytest.mark.slow
    def test_evaluation_on_the_server(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        values = valued(grid, modules, tmp_path, evaluate=on_server(modules))
        assert {m.metadata.message_type for m in grid.sent} == {"train"}
        assert values.mean.sum() > 0.3
        assert values.game_id != valued(grid, modules, tmp_path / "nodes").game_id

    @pytest.mark.slow
    def test_a_later_valuation_trains_only_what_is_new(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        valued(grid, modules, tmp_path, method="loo")
        before = len(grid.sent)
        valued(grid, modules, tmp_path)
        rounds = [m.metadata.group_id for m in grid.sent[before:] if m.metadata.message_type == "train"]
        assert rounds.count("2") == 3  # three clients alone; pairs, all and nobody were known

    @pytest.mark.parametrize(
        ("metrics", "says"),
        first_fast(
            [
                ({"num-examples": 7}, "trained on 7 examples; before"),
                ({"train_loss": 1.0}, "sent no number 'num-examples'"),
            ]
        ),
    )
    def test_bad_replies_are_named(
        self, metrics: dict[str, Any], says: str, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        grid.twists[1] = lambda message, reply: (
            RecordDict({**reply, "metrics": MetricRecord(metrics)})
            if message.metadata.group_id == "2"
            else reply
        )
        with pytest.raises(UnavailableError, match=says):
            valued(grid, modules, tmp_path, patience=0.5)

    @pytest.mark.slow
    def test_metrics_that_are_not_there_are_named(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        with pytest.raises(UnavailableError, match=r"none of the metrics \['top1'\], only \['eval_acc'"):
            valued(grid, modules, tmp_path, metrics={"top1": "accuracy"}, patience=0.5)

    @pytest.mark.parametrize(
        ("metrics", "says"),
        first_fast(
            [
                ({"num-examples": 9, "eval_loss": 1.0}, "node-101 .*sent no accuracy, as the others did"),
                (None, "node-101 .*measured on 5 examples; before, on 9"),
            ]
        ),
        ids=["other metrics", "another size"],
    )
    def test_bad_measurements_are_named(
        self,
        metrics: dict[str, Any] | None,
        says: str,
        grid: ForeignGrid,
        modules: dict[str, Any],
        tmp_path: Path,
    ) -> None:
        sizes = [9]

        def twist(message: Message, reply: RecordDict) -> RecordDict:
            if message.metadata.message_type != "evaluate":
                return reply
            changed = {**reply["metrics"], "num-examples": sizes.pop() if sizes else 5}
            return RecordDict({"metrics": MetricRecord(metrics or changed)})

        grid.twists[1] = twist
        with pytest.raises(UnavailableError, match=says):
            valued(grid, modules, tmp_path, patience=0.0)

    @pytest.mark.slow
    def test_the_others_are_valued_where_the_user_chose_that(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        grid.twists[1] = lambda message, reply: (
            Error(code=8, reason="") if message.metadata.group_id == "2" else reply
        )
        options = {
            "evaluate": lambda model: {"accuracy": float(model["layers.0.bias"].mean())},
            "patience": 0.0,
        }
        with pytest.raises(UnavailableError, match="missing='use-known'"):
            valued(grid, modules, tmp_path, **options)
        values = valued(grid, modules, tmp_path, missing="use-known", **options)
        assert values.names == ("node-100", "node-102")
        assert "crashed" in values.absent["node-101"]
        assert any("node-101 crashed" in text for text in values.details["incidents"])
        found = fv.audit(values, store=tmp_path / "store.db")
        assert (found.coalitions, list(found.absent)) == (4, ["node-101"])
        page = fv.report(values, tmp_path / "page.md", store=tmp_path / "store.db")
        assert "Not valued: node-101" in page.read_text(encoding="utf-8")
        with pytest.raises(InputError, match="missing must be one of"):
            valued(grid, modules, tmp_path, missing="guess")

    def test_sizes_and_names_of_metrics_are_part_of_the_game(
        self, grid: ForeignGrid, modules: dict[str, Any]
    ) -> None:
        """Weights follow from the sizes, and stored numbers from the names: other ones are another game."""
        identities = [
            ForeignApp(start(modules), "k", metrics=metrics).identity()
            for metrics in (None, {"f1": "accuracy"}, {"eval_acc": "accuracy"})
        ]
        assert len({str(identity) for identity in identities}) == 3
        before = ForeignTrainer(grid, ForeignApp(start(modules), "k", {"lr": LR}), N).scenario.fingerprint
        grid.twists[1] = lambda message, reply: RecordDict(
            {**reply, "metrics": MetricRecord({"num-examples": 7})}
        )
        after = ForeignTrainer(grid, ForeignApp(start(modules), "k", {"lr": LR}), N).scenario.fingerprint
        assert before != after

    def test_who_cannot_say_how_much_data_it_has_is_absent(
        self, grid: ForeignGrid, modules: dict[str, Any], tmp_path: Path
    ) -> None:
        options = {"evaluate": on_server(modules), "rounds": 1}
        everybody = valued(grid, modules, tmp_path / "all", **options)
        with UtilityStore(tmp_path / "all" / "store.db") as store:
            stored = store.read(everybody.game_id)
        grid.twists[0] = lambda message, reply: Error(code=8, reason="")
        with pytest.raises(UnavailableError, match=r"must answer once.*node-100 crashed"):
            valued(grid, modules, tmp_path, quorum=N)
        before = len(grid.sent)
        values = valued(grid, modules, tmp_path, **options)
        assert values.names == ("node-101", "node-102")
        assert values.absent == {"node-100": "crashed while it trained"}
        # What the others trained to say so is the first round of their game.
        kinds = [(m.metadata.message_type, m.metadata.group_id) for m in grid.sent[before:]]
        assert kinds.count(("train", "1")) == N
        table = [stored[mask << 1].metrics["accuracy"] for mask in range(4)]
        assert values.mean == pytest.approx(fv.value(fv.TableGame(table), "exact").mean, abs=1e-9)

    def test_too_many_or_too_few_nodes(self, grid: ForeignGrid, modules: dict[str, Any]) -> None:
        with pytest.raises(FedvalueError, match="Expected 5 nodes; 3 are connected"):
            ForeignTrainer(grid, ForeignApp(start(modules), "k"), 5, patience=0.1)
        with pytest.raises(InputError, match="Expected 2 nodes; 3 are connected"):
            ForeignTrainer(grid, ForeignApp(start(modules), "k"), 2)

    def test_gradient_methods_where_they_can_be_used(
        self, grid: ForeignGrid, modules: dict[str, Any]
    ) -> None:
        app = ForeignApp(start(modules), "digits", {"lr": LR})
        trainer = ForeignTrainer(grid, app, N)
        game = FederatedGame(trainer.scenario, app, Training(rounds=2), metric="accuracy", trainer=trainer)
        assert fv.value(game, "or").mean.sum() == pytest.approx(plain_accuracy(modules, N, 7, 2), abs=0.15)
        with pytest.raises(InputError, match="DIG-FL needs the gradient"):
            fv.value(game, "dig-fl")
