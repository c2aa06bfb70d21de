"""FedAvg over a learner's stacks: what it means to train a coalition.

All coalitions of a wave advance together, round by round. Every coalition starts from the same seeded
model, and a client's minibatch order in a round depends on its data alone, whatever the coalition: v(S∪i)
and v(S) share their random numbers, so that their difference loses most of its noise. Round 1 starts from
the same model everywhere, so a client's first local training is one training, shared by all coalitions.

All that holds for one seed. Trials of several seeds advance together as well, each from the model of its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from fedvalue.coalitions import Trial, members
from fedvalue.scenarios import Scenario
from fedvalue.training._session import Drawing, Reseeding, Session, Stack

__all__ = [
    "Begun",
    "canonical_masks",
    "continued_rounds",
    "data_weights",
    "first_round",
    "later_rounds",
    "recorded_rounds",
    "same_data",
]

_ONE_SEED: Mapping[int, int | None] = {0: None}

Begun: TypeAlias = tuple[int, int]
"""A first local training: the client, and the number of the seed."""


def canonical_masks(scenario: Scenario, masks: Sequence[int]) -> dict[int, int]:
    """For each coalition, the one that is trained for it.

    A client without data changes nothing, and of clients with equal data it does not matter which takes
    part: such coalitions are the same training, and so have exactly the same utility.
    """
    alike = same_data(scenario)
    alone = sum(1 << group[0] for group in alike if len(group) == 1)
    groups = [(sum(1 << i for i in group), group) for group in alike if len(group) > 1]
    return {
        mask: (mask & alone)
        + sum(1 << i for bits, group in groups for i in group[: (mask & bits).bit_count()])
        for mask in masks
    }


def same_data(scenario: Scenario) -> list[list[int]]:
    """The clients that have data, those with equal data together."""
    alike: dict[str, list[int]] = {}
    for i, data in enumerate(scenario.clients):
        if len(data.y):
            alike.setdefault(data.fingerprint, []).append(i)
    return list(alike.values())


def data_weights(
    scenario: Scenario, coalitions: Sequence[tuple[int, ...]], counted: Sequence[float] | None = None
) -> list[float]:
    """w_i^S = |D_i| / Σ_{j∈S} |D_j| for every client of every coalition, in that order; or by the rows that are `counted`."""
    sizes = [len(data) for data in scenario.clients] if counted is None else counted
    totals = [sum(sizes[i] for i in clients) for clients in coalitions]
    return [sizes[i] / total for clients, total in zip(coalitions, totals, strict=True) for i in clients]


def first_round(
    session: Session, begun: Sequence[Begun], seeds: Mapping[int, int | None] = _ONE_SEED
) -> Stack:
    """One local training per client and seed, from the initial model of the seed: row r is begun[r].

    `seeds` are by their numbers; None is that of the session's rules.
    """
    numbers = list(dict.fromkeys(number for _, number in begun))
    initial = _initial(session, [seeds[number] for number in numbers])
    start = session.take(initial, [numbers.index(number) for _, number in begun])
    return _local(session, start, [client for client, _ in begun], [seeds[number] for _, number in begun], 1)


def later_rounds(
    session: Session,
    scenario: Scenario,
    rounds: int,
    wave: Sequence[Trial],
    first: Stack,
    rows: Mapping[Begun, int],
    seeds: Mapping[int, int | None] = _ONE_SEED,
    stage: Callable[[str], None] = lambda text: None,
    after: Callable[[int, Stack], None] = lambda t, models: None,
    counted: Sequence[float] | None = None,
) -> Stack:
    """The final models of the wave's trials, whose round-1 local models are the given rows of `first`.

    `stage` is told which round begins, and `after` the models when it has ended. `counted` are the rows of clients as they
    count by the rules (see `counted_rows`); None: as they are.
    """
    coalitions = [members(mask) for mask, _ in wave]
    begun = [(i, number) for clients, (_, number) in zip(coalitions, wave, strict=True) for i in clients]
    trial_of_row = [c for c, clients in enumerate(coalitions) for _ in clients]
    local = session.take(first, [rows[start] for start in begun])
    models = session.average(local, trial_of_row, data_weights(scenario, coalitions, counted))
    return continued_rounds(session, scenario, rounds, wave, models, 1, seeds, stage, after, counted)


def continued_rounds(
    session: Session,
    scenario: Scenario,
    rounds: int,
    wave: Sequence[Trial],
    models: Stack,
    done: int,
    seeds: Mapping[int, int | None] = _ONE_SEED,
    stage: Callable[[str], None] = lambda text: None,
    after: Callable[[int, Stack], None] = lambda t, models: None,
    counted: Sequence[float] | None = None,
) -> Stack:
    """The final models of the wave's trials, whose models after so many rounds are the given ones, a row for each."""
    coalitions = [members(mask) for mask, _ in wave]
    owners = [i for clients in coalitions for i in clients]
    of_rows = [seeds[number] for clients, (_, number) in zip(coalitions, wave, strict=True) for _ in clients]
    trial_of_row = [c for c, clients in enumerate(coalitions) for _ in clients]
    weights = data_weights(scenario, coalitions, counted)
    for t in range(done + 1, rounds + 1):
        stage(f"round {t}/{rounds}")
        local = _local(session, session.take(models, trial_of_row), owners, of_rows, t)
        models = session.average(local, trial_of_row, weights)
        after(t, models)
    return models


def _initial(session: Session, seeds: Sequence[int | None]) -> Stack:
    """A row for every seed; the same in each where models do not begin at random."""
    if isinstance(session, Drawing) and any(seed is not None for seed in seeds):
        return session.drawn(seeds)
    return session.take(session.initial(), [0] * len(seeds))


def _local(
    session: Session, stack: Stack, owners: Sequence[int], seeds: Sequence[int | None], t: int
) -> Stack:
    if all(seed is None for seed in seeds):  # which every session can do
        return session.local(stack, owners, t)
    return cast(Reseeding, session).reseeded(stack, owners, seeds, t)


def recorded_rounds(
    session: Session, scenario: Scenario, rounds: int, counted: Sequence[float] | None = None
) -> tuple[tuple[int, ...], list[Stack], list[Stack], Stack]:
    """The run of all clients that have data: who they are, the model before and their models after every
    round, and the model at the end.
    """
    clients = tuple(i for i, data in enumerate(scenario.clients) if len(data))
    weights = data_weights(scenario, [clients], counted)
    model, starts, local_models = session.initial(), [], []
    for t in range(1, rounds + 1):
        trained = session.local(session.take(model, [0] * len(clients)), clients, t)
        starts.append(model)
        local_models.append(trained)
        model = session.average(trained, [0] * len(clients), weights)
    return clients, starts, local_models, model
