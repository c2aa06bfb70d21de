"""The luck of test rows that stay at the nodes: blocks hide single rows, and tell what all rows in one place would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import first_fast

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import BRIEF, digits
from flower_fakes import SIZES, FakeGrid, N, held_out_parts, parties
from flwr.app import MetricRecord, RecordDict
from numpy.typing import NDArray

import fedvalue as fv
from fedvalue.errors import UnavailableError
from fedvalue.flower._blocks import KEPT, LEAST_ROWS, NodeTold, block_count, in_blocks, pooled, why_unknown
from fedvalue.flower._server import Task, value_federation
from fedvalue.flower._settings import Settings
from fedvalue.flower._wire import ARRAYS, CONFIG, EVALUATE, METRICS, to_record
from fedvalue.games import FederatedGame
from fedvalue.learners.metrics import METRICS as METRICS_OF
from fedvalue.outcome import Outcome
from fedvalue.per_row import BLOCKS, PerRow, blocks_of
from fedvalue.values import Values

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

HELD_OUT = (300, 500, 800)
TEST = sum(HELD_OUT)
FEW = (40, 50, 60)  # where what is sent counts, and not what it is worth


def of_node(rows: NDArray[np.float64], told: bool = True) -> NodeTold:
    """What a node says of models that single rows of it say this about; models are rows of the table."""
    metric, blocks = rows.mean(1), block_count(rows.shape[1])
    said = [in_blocks(PerRow.of(row), mean, blocks) for row, mean in zip(rows, metric, strict=True) if told]
    return NodeTold(rows.shape[1], metric, np.array(said) if told else None)


def variance(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    covariance: NDArray[np.float64] = np.cov(numbers) / numbers.shape[1]
    return covariance


def pooled_variance(nodes: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Of the same rows in one place: a number for each of them."""
    return variance(np.concatenate(nodes, axis=1))


class TestBlocks:
    @pytest.mark.slow
    def test_no_block_has_fewer_rows_than_stated(self) -> None:
        for rows in range(1, 2_000):
            blocks = block_count(rows)
            assert blocks == 0 or 2 <= blocks <= BLOCKS
            if not blocks:
                assert rows < 2 * LEAST_ROWS
                continue
            smaller = (blocks_of(rows) < rows).sum(
                1
            )  # what models are measured in; so it is these that are joined
            for parts in (smaller, np.ones(rows, int)):  # and single rows, for the accuracy
                sizes = [part.sum() for part in np.array_split(parts, blocks)]
                assert min(sizes) >= LEAST_ROWS
                assert sum(sizes) == rows

    def test_their_mean_is_the_metric_whatever_their_sizes(self) -> None:
        rows = np.random.default_rng(0).gumbel(size=101)
        assert in_blocks(PerRow.of(rows), rows.mean(), block_count(101)).mean() == pytest.approx(rows.mean())

    @pytest.mark.parametrize("apart", [0.0, 1.0])
    def test_the_variance_is_that_of_the_same_rows_in_one_place(self, apart: float) -> None:
        """On average over many samples of rows, also of the difference of two models, and where nodes differ."""
        rng = np.random.default_rng(1)
        found, expected = np.zeros((2, 2)), np.zeros((2, 2))
        for _ in range(300):
            nodes = []
            for place, size in enumerate((40, 90, 300, 12)):
                shared = rng.exponential(size=size) + apart * place
                nodes.append(np.stack([shared + rng.normal(size=size), 2 * shared]))
            found += variance(pooled([of_node(rows, told=rows.shape[1] > 12) for rows in nodes]))
            expected += pooled_variance(nodes)
        assert found == pytest.approx(expected, rel=0.05)

    def test_it_is_that_of_a_bootstrap(self) -> None:
        rng = np.random.default_rng(2)
        nodes = [rng.exponential(size=(1, size)) + place for place, size in enumerate((600, 900, 1_500))]
        rows = np.concatenate(nodes, axis=1)[0]
        again = [rng.choice(rows, rows.size).mean() for _ in range(2_000)]
        found = PerRow.of_models(pooled([of_node(node) for node in nodes]), rows.size)[0]
        assert found.mean == pytest.approx(rows.mean(), rel=1e-6)
        assert found.stderr == pytest.approx(
            np.std(again), rel=0.15
        )  # 192 blocks tell it within a twentieth or so
        assert found.length <= KEPT + 2 * len(nodes)

    def test_too_few_rows_are_not_known_and_said(self) -> None:
        assert why_unknown((100, 0, 3)) is None
        for sizes in ((10,) * 20, (31, 31), (65, 14, 14, 14, 14, 14, 14)):
            assert "too few rows (" in str(why_unknown(sizes))


def settings(folder: Path, **more: Any) -> Settings:
    rules = {"rounds": 2, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3}
    config = {
        "clients": N,
        "method": "exact",
        "out": str(folder),
        "evaluate": "nodes",
        "share-all-models": True,
        "patience": 1.0,
    }
    return Settings.from_config({**config, **rules, **more})


def federation(sizes: tuple[int, ...] = HELD_OUT) -> FakeGrid:
    scenario = digits(SIZES, test=sum(sizes))
    return FakeGrid(parties(scenario, held_out_parts(scenario, sizes)))


def valued(grid: FakeGrid, folder: Path, **more: Any) -> Values:
    return value_federation(grid, settings(folder, **more), Task("classification", 10))


