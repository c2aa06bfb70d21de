"""How every figure looks: one matplotlib style, one fixed look per method, the sizes of a page.

Each method keeps its colour, marker and dashes in all figures. The lightness of the colours of the methods
that are shown together is spread, so that they stay apart in grey and for colour-blind readers; markers and
dashes differ besides. Methods of one family that the paper does not compare share the colour of the
family: exact black, permutations sky blue, complementary contributions teal, IPSS red. Published methods have
filled marks and bars, ours open ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, TypeAlias, cast

import matplotlib
from matplotlib.colors import to_rgb

from fedvalue_paper.figures.words import in_words

__all__ = [
    "COLUMN",
    "CYCLE",
    "METHODS",
    "PAGE",
    "STYLE",
    "Dash",
    "Look",
    "house_style",
    "in_order",
    "lightness",
    "looks_for",
]

# Widths in inches: a column of a two-column paper, and its page.
COLUMN, PAGE = 3.5, 7.16

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",  # what an SVG falls back to where the font is not installed
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same bytes on every machine
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "figure.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "legend.handlelength": 2.9,
    "legend.columnspacing": 1.3,
    "text.parse_math": False,  # names hold $ and _ that are meant literally
    "text.usetex": False,
    "text.color": "#222222",
    "axes.labelcolor": "#222222",
    "axes.edgecolor": "#777777",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.unicode_minus": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    "xtick.color": "#777777",
    "ytick.color": "#777777",
    "xtick.labelcolor": "#222222",
    "ytick.labelcolor": "#222222",
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.markeredgewidth": 0.6,
    "lines.dash_capstyle": "butt",
    "figure.dpi": 200,  # as saved, so that labels are measured as they will be drawn
    "savefig.dpi": 200,
    "savefig.bbox": None,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "fedvalue",
    # Text stays text: it can be searched, and changed to the font of the paper.
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}

Dash: TypeAlias = "Literal['-', 'none'] | tuple[float, tuple[float, ...]]"

SOLID: Dash = "-"
LONG: Dash = (0, (7, 1.6))
MIDDLE: Dash = (0, (4, 1.6))
SHORT: Dash = (0, (2.2, 1.2))
DOTS: Dash = (0, (1, 1.1))
DASH_DOT: Dash = (0, (5, 1.4, 1, 1.4))
DASH_DOTS: Dash = (0, (4, 1.2, 1, 1.2, 1, 1.2))


@dataclass(frozen=True)
class Look:
    """How one series is drawn. `reference`: a quiet line to compare with, not a competitor. `ours`: not published."""

    label: str
    colour: str
    marker: str
    dash: Dash
    width: float = 1.2
    reference: bool = False
    ours: bool = False


def lightness(colour: str) -> float:
    """CIE L* of a colour: what is left of it in grey, 0 black to 100 white.

    >>> round(lightness("white")), round(lightness("black"))
    (100, 0)
    """
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    y = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


_BLACK, _UMBER, _BROWN, _SKY, _LILAC = "#0E0E0E", "#4A3E2B", "#76542C", "#7FB0FA", "#C68BC9"
_TEAL, _MAGENTA, _OLIVE, _PINK = "#007474", "#980054", "#978444", "#F4A2C7"
_RED, _AMBER, _NAVY, _GREY = "#E81C10", "#ECC54A", "#02276B", "#929292"
_VIOLET = "#720ED8"

# In the order of the paper's tables, ours behind; legends and bars follow it.
METHODS: dict[str, Look] = {
    "exact-perm": Look("Perm-Shapley", _UMBER, "P", DASH_DOTS),
    "exact": Look("MC-Shapley", _BLACK, "*", SOLID),
    "exact-cc": Look("exact CC", _BLACK, "+", DOTS),
    "dig-fl": Look("DIG-FL", _BROWN, ">", SHORT),
    "loo": Look("leave-one-out", _BROWN, "1", MIDDLE),
    "tmc": Look("Ext-TMC", _SKY, "v", DASH_DOT),
    "permutation": Look("permutation", _SKY, "2", LONG),
    "gtb": Look("Ext-GTB", _LILAC, "s", DOTS),
    "cc": Look("CC-Shapley", _TEAL, "^", MIDDLE),
    "cc-neyman": Look("CC-Neyman", _TEAL, "3", DASH_DOT),
    "cc-bernstein": Look("CC-Bernstein", _TEAL, "4", DASH_DOTS),
    "stratified-mc": Look("MC-SV", _RED, "o", LONG, 1.8),
    "stratified-cc": Look("CC-SV", _TEAL, "s", SHORT, 1.8),
    "gtg": Look("GTG-Shapley", _MAGENTA, "<", DASH_DOT),
    "or": Look("OR", _OLIVE, "p", LONG),
    "lambda-mr": Look("λ-MR", _PINK, "H", MIDDLE),
    "k-greedy": Look("K-Greedy", _RED, "d", SHORT, 1.8),
    "ipss": Look("IPSS", _RED, "o", SOLID, 1.8),
    "cc-paired": Look("CC-paired", _VIOLET, "^", SHORT, 1.4, ours=True),
    "ipss-balanced": Look("IPSS-balanced", _AMBER, "D", LONG, 1.4, ours=True),
    "surrogate": Look("surrogate", _NAVY, "s", DASH_DOTS, 1.4, ours=True),
    "surrogate-adaptive": Look("surrogate-adaptive", _NAVY, "d", SHORT, 1.4, ours=True),
    "equal": Look("equal split", _GREY, "", (0, (4, 2.5)), 0.9, reference=True),
}

# For series that are no methods: models, numbers of clients, sizes.
CYCLE: tuple[tuple[str, ...], ...] = (
    ("#1F4E9E", "#DB6B1B", "#2B9C82", "#7D1F4F", "#E3AF1C", "#7FB6E8", "#5A5A5A"),
    ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p"),
)
_CYCLE_DASHES = (SOLID, MIDDLE, DASH_DOT, DOTS)
_DESIGNS = (DOTS, DASH_DOT, SOLID)

_BY_NAME = {key: look for name, look in METHODS.items() for key in (name, look.label)}


@contextmanager
def house_style() -> Iterator[None]:
    """Everything that is drawn or saved inside looks like the house, whatever a user has set."""
    settings: dict[Any, Any] = {k: v for k, v in matplotlib.rcParamsDefault.items() if k != "backend"}
    with matplotlib.rc_context(settings | STYLE), warnings.catch_warnings():
        # A name in a script that the font lacks is shown as boxes; that is no reason to warn at every letter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def in_order(names: Iterable[object]) -> list[object]:
    """Distinct values in the order of a legend: methods as in the paper, numbers rising, others as they come."""
    distinct = list(dict.fromkeys(names))
    if all(isinstance(name, Real) for name in distinct):
        return sorted(distinct, key=lambda number: float(cast(float, number)))
    ranks = {look.label: rank for rank, look in enumerate(METHODS.values())}
    return sorted(distinct, key=lambda name: ranks[known.label] if (known := _family(name)) else -1)


def looks_for(names: Sequence[object], column: str = "label") -> dict[object, Look]:
    """The look of every series of a figure: fixed for methods, by label or name; a cycle for the others.

    A design of a method, such as "MC-SV, paired", has the colour of the method; designs of the same name share
    their dashes.
    """
    colours, markers = CYCLE
    looks: dict[object, Look] = {}
    designs: dict[str, Dash] = {}
    others = 0
    for name in names:
        known, family = _BY_NAME.get(str(name)), _family(name)
        if known is None:
            at = others % len(colours), others % len(markers), others % len(_CYCLE_DASHES)
            known = Look(in_words(column, name), colours[at[0]], markers[at[1]], _CYCLE_DASHES[at[2]], 1.5)
            if family is not None:
                design = str(name).partition(",")[2]
                dash = designs.setdefault(design, _DESIGNS[len(designs) % len(_DESIGNS)])
                known = replace(known, colour=family.colour, marker=markers[-1 - at[1]], dash=dash)
            others += 1
        looks[name] = known
    return looks


def _family(name: object) -> Look | None:
    """The method that a series is, or is a design of."""
    return _BY_NAME.get(str(name)) or _BY_NAME.get(str(name).partition(",")[0])
