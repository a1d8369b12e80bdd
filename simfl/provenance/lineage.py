"""The inputs of learned values: the numeric platform, and the root of all keys of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.metadata import version
from typing import Any

import torch

from simfl.algorithms.base import Algorithm
from simfl.common.own_code import source_of
from simfl.common.own_version import own_version
from simfl.learning.codecs.messages import Coding
from simfl.learning.cohort_size import cohort_jobs, evaluation_rows
from simfl.learning.kernels.numpy_product import openblas
from simfl.learning.models.base import Model
from simfl.learning.network import Network
from simfl.learning.padded_cohorts import Shape
from simfl.learning.sums import SUMS
from simfl.provenance.journal import make_key
from simfl.scenario.scenario import Scenario


def numeric_platform(network: Network, shapes: Collection[Shape] = ()) -> dict[str, Any]:
    """What bits depend on in addition to the scenario: if all of it is equal, results are
    identical.

    `shapes` are those of the training steps, which determine the sizes of cohorts on an
    accelerator.
    """
    on, on_cpu = network.on, network.on.kind == "cpu"
    platform = {
        "torch": torch.__version__,
        "torchvision": version("torchvision"),
        "dtype": str(network.dtype).removeprefix("torch."),
        "device": on.kind,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "kernel_family": network.kernel_family,
        "sums": SUMS,
        "products": (on_cpu and openblas()) or "torch",
        "threads": torch.get_num_threads(),
    }
    if on.accelerates or network.precision != "float32":
        platform["precision"] = network.precision
    if on.accelerates:
        platform |= on.platform()
        platform["evaluation_rows"] = evaluation_rows(network)
    if on.accelerates and network.kernel_family == "stacked":
        # By rows of a step: two devices with about the same memory are one platform.
        sizes = {str(shape[0]): cohort_jobs(network, *shape) for shape in sorted(shapes)}
        platform["cohort_jobs"] = ", ".join(f"{rows}: {jobs}" for rows, jobs in sizes.items())
    return platform


def with_workers(here: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, Any]:
    """The numeric platform of a run that trains on another platform, `there`, than `here`."""
    other = {name: value for name, value in there.items() if here.get(name) != value}
    return {**here, "workers": other} if other else dict(here)


def workers_platform(platform: Mapping[str, Any]) -> dict[str, Any]:
    """The numeric platform of the workers, from a run's."""
    here = {name: value for name, value in platform.items() if name not in ("trainer", "workers")}
    return {**here, **platform.get("workers", {})}


def root_key(
    resolved: Scenario,
    algorithm: Algorithm,
    model: Any,
    shards_digest: str,
    platform: Mapping[str, Any],
    coding: Coding | None = None,
) -> str:
    """The root of the keys of all learned values of a run: everything they depend on, and nothing
    else.

    Codecs count if they change values; the sizes of their messages do not.
    """
    content = resolved.portable()
    data = {key: value for key, value in content["data"].items() if key != "root"}
    codecs = [coding.uplink, coding.downlink] if coding is not None and coding.acts else []
    return make_key(
        own_version(),
        resolved.seed,
        sorted(platform.items()),
        sorted(data.items(), key=str),
        sorted(content["model"].items(), key=str),
        repr(algorithm),
        content["algorithm"].get("non_finite"),
        [source_of(part) for part in (algorithm, model)],
        shards_digest,
        *[(repr(one), None if one is None else source_of(one)) for one in codecs],
        *([model.content()] if isinstance(model, Model) and model.content() else []),
    )
