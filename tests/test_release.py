"""What a release says of itself is the same everywhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import fedvalue

ROOT = Path(__file__).parents[1]
KNOWN = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "ENTRYPOINT", "CMD"}


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


def instructions() -> list[tuple[str, str]]:
    """Those of the Dockerfile, comments left out and continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.M)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


def in_words(kind: str) -> list[str]:
    return [rest for name, rest in instructions() if name == kind]


def test_the_dockerfile_is_well_formed() -> None:
    """No registry and no daemon are needed to see that stages, arguments and forms are as Docker wants them."""
    assert {name for name, _ in instructions()} <= KNOWN
    stages = [re.search(r" AS (\w+)$", text) for text in in_words("FROM")]
    assert [stage and stage[1] for stage in stages] == ["build", None]
    assert [line.split()[0] for line in in_words("COPY") if "--from" in line] == ["--from=build"]
    said = {line.partition("=")[0] for line in in_words("ARG")}
    used = set(re.findall(r"\$\{(\w+)", " ".join(text for name, text in instructions() if name != "ARG")))
    assert used == said == {"PYTHON", "TORCH_INDEX"}
    for form in ("ENTRYPOINT", "CMD"):
        (command,) = in_words(form)
        assert all(isinstance(word, str) for word in json.loads(command))
    version = next(line for line in in_words("ARG") if line.startswith("PYTHON")).partition("=")[2]
    assert f"Programming Language :: Python :: {version}" in (ROOT / "pyproject.toml").read_text(
        encoding="utf-8"
    )


def test_commands_of_the_image_are_whole_and_its_extras_are_ours() -> None:
    commands = in_words("RUN")
    for command in commands:
        assert subprocess.run(["sh", "-n", "-c", command], capture_output=True).returncode == 0, command
    (extras,) = re.findall(r'"\.\[(.*?)\]"', " ".join(commands))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all(re.search(rf"^{extra} = \[", project, re.M) for extra in extras.split(","))
    for index, expected in (("", []), ("https://e.org/cpu", ["--extra-index-url", "https://e.org/cpu"])):
        expanded = "printf '%s\n' ${TORCH_INDEX:+--extra-index-url \"${TORCH_INDEX}\"}"
        assert expanded.split(" ", 2)[2] in commands[0]
        said = subprocess.run(
            ["sh", "-c", expanded], env={"TORCH_INDEX": index}, capture_output=True, text=True
        )
        assert said.stdout.split() == expected


@pytest.mark.slow
def test_the_image_can_be_built_from_what_it_copies(tmp_path: Path) -> None:
    """By hand, as its first stage does: the folder that is sent, and the wheel that pip makes of it. Nothing is downloaded."""
    context = tmp_path / "build"
    for line in in_words("COPY"):
        if not line.startswith("--from"):
            *sources, into = line.split()
            target = context if into in ("./", *sources) else context / into
            target.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-r", *(str(ROOT / source) for source in sources), str(target)], check=True)
    install = in_words("RUN")[0].partition(" && ")[2]
    alone = f"{sys.executable} -m pip wheel --no-deps --no-build-isolation --wheel-dir {tmp_path}"
    wheel = install.replace("/opt/fedvalue/bin/pip install", alone)
    assert wheel != install
    done = subprocess.run(["sh", "-ec", wheel], cwd=context, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("fedvalue-*.whl"))) as made:
        names = set(made.namelist())
        (commands,) = (made.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    (entry,) = json.loads(in_words("ENTRYPOINT")[0])
    assert f"{entry} = " in commands
    templates = (ROOT / "src").rglob("*.j2")
    assert {path.relative_to(ROOT / "src").as_posix() for path in templates} <= names


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
    with pytest.raises(try_dist.LeftOutError, match=r"2 packages of CUDA.*PIP_EXTRA_INDEX_URL"):
        try_dist.refuse_cuda(("pip", "install"), tmp_path / "report.json")


@pytest.mark.parametrize(
    ("ends", "code"),
    [("fine fine", 0), ("fine left", 0), ("left left", 1), ("fine failed", 1), ("left failed", 1)],
)
def test_a_trial_fails_where_one_failed_or_none_was_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], ends: str, code: int
) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    import try_dist

    def tried(python: str, wheel: Path, torch: bool) -> str:
        if python == "fine":
            return "fine"
        raise try_dist.LeftOutError("CUDA") if python == "left" else RuntimeError("ended with 1")

    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "fedvalue-1.whl").touch()
    for name, value in {"ROOT": tmp_path, "pythons": lambda versions: ends.split(), "tried": tried}.items():
        monkeypatch.setattr(try_dist, name, value)
    monkeypatch.setattr("sys.argv", ["try_dist.py", "--torch"])
    assert try_dist.main() == code
    assert ("left was left out: CUDA" in capsys.readouterr().err) == ("left" in ends)


def test_a_python_that_is_not_there_is_said() -> None:
    command = [sys.executable, str(ROOT / "tools" / "pythons.py"), "9.98", "9.99"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "None of these Pythons is installed: 9.98, 9.99.\n"
