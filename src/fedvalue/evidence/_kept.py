"""The trainings that values rest on: whether the store is sound, still has all of them, and says what can be."""

from __future__ import annotations

from collections.abc import Iterator

from fedvalue._text import plural
from fedvalue.evidence._run import LeftRun
from fedvalue.evidence._verdict import Check, sound, unchecked, undecided, wrong
from fedvalue.store import Head, History, StoreUntil, UtilityStore, read_history
from fedvalue.values import Values

__all__ = ["chain_of", "histories", "ranges", "trainings"]

_LISTED = 12
_CHAIN, _STORE, _RANGES = "The chain of the trainings", "The store", "What the trainings say"


def trainings(store: UtilityStore) -> Iterator[Check]:
    """Every row of the store by itself, and the chains."""
    problems = store.verify()
    yield from (wrong(_STORE, problem) for problem in problems[:_LISTED])
    if len(problems) > _LISTED:
        yield wrong(_STORE, f"and {plural(len(problems) - _LISTED, 'problem')} more")
    if problems:
        return
    made = plural(sum(game.outcomes for game in store.games()), "training")
    if store.has_checksums:
        yield sound(_STORE, f"{made}, none of them altered since it was stored")
    else:
        yield undecided(
            _STORE,
            f"{made} without checksums, as the first release kept them: whether one was altered nobody can tell",
        )


def chain_of(store: UtilityStore, values: Values) -> Iterator[Check]:
    """Whether the rows that the values were computed from are still the first ones."""
    chain, entries = values.chain, store.entries(values.game_id)
    if chain is None and entries:
        yield wrong(_CHAIN, "the values do not say which rows of the store they rest on")
    elif chain is None:
        yield unchecked(_CHAIN, "the store is of an earlier format, which has none")
    else:
        broken = False
        for rows, link, when in (
            (chain.rows_before, chain.link_before, "before the run"),
            (chain.rows, chain.link, "after the run"),
        ):
            if rows > len(entries):
                broken = True
                lost = plural(rows - len(entries), "row")
                yield wrong(_CHAIN, f"{lost} that the values rest on are no longer in the store ({when})")
            elif rows and Head(entries[rows - 1].place + 1, entries[rows - 1].link) != (rows, link):
                broken = True
                yield wrong(
                    _CHAIN,
                    f"row {rows} is not the one that the values name: the store was made anew ({when})",
                )
        if not broken:
            later = len(entries) - chain.rows
            more = f"; {plural(later, 'row')} came later and count for nothing here" if later else ""
            yield sound(
                _CHAIN,
                f"the {plural(chain.rows, 'row')} that the values rest on, the last {chain.link}{more}",
            )
    for entry in entries:
        if entry.kind == "taken over":
            yield unchecked(
                _CHAIN,
                f"the first {entry.place} rows were taken over from a store of {', '.join(entry.names)}: what happened to "
                "them before, no chain tells",
            )


def ranges(run: LeftRun, store: UtilityStore, values: Values) -> Iterator[Check]:
    """Whether correct answers go with the accuracy on the test rows that there are, and the clients with their game."""
    game = next(game for game in store.games() if game.id == values.game_id)
    named = game.description.get("names")
    clients = values.clients or range(values.n)
    bad = 0
    if named is not None and [named[i] for i in clients] != list(values.names):
        bad += 1
        yield wrong(_RANGES, f"the store knows the clients as {', '.join(map(str, named))}")
    rows = values.test_rows
    if run.agreement is not None and rows is not None and rows != run.agreement.job["test"]["rows"]:
        bad += 1
        yield wrong(_RANGES, f"{rows} test rows, agreed were {run.agreement.job['test']['rows']}")
    counted = 0
    for row in () if rows is None else store.rows(values.game_id):
        metrics = row["metrics"]
        if "correct" not in metrics or "accuracy" not in metrics:
            continue
        counted += 1
        assert rows is not None
        if abs(metrics["accuracy"] * rows - metrics["correct"]) > 1e-6 * rows:
            bad += 1
            yield wrong(
                _RANGES,
                f"coalition {row['mask']} (seed {row['replicate']}): {metrics['correct']:g} correct of {rows} test rows "
                f"do not make an accuracy of {metrics['accuracy']:g}",
            )
    if not bad:
        said = (
            f"correct answers go with the accuracy in {plural(counted, 'training')}"
            if counted
            else "clients as named"
        )
        yield sound(_RANGES, said)


def histories(store: UtilityStore, values: Values) -> Iterator[History]:
    """The trainings up to the end of the run, and all that are there now: payouts and reports may be written later."""
    grown = values.chain is not None and store.head(values.game_id).rows > values.chain.rows
    if values.chain is not None:
        yield read_history(StoreUntil(store, values.game_id, values.chain.rows), values)
    if grown or values.chain is None:
        yield read_history(store, values)
