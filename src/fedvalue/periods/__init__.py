"""Periods: a consortium over time. Members join, leave and change their data; values, payouts and balances go on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from fedvalue._checks import as_path, expect, names_in, texts_by_name
from fedvalue.periods._balances import DEBTS, Account, Balances, Settlement
from fedvalue.periods._check import problems
from fedvalue.periods._close import Terms, begin, carried, entry_of
from fedvalue.periods._entry import Member, Money, Period
from fedvalue.periods._federation import begin_federation, read_federation
from fedvalue.periods._folder import append, read_closed
from fedvalue.periods._history import as_csv, as_plain, write_history
from fedvalue.run import Job

__all__ = [
    "DEBTS",
    "Account",
    "Balances",
    "Member",
    "Money",
    "Period",
    "Periods",
    "Settlement",
    "as_csv",
    "as_plain",
]


class Periods:
    """The folder of a consortium: its closed periods, their runs, and one store for all of them.

    What a coalition reached is kept under the data of its members and the rules. After clients have joined, left or
    changed their data, coalitions of the others are not trained again. What was learnt from the files of the first period
    (scales, categories, classes) is kept and used in the later ones.

    >>> import tempfile
    >>> from fedvalue.run import Job
    >>> periods = Periods(tempfile.mkdtemp())
    >>> job = Job("synthetic", clients=3, samples=20, method="exact")
    >>> quarter = periods.close("2026-Q1", job, pot=100)
    >>> [line.name for line in quarter.money.settlement.lines], len(periods.closed)
    (['client-0', 'client-1', 'client-2'], 1)
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = as_path("A folder of periods", folder)

    @property
    def closed(self) -> tuple[Period, ...]:
        """All closed periods, the first one first; a folder in which one was altered is refused."""
        return read_closed(self.folder)

    def close(
        self,
        name: str,
        job: Job | str | PathLike[str],
        *,
        pot: Any = None,
        currency: str = "",
        rule: str = "floor",
        min_share: Any = 0,
        step: Any = "0.01",
        debts: str = "forgive",
        escrow: Collection[str] = (),
        release: Collection[str] = (),
        renamed: Mapping[str, str] | None = None,
        same: Collection[str] = (),
        new_terms: bool = False,
        anyway: bool = False,
        copies: str | None = None,
        progress: bool = False,
    ) -> Period:
        """Values the members of a period, shares out its pot, and writes both down for good.

        Instead of a `job`, the folder of a run in a Flower federation closes a period: it is valued already, and what it left is
        copied. Who was absent there has no value, is paid nothing and has not left. Without a pot only values are. With `copies="share"` interchangeable clients share one part (default: as agreed, or each). `debts="carry"` holds what a client below zero owes against what it earns later.
        What clients in `escrow` earn is held back until a later period `release`s it. `renamed` gives the new name of a
        client whose account goes on, by the old one; `same` are clients whose account goes on although their rows or their key are others. Rules, model, test set, metric, method (with budget, seeds and options)
        and groups are those of the period before, unless there are `new_terms`. Under an agreement of the job only what it says is paid out. A period that was stopped goes on where it was when the same is called again.
        """
        expect("job", job, (Job, str, PathLike), "an fv.Job", "It says what to run, without store and out.")
        names = texts_by_name("renamed", renamed or {}, "old names of clients to new ones")
        vouched = names_in("same", same)
        left = None if isinstance(job, Job) else read_federation(as_path("A run", job))
        agreement = job.agreed if isinstance(job, Job) else left.agreed if left is not None else None
        agreed = "each" if agreement is None else agreement.payout.copies
        terms = Terms(
            pot,
            currency,
            rule,
            min_share,
            step,
            debts,
            names_in("escrow", escrow),
            names_in("release", release),
            anyway,
            copies or agreed,
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        if closed := self.closed:
            self.write_history()  # whoever was killed may have closed the last one without its pages
        how = closed, names, new_terms, vouched
        if isinstance(job, Job):
            begun, decided = begin(self.folder, name, job, *how)
            before = carried(self.folder, begun, terms)
            values = decided.run(progress=progress).values
        else:
            assert left is not None
            begun = begin_federation(self.folder, name, left, *how)
            before, values = carried(self.folder, begun, terms), left.values
            left.take(self.folder / name)
        period = entry_of(self.folder, begun, values, terms, before)
        append(self.folder, period)
        self.write_history()
        return period

    def verify(self) -> list[str]:
        """Everything that does not fit together; an empty list when all does."""
        return problems(self.folder)

    def write_history(self) -> Path:
        """Writes history.html, history.json and history.csv anew from the closed periods."""
        return write_history(self.folder, self.closed)
