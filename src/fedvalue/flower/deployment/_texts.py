"""The templates of a deployment's files, and the names of its folders for clients."""

from __future__ import annotations

import re
import shlex
import unicodedata
from typing import TYPE_CHECKING, Any

from fedvalue._text import markdown_text
from fedvalue.flower._app_files import toml_value

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["folder_of", "text_of"]


def text_of(template: str, **facts: Any) -> str:
    """The text of a file; the deployment is `d` in its template."""
    return _templates().get_template(f"{template}.j2").render(**facts)


def folder_of(name: str, place: int) -> str:
    """A name for a folder that every system takes.

    >>> folder_of("Charité Berlin", 2), folder_of("診療所", 3)
    ('2-charite-berlin', '3-client')
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return f"{place}-{re.sub(r'[^a-z0-9]+', '-', plain).strip('-')[:40].strip('-') or 'client'}"


def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("fedvalue.flower.deployment"),
        autoescape=False,  # each file has rules of its own: the filters below
        keep_trailing_newline=True,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"sh": shlex.quote, "toml": toml_value, "md": markdown_text}
    return environment
