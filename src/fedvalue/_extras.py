"""Packages that fedvalue can do without: imported where they are needed, or one sentence on how to get them."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fedvalue.errors import InputError, MissingExtraError

__all__ = ["EXTRAS", "axes", "is_installed", "limited_threads", "need"]

# Package → its name for people, and what pip installs to get it.
EXTRAS: dict[str, tuple[str, str]] = {
    "torch": ("PyTorch", "fedvalue[torch]"),
    "sklearn": ("scikit-learn", "fedvalue[sklearn]"),
    "xgboost": ("XGBoost", "fedvalue[xgboost]"),
    "flwr": ("Flower", "fedvalue[flower]"),
    "cryptography": ("cryptography", "fedvalue[evidence]"),
    "ray": ("Ray", "fedvalue[ray]"),
    "pandas": ("pandas", "fedvalue[pandas]"),
    "matplotlib": ("matplotlib", "fedvalue[plots]"),
    "shapiq": ("shapiq", "fedvalue[shapiq]"),
    "pyarrow": ("pyarrow", "fedvalue[parquet]"),
    "transformers": ("transformers", "fedvalue[transformers]"),
    "peft": ("PEFT", "fedvalue[transformers]"),
    "PIL": ("Pillow", "fedvalue[images]"),
    "mlflow": ("MLflow", "fedvalue[mlflow]"),
    "wandb": ("Weights & Biases", "fedvalue[wandb]"),
    "tensorboard": ("TensorBoard", "fedvalue[tensorboard]"),
}


def need(module: str, what: str = "This", extra: str = "") -> Any:
    """The module of an optional package, imported; without the package, an error that says how to install it.

    `what` is the thing that needs it, as the beginning of a sentence; `extra` brings more than the package, where that would
    be missing next.

    >>> need("sklearn.datasets", "The scenario 'digits'").__name__
    'sklearn.datasets'
    """
    package = module.partition(".")[0]
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is there, and misses something itself
            raise
        name, install = EXTRAS[package]
        install = f"fedvalue[{extra}]" if extra else install
        raise MissingExtraError(
            f"{what} needs {name}, which is not installed: pip install '{install}'"
        ) from error
    return import_module(module)


def axes(given: Any, what: str, height: float = 4.8) -> Any:
    """Axes of matplotlib: those given, or new ones of this height in inches. `what` is to be drawn."""
    pyplot = need("matplotlib.pyplot", what)
    if given is None:
        return pyplot.subplots(figsize=(6.4, min(height, 40.0)), layout="constrained")[1]
    if not hasattr(given, "barh"):
        raise InputError(f"ax must be axes of matplotlib, or None. Got a {type(given).__name__}.")
    return given


def is_installed(package: str) -> bool:
    """Whether an optional package is there, without importing it."""
    return find_spec(package) is not None


def limited_threads(threads: int) -> AbstractContextManager[Any]:
    """Limits the threads of the numerical libraries that are loaded: at once, and until the end of a `with` block.

    Does nothing without threadpoolctl, which comes with scikit-learn.
    """
    if not is_installed("threadpoolctl"):
        return nullcontext()
    limits: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(limits=threads)
    return limits


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """The numerical libraries that are loaded. They come with modules: once there are more, they are looked for anew."""
    return import_module("threadpoolctl").ThreadpoolController()
