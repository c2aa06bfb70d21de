"""Games given by a function of one's own."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from inspect import signature
from os import PathLike
from typing import Any

import numpy as np

from fedvalue._checks import as_key, checked_init, expect, whole
from fedvalue.coalitions import MOST_CLIENTS, members
from fedvalue.errors import FedvalueWarning, GameError, UtilityError
from fedvalue.games._base import MOST_REPLICATES, client_names
from fedvalue.games._calls import Agenda, Failed, Replied, Said, calls_here
from fedvalue.outcome import UTILITY, Outcome
from fedvalue.per_row import PerRow
from fedvalue.store import FileNames, fingerprint
from fedvalue.trainers import Claim

__all__ = ["FunctionGame"]

_GOES_ON = "partial_fit()"  # of scikit-learn's models: the one method that never begins anew


@checked_init
class FunctionGame:
    """A game given by a function: `fn([(0, 2), (1,)]) -> [0.9, 0.7]`, tuples of client indices.

    In place of a number it may return one for every test row: an array, always of the same length, whose mean is the
    utility; or a pair (utility, standard error). Then values know how far another sample of test rows would move
    them. Standard errors are taken to be independent of each other. Where all models are measured on the same rows they
    are not, their differences err less, and rows are the better choice.

    With `batch=False` the function takes one coalition and returns one number. Fast functions are
    called with many coalitions at a time, slow ones (over ten milliseconds) one by one, so that a killed
    process loses nothing that was finished; `chunk=64` always passes up to 64, for functions
    that train many coalitions together.

    `jobs=4` calls the function in four processes, side by side, which pays from a tenth of a second per call on;
    the utilities are the same. `timeout` is what a coalition may take, in seconds (a chunk: their sum); then its
    process is ended. A coalition that fails, by an exception, a timeout, a crash or a result that is no number,
    is tried again `retries` times before the run ends, with what was finished kept. On Linux these processes are
    forks of this one, so any function will do, and each computes with one thread; `start="spawn"` starts fresh
    ones, as CUDA needs it, for a function that can be imported. In them, global random numbers are seeded for
    every call: a function that draws some gives the same with two jobs as with four, but not as with one.

    For a store the game needs an identity. By default it is taken from the function's source text and the data
    that it refers to, as they are now. Files that the function reads are named in `files`: their content counts,
    too. `key="…"` replaces all that with a name of yours (data version, model, settings): change it whenever the
    utilities change. It is required where `doubts` names something that the identity cannot cover: a function
    without source text, data that it changes, random numbers that it draws without a seed.

    A function that trains at random should have a parameter `seed`: it is called with seed=0, 1, … by methods that
    spread their trainings over several seeds, and must give the same again for the same seed. Coalitions of one call
    have one seed. What no clients are worth is the mean over sixteen seeds, whatever the method. Any other noisy function
    can be called `replicates` times per coalition; the utility is the mean, and drawing is no doubt.

    >>> FunctionGame(2, lambda coalitions: [float(len(c)) for c in coalitions])([0b00, 0b11])
    [0.0, 2.0]
    """

    def __init__(
        self,
        n: int,
        fn: Callable[..., Any],
        names: Sequence[str] | None = None,
        *,
        batch: bool = True,
        chunk: int | None = None,
        key: str | None = None,
        files: FileNames | None = None,
        replicates: int = 1,
        jobs: int = 1,
        timeout: float | None = None,
        retries: int = 0,
        start: str | None = None,
    ) -> None:
        if not callable(fn):
            raise GameError(f"fn must be a function of coalitions. Got {type(fn).__name__}.")
        self.n = whole("The number of clients", n, 1, MOST_CLIENTS, GameError)
        expect("batch", batch, bool, "True or False", error=GameError)
        self.fn = fn
        self.takes_seed = _takes_seed(fn)
        self.batch = batch
        self.chunk = None if chunk is None else whole("chunk", chunk, 1, error=GameError)
        self.replicates = whole("replicates", replicates, 1, MOST_REPLICATES, GameError)
        self.jobs = whole("jobs", jobs, 1, error=GameError)
        self.retries = whole("retries", retries, 0, error=GameError)
        self.timeout = None if timeout is None else _seconds(timeout)
        self.start = None if start is None else _start_method(start)
        self.names, self.named = client_names(self.n, names), names is not None
        self.key = as_key(key, GameError)
        self.files = None if files is None else _paths(files)
        self.id, self.doubts = self._identity()
        for doubt in self.doubts:
            if _GOES_ON in doubt:
                warnings.warn(
                    f"{doubt}: it goes on learning from one coalition to the next, so utilities depend on what was asked before. "
                    "Make it anew in every call, such as clone(model).",
                    FedvalueWarning,
                    stacklevel=3,  # whoever makes the game, behind `checked_init`
                )
        self._test_rows: int | None = None  # that the function told about first

    @property
    def seeds(self) -> int | None:
        """Any number where the function takes a seed, unless utilities are means over replicates anyway."""
        return None if self.takes_seed and self.replicates == 1 else 1

    @property
    def changed(self) -> bool:
        """Whether the function or what it refers to is not what it was when the game was made."""
        return self._identity()[0] != self.id

    @property
    def _in_other_processes(self) -> bool:
        return self.jobs > 1 or self.timeout is not None

    def _identity(self) -> tuple[str, tuple[str, ...]]:
        if self.key is not None:
            # Without a seed, the outcome of seed 0 is of whatever the function draws: another meaning, another game.
            meaning = ("seed",) if self.takes_seed else ()
            digest, doubts = fingerprint(self.n, self.batch, ("key", self.key), *meaning)
        else:
            seeded = () if self.replicates == 1 else None  # who repeats a function knows that it draws
            apart = self._in_other_processes and _started_by(self.start) != "fork"
            digest, doubts = fingerprint(
                self.n, self.batch, self.fn, files=self.files, seeded=seeded, apart=apart
            )
        return f"function-{digest[:24]}", doubts

    def __call__(self, masks: Sequence[int]) -> list[float]:
        found = {mask: outcome.metrics[UTILITY] for mask, outcome in self.evaluate(masks)}
        return [found[mask] for mask in masks]

    def utility(self, outcome: Outcome) -> float:
        """The number that the function returned."""
        return outcome.metrics[UTILITY]

    def evaluate(
        self, masks: Sequence[int], replicate: int = 0, claim: Claim = list
    ) -> Iterator[tuple[int, Outcome]]:
        """Calls the function, and yields each utility as soon as the call that gave it returns.

        Only for those coalitions that `claim`, which is asked shortly before, leaves to this process.
        """
        in_workers = self._in_other_processes
        # A worker has one coalition at a time where it can: only that one is lost with it.
        alone = not self.batch and (in_workers or self.chunk is None)
        agenda = Agenda(masks, 1 if alone else self.chunk, self.retries, claim)
        fn = partial(self.fn, seed=replicate) if self.takes_seed else self.fn
        replies = (
            self._in_workers(fn, agenda, replicate) if in_workers else calls_here(fn, self.batch, agenda)
        )
        with closing(replies):
            for call, reply, seconds in replies:
                for mask, said in agenda.settle(call, reply, seconds):
                    share = seconds / len(call.masks)
                    yield (
                        mask,
                        Outcome({UTILITY: said.utility}, share, "function", rows=self._rows(mask, said)),
                    )
        if agenda.failed:
            raise self._error(agenda.failed)

    def _rows(self, mask: int, said: Said) -> dict[str, PerRow]:
        """What test rows said, of which there must always be as many."""
        if said.rows is None:
            return {}
        if said.rows.varies and said.rows.rows != (self._test_rows or said.rows.rows):
            raise UtilityError(
                f"The utility function must return as many numbers for every coalition, one per test row. It returned "
                f"{said.rows.rows} for coalition {members(mask)}, and {self._test_rows} before.",
                members(mask),
            )
        self._test_rows = said.rows.rows or self._test_rows
        return {UTILITY: said.rows}

    def _in_workers(
        self, fn: Callable[..., Any], agenda: Agenda, replicate: int
    ) -> Generator[Replied, None, None]:
        from fedvalue.games._workers import calls_in_workers

        limits = (self.jobs, self.timeout, _started_by(self.start))
        return calls_in_workers(fn, self.batch, agenda, replicate, *limits)

    def _error(self, failed: Sequence[Failed]) -> UtilityError:
        first, others = failed[0], len(failed) - 1
        who, error = members(first.mask), first.failure.error
        names = ", ".join(self.names[i] for i in who[:8]) or "no clients"
        attempts = f" in {first.attempts} attempts, at last" if first.attempts > 1 else ""
        text = (
            f"The utility function failed for coalition {who} ({names}{', …' if len(who) > 8 else ''}){attempts}: "
            f"{first.failure.reason}. {f'It failed for {others} more, too. ' if others else ''}Coalitions that were "
            "finished are kept; fix the function and run again."
        )
        if first.failure.where and error is None:  # an exception of this process shows its own traceback
            text += f"\nRaised here, the innermost line last:\n{first.failure.where}"
        raised = UtilityError(text, who)
        raised.__cause__ = error
        return raised


def _takes_seed(fn: Callable[..., Any]) -> bool:
    """Whether a function has a parameter `seed` besides the one for coalitions."""
    try:
        _, *others = signature(fn).parameters.values()
    except (TypeError, ValueError):  # written in C, or without any parameter
        return False
    return any(p.name == "seed" and p.kind is not p.POSITIONAL_ONLY for p in others)


def _paths(files: FileNames) -> tuple[str | PathLike[str], ...]:
    if isinstance(files, (str, bytes, PathLike)) or not isinstance(files, Iterable):
        raise GameError(f"files must be a list of paths, such as files=['rows.csv']. Got {files!r}.")
    return tuple(files)


def _start_method(start: str) -> str:
    from multiprocessing import get_all_start_methods

    known = get_all_start_methods()
    if start not in known:
        raise GameError(f"start must be one of {', '.join(known)} on this system, or None. Got {start!r}.")
    return start


def _started_by(start: str | None) -> str:
    """How processes are started: copies of this one, but where libraries do not survive that."""
    return start or ("fork" if sys.platform == "linux" else "spawn")


def _seconds(timeout: float) -> float:
    number = isinstance(timeout, (int, float, np.integer, np.floating)) and not isinstance(timeout, bool)
    if not number or not 0 < timeout < math.inf:
        raise GameError(f"timeout must be a positive number of seconds, or None. Got {timeout!r}.")
    return float(timeout)
