"""Everything about values that anybody may want to know, from an estimate and what a run came to know."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from fedvalue._files import json_text
from fedvalue.coalitions import Trial, full_mask, members
from fedvalue.games import (
    Certain,
    Disclosing,
    Examined,
    Game,
    Judged,
    Measured,
    Priced,
    RestrictedGame,
    Tested,
    is_random,
)
from fedvalue.outcome import UTILITY
from fedvalue.run._benefits import benefits_of
from fedvalue.run._certain import conditioned, interchangeable
from fedvalue.run._ledger import Ledger
from fedvalue.run._parts import with_luck_of_empty, with_replicates
from fedvalue.run._requests import Request
from fedvalue.run._test_rows import with_test_rows
from fedvalue.values import Chain, Cost, Estimate, Values
from fedvalue.yardsticks import Baseline

__all__ = ["complete_values"]

_MARGIN_QUANTILE = 1.645  # of a margin for one model


def complete_values(
    game: Game, asked: Request, estimate: Estimate, seed: int, ledger: Ledger, ends: bool
) -> Values:
    """Everything about a value that anybody may want to know, whatever the game and the method."""
    metric, stored_as, higher = (
        (game.metric, game.stored_as, game.higher_is_better)
        if isinstance(game, Measured)
        else (UTILITY, UTILITY, True)
    )
    counted = (
        {*asked.asked, 0, full_mask(game.n)} if ends and not isinstance(asked.asked, range) else asked.asked
    )
    trained, total = ledger.trained(counted), len(counted) * game.replicates
    none = ledger.mean_of_empty() if asked.trials else ledger.utility(0)
    everyone = ledger.utility(full_mask(game.n))
    if asked.trials:
        counted_trials = asked.trials | ({(full_mask(game.n), 0)} if ends else set())
        trained, total = ledger.trained_trials(counted_trials), len(counted_trials)
    if is_random(game) and "training" not in estimate.parts and not np.any(estimate.stderr):
        estimate = replace(
            estimate, stderr=None, covariance=None
        )  # of one seed: nothing is certain about others
    exact = game.exact_cost(ledger.took) if isinstance(game, Priced) else (None, None)
    if isinstance(game, Certain):
        alike = game.alike if asked.blocks is None else interchangeable(game.alike, asked.blocks)
        sum_is_known = asked.index.adds_up and not asked.trials
        estimate = conditioned(
            estimate, game.idle, alike if asked.index.anonymous else (), sum_is_known=sum_is_known
        )
    if asked.trials and none is not None:  # v(N) as expected, not as it came out with the first seed
        adds_up = asked.index.adds_up
        everyone = none + float(estimate.mean.sum()) if adds_up else ledger.mean_over_seeds(full_mask(game.n))
    estimate = with_luck_of_empty(estimate, ledger.empty_variance, asked.weights)
    if game.replicates > 1:
        estimate = with_replicates(
            estimate, asked.asks, [ledger.known[replicate] for replicate in range(game.replicates)]
        )
    benefits, notes = benefits_of(
        estimate, asked.asks, game.replicates, ledger.known, ledger.own_rows, game.names
    )
    estimate, test_rows = with_test_rows(estimate, asked.asks, game.replicates, ledger.told)
    return Values(
        mean=estimate.mean,
        names=game.names,
        method=asked.method.name,
        evaluations=asked.evaluations,
        seconds=asked.seconds,
        stderr=estimate.stderr,
        dof=estimate.dof,
        guarantee="exact" if asked.exact else estimate.guarantee or asked.method.guarantee,
        budget=asked.budget,
        seed=seed,
        game_id=game.whole_id if isinstance(game, RestrictedGame) else game.id,
        details=json.loads(json_text(dict(estimate.details))),
        covariance=estimate.covariance,
        metric=metric,
        stored_as=stored_as,
        higher_is_better=higher,
        unit=estimate.unit or metric,
        utility_of_none=none,
        utility_of_all=everyone,
        replicates=game.replicates,
        noise=_noise(asked.trials, ledger) if asked.trials else ledger.noise(),
        cost=Cost(trained, total - trained, *exact),
        forecast=tuple(estimate.forecast),
        known_before=estimate.known_before,
        notes=(*estimate.notes, *notes),
        clients=game.clients if isinstance(game, RestrictedGame) else None,
        empty=ledger.rule_of_empty,
        baseline=_baseline(game, ledger),
        suspicious=game.suspicious if isinstance(game, Examined) else (),
        # Exact values are those of the first seed; the others only show by how much it is luck.
        seeds=1 if asked.exact_of_one_seed else len({seed for _, seed in asked.trials}) or 1,
        parts=estimate.parts,
        random=is_random(game),
        chain=_chain(ledger),
        most_seeds=asked.most_seeds if asked.trials else None,
        benefits=benefits,
        disclosure=game.disclosure(ledger.made) if isinstance(game, Disclosing) else None,
        groups=asked.groups,
        index=asked.index.name,
        test_rows=test_rows or (game.test_rows if isinstance(game, Tested) else None),
    )


def _chain(ledger: Ledger) -> Chain | None:
    """Which rows of the store the values rest on."""
    before, after = ledger.before, ledger.head()
    return None if before is None or after is None else Chain(*before, *after)


def _noise(trials: Collection[Trial], ledger: Ledger) -> float | None:
    """Standard deviation of a single training, pooled over the coalitions that were trained with several seeds."""
    found: dict[int, list[float]] = {}
    for mask, seed in trials:
        if not ledger.is_empty(mask):
            found.setdefault(mask, []).append(ledger.known[seed][mask])
    repeated = [utilities for utilities in found.values() if len(utilities) > 1]
    spread = sum(float(np.var(utilities)) * len(utilities) for utilities in repeated)
    freedom = sum(len(utilities) - 1 for utilities in repeated)
    return math.sqrt(spread / freedom) if freedom else None


def _baseline(game: Game, ledger: Ledger) -> Baseline | None:
    """What an answer that ignores the data reaches, and how far the best coalition got."""
    found = game.baseline() if isinstance(game, Judged) else None
    best = ledger.best()
    if found is None or best is None:
        return found
    mask, utility, many = best
    clients = tuple(game.names[i] for i in members(mask))
    # Of many models that know nothing, one is ahead by luck: the normal quantile z of a margin becomes √(z² + 2 ln K).
    wider = math.sqrt(1 + 2 * math.log(many) / _MARGIN_QUANTILE**2)
    return replace(
        found,
        best=utility,
        best_clients=clients,
        best_is_luck=utility <= found.utility + wider * found.margin,
    )
