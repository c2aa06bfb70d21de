"""The Ray trainer: how work is cut, what workers do, and what happens when they, or the driver, die."""

from __future__ import annotations

import http.server
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("ray", reason="needs the extra ray")

from federations import QUICK, digits, line, outcomes
from ray_help import WORKER_PATH, Failing, Telling, folder, shared_ray
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app
from fedvalue.coalitions import Trial, members
from fedvalue.errors import FedvalueError, FedvalueWarning, InputError, MissingExtraError, UtilityError
from fedvalue.games import FederatedGame
from fedvalue.store import UtilityStore
from fedvalue.trainers import LocalTrainer
from fedvalue.trainers.ray import RayTrainer
from fedvalue.trainers.ray import _run as ray_run
from fedvalue.trainers.ray import _task as ray_task
from fedvalue.trainers.ray._chunks import ALONE, Chunk, Chunks, next_share
from fedvalue.trainers.ray._cluster import tasks_on
from fedvalue.trainers.ray._task import FATAL, MEMORY, RAISED, TaskRules, train_chunk
from fedvalue.training import Training, passes_of

# Workers and commands know nothing of the tests, and measure as many untrained models as users have.
pytestmark = pytest.mark.usefixtures("one_thread", "all_untrained_models")

SIZES = (20, 30, 25, 15)
EVERYONE = range(1 << len(SIZES))
LONG = 120.0  # seconds for one run on a busy machine

WORK = st.dictionaries(
    st.tuples(st.integers(0, 1 << 100), st.integers(0, 2)), st.floats(0.5, 1e6), min_size=1, max_size=60
)
KNOWN_PACE = st.floats(1e-9, 1e4)
PACE = st.none() | KNOWN_PACE


# How work is cut


def alike(masks: Iterable[int]) -> dict[Trial, float]:
    """Trials of one seed that are a unit of work each."""
    return {(mask, 0): 1.0 for mask in masks}


def drained(chunks: Chunks, workers: int, pace: float | None) -> list[Chunk]:
    taken = []
    while chunks:
        taken.append(chunks.take(workers, pace))
        assert len(taken) < 10_000
    return taken


