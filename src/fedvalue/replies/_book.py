"""The book of signed replies: a text file beside the store, a line for each reply, that only grows.

Every line is JSON and carries the hash of the line before, so that none can be altered, moved or removed unnoticed where the last
hash is known: values name it. There are three kinds of lines:

    sitting    a server has begun to ask: which game, its clients, the fingerprints of their rows, their public keys
    reply      what a client has signed; what stands in the sitting is not repeated
    models     which coalitions the models are of that were sent in a round, or measured after the last one
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedvalue.agreement import canonical
from fedvalue.coalitions import Trial, members
from fedvalue.errors import InputError
from fedvalue.replies._statement import Reply, origin_of

__all__ = ["Book", "Entry", "Sitting", "book_beside", "read_book"]

_FIRST = sha256(b"fedvalue.replies/2").hexdigest()
_SHARED = ("game", "learner", "training")  # of a reply, what stands in the sitting


def book_beside(store: Path) -> Path:
    """Where the replies are kept that the trainings of a store rest on."""
    return store.with_name(f"{store.name}.replies")


@dataclass(frozen=True)
class Sitting:
    """A server that asks the nodes about one game. `data` are fingerprints of the clients' rows, `keys` public keys or ""."""

    game: str
    scenario: str
    learner: str
    training: str
    clients: tuple[str, ...]
    data: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """A line that was read: its number, its hash, and what it says."""

    number: int
    link: str
    kind: str
    said: Mapping[str, Any]


class Book:
    """A book that is written. A last line that was not finished, by a process that was killed, is dropped."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._known: set[str] = set()
        self._sent: dict[tuple[str, int, str, int, int], str] = {}  # by game, round, coalition and seed
        self._back: dict[
            tuple[str, int, int, int, str], str
        ] = {}  # by game, round, client, seed and what was sent
        self._alone: dict[
            tuple[str, int, int], str
        ] = {}  # by game, client and seed: after all rounds by itself
        self.lines, self.link = 0, _FIRST
        if file.exists():
            whole = file.read_bytes()
            end = whole.rfind(b"\n") + 1
            if end < len(whole):
                with file.open("r+b") as cut:
                    cut.truncate(end)
            for entry, problem in read_book(file):
                if problem:
                    raise InputError(
                        f"{problem} Move {file} away to begin another one: trainings that are in the store already are then not "
                        "signed by the nodes."
                    )
                self.lines, self.link = entry.number, entry.link
                self._note(entry.kind, entry.said)

    def begin(self, sitting: Sitting) -> None:
        """What the lines that follow are about."""
        self._write([("sitting", asdict(sitting))])

    def add_reply(self, client: int, reply: Reply, signature: str) -> None:
        """A reply with its signature; `client` is the number of who signed it."""
        plain = {name: part for name, part in asdict(reply).items() if name not in _SHARED}
        self._write([("reply", {"game": reply.game, "client": client, **plain, "signature": signature})])

    def add_models(self, game: str, t: int, models: Iterable[tuple[Trial, int, str]]) -> None:
        """The models of coalitions with a seed that are sent in round t; those measured are "sent" in one round more."""
        of = [[f"{mask:x}", number, seed, digest] for (mask, number), seed, digest in models]
        self._write([("models", {"game": game, "round": t, "of": of})] if of else [])

    def origin(self, game: str, trial: Trial, seed: int, rounds: int, data: Sequence[str]) -> str:
        """The origin of the final model of a coalition, from what its members have signed of the last round. `data` are the
        fingerprints of all clients' rows.
        """
        mask, number = trial
        who, sent = members(mask), self._sent.get((game, rounds, f"{mask:x}", number, seed), "")
        back = {i: self._back.get((game, rounds, i, seed, sent), "") for i in who}
        if len(who) == 1:
            back = {who[0]: self._alone.get((game, who[0], seed), back[who[0]])}
        return origin_of((data[i], back[i]) for i in who)

    def _note(self, kind: str, said: Mapping[str, Any]) -> None:
        """Remembers a line, and which models came back in which round."""
        self._known.add(_said(kind, said))
        if kind == "models":
            for mask, number, seed, digest in said["of"]:
                self._sent[said["game"], said["round"], mask, number, seed] = digest
        elif kind == "reply" and said["kind"] == "train":
            game, t, client = said["game"], said["round"], said["client"]
            if said["alone"]:
                self._alone[game, client, said["seeds"][0]] = said["back"][-1]
            for seed, sent, back in zip(said["seeds"], said["sent"], said["back"], strict=False):
                # In round 1 all begin with the model of the seed, and no line says whose it is.
                self._back[game, t, client, seed, sent if t > 1 else ""] = back

    def _write(self, lines: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Adds lines that are not there yet, and waits until they are on the disk: a checkpoint may rest on them."""
        for kind, said in lines:
            text = _said(kind, json.loads(json.dumps(said)))
            if text in self._known and kind != "sitting":
                continue
            self._note(kind, json.loads(text)[kind])
            self.lines, self.link = self.lines + 1, _link(self.link, text)
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                with self.file.open("ab") as out:
                    out.write(canonical({kind: json.loads(text)[kind], "link": self.link}) + b"\n")
                    out.flush()
                    os.fsync(out.fileno())
            except OSError as error:
                raise InputError(f"Cannot write {self.file}: {error.strerror}.") from error


def read_book(file: Path) -> Iterator[tuple[Entry, str]]:
    """Every line, with what is wrong with it in words; "" where nothing is. After a broken link the others are read on."""
    try:
        *lines, rest = file.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"Cannot read {file}: {error.strerror}.") from error
    before = _FIRST
    for number, line in enumerate([*lines, rest] if rest else lines, 1):
        try:
            data = json.loads(line)
            link = data.pop("link")
            ((kind, said),) = data.items()
            as_written = canonical({kind: said, "link": link}) == line and number <= len(lines)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            yield Entry(number, before, "", {}), f"Line {number} of {file.name} is not as fedvalue wrote it."
            continue
        fits = as_written and isinstance(said, dict) and link == _link(before, _said(kind, said))
        problem = (
            ""
            if fits
            else f"Line {number} of {file.name} does not follow from the one before: it was altered."
        )
        before = str(link)
        yield Entry(number, before, kind, said if isinstance(said, dict) else {}), problem


def _said(kind: str, said: Mapping[str, Any]) -> str:
    return canonical({kind: said}).decode()


def _link(before: str, text: str) -> str:
    return sha256(f"{before}\n{text}".encode()).hexdigest()
