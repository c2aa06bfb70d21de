"""How long it takes to compute every table and figure of the paper again from the utilities that are committed.

    python bench/recompute.py

Runs `fedvalue reproduce NAME --from-utilities` for each folder of results that has utilities, as many at a time as there
are processes, the largest first, and prints the seconds of each. It stops with the first row that does not come out as
committed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _table import table

_RESULTS = Path(__file__).parents[1] / "paper" / "results"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=_RESULTS, help="folder of NAME-SCALE folders")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    folders = [file.parent for file in given.results.glob("*/utilities.npz")]
    folders.sort(key=lambda folder: -(folder / "rows.csv.gz").stat().st_size)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as out, ThreadPoolExecutor(given.processes) as pool:
        seconds = list(pool.map(lambda folder: _recompute(folder, Path(out)), folders))
    total = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = [[folder.name, f"{took:.0f}"] for folder, took in zip(folders, seconds, strict=True)]
    lines.append([f"all, {given.processes} at a time", f"{total:.0f}"])
    lines.append(["all, seconds of one core", f"{used.ru_utime + used.ru_stime:.0f}"])
    print(table(["results", "seconds"], lines))


def _recompute(folder: Path, out: Path) -> float:
    record = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    command = [
        sys.executable,
        "-m",
        "fedvalue",
        "reproduce",
        record["experiment"],
        "--scale",
        record["scale"],
        "--quiet",
    ]
    command += ["--variant", record["variant"]] if record["variant"] else []
    command += ["--seeds", str(len(record["seeds"])), "--from-utilities", str(folder), "--out", str(out)]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
