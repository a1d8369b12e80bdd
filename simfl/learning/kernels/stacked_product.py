"""Matrix products of many jobs whose bits do not depend on a job's place in the stack.

A batched product computes every job's matrices with the same kernel, but that kernel treats the
first and last elements of a row according to their address: a job whose matrices are aligned
differently may differ in the last bit. Here every job's matrices, operands and result, forward and
backward, start on a cache line. On some processors numpy computes the products
(`numpy_product.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from simfl.learning.kernels.numpy_product import numpy_product, openblas
from simfl.learning.kernels.precision import rounds

CACHE_LINE = 16
"""Elements per cache line: 64 bytes of float32 (two lines of float64)."""

LINE_BYTES = 64


def stacked_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Each job's `inputs @ weight.T + bias`.

    inputs: (jobs, rows, features); weight: (jobs, outputs, features); bias: (jobs, outputs).
    Returns (jobs, rows, outputs). Not differentiable twice.
    """
    product: Tensor = _StackedProduct.apply(inputs, weight)  # type: ignore[no-untyped-call]
    return product if bias is None else product + bias.unsqueeze(1)


class _StackedProduct(torch.autograd.Function):
    """inputs (jobs, rows, features) times the transpose of weight (jobs, outputs, features)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor) -> Tensor:
        inputs, weight = aligned(inputs), aligned(weight)
        ctx.save_for_backward(inputs, weight)
        return product(inputs, weight.transpose(1, 2))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        inputs, weight = ctx.saved_tensors
        gradient = aligned(gradient)
        to_inputs, to_weight = ctx.needs_input_grad
        return (
            product(gradient, weight) if to_inputs else None,
            product(gradient.transpose(1, 2), inputs) if to_weight else None,
        )


def stacked_product(left: Tensor, right: Tensor) -> Tensor:
    """Each matrix product of (stack, n, m) and (stack, m, k). Not differentiable twice."""
    product: Tensor = _EachProduct.apply(left, right)  # type: ignore[no-untyped-call]
    return product


class _EachProduct(torch.autograd.Function):
    """left (stack, n, m) times right (stack, m, k)."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        left, right = aligned(left), aligned(right)
        ctx.save_for_backward(left, right)
        return product(left, right)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        left, right = ctx.saved_tensors
        gradient = aligned(gradient)
        to_left, to_right = ctx.needs_input_grad
        return (
            product(gradient, right.transpose(1, 2)) if to_left else None,
            product(left.transpose(1, 2), gradient) if to_right else None,
        )


def by_numpy(device: torch.device) -> bool:
    """Whether numpy computes products on this device, because it is faster than torch."""
    return openblas() is not None and device.type == "cpu"


Room = Callable[[], Tensor]
"""Allocates memory for a product (jobs, n, k), each job's matrix on a cache line."""


class Library:
    """A library for products: here torch.

    `operand` returns a tensor as the library takes it, a view whose `mT` is its transpose.
    """

    def operand(self, tensor: Tensor) -> Any:
        """A tensor as `into` and `subtract` take it."""
        return tensor

    def quiet(self) -> AbstractContextManager[Any]:
        """Within the block, infinities cause no warnings: the trainer detects divergence."""
        return nullcontext()

    def into(self, left: Any, right: Any, out: Any) -> None:
        """Each job's product of (jobs, n, m) and (jobs, m, k), written to `out` (jobs, n, k)."""
        torch.bmm(left, right, out=out)

    def subtract(self, stacked: Tensor, left: Any, right: Any, room: Room, share: float) -> None:
        """`share` times each job's matrix minus a product, in place; `room` allocates memory for
        the product if needed.
        """
        stacked.baddbmm_(left, right, beta=share, alpha=-1)


class _Apart(Library):
    """A library that only computes products."""

    def subtract(self, stacked: Tensor, left: Any, right: Any, room: Room, share: float) -> None:
        if share != 1.0:
            stacked.mul_(share)
        product = room()
        self.into(left, right, self.operand(product))
        stacked.sub_(product)


class _Rounded(_Apart):
    """torch's products of operands that are rounded to bfloat16."""

    def into(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        out.copy_(torch.bmm(left.bfloat16(), right.bfloat16()))


class _Numpy(_Apart):
    """numpy's products, on a CPU."""

    def operand(self, tensor: Tensor) -> Any:
        return tensor.detach().numpy()

    def quiet(self) -> AbstractContextManager[Any]:
        return np.errstate(all="ignore")

    def into(self, left: Any, right: Any, out: Any) -> None:
        numpy_product(left, right, out)


TORCH, ROUNDED, NUMPY = Library(), _Rounded(), _Numpy()


def library(tensor: Tensor) -> Library:
    """The library for products of such tensors."""
    if rounds(tensor):
        return ROUNDED
    return NUMPY if by_numpy(tensor.device) else TORCH


def product(left: Tensor, right: Tensor) -> Tensor:
    """Each job's matrix product of aligned operands: (jobs, n, m) and (jobs, m, k)."""
    by = library(left)
    out = aligned_empty(left, left.shape[0], left.shape[1], right.shape[2])
    with by.quiet():
        by.into(by.operand(left), by.operand(right), by.operand(out))
    return out


def subtract_product(stacked: Tensor, left: Tensor, right: Tensor) -> None:
    """Subtract `product(left, right)` from each job's matrix (jobs, n, k), in place."""
    by = library(left)
    room = partial(aligned_empty, stacked, *stacked.shape)
    with by.quiet():
        by.subtract(stacked, by.operand(left), by.operand(right), room, 1.0)


def aligned(stacked: Tensor) -> Tensor:
    """The same values, with each job's matrix or its transpose contiguous and on a cache line.

    A single matrix shared by all jobs (`stack` with `share`) stays one.
    """
    _, rows, columns = stacked.shape
    size, (job, row, column) = rows * columns, stacked.stride()
    whole = (row, column) in ((columns, 1), (1, rows))
    if whole and job >= size and job % CACHE_LINE == 0:
        return stacked
    if whole and job == 0 and stacked.data_ptr() % LINE_BYTES == 0:
        return stacked
    if size % CACHE_LINE == 0:
        return stacked.contiguous()
    return aligned_empty(stacked, *stacked.shape).copy_(stacked)


def aligned_empty(like: Tensor, jobs: int, rows: int, columns: int) -> Tensor:
    """Memory for (jobs, rows, columns), with each job's matrix contiguous and on a cache line."""
    size = rows * columns
    if size % CACHE_LINE == 0:
        return like.new_empty(jobs, rows, columns)
    buffer = like.new_empty(jobs, -(-size // CACHE_LINE) * CACHE_LINE)
    return buffer[:, :size].view(jobs, rows, columns)
