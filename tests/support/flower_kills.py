"""A run of a federation that is killed in the middle of a round and started again: what its nodes were asked to train."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from flower_processes import flwr, kill, run_number, until

from fedvalue.flower._processes import Federation
from fedvalue.run import read_values
from fedvalue.values import Values

__all__ = ["VICTIMS", "killed_and_continued", "messages_by_round"]

VICTIMS = {
    "ServerApp": ("superexec",),
    "SuperLink": ("superlink", "superexec"),
}  # with what they have started


def messages_by_round(federation: Federation, clients: int, run: str) -> Counter[int]:
    """Messages to train that the nodes have received in a run, as their logs have them."""
    logs = (federation.log(f"node-{place}", 10**7) for place in range(clients))
    pattern = re.compile(rf"\[RUN {run}, ROUND (\d+)\]\s*\n?.*?Receiving: train")
    return Counter(int(t) for log in logs for t in pattern.findall(log))


def killed_and_continued(
    federation: Federation, app: Path, clients: int, victim: str, t: int, seconds: float
) -> tuple[Values, Counter[int]]:
    """The victim is killed when a node has begun with round t, and the run started again.

    The values of the second run, and the messages that both had sent.
    """
    name = f"{victim.lower()}-dies-in-{t}"
    out = federation.home / name
    federation.start_run(app, {"out": str(out)}, name)
    first = run_number(federation, name)
    until(lambda: messages_by_round(federation, clients, first)[t] > 0, f"round {t}", seconds)
    kill(federation, *VICTIMS[victim])
    assert not (out / "values.json").exists()
    if "superlink" in VICTIMS[victim]:
        federation.start_link()
    else:
        federation.start_executor()
    flwr(federation, "stop", first, "demo")
    federation.start_run(app, {"out": str(out)}, f"{name}-again")
    second = run_number(federation, f"{name}-again")
    federation.wait(f"{name}-again", seconds)
    assert not (out / "error.json").exists(), (out / "error.json").read_text(encoding="utf-8")
    assert not (out / "store.db.rounds").exists()
    asked = (messages_by_round(federation, clients, run) for run in (first, second))
    return read_values(out), sum(asked, Counter())
