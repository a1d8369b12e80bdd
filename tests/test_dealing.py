"""The data of a scenario, as its clients and its server hold them."""

from __future__ import annotations

import pytest

from simfl.assembly import assemble
from tests.small import small

TRAINING_ROWS = 1797 - 359  # digits, a fifth of which is the test set


def test_validation_share_stays_with_the_server() -> None:
    """The server keeps the share asked for, the clients have the rest, and no row is in both."""
    scenario = small(data={"name": "digits", "validation_share": 0.25, "partition": "iid"})

    shards = assemble(scenario).shards

    assert shards.validation is not None
    assert len(shards.validation) == pytest.approx(0.25 * TRAINING_ROWS, abs=1)
    assert sum(len(one) for one in shards.clients) == TRAINING_ROWS - len(shards.validation)


def test_label_counts_are_those_of_the_shards() -> None:
    """A client's label counts and size describe the examples that it holds."""
    shards = assemble(small()).shards

    for client, examples in enumerate(shards.clients):
        assert shards.num_examples[client] == len(examples)
        assert (
            shards.label_counts[client].tolist() == examples.targets.bincount(minlength=10).tolist()
        )
