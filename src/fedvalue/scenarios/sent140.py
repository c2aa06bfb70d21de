"""Sentiment140: tweets, positive or negative; the clients are groups of users."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._build import Ask, Parts, Pool
from fedvalue.scenarios._checks import stream, whole
from fedvalue.scenarios._partition import Rows, by_owner
from fedvalue.scenarios._sources import Files
from fedvalue.scenarios._words import ids_of, tokens, vocabulary_of

__all__ = ["HOW", "NEEDS", "build"]

NEEDS = ("sent140/sent140_by_user.csv.gz", "sent140/sent140_random.csv.gz")
HOW = (
    "put two UTF-8 tables with the columns user,tweet_id,label,date,text (label 1 positive, 0 negative) "
    "under these names into one of these folders: the first is shared out by user, the second is the test set"
)


def build(ask: Ask, *, vocabulary: int = 5000, length: int = 32, users: int | None = None) -> Pool:
    """Tweets as `length` token ids; the most frequent words of the clients' tweets have ids of their own.

    All users are dealt out at random, or `users` to each client. The test tweets are a random sample
    of the whole collection, less those of users who are in the training file.
    """
    size = whole("vocabulary", vocabulary, 3)
    width = whole("length", length, 1)
    each = None if users is None else whole("users", users, 1)
    files = Files(NEEDS, ask.data_dir, HOW)
    owner, y, texts = _read(files.read(NEEDS[0]), NEEDS[0])
    test_owner, test_y, test_texts = _read(files.read(NEEDS[1]), NEEDS[1])
    strangers = np.flatnonzero(~np.isin(test_owner, owner))

    def encode(rows: Rows, test_rows: Rows) -> tuple[NDArray[Any], NDArray[Any], int]:
        words = [tokens(texts[row]) for row in rows]
        known = vocabulary_of(words, size)
        test_words = [tokens(test_texts[strangers[row]]) for row in test_rows]
        return ids_of(words, known, width), ids_of(test_words, known, width), len(known) + 2

    return Pool(
        "sent140",
        y,
        test_y[strangers],
        encode,
        classes=2,
        natural=lambda: _by_user(owner, ask, each),
        details={"sources": files.sources, "class_names": ["negative", "positive"]},
    )


def _by_user(owner: NDArray[np.int64], ask: Ask, each: int | None) -> Parts:
    rows, owned = by_owner(owner, ask.clients or 1, stream(ask.seed, "users"), each=each, kind="user")
    names = [f"user-{who[0]}" if len(who) == 1 else f"users-{i}" for i, who in enumerate(owned)]
    return Parts(rows, names)


def _read(content: bytes, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8", "replace"), newline="")))
    try:
        owner = np.asarray([int(row["user"]) for row in rows], dtype=np.int64)
        labels = np.asarray([int(row["label"]) for row in rows], dtype=np.int64)
        texts = [str(row["text"]) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise ScenarioError(
            f"{name} must have the columns user, label (0 or 1) and text. {type(error).__name__}: {error}."
        ) from error
    return owner, labels, texts
