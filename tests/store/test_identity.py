"""Code as users have it, in files: no change of what it computes goes unnoticed, and no other change is noticed.

Every pattern of change either makes another game or is said as a doubt; a store then asks for a key.
"""

from __future__ import annotations

import builtins
import decimal
import importlib
import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fedvalue as fv
from fedvalue.store import fingerprint

Identity = tuple[str, tuple[str, ...]]
Identify = Callable[[dict[str, str]], Identity]


@pytest.fixture
def identify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Identify]:
    """Writes files into a new folder and returns id and doubts of the game that is given by main.utility."""
    folders: list[Path] = []

    def forget() -> None:
        own = {path.name.removesuffix(".py") for folder in folders for path in folder.iterdir()}
        for name in [name for name in sys.modules if name.split(".")[0] in own]:
            del sys.modules[name]

    def look(files: dict[str, str]) -> Identity:
        forget()
        folders.append(tmp_path / f"project{len(folders)}")
        for name, text in files.items():
            path = folders[-1] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        with monkeypatch.context() as patch:
            patch.chdir(folders[-1])
            patch.syspath_prepend(folders[-1])
            importlib.invalidate_caches()
            game = fv.FunctionGame(3, importlib.import_module("main").utility)
            return game.id, game.doubts

    yield look
    forget()


def main(*lines: str) -> dict[str, str]:
    return {"main.py": "\n".join(lines) + "\n"}


def utility(says: str, *before: str) -> dict[str, str]:
    return main(*before, "def utility(cs):", f"    return [{says} for c in cs]")


def body(*lines: str, before: str = "") -> dict[str, str]:
    return main(before, "def utility(cs):", *(f"    {line}" for line in lines))


HELPERS = {"helpers.py": "SCALE = 2\ndef score(c): return len(c) * SCALE\ndef other(): return 1\n"}
DEEP = {
    "helpers.py": "from deeper import base\ndef score(c): return base(c) + 1\n",
    "deeper.py": "def base(c): return len(c) * 2\n",
}
PACKAGE = {
    "pkg/__init__.py": "from pkg.train import fit\n",
    "pkg/train.py": "def fit(c): return len(c) * 2\n",
}
FRAME = "import pandas as pd\nT = pd.DataFrame({'a': [1, 2], 'b': [3, 4]}, index=['x', 'y'])"
NETS = "import torch\nfrom torch import nn\n"

