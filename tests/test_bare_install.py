"""The wheel beside its own dependencies and nothing else: what works, and what says how to get the rest.

The environment is a fresh one in which only the required packages are to be seen, by links into the one that runs the
tests: nothing is downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from fedvalue._extras import EXTRAS

ROOT = Path(__file__).parents[1]
CORE = {"numpy", "scipy", "typer", "rich", "jinja2"}
# Only what is installed counts, not what the environment of the tests adds.
PLAIN = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "COV", "PYTEST"))}

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Bare:
    """An environment with fedvalue and what it requires, and a folder to work in."""

    python: Path
    folder: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.python), *command], cwd=self.folder, env=PLAIN, capture_output=True, text=True
        )

    def script(self, code: str) -> str:
        done = self.run("-W", "error", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(self, *args: str) -> str:
        done = subprocess.run(
            [str(self.python.parent / "fedvalue"), *args],
            cwd=self.folder,
            env=PLAIN,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    home = tmp_path_factory.mktemp("bare")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(home), str(ROOT)]
    subprocess.run([*pip, *build], check=True, env=PLAIN)
    (wheel,) = home.glob("*.whl")
    venv.create(home / "env", symlinks=True)
    python = home / "env" / "bin" / "python"
    install = ["--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*pip, *install], check=True, env=PLAIN)
    (site,) = (home / "env" / "lib").glob("*/site-packages")
    for package in required(distribution_in(site)):
        expose(distribution(package), site)
    (home / "work").mkdir()
    return Bare(python, home / "work")


def distribution_in(site: Path) -> Distribution:
    (found,) = Distribution.discover(name="fedvalue", path=[str(site)])
    return found


def required(of: Distribution) -> set[str]:
    """What a package requires without extras, and what that requires in turn."""
    names: set[str] = set()
    waiting = [of]
    while waiting:
        for text in waiting.pop().requires or ():
            requirement = Requirement(text)
            wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if wanted and requirement.name not in names:
                names.add(requirement.name)
                waiting.append(distribution(requirement.name))
    return names


def expose(package: Distribution, site: Path) -> None:
    """Links to the folders and files of a package."""
    tops = {Path(file).parts[0] for file in package.files or ()} - {"..", "__pycache__"}
    for top in tops:
        (site / top).symlink_to(Path(str(package.locate_file(top))))


def test_the_core_is_five_packages(bare: Bare) -> None:
    (site,) = (bare.python.parents[1] / "lib").glob("*/site-packages")
    names = {
        Requirement(text).name for text in distribution_in(site).requires or () if "extra ==" not in text
    }
    assert names == CORE
    heavy = ["matplotlib", "threadpoolctl", *EXTRAS]
    code = f"from importlib.util import find_spec; print(*[n for n in {heavy} if find_spec(n)])"
    assert bare.script(code).split() == []


def test_a_function_is_valued_and_its_trainings_are_kept(bare: Bare) -> None:
    code = """
import fedvalue as fv

asked = []
def utility(coalition):
    asked.append(coalition)
    return 1 - 0.5 ** sum(i + 1 for i in coalition)

game = fv.FunctionGame(6, utility, batch=False, key="curve")
values = fv.value(game, "surrogate", budget=20, store="function.db")
again = fv.value(game, "surrogate", budget=20, store="function.db")
print(len(asked), values.evaluations, values.mean.tolist() == again.mean.tolist(), values.stderr is not None)
print(len(fv.payout(values, 100).lines), bool(fv.audit(values, store="function.db").to_dict()))
"""
    assert bare.script(code).split() == ["20", "20", "True", "True", "6", "True"]


def test_a_function_in_worker_processes(bare: Bare) -> None:
    code = """
import os
import numpy as np
import fedvalue as fv

def utility(coalition):
    square = np.ones((50, 50)) * (len(coalition) + 1)
    return float(np.linalg.eigvalsh(square).max()) + float(os.environ["OMP_NUM_THREADS"])

