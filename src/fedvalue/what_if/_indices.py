"""Values by other solution concepts from the trainings of a run, and how much the ranking depends on the concept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedvalue import scoring
from fedvalue._text import plain_table
from fedvalue.coalitions import full_mask
from fedvalue.errors import InputError, MethodError
from fedvalue.indices import SHAPLEY, Index, IndexLike, read_index
from fedvalue.values import Values
from fedvalue.what_if._sums import EXACT, Sums, Trained, sums

__all__ = ["USUAL_INDICES", "OtherIndices", "by_indices"]

USUAL_INDICES = ("banzhaf", "beta(16,1)", "beta(1,16)", "leave-one-out", "least-core", "nucleolus")
_LIKE_SHAPLEY = "τ with Shapley"


@dataclass(frozen=True)
class OtherIndices:
    """Values by each index, Shapley's first, and for those that the trainings do not suffice for the reason.

    `ranking` is Kendall's τ of the clients' order with that by Shapley values: 1 the same, −1 reversed.

    >>> import fedvalue as fv
    >>> table = [0.0, 0.5, 0.4, 0.6, 0.2, 0.55, 0.65, 0.7]
    >>> utilities = {mask: [utility] for mask, utility in enumerate(table)}
    >>> values, which = fv.value(table, "exact"), ["banzhaf", "leave-one-out"]
    >>> found = fv.other_indices(values, which, utilities)
    >>> {index: round(tau, 2) for index, tau in found.ranking.items()}
    {'shapley': 1.0, 'banzhaf': 1.0, 'leave-one-out': 0.0}
    """

    values: Mapping[str, Values]
    not_known: Mapping[str, str] = field(default_factory=dict)

    @property
    def ranking(self) -> dict[str, float]:
        first = next(iter(self.values.values()))
        return {name: scoring.kendall(found.mean, first.mean) for name, found in self.values.items()}

    @property
    def places(self) -> dict[str, list[int]]:
        """The place of each client by every index, 1 for the largest value; those that are level share one."""
        return {name: scoring.places(found.mean) for name, found in self.values.items()}

    def rows(self) -> list[list[str]]:
        """A line for each client, with its value by every index and ± where that is known."""
        reach = {name: found.interval() for name, found in self.values.items()}
        first = next(iter(self.values.values()))
        lines = []
        for i, client in enumerate(first.names):
            cells = [client]
            for name, found in self.values.items():
                around = reach[name]
                half = "" if around is None else f" ± {(around[i, 1] - around[i, 0]) / 2:.4f}"
                cells.append(f"{found.mean[i]:+.4f}{half}")
            lines.append(cells)
        return lines

    def place_rows(self) -> list[list[str]]:
        """A line for each client, with its place by every index; then how the orders agree."""
        names = next(iter(self.values.values())).names
        columns = self.places.values()
        lines = [[client, *(str(of[i]) for of in columns)] for i, client in enumerate(names)]
        taus = ["–" if math.isnan(tau) else f"{tau:+.2f}" for tau in self.ranking.values()]
        return [*lines, [_LIKE_SHAPLEY, *taus]]

    @property
    def head(self) -> list[str]:
        """The columns of `rows`."""
        return ["client", *self.values]

    @property
    def place_head(self) -> list[str]:
        """The columns of `place_rows`."""
        return ["place", *self.values]

    @property
    def remarks(self) -> list[str]:
        """What could not be computed, and why."""
        said = [f"Not known: {name}. {why}" for name, why in self.not_known.items()]
        if any(found.stderr is not None for name, found in self.values.items() if name != SHAPLEY):
            said.append(
                "The ± of other indices than Shapley's counts coalitions not trained and, over several seeds, the luck of training, "
                "but not that of test rows."
            )
        bare = [name for name, found in self.values.items() if found.stderr is None]
        if bare and len(bare) < len(self.values):
            said.append(
                f"Without a ±: {', '.join(bare)}. They are exact for the trainings that were made; how far the luck of training "
                "and the test rows move them is not known."
            )
        return said

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "format": "fedvalue.indices/1",
            "values": {name: found.to_dict() for name, found in self.values.items()},
            "places": self.places,
            "ranking": {name: None if math.isnan(tau) else tau for name, tau in self.ranking.items()},
            "not_known": dict(self.not_known),
        }

    def __str__(self) -> str:
        tables = [plain_table(self.head, self.rows()), "", plain_table(self.place_head, self.place_rows())]
        return "\n".join([*tables, *self.remarks])


def by_indices(values: Values, trained: Trained, which: Sequence[IndexLike]) -> OtherIndices:
    """The values by each index that what was trained suffices for."""
    found, not_known = {SHAPLEY: values}, dict[str, str]()
    for index in [read_index(one, values.names) for one in ([which] if isinstance(which, str) else which)]:
        try:
            found[index.name] = values if index.name == SHAPLEY else _by_index(values, trained, index)
        except (InputError, MethodError) as error:
            not_known[index.name] = str(error)
    return OtherIndices(found, not_known)


def _by_index(values: Values, trained: Trained, index: Index) -> Values:
    index.check_clients(values.n)
    if index.weights is not None:
        return _told(values, index, sums(values, trained, index.weights(values.n)))
    assert index.solve is not None
    everything = range(full_mask(values.n) + 1)
    tables = trained.tables(everything) if len(trained.utilities) == len(everything) else None
    if tables is None or len(tables) < values.seeds:
        known = len(trained.utilities)
        how = "they are not known with the same seeds" if known == len(everything) else f"{known:,} are known"
        raise InputError(f"It rests on all {len(everything):,} coalitions, and {how}.")
    mean = np.mean([[table[mask] for mask in everything] for table in tables], axis=0)
    return _told(values, index, Sums(index.solve(mean), None, {}, EXACT))


def _told(values: Values, index: Index, found: Sums) -> Values:
    exact = found.source == EXACT
    return replace(
        values,
        mean=found.mean,
        index=index.name,
        method=found.source,
        guarantee="exact" if exact else "biased",
        stderr=None if found.covariance is None else np.sqrt(np.maximum(found.covariance.diagonal(), 0.0)),
        covariance=found.covariance,
        parts=found.parts,
        dof=np.full(values.n, found.dof) if math.isfinite(found.dof) else None,
        forecast=(),
        notes=(),
        benefits=None,
        details={},
    )
