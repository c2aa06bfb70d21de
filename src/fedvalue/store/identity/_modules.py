"""Where modules come from: Python and what was installed, known by name, or the user's own files, known by content."""

from __future__ import annotations

import sys
import sysconfig
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["find", "is_library", "library_name", "name_in_library"]

_FEDVALUE = Path(__file__).resolve().parents[2]


def is_library(module: str | None) -> bool:
    """Whether a module comes with Python, with fedvalue or was installed. It may be anywhere on the disk."""
    if not module or module == "__main__":
        return False
    if module in sys.builtin_module_names:
        return True
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    if loaded is None or file is None:
        spec = getattr(loaded, "__spec__", None) or find(module)
        if spec is None:
            return _is_in_compiled(module, loaded)
        file = spec.origin
        if file in ("built-in", "frozen"):
            return True
        if not spec.has_location or file is None:  # a package without __init__.py
            return any(
                _belongs(module, Path(folder) / "*") for folder in spec.submodule_search_locations or ()
            )
    return _belongs(module, Path(file))


def _is_in_compiled(module: str, loaded: ModuleType | None) -> bool:
    """Whether a compiled module of a library made this one, which has no file: torch._C._nn, that of F.gelu."""
    above, _, name = module.rpartition(".")
    maker = sys.modules.get(above)
    made = loaded is not None and getattr(maker, name, None) is loaded
    compiled = str(getattr(maker, "__file__", None)).endswith(tuple(EXTENSION_SUFFIXES))
    return made and compiled and is_library(above)


@lru_cache(maxsize=4096)
def _belongs(module: str, file: Path) -> bool:
    file, parts = file.resolve(), module.split(".")
    if file.is_relative_to(_FEDVALUE):
        return parts[0] == "fedvalue"
    if any(part in ("site-packages", "dist-packages") or part.endswith(".egg") for part in file.parts):
        return True
    standard = {Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib")}
    if parts[0] in sys.stdlib_module_names and any(file.is_relative_to(folder) for folder in standard):
        return True
    # Installed into a folder of its own (pip install --target): a record beside it lists its files.
    depth = len(parts) - (file.stem not in ("__init__", "*"))
    return len(file.parents) > depth and _is_recorded(file.parents[depth], parts[0])


@lru_cache(maxsize=1024)
def _is_recorded(folder: Path, package: str) -> bool:
    starts = (f"{package}/", f"{package}.")
    return any(
        line.startswith(starts)
        for record in folder.glob("*.dist-info/RECORD")
        for line in record.read_text("utf-8", "replace").splitlines()
    )


def find(module: str) -> ModuleSpec | None:
    """Where a module would be imported from, found out without importing anything."""
    path: Any = None
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        spec = None
        for finder in sys.meta_path:
            try:
                spec = finder.find_spec(name, path)
            except Exception:  # a finder of somebody else's
                spec = None
            if spec is not None:
                break
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None and end < len(parts):
            return None
    return spec


def library_name(value: object) -> str | None:
    """The full name of a function or class that a library defines under this name; None for all else."""
    try:
        owner = getattr(value, "__self__", None)
        module = value.__module__ or type(owner).__module__
        name = getattr(value, "__qualname__", None) or value.__name__  # type: ignore[attr-defined]
    except Exception:  # values of any kind, with attributes of any kind
        return None
    if isinstance(module, str) and isinstance(name, str) and is_library(module):
        for path in (name, name.rsplit(".", 1)[-1]):
            found = _attribute(sys.modules.get(module), path)
            if found is value or (owner is not None and getattr(found, "__self__", None) is owner):
                return _full_name(module, path)
    return None


def name_in_library(name: str, value: object) -> str | None:
    """The name of a constant that a library defines under this name, such as `scipy.stats.norm`."""
    package = type(value).__module__.split(".")[0]
    if not is_library(package) or package == "builtins":
        return None
    modules = [module for key, module in list(sys.modules.items()) if key.split(".")[0] == package]
    if any(isinstance(module, ModuleType) and vars(module).get(name) is value for module in modules):
        return f"{package}.{name}"
    return None


def _attribute(value: object, path: str) -> object:
    for part in path.split("."):
        value = getattr(value, part, None)
    return value


def _full_name(module: str, name: str) -> str:
    """Where the standard library keeps a thing changes with its version: only the package counts there."""
    package = module.split(".")[0]
    return f"{package.lstrip('_')}.{name}" if package in sys.stdlib_module_names else f"{module}.{name}"
