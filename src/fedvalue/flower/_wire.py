"""What travels in a Flower federation: named arrays and settings in Flower's records; never an object.

A reply comes from another party's machine and may hold anything. Arrays are read only after their header
agreed with what was asked for: nothing is unpickled, and no header makes us allocate more than we expect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedvalue.errors import FedvalueError
from fedvalue.flower._arrays import LARGEST, Arrays, is_sound

__all__ = [
    "ARRAYS",
    "CONFIG",
    "EVALUATE",
    "METRICS",
    "PROTOCOL",
    "QUERY",
    "TRAIN",
    "ArrayRecord",
    "ConfigRecord",
    "Message",
    "MetricRecord",
    "RecordDict",
    "WireError",
    "count_in",
    "from_record",
    "metrics_of",
    "settings_of",
    "shapes_of",
    "to_record",
]

PROTOCOL = 5  # raised when messages of another release cannot be understood any more

ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"  # the names that Flower's own templates use
# Actions of their own: an app may keep its usual train and evaluate functions beside ours.
QUERY, TRAIN, EVALUATE = "query.fedvalue", "train.fedvalue", "evaluate.fedvalue"

Shapes = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_STYPE = "numpy.ndarray"
_LARGEST_NUMBER = 1 << 53  # of rows, rounds, …: beyond, floats skip whole numbers


class WireError(FedvalueError):
    """A message does not hold what it must; the text ends a sentence about its sender."""


def to_record(arrays: Mapping[str, NDArray[Any]]) -> ArrayRecord:
    """The arrays as Flower sends them: NumPy's own format, pickle excluded."""
    return ArrayRecord({name: Array(np.ascontiguousarray(array)) for name, array in arrays.items()})


def shapes_of(arrays: Mapping[str, NDArray[Any]], rows: int | None = None) -> Shapes:
    """What a record must hold: names, shapes and types, with another number of rows where one is given."""
    return {
        name: ((*((rows,) if rows is not None else array.shape[:1]), *array.shape[1:]), array.dtype)
        for name, array in arrays.items()
    }


def from_record(content: RecordDict, expected: Shapes, sound: bool = True) -> Arrays:
    """The arrays of a message; names, shapes, types and finiteness are checked before anything is used.

    Without `sound` numbers may be anything: a stack can be sound in some of its rows.
    """
    record = content.get(ARRAYS)
    if not isinstance(record, ArrayRecord):
        raise WireError(f"sent no record {ARRAYS!r} of arrays")
    if set(record) != set(expected):
        odd = sorted(set(record) ^ set(expected))[:4]
        raise WireError(f"sent other arrays than those asked for (differing names: {odd})")
    arrays = {name: _read(name, record[name], *expected[name]) for name in expected}
    for name, values in arrays.items() if sound else ():
        if not is_sound(values):
            raise WireError(
                f"sent numbers that are not finite (NaN, infinite or beyond {LARGEST:g}) in {name!r}"
            )
    return arrays


def _read(name: str, array: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    if array.stype != _STYPE:
        raise WireError(f"sent {name!r} in the unknown form {array.stype!r}")
    buffer = BytesIO(array.data)
    try:
        found, fortran, kind = _HEADERS[npy.read_magic(buffer)](buffer)
    except Exception as error:
        raise WireError(f"sent {name!r} in a form that cannot be read") from error
    if found != shape or kind.newbyteorder("<") != dtype.newbyteorder("<"):
        raise WireError(f"sent {name!r} of shape {found} and type {kind}; expected {shape} and {dtype}")
    body = memoryview(array.data)[buffer.tell() :]
    if len(body) != math.prod(shape) * dtype.itemsize:
        raise WireError(f"sent {name!r} cut short: {len(body)} bytes for shape {shape}")
    values = np.frombuffer(body, kind).reshape(shape, order="F" if fortran else "C")
    return np.array(values, dtype, order="C")


def settings_of(content: RecordDict) -> dict[str, Any]:
    """The settings in a message, as plain data."""
    record = content.get(CONFIG)
    if not isinstance(record, ConfigRecord):
        raise WireError(f"sent no record {CONFIG!r}")
    return dict(record)


def metrics_of(content: RecordDict) -> dict[str, Any]:
    """The metrics in a message, as plain data."""
    record = content.get(METRICS)
    if not isinstance(record, MetricRecord):
        raise WireError(f"sent no record {METRICS!r}")
    return dict(record)


def count_in(record: Mapping[str, Any], key: str, least: int = 0) -> int:
    """A whole number from a settings or metrics record of another party."""
    number = record.get(key)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
        raise WireError(f"sent no number {key!r}")
    if int(number) != number or not least <= number <= _LARGEST_NUMBER:
        raise WireError(f"sent {key}={number!r}; expected a whole number of at least {least}, at most 2^53")
    return int(number)
