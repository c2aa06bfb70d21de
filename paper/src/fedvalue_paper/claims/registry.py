"""The claims of `claims.toml`, and their verdicts."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from fedvalue_paper.claims.checks import CHECKS, NOT_TESTABLE, Outcome
from fedvalue_paper.claims.results import Results

__all__ = ["Claim", "Judged", "judge", "read_claims"]

_SCALES = ("paper", "small")  # the first that has results is judged on


@dataclass(frozen=True)
class Claim:
    """A statement of the paper: where it stands, a few of its words, what it says, and how it is judged.

    `check` is a name in CHECKS with its parameters in `given`; without one, the verdict is `reasoned`: typed in, with its
    argument and, where there is one, the test that shows it.
    """

    id: str
    section: str
    line: int
    quote: str
    says: str
    experiment: str = ""
    check: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    verdict: str = ""
    argument: str = ""
    test: str = ""


@dataclass(frozen=True)
class Judged:
    """A claim with its outcome; `folder` holds the results that it was judged on."""

    claim: Claim
    outcome: Outcome
    folder: str = ""


def read_claims() -> list[Claim]:
    """All claims, in the order of the paper."""
    document = tomllib.loads(files(__package__).joinpath("claims.toml").read_text(encoding="utf-8"))
    groups: Mapping[str, list[str]] = document["groups"]
    return [_claim(entry, groups) for entry in document["claim"]]


def judge(claim: Claim, results: Results) -> Judged:
    """The outcome of a claim's check on the results of the largest scale that have what it needs, or of its argument."""
    if not claim.check:
        return Judged(claim, Outcome(claim.verdict, claim.argument))
    folders = [f"{claim.experiment}-{scale}" for scale in _SCALES]
    judged = [
        Judged(claim, CHECKS[claim.check](results[folder], claim.given), folder)
        for folder in folders
        if folder in results
    ]
    missing = Judged(claim, Outcome(NOT_TESTABLE, f"there are no results of {claim.experiment}"))
    testable = (one for one in judged if one.outcome.verdict != NOT_TESTABLE)
    return next(testable, judged[0] if judged else missing)


def _claim(entry: Mapping[str, Any], groups: Mapping[str, list[str]]) -> Claim:
    """Names such as "@others" stand for a group of methods."""
    given = dict(entry.get("given", {}))
    for key in ("methods", "rivals"):
        if isinstance(given.get(key), str):
            given[key] = groups[given[key].removeprefix("@")]
    return Claim(**{**entry, "given": given})
