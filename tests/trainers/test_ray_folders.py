"""Temporary folders of a Ray of our own: those of a process that was killed are removed, no others."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedvalue.trainers.ray import _folders as folders

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="locks files as POSIX does")

HOLD = """
import sys, time
from fedvalue.trainers.ray import _folders as folders
from pathlib import Path
folders._parent = lambda: Path(sys.argv[1])
print(folders.new_folder(), flush=True)
time.sleep(600)
"""


def test_only_what_a_dead_process_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_parent", lambda: tmp_path)
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        (theirs / "session").mkdir()
        mine = folders.new_folder()
        somebodys = tmp_path / "fedvalue-ray-without-a-lock"
        somebodys.mkdir()
        (tmp_path / "fedvalue-ray-link").symlink_to(theirs)
        folders.remove_abandoned()
        assert theirs.is_dir()
        other.send_signal(signal.SIGKILL)
        other.wait()
    folders.remove_abandoned()
    assert not theirs.exists()
    assert mine.is_dir()
    assert somebodys.is_dir()


def test_a_lock_ends_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_parent", lambda: tmp_path)
    mine = folders.new_folder()
    (mine / "owner").unlink()
    mine.rmdir()
    folders.remove_abandoned()
    assert mine not in folders._held
