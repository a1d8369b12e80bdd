"""Partitions: every row at most once, no client empty, and each rule's own promise."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.learning.partitions.base import Partition
from simfl.learning.partitions.dirichlet import Dirichlet
from simfl.learning.partitions.iid import Iid
from simfl.learning.partitions.labels_per_edge import LabelsPerEdge
from simfl.learning.partitions.natural import Natural
from simfl.learning.partitions.shards import Shards

LABELS = np.tile(np.arange(10), 100)
HOME = np.arange(20) % 4
ALL = [Iid(), Dirichlet(), Shards(), LabelsPerEdge(), Natural()]
BY_LABEL = [Dirichlet(), Shards(), LabelsPerEdge()]


def deal(
    partition: Partition,
    targets: np.ndarray = LABELS,
    home: np.ndarray = HOME,
    natural: np.ndarray | None = None,
    seed: int = 1,
) -> list[np.ndarray]:
    """The rows of each client under a fresh generator."""
    return partition.split(targets, home, natural, np.random.default_rng(seed))


def histogram(rows: np.ndarray) -> np.ndarray:
    """How often each of the ten labels occurs in `rows`."""
    return np.bincount(LABELS[rows], minlength=10)


@pytest.mark.parametrize("partition", ALL, ids=lambda one: type(one).__name__)
def test_rows_are_ascending_disjoint_and_never_none(partition: Partition) -> None:
    """Every partition keeps the promise of the base class."""
    natural = np.arange(len(LABELS)) % 20

    parts = deal(partition, natural=natural)

    assert len(parts) == 20
    assert all(part.dtype == np.int64 and len(part) > 0 for part in parts)
    assert all((np.diff(part) > 0).all() for part in parts)
    everything = np.concatenate(parts)
    assert len(np.unique(everything)) == len(everything) == len(LABELS)


@pytest.mark.parametrize("partition", ALL[:4], ids=lambda one: type(one).__name__)
def test_the_generator_decides_alone(partition: Partition) -> None:
    """The same seed deals the same rows, another seed others."""
    first, again, other = deal(partition), deal(partition), deal(partition, seed=2)

    assert all(np.array_equal(one, two) for one, two in zip(first, again, strict=True))
    assert not all(np.array_equal(one, two) for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize("partition", BY_LABEL, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("targets", [np.zeros((50, 1), dtype=np.float32), np.zeros(50)])
def test_a_regression_has_no_labels(partition: Partition, targets: np.ndarray) -> None:
    """Rules by label refuse a regression and name one that fits."""
    with pytest.raises(ValueError, match="regression does not have; use iid"):
        deal(partition, targets)


def test_iid_deals_a_regression() -> None:
    """Iid needs no labels."""
    parts = deal(Iid(), np.zeros((50, 2), dtype=np.float32))

    assert sorted(len(part) for part in parts) == [2] * 10 + [3] * 10


@pytest.mark.parametrize("partition", ALL[:4], ids=lambda one: type(one).__name__)
def test_too_few_rows_are_an_error(partition: Partition) -> None:
    """Nobody is left without data silently."""
    with pytest.raises(ValueError, match=r"19 training examples|would have no example"):
        deal(partition, np.zeros(19, dtype=np.int64))


def test_dirichlet_gives_everybody_the_fewest_asked_for() -> None:
    """Draws are repeated until the smallest shard is large enough."""
    smallest = min(
        len(part)
        for seed in range(5)
        for part in deal(Dirichlet(alpha=0.3, min_examples=15), seed=seed)
    )

    assert smallest >= 15


def test_dirichlet_asks_for_no_more_than_an_equal_share() -> None:
    """50 rows among 10 clients cannot give 10 to each; 5 is the most, and a large alpha finds it
    at once for even labels."""
    parts = deal(Dirichlet(alpha=1e6), np.zeros(50, dtype=np.int64), np.zeros(10, dtype=int))

    assert min(len(part) for part in parts) >= 4


def test_dirichlet_alpha_rules_unevenness() -> None:
    """With a small alpha a client's labels are few, with a large one they are as in the data."""
    few = deal(Dirichlet(alpha=0.1, min_examples=1))
    even = deal(Dirichlet(alpha=1000.0))

    largest_few = np.mean([histogram(part).max() / len(part) for part in few])
    largest_even = np.mean([histogram(part).max() / len(part) for part in even])
    assert largest_few > 0.5
    assert largest_even < 0.15