# name: files, text in them, what it becomes. The game must change, and there must be no doubt.
CHANGED: dict[str, tuple[dict[str, str], str, str]] = {
    "a constant": (utility("len(c) * 2.0"), "2.0", "2.5"),
    "the type of a constant": (utility("len(c) * 2"), "2", "2.0"),
    "an operator": (utility("len(c) * 2.0"), "*", "+"),
    "a name of Python's": (utility("max(c, default=0)"), "max", "min"),
    "a text": (utility("len(f'{c}: a')"), ": a", ": ab"),
    "a conversion in a text": (utility("len(f'{c!r}')"), "!r", "!s"),
    "a format in a text": (utility("len(f'{len(c):3}')"), ":3", ":4"),
    "a default": (main("def utility(cs, scale=2): return [len(c) * scale for c in cs]"), "=2", "=3"),
    "a keyword default": (main("def utility(cs, *, scale=2): return [len(c) * scale for c in cs]"), "=2", "=3"),
    "a default that is data": (main("S = [1, 2]", "def utility(cs, s=S): return [s[0] for c in cs]"), "1, 2", "2, 1"),
    "an argument of a decorator": (
        main(
            "def times(k):",
            "    def wrap(f):",
            "        def inner(cs): return [k * v for v in f(cs)]",
            "        return inner",
            "    return wrap",
            "@times(2)",
            "def utility(cs): return [len(c) for c in cs]",
        ),
        "times(2)",
        "times(3)",
    ),
    "a function behind functools.wraps": (
        main(
            "import functools",
            "def plain(f):",
            "    @functools.wraps(f)",
            "    def inner(cs): return f(cs)",
            "    return inner",
            "@plain",
            "def utility(cs): return [len(c) * 2 for c in cs]",
        ),
        "* 2",
        "* 3",
    ),
    "a wrapper with functools.wraps": (
        main(
            "import functools",
            "def scaled(f):",
            "    @functools.wraps(f)",
            "    def inner(cs): return [v * 2 for v in f(cs)]",
            "    return inner",
            "@scaled",
            "def utility(cs): return [len(c) for c in cs]",
        ),
        "* 2",
        "* 3",
    ),
    "a function behind a library's decorator": (
        main(NETS, "@torch.no_grad()", "def utility(cs): return [len(c) * 2 for c in cs]"),
        "* 2",
        "* 3",
    ),
    "a function for a type": (
        utility("f(c)", "import functools", "@functools.singledispatch", "def f(c): return 1", "@f.register", "def _(c: tuple): return 2"),
        "return 2",
        "return 3",
    ),
    "the type of a function for a type": (
        utility("f(c)", "import functools", "@functools.singledispatch", "def f(c): return 1", "@f.register", "def _(c: tuple): return 2"),
        "c: tuple",
        "c: list",
    ),
    "a cached helper": (
        utility("score(len(c))", "import functools", "@functools.lru_cache", "def score(n): return n * 2"),
        "n * 2",
        "n * 3",
    ),
    "a helper": (utility("score(c)", "def score(c): return len(c) * 2"), "* 2", "* 3"),
    "a helper's helper": (
        utility("score(c)", "def base(c): return 2", "def score(c): return len(c) * base(c)"),
        "return 2",
        "return 3",
    ),
    "a helper in a dict": (
        utility("WAYS['a'](c)", "def score(c): return len(c) * 2", "WAYS = {'a': score}"),
        "* 2",
        "* 3",
    ),
    "a lambda": (utility("score(c)", "score = lambda c: len(c) * 2"), "* 2", "* 3"),
    "the second lambda of a line": (
        utility("pair[1](c)", "pair = (lambda c: len(c) * 2, lambda c: len(c) * 3)"),
        "* 3",
        "* 4",
    ),
    "which function of a library": (utility("f(len(c))", "from math import sin as f"), "sin as", "cos as"),
    "which class of a library": (utility("f(c)", "from builtins import list as f"), "list as", "tuple as"),
    "which library": (utility("m.sqrt(len(c))", "import math as m"), "import math", "import cmath"),
    "which ufunc": (utility("f(len(c))", "from numpy import sin as f"), "sin as", "cos as"),
    "a value": (utility("len(c) * S", "S = 2"), "S = 2", "S = 3"),
    "a value by another way": (utility("len(c) * S", "S = 2 + 1"), "+ 1", "+ 2"),
    "the order of a dict": (utility("list(D)[0]", "D = {'a': 1, 'b': 2}"), "'a': 1, 'b': 2", "'b': 2, 'a': 1"),
    "the order in a nested dict": (
        utility("list(D['x'])[0]", "D = {'x': {'a': 1, 'b': 2}}"),
        "'a': 1, 'b': 2",
        "'b': 2, 'a': 1",
    ),
    "list and tuple": (utility("D * 2", "D = [1, 2]"), "[1, 2]", "(1, 2)"),
    "list and set": (utility("len(D)", "D = [1, 2]"), "[1, 2]", "{1, 2}"),
    "dict and its pairs": (utility("len(D)", "D = {1: 2}"), "{1: 2}", "[(1, 2)]"),
    "dict and defaultdict": (
        utility("D[1]", "from collections import defaultdict", "D = dict({1: 2})"),
        "dict({1",
        "defaultdict(int, {1",
    ),
    "the length of a deque": (
        utility("len(D)", "from collections import deque", "D = deque([1], maxlen=2)"),
        "maxlen=2",
        "maxlen=3",
    ),
    "whole number and float": (utility("S", "S = 2"), "S = 2", "S = 2.0"),
    "whole number and truth": (utility("S", "S = 1"), "S = 1", "S = True"),
    "a date": (utility("D.year", "import datetime", "D = datetime.date(2024, 1, 2)"), "2024", "2025"),
    "a pattern": (utility("len(P.findall(str(c)))", "import re", "P = re.compile('a')"), "'a'", "'b'"),
    "an enum's value": (
        utility("K.A.value", "import enum", "class K(enum.Enum):", "    A = 1", "    B = 2"),
        "A = 1",
        "A = 3",
    ),
    "which member of an enum": (
        utility("W.value", "import enum", "class K(enum.Enum):", "    A = 1", "    B = 2", "W = K.A"),
        "W = K.A",
        "W = K.B",
    ),
    "a named tuple": (
        utility("P.a", "from collections import namedtuple", "P = namedtuple('P', 'a b')(1, 2)"),
        "(1, 2)",
        "(2, 1)",
    ),
    "a namespace": (utility("N.a", "from types import SimpleNamespace as S", "N = S(a=1)"), "a=1", "a=2"),
    "the order in a namespace": (
        utility("list(vars(N))[0]", "from types import SimpleNamespace as S", "N = S(a=1, b=1)"),
        "a=1, b=1",
        "b=1, a=1",
    ),
    "an attribute of an array": (
        utility("A.unit", "import numpy as np", "class U(np.ndarray): pass", "A = np.ones(2).view(U)", "A.unit = 1"),
        "unit = 1",
        "unit = 2",
    ),
    "an array": (utility("A[0]", "import numpy as np", "A = np.array([1.0, 2.0])"), "2.0]", "2.5]"),
    "the type of an array": (
        utility("A[0]", "import numpy as np", "A = np.array([1, 2], 'i4')"),
        "'i4'",
        "'i8'",
    ),
    "the fields of an array": (
        utility("A['a'][0]", "import numpy as np", "A = np.array([(1, 2)], [('a', 'i4'), ('b', 'i4')])"),
        "('a', 'i4'), ('b', 'i4')",
        "('b', 'i4'), ('a', 'i4')",
    ),
    "a mask": (
        utility("A.sum()", "import numpy as np", "A = np.ma.array([1, 2], mask=[0, 1])"),
        "mask=[0, 1]",
        "mask=[1, 0]",
    ),
    "the columns of a frame": (utility("T['a'].sum()", FRAME), "'a': [1, 2], 'b'", "'b': [1, 2], 'a'"),
    "the index of a frame": (utility("T.loc['x'].sum()", FRAME), "['x', 'y']", "['y', 'x']"),
    "the cells of a frame": (utility("T['a'].sum()", FRAME), "[3, 4]", "[3, 5]"),
    "the types of a frame": (utility("T['a'].sum()", FRAME), "[3, 4]", "[3.0, 4.0]"),
    "the index of a series": (
        utility("S['x']", "import pandas as pd", "S = pd.Series([1, 2], ['x', 'y'])"),
        "['x', 'y']",
        "['y', 'x']",
    ),
    "the words of a series": (
        utility("len(S[0])", "import pandas as pd", "S = pd.Series(['ab', None])"),
        "'ab'",
        "'abc'",
    ),
    "the categories of a series": (
        utility("S.cat.codes.sum()", "import pandas as pd", "S = pd.Series(['a', 'b'], dtype='category')"),
        "['a', 'b']",
        "['a', 'c']",
    ),
    "the time zone of a series": (
        utility("S[0].hour", "import pandas as pd", "S = pd.Series(pd.to_datetime(['2024-01-01'], utc=True))"),
        "utc=True",
        "utc=False",
    ),
    "the entries of a sparse array": (
        utility("A.sum()", "from scipy.sparse import csr_array", "A = csr_array([[0, 1], [2, 0]])"),
        "[2, 0]",
        "[0, 2]",
    ),
    "a tensor": (utility("float(T[0])", NETS, "T = torch.tensor([1.0, 2.0])"), "2.0]", "2.5]"),
    "the type of a tensor": (
        utility("float(T[0])", NETS, "T = torch.ones(2, dtype=torch.float32)"),
        "float32",
        "bfloat16",
    ),
    "the weights of a module": (
        utility("float(M.bias)", NETS, "M = nn.Linear(1, 1)", "nn.init.constant_(M.bias, 2.0)", "M.weight.data.fill_(1)"),
        "2.0",
        "3.0",
    ),
    "a layer of a module": (
        utility("float(M(torch.ones(1)))", NETS, "M = nn.Sequential(nn.ReLU())"),
        "ReLU",
        "Sigmoid",
    ),
    "a setting of a class": (utility("M.s", "class M:", "    s = 2"), "s = 2", "s = 3"),
    "a method": (utility("M().f(c)", "class M:", "    def f(self, c): return len(c) * 2"), "* 2", "* 3"),
    "a static method": (
        utility("M.f(c)", "class M:", "    @staticmethod", "    def f(c): return len(c) * 2"),
        "* 2",
        "* 3",
    ),
    "a property": (utility("M().f", "class M:", "    @property", "    def f(self): return 2"), "return 2", "return 3"),
    "a base class": (utility("M.s", "class B:", "    s = 2", "class M(B): pass"), "s = 2", "s = 3"),
    "a metaclass": (
        utility("M.s", "class T(type):", "    s = property(lambda cls: 2)", "class M(metaclass=T): pass"),
        "cls: 2",
        "cls: 3",
    ),
    "a class that a class refers to": (
        utility("M.act(c)", "class M:", "    act = list"),
        "act = list",
        "act = tuple",
    ),
    "a class of one's own that a class refers to": (
        utility("M.act.s", "class A:", "    s = 2", "class M:", "    act = A"),
        "s = 2",
        "s = 3",
    ),
    "a field of a dataclass": (
        utility("P().s", "from dataclasses import dataclass", "@dataclass", "class P:", "    s: int = 2"),
        "= 2",
        "= 3",
    ),
    "the factory of a field": (
        utility("P().s", "from dataclasses import dataclass, field", "@dataclass", "class P:", "    s: int = field(default_factory=lambda: 2)"),
        ": 2",
        ": 3",
    ),
    "an object's attribute": (
        utility("O.s", "class M:", "    def __init__(self, s): self.s = s", "O = M(2)"),
        "M(2)",
        "M(3)",
    ),
    "an object's slot": (
        utility("O.s", "class M:", "    __slots__ = ('s',)", "    def __init__(self, s): self.s = s", "O = M(2)"),
        "M(2)",
        "M(3)",
    ),
    "a frozen dataclass": (
        utility("O.s", "from dataclasses import dataclass", "@dataclass(frozen=True)", "class P:", "    s: int", "O = P(2)"),
        "P(2)",
        "P(3)",
    ),
    "an attribute of the function": (
        main("def utility(cs): return [utility.s for c in cs]", "utility.s = 2"),
        "s = 2",
        "s = 3",
    ),
    "a function of a module": (utility("helpers.score(c)", "import helpers") | HELPERS, "* SCALE", "+ SCALE"),
    "a function from a module": (utility("score(c)", "from helpers import score") | HELPERS, "* SCALE", "+ SCALE"),
    "a value of a module": (utility("helpers.SCALE", "import helpers") | HELPERS, "SCALE = 2", "SCALE = 3"),
    "a value that a helper uses": (utility("helpers.score(c)", "import helpers") | HELPERS, "SCALE = 2", "SCALE = 3"),
    "a value that is set from elsewhere": (
        utility("helpers.score(c)", "import helpers", "helpers.SCALE = 5") | HELPERS,
        "SCALE = 5",
        "SCALE = 6",
    ),
    "a module that is passed on": (
        utility("getattr(helpers, 'score')(c)", "import helpers") | HELPERS,
        "* SCALE",
        "+ SCALE",
    ),
    "a value of a module that is passed on": (
        utility("getattr(helpers, 'score')(c)", "import helpers", "helpers.SCALE = 5") | HELPERS,
        "SCALE = 5",
        "SCALE = 6",
    ),
    "a helper's own import": (utility("helpers.score(c)", "import helpers") | DEEP, "* 2", "* 3"),
    "a module of a package": (utility("pkg.train.fit(c)", "import pkg.train") | PACKAGE, "* 2", "* 3"),
    "what a package passes on": (utility("pkg.fit(c)", "import pkg") | PACKAGE, "* 2", "* 3"),
    "a package without __init__": (
        utility("ns.part.fit(c)", "import ns.part") | {"ns/part.py": "def fit(c): return len(c) * 2\n"},
        "* 2",
        "* 3",
    ),
    "an import inside the function": (
        body("import helpers", "return [helpers.score(c) for c in cs]") | HELPERS,
        "* SCALE",
        "+ SCALE",
    ),
    "an import from inside the function": (
        body("from helpers import score", "return [score(c) for c in cs]") | DEEP,
        "* 2",
        "* 3",
    ),
    "an import of a package inside the function": (
        body("from pkg.train import fit", "return [fit(c) for c in cs]") | PACKAGE,
        "* 2",
        "* 3",
    ),
    "a relative import inside the function": (
        main("from pkg.main import utility")
        | {
            "pkg/__init__.py": "",
            "pkg/main.py": "def utility(cs):\n    from .train import fit\n    return [fit(c) for c in cs]\n",
            "pkg/train.py": "def fit(c): return len(c) * 2\n",
        },
        "* 2",
        "* 3",
    ),
    "a local class": (
        body("class M:", "    s: int = 2", "return [M.s for c in cs]"),
        "= 2",
        "= 3",
    ),
    "a statement that another value follows": (
        body("for c in cs:", "    break", "else:", "    return []", "return [1.0 for c in cs]"),
        "break",
        "continue",
    ),
}  # fmt: skip

