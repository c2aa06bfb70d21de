"""Names by which code that changes things, or brings something in from outside, is recognised."""

from __future__ import annotations

__all__ = [
    "CHANGES_ARGUMENT",
    "CHANGES_ITSELF",
    "OUTSIDE_BUILTINS",
    "OUTSIDE_MODULES",
    "brings_in",
]

# Methods that change what they are called on.
CHANGES_ITSELF = frozenset([
    "__delitem__", "__setitem__", "add", "append", "appendleft", "clear", "difference_update", "discard", "extend",
    "extendleft", "fill", "fit", "fit_transform", "insert", "intersection_update", "load_state_dict", "partial_fit",
    "pop", "popitem", "popleft", "put", "remove", "resize", "reverse", "rotate", "set_params", "setdefault",
    "setflags", "sort", "symmetric_difference_update", "update", "write", "writelines",
])  # fmt: skip

# Functions that change their first argument; `out=` is another way.
CHANGES_ARGUMENT = frozenset([
    "at", "copyto", "delattr", "fill_diagonal", "heapify", "heappop", "heappush", "heappushpop", "heapreplace",
    "insort", "insort_left", "insort_right", "out", "putmask", "setattr", "shuffle",
])  # fmt: skip

# Files, other programs, the network, code that is found at run time.
_OUTSIDE = frozenset([
    "DatasetFolder", "ExcelFile", "HDFStore", "ImageFolder", "ParquetFile", "Popen", "TarFile", "ZipFile", "argv", "check_output", "environ",
    "environb", "exec_module", "from_pretrained", "fromfile", "genfromtxt", "getenv", "getmtime", "getoutput",
    "getsize", "getstatusoutput", "glob", "iglob", "imread", "import_module", "iterdir", "listdir", "load", "loadmat",
    "loadtxt", "memmap", "open", "parse_args", "popen", "reload", "rglob", "run_module", "run_path",
    "safe_load", "scandir", "stdin", "system", "urlopen", "urlretrieve", "walk",
])  # fmt: skip
_OUTSIDE_STARTS = ("fetch_", "load_", "open_", "read_", "scan_")
# Called like those that read, but what they give never changes, or comes from the program itself.
_INSIDE = frozenset([
    "load_breast_cancer", "load_diabetes", "load_digits", "load_iris", "load_linnerud", "load_state_dict", "load_wine",
])  # fmt: skip
OUTSIDE_BUILTINS = frozenset(["__import__", "eval", "exec", "globals", "input", "open"])
OUTSIDE_MODULES = frozenset([
    "cffi", "configparser", "ctypes", "ftplib", "h5py", "httpx", "psycopg", "psycopg2", "pymongo", "requests", "runpy", "shelve", "socket",
    "sqlalchemy", "sqlite3", "subprocess", "urllib3",
])  # fmt: skip


def brings_in(name: str) -> bool:
    """Whether something of this full name in a library reads from outside the program.

    >>> brings_in("numpy.loadtxt"), brings_in("pandas.read_csv"), brings_in("subprocess.run"), brings_in("math.sin")
    (True, True, True, False)
    """
    first, last = name.split(".")[0], name.rsplit(".", 1)[-1]
    reads = last in _OUTSIDE or (last.startswith(_OUTSIDE_STARTS) and last not in _INSIDE)
    return first in OUTSIDE_MODULES or reads
