"""What a kill costs a valuation in a federation: SuperLink and SuperNodes run as processes on the loopback interface.

ServerApp, or SuperLink and ServerApp, are killed (SIGKILL) when the first node has begun with a round, in every round of
four; then they are started again, and the run as well. All messages to train that nodes have received in both runs are
counted, and those that the same run needs undisturbed are taken away. A message has all models of a client for one
round. Values must be the same to the last bit.

    python bench/federation_kills.py [--clients 2] [--victims ServerApp SuperLink] [--rounds 1 2 3 4]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from _table import table
from fedvalue.flower._demo import lay_out, run_app, start, terminable
from fedvalue.flower._processes import Federation
from fedvalue.scenarios import load_scenario

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from flower_kills import VICTIMS, killed_and_continued
from flower_processes import IMPATIENT

ROUNDS = 4
RULES = {"method": "exact-cc", "rounds": ROUNDS, "epochs": 2, "batch": 32, "rate": 0.01}
LONGEST = 900.0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--clients", type=int, default=2)
    options.add_argument("--victims", nargs="+", choices=list(VICTIMS), default=list(VICTIMS))
    options.add_argument("--rounds", type=int, nargs="+", default=list(range(1, ROUNDS + 1)))
    chosen = options.parse_args()
    scenario = load_scenario("digits", clients=chosen.clients)
    rows = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, terminable():
        home = Path(folder)
        (home / "site").mkdir()
        (home / "site" / "sitecustomize.py").write_text(IMPATIENT, encoding="utf-8")  # nodes that look often
        os.environ["PYTHONPATH"] = os.pathsep.join([str(home / "site"), os.environ.get("PYTHONPATH", "")])
        app = lay_out(home, scenario, RULES)
        with Federation(home) as federation:
            federation.link_options = ("--insecure", "--database", str(home / "link.db"))
            start(federation, scenario)
            expected = run_app(federation, app, home / "undisturbed", {}, LONGEST)
            for victim in chosen.victims:
                for t in chosen.rounds:
                    began = time.monotonic()
                    values, messages = killed_and_continued(
                        federation, app, chosen.clients, victim, t, LONGEST
                    )
                    again = messages.total() - ROUNDS * chosen.clients
                    same = values.mean.tolist() == expected.mean.tolist()
                    rows.append(
                        (victim, str(t), f"{again} of {messages.total() - again}", f"{again / chosen.clients:.2g}",
                         "yes" if same else "NO", f"{time.monotonic() - began:.0f}")
                    )  # fmt: skip
                    print(*rows[-1], flush=True)
    heads = (
        "killed",
        "in round",
        "messages repeated",
        "rounds repeated (bar: ≤ 1)",
        "same values",
        "seconds",
    )
    print(table(heads, rows))


if __name__ == "__main__":
    main()