READS = [
    ("open('d').read()", "", "open"),
    ("open('d', 'r+').read()", "", "open"),
    ("json.load(open('d'))", "import json", "json.load"),
    ("np.loadtxt('d')", "import numpy as np", "np.loadtxt"),
    ("np.load('d')", "import numpy as np", "np.load"),
    ("loadtxt('d')", "from numpy import loadtxt", "loadtxt"),
    ("lt('d')", "from numpy import loadtxt as lt", "loadtxt"),
    ("np.fromfile('d')", "import numpy as np", "np.fromfile"),
    ("pd.read_csv('d')", "import pandas as pd", "pd.read_csv"),
    ("Path('d').read_text()", "from pathlib import Path", "read_text"),
    ("FILE.read_bytes()", "from pathlib import Path\nFILE = Path('d')", "FILE.read_bytes"),
    ("len(list(Path('.').iterdir()))", "from pathlib import Path", "iterdir"),
    ("subprocess.run(['d'])", "import subprocess", "subprocess"),
    ("run(['d'])", "from subprocess import run", "subprocess.run"),
    ("os.environ['D']", "import os", "os.environ"),
    ("environ['D']", "from os import environ", "environ"),
    ("os.getenv('D')", "import os", "os.getenv"),
    ("os.listdir()", "import os", "os.listdir"),
    ("sys.argv[1]", "import sys", "sys.argv"),
    ("input()", "", "input"),
    ("torch.load('d')", "import torch", "torch.load"),
    ("urllib.request.urlopen('d')", "import urllib.request", "urlopen"),
    ("sqlite3.connect('d')", "import sqlite3", "sqlite3"),
    ("importlib.import_module('d').f(c)", "import importlib", "import_module"),
    ("__import__('d').f(c)", "", "__import__"),
    ("eval('d')", "", "eval"),
    ("globals()['d']", "", "globals"),
    ("fv.load_scenario('files', data_dir='d')", "import fedvalue as fv", "load_scenario"),
]
CHANGES = [
    ("P.update(seed=0)", "P['seed']", "P = {}", r"P, which utility changes \(update\(\)\)"),
    ("P['seed'] = 0", "P['seed']", "P = {}", r"P, which utility changes \(assignment\)"),
    ("P['a']['seed'] = 0", "P['a']['seed']", "P = {'a': {}}", "P, which utility changes"),
    ("P[0] = 5", "sum(P)", "P = [1, 2]", "P, which utility changes"),
    ("P.append(5)", "sum(P)", "P = [1, 2]", r"append\(\)"),
    ("P.sort()", "P[0]", "P = [2, 1]", r"sort\(\)"),
    ("last = P.pop()", "last", "P = [2, 1]", r"pop\(\)"),
    ("del P[0]", "P[0]", "P = [2, 1]", "P, which utility changes"),
    ("P.x = 5", "P.x", "class M:\n    x = 1\nP = M()", "P, which utility changes"),
    ("np.add(P, 1, out=P)", "P[0]", "import numpy as np\nP = np.ones(2)", "P, which utility changes"),
    ("random.shuffle(P)", "P[0]", "import random\nP = [1, 2]", r"shuffle\(\)"),
    ("setattr(P, 'x', 5)", "P.x", "class M:\n    x = 1\nP = M()", r"setattr\(\)"),
    ("P.fit([[1]], [1])", "P.predict([[1]])", "import sklearn.svm\nP = sklearn.svm.SVC()", r"fit\(\)"),
    ("helpers.P['seed'] = 0", "helpers.P['seed']", "import helpers", "helpers.P, which utility changes"),
]  # fmt: skip
# What tells the date or the time of day, and what it takes to be there.
CLOCKS = [
    ("time.time()", "import time", r"time\.time"),
    ("clock()", "from time import time_ns as clock", r"time\.time_ns"),
    ("datetime.now().hour", "from datetime import datetime", r"datetime\.datetime\.now"),
    ("d.datetime.utcnow().hour", "import datetime as d", r"datetime\.datetime\.utcnow"),
    ("date.today().day", "from datetime import date", r"datetime\.date\.today"),
    ("pd.Timestamp.now().hour", "import pandas as pd", r"pandas\.Timestamp\.now"),
    ("HELD['clock']()", "import time\nHELD = {'clock': time.time}", r"HELD is called \(time\.time"),
    ("helpers.now()", "import helpers", r"time at which now is called \(time\.localtime"),
]  # fmt: skip
# name: files, and what is said of them.
SAID: dict[str, tuple[dict[str, str], str]] = {
    **{f"reads by {code}": (utility(code, before), name) for code, before, name in READS},
    **{
        f"the time by {code}": (
            utility(code, before) | {"helpers.py": "import time\ndef now(): return time.localtime().tm_hour\n"},
            f"date or time at which.*{name}" if "helpers" not in code else name,
        )
        for code, before, name in CLOCKS
    },
    "the time, imported inside": (
        body("from datetime import datetime as dt", "return [dt.now().hour for c in cs]"),
        r"the date or time at which utility is called \(datetime\.datetime\.now\)",
    ),
    **{
        f"changes by {code}": (
            body(code, f"return [{use} for c in cs]", before=before) | {"helpers.py": "P = {}\n"},
            said,
        )
        for code, use, before, said in CHANGES
    },
    "changes a global": (
        main("X = 1", "def utility(cs):", "    global X", "    X = X + 1", "    return [X for c in cs]"),
        "X, which utility changes",
    ),
    "changes a closure": (
        main(
            "def make():",
            "    x = 1",
            "    def utility(cs):",
            "        nonlocal x",
            "        x = x + 1",
            "        return [x for c in cs]",
            "    return utility",
            "utility = make()",
        ),
        "x, which utility changes",
    ),
    "changes a default": (
        main("def utility(cs, seen={}):", "    seen[len(cs)] = 1", "    return [len(seen) for c in cs]"),
        "seen, which utility changes",
    ),
    "has an object that changes itself": (
        utility("O.f(c)", "class M:", "    n = 0", "    def f(self, c):", "        self.n += 1", "        return self.n", "O = M()"),
        "O.n, which methods of M change",
    ),
    "reads in a helper": (utility("score(c)", "def score(c): return float(open('d').read())"), "score reads"),
    "reads in a method": (
        utility("M().f(c)", "class M:", "    def f(self, c): return float(open('d').read())"),
        "f reads",
    ),
    "reads what is imported inside": (
        body("from numpy import loadtxt", "return [loadtxt('d') for c in cs]"),
        "numpy.loadtxt",
    ),
    "imports inside what reads": (
        body("import helpers", "return [helpers.f() for c in cs]")
        | {"helpers.py": "def f(): return float(open('d').read())\n"},
        "the module helpers reads",
    ),
    "imports inside what starts programs": (
        body("import subprocess", "return [subprocess.call('d') for c in cs]"),
        "subprocess",
    ),
    "imports inside what was changed elsewhere": (
        body("from helpers import score", "return [score(c) for c in cs]", before="import helpers\nhelpers.SCALE = 5")
        | HELPERS,
        "helpers.SCALE, which was changed after its import",
    ),
    "uses a module that is not imported yet": (
        utility("pkg.train.fit(c)", "import pkg") | PACKAGE | {"pkg/__init__.py": ""},
        "pkg.train, which is not defined yet",
    ),
    "has a compiled library": (utility("L.f()", "import ctypes", "L = ctypes.CDLL(None)"), r"L \(CDLL\)"),
    "uses what is not defined": (utility("later(c)"), "later, which is not defined yet"),
    "has an open file": (utility("len(F.name)", "F = open(__file__)", "F.close()"), r"F \(TextIOWrapper\)"),
    "has a generator of random numbers": (
        utility("R.normal()", "import numpy as np", "R = np.random.default_rng(0)"),
        r"R \(Generator\)",
    ),
    "has an iterator": (utility("next(I)", "I = iter([1, 2])"), r"I \(list_iterator\)"),
    "has a function behind a ufunc": (
        utility("U(1)", "import numpy as np", "U = np.frompyfunc(lambda x: x * 2, 1, 1)"),
        r"U \(ufunc\)",
    ),
    "was made by exec": (
        main("names = {}", "exec('def utility(cs): return [1.0 for c in cs]', names)", "utility = names['utility']"),
        "utility, whose source text cannot be found",
    ),
    "calls what was made by exec": (
        utility("f(c)", "exec('def f(c): return 1.0')"),
        "f, whose source text cannot be found",
    ),
}  # fmt: skip

