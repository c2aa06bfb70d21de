"""The Flower app that `fedvalue flower init` writes: three short files that a consortium fills in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from fedvalue.errors import InputError

__all__ = ["DEFAULTS", "toml_value", "write_app"]

Value = str | int | float | bool

# key → default, comment; also what `flwr run --run-config` may change (it takes no other keys)
DEFAULTS: dict[str, tuple[Value, str]] = {
    "clients": (4, "how many SuperNodes take part, those that may be absent included; 0: the roster's"),
    "method": ("surrogate", "see `fedvalue methods`; exact where the budget covers all coalitions"),
    "budget": (0, "coalitions to train at most; 0: the method's default"),
    "replicates": (1, "trainings of each coalition, with other random numbers; their mean counts"),
    "seeds": (0, "seeds that the trainings are spread over; 0: as suits method and budget; 1: that one"),
    "own-seeds": (False, "surrogate: a seed for every training, so that no two have an update in common"),
    "min-coalition": (1, "clients in the smallest coalition that is trained; with 2, nobody is alone"),
    "noise": (True, "method exact: false leaves out the trainings that show how much is luck"),
    "model": ("mlp", "mlp, mlp-dropout, cnn, linear, text-mean, lstm, or pass a factory to both apps"),
    "rounds": (4, "rounds of the federation"),
    "epochs": (4, "epochs of a client in a round"),
    "batch": (32, "rows in a minibatch"),
    "rate": (0.01, "learning rate"),
    "optimizer": ("adam", "adam, sgd, adamw, rmsprop, or another of torch.optim"),
    "momentum": (0.0, "of sgd"),
    "algorithm": ("fedavg", "fedavg, fedprox or fedsgd"),
    "mu": (0.0, "of fedprox, which needs it: 0.01"),
    "weights": ("rows", "what counts of a client in an average: rows, equal, or clipped"),
    "max-share": (0.0, "of clipped weights: the most that one client has of the weight of all, such as 0.4"),
    "weight-decay": (0.0, "of the optimizer; adamw needs it"),
    "optimizer-options": ("", "as torch names them, such as alpha=0.9,centered=true"),
    "schedule": ("constant", "of the rate, round by round: constant, linear, cosine or step"),
    "warmup": (0, "rounds in which the rate rises before that"),
    "decay": (0.0, "of the schedule step: what the rate is multiplied by"),
    "decay-every": (0, "of the schedule step: after how many rounds"),
    "clip": (0.0, "longest gradient of a model; 0: no limit"),
    "accumulate": (1, "minibatches that make up one step"),
    "class-weights": ("", "what classes count: balanced, or numbers such as 0=1,1=5"),
    "precision": ("float32", "float32 or bf16"),
    "seed": (0, "everything random follows from it"),
    "loss": (
        "",
        "cross-entropy, focal, bce, mse, mae, huber, or package.module:function; empty: as suits the task",
    ),
    "metric": (
        "",
        "accuracy, loss, auc, …, or package.module:function; empty: accuracy, or r2 for a regression",
    ),
    "empty": (
        "initial",
        "worth of no data: initial (mean of untrained models), chance, majority or a number",
    ),
    "evaluate": ("server", "server: on its test set; nodes: on the rows that each node holds out"),
    "share-all-models": (
        False,
        "evaluate = nodes needs true: each client is then sent all models, those of single others too",
    ),
    "roster": (
        "",
        "roster.json of `fedvalue flower deploy`: keys say who is who; empty: nodes say it themselves",
    ),
    "agreement": (
        "",
        "file that `fedvalue agreement new` wrote: anything else than what is agreed there is refused",
    ),
    "quorum": (0, "begin after `patience` without absent clients if at least so many are there; 0: two"),
    "missing": ("refuse", "when clients are lost later: refuse, or use-known to value those who are left"),
    "deadline": (600.0, "seconds that a round may take before a silent node is left out"),
    "patience": (120.0, "seconds to wait for all nodes at the start, and for lost ones to come back"),
    "message-mb": (64, "models in one message at most, in MB"),
    "memory-mb": (1024.0, "models held by the server at once, in MB"),
    "max-claim": (
        1000.0,
        "refuse a client that claims so many times the median of the others' rows; 0: no limit",
    ),
    "max-update": (100.0, "refuse updates so many times as long as the median of the others; 0: no limit"),
    "checkpoints": (True, "keep what is under way after every round, beside the store, until the run ends"),
    "dry-run": (False, "only say who is there and what a valuation would take; nothing is trained"),
    "out": ("fedvalue-results", "folder of values and report, seen from where the SuperLink was started"),
    "store": ("", "file that keeps every training; empty: store.db in `out`"),
    "task": ("classification", "classification, regression, or own with a loss and a metric of yours"),
    "classes": (10, "of a classification; else 0"),
    "test": (
        "test.npz",
        "the server's test rows, arrays x and y, or digits to try it out; unused with evaluate = nodes",
    ),
    "data": (
        "",
        "for simulations: where the rows of the clients are, such as rows/client-{}.npz, {} is 0, 1, …; or digits",
    ),
}

_PYPROJECT = """\
# A valuation as a Flower app. Start it with: flwr run . NAME-OF-YOUR-SUPERLINK --stream
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "1.0.0"
description = "What is each data provider of this federation worth?"
license = "Apache-2.0"
dependencies = []  # fedvalue is installed wherever this runs; Flower would fetch what stands here

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "consortium"
fab-include = ["valuation/**/*.py"]