class TestChunks:
    @given(WORK, st.integers(1, 40), PACE)
    def test_every_coalition_comes_once(
        self, work: dict[int, float], workers: int, pace: float | None
    ) -> None:
        taken = drained(Chunks(work), workers, pace)
        assert sorted(mask for chunk in taken for mask in chunk.trials) == sorted(work)
        for chunk in taken:
            assert chunk.trials
            assert chunk.work == pytest.approx(sum(work[mask] for mask in chunk.trials))

    @given(WORK, st.integers(1, 40), st.floats(1e-6, 1e4))
    def test_no_task_is_longer_than_planned_unless_a_coalition_is(
        self, work: dict[int, float], workers: int, pace: float
    ) -> None:
        for chunk in drained(Chunks(work), workers, pace):
            longest = max(work[mask] for mask in chunk.trials)
            assert len(chunk.trials) == 1 or (chunk.work - longest / 2) * pace <= 30.0 * (1 + 1e-9)

    def test_few_coalitions_are_one_task_for_each_worker(self) -> None:
        for count in (2, 5, 8):
            taken = drained(Chunks(alike(range(count))), 2, None)
            assert max(len(chunk.trials) for chunk in taken) <= (count + 1) // 2
            assert len(taken) <= 3

    def test_tasks_of_unknown_cost_have_one_coalition_the_cheapest(self) -> None:
        chunks = Chunks({(mask, 0): 1.0 + abs(mask - 700) for mask in range(1000)})
        assert [chunks.take(4, None).trials for _ in range(2)] == [((700, 0),), ((701, 0),)]
        nobody = Chunks({(mask, 0): 5.0 if mask else 1.0 for mask in range(100)})
        assert (0, 0) not in nobody.take(4, None).trials
        assert len(drained(nobody, 4, 1e-3)[-1].trials) > 1

    @pytest.mark.parametrize("seconds", [5.0, 20.0, 60.0])
    def test_a_long_run_has_tasks_of_the_length_asked_for_and_ends_evenly(self, seconds: float) -> None:
        """Simulated: two workers, one of them half as fast, 1,000 coalitions of a second each."""
        chunks, free, lengths = Chunks(alike(range(1000)), seconds), [0.0, 0.0], []
        while chunks:
            worker = free.index(min(free))
            took = chunks.take(2, 1.0).work * (1 + worker)
            lengths.append(took)
            free[worker] += took
        assert max(lengths) <= 2 * 1.5 * seconds
        assert abs(free[0] - free[1]) <= 2 * seconds  # of nearly 700
        assert len(lengths) < 1800 / seconds

    def test_tasks_of_a_stack_last_long_beside_the_steps_that_each_has_to_make(self) -> None:
        """Simulated: 50 s of steps for a task, however many coalitions, and a second for each of them."""
        spent = {}
        for name, seconds in (("by itself", None), ("as asked", 20.0)):
            chunks, pace, tasks = Chunks(alike(range(1000)), seconds), None, []
            while chunks:
                tasks.append(len(chunks.take(2, pace).trials))
                took = 50.0 + tasks[-1]
                pace = took / tasks[-1] / (ALONE if tasks[-1] == 1 else 1)
                if tasks[-1] == 1:
                    chunks.steps_took(took)
            spent[name] = sum(50.0 + count for count in tasks)
        assert spent["by itself"] < 1.25 * 1000 + 2 * 51
        assert spent["as asked"] > 10 * spent["by itself"]  # somebody wants to lose no more than that

    def test_little_work_is_not_cut_into_crumbs(self) -> None:
        taken = drained(Chunks(alike(range(6000))), 2, 1e-3)  # six seconds in all
        assert len(taken) == 2

    def test_neighbours_share_clients(self) -> None:
        """Round 1 of a task trains every client in it once: fewer of them than in tasks drawn at random."""
        draw = random.Random(1)
        masks = [sum(1 << i for i in draw.sample(range(100), 3)) for _ in range(400)]
        parts = drained(Chunks(alike(masks)), 10, 2.5)
        ordered = [[mask for mask, _ in chunk.trials] for chunk in parts]
        shuffled, start = list(dict.fromkeys(masks)), 0
        at_random = []
        for chunk in ordered:
            at_random.append(shuffled[start : start + len(chunk)])
            start += len(chunk)

        def first_rounds(parts: Sequence[Sequence[int]]) -> int:
            return sum(len({i for mask in part for i in members(mask)}) for part in parts)

        assert first_rounds(ordered) < 0.8 * first_rounds(at_random)

    def test_work_counts_samples_epochs_rounds_and_the_test_set(self) -> None:
        scenario = digits(SIZES)
        assert passes_of(scenario, Training(rounds=3, epochs=2), [0b1001])[0b1001] == 120 + 3 * 2 * 2 * 35
        assert passes_of(scenario, Training(rounds=1), [0b1111])[0b1111] == 120
        assert passes_of(scenario, Training(algorithm="fedsgd", rounds=2), [1])[1] == 120 + 3 * 20

    @given(st.integers(1, 64), st.floats(1, 1e9), st.floats(1, 1e9), KNOWN_PACE)
    def test_a_share_is_at_most_an_even_one(
        self, workers: int, left: float, whole: float, pace: float
    ) -> None:
        assert 0 < next_share(left, whole, workers, pace) <= whole / workers * (1 + 1e-9)

    def test_trials_of_one_seed_follow_each_other(self) -> None:
        work = {(mask, seed): 1.0 for mask in range(1, 40) for seed in range(3)}
        seeds = [seed for chunk in drained(Chunks(work), 4, 1.0) for _, seed in chunk.trials]
        assert seeds == sorted(seeds)

    def test_halves_and_remains(self) -> None:
        chunk = Chunk(tuple((mask, 0) for mask in (1, 2, 3, 4, 5)), 10.0)
        one, other = chunk.halves()
        assert one.trials + other.trials == chunk.trials
        assert one.halvings == other.halvings == 1
        assert chunk.without({(2, 0), (4, 0)}) == Chunk(((1, 0), (3, 0), (5, 0)), 6.0)
        chunks = Chunks({(7, 0): 1.0})
        chunks.put_back([one, chunk.without(chunk.trials)])  # of the second nothing is left
        assert [part.trials for part in drained(chunks, 1, None)] == [one.trials, ((7, 0),)]


