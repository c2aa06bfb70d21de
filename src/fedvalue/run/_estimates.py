"""What a plan returned: looked through once, so that whatever follows can rely on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import as_array
from fedvalue.errors import MethodError
from fedvalue.estimators import ESTIMATORS, GUARANTEES, Method
from fedvalue.values import PARTS, Estimate

__all__ = ["checked_estimate"]

Array = NDArray[np.float64]

_ROUNDING = 1e-6  # of the largest variance
_MOST_FOR_EIGENVALUES = 500  # clients: beyond, they take longer than they are worth


def checked_estimate(n: int, method: Method, returned: Any) -> Estimate:
    """The estimate with arrays of its own; one that cannot be is refused."""
    name = method.name
    if not isinstance(returned, Estimate):
        raise MethodError(f"{name} must return an Estimate. Got {str(returned)[:80]!r}.")
    mean = _numbers(name, "values", returned.mean)
    if mean.shape != (n,):
        raise MethodError(f"{name} must return one value per client ({n}). Got shape {mean.shape}.")
    _all_finite(name, "value", mean)
    stderr, dof = returned.stderr, returned.dof
    if stderr is not None:
        stderr = _numbers(name, "standard errors", stderr)
        _all_finite(name, "standard error", stderr)
        if stderr.shape != (n,) or stderr.min() < 0:
            raise MethodError(f"{name} must return a standard error of at least 0 per client, or none.")
    if dof is not None:
        dof = _numbers(name, "degrees of freedom", dof)
        if dof.shape != (n,) or not (dof > 0).all():
            raise MethodError(
                f"{name} must return degrees of freedom (dof) above 0 per client, or none. Got {dof.tolist()}."
            )
    if not isinstance(returned.parts, Mapping) or set(returned.parts) - set(PARTS):
        raise MethodError(
            f"{name} must return parts as a dict with the keys {', '.join(PARTS)}. Got {str(returned.parts)[:80]}."
        )
    covariance = None if returned.covariance is None else _covariance(name, n, returned.covariance)
    if covariance is not None and stderr is not None:
        _fitting(name, covariance, stderr)
    if covariance is not None and ESTIMATORS.get(name) is not method:  # ours have tests of their own
        _possible(name, covariance)
    _plain(name, returned)
    parts = {part: _covariance(name, n, given) for part, given in returned.parts.items()}
    return replace(returned, mean=mean, stderr=stderr, dof=dof, covariance=covariance, parts=parts)


def _numbers(name: str, what: str, given: Any) -> Array:
    if np.iscomplexobj(given):
        raise MethodError(f"{name} must return finite numbers. Its {what} are complex.")
    found: Array = as_array(given, f"The {what} of {name}", np.float64, MethodError)
    return found


def _all_finite(name: str, what: str, numbers: Array) -> None:
    if not np.isfinite(numbers).all():
        raise MethodError(f"{name} must return finite numbers. A {what} is {numbers.tolist()}.")


def _covariance(name: str, n: int, given: Any) -> Array:
    """A symmetric matrix of finite numbers, up to rounding."""
    matrix = _numbers(name, "covariances", given)
    if matrix.shape != (n, n) or not np.isfinite(matrix).all():
        wrong = f"Got shape {matrix.shape}" if matrix.shape != (n, n) else "One is not finite"
        raise MethodError(f"{name} must return a covariance of {n} by {n} finite numbers, or none. {wrong}.")
    little = _ROUNDING * float(np.abs(matrix).max())
    if np.abs(matrix - matrix.T).max() > little:
        raise MethodError(f"{name} must return a symmetric covariance. What it returned is not.")
    return matrix


def _possible(name: str, covariance: Array) -> None:
    n, little = len(covariance), _ROUNDING * float(np.abs(covariance).max())
    negative = np.diag(covariance).min() < -little
    if n <= _MOST_FOR_EIGENVALUES and not negative:
        negative = float(np.linalg.eigvalsh(covariance)[0]) < -n * little
    if negative:
        raise MethodError(
            f"{name} must return a covariance that gives no combination of values a variance below 0. "
            "What it returned does."
        )


def _fitting(name: str, covariance: Array, stderr: Array) -> None:
    variance = np.diag(covariance)
    if np.abs(variance - stderr**2).max() > 1e-3 * max(float(variance.max()), float(stderr.max()) ** 2):
        raise MethodError(
            f"{name} must return standard errors that are the square roots of the variances in its covariance. "
            f"Got {stderr.tolist()} and variances {variance.tolist()}."
        )


def _plain(name: str, returned: Estimate) -> None:
    """What is shown as it is."""
    if not isinstance(returned.details, Mapping):
        raise MethodError(f"{name} must return details as a dict. Got {str(returned.details)[:80]!r}.")
    notes = returned.notes
    if (
        isinstance(notes, str)
        or not isinstance(notes, Sequence)
        or any(not isinstance(x, str) for x in notes)
    ):
        raise MethodError(f"{name} must return notes as a list of sentences. Got {str(notes)[:80]!r}.")
    if not np.isfinite(_numbers(name, "forecasts", list(returned.forecast))).all():
        raise MethodError(f"{name} must return a forecast of finite numbers. One is not finite.")
    if returned.guarantee is not None and returned.guarantee not in GUARANTEES:
        raise MethodError(
            f"{name} must return one of the guarantees {', '.join(GUARANTEES)}, or none. Got {returned.guarantee!r}."
        )
