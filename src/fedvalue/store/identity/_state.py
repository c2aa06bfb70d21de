"""The state of a module in memory, compared with what its text says."""

from __future__ import annotations

import ast
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from types import ModuleType
from typing import Any

__all__ = ["changes_of"]

_UNKNOWN = object()


def changes_of(module: ModuleType, tree: ast.Module) -> Iterator[str]:
    """What is, or may be, not as the text of the module says, in words."""
    said = _said(tree)
    for name, value in vars(module).items():
        if name not in said:
            continue
        if said[name] is not _UNKNOWN and repr(said[name]) != repr(value):
            yield f"{module.__name__}.{name}, which was changed after its import"
        elif said[name] is _UNKNOWN and _is_state(value):
            yield (
                f"{module.__name__}.{name}, which may have been changed after its import (import {module.__name__} "
                "outside the function, and its content counts)"
            )


def _said(tree: ast.Module) -> dict[str, Any]:
    """Names that a module assigns at its top, with what it says they are; unknown where that takes running it."""
    stored = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    found: dict[str, Any] = dict.fromkeys(stored, _UNKNOWN)
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name) and stored[target.id] == 1:
                    found[target.id] = _literal(statement.value)
    return {name: value for name, value in found.items() if not name.startswith("__")}


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _UNKNOWN


def _is_state(value: Any) -> bool:
    """Whether a value may have become another one: what code is, its text says."""
    return not (callable(value) or isinstance(value, (ModuleType, logging.Logger, PurePath)))
