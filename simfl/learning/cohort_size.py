"""Memory use on accelerators, and the padded size of cohorts there.

Everything follows from the model, the shape of a step and the device's total memory, so that a
cohort does not depend on how many clients are in flight or who else uses the device.
"""

from __future__ import annotations

from simfl.learning.network import Network

COHORT_SHARE = 1 / 2
DATA_SHARE = 1 / 8
"""Shares of the device's memory: for a cohort, and for clients' data (as much again for evaluated
data). The rest is for models and updates that wait, and for libraries.
"""

EVALUATION_SHARE = 1 / 8
"""The share for one pass of an evaluation."""

COPIES = 4
"""Copies of each job's model in a cohort besides those that training needs: its start, the change
in a step, and its result, stacked and separate.
"""

INPUTS_HELD = 2
"""Copies of a step's inputs: those of this step and of the next."""

LARGEST_COHORT = 256
SMALLEST_COHORT = 2
"""Numbers of jobs. A single job would be computed by other kernels than several."""

ENOUGH_FLOPS = 2.0**31
"""Floating-point operations of one layer in one step of all jobs, forward and backward, that keep a
GPU busy for as long as it takes to launch the layer's kernels. With more jobs, little would be
gained, and a run with fewer clients in flight than jobs would pay for all of them. Measured on an
H100 in float32, where some fifteen kernels per layer take 10 microseconds each to launch
(docs/scaling.md).
"""

FEWEST_ROWS, MOST_ROWS = 1024, 1 << 16
"""Bounds on the examples in one pass of an evaluation."""

FLOAT32_BYTES = 4


def job_bytes(network: Network, rows: int, states: int) -> float:
    """The memory of one job in a cohort, with `rows` examples per step."""
    memory, wide = network.memory, network.dtype.itemsize / FLOAT32_BYTES
    inputs = INPUTS_HELD * FLOAT32_BYTES * network.example_values * rows
    training = float(memory.needed_bytes(rows, states))
    windows = FLOAT32_BYTES * _window_values(network) * rows
    return wide * (COPIES * memory.model_bytes + training + inputs + windows)


def _window_values(network: Network) -> int:
    """The most values that a step holds per example.

    They are the windows of all convolutions, kept for the backward pass, and those of one
    convolution's gradient."""
    layers = () if network.stacked is None else network.stacked.convolutions
    most = max((layer.gradient_values for layer in layers), default=0)
    return most + sum(layer.window_values for layer in layers)


def cohort_jobs(network: Network, rows: int, states: int) -> int:
    """The size, a power of two, of padded cohorts with `rows` examples per step."""
    total_bytes = network.on.total_bytes
    assert total_bytes is not None
    fit = int(COHORT_SHARE * total_bytes / job_bytes(network, rows, states))
    flops = 3 * network.forward_flops * rows  # a backward pass costs two forward passes
    enough = ENOUGH_FLOPS * (1 if network.stacked is None else network.stacked.calls)
    busy = LARGEST_COHORT if flops <= 0 else enough / flops
    jobs = SMALLEST_COHORT
    while 2 * jobs <= min(fit, LARGEST_COHORT) and jobs < busy:
        jobs *= 2
    return jobs


def evaluation_rows(network: Network) -> int:
    """The largest power of two of examples that fits in one pass of an evaluation."""
    total_bytes = network.on.total_bytes
    assert total_bytes is not None
    wide = network.dtype.itemsize / FLOAT32_BYTES
    # An upper bound: an evaluation needs less than a backward pass.
    per_row = wide * (network.memory.example_bytes + FLOAT32_BYTES * network.example_values)
    rows = FEWEST_ROWS
    while 2 * rows * per_row <= EVALUATION_SHARE * total_bytes and 2 * rows <= MOST_ROWS:
        rows *= 2
    return rows
