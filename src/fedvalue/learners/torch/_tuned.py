"""Models of transformers, whole or with the adapters of PEFT: what is frozen is held once for all coalitions."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from fedvalue._extras import need
from fedvalue.errors import InputError
from fedvalue.learners.torch._answering import Answering
from fedvalue.learners.torch._checks import awake
from fedvalue.learners.torch._inputs import taken, tensors
from fedvalue.learners.torch._learner import TorchLearner
from fedvalue.scenarios import Scenario
from fedvalue.store import fingerprint

__all__ = ["TunedLearner"]

# What a configuration says of where it comes from, not of what it computes.
_ORIGINS = (
    "_name_or_path",
    "transformers_version",
    "base_model_name_or_path",
    "revision",
    "auto_mapping",
    "peft_version",
)
_PASSING = ("training", "name_or_path")  # set for each pass; where it comes from


class TunedLearner(TorchLearner):
    """A model of transformers, and the adapter to be trained over it, if any.

    A store recognises it by its class, its configuration, its weights and those that a training begins with.
    """

    def __init__(self, model: Any, adapter: Any = None) -> None:
        super().__init__(self._made)
        _check_kinds([adapter, *getattr(model, "peft_config", {}).values()])
        self.base, self.adapter = model, copy.deepcopy(adapter)
        self._digest, self._doubts = _identified(model, adapter)
        self._found = _as_it_is(model)

    def identity(self) -> Mapping[str, Any]:
        return {"model": "transformers", "code": self._digest}

    @property
    def doubts(self) -> tuple[str, ...]:
        return self._doubts

    def start(self, scenario: Scenario, seed: int) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        module = self.another(scenario, seed)
        trained = {name: _plain(p) for name, p in module.named_parameters() if p.requires_grad}
        return {"start": fingerprint(trained)[0]}, ()

    def _made(self, scenario: Scenario) -> nn.Module:
        if _as_it_is(self.base) != self._found:
            raise InputError(
                "The weights or settings of the model were changed after it was given to the game, which is known by those it "
                "had. Give it a copy, or make the game anew."
            )
        model = _with_shared_weights(self.base)
        if self.adapter is not None:
            model = need("peft", "An adapter").get_peft_model(model, copy.deepcopy(self.adapter))
        # What is trained has memory of its own; some adapters train biases of the base.
        for p in model.parameters():
            if p.requires_grad:
                p.data = p.detach().clone()
        answering = Answering(model)
        _look(answering, scenario)
        return answering


def _check_kinds(adapters: Sequence[Any]) -> None:
    for adapter in adapters:
        if str(getattr(getattr(adapter, "peft_type", None), "value", "")) == "ADALORA":
            raise InputError(
                "AdaLoRA spreads its ranks in a loop of one's own (update_and_allocate) and adds a term to the loss there; a "
                "training by FedAvg does neither, so it would be another adapter by that name. Use LoraConfig with the rank that is to be."
            )


def _look(answering: Answering, scenario: Scenario) -> None:
    """Tries the model on the rows with the fewest and the most tokens."""
    x = scenario.test.x
    if not isinstance(x, Mapping) or "attention_mask" not in x:
        return
    lengths = x["attention_mask"].reshape(len(scenario.test.y), -1).sum(1)
    rows = torch.tensor([lengths.argmin(), lengths.argmax()])
    samples = taken(tensors(x, str(next(answering.parameters()).device)), rows)
    training = [part for part in answering.modules() if part.training]
    try:
        with awake(answering.eval()):
            answering.look(**samples)
    except Exception:  # what the model does not take is said when it is checked
        return
    finally:
        for part in training:
            part.training = True


def _with_shared_weights(model: nn.Module) -> nn.Module:
    """A copy of the module with the same memory behind its weights, each of them a parameter of its own."""
    memo: dict[int, Any] = {id(buffer): buffer for buffer in model.buffers()}
    # `data` and not `detach()`, which would count changes of the one as changes of the other.
    memo |= {id(p): nn.Parameter(p.data, requires_grad=p.requires_grad) for p in model.parameters()}
    return copy.deepcopy(model, memo)


def _identified(model: nn.Module, adapter: Any) -> tuple[str, tuple[str, ...]]:
    """A digest of the model and the adapter, and what it cannot cover: code that is not of these packages."""
    _check_untouched(model)
    state = {name: _plain(tensor) for name, tensor in model.state_dict().items()}
    trained = sorted(name for name, p in model.named_parameters() if p.requires_grad)
    configurations = [getattr(model, "config", None), adapter, *getattr(model, "peft_config", {}).values()]
    plain = [_settings(configuration) for configuration in configurations if configuration is not None]
    kinds = {type(part) for part in model.modules()}
    own = sorted(
        (
            kind
            for kind in kinds
            if kind.__module__.partition(".")[0] not in ("torch", "transformers", "peft")
        ),
        key=lambda kind: kind.__qualname__,
    )
    names = sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
    return fingerprint(state, trained, plain, names, _attributes(model), _hooks(model), *own)


def _settings(configuration: Any) -> dict[str, str]:
    settings = configuration.to_dict()
    return {
        key: str(sorted(value, key=str) if isinstance(value, set) else value)
        for key, value in settings.items()
        if key not in _ORIGINS
    }


def _plain(tensor: Tensor) -> Any:
    """The bits of a tensor as an array; NumPy has no bfloat16."""
    bits = tensor.detach().cpu().contiguous()
    return (bits.view(torch.int16) if bits.dtype == torch.bfloat16 else bits).numpy()


def _as_it_is(model: nn.Module) -> tuple[Any, ...]:
    """How the model is now, without reading all of it again: what is trained, settings, and the sum of each weight and buffer.

    Versions would not tell of changes through `.data`.
    """
    held = [*model.named_parameters(), *model.named_buffers()]
    of_tensors = [
        (name, t.requires_grad, repr(float(t.detach().sum(dtype=torch.float64)))) for name, t in held
    ]
    return of_tensors, _attributes(model)


def _attributes(model: nn.Module) -> dict[str, dict[str, str]]:
    """The plain settings of every part, some of which change what it computes: eps of a norm, p of a dropout."""
    found = {
        name: {
            key: repr(value)
            for key, value in sorted(vars(part).items())
            if key not in _PASSING and key[0] != "_" and isinstance(value, (bool, int, float, str))
        }
        for name, part in model.named_modules()
    }
    return {name: settings for name, settings in found.items() if settings}


def _hooks(model: nn.Module) -> list[tuple[str, str, Any]]:
    """Functions that were hung into parts of the model."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return [
        (name, kind, hook)
        for name, part in model.named_modules()
        for kind in kinds
        for hook in (vars(part).get(kind) or {}).values()
    ]


def _check_untouched(model: nn.Module) -> None:
    """Refuses functions in place of `forward`: those of a copy would still use the weights of the original."""
    for name, part in model.named_modules():
        if isinstance(vars(part).get("forward"), FunctionType):
            raise InputError(
                f"The part {name or 'model'!r} of the model has a forward that was set from outside. Make a class of it."
            )
