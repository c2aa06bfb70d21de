"""Fingerprints of data, functions and objects: equal for equal content, different for any other.

What is said of code as files, in `test_identity.py`.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources import run_cell

import fedvalue as fv
from fedvalue.store import fingerprint

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def define(source: str, **data: Any) -> Callable[..., Any]:
    """The function `utility` of a cell with this source, freshly compiled."""
    found: Callable[..., Any] = run_cell(source, **data)["utility"]
    return found


def game_id(source: str, **data: Any) -> str:
    return fv.FunctionGame(3, define(source, **data)).id


BASE = "def utility(coalitions): return [len(c) * 2.0 for c in coalitions]"


class TestData:
    @given(plain)
    def test_equal_content_has_equal_fingerprints(self, value: Any) -> None:
        again = eval(repr(value))
        assert fingerprint(value) == fingerprint(again)
        assert fingerprint(value)[1] == ()

    def test_different_content_has_different_fingerprints(self) -> None:
        different = [
            None, True, 1, 1.0, -0.0, 0.0, "1", b"1", [1], [[1]], [], {}, set(), {1}, {1: 1}, {1: 2}, {"1": 1},
            [1, 2], [2, 1], ["ab"], ["a", "b"], [1, [2, 3]], [1, 2, 3], [[1, 2], 3], 10**30, 2**64, Path("a"),
            np.array([1, 2]), np.array([1.0, 2.0]), np.array([[1, 2]]), np.array([2, 1]), np.float32([1, 2]),
        ]  # fmt: skip
        digests = [fingerprint(value)[0] for value in different]
        assert len(set(digests)) == len(digests)

    def test_the_order_of_plain_mappings_and_sets_does_not_matter(self) -> None:
        assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
        assert fingerprint({"a", "b", "c"}) == fingerprint({"c", "a", "b"})

    def test_the_layout_of_an_array_in_memory_does_not_matter(self) -> None:
        array = np.arange(12, dtype="<f8").reshape(3, 4)
        for same in (array.copy("F"), array.astype(">f8"), np.repeat(array, 2, axis=0)[::2]):
            assert fingerprint(same) == fingerprint(array)

    def test_a_table_game_is_known_by_its_utilities_alone(self) -> None:
        table = np.arange(8.0)
        assert fv.TableGame(table).id == fv.TableGame(table.tolist(), names=["x", "y", "z"]).id
        assert fv.TableGame(table).id != fv.TableGame(table + 1e-12).id

    def test_plain_data_has_the_digest_that_stores_hold(self) -> None:
        """Should this fail, stores that were written before are not recognised any more."""
        assert fv.TableGame([0, 1, 2, 4.0]).id == "table-24845f05d72f9adc6cb44c90"
        assert fv.FunctionGame(3, len, key="x").id == "function-43d8db200ba25e6b16d00321"


class TestFunctions:
    @pytest.mark.parametrize(
        "changed",
        [
            "def utility(coalitions): return [len(c) * 3.0 for c in coalitions]",
            "def utility(coalitions): return [len(c) + 2.0 for c in coalitions]",
            "def utility(coalitions): return [sum(c) * 2.0 for c in coalitions]",
            "utility = lambda coalitions, factor=2.0: [len(c) * factor for c in coalitions]",
            "def utility(coalitions): return [len(c) * (lambda: 2.5)() for c in coalitions]",
        ],
    )
    def test_other_code_is_another_game(self, changed: str) -> None:
        assert game_id(BASE) != game_id(changed)

    @pytest.mark.parametrize(
        "source",
        [
            pytest.param("def utility(cs): return [DATA[len(c)] for c in cs]", id="global"),
            pytest.param("def utility(cs, *, data=DATA): return [data[len(c)] for c in cs]", id="default"),
            pytest.param(
                "def make(data):\n    def utility(cs): return [data[len(c)] for c in cs]\n    return utility\n"
                "utility = make(DATA)",
                id="closure",
            ),
            pytest.param(
                "def score(c): return DATA[len(c)]\ndef utility(cs): return [score(c) for c in cs]",
                id="helper's global",
            ),
            pytest.param(
                "def utility(cs):\n    def score(c): return DATA[len(c)]\n    return [score(c) for c in cs]",
                id="inner function's global",
            ),
            pytest.param(
                "import functools\ndef score(data, cs): return [data[len(c)] for c in cs]\n"
                "utility = functools.partial(score, DATA)",
                id="partial",
            ),
        ],
    )
    def test_the_data_of_a_function_is_part_of_the_game(self, source: str) -> None:
        data = np.array([0.0, 0.5, 0.75, 0.8])
        assert game_id(source, DATA=data) == game_id(source, DATA=data.copy())
        assert game_id(source, DATA=data) != game_id(source, DATA=data + 1e-9)
        assert game_id(source, DATA=data.tolist()) != game_id(source, DATA=data.tolist()[::-1])

    def test_a_local_name_does_not_refer_to_the_data_of_the_same_name(self) -> None:
        source = "def utility(cs):\n    data = [len(c) for c in cs]\n    return [d for d in data]"
        assert game_id(source, data=1, d=1) == game_id(source, data=2, d=2)

    def test_a_function_that_calls_itself_can_be_identified(self) -> None:
        source = "def utility(cs): return [1.0] + utility(cs[1:]) if cs else []"
        assert game_id(source) == game_id(source)

    def test_functions_that_call_each_other_can_be_identified(self) -> None:
        source = "def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n > {} and even(n - 1)\n" + (
            "def utility(cs): return [float(even(len(c))) for c in cs]"
        )
        first, same, other = (game_id(source.format(least)) for least in (0, 0, 1))
        assert first == same != other

    def test_data_that_holds_itself_can_be_identified(self) -> None:
        loop: list[Any] = [1]
        loop.append(loop)
        assert fv.FunctionGame(3, lambda cs: loop).doubts == ()

    def test_deep_data_is_doubted_and_can_be_valued(self) -> None:
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        game = fv.FunctionGame(2, lambda cs: [float(len(c) + 0 * len(deep)) for c in cs])
        assert game.doubts == ("deep (list)",)
        assert fv.value(game, "exact").mean == pytest.approx([1.0, 1.0])

    @pytest.mark.parametrize(
        "source",
        [
            pytest.param("def utility(cs):\n    LOG.append(len(cs))\n    return [0.0 for c in cs]", id="list"),
            pytest.param("def utility(cs):\n    LOG.update(dict.fromkeys(cs))\n    return [0.0 for c in cs]", id="dict"),
            pytest.param("def utility(cs):\n    LOG.add(len(cs))\n    return [0.0 for c in cs]", id="set"),
            pytest.param("def utility(cs):\n    global LOG\n    LOG = 1\n    return [0.0 for c in cs]", id="rebound"),
            pytest.param("def utility(cs):\n    LOG[len(cs)] = 1\n    return [0.0 for c in cs]", id="item"),
            pytest.param("def utility(cs):\n    LOG['calls'] += 1\n    return [0.0 for c in cs]", id="counted item"),
        ],
    )  # fmt: skip
    def test_a_log_that_the_function_only_writes_is_not_part_of_the_game(self, source: str) -> None:
        log: Any = set() if ".add(" in source else [] if ".append(" in source else {"calls": 0}
        utility = define(source, LOG=log)
        before = fv.FunctionGame(3, utility)
        before([0, 1, 2])
        assert fv.FunctionGame(3, utility).id == before.id
        assert before.doubts == ()

    def test_an_object_that_counts_its_calls_stays_the_same_game_and_is_doubted(self) -> None:
        counting = Counting()
        before = fv.FunctionGame(3, counting)
        before([0, 1, 2])
        assert counting.calls > 0
        assert fv.FunctionGame(3, counting).id == before.id
        assert before.doubts == ("Counting.calls, which methods of Counting change",)  # anything may read it

    @pytest.mark.parametrize("options", [{"batch": False}, {"key": "mine"}])
    def test_how_the_function_is_called_or_named_is_part_of_the_game(self, options: dict[str, Any]) -> None:
        function = define(BASE)
        assert fv.FunctionGame(3, function).id != fv.FunctionGame(3, function, **options).id

    def test_the_number_of_clients_is_part_of_the_game_and_names_and_chunks_are_not(self) -> None:
        function = define(BASE)
        assert fv.FunctionGame(3, function).id != fv.FunctionGame(4, function).id
        assert fv.FunctionGame(3, function).id == fv.FunctionGame(3, function, names="abc", chunk=64).id

    def test_a_key_replaces_the_code(self) -> None:
        first, second = (define(BASE.replace("2.0", factor)) for factor in ("2.0", "3.0"))
        assert fv.FunctionGame(3, first, key="v1").id == fv.FunctionGame(3, second, key="v1").id
        assert fv.FunctionGame(3, first, key="v1").id != fv.FunctionGame(3, first, key="v2").id

    @pytest.mark.slow
    def test_fingerprints_are_the_same_in_every_process(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "import numpy as np, fedvalue as fv\n"
            "WORDS = {'a', 'b', 'c', 'd'}\nDATA = np.arange(4.0)\n"
            "def utility(cs): return [DATA[len(c)] if 'a' in WORDS or len(c) in {1, 2, 3} else 0.0 for c in cs]\n"
            "print(fv.FunctionGame(3, utility).id, fv.TableGame(np.arange(8.0)).id)\n"
        )
        printed = {
            subprocess.run(
                [sys.executable, str(script)],
                check=True,
                capture_output=True,
                text=True,
                env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": str(Path(fv.__file__).parents[1])},
            ).stdout
            for seed in (1, 2, 3)
        }
        assert len(printed) == 1


class Counting:
    """Looks into nothing and counts how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, coalitions: list[tuple[int, ...]]) -> list[float]:
        self.calls += 1
        return [float(len(c)) for c in coalitions]


