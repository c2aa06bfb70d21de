"""What a run has left, read for a check: what cannot be read is a finding and not a failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from fedvalue.agreement import Agreement, read_agreement
from fedvalue.errors import FedvalueError, InputError
from fedvalue.evidence._pages import is_page, is_payout
from fedvalue.evidence._verdict import Check, sound, unchecked, wrong
from fedvalue.run import (
    AGREEMENT_FILE,
    DISCLOSURE_FILE,
    EARLIER,
    EVIDENCE_FILE,
    PROGRESS_FILE,
    RECORD_FILE,
    VALUES_FILE,
    find_store,
    read_disclosures,
    read_record,
    read_values,
)
from fedvalue.values import Values

__all__ = ["PLAN_FILE", "LeftRun", "open_run"]

_SECTIONS = (
    "scenario", "asked", "options", "training", "game", "versions", "model_options", "learner", "groups", "cover", "absent",
)  # fmt: skip
_OF_A_STORE = ("", "-wal", "-shm", "-journal", ".replies")
PLAN_FILE = "plan.json"  # of a federation: a dry run writes it again whenever somebody asks


@dataclass(frozen=True)
class LeftRun:
    """A run that is checked. None stands for what is not there, or could not be read."""

    folder: Path
    values_file: Path
    values: Values | None
    record: Mapping[str, Any] | None
    store: Path | None
    agreement: Agreement | None
    given: bool  # whether the agreement came from whoever checks, and not from the folder

    @property
    def files(self) -> list[Path]:
        """The files of the folder, in the order of their names."""
        return sorted(path for path in self.folder.iterdir() if path.is_file())

    @property
    def below(self) -> list[Path]:
        """The files in folders of this one, at any depth: whoever is sent a statement wants to know whether it is right."""
        return [file for folder in self._folders() for file in sorted(folder.iterdir()) if file.is_file()]

    @property
    def passed_over(self) -> list[Path]:
        """Folders that are not looked into: earlier results, other runs, what is hidden or linked."""
        inside = self._folders()
        return [
            path
            for folder in (self.folder, *inside)
            for path in sorted(folder.iterdir())
            if path.is_dir() and path not in inside
        ]

    def _folders(self) -> list[Path]:
        """A file of values may be anywhere, beside anything: only the folder of a run has folders of its own."""
        found = list[Path]()
        left = [self.folder] if (self.folder / RECORD_FILE).exists() else []
        while left:
            inner = sorted(path for path in left.pop().iterdir() if path.is_dir() and not _is_apart(path))
            found += inner
            left += inner
        return sorted(found)

    def called(self, file: Path) -> str:
        """The name of a file, as seen from the folder."""
        return file.relative_to(self.folder).as_posix()

    @property
    def beside(self) -> list[Path]:
        """What is not under the signatures: the store, which may grow, what belongs to it, plans, and the signatures themselves."""
        store = [] if self.store is None else [f"{self.store.name}{end}" for end in _OF_A_STORE]
        return [self.folder / name for name in (EVIDENCE_FILE, PROGRESS_FILE, PLAN_FILE, *store)]

    @property
    def written(self) -> list[Path]:
        """What results are signed with: the files but those `beside` them and hidden ones; and payouts, reports and statements
        in folders of this one.
        """
        apart = self.beside
        there = [path for path in self.files if path not in apart and not path.name.startswith(".")]
        return there + [path for path in self.below if is_page(path) or is_payout(path)]


def _is_apart(folder: Path) -> bool:
    return (
        folder.name == EARLIER
        or folder.name[0] == "."
        or folder.is_symlink()
        or (folder / RECORD_FILE).exists()
    )


def open_run(path: Path, store: Path | None, agreement: Path | None) -> tuple[LeftRun, list[Check]]:
    """The run, and what was wrong with its files."""
    folder, file = (path, path / VALUES_FILE) if path.is_dir() else (path.parent, path)
    if not file.is_file():
        raise InputError(f"There is no {file}. Name the folder of a run, or a file of values.")
    values, first = _read("The values", file, lambda: read_values(file))
    record, second = None, unchecked("The record of the run", f"there is no {RECORD_FILE} beside the values")
    if path.is_dir() and (folder / RECORD_FILE).is_file():
        record, second = _read("The record of the run", folder / RECORD_FILE, lambda: _record(path))
    elif path.is_dir():
        second = wrong("The record of the run", f"{RECORD_FILE} is missing: every run leaves one")
    agreed, checks = _agreement(folder, agreement)
    sent = folder / DISCLOSURE_FILE
    if path.is_dir() and sent.is_file():
        _, third = _read("What left the clients", sent, lambda: read_disclosures(sent))
        checks += [third] if third.state == "wrong" else []
    try:
        found = store or find_store(path, None)
    except InputError:
        found = folder / "store.db"
    run = LeftRun(
        folder, file, values, record, found if found.is_file() else None, agreed, agreement is not None
    )
    return run, [first, second, *checks]


def _record(path: Path) -> Mapping[str, Any] | None:
    """The record, whose sections must be sections: what reads them later takes that for granted."""
    record = read_record(path)
    for name in _SECTIONS:
        if not isinstance((record or {}).get(name, {}), Mapping | NoneType):
            raise InputError(f"In {RECORD_FILE}, {name!r} is not as fedvalue writes it.")
    return record


def _read(what: str, file: Path, read: Any) -> tuple[Any, Check]:
    try:
        return read(), sound(what, f"{file.name} has the checksum that it was written with")
    except FedvalueError as error:
        return None, wrong(what, str(error))


def _agreement(folder: Path, given: Path | None) -> tuple[Agreement | None, list[Check]]:
    """The agreement of whoever checks, or else the copy in the folder; the two must be the same."""
    what, copy = "The agreement", folder / AGREEMENT_FILE
    mine = None if given is None else read_agreement(given)
    theirs, found = None, list[Check]()
    if copy.is_file():
        theirs, check = _read(what, copy, lambda: read_agreement(copy))
        found += [check] if check.state == "wrong" else []
    if mine is not None and theirs is not None and mine.hash != theirs.hash:
        found.append(wrong(what, f"{copy.name} in the folder is another agreement than {given}"))
    agreement = mine or theirs
    if agreement is None:
        return None, found or [unchecked(what, "there is none: the run was made without, or nobody gave it")]
    problems = agreement.problems()
    found += [wrong(what, problem) for problem in problems]
    if not problems:
        signed = len(agreement.signatures)
        whose = (
            "yours" if mine is not None else "the copy in the folder; compare its hash with that of your own"
        )
        found.append(sound(what, f"{agreement.hash}, {signed} signatures fit ({whose})"))
    return agreement, found
