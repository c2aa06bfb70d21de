"""What an experiment is: frozen settings read from a TOML file.

A file states its settings once; `[scale.NAME]` and `[variant.NAME]` state only what differs. Games and methods
are tables by name, so that a scale can change one of them: `[games]` holds what all games have in common,
`[game.NAME]` one block of them, `[method.NAME]` one entry of the list `methods`. Lists in a block of games or
in the options of a method are crossed when the grid is made.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fedvalue.errors import InputError
from fedvalue_paper.keys import check

__all__ = ["SCALES", "Block", "Document", "Experiment", "Listed", "Shown", "having", "names", "read"]

SCALES = ("smoke", "small", "paper")


@dataclass(frozen=True)
class Block:
    """Some games that are described together; lists in `settings` are crossed."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Listed:
    """A method with its options, of which lists are crossed; None where the experiment decides.

    `over_seeds`: it spreads its trainings over all training seeds of a setting, where there are several. With more than
    `most_clients` it is not run.
    """

    key: str
    name: str
    label: str
    options: Mapping[str, Any] = field(default_factory=dict)
    budgets: tuple[int | str, ...] | None = None
    seeds: tuple[int, ...] | None = None
    expected: tuple[float, ...] | None = None
    over_seeds: bool = False
    most_clients: int | None = None


@dataclass(frozen=True)
class Shown:
    """How rows become a table: a part for each value of `split`, a line for each of `rows`, its `columns`.

    With `across`, a column's values stand side by side, one for each value of that column.
    """

    split: tuple[str, ...] = ()
    rows: tuple[str, ...] = ("label",)
    columns: tuple[str, ...] = ("trainings", "error")
    across: str = ""


@dataclass(frozen=True)
class Experiment:
    """One experiment at one scale: all that the engine needs to know.

    `settings` says what was run in the paper and what is run here, a line for each: what, there, here.
    """

    name: str
    scale: str
    variant: str
    title: str
    paper: str
    claim: str
    note: str
    takes: str
    blocks: tuple[Block, ...]
    methods: tuple[Listed, ...]
    budgets: tuple[int | str, ...]
    seeds: tuple[int, ...]
    exact_up_to: int
    table: Shown
    figures: tuple[Mapping[str, Any], ...]
    settings: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Document:
    """A file as it was read; `at` gives the experiment at a scale."""

    name: str
    content: Mapping[str, Any]

    @property
    def title(self) -> str:
        """What is measured."""
        return str(self.content["title"])

    @property
    def paper(self) -> str:
        """The table or figure of the paper."""
        return str(self.content["paper"])

    def takes(self, scale: str) -> str:
        """Roughly how long a scale takes on two cores."""
        return str(self.content["scale"].get(scale, {}).get("takes", ""))

    @property
    def variants(self) -> tuple[str, ...]:
        """The named variants."""
        return tuple(self.content.get("variant", {}))

    def at(self, scale: str, variant: str = "", seeds: int | None = None) -> Experiment:
        """The experiment at this scale, with the first `seeds` seeds where that many are asked for."""
        if scale not in self.content["scale"]:
            raise _unknown("scale", scale, self.content["scale"])
        if variant and variant not in self.variants:
            raise _unknown(f"variant of {self.name!r}:", variant, self.variants)
        base, differs = self.content, self.content["scale"][scale]
        varies = self.content.get("variant", {}).get(variant, {})
        settings = {**base, **differs, **varies}
        notes = [" ".join(str(part["note"]).split()) for part in (base, differs, varies) if "note" in part]
        entries = _merged(
            _merged(base.get("method", {}), differs.get("method", {})), varies.get("method", {})
        )
        return Experiment(
            name=self.name,
            scale=scale,
            variant=variant,
            title=self.title,
            paper=self.paper,
            claim=" ".join(str(base["claim"]).split()),
            note=" ".join(notes),
            takes=self.takes(scale),
            blocks=tuple(self._blocks(differs, varies)),
            methods=tuple(_listed(key, entries.get(key, {})) for key in settings["methods"]),
            budgets=tuple(settings.get("budgets", ("paper",))),
            seeds=_seeds(settings.get("seeds", 1) if seeds is None else seeds),
            exact_up_to=int(settings.get("exact_up_to", 12)),
            table=_shown(_merged(base["table"], varies.get("table", {}))),
            figures=tuple(settings.get("figure", ())),
            settings=tuple(tuple(line) for line in settings.get("settings", ())),
        )

    def _blocks(self, differs: Mapping[str, Any], varies: Mapping[str, Any]) -> Iterable[Block]:
        base = self.content
        for name in dict.fromkeys([*base.get("game", {}), *differs.get("game", {})]):
            layers = (
                base.get("games", {}), base.get("game", {}).get(name, {}),
                differs.get("games", {}), differs.get("game", {}).get(name, {}),
                varies.get("games", {}), varies.get("game", {}).get(name, {}),
            )  # fmt: skip
            settings: dict[str, Any] = {}
            for layer in layers:
                settings = _merged(settings, layer)
            if not settings.pop("skip", False):
                yield Block(name, settings)


