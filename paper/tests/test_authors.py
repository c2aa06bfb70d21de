"""What the paper's authors ran: their definitions by hand, their variant of every experiment, the printed numbers."""

from __future__ import annotations

import re
import tomllib
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fedvalue as fv
import fedvalue_paper
from fedvalue_paper import Experiment, names, read
from fedvalue_paper.authors import METHODS, OwnNumbers, lambda_mr_zero, or_fresh, tmc_rounds
from fedvalue_paper.grid import Run, budget_for, games_of, runs_of
from fedvalue_paper.measures import MEASURES, Finding
from fedvalue_paper.printed import compared, main, markdown

SHARED = Path(__file__).parents[3] / "shared"
WITH_VARIANT = [name for name in names() if "authors" in read(name).variants]


def shapley(utilities: dict[int, float], n: int) -> np.ndarray:
    """The mean over all orders: slow, and nothing of the library."""
    phi = np.zeros(n)
    orders = list(permutations(range(n)))
    for order in orders:
        mask = 0
        for client in order:
            phi[client] += utilities[mask | 1 << client] - utilities[mask]
            mask |= 1 << client
    return phi / len(orders)


@pytest.fixture(scope="module")
def game() -> fv.FederatedGame:
    scenario = fv.load_scenario("digits", clients=3, partition="size", samples=20, test_size=200)
    return fv.FederatedGame(scenario, "linear", fv.Training(rounds=2, epochs=1, batch=8, rate=0.01))


class TestDefinitions:
    def test_lambda_mr_from_an_all_zero_network(self, game: fv.FederatedGame) -> None:
        trace = game.trace_games()
        zero = float(np.mean(game.scenario.test.y == 0))  # ten equal outputs: the first class is named
        masks = list(range(8))
        expected = np.zeros(3)
        for t in (1, 2):
            utilities = dict(zip(masks, trace.round(t, masks).tolist(), strict=True)) | {0: zero}
            expected += 0.9 ** (t - 1) * shapley(utilities, 3)
        found = lambda_mr_zero(trace, np.random.default_rng(0), lam=0.9)
        np.testing.assert_allclose(found.mean, expected, atol=1e-12)

    def test_one_round_from_a_fresh_model(self, game: fv.FederatedGame) -> None:
        trace = game.trace_games()
        recorded = trace.trace
        fresh = recorded.session.drawn([int(np.random.default_rng(5).integers(1 << 31))])
        sizes = [len(data) for data in game.scenario.clients]
        utilities = {}
        for mask in range(8):
            clients = [i for i in range(3) if mask >> i & 1]
            total = sum(sizes[i] for i in clients)
            model = dict(fresh)
            for before, after in zip(recorded.starts, recorded.locals, strict=True):
                for name in model:
                    for i in clients:
                        model[name] = model[name] + sizes[i] / total * (after[name][i] - before[name][0])
            (metrics,) = recorded.session.evaluate(model)
            utilities[mask] = metrics["accuracy"]
        found = or_fresh(trace, np.random.default_rng(5))
        np.testing.assert_allclose(found.mean, shapley(utilities, 3), atol=1e-12)
        other = or_fresh(trace, np.random.default_rng(6))
        assert not np.allclose(found.mean, other.mean)

    def test_orders_on_every_round_are_truncated_and_added_up(self) -> None:
        """Two clients: order (0, 1) ends at once where client 0 alone is as good as both."""
        rounds = {1: [0.5, 0.8, 0.6, 0.8], 2: [0.7, 0.9, 0.8, 1.0]}
        for seed in range(6):
            orders = np.random.default_rng(seed)
            expected = np.zeros(2)
            for t in (1, 2):
                v = [0.1, *rounds[t][1:]]  # an all-zero network is worth 0.1
                for _ in range(3):
                    first, second = orders.permutation(2)
                    expected[first] += v[1 << first] - v[0]
                    expected[second] += v[3] - v[1 << first]
            found = tmc_rounds(recorded(rounds, 0.1), np.random.default_rng(seed), orders=3)
            np.testing.assert_allclose(found.mean, expected / 3)
        asked: list[int] = []
        tmc_rounds(recorded({1: [0.1, 0.8, 0.8, 0.8]}, 0.1, asked), np.random.default_rng(0))
        assert asked.count(3) == 1  # v(N) itself: every order ends after its first client

    def test_coalitions_with_numbers_of_their_own(self, game: fv.FederatedGame) -> None:
        own = OwnNumbers(game.scenario, "linear", game.training)
        found = {mask: own.utility(outcome) for mask, outcome in own.evaluate(list(range(8)))}
        for mask in range(8):
            number = 0 if mask in (0, 7) else mask
            ((_, outcome),) = game.evaluate([mask], number)
            assert found[mask] == game.utility(outcome)
        assert own.id != game.id
        assert not own.changed

    def test_errors_in_parts_of_the_estimate_and_of_the_originals(self) -> None:
        roles = [{"client": 2, "role": "copy", "of": 0}]
        finding = Finding(
            Run("ipss", "IPSS", {}, 4, 0),
            SimpleNamespace(mean=np.array([3.0, 0.0, 4.0])),  # type: ignore[arg-type]
            SimpleNamespace(mean=np.array([3.0, 0.0, 1.0])),  # type: ignore[arg-type]
            4.0,
            SimpleNamespace(details={"roles": roles}),  # type: ignore[arg-type]
        )

        assert MEASURES["error_by_estimate"](finding) == pytest.approx(3 / 5)
        assert MEASURES["symmetry_by_originals"](finding) == pytest.approx(1 / 3)


