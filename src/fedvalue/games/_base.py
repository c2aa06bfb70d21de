"""Games: v(S) for lists of coalitions.

A game knows its number of clients, their names, an `id` that changes with anything that changes its
utilities and with nothing else, and how to evaluate coalitions, handing each outcome over as it finishes.
Where evaluations are noisy they can be repeated: the utility of a coalition is the mean over `replicates`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Protocol, cast, runtime_checkable

from fedvalue._checks import expect
from fedvalue._text import is_one_line
from fedvalue.coalitions import Trial, by_seed, full_mask
from fedvalue.errors import GameError
from fedvalue.games._members import Members
from fedvalue.games._test_parts import TestPart
from fedvalue.outcome import Outcome
from fedvalue.trainers import Claim, ClaimTrials, is_meant, of_seed, takes_claims
from fedvalue.training import TraceGames
from fedvalue.values import Disclosure
from fedvalue.yardsticks import Baseline, Empty

__all__ = [
    "MOST_REPLICATES",
    "Certain",
    "Disclosing",
    "Examined",
    "Game",
    "Grounded",
    "Judged",
    "Kindred",
    "Measured",
    "Named",
    "Priced",
    "Random",
    "Recognised",
    "Reseeded",
    "Sharing",
    "Staged",
    "Tested",
    "TestedByClient",
    "Together",
    "Traceable",
    "client_names",
    "evaluate_trials",
    "is_named",
    "is_random",
    "takes_claims_of",
]


_EVALUATE = "evaluate of a game yields pairs of a coalition, as a bitmask, and an fv.Outcome."
MOST_REPLICATES = 10_000  # more would not fit into a run's memory


class Game(Protocol):
    """What a game must offer. `evaluate` yields each coalition as soon as it is finished, in any order.

    >>> import fedvalue as fv
    >>> class Stations:
    ...     n, names, id, doubts, replicates = 2, ("north", "south"), "stations-1", (), 1
    ...     def evaluate(self, masks, replicate=0):
    ...         for mask in masks:
    ...             yield mask, fv.Outcome({"regions": [0.0, 3.0, 2.0, 4.0][mask]})
    ...     def utility(self, outcome):
    ...         return outcome.metrics["regions"]
    >>> fv.value(Stations(), "exact").mean.tolist()
    [2.5, 1.5]
    """

    @property
    def n(self) -> int: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def id(self) -> str: ...
    @property
    def doubts(self) -> tuple[str, ...]: ...
    @property
    def replicates(self) -> int: ...
    def evaluate(self, masks: Sequence[int], replicate: int = 0) -> Iterator[tuple[int, Outcome]]: ...
    def utility(self, outcome: Outcome) -> float: ...


# What only some games can do. A game says so by having the members; a run looks for nothing else.


@runtime_checkable
class Measured(Protocol):
    """A game whose outcomes hold several metrics, of which one is the utility.

    Outcomes hold it as `stored_as`, which is not its name where the metric is the user's own. `retrain`: whether
    trainings in the store that lack it are to be made again.
    """

    @property
    def metric(self) -> str: ...
    @property
    def higher_is_better(self) -> bool: ...
    @property
    def stored_as(self) -> str: ...
    @property
    def retrain(self) -> bool: ...


@runtime_checkable
class Examined(Protocol):
    """A game whose data was looked at: what is suspicious about it, in sentences."""

    @property
    def suspicious(self) -> tuple[str, ...]: ...


@runtime_checkable
class Certain(Protocol):
    """A game that knows something about its values beforehand.

    `idle` clients change no coalition, and in a group that is `alike` it does not matter who of it takes part.
    """

    @property
    def idle(self) -> tuple[int, ...]: ...
    @property
    def alike(self) -> tuple[tuple[int, ...], ...]: ...


@runtime_checkable
class Random(Protocol):
    """A game that knows whether evaluating a coalition again would give something else."""

    @property
    def random(self) -> bool: ...


@runtime_checkable
class Named(Protocol):
    """A game that knows whether anybody gave its clients their names: only those tell it from another."""

    @property
    def named(self) -> bool: ...


@runtime_checkable
class Reseeded(Protocol):
    """A game whose coalitions can be trained with several seeds: `evaluate` takes them as replicates 0, 1, ….

    `seeds` is how many there are; None: as many as one likes.
    """

    @property
    def seeds(self) -> int | None: ...


@runtime_checkable
class Together(Protocol):
    """A game that evaluates coalitions with several seeds in one go; others do one seed after the other.

    As with `Sharing`, it evaluates those that `claim` gives back.
    """

    def evaluate_trials(
        self, trials: Sequence[Trial], claim: ClaimTrials = list
    ) -> Iterator[tuple[Trial, Outcome]]: ...


@runtime_checkable
class Tested(Protocol):
    """A game whose models are measured on so many test rows; None where that is not known."""

    @property
    def test_rows(self) -> int | None: ...


@runtime_checkable
class TestedByClient(Protocol):
    """A game whose test rows may be the clients' own: what a coalition is worth to each of them."""

    def parts_of_test(self) -> tuple[TestPart, ...]:
        """None where the test rows are nobody's; an InputError where they are, and cannot be told apart."""
        ...


