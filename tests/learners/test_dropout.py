"""Dropout by counted numbers: what is dropped follows from key, layer and place, in a stack as in a loop."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap

from fedvalue.learners.torch._dropout import CountedDropout, may_drop


def dropped(layer: nn.Module, x: Tensor, key: int = 7) -> Tensor:
    with CountedDropout(torch.tensor(key)):
        found: Tensor = layer.train()(x)
    return found


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_as_many_are_dropped_as_should_be_and_the_rest_makes_up_for_it(p: float) -> None:
    x = torch.ones(400, 500)
    found = dropped(nn.Dropout(p), x)
    gone = found == 0
    assert gone.double().mean() == pytest.approx(p, abs=0.005)
    assert found[~gone].unique().tolist() == [pytest.approx(1 / (1 - p), rel=1e-6)]
    for by in (0, 1):  # no row and no column is special: binomial deviations
        shares = gone.double().mean(by)
        assert shares.std() == pytest.approx((p * (1 - p) / gone.shape[by]) ** 0.5, rel=0.2)


def test_neighbours_layers_and_keys_are_independent() -> None:
    x, layer = torch.ones(300, 300), nn.Dropout(0.5)
    first, second = (dropped(layer, x, key) == 0 for key in (7, 8))
    with CountedDropout(torch.tensor(7)):
        in_first, in_second = (layer(x) == 0 for _ in range(2))
    assert torch.equal(first, in_first)
    pairs = [(first, second), (in_first, in_second), (first[:, 1:], first[:, :-1]), (first[1:], first[:-1])]
    for one, other in pairs:
        assert torch.corrcoef(torch.stack([one.flatten(), other.flatten()]).double())[0, 1].abs() < 0.02


def test_a_sample_keeps_its_numbers_whatever_stands_behind_it() -> None:
    x = torch.ones(32, 40)
    assert torch.equal(dropped(nn.Dropout(0.5), x)[:5], dropped(nn.Dropout(0.5), x[:5]))


@pytest.mark.parametrize("layer", [nn.Dropout1d(0.5), nn.Dropout2d(0.5), nn.Dropout3d(0.5)])
def test_channels_are_dropped_whole(layer: nn.Module) -> None:
    x = torch.ones(20, 30, *[4] * (1 + [nn.Dropout1d, nn.Dropout2d, nn.Dropout3d].index(type(layer))))
    found = dropped(layer, x).flatten(2)
    assert (found == found[..., :1]).all()
    assert (found[..., 0] == 0).double().mean() == pytest.approx(0.5, abs=0.08)


def test_nothing_is_dropped_in_evaluation_or_with_probability_0_and_everything_with_1() -> None:
    x = torch.ones(5, 5)
    with CountedDropout(torch.tensor(0)):
        assert torch.equal(nn.Dropout(0.5).eval()(x), x)
    assert torch.equal(dropped(nn.Dropout(0.0), x), x)
    assert torch.equal(dropped(nn.Dropout(1.0), x), torch.zeros(5, 5))


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = torch.randn(500, 400, generator=torch.Generator().manual_seed(3))
    found = dropped(nn.AlphaDropout(0.3), x)
    assert (found.mean(), found.std()) == (pytest.approx(0, abs=0.01), pytest.approx(1, abs=0.01))
    assert found.unique(return_counts=True)[1].max() / found.numel() == pytest.approx(0.3, abs=0.01)


def test_rows_of_a_stack_drop_by_their_own_keys_as_they_would_alone() -> None:
    x, keys, layer = torch.ones(3, 16, 8), torch.tensor([5, 9, 5]), nn.Dropout(0.3)

    def one(x: Tensor, key: Tensor) -> Tensor:
        with CountedDropout(key):
            return layer(x)  # type: ignore[no-any-return]

    found = vmap(one)(x, keys)
    for row, key in enumerate(keys.tolist()):
        assert torch.equal(found[row], dropped(layer, x[row], key))


def test_layers_that_may_drop_are_seen() -> None:
    class Own(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.dropout(x)

    assert may_drop(nn.Sequential(nn.Linear(2, 2), nn.Dropout2d()))
    assert may_drop(Own())
    assert not may_drop(nn.Sequential(nn.Flatten(), nn.Linear(2, 2)))
