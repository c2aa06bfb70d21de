"""Models of the package transformers in games, whole or with the adapters of PEFT: every coalition's adapter over one base.

    from peft import LoraConfig
    from transformers import AutoModelForSequenceClassification
    from fedvalue.adapters.transformers import texts, tuned

    base = AutoModelForSequenceClassification.from_pretrained(PATH)
    scenario = texts({"a": (tweets, labels), …}, test=(tweets, labels), tokenizer=tokenizer, length=64)
    game = fv.FederatedGame(scenario, tuned(base, LoraConfig(task_type="SEQ_CLS", r=8)))

What is frozen is held once, for all coalitions together: the adapters alone are stacked, trained and averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedvalue._checks import as_array
from fedvalue._extras import need
from fedvalue.errors import InputError, ScenarioError
from fedvalue.learners import is_of_transformers
from fedvalue.scenarios import IGNORED, Dataset, Scenario
from fedvalue.training import Learner

__all__ = ["texts", "tuned"]

_IDS, _MASK = "input_ids", "attention_mask"


def tuned(model: Any, adapter: Any = None) -> Learner:
    """The model, to be trained by the clients of a game: all of it, or the `adapter` (a configuration of PEFT) over it.

    `model` may have adapters already; it is not changed. What is trained begins as it is there; a new adapter is drawn from
    the seed of a training, as PEFT draws it. Of classifiers the utility is measured on what they say of a row; of causal
    language models on what they say comes next at every token (labels by `texts`).
    """
    need("transformers", "A model of transformers")
    need("torch", "A model of transformers")
    from fedvalue.learners.torch import TunedLearner

    if not is_of_transformers(model):
        raise InputError(
            f"Expected a model of the package transformers, made by AutoModelFor… for example. Got a {type(model).__name__}."
        )
    if adapter is not None:
        need("peft", "An adapter")
        if not hasattr(adapter, "peft_type"):
            raise InputError(
                f"An adapter is a configuration of PEFT, such as LoraConfig(r=8). Got a {type(adapter).__name__}."
            )
        if hasattr(model, "peft_config"):
            raise InputError(
                "The model has adapters already. Give it as it is, or the model that they are over."
            )
    return TunedLearner(model, adapter)


def texts(
    clients: Mapping[str, Any],
    *,
    test: Any,
    tokenizer: Any,
    length: int = 64,
    causal: bool = False,
    name: str = "texts",
    **options: Any,
) -> Scenario:
    """Texts of clients as a scenario: `clients` gives (texts, labels) by name, or, if `causal`, texts alone.

    The tokenizer cuts and fills every text to `length` tokens. For causal language models the label of a token is the next
    one, and padding does not count. Further options are those of `Scenario.from_arrays`.
    """
    read = {who: _tokens(given, tokenizer, length, causal, who) for who, given in clients.items()}
    tested = test if isinstance(test, str) else _tokens(test, tokenizer, length, causal, "the test set")
    words = len(tokenizer)
    classes = {"classes": words, **options} if causal else options
    return Scenario.from_arrays(read, test=tested, vocabulary=words, name=name, **classes)


def _tokens(given: Any, tokenizer: Any, length: int, causal: bool, who: str) -> Dataset:
    words, labels = (given, None) if causal else _pair(given, who)
    words = [words] if isinstance(words, str) else list(words)
    if not all(isinstance(text, str) for text in words):
        raise ScenarioError(f"The texts of {who} must be texts. Got {type(words[0]).__name__}.")
    if tokenizer.pad_token is None:
        raise ScenarioError(
            "The tokenizer has no token to fill up with. Give it one: tokenizer.pad_token = tokenizer.eos_token."
        )
    read = tokenizer(words, padding="max_length", truncation=True, max_length=length, return_tensors="np")
    x = {_IDS: np.asarray(read[_IDS], np.int64), _MASK: np.asarray(read[_MASK], np.int64)}
    return Dataset(
        x, _next(x) if labels is None else as_array(labels, f"The labels of {who}", error=ScenarioError)
    )


def _next(x: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """The token that comes after each; nothing after the last one."""
    follows = np.full_like(x[_IDS], IGNORED)
    follows[:, :-1] = np.where(x[_MASK][:, 1:] > 0, x[_IDS][:, 1:], IGNORED)
    return follows


def _pair(given: Any, who: str) -> Sequence[Any]:
    if not isinstance(given, (tuple, list)) or len(given) != 2 or isinstance(given[0], str):
        raise ScenarioError(f"Expected (texts, labels) of {who}. For texts alone say causal=True.")
    return given
