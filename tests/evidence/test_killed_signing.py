"""Killed while it signs, or while results make way: before every change of a file. What was there is there, or what shall be."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from alterations import signed_run
from kills import killed_before

import fedvalue as fv
from fedvalue.agreement import make_key, read_agreement, read_public_line
from fedvalue.agreement._keys import sign_with
from fedvalue.evidence import sign
from fedvalue.run._folder import keep_earlier, refuse_signed

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


def test_making_a_key(tmp_path: Path) -> None:
    key, stages = tmp_path / "key", 0
    while killed_before(stages, tmp_path, lambda: make_key(key)):
        if key.exists():  # whole; only its public half may be missing
            was = key.read_bytes()
            with suppress(fv.InputError):
                make_key(key)
            assert key.read_bytes() == was
            assert sign_with(key, b"")[0] == read_public_line(tmp_path / "key.pub")
            for file in (key, tmp_path / "key.pub"):
                file.unlink()
        stages += 1
        assert stages < _MOST
    assert stages >= 4
    assert sign_with(key, b"")[0] == read_public_line(tmp_path / "key.pub")
    assert key.stat().st_mode & 0o077 == 0


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
    base, stages = tmp_path / "base", 0
    shutil.copytree(whole / "run", base)
    (base / "sent" / "to").mkdir(parents=True)
    shutil.copyfile(base / "payout.json", base / "sent" / "to" / "payout.json")
    sign(base, whole / "operator")
    with pytest.raises(fv.InputError, match="is signed"):
        refuse_signed(base / "sent" / "to" / "payout.json")
    before = content(base)
    results = {name: data for name, data in before.items() if not name.startswith("store.db")}
    while True:
        run = tmp_path / f"{stages}"
        shutil.copytree(base, run)
        killed = killed_before(stages, run, lambda run=run: keep_earlier(run))
        there = content(run)
        kept = {name.split("/", 2)[-1]: data for name, data in there.items() if name.startswith("earlier/")}
        if kept:
            assert kept == results
        else:
            assert there == before
        keep_earlier(run)
        assert results.keys() & content(run).keys() == {"disclosure.json"}  # which run after run is added to
        assert killed or not (run / "sent").exists()
        copies = [content(folder) for folder in (run / "earlier").iterdir() if folder.name[0] != "."]
        assert results in copies
        if not killed:
            break
        stages += 1
        assert stages < _MOST
    assert stages >= len(results)
