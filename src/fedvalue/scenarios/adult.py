"""Adult (UCI census income): who earns more than 50K, the clients being occupations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import ScenarioError
from fedvalue.scenarios._build import Ask, Parts, Pool
from fedvalue.scenarios._checks import flag
from fedvalue.scenarios._encode import Encoder
from fedvalue.scenarios._partition import Rows
from fedvalue.scenarios._sources import Files

__all__ = ["COLUMNS", "HOW", "NEEDS", "NUMERIC", "build", "parse_rows"]

NEEDS = ("adult/adult.data.gz", "adult/adult.test.gz")
HOW = "fedvalue data fetch adult"
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
)  # fmt: skip
NUMERIC = frozenset(["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"])
_LABELS = ("<=50K", ">50K")


def build(ask: Ask, *, keep_occupation: bool = True) -> Pool:
    """All 14 features, one-hot and standardised; `?` is a category of its own, also as an occupation.

    Scales and categories are those of the whole official training set, and the test set is the whole official one,
    whatever the number of clients: the same person has the same features in every game. `keep_occupation=False`
    leaves 13 features, without the one that tells the clients apart.
    """
    keep = flag("keep_occupation", keep_occupation)
    files = Files(NEEDS, ask.data_dir, HOW)
    train, train_y = _columns(files.read(NEEDS[0]), NEEDS[0])
    test, test_y = _columns(files.read(NEEDS[1]), NEEDS[1])
    used = [name for name in COLUMNS if keep or name != "occupation"]

    encoder = Encoder.fit({name: train[name] for name in used})

    def encode(rows: Rows, test_rows: Rows) -> tuple[NDArray[Any], NDArray[Any], int]:
        of_clients, of_test = (
            {name: train[name][rows] for name in used},
            {name: test[name][test_rows] for name in used},
        )
        return encoder(of_clients), encoder(of_test), 0

    return Pool(
        "adult",
        train_y,
        test_y,
        encode,
        classes=2,
        natural=lambda: _by_occupation(train["occupation"], ask.clients or 1),
        details={"sources": files.sources, "class_names": list(_LABELS)},
    )


def _by_occupation(occupation: NDArray[Any], n: int) -> Parts:
    found, counts = np.unique(occupation, return_counts=True)
    if n > len(found):
        raise ScenarioError(
            f"Adult has {len(found)} occupations. Got clients={n}. Ask for fewer, or for another "
            "partition, such as 'same'."
        )
    largest = found[np.argsort(-counts, kind="stable")[:n]]
    names = ["unknown" if name == "?" else str(name) for name in largest]
    return Parts([np.flatnonzero(occupation == name) for name in largest], names)


def parse_rows(text: str, name: str) -> list[list[str]]:
    """The cells of the original layout: no header, `, ` between cells, labels in the test file with a dot."""
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.split(",")]
        cells[-1] = cells[-1].rstrip(".")
        if len(cells) != len(COLUMNS) + 1 or cells[-1] not in _LABELS:
            raise ScenarioError(
                f"{name}, line {number}: expected 14 features and <=50K or >50K. Got {line[:100]!r}."
            )
        rows.append(cells)
    if not rows:
        raise ScenarioError(f"{name} holds no rows. Get it again: {HOW}.")
    return rows


def _columns(content: bytes, name: str) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    *features, labels = zip(*parse_rows(content.decode("utf-8", "replace"), name), strict=True)
    try:
        columns = {
            column: np.asarray(values, dtype=np.float64 if column in NUMERIC else np.str_)
            for column, values in zip(COLUMNS, features, strict=True)
        }
    except ValueError as error:
        raise ScenarioError(f"{name}: a numeric column holds something else. {error}.") from error
    return columns, np.asarray([_LABELS.index(label) for label in labels], dtype=np.int64)
