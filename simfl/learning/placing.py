"""Places examples on the compute device if they fit, and otherwise copies them on demand.

Their place does not affect results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from simfl.learning.cohort_size import DATA_SHARE
from simfl.learning.datasets.base import Examples
from simfl.learning.devices import CPU
from simfl.learning.network import Network


def placed_shards(shards: Sequence[Examples], network: Network) -> list[Examples]:
    """Clients' data for training.

    For an accelerator they become parts of one tensor, in its memory or on the host: a cohort then
    gathers its rows from that tensor, without copying its clients' data.
    """
    on = network.on
    cast = [one.placed(network.dtype, CPU.torch if on.accelerates else on.torch) for one in shards]
    if not on.accelerates or not cast:
        return cast
    inputs = torch.cat([one.inputs for one in cast])
    if _fit(cast, network):
        inputs = on.moved(inputs)
    targets = on.moved(torch.cat([one.targets for one in cast]))
    sizes = [len(one) for one in cast]
    parts = zip(torch.split(inputs, sizes), torch.split(targets, sizes), strict=True)
    return [Examples(*part) for part in parts]


def placed_sets(sets: Mapping[str, Examples], network: Network) -> dict[str, Examples]:
    """Sets to evaluate models on; those already in place are returned as they are."""
    on = network.on
    if not on.accelerates:
        return {name: one.placed(network.dtype, on.torch) for name, one in sets.items()}
    there = _fit(list(sets.values()), network)
    return {
        name: one.placed(network.dtype, on.torch)
        if there
        else Examples(
            one.placed(network.dtype, one.inputs.device).inputs,
            on.moved(one.placed(network.dtype, CPU.torch).targets),
        )
        for name, one in sets.items()
    }


def _fit(sets: Sequence[Examples], network: Network) -> bool:
    """Whether they all fit in the memory of the device."""
    total_bytes = network.on.total_bytes
    assert total_bytes is not None
    needed = sum(one.inputs.numel() * _width(one, network) for one in sets)
    return needed <= DATA_SHARE * total_bytes


def _width(one: Examples, network: Network) -> int:
    """Bytes per value after the cast; integers are not cast."""
    return network.dtype.itemsize if one.inputs.is_floating_point() else one.inputs.itemsize
