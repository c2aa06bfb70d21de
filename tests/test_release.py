"""What a release says of itself is the same everywhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedvalue

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("name", "says"), [("CHANGELOG.md", "## [{}]"), ("CITATION.cff", "\nversion: {}\n")])
def test_the_version_is_named(name: str, says: str) -> None:
    assert says.format(fedvalue.__version__) in (ROOT / name).read_text(encoding="utf-8")


def test_the_workflow_tests_on_every_python_that_is_promised() -> None:
    promised = re.findall(
        r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text()
    )
    tested = re.search(r"python: \[(.*)\]", (ROOT / ".github/workflows/ci.yml").read_text())
    assert tested
    assert re.findall(r"3\.\d+", tested[1]) == promised
    assert all(
        f"\n            {version}\n" in (ROOT / ".github/workflows/release.yml").read_text()
        for version in promised
    )


def test_the_image_gets_what_it_copies() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.M)
    allowed = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.M)
    assert {name for line in copied for name in line.split()} == set(allowed)
    assert all((ROOT / name).exists() for name in allowed)


def test_nothing_is_tried_with_libraries_for_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    import try_dist

    def run(*command: str | Path, fails: bool = False) -> str:
        names = ["numpy", "torch", *cuda]
        report = {"install": [{"metadata": {"name": name}} for name in names]}
        Path(command[-1]).write_text(json.dumps(report), encoding="utf-8")
        return ""

    monkeypatch.setattr(try_dist, "run", run)
    cuda: list[str] = []
    try_dist.refuse_cuda(("pip", "install"), tmp_path / "report.json")
    cuda = ["nvidia-nccl-cu13", "nvidia-cublas"]
    with pytest.raises(RuntimeError, match=r"2 packages of CUDA.*PIP_EXTRA_INDEX_URL"):
        try_dist.refuse_cuda(("pip", "install"), tmp_path / "report.json")


def test_a_python_that_is_not_there_is_said() -> None:
    command = [sys.executable, str(ROOT / "tools" / "pythons.py"), "9.98", "9.99"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "None of these Pythons is installed: 9.98, 9.99.\n"
