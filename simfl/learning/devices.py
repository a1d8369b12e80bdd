"""Compute devices: the CPU, or an accelerator with its own memory.

On an accelerator, the kernel of a batched product or convolution may be chosen by the number of
jobs. So cohorts there are padded to sizes that follow from the model, the shape and the device's
total memory (`cohort_size.py`). The free memory is never used for this, because results would
depend on who else uses the device.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from simfl.learning.kernels.precision import Precision, rounding

PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bfloat16")

CUBLAS_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
"""Without this setting, cuBLAS may choose a different order of additions in each call."""

_SECONDS_TO_ASK = 20.0

_NO_DETERMINISTIC = ".*does not have a deterministic implementation.*"


class ComputeDevice:
    """A compute device, and what differs on accelerators.

    `total_bytes` is an accelerator's total memory (or a `part` of it), including what others use;
    None if memory does not limit cohorts. `precisions` are those it supports for float32 runs.
    """

    kind = "cpu"
    total_bytes: int | None = None
    precisions: tuple[Precision, ...] = ("float32",)

    def __init__(self, torch_device: torch.device | str = "cpu") -> None:
        self.torch = torch.device(torch_device)

    @property
    def accelerates(self) -> bool:
        """Whether cohorts are padded, and data have to be copied to the device."""
        return self.total_bytes is not None

    def part(self, share: float) -> ComputeDevice:
        """The device with this share of its memory, for one of several processes that use it."""
        if self.total_bytes is None or share == 1.0:
            return self
        own = copy(self)
        own.total_bytes = int(share * self.total_bytes)
        return own

    def platform(self) -> dict[str, Any]:
        """What the last bits of results depend on, apart from the kind of device."""
        return {}

    def described(self) -> dict[str, Any]:
        """A description for people, for the manifest."""
        return {}

    def claim(self, needed_bytes: float) -> None:
        """Called before a cohort is computed, with an estimate of the bytes it needs.

        May raise `torch.OutOfMemoryError`; so may the computation itself.
        """

    def recover(self) -> None:
        """Release unused memory after a `torch.OutOfMemoryError`."""

    def synchronize(self) -> None:
        """Wait until all submitted work is done."""

    def moved(self, tensor: Tensor) -> Tensor:
        """A copy of a tensor of the host on the device."""
        return tensor.to(self.torch)

    def taken(self, source: Tensor, rows: Tensor) -> Tensor:
        """These rows of a tensor, on the device; `rows` is where the tensor is."""
        return source.index_select(0, rows)

    def computing(self, precision: Precision) -> AbstractContextManager[None]:
        """Within the block, float32 runs are computed in this precision, reproducibly."""
        return rounding() if precision == "bfloat16" else nullcontext()


CPU = ComputeDevice()


class CudaDevice(ComputeDevice):
    """An NVIDIA GPU."""

    kind = "cuda"
    precisions = PRECISIONS
    # Of the class, since the settings that it reflects are those of the process.
    _within: ClassVar[Precision | None] = None

    def __init__(self, torch_device: torch.device | str) -> None:
        # cuBLAS reads it at its first call, which a new process has not made yet.
        os.environ.setdefault(CUBLAS_WORKSPACE, ":4096:8")
        super().__init__(torch_device)
        if str(self.torch) == self.kind:
            self.torch = torch.device(self.kind, torch.cuda.current_device())
        self._properties = torch.cuda.get_device_properties(self.torch)
        self.total_bytes = int(self._properties.total_memory)

    def __reduce__(self) -> tuple[Any, ...]:
        return CudaDevice, (str(self.torch),)

    def platform(self) -> dict[str, Any]:
        """The GPU's model and the libraries that compute on it."""
        return {
            "gpu": f"{self._properties.name} {self._properties.major}.{self._properties.minor}",
            "cuda": torch.version.cuda,
            "cudnn": _cudnn_version(),
            "cublas_workspace": os.environ.get(CUBLAS_WORKSPACE),
        }

    def described(self) -> dict[str, Any]:
        """The GPU, its memory, driver and CUDA version."""
        return {
            "gpu": self._properties.name,
            "memory_bytes": self.total_bytes,
            "compute_capability": f"{self._properties.major}.{self._properties.minor}",
            "driver": driver_version(),
            "cuda": torch.version.cuda,
            "cudnn": _cudnn_version(),
        }

    def recover(self) -> None:
        """Return cached memory to the driver."""
        torch.cuda.empty_cache()

    def synchronize(self) -> None:
        """Wait for all streams of the GPU."""
        torch.cuda.synchronize(self.torch)

    def taken(self, source: Tensor, rows: Tensor) -> Tensor:
        """Copies through pinned memory, which the GPU reads while the CPU continues.

        torch does not reuse a pinned block until the copies from it are done.
        """
        if source.device == self.torch:
            return source.index_select(0, rows)
        shape = (len(rows), *source.shape[1:])
        pinned = torch.empty(shape, dtype=source.dtype, pin_memory=True)
        torch.index_select(source, 0, rows, out=pinned)
        return pinned.to(self.torch, non_blocking=True)

    @contextmanager
    def computing(self, precision: Precision) -> Iterator[None]:
        """Within the block, TF32 only if requested, and deterministic algorithms.

        Operations without a deterministic algorithm are computed nevertheless; `padded_cohorts.py`
        tests whether the bits of a job depend on the other jobs.
        """
        if self._within == precision:
            yield
            return
        filling: Any = torch.utils.deterministic
        before = (
            torch.get_deterministic_debug_mode(),
            torch.backends.cudnn.benchmark,
            filling.fill_uninitialized_memory,
        )
        torch.set_deterministic_debug_mode("warn")  # the other function imports a compiler
        torch.backends.cudnn.benchmark = False
        # Nothing here reads uninitialised memory.
        filling.fill_uninitialized_memory = False
        tensor_cores = set_tf32(precision == "tf32")
        outside, CudaDevice._within = CudaDevice._within, precision
        try:
            with warnings.catch_warnings(), super().computing(precision):
                warnings.filterwarnings("ignore", _NO_DETERMINISTIC)
                yield
        finally:
            CudaDevice._within = outside
            set_tf32(tensor_cores)
            torch.set_deterministic_debug_mode(before[0])
            torch.backends.cudnn.benchmark = before[1]
            filling.fill_uninitialized_memory = before[2]


