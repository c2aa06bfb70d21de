"""What is each of eight clients worth who tune a language model together, with LoRA? Values with intervals, in minutes on two cores.

Their texts are tweets of Sentiment140 where those are at hand, and made-up reviews elsewhere. Two clients are odd: one answers at
random, one has the texts of another. The base is a small DistilBERT; with weights of your own, put
`AutoModelForSequenceClassification.from_pretrained(FOLDER)` in its place. Every coalition has its adapter, the base is there once.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from peft import LoraConfig
from rich.console import Console
from transformers import AutoModelForSequenceClassification, DistilBertConfig

import fedvalue as fv
from fedvalue.adapters.transformers import tuned
from fedvalue.errors import ScenarioError

CLIENTS, TESTED, TOKENS = 8, 400, 24
GOOD = ["great", "lovely", "happy", "love", "wonderful", "fun", "nice", "thanks", "best", "sweet"]
BAD = ["awful", "sad", "hate", "bored", "tired", "sick", "worst", "lonely", "broken", "late"]
PLAIN = [
    "today",
    "the",
    "coffee",
    "train",
    "my",
    "work",
    "was",
    "again",
    "with",
    "you",
    "morning",
    "phone",
    "rain",
    "dinner",
    "school",
    "game",
]


def tweets(each: int) -> fv.Scenario:
    """Groups of users of Sentiment140, as token ids."""
    return fv.load_scenario(
        "sent140", clients=CLIENTS, samples=each, test_size=TESTED, length=TOKENS, vocabulary=2000
    )


def reviews(each: int) -> fv.Scenario:
    """Made-up sentences with a mood."""
    rng = np.random.default_rng(0)

    def rows(count: int):
        moods = rng.integers(0, 2, count)
        words = [[*rng.choice(GOOD if m else BAD, 2), *rng.choice(PLAIN, 8)] for m in moods]
        return pd.DataFrame({"text": [" ".join(rng.permutation(w)) for w in words], "mood": moods})

    frames = {f"shop-{i}": rows(each) for i in range(CLIENTS)}
    return fv.Scenario.from_frames(frames, label="mood", text="text", length=TOKENS, test=rows(TESTED))


def with_masks(scenario: fv.Scenario) -> fv.Scenario:
    """The same texts as a transformer takes them; one client answers at random, another copies."""
    rng = np.random.default_rng(1)
    pairs = {}
    for name, data in zip(scenario.names, scenario.clients, strict=True):
        pairs[name] = ({"input_ids": data.x, "attention_mask": (data.x > 0).astype(int)}, data.y)
    *_, copied, random = pairs
    pairs[random] = (pairs[random][0], rng.integers(0, 2, len(pairs[random][1])))
    pairs[copied] = pairs[next(iter(pairs))]
    test = (
        {"input_ids": scenario.test.x, "attention_mask": (scenario.test.x > 0).astype(int)},
        scenario.test.y,
    )
    return fv.Scenario.from_arrays(pairs, test=test, vocabulary=scenario.vocabulary, classes=2)


def main() -> fv.Values:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=160, help="of each client")
    parser.add_argument("--budget", type=int, default=64, help="trainings")
    given = parser.parse_args()
    try:
        scenario = with_masks(tweets(given.texts))
    except ScenarioError:  # they are put in place by hand
        scenario = with_masks(reviews(given.texts))
    config = DistilBertConfig(
        vocab_size=scenario.vocabulary,
        dim=64,
        n_layers=2,
        n_heads=4,
        hidden_dim=128,
        max_position_embeddings=TOKENS,
    )
    base = AutoModelForSequenceClassification.from_config(config)
    adapter = LoraConfig(task_type="SEQ_CLS", r=8, target_modules=["q_lin", "v_lin", "lin1", "lin2"])
    rules = fv.Training(rounds=3, epochs=3, batch=16, rate=5e-3)
    game = fv.FederatedGame(scenario, tuned(base, adapter), rules, metric="accuracy")
    values = fv.value(game, budget=given.budget, seed=0)
    Console().print(values.table())
    print(*values.advice(), sep="\n")
    return values


if __name__ == "__main__":
    main()
