"""The only file that knows of fedvalue: values the clients, whose app stays as it is."""

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedvalue.flower import value_foreign
from foreign.task import Net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    torch.manual_seed(0)
    values = value_foreign(
        grid,
        clients=config["clients"],
        initial=Net().state_dict(),
        key=f"digits, {config['local-epochs']} local epochs",  # names the game: what its results depend on
        config={"lr": config["lr"]},
        rounds=config["num-server-rounds"],
        method="exact",
        out=config["out"],
    )
    for name, mean in zip(values.names, values.mean, strict=True):
        print(f"{name}: {mean:+.4f}")
