"""Every coalition's adapter over one frozen base, as one program, against PEFT and torch one coalition after the other.

    python bench/lora.py --device cuda                        # 66 million parameters, LoRA r = 8, float32 and bfloat16
    python bench/lora.py --size tiny --coalitions 8 --texts 32  # a look at it on two cores

A DistilBERT of random weights with LoRA on queries and values and a head to be trained; eight clients with 256 texts of 64
tokens each, two rounds, batches of 32, Adam; 64 different coalitions out of 255. The plain loop is what PEFT's users write: a model,
for each coalition, round and client the adapter set to the common one, trained by torch.optim.Adam, and averaged. Both measure every coalition on the same
test texts. The loop is timed on `--sample` coalitions and scaled by the number of local trainings. Memory is the peak of what torch has allocated.
"""

from __future__ import annotations

import argparse
import copy
import time
from contextlib import nullcontext

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoModelForSequenceClassification, DistilBertConfig

import fedvalue as fv
from _table import table
from fedvalue.adapters.transformers import tuned
from fedvalue.coalitions import members
from fedvalue.training import Training

SIZES = {
    "distilbert": {},
    "tiny": {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 2000},
}
TOKENS, CLIENTS, TESTED = 64, 8, 512
MIB = 1 << 20


def base_model(size: str) -> nn.Module:
    torch.manual_seed(0)
    # Without dropout both draw the same numbers: none.
    config = DistilBertConfig(
        **SIZES[size], num_labels=2, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0
    )
    return AutoModelForSequenceClassification.from_config(config)


def adapter() -> LoraConfig:
    return LoraConfig(task_type="SEQ_CLS", r=8, lora_alpha=16, target_modules=["q_lin", "v_lin"])


