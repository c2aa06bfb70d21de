"""The client's side: a Flower ClientApp that trains stacks of models on this party's own data.

It answers three kinds of messages and no others. Only parameters, sizes, fingerprints and, where it is asked to measure
models, their metrics on its held-out rows leave it, also on blocks of at least eight of them.
"""

from __future__ import annotations

import atexit
import gc
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from logging import ERROR
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.common import log
from numpy.typing import NDArray

from fedvalue.errors import FedvalueError, InputError, MissingExtraError
from fedvalue.flower._arrays import from_arrays, joined, to_arrays
from fedvalue.flower._blocks import block_count, in_blocks
from fedvalue.flower._forms import Form
from fedvalue.flower._packing import learner_digest
from fedvalue.flower._reports import ClientReport, PartialScenario
from fedvalue.flower._wire import (
    ARRAYS,
    CONFIG,
    EVALUATE,
    METRICS,
    PROTOCOL,
    QUERY,
    TRAIN,
    ConfigRecord,
    Message,
    MetricRecord,
    RecordDict,
    WireError,
    count_in,
    from_record,
    settings_of,
    shapes_of,
    to_record,
)
from fedvalue.flower._witness import SIGNATURE, block_digest, model_digests, reply_of
from fedvalue.learners import make_learner
from fedvalue.learners.losses import losing
from fedvalue.learners.metrics import METRICS as METRICS_OF
from fedvalue.outcome import Outcome
from fedvalue.replies import Reply, digest_of_metrics
from fedvalue.scenarios import Dataset, Scale, Scenario
from fedvalue.training import Learner, Reseeding, Session, Stack, Training, later_rounds, outcomes_of

__all__ = ["Party", "add_to", "answer", "client_app"]


@dataclass(frozen=True)
class Party:
    """What one node has: rows to train on, rows held out for evaluation (if any), and who it is.

    `position` is its number among the clients, −1 where it has none and the name decides.
    """

    train: Dataset
    held_out: Dataset | None = None
    name: str = ""
    position: int = -1


def client_app(
    load: Callable[[Context], Party], model: str | Callable[..., Any] | None = None, device: str = "cpu"
) -> ClientApp:
    """A ClientApp for valuations: `load` gives this node's data, `model` is the model that it agrees to train.

    None takes the name in the run configuration. Flower starts the app anew for every message, so `load`
    should read this node's own rows and no more.
    """
    app = ClientApp()
    add_to(app, load, model, device)
    return app


def add_to(
    app: ClientApp,
    load: Callable[[Context], Party],
    model: str | Callable[..., Any] | None = None,
    device: str = "cpu",
) -> None:
    """Teaches an existing ClientApp to take part in valuations, beside what it does already."""
    # A process ends with every message, and would spend half a second on looking for garbage.
    atexit.register(gc.freeze)

    def handle(message: Message, context: Context) -> Message:
        try:
            wanted = model or str(context.run_config["model"])
            loss = str(context.run_config.get("loss") or "")
            key = context.node_config.get("signing-key")
            content = answer(message, load(context), wanted, device, Path(str(key)) if key else None, loss)
        except Exception as error:
            log(ERROR, "This node cannot answer %s", message.metadata.message_type, exc_info=error)
            raise _without_rows(error) from None
        return Message(content, reply_to=message)

    for register, kind in ((app.query, QUERY), (app.train, TRAIN), (app.evaluate, EVALUATE)):
        register(kind.split(".")[1])(handle)


def _without_rows(error: Exception) -> Exception:
    """What the server may be told of an error: Flower sends its text, which may quote rows or paths of this party."""
    told = type(error) in (InputError, WireError, MissingExtraError)
    return error if told else FedvalueError(f"{type(error).__name__}; the log of this node says more")


def answer(
    message: Message,
    party: Party,
    model: str | Callable[..., Any] | Learner,
    device: str = "cpu",
    key: Path | None = None,
    loss: str = "",
) -> RecordDict:
    """What this party replies, signed with this private key if there is one.

    `loss` is one of the app's own, package.module:function; those by name the server says.
    """
    config = settings_of(message.content)
    if config.get("protocol") != PROTOCOL:
        raise InputError(
            f"This node speaks protocol {PROTOCOL} of fedvalue; the server sent {config.get('protocol')!r}. "
            "Install the same release on both sides."
        )
    kind = message.metadata.message_type
    if kind == QUERY:
        return RecordDict({CONFIG: _report(party, config).to_record()})
    with _no_collecting():  # not before: torch takes a second to import, and a query does without
        learner = make_learner(model)
    scenario = _scenario(party, config, kind)
    learner = losing(learner, str(config.get("loss") or loss) or None, scenario)
    training = Training(**json.loads(str(config["training"])))
    _check(scenario, learner, config)
    session = learner.session(scenario, training, device, None)
    told = {name: config[name] for name in ("protocol", "game", "round", "rows")}
    if kind == EVALUATE:
        records, states = _evaluated(session, message.content, config, scenario)
    else:
        records, states = _trained(session, message.content, config, scenario, training)
    if key is not None:
        told[SIGNATURE] = _signature(states(), key)
    return RecordDict({**records, CONFIG: ConfigRecord(told)})


def _signature(reply: Reply, key: Path) -> str:
    try:
        return reply.signed(key).signature
    except InputError as error:  # it names a path of this party
        log(ERROR, "%s", error)
        raise InputError("The signing key of this node cannot be used; its log says why.") from error


