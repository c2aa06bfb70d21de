"""`python -m fedvalue_paper.claims`: judges every claim on committed results and writes the table."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedvalue_paper.claims.page import page_of
from fedvalue_paper.files import write_whole


def main() -> None:
    """Reads the results, judges, writes."""
    parser = argparse.ArgumentParser(prog="python -m fedvalue_paper.claims", description=__doc__)
    parser.add_argument(
        "--results", type=Path, default=Path("paper/results"), help="folder of NAME-SCALE folders"
    )
    parser.add_argument("--out", type=Path, default=Path("paper/CLAIMS.md"), help="the page to write")
    chosen = parser.parse_args()
    if not chosen.results.is_dir():
        parser.error(f"--results must be a folder with results. Got {chosen.results}, which is none.")
    write_whole(chosen.out, page_of(chosen.results))


if __name__ == "__main__":
    main()
