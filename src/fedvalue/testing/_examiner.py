"""How a suite says what a piece did wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fedvalue._text import shortened
from fedvalue.coalitions import members
from fedvalue.errors import ConformanceError
from fedvalue.outcome import Outcome

__all__ = ["Examiner", "are_close", "is_number"]

_LONGEST = 400


@dataclass(frozen=True)
class Examiner:
    """Holds a piece to its contract. A rule is a sentence; `given` is the input with which it was broken."""

    piece: str

    def expect(self, holds: object, rule: str, given: str, expected: object, got: object) -> None:
        """Raises a ConformanceError unless the rule holds."""
        if not holds:
            raise self.broken(rule, given, expected, got)

    def broken(self, rule: str, given: str, expected: object, got: object) -> ConformanceError:
        """The error that says which rule was broken, with what input, what was expected and what came."""
        lines = {"with": given, "expected": expected, "got": got}
        told = [f"  {f'{name}:':9} {shortened(str(text), _LONGEST)}" for name, text in lines.items()]
        return ConformanceError("\n".join([f"{self.piece}: {rule}", *told]))

    @contextmanager
    def no_error(self, rule: str, given: str) -> Iterator[None]:
        """Whatever is raised inside breaks the rule."""
        try:
            yield
        except ConformanceError:
            raise
        except Exception as error:
            raise self.broken(rule, given, "no exception", f"{type(error).__name__}: {error}") from error

    def plain_data(self, data: Any, rule: str, given: str) -> None:
        """What is kept in files must be what JSON can write: no arrays, no numbers of NumPy, no infinity."""
        try:
            json.dumps(data, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise self.broken(rule, given, "what JSON can write", f"{error} in {data!r}") from error

    def collect(
        self, outcomes: Iterable[tuple[int, Outcome]], masks: Sequence[int], given: str
    ) -> dict[int, Outcome]:
        """What games and trainers hand over, checked as it comes and looked at again in the end."""
        once = "every coalition that is asked for comes exactly once, in any order"
        collected: dict[int, Outcome] = {}
        metrics: dict[int, dict[str, float]] = {}
        for mask, outcome in outcomes:
            self.expect(mask in masks, once, given, "coalitions that were asked for", mask)
            self.expect(mask not in collected, once, given, "once", f"{members(mask)} twice")
            self._check_outcome(outcome, f"coalition {members(mask)}")
            collected[mask], metrics[mask] = outcome, dict(outcome.metrics)
        lost = [members(mask) for mask in masks if mask not in collected]
        self.expect(not lost, once, given, f"{len(set(masks))} coalitions", f"nothing for {lost}")
        for mask, outcome in collected.items():
            rule = "an outcome that was handed over is not changed any more"
            after = dict(outcome.metrics)
            self.expect(after == metrics[mask], rule, f"coalition {members(mask)}", metrics[mask], after)
        return collected

    def first(self, outcomes: Any, given: str) -> tuple[int, Outcome]:
        """The first that comes, and no more: as a run that is interrupted, which closes what it reads from."""
        with self.no_error("evaluation can be left before its end", given):
            mask, outcome = next(iter(outcomes))
            if hasattr(outcomes, "close"):
                outcomes.close()
        return mask, outcome

    def _check_outcome(self, outcome: Any, given: str) -> None:
        rule = (
            "a finished coalition comes with an Outcome: finite metrics by name, seconds, backend and device"
        )
        self.expect(isinstance(outcome, Outcome), rule, given, "an Outcome", repr(outcome))
        metrics = outcome.metrics
        named = isinstance(metrics, Mapping) and metrics and all(isinstance(name, str) for name in metrics)
        self.expect(named, rule, given, "metrics by name", repr(metrics))
        self.expect(all(map(is_number, metrics.values())), rule, given, "finite metrics", dict(metrics))
        timed = is_number(outcome.seconds) and outcome.seconds >= 0
        self.expect(timed, rule, given, "seconds of at least 0", repr(outcome.seconds))
        words = isinstance(outcome.backend, str) and isinstance(outcome.device, str)
        self.expect(words, rule, given, "backend and device as text", repr(outcome[2:]))


def is_number(value: Any) -> bool:
    """Whether it is a finite number, of Python or NumPy; true and false are not.

    >>> is_number(1), is_number(float("nan")), is_number("1"), is_number(True)
    (True, False, False, False)
    """
    try:
        return not isinstance(value, bool | str) and math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def are_close(one: Mapping[str, float], other: Mapping[str, float], tolerance: float) -> bool:
    """Whether two sets of metrics are the same up to rounding.

    >>> are_close({"loss": 1.0}, {"loss": 1.0 + 1e-9}, 1e-6), are_close({"loss": 1.0}, {}, 1e-6)
    (True, False)
    """
    return one.keys() == other.keys() and all(
        math.isclose(one[name], other[name], rel_tol=tolerance, abs_tol=tolerance) for name in one
    )
