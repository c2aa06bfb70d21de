"""Our other solution concepts against those of shapiq and pyDVL, where they are installed (`make peers`)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fedvalue as fv
from fedvalue.adapters.shapiq import to_shapiq

Array = NDArray[np.float64]
needs_shapiq = pytest.mark.skipif(find_spec("shapiq") is None, reason="shapiq is not installed: make peers")
needs_pydvl = pytest.mark.skipif(find_spec("pydvl") is None, reason="pyDVL is not installed: make peers")
pytestmark = pytest.mark.filterwarnings("ignore")  # theirs


@pytest.fixture(params=[0, 1])
def table(request: pytest.FixtureRequest) -> Array:
    return np.random.default_rng(request.param).normal(size=32)


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A table's values by a valuation of pyDVL."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "bench")
    from _counting import CountingTable
    from _peers_pydvl import fitted

    return lambda table, valuation_of: fitted(CountingTable(table), valuation_of)


def ours(table: Array, index: str) -> Array:
    return fv.value(table, "exact", index=index).mean


def of_shapiq(table: Array, index: str) -> Array:
    import shapiq

    found = shapiq.ExactComputer(to_shapiq(fv.TableGame(table)))(index, 1)
    return np.array([found[(i,)] for i in range(5)])


@needs_shapiq
class TestShapiq:
    @pytest.mark.parametrize(("index", "theirs"), [("shapley", "SV"), ("banzhaf", "BV")])
    def test_semivalues(self, table: Array, index: str, theirs: str) -> None:
        assert ours(table, index) == pytest.approx(of_shapiq(table, theirs))

    def test_no_coalition_is_less_content_with_our_least_core(self, table: Array) -> None:
        """Theirs weighs equal shares against the largest excess, so it is another point."""
        inside = np.arange(1, 31)[:, None] >> np.arange(5) & 1
        of_ours, of_theirs = (
            (table[1:-1] - table[0] - inside @ shares).max()
            for shares in (ours(table, "least-core"), of_shapiq(table, "ELC"))
        )
        assert of_ours <= of_theirs + 1e-6


@needs_pydvl
class TestPydvl:
    @pytest.mark.parametrize(
        ("index", "name", "options"),
        [
            ("shapley", "ShapleyValuation", {}),
            ("banzhaf", "BanzhafValuation", {}),
            ("beta(4,1)", "BetaShapleyValuation", {"alpha": 4, "beta": 1}),
            ("beta(1,16)", "BetaShapleyValuation", {"alpha": 1, "beta": 16}),
        ],
    )
    def test_semivalues(
        self, table: Array, fitted: Any, index: str, name: str, options: dict[str, int]
    ) -> None:
        from pydvl import valuation
        from pydvl.valuation.samplers import DeterministicUniformSampler

        def all_coalitions(utility: Any) -> Any:
            sampler = DeterministicUniformSampler()
            return getattr(valuation, name)(utility, sampler, valuation.NoStopping(sampler), **options)

        assert ours(table, index) == pytest.approx(fitted(table, all_coalitions))

    def test_leave_one_out(self, table: Array, fitted: Any) -> None:
        from pydvl.valuation import LOOValuation

        assert ours(table, "leave-one-out") == pytest.approx(fitted(table, LOOValuation))

    def test_the_least_core_of_most_equal_shares(self, table: Array, fitted: Any) -> None:
        from pydvl.valuation import ExactLeastCoreValuation

        centred = table - table[0]  # theirs takes v(∅) to be 0
        found = fitted(centred, lambda utility: ExactLeastCoreValuation(utility, progress=False))
        assert ours(table, "least-core") == pytest.approx(found, abs=1e-3)
