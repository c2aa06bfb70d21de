"""Bridges to other packages, one file each. Nothing here is imported unless it is asked for."""

from __future__ import annotations

__all__: list[str] = []
