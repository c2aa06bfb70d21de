"""The app as Flower's hub wants it: its bundle has what it must and nothing of this machine, is installed, and runs."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from flower_processes import alive, until
from flwr.cli.build import build_fab_from_files
from flwr.cli.install import install_from_fab
from flwr.cli.utils import collect_files

import fedvalue as fv
from fedvalue.flower._demo import run_app
from fedvalue.flower._processes import Federation

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own

LONG = 400.0


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return __import__("hub")


def test_the_bundle_has_what_the_hub_wants_and_nothing_of_this_machine(
    hub: ModuleType, tmp_path: Path
) -> None:
    app = hub.write_hub_app(tmp_path / "valuation", "clearing-house")
    fab = hub.bundle(app)
    assert re.fullmatch(r"clearing-house\.valuation\.[0-9]+-[0-9]+-[0-9]+\.[0-9a-f]{8}\.fab", fab.name)
    with zipfile.ZipFile(fab) as bundle:
        files = {name: bundle.read(name).decode() for name in bundle.namelist()}
    assert set(files) == {
        ".info/CONTENT", "LICENSE", "README.md", "pyproject.toml",
        "valuation/__init__.py", "valuation/client_app.py", "valuation/server_app.py",
    }  # fmt: skip
    project = tomllib.loads(files["pyproject.toml"])
    assert project["project"]["version"] == fv.__version__
    assert len(project["project"]["description"]) <= 200
    assert any(need.startswith("fedvalue[") for need in project["project"]["dependencies"])
    assert project["tool"]["flwr"]["app"]["publisher"] == "clearing-house"
    for text in files.values():
        assert not re.search(r"/(home|root|work|tmp|Users)/", text)
        assert str(ROOT) not in text
    # What the hub does with an upload: it checks the files, and builds the bundle again by its strictest format.
    publish = importlib.import_module("flwr.cli.app_cmd.publish")
    publish._validate_files(publish._collect_file_paths(app))
    again, metadata = build_fab_from_files(collect_files(app))
    assert again == fab.read_bytes()
    assert (metadata.fab_format_version, metadata.flwr_version_target) == (1, "1.41.0")


def test_only_what_was_written_before_goes(
    hub: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, earlier = tmp_path / "mine.txt", tmp_path / "one.valuation.0-1-0.ab.fab"
    mine.touch()
    earlier.touch()
    monkeypatch.setattr(hub, "bundle", lambda app: app)
    for publisher, ends in (('a"b', 2), ("clearing-house", None)):
        monkeypatch.setattr("sys.argv", ["hub.py", str(tmp_path), "--publisher", publisher])
        if ends is None:
            hub.main()
            continue
        with pytest.raises(SystemExit) as ended:
            hub.main()
        assert ended.value.code == ends
        assert earlier.exists()
    assert (mine.exists(), earlier.exists()) == (True, False)


def test_what_the_readme_shows_are_settings_of_the_app(hub: ModuleType, tmp_path: Path) -> None:
    app = hub.write_hub_app(tmp_path / "valuation", "clearing-house")
    config = tomllib.loads((app / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["flwr"]["app"][
        "config"
    ]
    readme = (app / "README.md").read_text(encoding="utf-8")
    shown = {
        name
        for options in re.findall(r"--run-config '(.*?)'", readme)
        for name in re.findall(r"([\w-]+)=", options)
    }
    assert shown >= {"clients", "data", "test", "out"}
    assert shown <= set(config)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread", "all_untrained_models")
def test_the_installed_bundle_runs_in_a_simulation(hub: ModuleType, tmp_path: Path) -> None:
    """On the digits, as it stands."""
    pytest.importorskip("ray", reason="Flower simulates with Ray: the extra ray")
    made = [sys.executable, str(ROOT / "tools" / "hub.py"), str(tmp_path / "hub")]
    subprocess.run(made, check=True, capture_output=True, timeout=120)
    (fab,) = (tmp_path / "hub").glob("fedvalue.valuation.*.fab")
    app = install_from_fab(fab, tmp_path / "installed", skip_prompt=True)
    settings = {"clients": 3, "method": "exact-cc", "rounds": 2, "epochs": 1}
    with Federation(tmp_path) as federation:
        federation.link_options = ("--insecure", "--simulation")
        federation.run_options = ("--federation-config", "num-supernodes=3")
        federation.start_link()
        values = run_app(federation, app, tmp_path / "out", settings, LONG)
    until(lambda: not alive(tmp_path), f"the end of {alive(tmp_path)}", 40)
    rules = fv.Training(rounds=2, epochs=1, batch=32, rate=0.01, seed=0)
    game = fv.FederatedGame(fv.load_scenario("digits", clients=3), "mlp", rules)
    assert values.game_id == game.id
    assert values.mean == pytest.approx(fv.value(game, "exact-cc").mean, abs=1e-6)
