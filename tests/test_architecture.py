"""The shape of the house: what may import what, and that nothing stands in it unregistered."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import fedvalue
from fedvalue._extras import EXTRAS
from fedvalue.estimators import ESTIMATORS

PACKAGE = Path(fedvalue.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


_MAY_HOLD_IMPORTS = (ast.stmt, ast.excepthandler, ast.match_case)


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def syntax(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_by(path: Path, for_types: bool = True) -> set[str]:
    """Modules of fedvalue that a file imports, also inside functions; for type checkers only if wanted."""
    found: set[str] = set()
    waiting: list[ast.AST] = [syntax(path)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not for_types:
            waiting += node.orelse
            continue
        waiting += (child for child in ast.iter_child_nodes(node) if isinstance(child, _MAY_HOLD_IMPORTS))
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else str(node.module) for name in inner}
    return {name for name in found if name.split(".")[0] == "fedvalue"}


MODULES = {module_name(path): path for path in FILES}


@cache
def imports() -> dict[str, set[str]]:
    """Of every module. Every worker collects these tests, and one runs them."""
    return {name: imported_by(path) for name, path in MODULES.items()}


CORE = [name for name in MODULES if not name.startswith(("fedvalue.cli", "fedvalue.__main__"))]
ESTIMATOR_FILES = [name for name in MODULES if name.startswith("fedvalue.estimators.")]
# What an estimator may know besides the files of its own folder.
FOR_ESTIMATORS = {
    "fedvalue.by_size",
    "fedvalue.coalitions",
    "fedvalue.values",
    "fedvalue.weights",
    "fedvalue.estimators._plan",
    "fedvalue.errors",
    "fedvalue._checks",
}
# One direction, no way back: a file or folder may import what stands in its own line or above.
FLOW = [
    "_version errors per_row outcome _text _html _files _checks _extras _imports _interrupt coalitions",
    "yardsticks weights by_size",
    "indices",
    "precision values scoring",
    "store",
    "scenarios payout agreement replies",
    "training",
    "learners",
    "trainers",
    "games",
    "estimators",
    "audit",
    "what_if",
    "report",
    "run",
    "advice evidence watch",
    "periods",
    "fedvalue",
    "testing",
    "flower adapters",
    "cli __main__",
]
PLACE = {room: level for level, rooms in enumerate(FLOW) for room in rooms.split()}


def room(name: str) -> str:
    """The file or folder directly under the package that a module belongs to."""
    return name.split(".")[1] if "." in name else name


def offending(forbidden: Callable[[str, str], bool]) -> set[tuple[str, str]]:
    """Modules, and what they import though they must not."""
    return {(name, other) for name, known in imports().items() for other in known if forbidden(name, other)}


class TestImports:
    def test_every_room_has_its_place(self) -> None:
        assert {room(name) for name in MODULES} - PLACE.keys() == set()

    def test_imports_run_with_the_flow(self) -> None:
        assert offending(lambda name, other: PLACE[room(other)] > PLACE[room(name)]) == set()

    def test_estimators_know_only_coalitions_values_and_each_other(self) -> None:
        allowed = FOR_ESTIMATORS | set(ESTIMATOR_FILES)
        assert offending(lambda name, other: name in ESTIMATOR_FILES and other not in allowed) == set()

    def test_no_two_modules_import_each_other(self) -> None:
        order = TopologicalSorter({n: imported_by(path, for_types=False) for n, path in MODULES.items()})
        order.prepare()  # raises a CycleError that names them

    def test_nothing_imports_the_command_line(self) -> None:
        assert offending(lambda name, other: name in CORE and other.startswith("fedvalue.cli")) == set()

    def test_only_runs_know_both_estimators_and_games(self) -> None:
        known: dict[str, set[str]] = {}
        for name in CORE:
            known.setdefault(room(name), set()).update(map(room, imports()[name]))
        both = {of for of, rooms in known.items() if {"estimators", "games"} <= rooms}
        assert both == {"run", "fedvalue", "testing"}

    def test_nothing_but_tests_uses_the_suites(self) -> None:
        assert offending(lambda name, other: room(name) != "testing" and room(other) == "testing") == set()

    def test_what_is_private_to_a_room_stays_there(self) -> None:
        def trespasses(name: str, other: str) -> bool:
            private = other.count(".") > 1 and "._" in other
            return private and not name.startswith(other[: other.index("._")])

        assert offending(trespasses) == set()

    def test_importing_fedvalue_stays_light(self) -> None:
        heavy = [
            "numpy",
            "fedvalue.run",
            "scipy.stats",
            "rich",
            "typer",
            "jinja2",
            "importlib.metadata",
            "matplotlib",
            *EXTRAS,
        ]
        code = f"import sys, json, fedvalue; print(json.dumps([m for m in {heavy} if m in sys.modules]))"
        printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        assert json.loads(printed.stdout) == []

    def test_importing_fedvalue_leaves_randomness_alone(self) -> None:
        code = (
            "import random, numpy as np; a = random.getstate(), str(np.random.get_state());"
            "import fedvalue; print(a == (random.getstate(), str(np.random.get_state())))"
        )
        printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        assert printed.stdout.strip() == "True"


class TestRegistry:
    @pytest.mark.parametrize("name", [n for n in ESTIMATOR_FILES if not n.rsplit(".", 1)[1].startswith("_")])
    def test_every_estimator_file_contributes_a_method(self, name: str) -> None:
        assert any(method.function.__module__ == name for method in ESTIMATORS.values())

    @pytest.mark.parametrize("name", ESTIMATORS)
    def test_every_method_tells_what_a_user_must_know(self, name: str) -> None:
        method = ESTIMATORS[name]
        assert method.name == name == name.lower()
        assert method.guarantee in {"exact", "unbiased", "biased"}
        assert len(method.description) > 20
        assert "\n" not in method.description
        assert method.reference
        assert inspect.getdoc(method.function)
        assert [method.minimum(n, {}) <= 1 << n for n in range(1, 12)] == [True] * 11

    @pytest.mark.parametrize("name", [name for name, method in ESTIMATORS.items() if method.plan])
    def test_plans_take_clients_budget_randomness_and_then_only_named_options(self, name: str) -> None:
        parameters = list(inspect.signature(ESTIMATORS[name].plan).parameters.values())
        assert [p.name for p in parameters[:3]] == ["n", "budget", "rng"]
        assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in parameters[3:])


class TestPublicNames:
    @pytest.mark.parametrize("of", sorted({room(name) for name in MODULES}))
    def test_all_names_exist(self, of: str) -> None:
        for name in (n for n in MODULES if room(n) == of and not n.rsplit(".", 1)[-1].startswith("_")):
            module = pytest.importorskip(name, exc_type=ModuleNotFoundError)
            assert module.__doc__, name
            assert len(set(module.__all__)) == len(module.__all__), name
            assert [public for public in module.__all__ if not hasattr(module, public)] == [], name

    def test_a_name_is_found_where_type_checkers_look_for_it(self) -> None:
        tree = syntax(MODULES["fedvalue"])
        (block,) = [node for node in tree.body if isinstance(node, ast.If)]
        seen = {
            alias.name: node.module
            for node in block.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert seen == {**fedvalue._HOME_OF, "scoring": "fedvalue"}
        assert set(fedvalue.__all__) == {*seen, "__version__"}

    def test_a_room_does_not_take_the_place_of_the_function_of_its_name(self) -> None:
        code = "import fedvalue.audit, fedvalue.run as r, fedvalue as fv; print(callable(fv.audit), callable(fv.run), callable(r))"
        printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        assert printed.stdout.split() == ["True"] * 3

    def test_a_name_that_is_mistyped(self) -> None:
        with pytest.raises(AttributeError, match=r"fedvalue has no 'Scenari'. Did you mean 'Scenario'"):
            fedvalue.Scenari  # noqa: B018
        assert not hasattr(fedvalue, "__wrapped__")

    def test_every_public_name_has_a_docstring(self) -> None:
        aliases = {"__version__", "Plan"}  # which have none of their own
        documented = {name: inspect.getdoc(getattr(fedvalue, name)) for name in fedvalue.__all__}
        assert {name for name, text in documented.items() if not text} <= aliases

    def test_the_contract_of_the_first_release_is_kept(self) -> None:
        contract = {"TableGame", "FunctionGame", "value", "compare", "methods", "scoring", "Values"}
        assert contract <= set(fedvalue.__all__)
        assert {"relative_l2", "skill", "kendall", "spearman", "payout_error"} <= set(
            fedvalue.scoring.__all__
        )
        names = (
            "exact exact-cc exact-perm stratified-mc stratified-cc k-greedy ipss ipss-balanced permutation "
        )
        names += "tmc gtb cc cc-neyman cc-bernstein cc-paired loo equal"
        assert set(names.split()) <= set(ESTIMATORS)

    def test_every_error_is_in_one_tree_and_drawn(self) -> None:
        from fedvalue import errors

        for name in errors.__all__:
            kind = getattr(errors, name)
            assert issubclass(kind, errors.FedvalueError | errors.FedvalueWarning)
            assert issubclass(kind, Warning) or name in (errors.__doc__ or "")

    def test_every_folder_is_a_package(self) -> None:
        assert [path for path in {file.parent for file in FILES} if not (path / "__init__.py").exists()] == []