SAME = '''
import math

SCALE = 2


class Model:
    """A model."""

    rate = 3

    def fit(self, c):
        """Fits."""
        return len(c) * self.rate


def score(c):
    """How good."""
    return Model().fit(c) * SCALE


def utility(cs):
    """Utilities."""
    done = []
    for c in cs:
        if c:
            done.append(math.sqrt(score(c)))
        else:
            done.append(0.0)
    return done
'''
HARMLESS: dict[str, Callable[[str], str]] = {
    "nothing": lambda s: s,
    "a comment": lambda s: s.replace("done = []", "done = []  # all of them"),
    "a comment of its own": lambda s: s.replace("    done = []", "    # all of them\n    done = []"),
    "blank lines": lambda s: s.replace("    done = []", "\n\n    done = []\n"),
    "a docstring": lambda s: s.replace('"""How good."""', '"""Better: says more."""'),
    "no docstring": lambda s: s.replace('    """Utilities."""\n', ""),
    "no docstrings in the class": lambda s: s.replace('    """Fits."""\n', "").replace(
        '"""A model."""', "pass"
    ),
    "formatting": lambda s: s.replace("len(c) * self.rate", "(len( c )\n            * self.rate)"),
    "quotes": lambda s: s.replace('"""Utilities."""', "'Utilities.'"),
    "a line instead of two": lambda s: s.replace("        if c:\n            done", "        if c: done"),
    "type hints": lambda s: s.replace("def score(c):", "def score(c: tuple[int, ...]) -> float:").replace(
        "done = []", "done: list[float] = []"
    ),
    "a pass": lambda s: s.replace("    done = []", "    pass\n    done = []"),
    "the place in the file": lambda s: s.replace("def score", "def unused(): return 1\n\n\ndef score"),
    "the order of functions": lambda s: s.replace("SCALE = 2\n", "") + "\n\nSCALE = 2\n",
    "something else in the file": lambda s: s + "\nOTHER = [1, 2, 3]\n",
    "another way to the same value": lambda s: s.replace("SCALE = 2", "SCALE = int('2')"),
    "line ends of Windows": lambda s: s.replace("\n", "\r\n"),
}


