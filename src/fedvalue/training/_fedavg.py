"""FedAvg over a learner's stacks: what it means to train a coalition.

All coalitions of a wave advance together, round by round. Every coalition starts from the same seeded
model, and a client's minibatch order in a round depends on its data alone, whatever the coalition: v(S∪i)
and v(S) share their random numbers, so that their difference loses most of its noise. Round 1 starts from
the same model everywhere, so a client's first local training is one training, shared by all coalitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedvalue.coalitions import members
from fedvalue.scenarios import Scenario
from fedvalue.training._session import Session, Stack

__all__ = [
    "canonical_masks",
    "data_weights",
    "first_round",
    "later_rounds",
    "recorded_rounds",
]


def canonical_masks(scenario: Scenario, masks: Sequence[int]) -> dict[int, int]:
    """For each coalition, the one that is trained for it.

    A client without data changes nothing, and of clients with equal data it does not matter which takes
    part: such coalitions are the same training, and so have exactly the same utility.
    """
    alike: dict[str, list[int]] = {}
    for i, data in enumerate(scenario.clients):
        if len(data.y):
            alike.setdefault(data.fingerprint, []).append(i)
    alone = sum(1 << group[0] for group in alike.values() if len(group) == 1)
    groups = [(sum(1 << i for i in group), group) for group in alike.values() if len(group) > 1]
    return {
        mask: (mask & alone)
        + sum(1 << i for bits, group in groups for i in group[: (mask & bits).bit_count()])
        for mask in masks
    }


def data_weights(scenario: Scenario, coalitions: Sequence[tuple[int, ...]]) -> list[float]:
    """w_i^S = |D_i| / Σ_{j∈S} |D_j| for every client of every coalition, in that order."""
    sizes = [len(data) for data in scenario.clients]
    totals = [sum(sizes[i] for i in clients) for clients in coalitions]
    return [sizes[i] / total for clients, total in zip(coalitions, totals, strict=True) for i in clients]


def first_round(session: Session, clients: Sequence[int]) -> Stack:
    """One local training per client, from the initial model: row r belongs to clients[r]."""
    initial = session.initial()
    return session.local(session.take(initial, [0] * len(clients)), clients, 1)


def later_rounds(
    session: Session,
    scenario: Scenario,
    rounds: int,
    wave: Sequence[int],
    first: Stack,
    row_of_client: dict[int, int],
    stage: Callable[[str], None] = lambda text: None,
) -> Stack:
    """The final models of the wave's coalitions, whose round-1 local models are rows of `first`.

    `stage` is told which round begins.
    """
    coalitions = [members(mask) for mask in wave]
    owners = [i for clients in coalitions for i in clients]
    coalition_of_row = [c for c, clients in enumerate(coalitions) for _ in clients]
    weights = data_weights(scenario, coalitions)
    local = session.take(first, [row_of_client[i] for i in owners])
    models = session.average(local, coalition_of_row, weights)
    for t in range(2, rounds + 1):
        stage(f"round {t}/{rounds}")
        local = session.local(session.take(models, coalition_of_row), owners, t)
        models = session.average(local, coalition_of_row, weights)
    return models


def recorded_rounds(
    session: Session, scenario: Scenario, rounds: int
) -> tuple[tuple[int, ...], list[Stack], list[Stack], Stack]:
    """The run of all clients that have data: who they are, the model before and their models after every
    round, and the model at the end.
    """
    clients = tuple(i for i, data in enumerate(scenario.clients) if len(data))
    weights = data_weights(scenario, [clients])
    model, starts, local_models = session.initial(), [], []
    for t in range(1, rounds + 1):
        trained = session.local(session.take(model, [0] * len(clients)), clients, t)
        starts.append(model)
        local_models.append(trained)
        model = session.average(trained, [0] * len(clients), weights)
    return clients, starts, local_models, model
