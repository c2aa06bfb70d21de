"""Books of signed replies, and the store beside them, as an operator may alter them."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from alterations import reseal_store

from fedvalue import UtilityStore, Values
from fedvalue.agreement import canonical
from fedvalue.replies import Reply
from fedvalue.replies._book import _FIRST, _link, _said

Lines = list[dict[str, Any]]


def lines_of(folder: Path) -> Lines:
    """The lines of the book in the folder of a run."""
    return [json.loads(line) for line in (folder / "store.db.replies").read_text().splitlines()]


def write_lines(folder: Path, lines: Lines | None, anew: bool = True) -> None:
    """Other lines, or no book; `anew` also makes all hashes again, and the head in the values."""
    file, link = folder / "store.db.replies", _FIRST
    for line in lines or () if anew else ():
        kind = next(key for key in line if key != "link")
        line["link"] = link = _link(link, _said(kind, line[kind]))
    file.write_bytes(b"".join(canonical(line) + b"\n" for line in lines or ()))
    if not anew:
        return
    values = json.loads((folder / "values.json").read_text())
    values["details"]["replies"] = {"lines": len(lines or ()), "link": link}
    if lines is None:
        file.unlink()
        del values["details"]["replies"]
    Values.from_dict({k: v for k, v in values.items() if k != "checksum"}).save(folder / "values.json")


def signature_under(reply: dict[str, Any], sitting: dict[str, Any], key: Path) -> str:
    """What a node with this key signs if it is asked."""
    plain = {name: part for name, part in reply.items() if name not in ("client", "signature")}
    lists = {name: tuple(part) for name, part in plain.items() if isinstance(part, list)}
    told = Reply(**{**plain, **lists}, learner=sitting["learner"], training=sitting["training"])
    return told.signed(key).signature


def metrics_in(out: Path) -> dict[str, str]:
    """What the store says of each coalition, as text."""
    with closing(sqlite3.connect(out / "store.db")) as store:
        return dict(store.execute("SELECT mask, metrics FROM outcomes").fetchall())


def store_metrics(out: Path, changed: dict[str, str]) -> None:
    """Other metrics in the store, all checksums and the chain made anew, and its head in the values."""
    statements: list[tuple[str, tuple[Any, ...]]] = []
    for mask, text in changed.items():
        statements.append(("UPDATE outcomes SET metrics=? WHERE mask=?", (text, mask)))
        statements.append(("DELETE FROM per_row WHERE mask=?", (mask,)))  # it would not go with them
    reseal_store(out / "store.db", *statements)
    values = json.loads((out / "values.json").read_text())
    with UtilityStore(out / "store.db") as store:
        entries = store.entries(values["game_id"])
    for rows, link in (("rows", "link"), ("rows_before", "link_before")):
        if values["chain"][rows]:
            values["chain"][link] = entries[values["chain"][rows] - 1].link
    Values.from_dict({k: v for k, v in values.items() if k != "checksum"}).save(out / "values.json")


def exchanged(out: Path, one: str, other: str) -> None:
    """The metrics of two coalitions in each other's place."""
    known = metrics_in(out)
    store_metrics(out, {one: known[other], other: known[one]})


def renamed(lines: Lines, names: dict[str, str], rounds: range) -> Lines:
    """The lines that say whose models they are, with the models of others under these names."""
    for line in lines:
        if (told := line.get("models")) and told["round"] in rounds:
            models = {entry[0]: entry for entry in told["of"]}
            told["of"] = [
                [mask, *models[names[mask]][1:]] if names.get(mask) in models else models[mask]
                for mask in models
            ]
    return lines


def _two(out: Path, rng: random.Random) -> list[str]:
    return rng.sample([mask for mask in sorted(metrics_in(out)) if mask != "0"], 2)


def metrics_exchanged(out: Path, rounds: int, rng: random.Random) -> str:
    """Signed metrics of two coalitions."""
    one, other = _two(out, rng)
    exchanged(out, one, other)
    return f"signed metrics exchanged: {one} and {other}"


def finals_exchanged(out: Path, rounds: int, rng: random.Random) -> str:
    """The final models of two coalitions, with what was measured of them."""
    one, other = _two(out, rng)
    exchanged(out, one, other)
    write_lines(out, renamed(lines_of(out), {one: other, other: one}, range(rounds + 1, rounds + 2)))
    return f"final models exchanged: {one} and {other}"


def models_replaced(out: Path, rounds: int, rng: random.Random) -> str:
    """The models of a coalition in all rounds, taken for those of another."""
    one, other = _two(out, rng)
    store_metrics(out, {one: metrics_in(out)[other]})
    write_lines(out, renamed(lines_of(out), {one: other}, range(1, rounds + 2)))
    return f"models of all rounds replaced: {one} by {other}"


def mean_altered(out: Path, rounds: int, rng: random.Random) -> str:
    """A metric of all nodes together."""
    mask, text = rng.choice(sorted(metrics_in(out).items()))
    metrics = json.loads(text)
    name = rng.choice(sorted(name for name in metrics if name.partition("|")[0] in ("loss", "mse", "f1")))
    metrics[name] += rng.choice([-1, 1]) * 10 ** -rng.randint(2, 6)
    store_metrics(out, {mask: json.dumps(metrics, sort_keys=True)})
    return f"mean altered: {name} of {mask}"


def reply_altered(out: Path, rounds: int, rng: random.Random) -> str:
    """A digest in a signed reply."""
    lines = lines_of(out)
    reply = rng.choice([line["reply"] for line in lines if "reply" in line])
    digests = rng.choice([reply[name] for name in ("sent", "back", "origins") if reply[name]])
    at = rng.randrange(len(digests))
    digests[at] = digests[at][:-1] + ("A" if not digests[at].endswith("A") else "B")
    write_lines(out, lines)
    return "reply altered: a digest"


def reply_removed(out: Path, rounds: int, rng: random.Random) -> str:
    """One signed reply, of a message that had models of coalitions."""
    lines = lines_of(out)
    there = [line for line in lines if (line.get("reply") or {}).get("round") in (0, *range(2, rounds + 1))]
    there = [line for line in there if line["reply"]["kind"] == "train" or any(line["reply"]["origins"])]
    lines.remove(rng.choice(there))
    write_lines(out, lines)
    return "reply removed"


OF_FEDERATION: tuple[Callable[[Path, int, random.Random], str], ...] = (
    metrics_exchanged, finals_exchanged, models_replaced, mean_altered, reply_altered, reply_removed,
)  # fmt: skip
