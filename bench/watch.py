"""How long a stored outcome takes to the live page, and what the page costs.

    python bench/watch.py [--before 0,1000,10000] [--outcomes 40]

A store holds so many outcomes of ten clients before; then further ones are stored at random moments, while two viewers of
`fedvalue watch`, a process of its own, wait for their events. Printed: seconds from the storing to the event (median, worst),
and the share of a core that the watcher took meanwhile.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import numpy as np

from fedvalue.outcome import Outcome
from fedvalue.store import UtilityStore

CLIENTS, VIEWERS = 10, 2
FULL = (1 << CLIENTS) - 1
TRAININGS = re.compile(r"<dt>Trainings</dt><dd>([\d,]+)")


class Viewer(threading.Thread):
    """Notes when it is told of how many trainings."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.told: dict[int, float] = {}
        self._at = urlsplit(address)

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._at.hostname or "", self._at.port, timeout=60)
        connection.request("GET", f"/events?{self._at.query}")
        answer = connection.getresponse()
        while line := answer.readline():
            if line.startswith(b"data: "):
                found = TRAININGS.search(dict(json.loads(line[6:])).get("r0-head", ""))
                if found:
                    self.told.setdefault(int(found[1].replace(",", "")), time.monotonic())


def outcome(rng: np.random.Generator, mask: int) -> Outcome:
    return Outcome({"accuracy": 0.1 + 0.08 * mask.bit_count() + 0.01 * float(rng.normal())}, 1.0)


def trials(before: int, further: int) -> list[tuple[int, int]]:
    """∅ and N first; then coalition after coalition, seed after seed."""
    order = [0, FULL, *range(1, FULL)]
    return [(order[k % len(order)], k // len(order)) for k in range(before + further)]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def store_them(
    path: Path, some: list[tuple[int, int]], rng: np.random.Generator, pause: float
) -> dict[int, float]:
    """Stores outcome after outcome; when each was there, by how many there then were."""
    stored = {}
    with UtilityStore(path) as store:
        count = sum(game.outcomes for game in store.games())
        for mask, seed in some:
            time.sleep(pause * rng.uniform(0.5, 1.5))
            store.append("g", [(mask, outcome(rng, mask))], seed)
            count += 1
            stored[count] = time.monotonic()
    return stored


def measured(before: int, further: int, pause: float) -> str:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        every = trials(before, further)
        with UtilityStore(path) as store:
            store.register("g", CLIENTS)
            for start in range(0, before, 1000):
                for seed in {seed for _, seed in every[start : min(before, start + 1000)]}:
                    some = [(m, s) for m, s in every[start : min(before, start + 1000)] if s == seed]
                    store.append("g", [(m, outcome(rng, m)) for m, _ in some], seed)
        command = [sys.executable, "-m", "fedvalue", "watch", str(path), "--port", "0", "--quiet"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            viewers = [Viewer(address) for _ in range(VIEWERS)]
            for viewer in viewers:
                viewer.start()
            time.sleep(2.0)
            began, used = time.monotonic(), cpu_seconds(process.pid)
            stored = store_them(path, every[before:], rng, pause)
            time.sleep(4.0)
            share = (cpu_seconds(process.pid) - used) / (time.monotonic() - began)
            delays = [_delay(viewer, count, at) for viewer in viewers for count, at in stored.items()]
        finally:
            process.terminate()
            process.wait(20)
    lost = sum(delay is None for delay in delays)
    known = [delay for delay in delays if delay is not None]
    return (
        f"{before:>8,} {median(known):>8.2f} {max(known):>8.2f} {lost:>6} {share:>12.0%}"
        if known
        else f"{before:>8,}        –        – {lost:>6} {share:>12.0%}"
    )


def _delay(viewer: Viewer, count: int, at: float) -> float | None:
    """Until the page had this outcome, or it and later ones."""
    moments = [moment for told, moment in viewer.told.items() if told >= count]
    return min(moments) - at if moments else None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", default="0,1000,10000", help="outcomes in the store before")
    parser.add_argument(
        "--outcomes", type=int, default=40, help="outcomes that are stored while somebody watches"
    )
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two of them, on average")
    given = parser.parse_args()
    print(f"{VIEWERS} viewers; seconds from storing to the page, share of a core of the watcher")
    print(f"{'before':>8} {'median':>8} {'worst':>8} {'lost':>6} {'of a core':>12}")
    for before in map(int, given.before.split(",")):
        print(measured(before, given.outcomes, given.pause), flush=True)


if __name__ == "__main__":
    main()
