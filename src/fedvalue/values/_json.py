"""Values as plain data for JSON, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

from fedvalue._files import CHECKSUM, is_sealed
from fedvalue.errors import InputError
from fedvalue.indices import SHAPLEY
from fedvalue.values._benefits import Benefits
from fedvalue.values._covariance import correlations_of, covariance_of, deviations
from fedvalue.values._disclosure import Disclosure
from fedvalue.values._parts import Chain, Cost
from fedvalue.yardsticks import Baseline, Empty

if TYPE_CHECKING:
    from fedvalue.values._values import Values

__all__ = ["to_dict", "values_from"]

T = TypeVar("T")

_FORMAT = "fedvalue.values/2"
_NUMBER = (int, float)
# What a file may hold under these names; the others are checked as arrays.
_KINDS: dict[str, Any] = {
    "method": str, "guarantee": str, "game_id": str, "details": Mapping, "evaluations": int,
    "seconds": _NUMBER, "budget": (int, NoneType), "seed": (int, NoneType),
    "metric": str, "stored_as": str, "higher_is_better": bool, "unit": str, "replicates": int, "known_before": int,
    "utility_of_none": (*_NUMBER, NoneType), "utility_of_all": (*_NUMBER, NoneType),
    "noise": (*_NUMBER, NoneType), "cost": (Mapping, NoneType), "forecast": list, "notes": list,
    "clients": (list, NoneType), "absent": Mapping, "empty": (Mapping, NoneType), "baseline": (Mapping, NoneType),
    "seeds": int, "parts": Mapping, "random": bool, "test_rows": (int, NoneType), "most_seeds": (int, NoneType),
    "benefits": (Mapping, NoneType), "disclosure": (Mapping, NoneType),
    "groups": Mapping,
    "chain": (Mapping, NoneType), "agreement": str, "index": str,
}  # fmt: skip


def to_dict(values: Values) -> dict[str, Any]:
    """See `Values.to_dict`."""
    plain = {
        "format": _FORMAT,
        "method": values.method,
        "guarantee": values.guarantee,
        "names": list(values.names),
        "mean": values.mean.tolist(),
        "stderr": None if values.stderr is None else values.stderr.tolist(),
        "dof": None if values.dof is None else [d if math.isfinite(d) else None for d in values.dof.tolist()],
        "evaluations": values.evaluations,
        "budget": values.budget,
        "seed": values.seed,
        "seconds": values.seconds,
        "game_id": values.game_id,
        "metric": values.metric,
        "higher_is_better": values.higher_is_better,
        "unit": values.unit,
        "utility_of_none": values.utility_of_none,
        "utility_of_all": values.utility_of_all,
        "replicates": values.replicates,
        "noise": values.noise,
        "cost": None if values.cost is None else asdict(values.cost),
        "forecast": list(values.forecast),
        "known_before": values.known_before,
        "notes": list(values.notes),
        "clients": None if values.clients is None else list(values.clients),
        "absent": dict(values.absent),
        "details": dict(values.details),
    }
    plain |= {} if values.stored_as == values.metric else {"stored_as": values.stored_as}
    plain |= {"suspicious": list(values.suspicious)} if values.suspicious else {}
    plain |= {"seeds": values.seeds} if values.seeds > 1 else {}
    plain |= {"random": True} if values.random else {}
    plain |= {} if values.test_rows is None else {"test_rows": values.test_rows}
    plain |= {} if values.most_seeds is None else {"most_seeds": values.most_seeds}
    plain |= {"groups": {name: list(of) for name, of in values.groups.items()}} if values.groups else {}
    plain |= {} if values.index == SHAPLEY else {"index": values.index}
    plain |= {} if values.chain is None else {"chain": asdict(values.chain)}
    plain |= {"agreement": values.agreement} if values.agreement else {}
    if values.parts:
        plain["parts"] = {
            name: {"stderr": deviations(part).tolist(), "correlation": correlations_of(part)}
            for name, part in values.parts.items()
        }
    plain |= {} if values.empty is None else {"empty": asdict(values.empty)}
    plain |= {} if values.disclosure is None else {"disclosure": values.disclosure.to_dict()}
    plain |= {} if values.benefits is None else {"benefits": values.benefits.to_dict()}
    if values.baseline is not None:
        plain |= {"baseline": asdict(values.baseline), "learned": values.learned}
    return plain | ({} if values.covariance is None else {"correlation": correlations_of(values.covariance)})


def values_from(data: Any, build: Callable[[dict[str, Any]], T]) -> T:
    """What `to_dict` gave, built from its fields; anything else is refused."""
    if not isinstance(data, Mapping) or data.get("format") != _FORMAT:
        came = data.get("format") if isinstance(data, Mapping) else type(data).__name__
        raise InputError(
            f"Expected values in the format {_FORMAT!r}. Got {came!r}. "
            "Run the same command again with this version; with its store, nothing is trained again."
        )
    if CHECKSUM in data and not is_sealed(data):  # values that were never in a file have none
        raise InputError(
            "These values are not as fedvalue wrote them: their content does not match its checksum. Run the same "
            "command again; with its store, nothing is trained again."
        )
    fields = {key: value for key, value in data.items() if key not in ("format", "learned", CHECKSUM)}
    for name, kind in _KINDS.items():
        if name in fields and not isinstance(fields[name], kind):
            raise InputError(f"These are not values that fedvalue wrote: their {name} is {fields[name]!r}.")
    if isinstance(fields.get("dof"), list):
        fields["dof"] = [math.inf if d is None else d for d in fields["dof"]]
    correlation = fields.pop("correlation", None)
    try:
        fields |= _typed(fields)
        if correlation is not None:
            fields["covariance"] = covariance_of(correlation, fields["stderr"])
        return build(fields)
    except (KeyError, TypeError, ValueError) as error:
        missing = {"mean", "names", "method", "evaluations"} - fields.keys()
        reason = f"missing {sorted(missing)}" if missing else str(error)
        raise InputError(f"These are not complete values: {reason}.") from error


def _typed(data: Mapping[str, Any]) -> dict[str, Any]:
    """What JSON has as lists and objects, in the types of the fields."""
    tuples = {
        name: tuple(data[name])
        for name in ("forecast", "notes", "clients", "suspicious")
        if data.get(name) is not None
    }
    numbers = [*tuples.get("forecast", ()), *tuples.get("clients", ())]
    if not all(isinstance(number, _NUMBER) for number in numbers):
        raise ValueError("a forecast or the number of a client is not a number")
    if data.get("replicates", 1) < 1 or data.get("known_before", 0) < 0:
        raise ValueError("replicates must be at least 1 and known_before at least 0")
    typed: dict[str, Any] = {} if data.get("cost") is None else {"cost": Cost(**data["cost"])}
    for name, kind in (
        ("empty", Empty),
        ("baseline", Baseline),
        ("benefits", Benefits),
        ("disclosure", Disclosure),
        ("chain", Chain),
    ):
        typed |= {} if data.get(name) is None else {name: kind.from_dict(data[name])}
    if data.get("parts") is not None:
        typed["parts"] = {
            name: covariance_of(part["correlation"], part["stderr"]) for name, part in data["parts"].items()
        }
    return tuples | typed
