"""`fedvalue compare`: several methods on one game, against its exact values and the equal split."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated

import typer

from fedvalue.cli._console import busy, count, new_table, print_json, print_table, say
from fedvalue.cli.value import ArrayOption, BudgetOption, NegateOption, QuietOption, TableOption

if TYPE_CHECKING:
    from rich.table import Table

    from fedvalue.game import TableGame
    from fedvalue.values import Values

__all__ = ["compare"]

_LARGEST_TRUTH = 24  # clients; beyond that the exact values take minutes
_BASELINE = "equal"


@dataclass(frozen=True)
class _Row:
    """One method: means over the seeds, and the deviation of the error between them."""

    method: str
    evaluations: float
    relative_error: float
    relative_error_sd: float | None
    skill: float
    kendall: float
    payout_error: float
    seconds: float
    guarantee: str


def compare(
    table: TableOption,
    methods: Annotated[str, typer.Option(help="Names separated by commas, or all.")] = "all",
    budget: BudgetOption = None,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs per method, with seeds one after the other.")] = 1,
    array: ArrayOption = None,
    negate: NegateOption = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Compare methods with the exact values of a game.

    The equal split, which pays everyone the same, is always among them: a method that does not beat it
    has learnt nothing.
    """
    from fedvalue.cli._table import read_game
    from fedvalue.errors import BudgetError
    from fedvalue.run import default_budget

    game = read_game(table, array, negate)
    limit = default_budget(game.n) if budget is None else budget
    if limit < 1:
        raise BudgetError(f"The budget must be a whole number of coalitions, at least 1. Got {limit}.")
    names = _chosen(methods, game)
    rows, left_out = _measure(game, names, limit, range(seed, seed + seeds), quiet)
    if json:
        found = {"clients": game.n, "budget": limit, "seeds": seeds}
        print_json({**found, "rows": [asdict(row) for row in rows], "not_run": left_out})
        return
    print_table(_table(rows))
    if quiet:
        return
    for name, reason in left_out.items():
        say(f"Not run: {name}. {reason}")
    for remark in _remarks(game.n, limit, seeds):
        say(remark)


def _chosen(text: str, game: TableGame) -> list[str]:
    """The methods that were asked for, and always the equal split."""
    import fedvalue as fv

    known = [method.name for method in fv.methods()]
    asked = [name.strip() for name in text.split(",") if name.strip()]
    names = [m.name for m in fv.methods() if not m.view] if asked == ["all"] else asked
    for name in names:
        if name not in known:
            fv.value(game, name)  # refuses it, and suggests the nearest names
    return list(dict.fromkeys([*names, _BASELINE]))


def _measure(
    game: TableGame, names: list[str], budget: int, seeds: Sequence[int], quiet: bool
) -> tuple[list[_Row], dict[str, str]]:
    """A row for each method that the budget allows, the best first; for the others the reason."""
    import fedvalue as fv

    rows: list[_Row] = []
    left_out: dict[str, str] = {}
    with busy(f"exact values from {count(1 << game.n)} coalitions", quiet) as now:
        truth = fv.value(game, "exact") if game.n <= _LARGEST_TRUTH else None
        for name in names:
            try:
                runs = []
                for seed in seeds:
                    now(f"{name}, seed {seed}")
                    runs.append(truth if name == "exact" and truth else _run(game, name, budget, seed))
                    if runs[-1].guarantee == "exact":  # every seed gives the same
                        break
                rows.append(_row(runs, truth, len(seeds)))
            except (fv.BudgetError, fv.MethodError) as error:  # gradient methods need more than a table
                left_out[name] = str(error)
    rows.sort(key=lambda row: (math.isnan(row.relative_error), row.relative_error))
    return rows, left_out


def _run(game: TableGame, name: str, budget: int, seed: int) -> Values:
    """Exact methods and the baseline are the reference: they take what they need."""
    import fedvalue as fv

    reference = name == _BASELINE or name in [m.name for m in fv.methods() if m.guarantee == "exact"]
    return fv.value(game, name, None if reference else budget, seed)


def _row(runs: list[Values], truth: Values | None, seeds: int) -> _Row:
    from fedvalue import metrics

    def mean_of(metric: Callable[[Values, Values], float]) -> float:
        return math.nan if truth is None else fmean(metric(run, truth) for run in runs)

    errors = [] if truth is None else [metrics.relative_l2(run, truth) for run in runs]
    sd = (stdev(errors) if len(errors) > 1 else 0.0) if errors and seeds > 1 else None
    return _Row(
        method=runs[0].method,
        evaluations=fmean(run.evaluations for run in runs),
        relative_error=mean_of(metrics.relative_l2),
        relative_error_sd=sd,
        skill=mean_of(metrics.skill),
        kendall=mean_of(metrics.kendall),
        payout_error=mean_of(metrics.payout_error),
        seconds=fmean(run.seconds for run in runs),
        guarantee=runs[0].guarantee,
    )


def _table(rows: list[_Row]) -> Table:
    numbers = ("coalitions", "relative\nerror %", "skill", "Kendall\nτ", "payout\nerror %", "seconds")
    table = new_table("method", *numbers, "guarantee", right=numbers)
    for row in rows:
        sd = row.relative_error_sd
        table.add_row(
            row.method,
            count(round(row.evaluations)),
            _number(100 * row.relative_error, ".1f") + ("" if sd is None else f" ± {100 * sd:.1f}"),
            _number(row.skill, "+.2f"),
            _number(row.kendall, "+.2f"),
            _number(row.payout_error, ".1f"),
            _number(row.seconds, ".2f"),
            row.guarantee,
        )
    return table


def _number(number: float, form: str) -> str:
    return "–" if math.isnan(number) else format(number, form)


def _remarks(n: int, budget: int, seeds: int) -> list[str]:
    runs = "one seed" if seeds == 1 else f"{seeds} seeds: mean ± standard deviation"
    remarks = [f"Budget {count(budget)} of {count(1 << n)} coalitions, {runs}."]
    if n <= _LARGEST_TRUTH:
        remarks += [
            "Relative error: ‖estimate − exact‖ / ‖exact‖. Skill: 1 is exact, 0 no better than the equal split.",
            "Payout error: the largest one of a client, in percent of the pot.",
        ]
    else:
        remarks.append(f"The exact values of more than {_LARGEST_TRUTH} clients are not computed: no errors.")
    return remarks
