"""Which members of a family of tests belong to the fast part of the suite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_fast(cases: Iterable[Any], keep: int = 1) -> list[Any]:
    """The first cases as they are, the others marked slow: they repeat the test on something similar."""
    return [case if k < keep else _slow(case) for k, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    if hasattr(case, "marks"):  # what pytest.param made
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.slow])
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
