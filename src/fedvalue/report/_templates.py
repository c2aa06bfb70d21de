"""The templates of the report. Whatever a template writes is escaped by itself; a name it misses is an error."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from fedvalue._text import count, markdown_text, one_line, plural, shortened
from fedvalue.audit import chance_text, change_text, coalition_text, general_lines
from fedvalue.report._annex import TERMS
from fedvalue.report._facts import Facts
from fedvalue.report._incidents import incidents_note
from fedvalue.report._method import convergence_note
from fedvalue.report._trained import Absent, strongest
from fedvalue.report._words import called, fixed, interval_text, share_text, signed

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = ["audit_text", "html", "markdown", "page_environment", "style_sheet"]


def code_line(text: str) -> Markup:
    """A line of code in Markdown, in which nothing is markup."""
    from markupsafe import Markup

    return Markup(f"    {one_line(text)}")


_STATEMENTS, _SIGNERS = 12, 40  # statements that are open to see, clients with a line to sign on
_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    called, chance_text, change_text, coalition_text, code_line, convergence_note, count, fixed, general_lines, interval_text,
    incidents_note, one_line, plural, share_text, shortened, signed, strongest, zip,
)  # fmt: skip


def html(template: str, facts: Facts, **more: Any) -> Markup:
    """A part of the page. Text is escaped and put on one line; numbers are places in a chart, and short."""
    from markupsafe import Markup

    return Markup(_html().get_template(f"{template}.html.j2").render(facts=facts, **more))


def markdown(template: str, facts: Facts, **more: Any) -> str:
    """A text in Markdown, in which nothing but the template itself is markup."""
    return _markdown().get_template(f"{template}.md.j2").render(facts=facts, **more)


def audit_text(facts: Facts) -> str:
    """The findings in Markdown as the audit writes them, their headings one level down and without its title."""
    if isinstance(facts.audit, Absent):
        return markdown_text(facts.audit.why)
    inside = facts.audit.to_markdown().partition("\n\n")[2].rstrip()
    return re.sub(r"^#", "##", inside, flags=re.MULTILINE)


def style_sheet() -> Markup:
    """The CSS of the page."""
    from markupsafe import Markup

    environment = _html()
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, "page.css")[0])


@cache
def _html() -> Environment:
    return _with_words(page_environment("fedvalue.report"))


@cache
def _markdown() -> Environment:
    from markupsafe import Markup

    def finalize(value: Any) -> Any:
        return value if hasattr(value, "__html__") else Markup(markdown_text(str(value)))

    return _with_words(_environment("fedvalue.report", finalize))


def page_environment(package: str) -> Environment:
    """The templates of a package that write pages: text is escaped and put on one line, numbers are short."""

    def finalize(value: Any) -> Any:
        if isinstance(value, float):
            return f"{value:g}"
        return value if hasattr(value, "__html__") or not isinstance(value, str) else one_line(value)

    return _environment(package, finalize)


def _environment(package: str, finalize: Callable[[Any], Any]) -> Environment:
    # Imported late: who imports fedvalue for a number needs no templates.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        auto_reload=False,
        finalize=finalize,
        keep_trailing_newline=True,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )


def _with_words(environment: Environment) -> Environment:
    environment.globals |= {function.__name__: function for function in _FUNCTIONS}
    environment.globals |= {"TERMS": TERMS, "shown": _STATEMENTS, "signers": _SIGNERS}
    environment.tests["absent"] = lambda part: isinstance(part, Absent)
    return environment
