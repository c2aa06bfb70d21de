"""The terms of an agreement for people: what was left open is said in words, with what then applies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fedvalue._text import one_line
from fedvalue.agreement import Agreement
from fedvalue.estimators import ESTIMATORS, extra_trainings
from fedvalue.run._methods import default_budget

__all__ = ["agreement_lines"]


def agreement_lines(agreement: Agreement) -> list[tuple[str, str]]:
    """Job and payout as names and texts.

    >>> job = {"method": "permutation", "budget": None, "seeds": None, "options": {}, "plan": None}
    >>> terms = {"job": job, "payout": {"rule": "floor"}, "members": [{"name": "a", "key": ""}] * 8}
    >>> lines = dict(agreement_lines(Agreement(terms)))
    >>> lines["job.budget"], lines["job.seeds"]
    ('left open: by default 32 coalitions of 8 clients', 'left open: permutation trains with one')
    """
    job, n = agreement.job, len(agreement.members)
    open_words = {
        "job.budget": _open_budget(job, n),
        "job.seeds": _open_seeds(job, n),
        "job.groups": "none: every client is valued on its own",
        "job.plan": "none: the method is part of fedvalue",
        "payout.pot": "left open: any pot is shared out by these terms",
    }
    parts = (
        (f"{part}.{name}", value)
        for part in ("job", "payout")
        for name, value in _flat(agreement.terms[part])
    )
    return [
        (name, open_words.get(name, "left open") if value is None else _text(value)) for name, value in parts
    ]


def _open_budget(job: Mapping[str, Any], n: int) -> str:
    method = None if job.get("plan") is not None else ESTIMATORS.get(str(job.get("method")))
    if method is not None and method.guarantee == "exact":
        return f"left open: all {1 << n:,} coalitions of {n} clients are trained"
    if method is not None and method.view:
        return f"left open: {method.name} needs none"
    several = method is not None and method.uses_seeds and _seeds(job) != 1
    least = 0 if method is None else method.minimum(n, job.get("options") or {})
    what = "trainings" if several else "coalitions"
    return f"left open: by default {max(least, default_budget(n, several)):,} {what} of {n} clients"


def _open_seeds(job: Mapping[str, Any], n: int) -> str:
    method = None if job.get("plan") is not None else ESTIMATORS.get(str(job.get("method")))
    if method is None or not method.uses_seeds:
        return f"left open: {one_line(str(job.get('method')))} trains with one"
    if _seeds(job) is not None:
        return f"left open: {_seeds(job)}, by the options of the method"
    if method.guarantee == "exact":
        return (
            f"left open: all coalitions are trained with the first, and {extra_trainings(n)} trainings with others show how much "
            "is luck, as far as the budget allows"
        )
    return "left open: as many as suit the budget; the store says which were used"


def _seeds(job: Mapping[str, Any]) -> object:
    seeds = job.get("seeds")
    return (job.get("options") or {}).get("seeds") if seeds is None else seeds


def _flat(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _text(value: object) -> str:
    return "none" if value in ("", {}, []) else one_line(str(value))
