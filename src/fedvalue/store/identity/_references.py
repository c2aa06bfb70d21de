"""What a piece of code refers to: names from outside it, what it does to them, what it imports and reads."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from fedvalue.store.identity._source import Definition, clean, text_of
from fedvalue.store.identity._words import (
    CHANGES_ARGUMENT,
    CHANGES_ITSELF,
    OF_OPEN_FILES,
    OUTSIDE_BUILTINS,
    UNSEEDED,
    brings_in,
)

__all__ = [
    "Chain",
    "Code",
    "Import",
    "Reference",
    "chains_of",
    "code_of",
    "imports_of",
    "outside_of",
    "unseeded_of",
]


class Reference(NamedTuple):
    """One use of a name: the attributes that follow it, what changes it ('=' or a method), if it is read."""

    path: tuple[str, ...]
    changed_by: str | None
    read: bool


class Import(NamedTuple):
    """An import inside a function or module: `from ..package import name` has level 2."""

    module: str
    names: tuple[str, ...]
    level: int
    bound: tuple[str, ...]  # the names that it assigns


class Chain(NamedTuple):
    """A name and attributes: `np.loadtxt` is the attribute loadtxt of np; root is '' where it has no name."""

    root: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((self.root or "…", *self.path))


@dataclass(frozen=True)
class Code:
    """What a definition says and what it refers to."""

    text: str
    globals: dict[str, list[Reference]]
    closure: dict[str, list[Reference]]
    arguments: dict[str, list[Reference]]
    attributes: dict[str, list[Reference]]  # of the first argument: of `self`, where it is a method
    imports: tuple[Import, ...]
    outside: tuple[Chain, ...]  # what looks like reading from outside
    chains: tuple[Chain, ...]  # every name, with the attributes that follow it
    unseeded: tuple[str, ...]  # generators that are made without a seed


@lru_cache(maxsize=512)
def code_of(node: Definition, free: tuple[str, ...]) -> Code:
    """`free` are the names of the surrounding functions that the definition uses."""
    tree = clean(node)
    # What decorators and defaults have become is looked at, not the names in them.
    tree.decorator_list = []
    tree.args.defaults = [ast.Constant(None) for _ in tree.args.defaults]
    tree.args.kw_defaults = [default and ast.Constant(None) for default in tree.args.kw_defaults]
    names = _global_names(tree, free)
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    arguments = [a.arg for a in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)]

    def uses(wanted: Callable[[ast.AST], str | None]) -> dict[str, list[Reference]]:
        found: dict[str, list[Reference]] = {}
        for part in ast.walk(tree):
            if isinstance(part, ast.expr) and (name := wanted(part)) is not None:
                found.setdefault(name, []).append(_use(part, parents))
        return found

    def attribute_of_first(part: ast.AST) -> str | None:
        if (
            isinstance(part, ast.Attribute)
            and isinstance(part.value, ast.Name)
            and part.value.id in arguments[:1]
        ):
            return part.attr
        return None

    def argument(part: ast.AST) -> str | None:
        # Assigning to an argument changes no object.
        given = isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and part.id in arguments
        return part.id if isinstance(part, ast.Name) and given else None

    outside = tuple(
        item
        for item in outside_of(tree)
        # Methods of one's own are looked into with their class; a local variable may have the name of a builtin.
        if (item.root not in ("self", "cls") or len(item.path) > 1) and (item.path or item.root in names)
    )
    return Code(
        text_of(node),
        {name: [] for name in names}
        | uses(lambda p: p.id if isinstance(p, ast.Name) and p.id in names else None),
        uses(lambda p: p.id if isinstance(p, ast.Name) and p.id in free else None),
        uses(argument),
        uses(attribute_of_first),
        tuple(imports_of(tree)),
        outside,
        tuple(dict.fromkeys(chains_of(tree))),
        tuple(unseeded_of(tree)),
    )


def _global_names(tree: Definition, free: tuple[str, ...]) -> set[str]:
    """Names that are looked up in the module, as Python's own compiler sees it."""
    shell = ast.parse("def _(): pass")
    known = [ast.parse(f"{name} = None").body[0] for name in free if name != "__class__"]
    inner = ast.Expr(tree) if isinstance(tree, ast.Lambda) else tree
    shell.body[0].body = [*known, inner]  # type: ignore[attr-defined]
    top = symtable.symtable(ast.unparse(ast.fix_missing_locations(shell)), "<text>", "exec")

    def scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
        for child in table.get_children():
            yield child
            yield from scopes(child)

    found = {
        symbol.get_name() for scope in scopes(top) for symbol in scope.get_symbols() if symbol.is_global()
    }
    return found - {"__class__"}


