"""CHECKLIST.md of a deployment. The operator ticks it off; its part about the clients follows the roster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedvalue.errors import InputError
from fedvalue.flower._registered import RegisteredClient
from fedvalue.flower.deployment._texts import folder_of, text_of

__all__ = ["CHECKLIST", "clients_part", "renew_clients_part"]

CHECKLIST = "CHECKLIST.md"
_BEGIN, _END = "## Clients\n", "## Value\n"


def clients_part(clients: Sequence[RegisteredClient]) -> str:
    """What is to be done for each client, done where its key is registered, up to the next heading."""
    folders = [(client, folder_of(client.name, place)) for place, client in enumerate(clients)]
    return text_of("clients.md", clients=folders, here=sum(not client.left for client in clients))


def renew_clients_part(folder: Path, clients: Sequence[RegisteredClient]) -> None:
    """Writes that part again and nothing else: what was ticked elsewhere stays, and so does a list of the operator's own."""
    path = folder / CHECKLIST
    try:
        text = path.read_text(encoding="utf-8")
        before, begin, rest = text.partition(_BEGIN)
        _, end, after = rest.partition(_END)
        if begin and end:
            path.write_text(f"{before}{begin}{clients_part(clients)}{end}{after}", encoding="utf-8")
    except FileNotFoundError:  # it has served its turn
        return
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"Cannot write the clients into {path}: {error}. All else is done; mend or remove the file."
        ) from error
