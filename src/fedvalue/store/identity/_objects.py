"""Values of any kind, looked into: containers, classes, objects, and through `_functions` all code.

The user's own code is followed wherever it leads; what comes from a library counts by its name. What cannot be
looked into, and what code changes itself or brings in from outside, is a doubt: it is named, never passed over.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import logging
import operator
import os
import re
import sys
import threading
import types
import uuid
import weakref
from collections import deque, namedtuple
from collections.abc import Callable, Collection, Iterable
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, List, Optional, get_args, get_origin  # noqa: UP035

from fedvalue.store.identity._arrays import parts_of
from fedvalue.store.identity._functions import CodeReader
from fedvalue.store.identity._modules import is_library, library_name
from fedvalue.store.identity._references import Reference, code_of
from fedvalue.store.identity._source import class_text, definition
from fedvalue.store.identity._surroundings import layout_of
from fedvalue.store.identity._words import OUTSIDE_MODULES

__all__ = ["Inspector"]

_SAY_ALL = (
    datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, decimal.Decimal, fractions.Fraction,
    range, slice, uuid.UUID, types.GenericAlias, types.UnionType,
)  # fmt: skip
_OPERATORS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
_HINTS = (type(Optional[int]), type(List[int]))  # noqa: UP006, UP045
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
# The places of slots and of the fields of a named tuple: their values are in the objects.
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType, type(vars(namedtuple("_", "a"))["a"]))
# Methods that Python writes for a dataclass or a named tuple follow from its fields.
_WRITTEN_BY_PYTHON = frozenset([
    "__annotate__", "__annotate_func__", "__delattr__", "__eq__", "__ge__", "__getnewargs__", "__getstate__", "__gt__",
    "__hash__", "__init__", "__le__", "__lt__", "__new__", "__replace__", "__repr__", "__setattr__", "__setstate__",
    "__subclasshook__",  # of a protocol
    "_abc_impl", "_asdict", "_field_defaults", "_fields", "_is_protocol", "_is_runtime_protocol", "_make", "_replace",
])  # fmt: skip
_CONSTRUCTORS = frozenset(["__init__", "__new__", "__post_init__", "__setstate__"])
_EMPTY = (types.NoneType, bool, dict, list, set)
_CODE = (FunctionType, staticmethod, classmethod, property)
# What a class of the user's own that derives from these adds to them is looked into besides.
_EXTENDED = (
    datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, fractions.Fraction, uuid.UUID, PurePath,
    bytearray, property, functools.cached_property, types.SimpleNamespace, weakref.ref,
)  # fmt: skip
# Attributes of classes that say how they are laid out or described, not what they compute.
_LAID_OUT = frozenset(
    ["__annotations__", "__doc__", "__match_args__", "__module__", "__qualname__", "__slots__"]
)

_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_COMPILED = (types.MethodDescriptorType, types.ClassMethodDescriptorType)
_HEAP_TYPE = 1 << 9  # CPython's flag of classes that are made at run time

Parts = Iterable[str | bytes]


class Inspector:
    """Looks into values. `code.doubts` and `code.reads` hold what could not be followed, as text for people.

    With `made`, what constructs objects is left aside: only what they do later counts. With `cloned`, estimators are
    copied before every fit: what they do not hold now, they do not hold then.
    """

    def __init__(self, *, made: bool = False, cloned: bool = False) -> None:
        self._aside = _CONSTRUCTORS if made else frozenset[str]()
        self._cloned = cloned
        self.code = CodeReader(self.look)
        self._known: dict[int, tuple[object, str]] = {}  # the object is kept so that its id stays its own
        self._open: dict[int, int] = {}  # what is being looked into: a way back to it ends there
        self._kinds: list[tuple[Any, Callable[[Any, str], Parts]]] = [
            (FunctionType, self.code.function),
            (BuiltinFunctionType, self.code.builtin),
            (ModuleType, self.code.module),
            (type, self._class),
            (enum.Enum, lambda v, w: ("enum", self.look(type(v), w), str(v.name), self.look(v._value_, w))),
            ((list, tuple, deque), self._sequence),
            ((set, frozenset), self._set),
            ((dict, types.MappingProxyType), self._mapping),
            (MethodType, lambda v, w: ("method", *self._all((v.__func__, v.__self__), w))),
            (types.MethodWrapperType, lambda v, w: ("method", v.__name__, self.look(v.__self__, w))),
            (_METHODS, lambda v, w: ("method", v.__name__, self.look(v.__objclass__, w))),
            (
                functools.partial,
                lambda v, w: (*self._all((type(v), v.func, v.args, v.keywords), w), *self._attributes(v, w)),
            ),
            ((staticmethod, classmethod), lambda v, w: (type(v).__name__, self.look(v.__func__, w))),
            (property, lambda v, w: ("property", *self._all((v.fget, v.fset, v.fdel), w))),
            (functools.cached_property, lambda v, w: ("cached", self.look(v.func, w))),
            (functools._lru_cache_wrapper, self._cached),
            (types.SimpleNamespace, lambda v, w: ("namespace", *self._attributes(v, w))),
            (PurePath, lambda v, w: ("path", v.as_posix())),
            (re.Pattern, lambda v, w: ("pattern", *self._all((v.pattern, v.flags), w))),
            (_SAY_ALL, lambda v, w: (type(v).__name__, repr(v))),
            (_HINTS, self._hint),
            (_OPERATORS, lambda v, w: ("operator", self.look(v.__reduce__(), w))),
            (bytearray, lambda v, w: ("bytearray", bytes(v))),
            (weakref.ref, lambda v, w: ("weak", *self._all((v(), v.__callback__), w))),  # in recurrent layers
            (logging.Logger, lambda v, w: ("logger", v.name)),
            (_LOCKS, lambda v, w: ("lock",)),
        ]

    def look(self, value: Any, where: str) -> str:
        """Text that is the same for the same content, and different for any other."""
        plain = _plain(value)
        if plain is not None:
            return plain
        if id(value) in self._known:
            return self._known[id(value)][1]
        if id(value) in self._open:
            return f"back {self._open[id(value)]}"
        self._open[id(value)] = len(self._open)
        try:
            text = _hash(self._parts(value, where))
        except Exception:  # objects of any kind may raise anything when they are touched
            self._doubt(value, where)
            text = "unknown"
        del self._open[id(value)]
        self._known[id(value)] = value, text
        return text

    def _parts(self, value: Any, where: str) -> Parts:
        """What a value consists of."""
        name = library_name(value) if callable(value) else None
        if name is not None:
            if not isinstance(value, type):  # a class that reads does so where it is called
                self.code.held(name, where)
            return "library", name
        content = parts_of(value, where, self.look)
        if content is not None:
            layout = layout_of(value)
            self.code.mentions.layouts += [] if layout is None else [f"{where} {layout}"]
            return content
        if type(value).__module__ == "joblib.memory":
            self.code.doubt(f"{where}, which takes results of earlier calls from a folder (joblib.Memory)")
        for kinds, parts in self._kinds:
            if isinstance(value, kinds):
                return *parts(value, where), *self._extension(value, where)
        return self._object(value, where)

    def _extension(self, value: Any, where: str) -> Parts:
        """What a class of the user's own adds to a kind that says all that it is, such as a Decimal."""
        if isinstance(value, _EXTENDED) and not is_library(type(value).__module__):
            return "own", self.look(type(value), where), *self._attributes(value, where)
        return ()

    def _all(self, values: Iterable[Any], where: str) -> list[str]:
        return [self.look(value, where) for value in values]

    def _cached(self, value: Any, where: str) -> Parts:
        """A function that remembers: what it already has in mind may be of other data than the present."""
        if value.cache_info().currsize:
            self.code.doubt(
                f"{where}, which remembers results of earlier calls (functools.cache: {where}.cache_clear() forgets them)"
            )
        return "cached", self.look(value.__wrapped__, where)

    def _hint(self, value: Any, where: str) -> Parts:
        """A type hint such as Optional[int], which every version of Python keeps in other attributes."""
        origin = get_origin(value)
        kind = self.look(origin, where) if isinstance(origin, type) else str(origin)
        return "hint", kind, self.look(list(get_args(value)), where)

    def _doubt(self, value: Any, where: str) -> None:
        self.code.doubt(f"{where} ({type(value).__name__})")

    # Containers: their type, their order, and what is in them.

    def _container(self, value: Any, where: str) -> list[str]:
        if type(value).__module__ == "builtins":
            return [type(value).__name__, ""]
        made = [getattr(value, name, None) for name in ("default_factory", "maxlen")]
        return [*self._all((type(value), *made), where), *self._attributes(value, where), ""]

    def _sequence(self, value: Any, where: str) -> Parts:
        return *self._container(value, where), *self._all(value, where)

    def _set(self, value: Any, where: str) -> Parts:
        return *self._container(value, where), *sorted(self._all(value, where))

    def _mapping(self, value: Any, where: str) -> Parts:
        items = (part for item in value.items() for part in item)
        return *self._container(value, where), *self._all(items, where)

    # Classes and objects.

    def _class(self, cls: type, where: str) -> Parts:
        """A class of the user's own is code like a function: text, bases, methods, settings."""
        # Python 3.11 says of what make_dataclass makes that it comes from the module types.
        if is_library(cls.__module__) and cls.__module__ != "types":
            return "library", cls.__module__, cls.__qualname__
        # Those of a base, such as int.__format__, may be among its own: an IntFlag has them.
        if any(isinstance(m, _COMPILED) and m.__objclass__ is cls for m in vars(cls).values()):
            self.code.doubt(f"{where}, which is compiled and has no source text")
        text = class_text(cls)
        parts = ["class", cls.__name__, text, *self._all((type(cls), *cls.__bases__), where)]
        members = dict(vars(cls))
        if is_dataclass(cls):
            for item in fields(cls):
                settings = (item.default, item.default_factory, item.init, item.kw_only)
                notes = (dict(item.metadata),) if item.metadata else ()
                parts += [item.name, *self._all((*settings, *notes), f"{cls.__name__}.{item.name}")]
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            parts += self._all((cls._fields, getattr(cls, "_field_defaults", None)), where)
        if issubclass(cls, enum.Enum):
            parts += self._all(({e.name: e._value_ for e in cls},), cls.__name__)
            members = {k: v for k, v in members.items() if _is_beside_members(cls, k, v)}
        for name, member in sorted(members.items()):
            assigned = name not in _LAID_OUT and f"targets=[Name(id='{name}')" in text
            written = assigned or _is_written(member)
            if isinstance(member, _SLOTS) or (name in _WRITTEN_BY_PYTHON and not written):
                continue
            if name in self._aside:
                continue
            by_python = name.startswith("__") and name.endswith("__") and not (assigned or callable(member))
            if isinstance(member, _CODE) or not by_python:
                parts += ["member", name, self.look(member, f"{cls.__name__}.{name}")]
        return parts

    def _object(self, value: Any, where: str) -> Parts:
        cls: Any = type(value)
        if value is os.environ:
            self.code.reads[f"{where} (environment variables)"] = False
            return ("environment",)
        known = cls.__module__.split(".")[0] not in OUTSIDE_MODULES and _is_made_in_python(cls)
        if known and (hasattr(value, "__dict__") or _slots(value)):
            return "object", self.look(cls, where), *self._attributes(value, where)
        self._doubt(value, where)
        return "unknown", self.look(cls, where)

    def _attributes(self, value: Any, where: str) -> list[str]:
        """What an object holds, but for what it computed from the rest, or only ever writes."""
        held = dict(sorted(_slots(value).items())) | getattr(value, "__dict__", {})
        forgotten = self._cloned and hasattr(value, "get_params")
        changed = self._changed_attributes(type(value), where, held if forgotten else None)
        bare = _is_torch_module(value)  # has empty private attributes, others in every version of torch
        parts: list[str] = []
        for name in held:
            computed = isinstance(getattr(type(value), name, None), functools.cached_property)
            empty = bare and name.startswith("_") and isinstance(held[name], _EMPTY) and not held[name]
            if not (computed or empty or name in changed):
                parts += [name, self.look(held[name], f"{where}.{name}")]
        return parts

    def _changed_attributes(self, cls: type, where: str, kept: Collection[str] | None) -> set[str]:
        """Attributes that methods change: doubted, because what reads them may be anywhere.

        If only those that are `kept` outlast a call, others are no doubt.
        """
        uses: dict[str, list[Reference]] = {}
        for base in cls.__mro__:
            if is_library(base.__module__):
                continue
            for name, member in vars(base).items():
                function = getattr(member, "fget", member)
                if isinstance(function, FunctionType) and name not in _CONSTRUCTORS:
                    node = definition(function.__code__, function.__globals__)
                    facts = node and code_of(node, function.__code__.co_freevars)
                    for attribute, found in facts.attributes.items() if facts else ():
                        uses.setdefault(attribute, []).extend(found)
        changed = {name for name, found in uses.items() if any(use.changed_by for use in found)}
        if kept is not None:
            changed = {name for name in changed if name in kept or hasattr(cls, name)}
        for name in sorted(changed):
            self.code.doubt(f"{where}.{name}, which methods of {cls.__name__} change")
        return changed