@dataclass
class Settings:
    factor: float

    def utility(self, coalitions: list[tuple[int, ...]]) -> list[float]:
        return [self.factor * len(c) for c in coalitions]


class Model:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, coalitions: list[tuple[int, ...]]) -> list[float]:
        return [self.factor * len(c) for c in coalitions]


def forever() -> Iterator[int]:
    yield from count()


class TestDoubts:
    @pytest.mark.parametrize("made", [lambda f: Settings(f).utility, Model, lambda f: Model(f).__call__])
    def test_objects_are_known_by_their_class_and_what_they_hold(self, made: Callable[..., Any]) -> None:
        games = [fv.FunctionGame(3, made(factor)) for factor in (2.0, 2.0, 3.0)]
        assert games[0].id == games[1].id != games[2].id
        assert games[0].doubts == ()

    @pytest.mark.parametrize("known", [define(BASE), len, np.sum, functools.partial(define(BASE))])
    def test_what_can_be_looked_into_is_not_doubted(self, known: Callable[..., Any]) -> None:
        assert fv.FunctionGame(3, known).doubts == ()

    def test_what_cannot_be_looked_into_is_named(self) -> None:
        numbers, rng = forever(), np.random.default_rng(0)
        assert fv.FunctionGame(3, lambda cs: [next(numbers) for c in cs]).doubts == ("numbers (generator)",)
        assert fv.FunctionGame(3, lambda cs: rng.normal(size=len(cs))).doubts == ("rng (Generator)",)

    def test_a_weak_reference_is_known_by_what_it_refers_to(self) -> None:
        one, same, other = Settings(1.0), Settings(1.0), Settings(2.0)
        digests = [fingerprint(weakref.ref(it)) for it in (one, same, other)]
        assert digests[0] == digests[1] != digests[2]
        assert digests[0][1] == ()
        assert fingerprint(weakref.ref(one, print)) != digests[0]

    def test_two_lambdas_of_one_line_are_told_apart(self) -> None:
        first, second = (lambda cs: [1.0 for c in cs]), (lambda cs: [2.0 for c in cs])
        assert fv.FunctionGame(3, first).id != fv.FunctionGame(3, second).id
        assert fv.FunctionGame(3, first).doubts == fv.FunctionGame(3, second).doubts == ()

    @pytest.mark.parametrize("how", ["exec", "edited"])
    def test_without_source_text_a_store_needs_a_key(self, how: str, tmp_path: Path) -> None:
        names: dict[str, Any] = {}
        file = tmp_path / "own.py"
        file.write_text(BASE)
        exec(compile(BASE, "<string>" if how == "exec" else str(file), "exec"), names)
        file.write_text(BASE.replace("2.0", "3.0"))  # what is in memory is not what the file says
        reason = "source text cannot be found" if how == "exec" else "file was edited after its import"
        game = fv.FunctionGame(2, names["utility"])
        assert game.doubts == (f"utility, whose {reason}",)
        assert fv.value(game, "exact").mean == pytest.approx([2.0, 2.0])
        with pytest.raises(fv.GameError, match=rf"utility, whose {reason}.*key="):
            fv.value(game, "exact", store=tmp_path / "store.db")
        named = fv.FunctionGame(2, names["utility"], key="two each")
        assert named.doubts == ()
        assert fv.value(named, "exact", store=tmp_path / "store.db").mean == pytest.approx([2.0, 2.0])

    def test_a_store_is_used_without_a_key_where_there_is_no_doubt(self, tmp_path: Path) -> None:
        for _ in range(2):
            values = fv.value(fv.FunctionGame(2, define(BASE)), "exact", store=tmp_path / "store.db")
        assert values.mean == pytest.approx([2.0, 2.0])
        with fv.UtilityStore(tmp_path / "store.db") as store:
            assert [stored.coalitions for stored in store.games()] == [4]

    def test_the_order_of_clients_in_a_dict_is_part_of_the_game(self, tmp_path: Path) -> None:
        """The example of the README, with its hospitals in another order."""
        records = {"Aachen": 900, "Bern": 700, "Empty": 0}

        def accuracy(coalition: tuple[int, ...]) -> float:
            rows = sum(list(records.values())[i] for i in coalition)
            return 0.5 + 0.45 * rows / (rows + 300)

        for _ in range(2):
            game = fv.FunctionGame(3, accuracy, names=list(records), batch=False)
            values = fv.value(game, "exact", store=tmp_path / "hospitals.db")
            assert dict(zip(values.names, values.mean, strict=True))["Empty"] == pytest.approx(0.0)
            records = dict(reversed(records.items()))


def test_notes_on_a_frame_count() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0]})

    def digests() -> tuple[str, str]:
        column = frame["a"].copy()
        column.attrs = dict(frame.attrs)
        return fingerprint(lambda c: frame.attrs.get("scale"))[0], fingerprint(lambda c: column.attrs)[0]

    bare = digests()
    frame.attrs["scale"] = 2.0
    noted = digests()
    del frame.attrs["scale"]
    assert digests() == bare
    assert all(one != other for one, other in zip(bare, noted, strict=True))
