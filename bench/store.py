"""How fast the store takes outcomes in and gives them back.

    python bench/store.py                    # all 2**20 coalitions of 20 clients

Appends the coalitions of one game in batches, each a transaction that is on disk when it returns, then reads
them all, and some of them by name. Batches smaller than the largest are timed on a part of the coalitions.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import fedvalue as fv
from _table import table

GAME = "bench"
BATCHES = (1, 10, 100, 1_000, 10_000)
SECONDS_PER_BATCH_SIZE = 2.0
FEW = 5_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=20, help="2**n rows are written")
    parser.add_argument("--dir", type=Path, help="where to write; a temporary folder by default")
    arguments = parser.parse_args()
    total = 1 << arguments.clients
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        path = Path(folder) / "store.db"
        with fv.UtilityStore(path) as store:
            store.register(GAME, arguments.clients)
            print(table(["append", "rows", "seconds", "rows/s"], _append_rows(store, total)), "\n")
            print(table(["read", "rows", "seconds", "rows/s"], _read_rows(store, total)))
        print(f"\n{path.stat().st_size / 1e6:.0f} MB on disk")


def _append_rows(store: fv.UtilityStore, total: int) -> Iterator[list[str]]:
    """A row for every batch size; the last one writes all that is left."""
    start = 0
    for batch in BATCHES:
        first, began = start, time.perf_counter()
        while start < total:
            stop = min(start + batch, total)
            outcomes = [
                (mask, fv.Outcome({"utility": mask / total}, 0.1, "bench")) for mask in range(start, stop)
            ]
            store.append(GAME, outcomes)
            start = stop
            if batch != BATCHES[-1] and time.perf_counter() - began > SECONDS_PER_BATCH_SIZE:
                break
        yield _cells(f"batches of {batch}", start - first, time.perf_counter() - began)


def _read_rows(store: fv.UtilityStore, total: int) -> Iterator[list[str]]:
    few = range(0, total, max(1, total // FEW))
    for title, masks in (("the whole game", None), ("all, by mask", range(total)), ("some, by mask", few)):
        began = time.perf_counter()
        found = store.read(GAME, masks)
        yield _cells(title, len(found), time.perf_counter() - began)


def _cells(title: str, rows: int, seconds: float) -> list[str]:
    return [title, f"{rows:,}", f"{seconds:.2f}", f"{rows / seconds:,.0f}"]


if __name__ == "__main__":
    main()
