"""Functions and modules of the user's own: their source text, and whatever they lead to."""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
from collections.abc import Callable, Collection, Iterable
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import Any

from fedvalue.store.identity._modules import find, is_library, library_name, name_in_library
from fedvalue.store.identity._references import (
    Chain,
    Import,
    Reference,
    chains_of,
    code_of,
    imports_of,
    outside_of,
    unseeded_of,
)
from fedvalue.store.identity._source import definition, parse, text_of
from fedvalue.store.identity._state import changes_of
from fedvalue.store.identity._surroundings import Mentions
from fedvalue.store.identity._words import (
    OUTSIDE_MODULES,
    brings_in,
    drawn_from,
    is_file_read,
    reads_clock,
    seeded_by,
)

__all__ = ["CodeReader"]

# Names that say where code is, not what it does.
_PLACES = frozenset(
    ["__builtins__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__"]
)
_UNDEFINED = object()


class CodeReader:
    """Takes functions and modules apart. `look` looks into the values that they refer to."""

    def __init__(self, look: Callable[[Any, str], str]) -> None:
        self.look = look
        self.doubts: dict[str, None] = {}  # what could not be followed
        self.reads: dict[str, bool] = {}  # what code brings in from outside, and whether that is a file
        self.mentions = Mentions()
        self._draws: dict[str, str] = {}  # random numbers that code draws, and from which library's generator
        self._seeded: set[str] = set()  # libraries whose generator the code seeds
        self._modules: set[str] = set()

    def doubt(self, what: str) -> None:
        self.doubts[what] = None

    def held(self, full: str, where: str) -> None:
        """A function of a library that something holds, by its full name: `def utility(cs, reader=open)`."""
        if brings_in(full):
            self._say_read(where, full)
        self._say_clock(full, where)

    def draws(self, seeded: Collection[str]) -> list[str]:
        """Random numbers that depend on what was drawn before: neither the code nor its caller seeds the generator."""
        return [text for text, library in self._draws.items() if library not in {*self._seeded, *seeded}]

    def function(self, function: FunctionType, where: str) -> Iterable[str]:
        names, code = function.__globals__, function.__code__
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        given = _defaults(function)
        if is_library(names.get("__name__")):  # what a library's wrapper wraps may be the user's own
            inner = {name: _content(cell) for name, cell in sorted(cells.items())}
            if code.co_qualname == "singledispatch.<locals>.wrapper":  # its closure has a cache besides
                inner = {"registry": dict(function.registry)}  # type: ignore[attr-defined]
            held = (self.look(value, name) for name, value in (*given.items(), *inner.items()))
            return "library", str(names["__name__"]), code.co_qualname, *held
        node = definition(code, names)
        if node is None:
            self._say_no_source(function)
            return "no source", function.__qualname__, code.co_code.hex()
        facts = code_of(node, code.co_freevars)
        self.mentions.read(facts.text)
        parts = ["function", facts.text]
        for name, value in given.items():
            parts += self._unless_changed(name, value, facts.arguments.get(name, []), function)
        for name in sorted(cells):
            parts += self._name(name, _content(cells[name]), facts.closure.get(name, []), function)
        for name in sorted(facts.globals):
            if name in names or not _is_of_python(name):
                value = names.get(name, getattr(builtins, name, _UNDEFINED))
                parts += self._name(name, value, facts.globals[name], function)
        package = names.get("__package__") or ""
        who = _called(function)
        own = self._imports(facts.imports, package, parts, who)
        for outside in facts.outside:
            root = _content(cells[outside.root]) if outside.root in cells else names.get(outside.root)
            if outside.root not in own and not _is_own(root, outside):
                self._say_read(who, str(outside))
        self._in_libraries(facts.imports, facts.chains, facts.unseeded, who)
        settings = {name: value for name, value in vars(function).items() if not name.startswith("__")}
        changed = any(use.changed_by for use in facts.globals.get(function.__name__, []))
        return [*parts, self.look(settings, function.__name__)] if settings and not changed else parts

    def builtin(self, function: BuiltinFunctionType, where: str) -> Iterable[str]:
        owner = function.__self__
        if owner is None or isinstance(owner, ModuleType):
            self.doubt(f"{where}, which is compiled and has no source text")
            return "compiled", function.__name__
        return "method", function.__name__, self.look(owner, where)

    def module(self, module: ModuleType, where: str) -> Iterable[str]:
        """A module that is used as a whole: all that it holds."""
        if is_library(module.__name__):
            return "module", module.__name__
        held = {
            n: v for n, v in sorted(vars(module).items()) if not (n.startswith("__") and n.endswith("__"))
        }
        return "module", *(part for n, v in held.items() for part in (n, self.look(v, f"{where}.{n}")))

    def _name(self, name: str, value: Any, uses: list[Reference], function: FunctionType) -> Iterable[str]:
        """A name from outside a function: its value, or what the function reaches through it."""
        if name in _PLACES:
            return ()
        if value is _UNDEFINED:
            self._say_undefined(name, function)
            return ()
        if isinstance(value, ModuleType) and not is_library(value.__name__):
            return self._through_module(name, value, uses, function)
        if isinstance(value, ModuleType):
            library: str | None = value.__name__
            if value.__name__.split(".")[0] in OUTSIDE_MODULES:
                self._say_read(_called(function), value.__name__)
            for use in uses:
                self._use(
                    ".".join((value.__name__, *use.path)), ".".join((name, *use.path)), _called(function)
                )
        else:
            library = "sys.modules" if value is sys.modules else None
            library = library or (library_name(value) if callable(value) else None)
            library = library or name_in_library(name, value)
            if library is not None:
                self._use(library, library, _called(function))
                for use in uses:
                    self._say_clock(".".join((library, *use.path)), _called(function))
        if library is not None:
            own = self._put_into_library(name, value, uses) if isinstance(value, ModuleType) else ()
            return "name", name, "library", library, *own
        return self._unless_changed(name, value, uses, function)

    def _put_into_library(self, name: str, module: ModuleType, uses: list[Reference]) -> Iterable[str]:
        """Code of the user's own that takes the place of something in a library: `math.sqrt = mine`."""
        reached = {dotted: value for value, dotted, _ in (_reach(module, name, use.path) for use in uses)}
        for dotted, value in sorted(reached.items()):
            if isinstance(value, (FunctionType, type)) and not is_library(value.__module__):
                yield from (dotted, self.look(value, dotted))

    def _through_module(
        self, name: str, module: ModuleType, uses: list[Reference], function: FunctionType
    ) -> Iterable[str]:
        """`module.function` refers to that function, not to all of the module."""
        values: dict[str, Any] = {}
        reached: dict[str, list[Reference]] = {}
        for use in uses:
            value, dotted, rest = _reach(module, name, use.path)
            if isinstance(value, ModuleType) and rest:
                self._say_undefined(f"{dotted}.{rest[0]}", function)
                continue
            values[dotted] = value
            reached.setdefault(dotted, []).append(use._replace(path=rest))
        parts = ["name", name, "module"]
        for dotted in sorted(reached):
            parts += self._unless_changed(dotted, values[dotted], reached[dotted], function)
        return parts

    def _unless_changed(
        self, name: str, value: Any, uses: list[Reference], function: FunctionType
    ) -> Iterable[str]:
        changes = {u.changed_by for u in uses if u.changed_by and not _only_called(value, u)}
        if not changes:
            return "name", name, self.look(value, name)
        if any(use.read for use in uses):  # otherwise it is a log, and nothing depends on it
            by = sorted("assignment" if change == "=" else f"{change}()" for change in changes)
            self.doubt(f"{name}, which {_called(function)} changes ({', '.join(by)})")
        return ()

    def _say_undefined(self, name: str, function: FunctionType) -> None:
        self.doubt(f"{name}, which is not defined yet though {_called(function)} uses it")

    def _say_no_source(self, function: FunctionType) -> None:
        edited = linecache.getlines(function.__code__.co_filename, function.__globals__)
        reason = "file was edited after its import" if edited else "source text cannot be found"
        self.doubt(f"{_called(function)}, whose {reason}")

    def _say_read(self, who: str, what: str) -> None:
        self.reads[f"what {who} reads from outside ({what})"] = is_file_read(what)

    def _say_clock(self, full: str, who: str) -> None:
        if reads_clock(full):
            self.doubt(f"the date or time at which {who} is called ({full})")

    def _use(self, full: str, shown: str, who: str) -> None:
        """Something of a library, by its full name: notes whether it reads, tells the time, draws or seeds."""
        if brings_in(full):
            self.reads[f"what {who} reads from outside ({shown})"] = is_file_read(full)
        self._say_clock(full, who)
        library = drawn_from(full)
        if library is not None:
            self._draws[f"random numbers that {who} draws without a seed ({shown})"] = library
        self._seeded.update(seeded_by(full))

    def _in_libraries(
        self, imports: Iterable[Import], chains: Iterable[Chain], unseeded: Iterable[str], who: str
    ) -> None:
        """What code does with libraries that it imports itself."""
        bound = {
            name: item.module if not item.names else f"{item.module}.{item.names[i]}"
            for item in imports
            if not item.level and is_library(item.module)
            for i, name in enumerate(item.bound)
        }
        for chain in chains:
            if chain.root in bound:
                # `import a.b` binds a, `import a.b as c` binds a.b
                full = bound[chain.root]
                full = chain.root if full.startswith(f"{chain.root}.") else full
                self._use(".".join((full, *chain.path)), str(chain), who)
        for what in unseeded:
            self._draws[f"random numbers that {who} draws without a seed ({what}())"] = "no library"

    def _imports(self, imports: Iterable[Import], package: str, parts: list[str], who: str) -> set[str]:
        """Follows imports into the user's own modules. Returns the names that these are bound to."""
        own: set[str] = set()
        for item in imports:
            module = _absolute(item, package)
            if is_library(module):
                for name in (f"{module}.{name}" for name in item.names or ("",)):
                    if brings_in(name):
                        self._say_read(who, name.rstrip("."))
                continue
            own |= set(item.bound)
            pieces = module.split(".")
            above = [".".join(pieces[:end]) for end in range(1, len(pieces) + 1)]
            for name in (*above, *(f"{module}.{name}" for name in item.names)):
                parts += ["import", name, self._text_of_module(name)]
        return own

    def _text_of_module(self, name: str) -> str:
        """All that a module of the user's own says, and the modules that it imports; empty where there is none.

        Nothing is imported for this: a module counts the same before and after its import.
        """
        spec = getattr(sys.modules.get(name), "__spec__", None) or find(name)
        file = getattr(sys.modules.get(name), "__file__", None) or (spec and spec.origin)
        if not file or name in self._modules:
            return ""
        self._modules.add(name)
        linecache.checkcache(file)
        tree = parse("".join(linecache.getlines(file)))
        if tree is None or not file.endswith(".py"):
            self.doubt(f"the module {name}, which has no source text")
            return ""
        if name in sys.modules:
            self._compare(sys.modules[name], tree)
        package = name if file.endswith("__init__.py") else name.rpartition(".")[0]
        parts = [text_of(tree)]
        self.mentions.read(parts[0])
        imports, who = list(imports_of(tree)), f"the module {name}"
        own = self._imports(imports, package, parts, who)
        for outside in outside_of(tree):
            if outside.root not in own:
                self._say_read(who, str(outside))
        self._in_libraries(imports, chains_of(tree), unseeded_of(tree), who)
        return "\n".join(parts)

    def _compare(self, module: ModuleType, tree: ast.Module) -> None:
        """Doubts what is in memory of a module and not as its text says."""
        for value in vars(module).values():
            own = isinstance(value, FunctionType) and value.__module__ == module.__name__
            if own and definition(value.__code__, value.__globals__) is None:
                self._say_no_source(value)
        for what in changes_of(module, tree):
            self.doubt(what)


