"""How much faster coalitions are trained as one program than one after the other.

    python bench/throughput.py --data-dir DATA                 # MLP and CNN on this machine's CPU
    python bench/throughput.py --data-dir DATA --device cuda   # all 1,024 coalitions on an accelerator
    python bench/throughput.py --data-dir DATA --checkpoint    # what it costs to store trainings as they finish
    python bench/throughput.py --data-dir DATA --seeds 8       # what it costs to spread trainings over seeds

The paper's setting: ten clients of MNIST with 2,710 samples each; MLP 4 rounds × 4 epochs, CNN 2 × 2, Adam,
batches of 64. The plain loop is what one would write first: for each coalition, round and client, an
nn.Module trained by torch.optim.Adam and averaged. Both do the same arithmetic (same orders of samples,
same initial model); the script checks that they agree. Where all coalitions would take too long, the plain
loop is timed on `--sample` of them and scaled by the number of local trainings (marked ~).
"""

from __future__ import annotations

import argparse
import copy
import math
import resource
import time

import numpy as np
import torch
from torch import nn

import fedvalue as fv
from fedvalue.coalitions import members
from fedvalue.estimators.ipss import ipss
from fedvalue.games import FederatedGame
from fedvalue.learners.torch import TorchLearner
from fedvalue.scenarios import Scenario, load_scenario
from fedvalue.training import Training

SETTINGS = {"mlp": Training(rounds=4, epochs=4), "cnn": Training(rounds=2, epochs=2)}


