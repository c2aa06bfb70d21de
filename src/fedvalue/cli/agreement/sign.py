"""`fedvalue agreement sign`: one more signature."""

from __future__ import annotations

from fedvalue._text import listed
from fedvalue.cli._console import say
from fedvalue.cli._options import AgreementArgument, KeyOption

__all__ = ["sign"]

_NAMED = 8


def sign(file: AgreementArgument, key: KeyOption) -> None:
    """Sign an agreement with the private key of a party. Read it first: `fedvalue agreement show`.

    All sign the same file, one after the other. Where there are several copies, everyone signs each of them.
    """
    from fedvalue.agreement import read_agreement

    agreement = read_agreement(file).sign(key)
    agreement.save(file)
    left = agreement.unsigned
    say(
        f"Signed {agreement.hash}. "
        + (f"Missing: {listed(list(left), _NAMED)}." if left else "All have signed.")
    )
