"""Who gets which rows, and what is done to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedvalue.errors import ScenarioError
from fedvalue.scenarios import Dataset, load_scenario
from fedvalue.scenarios._changes import (
    Party,
    Setting,
    feature_noise,
    free_riders,
    label_flip,
    label_noise,
)
from fedvalue.scenarios._partition import (
    PARTITIONS,
    by_owner,
    dirichlet,
    distribution,
    parse,
    same,
    shares,
    size,
    subset,
)

some_labels = st.lists(st.integers(0, 6), min_size=60, max_size=250).map(np.array)
clients = st.integers(1, 9)
seeds = st.integers(0, 2**32)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def setting(classes: int = 10, seed: int = 0, spared: int = 0) -> Setting:
    return Setting(classes, rng(seed), spared)


def parties(n: int, rows: int = 200, classes: int = 10) -> list[Party]:
    source = rng(99)
    return [
        Party(
            f"client-{i}",
            Dataset(source.random((rows, 3)).astype(np.float32), source.integers(0, classes, rows)),
        )
        for i in range(n)
    ]


def histograms(labels: np.ndarray, parts: list[np.ndarray]) -> np.ndarray:
    return np.array([np.bincount(labels[part], minlength=labels.max() + 1) for part in parts])


@given(some_labels, clients, seeds, st.sampled_from([same, distribution, size, dirichlet]))
def test_every_row_has_exactly_one_owner(labels, n, seed, share_out):
    options = {"alpha": 5.0} if share_out is dirichlet else {}
    parts = share_out(labels, n, rng(seed), **options)
    assert len(parts) == n
    assert all(part.dtype == np.int64 for part in parts)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    again = share_out(labels, n, rng(seed), **options)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@given(some_labels, clients, seeds)
def test_same_means_same_size_and_same_classes(labels, n, seed):
    counts = histograms(labels, same(labels, n, rng(seed)))
    assert np.ptp(counts.sum(axis=1)) <= 1
    assert np.ptp(counts, axis=0).max() <= 1


@given(some_labels, clients, seeds)
def test_distribution_gives_equal_sizes(labels, n, seed):
    assert np.ptp([len(part) for part in distribution(labels, n, rng(seed))]) <= 1


def test_distribution_is_80_percent_block_and_20_percent_even():
    labels = np.repeat(np.arange(10), 100)
    counts = histograms(labels, distribution(labels, 10, rng()))
    np.testing.assert_array_equal(np.diag(counts), 82)  # 80 of its own block and a tenth of 20
    np.testing.assert_array_equal(counts[~np.eye(10, dtype=bool)], 2)
    even = histograms(labels, distribution(labels, 10, rng(), sorted_share=0.0))
    np.testing.assert_array_equal(even, 10)


def test_distribution_of_targets_sorts_them():
    targets = rng().standard_normal(500)
    means = [targets[part].mean() for part in distribution(targets, 5, rng())]
    assert means == sorted(means)
    spread = np.ptp([targets[part].mean() for part in same(targets, 5, rng())])
    assert spread < 0.5


@pytest.mark.parametrize("n", [1, 3, 10])
def test_size_is_one_to_n(n):
    labels = np.tile(np.arange(10), 55 * n)
    parts = size(labels, n, rng())
    unit = len(labels) / (n * (n + 1) / 2)
    assert [len(part) for part in parts] == pytest.approx([unit * (i + 1) for i in range(n)], abs=1)
    counts = histograms(labels, parts)
    assert np.abs(counts - counts.sum(axis=1, keepdims=True) / 10).max() <= 2


def test_dirichlet_alpha_sets_the_difference():
    labels = np.repeat(np.arange(10), 200)

    def largest_share(alpha: float) -> float:
        counts = histograms(labels, dirichlet(labels, 5, rng(1), alpha=alpha))
        return float((counts / counts.sum(axis=0)).max(axis=0).mean())

    assert largest_share(0.05) > 0.75 > largest_share(1.0) > 0.25 > largest_share(1000.0)


def test_dirichlet_leaves_nobody_empty_unless_allowed():
    labels = np.repeat(np.arange(2), 30)
    with pytest.raises(ScenarioError, match="larger alpha"):
        dirichlet(labels, 30, rng(), alpha=0.001)
    assert min(map(len, dirichlet(labels, 30, rng(), alpha=0.001, least=0))) == 0


@given(st.integers(0, 500), st.lists(st.integers(1, 50), min_size=1, max_size=12))
def test_shares_add_up_and_are_within_one(total, weights):
    counts = shares(total, weights)
    assert counts.sum() == total
    assert np.abs(counts - total * np.array(weights) / sum(weights)).max() < 1


@given(some_labels, st.floats(0, 1), seeds)
def test_a_subset_keeps_the_proportions(labels, fraction, seed):
    count = round(fraction * len(labels))
    rows = subset(labels, count, rng(seed))
    assert len(set(rows.tolist())) == count
    kept = np.bincount(labels[rows], minlength=7)
    assert np.abs(kept - np.bincount(labels, minlength=7) * count / len(labels)).max() <= 1.5


def test_owners_stay_together():
    owners = rng().integers(0, 40, 600)
    parts, owned = by_owner(owners, 4, rng(), each=5)
    assert [len(group) for group in owned] == [5] * 4
    for part, group in zip(parts, owned, strict=True):
        assert set(owners[part]) == set(group)
    parts, owned = by_owner(owners, 7, rng())
    assert sum(map(len, parts)) == 600
    with pytest.raises(ScenarioError, match="41 owners"):
        by_owner(owners, 41, rng())


def test_label_noise_is_exact_and_never_keeps_a_label():
    before = parties(11)
    after = label_noise(before, setting())
    rates = [np.mean(a.data.y != b.data.y) for a, b in zip(after, before, strict=True)]
    assert rates == pytest.approx([0.02 * i for i in range(11)])
    all_wrong = label_noise(before, setting(), noise=1.0)[-1]
    shift = np.bincount((all_wrong.data.y - before[-1].data.y) % 10, minlength=10)
    assert shift[0] == 0
    assert shift[1:].min() > 5  # 200 labels over nine others
    assert all(a.data.x is b.data.x for a, b in zip(after, before, strict=True))


def test_feature_noise_grows_with_the_client():
    before = parties(5, rows=4000)
    after = feature_noise(before, setting())
    added = [(a.data.x - b.data.x).std() for a, b in zip(after, before, strict=True)]
    assert added == pytest.approx([0, 0.05, 0.10, 0.15, 0.20], abs=0.005)
    assert all(a.data.x.dtype == np.float32 for a in after)


def test_a_single_client_has_no_noise():
    before = parties(1)
    assert np.array_equal(label_noise(before, setting())[0].data.y, before[0].data.y)
    assert np.array_equal(feature_noise(before, setting())[0].data.x, before[0].data.x)


def test_label_flip_is_systematic():
    before = parties(6)
    after = label_flip(before, setting(), flippers=2, flip_fraction=0.5)
    assert [p.role for p in after] == ["", "", "", "", "label-flipper", "label-flipper"]
    assert after[4].name == "label-flipper-0"
    changed = after[5].data.y != before[5].data.y
    assert changed.mean() == 0.5
    np.testing.assert_array_equal(after[5].data.y[changed], (before[5].data.y[changed] + 1) % 10)


@pytest.mark.parametrize(("n", "each"), [(3, 1), (10, 1), (40, 2), (100, 5)])
def test_five_percent_free_riders_at_least_one(n, each):
    before = parties(n, rows=5)
    after = free_riders(before, setting())
    assert len(after) == n
    empty = [p for p in after if p.role == "free-rider"]
    copies = [p for p in after if p.role == "copy"]
    assert len(empty) == len(copies) == each
    assert all(p.data.x.shape == (0, 3) and p.data.x.dtype == np.float32 for p in empty)
    for copy in copies:
        np.testing.assert_array_equal(copy.data.x, before[copy.of].data.x)
        assert copy.name == f"copy-of-client-{copy.of}"
    assert len({p.name for p in after}) == n


@pytest.mark.parametrize("options", [{"empty": 3}, {"copies": 2}, {"empty": -1}, {"copies": 0.5}])
def test_impossible_free_riders(options):
    with pytest.raises(ScenarioError):
        free_riders(parties(3), setting(), **options)


def test_changes_combine_and_copies_stay_copies():
    s = load_scenario(
        "digits", clients=10, partition="size+free-riders+label-flip+feature-noise", samples=40, flippers=2
    )
    assert [r["role"] for r in s.details["roles"]] == ["label-flipper"] * 2 + ["free-rider", "copy"]
    np.testing.assert_array_equal(s.clients[9].x, s.clients[0].x)
    assert len(s.clients[8]) == 0


def test_changes_leave_the_rows_of_others_alone():
    plain = load_scenario("digits", samples=30)
    demo = load_scenario("digits", samples=30, partition="demo")
    for i in range(7):
        np.testing.assert_array_equal(plain.clients[i].x, demo.clients[i].x)
    np.testing.assert_array_equal(demo.clients[7].x, plain.clients[7].x)
    np.testing.assert_array_equal(demo.clients[7].y, (plain.clients[7].y + 1) % 10)


def test_the_demo_names_its_three_suspects():
    s = load_scenario("digits", partition="demo")
    assert s.names[-3:] == ("label-flipper", "free-rider", "copy-of-client-0")
    assert s.n == 10
    assert s.test.x.shape[1:] == s.clients[8].x.shape[1:] == (1, 8, 8)


@pytest.mark.parametrize("spec", ["size+same", "label-flip+label-flip", "demo+size", "demo+label-flip"])
def test_contradictory_partitions(spec):
    with pytest.raises(ScenarioError, match="joined by"):
        parse(spec, "same", tuple(PARTITIONS))


def test_unknown_partitions_and_options_suggest():
    with pytest.raises(ScenarioError, match="Did you mean 'dirichlet'"):
        load_scenario("digits", partition="dirichelt")
    with pytest.raises(ScenarioError, match="Did you mean 'alpha'"):
        load_scenario("digits", partition="dirichlet", alpah=1)
    with pytest.raises(ScenarioError, match="Unknown option"):
        load_scenario("digits", partition="same", alpha=1)


@pytest.mark.parametrize(
    ("partition", "options"),
    [
        ("dirichlet", {"alpha": 0}),
        ("dirichlet", {"alpha": float("nan")}),
        ("dirichlet", {"alpha": "small"}),
        ("label-noise", {"noise": 1.5}),
        ("label-flip", {"flippers": 11}),
        ("label-flip", {"flip_fraction": -0.1}),
        ("distribution", {"sorted_share": 2}),
    ],
)
def test_options_out_of_range(partition, options):
    with pytest.raises(ScenarioError, match=next(iter(options))):
        load_scenario("digits", partition=partition, **options)


def test_more_parts_than_test_rows():
    with pytest.raises(ScenarioError, match=r"test_parts must be a whole number from 0 to 9. Got 10"):
        load_scenario("digits", test_size=9, test_parts=10)


def test_too_few_rows():
    with pytest.raises(ScenarioError, match="need at least 4 rows"):
        same([0, 1], 4, rng())
    with pytest.raises(ScenarioError, match="at least 10 rows"):
        size([0, 1, 0, 1], 4, rng())
