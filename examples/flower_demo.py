"""A Flower federation on this machine: a SuperLink, three SuperNodes, and what their clients are worth.

Each node is a process of its own with the rows of one client; models travel, rows do not. All coalitions advance together, so
that a valuation takes hardly more rounds of messages than one training. `fedvalue flower deploy` makes a real one.
"""

from rich.console import Console

import fedvalue as fv
from fedvalue.flower import demo


def main() -> fv.Values:
    scenario = fv.load_scenario("digits", clients=3, partition="size")
    values = demo(scenario, {"method": "exact", "rounds": 2, "epochs": 4}, tell=print)
    Console().print(values.table())
    print(f"{values.evaluations} coalitions in {values.details['message_rounds']} rounds of messages.")
    return values


if __name__ == "__main__":
    main()
