"""Checked conversion of numbers from parts: any usual type, no impossible values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.common.arrays import FloatArray, IntArray
from simfl.common.contract import misbehaves

LARGEST_WHOLE = 2.0**53
"""Not every larger whole number can be represented by a float."""

_NUMBERS = "biuf"
"""numpy's kinds of types that are numbers: no text, complex numbers or objects."""


def amounts(
    given: Any, shape: tuple[int, ...], part: Any, method: str, *, finite: bool = True
) -> FloatArray:
    """`given` as finite numbers >= 0 of this shape; raises `PartMisbehaves`.

    With `finite=False`, infinity is accepted too; NaN never is.
    """
    column = _numbers(given)
    if column is None or column.shape != shape or not _fit(column, np.inf, inclusive=not finite):
        wanted = f"{_so_many(shape)} {'finite and ' * finite}>= 0"
        raise misbehaves(part, method, given, wanted)
    return column.astype(np.float64, copy=False)


def whole_amounts(given: Any, shape: tuple[int, ...], part: Any, method: str) -> IntArray:
    """`given` as exact whole numbers >= 0 of this shape; raises `PartMisbehaves`."""
    column = _numbers(given)
    if (
        column is None
        or column.shape != shape
        or not _fit(column, LARGEST_WHOLE)
        or (column.dtype.kind == "f" and (column != np.floor(column)).any())
    ):
        raise misbehaves(part, method, given, f"{_so_many(shape)} whole, >= 0 and < 2^53")
    return column.astype(np.int64, copy=False)


def numbers(given: Any, part: Any, method: str, accepted: str) -> FloatArray:
    """`given` as numbers of any shape, including NaN and infinity; raises `PartMisbehaves`."""
    column = _numbers(given)
    if column is None:
        raise misbehaves(part, method, given, accepted)
    return column.astype(np.float64, copy=False)


def figures(given: Any, part: Any, method: str) -> dict[str, float]:
    """A measure's figures as Python numbers; raises `PartMisbehaves`."""
    if not isinstance(given, Mapping):
        raise misbehaves(part, method, given, "numbers by name")
    return {
        _name(key, part, method): number(one, part, f"{method}: {key}")
        for key, one in given.items()
    }


def number(given: Any, part: Any, method: str) -> float:
    """`given` as a Python number, possibly NaN or infinity; raises `PartMisbehaves`."""
    column = _numbers(given)
    if column is None or column.ndim:
        raise misbehaves(part, method, given, "a number")
    figure: float = column.item()
    return figure


def _name(key: Any, part: Any, method: str) -> str:
    if not isinstance(key, str):
        raise misbehaves(part, method, key, "names of figures as text")
    return str(key)


def _numbers(given: Any) -> NDArray[Any] | None:
    """`given` as an array of numbers; None if it cannot be one."""
    try:
        column = np.asarray(given)
    except (TypeError, ValueError, RuntimeError):  # ragged lists, tensors that need a gradient
        return None
    return column if column.dtype.kind in _NUMBERS else None


def distinct_of(clients: IntArray, given: Any) -> IntArray | None:
    """`given` as an array of distinct members of `clients`; None if it is anything else."""
    try:
        chosen = np.asarray(given)
    except (TypeError, ValueError, RuntimeError):  # ragged lists, tensors that need a gradient
        return None
    if chosen.shape == (0,):
        return clients[:0]
    if (
        chosen.ndim != 1
        or not np.issubdtype(chosen.dtype, np.integer)
        or np.unique(chosen).size != chosen.size
        or not np.isin(chosen, clients).all()
    ):
        return None
    return chosen.astype(np.int64)


def one_or_each(given: Any, shape: tuple[int, ...], part: Any, method: str) -> FloatArray:
    """Numbers >= 0 of this shape, or a single number for all; raises `PartMisbehaves`."""
    column = _numbers(given)
    single = column is not None and not column.ndim
    found = amounts(given, () if single else shape, part, method, finite=False)
    return np.broadcast_to(found, shape)


def _fit(column: NDArray[Any], limit: float, *, inclusive: bool = False) -> bool:
    if not column.size:
        return True
    least, most = column.min(), column.max()
    return bool(least >= 0 and (most <= limit if inclusive else most < limit))


def _so_many(shape: tuple[int, ...]) -> str:
    return f"numbers of shape {shape}," if shape else "a number,"