def _use(part: ast.expr, parents: dict[ast.AST, ast.AST]) -> Reference:
    path: list[str] = []
    here: ast.AST = part
    above = parents.get(here)
    plain = True  # nothing but attributes so far
    while isinstance(above, (ast.Attribute, ast.Subscript)) and above.value is here:
        caller = parents.get(above)
        called = isinstance(caller, ast.Call) and caller.func is above
        if isinstance(above, ast.Attribute) and called and above.attr in CHANGES_ITSELF:
            used = not isinstance(caller and parents.get(caller), ast.Expr)
            return Reference(tuple(path), above.attr, used)
        if plain and isinstance(above, ast.Attribute):
            path.append(above.attr)
        else:
            plain = False
        here, above = above, caller
    if isinstance(getattr(here, "ctx", None), (ast.Store, ast.Del)):
        changed = path[:-1] if plain and path else path  # x.y = … changes x, x.y[…] = … changes x.y
        return Reference(tuple(changed), "=", False)
    function = _function_of(here, above)
    return Reference(tuple(path), function if function in CHANGES_ARGUMENT else None, True)


def _function_of(here: ast.AST, above: ast.AST | None) -> str | None:
    """The name of the function that this is the first argument of, or the `out` of."""
    if isinstance(above, ast.keyword) and above.arg == "out":
        return "out"
    if isinstance(above, ast.Call) and above.args and above.args[0] is here:
        return getattr(above.func, "attr", None) or getattr(above.func, "id", None)
    return None


def imports_of(tree: ast.AST) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, (), 0, (alias.asname or alias.name.split(".")[0],))
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            bound = tuple(alias.asname or alias.name for alias in node.names)
            yield Import(node.module or "", names, node.level, bound)


def outside_of(tree: ast.AST) -> list[Chain]:
    """Whatever looks like reading from outside. Who knows what the names stand for can rule some out."""
    found = list(_outside(tree))
    opened = [chain for chain in found if (chain.root, *chain.path)[-1] not in OF_OPEN_FILES]
    return opened or found  # that an open file is read need not be said besides


def _outside(tree: ast.AST) -> Iterator[Chain]:
    writing = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call) and _only_writes(node)}
    for node in ast.walk(tree):
        if node in writing:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in OUTSIDE_BUILTINS:
            yield Chain(node.id, ())
        elif isinstance(node, ast.Attribute) and brings_in(node.attr):
            yield _chain(node)
        elif (named := _named_attribute(node)) is not None and brings_in(named.attr):
            yield _chain(named)


def chains_of(tree: ast.AST) -> Iterator[Chain]:
    """Every name that is read, with the attributes that follow it."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            chain = _chain(node)
            if chain.root:
                yield chain


def unseeded_of(tree: ast.AST) -> Iterator[str]:
    """Generators of random numbers that are made without a seed, which makes them different every time."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not node.args and not node.keywords:
            chain = _chain(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else Chain("", ())
            if (chain.root, *chain.path)[-1] in UNSEEDED:
                yield str(chain)


def _chain(node: ast.expr) -> Chain:
    path: list[str] = []
    root = node
    while isinstance(root, ast.Attribute):
        path.insert(0, root.attr)
        root = root.value
    return Chain(root.id, tuple(path)) if isinstance(root, ast.Name) else Chain("", tuple(path[-1:]))


def _named_attribute(node: ast.AST) -> ast.Attribute | None:
    """getattr(x, "name") as x.name"""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        match node.args:
            case [owner, ast.Constant(value=str(name)), *_]:
                return ast.Attribute(owner, name, ast.Load())
    return None


def _only_writes(call: ast.Call) -> bool:
    """open(path, "w") and path.open("w")"""
    name = getattr(call.func, "attr", None) or getattr(call.func, "id", None)
    first = 1 if isinstance(call.func, ast.Name) else 0
    modes = [*call.args[first:2], *(k.value for k in call.keywords if k.arg == "mode")]
    given = [m.value for m in modes if isinstance(m, ast.Constant) and isinstance(m.value, str)]
    return name == "open" and any(set(m) <= set("wabxt") and set(m) & set("wax") for m in given)
