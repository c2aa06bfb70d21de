"""Ways in which a user changes code or data between two runs with one store, and what must come of it.

Each pattern is a small project whose utilities really change when `old` becomes `new` in its files. The second run
must be another game, or be refused; the utilities of the first handed out as those of the second are stale. The
harmless changes are the opposite: nothing that is computed changes, and the store must know the game again.
"""

from __future__ import annotations

import decimal
import importlib
import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fedvalue as fv

__all__ = ["HARMLESS", "PATTERNS", "STALE", "Pattern", "game_of", "in_folder", "outcome_of", "values_of"]

STALE = "stale in silence"


@dataclass(frozen=True)
class Pattern:
    """Files by name; main.py has a function `utility` of a list of coalitions, or a function `game`."""

    name: str
    files: dict[str, str]
    old: str
    new: str

    @property
    def changed(self) -> dict[str, str]:
        return {file: text.replace(self.old, self.new) for file, text in self.files.items()}


@contextmanager
def in_folder(folder: Path, files: dict[str, str]) -> Iterator[None]:
    """The files in a folder, which is the current one and on the path; modules in it are forgotten afterwards."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before, modules, environment = Path.cwd(), set(sys.modules), dict(os.environ)
    own = {name.split("/")[0].removesuffix(".py") for name in files}
    for name in [name for name in sys.modules if name.split(".")[0] in own]:
        del sys.modules[name]
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        with _usual_settings():
            yield
    finally:
        sys.path.remove(str(folder))
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)
        for name in [n for n in set(sys.modules) - modules if n.split(".")[0] in own]:
            del sys.modules[name]


@contextmanager
def _usual_settings() -> Iterator[None]:
    """What projects set for the whole program is as it was afterwards."""
    import builtins
    import statistics

    import mpmath
    import torch

    kind, mean = torch.get_default_dtype(), statistics.mean
    with decimal.localcontext(), np.errstate(), warnings.catch_warnings(), mpmath.workprec(53):
        try:
            yield
        finally:
            torch.set_default_dtype(kind)
            statistics.mean = mean
            vars(builtins).pop("SCALE", None)


def game_of() -> Any:
    """The game of the project in the current folder."""
    main = importlib.import_module("main")
    return main.game() if hasattr(main, "game") else fv.FunctionGame(3, main.utility)


def values_of(folder: Path, files: dict[str, str], store: Path | None) -> tuple[str, dict[str, float]]:
    """The id of the project's game and the values of its clients by name; errors are raised."""
    with in_folder(folder, files):
        values = fv.value(game_of(), "exact", store=store)
    return values.game_id, dict(zip(values.names, values.mean.round(9).tolist(), strict=True))


def outcome_of(pattern: Pattern, folder: Path) -> str:
    """What becomes of a change: 'other id', 'refused', or stale in silence; each run in a folder of its own."""
    _, truth_before = values_of(folder / "a", pattern.files, None)
    _, truth = values_of(folder / "b", pattern.changed, None)
    if list(truth_before.items()) == list(truth.items()):
        raise AssertionError(f"{pattern.name}: nothing changes")
    store = folder / "store.db"
    try:
        first, _ = values_of(folder / "c", pattern.files, store)
        second, found = values_of(folder / "d", pattern.changed, store)
    except fv.FedvalueError:
        return "refused"
    return "other id" if first != second and found == truth else STALE


def _main(*lines: str) -> dict[str, str]:
    return {"main.py": "\n".join(lines) + "\n"}


def _utility(says: str, *before: str) -> dict[str, str]:
    """A function of one line, with `c` for a coalition."""
    return _main(*before, "def utility(cs):", f"    return [{says} for c in cs]")


def _body(*lines: str, before: str = "") -> dict[str, str]:
    return _main(before, "def utility(cs):", *(f"    {line}" for line in lines))


def _game(*lines: str, before: str = "", key: str = "") -> dict[str, str]:
    """A project with a function `game`, whose lines end in the game."""
    return _main(
        "import numpy as np, fedvalue as fv", before, "def game():", *(f"    {line}" for line in lines)
    )


_ROWS = {"rows.txt": "2.0\n"}
_HELPERS = {"helpers.py": "SCALE = [2, 7]\ndef score(c): return len(c) * SCALE[0]\n"}
_DEEP = {
    "helpers.py": "from deeper import base\ndef score(c): return base(c) + 1\n",
    "deeper.py": "def base(c): return len(c) * 2\n",
}
_PACKAGE = {
    "pkg/__init__.py": "",
    "pkg/train.py": "from pkg.rates import RATE\ndef fit(c): return len(c) * RATE\n",
    "pkg/rates.py": "RATE = 2\n",
}
_FRAME = "import pandas as pd\nT = pd.DataFrame({'a': [1, 2], 'b': [3, 5]}, index=['x', 'y'])"
_TORCH = textwrap.dedent("""
    import numpy as np, fedvalue as fv, torch, random
    from torch import nn
    X = np.arange(24, dtype='f4').reshape(12, 2) % 5
    Y = (X[:, 0] > 2).astype('i8')
    def scenario():
        rows = [fv.Dataset(X[i::3], Y[i::3]) for i in range(3)]
        return fv.Scenario('own', tuple(rows), ('a', 'b', 'c'), fv.Dataset(X, Y), 'classification', 2)
    def game(make):
        return fv.FederatedGame(scenario(), make, fv.Training(rounds=1, epochs=1, rate=0.5), metric='loss')
    """)


