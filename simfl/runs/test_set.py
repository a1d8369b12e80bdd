"""Warnings of test sets that are no fair test, known before the run (docs/warnings.md)."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from simfl.assembly.simulation import Simulation
from simfl.common.arrays import FloatArray
from simfl.common.notices import Notice, notice

MOST_SAMPLED = 500
"""So many test examples are looked at, evenly chosen; for spreads as many of all clients."""

FACTOR = 10.0
"""The ratio of the spreads of training and test inputs from which on they are called unlike."""

MOST_KNOWN = 0.5
"""The share of test examples that are training examples, from which on it is said."""


def unlike_test_inputs(simulation: Simulation) -> list[Notice]:
    """Test inputs on another scale than training inputs, as if one of them were not normalised."""
    if not _has_real_inputs(simulation):
        return []
    partitioned = simulation.partitioned
    each = max(MOST_SAMPLED // len(partitioned.clients), 1)
    clients = [_rows(one.inputs, each) for one in partitioned.clients if len(one)]
    trained = float(np.concatenate(clients).std(dtype=float)) if clients else 0.0
    tested = float(_rows(partitioned.data.test.inputs, MOST_SAMPLED).std(dtype=float))
    if not 0.0 < FACTOR * min(trained, tested) < max(trained, tested):
        return []
    message = (
        f"the standard deviation of the training inputs is {trained:.3g}, that of the test inputs"
        f" {tested:.3g}"
    )
    return [notice("unlike_test_inputs", message)]


def tested_on_training_data(simulation: Simulation) -> list[Notice]:
    """Test examples whose inputs are those of training examples."""
    if not _has_real_inputs(simulation):
        return []
    tested = _rows(simulation.partitioned.data.test.inputs, MOST_SAMPLED)
    sums, known = tested.sum(axis=1, dtype=float), set[bytes]()
    for one in simulation.partitioned.clients:
        rows = _rows(one.inputs)
        # Equal rows have equal sums, so few rows are compared as a whole.
        known.update(row.tobytes() for row in rows[np.isin(rows.sum(axis=1, dtype=float), sums)])
    share = sum(row.tobytes() in known for row in tested) / len(tested)
    if share < MOST_KNOWN:
        return []
    message = f"{100 * share:.0f} % of the test examples have the inputs of training examples"
    return [notice("tested_on_training_data", message)]


def _has_real_inputs(simulation: Simulation) -> bool:
    """Whether something is learned from, and tested on, inputs that are not tokens."""
    test = simulation.partitioned.data.test.inputs
    return simulation.algorithm.learns and len(test) > 0 and test.is_floating_point()


def _rows(inputs: Tensor, most: int | None = None) -> FloatArray:
    """Inputs as (rows, values); at most so many rows, evenly chosen."""
    step = 1 if most is None else max(-(-len(inputs) // most), 1)
    rows: FloatArray = inputs[::step].flatten(1).cpu().numpy()
    return rows