def _is_of_python(name: str) -> bool:
    """Whether a name that no module defines is Python's own, not one that the user put among the builtins."""
    value = getattr(builtins, name, _UNDEFINED)
    if value is Ellipsis or value is NotImplemented or name in _PLACES:
        return True
    return callable(value) and is_library(getattr(value, "__module__", None) or type(value).__module__)


def _called(function: FunctionType) -> str:
    return "the lambda" if function.__name__ == "<lambda>" else function.__name__


def _defaults(function: FunctionType) -> dict[str, Any]:
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return dict(zip(names, values, strict=True)) | (function.__kwdefaults__ or {})


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _UNDEFINED


def _only_called(value: Any, use: Reference) -> bool:
    """np.add(a, b) and Model.fit(model) change neither the module nor the class."""
    return use.changed_by != "=" and not use.path and isinstance(value, (ModuleType, type, FunctionType))


def _reach(value: Any, dotted: str, path: tuple[str, ...]) -> tuple[Any, str, tuple[str, ...]]:
    """What attributes lead to as long as they go through modules, its name, and the rest of the path."""
    while path and isinstance(value, ModuleType) and hasattr(value, path[0]):
        value, dotted, path = getattr(value, path[0]), f"{dotted}.{path[0]}", path[1:]
    return value, dotted, path


def _is_own(root: Any, outside: Chain) -> bool:
    """Whether what looks like reading is a function of the user's own, which is looked into anyway."""
    value, _, rest = _reach(root, outside.root, outside.path)
    for part in rest:
        value = getattr(value, part, None)
    value = getattr(value, "__func__", value)
    return isinstance(value, (FunctionType, type)) and library_name(value) is None


def _absolute(item: Import, package: str) -> str:
    if not item.level:
        return item.module
    pieces = package.split(".")
    return ".".join([*pieces[: len(pieces) - item.level + 1], *([item.module] if item.module else [])])