def _model(*lines: str, files: dict[str, str] | None = None) -> dict[str, str]:
    """A project with a model of its own: the lines define `make`."""
    source = "\n".join(
        (_TORCH.replace("def game(make)", "def of(make)"), *lines, "def game(): return of(make)\n")
    )
    return {"main.py": source, **(files or {})}


_NET = (
    "WIDE = 4",
    "class Net(nn.Module):",
    "    act = nn.ReLU",
    "    def __init__(self):",
    "        super().__init__()",
    "        self.inner = nn.Linear(2, WIDE)",
    "        self.outer = nn.Linear(WIDE, 2)",
    "    def forward(self, x): return self.outer(type(self).act()(self.inner(x)))",
    "def make(): return Net()",
)

_CODE = [
    Pattern("a constant", _utility("len(c) * 2.0"), "2.0", "2.5"),
    Pattern("a default argument", _main("def utility(cs, k=2): return [len(c) * k for c in cs]"), "k=2", "k=3"),
    Pattern("a helper", _utility("score(c)", "def score(c): return len(c) * 2"), "* 2", "* 3"),
    Pattern("a helper's import", _utility("helpers.score(c)", "import helpers") | _DEEP, "* 2", "* 3"),
    Pattern("a function from a module", _utility("score(c)", "from helpers import score") | _HELPERS, "[2,", "[3,"),
    Pattern("a module of a package", _utility("pkg.train.fit(c)", "import pkg.train") | _PACKAGE, "RATE = 2", "RATE = 3"),
    Pattern(
        "a package without __init__",
        _utility("ns.part.fit(c)", "import ns.part") | {"ns/part.py": "def fit(c): return len(c) * 2\n"},
        "* 2",
        "* 3",
    ),
    Pattern("an import inside", _body("import helpers", "return [helpers.score(c) for c in cs]") | _HELPERS, "[2,", "[3,"),
    Pattern("an import inside, deeper", _body("from helpers import score", "return [score(c) for c in cs]") | _DEEP, "* 2", "* 3"),
    Pattern(
        "state of a module that is imported inside",
        _body("import helpers", "return [helpers.score(c) for c in cs]", before="import helpers as h\nh.SCALE[0] = 4") | _HELPERS,
        "SCALE[0] = 4",
        "SCALE[0] = 5",
    ),
    Pattern(
        "computed state of a module that is imported inside",
        _body("import helpers", "return [helpers.score(c) for c in cs]", before="import helpers as h\nh.SCALE[0] = 4")
        | {"helpers.py": "SCALE = list(range(2, 4))\ndef score(c): return len(c) * SCALE[0]\n"},
        "SCALE[0] = 4",
        "SCALE[0] = 5",
    ),
    Pattern("import_module", _body("import importlib", "return [importlib.import_module('helpers').score(c) for c in cs]") | _HELPERS, "[2,", "[3,"),
    Pattern("__import__", _utility("__import__('helpers').score(c)") | _HELPERS, "[2,", "[3,"),
    Pattern("exec", _main("names = {}", "exec('def utility(cs): return [len(c) * 2.0 for c in cs]', names)", "utility = names['utility']"), "2.0", "3.0"),
    Pattern("a decorator's argument", _main("def times(k):", "    return lambda f: lambda cs: [k * v for v in f(cs)]", "@times(2)", "def utility(cs): return [len(c) for c in cs]"), "times(2)", "times(3)"),
    Pattern("a partial", _main("import functools", "def scaled(k, cs): return [len(c) * k for c in cs]", "utility = functools.partial(scaled, 2)"), "scaled, 2", "scaled, 3"),
    Pattern("a method's class", _utility("Model().fit(c)", "class Model:", "    def fit(self, c): return len(c) * 2"), "* 2", "* 3"),
    Pattern("a class attribute that is a class", _utility("Model.kind.k * len(c)", "class A: k = 2", "class B: k = 3", "class Model: kind = A"), "kind = A", "kind = B"),
    Pattern("an object's attribute", _utility("M.k * len(c)", "class Model:", "    def __init__(self, k): self.k = k", "M = Model(2)"), "Model(2)", "Model(3)"),
    Pattern("a base class", _utility("Model.k * len(c)", "class Base: k = 2", "class Model(Base): pass"), "k = 2", "k = 3"),
    Pattern("which function of a library", _utility("f(len(c))", "from math import sin as f"), "sin as", "cos as"),
]  # fmt: skip

