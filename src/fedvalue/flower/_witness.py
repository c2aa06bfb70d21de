"""Replies under the signatures of nodes: what is signed, checked as soon as it comes, and written into the book.

Flower has every node sign its requests with the key that it is registered with, an ECDSA key, and nobody but the SuperLink sees that.
So nodes have a second key, Ed25519 as in agreements, whose signatures others can check from files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from fedvalue.coalitions import Trial
from fedvalue.flower._arrays import Arrays, row_digest, rows_of
from fedvalue.flower._wire import RecordDict, WireError, settings_of
from fedvalue.replies import Book, Reply, Sitting, digest_of_bytes, digest_of_metrics

__all__ = ["ORIGINS", "SIGNATURE", "Witness", "block_digest", "model_digests", "reply_of"]

SIGNATURE = "signature"  # in the settings of a reply
ORIGINS = "origins"  # in the settings of a message with models to measure


def model_digests(models: Arrays) -> tuple[str, ...]:
    """A digest for each of these models."""
    return tuple(digest_of_bytes(row_digest(models, row)) for row in range(rows_of(models)))


def block_digest(blocks: Mapping[str, Any]) -> str:
    """A digest of what blocks of rows say, by metric; nothing where they say nothing."""
    digest = sha256()
    for name in sorted(blocks):
        digest.update(name.encode() + np.ascontiguousarray(blocks[name], np.float64).tobytes())
    return digest_of_bytes(digest.digest()) if blocks else ""


def reply_of(
    kind: str,
    settings: Mapping[str, Any],
    sent: Sequence[str],
    back: Sequence[str],
    blocks: str = "",
    test: tuple[int, str] = (0, ""),
) -> Reply:
    """What is stated of a message with these settings: both sides have them, so the signature is all that travels. `test` is the
    number of the held-out rows, and their fingerprint.
    """
    training = str(settings["training"])
    seeds = settings.get("seeds") or [json.loads(training)["seed"]] * len(sent)
    return Reply(
        kind.split(".")[0],
        str(settings["game"]),
        str(settings["data"]),
        str(settings["learner"]),
        training,
        int(settings["round"]),
        bool(settings["alone"]),
        tuple(seeds),
        tuple(sent),
        tuple(back),
        blocks,
        tuple(map(str, settings.get(ORIGINS) or ())),
        test[1],
        test[0],
    )


class Witness:
    """Refuses replies that a client with a known key has not signed, and keeps the signatures of the others.

    `keys` are the clients' public keys, "" for one that has none and need not sign. Without a `book` nothing is kept.
    """

    def __init__(self, keys: Sequence[str], book: Book | None = None, sitting: Sitting | None = None) -> None:
        self.keys = tuple(keys)
        self.book = book
        self.sitting = sitting
        self._origins: dict[str, str] = {}  # of the models that are measured now, by their digests
        if book is not None and sitting is not None:
            book.begin(sitting)

    def trained(
        self, kind: str, client: int, question: RecordDict, answer: RecordDict, sent: Arrays, back: Arrays
    ) -> None:
        """A reply with models. Only as many of those `sent` were in the message as its settings say."""
        settings = settings_of(question)
        rows = {name: array[: settings["rows"]] for name, array in sent.items()}
        self._check(client, reply_of(kind, settings, model_digests(rows), model_digests(back)), answer)

    def measured(
        self,
        kind: str,
        client: int,
        question: RecordDict,
        answer: RecordDict,
        sent: Arrays,
        metrics: Sequence[Mapping[str, float]],
        blocks: Mapping[str, Any],
        test: tuple[int, str],
    ) -> None:
        """A reply with the metrics of models, measured on so many held-out rows with this fingerprint."""
        back = [digest_of_metrics(of_model) for of_model in metrics]
        settings, told = settings_of(question), block_digest(blocks)
        reply = reply_of(kind, settings, model_digests(sent), back, told, test)
        self._check(client, reply, answer)

    def sends(self, t: int, models: Iterable[tuple[Trial, int, bytes | None]]) -> None:
        """Whose models they are that go out in round t, with the seed of each."""
        if self.book is not None and self.sitting is not None:
            told = ((trial, seed, digest_of_bytes(digest)) for trial, seed, digest in models if digest)
            self.book.add_models(self.sitting.game, t, told)

    def measures(self, rounds: int, models: Iterable[tuple[Trial, int, bytes | None]]) -> None:
        """Whose models they are that are measured after the last round: they go out in one round more, with their origins."""
        models = list(models)
        self.sends(rounds + 1, models)
        if self.book is not None and self.sitting is not None:
            origins: dict[str, set[str]] = {}
            for trial, seed, digest in models:
                origin = self.book.origin(self.sitting.game, trial, seed, rounds, self.sitting.data)
                origins.setdefault(digest_of_bytes(digest), set()).add(origin)
            self._origins = {digest: " ".join(sorted(of)) for digest, of in origins.items()}

    def origins(self, models: Arrays) -> list[str]:
        """Of which local models these are the means; "" for a model that was not trained."""
        return [self._origins.get(digest, "") for digest in model_digests(models)]

    def _check(self, client: int, reply: Reply, answer: RecordDict) -> None:
        key = self.keys[client]
        if not key:
            return
        signature = settings_of(answer).get(SIGNATURE)
        if not isinstance(signature, str):
            raise WireError("sent a reply without a signature, and its key for signing is known")
        if not reply.is_signed(key, signature):
            raise WireError(
                "sent a reply whose signature does not fit: it was made with another key, or under something else"
            )
        if self.book is not None:
            self.book.add_reply(client, reply, signature)
