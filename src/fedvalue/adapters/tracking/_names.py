"""Names and parameters as every tool takes them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fedvalue._files import json_ready
from fedvalue.adapters.tracking._tools import Plain

__all__ = ["Labels", "flat"]

_OTHER = re.compile(r"[^\w \-]")  # a slash or a dot would be a folder to some tools
_LONGEST_NAME = 60
_LONGEST_TEXT = 500  # what MLflow 3 keeps of a parameter at least


class Labels:
    """Names of clients and metrics in letters, digits, spaces, _ and -. Two names never become one.

    >>> labels = Labels()
    >>> labels.of("a/b"), labels.of("a.b"), labels.of("a/b")
    ('a_b', 'a_b-2', 'a_b')
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, name: str, shown: str | None = None) -> str:
        """The label of what has this name, and is shown to people as `shown`."""
        if name not in self._known:
            clean = _OTHER.sub("_", name if shown is None else shown)[:_LONGEST_NAME].strip() or "_"
            label, number = clean, 1
            while label.casefold() in self._taken:  # some databases do not tell A from a
                number += 1
                label = f"{clean}-{number}"
            self._known[name] = label
            self._taken.add(label.casefold())
        return self._known[name]


def flat(data: Mapping[str, Any]) -> dict[str, Plain]:
    """Parameters without nesting; what is not known is left out.

    >>> flat({"model": {"name": "mlp", "options": {}}, "rows": [3, 4], "budget": None})
    {'model.name': 'mlp', 'rows': '[3, 4]'}
    """
    labels, found = Labels(), dict[str, Plain]()
    for name, value in json_ready(dict(data)).items():
        label = labels.of(name)
        if isinstance(value, dict):
            found |= {f"{label}.{inner}": plain for inner, plain in flat(value).items()}
        elif isinstance(value, (bool, int, float)):
            found[label] = value
        elif value is not None:
            found[label] = _short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return found


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
