"""Memory use on accelerators, and the padded size of cohorts there.

All of it follows from the model, the shape of a step and the device's whole memory, so that a
cohort is the same however many clients are in flight, and whoever else uses the device.
"""

from __future__ import annotations

from simfl.learning.network import Network

COHORT_SHARE = 1 / 2
DATA_SHARE = 1 / 8
"""Of the device's memory, for a cohort; for clients' data, and again for what is evaluated. What is
left is for models and updates that wait, and for what libraries take."""

EVALUATION_SHARE = 1 / 8
"""For one pass of an evaluation."""

COPIES = 4
"""Of each job's model that a cohort holds beside what training takes: where it started, the change
of a step, and what it came to, stacked and singly."""

INPUTS_HELD = 2
"""Times that a step's inputs are there: those of this step, and those that come next."""

LARGEST_COHORT = 256
SMALLEST_COHORT = 2
"""Jobs. One alone would go to other kernels than several."""

ENOUGH_FLOPS = 2.0**31
"""Floating-point operations of one layer in one step of all jobs, forth and back, that keep a GPU
busy for as long as it takes to start the layer's kernels: more jobs would gain little, and fewer
clients in flight than jobs pay for all of them. Measured on an H100 in float32, where some fifteen
kernels a layer start in 10 microseconds each (docs/scaling.md)."""

FEWEST_ROWS, MOST_ROWS = 1024, 1 << 16
"""Examples in one pass of an evaluation."""

FLOAT32_BYTES = 4


def job_bytes(network: Network, rows: int, states: int) -> float:
    """What one job of a cohort takes of the memory, with steps of so many rows."""
    memory, wide = network.memory, network.dtype.itemsize / FLOAT32_BYTES
    inputs = INPUTS_HELD * FLOAT32_BYTES * network.example_values * rows
    training = float(memory.needed_bytes(rows, states))
    windows = FLOAT32_BYTES * _window_values(network) * rows
    return wide * (COPIES * memory.model_bytes + training + inputs + windows)


def _window_values(network: Network) -> int:
    """Of one example, what a step holds at most: the windows of all convolutions, which wait for
    the backward pass, and those of one convolution's gradient."""
    layers = () if network.stacked is None else network.stacked.convolutions
    most = max((layer.gradient_values for layer in layers), default=0)
    return most + sum(layer.window_values for layer in layers)


def cohort_jobs(network: Network, rows: int, states: int) -> int:
    """To how many jobs cohorts with steps of so many rows are padded: a power of two."""
    total_bytes = network.on.total_bytes
    assert total_bytes is not None
    fit = int(COHORT_SHARE * total_bytes / job_bytes(network, rows, states))
    flops = 3 * network.forward_flops * rows  # a backward pass costs two
    enough = ENOUGH_FLOPS * (1 if network.stacked is None else network.stacked.calls)
    busy = LARGEST_COHORT if flops <= 0 else enough / flops
    jobs = SMALLEST_COHORT
    while 2 * jobs <= min(fit, LARGEST_COHORT) and jobs < busy:
        jobs *= 2
    return jobs


def evaluation_rows(network: Network) -> int:
    """Examples in one pass of an evaluation: as many as fit, a power of two."""
    total_bytes = network.on.total_bytes
    assert total_bytes is not None
    wide = network.dtype.itemsize / FLOAT32_BYTES
    # What a backward pass would need is more than an evaluation holds at any moment.
    per_row = wide * (network.memory.example_bytes + FLOAT32_BYTES * network.example_values)
    rows = FEWEST_ROWS
    while 2 * rows * per_row <= EVALUATION_SHARE * total_bytes and 2 * rows <= MOST_ROWS:
        rows *= 2
    return rows
