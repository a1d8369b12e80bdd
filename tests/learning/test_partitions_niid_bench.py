"""The partitions of NIID-Bench: labels per client, sizes by Dirichlet, and sizes as given."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.learning.partitions import dirichlet_sizes
from simfl.learning.partitions.base import Partition
from simfl.learning.partitions.dirichlet_sizes import DirichletSizes
from simfl.learning.partitions.exact_sizes import ExactSizes
from simfl.learning.partitions.labels_per_client import LabelsPerClient

LABELS = np.tile(np.arange(10), 100)
REGRESSION = np.zeros((1000, 1), dtype=np.float32)


def deal(
    partition: Partition, clients: int, targets: np.ndarray = LABELS, seed: int = 1
) -> list[np.ndarray]:
    """Each client's rows."""
    return partition.split(targets, np.zeros(clients, int), None, np.random.default_rng(seed))


@pytest.mark.parametrize(
    "partition",
    [LabelsPerClient(), DirichletSizes(), ExactSizes(tuple(range(1, 21)))],
    ids=lambda one: type(one).__name__,
)
def test_rows_are_ascending_disjoint_and_by_the_seed(partition: Partition) -> None:
    """Every one keeps the promise of the base class, and the generator decides alone."""
    parts, again, other = deal(partition, 20), deal(partition, 20), deal(partition, 20, seed=2)

    assert all(part.dtype == np.int64 and (np.diff(part) > 0).all() for part in parts)
    everything = np.concatenate(parts)
    assert len(np.unique(everything)) == len(everything)
    assert all(np.array_equal(one, two) for one, two in zip(parts, again, strict=True))
    assert not all(np.array_equal(one, two) for one, two in zip(parts, other, strict=True))


@pytest.mark.parametrize("labels", [1, 2, 3, 10])
def test_every_client_has_so_many_labels(labels: int) -> None:
    """#C = k: k labels each, the client's own among them; a label is shared evenly by its holders,
    and every row lies with somebody."""
    parts = deal(LabelsPerClient(labels=labels), 20)

    counts = np.array([np.bincount(LABELS[part], minlength=10) for part in parts])
    assert ((counts > 0).sum(axis=1) == labels).all()
    assert all(counts[client, client % 10] > 0 for client in range(20))
    assert counts.sum() == len(LABELS)
    for held in counts.T:
        assert np.ptp(held[held > 0]) <= 1


def test_other_labels_are_drawn_evenly() -> None:
    """Every label but the client's own is as likely as any other: 200 draws of 2 out of 9."""
    drawn = np.zeros(10)
    for seed in range(200):
        drawn[np.unique(LABELS[deal(LabelsPerClient(labels=3), 1, seed=seed)[0]])] += 1

    assert drawn[0] == 200
    assert np.abs(drawn[1:] - 200 * 2 / 9).max() < 4 * np.sqrt(200 * 2 / 9 * 7 / 9)


def test_labels_of_too_few_clients_are_left_out() -> None:
    """Three clients with one label each hold three of ten."""
    counts = [np.bincount(LABELS[part], minlength=10) for part in deal(LabelsPerClient(1), 3)]

    assert [int(one.argmax()) for one in counts] == [0, 1, 2]
    assert [int(one.sum()) for one in counts] == [100] * 3


@pytest.mark.parametrize(
    ("partition", "clients", "targets", "message"),
    [
        (LabelsPerClient(labels=11), 3, LABELS, "labels: found 11, accepted: at most 10 labels"),
        (LabelsPerClient(), 3, REGRESSION, "regression does not have; use iid"),
        (LabelsPerClient(1), 3, np.array([0, 1, 1, 1]), "1 of 3 clients would have no example"),
        (ExactSizes((5, 5)), 3, LABELS, "sizes: found 2 numbers for 3 clients"),
        (ExactSizes((500, 501)), 2, LABELS, "sizes: found 1001 rows together, accepted: at most"),
    ],
)
def test_what_cannot_be_dealt_is_refused(
    partition: Partition, clients: int, targets: np.ndarray, message: str
) -> None:
    """By the key to change."""
    with pytest.raises(ValueError, match=message):
        deal(partition, clients, targets)


def test_draws_that_never_do_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few seconds, here after 100 attempts at least, with what to change."""
    monkeypatch.setattr(dirichlet_sizes, "MOST_DRAWN", 2000)

    with pytest.raises(ValueError, match=r"^alpha: no draw of 127 .* 20 clients 10 of 1000"):
        deal(DirichletSizes(alpha=1e-3), 20)


def test_sizes_are_those_asked_for() -> None:
    """Exactly, also for a regression; remaining rows belong to nobody."""
    parts = deal(ExactSizes((300, 1, 42)), 3, REGRESSION)

    assert [len(part) for part in parts] == [300, 1, 42]


def test_dirichlet_shares_have_the_laws_variance() -> None:
    """One share of n is Beta(alpha, (n-1) alpha): variance (1/n)(1 - 1/n)/(n alpha + 1); all
    rows are dealt, labels in proportion."""
    sizes = np.array(
        [
            [len(part) for part in deal(DirichletSizes(0.5, 1), 4, REGRESSION, seed)]
            for seed in range(400)
        ]
    )

    assert (sizes.sum(axis=1) == 1000).all()
    assert (sizes / 1000).var() == pytest.approx(0.0625, rel=0.15)
    largest = max(deal(DirichletSizes(), 4), key=len)
    assert not (np.diff(largest) == 1).all()  # a random choice, not a stretch of the file
    assert np.bincount(LABELS[largest], minlength=10).min() > 0.5 * len(largest) / 10


def test_sizes_have_a_fewest() -> None:
    """Draws are repeated until the smallest is large enough."""
    smallest = [
        min(map(len, deal(DirichletSizes(1.0, min_examples=40), 5, seed=seed))) for seed in range(5)
    ]

    assert min(smallest) >= 40