def test_measuring_how_long_something_takes_is_no_doubt(identify: Identify) -> None:
    timed = body("t = time.perf_counter()", "print(time.perf_counter() - t)", "return [1.0 for c in cs]")
    assert identify({"main.py": "import time\n" + timed["main.py"]})[1] == ()


class TestPatterns:
    @pytest.mark.parametrize("name", CHANGED)
    def test_a_change_makes_another_game(self, name: str, identify: Identify) -> None:
        files, old, new = CHANGED[name]
        assert any(old in text for text in files.values())
        before, again = identify(files), identify(files)
        after = identify({file: text.replace(old, new) for file, text in files.items()})
        assert before == again, "another folder is not another game"
        assert before[1] == ()
        assert after[0] != before[0]

    @pytest.mark.parametrize("name", SAID)
    def test_what_cannot_be_noticed_is_said(self, name: str, identify: Identify) -> None:
        files, said = SAID[name]
        _, doubts = identify(files)
        assert re.search(said, "; ".join(doubts))

    @pytest.mark.parametrize("name", HARMLESS)
    def test_what_changes_no_result_changes_nothing(self, name: str, identify: Identify) -> None:
        before, after = identify({"main.py": SAME}), identify({"main.py": HARMLESS[name](SAME)})
        assert before == after
        assert before[1] == ()

    def test_a_module_counts_the_same_before_and_after_its_import(self, identify: Identify) -> None:
        files = body("from helpers import score", "return [score(c) for c in cs]") | HELPERS
        imported = {**files, "main.py": files["main.py"] + "import helpers as loaded\n"}
        assert identify(files) == identify(imported)

    def test_writing_a_file_is_not_reading_one(self, identify: Identify) -> None:
        files = body("with open('log', 'a') as log:", "    log.write('called')", "return [1.0 for c in cs]")
        assert identify(files)[1] == ()

    def test_constants_of_libraries_are_known_by_name(self, identify: Identify) -> None:
        """This one holds what nobody can look into."""
        assert identify(utility("norm.pdf(len(c))", "from scipy.stats import norm"))[1] == ()

    def test_functions_of_ones_own_may_be_called_like_those_that_read(self, identify: Identify) -> None:
        own = {"helpers.py": "def load(c): return len(c)\ndef read_all(c): return load(c)\n"}
        files = utility("helpers.load(c) + helpers.read_all(c)", "import helpers") | own
        assert identify(files)[1] == ()


