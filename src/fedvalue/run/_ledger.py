"""The ledger of a run: asks for each trial once, from memory first, then the store, then the game."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedvalue._text import plural
from fedvalue.coalitions import Trial, by_seed, members
from fedvalue.errors import FedvalueError, StoreError, UtilityError
from fedvalue.games import (
    Game,
    Reading,
    RestrictedGame,
    Staged,
    TableGame,
    completed,
    evaluate_trials,
    lacking,
    refuse_unrecognised,
    takes_claims_of,
)
from fedvalue.outcome import LARGEST, Outcome
from fedvalue.per_row import PerRow
from fedvalue.run._adopt import enter_game
from fedvalue.run._beforehand import known_beforehand
from fedvalue.run._no_clients import has_any_seed, over_seeds, trials_of_empty
from fedvalue.run._observers import Evaluation, Observers
from fedvalue.run._own_rows import OwnRows
from fedvalue.run._shift import Shift
from fedvalue.run._unwritten import Unwritten
from fedvalue.store import Chained, Claiming, Head, Store
from fedvalue.yardsticks import Empty

__all__ = ["Ledger"]

_LOOKS = 10  # into a store that others write at this moment


class Ledger:
    """Every utility known in this run."""

    def __init__(self, game: Game, store: Store | None, observers: Observers | None = None) -> None:
        self.game = game
        self.store = store
        self.observers = observers or Observers(())
        if isinstance(game, Staged):
            game.follow(self.observers.on_stage)
        # By the number of the seed: a replicate of the game, or one of those that a method trains with.
        self.known: defaultdict[int, dict[int, float]] = defaultdict(dict)
        self.fresh: defaultdict[int, set[int]] = defaultdict(set)
        self.told: dict[Trial, PerRow] = {}  # what test rows said of the metric that counts
        self.took: dict[int, float] = {}
        self.unwritten = Unwritten(game, store)
        self.reading = Reading(game)
        self._any_seed = has_any_seed(game, self.reading)
        self._trials_of_empty = trials_of_empty(game, self.reading)
        self.own_rows = OwnRows(game)  # what coalitions are worth to single clients
        self.empty: Empty | None = None  # how v(∅) was fixed, once it is known
        # A table is its own memory; a copy of it as a dict would be a hundred times as large.
        in_memory = (
            isinstance(game, TableGame)
            and game.seeds == 1
            and store is None
            and not self.observers.want_outcomes
        )
        self.table = game.utilities if isinstance(game, TableGame) and in_memory else None
        if store is not None:
            refuse_unrecognised(game)
            enter_game(store, game)
        self.before = self.head()  # what the store had when this run looked into it

    def head(self) -> Head | None:
        """Where the chain of the game's rows ends now; None without a store that has one."""
        store, game_id = self.store, self.game.id
        if isinstance(self.game, RestrictedGame):
            store, game_id = self.game.store, self.game.whole_id
        return store.head(game_id) if isinstance(store, Chained) else None

    def learn(self, asks: Iterable[Sequence[int]]) -> None:
        """Makes sure that everything asked is known, evaluating in one batch what is not."""
        if self.table is not None:
            return
        asked = dict.fromkeys(mask for ask in asks for mask in ask)
        of_empty = self._trials_of_empty if 0 in asked and self._any_seed else []
        trials = [(mask, replicate) for replicate in range(self.game.replicates) for mask in asked]
        self._learn(list(dict.fromkeys([*of_empty, *trials])))

    def learn_trials(self, trials: Sequence[Trial]) -> NDArray[np.float64]:
        """The utilities of trainings with several seeds, in their order, evaluating in one batch what is not known."""
        of_empty = self._trials_of_empty if any(mask == 0 for mask, _ in trials) else []
        self._learn(list(dict.fromkeys([*of_empty, *trials])))
        empty = self.mean_of_empty() if of_empty else None
        return np.array([self.known[seed][mask] if mask or empty is None else empty for mask, seed in trials])

    def _of_empty(self) -> list[float]:
        return [self.known[seed][0] for _, seed in self._trials_of_empty if 0 in self.known[seed]]

    def mean_of_empty(self) -> float | None:
        """v(∅) over several seeds; None where it is not known."""
        found = self._of_empty()
        return float(np.mean(found)) if found else self.utility(0)

    def mean_over_seeds(self, mask: int) -> float | None:
        """The mean of a coalition's utilities over all seeds that it was trained with; None where it was not."""
        found = [of_seed[mask] for of_seed in self.known.values() if mask in of_seed]
        return float(np.mean(found)) if found else None

    @property
    def empty_variance(self) -> float:
        """The variance of v(∅) as a mean over seeds; of a table, the mean is over all there are."""
        found = self._of_empty() if self._any_seed else []
        return float(np.var(found, ddof=1)) / len(found) if len(found) > 1 else 0.0

    @property
    def rule_of_empty(self) -> Empty | None:
        """How v(∅) was fixed; None where it is one utility like others."""
        if self.empty is not None or not self._any_seed or self.utility(0) is None:
            return self.empty
        return over_seeds(len(self._trials_of_empty))

    def _learn(self, asked: Sequence[Trial]) -> None:
        missing = self._unknown(asked)
        incomplete: dict[Trial, Outcome] = {}
        if self.store is not None and missing:
            total = self._count + len(missing)
            for seed, masks in by_seed(missing).items():
                stored = self.store.read(self.game.id, masks, seed)
                lacks = lacking(self.game, stored)
                incomplete |= {(mask, seed): outcome for mask, outcome in lacks.items()}
                for mask, outcome in stored.items():
                    if mask not in lacks:
                        self._remember((mask, seed), outcome)
                        self._tell((mask, seed), outcome, total, reused=True)
            missing = self._unknown(missing)
        if missing:
            self._evaluate(missing, incomplete, self._count + len(missing))

    def _unknown(self, trials: Iterable[Trial]) -> list[Trial]:
        return [(mask, seed) for mask, seed in trials if mask not in self.known[seed]]

    @property
    def _count(self) -> int:
        """How many trials are known."""
        return sum(map(len, self.known.values()))

    def utilities(self, ask: Sequence[int]) -> NDArray[np.float64]:
        """The utilities in the order of the ask: means where evaluations are repeated."""
        if self.table is not None:
            if isinstance(ask, range) and len(ask) == len(self.table):
                return self.table
            return self.table[np.fromiter(ask, np.int64, len(ask))]
        columns = [
            np.fromiter((known[mask] for mask in ask), np.float64, len(ask)) for known in self._replicates
        ]
        mean: NDArray[np.float64] = np.mean(columns, axis=0)
        if 0 in ask and self._any_seed:
            mean[[not mask for mask in ask]] = self.mean_of_empty()
        return mean

    def stored(self) -> dict[int, tuple[float, float]]:
        """Utilities that the store had before this run, and the variances of their errors."""
        found: dict[int, tuple[float, float]] = {}
        for _ in range(_LOOKS):
            self.before = self.head()
            found = known_beforehand(self.store, self.game, self.reading)
            if self.head() == self.before:  # nobody else wrote meanwhile: this is what the head stands for
                break
        return found

    def utility(self, mask: int) -> float | None:
        """The utility of a coalition if it is known, from this run or from the store."""
        if (
            isinstance(self.game, TableGame) and self.game.seeds == 1 and self.store is None
        ):  # observed or not
            return float(self.game.utilities[mask])
        of_empty = mask == 0 and self._any_seed
        trials = self._trials_of_empty if of_empty else [(mask, r) for r in range(self.game.replicates)]
        found = [self._found(trial) for trial in trials]
        complete = [utility for utility in found if utility is not None]
        return float(np.mean(complete)) if len(complete) == len(found) else None

    def _found(self, trial: Trial) -> float | None:
        mask, seed = trial
        if mask in self.known[seed] or self.store is None:
            return self.known[seed].get(mask)
        stored = self.store.read(self.game.id, [mask], seed)
        if mask not in stored or self.reading.lacks_metric(mask, stored[mask]):
            return None
        self._note_empty(mask, stored[mask])
        return float(self.game.utility(stored[mask]))

    @property
    def _replicates(self) -> list[dict[int, float]]:
        return [self.known[replicate] for replicate in range(self.game.replicates)]

    def trained_trials(self, trials: Collection[Trial]) -> int:
        """How many of these trainings were made in this run."""
        return sum(mask in self.fresh[seed] for mask, seed in trials)

    @property
    def made(self) -> list[Trial]:
        """The trainings of this run."""
        return [(mask, seed) for seed, masks in self.fresh.items() for mask in masks]

    def trained(self, asked: Collection[int]) -> int:
        """How many evaluations of these coalitions were made in this run; a table is looked up each time."""
        if self.table is not None:
            return len(asked)
        fresh = [self.fresh[replicate] for replicate in range(self.game.replicates)]
        if isinstance(asked, range):
            return sum(map(len, fresh))
        return sum(len(evaluated.intersection(asked)) for evaluated in fresh)

    def best(self) -> tuple[int, float, int] | None:
        """The coalition with the highest utility that is known, what it is, and of how many; v(∅) is not among them."""
        if self.table is not None:
            return None
        complete = set(self.known[0]).intersection(*self._replicates[1:])
        masks = [mask for mask in complete if not self.is_empty(mask)]
        if not masks:
            return None
        utilities = self.utilities(masks)
        place = int(utilities.argmax())
        return masks[place], float(utilities[place]), len(masks)

    def noise(self) -> float | None:
        """Standard deviation of a single evaluation of a coalition, pooled over all; None without repeats."""
        repeated = [
            mask
            for mask in self.known[0]
            if all(mask in known for known in self._replicates) and not self.is_empty(mask)
        ]
        if len(self._replicates) < 2 or not repeated:
            return None
        table = np.array([[known[mask] for known in self._replicates] for mask in repeated])
        return float(np.sqrt(table.var(axis=1, ddof=1).mean()))

    def keep(self, mask: int, outcome: Outcome) -> None:
        """An outcome that came about otherwise: known and stored from now on, unless there already was one."""
        if self.store is not None:
            self.store.append(self.game.id, [(mask, outcome)])
            stored = self.store.read(self.game.id, [mask]).get(mask)
            if stored is None:
                raise StoreError(
                    f"The store does not give back coalition {members(mask)}, which was just stored."
                )
            outcome = outcome if self.reading.lacks_metric(mask, stored) else stored
        if mask not in self.known[0]:
            self._remember((mask, 0), outcome)
            self.fresh[0].add(mask)
            self._tell((mask, 0), outcome, self._count, reused=False)

    def seconds(self, ask: Collection[int]) -> float:
        """What evaluating these took, now or when they were stored."""
        return sum(self.took[mask] for mask in ask) if self.took else 0.0

    def _evaluate(self, missing: list[Trial], incomplete: Mapping[Trial, Outcome], total: int) -> None:
        """Evaluates and stores; what is in the store, but incomplete, must come to the same again."""
        self.observers.on_ask(self._count, total)
        if isinstance(self.store, Claiming) and takes_claims_of(self.game):
            self._share(missing, incomplete, total)
        else:
            self._take_in(evaluate_trials(self.game, missing), missing, incomplete, total)

    def _share(self, missing: list[Trial], incomplete: Mapping[Trial, Outcome], total: int) -> None:
        """Evaluates what no other process is at, and waits for what others are at, or takes over from them."""
        store = self.store
        assert store is not None
        assert isinstance(store, Claiming)
        with Shift(store, self.game.id) as shift:
            mine: list[Trial] = []

            def claim(trials: Sequence[Trial]) -> list[Trial]:
                free = shift.claim(self.game.id, trials)
                read(free)  # it may have been finished since this run looked
                left = self._unknown(free)
                mine.extend(left)
                return left

            def read(trials: Sequence[Trial]) -> None:
                for seed, masks in by_seed(trials).items():
                    for mask, outcome in store.read(self.game.id, masks, seed).items():
                        if not self.reading.lacks_metric(mask, outcome):
                            self._remember((mask, seed), outcome)
                            self._tell((mask, seed), outcome, total, reused=True)
                            shift.moved()

            self._take_in(evaluate_trials(self.game, missing, claim), mine, incomplete, total, shift)
            while left := self._unknown(missing):
                read(left)
                mine.clear()
                left = claim(self._unknown(left))
                if left:
                    self._take_in(evaluate_trials(self.game, left), left, incomplete, total, shift)
                elif elsewhere := len(self._unknown(missing)):
                    coalitions = plural(elsewhere, "coalition")
                    shift.refuse_to_wait_for_itself(coalitions)
                    self.observers.on_stage(f"waiting for {coalitions} that another process is at")
                    shift.wait()

    def _take_in(
        self,
        outcomes: Iterator[tuple[Trial, Outcome]],
        asked: Sequence[Trial],
        incomplete: Mapping[Trial, Outcome],
        total: int,
        shift: Shift | None = None,
    ) -> None:
        """Keeps outcomes as they come; all that were asked for must."""
        self.unwritten.begin()
        try:
            for (mask, seed), outcome in outcomes:
                trial = mask, seed
                if shift is not None:
                    shift.moved()
                if trial in incomplete:
                    outcome = completed(self.game, mask, incomplete[trial], outcome)
                self._remember(trial, outcome)
                if not (reused := self._was_read(trial)):
                    self.fresh[seed].add(mask)
                self.unwritten.add(trial, outcome)
                self._tell(trial, outcome, total, reused=reused)
        finally:  # also when a coalition fails or the user interrupts: nothing finished is lost
            try:
                self.unwritten.write()
            finally:
                if isinstance(outcomes, Generator):
                    outcomes.close()  # ends worker processes now, not when the generator is collected
        lost = self._unknown(asked)
        if lost:
            who = members(lost[0][0])
            raise UtilityError(f"The game returned nothing for {len(lost)} coalitions, the first {who}.", who)

    def _remember(self, trial: Trial, outcome: Outcome) -> None:
        mask, seed = trial
        utility = self._utility(mask, outcome)
        if not abs(utility) <= LARGEST:
            raise UtilityError(
                f"The utility of a coalition must be a finite number up to {LARGEST:g}. Got {utility} for coalition "
                f"{members(mask)}. It was not stored.",
                members(mask),
            )
        self._note_empty(mask, outcome)
        self.known[seed][mask] = utility
        told = self.reading.rows_of_utility(mask, outcome)
        if told is not None:
            self.told[mask, seed] = told
        self.own_rows.remember(trial, outcome, self.is_empty(mask))
        self.took[mask] = self.took.get(mask, 0.0) + outcome.seconds

    def _utility(self, mask: int, outcome: Outcome) -> float:
        """What the game reads from an outcome, whoever wrote the game."""
        try:
            given = self.game.utility(outcome)
            if type(given) is float:
                return given
            if isinstance(given, str) or np.iscomplexobj(given):
                raise TypeError(f"it gave {given!r}")
            return float(given)
        except FedvalueError:
            raise
        except Exception as error:  # of a game of one's own
            who, said = members(mask), f"{type(error).__name__}: {error}"
            raise UtilityError(
                f"utility of a {type(self.game).__name__} must be a number for every outcome. Of coalition {who}: {said}.",
                who,
            ) from error

    def _was_read(self, trial: Trial) -> bool:
        """Whether it came from the store of the whole game, which a restricted game looks into by itself."""
        return isinstance(self.game, RestrictedGame) and trial in self.game.reused

    def is_empty(self, mask: int) -> bool:
        """Whether the utility follows from a rule and not from a training: it has no noise."""
        return self.reading.is_empty(mask)

    def _note_empty(self, mask: int, outcome: Outcome) -> None:
        grounded = self.reading.grounded
        if mask == 0 and grounded is not None and grounded.is_empty(0):
            self.empty = grounded.empty_of(outcome)

    def _tell(self, trial: Trial, outcome: Outcome, total: int, *, reused: bool) -> None:
        if self.observers.want_outcomes:
            mask, seed = trial
            shown = outcome._replace(
                metrics=dict(outcome.metrics)
            )  # what an observer does to it stays with it
            known = self.known[seed][mask], shown, reused, self._count, total
            self.observers.on_outcome(Evaluation(mask, seed, *known))
