"""Products by numpy are those of torch; when they are used is a matter of the machine alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from simfl.learning.kernels import numpy_product, stacked_product
from simfl.learning.kernels.numpy_product import numpy_product as by_numpy
from simfl.learning.kernels.numpy_product import openblas
from simfl.learning.kernels.stacked_product import (
    NUMPY,
    ROUNDED,
    TORCH,
    product,
    subtract_product,
)

SIDES = st.integers(1, 40)


def stacked(jobs: int, rows: int, columns: int, *, across: bool) -> Tensor:
    """Random matrices (jobs, rows, columns) whose rows, or columns if `across`, are contiguous."""
    if across:
        return stacked(jobs, columns, rows, across=False).transpose(1, 2)
    generator = torch.Generator().manual_seed(jobs + 7 * rows + 91 * columns)
    return torch.randn(jobs, rows, columns, dtype=torch.float64, generator=generator)


@example(sides=(3, 30, 20, 40), across=(False, True), small=10**6)  # turned
@example(sides=(3, 30, 20, 40), across=(False, True), small=8000)  # turned, and in pieces
@given(
    sides=st.tuples(SIDES, SIDES, SIDES, SIDES),
    across=st.tuples(st.booleans(), st.booleans()),
    small=st.sampled_from([1, 50, 1000, 10**6]),
)
def test_products_of_all_shapes_and_layouts(sides, across, small):
    """In float64 both agree to 1e-12, whole or in pieces, however the operands lie."""
    jobs, rows, inner, columns = sides
    left = stacked(jobs, rows, inner, across=across[0])
    right = stacked(jobs, inner, columns, across=across[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_product, "SMALL", small)
        numpy_product._pieces.cache_clear()
        found = np.empty((jobs, rows, columns))
        by_numpy(left.numpy(), right.numpy(), found)
    numpy_product._pieces.cache_clear()
    assert np.allclose(found, torch.bmm(left, right), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("length", "multiplications", "expected"),
    [
        (200, 10**6, 1),
        (200, 10**6 + 1, 2),
        (784, 5_017_600, 7),
        (199, 3 * 10**6, 1),
        (6, 10**8, 1),
        (900, 9 * 10**6, 1),
    ],
)
def test_pieces_are_equal_and_small(length, multiplications, expected):
    """As few as keep each within a million multiplications; one where no equal ones do."""
    assert numpy_product._pieces(length, multiplications) == expected


@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (5, 16), (32, 10)])
def test_every_job_s_product_starts_on_a_cache_line(rows, columns):
    """Otherwise a kernel may treat its first and last elements differently from another job's."""
    left, right = stacked(3, rows, 6, across=False), stacked(3, 6, columns, across=False)

    assert product(left, right).stride()[0] % stacked_product.CACHE_LINE == 0


def test_products_are_taken_and_subtracted_by_either_library(products):
    """What both libraries are asked for through `stacked_product`."""
    left, right = stacked(3, 5, 7, across=True), stacked(3, 7, 20, across=True)
    whole = stacked(3, 5, 20, across=False)
    expected = whole - torch.bmm(left, right)

    assert torch.allclose(product(left, right), torch.bmm(left, right))
    subtract_product(whole, left, right)
    assert torch.allclose(whole, expected)


@pytest.mark.parametrize("by", [TORCH, NUMPY, ROUNDED], ids=["torch", "numpy", "rounded"])
def test_every_library_subtracts_from_a_share(by):
    """In place, whatever the memory for the product held before."""
    left, right = stacked(3, 5, 7, across=True), stacked(3, 7, 20, across=True)
    whole, room = stacked(3, 5, 20, across=False), torch.full((3, 5, 20), torch.nan).double()
    expected = 0.75 * whole - torch.bmm(left, right)

    by.subtract(whole, by.operand(left), by.operand(right), lambda: room, 0.75)

    # torch's needs no memory beside the weights, which on an accelerator are large
    assert room.isnan().all() == (by is TORCH)
    close = 0.1 if by is ROUNDED else 1e-12  # bfloat16 has 8 bits
    assert torch.allclose(whole, expected, rtol=0, atol=close)


def machine(monkeypatch, *, maker="AuthenticAMD", core="SkylakeX", folder=None, mkl=True):
    """A machine of this kind; its OpenBLAS, which counts its threads."""
    folder = folder or Path(np.__file__).parents[1] / "numpy.libs"
    facts = {"filepath": str(folder / "blas.so"), "architecture": core, "version": "0.3.31"}
    library = SimpleNamespace(info=lambda: facts, threads=2)
    library.set_num_threads = lambda count: setattr(library, "threads", count)
    found = SimpleNamespace(select=lambda **_: SimpleNamespace(lib_controllers=[library]))
    monkeypatch.setattr(numpy_product, "ThreadpoolController", lambda: found)
    monkeypatch.setattr(numpy_product, "_maker", lambda: maker)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: mkl)
    return library


def test_wide_vectors_of_another_maker_are_openblas_s(monkeypatch):
    """There numpy's OpenBLAS multiplies, with one thread."""
    library = machine(monkeypatch)
    assert openblas.__wrapped__() == "OpenBLAS 0.3.31 SkylakeX"
    assert library.threads == 1


@pytest.mark.parametrize(
    "other",
    [
        {"maker": "GenuineIntel"},
        {"maker": ""},
        {"core": "Haswell"},
        {"folder": Path("/elsewhere")},
        {"mkl": False},
    ],
    ids=str,
)
def test_everywhere_else_torch_multiplies(monkeypatch, other):
    """On Intel's processors, unknown ones, narrow ones, and without numpy's own OpenBLAS or MKL."""
    library = machine(monkeypatch, **other)
    assert openblas.__wrapped__() is None
    assert library.threads == 2


def test_an_accelerator_multiplies_itself(monkeypatch):
    """Tensors that are not the CPU's never go to numpy."""
    monkeypatch.setattr(stacked_product, "openblas", lambda: "OpenBLAS")
    found = product(torch.empty(2, 3, 4, device="meta"), torch.empty(2, 4, 5, device="meta"))
    assert (found.device.type, found.shape) == ("meta", (2, 3, 5))