_DATA = [
    Pattern(
        "the order of clients in a dict",
        _game("return fv.FunctionGame(3, accuracy, names=list(R), batch=False)",
              before="R = {'A': 900, 'B': 700, 'E': 0}\ndef accuracy(c): return sum(list(R.values())[i] for i in c) ** 0.5"),
        "{'A': 900, 'B': 700, 'E': 0}",
        "{'E': 0, 'B': 700, 'A': 900}",
    ),
    Pattern("a global number", _utility("len(c) * S", "S = 2"), "S = 2", "S = 3"),
    Pattern("a list", _utility("sum(L[i] for i in c)", "L = [1, 2, 3]"), "[1, 2, 3]", "[3, 2, 1]"),
    Pattern("list or tuple", _utility("len(c) * (1 + isinstance(L, list))", "L = [1, 2]"), "[1, 2]", "(1, 2)"),
    Pattern("a nested dict's order", _utility("len(c) * list(D['x'])[0]", "D = {'x': {1: 0, 2: 0}}"), "{1: 0, 2: 0}", "{2: 0, 1: 0}"),
    Pattern("an array", _utility("A[list(c)].sum()", "import numpy as np", "A = np.array([1.0, 2.0, 3.0])"), "3.0]", "4.0]"),
    Pattern("an array's type", _utility("len(c) * A.itemsize", "import numpy as np", "A = np.ones(3, 'f4')"), "'f4'", "'f8'"),
    Pattern("a mask", _utility("len(c) * float(A.sum())", "import numpy as np", "A = np.ma.array([1, 2], mask=[0, 1])"), "[0, 1]", "[1, 0]"),
    Pattern("a frame's columns", _utility("len(c) * int(T['a'].sum())", _FRAME), "'a': [1, 2], 'b'", "'b': [1, 2], 'a'"),
    Pattern("a frame's index", _utility("len(c) * int(T.loc['x'].sum())", _FRAME), "['x', 'y']", "['y', 'x']"),
    Pattern("a series' index", _utility("len(c) * int(S['x'])", "import pandas as pd", "S = pd.Series([1, 2], ['x', 'y'])"), "['x', 'y']", "['y', 'x']"),
    Pattern("a tensor", _utility("len(c) * float(T[0])", "import torch", "T = torch.tensor([1.0, 2.0])"), "[1.0,", "[1.5,"),
    Pattern("a closure", _main("def make(k):", "    def utility(cs): return [len(c) * k for c in cs]", "    return utility", "utility = make(2)"), "make(2)", "make(3)"),
    Pattern("update inside", _body("P.update(seed=2)", "return [len(c) * P['seed'] * P['k'] for c in cs]", before="P = {'k': 1}"), "'k': 1", "'k': 3"),
    Pattern("an entry set inside", _body("CFG['seed'] = 2", "return [len(c) * CFG['seed'] * CFG['k'] for c in cs]", before="CFG = {'k': 1}"), "'k': 1", "'k': 3"),
    Pattern("an element set inside", _body("W[0] = 5", "return [len(c) * sum(W) for c in cs]", before="W = [1, 2]"), "[1, 2]", "[1, 3]"),
    Pattern("a global that is counted up", _body("global K", "K = K + 0", "return [len(c) * K for c in cs]", before="K = 1"), "K = 1", "K = 2"),
    Pattern("an attribute that a method changes", _utility("M.f(c)", "class M_:", "    def __init__(self, k): self.k = k", "    def f(self, c):", "        self.k = self.k * 1", "        return self.k * len(c)", "M = M_(2)"), "M_(2)", "M_(3)"),
    Pattern("an array that is changed after the game was made",
            _game("g = fv.FunctionGame(3, utility)", "A[0] *= 1.0", "return g",
                  before="A = np.array([1.0, 2.0, 3.0])\ndef utility(cs): return [A[list(c)].sum() for c in cs]"),
            "*= 1.0", "*= 5.0"),
    Pattern("rows that are changed after the game was made",
            {"main.py": _TORCH.replace("def game(make)", "def of(make)") + "def game():\n    g = of('linear')\n    g.scenario.clients[0].x[:] *= 1.0\n    return g\n"},
            "*= 1.0", "*= 5.0"),
    Pattern("names in another order, with a key",
            _game("return fv.FunctionGame(3, utility, names=['a', 'b', 'c'], key='v1')",
                  before="def utility(cs): return [float(sum(2 ** i for i in c)) for c in cs]"),
            "['a', 'b', 'c']", "['c', 'b', 'a']"),
    Pattern("other clients, with a key",
            _game("return fv.FunctionGame(3, utility, names=['a', 'b', 'c'], key='v1')",
                  before="def utility(cs): return [float(sum(2 ** i for i in c)) for c in cs]"),
            "['a', 'b', 'c']", "['a', 'b', 'd']"),
]  # fmt: skip

