"""What went otherwise than planned: clients that were absent, excluded or refused, failures, repeated attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fedvalue.values import Values

__all__ = ["Incident", "incidents_note", "incidents_of"]


@dataclass(frozen=True)
class Incident:
    """One incident: of which kind, what happened and, where that is known, when."""

    kind: str
    what: str
    when: str = ""


def incidents_of(values: Values, record: Mapping[str, Any] | None) -> tuple[Incident, ...]:
    """All that the values and the record of the run tell, absent clients first.

    >>> values = Values([1.0], ("a",), "exact", 2, absent={"b": "did not answer"}, details={"incidents": ["a came back"]})
    >>> [(incident.kind, incident.what) for incident in incidents_of(values, None)]
    [('absent', 'b: did not answer'), ('noted', 'a came back')]
    """
    found = [Incident("absent", f"{name}: {why}") for name, why in values.absent.items()]
    found += [Incident("data", text) for text in values.suspicious]
    for told in (values.details.get("incidents"), (record or {}).get("incidents")):
        found += _read(told) if isinstance(told, (list, tuple)) else []
    return tuple(dict.fromkeys(found))


def _read(told: Iterable[Any]) -> list[Incident]:
    """Incidents as texts, or as objects with `kind`, `what` and `when`."""
    found = []
    for one in told:
        if isinstance(one, Mapping):
            kind = str(one.get("kind", "noted"))
            found.append(Incident(kind, str(one.get("what", "")), str(one.get("when", ""))))
        else:
            found.append(Incident("noted", str(one)))
    return found


def incidents_note(record: Mapping[str, Any] | None) -> str:
    """What it means that there is no incident."""
    backend = (record or {}).get("backend")
    if backend is None:
        return "No incident is recorded with these values."
    if backend in ("local", "ray"):
        return "No incident is recorded. All data was in one place, so no client could be absent, refused or fail on its own."
    return "No incident is recorded: no client was absent, excluded or refused, and none failed or was asked again."
