"""Settings of the whole program that change what code gives, though nothing in the code names them.

Those that are as Python and the libraries begin with are no part of an identity: so they are nearly always. Others
are, unless the code itself sets them for the whole program: then what was set outside is a doubt.
"""

from __future__ import annotations

import decimal
import locale
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Mentions", "layout_of"]

# What makes code see how an array lies in memory. Otherwise equal content counts as equal: another order of the same
# numbers moves sums by their last bits, as another processor does.
_LAYOUT = (
    "A", "K", "__array_interface__", "as_strided", "c_contiguous", "ctypes", "data_ptr", "f_contiguous", "flags",
    "is_contiguous", "isfortran", "memoryview", "nditer", "storage", "stride", "strides", "untyped_storage",
)  # fmt: skip
_CATCHES = "ExceptHandler"
_RECORDS = ("catch_warnings", "record")
_SUBCLASSES = "__subclasses__"
_FILTERS = ("filterwarnings", "resetwarnings", "simplefilter")


@dataclass
class Mentions:
    """What the code that was read mentions of such settings, and the layouts of the arrays that it refers to."""

    words: set[str] = field(default_factory=set)
    layouts: list[str] = field(default_factory=list)

    def read(self, text: str) -> None:
        """Takes in the text of a definition, as `text_of` writes it: names and texts in quotes."""
        self.words.update(word for word in _WATCHED if f"'{word}'" in text)
        if f"{_CATCHES}(" in text or "'suppress'" in text:
            self.words.add(_CATCHES)

    def content(self) -> list[str]:
        """What of the surroundings belongs to the identity; mostly nothing."""
        unusual = (f"{setting.name}: {text}" for setting, text in self._unusual() if not self._sets(setting))
        return [*unusual, *(self.layouts if self.words.intersection(_LAYOUT) else ())]

    def doubts(self, apart: bool) -> Iterator[str]:
        """What cannot be covered. `apart`: the code runs in processes that begin with the usual settings."""
        for setting, text in self._unusual():
            if self._sets(setting):
                yield f"{setting.name} ({text}), which was set before and which the code sets for the whole program, too"
            elif apart:
                yield f"{setting.name} ({text}), which fresh processes do not have: set it in the function"
        if _SUBCLASSES in self.words:
            yield f"the subclasses of a class ({_SUBCLASSES}), which may be made anywhere"
        if self.words.issuperset(_RECORDS) and not self.words.intersection(_FILTERS):
            yield "the warnings that the code records, which depend on filters that are set outside (warnings.simplefilter inside)"

    def _unusual(self) -> Iterator[tuple[_Setting, str]]:
        for setting in _SETTINGS:
            if setting.only_where is None or setting.only_where in self.words:
                text = setting.read()
                if text:
                    yield setting, text

    def _sets(self, setting: _Setting) -> bool:
        return not self.words.isdisjoint(setting.set_by) and self.words.isdisjoint(setting.undone_by)


@dataclass(frozen=True)
class _Setting:
    """`read` gives what is not as usual, or nothing; `set_by` are words by which code sets it itself, and by those of
    `undone_by` it does so for a while only."""

    name: str
    read: Callable[[], str]
    set_by: tuple[str, ...]
    undone_by: tuple[str, ...] = ()
    only_where: str | None = None  # it matters to no other code


def _decimal() -> str:
    now, usual = decimal.getcontext(), decimal.Context()
    facts = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
    changed = [f"{fact}={getattr(now, fact)}" for fact in facts if getattr(now, fact) != getattr(usual, fact)]
    traps = sorted(signal.__name__ for signal, trapped in now.traps.items() if trapped != usual.traps[signal])
    return ", ".join([*changed, *(f"trap of {name}" for name in traps)])


def _numpy_errors() -> str:
    numpy = sys.modules.get("numpy")
    told = numpy.geterr() if numpy is not None else {}
    return ", ".join(f"{kind}={how}" for kind, how in sorted(told.items()) if how in ("call", "raise"))


def _locale() -> str:
    told = {name: locale.setlocale(getattr(locale, name)) for name in _LOCALE if hasattr(locale, name)}
    return ", ".join(f"{name}={where}" for name, where in told.items() if where != "C")


def _errors_for_warnings() -> str:
    errors = [place for place, (action, *_) in enumerate(warnings.filters) if action == "error"]
    decisive = warnings.filters[: errors[-1] + 1] if errors else []  # the first that fits counts
    return "; ".join(
        f"{action} {message} {getattr(kind, '__name__', kind)} {module} {line}"
        for action, message, kind, module, line in decisive
    )


def _torch_numbers() -> str:
    torch = sys.modules.get("torch")
    kind = str(torch.get_default_dtype()) if torch is not None else ""
    return "" if kind == "torch.float32" else kind


def _mpmath() -> str:
    mpmath: Any = sys.modules.get("mpmath")
    bits = mpmath.mp.prec if mpmath is not None else 53
    return "" if bits == 53 else f"prec={bits}"


_LOCALE = ("LC_COLLATE", "LC_MONETARY", "LC_NUMERIC", "LC_TIME")
_SETTINGS = (
    _Setting("the context of decimal", _decimal, ("getcontext", "setcontext"), ("localcontext",)),
    _Setting("numpy's handling of errors", _numpy_errors, ("seterr", "seterrcall"), ("errstate",)),
    _Setting("the locale", _locale, ("setlocale",)),
    _Setting("warnings that are errors", _errors_for_warnings, _FILTERS, ("catch_warnings",), _CATCHES),
    _Setting("torch's kind of numbers", _torch_numbers, ("set_default_dtype", "set_default_tensor_type")),
    _Setting("the precision of mpmath", _mpmath, ("dps", "prec"), ("workdps", "workprec")),
)
_WATCHED = frozenset(
    [*_LAYOUT, *_RECORDS, *_FILTERS, _SUBCLASSES]
    + [word for setting in _SETTINGS for word in (*setting.set_by, *setting.undone_by)]
)


def layout_of(value: Any) -> str | None:
    """How an array or tensor lies in memory; None for anything else."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return f"{value.strides} {value.flags.num} {value.flags.owndata}"
    if torch is not None and isinstance(value, torch.Tensor) and value.layout is torch.strided:
        return f"{value.stride()} {value.storage_offset()}"
    return None
