"""What is given from outside: values of the right kind within their bounds, and names that were meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from os import PathLike, fsencode, fspath
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from fedvalue.errors import InputError

__all__ = [
    "as_array",
    "as_key",
    "as_path",
    "between",
    "checked_call",
    "checked_init",
    "did_you_mean",
    "expect",
    "expect_same_order",
    "fits",
    "in_words",
    "names_in",
    "positive",
    "texts_by_name",
    "whole",
]

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

_LONGEST_NAME = 255  # bytes of a file's name

_LONGEST = 60  # characters of a value in a message


def whole(
    name: str, value: Any, least: int, most: int | None = None, error: type[InputError] = InputError
) -> int:
    """The value as an integer within its bounds; integers of NumPy count, true and false do not.

    >>> whole("budget", 32, 1)
    32
    >>> whole("budget", 2.5, 1)
    Traceback (most recent call last):
    fedvalue.errors.InputError: budget must be a whole number of at least 1. Got 2.5.
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most:,}"
        raise error(f"{name} must be a whole number {bounds}. Got {_shown(value)}.")
    return int(value)


def positive(name: str, value: Any, unit: str, error: type[InputError] = InputError) -> float:
    """The value as a number above zero; infinity is one.

    >>> positive("checkpoint", 20, "seconds")
    20.0
    >>> positive("checkpoint", 0, "seconds")
    Traceback (most recent call last):
    fedvalue.errors.InputError: checkpoint must be a positive number of seconds. Got 0.
    """
    if not isinstance(value, Real) or isinstance(value, bool) or not float(value) > 0:
        raise error(f"{name} must be a positive number of {unit}. Got {value!r}.")
    return float(value)


def between(name: str, value: Any, low: float, high: float) -> float:
    """The value as a number strictly between its bounds.

    >>> between("The level", 0.95, 0, 1)
    0.95
    """
    if not isinstance(value, Real) or isinstance(value, bool) or not low < float(value) < high:
        raise InputError(f"{name} must lie between {low} and {high}. Got {_shown(value)}.")
    return float(value)


def expect(
    name: str, value: Any, kind: Any, expected: str, hint: str = "", error: type[InputError] = InputError
) -> None:
    """Raises where a value is not of its kind. The hint says how to make one.

    >>> expect("names", 3, list, "a list of texts")
    Traceback (most recent call last):
    fedvalue.errors.InputError: names must be a list of texts. Got 3.
    """
    if not isinstance(value, kind):
        raise error(f"{name} must be {expected}. Got {_shown(value)}.{f' {hint}' if hint else ''}")


def names_in(name: str, value: Any) -> tuple[str, ...]:
    """The value as names. A text is not a list of its letters.

    >>> names_in("same", ["Bern"])
    ('Bern',)
    >>> names_in("same", "Bern")
    Traceback (most recent call last):
    fedvalue.errors.InputError: same must be a list of names, such as ['Bern']. Got 'Bern'.
    """
    is_list = isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping))
    if not is_list or not all(isinstance(one, str) for one in value):
        example = [value] if isinstance(value, str) else ["Bern"]
        raise InputError(f"{name} must be a list of names, such as {example}. Got {_shown(value)}.")
    return tuple(value)


def texts_by_name(name: str, value: Any, expected: str) -> dict[str, str]:
    """The value as a dict of texts.

    >>> texts_by_name("renamed", "Bern", "old names to new ones")
    Traceback (most recent call last):
    fedvalue.errors.InputError: renamed must be a dict from old names to new ones. Got 'Bern'.
    """
    is_dict = isinstance(value, Mapping)
    if not is_dict or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise InputError(f"{name} must be a dict from {expected}. Got {_shown(value)}.")
    return dict(value)


def as_path(name: str, value: Any) -> Path:
    """The value as a path.

    >>> as_path("store", 3)
    Traceback (most recent call last):
    fedvalue.errors.InputError: store must be a path. Got 3.
    """
    if isinstance(value, (str, PathLike)):
        text = fspath(value)
        if isinstance(text, str) and text and "\0" not in text:
            path = Path(text)
            if all(len(fsencode(part)) <= _LONGEST_NAME for part in path.parts):
                return path
    raise InputError(f"{name} must be a path. Got {_shown(value)}.")


def as_key(value: Any, error: type[InputError] = InputError) -> str | None:
    """A name that the user gives a game, a model, a metric or a loss; None where there is none.

    >>> as_key("rows of May"), as_key(None)
    ('rows of May', None)
    >>> as_key("")
    Traceback (most recent call last):
    fedvalue.errors.InputError: key must be a text that names data and code, such as 'rows of May'. Got ''.
    """
    if value is not None and not str(value).strip():
        raise error(f"key must be a text that names data and code, such as 'rows of May'. Got {value!r}.")
    return None if value is None else str(value)


