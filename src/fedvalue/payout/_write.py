"""Payouts written down: text, CSV for spreadsheets, Markdown, HTML for notebooks. Names are data, never markup or formulas."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedvalue._extras import need
from fedvalue._html import block, paragraphs, table
from fedvalue._text import csv_text, markdown_text, one_line, plain_table
from fedvalue.payout._stability import LEVEL, Order

if TYPE_CHECKING:
    from pandas import DataFrame

    from fedvalue.payout import Payout

__all__ = ["as_csv", "as_frame", "as_html", "as_markdown", "as_text", "doubtful_orders", "payout_rows"]

_CLOSE = 0.05  # orders that are wrong with less chance than this are not worth a word
_LISTED = 8  # orders in a sentence; more are counted, and all are in the JSON


def as_text(payout: Payout) -> str:
    """A plain table of the amounts, and the policy."""
    table = plain_table(_head(payout), _rows(payout))
    return "\n".join([table, *payout.policy, one_line(payout.stability.statement)])


def as_html(payout: Payout) -> str:
    """The same for notebooks, with a bar for every amount."""
    amounts = [float(x.amount) for x in payout.lines] + [float(x.amount) for x in payout.absent]
    rows = _rows(payout)
    left = rows[len(amounts) :]  # what is set aside, and the total
    shown = table("", _head(payout), rows[: len(amounts)], amounts)
    said = [" ".join(filter(None, row)) for row in left]
    return block(shown, paragraphs([*said, *payout.policy, payout.stability.statement]))


def _head(payout: Payout) -> list[str]:
    ranges = ["range 95%"] if _has_ranges(payout) else []
    return ["client", "value", "share", f"payout {payout.currency}".rstrip(), *ranges, ""]


def _rows(payout: Payout) -> list[list[str]]:
    """A row per client, what is set aside for those who were absent, and the total."""
    ranges = _has_ranges(payout)
    rows = [
        [
            x.name,
            f"{x.value:+.4f}",
            f"{x.share:.1%}",
            payout.text(x.amount),
            *([payout.range(x)] if ranges else []),
            x.note,
        ]
        for x in payout.lines
    ]
    no_range = [""] if ranges else []
    rows += [[x.name, "absent", "", payout.text(x.amount), *no_range, x.note] for x in payout.absent]
    rows += [["set aside", "", "", payout.text(payout.held), *no_range, "in escrow"]] if payout.held else []
    return [*rows, ["total", "", "", payout.text(payout.pot), *no_range, ""]]


def payout_rows(payout: Payout) -> tuple[list[str], list[list[str]]]:
    """The headings and rows of the table on a terminal, the total last; a column that would be empty is left out."""
    amount, spread = one_line(f"payout {payout.currency}".rstrip()), "± 95%"
    head = ["client", "value"]
    head += [spread] if any(line.half_width is not None for line in payout.lines) else []
    head += ["share", amount, *(["range\n95%"] if _has_ranges(payout) else [])]
    head += ["note"] if payout.absent or any(line.note for line in payout.lines) else []
    rows = [
        {
            "client": one_line(line.name),
            "value": f"{line.value:+.4f}",
            spread: "–" if line.half_width is None else f"{line.half_width:.4f}",
            "share": f"{line.share:.1%}",
            amount: payout.text(line.amount),
            "range\n95%": payout.range(line),
            "note": line.note,
        }
        for line in payout.lines
    ]
    rows += [
        {"client": one_line(x.name), "value": "absent", amount: payout.text(x.amount), "note": x.note}
        for x in payout.absent
    ]
    if payout.held:
        rows += [{"client": "set aside", amount: payout.text(payout.held), "note": "in escrow"}]
    rows += [{"client": "total", amount: payout.text(payout.pot)}]
    return head, [[row.get(name, "") for name in head] for row in rows]


def _has_ranges(payout: Payout) -> bool:
    return any(x.low is not None for x in payout.lines)


def as_frame(payout: Payout) -> DataFrame:
    """See `Payout.to_frame`."""
    columns = ("name", "value", "half_width", "share", "amount", "low", "high", "note")
    pandas = need("pandas", "A frame")
    frame: DataFrame = pandas.DataFrame(
        {"client" if name == "name" else name: [getattr(x, name) for x in payout.lines] for name in columns}
    )
    return frame


def as_csv(payout: Payout) -> str:
    """Amounts are plain numbers. Line ends are those of RFC 4180, which spreadsheets expect."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["client", "value", "half_width_95", "share", "payout", "low", "high", "currency", "note"])
    for line in payout.lines:
        numbers = (line.value, line.half_width, line.share, line.amount, line.low, line.high)
        cells = ("" if number is None else number for number in numbers)
        rows.writerow([csv_text(line.name), *cells, csv_text(payout.currency), line.note])
    for one in payout.absent:
        note = csv_text(f"absent ({one_line(one.reason)}): {one.note}")
        rows.writerow([csv_text(one.name), "", "", "", one.amount, "", "", csv_text(payout.currency), note])
    if payout.held:
        rows.writerow(["set aside", "", "", "", payout.held, "", "", csv_text(payout.currency), "in escrow"])
    return text.getvalue()


