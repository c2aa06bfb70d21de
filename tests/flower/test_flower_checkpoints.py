"""What is under way survives the end of the process: killed in any round, a valuation goes on from the round before."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import first_fast

pytest.importorskip("flwr", reason="needs the extra flower")

from federations import digits
from flower_fakes import SIZES, FakeGrid, N, parties
from foreign_app import LR, example_modules, start
from test_flower_foreign import ForeignGrid, on_server

import fedvalue as fv
from fedvalue.errors import InputError
from fedvalue.flower._array_file import read_arrays, write_arrays
from fedvalue.flower._checkpoint import Checkpoints
from fedvalue.flower._foreign import value_foreign
from fedvalue.flower._server import Task, value_federation
from fedvalue.flower._settings import Settings
from fedvalue.store import UtilityStore

pytestmark = pytest.mark.usefixtures("one_thread", "waits_cost_nothing")

ROUNDS = 4
RULES = {"rounds": ROUNDS, "epochs": 1, "batch": 16, "rate": 0.01, "seed": 3}


class Killed(BaseException):
    """Nobody catches this, as nobody hears of a kill."""


def killed_in(grid: FakeGrid, t: int, after: int = 0) -> FakeGrid:
    """The process ends when the messages of round t have been sent, which costs what they would have brought.

    `after` so many waves that have come so far.
    """
    push, left = grid.push_messages, after

    def pushed(messages: Any) -> Any:
        nonlocal left
        given = list(messages)
        sent = list(push(given))
        if any(m.metadata.message_type.startswith("train") and m.metadata.group_id == str(t) for m in given):
            if not left:
                raise Killed
            left -= 1
        return sent

    grid.push_messages = pushed  # type: ignore[method-assign]
    return grid


def valued(grid: FakeGrid, out: Path, **more: Any) -> fv.Values:
    config = {"clients": N, "out": str(out), "patience": 0.3, "method": "exact", **RULES, **more}
    task = Task("classification", 10, digits(SIZES).test)
    return value_federation(grid, Settings.from_config(config), task)


def trained(grid: FakeGrid) -> Counter[str]:
    """Local trainings that were asked for, by round."""
    counted: Counter[str] = Counter()
    for message in grid.sent:
        if message.metadata.message_type == "train.fedvalue":
            counted[message.metadata.group_id] += int(message.content["config"]["rows"])
        elif message.metadata.message_type == "train":
            counted[message.metadata.group_id] += 1
    return counted


def stored(out: Path, values: fv.Values) -> dict[tuple[int, int], Mapping[str, float]]:
    with UtilityStore(out / "store.db") as store:
        return {
            (mask, seed): outcome.metrics
            for seed in range(8)
            for mask, outcome in store.read(values.game_id, None, seed).items()
        }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[fv.Values, Mapping[Any, Any], Counter[str]]:
    """Values, outcomes and trainings of a run that nobody disturbs."""
    grid, out = FakeGrid(parties(digits(SIZES))), tmp_path_factory.mktemp("whole")
    values = valued(grid, out)
    return values, stored(out, values), trained(grid)


class TestKilled:
    @pytest.mark.parametrize("t", first_fast([3, 1, 2, 4], keep=1))
    def test_it_goes_on_from_the_round_before_bit_by_bit(
        self, tmp_path: Path, t: int, whole: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        first, second = FakeGrid(parties(digits(SIZES))), FakeGrid(parties(digits(SIZES)))
        with pytest.raises(Killed):
            valued(killed_in(first, t), tmp_path)
        assert not (tmp_path / "values.json").exists()
        values = valued(second, tmp_path)
        expected, outcomes, asked = whole
        assert values.mean.tolist() == expected.mean.tolist()  # no tolerance
        assert values.stderr is not None
        assert values.stderr.tolist() == expected.stderr.tolist()
        assert stored(tmp_path, values) == outcomes
        again = trained(first) + trained(second) - asked
        assert set(again) == {str(t)}  # only the round in which it was killed
        assert not (tmp_path / "store.db.rounds").exists()
        assert (f"after round {t - 1}." in caplog.text) == (t > 2)

    @pytest.mark.slow
    @pytest.mark.parametrize("wave", [1, 2])
    def test_in_a_later_wave(self, tmp_path: Path, wave: int) -> None:
        few = {"memory-mb": 0.4}
        undisturbed, first, second = (FakeGrid(parties(digits(SIZES))) for _ in range(3))
        expected = valued(undisturbed, tmp_path / "whole", **few)
        with pytest.raises(Killed):
            valued(killed_in(first, 3, after=wave), tmp_path / "out", **few)
        values = valued(second, tmp_path / "out", **few)
        assert values.mean.tolist() == expected.mean.tolist()
        again = trained(first) + trained(second) - trained(undisturbed)
        assert set(again) == {"3"}
        assert again["3"] < trained(undisturbed)["3"] / 2  # that of one wave

    @pytest.mark.slow
    def test_gradient_methods_keep_every_round_of_the_recorded_training(self, tmp_path: Path) -> None:
        undisturbed, first, second = (FakeGrid(parties(digits(SIZES))) for _ in range(3))
        expected = valued(undisturbed, tmp_path / "whole", method="or")
        with pytest.raises(Killed):
            valued(killed_in(first, 4), tmp_path / "out", method="or")
        values = valued(second, tmp_path / "out", method="or")
        assert values.mean.tolist() == expected.mean.tolist()
        assert trained(first) + trained(second) - trained(undisturbed) == {"4": N}

    @pytest.mark.slow
    def test_seeds_that_are_trained_one_after_the_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Each has files of its own, which are gone when the next begins."""
        monkeypatch.setattr("fedvalue.flower._session.FlowerSession.reseeds", False)
        more = {"replicates": 2, "method": "exact-cc"}
        undisturbed, first, second = (FakeGrid(parties(digits(SIZES))) for _ in range(3))
        expected = valued(undisturbed, tmp_path / "whole", **more)
        with pytest.raises(Killed):
            valued(killed_in(first, 3, after=1), tmp_path / "out", **more)  # with the second seed
        assert len(list((tmp_path / "out").glob("store.db.rounds/*"))) == 2
        values = valued(second, tmp_path / "out", **more)
        assert values.mean.tolist() == expected.mean.tolist()
        assert set(trained(first) + trained(second) - trained(undisturbed)) == {"3"}
        assert "not used" not in caplog.text
        assert not list((tmp_path / "out").glob("store.db.rounds"))

    @pytest.mark.slow
    def test_killed_again_and_again(self, tmp_path: Path, whole: Any) -> None:
        for t in (1, 2, 2, 3, 4, 4):
            with pytest.raises(Killed):
                valued(killed_in(FakeGrid(parties(digits(SIZES))), t), tmp_path)
        values = valued(FakeGrid(parties(digits(SIZES))), tmp_path)
        assert values.mean.tolist() == whole[0].mean.tolist()


