"""Fingerprints: the same content gives the same text, on any machine, in any process.

A store must never hand out the utilities of another game. Data is fingerprinted by its content, functions and
objects by their source text and the data that they refer to (see `_identity`). What cannot be looked into is
reported as a doubt, so that nobody relies on it unknowingly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any

from fedvalue.store.identity._arrays import array_content, is_array
from fedvalue.store.identity._files import FileNames, file_contents

__all__ = ["fingerprint"]


def fingerprint(
    *parts: Any,
    files: FileNames | None = None,
    reads: bool = True,
    seeded: Collection[str] | None = None,
    made: bool = False,
    apart: bool = False,
    cloned: bool = False,
) -> tuple[str, tuple[str, ...]]:
    """A hexadecimal digest of the parts, and what could not be looked into, as text for people.

    For plain data the order of a mapping does not count; in what a function refers to, it does. `files` are those
    that code reads: with their content in the digest, reading files is no doubt; an empty list covers none. With
    `reads=False` reading anything is none. `seeded` are the libraries whose common random numbers the caller seeds: drawing from others is a doubt
    (None: drawing never is). With `made`, what constructs objects is left aside: only what they do later counts.
    `apart`: code runs in processes of its own, which settings of this program (of decimal or numpy, say) do not reach.
    `cloned`: estimators are copied before every fit, so that what fits add to them is forgotten.

    >>> digest, doubts = fingerprint({"clients": 3}, [0.1, 0.2])
    >>> len(digest), doubts
    (64, ())
    """
    content = _Content(made, seeded, apart, cloned)
    for part in parts:
        content.add(part)
    contents = None if files is None else file_contents(files)
    if contents is not None:
        content.add(("files", contents))
    read = [what for what, is_file in content.reads.items() if reads and not (is_file and contents)]
    doubts = dict.fromkeys([*content.doubts, *read, *content.draws])
    return content.sha.hexdigest(), tuple(doubts)


class _Content:
    """Writes plain data into a hash. Stores hold digests made by it: what it writes must never change."""

    def __init__(self, made: bool, seeded: Collection[str] | None, apart: bool, cloned: bool) -> None:
        self.sha = hashlib.sha256()
        self.made = made
        self.seeded = seeded
        self.apart = apart
        self.cloned = cloned
        self.doubts: list[str] = []
        self.reads: dict[str, bool] = {}
        self.draws: list[str] = []

    def write(self, *texts: str) -> None:
        for text in texts:
            data = text.encode("utf-8", "surrogatepass")
            self.sha.update(b"%d:" % len(data) + data)

    def add(self, value: Any) -> None:
        if callable(value):  # a dict or a named tuple that can be called is code as well
            self.add_code(value)
        elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self.write(type(value).__name__, repr(value))
        elif isinstance(value, (list, tuple)):
            self.write("sequence", str(len(value)))
            for item in value:
                self.add(item)
        elif isinstance(value, (set, frozenset)):
            self.write("set", *sorted(fingerprint(item)[0] for item in value))
        elif isinstance(value, Mapping):
            self.write("mapping", str(len(value)))
            for key in sorted(value, key=repr):
                self.add(key)
                self.add(value[key])
        elif isinstance(value, PurePath):
            self.write("path", str(value))
        elif is_array(value):
            self.add_array(value)
        else:
            self.add_code(value)

    def add_array(self, value: Any) -> None:
        import numpy as np

        array = np.asarray(value)
        content = array_content(array)
        if content is None:
            self.add(array.tolist())
            return
        kind, shape, data = content
        self.write("array", kind, shape)
        self.sha.update(data)

    def add_code(self, value: Any) -> None:
        from fedvalue.store.identity._objects import (
            Inspector,
        )  # imports a lot, and most games need none of it

        inspector = Inspector(made=self.made, cloned=self.cloned)
        self.write("code", inspector.look(value, type(value).__name__))
        mentions = inspector.code.mentions
        if around := mentions.content():
            self.write("surroundings", *around)
        self.doubts += [*inspector.code.doubts, *mentions.doubts(self.apart)]
        self.reads |= inspector.code.reads
        self.draws += [] if self.seeded is None else inspector.code.draws(self.seeded)
