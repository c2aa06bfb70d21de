"""By which method values are computed again: one of fedvalue's own, or one that whoever checks has given."""

from __future__ import annotations

from fedvalue.evidence._run import LeftRun
from fedvalue.evidence._verdict import Check, undecided
from fedvalue.run import MethodLike, as_method, methods
from fedvalue.store.identity import fingerprint
from fedvalue.values import Values

__all__ = ["is_built_in", "is_of_the_run", "method_of"]

_WHAT = "The values"


def is_built_in(name: object) -> bool:
    """Whether a method is part of fedvalue. Code of others is never imported because a file names it."""
    return any(method.name == name for method in methods())


def is_of_the_run(run: LeftRun, values: Values, given: MethodLike | None) -> bool:
    """Whether the method given is to be the one of the run, which fedvalue does not have, and not another to compare with."""
    return given is not None and not is_built_in(given) and not _all_built_in(run, values)


def method_of(run: LeftRun, values: Values, given: MethodLike | None) -> MethodLike | Check:
    """The method of the run, or why the values cannot be computed again."""
    record = run.record or {}
    if _all_built_in(run, values):
        return values.method
    if not is_of_the_run(run, values, given):
        name = _asked(run) or values.method
        return undecided(
            _WHAT,
            f"the method {name} is not one of fedvalue, and code that is named in the files is not run here. Read it, and "
            "give it yourself: --method package.module:name, or in Python verify(…, method=…)",
        )
    assert given is not None
    found = as_method(given)
    if record.get("plan") != fingerprint(found.function)[0][:24]:
        return undecided(_WHAT, f"{found.name} as given here is not the code that the run was made with")
    return found


def _asked(run: LeftRun) -> object:
    return ((run.record or {}).get("asked") or {}).get("method")


def _all_built_in(run: LeftRun, values: Values) -> bool:
    record = run.record or {}
    named = [name for name in (_asked(run), record.get("method"), values.method) if name is not None]
    return record.get("plan") is None and all(is_built_in(name) for name in named)
