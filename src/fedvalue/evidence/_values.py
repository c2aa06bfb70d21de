"""Values computed again from the trainings in the store, and compared number by number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedvalue._files import json_ready
from fedvalue.errors import FedvalueError, UnrecordedError
from fedvalue.evidence._methods import method_of
from fedvalue.evidence._run import LeftRun
from fedvalue.evidence._verdict import Check, sound, unchecked, undecided, wrong
from fedvalue.games import Game, RecordedGame, RestrictedGame
from fedvalue.run import MethodLike, as_method, by_index, grouped, method_request, run_requests, with_seeds
from fedvalue.store import StoreUntil, UtilityStore
from fedvalue.values import Cost, Values

__all__ = ["again", "by_another_method"]

_WHAT = "The values"
# What follows from the trainings alone. The others (seconds, what data looked like, baselines) rest on the checksum and on
# signatures.
_FOLLOWING = (
    "mean", "stderr", "dof", "correlation", "parts", "utility_of_none", "utility_of_all", "evaluations", "noise",
    "guarantee", "seeds", "known_before", "forecast", "unit", "replicates", "empty", "names", "budget", "notes",
    "most_seeds", "random", "higher_is_better", "clients", "groups", "index", "benefits",
)  # fmt: skip
_ROUNDING = 1e-9  # other libraries of linear algebra add up in another order


def again(
    run: LeftRun, store: UtilityStore, values: Values, given: MethodLike | None = None
) -> Iterator[Check]:
    """The values by the method of the run: every number that follows from the trainings.

    `given` is the method where whoever checks has it, and fedvalue has not.
    """
    method = method_of(run, values, given)
    if isinstance(method, Check):
        yield method
        return
    found = _computed(
        run, store, values, method, _budget(run, values), values.seed, _options(run), _seeds(run)
    )
    if isinstance(found, Check):
        yield found
        return
    old, new = _plain(values), _plain(found)
    different = [name for name in _FOLLOWING if not _same(old.get(name), new.get(name), _scale(values))]
    details = {name: part for name, part in old["details"].items() if name in new["details"]}
    if not _same(details, new["details"], _scale(values)):
        different.append("details")
    different += ["cost"] if _other_cost(values.cost, found.cost) else []
    if different:
        gap = float(np.max(np.abs(found.mean - values.mean)))
        said = ", ".join(different)
        yield wrong(_WHAT, f"computed again from the store they differ in {said}; values by up to {gap:.3g}")
        return
    same = all(old.get(name) == new.get(name) for name in _FOLLOWING)
    how = "to the last bit" if same else f"up to rounding ({_ROUNDING:g} of the largest)"
    yield sound(_WHAT, f"computed again by {values.method} from the store, they are the same {how}")


def by_another_method(
    run: LeftRun, store: UtilityStore, values: Values, method: MethodLike
) -> Iterator[Check]:
    """What another method makes of the same trainings: for people to judge, and never a finding."""
    what = f"The values by {as_method(method).name}"
    found = _computed(run, store, values, method, None, values.seed, {}, 1)
    if isinstance(found, Check):
        yield unchecked(what, found.text)
        return
    gap = float(np.max(np.abs(found.mean - values.mean)))
    numbers = ", ".join(f"{name} {mean:+.4g}" for name, mean in zip(found.names, found.mean, strict=True))
    yield sound(what, f"{numbers}; the largest difference is {gap:.3g}")


def _computed(
    run: LeftRun,
    store: UtilityStore,
    values: Values,
    method: MethodLike,
    budget: int | None,
    seed: int | None,
    options: Mapping[str, Any],
    seeds: int | None,
) -> Values | Check:
    described = next(game for game in store.games() if game.id == values.game_id)
    names = described.description.get("names") or [f"client-{i}" for i in range(described.n)]
    before, after = _moments(store, values)
    game: Game = RecordedGame(values, after, names, run.record)
    if values.clients is not None:
        game = RestrictedGame(game, values.clients, before)
    try:
        asked = method_request(method, with_seeds(method, options, seeds))
        asked = grouped(asked, game.names, values.groups or None)
        if (
            run.record is None and not values.agreement
        ):  # those of a run, and what is agreed, are Shapley values
            asked = by_index(asked, game.names, values.index)
        (found,) = run_requests(game, [asked], budget, seed or 0, before, use_stored=True, ends=_ends(run))
    except UnrecordedError as error:
        return wrong(_WHAT, f"they cannot be computed again: {error}")
    except FedvalueError as error:
        return undecided(_WHAT, f"they cannot be computed from the store alone: {error}")
    return found


def _moments(store: UtilityStore, values: Values) -> tuple[StoreUntil, StoreUntil]:
    """The store before the run and after it; without a chain, as it is now."""
    chain = values.chain
    before, after = (0, 1 << 62) if chain is None else (chain.rows_before, chain.rows)
    return StoreUntil(store, values.game_id, before), StoreUntil(store, values.game_id, after)


def _budget(run: LeftRun, values: Values) -> int | None:
    """As the run was told, if there is a record of it."""
    return values.budget if run.record is None else run.record.get("budget")


def _options(run: LeftRun) -> Mapping[str, Any]:
    return (run.record or {}).get("options") or {}


def _seeds(run: LeftRun) -> int | None:
    """As the run was told; one that was made by a function of Python says nothing."""
    return (run.record or {}).get("seeds")


def _ends(run: LeftRun) -> bool:
    """Whether v(∅) and v(N) were evaluated in any case: jobs do so."""
    return (run.record or {}).get("format") == "fedvalue.run/1"


def _plain(values: Values) -> dict[str, Any]:
    return dict(json_ready(values.to_dict()))


def _other_cost(told: Cost | None, found: Cost | None) -> bool:
    """Whether it cannot have been so many: what processes beside the run trained meanwhile, it took from the store."""
    if told is None or found is None:
        return False
    same = told.trained + told.reused == found.trained + found.reused
    return not (same and 0 <= told.trained <= found.trained)


def _scale(values: Values) -> float:
    return float(max(np.abs(values.mean).max(initial=0.0), 1e-300))


def _same(one: Any, other: Any, scale: float) -> bool:
    """The same plain data, numbers up to rounding."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name], scale) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(a, b, scale) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= _ROUNDING * max(scale, abs(one))
    return type(one) is type(other) and bool(one == other)
