"""A torch model by name or by a function of one's own, and what it is recognised by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from fedvalue._checks import as_key
from fedvalue.errors import InputError
from fedvalue.learners._places import Form
from fedvalue.learners.losses import Loss, LossLike, as_loss
from fedvalue.learners.metrics import Metric
from fedvalue.learners.torch._checks import Checked, check_module, make_module, with_shapes
from fedvalue.learners.torch._models import MODELS, ModelFactory
from fedvalue.learners.torch._random import SEEDED, seeded_generators
from fedvalue.learners.torch._rules import widest_batch
from fedvalue.learners.torch._stack import TorchSession
from fedvalue.scenarios import Scenario
from fedvalue.store import FileNames, fingerprint
from fedvalue.training import Training

__all__ = ["TorchLearner"]


class TorchLearner:
    """A torch model by name ('mlp', 'cnn', …) or by a function scenario → nn.Module of one's own.

    `together=None` trains stacks as one program, except convolutions on a CPU, where a loop over the models
    is faster (grouped convolutions cost twice as much there), and modules that `vmap` cannot stack; `apart` of a
    session says why. Both ways agree within float tolerance. Buffers that change in training, such as the running
    statistics of BatchNorm, are every model's own and are averaged like its parameters, whole numbers rounded.
    Parameters that do not require a gradient are there once for all models. On a CPU, what a model becomes does not depend on
    the others in its stack; nor on the number of threads, except for modules of one's own that are not stacked because they draw random numbers.

    A store recognises a model of one's own by the source text of its function and by the module that it makes;
    the content of `files`, which it may read, counts as well. `key="…"` replaces all that with a name, which must
    change whenever the model does.
    """

    averages = True
    own_metrics: Mapping[str, Metric] = {}

    def __init__(
        self,
        model: str | ModelFactory = "mlp",
        *,
        together: bool | None = None,
        key: str | None = None,
        files: FileNames | None = None,
        loss: LossLike | None = None,
    ) -> None:
        if isinstance(model, str) and model not in MODELS:
            raise InputError(f"Unknown model {model!r}. Models: {', '.join(MODELS)}.")
        if isinstance(model, nn.Module) or not (isinstance(model, str) or callable(model)):
            raise InputError(
                "A model is given by name or as a function scenario → nn.Module that makes it. "
                f"Got a {type(model).__name__}."
            )
        self.model = model
        self.together = together
        self.loss = None if loss is None else as_loss(loss)
        self.key = as_key(key)
        self.files = None if files is None else tuple(files)

    def identity(self) -> Mapping[str, Any]:
        return {**self._identity(), **self._loss_identity()}

    def _loss_identity(self) -> Mapping[str, Any]:
        if self.loss is None:
            return {}
        return {"loss": self.loss if isinstance(self.loss, str) else f"{self.loss.name} {self.loss.identity}"}

    def _identity(self) -> Mapping[str, Any]:
        if isinstance(self.model, str):
            return {"model": self.model}
        if self.key is not None:
            return {"model": "own", "key": self.key}
        return {"model": "own", "code": fingerprint(self.model, files=self.files)[0]}

    @property
    def doubts(self) -> tuple[str, ...]:
        """What the identity cannot cover (own models only). Files that it is made from show in the module."""
        of_loss = self.loss.doubts if isinstance(self.loss, Loss) else ()
        if isinstance(self.model, str) or self.key is not None:
            return of_loss
        return fingerprint(self.model, reads=False, seeded=SEEDED)[1] + of_loss

    def start(self, scenario: Scenario, seed: int) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """What a model of one's own is made of and begins with: pretrained weights may come from anywhere."""
        if isinstance(self.model, str) or self.key is not None:
            return {}, ()
        module = self.module(scenario, seed)
        # What happens in a forward pass happens after the weights are known; torch is seeded in training.
        _, later = fingerprint(module, files=self.files, seeded=("torch",), made=True)
        return {"start": fingerprint(module)[0]}, later

    def beyond(self, scenario: Scenario, training: Training) -> Mapping[str, Any] | None:
        """How many samples a step holds: no more than the largest client has, and sums of other lengths differ in bits.

        What a model of one's own is made of is known by what it begins with; where a key replaces that, nothing is.
        """
        return None if self.key is not None else {"batch": widest_batch(scenario, training)}

    def session(
        self, scenario: Scenario, training: Training, device: str, memory: int | None
    ) -> TorchSession:
        return TorchSession(self, scenario, training, device, memory)

    def module(self, scenario: Scenario, seed: int) -> nn.Module:
        """The initial model: the same for a seed, whatever was drawn before."""
        return self.checked(scenario, seed).module

    def checked(self, scenario: Scenario, seed: int) -> Checked:
        """The same, with what was found out about it; of our own it is known."""
        if not isinstance(self.model, str):
            with seeded_generators(seed):
                return check_module(make_module(self._factory, scenario), scenario)
        scenario.need_single(f"The model {self.model!r}")
        with seeded_generators(seed):
            return Checked(make_module(self._factory, scenario), Form(0))

    def another(self, scenario: Scenario, seed: int) -> nn.Module:
        """One more such model, which needs no checks."""
        with seeded_generators(seed):
            module = make_module(self._factory, scenario)
            return module if isinstance(self.model, str) else with_shapes(module, scenario)

    @property
    def _factory(self) -> ModelFactory:
        return MODELS[self.model] if isinstance(self.model, str) else self.model
