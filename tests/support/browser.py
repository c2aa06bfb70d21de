"""A real browser, driven over a pipe by the DevTools protocol: what a page shows, says and asks for.

Debian's chromium or any of its relatives; nothing to install besides. The browser has a fresh profile, and ends
with the `with` block.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Browser", "find_browser"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SECONDS = 60.0
_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


def find_browser() -> str | None:
    """The first browser on the path."""
    return next((path for path in map(shutil.which, _NAMES) if path), None)


class Browser:
    """One page at a time. `messages` are what its console got, `requests` the addresses that it asked for."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [program, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        # The protocol wants 3 and 4; a shell puts them there, whatever the pipes are called here.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._last, self._buffer = 0, b""
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._write)  # the browser ends with its pipe
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)

    def open(
        self,
        page: Path | str,
        width: int,
        height: int = 900,
        dark: bool = False,
        medium: str = "",
    ) -> None:
        """Shows a file, or what is at an address, on a screen of this size, or as it is laid out for another medium, and waits
        until it is there.
        """
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", media=medium, features=[scheme])
        self._events.clear()
        self._ask("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        self._wait("Page.loadEventFired")
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def evaluate(self, script: str) -> Any:
        """What an expression gives in the page."""
        found = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """A key of the keyboard, such as Tab or Enter."""
        text = {"Enter": "\r"}.get(key, "")
        code = {"Enter": 13, "Tab": 9}[key]
        for kind in ("keyDown", "keyUp"):
            self._ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **({"text": text} if text and kind == "keyDown" else {}),
            )

    def picture(self, whole: bool = True) -> bytes:
        """The page as PNG."""
        return base64.b64decode(
            self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        )

    def print(self) -> bytes:
        """The page as PDF, on the paper and with the margins that it asks for."""
        return base64.b64decode(
            self._ask("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"]
        )

    @property
    def messages(self) -> list[str]:
        """What went to the console: errors, warnings, violations of the page's own policy."""
        logged = [e["params"]["entry"]["text"] for e in self._events if e["method"] == "Log.entryAdded"]
        raised = [
            str(e["params"]) for e in self._events if e["method"].startswith(("Runtime.exc", "Runtime.con"))
        ]
        return logged + raised

    @property
    def requests(self) -> list[str]:
        """Everything that was asked for, the page itself included."""
        sent = [e for e in self._events if e["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def _wait(self, method: str) -> None:
        while not any(event["method"] == method for event in self._events):
            self._receive()

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "the browser has ended"
            self._buffer += chunk
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._events.append(message)
        return message
