"""The report as Markdown: the same facts in tables, which read well with or without a renderer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fedvalue._text import one_line
from fedvalue.report._benefits import sums
from fedvalue.report._facts import Facts
from fedvalue.report._page import SECTIONS
from fedvalue.report._templates import markdown
from fedvalue.report._trained import Absent

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["as_markdown"]


def as_markdown(facts: Facts) -> str:
    """The report as a text. Names are data, never markup."""
    from markupsafe import Markup

    command = Markup(f"    {one_line(facts.origin.command or '')}")
    titles = {section.key: section.title for section in SECTIONS}
    return markdown(
        "report", facts, titles=titles, audit=_audit(facts), command=command, benefits=sums(facts)
    )


def _audit(facts: Facts) -> str | Markup:
    """The findings as the audit writes them, their headings one level down and without its title."""
    from markupsafe import Markup

    if isinstance(facts.audit, Absent):
        return facts.audit.why
    inside = facts.audit.to_markdown().partition("\n\n")[2].rstrip()
    return Markup(re.sub(r"^#", "##", inside, flags=re.MULTILINE))
