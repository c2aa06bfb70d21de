"""What a job gave: the values, and everything that is made of them."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fedvalue._checks import as_path, expect
from fedvalue._files import write_file
from fedvalue._html import as_printed, block, paragraphs
from fedvalue.audit import Audit, audit
from fedvalue.coalitions import Trial, by_seed, full_mask
from fedvalue.indices import IndexLike
from fedvalue.outcome import Outcome
from fedvalue.payout import Payout, payout
from fedvalue.run._adopt import enter_game
from fedvalue.run._claims import Claims, what_if_claimed
from fedvalue.run._disclosures import add_disclosure
from fedvalue.run._folder import (
    AGREEMENT_FILE,
    DISCLOSURE_FILE,
    REPORT_FILE,
    STORE_FILE,
    VALUES_FILE,
    enter,
    take_over,
)
from fedvalue.run._observers import Evaluation, Observer, OnOutcome
from fedvalue.run._plots import plot_coalitions
from fedvalue.run._words import heading, result_lines
from fedvalue.store import History, UtilityStore, read_history
from fedvalue.training import work_of_trials
from fedvalue.values import Cost, Values
from fedvalue.what_if import USUAL_INDICES, OtherIndices, WhatIf, copies_by, other_indices, what_if

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedvalue.run._job import Job

__all__ = ["Meter", "Result"]


class Meter:
    """Remembers every outcome of a run, and which of them were trained in it."""

    def __init__(self) -> None:
        self.outcomes: dict[Trial, Outcome] = {}
        self.fresh: set[Trial] = set()

    def watched(self, also: OnOutcome | None) -> OnOutcome:
        """An observer that remembers, and tells another one."""
        Observer(on_outcome=also)

        def on_outcome(evaluation: Evaluation) -> None:
            trial = evaluation.mask, evaluation.replicate
            self.outcomes[trial] = evaluation.outcome
            if not evaluation.reused:
                self.fresh.add(trial)
            if also is not None:
                also(evaluation)

        return on_outcome


@dataclass(frozen=True, eq=False)
class Result:
    """The values of a job, and what can be made of them.

    `outcomes` are what this run used, by coalition and replicate or seed; with a store, an audit or a report looks at
    everything that is in there. `trained` are those that were trained just now.

    >>> import fedvalue as fv
    >>> result = fv.run("synthetic", clients=3, samples=20, method="exact-cc")
    >>> result.cost.trained, result.values.names[0], len(result.payout(100).lines)
    (8, 'client-0', 3)
    """

    job: Job
    values: Values
    outcomes: Mapping[Trial, Outcome]
    trained: frozenset[Trial]

    @property
    def cost(self) -> Cost:
        """What was trained, what came from the store, and what exact values would take."""
        assert self.values.cost is not None
        return self.values.cost

    def lines(self) -> list[str]:
        """What stands out, what it cost and what it guarantees, sentence by sentence."""
        prepared = self.job.prepared
        work = work_of_trials(prepared.scenario, prepared.game.training, self.trained)
        return result_lines(self.values, prepared.scenario, work, self.job.budget, self._last())

    def _last(self) -> list[float | None]:
        """What each client adds to all others together, by trainings with the same seed; None where there are none."""
        n, utility = self.values.n, self.job.prepared.game.utility
        everyone = full_mask(n)
        of_all = {seed: utility(found) for (mask, seed), found in self.outcomes.items() if mask == everyone}
        added: list[list[float]] = [[] for _ in range(n)]
        for (mask, seed), outcome in self.outcomes.items():
            left_out = everyone ^ mask
            if left_out.bit_count() == 1 and seed in of_all:
                added[left_out.bit_length() - 1].append(of_all[seed] - utility(outcome))
        return [fmean(gains) if gains else None for gains in added]

    def audit(self, level: float = 0.05, more: int | None = None) -> Audit:
        """What the trained coalitions show about single clients, each finding with its evidence."""
        history = self.history()
        return audit(self.values, history.utilities, history.prints, level, more, seeds=history.seeds)

    def payout(
        self,
        pot: Any,
        rule: str = "floor",
        min_share: Any = 0,
        step: Any = "0.01",
        currency: str = "",
        *,
        anyway: bool = False,
        copies: str | None = None,
    ) -> Payout:
        """Shares a pot out by the values, by a written policy, to the cent; see `fedvalue.payout`.

        `copies` says whether clients that the audit finds interchangeable are paid "each", or "share" one part; by default
        what was agreed, or each.
        """
        once = copies_by(copies or self._agreed_copies(), self.values, self.history)
        return payout(self.values, pot, rule, min_share, step, currency, anyway=anyway, copies=once)

    def what_if(self) -> WhatIf:
        """What clients would be worth as two copies, in two parts, or merged with another; see `fedvalue.what_if`."""
        history = self.history()
        return what_if(self.values, history.utilities, seeds=history.seeds)

    def other_indices(self, which: Sequence[IndexLike] = USUAL_INDICES) -> OtherIndices:
        """What clients are worth by other solution concepts; see `fedvalue.other_indices`."""
        history = self.history()
        return other_indices(self.values, which, history.utilities, seeds=history.seeds)

    def what_if_claimed(
        self, rows: Sequence[float] = (0.1, 10.0, 50.0), scales: Sequence[float] = (10.0,)
    ) -> Claims:
        """What clients would gain by claiming so many times their rows; see `fedvalue.what_if_claimed`."""
        return what_if_claimed(self.job.prepared.game, rows, scales)

    def report(
        self,
        path: str | PathLike[str],
        *,
        format: str | None = None,
        pot: Any = None,
        currency: str = "",
        rule: str | None = None,
        anyway: bool = False,
        copies: str | None = None,
        min_share: Any = None,
        step: Any = None,
        consortium: str | None = None,
        period: str | None = None,
        date: str | datetime.date | None = None,
        operator: str | None = None,
        statements: str | PathLike[str] | None = None,
    ) -> Path:
        """Writes the report, one file that works offline; Markdown where the name ends in .md.

        Its head says what the job has as `consortium`, `period`, `date` and `operator`, or what is given here. In the folder
        `statements` every client gets a page of its own, without the amounts of others. Copies, the smallest share and the
        step are as agreed where nothing is said.
        """
        from fedvalue.agreement import PayoutTerms
        from fedvalue.report import FORMATS, Cover, Terms, facts_of, kind_of, write_statements

        path = as_path("The path of a report", path)
        kind = kind_of(format or path.suffix)
        agreed = PayoutTerms() if self.job.agreed is None else self.job.agreed.payout
        terms = Terms(
            None if pot is None else str(pot),
            currency,
            rule,
            anyway,
            copies=copies or agreed.copies,
            min_share=agreed.min_share if min_share is None else str(min_share),
            step=agreed.step if step is None else str(step),
        )
        cover = Cover.of(consortium, period, date, operator)
        facts = facts_of(self.values, self.history(), self.job.record(), terms, self.job.budget, cover)
        with write_file(path) as file:
            file.write(FORMATS[kind](facts).encode())
        if statements is not None:
            write_statements(facts, as_path("The folder of statements", statements), kind)
        return path

    def _agreed_copies(self) -> str:
        return "each" if self.job.agreed is None else self.job.agreed.payout.copies

    def save(self, folder: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Leaves the values, the record, the report and, where the job had no store, its trainings in a folder."""
        out = as_path("folder", folder)
        expect("overwrite", overwrite, bool, "True or False")
        store = self.job.store_path or out / STORE_FILE
        enter(out, self.job.record(), store, overwrite)
        if self.job.store_path is None:
            self._keep(store)
        take_over(out, self.job.record(), store)
        if not (out / DISCLOSURE_FILE).exists():  # a result that is saved again let nothing more leave
            add_disclosure(out, self.values.disclosure, self.values.game_id)
        self.write_values(out)
        self.report(out / REPORT_FILE)
        return out

    def write_values(self, folder: str | PathLike[str]) -> None:
        """Leaves values.json in a folder, and the agreement that they were made under."""
        out = as_path("folder", folder)
        if self.job.agreed is not None:
            self.job.agreed.save(out / AGREEMENT_FILE)
        self.values.save(out / VALUES_FILE)

    def history(self) -> History:
        """Every training behind the values: all that the store has, or those of this run."""
        path = self.job.store_path
        if path is not None:
            with UtilityStore(path, create=False) as store:
                return read_history(store, self.values)
        utilities: dict[int, list[float]] = {}
        prints: dict[int, tuple[Hashable, ...]] = {}
        seeds: dict[int, list[int]] = {}
        shared = set(next(iter(self.outcomes.values())).metrics) if self.outcomes else set()
        game = self.job.prepared.game
        numbers = None if self.values.seeds > 1 else range(game.replicates)  # of one seed, others say nothing
        others, other_seconds = Counter[int](), 0.0
        for (mask, seed), outcome in sorted(self.outcomes.items(), key=lambda item: item[0][1]):
            if numbers is not None and seed not in numbers:
                others[mask] += 1
                other_seconds += outcome.seconds
                continue
            utilities.setdefault(mask, []).append(game.utility(outcome))
            prints[mask] = (*prints.get(mask, ()), tuple(sorted(outcome.metrics.items())))
            seeds.setdefault(mask, []).append(seed)
            shared &= outcome.metrics.keys()
        by = dict.fromkeys(" on ".join(filter(None, (o.backend, o.device))) for o in self.outcomes.values())
        seconds = sum(outcome.seconds for outcome in self.outcomes.values()) - other_seconds
        untrained = self.outcomes[0, 0].metrics if (0, 0) in self.outcomes else {}
        without_data = frozenset(mask for mask in utilities if mask and game.is_empty(mask))
        measured = tuple(sorted(shared))
        return History(
            utilities,
            prints,
            seconds,
            tuple(by),
            "",
            "",
            seeds,
            measured,
            untrained,
            without_data,
            others,
            other_seconds,
        )

    def _keep(self, path: Path) -> None:
        game = self.job.prepared.game
        with UtilityStore(path) as store:
            enter_game(store, game)
            for seed, masks in by_seed(self.outcomes).items():
                store.append(game.id, [(mask, self.outcomes[mask, seed]) for mask in masks], seed)

    def plot(self, ax: Axes | None = None, level: float = 0.95) -> Axes:
        """The values with their intervals, on axes of matplotlib: those given, or new ones. Returns them."""
        return self.values.plot(ax, level)

    def plot_coalitions(self, ax: Axes | None = None) -> Axes:
        """What coalitions of one, two, … clients reach, on axes of matplotlib."""
        return plot_coalitions(self.values, self.history().utilities, ax)

    def _repr_html_(self) -> str:
        """What was run, the values with bars, and what stands out, as notebooks show it."""
        said = [line for line in heading(self.job.prepared) if line]
        return block(paragraphs(said), self.values._repr_html_(), paragraphs(self.lines()))

    _repr_pretty_ = as_printed

    def __str__(self) -> str:
        """What `fedvalue run` prints, without the bars."""
        warning = [self.values.warning, ""] if self.values.warning else []
        return "\n".join([*warning, *heading(self.job.prepared), "", str(self.values), *self.lines()])
