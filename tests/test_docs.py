"""The documentation does what it says: every block of every page is run, or says why it is not.

A page is a session: its blocks run in their order, in one empty folder and one Python namespace.

- `python`: executed. A block without a language right behind it is what it prints.
- `pycon`: a doctest.
- `console`: lines after `$` are commands, what follows is their output. `sh`: commands only.
- `toml` and `json`: parsed. `text`: prose.
- `<!-- not run: why -->` before a block: it is left alone.

Output is compared word by word. Times, dates, devices, the ids of games and the lengths of bars differ from machine
to machine and are not compared; numbers may differ a little, because trainings are floating-point arithmetic. `…`
stands for anything within a line, and on a line of its own for any lines.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import json
import linecache
import re
import shlex
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedvalue.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [
    *PAGES,
    ROOT / "CONTRIBUTING.md",
    ROOT / "bench" / "README.md",
    ROOT / "paper/README.md",
]
TRAINING = {
    "README.md",
    "docs/tour.md",
    "docs/getting-started.md",
    "docs/extending.md",
    "docs/training.md",
    "docs/cli.md",
    "docs/periods.md",
    "docs/transformers.md",
    "docs/privacy.md",
    "docs/lies.md",
    "docs/tracking.md",
}  # pages that take more than about half a second
RUN = {"python", "pycon", "console", "sh", "toml", "json"}
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)[^\n]*\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S)
NOT_RUN = re.compile(r"<!-- not run: \S[^>]*-->\s*\Z")
COMMAND = re.compile(
    r"(\$ )?(fedvalue|python3?|pip|make|flwr|flower-\w+|ray|openssl|ssh-keygen|docker|kubectl) "
)
SHORT_LIVED = [
    (re.compile(r"\b\d[\d,.]* (s|ms|min|h|days|years)\b"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b"), "DATE"),
    (re.compile(r"\b(federation|function|table)-[0-9a-f]{24}\b"), r"\1-ID"),
    (re.compile(r"█+ *│?|│█+"), "BAR"),
    (re.compile(r"\bon (cpu|cuda|mps)\b"), "on DEVICE"),
]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Block:
    """A fenced block; `expected` is the output shown right behind a Python block."""

    page: str
    line: int
    language: str
    body: str
    marked: bool
    expected: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for match in FENCE.finditer(text):
        between, end = text[end : match.start()], match.end()
        body = re.sub(rf"^{match['indent']}", "", match["body"], flags=re.M)
        if not match["language"] and not between.strip() and found and found[-1].language == "python":
            found[-1] = replace(found[-1], expected=body)
            continue
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(path.name, line, match["language"], body, bool(NOT_RUN.search(between))))
    return found


class Session:
    """Runs blocks in a folder, as a reader would who types them in."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, block: Block) -> None:
        if block.language == "python":
            printed = self.python(block)
            if block.expected is not None:
                assert differences(block.expected, printed) == [], block.place
        elif block.language == "pycon":
            test = doctest.DocTestParser().get_doctest(
                block.body, self.names, block.place, block.page, block.line
            )
            assert doctest.DocTestRunner(verbose=False).run(test, clear_globs=False).failed == 0, block.place
            self.names = test.globs
        elif block.language == "toml":
            tomllib.loads(block.body)
        elif block.language == "json":
            json.loads(block.body)
        else:
            for command, expected in commands(block):
                self.command(block, command, expected)

    def python(self, block: Block) -> str:
        text = "\n" * block.line + block.body
        # As notebooks do: a store recognises a function by its source text.
        linecache.cache[block.place] = len(text), None, text.splitlines(True), block.place
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(text, block.place, "exec"), self.names)
        return printed.getvalue()

    def command(self, block: Block, command: str, expected: str | None) -> None:
        program, *arguments = shlex.split(command, comments=True)
        assert program == "fedvalue", f"{block.place}: {command!r} cannot be run; say so before the block"
        found = CliRunner().invoke(app, arguments)
        assert found.exit_code == 0, f"{block.place}: {command}\n{found.output}"
        if expected is not None:
            assert differences(expected, found.stdout) == [], f"{block.place}: {command}\n{found.stdout}"


