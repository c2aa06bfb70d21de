"""Killed while it signs, or while results make way: before every change of a file. What was there is there, or what shall be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from alterations import signed_run
from kills import killed_before

import fedvalue as fv
from fedvalue.agreement import read_agreement
from fedvalue.evidence import sign
from fedvalue.run._folder import keep_earlier

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]

_MOST = 60  # changes of files


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    signed_run(folder, reports=False, scenario="synthetic")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """All files but hidden ones, which are drafts."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    }


def test_signing_an_agreement(whole: Path, tmp_path: Path) -> None:
    file, signed = tmp_path / "agreement.json", read_agreement(whole / "agreement.json")
    half = fv.Agreement(signed.terms, signed.signatures[:1])
    half.save(file)
    old, new, stages = file.read_bytes(), (whole / "agreement.json").read_bytes(), 0
    while killed_before(stages, tmp_path, lambda: read_agreement(file).sign(whole / "member").save(file)):
        assert file.read_bytes() in (old, new)
        stages += 1
        assert stages < _MOST
    assert stages >= 2
    assert file.read_bytes() == new


def test_signing_results(whole: Path, tmp_path: Path) -> None:
    run, other, stages = tmp_path / "run", tmp_path / "other", 0
    for copy in (run, other):
        shutil.copytree(whole / "run", copy)
    old = content(run)
    sign(other, whole / "member")
    new = content(other)
    while killed_before(stages, run, lambda: sign(run, whole / "member")):
        assert content(run) in (old, new)
        assert fv.verify(run, whole / "agreement.json").sound
        stages += 1
        assert stages < _MOST
    assert stages >= 2
    assert content(run) == new


def test_results_that_make_way(whole: Path, tmp_path: Path) -> None:
    before, stages = content(whole / "run"), 0
    results = {name: data for name, data in before.items() if not name.startswith("store.db")}
    while True:
        run = tmp_path / f"{stages}"
        shutil.copytree(whole / "run", run)
        killed = killed_before(stages, run, lambda run=run: keep_earlier(run))
        there = content(run)
        kept = {name.split("/", 2)[-1]: data for name, data in there.items() if name.startswith("earlier/")}
        if kept:
            assert kept == results
        else:
            assert there == before
        keep_earlier(run)
        assert results.keys() & content(run).keys() == {"disclosure.json"}  # which run after run is added to
        copies = [content(folder) for folder in (run / "earlier").iterdir() if folder.name[0] != "."]
        assert results in copies
        if not killed:
            break
        stages += 1
        assert stages < _MOST
    assert stages >= len(results)