def test_dirichlet_shares_follow_the_distribution() -> None:
    """The share of one client is Beta(alpha, (n-1) alpha): mean 1/n, variance by the closed form
    (1/n)(1 - 1/n)/(n alpha + 1) = 0.25 * 0.75 / 3 = 0.0625 for n = 4, alpha = 0.5."""
    partition = Dirichlet(alpha=0.5, min_examples=1)
    zeros = np.zeros(10_000, dtype=np.int64)
    generator = np.random.default_rng(3)
    shares = np.array(
        [
            [len(part) / 10_000 for part in partition.split(zeros, np.zeros(4), None, generator)]
            for _ in range(400)
        ]
    )

    assert shares.mean() == pytest.approx(0.25)
    assert shares.var() == pytest.approx(0.0625, rel=0.15)


def test_dirichlet_gives_up_with_a_reason() -> None:
    """A draw that cannot succeed ends in an error that says what to change."""
    with pytest.raises(ValueError, match=r"^alpha: no draw .* raise alpha, lower min_examples"):
        deal(Dirichlet(alpha=1e-3, min_examples=1))


@pytest.mark.parametrize("alpha", [1e-320, 1e-8, 1e300, float("inf")])
def test_dirichlet_never_yields_nan(alpha: float) -> None:
    """Extreme alphas give their limits: one client takes a label, or equal shares."""
    counts = Dirichlet(alpha=alpha)._counts(1000, 8, np.random.default_rng(0))

    assert counts.sum() == 1000
    assert counts.max() in ((125, 126) if alpha > 1 else (1000,))


def test_shards_hold_few_labels() -> None:
    """Two shards of 25 rows out of 100 per label touch at most two labels, 50 rows a client."""
    parts = deal(Shards(shards_per_client=2))

    assert all(len(part) == 50 for part in parts)
    assert max((histogram(part) > 0).sum() for part in parts) <= 2


def test_shards_do_not_follow_the_order_of_the_file() -> None:
    """Which rows of a label share a shard is random."""
    parts = deal(Shards(shards_per_client=1), np.zeros(1000, dtype=np.int64))

    assert not any((np.diff(part) == 1).all() for part in parts)


def test_shards_need_a_row_each() -> None:
    """More shards than rows are refused."""
    with pytest.raises(ValueError, match="shards_per_client: 1000 training examples"):
        deal(Shards(shards_per_client=51))


def divergence(first: np.ndarray, second: np.ndarray) -> float:
    """Jensen-Shannon divergence in nats."""
    middle = (first + second) / 2
    return sum(
        0.5 * float(np.sum(p[p > 0] * np.log(p[p > 0] / middle[p > 0]))) for p in (first, second)
    )


@pytest.mark.parametrize("labels_per_client", [1, 2])
def test_labels_per_edge_starts_fedcure_from_ln_2(labels_per_client: int) -> None:
    """5 edges with 2 of 10 labels each have disjoint labels: mean divergence ln 2."""
    home = np.arange(50) // 10

    parts = deal(LabelsPerEdge(labels_per_client=labels_per_client), home=home)

    edges = [
        sum(histogram(parts[client]) for client in np.flatnonzero(home == m)) for m in range(5)
    ]
    shares = [counts / counts.sum() for counts in edges]
    pairs = [divergence(one, two) for one, two in itertools.combinations(shares, 2)]
    assert np.mean(pairs) == pytest.approx(np.log(2))
    assert all((histogram(part) > 0).sum() == labels_per_client for part in parts)
    assert all(len(part) == 20 for part in parts)


def test_labels_per_edge_permutes_the_labels() -> None:
    """Which labels an edge owns depends on the seed."""
    owned = {
        tuple(np.flatnonzero(histogram(deal(LabelsPerEdge(), home=np.arange(5), seed=seed)[0])))
        for seed in range(8)
    }

    assert len(owned) > 1


