"""No compression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simfl.common.arrays import IntArray
from simfl.system.codecs.base import Codec


@dataclass(frozen=True)
class Float32(Codec):
    """Values are sent unchanged."""

    exact: ClassVar[bool] = True

    def encoded_bytes(self, raw_bytes: ArrayLike) -> IntArray:
        """`raw_bytes`, unchanged."""
        return np.asarray(raw_bytes, dtype=np.int64)
