"""Identity: what a store recognises a game by. Data by its content, code by its source text and what it refers to."""

from fedvalue.store.identity._files import FileNames
from fedvalue.store.identity._plain import fingerprint

__all__ = ["FileNames", "fingerprint"]