def plain_model(name: str) -> nn.Module:
    """The paper's models as a user would write them."""
    if name == "mlp":
        return nn.Sequential(
            nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)
        )
    return nn.Sequential(
        nn.ZeroPad2d((3, 4, 3, 4)),
        nn.Conv2d(1, 32, 8),
        nn.ReLU(),
        nn.MaxPool2d(4),
        nn.ZeroPad2d((1, 2, 1, 2)),
        nn.Conv2d(32, 64, 4),
        nn.ReLU(),
        nn.MaxPool2d(4),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def plain_loop(
    scenario: Scenario, start: nn.Module, training: Training, clients: tuple[int, ...], session
) -> float:
    """FedAvg of one coalition, the usual way; the accuracy of its model."""
    model = copy.deepcopy(start)
    sizes = [len(scenario.clients[i]) for i in clients]
    for t in range(1, training.rounds + 1):
        states = []
        for i in clients:
            local = copy.deepcopy(model)
            optimizer = torch.optim.Adam(local.parameters(), lr=training.rate)
            batches = session.minibatches(i, t)
            for index, weight in zip(batches.index, batches.weight, strict=True):
                index = index[weight > 0]
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(local(session.x[index]), session.y[index])
                loss.backward()
                optimizer.step()
            states.append(local.state_dict())
        if states:
            average = {
                name: sum(s[name] * (size / sum(sizes)) for s, size in zip(states, sizes, strict=True))
                for name in states[0]
            }
            model.load_state_dict(average)
    with torch.no_grad():
        return float((model(session.test_x).argmax(1) == session.test_y).float().mean())


def measure(scenario: Scenario, model: str, masks: list[int], device: str, sample: int) -> None:
    training = SETTINGS[model]
    learner = TorchLearner(model)
    warm_up = FederatedGame(scenario, learner, Training(rounds=1, epochs=1), device=device)
    dict(warm_up.evaluate([1]))
    game = FederatedGame(scenario, learner, training, device=device)
    synchronise(device)
    began = time.perf_counter()
    outcomes = dict(game.evaluate(masks))
    synchronise(device)
    together = time.perf_counter() - began
    session = learner.session(scenario, training, device, None)
    start = plain_model(model).to(device)
    names = [name for name, _ in start.named_parameters()]
    start.load_state_dict(
        dict(zip(names, learner.module(scenario, training.seed).state_dict().values(), strict=True))
    )
    rng = np.random.default_rng(0)
    timed = (
        masks if sample >= len(masks) else [masks[j] for j in rng.choice(len(masks), sample, replace=False)]
    )
    began = time.perf_counter()
    plain = {mask: plain_loop(scenario, start, training, members(mask), session) for mask in timed}
    synchronise(device)
    scale = sum(m.bit_count() for m in masks) / max(1, sum(m.bit_count() for m in timed))
    alone = (time.perf_counter() - began) * scale
    batched, single = evaluation_seconds(session)
    apart = max(abs(outcomes[mask].metrics["accuracy"] - plain[mask]) for mask in timed)
    mark = "~" if len(timed) < len(masks) else " "
    print(
        f"{model:4s} {len(masks):5d} coalitions  together {together:8.2f} s  plain loop {mark}{alone:8.1f} s  "
        f"ratio {alone / together:5.2f}  largest difference in accuracy {apart:.4f}"
    )
    print(f"     evaluating 8 models: together {batched:.2f} s, one by one {single:.2f} s")
    if device.startswith("cuda"):
        print(f"     peak memory on the device {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    else:
        print(
            f"     peak memory of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB"
        )


def evaluation_seconds(session, models: int = 8) -> tuple[float, float]:
    """Seconds to measure a stack of models as it is, and split into stacks of one."""
    stack = session.take(session.initial(), [0] * models)
    seconds = []
    for parts in ([stack], [session.take(stack, [row]) for row in range(models)]):
        session.evaluate(session.take(stack, [0]))
        synchronise(session.device)
        began = time.perf_counter()
        for part in parts:
            session.evaluate(part)
        synchronise(session.device)
        seconds.append(time.perf_counter() - began)
    return seconds[0], seconds[1]


def measure_checkpoints(
    scenario: Scenario, model: str, masks: list[int], device: str, seconds: float
) -> None:
    """The same trainings in waves bounded by memory alone, and by time as well; in turns, the faster of two each."""
    learner, taken, found = TorchLearner(model), {}, {}
    dict(FederatedGame(scenario, learner, Training(rounds=1, epochs=1), device=device).evaluate([1]))
    for checkpoint in (math.inf, seconds) * 2:
        game = FederatedGame(scenario, learner, SETTINGS[model], device=device, checkpoint=checkpoint)
        synchronise(device)
        began = time.perf_counter()
        outcomes = dict(game.evaluate(masks))
        synchronise(device)
        taken.setdefault(checkpoint, []).append(time.perf_counter() - began)
        found[checkpoint] = {mask: outcome.metrics for mask, outcome in outcomes.items()}
    without, bounded = (min(taken[checkpoint]) for checkpoint in (math.inf, seconds))
    differing = sum(found[math.inf][mask] != found[seconds][mask] for mask in masks)
    print(
        f"{model:4s} {len(masks):5d} coalitions  without checkpoints {without:8.2f} s  every {seconds:g} s "
        f"{bounded:8.2f} s  {bounded / without - 1:+.1%}  outcomes with other bits: {differing}"
    )


def measure_seeds(scenario: Scenario, model: str, budget: int, seeds: int, device: str, repeats: int) -> None:
    """As many trainings with one seed, and spread over several: in turns, medians of so many each.

    Coalitions are drawn at random; with several seeds, each has another share of them. On a machine that others use as
    well, the seconds of its cores tell more than those on the clock.
    """
    learner, training = TorchLearner(model), SETTINGS[model]
    dict(
        FederatedGame(scenario, learner, Training(rounds=1, epochs=1), device=device).evaluate([1])
    )  # warms up
    masks = np.random.default_rng(0).choice(range(1, 1 << scenario.n), budget, replace=False).tolist()
    plans = {
        "one seed": [(mask, 0) for mask in masks],
        f"{seeds} seeds": [(mask, place % seeds) for place, mask in enumerate(masks)],
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in plans}
    for _ in range(repeats):
        for name, trials in plans.items():
            game = FederatedGame(scenario, learner, training, device=device)
            synchronise(device)
            began, cores = time.perf_counter(), time.process_time()
            found = dict(game.evaluate_trials(trials))
            synchronise(device)
            taken[name].append((time.perf_counter() - began, time.process_time() - cores))
            assert found.keys() == set(trials)
            clock, cores = taken[name][-1]
            print(f"     {name:9s} {clock:8.2f} s, of the cores {cores:8.2f} s", flush=True)
    one, several = (np.median(seconds, axis=0) for seconds in taken.values())
    print(
        f"{model:4s} {len(masks):5d} trainings  one seed {one[0]:8.2f} s  {seeds} seeds {several[0]:8.2f} s  "
        f"ratio {several[0] / one[0]:5.3f}, of the cores' seconds {several[1] / one[1]:5.3f}"
    )


def measure_least_squares(n: int = 16) -> None:
    """All 2**n coalitions of a linear regression, by sums of sufficient statistics and solves."""
    scenario = load_scenario("synthetic", clients=n)
    game = FederatedGame(scenario, "least-squares", Training(rounds=1))
    began = time.perf_counter()
    values = fv.value(game, "exact")
    print(f"least-squares {values.evaluations} coalitions  {time.perf_counter() - began:.1f} s")


def synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data-dir", required=True, help="folder with mnist/")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", default="mlp,cnn")
    parser.add_argument("--plans", default="ipss,all", help="ipss: its 32 coalitions; all: 1,024")
    parser.add_argument("--samples", type=int, default=2710, help="per client")
    parser.add_argument("--test-size", type=int, default=2000)
    parser.add_argument("--sample", type=int, default=8, help="coalitions that the plain loop is timed on")
    parser.add_argument(
        "--checkpoint", type=float, nargs="?", const=20.0, help="seconds; compare with and without (20)"
    )
    parser.add_argument("--seeds", type=int, help="compare one seed with so many")
    parser.add_argument("--budget", type=int, default=128, help="trainings, with --seeds")
    parser.add_argument("--repeats", type=int, default=3, help="of each, with --seeds")
    arguments = parser.parse_args()
    scenario = load_scenario(
        "mnist",
        clients=10,
        samples=arguments.samples,
        test_size=arguments.test_size,
        data_dir=arguments.data_dir,
    )
    plans = {"ipss": list(next(ipss(10, 32, np.random.default_rng(0)))), "all": list(range(1024))}
    if arguments.checkpoint:
        for model in arguments.models.split(","):
            for plan in arguments.plans.split(","):
                measure_checkpoints(scenario, model, plans[plan], arguments.device, arguments.checkpoint)
        return
    if arguments.seeds:
        for model in arguments.models.split(","):
            plan = (arguments.budget, arguments.seeds, arguments.device, arguments.repeats)
            measure_seeds(scenario, model, *plan)
        return
    if arguments.device == "cpu":
        measure_least_squares()
    for model in arguments.models.split(","):
        for plan in arguments.plans.split(","):
            measure(scenario, model, plans[plan], arguments.device, arguments.sample)


if __name__ == "__main__":
    main()
