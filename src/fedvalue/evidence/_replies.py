"""What the nodes of a federation have signed: whether the trainings in the store are those that they say they have done."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fedvalue._text import listed, one_line, plural
from fedvalue.coalitions import members
from fedvalue.evidence._run import LeftRun
from fedvalue.evidence._verdict import Check, sound, unchecked, undecided, wrong
from fedvalue.replies import Entry, Reply, Sitting, book_beside, digest_of_metrics, read_book
from fedvalue.report import FEDERATION
from fedvalue.store import StoreUntil, UtilityStore, fingerprint
from fedvalue.values import Values

__all__ = ["replies"]

_WHAT = "What the nodes signed"
_LISTED, _NAMED = 8, 6
_OF_A_REPLY = ("kind", "game", "data", "round", "alone", "seeds", "sent", "back", "blocks")


class _Client(NamedTuple):
    """Whose signatures count: those of these keys, under these rows. Names do not."""

    data: str
    keys: frozenset[str]


@dataclass
class _Signed:
    """Everything in the book whose signature fits, by the rows and the key of who trained."""

    replies: int = 0
    trained: dict[tuple[str, str, int, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    alone: dict[tuple[str, str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    measured: dict[tuple[str, str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    models: dict[tuple[tuple[str, ...], int], dict[int, dict[str, int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )
    """By the rows of a coalition and the number of the seed: the digests and seeds of its models, by round."""

    def add(self, reply: Reply, key: str) -> None:
        self.replies += 1
        if reply.kind == "evaluate":
            for sent, back in zip(reply.sent, reply.back, strict=False):
                self.measured[reply.data, key, sent].add(back)
            return
        for sent, seed in zip(reply.sent, reply.seeds, strict=False):
            self.trained[reply.data, key, reply.round, seed].add(sent)
        if reply.alone:
            self.alone[reply.data, key, reply.seeds[0]].add(reply.back[-1])

    def are_trained(self, data: Sequence[str], number: int, rounds: int, signing: Sequence[_Client]) -> bool:
        """Whether the clients with keys have signed each round of this coalition."""
        models = self.models.get((tuple(sorted(data)), number), {})
        last = models.get(rounds + 1, {})
        return any(
            (len(data) == 1 and self._alone(signing[0], final, seed))
            or self._together(signing, models, seed, rounds)
            for final, seed in last.items()
        )

    def _alone(self, one: _Client, final: str, seed: int) -> bool:
        return any(final in self.alone.get((one.data, key, seed), ()) for key in one.keys)

    def _together(
        self, signing: Sequence[_Client], models: Mapping[int, Mapping[str, int]], seed: int, rounds: int
    ) -> bool:
        begun = [self._trained_by(one, 1, seed) for one in signing]
        if begun and not set.intersection(*begun):
            return False  # in round 1 all begin with one model
        return all(
            any(all(sent in self._trained_by(one, t, seed) for one in signing) for sent in models.get(t, ()))
            for t in range(2, rounds + 1)
        )

    def _trained_by(self, one: _Client, t: int, seed: int) -> set[str]:
        return {sent for key in one.keys for sent in self.trained.get((one.data, key, t, seed), ())}


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
    signed = _Signed()
    found += _fill(signed, entries, _model(record))
    keys = _keys(entries)
    found += _other_keys(keys, agreed)
    yield from (wrong(_WHAT, text) for text in found[:_LISTED])
    if len(found) > _LISTED:
        yield wrong(_WHAT, f"and {plural(len(found) - _LISTED, 'finding')} more")
    if not found:
        whose = "in the agreement" if agreed else "that the operator names: compare them with the clients"
        known = {name: [key] for name, key in agreed.items()} if agreed else keys
        yield from _trainings(signed, record, store, values, known, whose, file.stat().st_size)


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


def _fill(signed: _Signed, entries: Sequence[Entry], model: Any) -> list[str]:
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
                _add_models(signed, sitting, entry.said)
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
                signed.add(reply, sitting.keys[client])
            seen.add(signature)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            found.append(f"line {entry.number} is not as fedvalue writes it")
    return found


def _add_models(signed: _Signed, sitting: Sitting, said: Mapping[str, Any]) -> None:
    for mask, number, seed, digest in said["of"]:
        data = tuple(sorted(sitting.data[i] for i in members(int(mask, 16))))
        signed.models[data, number][said["round"]][digest] = seed


def _trainings(
    signed: _Signed,
    record: Mapping[str, Any],
    store: UtilityStore,
    values: Values,
    keys: Mapping[str, Sequence[str]],
    whose: str,
    size: int,
) -> Iterator[Check]:
    """Whether every training that the values rest on is signed by those who took part in it."""
    scenario, rounds = record["scenario"], record["training"]["rounds"]
    names, data = scenario["clients"], scenario["fingerprints"]
    clients = [
        _Client(own, frozenset(filter(None, keys.get(name, ()))))
        for name, own in zip(names, data, strict=True)
    ]
    rows = (1 << 62) if values.chain is None else values.chain.rows
    complete, partly, bare, lies, keyless = 0, 0, 0, list[str](), set[str]()
    for row in StoreUntil(store, values.game_id, rows).rows(values.game_id):
        who = [i for i in members(int(row["mask"], 16)) if scenario["rows"][i]]
        if not who:
            continue
        keyed = [i for i in who if clients[i].keys]
        keyless |= {names[i] for i in who} - {names[i] for i in keyed}
        coalition, number = [data[i] for i in who], row["replicate"]
        if not keyed:
            partly += 1
        elif not signed.are_trained(coalition, number, rounds, [clients[i] for i in keyed]):
            bare += 1
        elif other := _other_metrics(signed, row, names, clients, coalition, rounds):
            lies.append(
                f"coalition {row['mask']} (seed {number}): {other} has signed other metrics than the store has"
            )
        elif len(keyed) < len(who):
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
    if partly:
        yield unchecked(
            _WHAT,
            f"{plural(partly, 'training')} took part of {listed(sorted(keyless), _NAMED)}, which have no key for signing",
        )
    if complete and not lies:
        told = f"every local training in {plural(complete, 'training')}: {signed.replies:,} signed replies in {size:,} bytes"
        yield sound(_WHAT, f"{told}, with the keys {whose}")


def _other_metrics(
    signed: _Signed,
    row: Mapping[str, Any],
    names: Sequence[str],
    clients: Sequence[_Client],
    coalition: Sequence[str],
    rounds: int,
) -> str:
    """Who has signed that it measured something else of the final model; models that only the server measured say nothing."""
    finals = signed.models[tuple(sorted(coalition)), row["replicate"]][rounds + 1]
    for name, own in zip(names, clients, strict=True):
        prefix = f"{name}/"
        told = {k.removeprefix(prefix): v for k, v in row["metrics"].items() if k.startswith(prefix)}
        if told and own.keys:
            known = {
                digest
                for final in finals
                for key in own.keys
                for digest in signed.measured.get((own.data, key, final), ())
            }
            if digest_of_metrics(told) not in known:
                return str(name)
    return ""


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
