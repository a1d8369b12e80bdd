"""Stacked matrix products by numpy's OpenBLAS, where it is faster than torch's library.

On x86, torch's products are computed by Intel's Math Kernel Library, which uses only half of the
vector width of other makers' processors; OpenBLAS uses all of it. Products are computed job by job,
so no bit depends on the other jobs.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

WIDE_CORES = frozenset(("SkylakeX", "Cooperlake", "SapphireRapids"))
"""OpenBLAS's names of kernels with 512-bit vectors."""

SMALL = 1_000_000
"""Up to this many multiplications, OpenBLAS uses a product's operands in place, without packing
them.
"""

MOST_PIECES = 8
"""Largest number of small products to split a product into; beyond that, packing is worthwhile."""

FEW, MANY = 16, 64
"""The numbers of rows between which transposing a product is worthwhile: with fewer, it is fast in
any layout; with more, transposing costs more than it gains.
"""

Array = NDArray[Any]


@cache
def openblas() -> str | None:
    """Version and kernels of numpy's OpenBLAS if its products are faster than torch's, else None.

    It depends on the processor and the installation, and is part of the numeric platform. If used,
    OpenBLAS is limited to one thread, like torch.
    """
    mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]  # untyped in torch
    if not mkl or _maker() in ("", "GenuineIntel"):
        return None
    folder = Path(np.__file__).parents[1] / "numpy.libs"
    for library in ThreadpoolController().select(internal_api="openblas").lib_controllers:
        found = library.info()
        if Path(found["filepath"]).parent == folder and found["architecture"] in WIDE_CORES:
            library.set_num_threads(1)
            return f"OpenBLAS {found['version']} {found['architecture']}"
    return None


def _maker() -> str:
    """The processor's vendor as reported by Linux; empty elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":")[1].strip() for line in lines if line.startswith("vendor_id")), "")


def numpy_product(one: Array, two: Array, out: Array) -> None:
    """Each job's product of (jobs, n, m) and (jobs, m, k), written to `out` (jobs, n, k)."""
    fits = FEW < out.shape[1] <= MANY and out.shape[2] > FEW
    if fits and _lies_across(two) and not _lies_across(one):
        # Both operands are contiguous along the summed axis, the slowest case; transposed, it is
        # the fastest.
        turned = np.empty(_transposed(out).shape, out.dtype)
        _multiply(_transposed(two), np.ascontiguousarray(_transposed(one)), turned)
        np.copyto(out, _transposed(turned))
    else:
        _multiply(one, two, out)


def _lies_across(stacked: Array) -> bool:
    """Whether columns, not rows, are contiguous."""
    return stacked.strides[2] > stacked.strides[1]


def _transposed(stacked: Array) -> Array:
    """Each job's matrix transposed, as a view."""
    return stacked.transpose(0, 2, 1)


def _multiply(one: Array, two: Array, out: Array) -> None:
    """The product in equal pieces along the result's longer side that need no packing, if a few
    suffice.
    """
    _, rows, columns = out.shape
    pieces = _pieces(max(rows, columns), rows * one.shape[2] * columns)
    if pieces == 1:
        np.matmul(one, two, out=out)
    elif rows >= columns:
        np.matmul(_cut(one, pieces), two[:, None], out=_cut(out, pieces))
    else:  # the same for the transposed product
        _multiply(_transposed(two), _transposed(one), _transposed(out))


def _cut(stacked: Array, pieces: int) -> Array:
    """A view (jobs, pieces, rows of a piece, columns)."""
    jobs, rows, columns = stacked.shape
    # Splitting an axis never copies, and is ten times as fast as `as_strided`.
    return stacked.reshape(jobs, pieces, rows // pieces, columns)


@cache
def _pieces(length: int, multiplications: int) -> int:
    """How many equal pieces of `length` make small products; 1 if too many would be needed."""
    least = -(-multiplications // SMALL)
    if least > MOST_PIECES:
        return 1
    return next((n for n in range(least, min(2 * least, length + 1)) if length % n == 0), 1)