# What a function reads: how, and what it takes to be there. The file's content changes, not the code.
_READERS: dict[str, tuple[str, str]] = {
    "open": ("open('rows.txt').read()", ""),
    "np.loadtxt": ("np.loadtxt('rows.txt')", "import numpy as np"),
    "np.genfromtxt": ("np.genfromtxt('rows.txt')", "import numpy as np"),
    "np.fromfile": ("np.fromfile('rows.txt', sep=' ')[0]", "import numpy as np"),
    "Path.read_text": ("Path('rows.txt').read_text()", "from pathlib import Path"),
    "a path of its own": ("FILE.read_text()", "from pathlib import Path\nFILE = Path('rows.txt')"),
    "json.load": ("json.load(open('rows.txt'))", "import json"),
    "pd.read_csv": ("pd.read_csv('rows.txt', header=None).iloc[0, 0]", "import pandas as pd"),
    "a name of its own": ("lt('rows.txt')", "from numpy import loadtxt as lt"),
    "Path.open": ("Path('rows.txt').open().readline()", "from pathlib import Path"),
    "os.stat": ("1 + os.stat('rows.txt').st_size", "import os"),
    "os.path.getsize": ("1 + path.getsize('rows.txt')", "from os import path"),
    "urllib": ("urlopen(Path('rows.txt').resolve().as_uri()).read()", "from urllib.request import urlopen\nfrom pathlib import Path"),
    "subprocess": ("subprocess.check_output(['cat', 'rows.txt'])", "import subprocess"),
    "eval of a file": ("eval(open('rows.txt').read())", ""),
}  # fmt: skip
_READS = [
    *(
        Pattern(
            f"a file by {how}",
            _utility(f"len(c) * float({code})", before) | _ROWS,
            "2.0",
            "3.00",
        )
        for how, (code, before) in _READERS.items()
    ),
    # The same readers by other names.
    Pattern("open by another name", _utility("len(c) * float(next(r('rows.txt')))", "r = open") | _ROWS, "2.0", "3.0"),
    Pattern("open by another name, inside", _body("r = open", "return [len(c) * float(next(r('rows.txt'))) for c in cs]") | _ROWS, "2.0", "3.0"),
    Pattern("open as a default argument", _main("def utility(cs, r=open): return [len(c) * float(next(r('rows.txt'))) for c in cs]") | _ROWS, "2.0", "3.0"),
    Pattern("open as an attribute", _utility("len(c) * float(next(R.r('rows.txt')))", "class R: r = open") | _ROWS, "2.0", "3.0"),
    Pattern("open in a dict", _utility("len(c) * float(next(R['r']('rows.txt')))", "R = {'r': open}") | _ROWS, "2.0", "3.0"),
    Pattern("open in a partial", _utility("len(c) * float(next(R()))", "import functools", "R = functools.partial(open, 'rows.txt')") | _ROWS, "2.0", "3.0"),
    Pattern("read_csv by another name", _utility("len(c) * float(rc('rows.txt', header=None).iloc[0, 0])", "from pandas import read_csv as rc") | _ROWS, "2.0", "3.0"),
    Pattern("read_csv by another name, inside", _body("from pandas import read_csv as rc", "return [len(c) * float(rc('rows.txt', header=None).iloc[0, 0]) for c in cs]") | _ROWS, "2.0", "3.0"),
    Pattern("loadtxt by another name, in a helper", _utility("helpers.score(c)", "import helpers") | {"helpers.py": "from numpy import loadtxt as rc\ndef score(c): return len(c) * float(rc('rows.txt'))\n"} | _ROWS, "2.0", "3.0"),
    Pattern("loadtxt by getattr", _utility("len(c) * float(getattr(np, 'loadtxt')('rows.txt'))", "import numpy as np") | _ROWS, "2.0", "3.0"),
    Pattern("a method by getattr", _utility("len(c) * float(getattr(Path('rows.txt'), 'read_text')())", "from pathlib import Path") | _ROWS, "2.0", "3.0"),
    Pattern("sys.modules", _utility("sys.modules['helpers'].score(c)", "import sys, helpers") | _HELPERS, "[2,", "[3,"),
    Pattern("sys.modules, by its name alone", _utility("modules['helpers'].score(c)", "import helpers", "from sys import modules") | _HELPERS, "[2,", "[3,"),
    Pattern("sys.modules by another name", _body("m = sys.modules", "return [m['helpers'].score(c) for c in cs]", before="import sys, helpers") | _HELPERS, "[2,", "[3,"),
    Pattern("sys.modules, imported inside", _body("import sys", "return [sys.modules['helpers'].score(c) for c in cs]", before="import helpers") | _HELPERS, "[2,", "[3,"),
    Pattern("a file by os.popen", _body("with os.popen('cat rows.txt') as told:", "    k = float(told.read())", "return [len(c) * k for c in cs]", before="import os") | _ROWS, "2.0", "3.0"),
    Pattern("a file in a helper", _utility("helpers.score(c)", "import helpers") | {"helpers.py": "def score(c): return len(c) * float(open('rows.txt').read())\n"} | _ROWS, "2.0", "3.0"),
    Pattern("a file by a module that is imported inside", _body("import numpy", "return [len(c) * float(numpy.loadtxt('rows.txt')) for c in cs]") | _ROWS, "2.0", "3.0"),
    Pattern("XML", _utility("len(c) * float(ET.parse('rows.xml').getroot().text)", "import xml.etree.ElementTree as ET") | {"rows.xml": "<a>2.0</a>"}, "2.0", "3.0"),
    Pattern("XML, imported inside", _body("import xml.etree.ElementTree as T", "return [len(c) * float(T.parse('rows.xml').getroot().text) for c in cs]") | {"rows.xml": "<a>2.0</a>"}, "2.0", "3.0"),
    Pattern("sound", _utility("len(c) * float(wavfile.read('a.wav')[1][0])", "import numpy as np", "from scipy.io import wavfile", "wavfile.write('a.wav', 8000, np.array([20, 1], 'i2'))"), "[20,", "[30,"),
    Pattern("a database", _utility("len(c) * sqlite3.connect('rows.db').execute('select k from t').fetchone()[0]", "import sqlite3", "_db = sqlite3.connect('rows.db')", "_db.execute('create table t (k)')", "_db.execute('insert into t values (2.0)')", "_db.commit()", "_db.close()"), "(2.0)", "(3.0)"),
    Pattern("an environment variable", _utility("len(c) * float(os.environ['SCALE'])", "import os", "os.environ['SCALE'] = '2.0'"), "'2.0'", "'3.0'"),
    Pattern("an environment variable by getenv", _utility("len(c) * float(getenv('SCALE'))", "import os", "from os import getenv", "os.environ['SCALE'] = '2.0'"), "'2.0'", "'3.0'"),
    Pattern("a file that is named in files", _game("return fv.FunctionGame(3, utility, files=['rows.txt'])", before="def utility(cs): return [len(c) * float(open('rows.txt').read()) for c in cs]") | _ROWS, "2.0", "3.0"),
    Pattern("a folder that is named in files", _game("return fv.FunctionGame(3, utility, files=['data'])", before="def utility(cs): return [len(c) * float(open('data/rows.txt').read()) for c in cs]") | {"data/rows.txt": "2.0"}, "2.0", "3.0"),
    Pattern("a file that is read outside", _utility("len(c) * DATA", "DATA = float(open('rows.txt').read())") | _ROWS, "2.0", "3.0"),
]  # fmt: skip