def test_labels_per_edge_shares_labels_between_edges() -> None:
    """6 edges with 5 of 10 labels: each label lies with 3 edges, a third of its rows at each."""
    parts = deal(LabelsPerEdge(labels_per_edge=5, labels_per_client=5), home=np.arange(6))

    counts = np.array([histogram(part) for part in parts])
    assert ((counts > 0).sum(axis=0) == 3).all()
    assert set(counts[counts > 0]) == {33, 34}


def test_labels_per_edge_leaves_unowned_labels_out() -> None:
    """3 edges with one label each use 3 of 10 labels (FedCure's appendix: 4, 3 and 3 clients)."""
    home = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])

    parts = deal(LabelsPerEdge(labels_per_edge=1), home=home)

    counts = sum(histogram(part) for part in parts)
    assert sorted(counts) == [0] * 7 + [100] * 3
    assert [len(part) for part in parts[:4]] == [25] * 4


def test_labels_per_edge_ignores_edges_without_clients() -> None:
    """An edge with no client owns no label, so that none is lost."""
    parts = deal(LabelsPerEdge(labels_per_client=5), home=np.array([0, 3]))

    assert sum(len(part) for part in parts) == len(LABELS)


def test_labels_per_edge_names_an_empty_client() -> None:
    """Two rows of a label cannot serve three clients."""
    targets = np.array([0, 0, 1, 1, 1, 1])

    with pytest.raises(ValueError, match="1 of 4 clients would have no example"):
        deal(LabelsPerEdge(), targets, np.array([0, 0, 0, 1]))


def test_natural_follows_the_owners() -> None:
    """Client i is the i-th owner, whatever the seed."""
    natural = np.array([7, 3, 7, 9, 3])

    for seed in range(5):
        parts = deal(Natural(), np.zeros(5, dtype=np.int64), np.zeros(3), natural, seed)
        assert [part.tolist() for part in parts] == [[1, 4], [0, 2], [3]]


def test_natural_draws_owners_where_there_are_more() -> None:
    """Whole owners take part, and which ones depends on the seed."""
    natural = np.repeat(np.arange(10), 3)
    targets = np.zeros((30, 1), dtype=np.float32)

    chosen = {
        tuple(natural[part[0]] for part in deal(Natural(), targets, np.zeros(4), natural, seed))
        for seed in range(6)
    }

    assert len(chosen) > 1
    assert all(len(set(owners)) == 4 for owners in chosen)


@pytest.mark.parametrize(
    ("natural", "message"),
    [(None, "rows have owners"), (np.zeros(1000, dtype=np.int64), "1 owners for 20 clients")],
)
def test_natural_needs_enough_owners(natural: np.ndarray | None, message: str) -> None:
    """Without owners, or with too few, there is a clear error."""
    with pytest.raises(ValueError, match=message):
        deal(Natural(), natural=natural)


@settings(max_examples=40)
@given(
    classes=st.integers(1, 12),
    clients=st.integers(1, 12),
    rows=st.integers(12, 200),
    seed=st.integers(0, 1000),
    partition=st.sampled_from([Iid(), Dirichlet(alpha=5.0), Shards(1), LabelsPerEdge()]),
)
def test_any_size_is_dealt_or_refused(
    classes: int, clients: int, rows: int, seed: int, partition: Partition
) -> None:
    """Whatever the sizes: a sound partition, or a ValueError that says why."""
    generator = np.random.default_rng(seed)
    targets = generator.integers(0, classes, rows)
    home = generator.integers(0, 4, clients)

    refusal = ""
    parts: list[np.ndarray] = []
    try:
        parts = partition.split(targets, home, None, generator)
    except ValueError as error:
        refusal = str(error)

    if refusal:
        assert "clients" in refusal and not isinstance(partition, Iid)
    else:
        everything = np.concatenate(parts)
        assert len(parts) == clients and min(map(len, parts)) > 0
        assert len(np.unique(everything)) == len(everything)