def as_markdown(payout: Payout) -> str:
    """Title, table, policy, stability, origin."""
    unit = f" ({markdown_text(payout.currency)})" if payout.currency else ""
    ranges = any(line.low is not None for line in payout.lines)
    head = [
        "Client",
        "Value",
        f"± {LEVEL:.0%}",
        "Share",
        f"Payout{unit}",
        *(["Range 95%"] if ranges else []),
        "Note",
    ]
    marks = ["---", *["---:"] * (len(head) - 2), "---"]
    rows = [head, marks, *(_row(payout, i, ranges) for i in range(len(payout.lines)))]
    gap = [""] if ranges else []
    rows += [
        [markdown_text(one.name), "absent", "–", "–", payout.text(one.amount), *gap, one.note]
        for one in payout.absent
    ]
    rows += [["Set aside", "", "", "", payout.text(payout.held), *gap, "in escrow"]] if payout.held else []
    total = ["**Total**", "", "", "", f"**{payout.text(payout.pot)}**", *([""] if ranges else []), ""]
    table = "\n".join("| " + " | ".join(row) + " |" for row in [*rows, total])
    firm = [markdown_text(payout.stability.statement), *doubtful_orders(payout, markdown_text)]
    parts = [
        "# Payout",
        table,
        "## Policy",
        "\n".join(f"- {markdown_text(sentence)}" for sentence in payout.policy),
        "## How firm the amounts are",
        "\n".join(f"- {sentence}" for sentence in firm),
        f"Values by the method {markdown_text(payout.method)}"
        + (f", game {markdown_text(payout.game_id)}." if payout.game_id else ".")
        + (f" Agreement {markdown_text(payout.agreement)}." if payout.agreement else ""),
    ]
    return "\n\n".join(parts) + "\n"


def _row(payout: Payout, i: int, ranges: bool) -> list[str]:
    line = payout.lines[i]
    return [
        markdown_text(line.name),
        f"{line.value:+.4g}",
        "–" if line.half_width is None else f"{line.half_width:.2g}",
        f"{line.share:.2%}",
        payout.text(line.amount),
        *([payout.range(line)] if ranges else []),
        line.note,
    ]


def doubtful_orders(payout: Payout, shown: Callable[[str], str] = one_line) -> list[str]:
    """Which neighbours by value may stand the wrong way round; `shown` makes names fit to be printed."""
    orders = payout.stability.orders
    if not orders:
        return []
    equal = [order for order in orders if order.equal]
    close = [order for order in orders if order.wrong >= _CLOSE and not order.equal]
    lines = []
    if equal:
        pairs = "; ".join(f"{shown(order.above)} and {shown(order.below)}" for order in equal[:_LISTED])
        lines.append(f"Equal in value: {pairs}{_more(equal)}.")
    if close:
        close.sort(key=lambda order: -order.wrong)
        chances = "; ".join(
            f"{shown(order.above)} above {shown(order.below)} {'at most ' if order.at_most else ''}{order.wrong:.0%}"
            for order in close[:_LISTED]
        )
        lines.append(f"Orders in doubt (and how likely they are wrong): {chances}{_more(close)}.")
    # Of exact values this would be no news where training noise, which may well turn them, is not in it.
    news = payout.guarantee != "exact" or payout.stability.all_luck
    if len(close) + len(equal) < len(orders) and news:
        others = "Any other order" if lines else "The order"
        lines.append(f"{others} of two neighbours is wrong with a probability below {_CLOSE:.0%}.")
    return lines


def _more(orders: list[Order]) -> str:
    return f"; and {len(orders) - _LISTED} more" if len(orders) > _LISTED else ""