@contextmanager
def _no_collecting() -> Iterator[None]:
    """For imports: they leave no garbage, and the collector would go through all that they make several times."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _report(party: Party, config: Mapping[str, Any]) -> ClientReport:
    # As it will be used: what a scenario makes of the arrays has the fingerprint that counts.
    scenario = _scenario(party, config, QUERY)
    own, held_out = scenario.clients[0], scenario.test if party.held_out else None
    return ClientReport(
        len(own),
        own.fingerprint,
        Form.of(own),
        party.position,
        party.name,
        len(held_out) if held_out else 0,
        held_out.fingerprint if held_out else "",
    )


def _scenario(party: Party, config: Mapping[str, Any], kind: str) -> Scenario:
    """The game as this node sees it: itself, measured on what it holds out."""
    if kind == EVALUATE and not party.held_out:
        raise InputError("This node holds no rows out, so it cannot evaluate.")
    test = party.held_out or party.train.rows(slice(0, 2))
    task, classes = str(config["task"]), count_in(config, "classes")
    # All nodes train in one unit, which the server says; a node's own targets would give another.
    scale = Scale(float(config.get("target-centre", 0.0)), float(config.get("target-spread", 1.0)))
    vocabulary = count_in(config, "vocabulary")
    return PartialScenario(
        "node", (party.train,), ("node",), test, task, classes, vocabulary, target_scale=scale
    )


def _check(scenario: Scenario, learner: Learner, config: Mapping[str, Any]) -> None:
    if scenario.clients[0].fingerprint != config["data"]:
        raise InputError("The data of this node is not what it was when the valuation began.")
    if learner_digest(learner) != config["learner"]:
        raise InputError(
            f"The server wants another model than this node has agreed to ({dict(learner.identity())}). "
            "Set the same model on both sides."
        )


def _trained(
    session: Session, content: RecordDict, config: Mapping[str, Any], scenario: Scenario, training: Training
) -> tuple[dict[str, Any], Callable[[], Reply]]:
    """The models, and what is stated of them."""
    like, rows, t = session.initial(), count_in(config, "rows", 1), count_in(config, "round", 1)
    arrays = from_record(content, shapes_of(to_arrays(like), rows))
    stack, seeds = from_arrays(arrays, like), _seeds_in(config, rows)
    trained = session.local(stack, [0] * rows, t) if seeds is None else _reseeded(session, stack, seeds, t)
    if config["alone"]:  # this was the first round of the coalition of this client; the others follow
        last = later_rounds(session, scenario, training.rounds, [(1, 0)], trained, {(0, 0): 0})
        trained = joined([trained, last])
    back = to_arrays(trained)
    return {ARRAYS: to_record(back)}, lambda: reply_of(
        TRAIN, config, model_digests(arrays), model_digests(back)
    )


def _seeds_in(config: Mapping[str, Any], rows: int) -> list[int] | None:
    """With which seed each model is trained; None: all with that of the rules."""
    seeds = config.get("seeds")
    if seeds is None:
        return None
    if not isinstance(seeds, list) or len(seeds) != rows or not all(isinstance(s, int) for s in seeds):
        raise WireError(f"sent seeds that are not {rows} whole numbers")
    return seeds


def _reseeded(session: Session, stack: Stack, seeds: list[int], t: int) -> Stack:
    if not (isinstance(session, Reseeding) and session.reseeds):
        raise InputError(
            "The server asks for several seeds in one message, and the model of this node is another one with every seed. "
            "Set the same model on both sides."
        )
    return session.reseeded(stack, [0] * len(seeds), seeds, t)


def _evaluated(
    session: Session, content: RecordDict, config: Mapping[str, Any], scenario: Scenario
) -> tuple[dict[str, Any], Callable[[], Reply]]:
    """The metrics of models, and what is stated of them."""
    like, rows, held_out = session.initial(), count_in(config, "rows", 1), len(scenario.test)
    arrays = from_record(content, shapes_of(to_arrays(like), rows))
    measured = outcomes_of(session, from_arrays(arrays, like))
    names = list(measured[0].metrics)
    columns: dict[str, Any] = {name: [of_model.metrics[name] for of_model in measured] for name in names}
    records: dict[str, Any] = {METRICS: MetricRecord({**columns, "num-examples": held_out})}
    # How many blocks is never the server's choice: blocks that overlap would tell about single rows.
    blocks: dict[str, NDArray[np.float64]] = {}
    if config.get("blocks") is True and (count := block_count(held_out)):
        blocks = {name: _told(measured, name, count) for name in names}
        records[ARRAYS] = to_record(blocks)
    stated = tuple(METRICS_OF[scenario.task])

    def states() -> Reply:
        back = [digest_of_metrics({name: of_model.metrics[name] for name in stated}) for of_model in measured]
        told = block_digest({name: blocks[name] for name in stated if name in blocks})
        test = held_out, scenario.test.fingerprint
        return reply_of(EVALUATE, config, model_digests(arrays), back, told, test)

    return records, states


def _told(measured: Sequence[Outcome], name: str, blocks: int) -> NDArray[np.float64]:
    """What blocks of rows say of every model; of one that is not finite nothing."""
    return np.array(
        [
            in_blocks(of_model.rows[name], of_model.metrics[name], blocks)
            if name in of_model.rows
            else np.full(blocks, np.nan)
            for of_model in measured
        ]
    )
