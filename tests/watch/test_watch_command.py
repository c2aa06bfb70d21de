"""`fedvalue watch` as it is typed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner
from watched import table_run

from fedvalue.cli import app


@pytest.mark.parametrize("given", [["missing"], [".", "--host", "192.0.2.1", "--port", "0"]])
def test_what_cannot_be_served_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "nice", lambda by: 0)  # it would last for all tests that come after
    found = CliRunner().invoke(app, ["watch", *given])
    assert found.exit_code == 2
    assert found.stderr.startswith("Error: ")


@pytest.mark.slow
def test_it_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    table_run(tmp_path / "my.db", ["Aachen", "Bern"], [0.0, 1.0, 2.0, 4.0])
    command = [sys.executable, "-m", "fedvalue", "watch", "my.db", "--port", "0", "--token"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = line.split()[1]
        assert "?token=" in address
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert b"Aachen" in answer.read()
        process.send_signal(signal.SIGINT)
        _, complained = process.communicate(timeout=20)
        assert (process.returncode, complained) == (0, "")
    finally:
        process.kill()
        process.wait()
