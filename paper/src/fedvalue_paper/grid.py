"""The grid of an experiment: every game, and for each game every run of a method, a budget and a seed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from fedvalue.errors import BudgetError, InputError, MethodError
from fedvalue_paper.authors import known_methods
from fedvalue_paper.spec import Block, Experiment, Listed

__all__ = ["GameSpec", "Run", "budget_for", "games_of", "runs_of", "text_of"]

_PAPER = {3: 5, 6: 8, 10: 32}  # the paper's Table III: sampling rounds by number of clients
_AUTHORS = {100: 300}  # what their code has for Fig. 9, where n ln n is 461
_ALL_MODELS = 1 << 12  # reconstructed models of a recorded run: up to these, nothing is sampled
_FIXED = ("table", "names")  # lists that are one value
_KIND = ("scenario", "partition", "model", "clients", "metric")
_PLAIN = ("scenario", "clients", "partition", "samples", "test_size", "seed", "training_seed", "model", "dropout", "metric", "empty", "own_numbers")  # fmt: skip


@dataclass(frozen=True)
class GameSpec:
    """One game: a scenario with a model and rules of training, or a table of utilities."""

    label: str
    n: int
    settings: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    def get(self, key: str, default: Any = None) -> Any:
        """One of the plain settings."""
        return self.settings.get(key, default)


@dataclass(frozen=True)
class Run:
    """One method with its options, a budget (None: it takes what it needs) and a seed."""

    method: str
    label: str
    options: Mapping[str, Any]
    budget: int | None
    seed: int
    expected: tuple[float, ...] | None = None
    over_seeds: bool = False


def games_of(experiment: Experiment) -> list[GameSpec]:
    """All games of the experiment, each labelled by what sets it apart from the others."""
    found = [(block, *picked) for block in experiment.blocks for picked in _crossed(block)]
    if not found:
        raise InputError(f"{experiment.name} has no games at the scale {experiment.scale!r}.")
    flat = [{**plain, **options} for _, plain, options, _ in found]
    telling = [key for key in _telling(experiment.blocks) if len({repr(one.get(key)) for one in flat}) > 1]
    games = []
    for (block, plain, options, training), one in zip(found, flat, strict=True):
        label = ", ".join(_named(key, one[key]) for key in telling if key in one) or block.name
        games.append(GameSpec(label, _clients(experiment, block, plain), plain, options, training))
    return games


def runs_of(experiment: Experiment, n: int) -> Iterator[Run]:
    """Every run on a game of n clients. What does not depend on budget or seed is run once."""
    known = known_methods()
    for listed in experiment.methods:
        if listed.most_clients is not None and n > listed.most_clients:
            continue
        method = known.get(listed.name)
        if method is None:
            raise MethodError(
                f"{experiment.name}: unknown method {listed.name!r}. Methods: {', '.join(known)}."
            )
        budgets = experiment.budgets if listed.budgets in (None, ("all",)) else listed.budgets
        free = method.fixed and listed.budgets is None  # its cost is its own, whatever the budget
        counts: list[int | None] = [None] if free else list(_budgets(budgets, n))
        for options in _option_sets(listed, n):
            for budget in counts:
                seeds = experiment.seeds if listed.seeds is None else listed.seeds[: len(experiment.seeds)]
                settled = budget == 1 << n if not method.view else _settled(listed.name, options, n)
                if (method.fixed and not method.view) or settled:
                    seeds = seeds[:1]
                for seed in seeds:
                    label = listed.label.format_map({"n": n, **options})
                    yield Run(listed.name, label, options, budget, seed, listed.expected, listed.over_seeds)


def budget_for(rule: int | str, n: int) -> int:
    """A number of coalitions: given, a share of all, or by a rule.

    >>> budget_for("paper", 10), budget_for("n ln n", 100), budget_for("25%", 6), budget_for(40, 10)
    (32, 461, 16, 40)
    """
    if isinstance(rule, int):
        return rule
    by_logarithm = min(1 << n, math.ceil(n * math.log(n)))
    if rule == "paper":
        return _PAPER.get(n, by_logarithm)
    if rule == "authors":
        return _AUTHORS.get(n, by_logarithm)
    if rule == "n ln n":
        return by_logarithm
    try:
        share = float(rule.removesuffix("%")) / 100 if rule.endswith("%") else math.nan
        return max(2, math.ceil(share * (1 << n)))
    except (ValueError, OverflowError) as error:
        raise BudgetError(
            f"A budget is a number, a share such as '25%', 'paper', 'authors' or 'n ln n'. Got {rule!r}."
        ) from error


def text_of(options: Mapping[str, Any]) -> str:
    """Options on one line.

    >>> text_of({"k": 2, "design": "paper"})
    'k=2 design=paper'
    """
    return " ".join(f"{key}={value}" for key, value in options.items())


def _budgets(rules: Sequence[int | str], n: int) -> Iterator[int]:
    """In order and each once; more than all coalitions is no budget."""
    yield from (b for b in dict.fromkeys(budget_for(rule, n) for rule in rules) if b <= 1 << n)


def _option_sets(listed: Listed, n: int) -> Iterator[dict[str, Any]]:
    """Lists are crossed; '1..n' is the list of 1 to n."""
    choices = [
        list(range(1, n + 1)) if value == "1..n" else value if isinstance(value, list) else [value]
        for value in listed.options.values()
    ]
    for chosen in product(*choices):
        yield dict(zip(listed.options, chosen, strict=True))


def _settled(name: str, options: Mapping[str, Any], n: int) -> bool:
    """Whether a gradient method draws nothing at random."""
    return name == "dig-fl" or (
        name in ("or", "lambda-mr", "lambda-mr-zero") and 1 << n <= options.get("models", _ALL_MODELS)
    )


def _crossed(block: Block) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    given = block.settings
    fixed = {key: given[key] for key in _FIXED if key in given}
    plain = {key: given[key] for key in _PLAIN if key in given}
    options, training = dict(given.get("options", {})), dict(given.get("training", {}))
    for a, b, c in product(_cross(plain), _cross(options), _cross(training)):
        yield {**fixed, **a}, b, c


def _cross(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    choices = [value if isinstance(value, list) else [value] for value in table.values()]
    return [dict(zip(table, chosen, strict=True)) for chosen in product(*choices)]


def _telling(blocks: Sequence[Block]) -> list[str]:
    """What games are told apart by: their kind, and whatever a block gives a list for."""
    lists = [
        key
        for block in blocks
        for key, value in {**block.settings, **block.settings.get("options", {})}.items()
        if isinstance(value, list) and key not in _FIXED
    ]
    return list(dict.fromkeys([*_KIND, *lists]))


def _named(key: str, value: Any) -> str:
    if key in _KIND and key != "clients":
        return str(value)
    return f"{'n' if key == 'clients' else key} = {value}"


def _clients(experiment: Experiment, block: Block, plain: Mapping[str, Any]) -> int:
    if "table" in plain:
        return len(plain["table"]).bit_length() - 1
    if "scenario" not in plain or not isinstance(plain.get("clients"), int):
        raise InputError(
            f"{experiment.name}, [game.{block.name}] needs 'scenario' and 'clients', or 'table'."
        )
    return int(plain["clients"])
