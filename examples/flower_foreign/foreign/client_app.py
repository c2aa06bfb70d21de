"""The client's side, as in Flower's PyTorch template."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from foreign.task import Net, load_data
from foreign.task import test as test_fn
from foreign.task import train as train_fn

app = ClientApp()


def load(message: Message, context: Context) -> tuple:
    model = Net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    node = context.node_config
    return model, *load_data(int(node["partition-id"]), int(node["num-partitions"]))


@app.train()
def train(message: Message, context: Context) -> Message:
    model, train_loader, _ = load(message, context)
    epochs, rate = context.run_config["local-epochs"], message.content["config"]["lr"]
    loss = train_fn(model, train_loader, epochs, rate)
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(train_loader.dataset)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    model, _, test_loader = load(message, context)
    loss, accuracy = test_fn(model, test_loader)
    metrics = MetricRecord(
        {"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(test_loader.dataset)}
    )
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)
