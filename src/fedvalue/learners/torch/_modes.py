"""Functions of torch that are computed otherwise for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from torch.overrides import TorchFunctionMode

__all__ = ["Function", "Replacing"]

Function: TypeAlias = Callable[..., Any]


class Replacing(TorchFunctionMode):
    """While it is active, other functions are called `instead` of some of torch's, with the same arguments."""

    def __init__(self, instead: Mapping[Function, Function]) -> None:
        super().__init__()
        self.instead = instead

    def __torch_function__(
        self,
        func: Function,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return self.instead.get(func, func)(*args, **(kwargs or {}))