def recorded(rounds: dict[int, list[float]], zero: float, asked: list[int] | None = None) -> Any:
    """A recorded run of which only the utilities are known."""
    n = len(rounds[1]).bit_length() - 1

    def of_round(t: int, masks: list[int]) -> np.ndarray:
        if asked is not None:
            asked.extend(masks)
        return np.array([rounds[t][mask] for mask in masks])

    session = SimpleNamespace(average=lambda *given: None, evaluate=lambda models: [{"accuracy": zero}])
    return SimpleNamespace(
        n=n,
        rounds=len(rounds),
        weights=np.full(n, 1 / n),
        round=of_round,
        trace=SimpleNamespace(session=session, starts=[None]),
        utility=lambda outcome: outcome.metrics["accuracy"],
    )


class TestVariant:
    def at(self, name: str, scale: str = "paper") -> Experiment:
        return read(name).at(scale, "authors")

    @pytest.mark.parametrize("name", WITH_VARIANT)
    def test_its_grid_is_complete_and_every_coalition_has_its_own_numbers(self, name: str) -> None:
        for scale in ("smoke", "small", "paper"):
            experiment = self.at(name, scale)
            for spec in games_of(experiment):
                assert spec.get("own_numbers")
                assert list(runs_of(experiment, spec.n))
        assert not any(spec.get("own_numbers") for spec in games_of(read(name).at("paper")))

    def test_names_stand_for_what_the_authors_ran(self) -> None:
        for name in ("motivation", "synthetic", "femnist", "adult", "sent140"):
            ran = {entry.label: entry.name for entry in self.at(name).methods}
            expected = {
                "DIG-FL": "loo",
                "GTG-Shapley": "tmc-rounds",
                "OR": "or-fresh",
                "λ-MR": "lambda-mr-zero",
            }
            assert {label: ran[label] for label in expected} == expected
            assert ran["IPSS"] == ("k-greedy" if name in ("femnist", "synthetic") else "ipss")

    def test_errors_are_divided_as_in_each_table(self) -> None:
        by_estimate = {name for name in WITH_VARIANT if "error_by_estimate" in self.at(name).table.columns}
        assert by_estimate == {"femnist", "synthetic"}
        assert "symmetry_by_originals" in self.at("scalability").table.columns
        assert "error_variance" in self.at("variance").table.columns

    def test_settings_of_single_experiments(self) -> None:
        assert {spec.get("model"): spec.get("empty") for spec in games_of(self.at("adult"))} == {
            "mlp": None,
            "xgboost": 0,
        }
        assert budget_for("authors", 100) == 300
        assert budget_for("authors", 20) == budget_for("n ln n", 20)
        assert self.at("scalability").budgets == ("authors",)
        assert {entry.options["design"] for entry in self.at("variance").methods} == {"uniform"}

    def test_a_published_name_stays_the_published_method(self) -> None:
        assert not set(METHODS) & {method.name for method in fv.methods()}


