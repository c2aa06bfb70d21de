"""Packages that fedvalue can do without: imported where they are needed, or one sentence on how to get them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fedvalue.errors import MissingExtraError

__all__ = ["EXTRAS", "is_installed", "limited_threads", "need"]

# Package → its name for people, and what pip installs to get it.
EXTRAS: dict[str, tuple[str, str]] = {
    "torch": ("PyTorch", "fedvalue[torch]"),
    "sklearn": ("scikit-learn", "fedvalue[sklearn]"),
    "xgboost": ("XGBoost", "fedvalue[xgboost]"),
    "flwr": ("Flower", "fedvalue[flower]"),
    "cryptography": ("cryptography", "fedvalue[evidence]"),
    "ray": ("Ray", "fedvalue[ray]"),
    "pandas": ("pandas", "fedvalue[pandas]"),
    "shapiq": ("shapiq", "fedvalue[shapiq]"),
    "pyarrow": ("pyarrow", "fedvalue[parquet]"),
    "PIL": ("Pillow", "fedvalue[images]"),
}


def need(module: str, what: str = "This") -> Any:
    """The module of an optional package, imported; without the package, an error that says how to install it.

    `what` is the thing that needs it, as the beginning of a sentence.

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
        raise MissingExtraError(
            f"{what} needs {name}, which is not installed: pip install '{install}'"
        ) from error
    return import_module(module)


def is_installed(package: str) -> bool:
    """Whether an optional package is there, without importing it."""
    return find_spec(package) is not None


def limited_threads(threads: int) -> AbstractContextManager[Any]:
    """Limits the threads of the numerical libraries that are loaded: at once, and until the end of a `with` block.

    Does nothing without threadpoolctl, which comes with scikit-learn.
    """
    if not is_installed("threadpoolctl"):
        return nullcontext()
    limits: AbstractContextManager[Any] = import_module("threadpoolctl").threadpool_limits(threads)
    return limits