def commands(block: Block) -> list[tuple[str, str | None]]:
    """Commands and their outputs; None where none is shown. A backslash continues a line."""
    joined = re.sub(r"\s*\\\n\s*", " ", block.body)
    if block.language == "sh":
        lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
        return [(line, None) for line in lines]
    head, *parts = re.split(r"^\$ ", joined, flags=re.M)
    assert not head.strip(), f"{block.place}: output without a command"
    pairs = [part.partition("\n") for part in parts]
    return [(command, output if output.strip() else None) for command, _, output in pairs]


def differences(expected: str, found: str) -> list[str]:
    """Lines of the expected output that are not there, or come differently."""
    wanted, given = steady(expected), steady(found)
    missing, position, skipping = [], 0, False
    for line in wanted:
        if line == "…":
            skipping = True
            continue
        candidates = (
            range(position, len(given)) if skipping else range(position, min(position + 1, len(given)))
        )
        match = next((i for i in candidates if alike(line, given[i])), None)
        if match is None:
            missing.append(line)
            position += not skipping
        else:
            position, skipping = match + 1, False
    rest = [] if skipping else given[position:]
    return missing + [f"not expected: {line}" for line in rest]


def steady(text: str) -> list[str]:
    """Lines without what differs from run to run."""
    column, lines = None, []
    for line in text.splitlines():
        heading = re.search(r"\bseconds\b", line)
        if heading:
            column = heading.end()
        elif column and re.search(r"\d$", line[:column]) and line[column : column + 1] in ("", " "):
            line = re.sub(r"[\d.,]+$", "TIME", line[:column]) + line[column:]
        for pattern, word in SHORT_LIVED:
            line = pattern.sub(word, line)
        if line.strip():
            lines.append(" ".join(line.split()))
    return lines


def alike(expected: str, found: str) -> bool:
    """The same words; numbers that differ by no more than another machine's arithmetic."""
    if "…" in expected:
        pattern = ".*".join(re.escape(part.strip()) for part in expected.split("…"))
        return re.fullmatch(pattern, found) is not None
    wanted, given = expected.split(), found.split()
    return len(wanted) == len(given) and all(map(same_word, wanted, given))


def same_word(expected: str, found: str) -> bool:
    if expected == found:
        return True
    shape = [re.sub(r"[-+]?\d[\d,.]*\d|[-+]?\d", "#", word) for word in (expected, found)]
    if shape[0] != shape[1] or "#" not in shape[0]:
        return False
    numbers = [
        [float(n.replace(",", "")) for n in re.findall(r"[-+]?\d[\d,.]*\d|[-+]?\d", word)]
        for word in (expected, found)
    ]
    return all(abs(a - b) <= 0.006 + 0.05 * abs(a) for a, b in zip(*numbers, strict=True))


# Pages


def page_parameters() -> list[Any]:
    return [
        pytest.param(path, id=name_of(path), marks=pytest.mark.slow if name_of(path) in TRAINING else ())
        for path in PAGES
    ]


