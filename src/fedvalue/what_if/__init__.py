"""What clients would be worth under other names: copied, split in two, merged. Whether lying about that pays.

>>> from fedvalue.values import Values, expect_shapley
>>> table = [0.0, 0.4, 0.4, 0.6, 0.4, 0.6, 0.6, 0.7]
>>> values = Values([0.7 / 3] * 3, ("a", "b", "c"), "exact", 8, guarantee="exact")
>>> found = what_if(values, {mask: [utility] for mask, utility in enumerate(table)})
>>> print(found.changes[0])
a copied: 0.2333 now, 0.2833 then (+0.0500)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from fedvalue._checks import checked_call, expect
from fedvalue._text import markdown_text, plain_table
from fedvalue.audit import audit
from fedvalue.coalitions import full_mask, members
from fedvalue.errors import InputError
from fedvalue.indices import IndexLike
from fedvalue.payout import Copies
from fedvalue.store import History, UtilityStore, read_history
from fedvalue.values import Values, expect_shapley
from fedvalue.weights import Weights, shapley
from fedvalue.what_if._changes import MOST_CLIENTS, changes
from fedvalue.what_if._indices import USUAL_INDICES, OtherIndices, by_indices
from fedvalue.what_if._so_far import values_so_far
from fedvalue.what_if._sums import EXACT, Sums, Trained, sums

__all__ = [
    "COPIES_RULES",
    "HEAD",
    "USUAL_INDICES",
    "Change",
    "OtherIndices",
    "Trained",
    "WhatIf",
    "check_copies",
    "copies_by",
    "copies_once",
    "other_indices",
    "values_so_far",
    "what_if",
]

COPIES_RULES = ("each", "share")
"""Whether clients that the audit finds interchangeable are paid each, or share one part."""

_FORMAT = "fedvalue.what-if/1"
StoreLike = UtilityStore | str | PathLike[str] | None


@dataclass(frozen=True)
class Change:
    """What some clients are worth together now, and what they would be; `low` and `high` where that depends on what a part
    alone is worth. `half_width` is that of a 95% interval of the gain, None where it is not known.
    """

    kind: str
    clients: tuple[str, ...]
    now: float
    low: float
    high: float
    half_width: float | None

    @property
    def gain(self) -> float:
        """The most that it could bring."""
        return self.high - self.now

    def __str__(self) -> str:
        then = f"{self.high:.4f}" if self.low == self.high else f"{self.low:.4f} to {self.high:.4f}"
        error = "" if self.half_width is None else f" ± {self.half_width:.4f}"
        most = "" if self.low == self.high else " at most"
        return f"{' and '.join(self.clients)} {self.kind}: {self.now:.4f} now, {then} then ({self.gain:+.4f}{error}{most})"


@dataclass(frozen=True)
class WhatIf:
    """The changes, where they are from ("exact" or "surrogate"), and what they assume, sentence by sentence.

    >>> import fedvalue as fv
    >>> table = [0.0, 0.4, 0.4, 0.6, 0.4, 0.6, 0.6, 0.7]
    >>> values = fv.value(table, "exact")
    >>> utilities = {mask: [utility] for mask, utility in enumerate(table)}
    >>> found = fv.what_if(values, utilities)
    >>> max(found.changes, key=lambda change: change.gain).kind, found.source
    ('copied', 'exact')
    """

    changes: tuple[Change, ...]
    source: str
    assumptions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"format": _FORMAT, **asdict(self)}

    def rows(self) -> list[list[str]]:
        """The changes as cells of a table: who, what, now, then, gain, ±."""
        return [_cells(change) for change in self.changes]

    def __str__(self) -> str:
        """A plain table, and what it assumes."""
        return "\n".join([plain_table(list(HEAD), self.rows()), *self.assumptions])

    def to_markdown(self) -> str:
        """A table, and what it assumes."""
        lines = [list(HEAD), ["---", "---", "---:", "---:", "---:", "---:"]]
        lines += [[markdown_text(cell) for cell in row] for row in self.rows()]
        table = "\n".join(f"| {' | '.join(row)} |" for row in lines)
        said = "\n".join(f"- {markdown_text(sentence)}" for sentence in self.assumptions)
        return f"## What if\n\n{table}\n\n{said}\n"


HEAD = ("client", "if", "now", "then", "gain", "± 95%")
"""The columns of `WhatIf.rows`."""


@checked_call
def what_if(
    values: Values,
    utilities: Mapping[int, Sequence[float]] | None = None,
    *,
    seeds: Mapping[int, Sequence[int]] | None = None,
    store: StoreLike = None,
) -> WhatIf:
    """What every client would be worth as two copies, in two parts, and, up to ten clients, merged with another.

    `store` is the one that the values were made with; instead of it, `utilities` of trained coalitions, with the numbers
    of their `seeds`, as in `fedvalue.audit`. Nothing is trained: where all coalitions are known the answers are exact
    for what they assume, elsewhere the surrogate estimates them.

    >>> import fedvalue as fv
    >>> table = [0.0, 0.4, 0.4, 0.6, 0.4, 0.6, 0.6, 0.7]
    >>> values = fv.value(table, "exact")
    >>> utilities = {mask: [utility] for mask, utility in enumerate(table)}
    >>> print(fv.what_if(values, utilities).changes[-1])
    client-1 and client-2 merged: 0.4667 now, 0.4500 then (-0.0167)
    """
    trained, n = _trained(values, utilities, seeds, store), values.n
    if n < 2:
        raise InputError("With a single client there is nothing to split or to merge.")
    _check_size(n)
    who, weights = changes(n)
    found = sums(values, trained, weights)
    reach, listed = found.half_widths(), list[Change]()
    for row, of in enumerate(who):
        total, names = float(values.mean[list(of)].sum()), tuple(values.names[i] for i in of)
        then, half = total + float(found.mean[row]), None if reach is None else float(reach[row])
        kind, low, high = "copied" if row < n else "merged", then, then
        if n <= row < 2 * n:  # from parts that are worth nothing alone to parts that are copies
            copied = listed[row - n]
            kind, low, high = "in two parts", min(then, copied.high), max(then, copied.high)
            half = None if half is None or copied.half_width is None else max(half, copied.half_width)
        listed.append(Change(kind, names, total, low, high, half))
    return WhatIf(tuple(listed), found.source, _assumptions(values, found, pairs=len(who) > 2 * n))


@checked_call
def other_indices(
    values: Values,
    which: Sequence[IndexLike] = USUAL_INDICES,
    utilities: Mapping[int, Sequence[float]] | None = None,
    *,
    seeds: Mapping[int, Sequence[int]] | None = None,
    store: StoreLike = None,
) -> OtherIndices:
    """What clients are worth by other solution concepts, from the same trainings; nothing is trained.

    `which` are indices as `fedvalue.value` takes them; `store`, or `utilities` and `seeds`, as in `what_if`. Where all coalitions
    that count are known the values are exact, elsewhere the surrogate estimates those that are linear in utilities.

    >>> import fedvalue as fv
    >>> table = [0.0, 0.4, 0.4, 0.6, 0.4, 0.6, 0.6, 0.7]
    >>> values = fv.value(table, "exact")
    >>> utilities = {mask: [utility] for mask, utility in enumerate(table)}
    >>> found = fv.other_indices(values, ["banzhaf"], utilities)
    >>> {index: of.mean.round(3).tolist() for index, of in found.values.items()}
    {'shapley': [0.233, 0.233, 0.233], 'banzhaf': [0.225, 0.225, 0.225]}
    """
    return by_indices(values, _trained(values, utilities, seeds, store), which)


@checked_call
def copies_once(
    values: Values,
    utilities: Mapping[int, Sequence[float]] | None = None,
    *,
    prints: Mapping[int, Any] | None = None,
    seeds: Mapping[int, Sequence[int]] | None = None,
    store: StoreLike = None,
    sets: Sequence[Sequence[str]] | None = None,
    level: float = 0.05,
) -> Copies:
    """The values of the game in which every client that has copies is there once, for `payout(…, copies=…)`.

    `sets` are the clients that are interchangeable, by name; without them, those that an audit at the `level` finds.

    >>> import fedvalue as fv
    >>> table = [0.0, 0.4, 0.4, 0.6, 0.4, 0.6, 0.6, 0.7]
    >>> values = fv.value(table, "exact")
    >>> utilities = {mask: [utility] for mask, utility in enumerate(table)}
    >>> once = fv.copies_once(values, utilities, sets=[["client-0", "client-1"]])
    >>> [str(line.amount) for line in fv.payout(values, 100, copies=once).lines]
    ['25.00', '25.00', '50.00']
    """
    if isinstance(store, UtilityStore | str | PathLike):
        history = _history(values, store)
        utilities, prints, seeds = history.utilities, history.prints, history.seeds
    trained = _trained(values, utilities, seeds, None)
    if sets is None:
        found = audit(values, trained.utilities, prints, level, seeds=trained.seeds)
        sets = [finding.clients for finding in found.findings if finding.kind == "interchangeable"]
    chosen = tuple(tuple(dict.fromkeys(names)) for names in sets)
    _check_sets(values, chosen)
    if not chosen:
        return Copies(values, ())
    gone = {name for names in chosen for name in names[1:]}
    left = [i for i, name in enumerate(values.names) if name not in gone]
    _check_size(len(left))
    smaller = sums(values, trained, _among(values.n, left))
    stderr = None if smaller.covariance is None else np.sqrt(np.maximum(smaller.covariance.diagonal(), 0))
    return Copies(
        replace(
            values,
            mean=smaller.mean,
            names=tuple(values.names[i] for i in left),
            guarantee="exact" if smaller.source == EXACT else "biased",
            method=values.method if smaller.source == EXACT else smaller.source,
            stderr=stderr,
            covariance=smaller.covariance,
            parts=smaller.parts,
            dof=np.full(len(left), smaller.dof) if np.isfinite(smaller.dof) else None,
            clients=None,
        ),
        chosen,
    )


def copies_by(
    policy: str, values: Values, history: Callable[[], History], level: float = 0.05
) -> Copies | None:
    """What the policy on copies takes: nothing where everyone is paid, the smaller game where copies share."""
    check_copies(policy, values.groups)
    if policy == "each":
        return None
    found = history()
    return copies_once(values, found.utilities, prints=found.prints, seeds=found.seeds, level=level)


def check_copies(policy: str, groups: object = None) -> None:
    """Refuses a policy on copies that is none, or that values in groups cannot be paid by."""
    if policy not in COPIES_RULES:
        raise InputError(f"The policy on copies is {' or '.join(COPIES_RULES)}. Got {policy!r}.")
    if policy == "share" and groups:
        raise InputError(
            "Values in groups cannot be paid with copies sharing one part: put the copies into a group of their own."
        )


def _among(n: int, left: Sequence[int]) -> Weights:
    """Shapley values in the game of some of n clients."""
    small = shapley(len(left))
    masks = tuple(sum(1 << left[j] for j in members(mask)) for mask in small.masks)
    return Weights(n, masks, small.matrix, np.eye(n)[list(left)])


def _check_size(n: int) -> None:
    if n > MOST_CLIENTS:
        raise InputError(
            f"This weighs all coalitions of {n} clients, which is possible for up to {MOST_CLIENTS}. It is not known here "
            "what copies, parts or mergers would be worth."
        )


def _check_sets(values: Values, sets: Sequence[tuple[str, ...]]) -> None:
    named = [name for names in sets for name in names]
    wrong = [name for name in named if name not in values.names]
    if wrong or len(set(named)) < len(named) or any(len(names) < 2 for names in sets):
        raise InputError(
            "Copies are given as sets of two or more different clients by name, each client in one set at most. "
            f"Got {[list(names) for names in sets]}."
        )


def _trained(
    values: Values,
    utilities: Mapping[int, Sequence[float]] | None,
    seeds: Mapping[int, Sequence[int]] | None,
    store: StoreLike,
) -> Trained:
    expect("values", values, Values, "fv.Values", "fv.value and fv.run give them.")
    if (utilities is None) == (store is None):
        raise InputError("This needs the trainings behind the values: give it their store, or utilities.")
    expect_shapley(values, "This")
    if values.groups:
        raise InputError(
            "Values in groups cannot be asked what if. Value the clients without groups, with the same store."
        )
    if values.other_unit:
        raise InputError(
            f"The values of {values.method} are in {values.unit}, which trained coalitions do not show."
        )
    if utilities is None:
        history = _history(values, store)
        utilities, seeds = history.utilities, history.seeds
    if any(not 0 <= mask <= full_mask(values.n) for mask in utilities):
        raise InputError(f"A coalition names clients beyond the {values.n} of these values.")
    for mask, found in utilities.items():
        if not len(found) or not all(map(math.isfinite, found)):
            raise InputError(
                f"Each coalition needs its utilities, one or more finite numbers. Coalition {members(mask)} has {str(list(found))[:60]}."
            )
    return Trained(utilities, seeds or None)


def _history(values: Values, store: StoreLike) -> History:
    if isinstance(store, UtilityStore):
        return read_history(store, values)
    assert store is not None
    with UtilityStore(store, create=False) as opened:
        return read_history(opened, values)


def _cells(change: Change) -> list[str]:
    then = f"{change.high:+.4f}" if change.low == change.high else f"{change.low:+.4f} to {change.high:+.4f}"
    gain = (
        f"{change.gain:+.4f}"
        if change.low == change.high
        else f"{change.low - change.now:+.4f} to {change.gain:+.4f}"
    )
    error = "–" if change.half_width is None else f"{change.half_width:.4f}"
    return [" and ".join(change.clients), change.kind, f"{change.now:+.4f}", then, gain, error]


def _assumptions(values: Values, found: Sums, pairs: bool) -> tuple[str, ...]:
    how = (
        "All coalitions that count are known, so these numbers follow from the game exactly, given what is assumed."
        if found.source == EXACT
        else "Not all coalitions that count are known: the surrogate estimates them. The ± counts coalitions not "
        "trained and, with several seeds, the luck of training; it does not count the luck of test rows."
    )
    if found.source == EXACT and values.random and found.covariance is None:
        how += " They are those of this seed; how another one would change them is not known."
    return (
        how,
        "Copied: a copy is assumed to change nothing where its original is there. In federated averaging it doubles the "
        "weight of the same rows, which is not in these numbers.",
        "In two parts: what a part alone adds was not trained and is not known. The range is from parts that add nothing "
        "without each other to parts that each add as much as the whole; where each adds half, nothing changes.",
        *(
            [
                "Merged: two clients that take part together or not at all. That rests on coalitions of the game alone."
            ]
            if pairs
            else ["Mergers are not shown: there are too many pairs of clients."]
        ),
        "Claims of other numbers of rows, and scaled updates, are not known from a store, which keeps no models: "
        "fv.what_if_claimed(game) records one training of all clients for that.",
    )