game = fv.FunctionGame(3, utility, batch=False, jobs=2, timeout=60)
print(np.allclose(fv.value(game, "exact").mean, 50))
"""
    assert bare.script(code).split() == ["True"]


def test_a_learner_of_ones_own_needs_no_torch(bare: Bare) -> None:
    code = """
import numpy as np
import fedvalue as fv

class Mean:
    averages = False
    def identity(self):
        return {"model": "mean"}
    def session(self, scenario, training, device, memory):
        return Session(scenario, device)

class Session:
    rows = 64
    def __init__(self, scenario, device):
        self.scenario, self.device = scenario, device
    def initial(self):
        return np.zeros(1)
    def take(self, stack, rows):
        return stack[list(rows)]
    def local(self, stack, owners, t):
        return np.array([self.scenario.clients[i].y.mean() for i in owners])
    def average(self, stack, groups, weights):
        return np.bincount(groups, np.asarray(weights) * stack)
    def evaluate(self, stack):
        return [{"mse": float(np.mean((self.scenario.test.y - m) ** 2)), "mae": 0.0, "r2": 0.0} for m in stack]

game = fv.FederatedGame(fv.load_scenario("synthetic", clients=4, samples=20), Mean(), metric="mse")
values = fv.value(game, "exact", noise=False)
print(values.evaluations, np.isfinite(values.mean).all())
"""
    assert bare.script(code).split() == ["16", "True"]


def test_commands_on_a_table(bare: Bare) -> None:
    bare.script("import numpy as np; np.save('game.npy', np.sqrt([i.bit_count() for i in range(64)]))")
    shown = bare.command("value", "--table", "game.npy", "--method", "surrogate", "--budget", "20",
                         "--store", "table.db", "--json", "values.json")  # fmt: skip
    assert "client-5" in shown
    assert "surrogate" in bare.command("compare", "--table", "game.npy", "--budget", "20")
    assert "surrogate" in bare.command("methods")
    assert "surrogate" in bare.command("plan", "--clients", "10", "--budget", "40")
    assert "table-" in bare.command("store", "ls", "table.db")
    assert "20" in bare.command("store", "verify", "table.db")
    assert "total" in bare.command("payout", "values.json", "--pot", "1000")
    assert "synthetic" in bare.command("data", "ls")
    assert bare.command("audit", "values.json", "--store", "table.db")
    bare.command("report", "values.json", "--store", "table.db", "--out", "report.html")
    assert "<html" in (bare.folder / "report.html").read_text(encoding="utf-8")


TORCH = "pip install 'fedvalue[torch]'"
SYNTHETIC = "fv.load_scenario('synthetic', clients=3, samples=20)"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("fv.load_scenario('digits')", TORCH),
        ("fv.run('synthetic', clients=3, samples=20)", TORCH),
        (f"fv.FederatedGame({SYNTHETIC}, 'least-squares')", TORCH),
        (f"fv.FederatedGame({SYNTHETIC})", TORCH),
        (f"fv.FederatedGame({SYNTHETIC}, lambda: None)", TORCH),
        (f"fv.FederatedGame({SYNTHETIC}, 'xgboost')", "pip install 'fedvalue[xgboost]'"),
        ("__import__('fedvalue.trainers').trainers.make_trainer('ray')", "pip install 'fedvalue[ray]'"),
        ("__import__('fedvalue.trainers').trainers.make_trainer('flower')", "pip install 'fedvalue[flower]'"),
        ("__import__('fedvalue.flower').flower.server_app", "pip install 'fedvalue[flower]'"),
        ("fv.value([0.0, 1.0]).to_frame()", "pip install 'fedvalue[pandas]'"),
        (
            "__import__('fedvalue.adapters.shapiq').adapters.shapiq.to_shapiq([0.0, 1.0])",
            "pip install 'fedvalue[shapiq]'",
        ),
        (
            "__import__('fedvalue.adapters.tracking').adapters.tracking.MLflow()",
            "pip install 'fedvalue[mlflow]'",
        ),
    ],
)
def test_what_is_missing_in_python(bare: Bare, code: str, says: str) -> None:
    shown = bare.script(
        f"import fedvalue as fv\ntry:\n    {code}\nexcept fv.MissingExtraError as error:\n    print(error)"
    )
    assert shown.strip().endswith(f"which is not installed: {says}")
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run"], TORCH),
        (["run", "--scenario", "synthetic"], TORCH),
        (["run", "--backend", "ray"], "pip install 'fedvalue["),
        (["run", "--scenario", "synthetic", "--model", "xgboost"], "pip install 'fedvalue[xgboost]'"),
        (["flower", "demo"], "pip install 'fedvalue[flower]'"),
        (["flower", "deploy", "x", "--host", "a", "--clients", "b"], "pip install 'fedvalue[flower]'"),
        (["data", "show", "digits"], TORCH),
        (["data", "fetch", "mnist"], TORCH),
    ],
)
def test_what_is_missing_on_the_command_line(bare: Bare, args: list[str], says: str) -> None:
    done = bare.run("-m", "fedvalue.cli", *args)
    assert done.returncode == 1
    *before, sentence = done.stderr.splitlines()
    assert sentence.startswith("Error: ")
    assert says in sentence
    assert before in ([], ["Fetching mnist from OpenML …"])


USER_SCRIPT = '''
"""What a person might write who has types checked."""

from collections.abc import Sequence

import numpy as np

import fedvalue as fv


def utility(coalitions: Sequence[tuple[int, ...]]) -> list[float]:
    return [float(len(coalition)) for coalition in coalitions]


def halves(n: int, budget: int, rng: np.random.Generator, *, sign: float = 1.0) -> fv.Plan:
    """An estimator of one's own: everyone alone, and what is left is shared."""
    utilities = yield [0, *(1 << i for i in range(n)), (1 << n) - 1]
    alone = utilities[1:-1] - utilities[0]
    rest = utilities[-1] - utilities[0] - alone.sum()
    return fv.Estimate(sign * (alone + rest / n))