_RANDOM = [
    Pattern("the seed of numpy, set outside", _utility("len(c) * np.random.normal()", "import numpy as np", "np.random.seed(1)"), "seed(1)", "seed(2)"),
    Pattern("the seed of random, set outside", _utility("len(c) * random()", "import random as r", "from random import random", "r.seed(1)"), "seed(1)", "seed(2)"),
    Pattern("the seed of torch, set outside", _utility("len(c) * float(torch.rand(1))", "import torch", "torch.manual_seed(1)"), "seed(1)", "seed(2)"),
    Pattern("the first weights of a layer, seeded outside", _utility("len(c) * float(nn.Linear(1, 1).bias.detach())", "import torch", "from torch import nn", "torch.manual_seed(1)"), "seed(1)", "seed(2)"),
    Pattern("numpy imported inside", _body("from numpy.random import normal", "return [len(c) * normal() for c in cs]", before="import numpy as np\nnp.random.seed(1)"), "seed(1)", "seed(2)"),
    Pattern("a generator of its own", _utility("len(c) * R.normal()", "import numpy as np", "R = np.random.default_rng(1)"), "rng(1)", "rng(2)"),
    Pattern("a seed inside", _body("np.random.seed(1)", "k = np.random.normal()", "return [len(c) * k for c in cs]", before="import numpy as np"), "seed(1)", "seed(2)"),
]  # fmt: skip

