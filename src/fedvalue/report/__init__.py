"""Figures of experiments (`plots`) and the report of a run (`run`).

matplotlib is imported here and nowhere else, and only where a figure is drawn: pages are written without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedvalue.report.plots import FigureSpec, draw, save

__all__ = ["FigureSpec", "draw", "save"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fedvalue.report import plots

    return getattr(plots, name)
