"""Calls of a user's function: which coalitions go into the next one, and what became of them.

A call gives a number or a `Failure` for each of its coalitions and raises nothing that the function raised, so
that it can be made in this process or in another one. The `Agenda` decides what is called next: more
coalitions at once while calls are short, one by one where a call of several failed, again where there are
attempts left.
"""

from __future__ import annotations

import math
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fedvalue._checks import as_array
from fedvalue._text import shortened
from fedvalue.coalitions import members
from fedvalue.errors import InputError
from fedvalue.per_row import PerRow
from fedvalue.trainers import Claim

__all__ = [
    "Agenda",
    "Call",
    "Failed",
    "Failure",
    "Replied",
    "Reply",
    "Said",
    "call",
    "calls_here",
    "failure",
]

# A call that takes longer than this is not widened: what a killed process loses stays this small.
_SHORT_CALL_SECONDS = 0.01
_CLAIMED_SECONDS, _CLAIMED_AT_ONCE = 0.2, 256
_LONGEST_TEXT = 400  # of what a function raised or returned: it may print a whole data set
_MOST_FRAMES = 6
_ONE_BY_ONE = "It was given a list of coalitions; for a function that takes one of them say batch=False"
_OWN_FILES = (__file__, str(Path(__file__).with_name("_workers.py")))


@dataclass(frozen=True)
class Failure:
    """Why there is no number: in words, the lines of code that led there, and the exception if it is at hand.

    `hopeless` means that neither another attempt nor calling for each coalition alone would help.
    """

    reason: str
    where: str = ""
    error: Exception | None = None
    hopeless: bool = False


Reply: TypeAlias = "list[Said | Failure] | Failure"
"""What the function said, or a failure, for each coalition of a call, or one failure of the call as a whole."""


class Said(NamedTuple):
    """A utility, and what test rows said of it, where the function tells."""

    utility: float
    rows: PerRow | None = None


@dataclass(frozen=True)
class Call:
    """Coalitions that the function is given together, which attempt at them this is, and its share of time.

    `timeouts` is how many timeouts the call may take. Coalitions that are together because calls are short
    have one for all; if that is not enough, each has one for itself.
    """

    masks: tuple[int, ...]
    attempt: int = 1
    timeouts: int = 1


@dataclass(frozen=True)
class Failed:
    """A coalition that has no utility after all its attempts."""

    mask: int
    attempts: int
    failure: Failure


Replied: TypeAlias = "tuple[Call, Reply, float]"
"""A call, what it gave, and the seconds that it took."""


