"""The page over HTTP: who gets it, what is in it, and that names are nothing but names."""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path

import pytest
from watched import HOSTILE, HeldRun, served, table_run

from fedvalue.errors import InputError
from fedvalue.outcome import Outcome
from fedvalue.store import UtilityStore
from fedvalue.watch import Watcher, WatchServer


def ask(
    server: WatchServer, path: str = "/", method: str = "GET", headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str], str]:
    """Status, headers and content."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return (
            answer.status,
            {name.lower(): text for name, text in answer.getheaders()},
            answer.read().decode(),
        )
    finally:
        connection.close()


class Stream:
    """The events of a page, one after the other."""

    def __init__(self, server: WatchServer) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        self._connection.request("GET", f"/events{server.query}")
        self._answer = self._connection.getresponse()
        assert self._answer.getheader("Content-Type", "").startswith("text/event-stream")

    def __iter__(self) -> Iterator[dict[str, str]]:
        while line := self._answer.readline():
            if line.startswith(b"data: "):
                yield dict(json.loads(line[6:]))

    def close(self) -> None:
        self._connection.close()


class Tags(HTMLParser):
    """Every element of a page, its attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "my.db"
    table_run(path, ["Aachen", "Bern"], [0.0, 1.0, 2.0, 4.0])
    return path


def test_the_page_and_what_it_needs(store: Path) -> None:
    with served(store) as server:
        status, headers, page = ask(server)
        assert (status, server.token) == (200, None)
        assert server.address == f"http://127.0.0.1:{server.server_port}/"
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none';")
        assert "unsafe" not in policy
        assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "no-referrer")
        assert "Aachen" in page
        wanted = [a.get("src") or a.get("href") for tag, a in Tags(page).found if tag in ("script", "link")]
        assert wanted == ["data:,", "watch.css", "watch.js"]
        for name, kind in (("watch.css", "text/css"), ("watch.js", "text/javascript")):
            status, headers, content = ask(server, f"/{name}")
            assert (status, headers["content-type"]) == (200, f"{kind}; charset=utf-8")
            assert "http" not in content
        assert ask(server, "/other")[0] == 404
        assert ask(server, "/../my.db")[0] == 404
        assert ask(server, "/", "POST")[0] == 501
        assert ask(server, "/", "HEAD")[2] == ""


def test_nothing_in_the_page_is_inline(store: Path) -> None:
    with served(store) as server:
        found = Tags(ask(server)[2]).found
    assert [a for tag, a in found if any(name.startswith("on") or name == "style" for name in a)] == []
    assert [tag for tag, a in found if tag == "style" or (tag == "script" and "src" not in a)] == []


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "[::1", "localhost.evil"]
)
def test_another_host_is_refused(store: Path, host: str) -> None:
    with served(store) as server:
        for path in ("/", "/events", "/watch.js"):
            status, _, content = ask(server, path, headers={"Host": host})
            assert status == 421
            assert "Aachen" not in content
        for own in ("localhost:1", "127.0.0.1", f"LOCALHOST:{server.server_port}", "[::1]:80"):
            assert ask(server, headers={"Host": own})[0] == 200


def test_without_the_token_nothing_is_told(store: Path) -> None:
    with served(store, token=True) as server:
        assert server.token is not None
        assert len(server.token) >= 32
        assert server.address.endswith(f"/?token={server.token}")
        for query in (
            "",
            "?token=",
            "?token=wrong",
            f"?token={server.token[:-1]}",
            f"?token={server.token}x",
            "?token=%ff",
        ):
            for path in ("/", "/events", "/watch.css", "/watch.js", "/other"):
                status, _, content = ask(server, path + query)
                assert status == 403
                assert server.token not in content
        page = ask(server, f"/{server.query}")[2]
        addresses = [
            a[name] for _, a in Tags(page).found for name in ("src", "href", "data-events") if a.get(name)
        ]
        assert sorted(str(a) for a in addresses if not str(a).startswith(("#", "data:"))) == [
            f"events{server.query}",
            f"watch.css{server.query}",
            f"watch.js{server.query}",
        ]
        for address in addresses[1:]:
            if not str(address).startswith(("#", "data:", "events")):
                assert ask(server, f"/{address}")[0] == 200


def test_beyond_this_machine_a_token_is_not_a_choice(store: Path) -> None:
    with served(store, host="0.0.0.0") as server:
        assert server.token is not None
        assert socket.gethostname() in server.address
        assert ask(server)[0] == 403
        assert ask(server, f"/{server.query}")[0] == 200
        assert ask(server, f"/{server.query}", headers={"Host": "10.0.0.7:8765"})[0] == 200
        assert ask(server, f"/{server.query}", headers={"Host": "evil.example"})[0] == 421