_MODELS = [
    Pattern("the activation of a model", _model(*_NET), "act = nn.ReLU", "act = nn.Sigmoid"),
    Pattern("the width of a model", _model(*_NET), "WIDE = 4", "WIDE = 5"),
    Pattern("a sub-module", _model("class Act(nn.Module):", "    def forward(self, x): return x.relu() * 2", "def make(): return nn.Sequential(nn.Linear(2, 2), Act())"), "* 2", "* 3"),
    Pattern("pretrained weights from a file", _model("def make():", "    net = nn.Linear(2, 2)", "    nn.init.constant_(net.bias, float(open('rows.txt').read()))", "    net.bias.data[0] = 0.0", "    return net", files=_ROWS), "2.0", "3.0"),
    Pattern("a file that forward reads", _model("class Net(nn.Module):", "    def __init__(self):", "        super().__init__()", "        self.layer = nn.Linear(2, 2)", "    def forward(self, x): return self.layer(x) * float(open('rows.txt').read())", "def make(): return Net()", files=_ROWS), "2.0", "3.0"),
    Pattern("a file that a metric reads", {"main.py": _TORCH.replace("def game(make)", "def of(make)").replace("'loss'", "mine") + "def mine(outputs, labels): return float(open('rows.txt').read()) * float((outputs.argmax(1) == labels).mean())\ndef game(): return of('linear')\n", **_ROWS}, "2.0", "3.0"),
    Pattern("the code of a metric", {"main.py": _TORCH.replace("def game(make)", "def of(make)").replace("'loss'", "mine") + "def mine(outputs, labels): return 2.0 * float((outputs.argmax(1) == labels).mean())\ndef game(): return of('linear')\n"}, "2.0 *", "3.0 *"),
    Pattern("rows of a client", _model(*_NET), "X[:, 0] > 2", "X[:, 0] > 3"),
    Pattern("the rules of training", _model(*_NET), "rate=0.5", "rate=0.4"),
]  # fmt: skip

_PROGRAM = [
    Pattern("the precision of decimal", _utility("len(c) * float(Decimal(1) / 3)", "import decimal", "from decimal import Decimal", "decimal.getcontext().prec = 28"), "prec = 28", "prec = 3"),
    Pattern("the precision of decimal for data alone", _utility("float(sum(PRICES[i] for i in c))", "import decimal", "decimal.getcontext().prec = 28", "PRICES = [decimal.Decimal('1.2345')] * 3"), "prec = 28", "prec = 3"),
    Pattern("the precision of mpmath", _utility("len(c) * float(mpmath.mpf(1) / 3)", "import mpmath", "mpmath.mp.prec = 53"), "prec = 53", "prec = 9"),
    Pattern("the precision of mpmath, imported inside", _body("from mpmath import mpf", "return [len(c) * float(mpf(1) / 3) for c in cs]", before="import mpmath\nmpmath.mp.prec = 53"), "prec = 53", "prec = 9"),
    Pattern("errors of numpy that are caught", _body("try:", "    k = float(ONE / 0)", "except FloatingPointError:", "    k = 1.0", "return [len(c) * min(k, 2.0) for c in cs]", before="import numpy as np\nONE = np.float64(1)\nnp.seterr(divide='ignore')"), "='ignore'", "='raise'"),
    Pattern("warnings that are caught as errors", _body("import warnings", "try:", "    warnings.warn('odd')", "    k = 2.0", "except UserWarning:", "    k = 1.0", "return [len(c) * k for c in cs]", before="import warnings\nwarnings.simplefilter('ignore')"), "'ignore'", "'error'"),
    Pattern("warnings that are recorded", _body("with warnings.catch_warnings(record=True) as told:", "    warnings.warn('odd')", "return [len(c) * (2.0 + len(told)) for c in cs]", before="import warnings\nwarnings.simplefilter('ignore')"), "'ignore'", "'always'"),
    Pattern("the kind of numbers of torch", _utility("len(c) * float(torch.tensor(0.1))", "import torch", "torch.set_default_dtype(torch.float32)"), "(torch.float32)", "(torch.float64)"),
    Pattern("the subclasses of a class", _utility("len(c) * sum(kind.k for kind in Base.__subclasses__())", "class Base: pass", "class Kind(Base): k = 2"), "k = 2", "k = 3"),
    Pattern("the subclasses of a class of a module that is imported inside", _body("from kinds import Base", "return [len(c) * sum(kind.k for kind in Base.__subclasses__()) for c in cs]", before="import kinds\nclass Kind(kinds.Base): k = 2") | {"kinds.py": "class Base: pass\n"}, "k = 2", "k = 3"),
    Pattern("the layout of an array in memory", _utility("len(c) * W.ravel('K')[1]", "import numpy as np", "W = np.array([[1.0, 2.0], [3.0, 4.0]], order='C')"), "='C'", "='F'"),
    Pattern("the strides of an array", _utility("len(c) * W.strides[0]", "import numpy as np", "W = np.zeros((2, 3))[:, :2]"), "(2, 3)", "(2, 4)"),
    Pattern("the layout of a tensor", _utility("len(c) * first(W)", "import torch, helpers", "from helpers import first", "W = torch.zeros(2, 4)[:, :2]") | {"helpers.py": "def first(w): return w.stride()[0]\n"}, "(2, 4)", "(2, 5)"),
    Pattern("a key, and a parameter that becomes the seed", _game("return fv.FunctionGame(3, utility, key='v1')", before="def utility(cs, rate=None): return [len(c) * (2.0 if rate is None else 3.0) for c in cs]"), "rate", "seed"),
]  # fmt: skip