class Agenda:
    """The coalitions still to be called for. `width` is how many go into a call; None: as calls turn out.

    `claim` is asked some time ahead which of the next ones are left to this process.
    """

    def __init__(self, masks: Sequence[int], width: int | None, retries: int, claim: Claim = list) -> None:
        self.masks = masks
        self.adapts = width is None
        self.width = width or 1
        self.retries = retries
        self.claim = claim
        self.claimed: deque[int] = deque()
        self.begun = 0
        self.again: deque[Call] = deque()
        self.failed: list[Failed] = []
        self.seconds: float | None = None  # what one of them took

    def next(self) -> Call | None:
        """The next call; None where there is nothing to do now. After a failure nothing new begins."""
        if self.again:
            return self.again.popleft()
        if self.failed:
            return None
        while len(self.claimed) < self.width and self.begun < len(self.masks):
            wanted = list(map(int, self.masks[self.begun : self.begun + self._ahead()]))
            self.begun += len(wanted)
            self.claimed.extend(self.claim(wanted))
        masks = tuple(self.claimed.popleft() for _ in range(min(self.width, len(self.claimed))))
        return Call(masks, timeouts=1 if self.adapts else len(masks)) if masks else None

    def _ahead(self) -> int:
        """How many to claim at once: those of one call, or of a moment."""
        in_a_moment = 0.0 if self.seconds is None else _CLAIMED_SECONDS / max(self.seconds, 1e-9)
        return max(self.width, int(min(in_a_moment, _CLAIMED_AT_ONCE)))

    def settle(self, done: Call, reply: Reply, seconds: float) -> list[tuple[int, Said]]:
        """The utilities that a call gave; its failures are tried again, or final."""
        self.seconds = seconds / len(done.masks)
        if self.adapts:
            self.width = self.width * 2 if seconds < _SHORT_CALL_SECONDS else max(1, self.width // 2)
        if isinstance(reply, Failure) and len(done.masks) > 1 and not reply.hopeless:
            # One by one: keeps the good ones and finds out which one fails.
            self.again.extend(Call((mask,)) for mask in done.masks)
            return []
        found = [reply] * len(done.masks) if isinstance(reply, Failure) else reply
        utilities = []
        for mask, said in zip(done.masks, found, strict=True):
            if isinstance(said, Failure):
                self._failed(mask, done.attempt, said)
            else:
                utilities.append((mask, said))
        return utilities

    def _failed(self, mask: int, attempt: int, failure: Failure) -> None:
        if attempt <= self.retries and not failure.hopeless and not self.failed:
            self.again.append(Call((mask,), attempt + 1))
        else:
            self.failed.append(Failed(mask, attempt, failure))


def calls_here(fn: Callable[..., Any], batch: bool, agenda: Agenda) -> Generator[Replied, None, None]:
    """Calls the function in this process, one call after the other."""
    while (due := agenda.next()) is not None:
        began = time.perf_counter()
        reply = call(fn, batch, [members(mask) for mask in due.masks])
        yield due, reply, time.perf_counter() - began


def call(fn: Callable[..., Any], batch: bool, coalitions: list[tuple[int, ...]]) -> Reply:
    """Calls the function once, or once for each coalition where it takes a single one.

    >>> call(lambda coalitions: [len(c) for c in coalitions], True, [(), (0, 2)])
    [Said(utility=0.0, rows=None), Said(utility=2.0, rows=None)]
    >>> call(lambda coalition: 1 / len(coalition), False, [()])[0].reason
    'ZeroDivisionError: division by zero'
    """
    if not batch:
        return [_call_alone(fn, coalition) for coalition in coalitions]
    try:
        returned = fn(coalitions)
        listed = isinstance(returned, Iterable) and not isinstance(returned, (str, Mapping, Set))
        found = list(returned) if listed else None
    except (Exception, SystemExit) as error:
        raised = failure(error)
        mistaken = isinstance(error, (TypeError, LookupError))  # a list taken for a coalition ends like this
        return replace(raised, reason=f"{raised.reason}. {_ONE_BY_ONE}") if mistaken else raised
    if found is None:
        return Failure(
            f"it must return one number per coalition, and returned {_shown(returned)} for a list of "
            f"{len(coalitions)}. {_ONE_BY_ONE}",
            hopeless=True,
        )
    if len(found) != len(coalitions):
        return Failure(
            f"it must return one number per coalition ({len(coalitions)}). Got {len(found)}", hopeless=True
        )
    return [_said(returned) for returned in found]


def _call_alone(fn: Callable[..., Any], coalition: tuple[int, ...]) -> Said | Failure:
    try:
        returned = fn(coalition)
    except (Exception, SystemExit) as error:
        return failure(error)
    return _said(returned)


def _said(returned: object) -> Said | Failure:
    """A number, a vector of numbers whose mean counts, or a pair of a number and its standard error."""
    if isinstance(returned, tuple) and len(returned) == 2:
        utility, stderr = map(_number, returned)
        if math.isfinite(utility) and 0 <= stderr < math.inf:
            return Said(utility, PerRow.error(stderr))
        return Failure(
            f"a pair must be a finite number and a standard error of at least 0. Got {_shown(returned)}"
        )
    if isinstance(returned, tuple):
        return Failure(
            f"a tuple is a number with its standard error. Return an array of NumPy for test rows. Got {_shown(returned)}"
        )
    if isinstance(returned, list) and len(returned) == 2:
        return Failure(
            "a list of two may be two test rows or a number with its standard error. Return an array of NumPy for rows, "
            f"a tuple for a number with its error. Got {_shown(returned)}"
        )
    if np.ma.is_masked(returned):
        return Failure(
            f"it must return numbers without masked entries. Fill them or leave them out. Got {_shown(returned)}"
        )
    number = _number(returned)
    if math.isfinite(number):
        return Said(number)
    try:
        numbers = as_array(returned, "What it returns", np.float64)
        rows = PerRow.of(numbers)
        return Said(float(numbers.mean()), rows)
    except InputError:
        return Failure(f"it must return a finite number. Got {_shown(returned)}")


def _number(returned: object) -> float:
    if isinstance(returned, list) or (isinstance(returned, np.ndarray) and returned.ndim):
        return math.nan
    if isinstance(returned, np.generic | np.ndarray) and returned.dtype.kind == "c":  # it would lose a part
        return math.nan
    try:
        return float(returned)  # type: ignore[arg-type]
    except Exception:  # whatever the conversion of a user's own type raises
        return math.nan


def failure(error: BaseException) -> Failure:
    """What was raised, in words of bounded length. A function that ends the program has failed like any other."""
    try:
        said = str(error)
    except Exception:  # a message that cannot be made must not hide the failure
        said = "(its message cannot be shown)"
    reason = f"{type(error).__name__}: {_short(said)}" if said.strip() else type(error).__name__
    return Failure(reason, _where(error), error if isinstance(error, Exception) else None)


def _where(error: BaseException) -> str:
    """The lines from the user's function to the one that raised, the outermost first."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in _OWN_FILES
    ]
    lines = [f"  {f.filename}, line {f.lineno}, in {f.name}: {_short(f.line or '')}" for f in frames]
    half = _MOST_FRAMES // 2
    return "\n".join(lines if len(lines) <= _MOST_FRAMES else [*lines[:half], "  …", *lines[-half:]])


def _shown(value: object) -> str:
    try:
        return _short(repr(value))
    except Exception:  # a value that cannot be printed must not hide that it is none
        return f"a {type(value).__name__}"


def _short(text: str) -> str:
    return shortened(text[: _LONGEST_TEXT + 1].strip(), _LONGEST_TEXT)