def _tf32_switches() -> Sequence[tuple[Any, str]]:
    """The objects and attributes that switch TF32.

    Since version 2.9, torch has one for each kind of operation, and warns about the older ones."""
    cudnn: Any = torch.backends.cudnn
    if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        each = (torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn)
        return [(one, "fp32_precision") for one in each]
    return [(one, "allow_tf32") for one in (torch.backends.cuda.matmul, cudnn)]


def set_tf32(wanted: bool | Sequence[Any]) -> list[Any]:
    """Turn TF32 on or off, or restore the settings that an earlier call returned."""
    switches = _tf32_switches()
    before = [getattr(switch, name) for switch, name in switches]
    if isinstance(wanted, bool):
        words = {"fp32_precision": ("ieee", "tf32"), "allow_tf32": (False, True)}
        wanted = [words[name][wanted] for _, name in switches]
    for (switch, name), value in zip(switches, wanted, strict=True):
        setattr(switch, name, value)
    return before


def _cudnn_version() -> int | None:
    found: int | None = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    return found


@cache
def driver_version() -> str:
    """The version of NVIDIA's driver; "unknown" if it cannot be found."""
    if (program := shutil.which("nvidia-smi")) is None:
        return "unknown"
    asked = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(
            asked, capture_output=True, text=True, timeout=_SECONDS_TO_ASK, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return next(iter(said.stdout.split()), "unknown")


def found_device(name: str) -> ComputeDevice:
    """The device with this name: auto, cpu, cuda or cuda:N; raises ValueError for others."""
    if name == "cpu":
        return CPU
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return CudaDevice("cuda") if count else CPU
    if count and name == "cuda":
        return CudaDevice("cuda")
    numbered = [f"cuda:{number}" for number in range(count)]
    if name in numbered:
        return CudaDevice(name)
    kind, _, number = name.partition(":")
    accepted = ", ".join(["auto", "cpu", *(["cuda", *numbered] if count else [])])
    if kind == "cuda" and (not number or number.isdecimal()):
        made = [f"{one} ({torch.cuda.get_device_name(one)})" for one in numbered]
        seen = f"only {', '.join(made)}" if made else "no CUDA device"
        raise ValueError(f"found '{name}', but torch sees {seen} here; accepted: {accepted}")
    raise ValueError(f"found '{name}', accepted: auto, cpu, cuda, cuda:N (here: {accepted})")


def device_of(given: ComputeDevice | torch.device | str) -> ComputeDevice:
    """A device from torch's device or name; a `ComputeDevice` is returned as it is."""
    if isinstance(given, ComputeDevice):
        return given
    where = torch.device(given)
    return CudaDevice(where) if where.type == "cuda" else _plain(where)


@cache
def _plain(where: torch.device) -> ComputeDevice:
    return CPU if where == CPU.torch else ComputeDevice(where)
