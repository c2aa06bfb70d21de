"""Text as token ids: which words there are, and which of them have an id of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["PADDING", "UNKNOWN", "ids_of", "tokens", "vocabulary_of"]

PADDING, UNKNOWN = 0, 1
_TOKEN = re.compile(r"https?://\S+|www\.\S+|@\w+|[^\W\d_]+(?:'[^\W\d_]+)*|\d+|[!?]+|[:;=][-']?[()dp]")


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


def ids_of(texts: Sequence[Sequence[str]], known: Mapping[str, int], length: int) -> NDArray[np.int64]:
    """A row of so many ids for each text, cut off or filled up with padding.

    >>> ids_of([["a", "c"]], {"a": 2}, 3).tolist()
    [[2, 1, 0]]
    """
    ids = np.full((len(texts), length), PADDING, dtype=np.int64)
    for row, text in enumerate(texts):
        found = [known.get(word, UNKNOWN) for word in text[:length]] or [UNKNOWN]  # never padding only
        ids[row, : len(found)] = found
    return ids
