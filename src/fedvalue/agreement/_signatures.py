"""Who has signed what: plain data with the signatures of parties under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedvalue.agreement._canonical import canonical
from fedvalue.agreement._keys import is_signed_by, sign_with

__all__ = ["Signature", "message_of", "signature_of", "signatures_from"]


@dataclass(frozen=True)
class Signature:
    """A signature in Base64, and the public key that it is to be checked with."""

    key: str
    signature: str

    def fits(self, message: bytes) -> bool:
        """Whether the owner of the key has signed the message."""
        return is_signed_by(self.key, self.signature, message)

    def to_dict(self) -> dict[str, str]:
        """Plain data for JSON."""
        return asdict(self)


def message_of(data: Mapping[str, Any]) -> bytes:
    """What is signed: the format first, so that a signature under one thing never passes for one under another."""
    return f"{data['format']}\n".encode() + canonical(data)


def signature_of(data: Mapping[str, Any], key: Path) -> Signature:
    """The signature of the owner of a private key."""
    return Signature(*sign_with(key, message_of(data)))


def signatures_from(data: Any) -> tuple[Signature, ...]:
    """Signatures as they are written in a file; anything else is a ValueError."""
    if not isinstance(data, Sequence) or isinstance(data, str):
        raise ValueError("signatures must be a list")
    found = tuple(Signature(**one) for one in data)
    if not all(isinstance(part, str) for one in found for part in (one.key, one.signature)):
        raise ValueError("a signature is not text")
    return found
