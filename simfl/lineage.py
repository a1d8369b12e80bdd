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

_VERSIONED = ("simfl", "torch", "torchvision", "builtins", "abc", "typing", "collections")


def numeric_platform(network: Network) -> dict[str, Any]:
    """What bits depend on beside the scenario: results are identical where all of this is."""
    return {
        "torch": torch.__version__,
        "torchvision": version("torchvision"),
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
    content = resolved.portable()
    data = {key: value for key, value in content["data"].items() if key != "root"}
    return make_key(
        version("simfl"),
        resolved.seed,
        sorted(platform.items()),
        sorted(data.items(), key=str),
        sorted(content["model"].items(), key=str),
        repr(algorithm),
        content["algorithm"]["non_finite"],
        [_source_of(part) for part in (algorithm, model)],
        shards_digest,
    )


def _source_of(part: Any) -> str:
    """The source text of a part of the user's own, and of the classes that it is derived from.

    What is shipped goes by its version.
    """
    owner = part if inspect.isclass(part) else getattr(part, "func", type(part))
    texts = {}
    for one in owner.__mro__:
        if one.__module__.partition(".")[0] not in _VERSIONED and one.__module__ not in texts:
            texts[one.__module__] = inspect.getsource(inspect.getmodule(one) or one)
    return "\n".join(texts.values())
