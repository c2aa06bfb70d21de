"""`fedvalue store export`: the outcomes of one game in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue._text import plural
from fedvalue.cli._console import busy, say
from fedvalue.cli._options import GameArgument, StoreArgument

__all__ = ["export"]


def export(
    db: StoreArgument,
    game: GameArgument,
    out: Annotated[Path, typer.Option(help="File to write: .csv, .jsonl, or .npz for a table with a row for each seed.")],
    metric: Annotated[str | None, typer.Option(help="Metric to write as the utilities of an .npz. [default: utility, accuracy, or the only one]")] = None,
    empty: Annotated[str | None, typer.Option(help="How v(∅) is fixed in an .npz, as in the run: initial, chance, majority or a number. [default: the only one known]")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:  # fmt: skip
    """Write the outcomes of one game to a file."""
    from fedvalue.learners.metrics import METRICS
    from fedvalue.outcome import plain_metric
    from fedvalue.store import UtilityStore, export, lower_is_better

    with UtilityStore(db, create=False) as store, busy("exporting", quiet):
        written = export(store, game, out, metric, empty)
        game = store.game(game).id
    if not quiet:
        say(f"{plural(written, 'outcome')} of {game} written to {out}.")
        if out.suffix.lower() == ".npz":
            _say_rows(out)
        built_in = {"utility", *(name for names in METRICS.values() for name in names)}
        if metric is not None and out.suffix.lower() == ".npz":
            if lower_is_better(plain_metric(metric)):
                say(f"Its utilities are {metric} negated, because lower is better.")
            elif plain_metric(metric).rsplit("/", 1)[-1] not in built_in:
                say(f"Its utilities are {metric} as measured. If lower is better, value them with --negate.")


def _say_rows(out: Path) -> None:
    import numpy as np

    with np.load(out, allow_pickle=False) as arrays:
        table = arrays["utilities"]
    if table.ndim == 1:
        return
    gaps = int(np.isnan(table).sum())
    say(f"Its utilities have a row for each of {len(table)} seeds.")
    if gaps:
        say(
            f"No seed was trained with all coalitions: {gaps:,} of {table.size:,} entries are NaN, and --table does not "
            "take such a file."
        )
