"""What a cheat may do to the folder of a run: every kind of byte, with and without covering the tracks."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedvalue import Job, Result, UtilityStore
from fedvalue._files import sealed, write_json
from fedvalue.agreement import Party, PayoutTerms, make_key, read_public_line
from fedvalue.evidence import sign
from fedvalue.outcome import Outcome
from fedvalue.store import _chain
from fedvalue.store._games import signed
from fedvalue.store._rows import checksum

FILES = (
    "values.json", "run.json", "agreement.json", "evidence.json", "payout.json", "payout.csv", "payout.md",
    "report.html", "report.md",
)  # fmt: skip
SEALED = ("values.json", "run.json", "payout.json")
TABLES = {
    "games": ("game_id", "n", "description", "created"),
    "outcomes": ("game_id", "mask", "replicate", "metrics", "backend", "device", "seconds", "created", "checksum"),
    "per_row": ("game_id", "replicate", "mask", "name", "kind", "length", "data", "rows", "checksum"),
    "added_metrics": ("game_id", "replicate", "mask", "name", "value", "created", "checksum"),
    "chain": ("game_id", "place", "kind", "replicate", "mask", "names", "digest", "link"),
}  # fmt: skip
COLUMNS = [(table, column) for table, columns in TABLES.items() for column in columns]


def signed_run(folder: Path, reports: bool = True, **options: Any) -> Result:
    """A run under a signed agreement with payouts, reports and a signature: `run/` and `agreement.json` in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for who in ("operator", "member"):
        make_key(folder / who)
    operator, member = (read_public_line(folder / f"{who}.pub") for who in ("operator", "member"))
    job = {"scenario": "digits", "clients": 3, "samples": 15, "rounds": 1, "method": "exact", **options}
    plain = Job(**job)
    name = plain.prepared.scenario.names[0]
    terms = PayoutTerms(currency="EUR", pot="1000")
    agreed = plain.agree(Party("Clearing", operator), {name: member}, terms)
    agreed = agreed.sign(folder / "operator").sign(folder / "member")
    agreed.save(folder / "agreement.json")
    out = folder / "run"
    # A metric that came later, so that there is a row of every kind; the values rest on it, too.
    out.mkdir()
    first = Job(**job, out=out)
    with UtilityStore(first.store_path) as store:
        game = first.prepared.game
        store.register(game.id, game.n, {"names": list(game.names)})
        ((mask, outcome),) = game.evaluate([1])
        fewer = {name: n for name, n in outcome.metrics.items() if name not in ("f1", "mse")}
        store.append(game.id, [(mask, Outcome(fewer, rows={}))])
        store.append(game.id, [(mask, outcome)])
    result = Job(**job, out=out, agreement=agreed).run(report=reports)
    paid = result.payout("1000", currency="EUR")
    write_json(out / "payout.json", sealed(paid.to_dict()))
    (out / "payout.csv").write_bytes(paid.to_csv().encode())
    (out / "payout.md").write_bytes(paid.to_markdown().encode())
    for name in ("report.html", "report.md") if reports else ():
        result.report(out / name, pot="1000", currency="EUR")
    sign(out, folder / "operator")
    return result


def alter_text(text: str, rng: random.Random) -> str:
    """The same with one visible character exchanged for another of its kind."""
    places = [i for i, letter in enumerate(text) if letter.isalnum()]
    if not places:
        return f"{text}7"
    at = rng.choice(places)
    digit = text[at].isdecimal()
    others = [letter for letter in ("0123456789" if digit else "abcdefxyz") if letter != text[at]]
    return text[:at] + rng.choice(others) + text[at + 1 :]


def alter_value(value: Any, rng: random.Random) -> Any:
    """Another value of the same type."""
    if isinstance(value, bytes):
        at = rng.randrange(len(value))
        return value[:at] + bytes([value[at] ^ (1 << rng.randrange(8))]) + value[at + 1 :]
    if isinstance(value, str):
        return alter_text(value, rng)
    return value + rng.choice([1, 2, 0.5] if isinstance(value, float) else [1, 2])


