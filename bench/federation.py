"""A valuation in a real federation against one plain training, and against coalition after coalition.

SuperLink and SuperNodes run as processes on the loopback interface. All three are measured in one ServerApp, so
in the same deployment, and without what they share (starting processes, asking who is who):

    plain       one FedAvg training of all clients
    valuation   all coalitions of the method: those of several clients advance together, and a client that is in
                none of these trains its own coalition in one message
    one by one  the same coalitions, each trained by itself, a message to each of its clients in every round, as
                Flower's strategies do: asking for replies as often as a valuation does, and through Flower's own
                send_and_receive, which looks every 3 s

Messages are counted because each has Flower start an app at a node, which takes seconds. Nothing is kept between rounds
(checkpoints = false): with checkpoints, as is the default, a client in none of the larger coalitions has a message for every round too.

    python bench/federation.py [--clients 3 6] [--rounds 4]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

from _table import table
from fedvalue.flower._demo import lay_out, start, terminable
from fedvalue.flower._processes import Federation
from fedvalue.scenarios import load_scenario

METHODS = {3: ("exact", 0), 6: ("ipss", 8)}
BARS = {
    "valuation / plain": "≤ 2.5",
    "one by one / valuation": "≥ 5",
    "Flower's / valuation": "≥ 5",
    "message rounds − rounds": "a constant",
}
RULES = {"epochs": 2, "batch": 32, "rate": 0.01}
LONGEST = 1500.0

SERVER = '''
"""Measures three ways to train the coalitions that a method asks for."""

import json
import time
from pathlib import Path

import numpy as np
from flwr.serverapp import ServerApp

import fedvalue as fv
from fedvalue.games import FederatedGame
from fedvalue.flower._settings import Settings
from fedvalue.scenarios import Dataset
from fedvalue.flower._trainer import FlowerTrainer
from fedvalue.flower._reports import remote_scenario
from fedvalue.flower._roster import Roster

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    settings = Settings.from_config(config, ("task", "classes", "test", "data"))
    with np.load(config["test"]) as file:
        test = Dataset(file["x"], file["y"])
    kind = config["task"], config["classes"], 0
    roster = Roster.gather(grid, settings.clients, settings.patience, kind=kind)
    scenario = remote_scenario(roster.reports, test, config["task"], config["classes"])
    everyone = (1 << scenario.n) - 1
    asked = []

    class Game(FederatedGame):
        def evaluate_trials(self, trials, claim=list):
            asked.extend(trial[0] for trial in trials)
            return super().evaluate_trials(trials, claim)

    class SendAndReceive:
        """The grid as Flower's strategies use it."""

        get_nodes = grid.get_nodes

        def push_messages(self, messages):
            self.replies = list(grid.send_and_receive(list(messages)))
            return [reply.metadata.reply_to_message_id for reply in self.replies]

        def pull_messages(self, message_ids):
            return self.replies

    def measured(work, trainer):
        game = Game(scenario, settings.model, settings.training, trainer=trainer)
        began = time.perf_counter()
        work(game)
        return time.perf_counter() - began, trainer.message_rounds, trainer.messages

    def trained(mask, through):
        # A message may hold one model: no client is asked for several rounds at once.
        trainer = FlowerTrainer(through, roster, message_bytes=1)
        return measured(lambda game: list(game.evaluate([mask])), trainer)

    found = {"plain": trained(everyone, grid)}
    asked.clear()
    trainer = FlowerTrainer(grid, roster)
    # The same coalitions as ever, each trained once: those that show the luck of exact values come on top.
    options = {"noise": False} if settings.method == "exact" else {}
    found["valuation"] = measured(lambda game: fv.value(game, settings.method, settings.budget, **options), trainer)
    found["coalitions"] = len(asked)
    coalitions = [mask for mask in asked if mask]
    for name, through in (("one by one", grid), ("Flower's", SendAndReceive())):
        each = [trained(mask, through) for mask in coalitions]
        found[name] = [sum(column) for column in zip(*each)]
    settings.out.mkdir(parents=True, exist_ok=True)
    (settings.out / "bench.json").write_text(json.dumps(found))
'''


def measured(clients: int, rounds: int) -> dict[str, object]:
    """One row of the table."""
    method, budget = METHODS[clients]
    scenario = load_scenario("digits", clients=clients)
    with tempfile.TemporaryDirectory(prefix="fedvalue-bench-") as folder:
        home = Path(folder)
        app = lay_out(home, scenario, {**RULES, "rounds": rounds, "method": method, "budget": budget})
        (app / "valuation" / "server_app.py").write_text(SERVER, encoding="utf-8")
        with terminable(), Federation(home) as federation:
            start(federation, scenario)
            federation.start_run(app, {})
            federation.wait("run", LONGEST)
            if not (home / "out" / "bench.json").exists():
                raise SystemExit(federation.log("run"))
        found = json.loads((home / "out" / "bench.json").read_text(encoding="utf-8"))
    plain, valuation, each, flowers = (found[key] for key in ("plain", "valuation", "one by one", "Flower's"))
    return {
        "nodes": clients,
        "method": f"{method} ({found['coalitions']} coalitions)",
        "plain s": f"{plain[0]:.1f}",
        "valuation s": f"{valuation[0]:.1f}",
        "one by one s": f"{each[0]:.1f}",
        "Flower's s": f"{flowers[0]:.1f}",
        "valuation / plain": f"{valuation[0] / plain[0]:.2f}",
        "one by one / valuation": f"{each[0] / valuation[0]:.1f}",
        "Flower's / valuation": f"{flowers[0] / valuation[0]:.1f}",
        "message rounds − rounds": valuation[1] - rounds,
        "rounds one by one": each[1],
        "messages": valuation[2],
        "messages one by one": each[2],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[3, 6], choices=METHODS)
    parser.add_argument("--rounds", type=int, default=4)
    chosen = parser.parse_args()
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {chosen.rounds} rounds, checkpoints = false"
    )
    rows = [measured(clients, chosen.rounds) for clients in chosen.clients]
    print(table(list(rows[0]), [[str(cell) for cell in row.values()] for row in rows]))
    print("Bars:", ", ".join(f"{name} {bar}" for name, bar in BARS.items()))


if __name__ == "__main__":
    main()
