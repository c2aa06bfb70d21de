"""What left each client, to whom: the record that it can ask for after a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from fedvalue._checks import checked_init, expect, whole
from fedvalue._text import plural
from fedvalue.errors import InputError

__all__ = ["Disclosed", "Disclosure"]


@checked_init
@dataclass(frozen=True)
class Disclosed:
    """What left one client. Rows never do.

    To the operator: `models` that were trained on its rows, `solo` of them on its rows alone (round 1, and all rounds of
    the coalition that it is by itself); `gradients` are those of the models from which a gradient follows, because one
    step was made (fedsgd). `metrics` are models that it measured on its own rows, `counts` how often it said how many rows
    it has.

    To other clients: `averages` are models of coalitions with it, `pairs` of them with one other client, who can tell its
    model from that and its own. `solo_shown` are models trained on its rows alone that others were sent to measure.

    >>> import fedvalue as fv
    >>> scenario = fv.load_scenario("synthetic", clients=3, samples=20)
    >>> game = fv.FederatedGame(scenario, training=fv.Training(rounds=2))
    >>> left = fv.value(game, "exact-cc").disclosure.clients[0]
    >>> left.models, left.solo, left.averages
    (5, 2, 3)
    """

    client: str
    models: int = 0
    solo: int = 0
    gradients: int = 0
    metrics: int = 0
    counts: int = 0
    averages: int = 0
    pairs: int = 0
    solo_shown: int = 0

    def __post_init__(self) -> None:
        for field in fields(self)[1:]:
            whole(f"{field.name} of {self.client!r}", getattr(self, field.name), 0)


@checked_init
@dataclass(frozen=True)
class Disclosure:
    """What left the clients in a run. `apart` says whether their rows were at different places: if not, nothing left
    anybody, and the numbers are those of a federation that makes the same trainings. `is_complete` is False for a run that
    failed, of which the models that clients were shown are not known.

    >>> import fedvalue as fv
    >>> scenario = fv.load_scenario("synthetic", clients=3, samples=20)
    >>> game = fv.FederatedGame(scenario, training=fv.Training(rounds=2))
    >>> found = fv.value(game, "exact-cc").disclosure
    >>> found.apart, [one.client for one in found.clients]
    (False, ['client-0', 'client-1', 'client-2'])
    """

    clients: tuple[Disclosed, ...]
    apart: bool
    is_complete: bool = True

    def __post_init__(self) -> None:
        for name in ("apart", "is_complete"):
            expect(f"{name} of a disclosure", getattr(self, name), bool, "True or False")

    def statements(self) -> list[str]:
        """What the numbers mean, in sentences."""
        if self.is_complete and not any(one.models or one.metrics for one in self.clients):
            return [
                "Nothing was trained in this run, and nothing left anybody in it: what it needed was in the store. Earlier "
                "runs have records of their own, unless they were killed."
            ]
        said = (
            ["Rows stayed where they are; this is what was sent."]
            if self.apart
            else [
                "All rows were in one place, and nothing left anybody. In a federation the same trainings would send this:"
            ]
        )
        solo = sum(one.solo for one in self.clients)
        shown = [one.client for one in self.clients if one.solo_shown]
        pairs = sum(one.pairs for one in self.clients)
        if solo:
            said.append(
                f"{plural(solo, 'model')} of single clients: the operator sees what each learned from its rows alone."
            )
        if pairs:
            said.append(
                "In a coalition of two, each can tell the model of the other from the average and its own."
            )
        if shown:
            said.append(
                f"Models of single clients were shown to others: {', '.join(shown[:6])}{', …' if len(shown) > 6 else ''}."
            )
        if not self.is_complete:
            said.append("The run failed: what clients were shown of each other is not known.")
        return said

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Disclosure:
        """From what `to_dict` gave."""
        listed = isinstance(data, Mapping) and data.keys() >= {"clients", "apart", "is_complete"}
        if not listed or not isinstance(data["clients"], list | tuple):
            raise InputError("A disclosure holds a list of clients.")
        clients = tuple(Disclosed(**one) for one in data["clients"])
        return cls(clients, data["apart"], data["is_complete"])
