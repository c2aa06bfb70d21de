"""Installs the wheel in dist/ into a bare environment of each Python that is there, and tries it as a user would.

    python tools/try_dist.py           # 3.11, 3.12 and 3.13, where installed
    python tools/try_dist.py --torch   # with the torch extra, which trains the digits

Prints a line for each Python: what it brings along in megabytes, and how long it took. Ends with 1 where anything failed,
or nothing was tried. A Python for which pip would bring CUDA libraries, which are gigabytes, is left out, and that is said:
PIP_EXTRA_INDEX_URL names an index with CPU builds of torch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pythons import pythons

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
FUNCTION = """
import fedvalue as fv
values = fv.value(fv.FunctionGame(6, lambda clients: len(clients) ** 0.5, batch=False), budget=20)
assert abs(values.mean.sum() - 6 ** 0.5) < 1e-6, values
"""
WITHOUT_TORCH = "fedvalue[torch]"  # what training says that is missing


class LeftOutError(Exception):
    """Why a Python was not tried."""


def run(*command: str | Path, fails: bool = False) -> str:
    """What a command prints; an error unless it ends as expected."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=900)
    if (done.returncode != 0) != fails:
        raise RuntimeError(
            f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-2000:]}"
        )
    return done.stdout + done.stderr


def tried(python: str, wheel: Path, torch: bool) -> str:
    """One line on how the wheel does with this Python."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "env"
        run(python, "-m", "venv", environment)
        own, command = environment / "bin" / "python", environment / "bin" / "fedvalue"
        before = megabytes(environment)
        what = f"fedvalue[torch] @ {wheel.as_uri()}" if torch else str(wheel)
        pip = (own, "-m", "pip", "install", "--quiet", "--no-compile")
        install = (*pip, "-c", ROOT / "constraints.txt", what)
        if torch:
            refuse_cuda(install, Path(folder) / "resolved.json")
        run(*install)
        brings = megabytes(environment) - before
        version = run(own, "--version").split()[1]
        said = run(command, "--version").strip()
        if said.split()[-1] not in wheel.name:
            raise RuntimeError(f"{wheel.name} says that it is {said}")
        run(own, "-c", FUNCTION)
        digits = (command, "run", "--no-config", "--clients", "3", "--samples", "40", "--budget", "7")
        if torch:
            run(*digits, "--out", Path(folder) / "out")
        elif WITHOUT_TORCH not in run(*digits, fails=True):
            raise RuntimeError("a run without torch does not say how to install it")
    return f"{version:8} {said}, {brings:.0f} MB, {time.monotonic() - began:.0f} s"


def refuse_cuda(install: tuple[str | Path, ...], report: Path) -> None:
    """Leaves the Python out if what would be installed has libraries for GPUs, which no trial here needs."""
    run(*install, "--dry-run", "--report", report)
    resolved = json.loads(report.read_text(encoding="utf-8"))["install"]
    cuda = [name for one in resolved if (name := one["metadata"]["name"]).startswith("nvidia-")]
    if cuda:
        raise LeftOutError(
            f"with torch come {len(cuda)} packages of CUDA, gigabytes in all. "
            "Name an index that has CPU builds of torch: PIP_EXTRA_INDEX_URL=… make dist"
        )


def megabytes(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--torch", action="store_true")
    given = parser.parse_args()
    wheels = sorted((ROOT / "dist").glob("fedvalue-*.whl"))
    if len(wheels) != 1:
        print(f"Expected one wheel in dist/, found {len(wheels)}. Run make dist.", file=sys.stderr)
        return 2
    passed = failed = 0
    for python in pythons(PYTHONS):
        try:
            print(tried(python, wheels[0], given.torch), flush=True)
            passed += 1
        except LeftOutError as reason:
            print(f"{python} was left out: {reason}", file=sys.stderr)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"{python}: {error}", file=sys.stderr)
    return int(failed > 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main())
