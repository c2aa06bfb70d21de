"""Functions in worker processes: the same numbers, sooner; and whatever goes wrong in them, named and contained."""

from __future__ import annotations

import faulthandler
import json
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marks import first_fast

import fedvalue as fv
from fedvalue.coalitions import members
from fedvalue.games._calls import Agenda, Call, Failure

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

Coalition = tuple[int, ...]
BAD = (0, 2)


def size(coalition: Coalition) -> float:
    """At the top of a module, for processes that must import it."""
    return float(len(coalition))


def sizes(coalitions: list[Coalition]) -> list[float]:
    return [size(coalition) for coalition in coalitions]


def evaluated(game: fv.FunctionGame, masks: Any = range(8)) -> tuple[dict[Coalition, float], str]:
    """What a game handed over, and the error that it ended with, if any."""
    kept: dict[Coalition, float] = {}
    try:
        for mask, outcome in game.evaluate(masks):
            assert members(mask) not in kept, "handed over twice"
            kept[members(mask)] = outcome.metrics["utility"]
    except fv.UtilityError as error:
        return kept, str(error)
    return kept, ""


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not asked for its result does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Callable[[], object], seconds: float = 20) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not come about"
        time.sleep(0.01)


def zombies() -> list[str]:
    """Ended processes of this one that nobody asked for."""
    stats = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat") if os.access(path, os.R_OK)]
    fields = [(text, text.rsplit(")", 1)[1].split()) for text in stats]
    return [text for text, (state, parent, *_) in fields if int(parent) == os.getpid() and state == "Z"]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []
    assert [text for text in zombies() if "python" in text] == []


