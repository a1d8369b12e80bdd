"""What learned values depend on: the numeric platform, and the key under all keys of a run."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import torch

from simfl.algorithms.base import Algorithm
from simfl.journal import make_key
from simfl.learning.network import Network
from simfl.scenario import Scenario


def numeric_platform(network: Network) -> dict[str, Any]:
    """What bits depend on beside the scenario: results are identical where all of this is."""
    return {
        "torch": torch.__version__,
        "dtype": str(network.dtype).removeprefix("torch."),
        "device": network.device.type,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "kernel_family": network.kernel_family,
        "threads": torch.get_num_threads(),
    }


def root_key(
    resolved: Scenario,
    algorithm: Algorithm,
    model: Any,
    shards_digest: str,
    platform: Mapping[str, Any],
) -> str:
    """The key under every learned value of a run: all that they depend on, and nothing else."""
    content = resolved.as_mapping()
    data = {key: value for key, value in content["data"].items() if key != "root"}
    return make_key(
        version("simfl"),
        resolved.seed,
        sorted(platform.items()),
        sorted(data.items(), key=str),
        sorted(content["model"].items(), key=str),
        repr(algorithm),
        [_source_of(part) for part in (algorithm, model)],
        shards_digest,
    )


def _source_of(part: Any) -> str:
    """The source text of a part in a user's own file; what is shipped goes by simfl's version."""
    owner = part if inspect.isclass(part) else getattr(part, "func", type(part))
    if owner.__module__.startswith("simfl."):
        return ""
    return inspect.getsource(inspect.getmodule(owner) or owner)
