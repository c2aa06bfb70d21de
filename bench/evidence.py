"""How many of 100 random alterations of a signed run `fedvalue verify` finds.

    python bench/evidence.py
    python bench/evidence.py --alterations 20 --seed 7

A run under a signed agreement, with payouts and reports, is copied, and one thing in the copy altered: a field of any kind of
row, a training removed, slipped in, moved or made anew with all checksums and the whole chain, a character of any file, a
value of a sealed file with a checksum that fits, digests made anew without the key. Whoever checks has the agreement, and
trains nothing.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from alterations import random_alteration, signed_run

import fedvalue as fv
from _table import table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--alterations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, made, missed = random.Random(given.seed), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        signed_run(here / "signed")
        agreement = here / "signed" / "agreement.json"
        began = time.perf_counter()
        assert fv.verify(here / "signed" / "run", agreement).sound
        took = time.perf_counter() - began
        for _ in range(given.alterations):
            copy = here / "copy"
            shutil.copytree(here / "signed" / "run", copy)
            what = random_alteration(copy, rng)
            kind = what.partition(":")[0] if "." in what.partition(":")[0] else what.partition(",")[0]
            made[kind] += 1
            if fv.verify(copy, agreement).sound:
                missed.append(what)
            shutil.rmtree(copy)
    print(table(["alteration", "made"], [[kind, str(count)] for kind, count in sorted(made.items())]))
    print(
        f"\nfound {given.alterations - len(missed)} of {given.alterations}; one check of a sound run: {took:.1f} s"
    )
    for what in missed:
        print(f"missed: {what}")


if __name__ == "__main__":
    main()
