"""How the values were found: what the method promises, what the values do not tell, what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedvalue._text import count, duration, plural
from fedvalue.audit import absent_text
from fedvalue.estimators import ESTIMATORS, rest_on
from fedvalue.outcome import UTILITY
from fedvalue.report._trained import Convergence
from fedvalue.report._words import called
from fedvalue.store import History
from fedvalue.values import Values

__all__ = ["Method", "convergence_note", "cost_lines", "limits", "method_of"]


@dataclass(frozen=True)
class Method:
    """How the values were found: what the method does, what it guarantees, what the values do not tell."""

    name: str
    description: str
    reference: str
    guarantee: tuple[str, ...]
    limits: tuple[str, ...]


def method_of(values: Values, guarantee: Sequence[str]) -> Method:
    """The method in plain words."""
    method = ESTIMATORS.get(values.method)
    return Method(
        name=values.method,
        description=f"{method.description}." if method else "A method that is not part of fedvalue.",
        reference=method.reference if method else "",
        guarantee=tuple(guarantee),
        limits=limits(values),
    )


def limits(values: Values) -> tuple[str, ...]:
    """What holds for every such report, and what for this method."""
    method, biased = ESTIMATORS.get(values.method), values.guarantee not in ("exact", "unbiased")
    what, other = "to this metric on this test data", "Another metric, test set or model"
    if values.metric == UTILITY:
        what, other = "to the utility", "Another definition of the utility"
    said = [
        f"A {'Shapley ' if biased else ''}value is what a client adds {what}, averaged over all orders in which the "
        f"clients could join{'; these values approximate it' if biased else ''}. {other} would give "
        "other values.",
        "A value holds among these clients: two clients with the same data share its value, and either would be "
        "worth more without the other.",
        "A value below zero means that, on average, the others do better without the client. It does not say why.",
    ]
    if values.groups:
        of_groups = [f"{called(name)}: {', '.join(map(called, of))}" for name, of in values.groups.items()]
        said.append(
            f"Clients of a group join as one party ({'; '.join(of_groups)}). A group is worth what it adds as a whole, and its "
            "members share that (Owen value). However many clients a group consists of, it counts as one."
        )
    if method is not None and method.view is not None:
        said.append(
            "Only all clients together were trained. What smaller groups would reach is inferred from that training."
        )
    elif values.guarantee != "exact" and values.evaluations + values.known_before < 1 << values.n:
        said.append("Not all coalitions were trained. The method estimates the others or does without them.")
    if values.other_unit:
        said.append(
            f"The values of {values.method} are in {values.unit}, not in {values.metric}: they do not add up to what all "
            "clients gain together."
        )
    said += [absent_text(name, why) for name, why in values.absent.items()]
    if values.noise is None:
        if values.errors["training"] is None:
            said.append(
                "Training noise was not measured: how much the values would change with other random seeds is unknown."
            )
    elif values.seeds > 1:
        said.append(
            f"With another seed, the {values.metric} of a single training varies by {values.noise:.4f} (standard "
            "deviation). The values are those of the expected utility, and what is left of that luck is in the intervals."
        )
    elif values.replicates == 1:
        said.append(
            f"With other random seeds, the {values.metric} of a single training varies by {values.noise:.4f} (standard "
            "deviation)."
        )
    else:
        said.append(
            f"With other random seeds, the {values.metric} of a single training varies by {values.noise:.4f} (standard "
            f"deviation). The {rest_on(values)}."
        )
    return tuple(said)


def cost_lines(values: Values, trainings: History | None) -> tuple[str, ...]:
    """What was trained and how long it took."""
    times = f", each {values.replicates} times" if values.replicates > 1 else ""
    before = f" and {count(values.known_before)} more from the store" if values.known_before else ""
    what = f"{count(values.evaluations)} of {plural(1 << values.n, 'coalition')}"
    if values.luck_trainings:
        what = f"all {plural(1 << values.n, 'coalition')} and {plural(values.luck_trainings, 'training')} with other seeds"
    if values.seeds > 1:
        what = f"{plural(values.evaluations, 'training')} of coalitions, spread over {values.seeds} seeds"
    lines = [
        f"The method used {what}{times}{before}. Training and computation took {duration(values.seconds)}."
    ]
    cost = values.cost
    if cost is not None and cost.reused:
        total = count(cost.trained + cost.reused)
        here = (
            f"{count(cost.trained)} of {total} evaluations were made in this run; the store had the others."
        )
        lines.append(here if cost.trained else f"All {total} evaluations came from the store.")
    if trainings is not None:
        where = f" ({', '.join(trainings.computed_by)})" if trainings.computed_by else ""
        lines.append(
            f"The store holds {trainings.made}, which took {duration(trainings.seconds + trainings.other_seconds)}{where}. No run with this store trains them again."
        )
    if values.guarantee != "exact" and cost is not None and cost.exact_trainings is not None:
        about = (
            f", about {duration(cost.exact_seconds)} at this speed" if cost.exact_seconds is not None else ""
        )
        of = " of one seed" if values.seeds > 1 else ""
        lines.append(f"Exact values{of} would take {plural(cost.exact_trainings, 'training')}{about}.")
    return tuple(lines)


def convergence_note(found: Convergence, method: str) -> str:
    """What drew the values as they settled."""
    said = (
        f"These are the values that the method {found.estimator} estimates from the first {found.counts[0]:,} trained "
        f"coalitions, then from more, up to {found.counts[-1]:,} of {found.trained:,}, in the order in which they were "
        "stored (those stored at the same moment are in no particular order). The empty coalition and that of all clients "
        "are always included."
    )
    if found.seeds > 1:
        return f"{said} A coalition counts with the mean over its seeds, so the last values differ a little from those reported."
    if method != found.estimator:
        said += (
            f" {found.estimator.capitalize()} is shown because it can use any set of coalitions; {method} itself may have "
            "settled differently."
        )
    return said
