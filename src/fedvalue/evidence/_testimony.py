"""What the nodes of a federation have signed, put together: who trained which model in which round, and who measured it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import NamedTuple

from fedvalue.replies import Reply, origin_of

__all__ = ["Client", "End", "Testimony"]

_MOST_WAYS = 1000  # in which somebody may have trained the same thing with several results, in a book that others wrote


class Client(NamedTuple):
    """Whose signatures count: those of these keys, under these rows. Names do not."""

    data: str
    keys: frozenset[str]
    test: str = ""
    test_rows: int = 0


class End(NamedTuple):
    """A final model of a coalition, and of which local models it is the mean; several where somebody trained twice."""

    final: str
    origins: frozenset[str]


@dataclass
class Testimony:
    """Everything in the book whose signature fits, by the rows and the key of who trained or measured."""

    replies: int = 0
    trained: dict[tuple[str, str, int, int], dict[str, set[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    """By round and seed: what came back of what was sent."""
    alone: dict[tuple[str, str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    measured: dict[tuple[str, str, str, int], dict[str, set[tuple[str, str]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    """By the held-out rows: of every origin the models and what was measured of them."""
    models: dict[tuple[tuple[str, ...], int], dict[int, set[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    """By the rows of a coalition and the seed: the digests of its models, by round."""

    def add(self, reply: Reply, key: str) -> None:
        self.replies += 1
        if reply.kind == "evaluate":
            measured = self.measured[reply.data, key, reply.test, reply.test_rows]
            for sent, back, origins in zip(reply.sent, reply.back, reply.origins, strict=False):
                for origin in origins.split(" "):
                    measured[origin].add((sent, back))
            return
        for sent, back, seed in zip(reply.sent, reply.back, reply.seeds, strict=False):
            self.trained[reply.data, key, reply.round, seed][sent].add(back)
        if reply.alone:
            self.alone[reply.data, key, reply.seeds[0]].add(reply.back[-1])

    def ends(self, coalition: Sequence[Client], seed: int, rounds: int) -> list[End]:
        """The final models of a coalition of which all members with keys have signed each round, with this seed."""
        models = self.models.get((tuple(sorted(one.data for one in coalition)), seed), {})
        return [
            end
            for final in sorted(models.get(rounds + 1, ()))
            for end in self._ends(coalition, models, final, seed, rounds)
        ]

    def _ends(
        self,
        coalition: Sequence[Client],
        models: Mapping[int, set[str]],
        final: str,
        seed: int,
        rounds: int,
    ) -> Iterator[End]:
        """The ways to one final model. The mean of one model is that model; that of several only they who averaged know."""
        single = len(coalition) == 1
        if single and final in self._alone(coalition[0], seed):
            yield _end(final, coalition, [{final}])
        sent = self._sent(coalition, None, 1, seed)  # all begin with one model, which no line names
        for t in range(2, rounds + 1):
            named = set(models.get(t, ()))
            if single:
                named &= {back for model in sent for back in self._back(coalition[0], t - 1, seed, model)}
            sent = self._sent(coalition, named, t, seed) if sent else set()
        for model in sorted(sent):
            backs = [self._back(one, rounds, seed, model) if one.keys else {""} for one in coalition]
            if not single:
                yield _end(final, coalition, backs)
            elif final in backs[0]:
                yield _end(final, coalition, [{final}])

    def _sent(self, coalition: Sequence[Client], named: set[str] | None, t: int, seed: int) -> set[str]:
        """The models that all with keys have signed that they were sent in a round, among those named."""
        told = [set(self._trained(one, t, seed)) for one in coalition if one.keys]
        return set.intersection(*told, *([] if named is None else [named])) if told else set()

    def _alone(self, one: Client, seed: int) -> set[str]:
        return {back for key in one.keys for back in self.alone.get((one.data, key, seed), ())}

    def _trained(self, one: Client, t: int, seed: int) -> Iterator[str]:
        return (sent for key in one.keys for sent in self.trained.get((one.data, key, t, seed), ()))

    def _back(self, one: Client, t: int, seed: int, sent: str) -> set[str]:
        told = (self.trained.get((one.data, key, t, seed), {}) for key in one.keys)
        return {back for of_sent in told for back in of_sent.get(sent, ())}


def _end(final: str, coalition: Sequence[Client], backs: Sequence[set[str]]) -> End:
    ways = islice(product(*map(sorted, backs)), _MOST_WAYS)
    data = [one.data for one in coalition]
    return End(final, frozenset(origin_of(zip(data, way, strict=True)) for way in ways))
