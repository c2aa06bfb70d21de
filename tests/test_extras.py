"""What is given from outside is checked in one way; what is not installed is one sentence."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedvalue._checks import did_you_mean, whole
from fedvalue._extras import EXTRAS, is_installed, limited_threads, need
from fedvalue.errors import BudgetError, InputError, MissingExtraError
from fedvalue.learners import make_learner

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


class TestWhole:
    @pytest.mark.parametrize("given", [3, np.int64(3), np.uint8(3)])
    def test_integers_of_any_kind(self, given: Any) -> None:
        assert type(whole("x", given, 3, 3)) is int

    @pytest.mark.parametrize("given", [2, True, np.True_, 3.0, "3", None, float("nan"), [3], 1 + 0j])
    def test_everything_else(self, given: Any) -> None:
        with pytest.raises(InputError, match=r"^x must be a whole number of at least 3\. Got "):
            whole("x", given, 3)

    def test_bounds_and_kind_of_the_error(self) -> None:
        with pytest.raises(BudgetError, match=r"^x must be a whole number from 1 to 2,000\. Got 2001\.$"):
            whole("x", 2001, 1, 2000, BudgetError)


class TestDidYouMean:
    def test_the_nearest_first(self) -> None:
        near = did_you_mean("cc-neymann", ["exact", "cc", "cc-neyman", "neyman"])
        assert near == "Did you mean 'cc-neyman' or 'neyman'? "

    @pytest.mark.parametrize("name", ["", "quite another", None, 5])
    def test_nothing_alike_is_no_question(self, name: object) -> None:
        assert did_you_mean(name, ["exact", "surrogate"]) == ""


class TestNeed:
    def test_what_is_installed(self) -> None:
        assert need("sklearn.datasets") is sys.modules["sklearn.datasets"]
        assert is_installed("sklearn")

    @pytest.mark.parametrize("package", EXTRAS)
    def test_what_is_not_is_one_sentence_with_its_install_line(
        self, package: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, package, None)
        name, install = EXTRAS[package]
        with pytest.raises(MissingExtraError) as caught:
            need(f"{package}.inner", "The thing")
        assert str(caught.value) == f"The thing needs {name}, which is not installed: pip install '{install}'"
        assert not is_installed(package)

    def test_a_package_that_is_there_and_broken_shows_its_own_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "broken_extra.py").write_text("import not_there_at_all\n")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(ModuleNotFoundError, match="not_there_at_all") as caught:
            need("broken_extra")
        assert not isinstance(caught.value, MissingExtraError)

    @pytest.mark.parametrize("name", ["sklearn:sklearn.linear_model.LogisticRegression", "an object"])
    def test_estimators_in_scenarios_need_torch(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        from sklearn.linear_model import LogisticRegression

        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(MissingExtraError, match=r"needs PyTorch.*fedvalue\[torch\]"):
            make_learner(LogisticRegression() if name == "an object" else name)

    def test_install_lines_name_extras_that_exist(self) -> None:
        extras = PROJECT["optional-dependencies"]
        named = {install.removeprefix("fedvalue[").removesuffix("]") for _, install in EXTRAS.values()}
        assert named <= set(extras)
        whole_set = re.fullmatch(r"fedvalue\[(.*)\]", extras["all"][0])
        assert whole_set is not None
        assert set(whole_set[1].split(",")) == named


def test_threads_are_limited_where_that_is_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    from threadpoolctl import threadpool_info

    before = [pool["num_threads"] for pool in threadpool_info()]
    with limited_threads(1):
        assert {pool["num_threads"] for pool in threadpool_info()} <= {1}
    assert [pool["num_threads"] for pool in threadpool_info()] == before
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    with limited_threads(1):  # and where it is not, nothing happens
        assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_libraries_are_looked_for_again_once_more_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    import threadpoolctl

    looks: list[int] = []
    controller = threadpoolctl.ThreadpoolController
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", lambda: looks.append(1) or controller())
    monkeypatch.setitem(sys.modules, "imported_before", sys)
    for _ in range(3):
        with limited_threads(1):
            pass
    assert len(looks) == 1
    monkeypatch.setitem(sys.modules, "imported_since", sys)
    with limited_threads(1):
        assert len(looks) == 2