@runtime_checkable
class Disclosing(Protocol):
    """A game that knows what left its clients in a run that made these trainings; None where it does not after all."""

    def disclosure(self, trials: Collection[Trial], is_complete: bool = True) -> Disclosure | None: ...


@runtime_checkable
class Recognised(Protocol):
    """A game that can tell whether its id still says what it is."""

    @property
    def changed(self) -> bool: ...


@runtime_checkable
class Grounded(Protocol):
    """A game that fixes what coalitions without data are worth by a rule: their outcomes hold it as `empty_as`."""

    @property
    def empty_as(self) -> str: ...
    def is_empty(self, mask: int) -> bool: ...
    def empty_of(self, outcome: Outcome) -> Empty: ...


@runtime_checkable
class Judged(Protocol):
    """A game that knows what an answer reaches that ignores the data; None where it does not after all."""

    def baseline(self) -> Baseline | None: ...


@runtime_checkable
class Kindred(Protocol):
    """A game that recognises its coalitions in games with other members."""

    def members(self) -> Members | None: ...
    def kin(self, game_id: str, theirs: Members) -> Callable[[int], int | None] | None: ...
    def adopted(self, mask: int, outcome: Outcome) -> Outcome: ...


@runtime_checkable
class Staged(Protocol):
    """A game that can say what it is doing between two finished coalitions."""

    def follow(self, on_stage: Callable[[str], None]) -> None: ...


class Sharing(Protocol):
    """A game that asks before it begins on coalitions, so that several processes can share the work.

    It evaluates those that `claim` gives back. A run recognises it by that argument.
    """

    def evaluate(
        self, masks: Sequence[int], replicate: int = 0, claim: Claim = list
    ) -> Iterator[tuple[int, Outcome]]: ...


@runtime_checkable
class Priced(Protocol):
    """A game that can tell from the seconds of some coalitions what exact values would take."""

    def exact_cost(self, seconds: Mapping[int, float]) -> tuple[int, float | None]:
        """Trainings for exact values, and their seconds if there is anything to extrapolate from."""
        ...


@runtime_checkable
class Traceable(Protocol):
    """A game with a training that can be recorded, for gradient methods. `averages`: whether it really can."""

    @property
    def averages(self) -> bool: ...
    def trace_games(self, keep: Callable[[int, Outcome], None] | None = None) -> TraceGames: ...


def takes_claims_of(game: Game) -> bool:
    """Whether a game asks before it begins on coalitions."""
    return is_meant(game, "evaluate_trials", "evaluate") or takes_claims(game.evaluate)


def evaluate_trials(
    game: Game, trials: Sequence[Trial], claim: ClaimTrials = list
) -> Iterator[tuple[Trial, Outcome]]:
    """Evaluates with several seeds, in one go if the game can, else one seed after the other.

    A game that asks for no claims is given everything: `claim` is not called then.
    """
    if is_meant(game, "evaluate_trials", "evaluate") and any(seed for _, seed in trials):
        yield from cast(Together, game).evaluate_trials(trials, claim)
        return
    for seed, masks in by_seed(trials).items():
        found = (
            cast(Sharing, game).evaluate(masks, seed, of_seed(claim, seed))
            if takes_claims(game.evaluate)
            else game.evaluate(masks, seed)
        )
        if not isinstance(found, Iterable):
            raise GameError(f"{_EVALUATE} {type(game).__name__} returned {found!r:.60}.")
        everyone = full_mask(game.n)
        for given in found:
            mask, outcome = given if isinstance(given, tuple) and len(given) == 2 else (None, None)
            if not (isinstance(outcome, Outcome) and isinstance(mask, Integral) and 0 <= mask <= everyone):
                raise GameError(
                    f"{_EVALUATE} {type(game).__name__} gave {given!r:.60}, and has {game.n} clients."
                )
            yield (int(mask), seed), outcome


def is_random(game: Game) -> bool:
    """Whether utilities would be others, were they evaluated again."""
    if isinstance(game, Random):
        return game.random
    return game.replicates > 1 or (isinstance(game, Reseeded) and game.seeds != 1)


def is_named(game: Game) -> bool:
    """Whether anybody gave the clients their names; names other than the usual ones were given in any case."""
    return isinstance(game, Named) and game.named


def client_names(n: int, names: Sequence[str] | None) -> tuple[str, ...]:
    """The given names as text, or client-0, client-1, …"""
    if names is None:
        return tuple(f"client-{i}" for i in range(n))
    expect("names", names, Iterable, f"a list of {n} different names", error=GameError)
    if isinstance(names, (set, frozenset)):
        raise GameError(
            f"names must be a list, in the order of the clients. A {type(names).__name__} has no order."
        )
    given = tuple(str(name) for name in names)
    if len(given) != n or len(set(given)) != n:
        raise GameError(f"names must hold {n} different names. Got {len(given)}: {list(given)[:12]}.")
    odd = next((name for name in given if not is_one_line(name)), None)
    if odd is not None:
        raise GameError(
            f"names must be texts without line breaks, control characters or spaces at their ends. Got {odd[:60]!r}."
        )
    return given
