"""Shared functions of algorithms that weight clients by a loss reported with their updates.

The client measures the mean loss of the model it receives on its whole data, before it trains, and
sends it as one more number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.learning.job import LocalTraining, Price, Recipe, Update
from simfl.learning.network import Network
from simfl.learning.parameters import BYTES_PER_VALUE


def measured_recipe(network: Network, local: LocalTraining) -> Recipe:
    """Trains every trainable parameter, and measures the loss before."""
    return Recipe(local, trainable=network.trainable_names, measure=frozenset({"loss_before"}))


def measured_price(network: Network, figures: int = 1) -> Price:
    """The model in each direction, and `figures` numbers on the uplink."""
    size = network.size_bytes
    return Price(down_bytes=size, up_bytes=size + figures * BYTES_PER_VALUE)


def losses_before(updates: Sequence[Update]) -> FloatArray:
    """L_s(theta) of each update's client, shape (updates,)."""
    return np.array([update.measures["loss_before"] for update in updates])


def loss_report(updates: Sequence[Update], **per_client: FloatArray) -> dict[str, Any]:
    """`value` is the largest loss; per client its loss, and `per_client`, (updates,) each."""
    losses = losses_before(updates)
    return {
        "value": float(losses.max()),
        "clients": [update.client for update in updates],
        "losses": losses.tolist(),
        **{name: values.tolist() for name, values in per_client.items()},
    }
