"""The shape of the house: what may import what, and that nothing stands in it unregistered."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
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


def imported_by(path: Path, for_types: bool = True) -> set[str]:
    """Modules of fedvalue that a file imports, also inside functions; for type checkers only if wanted."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
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
IMPORTS = {name: imported_by(path) for name, path in MODULES.items()}
CORE = [name for name in MODULES if not name.startswith("fedvalue.cli")]
ESTIMATOR_FILES = [name for name in MODULES if name.startswith("fedvalue.estimators.")]
# What an estimator may know besides the files of its own folder.
FOR_ESTIMATORS = {
    "fedvalue.coalitions",
    "fedvalue.values",
    "fedvalue.estimators._plan",
    "fedvalue.errors",
    "fedvalue._checks",
}
# One direction, no way back: a file or folder may import what stands in its own line or above.
FLOW = [
    "_version errors per_row outcome _text _files _checks _extras _imports coalitions",
    "yardsticks",
    "values scoring",
    "store",
    "scenarios payout",
    "training",
    "learners",
    "trainers",
    "games",
    "estimators",
    "audit",
    "report",
    "run",
    "advice",
    "fedvalue",
    "testing",
    "flower adapters",
    "cli",
]
PLACE = {room: level for level, rooms in enumerate(FLOW) for room in rooms.split()}


def room(name: str) -> str:
    """The file or folder directly under the package that a module belongs to."""
    return name.split(".")[1] if "." in name else name


class TestImports:
    @pytest.mark.parametrize("name", MODULES)
    def test_imports_run_with_the_flow(self, name: str) -> None:
        assert room(name) in PLACE, f"say in FLOW where {room(name)} stands"
        assert {other for other in IMPORTS[name] if PLACE[room(other)] > PLACE[room(name)]} == set()

    @pytest.mark.parametrize("name", ESTIMATOR_FILES)
    def test_estimators_know_only_coalitions_values_and_each_other(self, name: str) -> None:
        assert IMPORTS[name] <= FOR_ESTIMATORS | set(ESTIMATOR_FILES)

    def test_no_two_modules_import_each_other(self) -> None:
        above = {name: imported_by(path, for_types=False) for name, path in MODULES.items()}
        for _ in range(len(above)):
            above = {
                name: seen.union(*(above[m] for m in seen if m in above)) for name, seen in above.items()
            }
        assert [name for name, seen in above.items() if name in seen] == []

    @pytest.mark.parametrize("name", CORE)
    def test_nothing_imports_the_command_line(self, name: str) -> None:
        assert not any(other.startswith("fedvalue.cli") for other in IMPORTS[name])

    def test_only_runs_know_both_estimators_and_games(self) -> None:
        known: dict[str, set[str]] = {}
        for name in CORE:
            known.setdefault(room(name), set()).update(map(room, IMPORTS[name]))
        both = {of for of, rooms in known.items() if {"estimators", "games"} <= rooms}
        assert both == {"run", "fedvalue", "testing"}

    @pytest.mark.parametrize("name", [name for name in MODULES if room(name) != "testing"])
    def test_nothing_but_tests_uses_the_suites(self, name: str) -> None:
        assert "testing" not in map(room, IMPORTS[name])

    @pytest.mark.parametrize("name", MODULES)
    def test_what_is_private_to_a_room_stays_there(self, name: str) -> None:
        def home(module: str) -> str:
            return module[: module.index("._")] if "._" in module else module

        private = {other for other in IMPORTS[name] if other.count(".") > 1 and "._" in other}
        assert {other for other in private if not name.startswith(home(other))} == set()

    def test_importing_fedvalue_stays_light(self) -> None:
        heavy = ["scipy.stats", "rich", "typer", "jinja2", "importlib.metadata", "matplotlib", *EXTRAS]
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
    @pytest.mark.parametrize(
        "name", [name for name in MODULES if not name.rsplit(".", 1)[-1].startswith("_")]
    )
    def test_all_names_exist(self, name: str) -> None:
        module = pytest.importorskip(name, exc_type=ModuleNotFoundError)
        assert module.__doc__
        assert len(set(module.__all__)) == len(module.__all__)
        assert [public for public in module.__all__ if not hasattr(module, public)] == []

    @pytest.mark.parametrize("name", [name for name in fedvalue.__all__ if name != "__version__"])
    def test_every_public_name_has_a_docstring(self, name: str) -> None:
        documented = getattr(fedvalue, name)
        assert name == "Plan" or inspect.getdoc(documented)  # an alias has no docstring of its own

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
