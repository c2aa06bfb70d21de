"""Whether values, record and agreement speak of the same run. A part that is missing is a difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedvalue._text import one_line
from fedvalue.agreement import Agreement, differences
from fedvalue.errors import FedvalueError
from fedvalue.evidence._methods import is_built_in
from fedvalue.evidence._run import LeftRun
from fedvalue.evidence._verdict import Check, sound, unchecked, undecided, wrong
from fedvalue.games import id_of_named
from fedvalue.report import FEDERATION
from fedvalue.training import Training
from fedvalue.values import Values
from fedvalue.weights import blocks_of, without_clients

__all__ = ["consistency"]

_WHAT = "Values, record and agreement"
_NAMED = ("mlp", "mlp-dropout", "cnn", "linear", "text-mean", "lstm", "least-squares", "xgboost")
_OF_VALUES = ("game_id", "metric", "method", "replicates", "seed", "higher_is_better")


def consistency(run: LeftRun) -> Iterator[Check]:
    """Everything that is told more than once must be told alike."""
    values, record = run.values, run.record
    if values is None:
        return
    found = [] if record is None else list(_against_record(values, record))
    if run.agreement is not None:
        found += _against_agreement(run.agreement, values, record)
    elif values.agreement:
        yield unchecked(
            _WHAT, f"the values were made under the agreement {values.agreement}, which is not here"
        )
    yield from (wrong(_WHAT, text) for text in found)
    if not found:
        yield sound(_WHAT, "they speak of the same game, method and clients")
    if run.agreement is not None and _left_out(values, run.agreement):
        yield undecided(
            _WHAT,
            f"{', '.join(_left_out(values, run.agreement))} agreed and has no value: whether a client was absent, as it is "
            "said, or was left out, cannot be known from the files",
        )


def _against_record(values: Values, record: Mapping[str, Any]) -> Iterator[str]:
    told = {"agreement": "", **record}
    for name in (*_OF_VALUES, "agreement"):
        mine = getattr(values, name)
        if name not in told:
            yield f"the record does not say {name}"
        elif told[name] != mine or type(told[name]) is not type(mine):
            yield f"the values have {name} {mine!r}, the record {told[name]!r}"
    asked = (record.get("asked") or {}).get("method")
    own = record.get("plan") is not None
    if asked is not None and asked != record.get("method") and not (own and ":" in str(asked)):
        yield f"the method asked for was {asked!r}, that of the run {record.get('method')!r}"
    if not own and not is_built_in(record.get("method")):
        yield f"the method {record.get('method')!r} is not one of fedvalue, and the record has no fingerprint of it"
    clients = (record.get("scenario") or {}).get("clients")
    if clients is None or [name for name in clients if name not in values.absent] != list(values.names):
        yield "the values name other clients than the record"
    if values.absent != (record.get("absent") or {}):
        yield "the record names other clients as absent than the values"
    yield from _other_groups(values, record.get("groups"), clients or (), "the record")
    if _of_another_game(values, record):
        yield "the record says that the values rest on other data, another model or other rules of training than their game does"


def _of_another_game(values: Values, record: Mapping[str, Any]) -> bool:
    """The id of a game is made of these. What is learnt from a model of one's own no record has, so there it cannot be made again."""
    learner, rules = record.get("learner") or {}, record.get("training") or {}
    if record.get("format") not in ("fedvalue.run/1", FEDERATION) or learner.get("model") not in _NAMED:
        return False
    try:
        data = record["scenario"]["fingerprint"]
        return id_of_named(data, learner, Training(**rules)) != values.game_id
    except (KeyError, TypeError, FedvalueError):
        return True


def _against_agreement(
    agreement: Agreement, values: Values, record: Mapping[str, Any] | None
) -> Iterator[str]:
    job = agreement.job
    if values.agreement != agreement.hash:
        yield f"the values were made under {values.agreement or 'no agreement'}, not under {agreement.hash}"
    known = [member.name for member in agreement.members]
    if [name for name in known if name not in values.absent] != list(values.names) or any(
        name not in known for name in values.absent
    ):
        yield "the values name other clients than the agreement"
    if values.game_id != job.get("game_id"):
        yield "the values are of another game than the one agreed: other data, model or rules"
    for name in _OF_VALUES[1:]:
        if getattr(values, name) != job.get(name):
            yield f"{name}: agreed {job.get(name)!r}, the values have {getattr(values, name)!r}"
    yield from _other_groups(values, job.get("groups"), known, "the agreement")
    if record is not None:
        agreed = {name: part for name, part in job.items() if name != "test"}  # also in the scenario
        yield from differences(_comparable(agreed, agreed), _comparable(agreed, record))
        yield from _other_data(agreement.terms["members"], record.get("game") or {})
        yield from _other_rows(agreement.terms["members"], record.get("scenario") or {})


def _comparable(agreed: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """The parts that were agreed. Of a scenario a record has more, and the folder is everybody's own."""
    parts = {name: told[name] for name in agreed if name in told}
    if isinstance(scenario := parts.get("scenario"), Mapping):
        parts["scenario"] = {
            name: {key: value for key, value in part.items() if key != "folder"}
            if name == "options" and isinstance(part, Mapping)
            else part
            for name, part in scenario.items()
            if name in agreed["scenario"]
        }
    return parts


def _other_data(members: Sequence[Mapping[str, Any]], game: Mapping[str, Any]) -> Iterator[str]:
    """Whoever is said to have no data, or that of another, gets a value by that alone."""
    try:
        idle = all(members[i]["rows"] == 0 for i in game.get("idle") or ())
        prints = [{members[i]["fingerprint"] for i in alike} for alike in game.get("alike") or ()]
    except (LookupError, TypeError):
        idle, prints = False, []
    if not idle:
        yield "the record says that a client has no data, which agreed with some"
    if any(len(of) > 1 for of in prints):
        yield "the record says that clients have the same data, which agreed with other data each"


def _other_rows(members: Sequence[Mapping[str, Any]], scenario: Mapping[str, Any]) -> Iterator[str]:
    """A federation tells the rows of each client, and its signatures are under them."""
    if "fingerprints" not in scenario:
        return
    try:
        told = dict(zip(scenario["clients"], scenario["fingerprints"], strict=True))
    except (KeyError, TypeError, ValueError):
        told = {}
    for member in members:
        if (
            member["name"] in scenario.get("clients", ())
            and told.get(member["name"]) != member["fingerprint"]
        ):
            yield f"the record has other rows of {one_line(member['name'])} than the agreement"


def _left_out(values: Values, agreement: Agreement) -> list[str]:
    return [member.name for member in agreement.members if member.name in values.absent]


def _other_groups(values: Values, told: Any, clients: Sequence[str], by: str) -> Iterator[str]:
    """Groups in which nobody is with another are none."""
    try:
        by_name = {
            group: [name if isinstance(name, str) else clients[name] for name in of]
            for group, of in (told or {}).items()
        }
        left = without_clients(by_name, values.absent)
        expected = {} if blocks_of(values.names, left) is None else left or {}
    except (FedvalueError, AttributeError, TypeError, LookupError):
        yield f"the groups of {by} are not those of its clients"
        return
    if {group: list(of) for group, of in values.groups.items()} != expected:
        yield f"the values are of other groups than {by} has"
