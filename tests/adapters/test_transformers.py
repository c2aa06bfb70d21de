"""Models of transformers with adapters of PEFT in games. Nothing is downloaded: tiny models of random weights."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import Any

import numpy as np
import pytest
from marks import first_fast

import fedvalue as fv
from fedvalue.errors import InputError, ScenarioError

torch = pytest.importorskip("torch")
if not all(map(importlib.util.find_spec, ("transformers", "peft"))):
    pytest.skip("needs the extra transformers", allow_module_level=True)

from fedvalue.adapters.transformers import texts, tuned  # noqa: E402
from fedvalue.learners.torch._answering import Answering  # noqa: E402
from fedvalue.learners.torch._inputs import tensors  # noqa: E402


class Later:
    """A package that is imported when it is used: to import these takes longer than most of the tests here."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest asks everything in a module whether it is a fixture
            raise AttributeError(name)
        return getattr(importlib.import_module(self.name), name)


transformers, peft = Later("transformers"), Later("peft")
WORDS, TOKENS = 50, 6
SMALL = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "hidden_size": 8}
RULES = fv.Training(rounds=2, epochs=1, batch=8, rate=0.01)
CONFIGS = {
    "distilbert": lambda: transformers.DistilBertConfig(
        vocab_size=WORDS, dim=8, n_layers=1, n_heads=2, hidden_dim=16, max_position_embeddings=TOKENS
    ),
    "bert": lambda: transformers.BertConfig(vocab_size=WORDS, max_position_embeddings=TOKENS, **SMALL),
    "llama": lambda: transformers.LlamaConfig(
        vocab_size=WORDS, pad_token_id=0, max_position_embeddings=TOKENS, **SMALL
    ),
}
# With disentangled attention, with windows, with positions that are counted by the mask.
OTHERS = {
    "DebertaV2Config": SMALL,
    "MistralConfig": {**SMALL, "pad_token_id": 0, "num_key_value_heads": 2, "sliding_window": 2},
    "BloomConfig": {"pad_token_id": 0, "hidden_size": 8, "n_layer": 1, "n_head": 2},
}
TARGETS = {"distilbert": ["q_lin", "v_lin"], "bert": ["query", "value"], "llama": ["q_proj", "v_proj"]}


def classifier(kind: str = "distilbert"):
    torch.manual_seed(1)
    return transformers.AutoModelForSequenceClassification.from_config(CONFIGS[kind]())


def lora(kind: str = "distilbert", task: str = "SEQ_CLS"):
    return peft.LoraConfig(task_type=task, r=2, target_modules=TARGETS[kind])


