"""No wrong answer in silence, and nothing lost: the figures of four checks.

identity  changes of code and data that change utilities: how many would a store answer with stale numbers?
folders   folders of dirty files: how many are valued wrongly without a word?
kills     a run of about four seconds, killed thirty times: how many trainings were made again?
writers   eight processes on one store: how many evaluations for every coalition?

python bench/sound.py [identity folders kills writers]
"""

from __future__ import annotations

import sys

import sound_folders
import sound_identity
import sound_kills
import sound_writers
from _table import table

PARTS = {
    "identity": sound_identity,
    "folders": sound_folders,
    "kills": sound_kills,
    "writers": sound_writers,
}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(PARTS)
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        sys.exit(f"Choose among {', '.join(PARTS)}. Got {unknown[0]}.")
    print(table(["what", "figure"], [row for name in chosen for row in PARTS[name].figures()]))
