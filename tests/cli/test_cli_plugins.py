"""Commands of other packages: found, imported when they are called, and no danger to those of the library."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fedvalue.cli import app

Install = Callable[[str, str, str], None]

GREETING = """
import typer
from fedvalue.cli import say
from fedvalue.errors import InputError

def greet(name: str, loudly: bool = typer.Option(False, help="Use capitals.")) -> None:
    '''Greet somebody.'''
    if name == "nobody":
        raise InputError("There is nobody to greet.")
    say(name.upper() if loudly else name)
"""


def run(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a package with one command, as pip would leave it."""

    def make(command: str, module: str, source: str) -> None:
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nSummary: Of {module}\n")
        (info / "entry_points.txt").write_text(f"[fedvalue.commands]\n{command} = {module}:greet\n")
        (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")

    monkeypatch.syspath_prepend(str(tmp_path))
    return make


@pytest.fixture
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other package is installed."""
    monkeypatch.setattr("fedvalue.cli._plugins.entry_points", lambda group: entry_points(group="nothing"))


def test_a_command_works_like_one_of_the_library(install: Install) -> None:
    install("greet", "greeting_one", GREETING)
    assert run("greet", "Ann", "--loudly").stdout == "ANN\n"
    told = run("greet", "--help")
    assert told.exit_code == 0
    assert "Usage: fedvalue greet [OPTIONS] NAME" in told.stdout
    assert "Use capitals." in told.stdout
    assert "--install-completion" not in told.stdout
    assert run("greet", "-h").stdout == told.stdout
    refused = run("greet", "nobody")
    assert (refused.exit_code, refused.stderr) == (2, "Error: There is nobody to greet.\n")


def test_help_and_other_commands_import_no_other_package(install: Install) -> None:
    install("greet", "greeting_two", GREETING)
    listed = run("--help").stdout
    assert "greet      Of greeting_two (greeting_two)" in listed
    assert run("methods").exit_code == 0
    assert "greeting_two" not in sys.modules
    run("greet", "Ann")
    assert "greeting_two" in sys.modules


def test_a_command_of_the_library_is_not_replaced(install: Install) -> None:
    install("methods", "greeting_three", GREETING)
    assert "ipss" in run("methods").stdout
    assert run("--help").stdout.count("\n  methods ") == 1
    assert "greeting_three" not in run("--help").stdout


@pytest.mark.parametrize(
    ("module", "source", "why"),
    [
        ("broken_import", "import a_module_that_is_not_there", "ModuleNotFoundError"),
        ("broken_syntax", "def greet(", "SyntaxError"),
        ("broken_name", "", "AttributeError"),
        ("broken_kind", "greet = 5", "TypeError"),
        ("broken_option", "def greet(of: object) -> None: ...", "RuntimeError"),
    ],
)
def test_a_broken_package_is_named_and_breaks_nothing_else(
    install: Install, module: str, source: str, why: str
) -> None:
    install("greet", module, source)
    failed = run("greet", "Ann")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert f"The package {module} adds the command 'greet', which cannot be loaded ({why}" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1
    assert isinstance(failed.exception, SystemExit)
    assert "greet" in run("--help").stdout
    assert run("methods").exit_code == 0


@pytest.mark.usefixtures("_alone")
def test_what_is_installed_apart_says_how() -> None:
    found = run("reproduce", "all", "--scale", "smoke")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.count("\n") == 1
    assert "pip install ./paper" in found.stderr
    assert "reproduce" not in run("--help").stdout


def test_an_unknown_command_is_still_unknown(install: Install) -> None:
    install("greet", "greeting_four", GREETING)
    assert "No such command 'great'" in run("great").stderr


@pytest.mark.parametrize(
    ("source", "works"),
    [(GREETING, True), ("import a_module_that_is_not_there", False)],
    ids=["good", "broken"],
)
@pytest.mark.slow
def test_a_shell_completes_what_works_and_hears_nothing_of_the_rest(
    install: Install, tmp_path: Path, source: str, works: bool
) -> None:
    install("greet", "greeting_shell", source)

    def completed(line: str) -> str:
        settings = {"_FEDVALUE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}
        ended = subprocess.run(
            [sys.executable, "-c", "from fedvalue.cli import main; main()"],
            env={**os.environ, **settings, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.stderr == ""
        return ended.stdout

    assert '"greet":"Of greeting_shell (greeting_shell)"' in completed("fedvalue gre")
    assert ("--loudly" in completed("fedvalue greet --")) is works
