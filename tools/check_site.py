"""Looks through a built site: every link inside it leads somewhere, and nothing on a page is fetched from elsewhere.

python tools/check_site.py build/site
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches without being asked, and what it only goes to.
FETCHED = {"src", "srcset", "poster", "background"}
FETCHED_BY = {
    ("link", "href"),
    ("object", "data"),
    ("image", "href"),
    ("image", "xlink:href"),
    ("use", "href"),
    ("use", "xlink:href"),
    ("base", "href"),
}
STYLES = ("url(http", "url(//", "@import")


class Page(HTMLParser):
    """The anchors of a page, where it leads, and what it fetches."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.styles: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attributes if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        canonical = tag == "link" and found.get("rel") in {"canonical", "prev", "next"}
        for name, value in found.items():
            if (name in FETCHED or (tag, name) in FETCHED_BY) and not canonical:
                # Of pictures to choose from, each with its size, only a space separates the two.
                several = [one.split()[0] for one in value.split(", ") if one.strip()]
                self.fetched += several if name == "srcset" else [value.strip()]
            elif name == "href":
                self.links.append(value)
            elif name == "style":
                self.styles.append(value)
            elif (tag, name) == ("meta", "content") and "http-equiv" in found and "url=" in value.lower():
                self.fetched.append(re.split("url=", value, flags=re.IGNORECASE)[1].strip())

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "style":
            self.styles.append(data)


def main() -> None:
    found = list(complaints(Path(sys.argv[1])))
    if found:
        raise SystemExit("\n".join(found))


def complaints(site: Path) -> Iterator[str]:
    """Each dead link and each thing from elsewhere, as a line."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for target in page.fetched:
            if elsewhere(target):
                yield f"{name} fetches {target}"
        yield from (f"{name} fetches from elsewhere: {mark}" for mark in marks(" ".join(page.styles)))
        for target in [*page.links, *page.fetched]:
            if not elsewhere(target) and path.name != "404.html" and not leads(path, target, pages):
                yield f"{name} has a dead link: {target}"
    for sheet in sorted(site.rglob("*.css")):
        found = marks(sheet.read_text(encoding="utf-8"))
        yield from (f"{sheet.name} fetches from elsewhere: {mark}" for mark in found)


def marks(style: str) -> list[str]:
    """What in a style makes a browser fetch from elsewhere."""
    text = re.sub(r"""["'\s]""", "", style.lower())
    return [mark for mark in STYLES if mark in text]


def elsewhere(target: str) -> bool:
    return target.startswith("//") or urlsplit(target).scheme in {"http", "https", "mailto"}


def leads(path: Path, target: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(target)
    if parts.scheme:  # data:, javascript: and the like lead nowhere by themselves
        return True
    file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    file = file / "index.html" if file.is_dir() else file
    if file not in pages:
        return file.is_file()  # a picture's fragment says in which light it is shown
    return not parts.fragment or unquote(parts.fragment) in pages[file].anchors | {"__skip"}


if __name__ == "__main__":
    main()