def _hash(parts: Parts) -> str:
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        sha.update(b"%d:" % len(data))
        sha.update(data)
    return sha.hexdigest()


def _plain(value: Any) -> str | None:
    kind = type(value)
    if value is None or value is ... or value is NotImplemented:
        return repr(value)
    if kind is str:
        return f"str {value}"
    if kind is int or kind is bool:
        return f"{kind.__name__} {value:x}"
    if kind is float or kind is complex:
        return f"{kind.__name__} {value!r}"
    return f"bytes {value.hex()}" if kind is bytes else None


def _is_written(member: object) -> bool:
    """Whether a person wrote this method, not Python for a dataclass."""
    function = getattr(member, "__func__", getattr(member, "fget", member))
    if not isinstance(function, FunctionType):
        return False
    return function.__code__.co_filename != "<string>" and not is_library(
        function.__globals__.get("__name__")
    )


def _is_beside_members(cls: type[enum.Enum], name: str, value: object) -> bool:
    """Methods and other attributes of an enumeration, without its members and what Python notes about them."""
    if name.startswith("_"):
        return _is_written(value)
    return name not in cls.__members__ and not isinstance(value, types.DynamicClassAttribute)


def _is_made_in_python(cls: Any) -> bool:
    """Where classes are compiled, not all that an object holds need be in its attributes."""
    made_by_python = cls.__new__ is object.__new__ or isinstance(cls.__new__, FunctionType)
    return made_by_python and all(base.__flags__ & _HEAP_TYPE for base in cls.__mro__ if base is not object)


def _slots(value: object) -> dict[str, Any]:
    held: dict[str, Any] = {}
    for base in type(value).__mro__:
        for name, member in vars(base).items() if "__slots__" in vars(base) else ():
            if isinstance(member, types.MemberDescriptorType) and hasattr(value, name):
                held[name] = getattr(value, name)
    return held


def _is_torch_module(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)
