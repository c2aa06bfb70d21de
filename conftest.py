"""Settings that all tests share."""

import gc
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from shutil import disk_usage
from types import SimpleNamespace
from typing import Any

import pytest
import typer.testing
from hypothesis import settings

import fedvalue as fv

# The suite starts about a hundred processes. Each of them would compile the package anew, and each run of the suite
# its tests, where the environment says that no bytecode is written.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Stores wait for the disk, some 30 ms each; in memory they do not. What was left by tests that passed is removed.
_IN_MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and _IN_MEMORY.is_dir() and disk_usage(_IN_MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))

# The same examples on every machine and every day; no deadline, because the machines differ in speed.
settings.register_profile("reproducible", derandomize=True, deadline=None, database=None)
settings.register_profile("quick", settings.get_profile("reproducible"), max_examples=15)
settings.load_profile("reproducible")


def fast_part(config: pytest.Config) -> bool:
    return bool(config.option.markexpr == "not slow")


def pytest_configure(config: pytest.Config) -> None:
    """The fast part of the suite tries fewer examples."""
    if fast_part(config):
        settings.load_profile("quick")
    # Shells have what they start in the background ignore an interrupt, and so would the programs that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Imported packages and collected tests stay to the end: no later search for garbage looks through them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(
        20_000, 20, 20
    )  # and what a test leaves is little: to look for it 700 objects each would be a waste


@pytest.fixture(autouse=True, scope="session")
def _digits_read_once() -> None:
    """The digits are a text file, which takes longer to read than most tests to train on."""
    with suppress(ImportError):
        from sklearn import datasets

        datasets.load_digits = cache(datasets.load_digits)


@pytest.fixture(autouse=True, scope="session")
def _commands_built_once() -> Iterator[None]:
    """Typer's runner builds every command from its signature for each call; hundreds of tests call one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.main.get_command))
        yield


@pytest.fixture(autouse=True, scope="session")
def _few_untrained_models(pytestconfig: pytest.Config) -> Iterator[None]:
    """v(∅) is the mean over 64 untrained models; to measure so many takes longer than most trainings of tests."""
    from fedvalue.training import _measure

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_measure, "UNTRAINED_MODELS", 3 if fast_part(pytestconfig) else 6)
        yield


@pytest.fixture(autouse=True, scope="session")
def _few_steps_of_convergence() -> Iterator[None]:
    """A report fits eight surrogates to show how values settled, which takes longer than all else about it."""
    from fedvalue.report import _gather, _trained

    fit, fits = _trained._surrogate, dict[Any, tuple[float, ...]]()

    def fit_once(n: int, utilities: Mapping[int, float], masks: Sequence[int]) -> tuple[float, ...]:
        """Reports of the same run are made again and again."""
        known = tuple((mask, utilities[mask]) for mask in (0, (1 << n) - 1, *masks))
        if known not in fits:
            fits[known] = fit(n, utilities, masks)
        return fits[known]

    def first_and_last(*given: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_trained, "_PREFIXES", 2)
            patch.setattr(_trained, "_surrogate", fit_once)
            return _trained.converge(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_gather, "converge", first_and_last)
        yield


@pytest.fixture(autouse=True, scope="session")
def _speed_measured_briefly() -> Iterator[None]:
    """A dry run measures what a training takes; tests do not need to know it so well."""
    from fedvalue.trainers import _speed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_speed, "_LONG_ENOUGH", 0.05)
        yield


@pytest.fixture
def all_untrained_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as users have."""
    from fedvalue.training import UNTRAINED_MODELS, _measure

    monkeypatch.setattr(_measure, "UNTRAINED_MODELS", UNTRAINED_MODELS)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Small trainings on one thread: several threads of a shared machine wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def waits_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Nodes that live in this process answer at once or never: whoever waits for them is told that the time has passed.

    The clock by which they wait, for tests that ask how long it was.
    """
    from fedvalue.flower import _foreign_nodes, _messages, _roster

    waited: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(waited), sleep=waited.append)
    for module in (_foreign_nodes, _messages, _roster):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The coalitions that federated games were asked to train."""
    asked: list[int] = []
    original = fv.FederatedGame.evaluate

    def evaluate(self: fv.FederatedGame, masks: Any, replicate: int = 0) -> Any:
        asked.extend(masks)
        return original(self, masks, replicate)

    monkeypatch.setattr(fv.FederatedGame, "evaluate", evaluate)
    return asked
