"""A folder as tables: one per client, then those of the test set; what cannot be read is collected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedvalue.errors import FedvalueError, MissingExtraError
from fedvalue.scenarios._folder import Folder, listed
from fedvalue.scenarios._images import CLASS, Look, read_images
from fedvalue.scenarios._tables import Table, kind, read_npz, read_table

__all__ = ["Refused", "Sheets", "sheets_of"]

T = TypeVar("T")


class Refused(list[str]):
    """What was refused so far."""

    def attempt(self, what: Callable[..., T], *given: Any, **named: Any) -> T | None:
        """The result, or None where something was refused."""
        try:
            return what(*given, **named)
        except MissingExtraError:
            raise
        except FedvalueError as error:
            self.append(str(error))
            return None


@dataclass(frozen=True)
class Sheets:
    """Tables of the clients, then of the test set, wherever they come from; `where` is that in words.

    `arrays` are features that are not in columns, such as images: the rows of all tables, one after the other. Columns
    that are `plain` are numbers and nothing has to be decided about them.
    """

    where: str
    tables: Sequence[Table]
    clients: int
    label: str | None
    arrays: NDArray[Any] | None = None
    plain: bool = False
    done: tuple[str, ...] = ()
    needs_test: bool = True
    is_folder: bool = True


def sheets_of(
    folder: Path, label: str | None, by_client: bool, look: Look, refused: Refused
) -> Sheets | None:
    """The tables of a folder, as far as they can be read; None where it is not clear which are the clients'."""
    files = refused.attempt(listed, folder, by_client)
    if files is None:
        return None
    paths = [*files.clients, *files.tests]
    arrays = [path for path in paths if kind(path) == ".npz"]
    if arrays and len(arrays) < len(paths):
        refused.append(
            f"{folder} mixes NPZ files with tables. Use NPZ for all clients and the test set, or for none."
        )
        return None
    features: list[NDArray[Any]] = []
    done = _ignored(files)
    if files.of_images:
        label = label or CLASS
        images = refused.attempt(read_images, paths, look, label)
        if images is None:
            return None
        tables, features, done = images.tables, images.pixels, (*images.done, *done)
    elif arrays:
        label = label or "y"
        tables = _arrays(paths, label, features, refused)
    else:
        read = [refused.attempt(read_table, path) for path in paths]
        tables = [table for table in read if table is not None]
    return Sheets(
        str(folder),
        tables,
        sum(table.path in files.clients for table in tables),
        label,
        np.concatenate(features) if features else None,
        bool(arrays),
        done,
        needs_test=bool(files.tests) or not by_client,
    )


def _ignored(files: Folder) -> tuple[str, ...]:
    if not files.ignored:
        return ()
    names = ", ".join(ascii(name)[1:-1] for name in files.ignored[:5])
    more = f" and {len(files.ignored) - 5} more" if len(files.ignored) > 5 else ""
    return (f"left aside, being no tables: {names}{more}",)


def _arrays(paths: Sequence[Path], label: str, images: list[NDArray[Any]], refused: Refused) -> list[Table]:
    """NPZ files as tables, a column for each feature; arrays of more dimensions are kept as they are."""
    read = [(path, refused.attempt(read_npz, path, label)) for path in paths]
    tables = []
    shape: tuple[int, ...] | None = None
    for path, found in read:
        if found is None:
            continue
        x, y = found
        shape = x.shape[1:] if shape is None else shape
        if x.shape[1:] != shape:
            refused.append(
                f"All files must have features of one shape. {paths[0].name} has {shape}, "
                f"{path.name} has {x.shape[1:]}."
            )
            continue
        numbers = x.astype(np.float64)
        fine = np.abs(numbers) <= np.finfo(np.float32).max
        rows = np.flatnonzero(~fine.all(axis=tuple(range(1, x.ndim))))
        if rows.size:
            refused.append(
                f"{path}, row {rows[0] + 1}: 'x' holds NaN, infinite numbers or some beyond float32."
            )
            continue
        columns: dict[str, Any] = {label: y}
        if x.ndim > 2:
            images.append(numbers)
        else:
            columns |= {f"x{i}": values for i, values in enumerate(numbers.T)}
        tables.append(Table(path, columns, range(1, len(x) + 1), unit="row"))
    return tables
