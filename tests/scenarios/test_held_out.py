"""Clients tested on rows of their own: which rows these are, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedvalue as fv
from fedvalue.scenarios import by_client


def rows_of(party: fv.Dataset) -> set[bytes]:
    return {x.tobytes() + y.tobytes() for x, y in zip(party.x, party.y, strict=True)}


def parties(sizes: tuple[int, ...]) -> fv.Scenario:
    rng = np.random.default_rng(0)
    clients = tuple(fv.Dataset(rng.normal(size=(size, 2)), rng.integers(0, 2, size)) for size in sizes)
    return fv.Scenario("own", clients, tuple("abcdef")[: len(sizes)], clients[-1], "classification", 2)


def folder(at: Path, *names: str, rows: int = 20) -> Path:
    rng = np.random.default_rng(1)
    for name in names:
        lines = [f"{x:.4f},{'yes' if x > 0 else 'no'}" for x in rng.normal(size=rows)]
        (at / f"{name}.csv").write_text("\n".join(["size,label", *lines]) + "\n")
    return at


class TestTheDraw:
    def test_every_row_is_trained_on_or_tested_on_and_none_is_both(self) -> None:
        before = parties((40, 25, 10))
        after = by_client(before)
        assert after.test_owners == {"a": 0, "b": 1, "c": 2}
        for i, name in enumerate("abc"):
            own = after.test_parts[name]
            assert len(own) == round(0.2 * len(before.clients[i]))
            test = rows_of(fv.Dataset(after.test.x[own], after.test.y[own]))
            assert test | rows_of(after.clients[i]) == rows_of(before.clients[i])
            assert not test & rows_of(after.clients[i])

    def test_it_depends_on_no_other_client(self) -> None:
        before = parties((40, 25, 10))
        other = replace(before, clients=(before.clients[0], before.clients[2], before.clients[1]))
        assert by_client(before).clients[0].fingerprint == by_client(other).clients[0].fingerprint

    def test_labels_keep_their_proportions(self) -> None:
        x = np.arange(100.0)[:, None]
        data = fv.Dataset(x, np.repeat([0, 1], [80, 20]))
        own = by_client(fv.Scenario("own", (data, data), ("a", "b"), data, "classification", 2))
        assert np.bincount(own.test.y[own.test_parts["a"]]).tolist() == [16, 4]

    def test_the_split_is_part_of_the_game(self) -> None:
        plain = fv.load_scenario("synthetic", clients=3, samples=20)
        own = fv.load_scenario("synthetic", clients=3, samples=20, test="by-client")
        third = by_client(plain, 0.3)
        assert len({plain.fingerprint, own.fingerprint, third.fingerprint}) == 3
        assert (
            own.fingerprint
            == fv.load_scenario("synthetic", clients=3, samples=20, test="by-client").fingerprint
        )
        assert own.fingerprint == by_client(plain).fingerprint

    def test_too_few_rows_are_refused_by_name_and_none_are_said(self) -> None:
        with pytest.raises(fv.ScenarioError, match=r"^b has 4 rows: too few to test it on rows of its own"):
            by_client(parties((40, 4)))
        own = by_client(parties((40, 0, 10)))
        assert own.test_owners == {"a": 0, "c": 2}
        assert own.details["warnings"] == ["No test rows of its own: b. What others do for it is not known."]

    @pytest.mark.parametrize("fraction", [0, 0.6, float("nan")])
    def test_fractions_that_leave_nothing_are_refused(self, fraction: float) -> None:
        with pytest.raises(fv.ScenarioError, match="fraction of rows that is held out"):
            by_client(parties((40, 25)), fraction)

    def test_parts_that_are_nobodys_have_no_owners(self) -> None:
        plain = parties((40, 25))
        rows = np.arange(10)
        assert plain.test_owners == {}
        assert replace(plain, test_parts={"a": rows}).test_owners == {}  # there are other test rows
        assert replace(plain, test_parts={"late": np.arange(25)}).test_owners == {}
        assert replace(plain, test_parts={"a": np.arange(25)}).test_owners == {"a": 0}

    def test_what_does_not_go_together_is_refused(self) -> None:
        with pytest.raises(fv.ScenarioError, match="already"):
            by_client(by_client(parties((40, 25))))
        with pytest.raises(fv.ScenarioError, match=r"Unknown test 'by-client '. Did you mean"):
            fv.load_scenario("digits", test="by-client ")
        with pytest.raises(fv.ScenarioError, match="test_size and test_parts do not apply"):
            fv.load_scenario("digits", test="by-client", test_size=10)


class TestFolders:
    def test_without_test_files_rows_are_held_out(self, tmp_path: Path) -> None:
        own = fv.load_scenario(
            "files", data_dir=folder(tmp_path, "bern", "como"), label="label", test="by-client"
        )
        assert {name: len(rows) for name, rows in own.test_parts.items()} == {"bern": 4, "como": 4}
        assert [len(client) for client in own.clients] == [16, 16]

    def test_clients_may_bring_test_files(self, tmp_path: Path) -> None:
        folder(tmp_path, "bern", "como", "dole")
        folder(tmp_path, "test-bern", "test-como", rows=7)
        own = fv.load_scenario("files", data_dir=tmp_path, label="label", test="by-client")
        assert own.test_owners == {"bern": 0, "como": 1}
        assert [len(client) for client in own.clients] == [20, 20, 20]
        assert "No test rows of its own: dole" in own.details["warnings"][0]

    @pytest.mark.parametrize("other", ["test", "test-north"])
    def test_a_test_file_of_nobody_is_refused(self, tmp_path: Path, other: str) -> None:
        folder(tmp_path, "bern", "como", other)
        with pytest.raises(
            fv.ScenarioError, match=rf"{other}\.csv: tested by client, every client has test rows"
        ):
            fv.load_scenario("files", data_dir=tmp_path, label="label", test="by-client")

    def test_a_folder_without_test_is_still_refused_otherwise(self, tmp_path: Path) -> None:
        with pytest.raises(fv.ScenarioError, match="has no test set"):
            fv.load_scenario("files", data_dir=folder(tmp_path, "bern", "como"), label="label")
