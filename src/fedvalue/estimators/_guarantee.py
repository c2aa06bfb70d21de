"""How far values can be trusted, in words."""

from __future__ import annotations

from fedvalue.estimators._method import UNSTATED
from fedvalue.values import Values

__all__ = ["guarantee_lines"]

_GUARANTEES = {
    "exact": "Exact: these are the {} of the game.",
    "unbiased": "Unbiased: right on average over seeds; a single run deviates, and a larger budget deviates less.",
    "biased": "Biased: an approximation with a systematic error that no number of seeds averages out.",
    UNSTATED: "The method states no guarantee.",
}


def guarantee_lines(values: Values, budget: int | None = None) -> list[str]:
    """How far these values can be trusted, in words. `budget` is the one that was asked for."""
    everything = values.evaluations == 1 << values.n
    found = _GUARANTEES.get(values.guarantee, "What the method guarantees is not recorded.")
    lines = [found.format(_title(values))]
    if values.seeds > 1 or values.promise != values.guarantee:
        lines = [_of_seeds(values)]
    if values.guarantee == "exact" and values.known_before and not everything:
        lines = [
            f"Exact: {values.method} asked for {values.evaluations:,} coalitions, and the store knew the "
            f"other {values.known_before:,}, so these are the {_title(values)} of {_of(values)}."
        ]
    if values.notes and values.guarantee != "exact":
        lines = [*([] if values.notes[0].startswith("Not unbiased") else lines), *values.notes]
    if everything and budget is not None and values.guarantee == "exact":
        lines.append("The budget covers all coalitions, so nothing had to be estimated.")
    elif values.stderr is None and values.guarantee != "exact":
        lines.append("No ±: there is no valid standard error for this method at this budget.")
    return [*lines, *_in_groups(values)]


def _in_groups(values: Values) -> list[str]:
    if not values.groups:
        return []
    named = "; ".join(f"{name}: {', '.join(of)}" for name, of in values.groups.items())
    whole = values.of_groups()
    worth = "; ".join(f"{name} {whole.mean[whole.names.index(name)]:+.4f}" for name in values.groups)
    return [
        f"Clients join in groups ({named}), so these are Owen values: the Shapley values of the groups, shared among "
        f"their members. Together: {worth}."
    ]


def _title(values: Values) -> str:
    """Groups have a sentence of their own."""
    title = "Shapley values" if values.groups else values.title
    return title if title[0] != "L" and title[0] != "N" else title.lower()


def _of(values: Values) -> str:
    return "the game with this seed" if values.one_seed else "the game"


def _of_seeds(values: Values) -> str:
    """What values of trainings that another seed would change are values of."""
    if values.one_seed:
        return (
            f"Exact for this seed: these are the {_title(values)} of the game as it was trained. Another seed would give "
            "others."
        )
    if values.guarantee == "exact":
        return f"{values.promise.capitalize()}: the mean of their {_title(values)}."
    return (
        f"Estimated: the {_title(values)} of the utility that is to be expected, over initial models and orders of "
        f"minibatches, from {values.seeds} of them. The ± is made to hold these in 95 of 100 cases; another run has luck of "
        "its own, so two runs may differ by 1.4 times the ±."
    )
