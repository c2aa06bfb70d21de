"""Writes the pages of the documentation site: `python tools/pages.py build/pages build/gallery`, before `mkdocs build`.

Pages of the repository keep their text; only their links are turned to where the pages are on the site. What they link to
beside pages is copied. The gallery, the reference and the benchmarks against peers are made here.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from gallery import EXAMPLES, ROOT, Example

REFERENCE: Mapping[str, tuple[str, str]] = {
    "values": (
        "Values",
        "value compare benchmark methods Values Estimate Cost Method Plan Evaluation scoring",
    ),
    "runs": ("Runs", "run Job DryRun Result Benefits Disclosure Disclosed report"),
    "games": ("Games", "Game TableGame FunctionGame FederatedGame PooledGame Outcome"),
    "training": ("Data and training", "Scenario Dataset load_scenario Training Learner Loss Metric Trainer"),
    "audits": (
        "Audits and what-ifs",
        "audit Audit what_if WhatIf what_if_claimed copies_once other_indices OtherIndices",
    ),
    "consortia": (
        "Payouts, periods, agreements",
        "payout Payout AbsentRule Periods Period Agreement Party PayoutTerms read_agreement sign verify Verdict",
    ),
    "stores": ("Stores", "Store UtilityStore"),
    "errors": (
        "Errors",
        "FedvalueError InputError BudgetError GameError MethodError ScenarioError StoreError UtilityError "
        "MissingExtraError FedvalueWarning",
    ),
}
# Pages of the repository outside docs/, by their name on the site.
ELSEWHERE = {
    "README.md": "index.md",
    "docs/README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "bench/README.md": "benchmarks.md",
    "paper/README.md": "paper.md",
}
PEERS = ("accuracy.py", "published.py", "lora.py", "throughput.py", "federation.py")
FENCE = re.compile(r"^( *)```.*?^\1```$", re.M | re.S)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("gallery", type=Path, help="what tools/gallery.py has made")
    given = parser.parse_args()
    shutil.rmtree(given.out, ignore_errors=True)
    (given.out / "api").mkdir(parents=True)
    shutil.copytree(ROOT / "tools" / "site", given.out / "assets")
    for source, name in pages().items():
        text = (ROOT / source).read_text(encoding="utf-8")
        (given.out / name).write_text(as_site_page(text, source, given.out), encoding="utf-8")
    peers = as_site_page(against_peers(), "bench/README.md", given.out)
    (given.out / "peers.md").write_text(peers, encoding="utf-8")
    for name, text in reference().items():
        (given.out / "api" / name).write_text(text, encoding="utf-8")
    (given.out / "gallery.md").write_text(gallery(given.gallery), encoding="utf-8")
    for picture in sorted(given.gallery.glob("*.svg")):
        shutil.copy(picture, given.out / "assets")


def pages() -> dict[str, str]:
    """Pages of the repository and their names on the site."""
    own = {f"docs/{path.name}": path.name for path in sorted((ROOT / "docs").glob("*.md"))}
    return {**own, **ELSEWHERE}


def as_site_page(text: str, source: str, out: Path) -> str:
    """The page with links as the site has them, without remarks for the tests, lists indented as mkdocs wants them."""
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [prose(text[end : fence.start()], source, out), indented(fence[0])]
        end = fence.end()
    return "".join([*parts, prose(text[end:], source, out)])


def prose(text: str, source: str, out: Path) -> str:
    text = re.sub(r"^ *<!--.*?-->\n?", "", text, flags=re.M | re.S)
    code = re.compile(r"`[^`\n]*`")  # a link in code is none
    hidden = code.findall(text)
    text = LINK.sub(lambda link: moved(link, source, out), code.sub("\0", text))
    return indented(re.sub("\0", lambda _: hidden.pop(0), text))


def indented(text: str) -> str:
    """Python-Markdown takes four spaces for what belongs to an item."""
    return re.sub(r"^   (?=\S)", "    ", text, flags=re.M)


def moved(link: re.Match[str], source: str, out: Path) -> str:
    """A link to where its target is on the site; what is not there becomes plain text."""
    mark, words, target = link.groups()
    name, _, anchor = target.partition("#")
    if not name or re.match(r"[a-z]+:", name):
        return link[0]
    repository = os.path.normpath(Path(source).parent / name)
    place = on_site(repository, out)
    if place is None:
        return words
    return f"{mark}[{words}]({place}{'#' + anchor if anchor else ''})"


def on_site(repository: str, out: Path) -> str | None:
    """Where a file of the repository is on the site; other files than pages are copied."""
    if repository in pages():
        return pages()[repository]
    path = ROOT / repository
    if repository == "examples" or (path.parent == ROOT / "examples" and path.suffix == ".py"):
        return "gallery.md" + ("" if path.is_dir() else f"#{path.stem}")
    if not path.is_file():
        return None
    place = Path("files") / (
        repository if path.suffix in {".svg", ".png", ".ipynb", ".html"} else f"{repository}.txt"
    )
    (out / place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, out / place)
    return place.as_posix()


def against_peers() -> str:
    """The sections of bench/README.md that compare with other packages, and with a plain loop."""
    text = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    rows = "\n".join(row for row in text.splitlines() if re.match(r"\| .*(peer|plain loop|PEFT|Flower)", row))
    chosen = "".join(f"## {name}\n{sections[name]}" for name in PEERS)
    return (
        "# Against peers\n\nWhat fedvalue does beside shapiq, pyDVL, PEFT, Flower itself and a plain loop, each with the command that "
        "measures it. Where a peer is better, the tables say so. [All benchmarks](../bench/README.md) are on another page.\n\n"
        f"| bar | command | here |\n| --- | --- | --- |\n{rows}\n\n{chosen}"
    )


def reference() -> dict[str, str]:
    """A page for each group of public names."""
    import fedvalue

    found = {}
    for page, (title, names) in REFERENCE.items():
        parts = [f"# {title}\n"]
        for name in names.split():
            path = f"fedvalue.{name}" if name == "scoring" else f"{fedvalue._HOME_OF[name]}.{name}"
            parts.append(f"::: {path}\n    options:\n      heading: fv.{name}\n      toc_label: {name}\n")
        found[f"{page}.md"] = "\n".join(parts)
    return found


def gallery(folder: Path) -> str:
    """Every example with its picture, its script and what it prints."""
    return "\n".join(["# Examples\n", *(part for example in EXAMPLES for part in shown(example, folder))])


def shown(example: Example, folder: Path) -> Iterator[str]:
    name, title, arguments = example.name, example.title, example.arguments
    script = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    about, _, code = script.removeprefix('"""').partition('"""\n')
    printed = (folder / f"{name}.txt").read_text(encoding="utf-8")
    yield f"## {title} {{: #{name} }}\n\n{about.strip()}\n"
    for look in ("light", "dark"):
        yield f"![{title}: values](assets/{name}-{look}.svg#only-{look})"
    yield f'\n??? example "examples/{name}.py"\n\n{in_box("python", code.strip())}\n'
    command = " ".join(["python", f"examples/{name}.py", *arguments])
    yield f'??? note "What `{command}` prints"\n\n{in_box("text", printed.rstrip())}\n'


def in_box(language: str, text: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in f"```{language}\n{text}\n```".splitlines())


if __name__ == "__main__":
    main()
