"""The report as one page that needs nothing else: no script, no request, no font. Its charts are inline SVG."""

from __future__ import annotations

import re

from fedvalue.audit import Audit, Finding, chance_text, change_text, coalition_text, general_lines
from fedvalue.report.run._charts import growth_chart, growth_range, pair_map, panels
from fedvalue.report.run._facts import Facts
from fedvalue.report.run._markup import bullets, element, folded, json_text, named, paragraphs, shown, table
from fedvalue.report.run._palette import LEVELS, STYLE
from fedvalue.report.run._ranking import ranking
from fedvalue.report.run._trained import Absent, Synergy, strongest
from fedvalue.report.run._words import NAME, convergence_note, signed
from fedvalue.text import plural

__all__ = ["as_html"]

# Nothing may be loaded or run, whatever a name tries: only the style sheet in the page itself counts.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_PANELS, _FINDINGS = 12, 20  # that are open to see; the others unfold
_MOST_IN_MAP = 40  # clients; beyond, a map of pairs cannot be read


def as_html(facts: Facts) -> str:
    """The page. The same facts give the same bytes."""
    sections = [
        ("clients", "Clients by value", ranking(facts)),
        ("growth", "How utility grows with more clients", _growth(facts)),
        ("pairs", "Which clients complement or replace each other", _pairs(facts)),
        ("convergence", "How the values settled", _convergence(facts)),
        ("audit", "Audit", _audit(facts)),
        ("method", "Method, guarantee and limits", _method(facts)),
        ("cost", "Cost", paragraphs(facts.cost)),
        ("origin", "To check and repeat this", _origin(facts)),
    ]
    links = "".join(element("li", element("a", shown(title), href=f"#{key}")) for key, title, _ in sections)
    body = element("a", "Skip to the verdict", href="#verdict", class_="skip") + element(
        "header",
        element("h1", shown(facts.title))
        + element("p", _subtitle(facts), class_="quiet")
        + element("div", paragraphs(facts.verdict), class_="verdict", id="verdict")
        + element("nav", element("ul", links), aria_label="Sections"),
    )
    body += element(
        "main",
        "".join(
            element("section", element("h2", shown(title), id=f"{key}-title") + inside, id=key,
                    aria_labelledby=f"{key}-title")
            for key, title, inside in sections
        ),
    )  # fmt: skip
    body += element(
        "footer", f"Written by fedvalue {shown(facts.version)}. This file loads nothing and sends nothing."
    )
    body += element("script", json_text(facts.to_dict()), type="application/json", id="fedvalue-report")
    page = element("html", element("head", _head(facts)) + "\n" + element("body", body), lang="en")
    return f"<!doctype html>\n{page}\n"


def _head(facts: Facts) -> str:
    return (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        + element("title", shown(facts.title))
        + element("style", STYLE)
    )


def _subtitle(facts: Facts) -> str:
    record = facts.origin.record or {}
    scenario = record.get("scenario")
    parts = []
    if isinstance(scenario, dict):
        parts.append(f"{scenario.get('name')}, partition {scenario.get('partition')}")
    parts += [str(record["model"])] if "model" in record else []
    parts += [facts.metric, f"values by {facts.method.name}"]
    return shown(" · ".join(parts))


# What the trainings show


def _growth(facts: Facts) -> str:
    growth = facts.growth
    if isinstance(growth, Absent):
        return paragraphs([growth.why])
    label = f"{'negative ' if facts.lower_is_better else ''}{facts.metric}"
    low, high = growth_range(growth)
    far = sum(not low <= utility <= high for _, utility in growth.dots)
    thinned = f" {len(growth.dots):,} of them are drawn." if len(growth.dots) < growth.coalitions else ""
    thinned += f" {far} are left out: they lie far below or above the others." if far else ""
    said = (
        f"Each dot is one of {plural(growth.coalitions, 'trained coalition')}: its {label} over the number of its "
        f"clients.{thinned} The line joins the means of the coalitions that were trained, size by size; where only "
        "some of a size were trained, it is their mean."
    )
    rows = [
        [
            str(layer.size),
            f"{layer.coalitions:,}",
            *(f"{x:.{facts.decimals}f}" for x in (layer.lowest, layer.mean, layer.highest)),
        ]
        for layer in growth.layers
    ]
    numbers = table(
        "Trained coalitions by size", ["clients", "coalitions", "lowest", "mean", "highest"], rows, range(5)
    )
    chart = growth_chart(growth, len(facts.clients), label)
    return element("figure", chart + element("figcaption", shown(said))) + folded("As a table", numbers)


