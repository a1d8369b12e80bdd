"""Images in the idx format, compressed or not, checked and read without writing anything."""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from simfl.learning.datasets.base import Data, Examples
from simfl.learning.datasets.benchmark import Benchmark

UNSIGNED_BYTE = 0x08
"""The idx type code of uint8, the only one that image sets use."""

FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


@dataclass(frozen=True)
class Checksums:
    """MD5 of a file as published (.gz) and of its unpacked content."""

    packed: str
    unpacked: str


def parse_idx(content: bytes, file: str) -> np.ndarray:
    """The uint8 array in an unpacked idx file; raises ValueError if it is not one.

    Source: the format's description by Y. LeCun with MNIST: two zero bytes, type code, number of
    dimensions, one big-endian uint32 per dimension, then the values.
    """
    if len(content) < 4 or content[:3] != bytes((0, 0, UNSIGNED_BYTE)):
        raise ValueError(f"{file} is not an idx file of unsigned bytes")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise ValueError(f"{file} is cut off in its header")
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    values = np.frombuffer(content, dtype=np.uint8, offset=start)
    if values.size != math.prod(shape):
        raise ValueError(f"{file} holds {values.size} values, its header says {shape}")
    return values.reshape(shape)


@dataclass(frozen=True)
class IdxImages(Benchmark):
    """Grey images and labels in four idx files under `<root>/<folder>/raw`."""

    @property
    @abstractmethod
    def folder(self) -> str:
        """The folder's name under the data root."""

    @property
    @abstractmethod
    def checksums(self) -> Mapping[str, Checksums]:
        """The checksums of every file, by its name without `.gz`."""

    def what_to_put(self, root: str) -> str:
        """The four files."""
        names = ", ".join(name for pair in FILES.values() for name in pair)
        return f"{names} (unpacked, or as .gz) into {root}/{self.folder}/raw"

    def read(self, root: Path) -> Data:
        """Both parts; raises ValueError if a checksum differs."""
        train, test = (self._part(root, images, labels) for images, labels in FILES.values())
        return Data(train, test, "classification", outputs=10)

    def _part(self, root: Path, images: str, labels: str) -> Examples:
        pixels = parse_idx(self._content(root, images), images)
        classes = parse_idx(self._content(root, labels), labels)
        return Examples(
            torch.from_numpy(pixels.astype(np.float32)).unsqueeze(1).div_(255),
            torch.from_numpy(classes.astype(np.int64)),
        )

    def _content(self, root: Path, name: str) -> bytes:
        """The unpacked bytes of one file, checked."""
        raw = root / self.folder / "raw"
        packed, unpacked = raw / f"{name}.gz", raw / name
        expected = self.checksums[name]
        if packed.is_file():
            content = packed.read_bytes()
            _check(content, expected.packed, packed)
            return gzip.decompress(content)
        if unpacked.is_file():
            content = unpacked.read_bytes()
            _check(content, expected.unpacked, unpacked)
            return content
        raise self.missing(root, f"neither {packed} nor {unpacked} is there")


def _check(content: bytes, expected: str, file: Path) -> None:
    # MD5 guards against broken downloads here, not against an attacker
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise ValueError(f"{file} is damaged: its MD5 is {found}, should be {expected}")
