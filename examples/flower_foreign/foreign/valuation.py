"""The only file that knows of fedvalue: values the clients, whose app stays as it is."""

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from torch.utils.data import ConcatDataset, DataLoader

from fedvalue.flower import value_foreign
from foreign.task import Net, load_data
from foreign.task import test as test_fn

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    clients = config["clients"]
    # Rows that no client trains on. These digits are public; a consortium would agree on a test set.
    tests = ConcatDataset([load_data(i, clients)[1].dataset for i in range(clients)])

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        """As Flower's strategies take it. On the server, so that nobody sees a model that another trained alone."""
        net = Net()
        net.load_state_dict(arrays.to_torch_state_dict())
        loss, accuracy = test_fn(net, DataLoader(tests, batch_size=256))
        return MetricRecord({"accuracy": accuracy, "loss": loss})

    torch.manual_seed(0)
    values = value_foreign(
        grid,
        clients=clients,
        initial=Net().state_dict(),
        key=f"digits, {config['local-epochs']} local epochs",  # names the game: what its results depend on
        config={"lr": config["lr"]},
        rounds=config["num-server-rounds"],
        evaluate=evaluate,
        method="exact",
        out=config["out"],
    )
    for name, mean in zip(values.names, values.mean, strict=True):
        print(f"{name}: {mean:+.4f}")