class TestLibraries:
    """Libraries count by name, wherever they are installed; code of one's own counts by content."""

    LIBRARY = "def f(c): return len(c) * {}\n"
    USES = "import {0}\ndef utility(cs): return [{0}.f(c) for c in cs]\n"

    @pytest.mark.parametrize("place", ["site-packages", "lib/python3/dist-packages", "libs"])
    def test_an_installed_module_counts_by_name(
        self, place: str, identify: Identify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = []
        for number, version in enumerate((1, 2)):
            name = "installed_" + re.sub(r"\W", "_", place)
            folder = tmp_path / f"env{number}" / place
            folder.mkdir(parents=True)
            (folder / f"{name}.py").write_text(self.LIBRARY.format(version))
            if place == "libs":  # pip install --target libs
                (folder / "dist.dist-info").mkdir()
                (folder / "dist.dist-info" / "RECORD").write_text(f"{name}.py,sha256=x,12\n")
            with monkeypatch.context() as patch:
                patch.syspath_prepend(folder)
                patch.delitem(sys.modules, name, raising=False)
                found.append(identify({"main.py": self.USES.format(name)}))
        assert found[0] == found[1]
        assert found[0][1] == ()

    def test_a_file_of_ones_own_may_be_called_like_a_module_of_python(self, identify: Identify) -> None:
        files = {"main.py": self.USES.format("antigravity"), "antigravity.py": self.LIBRARY.format(1)}
        changed = {**files, "antigravity.py": self.LIBRARY.format(2)}
        assert identify(files)[0] != identify(changed)[0]

    def test_a_project_that_is_being_worked_on_is_not_installed(self, identify: Identify) -> None:
        """An editable installation leaves its egg-info beside the package."""
        egg = {"own.egg-info/top_level.txt": "own\n", "own.egg-info/SOURCES.txt": "own.py\n"}
        files = {"main.py": self.USES.format("own"), "own.py": self.LIBRARY.format(1), **egg}
        assert identify(files)[0] != identify({**files, "own.py": self.LIBRARY.format(2)})[0]


CALLABLES = {
    "a dict": "class Own(dict):\n    def __call__(self, cs): return [self[c] * {} for c in cs]\nutility = Own()",
    "a list": "class Own(list):\n    def __call__(self, cs): return [{} for c in cs]\nutility = Own()",
    "a named tuple": """
        from typing import NamedTuple
        class Own(NamedTuple):
            rate: int = 2
            def __call__(self, cs): return [self.rate * {} for c in cs]
        utility = Own()
    """,
}


@pytest.mark.parametrize("kind", CALLABLES)
def test_data_that_can_be_called_is_code(kind: str, identify: Identify) -> None:
    one, other = ({"main.py": CALLABLES[kind].replace("{}", str(k))} for k in (1, 2))
    assert identify(one) == identify(one)
    assert identify(one)[0] != identify(other)[0]


def test_kinds_of_enums_are_no_doubt(identify: Identify) -> None:
    source = """
        import enum
        class Flag(enum.IntFlag):
            A = {}
        class Word(enum.StrEnum):
            B = enum.auto()
        def utility(cs): return [Flag.A.value + len(Word.B) for c in cs]
    """
    (one, doubts), (other, _) = (identify({"main.py": source.replace("{}", str(k))}) for k in (1, 2))
    assert doubts == ()
    assert one != other


# What every version of Python must find the same. Data is plain: other interpreters may be without numpy.
SAMPLES = '''
import collections, dataclasses, decimal, enum, functools, json, math, os.path, types, typing
from pathlib import Path
from math import sqrt

DATA = {"b": [1, 2.5, None], "a": ({"x", "y"}, b"z", 10**40, 1e-9, "\u00e9\U0001fae8")}
HOME = Path("data")
Point = collections.namedtuple("Point", "x y", defaults=[1])
LOG = []

class Kind(enum.Enum):
    A = 1
    B = "b"
    def shout(self): return self.name.upper()

@dataclasses.dataclass(frozen=True)
class Settings:
    rate: float = 0.1
    names: list = dataclasses.field(default_factory=list)

class Base:
    def __init__(self, k): self.k = k
    def __call__(self, c): return len(c) * self.k

class Model(Base):
    """A model."""
    scale = 2
    def __call__(self, c): return super().__call__(c) + self.scale
    @property
    def twice(self): return 2 * self.k
    @functools.cached_property
    def thrice(self): return 3 * self.k

def plain(cs): return [len(c) * 2.0 for c in cs]
def comprehended(cs): return {c: [DATA[k] for k in sorted(DATA) if k] for c in cs for _ in range(2)}
def texts(cs): return [f"{len(c):>{5}.{2}f} {c!r} {c=} {{}}" "joined" f"{sqrt(len(c))}" for c in cs]
def typed(cs: list, /, *, k: "int" = 3) -> list:
    x: int = 1
    y: str
    return [x + k for c in cs]
def caught(cs):
    global LOG
    try:
        with open("log", "w") as log: log.write("x")
    except (OSError, ValueError) as error:
        raise RuntimeError("no") from error
    else:
        LOG.append(len(cs))
    finally:
        pass
    while cs:
        if (n := len(cs)) > 3: continue
        break
    return [math.pi * os.path.getsize.__name__.count("g") for c in cs]
def matched(cs):
    match cs:
        case [first, *rest] if rest: return first
        case {"a": 1, **others}: return others
        case Point(x=0) | None: return 1
        case _: return 2
def nested(cs):
    total = 0
    def add(c):
        nonlocal total
        total += len(c) * Model(3)(c)
        class Local:
            s: int = 2
        return Local.s + (lambda t, k=total: t * k)(total)
    return [add(c) for c in cs]
async def waiting(cs): return [c async for c in cs]
def decorated(f):
    @functools.wraps(f)
    def inner(*args, **kwargs): return f(*args, **kwargs)
    return inner
@decorated
def wrapped(cs): return [json.dumps(c) for c in cs]
@functools.lru_cache(maxsize=None)
def cached(c): return Kind.A.value + Settings().rate
uses_cached = lambda cs: [cached(c) for c in cs]
pair = (lambda cs: [1 for c in cs], lambda cs: [HOME / str(c) for c in cs])
inside = lambda cs: __import__
def imports(cs):
    from helper import score
    return [score(c) for c in cs]

class Judge(typing.Protocol):
    def judge(self) -> int: ...
class OwnHook(typing.Protocol):
    @classmethod
    def __subclasshook__(cls, other): return len(other.__name__) > 2
K = 2
class Grade(enum.Enum):
    A = 1
    def score(self): return self._score
    @property
    def _score(self): return K
    k = enum.nonmember(K)
class Flags(enum.IntFlag):
    A = 1
class Money(decimal.Decimal):
    def tax(self): return self * K
class Config(types.SimpleNamespace):
    def rate(self): return self.a
class Called:
    __scale__ = K
    _fields = [K]
    __call__ = functools.partialmethod(lambda self, k, c: k, K)
@dataclasses.dataclass(order=True)
class Noted: a: int = dataclasses.field(default=1, metadata={"k": K})
lambdas = [lambda c: 1.0, lambda c: 2.0, lambda c: c if c else 3, lambda c: c if c else 4, lambda c: (lambda d: 5)]

def held(thing): return lambda: thing

THINGS = [held(thing) for thing in (plain, comprehended, texts, typed, caught, matched, nested, waiting, wrapped, cached, uses_cached,
          *pair, inside, imports, Kind, Kind.B, Settings, Settings(0.2), Model, Model(2), Model(2).__call__,
          functools.partial(plain, DATA), Point, Point(1, 2), DATA, HOME, collections.OrderedDict(DATA), Path,
          Grade, Flags, Money, Money("1.5"), Config(a=1), Called, Noted, Judge, OwnHook, typing.Optional[int], typing.List[str], typing.Callable[[int], str], typing.Union[int, Kind], *lambdas)]
'''
BARE = """
import importlib, json, pathlib, sys, types
source, folder = map(pathlib.Path, sys.argv[1:])
for name in ("fedvalue", "fedvalue.store"):  # their own imports need numpy
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [str(source.joinpath(*name.split(".")))]
sys.path.insert(0, str(folder))
fingerprint = importlib.import_module("fedvalue.store.identity").fingerprint
print(json.dumps([fingerprint(thing) for thing in importlib.import_module("samples").THINGS]))
"""


def interpreters() -> dict[str, str]:
    """Other versions of Python from 3.11 on: on the path, or installed beside this one."""
    beside = sorted(Path(sys.base_prefix).parent.glob("*/bin/python3"))
    on_path = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    found: dict[str, str] = {}
    for python in [*filter(None, on_path), *map(str, beside)]:
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        answer = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False)
        version = answer.stdout.strip()
        if answer.returncode == 0 and tuple(map(int, version.split("."))) >= (3, 11):
            found.setdefault(version, python)
    found.pop(".".join(map(str, sys.version_info[:2])), None)
    return found


