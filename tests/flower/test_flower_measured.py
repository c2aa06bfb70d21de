"""Models measured at the nodes, and an operator who holds the store: metrics and models of coalitions exchanged, everything else
made to fit again, and signed again.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from alterations import reseal_store
from books import exchanged, lines_of, metrics_in, renamed, signature_under, store_metrics, write_lines
from federations import digits
from flower_fakes import SIZES, Signing, held_out_parts, parties
from flwr.app import Message, RecordDict

import fedvalue as fv
from fedvalue._files import sealed
from fedvalue.flower import Task, value_federation
from fedvalue.flower._wire import CONFIG, TRAIN
from fedvalue.flower._witness import ORIGINS

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

TASK = Task("classification", 10, None)
ROUNDS, ROWS = 2, (20, 40, 60)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[Signing, Path]:
    """Three clients that sign, and measure all coalitions."""
    folder = tmp_path_factory.mktemp("measured")
    signing = Signing(folder, parties(digits(SIZES), held_out_parts(digits(SIZES), ROWS)))
    run(signing, folder / "out")
    return signing, folder / "out"


def run(signing: Signing, out: Path, **more: Any) -> fv.Values:
    settings = signing.settings(out, evaluate="nodes", rounds=ROUNDS, **more)
    return value_federation(signing.grid(), settings, TASK)


def found(out: Path) -> dict[str, list[str]]:
    """What the verdict says of the replies, by its states."""
    said: dict[str, list[str]] = {}
    for check in fv.verify(out).checks:
        if check.what == "What the nodes signed":
            said.setdefault(check.state, []).append(check.text)
    assert said, fv.verify(out).lines()
    return said


PAIRS = [("1", "2"), ("3", "5"), ("1", "3"), ("6", "7"), ("1", "6")]
"""Single clients, coalitions of the same size, one within the other, apart."""


class TestSwapped:
    def test_the_honest_folder_is_sound(self, left: tuple[Signing, Path], tmp_path: Path) -> None:
        shutil.copytree(left[1], tmp_path / "out")
        store_metrics(tmp_path / "out", {})
        write_lines(tmp_path / "out", lines_of(tmp_path / "out"))
        assert set(found(tmp_path / "out")) == {"sound"}

    @pytest.mark.parametrize(("one", "other"), PAIRS)
    def test_signed_metrics(self, one: str, other: str, left: tuple[Signing, Path], tmp_path: Path) -> None:
        shutil.copytree(left[1], tmp_path / "out")
        exchanged(tmp_path / "out", one, other)
        told = found(tmp_path / "out")
        assert len(told.get("wrong", ())) == 2, told
        assert "has signed other metrics of its model than the store has" in told["wrong"][0]

    @pytest.mark.parametrize(("one", "other"), PAIRS)
    def test_final_models_with_their_metrics(
        self, one: str, other: str, left: tuple[Signing, Path], tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        shutil.copytree(left[1], out)
        exchanged(out, one, other)
        lines = renamed(lines_of(out), {one: other, other: one}, range(ROUNDS + 1, ROUNDS + 2))
        write_lines(out, lines)
        told = found(out)
        assert told.keys() & {"wrong", "undecided"}
        assert not fv.verify(out).sound

    @pytest.mark.parametrize(("one", "other"), PAIRS)
    def test_all_models_of_a_coalition_taken_for_those_of_another(
        self, one: str, other: str, left: tuple[Signing, Path], tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        shutil.copytree(left[1], out)
        store_metrics(out, {one: metrics_in(out)[other]})
        write_lines(out, renamed(lines_of(out), {one: other}, range(1, ROUNDS + 2)))
        told = found(out)
        assert told.keys() & {"wrong", "undecided"}

    @pytest.mark.parametrize("other_run", [False, True])
    def test_a_training_taken_for_one_with_another_seed(
        self, other_run: bool, left: tuple[Signing, Path], tmp_path: Path
    ) -> None:
        """The luckiest of several: of the repetitions of this run, or of a run with another seed in the same store."""
        out = tmp_path / "out"
        if other_run:
            run(left[0], tmp_path / "other", method="loo", seed=9, store=str(out / "store.db"))
        run(left[0], out, method="loo", **({} if other_run else {"replicates": 2}))
        game = json.loads((out / "values.json").read_text())["game_id"]
        other = f"game_id<>'{game}'" if other_run else "replicate=1"
        lucky = f"(SELECT metrics FROM outcomes WHERE mask='7' AND {other})"
        mine = f"mask='7' AND replicate=0 AND game_id='{game}'"
        reseal_store(
            out / "store.db",
            (f"UPDATE outcomes SET metrics={lucky} WHERE {mine}", ()),
            ("DELETE FROM per_row WHERE mask='7'", ()),
        )
        store_metrics(out, {})
        lines = lines_of(out)
        for line in lines:
            for mask, number, seed, digest in list(line.get("models", {}).get("of", ())):
                line["models"]["of"].append(
                    [mask, 1 - number, seed, digest]
                )  # which is which the operator says
        write_lines(out, lines)
        assert "has signed other metrics of its model than the store has" in found(out)["wrong"][0]

    @pytest.mark.parametrize("name", ["f1", "loss|initial"])
    def test_a_mean_that_the_nodes_did_not_measure(
        self, name: str, left: tuple[Signing, Path], tmp_path: Path
    ) -> None:
        out, mask = tmp_path / "out", "0" if "|" in name else "5"
        shutil.copytree(left[1], out)
        told = json.loads(metrics_in(out)[mask])
        store_metrics(out, {mask: json.dumps(told | {name: told[name] + 0.01}, sort_keys=True)})
        assert f"{name} is not the mean of what the nodes measured" in found(out)["wrong"][0]

    def test_other_weights_for_the_means(self, left: tuple[Signing, Path], tmp_path: Path) -> None:
        out = tmp_path / "out"
        shutil.copytree(left[1], out)
        record = json.loads((out / "run.json").read_text())
        record["scenario"]["held_out"][0][0] += 1
        (out / "run.json").write_text(json.dumps(sealed(record)))
        assert "held out are not the test rows" in found(out)["wrong"][0]


class TestWhileItRuns:
    """What the operator sends to be measured is its own choice: the models of single clients are theirs, others it has averaged."""

    @staticmethod
    def measured_for(signing: Signing, out: Path, one: str, other: str) -> None:
        """As if the model of the other coalition had been sent to be measured as that of the one, and the reverse."""
        lines = lines_of(out)
        sitting = next(line["sitting"] for line in lines if "sitting" in line)
        final = {
            mask: digest
            for line in lines
            if "models" in line and line["models"]["round"] == ROUNDS + 1
            for mask, _, _, digest in line["models"]["of"]
        }
        for line in lines:
            if (reply := line.get("reply")) and reply["kind"] == "evaluate" and final[one] in reply["sent"]:
                i, j = (reply["sent"].index(final[mask]) for mask in (one, other))
                for name in ("sent", "back"):
                    reply[name][i], reply[name][j] = reply[name][j], reply[name][i]
                reply["signature"] = signature_under(reply, sitting, signing.keys[reply["client"]])
        exchanged(out, one, other)
        write_lines(out, renamed(lines, {one: other, other: one}, range(ROUNDS + 1, ROUNDS + 2)))

    def test_the_model_of_a_single_client_is_its_own(
        self, left: tuple[Signing, Path], tmp_path: Path
    ) -> None:
        shutil.copytree(left[1], tmp_path / "out")
        self.measured_for(left[0], tmp_path / "out", "1", "2")
        assert "undecided" in found(tmp_path / "out")

    def test_averages_nobody_can_make_again_without_the_models(
        self, left: tuple[Signing, Path], tmp_path: Path
    ) -> None:
        shutil.copytree(left[1], tmp_path / "out")
        self.measured_for(left[0], tmp_path / "out", "3", "5")
        assert set(found(tmp_path / "out")) == {"sound"}  # as docs/dispute.md says


class TestKilled:
    def test_after_the_last_round_and_before_anything_was_measured(self, tmp_path: Path) -> None:
        """What goes on from its checkpoint knows from the book whose local models went into the final ones."""
        signing = Signing(tmp_path, parties(digits(SIZES), held_out_parts(digits(SIZES), ROWS)))
        settings = signing.settings(tmp_path / "out", evaluate="nodes", rounds=ROUNDS)
        grid = signing.grid()

        def killed(message: Message, reply: RecordDict) -> RecordDict:
            if any(message.content[CONFIG].get(ORIGINS, ())):
                raise KeyboardInterrupt
            return reply

        grid.twists[0] = killed
        with pytest.raises(KeyboardInterrupt):
            value_federation(grid, settings, TASK)
        again = signing.grid()
        value_federation(again, settings, TASK)
        assert not any(message.metadata.message_type == TRAIN for message in again.sent)
        assert set(found(tmp_path / "out")) == {"sound"}


class TestOneStore:
    """Two quarters with one store and one book: the same rows to train on, other rows held out."""

    @pytest.fixture(scope="class")
    @staticmethod
    def quarters(tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("quarters")
        signing = Signing(folder, parties(digits(SIZES), held_out_parts(digits(SIZES), ROWS)))
        run(signing, folder / "first", method="loo", store=str(folder / "store.db"))
        signing.members = parties(digits(SIZES), held_out_parts(digits(SIZES), ROWS[::-1]))
        run(signing, folder / "second", method="loo", store=str(folder / "store.db"))
        return folder

    def test_both_are_sound(self, quarters: Path) -> None:
        for name in ("first", "second"):
            assert set(found(quarters / name)) == {"sound"}

    def test_a_reply_of_one_counts_for_nothing_in_the_other(self, quarters: Path, tmp_path: Path) -> None:
        folder = tmp_path / "quarters"
        shutil.copytree(quarters, folder)
        out, book = folder / "second", folder / "store.db.replies"
        both = [line["sitting"]["game"] for line in lines_of(folder) if "sitting" in line]
        kept = [
            line
            for line in lines_of(folder)
            if (reply := line.get("reply", {})).get("kind") != "evaluate" or reply["game"] == both[0]
        ]
        shutil.copyfile(out / "values.json", folder / "values.json")
        write_lines(folder, kept)
        shutil.copyfile(folder / "values.json", out / "values.json")
        assert book.exists()
        assert "on the rows that the record names" in found(out)["undecided"][0]
