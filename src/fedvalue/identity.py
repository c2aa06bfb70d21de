"""Fingerprints: the same content gives the same text, on any machine, in any process.

A store must never hand out the utilities of another game. Data is fingerprinted by its content. A
function is fingerprinted by its code and by the data it refers to (defaults, closure, globals); what it
refers to and cannot be looked into is reported as a doubt, so that nobody relies on it unknowingly.
"""

from __future__ import annotations

import builtins
import dis
import functools
import hashlib
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

__all__ = ["fingerprint"]

_HEAP_TYPE = 1 << 9  # CPython's flag of classes made at run time; the others are compiled into a library

# A container that a function changes itself is its log or cache, not its data.
_MUTATORS = frozenset(
    [
        "add",
        "append",
        "appendleft",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popleft",
        "put",
        "remove",
        "setdefault",
        "update",
    ]
)


_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, np.ndarray)


def fingerprint(*parts: Any) -> tuple[str, tuple[str, ...]]:
    """A hexadecimal digest of the parts, and the names of what could not be looked into.

    >>> digest, doubts = fingerprint({"clients": 3}, [0.1, 0.2])
    >>> len(digest), doubts
    (64, ())
    """
    content = _Content()
    for part in parts:
        content.add(part, type(part).__name__)
    return content.sha.hexdigest(), tuple(dict.fromkeys(content.doubts))


class _Content:
    def __init__(self) -> None:
        self.sha = hashlib.sha256()
        self.doubts: list[str] = []
        self.open_functions: set[int] = set()  # recursion ends at a function that is being read

    def write(self, *texts: str) -> None:
        for text in texts:
            data = text.encode("utf-8", "surrogatepass")
            self.sha.update(b"%d:" % len(data) + data)

    def add(self, value: Any, where: str) -> None:
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self.write(type(value).__name__, repr(value))
        elif isinstance(value, (list, tuple)):
            self.write("sequence", str(len(value)))
            for item in value:
                self.add(item, where)
        elif isinstance(value, (set, frozenset)):
            self.write("set", *sorted(fingerprint(item)[0] for item in value))
        elif isinstance(value, Mapping):
            self.write("mapping", str(len(value)))
            for key in sorted(value, key=repr):
                self.add(key, where)
                self.add(value[key], where)
        elif isinstance(value, (FunctionType, type)) and _is_installed(value):
            self.write("name", value.__module__, value.__qualname__)
        elif isinstance(value, FunctionType):
            self.add_function(value)
        elif isinstance(value, type):
            self.add_class(value)
        elif isinstance(value, MethodType):
            self.add(value.__func__, where)
            self.add(value.__self__, where)
        elif isinstance(value, functools.partial):
            self.add((value.func, value.args, value.keywords), where)
        elif isinstance(value, ModuleType):
            self.write("module", value.__name__)
            file = getattr(value, "__file__", None)  # time and sys are built in and have none
            if file and not _is_library(value.__name__):
                self.sha.update(Path(file).read_bytes())
        elif isinstance(value, (BuiltinFunctionType, np.ufunc)):
            self.write("name", getattr(value, "__module__", None) or "", value.__name__)
        elif isinstance(value, PurePath):
            self.write("path", str(value))
        elif is_dataclass(value):
            self.add(type(value), where)
            for item in fields(value):
                self.add(getattr(value, item.name), where)
        elif hasattr(value, "__array__"):
            self.add_array(np.asarray(value), where)
        else:
            self.doubts.append(f"{where} ({type(value).__name__})")
            self.add(type(value), where)

    def add_array(self, array: np.ndarray[Any, Any], where: str) -> None:
        if array.dtype.hasobject:
            self.add(array.tolist(), where)
            return
        # Byte order is a property of the machine, not of the data.
        array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
        self.write("array", array.dtype.str, str(array.shape))
        self.sha.update(array.tobytes())

    def add_function(self, function: FunctionType) -> None:
        if id(function) in self.open_functions:
            return
        self.open_functions.add(id(function))
        code = function.__code__
        own = _changed_names(code)
        self.add_code(code)
        self.add((function.__defaults__, function.__kwdefaults__), function.__name__)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if name not in own:
                self.add(cell.cell_contents, name)
        for name in sorted(_global_names(code) - own):
            if name in function.__globals__:
                self.write("global", name)
                self.add(function.__globals__[name], name)

    def add_class(self, cls: type) -> None:
        """A class of the user's own is code like a function: bases, methods, plain settings."""
        if id(cls) in self.open_functions:
            return
        self.open_functions.add(id(cls))
        self.write("class", cls.__qualname__)
        for base in cls.__bases__:
            self.add(base, base.__name__)
        for name, member in sorted(vars(cls).items()):
            method = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            # What @dataclass writes follows from the fields and says nothing new.
            written = (
                not name.startswith("__") or not is_dataclass(cls) or name in ("__call__", "__post_init__")
            )
            if isinstance(method, FunctionType) and written:
                self.write("method", name)
                self.add_function(method)
            elif isinstance(member, _PLAIN) and not name.startswith("__"):
                self.write("setting", name)
                self.add(member, f"{cls.__name__}.{name}")

    def add_code(self, code: CodeType) -> None:
        self.write("code", code.co_code.hex(), *code.co_names, *code.co_varnames)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self.add_code(constant)
            else:
                self.add(constant, code.co_name)


def _is_installed(value: FunctionType | type) -> bool:
    """Whether the name of a function or class says what it does, because it is not the user's own."""
    if isinstance(value, type) and not value.__flags__ & _HEAP_TYPE:
        return True
    # What was typed in or executed from text belongs to no file.
    return value.__module__ not in (None, "__main__", "builtins") and _is_library(value.__module__)


@functools.cache
def _is_library(module: str) -> bool:
    """Whether a module comes with Python or was installed; the user's own files are neither."""
    if module.split(".")[0] in {"fedvalue", *sys.stdlib_module_names}:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return False
    installed = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(Path(file).resolve().is_relative_to(Path(folder).resolve()) for folder in installed)


def _nested(code: CodeType) -> list[CodeType]:
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return [code, *(deeper for c in inner for deeper in _nested(c))]


def _global_names(code: CodeType) -> set[str]:
    return {name for c in _nested(code) for name in c.co_names if not hasattr(builtins, name)}


def _changed_names(code: CodeType) -> set[str]:
    """Names outside the function that it rebinds, or changes by `x[…] = …` or a method such as `append`."""
    changed: set[object] = set()
    for c in _nested(code):
        loaded = None
        loaded_at: dict[tuple[int | None, int | None], str] = {}
        for step in dis.get_instructions(c):
            at = (step.positions.lineno, step.positions.col_offset) if step.positions else (None, None)
            if step.opname in ("LOAD_DEREF", "LOAD_GLOBAL"):
                loaded_at[at] = step.argval
            elif step.opname in ("STORE_SUBSCR", "DELETE_SUBSCR") and None not in at and at in loaded_at:
                changed.add(loaded_at[at])  # x[…] begins in the source where its x was loaded
            if step.opname in ("STORE_DEREF", "STORE_GLOBAL") or (
                step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval in _MUTATORS and loaded
            ):
                changed.add(loaded if step.opname.startswith("LOAD") else step.argval)
            loaded = step.argval if step.opname in ("LOAD_DEREF", "LOAD_GLOBAL") else None
    return {str(name) for name in changed}
