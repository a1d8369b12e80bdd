"""The log's `detail` column: decisions' details as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simfl.common.arrays import FloatArray
from simfl.common.plain import to_json


def as_json(detail: Mapping[str, Any]) -> str:
    """Numbers, strings, lists and arrays as JSON; raises TypeError for anything else."""
    return to_json(detail)


def known(column: FloatArray) -> list[float | None]:
    """A column with null for unknown values (NaN)."""
    return [None if np.isnan(value) else float(value) for value in column]