# What is refused


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"workers": 0}, "workers must be at least 1. Got 0"),
            ({"cpus_per_task": 0}, "more than 0 CPUs"),
            ({"cpus_per_task": float("nan")}, "more than 0 CPUs"),
            ({"gpus_per_task": -1}, "Got 1 CPUs and -1 GPUs"),
            ({"checkpoint": 0}, "checkpoint must be a number of seconds above 0. Got 0"),
            ({"checkpoint": float("nan")}, "checkpoint must be a number of seconds above 0. Got nan"),
            ({"device": "cuda"}, "Tasks on cuda were asked for, with 0 GPUs each. Use --gpus-per-task 1"),
            ({"device": "cpu", "gpus_per_task": 1}, "Tasks on cpu were asked for, with 1 GPUs each"),
            ({"device": "cuda:1", "gpus_per_task": 1}, "Ray says which GPU a task gets. Got 'cuda:1'"),
        ],
        ids=str,
    )
    def test_impossible_options(self, options: dict[str, Any], says: str) -> None:
        with pytest.raises(InputError, match=says):
            FederatedGame(digits(), trainer="ray", **options)

    def test_the_extra_is_named_where_ray_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "ray", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'fedvalue\[ray\]'"):
            FederatedGame(digits(), trainer="ray")

    def test_tasks_with_a_gpu_train_on_it(self) -> None:
        assert RayTrainer(gpus_per_task=0.5).device == "cuda"
        assert RayTrainer().device == "cpu"

    def test_tasks_of_a_machine(self) -> None:
        assert tasks_on({"CPU": 8.0, "GPU": 1.0}, 1, 0.25) == 4
        assert tasks_on({"CPU": 3.0}, 2, 0) == 1
        assert tasks_on({"GPU": 8.0}, 1, 1) == 0
        assert tasks_on({"CPU": 1.0}, 0.25, 0) == 4

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (("--workers", 2), "workers applies to Ray only. Use --backend ray, or leave it out"),
            (
                ("--address", "auto", "--gpus-per-task", 1),
                "address, gpus_per_task apply to Ray only. Use --backend ray, or leave them out",
            ),
            (("--backend", "rya"), "The backend must be local or ray. Got 'rya'"),
            (("--backend", "ray", "--device", "mps"), "With Ray the device must be auto, cpu or cuda"),
        ],
        ids=str,
    )
    def test_on_the_command_line(self, options: tuple[object, ...], says: str) -> None:
        found = CliRunner().invoke(app, ["run", "--no-config", *map(str, options)])
        assert found.exit_code == 2
        assert says in found.stderr


@pytest.fixture
def deaf() -> Iterator[str]:
    """Listens and never says anything."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def website() -> Iterator[str]:
    class Silent(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Silent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class TestUnreachable:
    """An error that names the address, within seconds."""

    @pytest.fixture(autouse=True)
    def _not_connected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import ray

        monkeypatch.setattr(ray, "is_initialized", lambda: False)  # other tests of this process may be

    def failure(self, address: str) -> str:
        began = time.monotonic()
        with pytest.raises(FedvalueError) as caught:
            outcomes(RayTrainer(address), digits(), "mlp", QUICK, [1])
        assert time.monotonic() - began < 10
        return str(caught.value)

    def test_nobody_listens(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        assert f"No Ray cluster answers at {address}: Connection refused. Start it" in self.failure(address)

    @pytest.mark.slow
    def test_nobody_answers(self, deaf: str) -> None:
        assert f"No Ray cluster answers at {deaf}: timed out" in self.failure(deaf)

    def test_somebody_else_answers(self, website: str) -> None:
        assert f"What answers at {website} is not a Ray cluster" in self.failure(website)

    def test_no_such_host(self) -> None:
        assert "No Ray cluster answers at nowhere.invalid:6379" in self.failure("nowhere.invalid:6379")

    @pytest.mark.parametrize(
        "address", ["here", "127.0.0.1", ":6379", "host:0", "host:port", "host:99999", "ray://host:10001"]
    )
    def test_what_is_no_address(self, address: str) -> None:
        assert self.failure(address) == f"The address of a Ray cluster is auto or HOST:PORT. Got {address!r}."

    def test_on_the_command_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        found = CliRunner().invoke(
            app, ["run", "--clients", "3", "--samples", "9", "--backend", "ray", "--address", "127.0.0.1:9"]
        )
        assert found.exit_code == 1
        assert "No Ray cluster answers at 127.0.0.1:9" in found.stderr
        assert "Traceback" not in found.stderr


# What a worker does, in this process


class Reference:
    """Stands for data and model in the object store."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner

    def hex(self) -> str:
        return str(id(self))


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ray_task.TaskReport]:
    """Runs a task here, as a worker would."""
    import ray

    monkeypatch.setattr(ray_task, "_kept", None)
    monkeypatch.setattr(ray, "get", lambda reference: (digits(SIZES), reference.learner))

    def run(
        learner: Any, masks: Sequence[int], version: str = fv.__version__, parts: int = 1
    ) -> ray_task.TaskReport:
        reference = learner if isinstance(learner, Reference) else Reference(learner)
        rules = TaskRules(QUICK, "cpu", None, parts, 1)
        return train_chunk(version, [reference], rules, [(mask, 0) for mask in masks])

    return run


