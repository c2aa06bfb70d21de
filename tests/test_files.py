"""Files that are read back: nothing in them may mean two things."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import fedvalue as fv
from fedvalue._files import sealed, write_json
from fedvalue.agreement import Party, make_key, read_public_line
from fedvalue.run import read_record, read_values


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("left")
    make_key(folder / "key")
    job = fv.Job("synthetic", clients=2, samples=12, method="exact", out=folder / "run")
    result = job.run(report=False)
    job.agree(Party("Clearing", read_public_line(folder / "key.pub"))).save(folder / "agreement.json")
    write_json(folder / "run" / "payout.json", sealed(result.payout(100).to_dict()))
    return folder


def twice(file: Path, name: str) -> None:
    """The same name once more, with the value that it had: whoever takes the last one notices nothing."""
    text = file.read_text(encoding="utf-8")
    file.write_text(
        re.sub(rf'"{name}":', rf'"{name}": "another",\n"{name}":', text, count=1), encoding="utf-8"
    )


@pytest.mark.parametrize("kind", ["values", "run", "agreement", "payout"])
def test_what_is_said_twice_is_damaged(left: Path, tmp_path: Path, kind: str) -> None:
    shutil.copytree(left, tmp_path / "left")
    run = tmp_path / "left" / "run"
    file, name = {
        "values": (run / "values.json", "method"),
        "run": (run / "run.json", "method"),
        "payout": (run / "payout.json", "rule"),
        "agreement": (tmp_path / "left" / "agreement.json", "rule"),
    }[kind]
    twice(file, name)
    said = f"damaged: '{name}' is in it twice"
    if kind == "payout":
        found = fv.verify(run)
        assert [said in line for line in found.lines() if line.startswith("WRONG")] == [True]
        with pytest.raises(fv.InputError, match=said):
            fv.payout(fv.Values([1.0], ("a",), "exact", 2), 100, absent=f"last-period={file}")
        return
    read = {"values": read_values, "run": read_record, "agreement": fv.read_agreement}[kind]
    with pytest.raises(fv.InputError, match=said):
        read(file)


def test_a_period_that_says_something_twice_is_damaged(tmp_path: Path) -> None:
    periods = fv.Periods(tmp_path)
    periods.close("one", fv.Job("synthetic", clients=2, samples=12, method="exact"), pot=10)
    twice_in = tmp_path / "periods" / "0001.json"
    text = twice_in.read_text(encoding="utf-8")
    twice_in.write_text(text.replace('"paid":', '"paid": "9.00", "paid":', 1), encoding="utf-8")
    with pytest.raises(fv.InputError, match="'paid' is in it twice"):
        _ = periods.closed
