"""Agreements: what a run will be, with the signatures of operator and members, made before it."""

from fedvalue.agreement._agreement import (
    Agreement,
    Party,
    PayoutTerms,
    new_agreement,
    read_agreement,
)
from fedvalue.agreement._canonical import canonical, digest_of
from fedvalue.agreement._differences import differences
from fedvalue.agreement._keys import make_key, public_line, read_public_line
from fedvalue.agreement._signatures import Signature, message_of, signature_of, signatures_from

__all__ = [
    "Agreement",
    "Party",
    "PayoutTerms",
    "Signature",
    "canonical",
    "differences",
    "digest_of",
    "make_key",
    "message_of",
    "new_agreement",
    "public_line",
    "read_agreement",
    "read_public_line",
    "signature_of",
    "signatures_from",
]
