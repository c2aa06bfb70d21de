"""Values from what is stored so far, by the surrogate, whatever method the run itself has. Nothing is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedvalue._text import count
from fedvalue.errors import FedvalueError
from fedvalue.outcome import empty_metric
from fedvalue.store import StoreLook, read_history
from fedvalue.values import Values
from fedvalue.watch._rules import Rules
from fedvalue.watch._snapshot import RunNow
from fedvalue.what_if import Trained, values_so_far
from fedvalue.yardsticks import Empty

__all__ = ["SoFar", "so_far"]

_MOST_OUTCOMES = 20_000  # beyond, reading alone would take seconds
_MOST_FITTED = 1000  # a choice of them where there are more: fitting all would keep a core busy for minutes


@dataclass(frozen=True, eq=False)
class SoFar:
    """Values from so many outcomes, or the reason why there are none yet."""

    outcomes: int
    values: Values | None
    why_not: str = ""


def so_far(run: RunNow) -> SoFar:
    """What the clients are worth by what the store holds now."""
    rules = run.rules
    if rules is None or run.store is None or not run.names:
        return SoFar(run.outcomes, None, "No training is stored yet.")
    if run.outcomes > _MOST_OUTCOMES:
        return SoFar(
            run.outcomes,
            None,
            f"Up to {count(_MOST_OUTCOMES)} trainings are valued while a run goes on; its own values come at its end.",
        )
    try:
        return SoFar(run.outcomes, _values(run, rules))
    except FedvalueError as error:
        return SoFar(run.outcomes, None, str(error))
    except (ArithmeticError, LookupError, OSError, ValueError, np.linalg.LinAlgError) as error:
        return SoFar(run.outcomes, None, f"No values yet from what is stored: {error}.")


def _values(run: RunNow, rules: Rules) -> Values:
    assert run.store is not None
    n = len(run.names)
    with StoreLook(run.store) as store:
        none = _utility_of_none(store, run, rules)
        several = _several_seeds(store, run, rules)
        asked = Values(
            np.zeros(n),
            run.names,
            "surrogate",
            0,
            game_id=run.game_id,
            metric=rules.metric,
            stored_as=rules.stored_as,
            higher_is_better=rules.higher_is_better,
            replicates=rules.replicates,
            seeds=2 if several else 1,
            empty=None if none is None or several else Empty(rules.empty, rules.empty),
            utility_of_none=none,
        )
        history = read_history(store, asked)
    trained = Trained(history.utilities, history.seeds)
    return replace(
        values_so_far(run.names, trained, rules.groups, several_seeds=several, most=_MOST_FITTED),
        game_id=run.game_id,
        metric=rules.metric,
        stored_as=rules.stored_as,
        higher_is_better=rules.higher_is_better,
    )


def _several_seeds(store: StoreLook, run: RunNow, rules: Rules) -> bool:
    """Whether the run spreads its trainings over seeds, rather than to value one seed or the mean of replicates."""
    if rules.replicates > 1 or rules.seeds == 1:
        return False
    return len({seed for mask, seed in store.trials(run.game_id) if mask}) > 1


def _utility_of_none(store: StoreLook, run: RunNow, rules: Rules) -> float | None:
    """v(∅) by the rule of the run; None where the store has it only as one utility like others."""
    stored = store.read(run.game_id, [0]).get(0)
    named = None if stored is None else stored.metrics.get(empty_metric(rules.stored_as, rules.empty))
    return None if named is None else (1 if rules.higher_is_better else -1) * float(named)
