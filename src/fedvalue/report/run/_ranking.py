"""The table of clients: a bar with its whisker in every row, and cards instead of rows on a phone."""

from __future__ import annotations

from collections.abc import Sequence

from fedvalue.payout import doubtful_orders
from fedvalue.report.run._charts import bar, bar_axis, value_scale
from fedvalue.report.run._facts import Client, Facts
from fedvalue.report.run._markup import bullets, element, folded, named, paragraphs, shown
from fedvalue.report.run._trained import Absent
from fedvalue.report.run._words import NAME, signed

__all__ = ["ranking"]

_FIRST, _LAST = 40, 20  # rows of many clients that are open to see; the others unfold


def ranking(facts: Facts) -> str:
    """All clients by value. Of many, the highest and the lowest are open to see."""
    clients, many = facts.clients, len(facts.clients) > _FIRST + _LAST
    first = clients[:_FIRST] if many else clients
    text = _table(facts, first, "Clients by value, the highest first")
    if many:
        middle, last = clients[_FIRST:-_LAST], clients[-_LAST:]
        title = f"The {len(middle)} clients between"
        text += folded(title, _table(facts, middle, title))
        text += _table(facts, last, f"The {len(last)} clients with the lowest values")
    text += element(
        "div", paragraphs([f"{facts.interval_note} Share: part of the sum of all values."]), class_="note"
    )
    if isinstance(facts.payout, Absent):
        return text + paragraphs([f"No payout: {facts.payout.why}"])
    paid = facts.payout
    firm = [paid.stability.statement, *doubtful_orders(paid)]
    return text + folded("How the payout is computed, and how firm it is", bullets([*paid.policy, *firm]))


def _table(facts: Facts, clients: Sequence[Client], caption: str) -> str:
    scale = value_scale(facts.clients)
    heading = (
        element("th", "#", scope="col", class_="num", role="columnheader")
        + element("th", "Client", scope="col", role="columnheader")
        + element(
            "th", element("span", "Chart", class_="hidden") + bar_axis(scale),
            scope="col", class_="chart", role="columnheader",
        )
    )  # fmt: skip
    whole = "Payout, % of the pot" if facts.unit == "%" else f"Payout {facts.unit}".rstrip()
    value = "Value, 95 % interval" if any(client.low is not None for client in clients) else "Value"
    paid = [] if isinstance(facts.payout, Absent) else [whole]
    for text in (value, "Share", *paid):
        heading += element("th", shown(text), scope="col", class_="num", role="columnheader")
    head = element("thead", element("tr", heading, role="row"), role="rowgroup")
    rows = "".join(_row(facts, client, bar(client, scale), whole) for client in clients)
    inside = element("caption", shown(caption)) + head + element("tbody", rows, role="rowgroup")
    # The roles are said because a phone shows rows as cards, which makes some readers forget the table.
    return element("table", inside, class_="ranking", role="table")


def _row(facts: Facts, client: Client, chart: str, whole: str) -> str:
    worth = signed(client.value, facts.decimals)
    if client.low is not None and client.high is not None:
        bounds = f"{signed(client.low, facts.decimals)} to {signed(client.high, facts.decimals)}"
        worth += element("span", bounds, class_="small")
    share = "–" if client.share is None else f"{client.share:.1%}".replace("-", "−")
    cells = element("td", str(client.rank), class_="num", role="cell")
    cells += element("th", named(client.name, NAME), scope="row", class_="who", role="rowheader")
    cells += element("td", chart, class_="chart", role="cell")
    cells += element("td", worth, class_="num worth", role="cell")
    cells += element("td", share, class_="num part", role="cell", data_label="share")
    if client.paid is not None:
        unit = "%" if facts.unit == "%" else ""
        small = [text for text in (client.paid_range, client.note) if text]
        amount = f"{client.paid}{unit}" + "".join(
            element("span", shown(text), class_="small") for text in small
        )
        cells += element("td", amount, class_="num paid", role="cell", data_label=whole)
    return element("tr", cells, role="row")
