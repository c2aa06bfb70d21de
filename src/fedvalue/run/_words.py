"""What a run says to people: the game in a heading, then what stands out, what it cost, what it guarantees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedvalue._text import count, duration, plural
from fedvalue.estimators import guarantee_lines, rest_on
from fedvalue.run._prepare import OWN_PARTITION, Prepared
from fedvalue.scenarios import Scenario
from fedvalue.training import Learner, Pooling, Ruled, Training, Work
from fedvalue.values import Values

__all__ = ["heading", "result_lines"]

_NAMED = 6  # clients in a sentence; more are counted


def heading(prepared: Prepared) -> list[str]:
    """Who the clients are and how they train."""
    scenario, game = prepared.scenario, prepared.game
    rows = sum(map(len, scenario.clients))
    repeats = f", {game.replicates} replicates" if game.replicates > 1 else ""
    slow = game.training.precision == "bf16" and prepared.device == "cpu"
    partition = "" if prepared.partition == OWN_PARTITION else f", partition {prepared.partition}"
    return [
        f"{scenario.name}{partition}: {scenario.n} clients, {count(rows)} rows to train on, "
        f"{count(len(scenario.test))} to test on{', held out by the clients' if scenario.test_owners else ''}.",
        *([] if scenario.report is None else scenario.report.lines()),
        f"{prepared.model}, {_rules(prepared.model, game.learner, game.training)}, seed {game.training.seed}{repeats}, on "
        f"{prepared.where}.",
        *(f"Note: {warning}" for warning in scenario.details.get("warnings", ())),
        *(["Note: bf16 saves no time on a CPU; it is meant for CUDA."] if slow else []),
    ]


def _rules(model: str, learner: Learner, rules: Training) -> str:
    """How clients train, as far as the model leaves that open."""
    rounds = f"{rules.rounds} round{'' if rules.rounds == 1 else 's'}"
    if model == "least-squares":
        return "solved in closed form"
    if isinstance(learner, Pooling):
        return "fitted to pooled rows"
    if isinstance(learner, Ruled):
        own = ", ".join(f"{name} {value}" for name, value in learner.identity().items() if name != "model")
        return f"{rounds}, {own}"
    weights = "" if rules.weights == "rows" else f", {rules.weights} weights"
    weights += f" (at most {rules.max_share:.0%} of all)" if rules.max_share else ""
    if rules.algorithm == "fedsgd":
        return f"fedsgd with {rounds}, rate {rules.rate:g}{_further(rules)}{weights}{_loss(learner)}"
    extra = f", momentum {rules.momentum:g}" if rules.momentum else ""
    extra += f", mu {rules.mu:g}" if rules.mu else ""
    extra += _further(rules)
    return (
        f"{rules.algorithm} with {rounds} × {rules.epochs} epochs, batch {rules.batch}, {rules.optimizer}, "
        f"rate {rules.rate:g}{extra}{weights}{_loss(learner)}"
    )


def _loss(learner: Learner) -> str:
    """The loss, where one was chosen."""
    chosen = getattr(learner, "loss", None)
    return "" if chosen is None else f", loss {getattr(chosen, 'name', chosen)}"


def _further(rules: Training) -> str:
    """Rules of steps that are not as usual, by their names."""
    return "".join(f", {name.replace('_', ' ')} {rule}" for name, rule in rules.further.items())


def result_lines(
    values: Values, scenario: Scenario, work: Work, budget: int | None, last: Sequence[float | None]
) -> list[str]:
    """Everything below the table. `work` is what was trained in this run, `last` what each client adds to all others
    together, as far as that was trained.
    """
    lines = []
    if values.utility_of_all is not None and values.utility_of_none is not None:
        lines.append(
            f"All clients together: {values.metric} {values.sign * values.utility_of_all:.4f}; {values.empty_label}: "
            f"{values.sign * values.utility_of_none:.4f}. An equal split would give each {values.equal_split:+.4f}."
        )
    if values.other_unit:
        lines.append(
            f"The values of {values.method} are in another unit ({values.unit}), so they do not add up to this difference."
        )
    lines += values.advice()
    lines += _stands_out(scenario, values, last)
    lines += [] if values.benefits is None else values.benefits.statements()
    lines += _cost_lines(values, work)
    lines += guarantee_lines(values, budget)
    if values.noise is not None and values.seeds == 1:
        rest = f"; {rest_on(values)}" if values.replicates > 1 else ""
        lines.append(
            f"Training noise: with other random numbers the {values.metric} of one training varies by "
            f"{values.noise:.4f} (standard deviation){rest}."
        )
    return lines


def _cost_lines(values: Values, work: Work) -> list[str]:
    cost, replicates, several = values.cost, values.replicates, values.seeds > 1
    assert cost is not None
    what = f"{count(values.evaluations)} of {plural(1 << values.n, 'coalition')}"
    if values.luck_trainings:
        what = f"all {plural(1 << values.n, 'coalition')} and {_luck(values.luck_trainings)}"
    if several:
        what = f"{plural(values.evaluations, 'training')} of coalitions, spread over {values.seeds} seeds"
    if replicates > 1:
        what += f", {replicates} times each"
    if cost.trained == 0:
        what += ", all from the store"
    elif cost.reused:
        what += f", {count(cost.reused)} from the store and {count(cost.trained)} trained now"
    elif several:
        what += f" ({count(work.client_trainings)} local ones)"
    else:
        what += f", {plural(work.trained, 'training')} ({count(work.client_trainings)} local ones)"
    lines = [f"Cost: {what}, {duration(values.seconds)}."]
    besides = 0 if values.luck_trainings else (cost.trained + cost.reused) // replicates - values.evaluations
    if besides > 0:
        lines.append(
            f"Besides the coalitions that {values.method} asked for, {count(besides)} more "
            + (
                "was evaluated for comparison (the untrained model or all clients)."
                if besides == 1
                else "were evaluated for comparison (the untrained model and all clients)."
            )
        )
    if several or values.luck_trainings:
        return lines
    if values.evaluations == 1 << values.n:
        exact = cost.exact_trainings or 0
        spared = values.evaluations * replicates - exact - replicates
        if spared > 0:
            lines.append(
                f"Clients with the same data, or without any, saved {plural(spared, 'training')}: such coalitions are "
                "the same training."
            )
    elif cost.exact_seconds is not None and cost.exact_trainings is not None:
        lines.append(
            f"Exact values would take {plural(cost.exact_trainings, 'training')}, about {duration(cost.exact_seconds)} "
            "extrapolated from these, or less, because many train faster together."
        )
    return lines


def _stands_out(scenario: Scenario, values: Values, last: Sequence[float | None]) -> list[str]:
    named = dict(zip(values.names, values.mean.tolist(), strict=True))
    lines = []
    empty = [name for name, data in zip(values.names, scenario.clients, strict=True) if not len(data)]
    if empty:
        lines.append(f"No data: {_with_values(empty, named)}.")
    alike: dict[str, list[str]] = {}
    for name, data in zip(values.names, scenario.clients, strict=True):
        if len(data):
            alike.setdefault(data.fingerprint, []).append(name)
    lines += [f"Same data: {_with_values(names, named)}." for names in alike.values() if len(names) > 1]
    interval = values.interval()
    harmful = [
        name
        for i, name in enumerate(values.names)
        if named[name] < -1e-12 and name not in empty and (interval is None or interval[i, 1] < 0)
    ]
    return lines + _below_zero(values, harmful, dict(zip(values.names, last, strict=True)))


def _below_zero(values: Values, below: list[str], last: Mapping[str, float | None]) -> list[str]:
    """Clients below zero, and whether all others together are better off without them."""
    named = dict(zip(values.names, values.mean.tolist(), strict=True))
    surely = "" if values.interval() is not None else _unsure(values)
    unknown = [name for name in below if last[name] is None]
    missed = [name for name in below if (last[name] or 0.0) > 0]
    worse = [name for name in below if name not in unknown and name not in missed]
    lines = []
    for names, said in (
        (worse, "The others train better models without {}."),
        (unknown, "On average over coalitions, the others train better models without {}."),
        (missed, "All clients together still reach more with {}: smaller coalitions reach less."),
    ):
        if names:
            whom = "it" if len(names) == 1 else "them"
            lines.append(f"Below zero{surely}: {_with_values(names, named)}. {said.format(whom)}")
    return lines


def _luck(extra: int) -> str:
    return f"{plural(extra, 'training')} with other seeds, to see how much is luck"


def _unsure(values: Values) -> str:
    if values.guarantee != "exact":
        return " by this estimate, which has no ±"
    return " with this seed" if values.one_seed else ""


def _with_values(names: list[str], values: Mapping[str, float]) -> str:
    shown = ", ".join(f"{name} ({values[name]:+.4f})" for name in names[:_NAMED])
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
