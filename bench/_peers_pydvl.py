"""pyDVL's Shapley valuation with its samplers, run on a table of utilities that counts. A data point is a client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from _counting import Array, CountingTable, Run

__all__ = ["fitted", "sampler", "stratified", "vrds"]


def sampler(name: str) -> Run:
    """One of `pydvl.valuation.samplers`, untruncated, up to a number of samples: of orders, or of coalitions."""

    def run(game: CountingTable, samples: int, seed: int) -> Array:
        from pydvl.valuation import MaxSamples, ShapleyValuation, samplers

        drawn = getattr(samplers, name)(seed=seed)
        return fitted(game, lambda utility: ShapleyValuation(utility, drawn, MaxSamples(drawn, samples)))

    return run


def stratified(game: CountingTable, samples: int, seed: int) -> Array:
    """A client and a size at random, then a coalition of that size: pyDVL's own choice of settings."""
    from pydvl.valuation import MaxSamples, NoStopping
    from pydvl.valuation.methods.shapley import StratifiedShapleyValuation

    def valuation(utility: Any) -> Any:
        made = StratifiedShapleyValuation(utility, NoStopping(), seed=seed)
        made.is_done = MaxSamples(made.sampler, samples)
        return made

    return fitted(game, valuation)


def vrds(game: CountingTable, samples: int, seed: int) -> Array:
    """Sizes by the harmonic rule of Wu et al. 2023, the same number of samples for every client."""
    from pydvl.valuation import NoStopping, ShapleyValuation
    from pydvl.valuation.samplers import VRDSSampler

    drawn = VRDSSampler(samples, seed=seed)
    return fitted(game, lambda utility: ShapleyValuation(utility, drawn, NoStopping(drawn)))


def fitted(game: CountingTable, valuation_of: Callable[[Any], Any]) -> Array:
    """Values by the valuation that is made of the game as a utility of pyDVL."""
    from pydvl.valuation import Dataset
    from pydvl.valuation.utility.base import UtilityBase

    class TableUtility(UtilityBase):
        def __call__(self, sample: Any) -> float:
            return game.members(() if sample is None else sample.subset)

    valuation = valuation_of(TableUtility())
    valuation.fit(Dataset(np.arange(game.n)[:, None], np.zeros(game.n)))
    values = np.empty(game.n)
    values[valuation.result.indices] = valuation.result.values
    return values
