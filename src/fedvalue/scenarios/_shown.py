"""A scenario in words: what its rows are, and a line per client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedvalue._text import bars, count, one_line, plain_table, plural

if TYPE_CHECKING:
    from fedvalue.scenarios._base import Scenario

__all__ = ["scenario_lines"]


def scenario_lines(scenario: Scenario, unicode: bool = True) -> list[str]:
    """Rows, features and classes, then clients and test set; bars of labels in ASCII where wanted."""
    plain = scenario.describe()
    what = f"{plain['classes']} classes" if plain["classes"] else plain["task"]
    shape = _shape(plain["shape"])
    features = f"{shape} words of {plain['vocabulary']}" if plain["vocabulary"] else f"features {shape}"
    details = scenario.details
    return [
        f"{one_line(scenario.name)}: {plural(scenario.n, 'client')}, partition {details.get('partition', '–')}",
        f"{what}, {features}, seed {details.get('seed', '–')}",
        f"fingerprint {scenario.fingerprint[:24]}",
        "",
        *_parties(plain, unicode).splitlines(),
        *(f"test part {one_line(name)}: {count(rows)} rows" for name, rows in plain["test_parts"].items()),
        *(f"Note: {one_line(warning)}" for warning in details.get("warnings", ())),
    ]


def _shape(shape: Any) -> str:
    """Of one row: numbers with crosses between, for several inputs after their names."""
    if isinstance(shape, Mapping):
        return ", ".join(f"{one_line(name)} {_shape(part)}".rstrip() for name, part in shape.items())
    if any(isinstance(part, list) for part in shape):
        return ", ".join(_shape(part) or "1" for part in shape)
    return " × ".join(map(str, shape))


def _parties(plain: Mapping[str, Any], unicode: bool) -> str:
    rows = [*plain["clients"], {"name": "(test set)", **plain["test"]}]
    if not plain["classes"]:
        return plain_table(
            ["client", "samples", "mean target", "sd"],
            [
                [row["name"], count(row["samples"]), _number(row.get("mean")), _number(row.get("sd"))]
                for row in rows
            ],
        )
    return plain_table(
        ["client", "samples", f"labels 0 … {plain['classes'] - 1}", "classes"],
        [
            [
                row["name"],
                count(row["samples"]),
                *_labels(row.get("labels"), unicode),
            ]
            for row in rows
        ],
    )


def _labels(rows_by_class: Sequence[int] | None, unicode: bool) -> tuple[str, str]:
    """Their bars and how many classes there are; labels of rows that are elsewhere are not known."""
    if rows_by_class is None:
        return "–", "–"
    return bars(rows_by_class, unicode), str(sum(rows > 0 for rows in rows_by_class))


def _number(number: float | None) -> str:
    return "–" if number is None else f"{number:.4g}"