@pytest.mark.parametrize("path", page_parameters())
@pytest.mark.usefixtures("one_thread", "all_untrained_models")
def test_the_blocks_of_a_page_do_what_they_say(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session()
    for block in blocks(path):
        if not block.marked and block.language in RUN:
            session.run(block)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_block_is_run_or_says_why_not(path: Path) -> None:
    found = blocks(path)
    idle = [b.place for b in found if not b.marked and b.language not in {*RUN, "text"}]
    assert idle == [], "a language that is run, `text`, or <!-- not run: why --> before the block"
    text = path.read_text(encoding="utf-8")
    assert text.count("```") == 2 * len(re.findall(FENCE, text)), "a fence without its end"


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_no_command_hides_in_an_indented_block(path: Path) -> None:
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    assert [
        line for line in text.splitlines() if line.startswith("    ") and COMMAND.match(line.strip())
    ] == []


def test_there_is_something_to_run() -> None:
    """The rules above would also hold for pages without any block."""
    run = [b for path in PAGES for b in blocks(path) if not b.marked and b.language in RUN]
    assert {b.language for b in run} >= {"python", "pycon", "console"}
    assert len(run) > 30


class TestTheRules:
    """A checker that accepts everything would be a bad one."""

    def test_output_must_be_there_and_nothing_else(self) -> None:
        assert differences("a\nb\n", "a\nb\n") == []
        assert differences("a\nb\n", "a\n") == ["b"]
        assert differences("a\n", "a\nb\n") == ["not expected: b"]
        assert differences("a\nb\n", "a\nc\n") == ["b"]

    def test_elided_lines_and_parts_of_lines(self) -> None:
        assert differences("a\n…\nd\n", "a\nb\nc\nd\n") == []
        assert differences("a\n…\n", "a\nb\nc\n") == []
        assert differences("a\n…\nd\n", "a\nb\nc\n") == ["d"]
        assert differences("took … of it\n", "took 3 parts of it\n") == []
        assert differences("took … of it\n", "took 3 parts\n") != []

    def test_numbers_may_differ_by_rounding_only(self) -> None:
        assert alike("x +0.1197 14.4%", "x +0.1201 14.6%")
        assert not alike("x +0.1197", "x +0.1997")
        assert not alike("x +0.1197", "x -0.1197")
        assert not alike("32 of 1,024", "32 of 2,048")
        assert not alike("surrogate 1", "cc 1")

    def test_times_dates_and_ids_are_not_compared(self) -> None:
        assert steady("about 1.1 s, 2026-11-16 09:10, function-df0800dc5531a9234931d023")[0] == (
            "about TIME, DATE, function-ID"
        )
        assert steady("method  seconds  rest\ncc         0.57  biased")[1] == "cc TIME biased"
        assert steady("method  error\ncc       0.57")[1] == "cc 0.57"

    def test_commands_and_their_output(self) -> None:
        shown = Block("p", 1, "console", "$ fedvalue a \\\n    --b\nout\n$ fedvalue c\n", marked=False)
        assert commands(shown) == [("fedvalue a --b", "out\n"), ("fedvalue c", None)]
        plain = Block("p", 1, "sh", "# why\nfedvalue a\n\nfedvalue b\n", marked=False)
        assert commands(plain) == [("fedvalue a", None), ("fedvalue b", None)]

    def test_another_program_is_refused(self) -> None:
        with pytest.raises(AssertionError, match="cannot be run"):
            Session().run(Block("p", 1, "sh", "rm -rf build\n", marked=False))

    def test_blocks_are_found_with_their_marks(self, tmp_path: Path) -> None:
        page = tmp_path / "p.md"
        page.write_text(
            "```python\nprint(1)\n```\n\n```\n1\n```\n\n<!-- not run: other machines -->\n\n"
            "1. x\n\n   ```sh\n   flwr run\n   ```\n\n```\nplain\n```\n"
        )
        first, second, third = blocks(page)
        assert (first.expected, first.marked, first.line) == ("1\n", False, 1)
        assert (second.language, second.body, second.marked) == ("sh", "flwr run\n", False)
        assert third.language == ""


# Links


def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, made as GitHub makes them."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, flags=re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        copy = 0
        while (name := slug if not copy else f"{slug}-{copy}") in found:
            copy += 1
        found.add(name)
    return found


@pytest.mark.parametrize("path", LINKED, ids=name_of)
def test_every_link_leads_somewhere(path: Path) -> None:
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    text = re.sub(r"`[^`\n]*`", "", text)
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(target)
    assert dead == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    missing = [
        p.name
        for p in PAGES
        if p.parent.name == "docs" and p.name != "README.md" and f"({p.name})" not in index
    ]
    assert missing == []
    assert "(docs/README.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


# The command-line reference


def reference() -> Any:
    spec = importlib.util.spec_from_file_location("cli_reference", ROOT / "tools" / "cli_reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_code_says() -> None:
    committed = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert committed == reference().page(), "run `make docs`"


def test_the_reference_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    page = reference().page()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERMINAL_WIDTH", "40")
    assert reference().page() == page


def test_the_reference_has_every_command_and_option() -> None:
    import typer

    page = reference().page()
    root = typer.main.get_command(app)
    for name, command in reference().commands(root):
        section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert "```" in section, f"{name} has no example in tools/cli_reference.py"
        for parameter in command.params:
            for option in parameter.opts:
                assert f"`{option}" in section or option.upper() in section or option == parameter.name
