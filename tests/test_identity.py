"""Fingerprints: equal for equal content, different for anything that changes a utility."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedvalue as fv
from fedvalue.identity import fingerprint

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def define(source: str, **data: Any) -> Callable[..., Any]:
    """The function `utility` of a module with this source, freshly compiled."""
    module = ModuleType("written_by_a_user")
    module.__dict__.update(data)
    exec(compile(textwrap.dedent(source), "<user>", "exec", dont_inherit=True), module.__dict__)
    found: Callable[..., Any] = module.__dict__["utility"]
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

    def test_the_order_of_mappings_and_sets_does_not_matter(self) -> None:
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
        "same", [BASE, "\n\n" + BASE, "# a comment\n" + BASE, BASE.replace("): ", "):\n    # why\n    ")]
    )
    def test_the_same_code_elsewhere_is_the_same_game(self, same: str) -> None:
        assert game_id(BASE) == game_id(same)

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

    def test_a_helper_of_the_same_file_is_part_of_the_game(self) -> None:
        source = "def score(c): return len(c) * {}\ndef utility(cs): return [score(c) for c in cs]"
        assert game_id(source.format(1)) != game_id(source.format(2))

    @pytest.mark.parametrize(
        "source",
        [
            "class Model:\n    rate = {}\n    def fit(self, c): return len(c) * self.rate",
            "class Model:\n    def fit(self, c): return len(c) * self.rate\n    @property\n    def rate(self): return {}",
            "class Base:\n    rate = {}\nclass Model(Base):\n    def fit(self, c): return len(c) * self.rate",
            "class Model:\n    @staticmethod\n    def fit(c): return len(c) * {}",
            "import dataclasses\n@dataclasses.dataclass\nclass Model:\n    rate: float = 1\n"
            "    def fit(self, c): return len(c) * {}",
        ],
        ids=["attribute", "property", "inherited", "static method", "dataclass"],
    )
    def test_a_class_of_the_same_file_is_part_of_the_game(self, source: str) -> None:
        source += "\ndef utility(cs): return [Model().fit(c) for c in cs]"
        games = [fv.FunctionGame(3, define(source.format(rate))) for rate in (1, 1, 2)]
        assert games[0].id == games[1].id != games[2].id
        assert games[0].doubts == ()

    def test_a_function_that_calls_itself_can_be_identified(self) -> None:
        source = "def utility(cs): return [1.0] + utility(cs[1:]) if cs else []"
        assert game_id(source) == game_id(source)

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
    def test_a_log_that_the_function_writes_is_not_part_of_the_game(self, source: str) -> None:
        log: Any = set() if ".add(" in source else [] if ".append(" in source else {"calls": 0}
        utility = define(source, LOG=log)
        before = fv.FunctionGame(3, utility)
        before([0, 1, 2])
        assert fv.FunctionGame(3, utility).id == before.id

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
                env={"PYTHONHASHSEED": str(seed)},
            ).stdout
            for seed in (1, 2, 3)
        }
        assert len(printed) == 1


class Opaque:
    """Something a fingerprint cannot look into."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, coalitions: list[tuple[int, ...]]) -> list[float]:
        return [self.factor * len(c) for c in coalitions]


@dataclass
class Settings:
    factor: float

    def utility(self, coalitions: list[tuple[int, ...]]) -> list[float]:
        return [self.factor * len(c) for c in coalitions]


class TestDoubts:
    def test_what_cannot_be_looked_into_is_named(self) -> None:
        model = Opaque(2.0)
        assert fv.FunctionGame(3, lambda cs: model(cs)).doubts == ("model (Opaque)",)
        assert fv.FunctionGame(3, model).doubts == ("Opaque (Opaque)",)
        assert fv.FunctionGame(3, model.__call__).doubts != ()

    @pytest.mark.parametrize("known", [define(BASE), Settings(2.0).utility, functools.partial(define(BASE))])
    def test_what_can_be_looked_into_is_not_doubted(self, known: Callable[..., Any]) -> None:
        assert fv.FunctionGame(3, known).doubts == ()

    def test_the_fields_of_a_dataclass_are_part_of_the_game(self) -> None:
        first, same, other = (fv.FunctionGame(3, Settings(f).utility).id for f in (2.0, 2.0, 3.0))
        assert first == same != other

    def test_a_key_leaves_no_doubt(self) -> None:
        assert fv.FunctionGame(3, Opaque(2.0), key="opaque, factor 2").doubts == ()

    def test_a_store_warns_about_doubts_and_only_then(self, tmp_path: Path) -> None:
        with pytest.warns(fv.FedvalueWarning, match=r"Opaque.*key="):
            fv.value(fv.FunctionGame(3, Opaque(2.0)), "equal", store=tmp_path / "a.db")
        fv.value(fv.FunctionGame(3, Opaque(2.0)), "equal")
        fv.value(fv.FunctionGame(3, Opaque(2.0), key="k"), "equal", store=tmp_path / "a.db")
        fv.value(fv.FunctionGame(3, define(BASE)), "equal", store=tmp_path / "a.db")
