"""The live page in a real browser: it changes by itself, says what the run says, and nothing in it is taken over."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, find_browser
from watched import HOSTILE, HeldRun, served, table_run

from fedvalue.outcome import Outcome
from fedvalue.store import UtilityStore

PROGRAM = find_browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="no chromium on the path: apt-get install chromium"),
]

PHONE, DESK = 390, 1280
SHOWN = """[...document.querySelectorAll('.ranking tbody tr')].map(
  row => [row.querySelector('.who').innerText.trim(), row.querySelector('.value').textContent])"""
# Every text against what is behind it, as the standard for accessible pages computes it.
PALE = """(() => {
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const behind = node => {
    for (; node; node = node.parentElement) {
      const found = numbers(getComputedStyle(node).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const pale = [];
  for (const node of document.querySelectorAll('body *')) {
    if (![...node.childNodes].some(c => c.nodeType === 3 && c.textContent.trim())) continue;
    const style = getComputedStyle(node), svg = node.closest('svg');
    const both = [light(numbers(svg ? style.fill : style.color)), light(behind(node))].sort((a, b) => b - a);
    const contrast = (both[0] + .05) / (both[1] + .05);
    if (contrast < 4.5) pale.push([node.tagName, node.textContent.slice(0, 30), contrast]);
  }
  return pale;
})()"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert PROGRAM is not None
    with Browser(PROGRAM, tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def browser(opened: Browser) -> Iterator[Browser]:
    yield opened
    opened.open("about:blank", DESK)  # a page whose server has gone would complain in the next test


def wait_until(browser: Browser, script: str, seconds: float = 20.0) -> None:
    """Waits until an expression is true in the page, without loading it again."""
    ends = time.monotonic() + seconds
    while not browser.evaluate(script):
        assert time.monotonic() < ends, browser.evaluate("document.body.innerText")
        time.sleep(0.05)


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True])
def test_a_run_to_its_end(browser: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    # Over several seeds the coalition of all clients is not the last one, so that there are values before the end.
    job = {
        "scenario": "digits",
        "model": "linear",
        "samples": 8,
        "rounds": 1,
        "epochs": 1,
        "seeds": 3,
        "budget": 24,
    }
    with HeldRun(tmp_path / "run", hold_after=20, **job) as held, served(tmp_path / "run") as server:
        browser.open(server.address, width, dark=dark)
        browser.evaluate("window.untouched = true")
        wait_until(
            browser, "document.body.innerText.includes('Running.') && !!document.querySelector('.ranking')"
        )
        assert browser.evaluate("document.querySelector('progress').max") >= 24
        assert browser.evaluate(PALE) == []
        values = held.finish()
        wait_until(browser, "document.body.innerText.includes('Ended.')")
        order = sorted(range(4), key=lambda i: -values.mean[i])
        assert browser.evaluate(SHOWN) == [[values.names[i], f"{values.mean[i]:+.4f}"] for i in order]
        assert browser.evaluate("window.untouched")  # the page was never loaded again
        assert browser.evaluate(PALE) == []
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.messages == []
        assert {url.partition("?")[0] for url in browser.requests} == {
            server.address + name for name in ("", "watch.css", "watch.js", "events")
        }


def test_with_a_token_and_two_viewers(browser: Browser, tmp_path: Path) -> None:
    assert PROGRAM is not None
    with (
        UtilityStore(tmp_path / "my.db") as store,
        served(tmp_path / "my.db", token=True) as server,
        Browser(PROGRAM, tmp_path / "profile") as other,
    ):
        store.register("g", 3, {"names": ["a", "b", "c"]})
        for viewer in (browser, other):
            viewer.open(server.address, DESK)
        for done, mask in enumerate((0, 7, 1, 2), 1):
            store.append("g", [(mask, Outcome({"utility": float(mask.bit_count())}))])
            began = time.monotonic()
            for viewer in (browser, other):
                wait_until(viewer, f"document.body.innerText.includes('{done} (planned')", 2.0)
            assert time.monotonic() - began < 2.0
        for viewer in (browser, other):
            wait_until(viewer, f"{SHOWN}.length === 3")
            assert viewer.messages == []
        assert browser.evaluate(SHOWN) == other.evaluate(SHOWN)


def test_a_hundred_clients_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    n = 100
    names = [f"clinic {i:02}" for i in range(n)]
    with UtilityStore(tmp_path / "my.db") as store, served(tmp_path / "my.db") as server:
        store.register("g", n, {"names": names})
        full = (1 << n) - 1
        some = [0, full, *(1 << i for i in range(n)), *(full ^ 1 << i for i in range(n))]
        store.append("g", [(mask, Outcome({"utility": mask.bit_count() / n})) for mask in some])
        browser.open(server.address, PHONE)
        wait_until(browser, f"{SHOWN}.length === {n}", 60.0)
        assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE
        for _ in range(8):
            browser.press("Tab")
            if browser.evaluate("document.activeElement.tagName") == "SUMMARY":
                break
        assert browser.evaluate("document.activeElement.textContent") == "The other 60 clients"
        browser.press("Enter")
        assert browser.evaluate("document.querySelector('details').open")
        store.append("g", [(3, Outcome({"utility": 0.2}))])
        wait_until(browser, "document.body.innerText.includes('From the 203 trainings')", 60.0)
        assert browser.evaluate(
            "document.querySelector('details').open"
        )  # what a reader has opened stays open
        assert browser.evaluate("document.activeElement.tagName") == "SUMMARY"
        assert browser.messages == []


def test_hostile_names_take_nothing_over(browser: Browser, tmp_path: Path) -> None:
    table_run(
        tmp_path / "my.db", [name for name in HOSTILE if name.isprintable()], [float(m) for m in range(32)]
    )
    with served(tmp_path / "my.db") as server:
        browser.open(server.address, PHONE)
        browser.evaluate("window.alert = () => { window.taken = true }")
        wait_until(browser, f"{SHOWN}.length === 5")
        assert browser.evaluate("document.title") == "Watching my.db"
        assert browser.evaluate("document.scripts.length") == 1
        assert not browser.evaluate("!!window.taken || document.images.length > 0")
        assert "<img src=x onerror=alert(1)>" in [name for name, _ in browser.evaluate(SHOWN)]
        assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE
        assert browser.messages == []


def test_a_run_that_is_killed(browser: Browser, tmp_path: Path) -> None:
    script = (
        "import sys, time, fedvalue as fv\n"
        "fv.run('synthetic', clients=4, samples=20, model='least-squares', out=sys.argv[1],\n"
        "       on_outcome=lambda e: time.sleep(60) if e.done == 9 else None)\n"
    )
    out = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", script, str(out)])
    try:
        ends = time.monotonic() + 60
        while not (out / "progress.json").exists():
            assert time.monotonic() < ends
            time.sleep(0.05)
        with served(out) as server:
            browser.open(server.address, DESK)
            wait_until(browser, "document.body.innerText.includes('Running.')")
            process.send_signal(signal.SIGKILL)
            process.wait()
            wait_until(browser, "document.body.innerText.includes('Killed.')", 15.0)
            assert browser.messages == []
    finally:
        process.kill()
        process.wait()


def test_a_server_that_ends_is_said_to_be_gone(browser: Browser, tmp_path: Path) -> None:
    table_run(tmp_path / "my.db", ["a", "b"], [0.0, 1.0, 2.0, 4.0])
    with served(tmp_path / "my.db") as server:
        browser.open(server.address, DESK)
        wait_until(browser, "document.getElementById('link').textContent.startsWith('Live')")
    wait_until(browser, "document.getElementById('link').classList.contains('lost')")
    for dark in (False, True):
        browser._ask(
            "Emulation.setEmulatedMedia",
            media="",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        assert browser.evaluate(PALE) == []