game = fv.FunctionGame(3, utility, names=["a", "b", "c"], key="sizes")
own: fv.Values = fv.value(game, halves, budget=5, sign=1.0)
values: fv.Values = fv.value(game, "surrogate", budget=6, store="typed.db")
mean: list[float] = values.mean.tolist()
names: tuple[str, ...] = values.names
spread: np.float64 | None = None if values.stderr is None else values.stderr.max()
methods: dict[str, fv.Values] = fv.compare(game, methods=["exact", "equal"])
error: float = fv.scoring.relative_l2(methods["equal"], methods["exact"])
paid: fv.Payout = fv.payout(values, 100)
audit: fv.Audit = fv.audit(values, store="typed.db")
fv.report(values, "typed.html", store="typed.db")
try:
    fv.value(game, "none")
except fv.MethodError as refused:
    print(str(refused), mean, names, spread, error, paid.pot, own.mean, audit)
'''


def test_types_of_the_installed_package_reach_its_users(bare: Bare) -> None:
    (bare.folder / "typed.py").write_text(USER_SCRIPT, encoding="utf-8")
    bare.script(USER_SCRIPT)
    strict = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--python-executable",
        str(bare.python),
    ]
    checked = subprocess.run(
        [*strict, "typed.py"], cwd=bare.folder, env=PLAIN, capture_output=True, text=True
    )
    assert checked.stdout.startswith("Success"), checked.stdout + checked.stderr
    wrong = "import fedvalue as fv\nfv.value([0.0, 1.0], budget='many')\n"
    (bare.folder / "wrong.py").write_text(wrong, encoding="utf-8")
    refused = subprocess.run(
        [*strict, "wrong.py"], cwd=bare.folder, env=PLAIN, capture_output=True, text=True
    )
    assert 'incompatible type "str"' in refused.stdout
