"""What the values of periods depend on besides their members: they are compared only under the same terms."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from fedvalue._files import json_ready
from fedvalue.errors import InputError
from fedvalue.periods._entry import Period
from fedvalue.run import Job

__all__ = ["refuse_other_terms", "terms_of"]

_VALUED = ("method", "plan", "budget", "options")  # of a job: how values come from trainings
_GROUPS = "groups"


def terms_of(job: Job) -> dict[str, Any]:
    """What the utility of a coalition depends on besides its members, and how values are made of utilities."""
    game, identity = job.prepared.game, job.identity()
    scenario = game.scenario
    described = {name: part for name, part in game.description().items() if name != "scenario"}
    terms = {
        **described,
        "test": scenario.test.fingerprint,
        "test parts": {part: len(rows) for part, rows in scenario.test_parts.items()},
        "task": [scenario.task, scenario.classes, scenario.vocabulary],
        "metric": game.stored_as,
        "empty": game.empty,
        "replicates": game.replicates,
        **{name: identity[name] for name in _VALUED},
        "seeds": job.seeds,  # as they were asked for: how many suit a budget also depends on who is there
        _GROUPS: identity[_GROUPS],
    }
    found: dict[str, Any] = json.loads(json.dumps(json_ready(terms)))
    return found


def refuse_other_terms(
    terms: Mapping[str, Any], names: Collection[str], last: Period, was: Mapping[str, str]
) -> None:
    """Raises where the terms are not those of the period before, unless they are said to be new.

    `was` are the former names of members that have another one now.
    """
    here = {was.get(name, name) for name in names} & {member.name for member in last.members}
    now = {**terms, _GROUPS: _among(terms[_GROUPS], here, was)}
    before = {**last.terms, _GROUPS: _among(last.terms.get(_GROUPS), here, {})}
    differing = [name for name in now if now[name] != before.get(name)]
    if differing:
        raise InputError(
            f"The values of this period would not be comparable with those of {last.name}: {', '.join(differing)} "
            f"{'is' if len(differing) == 1 else 'are'} not the same. Keep the terms, or say that they are new: new_terms=True "
            "(--new-terms). Then everything that depends on them is trained again."
        )


def _among(
    groups: Mapping[str, list[str]] | None, here: Collection[str], was: Mapping[str, str]
) -> dict[str, list[str]]:
    """Who of those in both periods is in which group: joiners and leavers change no terms."""
    former = {
        group: sorted({was.get(name, name) for name in members} & set(here))
        for group, members in (groups or {}).items()
    }
    return {group: members for group, members in former.items() if members}
