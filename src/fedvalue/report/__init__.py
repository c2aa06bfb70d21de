"""Figures. matplotlib is imported here and nowhere else, so that `import fedvalue` stays light."""

from __future__ import annotations

from fedvalue.report.plots import FigureSpec, draw, save

__all__ = ["FigureSpec", "draw", "save"]