class TestPrinted:
    LINES = ({"model": "mlp", "n": "10", "label": "IPSS", "error": "0.04", "error_by_estimate": "0.05"},
             {"model": "mlp", "n": "10", "label": "Ext-TMC", "error": "1.6", "error_by_estimate": "0.8"})  # fmt: skip

    def test_numbers_and_ratios_stand_beside_those_of_the_paper(self) -> None:
        found = {(one.tex, one.what): one for one in compared("femnist", self.LINES, self.LINES)}
        assert set(found) == {(1006, "IPSS"), (1006, "Ext-TMC"), (1030, "Ext-TMC / IPSS")}
        ipss, ratio = found[1006, "IPSS"], found[1030, "Ext-TMC / IPSS"]
        assert (ipss.printed, ipss.authors, ipss.text) == ((0.02,), (0.05,), (0.04,))
        assert (ratio.printed, ratio.authors, ratio.text) == (
            (38.5,),
            (pytest.approx(16),),
            (pytest.approx(40),),
        )
        assert "| Table IV, error | 1006 | mlp, n = 10 | IPSS | 0.02 | 0.05 | 0.04 |" in markdown([ipss])

    def test_what_was_not_run_is_left_out(self) -> None:
        assert compared("femnist", [], []) == []
        (one,) = compared("femnist", [], self.LINES[:1])
        assert one.authors == ()
        assert "| – | 0.04 |" in markdown([one])

    def test_the_mean_over_settings_and_the_ends_of_a_range(self) -> None:
        def lines(column: str, values: dict[str, tuple[float, float]], label: str) -> list[dict[str, str]]:
            return [
                {column: key, "partition": "feature-noise", "label": name, "error": str(number)}
                | ({"model": "mlp"} if column == "n" else {})
                for key, pair in values.items()
                for name, number in zip((label, "IPSS"), pair, strict=True)
            ]

        adult = compared("adult", [], lines("n", {"3": (2.0, 1.0), "6": (4.0, 1.0)}, "λ-MR"))
        assert {one.tex: one.text for one in adult}[1076] == (3.0,)
        noise = compared("synthetic", [], lines("model", {"mlp": (2.0, 1.0), "cnn": (9.0, 1.0)}, "λ-MR"))
        assert {one.tex: one.text for one in noise}[988] == (2.0, 9.0)

    def test_it_is_written_for_a_folder_of_results(self, capsys: pytest.CaptureFixture[str]) -> None:
        main([str(Path(__file__).parents[1] / "results"), "paper"])
        assert "| Table V, error | 1048 | mlp, n = 3 | IPSS | 0.05 |" in capsys.readouterr().out
        with pytest.raises(fv.InputError, match="Expected a folder of results and a scale"):
            main(["results"])

    @pytest.mark.skipif(not (SHARED / "paper/ipss.tex").exists(), reason="needs the paper's source")
    def test_every_number_stands_in_the_line_that_is_named(self) -> None:
        source = (SHARED / "paper/ipss.tex").read_text(encoding="utf-8").splitlines()
        data = tomllib.loads(
            (Path(fedvalue_paper.__file__).parent / "printed.toml").read_text(encoding="utf-8")
        )
        tables = [(line["tex"], line["numbers"]) for table in data["table"] for line in table["lines"]]
        ratios = [(ratio["tex"], pair["printed"]) for ratio in data["ratio"] for pair in ratio["pairs"]]
        checked = 0
        for tex, numbers in tables + ratios:
            if tex == 911:  # a figure: its bars carry no numbers
                continue
            line = re.sub(r"\$\\times 10\^(\d+)\$", r"e\1", source[tex - 1])
            stands = {float(text) for text in re.findall(r"\d+(?:\.\d+)?(?:e\d+)?", line)}
            assert {number for number in numbers if number == number} <= stands, tex
            checked += len(numbers)
        assert checked > 200


@pytest.mark.skipif(not (SHARED / "games").is_dir(), reason="needs the enumerated games")
class TestEnumeratedGames:
    """MNIST shared out alike, MLP: the numbers that the authors published come out by their definitions."""

    @pytest.fixture
    def stored(self) -> dict[str, np.ndarray]:
        with np.load(SHARED / "games" / "mnist-same-2710-mlp.npz") as file:
            return {name: file[name] for name in file.files}

    @staticmethod
    def error(estimate: np.ndarray, accuracy: np.ndarray) -> float:
        """‖φ̂ − φ‖ / ‖φ̂‖."""
        truth = fv.value(fv.TableGame(accuracy), "exact").mean
        return float(np.linalg.norm(estimate - truth) / np.linalg.norm(estimate))

    def test_ipss_is_k_greedy(self, stored: dict[str, np.ndarray]) -> None:
        values = fv.value(fv.TableGame(stored["accuracy"]), "k-greedy", k=1)
        assert values.evaluations == 11
        assert self.error(values.mean, stored["accuracy"]) == pytest.approx(
            0.0297, abs=5e-5
        )  # printed: .0327

    def test_lambda_mr(self, stored: dict[str, np.ndarray]) -> None:
        rounds = {t: row.tolist() for t, row in enumerate(stored["per_round_accuracy"], 1)}
        trace = recorded(rounds, 0.098)  # 980 of MNIST's 10,000 test digits are 0
        found = lambda_mr_zero(trace, np.random.default_rng(0))
        assert self.error(found.mean, stored["accuracy"]) == pytest.approx(0.730, abs=5e-4)  # printed: .753

    def test_tmc(self, stored: dict[str, np.ndarray]) -> None:
        game = fv.TableGame(stored["accuracy"])
        options = {"tolerance": 1e-4, "patience": 0}
        errors = [
            self.error(fv.value(game, "tmc", 32, seed, **options).mean, stored["accuracy"])
            for seed in range(40)
        ]
        assert np.mean(errors) == pytest.approx(0.853, abs=0.015)  # printed: .828
