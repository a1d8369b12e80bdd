"""The splits of the collaborative-fairness papers: their size vectors, and who shares what."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.learning.partitions.base import Partition
from simfl.learning.partitions.class_imbalance import ClassImbalance, class_counts
from simfl.learning.partitions.dirichlet import Dirichlet
from simfl.learning.partitions.power_law import PowerLaw

LABELS = np.tile(np.arange(10), 5400)
POW_10 = [236, 628, 1020, 1412, 1804, 2197, 2589, 2981, 3373, 3760]


def deal(partition: Partition, clients: int, labels: np.ndarray = LABELS) -> list[np.ndarray]:
    """Each client's rows."""
    return partition.split(labels, np.zeros(clients, int), None, np.random.default_rng(1))


def test_power_law_of_ten_clients_has_the_published_sizes() -> None:
    """POW: 20,000 rows; rounding up asks for 20,005, and the last client goes without five."""
    parts = deal(PowerLaw(), 10)

    assert [len(part) for part in parts] == POW_10
    everything = np.concatenate(parts)
    assert len(np.unique(everything)) == len(everything) == 20_000


@pytest.mark.parametrize("clients", [10, 20, 40, 60])
def test_power_law_deals_all_rows_to_any_number_of_clients(clients: int) -> None:
    """Sizes grow from client to client, except for the last one, which gets the rest."""
    sizes = PowerLaw().sizes(clients)

    assert sizes.sum() == 20_000
    assert sizes.min() >= 1
    assert (np.diff(sizes[:-1]) >= 0).all()


def test_power_law_needs_as_many_rows_as_it_deals() -> None:
    """A total beyond the data is refused by name."""
    with pytest.raises(ValueError, match="total: found 20000, accepted: at most 100 rows"):
        deal(PowerLaw(), 10, LABELS[:100])


def test_class_counts_are_the_published_ones() -> None:
    """CLA: 1 to 10 classes among 10 clients, the paper's 1, 3, 5, 7, 10 among 5."""
    twenty = "1 1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8 9 9 10"

    assert class_counts(10, 10).tolist() == list(range(1, 11))
    assert class_counts(5, 10).tolist() == [1, 3, 5, 7, 10]
    assert class_counts(20, 10).tolist() == [int(one) for one in twenty.split()]


def test_class_counts_are_rounded_down_in_whole_numbers() -> None:
    """The 48th of 95 clients is half-way from 1 to 7 classes; one client is the first."""
    assert class_counts(95, 7)[47] == 4
    assert class_counts(67, 19)[55] == 16
    assert class_counts(1, 10).tolist() == [1]


def test_class_imbalance_needs_a_row_of_every_class() -> None:
    """With 9 rows, the client that has all 10 classes would have 9 of the last one."""
    with pytest.raises(ValueError, match=r"total: found 99, .* 9 rows; accepted: 100 at least"):
        deal(ClassImbalance(total=99), 10)
    assert len(np.unique(LABELS[deal(ClassImbalance(total=100), 10)[9]])) == 10


def test_class_imbalance_gives_every_client_the_first_classes() -> None:
    """2,000 rows each, the same number of every class, with the remainder in the last one."""
    parts = deal(ClassImbalance(), 10)

    assert [len(part) for part in parts] == [2000] * 10
    counts = [np.bincount(LABELS[part], minlength=10).tolist() for part in parts]
    assert counts[0] == [2000] + [0] * 9
    assert counts[2] == [666, 666, 668] + [0] * 7
    assert counts[9] == [200] * 10


def test_class_imbalance_draws_with_replacement() -> None:
    """A class of 30 rows fills a client with 100, which then has rows twice."""
    labels = np.tile(np.arange(10), 30)

    first = deal(ClassImbalance(total=1000), 10, labels)[0]

    assert len(first) == 100
    assert len(np.unique(first)) < 31


@pytest.mark.parametrize("clients", [10, 20, 40, 60])
def test_a_balanced_dirichlet_split_is_bounded(clients: int) -> None:
    """Nobody has more than an equal share and one label's rows; every row is dealt once."""
    parts = deal(Dirichlet(alpha=1.0, balance=True), clients)

    sizes = np.array([len(part) for part in parts])
    everything = np.concatenate(parts)
    assert len(np.unique(everything)) == len(everything) == len(LABELS)
    assert sizes.min() >= 10
    assert sizes.max() < len(LABELS) / clients + 5400
    assert sizes.std() < np.std([len(part) for part in deal(Dirichlet(alpha=1.0), clients)])


def test_an_unbalanced_split_is_what_it_was() -> None:
    """The option changes no draw where it is off."""
    sizes = [len(part) for part in deal(Dirichlet(alpha=0.5), 5)]

    assert sizes == [6525, 13495, 10735, 10752, 12493]
