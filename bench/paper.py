"""How long every experiment of the paper takes, one after the other on one machine.

    python bench/paper.py --scale paper --device cuda --out DIR --minutes 25

Runs `fedvalue reproduce` for each experiment, then for each variant, in the order of the paper, and prints the seconds of
each. What does not fit into the minutes is stopped as Ctrl-C would and goes on when the same command is given
again; what is finished is not run again. One process at a time: several that share a GPU take turns on it, and a
training of small steps then takes many times as long.

Sittings count as one run as long as the sources are the same on which numbers depend, whatever else was committed between
them. The last column says so: "yes" was finished by the sources of today alone. What was being trained when a sitting ended is
trained again; its seconds count, too.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path

from _table import table
from fedvalue_paper import names, read
from fedvalue_paper.manifest import is_older, written_parts
from fedvalue_paper.sources import sources_digest

_NOT_YET = "no"
_PATIENCE = 60.0  # seconds in which a stopped experiment stores what it has


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", default="smoke", choices=["smoke", "small", "paper"])
    parser.add_argument("--out", type=Path, required=True, help="folder of all results and their store")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data-dir", help="where the data sets lie")
    parser.add_argument("--minutes", type=float, help="stop after so many")
    parser.add_argument("--only", help="names, separated by commas [default: all]")
    parser.add_argument("--no-variants", action="store_true", help="without the authors' definitions")
    given = parser.parse_args()
    chosen = given.only.split(",") if given.only else names()
    runs = [(name, "") for name in chosen]
    if not given.no_variants:
        runs += [(name, variant) for name in chosen for variant in read(name).variants]
    end = None if given.minutes is None else time.monotonic() + 60 * given.minutes
    lines, total = [], 0.0
    for name, variant in runs:
        folder = given.out / "-".join(filter(None, (name, given.scale, variant)))
        if _state(folder) == _NOT_YET and (end is None or time.monotonic() < end):
            print(f"{folder.name} …", file=sys.stderr, flush=True)
            _reproduce(given, name, variant, folder, end)
        state, seconds = _state(folder), _seconds(folder)
        total += seconds
        lines.append([folder.name, f"{seconds:.0f}" if seconds else "–", state])
    lines.append(["all", f"{total:.0f}", ""])
    print(table(["experiment", "seconds", "finished"], lines))


def _reproduce(given: argparse.Namespace, name: str, variant: str, folder: Path, end: float | None) -> None:
    command = [sys.executable, "-m", "fedvalue", "reproduce", name, "--scale", given.scale, "--quiet"]
    command += ["--device", given.device, "--out", str(given.out)]
    command += ["--variant", variant] if variant else []
    command += ["--data-dir", given.data_dir] if given.data_dir else []
    command += ["--resume"] if (folder / "manifest.json").exists() else []
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        process.wait(None if end is None else max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _state(folder: Path) -> str:
    """Whether it is finished, and whether it counts as one run with what today's sources compute."""
    parts = written_parts(folder)
    if not parts:
        return _NOT_YET
    if is_older(folder):
        return "with other settings: remove it"
    if not parts[-1]["finished"]:
        return _NOT_YET
    made_by = {part.get("sources") for part in parts}
    return "yes" if made_by == {sources_digest()} else "yes, in part by other sources"


def _seconds(folder: Path) -> float:
    """Of all processes that worked on it, stopped ones too; one that was killed could not write them down."""
    return sum(float(part["seconds"] or 0) for part in written_parts(folder))


if __name__ == "__main__":
    main()