class TestFederation:
    @pytest.mark.parametrize("metric", first_fast(["accuracy", "loss", "correct"]))
    def test_the_part_of_test_rows_is_that_of_the_same_rows_on_the_server(
        self, metric: str, tmp_path: Path
    ) -> None:
        grid = federation()
        values = valued(grid, tmp_path, metric=metric, noise=False)
        central = FederatedGame(digits(SIZES, test=TEST), "mlp", BRIEF, metric=metric)
        expected = fv.value(central, "exact", noise=False)
        assert values.mean == pytest.approx(expected.mean, abs=1e-5 * TEST)
        found, wanted = values.errors["test"], expected.errors["test"]
        assert found is not None
        assert wanted is not None
        # Both are estimates of one thing, the central one from 64 blocks or all rows, ours from fewer blocks.
        assert found == pytest.approx(wanted, rel=0.3)
        assert np.mean(found / wanted) == pytest.approx(1, abs=0.2)
        assert values.test_rows == expected.test_rows == TEST

    def test_only_blocks_leave_a_node(self, tmp_path: Path) -> None:
        grid = federation(FEW)
        valued(grid, tmp_path)
        replies = [reply.content for reply in grid.replies if METRICS in reply.content]
        assert len(replies) == 2 * N
        for reply in replies:
            blocks = block_count(int(reply[METRICS]["num-examples"]))
            models = len(reply[METRICS]["loss"])
            assert set(reply[ARRAYS]) == set(METRICS_OF["classification"])
            assert {array.numpy().shape for array in reply[ARRAYS].values()} == {(models, blocks)}

    def test_nodes_with_few_rows_send_none_and_the_result_says_why(self, tmp_path: Path) -> None:
        grid = federation((15, 12, 10))
        values = valued(grid, tmp_path, method="surrogate", seeds=1)
        assert values.errors["test"] is None
        assert any("too few rows (15, 12, 10)" in note for note in values.notes)
        assert not any(METRICS in reply.content and ARRAYS in reply.content for reply in grid.replies)

    @pytest.mark.slow
    def test_seeds_and_noise_reach_the_method(self, tmp_path: Path) -> None:
        exact = [valued(federation(FEW), tmp_path / str(noise), noise=noise) for noise in (True, False)]
        assert [values.errors["training"] is not None for values in exact] == [True, False]
        spread = [
            valued(federation(FEW), tmp_path / f"s{n}", method="surrogate", seeds=n, budget=8) for n in (1, 2)
        ]
        assert [values.seeds for values in spread] == [1, 2]

    @pytest.mark.slow
    def test_one_node_with_few_rows_is_taken_to_be_like_the_others(self, tmp_path: Path) -> None:
        values = valued(federation((100, 10, 300)), tmp_path)
        assert values.errors["test"] is not None
        assert (values.errors["test"] > 0).all()

    @pytest.mark.parametrize(
        ("change", "says"),
        first_fast(
            [
                (lambda blocks: None, "sent no record 'arrays'"),
                (lambda blocks: {"loss": blocks["loss"]}, "other arrays than those asked for"),
                (lambda blocks: {**blocks, "f1": blocks["f1"][:, :-1]}, "sent 'f1' of shape"),
                (lambda blocks: {**blocks, "f1": blocks["f1"].astype(np.float32)}, "and type float32"),
                (lambda blocks: {**blocks, "auc": blocks["auc"] * np.nan}, "not finite .* in 'auc'"),
                (lambda blocks: {**blocks, "loss": blocks["loss"] * 1e19}, "beyond 1e.18. in 'loss'"),
                (lambda blocks: {**blocks, "loss": blocks["loss"] + 1}, "mean is not the loss that it sent"),
                (lambda blocks: {**blocks, "accuracy": _spread(blocks["accuracy"])}, "not between 0 and 1"),
            ],
        ),
    )
    def test_blocks_that_cannot_be_are_refused_and_their_node_is_named(
        self, change: Callable[[Any], Any], says: str, tmp_path: Path
    ) -> None:
        grid = federation(FEW)

        def twist(message: Any, reply: RecordDict) -> RecordDict:
            if message.metadata.message_type != EVALUATE:
                return reply
            blocks = change({name: array.numpy().copy() for name, array in reply[ARRAYS].items()})
            kept = {CONFIG: reply[CONFIG], METRICS: MetricRecord(dict(reply[METRICS]))}
            return RecordDict(kept if blocks is None else {**kept, ARRAYS: to_record(blocks)})

        grid.twists[1] = twist
        with pytest.raises(UnavailableError, match=rf"client 1 .*{says}"):
            valued(grid, tmp_path)

    def test_outcomes_of_nodes_fit_the_store(self, tmp_path: Path) -> None:
        values = valued(federation(FEW), tmp_path)
        with fv.UtilityStore(tmp_path / "store.db") as store:
            found = store.read(values.game_id)
        for outcome in found.values():
            assert isinstance(outcome, Outcome)
            for name in METRICS_OF["classification"]:
                row = outcome.rows[name]
                assert row.problem() is None
                assert len(row.data) <= 16 + 2 * (KEPT + 4 * N)
                assert row.mean == pytest.approx(outcome.metrics[name], rel=1e-3, abs=1e-4)


def _spread(blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    """As if one block were far better than all others, with the same mean."""
    moved = np.zeros_like(blocks)
    moved[:, 0], moved[:, 1] = 50, -50
    changed: NDArray[np.float64] = blocks + moved
    return changed