def rows(seed: int, count: int = 12):
    """Token ids and masks, some rows shorter than others; the class shows in the words."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 2
    ids = rng.integers(2, WORDS // 2, (count, TOKENS)) + (WORDS // 2) * y[:, None]
    mask = (np.arange(TOKENS) < rng.integers(3, TOKENS + 1, count)[:, None]).astype(np.int64)
    return {"input_ids": ids * mask, "attention_mask": mask}, y


@pytest.fixture(scope="module")
def scenario() -> fv.Scenario:
    return fv.Scenario.from_arrays([rows(i) for i in range(3)], test=rows(9), vocabulary=WORDS)


class Vocabulary:
    """As much of a tokenizer as is used here: words are numbered as they come."""

    pad_token = "<pad>"

    def __init__(self) -> None:
        self.ids = {self.pad_token: 0}

    def __len__(self) -> int:
        return WORDS

    def __call__(self, given, *, padding, truncation, max_length, return_tensors):
        assert (padding, truncation, return_tensors) == ("max_length", True, "np")
        ids = np.zeros((len(given), max_length), int)
        for row, text in enumerate(given):
            for place, word in enumerate(text.split()[:max_length]):
                ids[row, place] = self.ids.setdefault(word, len(self.ids))
        return {"input_ids": ids, "attention_mask": (ids > 0).astype(int)}


class TestAnswers:
    @pytest.mark.parametrize("kind", CONFIGS)
    def test_the_mask_that_is_made_beforehand_is_the_one_of_the_model(self, kind, scenario):
        model = classifier(kind).eval()
        x = tensors(scenario.test.x)
        with torch.no_grad():
            assert torch.allclose(Answering(model)(**x), model(**x).logits, atol=1e-5)

    @pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # of DeBERTa
    @pytest.mark.parametrize("kind", OTHERS)
    def test_a_model_that_makes_more_of_a_mask_is_given_that_of_tokens(self, kind, scenario):
        torch.manual_seed(1)
        config = getattr(transformers, kind)(vocab_size=WORDS, **OTHERS[kind])
        model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        x = tensors(scenario.test.x)
        found = tuned(model).module(scenario, 0).eval()
        assert found.as_given
        with torch.no_grad():
            assert torch.allclose(found(**x), model(**x).logits, atol=1e-5)

    def test_a_row_of_padding_is_finite(self):
        nothing = {
            name: torch.zeros(2, TOKENS, dtype=torch.int64) for name in ("input_ids", "attention_mask")
        }
        for kind in ("distilbert", "llama"):
            assert torch.isfinite(Answering(classifier(kind).eval())(**nothing)).all()


class TestGames:
    @pytest.mark.parametrize("kind", first_fast(CONFIGS))
    def test_a_stack_is_what_one_by_one_is(self, kind, scenario):
        found = []
        for together in (True, False):
            learner = tuned(classifier(kind), lora(kind))
            learner.together = together
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                game = fv.FederatedGame(scenario, learner, RULES, metric="loss")
                found.append([outcome.metrics["loss"] for _, outcome in game.evaluate([1, 5, 7])])
        assert found[0] == pytest.approx(found[1], abs=1e-4)

    def test_models_are_stacked(self, scenario):
        game = fv.FederatedGame(scenario, tuned(classifier(), lora()), RULES)
        assert game.learner.session(scenario, RULES, "cpu", None).together

    def test_the_base_is_held_once(self, scenario):
        base = classifier()
        session = tuned(base, lora()).session(scenario, RULES, "cpu", None)
        held = {p.untyped_storage().data_ptr() for p in base.parameters()}
        frozen = [p for p in session.module.parameters() if not p.requires_grad]
        assert frozen
        assert all(p.untyped_storage().data_ptr() in held for p in frozen)
        stack = session.drawn([None] * 5)
        assert not any("word_embeddings" in name for name in stack)
        assert all(len(tensor) == 5 for tensor in stack.values())

    def test_the_model_that_is_given_stays_as_it_is(self, scenario):
        base = classifier()
        before = {name: value.clone() for name, value in base.state_dict().items()}
        flags = [p.requires_grad for p in base.parameters()]
        list(fv.FederatedGame(scenario, tuned(base, lora()), RULES).evaluate([3]))
        assert list(base.state_dict()) == list(before)
        assert all(torch.equal(value, before[name]) for name, value in base.state_dict().items())
        assert [p.requires_grad for p in base.parameters()] == flags

    def test_a_model_goes_into_a_game_as_it_is(self, scenario):
        ready = peft.get_peft_model(classifier(), lora())
        game = fv.FederatedGame(scenario, ready, RULES, metric="loss")
        assert game.id == fv.FederatedGame(scenario, tuned(ready), RULES, metric="loss").id
        values = fv.value(game, method="exact", noise=False)
        assert values.mean.sum() == pytest.approx(values.utility_of_all - values.utility_of_none)

    def test_biases_of_the_base_may_be_trained_along(self, scenario):
        base = classifier()
        before = {name: value.clone() for name, value in base.state_dict().items()}
        adapter = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["q_lin"], bias="all")
        game = fv.FederatedGame(scenario, tuned(base, adapter), RULES, metric="loss")
        fv.value(game, budget=6, seeds=2)
        assert all(torch.equal(value, before[name]) for name, value in base.state_dict().items())

    def test_another_seed_draws_another_adapter(self, scenario):
        learner = tuned(classifier(), lora())
        one, other = (
            {n: p for n, p in learner.another(scenario, seed).named_parameters() if p.requires_grad}
            for seed in (0, 1)
        )
        assert any(not torch.equal(one[name], other[name]) for name in one)
        again = dict(learner.another(scenario, 0).named_parameters())
        assert all(torch.equal(one[name], again[name]) for name in one)


class TestIdentity:
    def test_weights_settings_and_adapters_count(self, scenario):
        def name_of(model, adapter):
            return fv.FederatedGame(scenario, tuned(model, adapter), RULES).id

        changed = classifier()
        with torch.no_grad():
            next(iter(changed.parameters()))[0, 0] += 1
        other = peft.LoraConfig(task_type="SEQ_CLS", r=2, lora_alpha=3, target_modules=["q_lin", "v_lin"])
        names = [
            name_of(classifier(), lora()),
            name_of(changed, lora()),
            name_of(classifier(), other),
            name_of(classifier(), None),
        ]
        assert len(set(names)) == 4
        assert names[0] == name_of(classifier(), lora())

    def test_nothing_is_in_doubt(self, scenario, tmp_path):
        game = fv.FederatedGame(scenario, tuned(classifier(), lora()), RULES)
        assert game.learner.doubts == ()
        first = fv.value(game, method="exact", noise=False, store=tmp_path / "store.db")
        again = fv.value(game, method="exact", noise=False, store=tmp_path / "store.db")
        assert (first.cost.trained, again.cost.trained) == (8, 0)

    def test_weights_that_change_later_are_refused(self, scenario):
        base = classifier()
        learner = tuned(base, lora())
        with torch.no_grad():
            next(iter(base.parameters())).zero_()
        with pytest.raises(InputError, match="changed after it was given"):
            fv.FederatedGame(scenario, learner, RULES)

    @pytest.mark.parametrize(
        "change",
        [
            lambda model: next(iter(model.parameters())).data.mul_(3),
            lambda model: model.requires_grad_(False),
            lambda model: setattr(model.dropout, "p", 0.9),
        ],
        ids=["through data", "frozen", "dropout"],
    )
    def test_so_are_other_changes(self, scenario, change):
        base = classifier()
        learner = tuned(base, lora())
        change(base)
        with pytest.raises(InputError, match="changed after it was given"):
            fv.FederatedGame(scenario, learner, RULES)

    def test_an_adapter_is_what_it_was_when_it_was_given(self, scenario):
        adapter = lora()
        learner = tuned(classifier(), adapter)
        adapter.lora_alpha = 64
        assert learner.adapter.lora_alpha != 64

    def test_settings_of_parts_and_hooks_count(self, scenario):
        def hook(module, given, outputs):
            return outputs / 10

        dropping, hooked, replaced = (classifier() for _ in range(3))
        dropping.dropout.p = 0.9
        hooked.pre_classifier.register_forward_hook(hook)
        models = (classifier(), dropping, hooked)
        assert len({fv.FederatedGame(scenario, tuned(m, lora()), RULES).id for m in models}) == 3
        forward = replaced.forward
        replaced.forward = lambda **inputs: forward(**inputs)
        with pytest.raises(InputError, match="a forward that was set from outside"):
            tuned(replaced, lora())


class TestTexts:
    def test_classification(self):
        clients = {"a": (["good day", "bad day"], [1, 0]), "b": (["so good", "so bad indeed"], [1, 0])}
        made = texts(clients, test=(["good"], [1]), tokenizer=Vocabulary(), length=4)
        assert made.clients[0].x["input_ids"].tolist() == [[1, 2, 0, 0], [3, 2, 0, 0]]
        assert (made.classes, made.vocabulary) == (2, WORDS)

    def test_a_causal_model_is_asked_for_the_next_token(self):
        made = texts(
            {"a": ["one two three"]}, test=["one two"], tokenizer=Vocabulary(), length=4, causal=True
        )
        assert made.clients[0].y.tolist() == [[2, 3, -100, -100]]
        assert (made.classes, made.test.y.tolist()) == (WORDS, [[2, -100, -100, -100]])

    def test_values_of_a_causal_model(self):
        torch.manual_seed(0)
        base = transformers.AutoModelForCausalLM.from_config(CONFIGS["llama"]())
        said = ["one two three four", "two three four one"] * 4
        made = texts({"a": said, "b": said[:4]}, test=said[:2], tokenizer=Vocabulary(), length=4, causal=True)
        game = fv.FederatedGame(made, tuned(base, lora("llama", "CAUSAL_LM")), RULES, metric="loss")
        alone = dict(game.evaluate([3]))[3].metrics["loss"]
        values = fv.value(game, method="exact", noise=False)
        assert values.utility_of_all == pytest.approx(-alone)
        assert values.utility_of_none == pytest.approx(-np.log(WORDS), abs=0.5)

    @pytest.mark.parametrize(
        ("clients", "options", "said"),
        [
            ({"a": ["good"]}, {}, "Expected .texts, labels. of a"),
            ({"a": ([1], [0])}, {}, "must be texts. Got int"),
            ({"a": (["good"], [0])}, {"tokenizer": "none"}, "no token to fill up with"),
        ],
    )
    def test_mistakes(self, clients, options, said):
        tokenizer = Vocabulary()
        if options:
            tokenizer.pad_token = None
        with pytest.raises(ScenarioError, match=said):
            texts(clients, test=(["good"], [1]), tokenizer=tokenizer, length=4)


def test_what_cannot_be_tuned(scenario):
    with pytest.raises(InputError, match="Expected a model of the package transformers"):
        tuned(torch.nn.Linear(1, 1))
    with pytest.raises(InputError, match="configuration of PEFT"):
        tuned(classifier(), {"r": 8})
    adaptive = peft.AdaLoraConfig(
        task_type="SEQ_CLS", target_modules=TARGETS["distilbert"], total_step=9, tinit=1, tfinal=1
    )
    for given in ((classifier(), adaptive), (peft.get_peft_model(classifier(), adaptive), None)):
        with pytest.raises(InputError, match=r"AdaLoRA spreads its ranks.*Use LoraConfig"):
            tuned(*given)
    with pytest.raises(InputError, match="has adapters already"):
        tuned(peft.get_peft_model(classifier(), lora()), lora())
