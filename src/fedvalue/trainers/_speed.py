"""How long a training takes, found out by training a small part of the data."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedvalue.scenarios import Scenario
from fedvalue.trainers._local import LocalTrainer, make_one_step
from fedvalue.training import Learner, Ruled, Training, canonical_masks, work_of

__all__ = ["seconds_per_pass"]

_LONG_ENOUGH = 0.7  # seconds of training that say what a training takes
_GROWTH = 4
_MOST = 1024  # local trainings side by side: those of a session, within reason


def seconds_per_pass(
    scenario: Scenario, learner: Learner, training: Training, device: str, masks: Sequence[int]
) -> float:
    """Trains more and more of what was asked for, until that takes long enough to tell."""
    make_one_step(scenario, learner, training, device)
    largest = max(map(len, scenario.clients))
    session = learner.session(scenario.thinned(training.batch), training, device, None)
    most = min(_MOST, session.rows, sum(mask.bit_count() for mask in masks))
    abreast, rows = _GROWTH, training.batch
    epochs = training.epochs if isinstance(learner, Ruled) else 1  # some models know none
    asked = _asked(scenario, masks)
    part, few = scenario.thinned(rows), _few(asked, abreast)
    while True:
        one, two = _rules(training, epochs, 1), _rules(training, epochs, 2)
        first = _train(part, learner, one, few, device)
        both = _train(part, learner, two, few, device)
        if both > _LONG_ENOUGH or (abreast >= most and rows >= largest and epochs >= training.epochs):
            break
        if abreast < most:
            fewer = few
            while few == fewer and abreast < most:  # one coalition of many clients is more than a few abreast
                abreast = min(most, abreast * _GROWTH)
                few = _few(asked, abreast)
        elif rows < largest:
            rows *= _GROWTH
            part = scenario.thinned(rows)
        else:
            epochs = min(training.epochs, epochs * _GROWTH)
    # The second round alone: the first, with one training per client, and the beginning are done only once.
    later = work_of(part, two, few).passes - work_of(part, one, few).passes
    if both > first and later:
        return (both - first) / later
    return both / work_of(part, two, few).passes


def _train(
    scenario: Scenario, learner: Learner, training: Training, masks: Sequence[int], device: str
) -> float:
    began = time.perf_counter()
    # In one piece, as in a run that has been under way for a while.
    for _ in LocalTrainer(device, checkpoint=math.inf).train(scenario, learner, training, masks):
        pass
    return time.perf_counter() - began


def _rules(training: Training, epochs: int, rounds: int) -> Training:
    return replace(training, rounds=rounds, epochs=epochs)


def _asked(scenario: Scenario, masks: Sequence[int]) -> list[int]:
    """The distinct coalitions that were asked for, by size; the grand coalition where there are none."""
    everyone = (1 << scenario.n) - 1
    distinct = set(canonical_masks(scenario, masks).values()) - {0}
    distinct = distinct or set(canonical_masks(scenario, [everyone]).values())
    return sorted(distinct, key=lambda mask: (mask.bit_count(), mask))


def _few(asked: Sequence[int], abreast: int) -> list[int]:
    """Coalitions of all sizes among them, with about so many local trainings in a round."""
    mean = sum(mask.bit_count() for mask in asked) / len(asked)
    wanted = max(1, min(len(asked), int(abreast / mean)))
    places = np.linspace(0, len(asked) - 1, wanted).round().astype(int).tolist()
    return [asked[place] for place in dict.fromkeys(places)]
