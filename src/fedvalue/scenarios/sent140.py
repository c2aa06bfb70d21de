"""Sentiment140: tweets, positive or negative; the clients are groups of users."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._build import Ask, Parts, Pool
from fedvalue.scenarios._checks import stream, whole
from fedvalue.scenarios._partition import Rows, by_owner
from fedvalue.scenarios._sources import Files

__all__ = ["HOW", "NEEDS", "PADDING", "UNKNOWN", "build", "tokens", "vocabulary_of"]

NEEDS = ("sent140/sent140_by_user.csv.gz", "sent140/sent140_random.csv.gz")
HOW = (
    "put two UTF-8 tables with the columns user,tweet_id,label,date,text (label 1 positive, 0 negative) "
    "under these names into one of these folders: the first is shared out by user, the second is the test set"
)
PADDING, UNKNOWN = 0, 1
_TOKEN = re.compile(r"https?://\S+|www\.\S+|@\w+|[^\W\d_]+(?:'[^\W\d_]+)*|\d+|[!?]+|[:;=][-']?[()dp]")


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
        return _ids(words, known, width), _ids(test_words, known, width), len(known) + 2

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


def tokens(text: str) -> list[str]:
    """Lower-case words, numbers, !, ? and emoticons; addresses and names of users become one word each.

    >>> tokens("@bob LOVED it!! see http://x.y :)")
    ['<user>', 'loved', 'it', '!!', 'see', '<url>', ':)']
    """
    return [
        "<user>" if word[0] == "@" else "<url>" if word.startswith(("http", "www.")) else word
        for word in _TOKEN.findall(text.lower())
    ]


def vocabulary_of(texts: Sequence[Sequence[str]], size: int) -> dict[str, int]:
    """The most frequent words with ids from 2 on, so that with padding and unknown there are `size`.

    >>> vocabulary_of([["b", "a"], ["b"]], 10)
    {'b': 2, 'a': 3}
    """
    counts = Counter(word for text in texts for word in text)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: i for i, word in enumerate(ranked[: size - 2], start=2)}


def _ids(texts: Sequence[Sequence[str]], known: dict[str, int], length: int) -> NDArray[np.int64]:
    ids = np.full((len(texts), length), PADDING, dtype=np.int64)
    for row, text in enumerate(texts):
        found = [known.get(word, UNKNOWN) for word in text[:length]] or [UNKNOWN]  # never padding only
        ids[row, : len(found)] = found
    return ids


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
