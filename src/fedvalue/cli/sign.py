"""`fedvalue sign`: a signature under the files of a run."""

from __future__ import annotations

from fedvalue.cli._console import busy, say
from fedvalue.cli._options import KeyOption, RunArgument

__all__ = ["sign"]


def sign(run: RunArgument, key: KeyOption) -> None:
    """Sign the files of a run, after checking them.

    These are values, record, payouts and reports, and the rows of the store up to the head of its chain. Digests and
    signatures go to evidence.json in the same folder. The others may sign, too, to say that they accept the results.
    """
    from fedvalue.evidence import sign as put_signature

    with busy("verifying"):
        file = put_signature(run, key)
    say(f"Written to {file}. Files that are written later are not covered: sign again then.")
