"""What was learnt from the clients of a folder, fixed: who stays has the same features, whoever comes or goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dirty_folders import CLIENTS, Files, clean, csv_of

from fedvalue.errors import ScenarioError
from fedvalue.scenarios import Scenario, load_scenario, preprocessing_of

AGE, PRICE, WARD, SMOKER, OUTCOME = 0, 2, 7, 8, 9


def folder(path: Path, files: Files) -> Path:
    path.mkdir()
    for name, rows in files.items():
        (path / f"{name}.csv").write_text(csv_of(rows))
    return path


def loaded(path: Path, label: str = "outcome", **options: Any) -> Scenario:
    return load_scenario("files", folder=path, label=label, **options)


def same(one: Scenario, other: Scenario, name: str) -> bool:
    a, b = (s.clients[s.names.index(name)].fingerprint for s in (one, other))
    return a == b


@pytest.fixture
def first(tmp_path: Path) -> Scenario:
    return loaded(folder(tmp_path / "first", clean()))


def changed(files: Files) -> Files:
    """c3 leaves; c4 joins, much older, in a ward of its own and with missing cells."""
    files["c4"] = [list(row) for row in files.pop("c3")]
    for row in files["c4"][1:]:
        row[AGE] = str(int(row[AGE]) + 40)
        row[WARD] = "w"
        row[PRICE] = f"{3 * float(row[PRICE]):.2f}"
    files["c4"][1][1] = ""
    return files


def test_who_stays_has_the_same_features(tmp_path: Path, first: Scenario) -> None:
    path = folder(tmp_path / "second", changed(clean()))
    free, fixed = loaded(path), loaded(path, preprocessing=preprocessing_of(first))
    for name in CLIENTS[:3]:
        assert not same(first, free, name)
        assert same(first, fixed, name)
    assert fixed.test.fingerprint == first.test.fingerprint
    assert fixed.fingerprint_with([c.fingerprint for c in first.clients]) == first.fingerprint
    assert "40 rows with a ward that is not among the fixed categories" in fixed.report.suspicious
    column = next(c for c in fixed.report.columns if c.name == "pressure")
    assert (column.features, column.done) == (1, ("1 missing cell set to the median",))
    assert np.isfinite(fixed.clients[3].x).all()


def test_it_is_learnt_once_and_handed_on(tmp_path: Path, first: Scenario) -> None:
    """From a file or as details have it, time and again."""
    agreed = preprocessing_of(first)
    file = tmp_path / "agreed.json"
    file.write_text(json.dumps(agreed))
    again = loaded(tmp_path / "first", preprocessing=file)
    assert again.fingerprint == first.fingerprint
    assert preprocessing_of(again) == agreed
    path = folder(tmp_path / "second", changed(clean()))
    assert preprocessing_of(loaded(path, preprocessing=file)) == agreed


def test_targets_keep_their_scale(tmp_path: Path) -> None:
    first = loaded(folder(tmp_path / "first", clean()), label="price")
    path = folder(tmp_path / "second", changed(clean()))
    free, fixed = loaded(path, "price"), loaded(path, "price", preprocessing=preprocessing_of(first))
    assert free.scale != first.scale
    assert fixed.scale == first.scale
    assert all(same(first, fixed, name) for name in CLIENTS[:3])


def test_classes_keep_their_numbers(tmp_path: Path) -> None:
    """Also one that nobody has any more."""
    files = clean()
    for name, rows in files.items():
        for row in rows[1:]:
            row[OUTCOME] = {"0": "sick", "1": "well"}[row[OUTCOME]]
        if name in ("c3", "test"):
            rows[1][OUTCOME] = "ill"
    first = loaded(folder(tmp_path / "first", files))
    files.pop("c3")
    for rows in files.values():
        rows[2][OUTCOME] = rows[2][OUTCOME].upper()
    path = folder(tmp_path / "second", files)
    with pytest.raises(ScenarioError, match="the test set has the label 'ill', which no client has"):
        loaded(path)
    fixed = loaded(path, preprocessing=preprocessing_of(first))
    assert fixed.classes == 3
    assert fixed.details["class_names"] == ["ill", "sick", "well"]
    assert all(same(first, fixed, name) for name in CLIENTS[:3])
    files["c0"][3][OUTCOME] = "dead"
    with pytest.raises(
        ScenarioError, match=r"c0\.csv, line 4: the label 'dead' is not among the classes that are fixed"
    ):
        loaded(folder(tmp_path / "third", files), preprocessing=preprocessing_of(first))


def test_marks_of_missing_cells_stay(tmp_path: Path) -> None:
    files = clean()
    files["c3"][1][AGE] = ""
    first = loaded(folder(tmp_path / "first", files))
    files.pop("c3")
    fixed = loaded(folder(tmp_path / "second", files), preprocessing=preprocessing_of(first))
    assert all(same(first, fixed, name) for name in CLIENTS[:3])


@pytest.mark.parametrize(
    ("place", "cell", "match"),
    [
        (AGE, "old", "column 'age' holds numbers, but here 'old'"),
        (SMOKER, "maybe", "holds yes and no, but here 'maybe'"),
    ],
)
def test_what_does_not_go_with_it_is_refused_by_place(
    tmp_path: Path, first: Scenario, place: int, cell: str, match: str
) -> None:
    files = clean()
    files["c1"][4][place] = cell
    with pytest.raises(ScenarioError, match=match):
        loaded(folder(tmp_path / "second", files), preprocessing=preprocessing_of(first))


def test_other_columns_labels_or_tasks_are_refused(tmp_path: Path, first: Scenario) -> None:
    agreed, path = preprocessing_of(first), tmp_path / "first"
    with pytest.raises(ScenarioError, match=r"fixes columns that these files have not: \['age'\]"):
        loaded(path, preprocessing=agreed, drop="age")
    with pytest.raises(ScenarioError, match=r"fixes label=outcome\. Got 'price'"):
        loaded(path, label="price", preprocessing=agreed)
    with pytest.raises(ScenarioError, match="fixes task=classification"):
        loaded(path, task="regression", preprocessing=agreed)
    files = {
        name: [[*row, "1"] if k else [*row, "new"] for k, row in enumerate(rows)]
        for name, rows in clean().items()
    }
    with pytest.raises(ScenarioError, match="Column 'new' is not among those"):
        loaded(folder(tmp_path / "second", files), preprocessing=agreed)


@pytest.mark.parametrize(
    "damage",
    [lambda p: {}, lambda p: [], lambda p: {**p, "format": "x"}, lambda p: {**p, "columns": [{"name": "a"}]},
     lambda p: {k: v for k, v in p.items() if k != "classes"}, lambda p: {**p, "target": {"center": 1}},
     lambda p: {**p, "columns": [{**p["columns"][0], "kind": "free"}]},
     lambda p: {**p, "columns": [{**p["columns"][0], "spread": 0}]}],
)  # fmt: skip
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, first: Scenario, damage: Any) -> None:
    with pytest.raises(ScenarioError, match="preprocessing"):
        loaded(tmp_path / "first", preprocessing=damage(preprocessing_of(first)))
    with pytest.raises(ScenarioError, match="Cannot read"):
        loaded(tmp_path / "first", preprocessing=tmp_path / "none.json")


def test_arrays_are_fixed_too(tmp_path: Path) -> None:
    def write(path: Path, names: str) -> Path:
        path.mkdir()
        for name in (*names, "test"):
            drawn = np.random.default_rng(sum(map(ord, name)))
            x = drawn.normal(ord(name[0]), 1, (30, 3))
            np.savez(path / f"{name}.npz", x=x, y=drawn.integers(0, 2, 30))
        return path

    first = load_scenario("files", folder=write(tmp_path / "one", "abc"))
    fixed = load_scenario(
        "files", folder=write(tmp_path / "two", "abcd"), preprocessing=preprocessing_of(first)
    )
    assert [same(first, fixed, name) for name in "abc"] == [True] * 3
    assert preprocessing_of(load_scenario("digits", clients=2)) is None
