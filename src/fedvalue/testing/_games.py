"""The conformance suite of games."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedvalue.coalitions import full_mask, members
from fedvalue.errors import FedvalueWarning, InputError
from fedvalue.games import Game, Grounded, Measured
from fedvalue.outcome import Outcome
from fedvalue.run import Evaluation, value
from fedvalue.testing._examiner import Examiner, are_close, is_number

__all__ = ["check_game"]


def check_game(
    game: Game,
    *,
    masks: Sequence[int] | None = None,
    deterministic: bool = True,
    tolerance: float = 1e-5,
    same: Iterable[Game] = (),
    different: Iterable[Game] = (),
) -> None:
    """Holds a game to its contract; raises a ConformanceError that says what it broke and with what input.

    A few coalitions (`masks`; by default at most eight) are evaluated several times, in other orders and companies,
    and through `value` with a store, twice: the second time nothing may be evaluated. Utilities must agree up to
    `tolerance`; `deterministic=False` says that the game is noisy.

    The store finds a game by its id. `same` are further objects of the same game, made anew, which must have the same
    id; games that are `different` (other data, other settings) must have others.
    """
    examiner = Examiner(type(game).__name__)
    _description(examiner, game)
    asked = list(_some_coalitions(game.n) if masks is None else dict.fromkeys(masks))
    if not asked or not all(0 <= mask <= full_mask(game.n) for mask in asked):
        raise InputError(f"masks must be coalitions of {game.n} clients, at least one. Got {masks!r}.")
    _identity(examiner, game, same, different)
    _evaluation(examiner, game, asked, tolerance if deterministic else None)
    _in_a_run(examiner, game)


def _some_coalitions(n: int) -> list[int]:
    """Nobody, everybody, everybody but one, the first two, some alone."""
    grand = full_mask(n)
    chosen = [0, grand, grand ^ 1, 0b11 & grand, 1, 1 << n - 1, grand >> 1, 1 << n // 2]
    return list(dict.fromkeys(chosen))


def _description(examiner: Examiner, game: Any) -> None:
    expect, given = examiner.expect, "its attributes"
    rule = "a game has n, names, id, doubts, replicates, evaluate and utility"
    for name in ("n", "names", "id", "doubts", "replicates", "evaluate", "utility"):
        expect(hasattr(game, name), rule, given, name, "none of that name")
    n, names = game.n, game.names
    for name in ("n", "replicates"):
        number = getattr(game, name)
        counts = isinstance(number, int | np.integer) and number >= 1
        expect(counts, f"{name} is a whole number of at least 1", given, "at least 1", repr(number))
    named = _texts(names) and len(names) == len(set(names)) == n
    expect(named, "names are different texts, one for each client", given, f"a tuple of {n}", repr(names))
    expect(isinstance(game.id, str) and game.id, "the id is text", given, "a text", repr(game.id))
    expect(_texts(game.doubts), "doubts are texts", given, "a tuple of texts", repr(game.doubts))


def _check_metric(examiner: Examiner, game: Measured, outcome: Outcome, utility: float, about: str) -> None:
    rule = "the utility is the metric that the game names, negated unless higher_is_better"
    # Without data it is fixed by a rule of the game, which the outcome holds besides.
    fixed = outcome.metrics.get(game.empty_as) if isinstance(game, Grounded) else None
    metric = outcome.metrics.get(game.stored_as) if fixed is None else fixed
    expected = -metric if metric is not None and not game.higher_is_better else metric
    given = f"{about}, metric {game.metric!r}, higher_is_better={game.higher_is_better}"
    examiner.expect(utility == expected, rule, given, expected, utility)


def _texts(texts: Any) -> bool:
    return isinstance(texts, tuple) and all(isinstance(text, str) for text in texts)


def _identity(examiner: Examiner, game: Game, same: Iterable[Game], different: Iterable[Game]) -> None:
    rule = "the id is the same for the same utilities and another one for others"
    examiner.expect(game.id == game.id, rule, "read twice", "one id", "two")
    for twin in same:
        examiner.expect(twin.id == game.id, rule, "the same game, made anew", game.id, twin.id)
    for other in different:
        examiner.expect(other.id != game.id, rule, "a different game", f"not {game.id}", other.id)


def _evaluation(examiner: Examiner, game: Game, asked: list[int], tolerance: float | None) -> None:
    before = game.id
    _outcomes(examiner, game, [], 0, "no coalition")
    for replicate in range(min(game.replicates, 2)):
        given = f"coalitions {[members(mask) for mask in asked]}, replicate {replicate}"
        together = _outcomes(examiner, game, asked, replicate, given)
        examiner.first(game.evaluate(list(asked), replicate), given)
        backwards = _outcomes(examiner, game, asked[::-1], replicate, f"in reverse order: {given}")
        alone = _outcomes(examiner, game, asked[-1:], replicate, f"coalition {members(asked[-1])} alone")
        for other in (backwards, alone) if tolerance is not None else ():
            _same(examiner, together, other, tolerance or 0.0)
    rule = "evaluating changes nothing in the id"
    examiner.expect(game.id == before, rule, "after evaluate", before, game.id)


def _outcomes(
    examiner: Examiner, game: Game, asked: list[int], replicate: int, given: str
) -> dict[int, Outcome]:
    """What came of every coalition, with a utility in it."""
    with examiner.no_error("a game can evaluate every coalition", given):
        outcomes = examiner.collect(game.evaluate(list(asked), replicate), asked, given)
        for mask, outcome in outcomes.items():
            utility, about = game.utility(outcome), f"coalition {members(mask)}"
            rule = "the utility is a finite number"
            examiner.expect(is_number(utility), rule, about, "a finite number", utility)
            if isinstance(game, Measured):
                _check_metric(examiner, game, outcome, utility, about)
    return outcomes


def _same(
    examiner: Examiner, outcomes: dict[int, Outcome], others: dict[int, Outcome], tolerance: float
) -> None:
    rule = (
        "a coalition has the same utility whenever it is evaluated, in whatever order and company "
        "(deterministic=False: a noisy game)"
    )
    for mask, other in others.items():
        one, two = dict(outcomes[mask].metrics), dict(other.metrics)
        examiner.expect(are_close(one, two, tolerance), rule, f"coalition {members(mask)}", one, two)


def _in_a_run(examiner: Examiner, game: Game) -> None:
    """Twice with one store: the second time, everything is read."""
    seen: list[list[Evaluation]] = [[], []]
    rule = "with a store, no coalition is evaluated twice"
    given = 'value(game, "equal", store=path), twice'
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", FedvalueWarning)  # doubts about the id
        with examiner.no_error("a game can be passed to `value`, with a store", given):
            first, again = (
                value(game, "equal", store=Path(folder) / "store.db", on_outcome=told.append) for told in seen
            )
    fresh = [e.coalition for e in seen[1] if not e.reused]
    examiner.expect(not fresh, rule, given, "all coalitions from the store", f"evaluated again: {fresh}")
    same = first.mean.tolist() == again.mean.tolist()
    examiner.expect(same, "the store gives back the utilities that were kept", given, first.mean, again.mean)