def alter_field(path: Path, table: str, column: str, rng: random.Random) -> str:
    """One field of one row, as an editor of SQLite files would."""
    with closing(sqlite3.connect(path)) as db, db:
        keys = {"games": "game_id", "chain": "game_id, place"}.get(table, "game_id, mask, replicate")
        more = ", name" if table in ("per_row", "added_metrics") else ""
        rows = db.execute(f"SELECT {keys}{more}, {column} FROM {table}").fetchall()
        where = " AND ".join(f"{name}=?" for name in f"{keys}{more}".split(", "))
        while True:
            *key, value = rng.choice(rows)
            changed = alter_value(value, rng)
            with suppress(sqlite3.IntegrityError):  # there is such a row already: another one, then
                db.execute(f"UPDATE {table} SET {column}=? WHERE {where}", (changed, *key))
                return f"{table}.{column}: {str(value)[:20]!r} to {str(changed)[:20]!r}"


def alter_file(folder: Path, name: str, rng: random.Random) -> str:
    """One character of a file."""
    path = folder / name
    text = path.read_bytes().decode()
    path.write_bytes(alter_text(text, rng).encode())
    return f"a character of {name}"


def _leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    inner = [leaf for key, value in items for leaf in _leaves(value, (*path, key))]
    return inner if inner or isinstance(data, dict | list) else [path]


def alter_and_seal(folder: Path, name: str, rng: random.Random) -> str:
    """One value of a sealed file, with a checksum that fits again."""
    path = folder / name
    data = json.loads(path.read_text(encoding="utf-8"))
    del data["checksum"]
    leaf = rng.choice(_leaves(data))
    inner = data
    for key in leaf[:-1]:
        inner = inner[key]
    old = inner[leaf[-1]]
    inner[leaf[-1]] = (not old) if isinstance(old, bool) else 1 if old is None else alter_value(old, rng)
    write_json(path, sealed(data))
    return f"{name}: {'.'.join(map(str, leaf))}, sealed again"


