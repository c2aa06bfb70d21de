"""The report of a run: facts first, then the same facts as a page or as Markdown, and a statement for each client.

>>> from fedvalue.values import Values
>>> values = Values([0.6, 0.3], ("a", "b"), "exact", 4, guarantee="exact")
>>> print(as_markdown(gather(values)).splitlines()[0])
# What the data of 2 clients is worth
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from fedvalue._checks import as_path, checked_call, expect
from fedvalue._files import write_file
from fedvalue.errors import InputError
from fedvalue.estimators import guarantee_lines
from fedvalue.payout import AbsentRule
from fedvalue.report._cover import Cover
from fedvalue.report._facts import Facts, Terms
from fedvalue.report._gather import gather
from fedvalue.report._markdown import as_markdown
from fedvalue.report._origin import FEDERATION
from fedvalue.report._page import as_html
from fedvalue.report._scales import Scale, core_range, ticks
from fedvalue.report._statement_pages import statement_page, write_statements
from fedvalue.report._templates import page_environment, style_sheet
from fedvalue.report._trained import Absent
from fedvalue.report._words import called
from fedvalue.store import History, UtilityStore, read_history
from fedvalue.values import Values, expect_shapley

__all__ = [
    "FEDERATION",
    "FORMATS",
    "Absent",
    "Cover",
    "Facts",
    "Scale",
    "Terms",
    "as_html",
    "as_markdown",
    "called",
    "core_range",
    "facts_of",
    "gather",
    "kind_of",
    "render",
    "report",
    "page_environment",
    "statement_page",
    "style_sheet",
    "ticks",
    "write_statements",
]

FORMATS: dict[str, Callable[[Facts], str]] = {"html": as_html, "md": as_markdown}
"""What a report can be written as."""
_ALSO = {"htm": "html", "markdown": "md", "": "html"}


@checked_call
def report(
    values: Values,
    path: str | PathLike[str],
    *,
    store: UtilityStore | str | PathLike[str] | None = None,
    pot: Any = None,
    currency: str = "",
    rule: str | None = None,
    anyway: bool = False,
    absent: str | AbsentRule = "excluded",
    copies: str = "each",
    min_share: Any = "0",
    step: Any = "0.01",
    format: str | None = None,
    consortium: str | None = None,
    period: str | None = None,
    date: str | datetime.date | None = None,
    operator: str | None = None,
    statements: str | PathLike[str] | None = None,
    record: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a report of values: one file that works offline; Markdown where its name ends in .md.

    With the `store` that the values were made with, it also shows what the trainings tell. A `pot` is shared out
    by a `rule`, `anyway` or only if something was learned, with a rule for `absent` clients and for `copies` ("each" or "share"), a `min_share` and a `step` (see `payout`); without a
    pot, payouts are in percent. `consortium`, `period`, `date` and `operator` are for its head. In the folder `statements`
    every client gets a page of its own, without the amounts of others. `record` is what run.json says of the run.

    >>> import tempfile
    >>> import fedvalue as fv
    >>> values = fv.value([0.0, 1.0, 1.0, 3.0], "exact")
    >>> path = report(values, tempfile.mkdtemp() + "/report.md", pot=1000)
    >>> path.read_text().splitlines()[0]
    '# What the data of 2 clients is worth'
    """
    expect("values", values, Values, "fv.Values", "fv.value and fv.run give them.")
    path = as_path("The path of a report", path)
    history: History | None = None
    if isinstance(store, UtilityStore):
        history = read_history(store, values)
    elif store is not None:
        with UtilityStore(store, create=False) as opened:
            history = read_history(opened, values)
    numbers = str(min_share), str(step)
    terms = Terms(None if pot is None else str(pot), currency, rule, anyway, absent, copies, *numbers)
    kind, cover = kind_of(format or path.suffix), Cover.of(consortium, period, date, operator)
    facts = facts_of(values, history, record, terms, cover=cover)
    with write_file(path) as file:
        file.write(FORMATS[kind](facts).encode())
    if statements is not None:
        write_statements(facts, as_path("The folder of statements", statements), kind)
    return path


def facts_of(
    values: Values,
    history: History | Absent | None = None,
    record: Mapping[str, Any] | None = None,
    terms: Terms | None = None,
    budget: int | None = None,
    cover: Cover | None = None,
) -> Facts:
    """What a report and its statements say; `budget` is what the run was given."""
    expect_shapley(values, "A report")
    return gather(values, history, record, terms, guarantee_lines(values, budget), cover)


def kind_of(format: str) -> str:
    """One of the `FORMATS`, from its name or the ending of a file name."""
    expect("format", format, str, " or ".join(FORMATS))
    kind = format.lstrip(".").lower()
    kind = _ALSO.get(kind, kind)
    if kind not in FORMATS:
        raise InputError(f"A report is written as {' or '.join(FORMATS)}. Got {kind!r}.")
    return kind


def render(
    values: Values,
    history: History | Absent | None = None,
    record: Mapping[str, Any] | None = None,
    terms: Terms | None = None,
    format: str = "html",
    budget: int | None = None,
    cover: Cover | None = None,
) -> bytes:
    """The report as the content of a file. `format` is html or md, or the ending of a file name."""
    return FORMATS[kind_of(format)](facts_of(values, history, record, terms, budget, cover)).encode()
