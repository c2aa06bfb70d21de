"""The report of a run: facts first, then the same facts as a page, as Markdown or as a picture.

>>> from fedvalue.values import Values
>>> values = Values([0.6, 0.3], ("a", "b"), "exact", 4, guarantee="exact")
>>> print(as_markdown(gather(values)).splitlines()[0])
# What the data of 2 clients is worth
"""

from __future__ import annotations

from collections.abc import Callable

from fedvalue.report.run._facts import Facts, Terms, gather
from fedvalue.report.run._html import as_html
from fedvalue.report.run._markdown import as_markdown
from fedvalue.report.run._trained import Absent

__all__ = ["FORMATS", "Absent", "Facts", "Terms", "as_html", "as_markdown", "as_png", "gather"]


def as_png(facts: Facts) -> bytes:
    """The charts and the verdict as one picture."""
    from fedvalue.report.run._png import draw

    return draw(facts)


FORMATS: dict[str, Callable[[Facts], bytes]] = {
    "html": lambda facts: as_html(facts).encode(),
    "md": lambda facts: as_markdown(facts).encode(),
    "png": as_png,
}
"""What a report can be written as."""