def test_a_port_that_is_taken_and_a_host_that_is_not_here(store: Path) -> None:
    with Watcher(store) as watcher, WatchServer(watcher) as first:
        for options in ({"port": first.server_port}, {"host": "192.0.2.1"}):
            with pytest.raises(InputError, match="Cannot serve on"):
                WatchServer(watcher, **options)  # type: ignore[arg-type]


def test_hostile_names_are_names(tmp_path: Path) -> None:
    table_run(
        tmp_path / "my.db", [name for name in HOSTILE if name.isprintable()], [float(m) for m in range(32)]
    )
    with UtilityStore(tmp_path / "my.db") as made:  # a store that others have made may hold any name
        made.register("</section><script>", len(HOSTILE), {"names": list(HOSTILE)})
        full = (1 << len(HOSTILE)) - 1
        made.append(
            "</section><script>", [(mask, Outcome({"</td>|<b>": mask / 7})) for mask in (0, 1, 33, full)]
        )
    with served(tmp_path / "my.db") as server:
        stream = Stream(server)
        for parts in stream:
            if "Being computed" not in "".join(parts.values()):
                break
        stream.close()
        page = ask(server)[2]
    for html in (page, *parts.values()):
        found = Tags(html)
        assert "b" not in [tag for tag, a in found.found if a]
        assert not {"img", "bad"} & {tag for tag, _ in found.found}
        assert all(a.get("src", "watch.js") == "watch.js" for _, a in found.found)
        assert not [a for _, a in found.found if any(name.startswith("on") for name in a)]
        assert not re.search(r"[\x00\x1b\u202e]", html)
        assert "62615533" not in found.text  # the product: the time of day has no such number
    assert "</bdi></table><script>" in Tags(page).text


@pytest.mark.slow
def test_what_is_stored_is_on_the_page_within_two_seconds(tmp_path: Path) -> None:
    with UtilityStore(tmp_path / "my.db") as store, served(tmp_path / "my.db") as server:
        store.register("g", 3, {"names": ["a", "b", "c"]})
        streams = [Stream(server), Stream(server)]  # two viewers
        events = [iter(stream) for stream in streams]
        for mask in (0, 7, 1):
            store.append("g", [(mask, Outcome({"utility": float(mask)}))])
            began = time.monotonic()
            said = f"{(0, 7, 1).index(mask) + 1} (planned: not known)"
            for viewer in events:
                assert any(said in parts.get("r0-head", "") for parts in viewer)
            assert time.monotonic() - began < 2.0
        for stream in streams:
            stream.close()


@pytest.mark.slow
def test_values_of_the_run_come_to_the_page(tmp_path: Path) -> None:
    with HeldRun(tmp_path / "run", hold_after=9) as held, served(tmp_path / "run") as server:
        stream = Stream(server)
        seen: list[str] = []
        for parts in stream:
            seen.append(parts["r0-head"])
            if "Running" in parts["r0-head"]:
                values = held.finish()
            if "Ended" in parts["r0-head"]:
                break
        stream.close()
        shown = re.findall(r'<span class="value">([^<]+)</span>', parts["r0-values"])
    assert shown == [f"{value:+.4f}" for value in sorted(values.mean, reverse=True)]
    assert any("Running" in head for head in seen)


def test_a_target_that_goes_away_and_comes_again(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(store.read_bytes())
    with served(copy) as server:
        assert "Aachen" in ask(server)[2]
        for content, said in (
            (None, "no store"),
            (store.read_bytes()[:5000], "alert"),
            (store.read_bytes(), "Bern"),
        ):
            copy.unlink(missing_ok=True)
            if content is not None:
                copy.write_bytes(content)
            assert said in ask(server)[2]


def test_at_most_so_many_streams(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedvalue.watch._server._MOST_STREAMS", 1)
    with served(store) as server:
        first = Stream(server)
        next(iter(first))
        assert ask(server, "/events")[0] == 503
        assert ask(server)[0] == 200
        first.close()


def test_strangers_who_say_nothing_are_not_kept_without_end(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedvalue.watch._server._MOST_CONNECTIONS", 2)
    with served(store) as server:
        kept = [socket.create_connection(("127.0.0.1", server.server_port), 5) for _ in range(2)]
        with socket.create_connection(("127.0.0.1", server.server_port), 5) as third:
            assert third.recv(1) == b""
        for one in kept:
            one.close()
        for _ in range(100):
            if server.connections.acquire(blocking=False):
                server.connections.release()
                break
            time.sleep(0.02)
        assert ask(server)[0] == 200