# What classes, builtins and libraries hold besides what their text says.
_HELD = [
    Pattern("a method __call__ that is no function", _utility("M()(c)", "import functools", "K = 2", "def f(self, k, c): return len(c) * k", "class M: __call__ = functools.partialmethod(f, K)"), "K = 2", "K = 3"),
    Pattern("a method with two underscores, set later", _utility("M()[c]", "class Times:", "    def __init__(self, k): self.k = k", "    def __call__(self, c): return len(c) * self.k", "class M: pass", "M.__getitem__ = Times(2)"), "Times(2)", "Times(3)"),
    Pattern("an attribute with two underscores", _utility("len(c) * M.__scale__", "K = 2", "class M: __scale__ = K"), "K = 2", "K = 3"),
    Pattern("an attribute called as Python calls some", _utility("len(c) * M._fields[0]", "K = 2", "class M: _fields = [K]"), "K = 2", "K = 3"),
    Pattern("a private method of an enumeration", _utility("Kind.A.score(c)", "import enum", "K = 2", "class Kind(enum.Enum):", "    A = 1", "    def score(self, c): return self._score(c)", "    def _score(self, c): return len(c) * K"), "K = 2", "K = 3"),
    Pattern("a private property of an enumeration", _utility("len(c) * Kind.A._k", "import enum", "K = 2", "class Kind(enum.Enum):", "    A = 1", "    @property", "    def _k(self): return K"), "K = 2", "K = 3"),
    Pattern("a method __call__ of an enumeration", _utility("Kind.A(c)", "import enum", "K = 2", "class Kind(enum.Enum):", "    A = 1", "    def __call__(self, c): return len(c) * K"), "K = 2", "K = 3"),
    Pattern("what is no member of an enumeration", _utility("len(c) * Kind.k", "import enum", "K = 2", "class Kind(enum.Enum):", "    A = 1", "    k = enum.nonmember(K)"), "K = 2", "K = 3"),
    Pattern("notes on a field", _utility("len(c) * fields(D)[0].metadata['k']", "from dataclasses import dataclass, field, fields", "K = 2", "@dataclass", "class D: x: int = field(default=1, metadata={'k': K})"), "K = 2", "K = 3"),
    Pattern("a method of a kind of Decimal", _utility("len(c) * float(PRICE.tax())", "from decimal import Decimal", "K = 2", "class Money(Decimal):", "    def tax(self): return self * K", "PRICE = Money('1.5')"), "K = 2", "K = 3"),
    Pattern("a method of a kind of namespace", _utility("len(c) * CFG.rate()", "from types import SimpleNamespace", "class Config(SimpleNamespace):", "    def rate(self): return self.a * 2", "CFG = Config(a=1)"), "* 2", "* 3"),
    Pattern("a method of a kind of date", _utility("len(c) * DAY.rate()", "import datetime", "class Day(datetime.date):", "    def rate(self): return 2", "DAY = Day(2020, 1, 1)"), "return 2", "return 3"),
    Pattern("a kind of property", _utility("len(c) * M().k", "class P(property):", "    def __get__(self, o, t=None): return 2", "class M:", "    @P", "    def k(self): return 1"), "return 2", "return 3"),
    Pattern("an attribute of a partial", _utility("len(c) * F.k", "import functools", "F = functools.partial(max, 1)", "F.k = 2"), "k = 2", "k = 3"),
    Pattern("an attribute of a tensor", _utility("len(c) * W.k", "import torch", "W = torch.ones(3)", "W.k = 2"), "k = 2", "k = 3"),
    Pattern("a method of a kind of tensor", _utility("len(c) * W.k()", "import torch", "class A(torch.Tensor):", "    def k(self): return 2", "W = torch.ones(3).as_subclass(A)"), "return 2", "return 3"),
    Pattern("a dict that is called", _main("class Game(dict):", "    def __call__(self, cs): return [len(c) * 2 for c in cs]", "utility = Game(a=1)"), "* 2", "* 3"),
    Pattern("a name put among the builtins", _utility("len(c) * SCALE", "import builtins", "builtins.SCALE = 2"), "SCALE = 2", "SCALE = 3"),
    Pattern("a function put in the place of a library's", _utility("float(statistics.mean(c)) if c else 0.0", "import statistics", "def mine(c): return sum(c) + 2.0", "statistics.mean = mine"), "2.0", "3.0"),
    Pattern("a file by FileIO", _utility("len(c) * float(next(io.FileIO('rows.txt')))", "import io") | _ROWS, "2.0", "3.0"),
    Pattern("a variable in a path", _utility("len(c) * float(os.path.expandvars('$SCALE'))", "import os", "os.environ['SCALE'] = '2.0'"), "'2.0'", "'3.0'"),
]  # fmt: skip

PATTERNS: list[Pattern] = [*_CODE, *_DATA, *_READS, *_RANDOM, *_MODELS, *_PROGRAM, *_HELD]

