"""What a valuation in a federation can be told: the keys under [tool.flwr.app.config] of its Flower app."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fedvalue._checks import did_you_mean, whole
from fedvalue.errors import InputError
from fedvalue.flower._limits import Limits
from fedvalue.run import as_method, check_options, refuse_two_ways, with_least, with_own_seeds, with_seeds
from fedvalue.training import Training
from fedvalue.weights import read_groups

__all__ = ["ERROR_FILE", "MISSING", "Settings", "quorum_of"]

ERROR_FILE = "error.json"  # what a ServerApp leaves in its folder when it fails
MISSING = ("refuse", "use-known")
_EVALUATE_AT = ("server", "nodes")
_FEWEST = 2  # of a single client there is nothing to compare
_RULES = tuple(rule.name for rule in fields(Training))


@dataclass(frozen=True)
class Settings:
    """A valuation: who takes part, which method, which rules of training, what to do when somebody is missing.

    With a roster, `clients` may be 0: those in it. A valuation begins when all of them are there, or after `patience`
    with those who are, if they are at least `quorum` (0: two); `missing` is about clients that are lost later.

    >>> Settings.from_config({"clients": 3, "rounds": 2, "method": "ipss", "budget": 8}).training.rounds
    2
    """

    clients: int
    model: str = "mlp"
    method: str = "surrogate"
    budget: int | None = None
    replicates: int = 1
    seeds: int | None = None
    own_seeds: bool = False
    min_coalition: int = 1
    noise: bool = True
    loss: str = ""
    metric: str | None = None
    empty: str | float = "initial"
    evaluate: str = "server"
    share_all_models: bool = False
    roster: Path | None = None
    agreement: Path | None = None
    missing: str = "refuse"
    quorum: int = 0
    deadline: float = 600.0
    patience: float = 120.0
    message_mb: float = 64
    memory_mb: float = 1024.0
    max_claim: float = 1000.0
    max_update: float = 100.0
    groups: str = ""
    checkpoints: bool = True
    dry_run: bool = False
    out: Path = Path("fedvalue-results")
    store: Path | None = None
    training: Training = Training()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        """What is wrong is said before nodes are waited for."""
        for name, allowed in (("evaluate", _EVALUATE_AT), ("missing", MISSING)):
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {allowed}. Got {getattr(self, name)!r}.")
        whole("clients, the number of nodes that take part,", self.clients, 0 if self.roster else 1)
        whole("replicates", self.replicates, 1)
        whole("quorum", self.quorum, 0)
        if self.clients and self.quorum > self.clients:
            raise InputError(
                f"A quorum of {self.quorum} is more than the {self.clients} clients that there are."
            )
        for name in ("noise", "own_seeds", "share_all_models", "checkpoints", "dry_run"):
            if not isinstance(getattr(self, name), bool):
                shown = name.replace("_", "-")
                raise InputError(f"{shown} must be true or false. Got {getattr(self, name)!r}.")
        if self.evaluate == "nodes" and not self.share_all_models:
            raise InputError(
                "evaluate = 'nodes' sends every client every model, those that another has trained alone among them. Set "
                "share-all-models = true if all clients agree to that, or evaluate = 'server' and give the server a test set."
            )
        refuse_two_ways(self.replicates, self.seeds)
        self.limits  # noqa: B018 - checks them
        method = as_method(self.method)
        if self.parties and not method.uses_weights:
            raise InputError(
                f"{method.name} cannot value clients in groups. Leave `groups` out, or choose surrogate or exact."
            )
        check_options(method, self.options)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], own: tuple[str, ...] = ()) -> Settings:
        """Reads a run configuration; '' and 0 stand for the default where a setting may be left out.

        `own` are keys of the app itself, which are none of our business.
        """
        known = {f.name.replace("_", "-"): f.name for f in fields(cls) if f.name != "training"}
        given: dict[str, Any] = {}
        rules: dict[str, Any] = {}
        for key, value in config.items():
            if key.replace("-", "_") in _RULES:
                rules[key.replace("-", "_")] = value
            elif key in known:
                given[known[key]] = value
            elif key not in own:
                hint = did_you_mean(key, [*known, *_RULES])
                raise InputError(f"Unknown setting {key!r} in the run configuration. {hint}".rstrip())
        if "clients" not in given:
            raise InputError("The run configuration must say how many clients take part: clients = …")
        for optional in ("budget", "seeds", "metric", "store", "roster", "agreement"):
            given[optional] = given.get(optional) or None
        for path in ("out", "store", "roster", "agreement"):
            if given.get(path):
                given[path] = Path(str(given[path]))
        try:
            return cls(**{k: v for k, v in given.items() if k != "out" or v}, training=Training(**rules))
        except TypeError as error:
            raise InputError(f"A setting has the wrong kind of value: {error}.") from error

    def plain(self) -> dict[str, Any]:
        """All of them as plain data, by their names in the app."""
        rules = {rule.name: getattr(self.training, rule.name) for rule in fields(self.training)}
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "training"}
        paths = {name: value.as_posix() for name, value in own.items() if isinstance(value, Path)}
        return {name.replace("_", "-"): value for name, value in {**own, **paths, **rules}.items()}

    @property
    def parties(self) -> dict[str, list[str]] | None:
        """Who belongs together: "Holding=A,B; Other=C,D"."""
        return read_groups(text for text in str(self.groups).split(";") if text.strip())

    @property
    def limits(self) -> Limits:
        """What is too much for one client to claim or send."""
        return Limits(float(self.max_claim), float(self.max_update))

    @property
    def options(self) -> dict[str, Any]:
        """What the method is told of seeds and noise, if anything."""
        found = with_least(self.method, with_seeds(self.method, {}, self.seeds), self.min_coalition)
        found = with_own_seeds(self.method, found, self.own_seeds)
        return {**found} if self.noise else {**found, "noise": False}

    @property
    def store_path(self) -> Path:
        """Where every trained coalition is kept."""
        return self.store or self.out / "store.db"


def quorum_of(asked: int, clients: int) -> int:
    """How many clients it takes to begin.

    >>> quorum_of(0, 5), quorum_of(4, 5), quorum_of(0, 1)
    (2, 4, 1)
    """
    return asked or min(_FEWEST, clients)