class Misbehaving:
    """A function that does something wrong for one coalition, the first `times` times, and logs every call."""

    def __init__(self, folder: Path, what: str, times: int = 1_000_000) -> None:
        self.log = folder / "log"
        self.what = what
        self.times = times
        self.log.touch()

    def __call__(self, coalition: Coalition) -> Any:
        with self.log.open("a") as file:
            file.write(json.dumps([coalition, os.getpid()]) + "\n")
        if coalition == BAD and self.calls()[BAD] <= self.times:
            return getattr(self, self.what)()
        return size(coalition)

    def many(self, coalitions: list[Coalition]) -> list[Any]:
        return [self(coalition) for coalition in coalitions]

    def calls(self) -> Counter[Coalition]:
        return Counter(tuple(json.loads(line)[0]) for line in self.log.read_text().splitlines())

    def raises(self) -> None:
        raise ZeroDivisionError("no data")

    def exits(self) -> None:
        os._exit(3)

    def quits(self) -> None:
        raise SystemExit("enough")

    def dies(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def crashes(self) -> None:
        faulthandler.disable()  # pytest's report of it would be printed
        os.kill(os.getpid(), signal.SIGSEGV)

    def hangs(self) -> None:
        time.sleep(60)

    def spins(self) -> None:
        while True:
            pass

    def closes_everything(self) -> None:
        os.closerange(3, 256)

    def no_number(self) -> Any:
        return threading.Lock()  # cannot be pickled either

    def nan(self) -> float:
        return math.nan


REASONS = {
    "raises": "ZeroDivisionError: no data",
    "exits": "exit code 3",
    "quits": "SystemExit: enough",
    "dies": "ended by SIGKILL, as the system does when memory runs out",
    "crashes": "ended by SIGSEGV",
    "hangs": "longer than the timeout of 0.5 s",
    "spins": "longer than the timeout of 0.5 s",
    "closes_everything": "its worker process",
    "no_number": "must return a finite number. Got <unlocked _thread.lock",
    "nan": "must return a finite number. Got nan",
}
LIMITED = {"hangs": 0.5, "spins": 0.5}
# One that raises and one that ends; the others end in the same ways, and some take the time of a timeout.
QUICK = ("raises", "dies")
EVERY = [pytest.param(what, marks=() if what in QUICK else pytest.mark.slow) for what in REASONS]


class TestSameNumbers:
    @pytest.mark.parametrize(
        "options",
        first_fast(
            [
                {},
                {"replicates": 2},
                *(pytest.param(o, marks=pytest.mark.slow) for o in ({"chunk": 3}, {"timeout": 30})),
            ]
        ),
        ids=str,
    )
    @pytest.mark.parametrize("batch", first_fast([True, False]))
    def test_jobs_change_no_value(self, batch: bool, options: dict[str, Any]) -> None:
        weights = np.random.default_rng(0).random(5)

        def alone(coalition: Coalition) -> float:
            return math.sqrt(weights[list(coalition)].sum()) / 3

        fn = alone if not batch else lambda coalitions: [alone(c) for c in coalitions]
        games = [fv.FunctionGame(5, fn, batch=batch, jobs=jobs, **options) for jobs in (1, 2, 3)]
        assert len({game.id for game in games}) == 1
        first, *others = [fv.value(game, "exact").mean.tolist() for game in games]
        assert others == [first, first]

    def test_global_random_numbers_depend_on_the_coalition_not_on_the_worker(self) -> None:
        def noisy(coalition: Coalition) -> float:
            return random.random() + 10 * np.random.random()  # noqa: NPY002

        games = [fv.FunctionGame(4, noisy, batch=False, jobs=jobs, key="k") for jobs in (2, 3)]
        first, second = (game(range(16)) for game in games)
        assert first == second
        assert len(set(first)) == 16, "copies of one process drew the same"
        repeated = [outcome.metrics["utility"] for _, outcome in games[0].evaluate(range(16), replicate=1)]
        assert not set(first) & set(repeated)

    @pytest.mark.slow
    def test_the_threads_of_openmp_do_not_survive_a_fork_and_are_not_waited_for(self) -> None:
        import torch

        def product(coalition: Coalition) -> float:
            ones = torch.ones(300, 300) * len(coalition)
            return float(torch.exp(ones / 10).sum() + (ones @ ones).sum())

        before = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            game = fv.FunctionGame(2, product, batch=False, key="k")
            here = game(range(4))  # now there are threads that a fork does not copy
            there = fv.FunctionGame(2, product, batch=False, key="k", jobs=2, timeout=20)(range(4))
        finally:
            torch.set_num_threads(before)
        assert there == pytest.approx(here)

    def test_a_function_may_start_processes_itself(self) -> None:
        def utility(coalition: Coalition) -> float:
            ours, theirs = multiprocessing.get_context("fork").Pipe()
            helper = multiprocessing.get_context("fork").Process(
                target=lambda: theirs.send(len(coalition) / 4)
            )
            helper.start()
            helper.join()
            return float(ours.recv())

        assert fv.FunctionGame(2, utility, batch=False, jobs=2, key="k")([0, 1, 3]) == [0.0, 0.25, 0.5]

    @pytest.mark.parametrize("options", [{"jobs": 2}, {"timeout": 9}])
    def test_a_process_that_may_start_none_says_so(
        self, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
    ) -> None:
        monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
        with pytest.raises(fv.GameError, match=r"daemonic.*use jobs=1"):
            fv.FunctionGame(3, size, batch=False, **options)([1])
        assert fv.FunctionGame(3, size, batch=False)([1]) == [1.0]

    def test_a_function_may_refer_to_modules_that_are_built_in(self) -> None:
        game = fv.FunctionGame(2, lambda c: float(len(c)) + 0 * time.time() + 0 * sys.maxsize, batch=False)
        assert game([0, 3]) == [0.0, 2.0]


class TestSideBySide:
    @pytest.mark.slow
    def test_two_jobs_do_nearly_twice_as_much_in_the_same_time(self, tmp_path: Path) -> None:
        """Measured from the first start to the last end, by what ran when: other programs disturb this little."""
        log = tmp_path / "log"

        def sleeps(coalition: Coalition) -> float:
            began = time.monotonic()
            time.sleep(0.1)
            with log.open("a") as file:
                file.write(f"{began} {time.monotonic()}\n")
            return size(coalition)

        fv.FunctionGame(4, sleeps, batch=False, jobs=2, key="k")(range(16))
        began, ended = np.loadtxt(log).T
        assert (ended - began).sum() > 1.5 * (ended.max() - began.min())

    @pytest.mark.slow
    def test_outcomes_come_as_they_finish(self) -> None:
        def late(coalition: Coalition) -> float:
            time.sleep(0.8 if coalition == () else 0)
            return size(coalition)

        order = [mask for mask, _ in fv.FunctionGame(3, late, batch=False, jobs=2).evaluate(range(8))]
        assert order[-1] == 0
        assert sorted(order) == list(range(8))

    def test_each_worker_has_one_call_at_a_time(self, tmp_path: Path) -> None:
        log = Misbehaving(tmp_path, "nan", times=0)
        game = fv.FunctionGame(6, log, batch=False, jobs=2, key="k")
        for finished, _ in enumerate(game.evaluate(range(64)), start=1):
            assert sum(log.calls().values()) <= finished + 2
        assert len({line.rsplit(", ", 1)[1] for line in log.log.read_text().splitlines()}) == 2

    def test_fast_functions_are_given_many_coalitions(self) -> None:
        began = time.monotonic()
        game = fv.FunctionGame(14, lambda cs: [len(c) for c in cs], jobs=2)
        assert game(range(1 << 14)) == [mask.bit_count() for mask in range(1 << 14)]
        assert time.monotonic() - began < 5

    def test_coalitions_may_be_given_as_integers_of_numpy(self) -> None:
        game = fv.FunctionGame(3, size, batch=False, jobs=2)
        assert game(np.arange(8)) == [float(mask.bit_count()) for mask in range(8)]  # type: ignore[arg-type]

    def test_no_more_workers_than_calls(self, tmp_path: Path) -> None:
        log = Misbehaving(tmp_path, "nan", times=0)
        assert fv.FunctionGame(3, log, batch=False, jobs=64, key="k")([1, 2]) == [1.0, 1.0]

    def test_seconds_are_those_of_the_function(self) -> None:
        def sleeps(coalition: Coalition) -> float:
            time.sleep(0.1)
            return 0.0

        game = fv.FunctionGame(1, sleeps, batch=False, jobs=2)
        assert all(0.1 <= outcome.seconds < 2 for _, outcome in game.evaluate([0, 1]))

    def test_what_a_function_prints_is_seen(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "import os, sys, fedvalue as fv\n"
            "def utility(c):\n"
            "    sys.stdout.write(f'seen {c}\\n')\n"
            "    return os._exit(0) if c == (0,) and not os.path.exists('once') and open('once', 'w') else 0.0\n"
            "fv.FunctionGame(3, utility, batch=False, jobs=2, retries=1)(range(8))\n"
        )
        buffered = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
        command = [sys.executable, str(script)]
        done = subprocess.run(command, cwd=tmp_path, env=buffered, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert set(done.stdout.splitlines()) == {f"seen {members(mask)}" for mask in range(8)}


class TestFailures:
    @pytest.mark.parametrize("what", EVERY)
    def test_a_coalition_that_always_fails_is_named_and_the_others_are_kept(
        self, tmp_path: Path, what: str
    ) -> None:
        fn = Misbehaving(tmp_path, what)
        options = {"timeout": LIMITED.get(what), "retries": 1, "jobs": 2}
        game = fv.FunctionGame(3, fn, list("abc"), batch=False, key="k", **options)
        kept, error = evaluated(game)
        assert "coalition (0, 2) (a, c) in 2 attempts, at last: " in error
        assert REASONS[what] in error
        assert fn.calls()[BAD] == 2
        assert set(kept) == set(fn.calls()) - {BAD}, "something finished was lost"
        assert set(kept) >= {members(mask) for mask in range(5)}

    @pytest.mark.parametrize("what", EVERY)
    def test_a_coalition_that_fails_once_is_tried_again(self, tmp_path: Path, what: str) -> None:
        fn = Misbehaving(tmp_path, what, times=1)
        game = fv.FunctionGame(3, fn, batch=False, key="k", jobs=2, retries=1, timeout=LIMITED.get(what))
        kept, error = evaluated(game)
        assert error == ""
        assert kept == {members(mask): size(members(mask)) for mask in range(8)}
        assert fn.calls() == Counter(members(mask) for mask in range(8)) + Counter([BAD])

    @pytest.mark.parametrize("what", ["raises", "nan", "no_number"])
    @pytest.mark.parametrize("batch", [True, False])
    def test_retries_work_without_processes(self, tmp_path: Path, what: str, batch: bool) -> None:
        fn = Misbehaving(tmp_path, what, times=2)
        options = {"fn": fn.many if batch else fn, "batch": batch, "key": "k", "chunk": 1}
        kept, error = evaluated(fv.FunctionGame(3, **options, retries=1))
        assert "in 2 attempts" in error
        assert BAD not in kept
        assert evaluated(fv.FunctionGame(3, **options, retries=1))[1] == ""

    @pytest.mark.parametrize("what", first_fast(["raises", "dies", "exits", "hangs", "nan"], 2))
    def test_in_a_call_for_several_the_guilty_one_is_found(self, tmp_path: Path, what: str) -> None:
        fn = Misbehaving(tmp_path, what)
        limit = LIMITED.get(what, 30)
        game = fv.FunctionGame(3, fn.many, list("abc"), chunk=4, key="k", jobs=2, timeout=limit)
        kept, error = evaluated(game)
        assert "coalition (0, 2) (a, c): " in error
        assert set(kept) == {members(mask) for mask in range(8)} - {BAD}

    @pytest.mark.slow
    def test_a_call_for_several_has_their_time_together(self) -> None:
        def slow(coalitions: list[Coalition]) -> list[float]:
            time.sleep(0.06 * len(coalitions))
            return sizes(coalitions)

        assert fv.FunctionGame(3, slow, chunk=8, timeout=0.4)(range(8)) == sizes(
            [members(m) for m in range(8)]
        )

    @pytest.mark.slow
    def test_many_that_are_together_for_speed_do_not_wait_for_the_time_of_all(self) -> None:
        def utility(coalitions: list[Coalition]) -> list[float]:
            if len(coalitions) > 16:
                time.sleep(60)
            return sizes(coalitions)

        began = time.monotonic()
        game = fv.FunctionGame(7, utility, timeout=1)
        assert game(range(128)) == sizes([members(mask) for mask in range(128)])
        assert time.monotonic() - began < 10

    def test_a_timeout_works_with_one_job(self, tmp_path: Path) -> None:
        game = fv.FunctionGame(3, Misbehaving(tmp_path, "hangs"), batch=False, key="k", timeout=0.4)
        began = time.monotonic()
        kept, error = evaluated(game)
        assert time.monotonic() - began < 5
        assert "longer than the timeout of 0.4 s" in error
        assert set(kept) == {members(mask) for mask in range(5)}

    @pytest.mark.slow
    def test_the_time_counts_for_each_coalition_alone(self) -> None:
        def slow(coalition: Coalition) -> float:
            time.sleep(0.1)
            return size(coalition)

        assert len(fv.FunctionGame(3, slow, batch=False, timeout=0.6)(range(8))) == 8

    def test_a_worker_that_is_killed_from_outside_is_replaced(self, tmp_path: Path) -> None:
        pids = tmp_path / "pids"

        def utility(coalition: Coalition) -> float:
            if coalition == BAD and not pids.exists():
                (tmp_path / "new").write_text(str(os.getpid()))
                (tmp_path / "new").rename(pids)
                time.sleep(60)
            return size(coalition)

        def kill() -> None:
            wait_for(pids.exists)
            os.kill(int(pids.read_text()), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        kept, error = evaluated(fv.FunctionGame(3, utility, batch=False, jobs=2, retries=1, key="k"))
        killer.join()
        assert (len(kept), error) == (8, "")

    @pytest.mark.slow
    def test_what_a_function_started_ends_with_its_time(self, tmp_path: Path) -> None:
        def trains(coalition: Coalition) -> float:
            process = subprocess.Popen(["sleep", "60"])
            (tmp_path / "pid").write_text(str(process.pid))
            return float(process.wait())

        _, error = evaluated(fv.FunctionGame(1, trains, batch=False, timeout=1.5, key="k"), [1])
        assert "timeout" in error
        wait_for(lambda: not alive(int((tmp_path / "pid").read_text())), seconds=5)

    def test_after_a_failure_nothing_new_begins_and_what_runs_is_awaited(self, tmp_path: Path) -> None:
        def utility(coalition: Coalition) -> float:
            if coalition == ():
                raise ValueError("no")
            (tmp_path / str(coalition)).touch()
            time.sleep(0.3)
            return size(coalition)

        kept, error = evaluated(fv.FunctionGame(6, utility, batch=False, jobs=2, key="k"), range(64))
        assert "ValueError: no" in error
        assert 1 <= len(kept) == len(list(tmp_path.iterdir())) <= 2

    def test_everything_fails(self) -> None:
        def utility(coalition: Coalition) -> float:
            time.sleep(0.05)
            raise ValueError("no")

        kept, error = evaluated(fv.FunctionGame(6, utility, batch=False, jobs=3, retries=2), range(64))
        assert kept == {}
        assert "3 attempts" in error
        assert "It failed for 2 more, too." in error

    def test_the_store_has_everything_that_was_finished(self, tmp_path: Path) -> None:
        fn = Misbehaving(tmp_path, "exits", times=1)
        game = fv.FunctionGame(4, fn, batch=False, key="k", jobs=2)
        with pytest.raises(fv.UtilityError, match="exit code 3"):
            fv.value(game, "exact", store=tmp_path / "store.db")
        assert fv.value(game, "exact", store=tmp_path / "store.db").mean == pytest.approx(np.ones(4))
        assert fn.calls() == Counter(members(mask) for mask in range(16)) + Counter([BAD])


class TestWords:
    def message(self, fn: Callable[[Coalition], Any], **options: Any) -> str:
        return evaluated(fv.FunctionGame(1, fn, batch=False, jobs=2, key="k", **options), [1])[1]

    def test_the_lines_of_the_user_are_shown_and_ours_are_not(self) -> None:
        def inner(depth: int) -> float:
            return inner(depth - 1) if depth else 1 / depth

        message = self.message(lambda c: inner(20))
        assert "test_workers.py, line" in message
        assert "in inner: return inner(depth - 1) if depth else 1 / depth" in message
        assert "  …" in message
        assert message.count("\n") == 8
        assert "fedvalue/workers.py" not in message
        assert "fedvalue/calls.py" not in message

    def test_texts_are_bounded_and_printable(self) -> None:
        def fails(coalition: Coalition) -> float:
            raise ValueError("\x1b[31m" + "long\n" * 1_000_000)

        message = self.message(fails)
        assert len(message) < 2000
        assert "\x1b" not in message
        assert "ValueError: [31mlong long" in message.replace("  ", " ")

    def test_an_exception_that_cannot_be_printed(self) -> None:
        class MuteError(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        def fails(coalition: Coalition) -> float:
            raise MuteError

        assert "MuteError: (its message cannot be shown)" in self.message(fails)

    def test_a_result_that_cannot_be_printed(self) -> None:
        class Mute:
            def __repr__(self) -> str:
                raise RuntimeError

        assert "must return a finite number. Got a Mute" in self.message(lambda c: Mute())

    def test_here_the_exception_is_the_cause(self) -> None:
        game = fv.FunctionGame(1, lambda c: 1 / 0, batch=False)
        with pytest.raises(fv.UtilityError) as caught:
            game([0])
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert "(no clients)" in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("jobs", first_fast([1, 2]))
    def test_one_number_for_a_list_of_coalitions(self, jobs: int) -> None:
        with pytest.raises(fv.UtilityError, match=r"returned 0\.9 for a list of 1\..*say batch=False"):
            fv.FunctionGame(2, lambda coalition: 0.9, jobs=jobs)([0, 1])
        records = [900, 700]
        with pytest.raises(fv.UtilityError, match=r"TypeError.*say batch=False"):
            fv.FunctionGame(2, lambda coalition: sum(records[i] for i in coalition), jobs=jobs)([0, 1])

    @pytest.mark.parametrize(
        "options",
        [
            {"jobs": 0}, {"jobs": 1.5}, {"jobs": True}, {"jobs": None}, {"retries": -1}, {"retries": "2"},
            {"timeout": 0}, {"timeout": -1}, {"timeout": math.inf}, {"timeout": math.nan}, {"timeout": "1 s"},
            {"timeout": True}, {"start": "thread"}, {"replicates": 0}, {"replicates": 1.5},
        ],
        ids=str,
    )  # fmt: skip
    def test_wrong_options_are_refused(self, options: dict[str, Any]) -> None:
        (name,) = options
        with pytest.raises(fv.GameError, match=rf"{name} must be.*Got"):
            fv.FunctionGame(2, size, batch=False, **options)


# Values three clients with two jobs; every call says when it starts and ends, and one of them hangs.
SCRIPT = """
import os, subprocess, sys, time
import fedvalue as fv

HANG_AT = int(sys.argv[1])

def log(what, coalition):
    with open(what, "a") as file:
        file.write(f"{os.getpid()} {coalition}\\n")

def utility(coalition):
    log("started", coalition)
    with open("started") as file:  # the other worker may have written meanwhile: its own line counts
        if file.readlines().index(f"{os.getpid()} {coalition}\\n") + 1 == HANG_AT:
            child = subprocess.Popen(["sleep", "60"])
            with open("child", "w") as file:
                file.write(str(child.pid))
            while True:
                pass
    time.sleep(0.1)  # what takes this long is stored at once
    log("finished", coalition)
    return float(len(coalition))

game = fv.FunctionGame(3, utility, batch=False, jobs=2, key="k")
print(fv.value(game, "exact", store="store.db").mean.tolist())
"""


class TestEndings:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "how",
        [
            *(pytest.param(how, marks=pytest.mark.slow) for how in (signal.SIGINT, signal.SIGTERM)),
            signal.SIGKILL,
        ],
    )
    def test_workers_end_with_their_parent(self, tmp_path: Path, how: signal.Signals) -> None:
        (tmp_path / "script.py").write_text(SCRIPT)

        def start(hang_at: int) -> subprocess.Popen[str]:
            command = [sys.executable, "-W", "error", "script.py", str(hang_at)]
            return subprocess.Popen(
                command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )

        def lines(name: str) -> list[str]:
            return (tmp_path / name).read_text().splitlines() if (tmp_path / name).exists() else []

        process = start(hang_at=3)
        try:
            wait_for(lambda: lines("child") and len(lines("finished")) == 7)
            time.sleep(0.1)  # what was finished last is on its way to the store
            process.send_signal(how)
            out, _ = process.communicate(timeout=20)
        finally:
            process.kill()  # nothing where it ended as it should; else a worker would spin for ever
        assert process.returncode != 0
        assert out == ""
        pids = {int(line.split()[0]) for line in lines("started")} | {int(lines("child")[0])}
        wait_for(lambda: not any(alive(pid) for pid in pids), seconds=5)

        out, err = start(hang_at=0).communicate(timeout=30)
        assert (out.strip(), err) == ("[1.0, 1.0, 1.0]", "")
        assert len(lines("finished")) == 8, "a finished evaluation was repeated"

    def test_an_evaluation_that_is_given_up_leaves_no_worker(self) -> None:
        outcomes = fv.FunctionGame(6, size, batch=False, jobs=2).evaluate(range(64))
        next(outcomes)
        assert len(multiprocessing.active_children()) == 2
        outcomes.close()  # type: ignore[attr-defined]
        assert multiprocessing.active_children() == []

    def test_a_program_ends_though_an_evaluation_was_left_open(self, tmp_path: Path) -> None:
        script = (
            "import fedvalue as fv\n"
            "left_open = fv.FunctionGame(6, len, batch=False, jobs=2, key='k').evaluate(range(64))\n"
            "print(next(left_open)[1].metrics)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("{'utility'")


class TestSpawn:
    @pytest.mark.slow
    def test_functions_that_can_be_imported_work(self) -> None:
        game = fv.FunctionGame(3, size, batch=False, jobs=2, start="spawn", timeout=30)
        assert game(range(8)) == sizes([members(mask) for mask in range(8)])

    def test_others_are_refused_and_it_is_said_why(self) -> None:
        with pytest.raises(fv.GameError, match="must be defined at the top of a module"):
            fv.FunctionGame(3, lambda c: 0.0, batch=False, jobs=2, start="spawn")([0])

    @pytest.mark.slow
    def test_a_script_that_begins_its_work_when_imported_is_told_so(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "import fedvalue as fv\n"
            "def utility(c):\n    return 0.0\n"
            "fv.FunctionGame(2, utility, batch=False, jobs=2, start='spawn')(range(4))\n"
        )
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        assert "GameError: With start='spawn'" in done.stderr.splitlines()[-1]
        assert "if __name__ == '__main__':" in done.stderr.splitlines()[-1]


class TestAgenda:
    @given(
        count=st.integers(0, 40),
        width=st.sampled_from([None, 1, 3, 8]),
        retries=st.integers(0, 2),
        jobs=st.integers(1, 4),
        failures=st.dictionaries(st.integers(0, 39), st.integers(1, 4), max_size=3),
        seed=st.integers(0, 1000),
    )
    def test_every_coalition_is_finished_once_or_fails_with_its_attempts_used_up(
        self, count: int, width: int | None, retries: int, jobs: int, failures: dict[int, int], seed: int
    ) -> None:
        """Calls end in any order; coalition m fails its first failures[m] times, alone or with others."""
        rng = random.Random(seed)
        agenda = Agenda(range(count), width, retries)
        tried: Counter[int] = Counter()
        running: list[Call] = []
        finished: list[int] = []
        for _ in range(1000):
            while len(running) < jobs and (due := agenda.next()) is not None:
                running.append(due)
            if not running:
                break
            done = running.pop(rng.randrange(len(running)))
            alone = len(done.masks) == 1
            tried.update(done.masks if alone else ())
            bad = [m for m in done.masks if failures.get(m, 0) >= max(tried[m], 1)]
            reply: Any = Failure("no") if bad else [float(m) for m in done.masks]
            finished += [mask for mask, _ in agenda.settle(done, reply, rng.choice([0.0, 1.0]))]
        assert not running, "it does not end"
        assert len(finished) == len(set(finished))
        hopeless = {m for m in failures if m < count and failures[m] > retries}
        given_up = {failed.mask for failed in agenda.failed}
        assert bool(given_up) == bool(hopeless)
        assert not given_up & set(finished)
        if not hopeless:
            assert sorted(finished) == list(range(count))
        else:
            assert agenda.failed[0].attempts == retries + 1
            assert agenda.failed[0].mask in hopeless