class TestForeign:
    @pytest.mark.slow
    @pytest.mark.parametrize("t", [1, 2, 3])
    def test_an_app_of_ones_own_goes_on_as_well(self, tmp_path: Path, t: int) -> None:
        with example_modules() as modules:

            def run(grid: FakeGrid, out: Path) -> fv.Values:
                given = {
                    "key": "digits",
                    "method": "exact",
                    "config": {"lr": LR},
                    "evaluate": on_server(modules),
                }
                return value_foreign(
                    grid, clients=N, initial=start(modules), rounds=3, out=out, patience=0.3, **given
                )

            undisturbed, first, second = (ForeignGrid(modules["client_app"].app) for _ in range(3))
            expected = run(undisturbed, tmp_path / "whole")
            with pytest.raises(Killed):
                run(killed_in(first, t), tmp_path / "out")
            values = run(second, tmp_path / "out")
        # Its nodes draw by themselves, so numbers differ; what was kept is not trained again.
        assert values.names == expected.names
        assert set(trained(first) + trained(second) - trained(undisturbed)) == {str(t)}
        assert not (tmp_path / "out" / "store.db.rounds").exists()


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A folder with what a run has left that was killed in its last round."""
    with pytest.raises(Killed):
        valued(killed_in(FakeGrid(parties(digits(SIZES))), ROUNDS), tmp_path)
    return tmp_path / "store.db.rounds"


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


class TestUnusable:
    @pytest.mark.parametrize(
        "damage",
        first_fast(
            [
                lambda content: flipped(content, len(content) // 2),
                lambda content: content[: len(content) // 2],
                lambda content: b"",
                lambda content: flipped(content, 3),
                lambda content: flipped(content, len(content) - 1),
                lambda content: content + b"more",
            ],
        ),
    )
    @pytest.mark.parametrize("which", first_fast(["wave", "trained"]))
    def test_damaged_files_are_not_used(
        self, kept: Path, damage: Any, which: str, whole: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        (file,) = kept.glob(f"{which}-*.rounds")
        file.write_bytes(damage(file.read_bytes()))
        values = valued(FakeGrid(parties(digits(SIZES))), kept.parent)
        assert "is damaged" in caplog.text
        assert "is not used; what it held is trained again" in caplog.text
        assert values.mean.tolist() == whole[0].mean.tolist()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "more", [{"rate": 0.02}, {"seed": 4}, {"rounds": 5}, {"model": "linear"}, {"epochs": 2}]
    )
    def test_other_rules(
        self, kept: Path, tmp_path: Path, more: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        grid = FakeGrid(parties(digits(SIZES)), more.get("model", "mlp"))
        values = valued(grid, kept.parent, **more)
        assert "2 files in" in caplog.text
        assert "are not used" in caplog.text
        grid = FakeGrid(parties(digits(SIZES)), more.get("model", "mlp"))
        assert values.mean.tolist() == valued(grid, tmp_path / "other", **more).mean.tolist()
        assert len(list(kept.glob("*.rounds"))) == 2  # another run may want it

    @pytest.mark.slow
    def test_other_clients(self, kept: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """With the same rules; one has other rows."""
        other = parties(digits((37, 21, 63)))
        expected = valued(FakeGrid(other), tmp_path / "other")
        assert valued(FakeGrid(other), kept.parent).mean.tolist() == expected.mean.tolist()
        assert "are not used" in caplog.text

    @pytest.mark.slow
    def test_a_file_under_the_name_of_another_training(
        self, kept: Path, whole: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        with pytest.raises(Killed):
            valued(killed_in(FakeGrid(parties(digits(SIZES))), ROUNDS), kept.parent / "b", rate=0.5)
        for which in ("wave", "trained"):
            (right,), (wrong,) = kept.glob(f"{which}-*"), (kept.parent / "b" / kept.name).glob(f"{which}-*")
            shutil.copy(wrong, right)
        values = valued(FakeGrid(parties(digits(SIZES))), kept.parent)
        assert caplog.text.count("is of another training. It is not used") == 2
        assert values.mean.tolist() == whole[0].mean.tolist()

    @pytest.mark.slow
    def test_other_coalitions(self, kept: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Those that are asked for go on, the others are left."""
        values = valued(FakeGrid(parties(digits(SIZES))), kept.parent, method="loo")
        assert "Going on from a checkpoint: 4 coalitions after round 3." in caplog.text
        expected = valued(FakeGrid(parties(digits(SIZES))), tmp_path / "loo", method="loo")
        assert values.mean == pytest.approx(expected.mean, abs=1e-6)

    def test_it_can_be_switched_off(self, tmp_path: Path) -> None:
        with pytest.raises(Killed):
            valued(killed_in(FakeGrid(parties(digits(SIZES))), 3), tmp_path, checkpoints=False)
        assert not (tmp_path / "store.db.rounds").exists()

    @pytest.mark.slow
    def test_a_disk_that_is_full_does_not_end_the_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, whole: Any
    ) -> None:
        def full(*given: Any) -> int:
            raise InputError("Cannot write: No space left on device.")

        monkeypatch.setattr("fedvalue.flower._checkpoint.write_arrays", full)
        assert valued(FakeGrid(parties(digits(SIZES))), tmp_path).mean.tolist() == whole[0].mean.tolist()
        assert "could not be kept: Cannot write: No space left" in caplog.text


