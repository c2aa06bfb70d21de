"""Experiments as data: a TOML file per table or figure of the paper, one engine for all of them.

A file names games, methods, budgets and seeds for three scales; the engine runs the grid and leaves rows, an
aggregated table, figures and a manifest. To add an experiment: a file in `experiments`.
"""

from fedvalue_paper.spec import SCALES, Experiment, names, read

__all__ = ["SCALES", "Experiment", "names", "read"]