def scenario_of(texts: int, vocabulary: int) -> fv.Scenario:
    """Texts of random words; those of the second class have words of their own among them."""
    rng = np.random.default_rng(0)

    def rows(count: int):
        y = rng.integers(0, 2, count)
        ids = rng.integers(2, vocabulary // 2, (count, TOKENS))
        ids += (vocabulary // 2) * (y[:, None] * (rng.random((count, TOKENS)) < 0.3))
        lengths = rng.integers(TOKENS // 2, TOKENS + 1, count)
        mask = (np.arange(TOKENS) < lengths[:, None]).astype(np.int64)
        return {"input_ids": ids * mask, "attention_mask": mask}, y

    pairs = {f"client-{i}": rows(texts) for i in range(CLIENTS)}
    return fv.Scenario.from_arrays(pairs, test=rows(min(TESTED, 8 * texts)), vocabulary=vocabulary)


def plain(
    scenario: fv.Scenario, base: nn.Module, training: Training, masks: list[int], device: str
) -> list[float]:
    """One coalition after the other, with PEFT and torch alone."""
    torch.manual_seed(0)
    model = get_peft_model(copy.deepcopy(base), adapter()).to(device)
    trained = [p for p in model.parameters() if p.requires_grad]
    start = [p.detach().clone() for p in trained]
    rows = [
        ({k: torch.tensor(v, device=device) for k, v in c.x.items()}, torch.tensor(c.y, device=device))
        for c in scenario.clients
    ]
    test = (
        {k: torch.tensor(v, device=device) for k, v in scenario.test.x.items()},
        torch.tensor(scenario.test.y, device=device),
    )
    narrow = torch.autocast(device, torch.bfloat16) if training.precision == "bf16" else nullcontext()
    losses = []
    for mask in masks:
        common = [p.clone() for p in start]
        for _ in range(training.rounds):
            averaged = [torch.zeros_like(p) for p in common]
            for client in members(mask):
                with torch.no_grad():
                    for p, value in zip(trained, common, strict=True):
                        p.copy_(value)
                optimizer = torch.optim.Adam(trained, lr=training.rate, fused=device == "cuda")
                x, y = rows[client]
                model.train()
                for _ in range(training.epochs):
                    for batch in torch.randperm(len(y), device=device).split(training.batch):
                        optimizer.zero_grad(set_to_none=True)
                        with narrow:
                            said = model(**{k: v[batch] for k, v in x.items()}).logits
                        nn.functional.cross_entropy(said.float(), y[batch]).backward()
                        optimizer.step()
                for total, p in zip(averaged, trained, strict=True):
                    total += p.detach() / len(members(mask))
            common = averaged
        model.eval()
        with torch.no_grad():
            for p, value in zip(trained, common, strict=True):
                p.copy_(value)
            pieces = torch.arange(len(test[1]), device=device).split(128)
            said = torch.cat([model(**{k: v[piece] for k, v in test[0].items()}).logits for piece in pieces])
        losses.append(float(nn.functional.cross_entropy(said, test[1])))
    return losses


def stacked(
    scenario: fv.Scenario, base: nn.Module, training: Training, masks: list[int], device: str
) -> list[float]:
    game = fv.FederatedGame(scenario, tuned(base, adapter()), training, metric="loss", device=device)
    found = dict(game.evaluate(masks))
    return [found[mask].metrics["loss"] for mask in masks]


def local_trainings(masks: list[int]) -> int:
    return sum(mask.bit_count() for mask in masks)


def timed(work, *given) -> tuple[list[float], float, float]:
    """What it returns, the seconds it takes, and the most memory it had allocated (MiB; on CUDA alone)."""
    device = given[-1]
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    result = work(*given)
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    return result, seconds, torch.cuda.max_memory_allocated() / MIB if device == "cuda" else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--size", default="distilbert", choices=list(SIZES))
    parser.add_argument("--coalitions", type=int, default=64)
    parser.add_argument("--texts", type=int, default=256, help="of each client")
    parser.add_argument("--sample", type=int, default=16, help="coalitions that the plain loop trains")
    parser.add_argument("--precisions", default="bf16,float32")
    given = parser.parse_args()
    base = base_model(given.size)
    scenario = scenario_of(given.texts, base.config.vocab_size)
    masks = (1 + np.random.default_rng(1).permutation(2**CLIENTS - 1)[: given.coalitions]).tolist()
    wrapped = get_peft_model(copy.deepcopy(base), adapter())
    of_base = sum(p.numel() * p.element_size() for p in wrapped.parameters() if not p.requires_grad) / MIB
    of_adapter = sum(p.numel() * p.element_size() for p in wrapped.parameters() if p.requires_grad) / MIB
    print(
        f"base {of_base:.0f} MiB, adapter with head {of_adapter:.2f} MiB, {len(masks)} coalitions, {given.device}"
    )
    lines = []
    for precision in given.precisions.split(","):
        training = Training(rounds=2, epochs=1, batch=32, rate=1e-3, precision=precision)
        warm = masks[:2]
        timed(stacked, scenario, base, training, warm, given.device)
        timed(plain, scenario, base, training, warm[:1], given.device)
        ours, seconds, memory = timed(stacked, scenario, base, training, masks, given.device)
        some = range(0, len(masks), max(1, len(masks) // given.sample))
        looped = [masks[place] for place in some]
        theirs, plain_seconds, plain_memory = timed(plain, scenario, base, training, looped, given.device)
        plain_seconds *= local_trainings(masks) / local_trainings(looped)
        wave = memory - of_base - len(masks) * of_adapter
        apart = np.abs(np.mean([ours[place] for place in some]) - np.mean(theirs))
        lines.append(
            [precision, f"{plain_seconds:.1f}", f"{seconds:.1f}", f"{plain_seconds / seconds:.1f}", f"{plain_memory:.0f}", f"{memory:.0f}", f"{wave:.0f}", f"{apart:.3f}"]
        )  # fmt: skip
    print(
        table(
            ["precision", "loop s", "stack s", "ratio", "loop MiB", "stack MiB", "of it beside base and adapters", "mean losses apart"],
            lines,
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
