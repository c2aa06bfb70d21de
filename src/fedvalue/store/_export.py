"""The outcomes of one stored game as files and as a summary."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import comb
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from fedvalue._files import write_file
from fedvalue._text import count
from fedvalue.coalitions import members
from fedvalue.errors import InputError
from fedvalue.outcome import UTILITY, empty_metric, empty_rule, of_model, plain_metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedvalue.store._games import StoredGame
    from fedvalue.store._sqlite import UtilityStore

__all__ = ["export", "lower_is_better", "summary"]

Rows: TypeAlias = Iterable[dict[str, Any]]
Writer: TypeAlias = "Callable[[StoredGame, Rows, Path, str | None, str | None], int]"

_LARGEST_TABLE = 25  # clients
_USUAL_METRICS = (UTILITY, "accuracy")
_LOWER_IS_BETTER = ("loss", "mse", "mae")  # of the built-in metrics, which rooms above this one define
_RESERVED = (
    UTILITY,
    "utilities",
    "names",
    "seeds",
    "file",
    "allow_pickle",
)  # ours, and numpy's own arguments
_PROVENANCE = ("backend", "device", "seconds", "created")


def export(
    store: UtilityStore,
    game: str,
    path: str | PathLike[str],
    metric: str | None = None,
    empty: str | None = None,
) -> int:
    """Writes the outcomes of the game whose id begins so to a .csv, .jsonl or .npz file; returns how many.

    A .jsonl also has `row_errors`: how far another sample of test rows would move each metric, where that is known.
    An .npz is a table of all coalitions, of several seeds one with a row for each; `metric` is its utility, and `empty`
    the rule by which v(∅) is fixed in it, as in the run; the store may know several.
    """
    out = Path(path)
    writers: dict[str, Writer] = {".csv": _write_csv, ".jsonl": _write_jsonl, ".npz": _write_npz}
    write = writers.get(out.suffix.lower())
    if write is None:
        raise InputError(f"An export must end in .csv, .jsonl or .npz. Got {out}.")
    stored = store.game(game)
    rows: Rows = store.rows(stored.id)
    if write is _write_jsonl:
        errors = store.row_errors(stored.id)
        rows = (row | {"row_errors": errors.get((row["mask"], row["replicate"]), {})} for row in rows)
    return write(stored, rows, out, metric, empty)


def summary(store: UtilityStore, game: str) -> dict[str, Any]:
    """What the store knows about the game whose id begins so, as plain data."""
    stored = store.game(game)
    masks: set[str] = set()
    replicates: set[int] = set()
    metrics: dict[str, None] = {}
    computed_by: dict[str, None] = {}
    written: list[str] = []
    seconds = 0.0
    for row in store.rows(stored.id):
        masks.add(row["mask"])
        replicates.add(row["replicate"])
        metrics.update(dict.fromkeys(name for name in row["metrics"] if empty_rule(name) is None))
        computed_by[" on ".join(filter(None, (row["backend"], row["device"])))] = None
        written = [min([*written[:1], row["created"]]), max([*written[1:], row["created"]])]
        seconds += row["seconds"]
    sizes = Counter(int(mask, 16).bit_count() for mask in masks)
    return {
        **stored.to_dict(),
        "replicates": len(replicates),
        "metrics": list(metrics),
        "seconds": seconds,
        "computed_by": [text for text in computed_by if text],
        "first": written[0] if written else None,
        "last": written[1] if written else None,
        "by_size": [{"size": k, "coalitions": sizes[k], "of": comb(stored.n, k)} for k in sorted(sizes)],
    }


def _write_csv(game: StoredGame, rows: Rows, out: Path, metric: str | None, empty: str | None) -> int:
    """One line per outcome; `clients` are indices separated by spaces, `mask` is hexadecimal."""
    listed = list(rows)
    metrics = list(dict.fromkeys(name for row in listed for name in row["metrics"]))
    with write_file(out) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        lines = csv.writer(text)
        lines.writerow(["mask", "clients", "replicate", *metrics, *_PROVENANCE])
        for row in listed:
            clients = " ".join(map(str, members(int(row["mask"], 16))))
            found = [row["metrics"].get(name, "") for name in metrics]
            lines.writerow([row["mask"], clients, row["replicate"], *found, *(row[p] for p in _PROVENANCE)])
        text.flush()
        text.detach()
    return len(listed)


def _write_jsonl(game: StoredGame, rows: Rows, out: Path, metric: str | None, empty: str | None) -> int:
    """One JSON object per line."""
    written = 0
    with write_file(out) as file:
        for row in rows:
            clients = list(members(int(row["mask"], 16)))
            line = {"game_id": row["game_id"], "mask": row["mask"], "clients": clients, **row}
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            written += 1
    return written


def _write_npz(game: StoredGame, rows: Rows, out: Path, metric: str | None, empty: str | None) -> int:
    """A table: `utilities` and `names` as `--table` reads them, and every metric under its name, as measured.

    Where lower is better, the utilities are the metric negated. Of one seed they are a vector, of several a matrix with a
    row for each of the `seeds`: those that all coalitions were trained with, or, where there is none, all, with NaN for
    what was not trained. v(∅) of a seed whose untrained model was not evaluated is the mean of the others.
    """
    import numpy as np

    seeds, tables = _tables(game, rows, empty)
    whole = np.logical_or.reduce([np.isfinite(table).all(1) for table in tables.values()])
    if whole.any():
        seeds, tables = seeds[whole], {name: table[whole] for name, table in tables.items()}
        known = [name for name, table in tables.items() if np.isfinite(table).all()]
    else:
        trained = np.logical_or.reduce([np.isfinite(table) for table in tables.values()])
        known = [name for name, table in tables.items() if (np.isfinite(table) == trained).all()]
    arrays: dict[str, NDArray[Any]] = {
        name: tables[name][0] if len(seeds) == 1 else tables[name] for name in known
    }
    chosen = _utility_metric(game, known, metric)
    utilities = -arrays[chosen] if lower_is_better(chosen) else arrays[chosen]
    arrays = {name: table for name, table in arrays.items() if name not in _RESERVED}
    names = [str(name) for name in game.description.get("names", [])]
    if len(names) == game.n:
        arrays["names"] = np.array(names, dtype=np.str_)
    if len(seeds) > 1:
        arrays["seeds"] = seeds
    with write_file(out) as file:
        np.savez_compressed(file, utilities=utilities, **cast(Any, arrays))
    return int(np.isfinite(utilities).sum())


def _tables(
    game: StoredGame, rows: Rows, empty: str | None
) -> tuple[NDArray[np.intp], dict[str, NDArray[np.float64]]]:
    """The seeds that anything was trained with, and for every metric a row of all coalitions for each of them."""
    import numpy as np

    total, listed = 1 << game.n, list(rows)
    seeds = sorted({row["replicate"] for row in listed if int(row["mask"], 16)})
    if (len(seeds) < 2 and game.coalitions < total) or len(seeds) << game.n > 1 << _LARGEST_TABLE:
        raise InputError(
            f"An .npz is a full table of {count(total)} coalitions. The store knows {count(game.coalitions)} "
            f"of {game.id}; {count(total - game.coalitions)} are missing. Export .csv or .jsonl instead."
            if len(seeds) < 2
            else f"An .npz holds {count(1 << _LARGEST_TABLE)} utilities at most. Those of {count(total)} coalitions with "
            f"{count(len(seeds))} seeds are more. Export .csv or .jsonl instead."
        )
    place = {seed: j for j, seed in enumerate(seeds)}
    untrained: dict[str, list[float]] = {}
    tables: dict[str, NDArray[np.float64]] = {}
    for row in _grounded(listed, empty):
        mask = int(row["mask"], 16)
        for name, number in row["metrics"].items():
            table = tables.setdefault(name, np.full((len(seeds), total), np.nan))
            if mask == 0:
                untrained.setdefault(name, []).append(number)
            if row["replicate"] in place:
                table[place[row["replicate"]], mask] = number
    for name, numbers in untrained.items():
        start = tables[name][:, 0]
        start[np.isnan(start)] = np.mean(numbers)
    return np.array(seeds, dtype=np.intp), tables


def lower_is_better(metric: str) -> bool:
    """Whether the utility is the negative of a metric; of one's own metrics a store does not know.

    >>> lower_is_better("late/loss"), lower_is_better("accuracy")
    (True, False)
    """
    return metric.rsplit("/", 1)[-1] in _LOWER_IS_BETTER


def _grounded(rows: Sequence[dict[str, Any]], empty: str | None) -> Rows:
    """The rows with v(∅) by one rule in place of the metrics of the model that training starts from."""
    untrained = {row["replicate"]: row["metrics"] for row in rows if int(row["mask"], 16) == 0}
    known = {rule for metrics in untrained.values() for name in metrics if (rule := empty_rule(name))}
    rule = empty if empty is None or empty.isalpha() else f"={float(empty)!r}"
    if rule is None and len(known) < 2:
        rule = next(iter(known), None)
    if rule not in known and (known or rule):
        raise InputError(
            f"Choose with --empty how v(∅) is fixed in the table. The store knows it by "
            f"{', '.join(sorted(r.removeprefix('=') for r in known)) or 'no rule'}. Got {empty}."
        )
    for row in rows:
        plain, start = (
            of_model(row["metrics"]),
            untrained.get(row["replicate"]),
        )  # a further seed may have no ∅
        if rule is None or start is None or plain != of_model(start):
            yield {**row, "metrics": plain}
            continue
        fixed = {name: start.get(empty_metric(name, rule)) for name in plain}
        yield {**row, "metrics": {name: number for name, number in fixed.items() if number is not None}}


def _utility_metric(game: StoredGame, complete: list[str], metric: str | None) -> str:
    usual = [name for name in _USUAL_METRICS if name in complete] or (complete if len(complete) == 1 else [])
    wanted = usual[:1] if metric is None else [n for n in complete if metric in (n, plain_metric(n))]
    if len(wanted) != 1:
        raise InputError(
            f"Choose the utility with --metric. What every coalition of {game.id} has: "
            f"{', '.join(complete) or 'nothing'}. Got {metric}."
        )
    return wanted[0]
