"""The page of all claims with their verdicts, as Markdown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from fedvalue_paper.claims.checks import VERDICTS, rule_of
from fedvalue_paper.claims.registry import Judged, judge, read_claims
from fedvalue_paper.claims.results import read_results
from fedvalue_paper.manifest import is_older

__all__ = ["page", "page_of"]

_ABOUT = """\
# Every claim of the paper

Each quantitative or comparative statement of *Efficient Data Valuation Approximation in Federated Learning: A Sampling-based
Approach* (Wei, Tong, Zhou, He, Xu) with the line of its LaTeX source, a verdict and the figure behind it. Verdicts are
computed from the [results](results) by the rule that the last table states; those of definitions, proofs and citations are
*reasoned*, with the argument. Means are over games and runs; ± is a standard error over games, where there are several.
Times are those of trainings one after the other (`paper_seconds`), as the paper measures them.

*Confirmed with conditions* is wide: of a factor it says that the direction is right in at least one setting, and the figure says
by how much. Methods are the published ones. In the code of the paper's authors DIG-FL stands for trainings without each client and
GTG-Shapley for another method, which decides some claims about time. Results of *older settings* were made before the experiments
had the settings of today ([which](README.md#two-kinds-of-results)): with less data, without CC-Shapley as published, with
DIG-FL in the unit of the loss, and with the accuracy of a single untrained model as v(∅).

Made by `python -m fedvalue_paper.claims --results paper/results --out paper/CLAIMS.md`."""


def page_of(folder: Path) -> str:
    """The page of the results in a folder."""
    results = read_results(folder)
    older = {name for name in results if is_older(folder / name)}
    return page([judge(claim, results) for claim in read_claims()], older)


def page(judged: Sequence[Judged], older: Collection[str]) -> str:
    """Counts of verdicts, a table for each section, and the rules. `older` results are marked."""
    sections = list(dict.fromkeys(one.claim.section for one in judged))
    parts = [_ABOUT, _counts(judged)]
    for section in sections:
        parts.append(f"## {section}")
        parts.append(_table([one for one in judged if one.claim.section == section], older))
    checks = dict.fromkeys(one.claim.check for one in judged if one.claim.check)
    rules = [[f"`{name}`", rule_of(name)] for name in checks]
    parts += ["## Rules", _markdown(["check", "rule"], rules)]
    return "\n\n".join(parts) + "\n"


def _counts(judged: Sequence[Judged]) -> str:
    rows = []
    for verdict in VERDICTS:
        kinds = [bool(one.claim.check) for one in judged if one.outcome.verdict == verdict]
        rows.append([verdict, str(sum(kinds)), str(len(kinds) - sum(kinds)), str(len(kinds))])
    computed = sum(bool(one.claim.check) for one in judged)
    rows.append(["all", str(computed), str(len(judged) - computed), str(len(judged))])
    return _markdown(["verdict", "computed", "reasoned", "all"], rows)


def _table(judged: Sequence[Judged], older: Collection[str]) -> str:
    rows = []
    for one in judged:
        claim = one.claim
        settings = ", *older settings*" if one.folder in older else ""
        how = (
            f"[{one.folder}](results/{one.folder}/table.md){settings}, `{claim.check}`" if one.folder else "–"
        )
        how = how if claim.check else "reasoned" + (f", `{claim.test}`" if claim.test else "")
        said = f"{claim.says} (“{_words(claim.quote)}”)"
        rows.append([claim.id, str(claim.line), said, f"**{one.outcome.verdict}**", one.outcome.figure, how])
    return _markdown(["claim", "line", "the paper", "verdict", "figure or argument", "judged on"], rows)


def _words(quote: str) -> str:
    """The quotation without its markup."""
    for old, new in ((r"\textsl{", ""), (r"\textit{", ""), ("}", ""), (r"$\times$", "×"), (r"\times", "×"),
                     (r"$\sim$", "–"), (r"$\lambda$", "λ"), (r"\%", "%"), ("$", ""), (r"\medop{", "")):  # fmt: skip
        quote = quote.replace(old, new)
    return quote


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
