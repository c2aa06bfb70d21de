"""What is suspicious about single files: columns that lie far from everybody else's, wild cells, copied rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._text import percent, plural, shortened
from fedvalue.scenarios._scale import Scale, common_scale, own_scale
from fedvalue.scenarios._tables import Table, texts

__all__ = ["far_findings", "row_findings"]

_SHIFTED = 5.0  # spreads by which a client's centre may differ: groups of people differ by one or two
_WIDER = 20.0  # times that it may spread as much: other units differ by 60, 100, 1,000
_WILD = 100.0  # spreads by which a single cell may lie off
_ENOUGH = 20  # rows from which on a small spread says something
_SENTINELS = [-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0]


def far_findings(
    name: str, values: Sequence[NDArray[np.float64]], tables: Sequence[Table], clients: int
) -> list[list[str]]:
    """Per file, what is odd about its numbers in this column, compared with all clients'."""
    known = [part[~np.isnan(part)] for part in values]
    # Many clients may write -999 for nothing: neither it nor the others are measured by a scale that it widens.
    plain = [part[~np.isin(part, _SENTINELS)] for part in known]
    whole = known if not any(map(len, plain[:clients])) else plain
    apart = [_stand_ins(part, _scale_of(whole, clients)) for part in known]
    rests = [part[~np.isin(part, stand_ins)] for part, stand_ins in zip(known, apart, strict=True)]
    common = _scale_of(rests, clients)
    found: list[list[str]] = [[] for _ in values]
    for i, (part, stand_ins, rest) in enumerate(zip(known, apart, rests, strict=True)):
        if not len(part):
            if len(values[i]):
                found[i].append(f"{name} is missing in all rows")
            continue
        for number in stand_ins:
            found[i].append(
                f"{name} is {number:g} in {plural(int((part == number).sum()), 'row')}, far from the rest; if this "
                f"stands for nothing: missing={number:g}"
            )
        others = [k for k, other in enumerate(rests[:clients]) if k != i and len(other)]
        own = own_scale(rest)
        if others and _is_far(own, common, len(rest)):
            there = _scale_of([*(rests[k] for k in others), *rests[clients:]], len(others))
            found[i].append(
                f"{name} lies far from that of the others, as if in other units: about {own.centre:.4g} ± "
                f"{own.spread:.2g}, theirs {there.centre:.4g} ± {there.spread:.2g}"
            )
        else:
            found[i] += _wild_cells(name, values[i], stand_ins, common, tables[i])
        absent = len(values[i]) - len(part)
        if 2 * absent > len(values[i]):
            found[i].append(f"{name} is missing in {percent(absent / len(values[i]))} % of the rows")
    return found


def _scale_of(parts: Sequence[NDArray[np.float64]], clients: int) -> Scale:
    """The common scale of the clients' numbers, which come first; the test set's are behind them."""
    return common_scale(parts[:clients], np.concatenate(parts[clients:]) if parts[clients:] else None)


def _is_far(own: Scale, common: Scale, rows: int) -> bool:
    ratio = own.spread / common.spread
    # Other units move the centre and widen the spread: who spreads more may lie farther off, but not as many times.
    shifted = abs(own.centre - common.centre) > _SHIFTED * common.spread * max(1.0, ratio) ** 0.5
    narrow = rows >= _ENOUGH and 0 < ratio < 1 / _WIDER
    return shifted or ratio > _WIDER or narrow


def _stand_ins(part: NDArray[np.float64], common: Scale) -> list[float]:
    """Numbers such as -999 that occur several times, far from all others: many programs write them for nothing."""
    found: list[float] = []
    for number in sorted(set(part[np.isin(part, _SENTINELS)].tolist())):
        same = part == number
        off = np.abs(part - common.centre) / common.spread
        own = off[same][0]
        if (
            1 < int(same.sum()) < len(part)
            and own > 3
            and own > 1.5 * off[~same & ~np.isin(part, found)].max(initial=0)
        ):
            found.append(number)
    return found


def _wild_cells(
    name: str, values: NDArray[np.float64], known: Sequence[float], common: Scale, table: Table
) -> list[str]:
    with np.errstate(invalid="ignore"):
        wild = np.flatnonzero(
            (np.abs(values - common.centre) / common.spread > _WILD) & ~np.isin(values, known)
        )
    if not wild.size:
        return []
    cell = texts(table.columns[name])[wild[0]] if name in table.columns else f"{values[wild[0]]:.6g}"
    more = f" and {wild.size - 1} more" if wild.size > 1 else ""
    where = f"{table.unit} {table.lines[wild[0]]}"
    return [f"{name} is {shortened(cell, 20)} in {where}{more}, more than a hundred spreads off"]


def row_findings(
    tables: Sequence[Table], clients: int, arrays: NDArray[Any] | None = None
) -> list[list[str]]:
    """Per file, rows that come more than once, and those that another client or the test set has, too.

    `arrays` are their features, if not in columns.
    """
    if arrays is None:
        rows = [_rows_of(table) for table in tables]
    else:
        ends = np.cumsum([len(table) for table in tables])[:-1]
        rows = [[hash(row.tobytes()) for row in part] for part in np.split(arrays, ends)]
    few = arrays is None and len(tables[0].columns) <= 4
    share = 0.5 if few else 0.1  # rows of few cells meet by chance
    found: list[list[str]] = [[] for _ in tables]
    repeats = [len(mine) - len(set(mine)) for mine in rows]
    usual = float(np.median([r / len(mine) for r, mine in zip(repeats, rows, strict=True) if mine] or [0.0]))
    for i, mine in enumerate(rows):
        # Rows of a few categories repeat by nature; where hardly any does, a copy is a copy.
        if len(mine) < 5 or (usual > 0.1 and repeats[i] > 0.1 * len(mine)):
            continue
        if repeats[i] >= max(5, share * len(mine)):
            found[i].append(
                f"{plural(repeats[i], 'row')} of {len(mine)} are further copies of others in this file"
            )
        same = {tables[k].name: _how_many(mine, rows[k]) for k in range(min(i, clients))}
        copied = [name for name, count in same.items() if count >= max(5, share * len(mine))]
        found[i] += [f"{plural(same[name], 'row')} of {len(mine)} also in {name}" for name in copied]
        if i >= clients and not copied:  # a sample of everybody's rows has few of each
            everywhere = _how_many(mine, [row for theirs in rows[:clients] for row in theirs])
            if everywhere >= max(5, 0.5 * len(mine)):
                found[i].append(f"{plural(everywhere, 'row')} of {len(mine)} also at the clients")
    return found


def _how_many(mine: Sequence[int], theirs: Sequence[int]) -> int:
    known = set(theirs)
    return sum(row in known for row in mine)


def _rows_of(table: Table) -> list[int]:
    """A fingerprint of every row, by all its cells."""
    names = sorted(table.columns)
    return [hash(row) for row in zip(*(texts(table.columns[name]) for name in names), strict=True)]
