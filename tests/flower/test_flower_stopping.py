"""How the processes of a local federation are ended: all that were started, whatever happens, and no others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from fedvalue.errors import FedvalueError
from fedvalue.flower import _processes as processes
from fedvalue.flower._processes import Federation

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs process groups")

PYTHON = Path(sys.executable).name
SLEEP = "import time; time.sleep(60)"
# Does not end when it is asked to, nor does what it has started.
STUBBORN = f"""
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}])
print(child.pid, flush=True)
child.wait()
"""


def is_alive(process: int) -> bool:
    """Whether it runs; one that has ended and that nobody has waited for does not."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True)
    return bool(listed.stdout.strip()) and not listed.stdout.startswith("Z")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_interrupt_does_not_stop_the_stopping(
    tmp_path: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[int] = []
    before = signal.signal(number, lambda n, frame: handled.append(n))
    stop = Federation.stop

    def interrupted(federation: Federation) -> None:
        signal.raise_signal(number)
        assert not handled
        stop(federation)

    monkeypatch.setattr(Federation, "stop", interrupted)
    try:
        with Federation(tmp_path) as federation:
            federation.start("sleeper", PYTHON, "-c", SLEEP)
            process = federation.processes["sleeper"]
    finally:
        signal.signal(number, before)
    assert process.poll() is not None
    assert handled == [number]


@pytest.mark.slow
def test_who_does_not_listen_is_ended_with_what_it_started_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_STOP_SECONDS", 0.5)
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as stranger:
        try:
            with Federation(tmp_path) as federation:
                federation.start("stubborn", PYTHON, "-c", STUBBORN)
                leader = federation.processes["stubborn"]
                while not federation.log("stubborn").strip():
                    time.sleep(0.05)
                child = int(federation.log("stubborn"))
                assert is_alive(child)
            assert leader.poll() == -signal.SIGKILL
            ends = time.monotonic() + 10  # it was killed, but a busy machine takes a moment to end it
            while is_alive(child) and time.monotonic() < ends:
                time.sleep(0.05)
            assert not is_alive(child)
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_program_that_ended_by_itself_is_named_with_what_it_said(tmp_path: Path) -> None:
    with Federation(tmp_path) as federation:
        federation.start("superlink", PYTHON, "-c", "print('no port left'); raise SystemExit(3)")
        federation.processes["superlink"].wait()
        with pytest.raises(FedvalueError, match="superlink ended with code 3: no port left"):
            federation.check("superlink")
        with pytest.raises(FedvalueError, match="program flower-nothing is missing"):
            federation.start("nothing", "flower-nothing")
