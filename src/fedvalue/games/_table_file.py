"""Table games from files: 2**n utilities in .npz, .npy or .json."""

from __future__ import annotations

import json
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fedvalue.errors import InputError
from fedvalue.games._table import TableGame

__all__ = ["read_table"]

_USUAL_NAMES = ("utility", "utilities", "accuracy")
_LARGEST_BYTES = 1 << 30  # per array; 2**25 utilities take a quarter of it


def read_table(path: str | PathLike[str], array: str | None = None, negate: bool = False) -> TableGame:
    """The game in a file. `array` chooses from an .npz, `negate` turns losses into utilities."""
    path = Path(path)
    readers = {".npz": _read_npz, ".npy": _read_npy, ".json": _read_json}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"A table must be a file ending in .npz, .npy or .json. Got {path}.")
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    if array is not None and reader is not _read_npz:
        raise InputError(f"The array is chosen in an .npz file. {path} holds a single one.")
    try:
        table, names = reader(path, array)
    except InputError:
        raise
    except Exception as error:  # a broken file makes its readers raise almost anything
        reason = f"{type(error).__name__}: {error}".split("\n")[0]
        raise InputError(
            f"{path} cannot be read as {path.suffix.lower()}: it is damaged, or of another kind ({reason})."
        ) from error
    if table.dtype.kind not in "iuf":
        raise InputError(f"Utilities must be real numbers. {path} holds {table.dtype} values.")
    if table.ndim not in (1, 2):
        raise InputError(
            f"{path} must hold a vector of 2**n utilities, indexed by bitmask, or a matrix with such a row for each seed. "
            f"Got shape {table.shape}."
        )
    table = table.astype(np.float64)
    if table.ndim == 2 and (gaps := int(np.isnan(table).sum())):
        raise InputError(
            f"A table game needs all coalitions with every seed. In {path}, {gaps:,} of {table.size:,} are missing (NaN), as "
            "in an export of a run that did not train them: value its store with `fedvalue run --store`, or train the rest."
        )
    return TableGame(-table if negate else table, names)


def _read_npy(path: Path, array: str | None) -> tuple[Any, None]:
    # Mapped, not read: a header that promises more than the file holds is refused without allocating it.
    table = np.lib.format.open_memmap(path, mode="r")
    if table.nbytes > _LARGEST_BYTES:
        raise InputError(f"{path} is too large for a table: {table.nbytes:,} bytes.")
    return np.array(table), None


def _read_json(path: Path, array: str | None) -> tuple[Any, None]:
    if path.stat().st_size > _LARGEST_BYTES:
        raise InputError(f"{path} is too large for a table: {path.stat().st_size:,} bytes.")
    data = json.loads(path.read_text(encoding="utf-8"))
    rows = data if isinstance(data, list) and data and all(isinstance(row, list) for row in data) else [data]
    if not all(isinstance(row, list) and all(type(x) in (int, float) for x in row) for row in rows):
        raise InputError(
            f"{path} must hold one list of 2**n numbers, indexed by bitmask, or several, one for each seed."
        )
    if len(set(map(len, rows))) > 1:
        raise InputError(f"The lists in {path} must be equally long, one number for each coalition.")
    return np.array(data, dtype=np.float64), None


def _read_npz(path: Path, array: str | None) -> tuple[Any, list[str] | None]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.file_size > _LARGEST_BYTES:
                raise InputError(
                    f"{path} is too large for a table: {member.filename} unpacks to {member.file_size:,} bytes."
                )
    with np.load(path, allow_pickle=False) as arrays:
        if array is not None and array not in arrays.files:
            raise InputError(f"{path} has no array {array!r}. Its arrays: {_listing(arrays)}.")
        chosen = array if array is not None else _usual_array(path, arrays)
        names = _client_names(path, arrays["names"]) if "names" in arrays.files else None
        return arrays[chosen], names


def _usual_array(path: Path, arrays: Any) -> str:
    """The array with a usual name, or the only one that can be a table."""
    for name in _USUAL_NAMES:
        if name in arrays.files:
            return name
    fitting = [name for name in arrays.files if _is_table(_shape(arrays, name))]
    if len(fitting) != 1:
        found = "no vector" if not fitting else f"{len(fitting)} vectors"
        raise InputError(
            f"Choose the utilities by the name of their array (--array): {path} holds {found} of 2**n numbers. "
            f"Its arrays: {_listing(arrays)}."
        )
    return str(fitting[0])


def _shape(arrays: Any, name: str) -> tuple[int, ...] | None:
    try:
        return tuple(arrays[name].shape)
    except ValueError:  # Python objects, which are never unpickled
        return None


def _is_table(shape: tuple[int, ...] | None) -> bool:
    return shape is not None and len(shape) in (1, 2) and shape[-1] >= 2 and shape[-1] & (shape[-1] - 1) == 0


def _listing(arrays: Any) -> str:
    shapes = {name: _shape(arrays, name) for name in arrays.files}
    texts = [
        f"{name} ({'not numbers' if shape is None else '×'.join(map(str, shape)) or 'a single one'})"
        for name, shape in shapes.items()
    ]
    return ", ".join(texts) or "nothing"


def _client_names(path: Path, names: Any) -> list[str]:
    texts = [str(name) for name in names.tolist()] if names.ndim == 1 and names.dtype.kind == "U" else []
    if not texts or not all(text.isprintable() for text in texts):
        raise InputError(f"The array 'names' in {path} must be a vector of printable texts, one per client.")
    return texts
