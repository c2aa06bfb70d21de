"""Every claim of the paper has a line, a quotation, and a check that can come out either way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fedvalue_paper.claims import judge, read_claims, read_results
from fedvalue_paper.claims.checks import CHECKS, CONDITIONS, CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE, VERDICTS
from fedvalue_paper.claims.page import page, page_of
from fedvalue_paper.claims.registry import Claim
from fedvalue_paper.claims.results import figure_of

PAPER = Path(__file__).parents[1]
REPOSITORY = PAPER.parent
SOURCE = Path(os.environ.get("FEDVALUE_PAPER_TEX", REPOSITORY.parent / "shared" / "paper" / "ipss.tex"))
CLAIMS = read_claims()
CHECKED = [claim for claim in CLAIMS if claim.check]
PRINTED = [
    "62.2",
    "104.1",
    "3.4",
    "9.0",
    "22.3",
    "22.5",
    "10.3",
    "26.0",
    "22.1",
    "33.6",
    "2.98",
    "1.91",
    "38.5",
    "42.5",
    "2.2",
    "43",
    "34",
    "25.7",
    "16.6",
    "7.7",
    "50.9",
    "2.4",
]

# Values of the settings that a fabricated result has, where a claim does not choose them.
SETTINGS: dict[str, list[Any]] = {
    "model": ["mlp", "cnn"], "n": [3, 6, 10], "partition": ["same", "size"], "samples": [20, 200],
    "noise_sd": [0.3, 1.0], "budget": [8, 32, 64, 256], "k": [1, 2, 3, 4],
}  # fmt: skip
Point = Mapping[str, Any]
Number = Callable[[str, Point], float]


def lines(claim: Claim, number: Number, extra: tuple[str, ...] = (), deviation: float = 0.0) -> list[Point]:
    """Results with the settings of a claim, in which `number` says what every method found."""
    given = claim.given
    chosen = {
        key: value if isinstance(value, list) else [value] for key, value in given.get("where", {}).items()
    }
    for key in (*given.get("by", ()), *extra):
        chosen.setdefault(key, SETTINGS[key])
    names = [given[k] for k in ("of", "to", "method") if k in given]
    names += [name for key in ("methods", "rivals") for name in given.get(key, [])]
    found = []
    for values in product(*chosen.values()):
        point = dict(zip(chosen, values, strict=True))
        for label in dict.fromkeys(names):
            amount = number(label, point)
            measured = {given.get("column", "error"): amount, f"{given['column']}_sd": deviation}
            found.append({**point, "label": label, **measured})
    return found


def ratio(claim: Claim, favourable: bool) -> list[Point]:
    printed = claim.given["printed"]
    size = max(printed) if isinstance(printed, list) else printed
    return lines(claim, lambda label, _: (size if favourable else 0.5) if label == claim.given["of"] else 1.0)


def best(claim: Claim, favourable: bool) -> list[Point]:
    return lines(claim, lambda label, _: 1.0 if (label in claim.given["methods"]) == favourable else 2.0)


def place(claim: Claim, favourable: bool) -> list[Point]:
    given = claim.given
    ahead = given["rivals"][: given["place"] - 1]
    order = [*ahead, given["method"]] if favourable else [*given["rivals"], given["method"]]
    ranks = {name: float(rank) for rank, name in enumerate(order)}
    return lines(claim, lambda label, _: ranks.get(label, 100.0))


def below(claim: Claim, favourable: bool) -> list[Point]:
    return lines(claim, lambda *_: claim.given["limit"] * (0.5 if favourable else 2.0))


def close_to(claim: Claim, favourable: bool) -> list[Point]:
    factor, given = (1.0 if favourable else 10.0), claim.given
    if "other" in given:
        return [{**line, given["other"]: 1.0} for line in lines(claim, lambda *_: factor)]
    return [
        {**dict(zip(given["by"], entry[:-1], strict=True)), "label": given["method"], given["column"]: entry[-1] * factor}
        for entry in given["printed"]
    ]  # fmt: skip


def first_budget(claim: Claim, favourable: bool) -> list[Point]:
    soon = ("at_most" in claim.given) == favourable
    limit = claim.given["limit"]
    reached = 8 if soon else 256
    return lines(claim, lambda _, point: limit / 2 if point["budget"] >= reached else 1.0, ("budget",))


def growth(claim: Claim, favourable: bool) -> list[Point]:
    given = claim.given
    high, low = given.get("high"), given.get("low", 0.0)
    by = (high or low * 2) if favourable else (high * 10 if high else low / 10)
    return [
        {
            **given.get("where", {}),
            "label": given["method"],
            "n": n,
            given.get("needs", "n"): n,
            given["column"]: amount,
        }
        for n, amount in ((given["start"], 1.0), (given["to"], by))
    ]


def rises_then_falls(claim: Claim, favourable: bool) -> list[Point]:
    curve = {8: 1.0, 32: 3.0 if favourable else 0.9, 64: 2.0 if favourable else 0.8, 256: 0.1}
    return lines(claim, lambda _, point: curve[point["budget"]], ("budget",))


def fast_then_slow(claim: Claim, favourable: bool) -> list[Point]:
    curve = {1: 1.0, 2: 0.3, 3: 0.1, 4: 0.09} if favourable else {1: 1.0, 2: 0.99, 3: 0.98, 4: 0.1}
    return lines(claim, lambda _, point: curve[point["k"]], ("k",))


def undominated(claim: Claim, favourable: bool) -> list[Point]:
    found = lines(claim, lambda label, _: 1.0 if (label == claim.given["method"]) == favourable else 2.0)
    return [{**line, claim.given["time"]: line["error"]} for line in found]


FABRICATED = {
    check.__name__: check
    for check in (
        ratio, best, place, below, close_to, first_budget, growth, rises_then_falls, fast_then_slow, undominated,
    )
}  # fmt: skip


@pytest.mark.parametrize("claim", CHECKED, ids=lambda claim: claim.id)
def test_a_check_comes_out_either_way(claim: Claim) -> None:
    folder = f"{claim.experiment}-paper"
    for favourable, verdict in ((True, CONFIRMED), (False, NOT_CONFIRMED)):
        found = judge(claim, {folder: FABRICATED[claim.check](claim, favourable)})
        assert (found.outcome.verdict, found.folder) == (verdict, folder), found.outcome.figure


@pytest.mark.parametrize("claim", CHECKED, ids=lambda claim: claim.id)
def test_without_results_nothing_is_judged(claim: Claim) -> None:
    assert judge(claim, {}).outcome.verdict == NOT_TESTABLE
    of_another = [{"label": "another method", "model": "mlp", "n": 10, "error": 0.1}]
    assert judge(claim, {f"{claim.experiment}-paper": of_another}).outcome.verdict == NOT_TESTABLE


def test_a_rival_that_was_not_run_is_a_condition() -> None:
    claim = next(claim for claim in CHECKED if claim.check == "best" and len(claim.given["rivals"]) > 1)
    absent = claim.given["rivals"][0]
    found = [line for line in best(claim, True) if line["label"] != absent]
    outcome = judge(claim, {f"{claim.experiment}-paper": found}).outcome
    assert outcome.verdict == CONDITIONS
    assert f"not run: {absent}" in outcome.figure


def test_a_smaller_scale_is_judged_where_the_larger_one_lacks_what_is_needed() -> None:
    claim = next(claim for claim in CHECKED if claim.check == "best")
    small, paper = f"{claim.experiment}-small", f"{claim.experiment}-paper"
    other = [{"label": "another method", "error": 0.1}]
    assert judge(claim, {paper: other, small: best(claim, True)}).folder == small
    assert judge(claim, {paper: best(claim, True), small: best(claim, False)}).folder == paper
    assert judge(claim, {paper: other}).folder == paper


def test_ratios_that_are_right_in_direction_only_are_a_condition() -> None:
    claim = next(claim for claim in CHECKED if claim.check == "ratio")
    found = lines(claim, lambda label, _: 1.5 if label == claim.given["of"] else 1.0)
    assert judge(claim, {f"{claim.experiment}-paper": found}).outcome.verdict == CONDITIONS


def test_growth_is_not_judged_where_a_column_that_it_needs_is_missing() -> None:
    claim = next(claim for claim in CHECKED if "needs" in claim.given)
    needed = claim.given["needs"]
    found = [{key: line[key] for key in line if key != needed} for line in growth(claim, True)]
    outcome = judge(claim, {f"{claim.experiment}-paper": found}).outcome
    assert (outcome.verdict, needed in outcome.figure) == (NOT_TESTABLE, True)


class TestRegistry:
    def test_names_are_unique_and_checks_known(self) -> None:
        assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)
        assert {claim.check for claim in CHECKED} == set(CHECKS) == set(FABRICATED)

    def test_what_has_no_check_has_an_argument(self) -> None:
        for claim in CLAIMS:
            assert bool(claim.check) != bool(claim.argument), claim.id
            assert (claim.verdict in VERDICTS) == (not claim.check), claim.id
            assert not claim.test or (REPOSITORY / claim.test).exists(), claim.id

    @pytest.mark.parametrize("number", PRINTED)
    def test_every_printed_factor_has_a_line(self, number: str) -> None:
        assert any(number in claim.quote for claim in CHECKED)

    def test_quotations_stand_on_their_lines(self) -> None:
        if not SOURCE.exists():
            pytest.skip("the paper's source is not here; name it in FEDVALUE_PAPER_TEX")
        text = SOURCE.read_text(encoding="utf-8").splitlines()
        for claim in CLAIMS:
            assert 1 <= claim.line <= len(text), claim.id
            assert _plain(claim.quote) in _plain(text[claim.line - 1]), claim.id


def _plain(text: str) -> str:
    """Without what LaTeX has for fonts."""
    return text.replace(r"\textit{", "").replace(r"\textsl{", "").replace("}", "")


class TestResults:
    def rows(self) -> Iterator[str]:
        yield "game,game_id,partition_seed,label,budget,seed,applicable,n,error,values,sample_epochs"
        for game, shift in (("a", 0.0), ("b", 1.0)):
            for seed, error in ((0, 1.0), (1, 3.0)):
                yield f"one,{game},{game},IPSS,32,{seed},true,10,{error + shift},{error} {error},7"
        yield "one,a,a,OR,,0,false,10,,,"

    def test_rows_are_averaged_over_seeds_and_then_over_games(self, tmp_path: Path) -> None:
        (tmp_path / "femnist-paper").mkdir()
        (tmp_path / "femnist-paper" / "rows.csv").write_text("\n".join(self.rows()) + "\n", encoding="utf-8")
        first, second = read_results(tmp_path)["femnist-paper"]
        assert (first["error"], second["error"], first["runs"]) == (2.0, 3.0, 2)
        assert first["error_sd"] == pytest.approx(2**0.5)
        assert first["variance"] == pytest.approx(2.0)
        figure = figure_of([first, second], "error")
        assert figure is not None
        assert (figure.mean, figure.stderr) == (2.5, pytest.approx(0.5))
        assert figure_of([first], "error_variance").mean == pytest.approx(2.0)  # type: ignore[union-attr]

    def test_one_game_has_no_uncertainty_and_no_number_is_no_figure(self) -> None:
        assert figure_of([{"error": 0.5}], "error").stderr is None  # type: ignore[union-attr]
        assert figure_of([{"error": None}, {"error": float("inf")}], "error") is None


def test_the_page_is_that_of_the_committed_results() -> None:
    """Where this fails, results or claims have changed: run `python -m fedvalue_paper.claims`."""
    assert (PAPER / "CLAIMS.md").read_text(encoding="utf-8") == page_of(PAPER / "results")


def test_results_of_older_settings_are_marked() -> None:
    claim = next(claim for claim in CHECKED if claim.check == "best")
    folder = f"{claim.experiment}-paper"
    judged = [judge(claim, {folder: best(claim, True)})]
    link = f"[{folder}](results/{folder}/table.md)"
    assert f"{link}, *older settings*, `best`" in page(judged, {folder})
    assert f"{link}, `best`" in page(judged, set())
