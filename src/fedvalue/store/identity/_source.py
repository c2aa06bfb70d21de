"""The source text of functions, found and reduced to what it says.

The same text gives the same result on every Python from 3.11 on. Comments, blank lines, formatting, docstrings
and type hints are no part of it; constants, names and operators are.
"""

from __future__ import annotations

import ast
import copy
import linecache
import sys
import warnings
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, TypeAlias

__all__ = ["Definition", "class_text", "clean", "definition", "parse", "text_of"]

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

# Fields of the syntax tree that say nothing of what is computed, or that only some versions of Python have.
_SILENT = frozenset({"ctx", "kind", "type_comment", "type_ignores", "type_params", "simple"})


def definition(code: CodeType, names: dict[str, Any]) -> Definition | None:
    """The definition that a function's code was compiled from; None where there is no such text.

    What was typed at a prompt or made by `exec` has no text, and a file that was edited after its import does
    not have it any more. `names` are the globals of the function.
    """
    file = code.co_filename
    found = _find(code, "".join(linecache.getlines(file, names)))
    if found is None:
        linecache.checkcache(file)  # the file may have been edited and imported again
        found = _find(code, "".join(linecache.getlines(file, names)))
    return found


def class_text(cls: type) -> str:
    """The text of a class; empty where there is none. Of several with one name, all."""
    methods = [member for member in vars(cls).values() if isinstance(member, FunctionType)]
    files = [m.__code__.co_filename for m in methods if m.__qualname__ == f"{cls.__qualname__}.{m.__name__}"]
    files.append(getattr(sys.modules.get(cls.__module__), "__file__", None) or "")
    for file in dict.fromkeys(files):
        found = _classes("".join(linecache.getlines(file))).get(cls.__qualname__.replace(".<locals>", ""))
        if found:
            return " ".join(map(text_of, found))
    return ""


@lru_cache(maxsize=64)
def _classes(text: str) -> dict[str, list[ast.ClassDef]]:
    """All classes of a module, by their path of names."""
    found: dict[str, list[ast.ClassDef]] = {}
    waiting: list[tuple[str, ast.AST]] = [("", parse(text) or ast.Module([], []))]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            path = f"{path}.{node.name}".lstrip(".")
        if isinstance(node, ast.ClassDef):
            found.setdefault(path, []).append(node)
        waiting += [(path, child) for child in reversed(list(ast.iter_child_nodes(node)))]
    return found


