"""What each client is worth, and how sure that is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import as_path, between, checked_init, expect, whole
from fedvalue._files import json_ready, sealed, write_json
from fedvalue._html import as_printed
from fedvalue.errors import InputError
from fedvalue.indices import SHAPLEY, title_of
from fedvalue.outcome import UTILITY
from fedvalue.precision import Remedy, advice, dominant, remedy
from fedvalue.values._arrays import square, vector
from fedvalue.values._benefits import Benefits
from fedvalue.values._chances import expected_gain, interval, probability_order
from fedvalue.values._client import ClientValue, number_of
from fedvalue.values._covariance import deviations
from fedvalue.values._disclosure import Disclosure
from fedvalue.values._groups import of_groups
from fedvalue.values._json import to_dict, values_from
from fedvalue.values._parts import Chain, Cost
from fedvalue.values._plots import plot, plot_errors
from fedvalue.values._shown import frame, html, table, text
from fedvalue.weights import blocks_of
from fedvalue.yardsticks import Baseline, Empty

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame
    from rich.table import Table

__all__ = ["PARTS", "Values"]

PARTS = ("coalitions", "training", "test")
"""What an error of values comes from: coalitions that were not trained, the luck of training, the sample of test rows."""


@checked_init
@dataclass(frozen=True, eq=False)
class Values:
    """The value of every client, with its uncertainty and where it comes from.

    Values are parts of `utility_of_all` − `utility_of_none`, what all clients together reach beyond the untrained
    model (None where the run did not need them). A utility is the `metric`, negated unless `higher_is_better`,
    and the mean over `replicates` trainings; `noise` is the standard deviation of a single one. `unit` differs
    from the metric for methods whose values are in something else. `empty` says how v(∅) was fixed, `baseline` what an
    answer that ignores the features reaches; both are None where the game does not know. `suspicious` is what was
    noticed about the clients' data when it was read. Stores hold the metric as `stored_as`: two
    metrics of one's own may have the same name. `details` holds what only the method knows.

    Trained with one of the `seeds` there are, values are those of that seed. Trained with several, they are those of the
    expected utility, and `evaluations` counts trainings. `stderr` and `covariance` are the total of what is known of three
    `parts`, whose covariances they add up: "coalitions" that were not trained, the luck of "training", and the sample
    of "test" rows. `errors` has their standard errors, `dominant` is the largest of them, and `advice` says what would
    halve the intervals. `random` says that another seed would give other utilities, and `test_rows` how many there are.
    `most_seeds` is how many seeds the game has, a table its rows; None where it can be trained with any number.

    Where clients joined as `groups`, values are Owen values, and `of_groups` has what each group is worth as a whole. `index` is the
    solution concept that they are by, `title` what they are called.
    Where clients of a federation were missing, `absent` says why for each by name, and `clients` are the numbers
    of the others in the game.

    Where the test rows are the clients' own, `benefits` has the values on the rows of each by itself.
    `disclosure` is what left each client of a federation.
    `chain` says which rows of the store they rest on, and `agreement` is the hash of the agreement that the run was
    made under, if there was one.

    >>> v = Values(mean=[3.0, 1.0], names=("a", "b"), method="exact", evaluations=4)
    >>> v.share.tolist()
    [0.75, 0.25]
    """

    mean: NDArray[np.float64]
    names: tuple[str, ...]
    method: str
    evaluations: int
    seconds: float = 0.0
    stderr: NDArray[np.float64] | None = None
    dof: NDArray[np.float64] | None = None
    guarantee: str = ""
    budget: int | None = None
    seed: int | None = None
    game_id: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    covariance: NDArray[np.float64] | None = None
    metric: str = UTILITY
    higher_is_better: bool = True
    unit: str = ""
    utility_of_none: float | None = None
    utility_of_all: float | None = None
    replicates: int = 1
    noise: float | None = None
    cost: Cost | None = None
    forecast: tuple[float, ...] = ()
    known_before: int = 0
    notes: tuple[str, ...] = ()
    clients: tuple[int, ...] | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    stored_as: str = ""
    empty: Empty | None = None
    baseline: Baseline | None = None
    suspicious: tuple[str, ...] = ()
    seeds: int = 1
    parts: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    random: bool = False
    test_rows: int | None = None
    most_seeds: int | None = None
    benefits: Benefits | None = None
    disclosure: Disclosure | None = None
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    chain: Chain | None = None
    agreement: str = ""
    index: str = SHAPLEY

    def __post_init__(self) -> None:
        expect("names of values", self.names, Iterable, "a list of texts, one per client")
        names = tuple(str(name) for name in self.names)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "groups", {str(name): tuple(of) for name, of in self.groups.items()})
        strangers = [client for of in self.groups.values() for client in of if client not in names]
        if strangers:
            raise InputError(f"A group of values names a client that they are not of: {strangers[0]!r}.")
        object.__setattr__(self, "stored_as", self.stored_as or self.metric)
        object.__setattr__(self, "unit", self.unit or self.metric)
        for name in ("mean", "stderr", "dof"):
            given = getattr(self, name)
            if given is None and name != "mean":
                continue
            object.__setattr__(self, name, vector(given, len(names), f"Values.{name}"))
        if self.stderr is not None and not (np.isfinite(self.stderr) & (self.stderr >= 0)).all():
            raise InputError(
                f"Values.stderr must hold finite numbers of at least 0. Got {self.stderr.tolist()}."
            )
        if self.dof is not None and not (self.dof > 0).all():
            raise InputError(f"Values.dof must hold numbers above 0. Got {self.dof.tolist()}.")
        unknown = sorted(set(self.parts) - set(PARTS))
        if unknown:
            raise InputError(f"The parts of an error are {', '.join(PARTS)}. Got {unknown}.")
        parts = {
            name: square(part, len(names), f"Values.parts[{name!r}]") for name, part in self.parts.items()
        }
        object.__setattr__(self, "parts", parts)
        if self.covariance is not None:
            object.__setattr__(self, "covariance", square(self.covariance, len(names), "Values.covariance"))
        elif any(part.any() for part in parts.values()):  # the total of what is known
            object.__setattr__(self, "covariance", np.sum(list(parts.values()), axis=0))
        if self.stderr is None and parts and self.covariance is not None:
            object.__setattr__(self, "stderr", deviations(self.covariance))
        for array in (self.mean, self.stderr, self.dof, self.covariance, *parts.values()):
            if array is not None:
                array.flags.writeable = False  # whoever is shown values cannot change them

    def __len__(self) -> int:
        return self.n

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[ClientValue]:
        return (self[i] for i in range(self.n))

    def __getitem__(self, client: int | str) -> ClientValue:
        """What one client is worth, by its name or number.

        >>> values = Values([3.0, 1.0], ("Aachen", "Bern"), "exact", 4)
        >>> values["Bern"].value, [one.name for one in values], "Como" in values
        (1.0, ['Aachen', 'Bern'], False)
        """
        i, interval = number_of(client, self.names), self.interval()
        error = None if self.stderr is None else float(self.stderr[i])
        low, high = (None, None) if interval is None else map(float, interval[i])
        return ClientValue(self.names[i], float(self.mean[i]), error, low, high, float(self.share[i]))

    @property
    def n(self) -> int:
        """How many clients."""
        return len(self.names)

    @property
    def title(self) -> str:
        """What the values are called: Shapley, Owen or Banzhaf values, for example."""
        return "Owen values" if self.groups else title_of(self.index)

    @property
    def sign(self) -> int:
        """-1 where less of the metric is better: its negative is the utility."""
        return 1 if self.higher_is_better else -1

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Who joined as one, by number: groups and clients on their own."""
        return blocks_of(self.names, self.groups) or tuple((i,) for i in range(self.n))

    def of_groups(self) -> Values:
        """What every group is worth as a whole, beside the clients that are on their own: Shapley values of these parties.

        >>> v = Values([1.0, 2.0, 4.0], "abc", "exact", 8, groups={"Holding": ["a", "c"]})
        >>> v.of_groups().names, v.of_groups().mean.tolist()
        (('Holding', 'b'), [5.0, 2.0])
        """
        return of_groups(self)

    @property
    def other_unit(self) -> str:
        """What the values are in, where that is not the metric; else nothing."""
        return "" if self.unit == self.metric else self.unit

    @property
    def equal_split(self) -> float | None:
        """What each would get if nobody were looked at; None where v(N) or v(∅) is not known."""
        if self.utility_of_all is None or self.utility_of_none is None:
            return None
        return (self.utility_of_all - self.utility_of_none) / self.n

    @property
    def learned(self) -> bool | None:
        """Whether all clients together beat the best answer that ignores the features; None where that is not known."""
        if self.baseline is None or self.utility_of_all is None:
            return None
        return self.baseline.beaten_by(self.utility_of_all)

    @property
    def warning(self) -> str:
        """What has to be said before anything else, where nothing was learned; else nothing."""
        if self.baseline is None or self.utility_of_all is None:
            return ""
        return self.baseline.statement(self.utility_of_all, self.metric, self.sign)

    @property
    def empty_label(self) -> str:
        """What v(∅) is the utility of, in words."""
        if self.empty:
            return self.empty.label
        return "no clients" if self.metric == UTILITY else "untrained model"

    @property
    def share(self) -> NDArray[np.float64]:
        """Each value as a fraction of the sum; nan where that is not above zero, up to rounding: there is nothing to
        have a share in."""
        total = self.mean.sum()
        nothing = total <= 1e-12 * np.abs(self.mean).sum()
        return np.full(self.n, np.nan) if nothing else self.mean / total

    @property
    def errors(self) -> dict[str, NDArray[np.float64] | None]:
        """The standard error from "coalitions", "training" and "test" rows, per client; None where it is not known.

        >>> Values([1.0], ["a"], "permutation", 100, stderr=[0.1]).errors["training"] is None
        True
        """
        known = {name: deviations(part) for name, part in self.parts.items()}
        if not known and self.stderr is not None:  # of a method that knows of coalitions alone
            known = {"coalitions": self.stderr}
        return {name: known.get(name) for name in PARTS}

    @property
    def one_seed(self) -> bool:
        """Whether all trainings had one seed, so that the values are those of that seed."""
        return self.random and self.seeds == 1 and self.replicates == 1

    @property
    def luck_trainings(self) -> int:
        """How many trainings with other seeds exact values of one seed have, to see how much of them is luck."""
        known = self.guarantee == "exact" and self.one_seed and "training" in self.parts
        return max(0, self.evaluations - (1 << self.n) + 1) if known else 0

    @property
    def promise(self) -> str:
        """The guarantee in words: values that are exact for the trainings that were made say so.

        >>> Values([1.0], ["a"], "exact", 2, guarantee="exact", random=True).promise
        'exact for this seed'
        """
        if self.guarantee != "exact" or not self.random:
            return self.guarantee
        if self.one_seed:
            return "exact for this seed"
        return f"exact for these {self.seeds if self.seeds > 1 else self.replicates} seeds"

    @property
    def dominant(self) -> str | None:
        """What the error is mostly made of: "coalitions", "training" or "test"; None where nothing is known of it.

        >>> Values([1.0], ["a"], "surrogate", 64, parts={"training": [[4.0]], "test": [[1.0]]}).dominant
        'training'
        """
        return dominant(self)

    def remedy(self) -> Remedy | None:
        """What would halve the intervals: how many more trainings, or how many test rows; None without intervals."""
        return remedy(self)

    def advice(self) -> list[str]:
        """What the intervals are mostly made of, what would halve them, and what is not in them, in sentences.

        >>> parts = {"coalitions": [[0.5]], "test": [[9.5]]}
        >>> Values([1.0], ["a"], "surrogate", 64, parts=parts, test_rows=449).advice()
        ['The ± is mostly the 449 test rows (95% of the variance): about 2,133 would halve it.']
        """
        return advice(self)

    def interval(self, level: float = 0.95) -> NDArray[np.float64] | None:
        """Lower and upper bound per client (rows), or None where the method has no valid one.

        Student's t with the method's degrees of freedom: few samples give wide intervals.
        """
        return interval(self, between("The level of an interval", level, 0, 1))

    def probability_order(self, i: int | str, j: int | str) -> float | None:
        """How likely client i is worth more than client j; None where the method cannot tell.

        Clients are given by index or name. Errors of two values are rarely independent, so this needs the
        covariance of a method like `surrogate`; exact values are ordered for certain, as far as their seed goes. All known
        parts of the error count.

        >>> v = Values([3.0, 1.0], ("a", "b"), "surrogate", 8, covariance=[[1.0, 0.0], [0.0, 1.0]])
        >>> round(v.probability_order("a", "b"), 3)
        0.921
        """
        return probability_order(self, number_of(i, self.names), number_of(j, self.names))

    def expected_gain(self, k: int) -> float | None:
        """By which fraction k more evaluations would narrow the widest interval; 0.5 halves it.

        `surrogate` foresees it: how uncertain a value will be depends on which coalitions are evaluated, not
        on what comes out (`forecast`, the best additions one by one). Beyond its horizon, and for
        other methods with standard errors, √(γ/(γ + k)) of the width remains. The part of the test rows stays as it
        is: only more of them would narrow it. None without standard errors.

        >>> Values([1.0], ["a"], "permutation", 100, stderr=[0.1]).expected_gain(300)
        0.5
        """
        return expected_gain(self, whole("The number of further evaluations", k, 0))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `Values.from_dict` reads it back. JSON knows no infinity: such a dof is None.

        A covariance is written as correlations below the diagonal, row by row, to six decimals.
        """
        return to_dict(self)

    def as_written(self) -> Values:
        """The values as a file of them is read: what follows from them is then the same for whoever has the file."""
        return Values.from_dict(json.loads(json.dumps(json_ready(self.to_dict()))))

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the values to a file that the commands read, with a checksum."""
        file = as_path("The path of values", path)
        write_json(file, sealed(self.to_dict()))
        return file

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Values:
        """Values from what `to_dict` gave.

        >>> v = Values(mean=[1.0], names=["a"], method="exact", evaluations=2)
        >>> Values.from_dict(v.to_dict()).mean.tolist()
        [1.0]
        """
        return values_from(data, lambda fields: cls(**fields))

    def to_frame(self, level: float = 0.95) -> DataFrame:
        """A pandas frame, one row per client; bounds are missing where the method has no valid ones.

        Frames of several methods stack: `pd.concat(v.to_frame() for v in fv.compare(game).values())`.
        """
        return frame(self, level)

    def __str__(self) -> str:
        """A plain table, as `print` shows it."""
        return text(self)

    def _repr_html_(self) -> str:
        """A table with bars, as notebooks show it."""
        return html(self)

    _repr_pretty_ = as_printed

    def plot(self, ax: Axes | None = None, level: float = 0.95) -> Axes:
        """A bar per client with its interval, on axes of matplotlib: those given, or new ones. Returns them."""
        return plot(self, ax, level)

    def plot_errors(self, ax: Axes | None = None) -> Axes:
        """What the variance of every value is made of, on axes of matplotlib."""
        return plot_errors(self, ax)

    def table(self, level: float = 0.95, unicode: bool = True) -> Table:
        """A rich table: client, value, ±, share and a bar, which goes left from an axis where a value is negative."""
        return table(self, between("The level of an interval", level, 0, 1), unicode)