class TestTask:
    def test_what_was_finished_before_a_failure_comes_along(
        self, work: Callable[..., ray_task.TaskReport]
    ) -> None:
        # So little memory that every coalition is a wave of its own, in the order of their sizes.
        report = work(Failing("raise", at=1), [0b0001, 0b0011, 0b0100], parts=1 << 60)
        assert [mask for (mask, _), _ in report.outcomes] == [0b0001, 0b0100]
        assert (report.kind, report.reason) == (RAISED, "ValueError: the model of client 0 is broken")

    def test_too_little_memory_is_told_apart(self, work: Callable[..., ray_task.TaskReport]) -> None:
        assert work(Failing("allocate"), [1]).kind == MEMORY
        told = ray_task._told
        assert told(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))[0] == MEMORY
        assert told(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"))[0] == MEMORY
        assert told(RuntimeError("shapes do not match"))[0] == RAISED
        assert told(UtilityError("this coalition"))[0] == RAISED
        assert told(InputError("every coalition"))[0] == FATAL

    def test_another_release_is_noticed_before_anything_is_read(
        self, work: Callable[..., ray_task.TaskReport], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import ray

        monkeypatch.setattr(ray, "get", lambda reference: pytest.fail("was read"))
        report = work(Failing("raise"), [1], version="0.0.1")
        assert report.kind == FATAL
        assert f"has fedvalue {fv.__version__}, the run was started with 0.0.1" in report.reason

    def test_the_first_round_serves_the_next_task_of_the_same_clients(
        self, work: Callable[..., ray_task.TaskReport], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = []
        original = LocalTrainer.__init__

        def counted(self: LocalTrainer, *args: Any, **more: Any) -> None:
            opened.append(args)
            original(self, *args, **more)

        monkeypatch.setattr(LocalTrainer, "__init__", counted)
        reference = Reference(Failing(""))
        found = [work(reference, masks).outcomes for masks in ([0b0111], [0b0011, 0b0101], [0b1000])]
        assert len(opened) == 2
        plain = outcomes(LocalTrainer("cpu"), digits(SIZES), "mlp", QUICK, [7, 3, 5, 8])
        for (mask, _), outcome in [pair for part in found for pair in part]:
            assert outcome.metrics == pytest.approx(plain[mask], abs=1e-5)


# With workers


@pytest.fixture(scope="module")
def two_workers() -> RayTrainer:
    shared_ray()
    return RayTrainer(workers=2)


def local(sizes: tuple[int, ...] = SIZES) -> dict[int, dict[str, float]]:
    return outcomes(LocalTrainer("cpu"), digits(sizes), "mlp", QUICK, range(1 << len(sizes)))


def stored(path: Path, game: FederatedGame) -> dict[int, Any]:
    with UtilityStore(path) as store:
        return dict(store.read(game.id))


def trained_rows(log: Path) -> int:
    """Local trainings of round 2 in all workers."""
    return sum(len(path.read_text().split()) for path in log.iterdir())


@pytest.mark.slow
class TestWorkers:
    def test_utilities_and_identity_are_those_of_the_local_trainer(self, two_workers: RayTrainer) -> None:
        said: list[str] = []
        game = FederatedGame(digits(SIZES), "mlp", QUICK, trainer=two_workers)
        game.follow(said.append)
        assert game.id == FederatedGame(digits(SIZES), "mlp", QUICK).id
        found = dict(game.evaluate(EVERYONE))
        expected = local()
        assert found.keys() == expected.keys()
        for mask, outcome in found.items():
            assert outcome.metrics == pytest.approx(expected[mask], abs=1e-5, rel=1e-5)
            assert (outcome.backend, outcome.device) == ("ray", "cpu")
            assert outcome.rows["accuracy"].mean == pytest.approx(outcome.metrics["accuracy"])
        assert "Ray: 2 of 2 workers busy" in said

    def test_trials_of_several_seeds_are_one_submission(self, two_workers: RayTrainer) -> None:
        trials = [(mask, seed) for seed in range(3) for mask in (1, 7, 15)]
        game = FederatedGame(digits(SIZES), "mlp", QUICK, trainer=two_workers)
        found = dict(game.evaluate_trials(trials))
        expected = dict(FederatedGame(digits(SIZES), "mlp", QUICK, device="cpu").evaluate_trials(trials))
        assert found.keys() == expected.keys()
        for trial, outcome in found.items():
            assert outcome.metrics == pytest.approx(expected[trial].metrics, abs=1e-5, rel=1e-5)

    def test_a_store_goes_on_with_either(self, two_workers: RayTrainer, tmp_path: Path) -> None:
        store = tmp_path / "store.db"
        here = FederatedGame(digits(SIZES), "mlp", QUICK, device="cpu")
        there = FederatedGame(digits(SIZES), "mlp", QUICK, trainer=two_workers)
        fv.value(here, "loo", store=store)
        values = fv.value(there, "exact", store=store, noise=False)
        expected = fv.value(here, "exact", noise=False)
        assert values.mean == pytest.approx(expected.mean, abs=1e-9)  # counts of test samples
        backends = [outcome.backend for outcome in stored(store, here).values()]
        assert sorted(backends) == ["local"] * 5 + ["ray"] * 11

    def test_data_and_model_travel_once(
        self, two_workers: RayTrainer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import ray

        put = []
        original = ray.put
        monkeypatch.setattr(ray, "put", lambda value: (put.append(value), original(value))[1])
        game = FederatedGame(digits((9, 8, 7)), "mlp", QUICK, trainer=two_workers, replicates=2)
        for replicate in (0, 1):
            assert len(dict(game.evaluate(range(8), replicate))) == 8
        assert put == [(game.scenario, game.learner)]

    def test_threads_and_memory_of_a_task(self, two_workers: RayTrainer) -> None:
        for cpus, memory in ((1, 10**7), (2, None)):
            trainer = RayTrainer(workers=1, cpus_per_task=cpus, memory=memory)
            (metrics,) = outcomes(trainer, line(), Telling(), Training(rounds=2), [3]).values()
            assert metrics["threads"] == cpus
            assert metrics["memory"] == memory or (memory is None and metrics["memory"] > 10**6)

    def test_a_task_that_asks_for_more_than_there_is(self, two_workers: RayTrainer) -> None:
        for options in ({"cpus_per_task": 3}, {"gpus_per_task": 1}):
            with pytest.raises(
                InputError, match=r"no machine of .* has them .all together have 2 CPUs and 0 GPUs"
            ):
                outcomes(RayTrainer(**options), digits(), "mlp", QUICK, [1])

    def test_another_cluster_than_the_connected_one(self, two_workers: RayTrainer) -> None:
        with pytest.raises(InputError, match=r"is connected to .* and 127.0.0.1:9 was asked for"):
            outcomes(RayTrainer("127.0.0.1:9"), digits(), "mlp", QUICK, [1])

    def test_a_task_that_raises(self, two_workers: RayTrainer) -> None:
        """One task has all coalitions of client 3, the other one the others."""
        game = FederatedGame(digits(SIZES), Failing("raise", at=3), QUICK, trainer=two_workers)
        kept: dict[int, Any] = {}
        with pytest.raises(UtilityError) as caught:
            kept.update(game.evaluate([0b1001, 0b1010, 0b1011, 0b0101, 0b0110, 0b0111]))
        assert kept.keys() == {0b0101, 0b0110, 0b0111}  # an update takes what comes before an error
        assert caught.value.coalition == (0, 1, 3)
        assert str(caught.value) == (
            "3 coalitions could not be trained: {client 0, client 1, client 3}, {client 1, client 3}, "
            "{client 0, client 3}. ValueError: the model of client 0 is broken. All others were trained and are "
            "kept: fix this and run the same again."
        )

    def test_a_killed_worker_is_replaced_and_nothing_is_done_twice(
        self, two_workers: RayTrainer, tmp_path: Path
    ) -> None:
        log = tmp_path / "log"
        log.mkdir()
        learner = Failing("kill", at=3, once=str(tmp_path / "killed"), log=str(log))
        game = FederatedGame(digits(SIZES), learner, QUICK, trainer=two_workers)
        with pytest.warns(
            FedvalueWarning, match=r"A worker died .WorkerCrashedError.: \d+ coalitions? of it"
        ):
            values = fv.value(game, "exact", store=tmp_path / "store.db", noise=False)
        assert (tmp_path / "killed").exists()
        here = FederatedGame(digits(SIZES), "mlp", QUICK, device="cpu")
        assert values.mean == pytest.approx(fv.value(here, "exact", noise=False).mean, abs=1e-9)
        assert len(stored(tmp_path / "store.db", game)) == 16
        assert trained_rows(log) == sum(mask.bit_count() for mask in EVERYONE)

    def test_a_model_that_kills_its_workers(self, two_workers: RayTrainer) -> None:
        game = FederatedGame(digits(SIZES), Failing("kill", at=3), QUICK, trainer=two_workers)
        kept: dict[int, Any] = {}
        with pytest.warns(FedvalueWarning), pytest.raises(UtilityError) as caught:
            kept.update(game.evaluate([0b0001, 0b1001]))
        assert kept.keys() == {0b0001}
        assert str(caught.value).startswith(
            "1 coalition could not be trained: {client 0, client 3}. Their workers "
        )
        assert "died 3 times (WorkerCrashedError): killed from outside" in str(caught.value)
        assert "All others were trained and are kept" in str(caught.value)

    def test_too_little_memory_for_many(self, two_workers: RayTrainer) -> None:
        game = FederatedGame(digits(SIZES), Failing("allocate for many"), QUICK, trainer=two_workers)
        with pytest.warns(FedvalueWarning, match=r"MemoryError on .*coalitions are tried again in halves"):
            found = dict(game.evaluate(EVERYONE))
        expected = local()
        for mask, outcome in found.items():
            assert outcome.metrics == pytest.approx(expected[mask], abs=1e-5, rel=1e-5)
        assert found.keys() == expected.keys()

    def test_too_little_memory_for_one(self, two_workers: RayTrainer) -> None:
        game = FederatedGame(digits(SIZES), Failing("allocate", at=3), QUICK, trainer=two_workers)
        kept: dict[int, Any] = {}
        with pytest.warns(FedvalueWarning), pytest.raises(UtilityError) as caught:
            kept.update(game.evaluate(EVERYONE))
        assert sorted(kept) == list(range(8))
        assert "8 coalitions could not be trained" in str(caught.value)
        assert "training a single coalition. Allow fewer tasks on a machine" in str(caught.value)

    def test_a_worker_ended_by_rays_memory_monitor(
        self, two_workers: RayTrainer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not made to happen, which would take the memory of the machine: the first answer of several is replaced."""
        import ray

        original, killed = ray.get, []

        def get(reference: Any) -> Any:
            answer = original(reference)
            # Workers begin with a coalition each, and either may come back last.
            if not killed and len(answer.outcomes) > 1:
                killed.append(reference)
                raise ray.exceptions.OutOfMemoryError("a worker was killed")
            return answer

        monkeypatch.setattr(ray, "get", get)
        game = FederatedGame(digits(SIZES), "mlp", QUICK, trainer=two_workers)
        with pytest.warns(
            FedvalueWarning, match="Ray ended a worker whose machine was running out of memory"
        ):
            assert dict(game.evaluate(EVERYONE)).keys() == set(EVERYONE)

    def test_another_release_on_the_workers(
        self, two_workers: RayTrainer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ray_run, "__version__", "0.0.1")
        with pytest.raises(FedvalueError, match="Install the same release on every machine"):
            outcomes(two_workers, digits(), "mlp", QUICK, range(16))

    def test_a_model_that_the_workers_do_not_have(
        self, two_workers: RayTrainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "only_here.py").write_text(
            "from torch import nn\ndef net(scenario):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        game = FederatedGame(digits(), "only_here:net", QUICK, trainer=two_workers)
        with pytest.raises(FedvalueError, match=r"cannot load data and model: .*No module named 'only_here'"):
            dict(game.evaluate([1, 2, 3]))

    def test_what_nobody_waits_for_is_cancelled(self, two_workers: RayTrainer) -> None:
        game = FederatedGame(digits(SIZES), Failing("hang", at=3), QUICK, trainer=two_workers)
        found = game.evaluate([0b0001, 0b1000])
        assert next(found)[0] == 0b0001
        found.close()
        plain = FederatedGame(digits(SIZES), "mlp", QUICK, trainer=two_workers)
        began = time.monotonic()
        assert len(dict(plain.evaluate(EVERYONE))) == 16
        assert time.monotonic() - began < 60

    def test_a_recorded_run_is_recorded_here(self, two_workers: RayTrainer) -> None:
        game = FederatedGame(digits(SIZES), "mlp", QUICK, trainer=two_workers)
        expected = fv.value(FederatedGame(digits(SIZES), "mlp", QUICK, device="cpu"), "or")
        assert fv.value(game, "or").mean == pytest.approx(expected.mean, abs=1e-6)


# Processes of their own


# The command with tasks so short that it can be stopped between them.
SHORT_TASKS = """
from fedvalue.cli import main
from fedvalue.trainers.ray import RayTrainer
RayTrainer.__init__.__kwdefaults__["checkpoint"] = 0.5
main()
"""
RUN = ("--clients", "8", "--samples", "40", "--rounds", "4", "--epochs", "4", "--exact", "--no-noise")
MARK = "FEDVALUE_TEST_HOME"

# A model that cannot be trained, which nobody notices before.
MINE = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        if self.training and len(x) > 8:
            raise ValueError("too many samples")
        return self.layers(x)

def net(scenario):
    return Net()
"""

# Two machines, as far as Ray knows. One of them goes while both are at work.
TWO_NODES = """
import json, sys, threading, time, warnings
from pathlib import Path
from ray.cluster_utils import Cluster
import fedvalue as fv
from federations import QUICK, digits
from fedvalue.trainers.ray import RayTrainer
from ray_help import Failing

def remove():
    while len({path.name.split("-")[1] for path in log.iterdir()}) < 2:
        time.sleep(0.02)
    cluster.remove_node(node, allow_graceful=False)

notes = []
warnings.showwarning = lambda message, *rest: notes.append(str(message))
warnings.simplefilter("always", fv.FedvalueWarning)
sizes, folder, log = json.loads(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
options = {"num_cpus": 1, "temp_dir": folder, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=options)
node = cluster.add_node(num_cpus=1, temp_dir=folder)
with RayTrainer(cluster.address) as trainer:
    game = fv.FederatedGame(digits(tuple(sizes)), Failing("slow", log=str(log)), QUICK, trainer=trainer)
    busy = []
    game.follow(busy.append)
    threading.Thread(target=remove, daemon=True).start()
    found = [(mask, outcome.metrics["loss"]) for mask, outcome in game.evaluate(range(1 << len(sizes)))]
cluster.shutdown()
print(json.dumps({"found": found, "notes": notes, "busy": busy}))
"""

# A Ray of our own that stays until its standard input is closed.
OPEN = """
import sys
import fedvalue as fv
from federations import QUICK, digits

game = fv.FederatedGame(digits(), "mlp", QUICK, trainer="ray", workers=1)
assert len(dict(game.evaluate([1, 2]))) == 2
print("open", flush=True)
sys.stdin.read()
"""
JOIN = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False); print(len(ray.nodes()))"


def listening(process: int) -> set[str]:
    """The addresses on which a process waits for connections, as /proc writes them."""
    sockets = set()
    for entry in Path(f"/proc/{process}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            sockets.add(str(entry.readlink()))
    kinds = (Path(f"/proc/net/{kind}").read_text().splitlines() for kind in ("tcp", "tcp6"))
    lines = [line.split() for kind in kinds for line in kind]
    return {line[1].split(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in sockets}


class Home:
    """Runs commands with a Ray of their own, whose processes and files can be found."""

    def __init__(self, path: Path, ray_files: Path) -> None:
        self.path = path
        self.ray_files = ray_files
        self.environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": WORKER_PATH,
            "TMPDIR": str(ray_files),
            "RAY_TMPDIR": str(ray_files),
            "RAY_AUTH_TOKEN": "fedcba9876543210" * 4,
            MARK: str(path),
        }

    def start(self, *command: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *map(str, command)],
            cwd=self.path,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *options: object) -> subprocess.Popen[str]:
        store = ("--store", self.path / "store.db")
        return self.start(
            "-c", SHORT_TASKS, "run", "--backend", "ray", "--workers", 2, *store, *RUN, *options
        )

    def processes(self, named: str = "") -> list[int]:
        """Those that this started, zombies left out."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                ours = f"{MARK}={self.path}".encode() in (entry / "environ").read_bytes()
                if ours and named in (entry / "cmdline").read_text() and (entry / "cmdline").read_text():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def of_raylet(self, named: str) -> int:
        """The raylet of the only Ray, or what it has started under this name, which hides its environment."""
        raylets = [p for p in self.processes() if Path(f"/proc/{p}/comm").read_text().strip() == "raylet"]
        if named == "raylet":
            return raylets[0]
        children = Path(f"/proc/{raylets[0]}/task/{raylets[0]}/children")
        found: list[int] = []

        def looked() -> bool:
            of_it = map(int, children.read_text().split())
            found[:] = [p for p in of_it if named in Path(f"/proc/{p}/cmdline").read_text()]
            return bool(found)

        self.until(looked, named)
        return found[0]

    def until(
        self, condition: Callable[[], bool], what: str, run: subprocess.Popen[str] | None = None
    ) -> None:
        """Waits for something to happen while the run goes on."""
        ends = time.monotonic() + LONG
        while not condition():
            assert time.monotonic() < ends, f"waited {LONG} s for {what}"
            assert run is None or run.poll() is None, f"it ended before {what}: {run.communicate()}"
            time.sleep(0.05)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with folder() as ray_files:
        home = Home(tmp_path, ray_files)
        try:
            yield home
        finally:
            for process in home.processes():  # only of a test that failed
                os.kill(process, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
class TestProcesses:
    def test_interrupted_then_killed_then_finished_without_a_worker(self, home: Home) -> None:
        scenario = fv.load_scenario("digits", clients=8, samples=40, partition="size")
        game = FederatedGame(scenario, "mlp", Training(batch=32, rate=0.01), device="cpu")

        def rows() -> dict[int, Any]:
            path = home.path / "store.db"
            return stored(path, game) if path.exists() else {}

        # Ctrl-C in a terminal reaches every process of the group.
        run = home.run()
        home.until(lambda: len(rows()) >= 4, "the first coalitions", run)
        os.killpg(run.pid, signal.SIGINT)
        _, said = run.communicate(timeout=LONG)
        assert run.returncode == 130, said
        assert f"Interrupted. {len(rows())} trained coalitions are in" in said
        home.until(lambda: not home.processes(), "the end of all processes")
        assert list(home.ray_files.iterdir()) == []
        # The driver is killed: its Ray goes, too.
        before = rows()
        run = home.run()
        home.until(lambda: len(rows()) > len(before), "further coalitions", run)
        run.kill()
        run.communicate(timeout=LONG)
        home.until(lambda: not home.processes(), "the end of all processes")
        (left,) = home.ray_files.iterdir()  # whoever comes next removes it
        # The same again, and one of its workers is killed.
        before = rows()
        assert 4 < len(before) < 256
        run = home.run("--json", "-")
        home.until(lambda: len(rows()) > len(before) and bool(home.processes("ray::train_chunk")), "work")
        os.kill(home.processes("ray::train_chunk")[0], signal.SIGKILL)
        printed, said = run.communicate(timeout=LONG)
        assert run.returncode == 0, said
        assert "Note: A worker died (WorkerCrashedError)" in said
        values = json.loads(printed)
        expected = fv.value(game, "exact", noise=False)
        assert values["mean"] == pytest.approx(expected.mean.tolist(), abs=1e-9)
        after = rows()
        assert len(after) == 256
        assert {mask: after[mask] for mask in before} == before
        assert values["cost"]["trained"] == 256 - len(before)  # nothing that was stored
        assert home.processes() == []
        assert not left.exists()
        assert list(home.ray_files.iterdir()) == []

    @pytest.mark.parametrize("victim", ["raylet", "ray::DashboardAgent", "ray::RuntimeEnvAgent"])
    def test_ray_itself_dies(self, home: Home, victim: str) -> None:
        """Ray ends its driver without an exception; that is a process of its own, and the command says what to do."""
        scenario = fv.load_scenario("digits", clients=8, samples=40, partition="size")
        rules = Training(batch=32, rate=0.01, rounds=40)  # long enough not to end before
        game = FederatedGame(scenario, "mlp", rules, device="cpu")
        path = home.path / "store.db"
        run = home.run("--rounds", 40)
        home.until(lambda: path.exists() and len(stored(path, game)) >= 2, "the first coalitions", run)
        before = stored(path, game)
        os.kill(home.of_raylet(victim), signal.SIGKILL)
        printed, said = run.communicate(timeout=LONG)
        assert run.returncode == 1, (printed, said)
        (error,) = [line for line in said.splitlines() if line.startswith("Error")]
        assert error.startswith("Error: Ray ended in the middle of the run")
        assert "Traceback" not in said
        assert "state-dump" not in said
        assert len(before) <= len(stored(path, game)) < 256
        home.until(lambda: not home.processes(), "the end of all processes")
        assert list(home.ray_files.iterdir()) == []

    def test_a_machine_that_goes_away(self, home: Home) -> None:
        (home.ray_files / "ray").mkdir()  # where the cluster notes its address
        (home.path / "log").mkdir()
        run = home.start("-c", TWO_NODES, json.dumps(SIZES), home.ray_files, home.path / "log")
        printed, said = run.communicate(timeout=LONG)
        assert run.returncode == 0, said
        told = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
        expected = local()
        assert sorted(mask for mask, _ in told["found"]) == list(EVERYONE)  # each once
        for mask, loss in told["found"]:
            assert loss == pytest.approx(expected[mask]["loss"], abs=1e-5)
        assert any(note.startswith("A worker died") for note in told["notes"])
        assert "Ray: 2 of 2 workers busy" in told["busy"]
        home.until(lambda: not home.processes(), "the end of all processes")

    def test_a_model_of_ones_own_and_a_task_that_raises(self, home: Home) -> None:
        """Modules of the current folder are found by the workers; errors are sentences."""
        (home.path / "mine.py").write_text(MINE)
        run = home.run("--model", "mine:net", "--clients", "3", "--quiet")
        printed, said = run.communicate(timeout=LONG)
        assert run.returncode == 1
        assert printed == ""
        assert "could not be trained: " in said
        assert "ValueError: too many samples." in said
        assert "Traceback" not in said
        assert home.processes() == []
        assert list(home.ray_files.iterdir()) == []

    def test_strangers_are_refused_and_nobody_else_is_reached(self, home: Home) -> None:
        """A Ray of our own listens on the loopback interface only, and asks for its token."""
        run = home.start("-c", OPEN)
        assert run.stdout is not None
        assert run.stdout.readline().strip() == "open", run.communicate(timeout=LONG)
        commands = [
            Path(f"/proc/{process}/cmdline").read_text() for process in home.processes("raylet/raylet")
        ]
        (address,) = {
            found for command in commands for found in re.findall(r"--gcs-address=([\d.:]+)", command)
        }
        heard = set().union(*map(listening, home.processes()))
        assert heard
        assert heard <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
        home.environment |= {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        for token, enters in ((home.environment["RAY_AUTH_TOKEN"], True), ("0" * 64, False)):
            home.environment["RAY_AUTH_TOKEN"] = token
            joined = home.start("-c", JOIN, address)
            printed, said = joined.communicate(timeout=LONG)
            assert (joined.returncode == 0) == enters, said
            assert ("1" in printed.split()) == enters
        run.communicate(timeout=LONG)
        home.until(lambda: not home.processes(), "the end of all processes")
