"""Reports in a real browser: nothing is asked for, nothing complains, everything can be seen."""

from __future__ import annotations

import io
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser, find_browser
from test_report import complete, sampled, saturating

from fedvalue.report import Cover, Terms, as_html, gather, write_statements

PROGRAM = find_browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="no chromium on the path: apt-get install chromium"),
]

PHONE, DESK = 390, 1100
BOXES = """[...document.querySelectorAll('svg[role=img], .ranking .chart svg')].map(svg => {
  const box = svg.getBoundingClientRect();
  return [box.width, box.height, svg.querySelectorAll('rect,circle,line,polyline,text').length];
})"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert PROGRAM is not None
    with Browser(PROGRAM, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of an ordinary run: all parts are there."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    names = [
        "Aachen",
        "Bern",
        "Como",
        "Delft",
        "Essen",
        "a rather long name of a clinic, department of radiology",
    ]
    table = saturating(6) - 0.2 * np.array([mask >> 2 & 1 for mask in range(64)])
    file.write_text(as_html(gather(*complete(table, names))), encoding="utf-8")
    return file


def pixels(png: bytes) -> Any:
    from matplotlib.image import imread

    return imread(io.BytesIO(png))[:, :, :3]


def test_only_tables_of_everybody_with_everything_scroll_on_a_phone(browser: Browser, plain: Path) -> None:
    browser.open(plain, PHONE)
    browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    wider = "[...document.querySelectorAll('.scroll')].filter(s => s.scrollWidth > s.clientWidth)"
    names = browser.evaluate(f"{wider}.map(s => s.getAttribute('aria-label'))")
    assert set(names) <= {"Amounts in % of the pot"}


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True])
def test_everything_is_there_to_see(browser: Browser, plain: Path, width: int, dark: bool) -> None:
    browser.open(plain, width, dark=dark)
    assert browser.messages == []
    assert browser.requests == [plain.resolve().as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    boxes = browser.evaluate(BOXES)
    assert len(boxes) == 1 + 1 + 6 + 7  # growth, pairs, convergence; bars and their axis
    assert all(across > 40 and down > 10 and marks for across, down, marks in boxes)
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(17, 22, 29)" if dark else "rgb(255, 255, 255)")
    picture = pixels(browser.picture())
    assert picture.shape[1] == width
    place = browser.evaluate("(b => [b.x, b.y + scrollY, b.width, b.height])"
                             "(document.querySelector('#growth svg[role=img]').getBoundingClientRect())")  # fmt: skip
    x, y, across, down = (int(number) for number in place)
    chart = picture[y : y + down, x : x + across].reshape(-1, 3)
    assert len(np.unique(chart.round(2), axis=0)) > 10  # lines and dots, not an empty box


def test_names_cannot_reach_out(browser: Browser, tmp_path: Path) -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/x"

        def listen() -> None:
            try:
                while True:
                    connection, _ = server.accept()
                    asked.append(connection.recv(100))
                    connection.close()
            except OSError:
                return

        threading.Thread(target=listen, daemon=True).start()
        names = [
            f"<img src={address}>", f"\"><script src='{address}'></script>", f"<link rel=stylesheet href={address}>",
            f"</title></style><style>@import url({address});</style>", f"</script><iframe src={address}>",
            f"<svg><image href={address} /></svg>", "<script>document.title='owned'</script>",
            f"<meta http-equiv=refresh content='0;url={address}'>",
        ]  # fmt: skip
        page = tmp_path / "report.html"
        page.write_text(as_html(gather(*sampled(len(names), names))), encoding="utf-8")
        browser.open(page, DESK)
        browser.evaluate("new Promise(done => setTimeout(done, 300))")
        assert browser.requests == [page.resolve().as_uri()]
        assert browser.messages == []
        assert browser.evaluate("document.title") == "What the data of 8 clients is worth"
        shown = browser.evaluate("[...document.querySelectorAll('.who bdi')].map(e => e.textContent)")
        assert sorted(name[:40] for name in shown) == sorted(name[:40] for name in names)
        # The page's own policy would stop even markup that got through.
        browser.evaluate(f"document.body.insertAdjacentHTML('beforeend', '<img src={address}>')")
        browser.evaluate("new Promise(done => setTimeout(done, 300))")
        assert any("Content Security Policy" in text for text in browser.messages)
    assert asked == []


def test_the_keyboard_reaches_everything(browser: Browser, plain: Path) -> None:
    browser.open(plain, DESK)
    seen = browser.evaluate(
        "[...document.querySelectorAll('a,summary,[tabindex]')].every(e => { e.focus(); "
        "return document.activeElement === e || !e.checkVisibility(); })"
    )
    assert seen is True
    assert browser.evaluate("document.querySelectorAll('summary').length") >= 3
    unfolded = browser.evaluate(
        "[...document.querySelectorAll('details')].map(d => { d.open = true; return d.scrollHeight > 60; })"
    )
    assert all(unfolded)
    assert browser.evaluate("document.documentElement.scrollWidth") <= DESK


@pytest.mark.parametrize("clients", [1, 100])
def test_few_and_many_clients_on_a_phone(browser: Browser, tmp_path: Path, clients: int) -> None:
    names = [f"client-{i}-{'x' * (i % 90)}" for i in range(clients)]
    page = tmp_path / "report.html"
    facts = gather(*sampled(clients, names), terms=Terms("123456789000", "EUR"))
    page.write_text(as_html(facts), encoding="utf-8")
    for width in (320, 720, PHONE):
        browser.open(page, width)
        browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.messages == []
    assert browser.evaluate("document.querySelectorAll('.ranking tbody tr').length") == clients


NEEDS_TEXT = pytest.mark.skipif(
    shutil.which("pdftotext") is None, reason="no pdftotext: apt-get install poppler-utils"
)


def test_printing(browser: Browser, plain: Path) -> None:
    browser.open(plain, DESK, dark=True)
    paper = browser.print()
    assert paper.startswith(b"%PDF")
    sizes = set(re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", paper))
    assert {(round(float(w)), round(float(h))) for w, h in sizes} == {(595, 842)} or sizes == {
        (b"594.95996", b"841.91998")
    }
    assert 2 <= paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") <= 16


CLIPPED = """(() => {
  const width = document.documentElement.clientWidth;
  return [...document.querySelectorAll('table, svg, .verdict, dl')]
    .filter(e => e.checkVisibility() && e.getBoundingClientRect().right > width + 1).map(e => e.outerHTML.slice(0, 80));
})()"""


@NEEDS_TEXT
@pytest.mark.parametrize("clients", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_paper_clips_and_splits_nothing(browser: Browser, tmp_path: Path, clients: int) -> None:
    page = tmp_path / "report.html"
    if clients == 6:
        table = saturating(6) - 0.2 * np.array([mask >> 2 & 1 for mask in range(64)])
        facts = gather(*complete(table), terms=Terms("123456789", "EUR"))
    else:
        facts = gather(
            *sampled(clients, [f"client-{i}" for i in range(clients)]), terms=Terms("123456789", "EUR")
        )
    page.write_text(as_html(facts), encoding="utf-8")
    browser.open(page, 680, medium="print")  # what A4 is wide within its margins
    assert browser.evaluate(CLIPPED) == []
    pages = printed(browser.print(), tmp_path)
    titles = browser.evaluate("[...document.querySelectorAll('h2')].map(e => e.textContent)")
    for text in pages:  # no heading is the last line of a page
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        assert not lines or lines[-1] not in titles
    assert sum("123,456,789.00" in line and "Total" in line for line in "\n".join(pages).splitlines()) == 1
    if clients == 6:
        rows = [
            [
                i
                for i, text in enumerate(pages)
                if re.search(rf"^ *{client.rank} +{client.name} .*{abs(client.value):.4f}", text, re.M)
            ]
            for client in facts.clients
        ]
        assert {tuple(places) for places in rows} == {(0,)}  # the whole table on the first page
    assert "The statements for the other" not in "".join(pages)


def printed(paper: bytes, folder: Path) -> list[str]:
    """The text of each page of a PDF, laid out as it is there."""
    (folder / "paper.pdf").write_bytes(paper)
    told = subprocess.run(
        ["pdftotext", "-layout", str(folder / "paper.pdf"), "-"], check=True, capture_output=True
    )
    return told.stdout.decode().split("\f")[:-1]


@NEEDS_TEXT
def test_a_statement_is_one_page(browser: Browser, tmp_path: Path) -> None:
    values, known = complete(saturating(6) - 0.2 * np.array([mask >> 2 & 1 for mask in range(64)]))
    record = {
        "training": dict.fromkeys(("rounds", "epochs", "batch", "optimizer", "rate", "algorithm"), 4),
        "model": "mlp",
    }
    cover = Cover("A consortium", "A period", "A date", "An operator")
    grouped = replace(values, agreement="f" * 64, groups={"A holding of clinics": values.names[1:4]})
    facts = gather(grouped, known, record, Terms("123456789", "EUR"), cover=cover)
    for file in write_statements(facts, tmp_path)[1:3]:
        for width in (320, PHONE, DESK):
            browser.open(file, width)
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.messages == []
        assert browser.requests == [file.resolve().as_uri()]
        assert len(printed(browser.print(), tmp_path)) == 1


def test_the_total_on_the_screen_is_the_pot(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    facts = gather(*sampled(61, [f"c{i}" for i in range(61)]), terms=Terms("98765.43", "EUR"))
    page.write_text(as_html(facts), encoding="utf-8")
    browser.open(page, PHONE)
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    number = "e => Math.round(100 * parseFloat(e.firstChild.textContent.replace(/,/g, '')))"
    amounts = browser.evaluate(f"[...document.querySelectorAll('.ranking tbody .paid')].map({number})")
    (total,) = browser.evaluate(f"[...document.querySelectorAll('.ranking .total .paid')].map({number})")
    assert len(amounts) == 61
    assert sum(amounts) == total == 9876543
    units = browser.evaluate(
        "[...document.querySelectorAll('.ranking .paid .unit')].every(e => getComputedStyle(e).display !== 'none' "
        "&& e.textContent.trim() === 'EUR')"
    )
    assert units is True
    labels = browser.evaluate(
        "getComputedStyle(document.querySelector('.ranking .worth'), '::before').content"
    )
    assert "utility" in labels
