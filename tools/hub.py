"""Writes the valuation app as Flower's hub wants it, and bundles it as the hub will.

    python tools/hub.py build/hub --publisher NAME      # build/hub/valuation, and NAME.valuation.VERSION.HASH.fab beside it

The app is the one of `fedvalue flower init`, with what the hub asks for besides: a README, a license file, the account that
publishes it, and which releases of Flower and fedvalue it needs. `flwr app publish build/hub/valuation` uploads it.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
from pathlib import Path

from fedvalue import __version__
from fedvalue.flower import write_app

ROOT = Path(__file__).parents[1]
NAME = "valuation"
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
DEMONSTRATION = {
    "clients": 2,
    "data": "digits",
    "test": "digits",
}  # two: as many nodes as Flower simulates if nothing is said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--publisher", default="fedvalue", help="the account at Flower's hub (default: fedvalue)"
    )
    given = parser.parse_args()
    if not re.fullmatch(r"[\w-]+", given.publisher):
        parser.error(
            f"An account has a name of letters, digits, hyphens and underscores. Got {given.publisher!r}."
        )
    # Of a folder that somebody names, only what was written here before goes.
    shutil.rmtree(given.folder / NAME, ignore_errors=True)
    for earlier in given.folder.glob(f"*.{NAME}.*.fab"):
        earlier.unlink()
    app = write_hub_app(given.folder / NAME, given.publisher)
    print(bundle(app))
    print(f"To publish it: flwr login supergrid, then flwr app publish {app}")


def write_hub_app(folder: Path, publisher: str) -> Path:
    """The folder that is uploaded."""
    write_app(folder, DEMONSTRATION)
    project = folder / "pyproject.toml"
    project.write_text(for_the_hub(project.read_text(encoding="utf-8"), publisher), encoding="utf-8")
    shutil.copy(ROOT / "LICENSE", folder)
    shutil.copy(ROOT / "tools" / "hub" / "README.md", folder)
    return folder


def for_the_hub(project: str, publisher: str) -> str:
    """The app's pyproject.toml with what the hub asks for (format 1 of bundles)."""
    flwr = flower_releases()
    least = flwr.removeprefix(">=").partition(",")[0]
    next_minor = ".".join([(parts := __version__.split("."))[0], str(int(parts[1]) + 1)])
    needs = f'["flwr{flwr}", "fedvalue[flower,ray]>={__version__},<{next_minor}"]'
    changes = {
        r"^# A valuation as a Flower app\..*$": "# A valuation as a Flower app. Start it with: flwr run . --stream",
        r'^version = ".*"$': f'version = "{__version__}"',
        r'^license = ".*"$': 'license = { file = "LICENSE" }',
        r"^dependencies = \[\].*$": f"dependencies = {needs}",
        r'^publisher = ".*"$': f'publisher = "{publisher}"\nfab-format-version = 1\nflwr-version-target = "{least}.0"',
        r'^fab-include = \["': 'fab-include = ["README.md", "LICENSE", "',
    }
    for pattern, line in changes.items():
        project, count = re.subn(pattern, line, project, flags=re.M)
        if count != 1:
            raise SystemExit(f"The app's pyproject.toml has {count} lines {pattern}, and must have one.")
    return project


def flower_releases() -> str:
    """The releases of Flower that our own extra takes, such as >=1.41,<1.42."""
    found = re.search(r'"flwr(>=[^"]+)"', PROJECT)
    assert found is not None
    return found[1]


def bundle(app: Path) -> Path:
    """The .fab beside the app, as `flwr build` makes it; what the hub would refuse is an error."""
    import tomllib

    from flwr.cli.build import build_fab_from_disk, get_fab_filename

    content = build_fab_from_disk(app)
    config = tomllib.loads((app / "pyproject.toml").read_text(encoding="utf-8"))
    path = app.parent / get_fab_filename(config, hashlib.sha256(content).hexdigest())
    path.write_bytes(content)
    return path


if __name__ == "__main__":
    main()
