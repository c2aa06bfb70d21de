"""Which files of a folder are clients, which are test data, and which are neither.

    test.csv                       the test set (any case, any format that is read)
    test-north.csv test-south.csv  instead of it: two parts or more, each also measured by itself
                                   (tested by client: none of these, or test-NAME.csv for clients)
    anything-else.csv              a client

Where there are no such files, but folders of images, these are the clients and the test set by the same names.

A name that comes close to these rules without following them is refused: a client taken for test data, or test data
taken for a client, changes every value and shows nowhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._images import has_images
from fedvalue.scenarios._tables import SUFFIXES, kind, stem

__all__ = ["Folder", "in_order", "listed"]

_PART = re.compile(r"test-.+")
_NEARLY_TEST = re.compile(
    r"tests|test(ing)?[ _.-]?(set|data|file)?s?|test[ _.0-9].*|(.+[ _.-])?(test|tests|holdout|hold-out|validation|eval)"
    r"|val|valid|dev|evaluation|validation"
)
_NEARLY_ALL = re.compile(r"train(ing)?([ _.-]?(set|data))?|(.+[ _.-])train")
# What people save tables as and what is not read here: such a file is a client that would be missing.
_TABLES = re.compile(
    r".*(\.(tsv|tab|xlsx?|xlsm|ods|jsonl|ndjson|feather|arrow|orc|npy|pkl|pickle|dta|sav|sas7bdat|rds|rdata|h5|hdf5|mat)"
    r"|\.csv(~|[._ -].*))"
)


@dataclass(frozen=True)
class Folder:
    """Client files and test files in the order of their names (2 before 10), and names of what is left aside."""

    path: Path
    clients: list[Path]
    tests: list[Path]
    ignored: list[str]
    of_images: bool = False  # folders of images instead of files


def listed(path: Path, by_client: bool = False) -> Folder:
    """The files of a folder by what they are; `by_client`: tests are of single clients, or are drawn from their rows."""
    if not path.is_dir():
        raise ScenarioError(f"There is no folder {path}.")
    try:
        entries = sorted(path.iterdir())
    except OSError as error:
        raise ScenarioError(f"The folder {path} cannot be read: {error.strerror}.") from error
    found = [entry for entry in entries if _is_data(entry)]
    of_images = not found and any(has_images(entry) for entry in entries)
    if of_images:
        found = [entry for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    ignored = [entry.name for entry in entries if entry not in found]
    found.sort(key=lambda entry: in_order(stem(entry)))
    _refuse_twins(path, found)
    tests = [entry for entry in found if stem(entry).lower() == "test"]
    parts = [entry for entry in found if _PART.fullmatch(stem(entry).lower())]
    clients = [entry for entry in found if entry not in tests and entry not in parts]
    for client in clients:
        _refuse_near_misses(client)
    if by_client:
        _refuse_other_tests(clients, tests, parts)
    elif parts and (tests or len(parts) == 1):
        raise ScenarioError(
            f"{parts[0]}: a client, or a part of the test set? "
            + (f"There is also {tests[0].name}. " if tests else "It is the only one of its kind. ")
            + "The test set is one file, test.csv, or at least two, test-….csv. Rename the file to what it is."
        )
    if not clients:
        raise ScenarioError(
            f"{path} has no client files. Expected one file per client ({', '.join(SUFFIXES)}) "
            "and a test set, test.csv for example."
        )
    if not (tests or parts or by_client):
        raise ScenarioError(
            f"{path} has no test set. Put one beside the clients, test.csv for example, or test on rows of the clients' own: "
            "fedvalue run --test by-client, fedvalue data check --option test=by-client, or test='by-client' in Python."
        )
    return Folder(path, clients, tests or parts, ignored, of_images)


def _refuse_other_tests(clients: list[Path], tests: list[Path], parts: list[Path]) -> None:
    """Test files that are not those of single clients, where each client is tested on rows of its own."""
    names = [stem(client) for client in clients]
    other = [entry for entry in (*tests, *parts) if stem(entry)[len("test-") :] not in names]
    if other:
        raise ScenarioError(
            f"{other[0]}: tested by client, every client has test rows of its own: in test-NAME{other[0].suffix}, NAME being "
            "that of its file, or drawn from its rows where there is no test file at all. Rename the file or move it "
            "elsewhere, or measure all clients on one test set (no test='by-client')."
        )


def _is_data(entry: Path) -> bool:
    """Whether the entry is to be read; what should have been, and cannot, is refused."""
    if entry.name.startswith((".", "~$")):
        return False
    if not entry.name.isprintable() or entry.name != entry.name.strip() or stem(entry) != stem(entry).strip():
        raise ScenarioError(
            f"The name of the file {entry.name!r} holds line breaks, control characters, or spaces at its ends. "
            "Clients are called by their files: rename it."
        )
    if not kind(entry):
        if _TABLES.fullmatch(entry.name.lower()) and entry.is_file():
            raise ScenarioError(
                f"{entry}: files of this kind are not read ({', '.join(SUFFIXES)} are). Save it as CSV or Parquet, or "
                "move it elsewhere."
            )
        return False
    if not entry.is_file():
        raise ScenarioError(f"{entry} is not a file: a folder, or a link to nowhere. Repair or remove it.")
    return True


def _refuse_twins(path: Path, found: list[Path]) -> None:
    names = [stem(entry).casefold() for entry in found]
    twins = [entry.name for entry, name in zip(found, names, strict=True) if names.count(name) > 1]
    if twins:
        raise ScenarioError(f"{path} has several files of one name: {', '.join(twins)}. Keep one of each.")


def _refuse_near_misses(client: Path) -> None:
    name = stem(client).lower()
    if _NEARLY_TEST.fullmatch(name):
        raise ScenarioError(
            f"{client}: a client, or test data? The test set is test.csv, or at least two files test-….csv. Rename "
            "the file to what it is."
        )
    if _NEARLY_ALL.fullmatch(name):
        raise ScenarioError(
            f"{client}: expected one file per client, called by its name, not all training rows in one. Rename or "
            "divide it."
        )


def in_order(name: str) -> list[tuple[int, int, str]]:
    """What names are sorted by: 2 before 10, capital letters making no difference."""
    pieces = re.split(r"(\d+)", name.lower())
    return [
        (1, int(piece), "") if piece.isdecimal() and piece.isascii() else (0, 0, piece) for piece in pieces
    ]
