"""What a node states of one message: which models came, by which rules they were trained or measured, and what became of them."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedvalue.agreement import Signature, canonical, message_of, signature_of
from fedvalue.store import fingerprint

__all__ = ["Reply", "digest_of_bytes", "digest_of_metrics", "origin_of", "test_at_nodes"]

_FORMAT = "fedvalue.reply/2"
_BYTES = 24  # of a SHA-256 digest that are kept for each model: enough that nobody finds two models with the same ones


@dataclass(frozen=True)
class Reply:
    """One reply to one message. `kind` is train or evaluate, `game` the server's name for data, model and rules.

    `data` is the fingerprint of the node's rows, `learner` and `training` are model and rules as the node has checked them.
    `seeds` has a number for each model that was sent, `sent` and `back` are digests, also one for each; where a client trains
    all rounds by itself (`alone`), the models after the first and the last come back. Where models were measured, `origins` say for
    each of which local models it is the mean (see `origin_of`; where one model has several origins, all of them, with spaces),
    `test` is the fingerprint of the `test_rows` held-out rows, and `blocks` the digest of what blocks of them said.
    """

    kind: str
    game: str
    data: str
    learner: str
    training: str
    round: int
    alone: bool
    seeds: tuple[int, ...]
    sent: tuple[str, ...]
    back: tuple[str, ...]
    blocks: str = ""
    origins: tuple[str, ...] = ()
    test: str = ""
    test_rows: int = 0

    @property
    def statement(self) -> dict[str, Any]:
        """What is signed, as plain data."""
        return {"format": _FORMAT, **asdict(self)}

    def signed(self, key: Path) -> Signature:
        """The signature of the owner of a private key."""
        return signature_of(self.statement, key)

    def is_signed(self, key: str, signature: str) -> bool:
        """Whether the owner of a public key has signed just this."""
        return Signature(key, signature).fits(message_of(self.statement))


def digest_of_bytes(digest: bytes | None) -> str:
    """A digest as it is written down; nothing for a model with numbers that are not finite."""
    return "" if digest is None else base64.urlsafe_b64encode(digest[:_BYTES]).decode()


def digest_of_metrics(metrics: Mapping[str, float]) -> str:
    """By which it is recognised what a node has measured of a model.

    >>> digest_of_metrics({"accuracy": 0.5})
    'Fn4OhekRA-EpcVNeqCTOe0Bmv6EV-1p_'
    """
    if not all(map(math.isfinite, metrics.values())):
        return ""
    return digest_of_bytes(sha256(canonical(metrics)).digest())


def origin_of(trained: Iterable[tuple[str, str]]) -> str:
    """By which it is recognised whose local models of the last round a final model is the mean of: of each member the
    fingerprint of its rows and the digest of its model, "" where the member signs nothing. It tells nobody who they are who does
    not have all of these.

    >>> origin_of([("a", "1"), ("b", "2")]) == origin_of([("b", "2"), ("a", "1")])
    True
    """
    return digest_of_bytes(sha256(canonical({"trained": sorted(map(list, trained))})).digest())


def test_at_nodes(held_out: Sequence[tuple[int, str]]) -> str:
    """The fingerprint of a test set that is in parts at the nodes: of each the number of its rows and their fingerprint."""
    return fingerprint("held out at the nodes", [tuple(part) for part in held_out])[0]