def reseal_store(path: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    """Changes rows and makes all checksums and all chains anew: nothing in the store itself shows it."""
    with closing(sqlite3.connect(path)) as db, db:
        for statement, given in statements:
            db.execute(statement, given)
        there = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        for table, columns in TABLES.items():
            if columns[-1] != "checksum" or table not in there:
                continue
            for row in db.execute(f"SELECT {', '.join(columns[:-1])} FROM {table}").fetchall():
                fits = checksum(part.hex() if isinstance(part, bytes) else part for part in row)
                where = " AND ".join(f"{name}=?" for name in columns[:-1])
                db.execute(f"UPDATE {table} SET checksum=? WHERE {where}", (fits, *row))
        for game_id, n, text in db.execute("SELECT game_id, n, description FROM games").fetchall():
            plain = {key: part for key, part in json.loads(text).items() if key != "checksum"}
            db.execute("UPDATE games SET description=? WHERE game_id=?", (signed(game_id, n, plain), game_id))
        db.execute("DELETE FROM chain")
        for (game_id,) in db.execute("SELECT game_id FROM games").fetchall():
            _chain.append(db, game_id, _chain.uncovered(db, game_id))


def better_accuracy(path: Path, rng: random.Random) -> str:
    """Another accuracy that is possible by itself, and everything in the store made to fit."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT mask, metrics FROM outcomes WHERE mask<>'0'").fetchall()
    mask, text = rng.choice(rows)
    metrics = json.loads(text)
    metrics["correct"] -= 1
    metrics["accuracy"] = metrics["correct"] / 449
    changed = json.dumps(metrics, sort_keys=True)
    reseal_store(
        path,
        ("UPDATE outcomes SET metrics=? WHERE mask=? AND replicate=0", (changed, mask)),
        ("DELETE FROM per_row WHERE mask=?", (mask,)),
    )
    return f"a better accuracy for {mask}, checksums and chain made anew"


def remove_row(path: Path, rng: random.Random) -> str:
    """A training that never was."""
    with closing(sqlite3.connect(path)) as db, db:
        mask, replicate = rng.choice(db.execute("SELECT mask, replicate FROM outcomes").fetchall())
        for table in ("outcomes", "per_row", "added_metrics"):
            db.execute(f"DELETE FROM {table} WHERE mask=? AND replicate=?", (mask, replicate))
    return f"training {mask} removed"


def insert_row(path: Path, rng: random.Random) -> str:
    """A training that was never made, with a checksum that fits."""
    with closing(sqlite3.connect(path)) as db, db:
        row = list(rng.choice(db.execute("SELECT * FROM outcomes").fetchall())[:-1])
        row[2] = 1000 + rng.randrange(1000)
        db.execute(f"INSERT INTO outcomes VALUES ({','.join('?' * 9)})", (*row, checksum(row)))
    return "a training slipped in"


def swap_rows(path: Path, rng: random.Random) -> str:
    """Two entries of the chain in each other's place."""
    with closing(sqlite3.connect(path)) as db, db:
        places = [place for (place,) in db.execute("SELECT place FROM chain").fetchall()]
        one, other = rng.sample(places, 2)
        for old, new in ((one, -1), (other, one), (-1, other)):
            db.execute("UPDATE chain SET place=? WHERE place=?", (new, old))
    return f"rows {one} and {other} of the chain exchanged"


def cut_off(path: Path, rng: random.Random) -> str:
    """The last rows removed, with their places in the chain: what is left is a sound store."""
    with closing(sqlite3.connect(path)) as db, db:
        places = db.execute("SELECT place, mask, replicate, kind FROM chain ORDER BY place DESC").fetchall()
        for place, mask, replicate, _ in places[: rng.randint(1, 3)]:
            db.execute("DELETE FROM chain WHERE place=?", (place,))
            for table in ("outcomes", "per_row", "added_metrics"):
                db.execute(f"DELETE FROM {table} WHERE mask=? AND replicate=?", (mask, replicate))
    return "the last rows cut off"


def earlier_format(path: Path, rng: random.Random) -> str:
    """A store that says that it is older than chains, with a row that says that it is older than checksums."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE chain")
        db.execute("PRAGMA user_version = 3")
        mask, text = rng.choice(db.execute("SELECT mask, metrics FROM outcomes").fetchall())
        metrics = json.loads(text) | {"loss": rng.random()}
        db.execute("UPDATE outcomes SET metrics=?, checksum='none' WHERE mask=?", (json.dumps(metrics), mask))
    return "an older format without checksums"


def resigned(folder: Path, rng: random.Random) -> str:
    """Digests of altered files, without the key to sign them."""
    what = alter_and_seal(folder, rng.choice(SEALED), rng)
    data = json.loads((folder / "evidence.json").read_text(encoding="utf-8"))
    for name in data["statement"]["files"]:
        data["statement"]["files"][name] = sha256((folder / name).read_bytes()).hexdigest()
    write_json(folder / "evidence.json", data)
    return f"{what}; digests made anew"


OF_STORE: tuple[Callable[[Path, random.Random], str], ...] = (
    better_accuracy, remove_row, insert_row, swap_rows, cut_off, earlier_format,
)  # fmt: skip


def random_alteration(folder: Path, rng: random.Random) -> str:
    """One alteration of any kind; says which."""
    kind = rng.randrange(5)
    if kind == 0:
        return alter_field(folder / "store.db", *rng.choice(COLUMNS), rng)
    if kind == 1:
        return rng.choice(OF_STORE)(folder / "store.db", rng)
    if kind == 2:
        return alter_file(folder, rng.choice(FILES), rng)
    if kind == 3:
        return alter_and_seal(folder, rng.choice(SEALED), rng)
    return resigned(folder, rng)
