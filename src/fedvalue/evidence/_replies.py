"""What the nodes of a federation have signed: whether the trainings in the store are those that they say they have done."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedvalue._text import listed, one_line, plural
from fedvalue.coalitions import members
from fedvalue.evidence._measured import not_signed, other_means, other_metrics
from fedvalue.evidence._run import LeftRun
from fedvalue.evidence._testimony import Client, Testimony
from fedvalue.evidence._verdict import Check, sound, unchecked, undecided, wrong
from fedvalue.replies import Entry, Reply, Sitting, book_beside, read_book, test_at_nodes
from fedvalue.report import FEDERATION
from fedvalue.store import StoreUntil, UtilityStore, fingerprint
from fedvalue.training import Training
from fedvalue.values import Values

__all__ = ["replies"]

_WHAT = "What the nodes signed"
_LISTED, _NAMED = 8, 6
_OF_A_REPLY = (
    "kind", "game", "data", "round", "alone", "seeds", "sent", "back", "blocks", "origins", "test", "test_rows",
)  # fmt: skip


def replies(run: LeftRun, store: UtilityStore, values: Values) -> Iterator[Check]:
    """The signatures in the book beside the store, up to where it was when the run ended, and which trainings they are under."""
    record = run.record or {}
    told, agreed = values.details.get("replies"), _agreed_keys(run)
    if record.get("format") != FEDERATION and told is None and not any(agreed.values()):
        return
    assert run.store is not None
    file = book_beside(run.store)
    if not file.is_file():
        if told is not None:
            yield wrong(_WHAT, f"{file.name} is not there, which the values name")
            return
        text = "not signed by the nodes: that they trained this is known to the operator alone"
        if any(agreed.values()):
            yield undecided(_WHAT, f"{text}, and they have agreed to sign it")
        else:
            yield unchecked(_WHAT, text)
        return
    entries, found = _read(run, told)
    testimony = Testimony()
    found += _fill(testimony, entries, _model(record))
    keys = _keys(entries)
    found += _other_keys(keys, agreed)
    yield from (wrong(_WHAT, text) for text in found[:_LISTED])
    if len(found) > _LISTED:
        yield wrong(_WHAT, f"and {plural(len(found) - _LISTED, 'finding')} more")
    if not found:
        whose = "in the agreement" if agreed else "that the operator names: compare them with the clients"
        known = {name: [key] for name, key in agreed.items()} if agreed else keys
        yield from _trainings(testimony, record, store, values, known, whose, file.stat().st_size)


def _read(run: LeftRun, told: Any) -> tuple[list[Entry], list[str]]:
    """The lines up to the end of the run, and what is wrong with them."""
    assert run.store is not None
    end = told["lines"] if told is not None else 1 << 62
    both = [(entry, problem) for entry, problem in read_book(book_beside(run.store)) if entry.number <= end]
    problems = [problem for _, problem in both if problem]
    if told is not None and (not both or len(both) < end or both[-1][0].link != told["link"]):
        problems.append(
            f"line {end} of the book is not the one that the values name: lines were removed, or made anew"
        )
    return [entry for entry, problem in both if not problem], problems


def _fill(testimony: Testimony, entries: Sequence[Entry], model: Any) -> list[str]:
    """Puts together what is signed, as far as the signature fits; gives what is wrong."""
    found, seen = list[str](), set[str]()
    sittings: dict[str, Sitting] = {}
    for entry in entries:
        try:
            if entry.kind == "sitting":
                sitting = _sitting(entry.said)
                sittings[sitting.game] = sitting
                continue
            sitting = sittings[entry.said["game"]]
            if _of_sitting(sitting) != model:
                continue  # the same store has trainings of other models or rules
            if entry.kind == "models":
                _add_models(testimony, sitting, entry.said)
                continue
            client, signature = entry.said["client"], entry.said["signature"]
            reply = _reply(entry.said, sitting)
            if signature in seen:
                found.append(f"line {entry.number} repeats a reply of {one_line(sitting.clients[client])}")
            elif reply.data != sitting.data[client] or not reply.is_signed(sitting.keys[client], signature):
                found.append(
                    f"line {entry.number}: the signature of {one_line(sitting.clients[client])} does not fit what it is under"
                )
            else:
                testimony.add(reply, sitting.keys[client])
            seen.add(signature)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            found.append(f"line {entry.number} is not as fedvalue writes it")
    return found


def _add_models(testimony: Testimony, sitting: Sitting, said: Mapping[str, Any]) -> None:
    for mask, _, seed, digest in said["of"]:
        data = tuple(sorted(sitting.data[i] for i in members(int(mask, 16))))
        testimony.models[data, seed][said["round"]].add(digest)


def _trainings(
    testimony: Testimony,
    record: Mapping[str, Any],
    store: UtilityStore,
    values: Values,
    keys: Mapping[str, Sequence[str]],
    whose: str,
    size: int,
) -> Iterator[Check]:
    """Whether every training that the values rest on is signed by those who took part in it, and by those who measured it."""
    scenario, rounds = record["scenario"], record["training"]["rounds"]
    rules = Training(seed=record["training"]["seed"])  # which the seeds of all repetitions follow from
    names, (held_out, lies) = scenario["clients"], _held_out(record)
    clients = [
        Client(own, frozenset(filter(None, keys.get(name, ()))), test, test_rows)
        for name, own, (test_rows, test) in zip(names, scenario["fingerprints"], held_out, strict=True)
    ]
    test_rows = {name: one.test_rows for name, one in zip(names, clients, strict=True) if one.test_rows}
    nodes = {name: one for name, one in zip(names, clients, strict=True) if one.test_rows and one.keys}
    rows = (1 << 62) if values.chain is None else values.chain.rows
    complete, partly, bare, unmeasured, keyless = 0, 0, 0, 0, set[str]()
    for row in StoreUntil(store, values.game_id, rows).rows(values.game_id):
        which, metrics = f"coalition {row['mask']} (seed {row['replicate']})", row["metrics"]
        if test_rows and (other := other_means(metrics, test_rows)):
            lies.append(f"{which}: {other} is not the mean of what the nodes measured on their rows")
        who = [i for i in members(int(row["mask"], 16)) if scenario["rows"][i]]
        seed = rules.replicate(row["replicate"]).seed
        if not who:
            continue
        missing = {names[i] for i in who if not clients[i].keys} | (test_rows.keys() - nodes.keys())
        keyless |= missing
        if not any(clients[i].keys for i in who):
            partly += 1
        elif not (ends := testimony.ends([clients[i] for i in who], seed, rounds)):
            bare += 1
        elif other := other_metrics(testimony, metrics, ends, nodes):
            lies.append(f"{which}: {other} has signed other metrics of its model than the store has")
        elif not_signed(testimony, metrics, ends, nodes):
            unmeasured += 1
        elif missing:
            partly += 1
        else:
            complete += 1
    yield from (wrong(_WHAT, text) for text in lies[:_LISTED])
    if bare:
        yield undecided(
            _WHAT,
            f"{plural(bare, 'training')} of clients that sign are not signed, round by round: made without these nodes, or before "
            "they had these keys",
        )
    if unmeasured:
        yield undecided(
            _WHAT,
            f"{plural(unmeasured, 'training')} were not measured under the signatures of all nodes that hold rows out: no reply says "
            "that it measured what these clients trained, on the rows that the record names",
        )
    if partly:
        yield unchecked(
            _WHAT,
            f"{plural(partly, 'training')}: {listed(sorted(keyless), _NAMED)} took part or measured, without a key for signing",
        )
    if complete and not lies:
        told = f"every local training in {plural(complete, 'training')}: {testimony.replies:,} signed replies in {size:,} bytes"
        yield sound(_WHAT, f"{told}, with the keys {whose}")


def _held_out(record: Mapping[str, Any]) -> tuple[list[tuple[int, str]], list[str]]:
    """How many rows each client holds out, and their fingerprint; nothing where the server measured. And what is wrong with them."""
    scenario = record["scenario"]
    if record.get("evaluated_at") != "nodes":
        return [(0, "")] * len(scenario["clients"]), []
    told = [(int(rows), str(test)) for rows, test in scenario["held_out"]]
    fits = test_at_nodes(told) == scenario["test"]["fingerprint"]
    return told, [] if fits else ["the rows that the nodes held out are not the test rows of the record"]


def _reply(said: Mapping[str, Any], sitting: Sitting) -> Reply:
    parts = {name: said[name] for name in _OF_A_REPLY}
    lists = {name: tuple(part) for name, part in parts.items() if isinstance(part, list)}
    return Reply(**{**parts, **lists}, learner=sitting.learner, training=sitting.training)


def _sitting(said: Mapping[str, Any]) -> Sitting:
    parts: dict[str, Any] = {n: tuple(part) if isinstance(part, list) else part for n, part in said.items()}
    return Sitting(**parts)


def _of_sitting(sitting: Sitting) -> Any:
    rules = json.loads(sitting.training)
    return sitting.learner, {name: rule for name, rule in rules.items() if name != "seed"}


def _model(record: Mapping[str, Any]) -> Any:
    """Model and rules of the run; each seed of a model that is another one with every seed has a sitting of its own."""
    rules = {name: rule for name, rule in record["training"].items() if name != "seed"}
    return fingerprint(dict(record["learner"]))[0][:16], rules


def _agreed_keys(run: LeftRun) -> dict[str, str]:
    """The keys of the members by name, where they have agreed on a run in a federation; nothing without an agreement."""
    if run.agreement is None or "evaluated_at" not in run.agreement.job:
        return {}
    return {party.name: party.key for party in run.agreement.members}


def _other_keys(keys: Mapping[str, Sequence[str]], agreed: Mapping[str, str]) -> Iterator[str]:
    """Keys that the run had and that are not those agreed. Those of earlier runs may be others, and then count for nothing."""
    for name, key in agreed.items():
        if name in keys and keys[name][-1] != key:
            yield f"the replies of {one_line(name)} were to be signed with another key than the one in the agreement"


def _keys(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """By the client's name, in the order of its sittings: the last one is that of the run."""
    keys = dict[str, list[str]]()
    for entry in entries:
        if entry.kind == "sitting":
            for name, key in zip(entry.said["clients"], entry.said["keys"], strict=True):
                keys.setdefault(name, []).append(key)
    return keys
