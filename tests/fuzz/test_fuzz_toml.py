"""Random fedvalue.toml files: an error is one line, never a traceback, whatever the file holds.

HYPOTHESIS_PROFILE is not needed: FUZZ=1000 makes that many examples instead of the usual number.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedvalue.cli import app

EXAMPLES = int(os.environ.get("FUZZ", "60"))
# Options that make the data small, and those that a file may well have wrong.
KEYS = [
    "scenario", "clients", "partition", "samples", "scenario-option", "data-dir", "label", "model", "rounds", "epochs",
    "batch", "rate", "optimizer", "momentum", "algorithm", "mu", "metric", "retrain", "replicates", "method", "exact",
    "budget", "option", "seed", "device", "memory", "backend", "workers", "overwrite", "quiet", "dry-run",
    "dry_run", "config", "no-config", "help", "bugdet", "Clients", "", "run", "a.b", "\"clients\"",
]  # fmt: skip
WORDS = [
    "synthetic",
    "digits",
    "exact",
    "ipss",
    "least-squares",
    "size",
    "alpha=0.1",
    "auto",
    "4GB",
    "r2",
    "é",
    "",
    "a\\n",
]

scalar = st.one_of(
    st.integers(-3, 40).map(str),
    st.sampled_from(["1e400", "-0.0", "nan", "inf", "0x10", "99999999999999999999", "true", "false", "2024-01-01", "07:00:00"]),
    st.sampled_from(WORDS).map(lambda word: f'"{word}"'),
    st.text(max_size=6).map(lambda text: f"'{text}'"),
)  # fmt: skip
value = st.recursive(
    scalar,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.sampled_from(["a", "b", "alpha"]), inner, max_size=2).map(
            lambda pairs: "{" + ", ".join(f"{key} = {text}" for key, text in pairs.items()) + "}"
        ),
    ),
    max_leaves=5,
)
line = st.one_of(
    st.tuples(st.sampled_from(KEYS), value).map(" = ".join),
    st.sampled_from(["[run]", "[value]", "[run.option]", "[[run]]", "# a comment", "= 3", "clients", "]"]),
    st.text(max_size=12),
)
document = st.one_of(
    st.lists(line, max_size=6).map(lambda lines: "\n".join(["[run]", *lines])),
    st.lists(line, max_size=6).map("\n".join),
    st.integers(1, 50_000).map(lambda depth: f"[run]\nclients = {'[' * depth}{']' * depth}"),
)


def check(content: bytes, folder: Path) -> None:
    file = folder / "fedvalue.toml"
    file.write_bytes(content)
    small: list[Any] = [
        "--scenario",
        "synthetic",
        "--clients",
        "2",
        "--samples",
        "8",
        "--model",
        "least-squares",
    ]
    done = CliRunner().invoke(app, ["run", "--config", str(file), *small, "--method", "equal", "--dry-run"])
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code in (0, 1, 2)
    assert "Traceback" not in done.output
    if done.exit_code:
        said = [text for text in done.stderr.splitlines() if text.startswith("Error: ")]
        assert len(said) == 1, done.output


FUZZ = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="FUZZ" not in os.environ,  # the same in every run of the suite
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@FUZZ
@given(text=document)
def test_a_file_of_options_is_never_a_traceback(text: str, tmp_path: Path) -> None:
    check(text.encode("utf-8", "surrogatepass"), tmp_path)


@FUZZ
@given(content=st.binary(max_size=80))
def test_bytes_are_never_a_traceback(content: bytes, tmp_path: Path) -> None:
    check(content, tmp_path)