class TestArrayFiles:
    def test_what_is_written_is_read(self, tmp_path: Path) -> None:
        arrays = {
            "w": np.arange(6, dtype=np.float32).reshape(1, 2, 3),
            "big": np.arange(3, dtype=">i8"),
            "none": np.zeros((0, 4)),
            "turned": np.arange(6.0).reshape(2, 3).T,
            "scalar": np.array(True),
        }
        size = write_arrays(tmp_path / "a", {"round": 3, "é": [None]}, arrays)
        assert size == (tmp_path / "a").stat().st_size
        about, found = read_arrays(tmp_path / "a")
        assert about == {"round": 3, "é": [None]}
        assert list(found) == list(arrays)
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            assert found[name].tobytes() == np.ascontiguousarray(array).tobytes()
            assert found[name].shape == array.shape

    def test_every_byte_is_checked(self, tmp_path: Path) -> None:
        file = tmp_path / "a"
        write_arrays(file, {"round": 3}, {"w": np.arange(3.0)})
        content = file.read_bytes()
        for place in range(len(content)):
            file.write_bytes(flipped(content, place))
            with pytest.raises(InputError, match="is damaged"):
                read_arrays(file)
        for length in range(0, len(content), 7):
            file.write_bytes(content[:length])
            with pytest.raises(InputError, match="is damaged"):
                read_arrays(file)

    def test_objects_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises((TypeError, ValueError)):
            write_arrays(tmp_path / "a", {}, {"w": np.array([object()])})

    def test_nothing_is_left_of_a_write_that_was_killed(self, tmp_path: Path) -> None:
        run = Checkpoints(tmp_path / "kept", print)
        checkpoint = run.of({"w": np.zeros((1, 2))}, "a training")
        checkpoint.keep_wave([(1, 0)], 2, {"w": np.ones((1, 2))})
        (file,) = run.folder.glob("wave-*")
        (run.folder / f".{file.name}.123.part").write_bytes(b"half")
        run.remove()
        assert not run.folder.exists()
