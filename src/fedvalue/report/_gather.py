"""Gathers everything that a report says from values, trainings and the record of the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fedvalue._version import __version__
from fedvalue.audit import Audit, audit
from fedvalue.coalitions import full_mask
from fedvalue.errors import InputError
from fedvalue.payout import Copies, Payout, payout
from fedvalue.report._annex import rules_of
from fedvalue.report._clients import clients_of
from fedvalue.report._compared import without_each
from fedvalue.report._cover import Cover, cover_of
from fedvalue.report._facts import Facts, Terms
from fedvalue.report._incidents import incidents_of
from fedvalue.report._intervals import interval_note
from fedvalue.report._method import cost_lines, method_of
from fedvalue.report._origin import origin_of, part_of, rows_of
from fedvalue.report._pot import pot_lines
from fedvalue.report._sensitivity import sensitivity
from fedvalue.report._statement import statements
from fedvalue.report._trained import Absent, converge, grow, pair_up
from fedvalue.report._verdict import Ends, verdict
from fedvalue.report._words import decimals_of
from fedvalue.store import History
from fedvalue.values import Values
from fedvalue.what_if import copies_by

__all__ = ["gather"]

_DEFAULT_RULE = "floor"


def gather(
    values: Values,
    trainings: History | Absent | None = None,
    record: Mapping[str, Any] | None = None,
    terms: Terms | None = None,
    guarantee: Sequence[str] = (),
    cover: Cover | None = None,
) -> Facts:
    """All facts of a run. `record` is what run.json holds, `guarantee` what the method promised in words.

    >>> facts = gather(Values([0.2, 0.6], ("a", "b"), "exact", 4, guarantee="exact"))
    >>> [(client.rank, client.name, client.paid) for client in facts.clients]
    [(1, 'b', '75.00'), (2, 'a', '25.00')]
    """
    _check(values)
    terms = terms or Terms()
    if trainings is None:
        trainings = Absent(
            "This needs the trainings behind the values. Name their store if there is one (--store, or store= in Python)."
        )
    shown = trainings if isinstance(trainings, Absent) else _agreed(trainings, record)
    utilities = {} if isinstance(shown, Absent) else _means(shown, values.n)
    looked = shown if isinstance(shown, Absent) else _audit(values, shown)
    paid, copies = _payout(values, terms, trainings)
    ends = _ends(values, utilities)
    clients = clients_of(values, paid, rows_of(values, record))
    unit = "%" if terms.pot is None else terms.currency
    absent = trainings if isinstance(trainings, Absent) else None
    return Facts(
        verdict=verdict(values, ends, looked, pot_lines(paid) if terms.pot is not None else ()),
        clients=clients,
        decimals=decimals_of(values),
        interval_note=interval_note(values),
        payout=paid,
        unit=unit,
        growth=absent or grow(utilities),
        synergy=absent or pair_up(values.n, *_by_seed(values, shown, utilities)),
        convergence=absent or converge(values, utilities),
        audit=looked,
        method=method_of(values, guarantee),
        cost=cost_lines(values, None if isinstance(trainings, Absent) else trainings),
        origin=origin_of(values, record, None if isinstance(trainings, Absent) else trainings),
        values=values,
        version=__version__,
        cover=cover_of(cover, record),
        statements=statements(values, clients, paid, without_each(values, shown), looked, unit),
        sensitivity=sensitivity(values, paid, shown, absent=terms.absent, anyway=terms.anyway, copies=copies),
        incidents=incidents_of(values, record),
        rules=rules_of(values, record, trainings, paid),
        agreement=values.agreement,
        terms=terms,
    )


def _check(values: Values) -> None:
    if values.n == 0:
        raise InputError("There are no clients in these values: there is nothing to report.")
    for what, numbers in (("value", values.mean), ("standard error", values.stderr)):
        bad = [] if numbers is None else np.flatnonzero(~np.isfinite(numbers)).tolist()
        if bad:
            raise InputError(
                f"Every {what} must be a finite number. That of {values.names[bad[0]]!r} is not. Value the clients again."
            )


def _agreed(trainings: History, record: Mapping[str, Any] | None) -> History:
    """The trainings that may be shown: a store can hold smaller coalitions than the run was allowed to train."""
    least = part_of(record or {}, "options").get("min_coalition")
    if not isinstance(least, int) or least < 2:
        return trainings
    kept = {mask for mask in trainings.utilities if mask == 0 or mask.bit_count() >= least}

    def of_kept(table: Mapping[int, Any]) -> dict[int, Any]:
        return {mask: found for mask, found in table.items() if mask in kept}

    return replace(
        trainings,
        utilities=of_kept(trainings.utilities),
        prints=of_kept(trainings.prints),
        seeds=of_kept(trainings.seeds),
    )


def _means(trainings: History, n: int) -> dict[int, float]:
    """The utility of every coalition, in the order of training. Replicates that are missing are left out."""
    if any(not 0 <= mask <= full_mask(n) for mask in trainings.utilities):
        raise InputError(f"A trained coalition names clients beyond the {n} of these values.")
    means = {mask: float(np.mean(seen)) for mask, seen in trainings.utilities.items()}
    if not all(math.isfinite(utility) for utility in means.values()):
        raise InputError("Every utility must be a finite number. There is a training whose utility is not.")
    return means


def _by_seed(
    values: Values, trainings: History | Absent | None, means: Mapping[int, float]
) -> list[Mapping[int, float]]:
    """Utilities that can be compared with each other: those of one seed each, v(∅) among all of them."""
    if isinstance(trainings, Absent) or trainings is None or values.seeds == 1:
        return [means]
    tables: dict[int, dict[int, float]] = {}
    for mask, seeds in trainings.seeds.items():
        for seed, utility in zip(seeds, trainings.utilities[mask], strict=True):
            tables.setdefault(seed, {})[mask] = utility
    empty = {} if 0 not in means else {0: means[0]}
    return [{**table, **empty} for table in tables.values()]


def _audit(values: Values, trainings: History) -> Audit:
    return audit(values, trainings.utilities, trainings.prints, seeds=trainings.seeds)


def _payout(
    values: Values, terms: Terms, trainings: History | Absent
) -> tuple[Payout | Absent, Copies | None]:
    """The payout, and the game of copies that it is made by where those share one part."""
    rule = terms.rule or _DEFAULT_RULE
    try:
        copies = copies_by(terms.copies, values, partial(_needed, trainings))
        pot, currency, step = (
            ("100", "%", "0.01") if terms.pot is None else (terms.pot, terms.currency, terms.step)
        )
        found = payout(
            values,
            pot,
            rule,
            terms.min_share,
            step,
            currency,
            absent=terms.absent,
            anyway=terms.anyway,
            copies=copies,
        )
        return found, copies
    except InputError as error:
        if terms.chosen:
            raise
        return Absent(str(error)), None


def _needed(trainings: History | Absent) -> History:
    if isinstance(trainings, Absent):
        raise InputError(f"Who has copies is seen by the trainings. {trainings.why}")
    return trainings


def _ends(values: Values, utilities: Mapping[int, float]) -> Ends | None:
    """What the untrained model and all clients reach, in the metric itself and not its negative."""
    none, all_ = values.utility_of_none, values.utility_of_all
    if none is None or all_ is None:
        none, all_ = utilities.get(0), utilities.get(full_mask(values.n))
    if none is None or all_ is None:
        return None
    return Ends(values.sign * none, values.sign * all_)
