"""The documentation site names every page, every public name and every example; it is built without warnings and asks for nothing."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import os
import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from browser import Browser, find_browser

import fedvalue

ROOT = Path(__file__).parents[1]
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
NAMED = re.findall(r"^ +- .+: (\S+\.md)$", CONFIG.split("\nnav:")[1], re.M)


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")


def tool(name: str) -> Any:
    return __import__(name)


def test_every_page_is_named_once() -> None:
    pages = tool("pages")
    made = {"gallery.md", "peers.md", *(f"api/{page}.md" for page in pages.REFERENCE)}
    assert sorted(NAMED) == sorted({*pages.pages().values(), *made})


def test_every_public_name_is_in_the_reference_once() -> None:
    names = [name for _, names in tool("pages").REFERENCE.values() for name in names.split()]
    assert sorted([*names, "__version__"]) == sorted(fedvalue.__all__)


def test_every_example_is_in_the_gallery() -> None:
    examples = tool("gallery").EXAMPLES
    assert sorted(example.name for example in examples) == sorted(
        p.stem for p in (ROOT / "examples").glob("*.py")
    )
    assert len(examples) >= 8


def test_links_lead_to_where_pages_are_on_the_site(tmp_path: Path) -> None:
    page = tool("pages").as_site_page(
        "<!-- not run: why -->\n[a](../bench/README.md#accuracypy), [b](meaning.md), `[c](d.md)`, [e](https://e.org), [f](#f),\n"
        "[g](../examples/own_function.py), [h](../src/fedvalue), [i](../LICENSE)\n\n1. x\n   - y\n\n```text\n[j](../k.md)\n```\n",
        "docs/audit.md",
        tmp_path,
    )
    assert page == (
        "[a](benchmarks.md#accuracypy), [b](meaning.md), `[c](d.md)`, [e](https://e.org), [f](#f),\n"
        "[g](gallery.md#own_function), h, [i](files/LICENSE.txt)\n\n1. x\n    - y\n\n```text\n[j](../k.md)\n```\n"
    )
    assert (tmp_path / "files/LICENSE.txt").read_text() == (ROOT / "LICENSE").read_text()


def test_every_public_name_has_an_example() -> None:
    """In its docstring, where the suite runs it as a doctest; what is a plain assignment has none of those, and is run here."""
    runner, without = doctest.DocTestRunner(verbose=False), []
    for name in {*fedvalue.__all__} - {"__version__"}:
        thing = getattr(fedvalue, name)
        has_own = isinstance(thing, type | FunctionType | ModuleType)
        text = thing.__doc__ if has_own else said_behind(name)
        test = doctest.DocTestParser().get_doctest(text or "", {}, name, None, None)
        if not test.examples:
            without.append(name)
        elif not has_own:
            assert runner.run(test).failed == 0, name
    assert without == [], "each public name has an example in its docstring"


def said_behind(name: str) -> str:
    """The text behind the assignment of a name."""
    home = importlib.import_module(fedvalue._HOME_OF[name])
    for path in Path(str(home.__file__)).parent.glob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for one, behind in pairwise(body):
            is_named = isinstance(one, ast.AnnAssign) and ast.unparse(one.target) == name
            if is_named and isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
                return str(behind.value.value)
    return ""


def test_peers_are_compared_by_sections_that_are_there() -> None:
    page = tool("pages").against_peers()
    assert re.findall(r"^## (\S+)", page, re.M) == list(tool("pages").PEERS)
    assert page.count("shapiq") > 5


def test_a_dead_link_and_a_request_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here"></a><a href="#gone"></a><a href="b.html"></a><a href="https://e.org"></a>'
        '<link rel="canonical" href="https://e.org/a"><script src="https://e.org/x.js"></script>'
    )
    (tmp_path / "a.css").write_text("p { background: url('https://e.org/x.png') }")
    assert list(tool("check_site").complaints(tmp_path)) == [
        "a.html fetches https://e.org/x.js",
        "a.html has a dead link: #gone",
        "a.html has a dead link: b.html",
        "a.css fetches from elsewhere: url(http",
    ]


@pytest.mark.parametrize(
    "page",
    [
        '<img srcset="a.png 1x, https://e.org/b.png 2x">',
        '<video poster="https://e.org/x.png"></video>',
        '<audio src="//e.org/x.mp3"></audio>',
        '<svg><image href="https://e.org/x.png"/></svg>',
        '<base href="https://e.org/">',
        '<meta http-equiv="refresh" content="0; URL=https://e.org/">',
        """<p style="background: URL( 'https://e.org/x.png')">""",
        "<style>@import 'https://e.org/x.css'</style>",
    ],
)
def test_every_way_to_fetch_is_known(tmp_path: Path, page: str) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "index.html").write_text(f"{page}<p>@import url(https://e.org) in a text fetches nothing</p>")
    assert len(list(tool("check_site").complaints(tmp_path))) == 1


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("site")
    pictures = home / "gallery"
    run("tools/gallery.py", pictures, "quickstart")
    for example in re.findall(r'Example\("(\w+)"', (ROOT / "tools/gallery.py").read_text(encoding="utf-8")):
        for made in list(pictures.glob("quickstart*")):
            copy = pictures / made.name.replace("quickstart", example)
            copy.write_bytes(made.read_bytes())
    run("tools/pages.py", home / "pages", pictures)
    settings = CONFIG.replace("build/pages", str(home / "pages")).replace("build/site", str(home / "built"))
    settings = settings.replace("[src]", f"[{ROOT / 'src'}]")
    settings = settings.replace("tools/doctests.py", str(ROOT / "tools/doctests.py"))
    (home / "mkdocs.yml").write_text(settings, encoding="utf-8")
    run("-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", home / "mkdocs.yml")
    return home / "built"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mkdocstrings") is None, reason="needs the extra site")
class TestBuilt:
    """The site as `make site` builds it, with one example's pictures for all."""

    def test_links_and_requests(self, site: Path) -> None:
        run("tools/check_site.py", site)

    def test_the_reference_shows_signatures_and_examples(self, site: Path) -> None:
        page = (site / "api/games.html").read_text(encoding="utf-8")
        text = re.sub(r"<[^>]+>", "", page)
        assert "TableGame([0.0, 1.0, 2.0, 4.0]" in text.replace("&quot;", '"')
        assert "scenario: Scenario" in text
        for name in fedvalue.__all__:
            assert name == "__version__" or any(
                f"fv.{name}\n" in path.read_text(encoding="utf-8")
                or f"fv.{name}<" in path.read_text(encoding="utf-8")
                for path in (site / "api").glob("*.html")
            ), name

    @pytest.mark.skipif(find_browser() is None, reason="no chromium on the path: apt-get install chromium")
    def test_in_a_browser(self, site: Path, tmp_path: Path) -> None:
        program = find_browser()
        assert program is not None
        with Browser(program, tmp_path) as browser:
            for name in ("index.html", "gallery.html", "peers.html", "api/values.html"):
                browser.open(site / name, 390)
                assert browser.evaluate("document.documentElement.scrollWidth") <= 390, name
                assert [u for u in browser.requests if not u.startswith(("file:", "data:"))] == [], name
                assert browser.messages == [], name
            assert found_by_search(browser, "nucleolus") > 0


def run(*arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "MPLBACKEND": "Agg"},
        capture_output=True,
        encoding="utf-8",
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def found_by_search(browser: Browser, word: str) -> int:
    """How many results the search has, of a page that was opened from a folder."""
    field = "document.querySelector('input[data-md-component=search-query]')"
    browser.evaluate(f"{field}.focus()")
    browser.evaluate(f"{field}.value = '{word}'")
    for _ in range(60):
        browser.evaluate(f"{field}.dispatchEvent(new Event('keyup', {{bubbles: true}}))")
        time.sleep(0.5)
        found = browser.evaluate("document.querySelectorAll('.md-search-result__link').length")
        if found:
            return int(found)
    return 0
