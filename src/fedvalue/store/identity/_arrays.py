"""The content of arrays, tables and tensors as text and bytes, alike on every machine.

Nothing is imported here that the value itself does not come from.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["array_content", "is_array", "parts_of"]

Part = str | bytes
Look = Callable[[Any, str], str]


def is_array(value: object) -> bool:
    """Whether numpy can make an array of it."""
    return hasattr(value, "__array__")


def array_content(array: Any) -> tuple[str, str, bytes] | None:
    """Type, shape and bytes of a numpy array; None where it holds Python objects."""
    import numpy as np

    if array.dtype.hasobject or array.dtype.kind == "T":
        return None
    # Byte order is a property of the machine, not of the data.
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return array.dtype.str, str(array.shape), array.tobytes()


def parts_of(value: Any, where: str, look: Look) -> tuple[Part, ...] | None:
    """What an array, frame or tensor holds; None for anything else. `look` looks into Python objects."""
    np, pd, torch, sparse = map(sys.modules.get, ("numpy", "pandas", "torch", "scipy.sparse"))
    if np is not None and isinstance(value, (np.ndarray, np.generic, np.dtype, np.ufunc)):
        return _of_numpy(np, value, where, look)
    if pd is not None and isinstance(value, (pd.DataFrame, pd.Series, pd.Index)):
        return _of_pandas(pd, value, where, look)
    if torch is not None and isinstance(value, (torch.Tensor, torch.dtype, torch.device)):
        return _of_torch(torch, value, where, look)
    if sparse is not None and sparse.issparse(value):  # keeps notes on itself among its attributes
        entries = value.tocoo()
        places = getattr(entries, "coords", None) or (entries.row, entries.col)
        return "sparse", *(look(part, where) for part in (type(value), value.shape, entries.data, *places))
    return None


def _of_numpy(np: Any, value: Any, where: str, look: Look) -> tuple[Part, ...] | None:
    if isinstance(value, np.dtype):
        return "dtype", str(value.newbyteorder("<").descr)
    if isinstance(value, np.ufunc):
        special = sys.modules.get("scipy.special")
        known = any(getattr(home, value.__name__, None) is value for home in (np, special))
        return ("ufunc", value.__name__) if known else None  # np.frompyfunc hides a function in one
    if isinstance(value, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(value), np.asarray(value.fill_value)
        return "masked", *(look(part, where) for part in (np.ma.getdata(value), *hidden))
    array = np.asarray(value)
    kind = "scalar" if isinstance(value, np.generic) else "array"
    if type(value) not in (np.ndarray, np.memmap) and kind == "array":
        kind = look((type(value), getattr(value, "__dict__", None)), where)
    content = array_content(array)
    fields = str(array.dtype.newbyteorder("<").descr) if array.dtype.names else ""
    if content is None:
        return kind, fields, str(array.shape), *(look(item, where) for item in array.ravel().tolist())
    return kind, fields, *content


def _of_pandas(pd: Any, value: Any, where: str, look: Look) -> tuple[Part, ...]:
    kind = "" if type(value).__module__.startswith("pandas.") else look(type(value), where)
    if isinstance(value, pd.DataFrame):
        columns = (_column(pd, value.iloc[:, i], where, look) for i in range(value.shape[1]))
        held = [part for column in columns for part in column]
        notes = (look(value.attrs, f"{where}.attrs"),) if value.attrs else ()
        return f"frame {kind}", look(value.columns, where), look(value.index, where), *held, *notes
    if isinstance(value, pd.MultiIndex):
        levels = [
            part for i in range(value.nlevels) for part in _column(pd, value.get_level_values(i), where, look)
        ]
        return f"index {kind}", look(list(value.names), where), *levels
    if isinstance(value, pd.Index):
        return f"index {kind}", look(value.name, where), *_column(pd, value, where, look)
    return (
        f"series {kind}",
        look(value.name, where),
        look(value.index, where),
        *_column(pd, value, where, look),
        *((look(value.attrs, f"{where}.attrs"),) if value.attrs else ()),
    )


def _column(pd: Any, values: Any, where: str, look: Look) -> tuple[Part, ...]:
    if isinstance(values.dtype, pd.CategoricalDtype):
        order = "ordered" if values.dtype.ordered else "unordered"
        codes = values.cat.codes if isinstance(values, pd.Series) else values.codes
        return order, look(values.dtype.categories, where), look(pd.Series(codes).to_numpy(), where)
    numbers = values.to_numpy()
    content = array_content(numbers) if str(values.dtype) == str(numbers.dtype) else None
    if content is not None:
        return content
    cells = (
        "missing" if _is_missing(pd, cell) else _cell(cell, where, look)
        for cell in values.astype(object).tolist()
    )
    return str(values.dtype), str(len(values)), *cells


def _is_missing(pd: Any, cell: Any) -> bool:
    return cell is None or cell is pd.NA or cell is pd.NaT or (isinstance(cell, float) and cell != cell)


def _cell(cell: Any, where: str, look: Look) -> str:
    """Timestamps, periods and intervals say all that they are."""
    return repr(cell) if type(cell).__module__.startswith("pandas.") else look(cell, where)


def _of_torch(torch: Any, value: Any, where: str, look: Look) -> tuple[Part, ...] | None:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__, str(value)
    if value.layout is not torch.strided or value.is_quantized or value.device.type == "meta":
        return None
    flat = value.detach().cpu().resolve_conj().resolve_neg().reshape(-1).contiguous()
    trained = "trained" if value.requires_grad else "constant"
    own = () if type(value).__module__.split(".")[0] == "torch" else (look(type(value), where),)
    notes = {name: held for name, held in vars(value).items() if not name.startswith("_")}
    return (
        "tensor",
        str(value.dtype),
        str(tuple(value.shape)),
        trained,
        flat.view(torch.uint8).numpy().tobytes(),
        *own,
        *((look(notes, where),) if notes else ()),
    )