def names() -> list[str]:
    """All experiments, in the order of the paper.

    >>> names()[:3]
    ['example1', 'example3', 'motivation']
    """
    found = {path.stem for path in _folder().glob("*.toml")}
    return [*(name for name in _ORDER if name in found), *sorted(found - set(_ORDER))]


_ORDER = [
    "example1",
    "example3",
    "motivation",
    "key-combinations",
    "synthetic",
    "femnist",
    "adult",
    "sent140",
    "budget",
    "pareto",
    "scalability",
    "variance",
    "theory",
]


def read(name: str | Path) -> Document:
    """An experiment by its name, or from a file of one's own."""
    path = name if isinstance(name, Path) else _folder() / f"{name}.toml"
    if not isinstance(name, Path) and name not in names():
        raise _unknown("experiment", name, names())
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name} cannot be read as an experiment: {error}.") from error
    check(path.name, content)
    return Document(path.stem, content)


def having(variant: str, documents: Sequence[Document]) -> list[Document]:
    """Those that have the variant."""
    known = list(dict.fromkeys(each for document in documents for each in document.variants))
    if variant not in known:
        raise _unknown("variant", variant, known)
    return [document for document in documents if variant in document.variants]


def _folder() -> Path:
    return Path(__file__).resolve().parent / "experiments"


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The first table with what the second says differently, table by table.

    Options belong to the scenario or method that they are for: where its name changes, they are left behind,
    and so is a partition.
    """
    # A method without a name is called by its key: any name is another. A scenario that is yet to come is not.
    renamed = "name" in other and other["name"] != one.get("name")
    renamed |= "scenario" in one and other.get("scenario", one["scenario"]) != one["scenario"]
    left = {"options", "partition", "samples", "test_size"} if renamed else set()
    result = {key: value for key, value in one.items() if key not in left}
    for key, value in other.items():
        nested = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = _merged(result[key], value) if nested else value
    return result


def _shown(given: Mapping[str, Any]) -> Shown:
    default = Shown()
    lists = {name: tuple(given.get(name, getattr(default, name))) for name in ("split", "rows", "columns")}
    return Shown(**lists, across=str(given.get("across", "")))


def _label(name: str) -> str:
    """What the method is called in all tables and figures."""
    from fedvalue_paper.figures.style import METHODS

    return METHODS[name].label if name in METHODS else name


def _listed(key: str, entry: Mapping[str, Any]) -> Listed:
    name = str(entry.get("name", key))
    seeds, budgets, expected = (entry.get(field) for field in ("seeds", "budgets", "expected"))
    return Listed(
        key=key,
        name=name,
        label=str(entry.get("label", _label(key))),
        options=dict(entry.get("options", {})),
        budgets=None if budgets is None else tuple(budgets),
        seeds=None if seeds is None else _seeds(seeds),
        expected=None if expected is None else tuple(map(float, expected)),
        over_seeds=bool(entry.get("over_seeds", False)),
        most_clients=entry.get("most_clients"),
    )


def _seeds(given: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(given, int) and given < 1:
        raise InputError(f"There must be at least one seed. Got {given}.")
    return tuple(range(given)) if isinstance(given, int) else tuple(map(int, given))


def _unknown(what: str, name: object, known: Iterable[str]) -> InputError:
    listed = list(known)
    near = get_close_matches(str(name), listed, n=2, cutoff=0.5)
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    return InputError(f"Unknown {what} {name!r}. {hint}There are: {', '.join(listed) or 'none'}.")