def as_array(values: Any, what: str, kind: Any = None, error: type[InputError] = InputError) -> Any:
    """The values as an array of NumPy; of a tensor, the numbers without their gradients.

    >>> as_array([1, 2], "a table").tolist()
    [1, 2]
    """
    import numpy as np

    if np.ma.is_masked(values):
        raise error(f"{what} must be an array without masked entries. Fill them or leave them out.")
    try:
        if hasattr(values, "detach") and hasattr(values, "cpu"):
            values = values.detach().cpu().numpy()
        found = np.asarray(values)
        if kind is None:
            return found
        if found.dtype.kind in "cmM":  # NumPy would leave out the imaginary part, or count days
            raise TypeError(f"it holds {found.dtype}")
        return np.array(values, dtype=kind)
    except Exception as problem:  # objects of any kind may raise anything when they are converted
        expected = "be an array" if kind is None else "hold numbers only"
        raise error(f"{what} must {expected}: {str(problem).rstrip('.')}.") from problem


def expect_same_order(x: Any, y: Any, what: str, error: type[InputError] = InputError) -> None:
    """Raises where features and labels of pandas name the same rows in another order: rows are paired by their place."""
    if not (hasattr(x, "iloc") and hasattr(y, "iloc")) or x.index.equals(y.index):
        return
    if Counter(x.index) == Counter(y.index):
        raise error(
            f"Features and labels of {what} have the same index in another order, and would be paired by their place. Bring "
            "them into one order, such as y.loc[x.index]."
        )


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A question that names what is spelled most alike, with a space behind it; nothing where nothing is.

    >>> did_you_mean("surogate", ["surrogate", "exact"]), did_you_mean("zzz", ["surrogate", "exact"])
    ("Did you mean 'surrogate'? ", '')
    """
    from difflib import get_close_matches  # in the rare case: importing fedvalue stays quick

    near = get_close_matches(str(name), list(known), n=3, cutoff=0.5)
    return f"Did you mean {' or '.join(map(repr, near))}? " if near else ""


def checked_call(function: Callable[P, R]) -> Callable[P, R]:
    """The function; an argument that it does not have, or that is missing, is an error in words.

    >>> @checked_call
    ... def share(pot, currency=""): ...
    >>> share(3, curency="EUR")
    Traceback (most recent call last):
    fedvalue.errors.InputError: share has no argument 'curency'. Did you mean 'currency'? Arguments: pot, currency.
    """
    known = signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        _check_call(known, function.__name__, args, kwargs)
        return function(*args, **kwargs)

    return checked


def checked_init(cls: C) -> C:
    """The class; an argument that its constructor does not have, or that is missing, is an error in words."""
    make, known, name = cls.__init__, signature(cls), cls.__name__  # type: ignore[misc]

    @wraps(make)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        if type(self) is cls:  # a class derived from it may take other arguments
            _check_call(known, name, args, kwargs)
        make(self, *args, **kwargs)

    cls.__init__ = checked  # type: ignore[misc]
    return cls


def _check_call(known: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        known.bind(*args, **kwargs)
    except TypeError as error:
        stars = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
        names = [p.name for p in known.parameters.values() if p.kind not in stars and p.name != "cls"]
        wrong = [key for key in kwargs if key not in names]
        arguments = f"Arguments: {', '.join(names)}."
        if wrong:
            hint = did_you_mean(wrong[0], names)
            raise InputError(f"{name} has no argument {wrong[0]!r}. {hint}{arguments}") from None
        raise InputError(f"{name} cannot be called like this: {error}. {arguments}") from None


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of the type that a hint says.

    >>> fits(3, int | None), fits("3", int | None), fits([1], list[int])
    (True, False, True)
    """
    if kind is Any:
        return True
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if origin is not None:  # a sequence
        (item,) = get_args(kind)
        return isinstance(value, list) and all(fits(one, item) for one in value)
    return type(value) is kind


def in_words(kind: Any) -> str:
    """What a type hint asks for.

    >>> in_words(int | None), in_words(list[int])
    ('a whole number or none', 'a list in brackets')
    """
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return " or ".join(in_words(one) for one in get_args(kind))
    if origin is Literal:
        return " or ".join(map(str, get_args(kind)))
    if origin is not None:
        return "a list in brackets"
    words = {int: "a whole number", float: "a number", bool: "true or false", NoneType: "none"}
    return words.get(kind, str(kind))


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # a value that cannot be shown must not hide that it is wrong
        text = f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"a {type(value).__name__}: {text[: _LONGEST - 1]}…"
