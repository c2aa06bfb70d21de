"""Names of clients that a store knows, files that a function reads, and data that changes under a game."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fedvalue as fv
from fedvalue.cli import app


def two_to_the(coalitions: list[tuple[int, ...]]) -> list[float]:
    return [float(sum(2**i for i in c)) for c in coalitions]


def game(names: list[str] | None = None) -> fv.FunctionGame:
    return fv.FunctionGame(3, two_to_the, names)


class TestNames:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Path:
        fv.value(game(["a", "b", "c"]), "exact", store=tmp_path / "store.db")
        return tmp_path / "store.db"

    def test_another_order_is_refused_with_both_orders(self, store: Path) -> None:
        with pytest.raises(fv.StoreError, match=r"a, b, c; now they are c, b, a\..*same order"):
            fv.value(game(["c", "b", "a"]), "exact", store=store)

    def test_other_names_are_refused_and_can_be_corrected(self, store: Path) -> None:
        with pytest.raises(fv.StoreError, match=r"a, b, c; now they are a, b, cc\..*store rename"):
            fv.value(game(["a", "b", "cc"]), "exact", store=store)
        with fv.UtilityStore(store) as opened:
            id_ = opened.games()[0].id
        done = CliRunner().invoke(app, ["store", "rename", str(store), id_[:12], "a", "b", "cc"])
        assert done.exit_code == 0
        assert done.output.splitlines() == ["0: a → a", "1: b → b", "2: c → cc"]
        values = fv.value(game(["a", "b", "cc"]), "exact", store=store)
        assert values.cost is not None
        assert values.cost.trained == 0
        with pytest.raises(fv.StoreError, match="now they are a, b, c"):
            fv.value(game(["a", "b", "c"]), "exact", store=store)

    def test_without_names_nothing_is_claimed(self, store: Path, tmp_path: Path) -> None:
        assert fv.value(game(), "exact", store=store).mean.tolist() == [1.0, 2.0, 4.0]
        other = tmp_path / "other.db"
        fv.value(game(), "exact", store=other)
        fv.value(game(["a", "b", "c"]), "exact", store=other)  # the store learns the names
        with pytest.raises(fv.StoreError, match="a, b, c; now they are"):
            fv.value(game(["b", "a", "c"]), "exact", store=other)

    @pytest.mark.parametrize("unnamed", [None, ["client-0", "client-1", "client-2"]])
    def test_usual_names_in_another_order_are_other_names(self, unnamed: Any, tmp_path: Path) -> None:
        swapped = ["client-1", "client-0", "client-2"]
        for first, second in (
            (swapped, unnamed),
            (unnamed, swapped),
            (["client-1", "client-2", "x"], unnamed),
        ):
            store = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
            fv.value(game(first), "exact", store=store)
            with pytest.raises(fv.StoreError, match="The store knows the game"):
                fv.value(game(second), "exact", store=store)

    def test_the_usual_names_are_names_like_others_where_they_are_given(
        self, store: Path, tmp_path: Path
    ) -> None:
        usual, other = ["client-0", "client-1", "client-2"], tmp_path / "other.db"
        with pytest.raises(fv.StoreError, match=r"a, b, c; now they are client-0, client-1, client-2\."):
            fv.value(game(usual), "exact", store=store)
        fv.value(game(), "exact", store=other)
        fv.value(game(usual), "exact", store=other)  # the store learns that these are their names
        fv.value(game(), "exact", store=other)
        with pytest.raises(fv.StoreError, match="now they are a, b, c"):
            fv.value(game(["a", "b", "c"]), "exact", store=other)
        table = fv.TableGame([0.0, 1, 2, 3], names=["a", "b"])
        fv.value(table, "exact", store=other)
        with pytest.raises(fv.StoreError, match="now they are client-0, client-1"):
            fv.value(fv.TableGame([0.0, 1, 2, 3], names=["client-0", "client-1"]), "exact", store=other)

    def test_stores_with_other_names_of_a_game_are_not_merged(self, store: Path, tmp_path: Path) -> None:
        other, unnamed = tmp_path / "other.db", tmp_path / "unnamed.db"
        fv.value(game(["c", "b", "a"]), "exact", store=other)
        fv.value(game(), "exact", store=unnamed)
        with fv.UtilityStore(store) as opened:
            with pytest.raises(fv.StoreError, match=r"a, b, c; now they are c, b, a\..*same order"):
                opened.merge(other)
            assert opened.merge(unnamed).present == 8
        with fv.UtilityStore(unnamed) as opened:
            opened.merge(store)
            assert opened.games()[0].description["names"] == ["a", "b", "c"]

    @pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "b"], "abc"])
    def test_renaming_needs_a_name_for_each(self, names: Any, store: Path) -> None:
        with fv.UtilityStore(store) as opened, pytest.raises(fv.InputError, match="3 different names"):
            opened.rename("function", names)


class TestFiles:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "rows.txt").write_text("2.0")
        return tmp_path

    @staticmethod
    def reads(coalitions: list[tuple[int, ...]]) -> list[float]:
        return [len(c) * float(Path("rows.txt").read_text()) for c in coalitions]

    def test_files_that_are_named_are_no_doubt_and_their_content_counts(self, folder: Path) -> None:
        named = fv.FunctionGame(3, self.reads, files=["rows.txt"])
        assert fv.FunctionGame(3, self.reads).doubts == ("what reads reads from outside (….read_text)",)
        assert named.doubts == ()
        (folder / "copy.txt").write_text("2.0")
        assert fv.FunctionGame(3, self.reads, files=[folder / "copy.txt"]).id == named.id
        (folder / "rows.txt").write_text("3.0")
        assert fv.FunctionGame(3, self.reads, files=["rows.txt"]).id != named.id

    def test_a_file_that_changes_before_the_run_is_noticed(self, folder: Path) -> None:
        named = fv.FunctionGame(3, self.reads, files=["rows.txt"])
        (folder / "rows.txt").write_text("3.0")
        with pytest.raises(fv.GameError, match="changed after the game was made"):
            fv.value(named, "exact", store="store.db")

    def test_files_do_not_cover_what_is_not_in_them(self) -> None:
        def reads(coalitions: list[tuple[int, ...]]) -> list[float]:
            import os

            return [len(c) * float(Path("rows.txt").read_text()) * float(os.environ["X"]) for c in coalitions]

        doubts = fv.FunctionGame(3, reads, files=["rows.txt"]).doubts
        assert doubts == ("what reads reads from outside (os.environ)",)

    @pytest.mark.parametrize("files", [[], ()])
    def test_no_files_cover_nothing(self, files: Any) -> None:
        doubts = ("what reads reads from outside (….read_text)",)
        assert fv.FunctionGame(3, self.reads, files=files).doubts == doubts

    @pytest.mark.parametrize("key", ["", " "])
    def test_a_key_says_something(self, key: str) -> None:
        for make in (
            lambda: fv.FunctionGame(3, self.reads, key=key),
            lambda: fv.Metric("m", self.reads, key=key),
            lambda: fv.Loss("l", self.reads, key=key),
        ):
            with pytest.raises(fv.InputError, match="key must be a text that names data and code"):
                make()

    @pytest.mark.parametrize("files", ["rows.txt", 3, [3], ["missing.txt"], ["a\0b"]])
    def test_files_must_be_paths_that_can_be_read(self, files: Any) -> None:
        with pytest.raises(fv.InputError, match="files"):
            fv.FunctionGame(3, self.reads, files=files)

    def test_metrics_take_them_too(self) -> None:
        def weighted(outputs: Any, labels: Any) -> float:
            return float(Path("rows.txt").read_text())

        assert fv.Metric("weighted", weighted).doubts
        assert not fv.Metric("weighted", weighted, files=["rows.txt"]).doubts


class TestDraws:
    @staticmethod
    def draws(coalitions: list[tuple[int, ...]]) -> list[float]:
        return [len(c) + float(np.random.normal()) for c in coalitions]  # noqa: NPY002

    def test_a_draw_from_common_random_numbers_is_a_doubt(self, tmp_path: Path) -> None:
        said = ("random numbers that draws draws without a seed (np.random.normal)",)
        assert fv.FunctionGame(3, self.draws).doubts == said
        with pytest.raises(fv.GameError, match=r"np\.random\.normal"):
            fv.value(fv.FunctionGame(3, self.draws), "exact", store=tmp_path / "store.db")

    def test_replicates_say_that_the_function_is_noisy(self, tmp_path: Path) -> None:
        noisy = fv.FunctionGame(3, self.draws, replicates=2)
        assert noisy.doubts == ()
        assert fv.value(noisy, "exact", store=tmp_path / "store.db").noise is not None

    def test_a_seed_in_the_caller_is_enough(self) -> None:
        def seeded(coalitions: list[tuple[int, ...]]) -> list[float]:
            np.random.seed(0)  # noqa: NPY002
            return TestDraws.draws(coalitions)

        assert fv.FunctionGame(3, seeded).doubts == ()


def test_data_that_changed_after_the_game_was_made_is_refused_with_a_store(tmp_path: Path) -> None:
    data = np.array([1.0, 2.0, 3.0])
    made = fv.FunctionGame(3, lambda cs: [float(data[list(c)].sum()) for c in cs])
    data[0] = 9.0
    assert fv.value(made, "exact").mean.tolist() == [9.0, 2.0, 3.0]
    with pytest.raises(fv.GameError, match="changed after the game was made"):
        fv.value(made, "exact", store=tmp_path / "store.db")
