"""Options and arguments that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "ABSENT",
    "AbsentOption",
    "AgreementArgument",
    "AnywayOption",
    "ArrayOption",
    "BudgetOption",
    "ConsortiumOption",
    "CurrencyOption",
    "DataDirOption",
    "DateOption",
    "GameArgument",
    "JsonFlag",
    "IndexOption",
    "JsonTarget",
    "KeyOption",
    "MethodOptions",
    "MinShareOption",
    "NegateOption",
    "OperatorOption",
    "PeriodOption",
    "PeriodsArgument",
    "QuietOption",
    "RunArgument",
    "StoreArgument",
    "StepOption",
    "StoreOption",
    "TableOption",
    "complete",
]


def complete(kind: str) -> Callable[[str], list[str]]:
    """Names for the shell to complete."""

    def names(incomplete: str) -> list[str]:
        from fedvalue.estimators import ESTIMATORS
        from fedvalue.learners import LEARNERS
        from fedvalue.payout import RULES
        from fedvalue.report import FORMATS
        from fedvalue.scenarios import SCENARIOS

        known: dict[str, Collection[str]] = {
            "method": ESTIMATORS, "model": LEARNERS, "rule": RULES, "format": FORMATS, "scenario": SCENARIOS,
        }  # fmt: skip
        return [name for name in known[kind] if name.startswith(incomplete)]

    return names


TableOption = Annotated[
    Path,
    typer.Option(
        help="File with the utilities of all 2^n coalitions, indexed by bitmask: .npz, .npy, .json."
    ),
]
IndexOption = Annotated[
    str,
    typer.Option(
        help="The solution concept: shapley, banzhaf, beta(A,B), sizes(W0,W1,…), leave-one-out, weighted(NAME=W,…), least-core or "
        "nucleolus."
    ),
]
ArrayOption = Annotated[
    str | None, typer.Option(help="Array of the .npz to use. [default: utility, utilities or accuracy]")
]
NegateOption = Annotated[
    bool, typer.Option("--negate", help="Negate the utilities: for losses, where lower is better.")
]
BudgetOption = Annotated[
    int | None,
    typer.Option(
        help="Most distinct coalitions to evaluate; with several seeds, most trainings. [default: n·ln n, at least 32; "
        "with several seeds 64]"
    ),
]
MethodOptions = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Option of the method; repeatable.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Only the result: no progress, no remarks.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonTarget = Annotated[
    str | None, typer.Option(metavar="PATH", help="Write the result as JSON; - prints only JSON.")
]
ABSENT = (
    "What absent clients get: excluded (nothing), last-period=PATH (what an earlier payout or earlier values give them) "
    "or escrow=PART (that part of the pot is set aside)."
)
AbsentOption = Annotated[
    str | None, typer.Option(metavar="RULE", help=f"{ABSENT} [default: as agreed, else excluded]")
]
MinShareOption = Annotated[
    str | None,
    typer.Option(
        metavar="X",
        help="Smallest part of the pot for every client that the rule pays. [default: as agreed, else 0]",
    ),
]
StepOption = Annotated[
    str | None,
    typer.Option(
        "--round",
        metavar="STEP",
        help="Smallest step: amounts are multiples of it. [default: as agreed, else 0.01]",
    ),
]
CopiesOption = Annotated[
    str | None,
    typer.Option(
        metavar="each|share",
        help="Whether clients that the audit finds interchangeable are each paid, or share one part. [default: as agreed, else each]",
    ),
]
AnywayOption = Annotated[
    bool, typer.Option("--anyway", help="Pay out even if the model has learned nothing from the data.")
]
CurrencyOption = Annotated[
    str | None,
    typer.Option(help="Currency shown with the amounts, such as EUR. [default: as agreed, else none]"),
]
ConsortiumOption = Annotated[
    str | None, typer.Option(help="Name of the consortium, for the head of the report.")
]
PeriodOption = Annotated[
    str | None, typer.Option(help="Period that the values are of, such as 'first quarter of 2026'.")
]
DateOption = Annotated[
    str | None,
    typer.Option(help="Date of the report, such as 2026-04-15. [default: that of the last training]"),
]
OperatorOption = Annotated[str | None, typer.Option(help="Who ran the valuation.")]
RunArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="Folder that `fedvalue run --out` wrote, or a values.json.", show_default=False
    ),
]
PeriodsArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Folder of the consortium.", show_default=False)
]
KeyOption = Annotated[
    Path, typer.Option(help="Private key: `fedvalue agreement key` makes one.", show_default=False)
]
AgreementArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The agreement.", show_default=False)]
StoreOption = Annotated[Path | None, typer.Option(help="Store with the trainings. [default: the run's own]")]
StoreArgument = Annotated[Path, typer.Argument(metavar="DB", help="The store.", show_default=False)]
GameArgument = Annotated[
    str, typer.Argument(metavar="GAME", help="The beginning of a game's id.", show_default=False)
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder with data sets; default $FEDVALUE_DATA, then the user's cache folder."),
]
