"""What a check of a run came to: sentences, each sound, wrong or not checked, and a page of them that can be kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from fedvalue._checks import as_path
from fedvalue._files import write_file
from fedvalue._text import markdown_text, one_line, plural
from fedvalue._version import __version__

__all__ = ["Check", "State", "Verdict", "only_consistent", "sound", "unchecked", "undecided", "wrong"]

State = Literal["sound", "wrong", "unchecked", "undecided"]
_FORMAT = "fedvalue.verdict/1"
_IN_WORDS: dict[str, str] = {
    "sound": "sound",
    "wrong": "WRONG",
    "unchecked": "not checked",
    "undecided": "NOT CHECKED",
}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at, and what came of it."""

    what: str
    state: State
    text: str

    @property
    def word(self) -> str:
        """The state in words."""
        return _IN_WORDS[self.state]


def sound(what: str, text: str) -> Check:
    """Nothing is wrong here."""
    return Check(what, "sound", text)


def wrong(what: str, text: str) -> Check:
    """Something does not fit."""
    return Check(what, "wrong", text)


def undecided(what: str, text: str) -> Check:
    """It could not be looked at, and the results hang on it: the verdict is not sound."""
    return Check(what, "undecided", text)


def unchecked(what: str, text: str) -> Check:
    """Nobody can tell from what is there."""
    return Check(what, "unchecked", text)


def only_consistent(checks: Iterable[Check]) -> Iterator[Check]:
    """What fits values that nobody has computed again: it says nothing about whether it is right."""
    for check in checks:
        if check.state == "sound":
            yield undecided(check.what, "it is only consistent with values that were not checked")
        else:
            yield check


@dataclass(frozen=True)
class Verdict:
    """All checks of a run. `about` says which run it was, by what identifies it.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import fedvalue as fv
    >>> folder = Path(tempfile.mkdtemp())
    >>> values = fv.value([0.0, 1.0, 1.0, 3.0], "exact", store=folder / "store.db")
    >>> _ = values.save(folder / "values.json")
    >>> text = (folder / "values.json").read_text()
    >>> _ = (folder / "values.json").write_text(text.replace("1.5", "1.6"))
    >>> verdict = fv.verify(folder / "values.json", store=folder / "store.db")
    >>> verdict.sound, [check.what for check in verdict.checks if check.word == "WRONG"]
    (False, ['The values'])
    """

    checks: tuple[Check, ...]
    about: Mapping[str, str]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong, and all was checked that the results hang on. Other checks that were not made say nothing."""
        return all(check.state not in ("wrong", "undecided") for check in self.checks)

    @property
    def wrong(self) -> bool:
        """Whether anything was found to be wrong."""
        return any(check.state == "wrong" for check in self.checks)

    @property
    def statement(self) -> str:
        """The verdict in a sentence."""
        bad = sum(check.state == "wrong" for check in self.checks)
        left = sum(check.state in ("unchecked", "undecided") for check in self.checks)
        done = len(self.checks) - bad - left
        said = (
            f"{plural(bad, 'finding')}: these results are not what they should be"
            if bad
            else "Nothing is wrong"
            if self.sound
            else "Nothing is known to be wrong, but what these results hang on could not be checked"
        )
        return f"{said}; {plural(done, 'check')} passed" + (f", {left} could not be made." if left else ".")

    def lines(self) -> list[str]:
        """Check by check, in words."""
        return [f"{check.word}: {check.what}: {check.text}" for check in self.checks]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "format": _FORMAT,
            "fedvalue": __version__,
            "sound": self.sound,
            "statement": self.statement,
            "about": dict(self.about),
            "checks": [asdict(check) for check in self.checks],
        }

    def to_markdown(self) -> str:
        """A text for whoever has to be told."""
        rows = ["| | what | finding |", "| --- | --- | --- |"]
        rows += [f"| {c.word} | {markdown_text(c.what)} | {markdown_text(c.text)} |" for c in self.checks]
        about = [f"- {markdown_text(name)}: {markdown_text(text)}" for name, text in self.about.items()]
        parts = ["# Verification", self.statement, "\n".join(about), "\n".join(rows)]
        return "\n\n".join([*parts, f"Checked by fedvalue {__version__}."]) + "\n"

    def to_html(self) -> str:
        """A page that needs nothing else."""
        from jinja2 import Environment, PackageLoader, StrictUndefined

        environment = Environment(
            loader=PackageLoader("fedvalue.evidence"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=lambda value: one_line(value) if type(value) is str else value,
        )
        return environment.get_template("verdict.html.j2").render(verdict=self, version=__version__)

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the page, or the text where the name ends in .md."""
        file = as_path("The path of a verdict", path)
        text = self.to_markdown() if file.suffix.lower() in (".md", ".markdown") else self.to_html()
        with write_file(file) as out:
            out.write(text.encode())
        return file

    def __str__(self) -> str:
        """What `fedvalue verify` prints."""
        return "\n".join([*self.lines(), self.statement])
