"""The manifest of an experiment: what made its numbers. No paths, no names of machines."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedvalue import __version__
from fedvalue_paper.engine import Played
from fedvalue_paper.spec import Experiment, read

__all__ = ["MANIFEST", "command_of", "manifest", "settings_of", "written_settings"]

MANIFEST = "manifest.json"
_FORMAT = "fedvalue.experiment/1"
_PACKAGES = ("numpy", "scipy", "torch", "scikit-learn", "matplotlib", "xgboost-cpu", "xgboost")
_FOR_PEOPLE = ("title", "paper", "claim", "note", "takes", "table", "figures", "seeds")


def settings_of(experiment: Experiment) -> str:
    """A fingerprint of the grid: of everything that rows depend on. Seeds may be added later."""
    grid = {key: value for key, value in asdict(experiment).items() if key not in _FOR_PEOPLE}
    return hashlib.sha256(json.dumps(grid, sort_keys=True, default=str).encode()).hexdigest()[:24]


def manifest(
    experiment: Experiment,
    played: Sequence[Played],
    device: str,
    command: str,
    seconds: float,
    finished: bool,
) -> dict[str, Any]:
    """What there is to know about where the numbers come from."""
    return {
        "format": _FORMAT,
        "experiment": experiment.name,
        "scale": experiment.scale,
        "variant": experiment.variant or None,
        "settings": settings_of(experiment),
        "command": command,
        "finished": finished,
        "seconds_of_last_run": round(seconds, 2),
        "date": datetime.now(UTC).date().isoformat(),
        "seeds": list(experiment.seeds),
        "versions": {"fedvalue": __version__, "python": platform.python_version(), **_versions()},
        "hardware": _hardware(device),
        "games": [_game(game) for game in played],
    }


def command_of(experiment: Experiment, own_data: bool) -> str:
    """How to run this again; folders are the reader's own."""
    usual = read(experiment.name).at(experiment.scale, experiment.variant).seeds
    variant = f" --variant {experiment.variant}" if experiment.variant else ""
    seeds = f" --seeds {len(experiment.seeds)}" if experiment.seeds != usual else ""
    data = " --data-dir DATA" if own_data else ""
    return f"fedvalue reproduce {experiment.name} --scale {experiment.scale}{variant}{seeds}{data}"


def written_settings(folder: Path) -> str | None:
    """The fingerprint of the grid that a folder was made with; None where it does not say."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found.get("settings") if isinstance(found, dict) else None


def _game(game: Played) -> dict[str, Any]:
    described: dict[str, Any] = {"label": game.label, "n": game.n, "game_id": game.game_id}
    if game.scenario is not None:
        described |= {
            "data": game.scenario.name,
            "data_fingerprint": game.scenario.fingerprint,
            "data_files": dict(game.scenario.details.get("sources", {})),
            "samples": [len(data) for data in game.scenario.clients],
            "test_samples": len(game.scenario.test),
        }
    if game.cost is not None:
        described["cost_of_a_training"] = {
            "seconds": "fixed + per_sample * samples",
            **asdict(game.cost),
            "measured": [{"samples": samples, "seconds": seconds} for samples, seconds in game.cost.measured],
        }
    return described


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _hardware(device: str) -> Mapping[str, Any]:
    described = {
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "device": device,
    }
    if device.startswith("cuda"):
        import torch

        described["accelerator"] = torch.cuda.get_device_name(device)
    return described
