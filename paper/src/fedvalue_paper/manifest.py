"""The manifest of an experiment: what made its numbers. No paths, no names of machines."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedvalue import __version__
from fedvalue_paper.engine import Played
from fedvalue_paper.sources import sources_digest
from fedvalue_paper.spec import Experiment, read

__all__ = [
    "MANIFEST",
    "command_of",
    "is_older",
    "manifest",
    "part_of_run",
    "settings_of",
    "written_manifest",
    "written_parts",
    "written_settings",
]

MANIFEST = "manifest.json"
_FORMAT = "fedvalue.experiment/1"
_PACKAGES = ("numpy", "scipy", "torch", "scikit-learn", "matplotlib", "xgboost-cpu", "xgboost")
_FOR_PEOPLE = ("title", "paper", "claim", "note", "takes", "table", "figures", "seeds", "settings")


def settings_of(experiment: Experiment) -> str:
    """A fingerprint of the grid: of everything that rows depend on. Seeds may be added later."""
    grid = {key: value for key, value in asdict(experiment).items() if key not in _FOR_PEOPLE}
    return hashlib.sha256(json.dumps(grid, sort_keys=True, default=str).encode()).hexdigest()[:24]


def manifest(
    experiment: Experiment,
    played: Sequence[Played],
    device: str,
    command: str,
    parts: Sequence[Mapping[str, Any]],
    finished: bool,
) -> dict[str, Any]:
    """What there is to know about where the numbers come from.

    `parts` are the processes that the run took, one after the other: more than one where it was resumed.
    """
    return {
        "format": _FORMAT,
        "experiment": experiment.name,
        "scale": experiment.scale,
        "variant": experiment.variant or None,
        "settings": settings_of(experiment),
        "command": command,
        "finished": finished,
        "resumed": len(parts) > 1,
        "parts": [dict(part) for part in parts],
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


def part_of_run(device: str) -> dict[str, Any]:
    """A process that works on a run, as it begins; its seconds are known when it ends."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "sources": sources_digest(),
        "device": device,
        "seconds": None,
        "finished": False,
    }


def written_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder; empty where there is none that can be read."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def written_parts(folder: Path) -> list[dict[str, Any]]:
    """The processes that worked on a run so far."""
    return list(written_manifest(folder).get("parts", ()))


def is_older(folder: Path) -> bool:
    """Whether what lies in a folder was made with other settings than those of today."""
    record = written_manifest(folder)
    experiment = read(record["experiment"]).at(record["scale"], record["variant"] or "")
    return bool(record["settings"] != settings_of(experiment))


def written_settings(folder: Path) -> str | None:
    """The fingerprint of the grid that a folder was made with; None where it does not say."""
    return written_manifest(folder).get("settings")


def _commit() -> str | None:
    """The commit of the code that runs, with "-dirty" where files were changed since; None outside a checkout."""
    here = Path(__file__).resolve()

    def git(*args: str) -> str:
        asked = ["git", "-C", str(here.parent), *args]
        return subprocess.run(asked, capture_output=True, check=True, text=True, timeout=30).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)  # a package that is installed inside another's checkout
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None


def _game(game: Played) -> dict[str, Any]:
    described: dict[str, Any] = {"label": game.label, "n": game.n, "game_id": game.game_id}
    if game.kept is not None:
        known = len(game.kept.utilities)
        described |= {
            "empty": {"rule": game.kept.empty_rule, "utility": game.kept.utilities.get(0)},
            "coalitions": {
                "trained_by_last_part": game.trained_here,
                "from_store": known - game.trained_here,
            },
        }
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
