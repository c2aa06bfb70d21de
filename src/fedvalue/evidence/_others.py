"""Files in the folder of a run that no check looks at: a payout that is not recognised is named, and not passed over."""

from __future__ import annotations

from collections.abc import Iterator

from fedvalue._text import listed, one_line
from fedvalue.evidence._pages import is_page, is_payout
from fedvalue.evidence._run import PLAN_FILE, LeftRun
from fedvalue.evidence._verdict import Check, unchecked
from fedvalue.run import AGREEMENT_FILE, DISCLOSURE_FILE, RECORD_FILE

__all__ = ["others"]

_NAMED = 12


def others(run: LeftRun) -> Iterator[Check]:
    """One line for all of them."""
    if not (run.folder / RECORD_FILE).exists():
        return  # a file of values may be anywhere, beside anything
    known = {run.values_file.name, RECORD_FILE, AGREEMENT_FILE, DISCLOSURE_FILE}
    own = ({run.folder / name for name in known} | set(run.beside)) - {run.folder / PLAN_FILE}
    files = [
        file
        for file in (*run.files, *run.below)
        if file not in own and not is_payout(file) and not is_page(file)
    ]
    left = [one_line(run.called(file)) for file in files]
    left += [f"{one_line(run.called(folder))}/" for folder in run.passed_over]
    if left:
        yield unchecked("Other files", f"nobody has looked into {listed(left, _NAMED)}")