[tool.flwr.app.components]
serverapp = "valuation.server_app:app"
clientapp = "valuation.client_app:app"

[tool.flwr.app.config]
{config}
"""

_CLIENT = '''\
"""The side of a data provider. It runs in this party's own process; its rows never leave it."""

import numpy as np
from flwr.app import Context

from fedvalue.flower import Party, client_app
from fedvalue.scenarios import Dataset, load_scenario


def load(context: Context) -> Party:
    """This party's rows. Change this to read them from wherever they are.

    As written: an .npz file with x and y, and x_held_out and y_held_out where the nodes evaluate. A model of several inputs
    gets them by name, Dataset({"ids": file["ids"], "mask": file["mask"]}, file["y"]), on all sides alike. Each
    SuperNode is started with: --node-config 'partition-id=0 name="Hospital A" data="/path/to/rows.npz"'
    Simulated nodes have a partition-id only; where their rows are is the setting `data` of the run, or "digits" to try it out.
    """
    node = context.node_config
    place = int(node.get("partition-id", -1))
    path = node.get("data") or str(context.run_config["data"]).replace("{}", str(place))
    if path == "digits":
        digits = load_scenario("digits", clients=int(node["num-partitions"]))
        return Party(digits.clients[place], None, "", place)
    with np.load(str(path), allow_pickle=False) as file:
        train = Dataset(file["x"], file["y"])
        held_out = Dataset(file["x_held_out"], file["y_held_out"]) if "x_held_out" in file else None
    return Party(train, held_out, str(node.get("name", "")), place)


app = client_app(load)
'''

_SERVER = '''\
"""The side of the operator: asks the nodes to train coalitions, and values them."""

import numpy as np
from flwr.app import Context

from fedvalue.flower import Task, server_app
from fedvalue.scenarios import Dataset, load_scenario


def load(context: Context) -> Task:
    """The task, and the test rows unless the nodes hold them out.

    Test rows are rows that no client trains on and that all have agreed to be measured by, in the order of
    columns that the clients have: np.savez("test.npz", x=features, y=labels).
    """
    config = context.run_config
    test = None
    if config["test"] == "digits":
        test = load_scenario("digits", clients=int(config["clients"])).test
    elif config["evaluate"] == "server":
        with np.load(str(config["test"]), allow_pickle=False) as file:
            test = Dataset(file["x"], file["y"])
    return Task(str(config["task"]), int(config["classes"]), test)


app = server_app(load, own_settings=("task", "classes", "test", "data"))
'''


def write_app(folder: Path, settings: Mapping[str, Value] | None = None) -> list[Path]:
    """Writes a ready Flower app; files that are there already are left alone and refused."""
    unknown = sorted(set(settings or {}) - set(DEFAULTS))
    if unknown:
        raise InputError(f"Unknown settings {unknown}. Settings: {', '.join(DEFAULTS)}.")
    config = "\n".join(
        f"{key} = {toml_value((settings or {}).get(key, default))}  # {comment}"
        for key, (default, comment) in DEFAULTS.items()
    )
    name = re.sub(r"[^a-z0-9-]+", "-", folder.resolve().name.lower()).strip("-") or "valuation"
    files = {
        "pyproject.toml": _PYPROJECT.format(name=name, config=config),
        "valuation/__init__.py": '"""A valuation as a Flower app."""\n',
        "valuation/client_app.py": _CLIENT,
        "valuation/server_app.py": _SERVER,
    }
    there = [str(folder / file) for file in files if (folder / file).exists()]
    if there:
        raise InputError(f"There is a {there[0]} already. Choose another folder, or remove it.")
    try:
        for file, text in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"Cannot write to {folder}: {error.strerror}.") from error
    return [folder / file for file in files]


def toml_value(value: Value) -> str:
    """A setting as TOML writes it, which for these types is as JSON does.

    >>> toml_value("a \\"b\\""), toml_value(True), toml_value(0.1)
    ('"a \\\\"b\\\\""', 'true', '0.1')
    """
    return json.dumps(value, ensure_ascii=False)
