"""Codecs: how many bytes of a message cross the link."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simfl.system.cost import IntArray


class Codec(ABC):
    """Base of every codec; it sizes messages, the values are the learning room's matter."""

    @abstractmethod
    def encoded_bytes(self, raw_bytes: ArrayLike) -> IntArray:
        """Bytes on the wire of messages that take `raw_bytes` as float32; no bytes stay none."""


@dataclass(frozen=True)
class Float32(Codec):
    """Values travel as they are."""

    def encoded_bytes(self, raw_bytes: ArrayLike) -> IntArray:
        """`raw_bytes`, unchanged."""
        return np.asarray(raw_bytes, dtype=np.int64)