def _pairs(facts: Facts) -> str:
    synergy = facts.synergy
    if isinstance(synergy, Absent):
        return paragraphs([synergy.why])
    said = (
        "For two clients: what both add to other clients beyond what each adds alone, v(S∪ij) − v(S∪i) − v(S∪j) + v(S), "
        "on average over all sets S for which these four coalitions were trained. Above zero they complement each "
        "other, below zero one makes up for the other. "
    )
    unknown = synergy.possible - len(synergy.pairs)
    if unknown:
        said += (
            f"{unknown:,} of {synergy.possible:,} pairs are not known: no such four coalitions were trained."
        )
    text = ""
    if len(facts.clients) <= _MOST_IN_MAP:
        text = element("figure", pair_map(synergy, facts) + _key())
        text += folded("The strongest pairs as a table", _pair_tables(facts, synergy, 8))
    else:
        text = _pair_tables(facts, synergy, 12)
    return element("p", shown(said), class_="note") + text


def _key() -> str:
    shades = [f"m{level}" for level in range(LEVELS, 0, -1)] + [f"p{level}" for level in range(1, LEVELS + 1)]
    swatches = "".join(element("i", class_=kind) for kind in shades)
    unknown = element("i", class_="blank") + " not known"
    inside = (
        element("span", "replace each other")
        + element("span", swatches)
        + element("span", "complement each other")
    )
    return element("div", inside + element("span", unknown), class_="key")


def _pair_tables(facts: Facts, synergy: Synergy, most: int) -> str:
    captions = ("Complement each other most", "Replace each other most")
    text = ""
    for caption, pairs in zip(captions, strongest(synergy, most), strict=True):
        rows = [
            [
                f"{named(facts.names[pair.first], NAME)} and {named(facts.names[pair.second], NAME)}",
                signed(pair.effect, facts.decimals),
                f"{pair.quadruples:,}",
            ]
            for pair in pairs
        ]
        if rows:
            text += table(caption, ["pair", "effect", "sets S behind it"], rows, (1, 2))
    return text or paragraphs(["No pair is worth more or less together than apart."])


def _convergence(facts: Facts) -> str:
    found = facts.convergence
    if isinstance(found, Absent):
        return paragraphs([found.why])
    clients = facts.clients
    text = panels(found, clients[:_PANELS], facts)
    if len(clients) > _PANELS:
        others = clients[_PANELS:]
        text += folded(f"The other {len(others)} clients", panels(found, others, facts))
    said = (
        f"{convergence_note(found, facts.method.name)} The numbers of coalitions are evenly apart in their logarithms; the "
        "dot is the value reported above. All charts share one scale; what leaves them lies far from the others, and "
        "the thin line is zero."
    )
    return element("figure", text + element("figcaption", shown(said)))


# Audit, method, origin


def _audit(facts: Facts) -> str:
    found = facts.audit
    if isinstance(found, Absent):
        return paragraphs([found.why])
    text = "" if found.findings else paragraphs(["Nothing stands out."])
    text += "".join(_finding(finding, found) for finding in found.findings[:_FINDINGS])
    others = found.findings[_FINDINGS:]
    if others:
        lines = [f"{finding.kind}: {', '.join(finding.clients)}" for finding in others]
        text += folded(f"{len(others)} further findings", bullets(lines))
    return text + element("h3", "In general") + bullets(general_lines(found))


def _finding(finding: Finding, audit: Audit) -> str:
    who = ", ".join(named(name, NAME) for name in finding.clients[:8])
    more = f" and {len(finding.clients) - 8} more" if len(finding.clients) > 8 else ""
    text = element("h3", f"{shown(finding.kind.capitalize())}{': ' if who else ''}{who}{more}")
    text += element("p", shown(f"{finding.statement} ({chance_text(finding)})"))
    rows = [
        [
            shown(coalition_text(row.first, audit.clients)),
            f"{row.first_utility:.4f}",
            shown(change_text(row, audit.clients)),
            f"{row.second_utility:.4f}",
            signed(row.second_utility - row.first_utility, 4),
        ]
        for row in finding.evidence
    ]
    if rows:
        caption = f"{len(rows)} of {finding.compared:,} comparisons"
        head = ["coalition", "utility", "compared", "utility", "difference"]
        text += folded(f"Evidence: {caption}", table(caption, head, rows, (1, 3, 4)))
    return element("article", text, class_="finding")


def _method(facts: Facts) -> str:
    method = facts.method
    text = element("p", f"{element('strong', shown(method.name))}: {shown(method.description)}")
    text += paragraphs(method.guarantee)
    if method.reference:
        text += element("p", f"Published: {shown(method.reference)}.", class_="note")
    return text + element("h3", "What the values do not say") + bullets(method.limits)


def _origin(facts: Facts) -> str:
    origin = facts.origin
    if origin.command is None:
        text = paragraphs(["How these values were run is not recorded beside them."])
    else:
        # An option and its value stay on one line where they can.
        words = (element("span", shown(part)) for part in re.split(" (?=--)", origin.command))
        text = element("p", "This command repeats the run:")
        text += element("pre", element("code", " ".join(words)))
    rows = [[shown(label), element("code", shown(value))] for label, value in origin.rows]
    text += table("Seeds, versions and fingerprints", ["what", "which"], rows)
    return text + element(
        "p",
        "The numbers of this page, but for the evidence of the audit, are in it as JSON: the element with the id "
        + element("code", "fedvalue-report") + " near the end of the file.",
        class_="note",
    )  # fmt: skip