@lru_cache(maxsize=64)
def parse(text: str) -> ast.Module | None:
    """The syntax tree of a module; None where it is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user has seen those of the compiler
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


@lru_cache(maxsize=64)
def _compiled(text: str) -> dict[tuple[int, str], list[CodeType]]:
    """All code of a module, by first line and name."""
    found: dict[tuple[int, str], list[CodeType]] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            waiting = [compile(text, "<text>", "exec", dont_inherit=True)]
    except (SyntaxError, ValueError, RecursionError):
        return found
    while waiting:
        code = waiting.pop()
        found.setdefault((code.co_firstlineno, code.co_name), []).append(code)
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found


@lru_cache(maxsize=64)
def _definitions(text: str) -> dict[tuple[int, str], list[Definition]]:
    """All definitions of a module, by first line and name."""
    found: dict[tuple[int, str], list[Definition]] = {}
    for node in ast.walk(parse(text) or ast.Module([], [])):
        if isinstance(node, ast.Lambda):
            found.setdefault((node.lineno, "<lambda>"), []).append(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            line = min(part.lineno for part in (node, *node.decorator_list))
            found.setdefault((line, node.name), []).append(node)
    return found


def _find(code: CodeType, text: str) -> Definition | None:
    place = code.co_firstlineno, code.co_name
    nodes = _definitions(text).get(place, [])
    rewritten = any(
        name.startswith("@") for part in _nested(code) for name in (*part.co_names, *part.co_varnames)
    )
    # pytest compiles a test's assertions into something else; nobody else has names with an @.
    if not rewritten and not any(_equal(code, other) for other in _compiled(text).get(place, [])):
        return None
    if len(nodes) > 1 and isinstance(nodes[0], ast.Lambda):
        there = _lambdas_of(code, [node for node in nodes if isinstance(node, ast.Lambda)])
        nodes = list({text_of(node): node for node in there or nodes}.values())
    return nodes[0] if len(nodes) == 1 else None


def _lambdas_of(code: CodeType, nodes: list[ast.Lambda]) -> list[ast.Lambda]:
    """Those of the lambdas of one line that the code may be of.

    Its instructions say where they come from, but Python 3.12 does not say it of all of them.
    """
    at = set(code.co_positions())
    exact = [node for node in nodes if _position(node.body) in at]
    around = [node for node in nodes if any(_is_within(place, _position(node.body)) for place in at)]
    if exact or around:  # of lambdas within each other, the innermost
        return exact or [max(around, key=lambda node: (node.lineno, node.col_offset))]
    return [node for node in nodes if _equal(code, _compiled_alone(node))]


def _is_within(place: tuple[int | None, ...], body: tuple[int | None, ...]) -> bool:
    if None in place or None in body:
        return False
    (line, end, start, stop), (of, to, left, right) = place, body
    return (of, left) <= (line, start) and (end, stop) <= (to, right)


def _compiled_alone(node: ast.Lambda) -> CodeType:
    whole = compile(ast.Expression(node), "<text>", "eval", dont_inherit=True)
    return next(constant for constant in whole.co_consts if isinstance(constant, CodeType))


def _position(node: ast.expr) -> tuple[int, int | None, int, int | None]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _equal(one: CodeType, other: CodeType) -> bool:
    if (one.co_code, one.co_names, one.co_varnames, one.co_freevars) != (
        other.co_code, other.co_names, other.co_varnames, other.co_freevars,
    ) or len(one.co_consts) != len(other.co_consts):  # fmt: skip
        return False
    return all(
        _equal(a, b)
        if isinstance(a, CodeType) and isinstance(b, CodeType)
        else type(a) is type(b) and (repr(a) == repr(b) or a == b)
        for a, b in zip(one.co_consts, other.co_consts, strict=True)
    )


class _Clean(ast.NodeTransformer):
    """Takes away what changes nothing: statements without effect, docstrings, type hints of functions."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(node, block, None)
            if not isinstance(statements, list) or not statements:
                continue
            kept = [s for s in statements if not _idle(s)]
            if not isinstance(node, ast.ClassDef):  # there, a hint may declare a field
                kept = [s for s in map(_without_hint, kept) if s is not None]
            setattr(node, block, kept or [ast.Pass()])
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.format_spec, ast.JoinedStr) and not node.format_spec.values:
            node.format_spec = None
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Versions of Python cut the constant parts of an f-string differently."""
        self.generic_visit(node)
        parts: list[ast.expr] = []
        for part in node.values:
            last = parts[-1] if parts else None
            if isinstance(part, ast.Constant) and isinstance(last, ast.Constant):
                parts[-1] = ast.Constant(str(last.value) + str(part.value))
            elif not (isinstance(part, ast.Constant) and part.value == ""):
                parts.append(part)
        node.values = parts
        return node


def _idle(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass)


def _without_hint(statement: ast.stmt) -> ast.stmt | None:
    if not isinstance(statement, ast.AnnAssign):
        return statement
    if statement.value is None:
        return None
    return ast.copy_location(ast.Assign([statement.target], statement.value), statement)


def clean(node: Any) -> Any:
    """A copy of a part of a syntax tree without what changes nothing."""
    return _Clean().visit(copy.deepcopy(node))


def text_of(node: ast.AST) -> str:
    """A definition or module as text that says the same on every Python."""
    return _write(clean(node))


def _write(node: object) -> str:
    if isinstance(node, ast.Constant):
        exact = hex(node.value) if type(node.value) is int else ascii(node.value)
        return f"{type(node.value).__name__} {exact}"
    if isinstance(node, ast.AST):
        fields = [(name, _write(getattr(node, name, None))) for name in node._fields if name not in _SILENT]
        return f"{type(node).__name__}({', '.join(f'{name}={text}' for name, text in fields if text)})"
    if isinstance(node, list):
        items = ", ".join(_write(item) or "-" for item in node if not isinstance(item, ast.Pass))
        return f"[{items}]" if items else ""
    return "" if node is None else ascii(node)
