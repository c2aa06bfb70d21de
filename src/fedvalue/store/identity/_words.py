"""Names by which code that changes things, brings something in from outside, or draws at random is recognised."""

from __future__ import annotations

__all__ = [
    "CHANGES_ARGUMENT",
    "CHANGES_ITSELF",
    "OF_OPEN_FILES",
    "OUTSIDE_BUILTINS",
    "OUTSIDE_MODULES",
    "UNSEEDED",
    "brings_in",
    "drawn_from",
    "is_file_read",
    "reads_clock",
    "seeded_by",
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

# Files.
_FILES = frozenset([
    "DatasetFolder", "ExcelFile", "FileIO", "HDFStore", "ImageFolder", "InferenceSession", "ParquetFile", "ReadImage",
    "SentenceTransformer", "TarFile", "VideoCapture", "ZipFile", "dcmread", "fdopen",
    "exists", "fromfile", "genfromtxt", "get_data", "getline", "getlines", "getmtime", "getsize", "glob", "iglob",
    "imread", "is_dir", "is_file", "isdir", "isfile", "iterdir", "iterparse", "lexists", "listdir", "load", "loadmat",
    "loadtxt", "lstat", "memmap", "mmap", "open", "read", "readinto", "readline", "readlines", "rglob", "safe_load",
    "scandir", "stat", "walk",
])  # fmt: skip
OF_OPEN_FILES = frozenset(["read", "readinto", "readline", "readlines"])
# Other programs, the network, settings of the machine, code that is found at run time.
_OTHERS = frozenset([
    "Popen", "__import__", "_getframe", "argv", "check_output", "entry_points", "environ", "environb", "eval", "exec",
    "exec_module", "expandvars",
    "from_pretrained", "getenv", "getoutput", "getstatusoutput", "globals", "import_module", "input", "load_dataset",
    "parse_args", "parse_known_args", "popen", "reload", "run_module", "run_path", "stdin", "system", "urlopen", "urlretrieve",
])  # fmt: skip
_FILES_START = ("load_", "open_", "read_", "scan_")
_OTHERS_START = ("fetch_",)
# Called like those that read, but what they give never changes, or comes from the program itself.
_INSIDE = frozenset([
    "load_breast_cancer", "load_diabetes", "load_digits", "load_iris", "load_linnerud", "load_state_dict", "load_wine",
])  # fmt: skip
OUTSIDE_BUILTINS = frozenset(["__import__", "eval", "exec", "globals", "input", "open"])
_FILE_MODULES = frozenset(
    ["configparser", "dbm", "filecmp", "fileinput", "h5py", "lmdb", "netCDF4", "shelve", "sqlite3", "zarr"]
)
OUTSIDE_MODULES = _FILE_MODULES | frozenset([
    "aiohttp", "boto3", "cffi", "ctypes", "duckdb", "fsspec", "ftplib", "httpx", "oracledb", "psycopg", "psycopg2",
    "pymongo", "pymysql", "pyodbc", "redis", "requests", "runpy", "s3fs", "smart_open", "socket", "sqlalchemy", "subprocess", "urllib3",
])  # fmt: skip
# Parts of libraries that do not read otherwise, as they are named in full or, in Python's own, without the middle.
_FILE_PARTS = (
    "importlib.resources", "lxml.etree.parse", "scipy.io", "torchaudio.datasets", "torchvision.datasets",
    "xml.dom.minidom.parse", "xml.etree.ElementTree.parse", "xml.parse",
)  # fmt: skip
_OTHER_PARTS = ("http.client", "urllib.request", "multiprocessing.connection", "sys.modules")

# Generators that a whole program shares, by the library that has them.
_TORCH_DRAWS = frozenset([
    "bernoulli", "bernoulli_", "multinomial", "normal", "normal_", "poisson", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "random_", "randperm", "uniform_", "dropout", "random_split",
])  # fmt: skip
# Layers of torch that begin with random weights.
_TORCH_LAYERS = (
    "Bilinear", "Conv", "Embedding", "GRU", "LSTM", "LazyConv", "LazyLinear", "Linear", "MultiheadAttention", "RNN",
    "Transformer",
)  # fmt: skip
_NO_DRAW = frozenset([
    "BitGenerator", "Generator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "Random", "RandomState", "SFC64",
    "SeedSequence", "SystemRandom", "default_rng", "get_state", "getstate", "mtrand", "seed", "set_state", "setstate",
])  # fmt: skip
_SEED_ALL = frozenset(["fix_seed", "seed_all", "seed_everything", "set_seed"])
# Generators that are different every time unless they are given a number.
UNSEEDED = frozenset(["Random", "RandomState", "SystemRandom", "default_rng"])

# The date and the time of day. Clocks that only measure how long something took (perf_counter) are not among them.
_OF_TIME = frozenset(["asctime", "ctime", "gmtime", "localtime", "strftime", "time", "time_ns"])
_NOW = frozenset(["now", "today", "utcnow"])


def brings_in(name: str) -> bool:
    """Whether something of this full name in a library reads from outside the program.

    >>> brings_in("numpy.loadtxt"), brings_in("pandas.read_csv"), brings_in("subprocess.run"), brings_in("math.sin")
    (True, True, True, False)
    """
    return is_file_read(name) or _is_other(name)


def is_file_read(name: str) -> bool:
    """Whether that is a file, whose content can be looked at.

    >>> is_file_read("xml.etree.ElementTree.parse"), is_file_read("os.environ"), is_file_read("ast.parse")
    (True, False, False)
    """
    first, last = name.split(".")[0], name.rsplit(".", 1)[-1]
    if _is_other(name) or last in _INSIDE:
        return False
    return (
        first in _FILE_MODULES
        or last in _FILES
        or last.startswith(_FILES_START)
        or _within(name, _FILE_PARTS)
    )


def _is_other(name: str) -> bool:
    first, last = name.split(".")[0], name.rsplit(".", 1)[-1]
    module = first in OUTSIDE_MODULES and first not in _FILE_MODULES
    return module or last in _OTHERS or last.startswith(_OTHERS_START) or _within(name, _OTHER_PARTS)


def drawn_from(name: str) -> str | None:
    """The library whose common generator of random numbers something of this full name draws from.

    >>> drawn_from("numpy.random.normal"), drawn_from("numpy.random.default_rng"), drawn_from("random.shuffle")
    ('numpy', None, 'random')
    """
    first, last = name.split(".")[0], name.rsplit(".", 1)[-1]
    if last in _NO_DRAW or last in _SEED_ALL:
        return None
    if name.startswith("numpy.random."):
        return "numpy"
    if first == "random" and name != "random":
        return "random"
    layer = name.startswith("torch.nn.") and last.startswith(_TORCH_LAYERS)
    if first == "torch" and (last in _TORCH_DRAWS or layer):
        return "torch"
    always = first == "secrets" or name in ("os.urandom", "uuid.uuid1", "uuid.uuid4", "posix.urandom")
    return "the system" if always else None


def reads_clock(name: str) -> bool:
    """Whether something of this full name in a library tells the date or the time of day.

    >>> reads_clock("time.time"), reads_clock("datetime.datetime.now"), reads_clock("time.perf_counter")
    (True, True, False)
    """
    first, last = name.split(".")[0], name.rsplit(".", 1)[-1]
    return last in _NOW or (first == "time" and last in _OF_TIME and name != "time")


def seeded_by(name: str) -> tuple[str, ...]:
    """The libraries whose common generator something of this full name sets to a state that is known.

    >>> seeded_by("numpy.random.seed"), seeded_by("lightning.seed_everything")
    (('numpy',), ('numpy', 'random', 'torch'))
    """
    first, last = name.split(".")[0], name.rsplit(".", 1)[-1]
    if last in _SEED_ALL:
        return "numpy", "random", "torch"
    known = {"numpy": ("seed", "set_state"), "random": ("seed", "setstate"), "torch": ("manual_seed",)}
    return (first,) if last in known.get(first, ()) else ()


def _within(name: str, parts: tuple[str, ...]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)
