"""`fedvalue flower deploy`: everything for a federation over the internet, in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedvalue.cli._console import say
from fedvalue.cli._pairs import names
from fedvalue.errors import InputError

__all__ = ["deploy"]


def deploy(
    folder: Annotated[Path, typer.Argument(help="New folder; with --renew, that of a deployment.")],
    host: Annotated[
        str | None, typer.Option(help="Name or address by which the clients reach this machine.")
    ] = None,
    clients: Annotated[
        str | None, typer.Option(help="Names of the clients, with commas between them.", metavar="NAMES")
    ] = None,
    client: Annotated[
        list[str] | None, typer.Option(help="One client's name, if it has a comma in it; may be repeated.")
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option(help="Another name or address of this machine; may be repeated.")
    ] = None,
    listen: Annotated[
        str, typer.Option(help="Address that the proxy listens on; [::] for IPv6, too.")
    ] = "0.0.0.0",
    port: Annotated[int, typer.Option(help="Port of the proxy.")] = 443,
    link_port: Annotated[int, typer.Option(help="Port of the SuperLink, on the loopback interface.")] = 8000,
    home: Annotated[
        str | None, typer.Option(help="Where the folder will lie on the operator's machine. [default: here]")
    ] = None,
    user: Annotated[str, typer.Option(help="Account of SuperLink and proxy.")] = "fedvalue",
    client_home: Annotated[
        str, typer.Option(help="Folder of a client's programs and files.")
    ] = "/opt/fedvalue",
    days: Annotated[int, typer.Option(help="Days that the server's certificate is valid.")] = 365,
    renew: Annotated[
        bool, typer.Option("--renew", help="Only make another key and certificate for the server.")
    ] = False,
) -> None:
    """Write certificates, proxy, services, an app and a folder for each client: a deployment that is safe."""
    from fedvalue.flower import deploy as write_deployment
    from fedvalue.flower import renew as renew_certificate

    if renew:
        until = renew_certificate(folder, days)
        say(f"The server has another certificate, valid until {until:%Y-%m-%d}. Restart SuperLink and proxy.")
        return
    everyone = [*names(clients or ""), *(client or ())]
    if host is None or not everyone:
        raise InputError(
            'A deployment needs --host and --clients, such as --host link.example.org --clients "Hospital A,Hospital B".'
        )
    deployment = write_deployment(
        folder,
        host,
        everyone,
        days=days,
        also=tuple(also or ()),
        listen=listen,
        port=port,
        link_port=link_port,
        home=home,
        user=user,
        client_home=client_home,
    )
    say(f"{folder} is a deployment for {len(everyone)} clients, who will connect to {deployment.address}.")
    say(f"{folder / 'CHECKLIST.md'} says what to do, and how to check each step.")
    say(f"{folder / 'clients'} has a folder to give to each client. Nothing in there is secret.")
    say(f"{folder / 'private'} has the keys of authority and operator. Move ca.key off this machine.")
