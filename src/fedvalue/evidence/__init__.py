"""Evidence: what a run has left is checked by somebody else, from the files alone.

`verify` computes values, payouts and reports again from the store, and looks at checksums, chains and signatures; `sign`
puts a signature under the files of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from fedvalue._checks import as_path, checked_call, expect, whole
from fedvalue._imports import nothing_imported
from fedvalue._text import one_line
from fedvalue._version import __version__
from fedvalue.errors import FedvalueError, InputError
from fedvalue.evidence._consistency import consistency
from fedvalue.evidence._kept import chain_of, histories, ranges, trainings
from fedvalue.evidence._methods import is_built_in, is_of_the_run
from fedvalue.evidence._others import others
from fedvalue.evidence._payouts import payouts
from fedvalue.evidence._replies import replies
from fedvalue.evidence._reports import reports
from fedvalue.evidence._retrain import job_of, trained_again
from fedvalue.evidence._run import LeftRun, open_run
from fedvalue.evidence._signed import signatures_of, write_signed
from fedvalue.evidence._values import again, by_another_method
from fedvalue.evidence._verdict import Check, Verdict, only_consistent, unchecked, undecided, wrong
from fedvalue.report import FEDERATION
from fedvalue.run import EVIDENCE_FILE, Job, MethodLike, as_method
from fedvalue.store import UtilityStore
from fedvalue.values import Values

__all__ = ["EVIDENCE_FILE", "Check", "Verdict", "refuse_wrong", "sign", "verify"]

_NOT_RUN = "code that is named in the files of a run is not run by whoever checks them"

# What a record that holds anything may lead to.
_STRANGE = (AttributeError, LookupError, OverflowError, TypeError, ValueError)


@checked_call
def verify(
    run: str | PathLike[str],
    agreement: str | PathLike[str] | None = None,
    *,
    store: str | PathLike[str] | None = None,
    method: MethodLike | None = None,
    retrain: int = 0,
    job: Job | None = None,
    data_dir: str | PathLike[str] | None = None,
    seed: int | None = None,
    signed_by: str | None = None,
) -> Verdict:
    """Checks what a run has left in its folder (or a file of values with a `store`), and trains nothing for it.

    With `retrain`, so many coalitions are trained again, drawn with `seed` (default: one that nobody can foresee), from
    the data that the record of the run names, in `data_dir`, or from a `job` of your own. `agreement` is your own copy
    of what was agreed; `signed_by` a public key whose owner must have signed the results. `method` also computes the
    values by another one; a method of your own, which fedvalue has not, is the one that the run was made with. No code is
    run because the files name it.

    >>> import tempfile
    >>> import fedvalue as fv
    >>> folder = Path(tempfile.mkdtemp())
    >>> values = fv.value([0.0, 1.0, 1.0, 3.0], "exact", store=folder / "store.db")
    >>> _ = values.save(folder / "values.json")
    >>> verify(folder / "values.json", store=folder / "store.db").statement
    'Nothing is wrong; 6 checks passed, 3 could not be made.'
    """
    count = whole("retrain", retrain, 0)
    expect("job", job, (Job, type(None)), "fv.Job")
    chosen = None if method is None or is_built_in(method) else as_method(method)
    path, named = as_path("A run", run), None if store is None else as_path("A store", store)
    left, found = open_run(path, named, None if agreement is None else as_path("An agreement", agreement))
    found += consistency(left)
    values = left.values
    if values is None:
        found.append(unchecked("The values", "nothing follows from values that cannot be read"))
    elif left.store is None:
        found.append(
            wrong("The store", "it is not there: nothing can be computed again. Name it with --store")
        )
        found += only_consistent([*payouts(left, values), *reports(left, None, values)])
    else:
        with UtilityStore(left.store, create=False) as opened:
            with nothing_imported(_NOT_RUN):
                found += _of_store(left, opened, values, method if chosen is None else chosen)
            if count:
                where = None if data_dir is None else as_path("data_dir", data_dir)
                found += _retrained(left, opened, values, job, where, count, seed)
    found += others(left)
    found += signatures_of(left, values, signed_by)
    return Verdict(tuple(found), _about(left))


@checked_call
def sign(run: str | PathLike[str], key: str | PathLike[str]) -> Path:
    """Signs the files of a run with a private key, after checking them; gives the path of evidence.json.

    Others may sign the same files, too. Files that are written later are not covered: sign again.

    >>> import tempfile
    >>> import fedvalue as fv
    >>> from fedvalue.agreement import make_key
    >>> folder = Path(tempfile.mkdtemp())
    >>> public = make_key(folder / "clearing")
    >>> job = fv.Job("synthetic", clients=2, samples=20, out=folder / "run")
    >>> _ = job.run()
    >>> _ = sign(folder / "run", folder / "clearing")
    >>> verify(folder / "run", signed_by=public.read_text()).sound
    True
    """
    left, bad = _examined(as_path("A run", run))
    if bad is not None or left.values is None:
        raise InputError(f"These results are not signed, because something is wrong with them: {_said(bad)}")
    return write_signed(left, left.values, key)


def refuse_wrong(run: Path) -> None:
    """Raises where something is wrong with results that somebody is to be paid by. They need not be signed yet."""
    _, bad = _examined(run)
    if bad is not None:
        raise InputError(f"Nobody is paid by results that something is wrong with: {_said(bad)}")


def _said(bad: Check | None) -> str:
    return "" if bad is None else f"{bad.what}: {bad.text}. `fedvalue verify` lists everything."


def _examined(run: Path) -> tuple[LeftRun, Check | None]:
    """A run, and the first thing that is wrong with it, whoever has signed it."""
    left, found = open_run(run, None, None)
    found += consistency(left)
    if left.values is not None and left.store is not None:
        with UtilityStore(left.store, create=False) as opened, nothing_imported(_NOT_RUN):
            found += _of_store(left, opened, left.values, None)
    return left, next((check for check in found if check.state == "wrong"), None)


def _of_store(
    left: LeftRun, store: UtilityStore, values: Values, method: MethodLike | None
) -> Iterator[Check]:
    """What follows from the trainings. A store that cannot be read is a finding like others."""
    found = list(trainings(store))
    yield from found
    if any(check.state == "wrong" for check in found):
        yield unchecked("The values", "nothing is computed again from a store that was altered")
        return
    try:
        if values.game_id not in [game.id for game in store.games()]:
            yield wrong("The store", f"it knows no game {values.game_id}, which the values are of")
            return
        yield from chain_of(store, values)
        yield from ranges(left, store, values)
        yield from replies(left, store, values)
        computed = list(again(left, store, values, method))
        yield from computed
        if method is not None and not is_of_the_run(left, values, method):
            yield from by_another_method(left, store, values, method)
        if any(check.state == "wrong" for check in computed):
            yield unchecked("Payouts and reports", "nothing follows from values that are wrong")
            return
        known = list(histories(store, values))
        rest = [*payouts(left, values, known), *reports(left, store, values)]
        decided = all(check.state == "sound" for check in computed)
        yield from rest if decided else only_consistent(rest)
    except FedvalueError as error:
        yield wrong("The store", str(error))
    except _STRANGE as error:
        yield wrong(*_not_as_written(error))


def _not_as_written(error: Exception) -> tuple[str, str]:
    return (
        "The record of the run",
        f"its parts are not as fedvalue writes them: {type(error).__name__}: {error}",
    )


def _retrained(
    left: LeftRun,
    store: UtilityStore,
    values: Values,
    job: Job | None,
    data_dir: Path | None,
    count: int,
    seed: int | None,
) -> Iterator[Check]:
    what = "Trainings made again"
    if job is None and ((left.record or {}).get("format") != "fedvalue.run/1"):
        why = (
            "the rows of this federation are with its clients, so nobody can train without them. Who has them all may give a job "
            "in Python: verify(…, job=fv.Job(…))"
            if (left.record or {}).get("format") == FEDERATION
            else "the record does not say how to train. In Python, give the job: verify(…, job=fv.Job(…))"
        )
        yield undecided(what, why)
        return
    found = list[Check]()
    try:
        # A job of one's own may name code of one's own.
        with nothing_imported(_NOT_RUN if job is None else ""):
            again_job = job or job_of(left.record, data_dir)
            found += trained_again(values, left.record, store, again_job, count, seed)
    except FedvalueError as error:
        found.append(undecided(what, f"nothing could be trained here: {error}"))
    except _STRANGE as error:
        found.append(wrong(*_not_as_written(error)))
    yield from found


def _release(left: LeftRun) -> str:
    made = ((left.record or {}).get("versions") or {}).get("fedvalue")
    return f"run by fedvalue {one_line(str(made))[:40]}" if made else "the record names none"


def _about(left: LeftRun) -> dict[str, str]:
    values = left.values
    about = {"Run": left.folder.resolve().name}
    if values is not None:
        about |= {"Game": values.game_id, "Method": values.method, "Clients": ", ".join(values.names)}
        about |= {"Agreement": values.agreement} if values.agreement else {}
        about["Release"] = f"{_release(left)}; checked by {__version__}"
        if values.chain is not None:
            about["Chain of the store"] = f"{values.chain.rows} rows, the last {values.chain.link}"
    return about
