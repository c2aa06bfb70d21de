"""Figures of the experiments, with one fixed look for every method."""

from fedvalue_paper.figures.plots import FigureSpec, draw, save

__all__ = ["FigureSpec", "draw", "save"]
