"""How many of 100 random alterations of a signed run `fedvalue verify` finds, and of 100 of a federation that signs its replies.

    python bench/evidence.py
    python bench/evidence.py --alterations 20 --seed 7

A run under a signed agreement, with payouts and reports, is copied, and one thing in the copy altered: a field of any kind of
row, a training removed, slipped in, moved or made anew with all checksums and the whole chain, a character of any file, a
value of a sealed file with a checksum that fits, digests made anew without the key. Whoever checks has the agreement, and
trains nothing.

The federation (three clients, all coalitions, models measured at the nodes) is altered by an operator who makes all checksums, the chain
of the store and that of the signed replies anew: metrics or final models of two coalitions exchanged, the models of one taken for those
of another, means that the nodes did not measure, replies altered or removed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from alterations import random_alteration, signed_run
from books import OF_FEDERATION
from federations import digits
from flower_fakes import SIZES, Signing, held_out_parts, parties

import fedvalue as fv
from _table import table
from fedvalue.flower import Task, value_federation

ROUNDS = 2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--alterations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        _altered(*_of_one_process(here), given.alterations, random.Random(given.seed))
        # Values that do not follow from an altered store are no feat: an operator computes them again, and the report.
        _altered(
            *_of_a_federation(here), given.alterations, random.Random(given.seed), "What the nodes signed"
        )


def _of_one_process(here: Path) -> tuple[Path, Path | None, Callable[[Path, random.Random], str]]:
    signed_run(here / "signed")
    return here / "signed" / "run", here / "signed" / "agreement.json", random_alteration


def _of_a_federation(here: Path) -> tuple[Path, Path | None, Callable[[Path, random.Random], str]]:
    signing = Signing(here / "keys", parties(digits(SIZES), held_out_parts(digits(SIZES), (20, 40, 60))))
    settings = signing.settings(here / "federation", evaluate="nodes", rounds=ROUNDS)
    value_federation(signing.grid(), settings, Task("classification", 10, None))
    return here / "federation", None, lambda run, rng: rng.choice(OF_FEDERATION)(run, ROUNDS, rng)


def _altered(
    run: Path,
    agreement: Path | None,
    alter: Callable[[Path, random.Random], str],
    alterations: int,
    rng: random.Random,
    by: str = "",
) -> None:
    """Prints what was found by the checks of this name, or by any."""
    made, found, missed = Counter[str](), Counter[str](), list[str]()
    began = time.perf_counter()
    assert fv.verify(run, agreement).sound
    took = time.perf_counter() - began
    for _ in range(alterations):
        copy = run.with_name("copy")
        shutil.copytree(run, copy)
        what = alter(copy, rng)
        first = what.partition(":")[0]
        kind = first if "." in first or "," not in first else what.partition(",")[0]
        made[kind] += 1
        checks = [check for check in fv.verify(copy, agreement).checks if by in check.what]
        if any(check.state in ("wrong", "undecided") for check in checks):
            found[kind] += 1
        else:
            missed.append(what)
        shutil.rmtree(copy)
    rows = [[kind, str(count), str(found[kind])] for kind, count in sorted(made.items())]
    print(table(["alteration", "made", "found"], rows))
    print(f"\nfound {found.total()} of {alterations}; one check of a sound run: {took:.1f} s\n")
    for what in missed:
        print(f"missed: {what}")


if __name__ == "__main__":
    main()
