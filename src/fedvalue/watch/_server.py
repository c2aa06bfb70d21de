"""Serves the page over HTTP, with events that carry what has changed. It answers GET alone, and needs no other package.

On this machine alone by default. On any other address, or if wanted, whoever asks must know a random token. The Host header
must be one that this server has: a page of somebody else whose name was made to lead here is refused.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import socket
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fedvalue._text import shortened
from fedvalue._version import __version__
from fedvalue.errors import InputError
from fedvalue.watch._page import page, script, style
from fedvalue.watch._watcher import Watcher

__all__ = ["WatchServer"]

_BEAT = 10.0  # seconds between signs of life on a stream where nothing changes
_SECONDS = 30.0  # that a viewer may take to ask or to listen
_MOST_STREAMS = 64
_MOST_CONNECTIONS = 256  # those of strangers count: with no file left to open, the store could not be read
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class WatchServer(ThreadingHTTPServer):
    """A server for one target; `address` is what to open. Without a `port`, any that is free."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, watcher: Watcher, host: str = "127.0.0.1", port: int = 0, token: bool = False) -> None:
        self.watcher = watcher
        self.host = host
        self.token = secrets.token_urlsafe(24) if token or not _is_loopback(host) else None
        self.streams = threading.BoundedSemaphore(_MOST_STREAMS)
        self.connections = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self.title = f"Watching {shortened(watcher.target.resolve().name, 60)}"
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InputError(
                f"Cannot serve on {host}, port {port}: {getattr(error, 'strerror', None) or error}. Choose another --port, or an "
                "address of this machine as --host."
            ) from error

    def server_bind(self) -> None:
        """As `TCPServer` does it: the one of `http.server` asks the network for a name first."""
        socket.socket.bind(self.socket, self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.host, int(self.server_address[1])

    @property
    def query(self) -> str:
        """What addresses carry."""
        return "" if self.token is None else f"?token={self.token}"

    @property
    def address(self) -> str:
        """What to open in a browser."""
        name = socket.gethostname() if self.host in ("0.0.0.0", "::", "") else self.host
        return f"http://{f'[{name}]' if ':' in name else name}:{self.server_port}/{self.query}"

    def is_own_host(self, header: str) -> bool:
        """Whether a Host header names this server. An address in numbers cannot be made to lead elsewhere."""
        name = urlsplit(f"//{header}").hostname or ""
        if _is_loopback(self.host):
            return name in _LOOPBACK or name == self.host.lower()
        return name in {self.host.lower(), socket.gethostname().lower(), *_LOOPBACK} or _is_number(name)

    def knows(self, query: str) -> bool:
        """Whether a request carries the token."""
        given = parse_qs(query).get("token", [""])[0]
        return self.token is None or hmac.compare_digest(given.encode(), self.token.encode())

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a thread of its own; where too many are being answered, not at all."""
        if not self.connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.connections.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers one."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A viewer that goes away is no error of the server's."""


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    timeout = _SECONDS
    server_version, sys_version = f"fedvalue/{__version__}", ""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        try:
            is_own = self.server.is_own_host(self.headers.get("Host", ""))
        except ValueError:
            is_own = False
        if not is_own:
            self._refuse(
                HTTPStatus.MISDIRECTED_REQUEST,
                "This server has another name than the one that was asked for.",
            )
        elif not self.server.knows(asked.query):
            self._refuse(
                HTTPStatus.FORBIDDEN, "Open the address that fedvalue watch has printed: it carries a token."
            )
        elif asked.path == "/":
            parts = self.server.watcher.parts()[1]
            self._answer("text/html", page(parts, self.server.title, self.server.query))
        elif asked.path == "/watch.css":
            self._answer("text/css", style())
        elif asked.path == "/watch.js":
            self._answer("text/javascript", script())
        elif asked.path == "/events":
            self._stream()
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "There is nothing at this address.")

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: addresses carry the token."""

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._answer("text/plain", f"{why}\n", status)

    def _answer(self, kind: str, text: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        content = text.encode()
        self._begin(status, {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content))})
        if self.command != "HEAD":
            self.wfile.write(content)

    def _begin(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, text in {**_HEADERS, **headers}.items():
            self.send_header(name, text)
        self.end_headers()

    def _stream(self) -> None:
        """Events until the viewer goes: the sections whenever one has changed."""
        if self.command == "HEAD" or not self.server.streams.acquire(blocking=False):
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"At most {_MOST_STREAMS} pages are kept up to date at a time.",
            )
            return
        try:
            self._begin(HTTPStatus.OK, {"Content-Type": "text/event-stream; charset=utf-8"})
            with self.server.watcher.viewer():
                self._send_events(self.server.watcher)
        except OSError:
            pass  # the viewer has gone
        finally:
            self.server.streams.release()

    def _send_events(self, watcher: Watcher) -> None:
        sent, (version, parts) = -1, watcher.parts()
        while not watcher.is_stopped:
            if version != sent:
                data = json.dumps(list(parts.items()))  # on one line, as an event has it
                self.wfile.write(f"data: {data}\n\n".encode())
            else:
                self.wfile.write(b": still here\n\n")
            self.wfile.flush()
            sent = version
            version, parts = watcher.wait(sent, _BEAT)


def _is_loopback(host: str) -> bool:
    return host.lower() == "localhost" or (_is_number(host) and ipaddress.ip_address(host).is_loopback)


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
