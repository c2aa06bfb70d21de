"""The model, the data of a partition, and how it is trained and tested: plain PyTorch."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    """A small network with a layer that counts batches: such whole numbers are part of its state, too."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def load_data(partition: int, partitions: int) -> tuple[DataLoader, DataLoader]:
    """Every partition has its share of the digits, a fifth of it for testing."""
    x, y = load_digits(return_X_y=True)
    images, labels = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y)
    mine = TensorDataset(images[partition::partitions], labels[partition::partitions])
    held_out = len(mine) // 5
    chosen = torch.Generator().manual_seed(partition)
    train, test = random_split(mine, [len(mine) - held_out, held_out], generator=chosen)
    return DataLoader(train, batch_size=32), DataLoader(test, batch_size=256)


def train(net: nn.Module, loader: DataLoader, epochs: int, lr: float) -> float:
    """Trains in place and returns the last loss."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    loss = torch.tensor(0.0)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    return loss.item()


@torch.no_grad()
def test(net: nn.Module, loader: DataLoader) -> tuple[float, float]:
    """Mean loss and accuracy."""
    net.eval()
    loss, right, count = 0.0, 0, 0
    for x, y in loader:
        outputs = net(x)
        loss += float(nn.functional.cross_entropy(outputs, y, reduction="sum"))
        right += int((outputs.argmax(1) == y).sum())
        count += len(y)
    return loss / count, right / count