@pytest.mark.slow
def test_every_version_of_python_finds_the_same(tmp_path: Path) -> None:
    others = interpreters()
    if not others:
        pytest.skip("no other Python from 3.11 on is installed here")
    (tmp_path / "samples.py").write_text(SAMPLES)
    (tmp_path / "helper.py").write_text("from deeper import K\ndef score(c): return len(c) * K\n")
    (tmp_path / "deeper.py").write_text("K = 3\n")

    def digests(python: str) -> list[Identity]:
        command = [python, "-B", "-c", BARE, str(Path(fv.__file__).parents[1]), str(tmp_path)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
        return [(digest, tuple(doubts)) for digest, doubts in json.loads(printed)]

    here = digests(sys.executable)
    assert len({digest for digest, _ in here}) == len(here) > 25
    for version, python in others.items():
        there = digests(python)
        assert [i for i, pair in enumerate(zip(here, there, strict=True)) if pair[0] != pair[1]] == [], (
            version
        )


def test_attributes_that_methods_change_are_doubts_wherever_they_are_read() -> None:
    class Trainer:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        def set_rate(self, rate: float) -> None:
            self.rate = rate

    trainer = Trainer(0.1)

    def accuracy(coalition: tuple[int, ...]) -> float:
        return trainer.rate * len(coalition)

    before = fingerprint(accuracy)
    trainer.set_rate(0.5)
    after = fingerprint(accuracy)
    assert before[0] != after[0] or (before[1] and after[1])


def test_files_that_an_object_reads_through_itself_are_doubts(tmp_path: Path) -> None:
    class Rows:
        def __init__(self, path: Path) -> None:
            self.path = path

        def read(self) -> float:
            return float(self.path.read_text())

    rows = Rows(tmp_path / "rows.txt")

    def accuracy(coalition: tuple[int, ...]) -> float:
        return rows.read() * len(coalition)

    assert fingerprint(accuracy)[1]


class TestTheProgram:
    """Settings of the whole program that change what code gives."""

    def test_a_locale_of_its_own_is_another_game(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def accuracy(coalition: tuple[int, ...]) -> str:
            return f"{len(coalition):n}"

        before = fingerprint(accuracy)
        monkeypatch.setattr("locale.setlocale", lambda category: "de_DE.UTF-8")
        assert fingerprint(accuracy)[0] != before[0]

    @pytest.mark.parametrize("start", ["fork", "spawn"])
    def test_settings_that_do_not_reach_the_processes_of_a_game_are_doubts(self, start: str) -> None:
        def accuracy(coalition: tuple[int, ...]) -> float:
            return float(decimal.Decimal(len(coalition)) / 3)

        made = [fv.FunctionGame(3, accuracy, batch=False, jobs=2, start=start).doubts]
        with decimal.localcontext(prec=3):
            made.append(fv.FunctionGame(3, accuracy, batch=False, jobs=2, start=start).doubts)
        said = ("the context of decimal (prec=3), which fresh processes do not have: set it in the function",)
        assert made == [(), () if start == "fork" else said]

    def test_code_that_sets_them_for_the_program_is_doubted_where_they_were_set_before(self) -> None:
        def accuracy(coalition: tuple[int, ...]) -> float:
            decimal.getcontext().prec = 3
            return float(decimal.Decimal(len(coalition)) / 3)

        with decimal.localcontext():
            game = fv.FunctionGame(3, accuracy, batch=False)
            game([1, 2])
            assert not game.changed
            assert (
                "decimal (prec=3), which was set before"
                in fv.FunctionGame(3, accuracy, batch=False).doubts[0]
            )
        assert game.doubts == ()


def test_what_a_program_adds_to_the_names_of_python_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def accuracy(coalition: tuple[int, ...]) -> float:
        return half * len(coalition)  # type: ignore[name-defined, no-any-return] # noqa: F821

    found = []
    for value in (0.5, 0.25):
        monkeypatch.setattr(builtins, "half", value, raising=False)
        found.append(fingerprint(accuracy)[0])
    assert found[0] != found[1]
