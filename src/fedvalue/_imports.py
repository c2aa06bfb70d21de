"""Things of one's own that the command line names: package.module:name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from fedvalue.errors import InputError

__all__ = ["nothing_imported", "own_object"]

_REFUSED: ContextVar[str] = ContextVar("refused", default="")


@contextmanager
def nothing_imported(why: str) -> Iterator[None]:
    """While names come from files of somebody else: a name of code is refused, and `why` is said."""
    token = _REFUSED.set(why)
    try:
        yield
    finally:
        _REFUSED.reset(token)


def own_object(path: str, what: str, expected: str, fits: Callable[[Any], bool] = callable) -> Any:
    """The object at package.module:name. `what` it is for and what is `expected` there are said in errors.

    >>> own_object("math:sqrt", "metric", "a function")(9.0)
    3.0
    """
    if why := _REFUSED.get():
        raise InputError(f"The {what} {path!r} is not imported: {why}.")
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:  # whatever the user's own module raises
        raise InputError(
            f"The {what} {path!r} cannot be imported: {type(error).__name__}: {error}. It must be "
            f"package.module:name, where name is {expected}, and the module must be on the Python path."
        ) from error
    if not fits(found):
        raise InputError(f"The {what} {path!r} must be {expected}. Got a {type(found).__name__}.")
    return found
