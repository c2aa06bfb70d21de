"""The report as Markdown: the same facts in tables, which read well with or without a renderer."""

from __future__ import annotations

import re

from fedvalue.report._facts import Facts
from fedvalue.report._sections import SECTIONS
from fedvalue.report._templates import markdown

__all__ = ["as_markdown"]


def as_markdown(facts: Facts) -> str:
    """The report as a text. Names are data, never markup."""
    parts = [_part(markdown("report", facts))]
    for section in SECTIONS:
        if section.text is not None and section.needs(facts):
            parts.append(_part(f"## {section.title}\n\n{section.text(facts)}"))
    return "\n\n".join([*parts, f"Written by fedvalue {facts.version}."]) + "\n"


def _part(text: str) -> str:
    """Without empty lines at its ends, and never two of them together."""
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")
