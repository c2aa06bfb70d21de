"""What a valuation in a federation keeps after every round, so that a process that is killed costs one round at most.

Local trainings start afresh in every round and draw numbers that follow from seed, client and round: there is no state of
optimizers and no random state to keep. What a coalition needs to go on is its model and how many rounds it has behind it.
There are two files for a training (rules, model, data of all clients), named by what identifies it:

    trained-….rounds    local trainings that many coalitions share, those of round 1 above all, by what was sent
    wave-….rounds       the models of the coalitions that advance together, after the round that they have finished

A file of another training has another name, says itself of which it is, and is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedvalue._text import plural, size
from fedvalue.coalitions import Trial
from fedvalue.errors import InputError
from fedvalue.flower._array_file import read_arrays, write_arrays
from fedvalue.flower._arrays import Arrays, finite_rows
from fedvalue.store import fingerprint

__all__ = ["Checkpoint", "Checkpoints", "Key", "Wave", "checkpoint_folder"]

Key = tuple[int, int, int | None, bytes]  # round, client, seed, digest of the model that was sent
_FORMAT = "fedvalue.rounds/1"
T = TypeVar("T")


def checkpoint_folder(store: Path) -> Path:
    """Beside the store that the trainings will be in."""
    return store.with_name(f"{store.name}.rounds")


@dataclass(frozen=True, eq=False)
class Wave:
    """Coalitions that have so many rounds behind them, and their models, a row for each."""

    trials: list[Trial]
    done: int
    models: Arrays

    def only(self, wanted: Collection[Trial]) -> Wave:
        """Those of its coalitions that are wanted."""
        rows = [row for row, trial in enumerate(self.trials) if trial in wanted]
        models = {name: array[rows] for name, array in self.models.items()}
        return Wave([self.trials[row] for row in rows], self.done, models)


@dataclass
class Checkpoints:
    """The folder with the checkpoints of a run; `tell` is told what is used, what is not, and how large they are."""

    folder: Path
    tell: Callable[[str], None]
    opened: dict[str, Checkpoint] = field(default_factory=dict)
    _told: bool = False

    def of(self, initial: Arrays, *identity: Any) -> Checkpoint:
        """The checkpoint of the training that this identifies: first model, rules, learner, data of all clients."""
        number = fingerprint(_FORMAT, initial, identity)[0][:24]
        if number not in self.opened:
            self.opened[number] = Checkpoint(self, number, initial)
        return self.opened[number]

    def remove(self) -> None:
        """The run has come to its end: everything is in the store. Files of other trainings stay."""
        for checkpoint in self.opened.values():
            if not checkpoint.is_used:
                self.tell("The coalitions of the checkpoint were not asked for, so it was not used.")
            checkpoint.remove()
        with suppress(OSError):  # there is something else in it, or it was never made
            self.folder.rmdir()

    def tell_of_others(self) -> None:
        """Says, once, that files of other trainings are not used; they are not removed either."""
        others = [path for path in self.folder.glob("*.rounds") if not self._is_ours(path)]
        if others and not self._told:
            self._told = True
            verb = "is" if len(others) == 1 else "are"
            self.tell(
                f"{plural(len(others), 'file')} in {self.folder} {verb} of trainings with other rules, another model, other "
                f"clients or other data, and {verb} not used. Remove what you do not need any more."
            )

    def _is_ours(self, path: Path) -> bool:
        return any(number in path.name for number in self.opened)


class Checkpoint:
    """What is kept of one training; read when it is opened, and written again after every round."""

    def __init__(self, run: Checkpoints, number: str, initial: Arrays) -> None:
        self.run = run
        self.number = number
        self._shapes = {name: (array.shape[1:], array.dtype) for name, array in initial.items()}
        self._trained_file = run.folder / f"trained-{number}.rounds"
        self._wave_file = run.folder / f"wave-{number}.rounds"
        self._told = False
        self.sizes: dict[int, int] = {}  # of the clients' data, where only replies say so
        self.trained: dict[Key, Arrays] = self._read(self._trained_file, self._as_trained) or {}
        self._wave: Wave | None = self._read(self._wave_file, self._as_wave)

    @property
    def is_used(self) -> bool:
        """Whether nothing that an earlier process had under way is left."""
        return self._wave is None

    def take_wave(self, trials: Collection[Trial]) -> Wave | None:
        """Those of the given coalitions that an earlier process had under way, once; None where there are none."""
        if self._wave is None or not set(self._wave.trials) & set(trials):
            return None
        wave, self._wave = self._wave.only(trials), None
        self.run.tell(
            f"Going on from a checkpoint: {plural(len(wave.trials), 'coalition')} after round {wave.done}."
        )
        return wave

    def keep_wave(self, trials: Sequence[Trial], done: int, models: Arrays) -> None:
        """The models of these coalitions after that round; those that miss a training are left out."""
        rows = np.flatnonzero(finite_rows(models)).tolist()
        if not rows:
            return
        about = {"trials": [[f"{trials[row][0]:x}", trials[row][1]] for row in rows], "done": done}
        whole = len(rows) == len(trials)
        self._write(self._wave_file, about, models if whole else {n: a[rows] for n, a in models.items()})

    def keep_trained(self, trained: Mapping[Key, Arrays]) -> None:
        """Local trainings that other coalitions will need as well."""
        self.trained |= trained
        keys = [[t, client, seed, digest.hex()] for t, client, seed, digest in self.trained]
        names = next(iter(self.trained.values()), {})
        arrays = {name: np.stack([row[name] for row in self.trained.values()]) for name in names}
        about = {"keys": keys, "sizes": [[client, count] for client, count in self.sizes.items()]}
        self._write(self._trained_file, about, arrays)

    def remove(self) -> None:
        """Everything of this training that was asked for is in the store."""
        drafts = self.run.folder.glob(
            f".*-{self.number}.rounds.*.part"
        )  # of a process that was killed in writing
        for file in (self._trained_file, self._wave_file, *drafts):
            with suppress(OSError):
                file.unlink(missing_ok=True)

    def _write(self, file: Path, about: Mapping[str, Any], arrays: Arrays) -> None:
        """A disk that is full does not end the run: it goes on as one that keeps nothing."""
        first = file == self._wave_file and not self._told
        try:
            self.run.folder.mkdir(parents=True, exist_ok=True)
            written = write_arrays(file, {"format": _FORMAT, "training": self.number, **about}, arrays)
        except (InputError, OSError) as error:
            self.run.tell(f"This round could not be kept: {error}")
            return
        if first:
            self._told = True
            self.run.tell(
                f"{size(written)} are kept after every round in {self.run.folder} until this run ends, to go on from if it is "
                "killed (checkpoints = false: nothing)."
            )

    def _read(self, file: Path, parse: Callable[[Mapping[str, Any], Arrays], T]) -> T | None:
        """What the file holds; nothing, and a sentence, where it is not as this wrote it."""
        if not file.exists():
            return None
        try:
            about, arrays = read_arrays(file)
            if about.get("format") != _FORMAT or about.get("training") != self.number:
                raise InputError(f"{file} is of another training.")
            if {name: (array.shape[1:], array.dtype) for name, array in arrays.items()} != self._shapes:
                raise InputError(f"{file} is damaged: its models have other shapes.")
            return parse(about, arrays)
        except InputError as error:
            reason = str(error)
        except (KeyError, ValueError, TypeError):
            reason = f"{file} is damaged: what it says of itself does not fit."
        self.run.tell(f"{reason} It is not used; what it held is trained again.")
        return None

    def _as_trained(self, about: Mapping[str, Any], arrays: Arrays) -> dict[Key, Arrays]:
        keys = [(t, client, seed, bytes.fromhex(digest)) for t, client, seed, digest in about["keys"]]
        _check_rows(arrays, len(keys))
        self.sizes = {int(client): int(count) for client, count in about["sizes"]}
        return {key: {name: array[row] for name, array in arrays.items()} for row, key in enumerate(keys)}

    def _as_wave(self, about: Mapping[str, Any], arrays: Arrays) -> Wave:
        trials = [(int(mask, 16), int(number)) for mask, number in about["trials"]]
        _check_rows(arrays, len(trials))
        return Wave(trials, int(about["done"]), arrays)


def _check_rows(arrays: Arrays, count: int) -> None:
    if any(len(array) != count for array in arrays.values()):
        raise ValueError(count)
