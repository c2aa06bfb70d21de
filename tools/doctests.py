"""Examples in docstrings are shown as code: mkdocstrings takes docstrings as Markdown, where `>>>` begins a quotation."""

from __future__ import annotations

import re

from griffe import Extension, Object

# From a prompt to the next empty line.
EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class Doctests(Extension):
    """Puts a fence around each example of a docstring."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The docstring with its examples in fences; indented blocks, as code is given here, stay what they are."""
    return EXAMPLE.sub(lambda found: f"\n```pycon\n{found[0]}\n```\n", text)