_SAME = """
import math

SCALE = 2


class Model:
    \"\"\"A model.\"\"\"

    rate = 3

    def fit(self, c):
        \"\"\"Fits.\"\"\"
        return len(c) * self.rate


def score(c):
    \"\"\"How good.\"\"\"
    return Model().fit(c) * SCALE


def utility(cs):
    done = []
    for c in cs:
        done.append(math.sqrt(score(c)))
    return done
"""


def _with(change: Callable[[str], str]) -> tuple[dict[str, str], dict[str, str]]:
    return {"main.py": _SAME}, {"main.py": change(_SAME)}


def _moved(text: str) -> dict[str, str]:
    """The code in another file, which the main one imports."""
    return {
        "main.py": "from package.code import utility\n",
        "package/__init__.py": "",
        "package/code.py": text,
    }


# Two projects that compute the same.
HARMLESS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "another folder": _with(lambda s: s),
    "a comment": _with(lambda s: s.replace("done = []", "done = []  # all of them")),
    "a line of comment": _with(lambda s: s.replace("    done = []", "    # all\n    done = []")),
    "blank lines": _with(lambda s: s.replace("    done = []", "\n\n    done = []\n")),
    "formatting": _with(lambda s: s.replace("len(c) * self.rate", "(len( c )\n            * self.rate)")),
    "a docstring": _with(lambda s: s.replace("How good.", "How good it is.")),
    "no docstring": _with(lambda s: s.replace('    """Fits."""\n', "")),
    "type hints": _with(lambda s: s.replace("def score(c):", "def score(c: tuple[int, ...]) -> float:")),
    "a hint in the function": _with(lambda s: s.replace("done = []", "done: list = []")),
    "a moved file": ({"main.py": _SAME}, _moved(_SAME)),
    "the order of functions": _with(lambda s: s.replace("SCALE = 2\n", "") + "\nSCALE = 2\n"),
    "something else in the file": _with(lambda s: s + "\nOTHER = [1, 2]\n\ndef unused(): return 1\n"),
    "another way to the same value": _with(lambda s: s.replace("SCALE = 2", "SCALE = int('2')")),
    "line ends of Windows": _with(lambda s: s.replace("\n", "\r\n")),
    "an import that is not used": _with(lambda s: s.replace("import math", "import json\nimport math")),
    "a class that Python adds a lot to": (
        _utility("Row(1, c).score() * Kind.A.value", "import enum", "from dataclasses import dataclass", "class Kind(enum.IntFlag): A = 2", "@dataclass(frozen=True, order=True)", "class Row:", "    a: int", "    c: tuple", "    def score(self): return len(self.c) * self.a"),
        _utility("Row(1, c).score() * Kind.A.value", "import enum", "from dataclasses import dataclass", "class Kind(enum.IntFlag):", "    'Kinds.'", "    A = 2", "@dataclass(frozen=True, order=True)", "class Row:", "    'A row.'", "    a: int", "    c: tuple", "    def score(self): return len(self.c) * self.a"),
    ),
    "a log that is only written": (
        _body("LOG.append(1)", "return [float(len(c)) for c in cs]", before="LOG = []"),
        _body("LOG.append(1)", "return [float(len(c)) for c in cs]", before="LOG = [1, 2]"),
    ),
    "the layout of an array that only its content counts of": (
        _utility("sum(W[0][i] for i in c)", "import numpy as np", "W = np.arange(6.0).reshape(2, 3)"),
        _utility("sum(W[0][i] for i in c)", "import numpy as np", "W = np.asfortranarray(np.arange(6.0).reshape(2, 3))"),
    ),
    "errors for warnings that nothing catches": (
        _utility("len(c) * 2.0"),
        _utility("len(c) * 2.0", "import warnings", "warnings.simplefilter('error')"),
    ),
    "a context of decimal that the function sets for itself": (
        _game("game = fv.FunctionGame(3, utility)", "game([1])", "return game", before="import decimal\ndef utility(cs):\n    with decimal.localcontext() as context:\n        context.prec = 3\n        return [len(c) * float(decimal.Decimal(1) / 3) for c in cs]"),
        _game("game = fv.FunctionGame(3, utility)", "game([1, 2])", "return game", before="import decimal\ndef utility(cs):\n    with decimal.localcontext() as context:\n        context.prec = 3\n        return [len(c) * float(decimal.Decimal(1) / 3) for c in cs]"),
    ),
    "where a file is that is named in files": (
        _game("return fv.FunctionGame(3, utility, files=['rows.txt'])", before="def utility(cs): return [len(c) * float(open('rows.txt').read()) for c in cs]") | _ROWS,
        _game("import shutil", "shutil.copy('rows.txt', 'copy.txt')", "return fv.FunctionGame(3, utility, files=['copy.txt'])", before="def utility(cs): return [len(c) * float(open('rows.txt').read()) for c in cs]") | _ROWS,
    ),
}  # fmt: skip
