"""Independent random streams from one seed; each value is a pure function of its coordinates.

A draw is addressed by (component, entity, counter), say ("compute", client 12, round 3), and is
computed from that address by the counter-based generator Philox4x32-10 (Salmon et al., SC 2011).
There is no state, so adding a client, skipping a draw or changing a policy shifts no other draw,
and a million clients cost one array instead of a million generator objects.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simfl.common.arrays import FloatArray

WordArray = NDArray[np.uint64]

# Python integers: they adopt the type of an array, and serve for single draws too.
_LOW = 0xFFFFFFFF
_HALF = 32
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_OF_ONE = (*_MULTIPLIERS, _HALF, _LOW)
_OF_MANY = tuple(np.array(constant, dtype=np.uint64) for constant in _OF_ONE)
"""The same as arrays; with short arrays they are a third faster."""


def philox(counter: tuple[Any, ...], key: tuple[int, int]) -> list[Any]:
    """Philox4x32-10: four 32-bit words from four counter words and two key words.

    The counter words are arrays of uint64, or single integers (ten times faster for one draw).
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    m0, m1, half, low = _OF_MANY if isinstance(c0, np.ndarray) else _OF_ONE
    for _ in range(_ROUNDS):
        product0, product1 = m0 * c0, m1 * c2
        c0, c1, c2, c3 = (
            (product1 >> half) ^ c1 ^ k0,
            product1 & low,
            (product0 >> half) ^ c3 ^ k1,
            product0 & low,
        )
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return [c0, c1, c2, c3]


class Streams:
    """Named random streams of one seed.

    Every method takes a component name and broadcastable integer arrays (or scalars) `entity` and
    `counter`, and returns float64 of their broadcast shape.
    """

    def __init__(self, seed: int) -> None:
        if seed < 0:
            raise ValueError(f"seed must be >= 0, found {seed}")
        self.seed_value = seed
        self._keys: dict[str, tuple[int, int]] = {}

    def _key(self, component: str) -> tuple[int, int]:
        if component not in self._keys:
            digest = hashlib.sha256(f"{self.seed_value}/{component}".encode()).digest()
            low, high = int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")
            self._keys[component] = (low, high)
        return self._keys[component]

    def _words(self, component: str, entity: ArrayLike, counter: ArrayLike) -> list[WordArray]:
        first, second = np.broadcast_arrays(
            np.asarray(entity, dtype=np.uint64), np.asarray(counter, dtype=np.uint64)
        )
        return philox(_address(first, second), self._key(component))

    def uniform(self, component: str, entity: ArrayLike = 0, counter: ArrayLike = 0) -> FloatArray:
        """Uniform on the open interval (0, 1), 53 bits."""
        words = self._words(component, entity, counter)
        return _to_unit(words[0], words[1])

    def normal(self, component: str, entity: ArrayLike = 0, counter: ArrayLike = 0) -> FloatArray:
        """Standard normal, by Box and Muller's transform of the draw's four words."""
        words = self._words(component, entity, counter)
        radius = np.sqrt(-2.0 * np.log(_to_unit(words[0], words[1])))
        normals: FloatArray = radius * np.cos(2.0 * np.pi * _to_unit(words[2], words[3]))
        return normals

    def exponential(
        self, component: str, entity: ArrayLike = 0, counter: ArrayLike = 0
    ) -> FloatArray:
        """Exponential with mean 1."""
        draws: FloatArray = -np.log(self.uniform(component, entity, counter))
        return draws

    def lognormal(
        self, sigma: ArrayLike, component: str, entity: ArrayLike = 0, counter: ArrayLike = 0
    ) -> FloatArray:
        """Lognormal with mean 1: exp(sigma N - sigma^2 / 2); sigma 0 gives exactly 1."""
        spread = np.asarray(sigma, dtype=float)
        normals = self.normal(component, entity, counter)
        draws: FloatArray = np.exp(spread * normals - spread**2 / 2.0)
        return draws

    def gamma(
        self, shape: float, component: str, entity: ArrayLike = 0, counter: ArrayLike = 0
    ) -> FloatArray:
        """Gamma with the given shape > 0 and scale 1, by Marsaglia and Tsang's rejection method.

        Every attempt has its own address, so that a value does not depend on the attempts for
        others (Marsaglia, Tsang, ACM TOMS 26(3), 2000).
        """
        if shape < 1.0:
            boost = self.uniform(f"{component}.boost", entity, counter) ** (1.0 / shape)
            return boost * self.gamma(shape + 1.0, component, entity, counter)
        who, when = np.broadcast_arrays(np.asarray(entity), np.asarray(counter))
        draws: FloatArray = np.empty(who.shape)
        open_, attempt = np.ones(who.shape, dtype=bool), 0
        d = shape - 1.0 / 3.0
        while open_.any():
            address = (f"{component}.{attempt}", who[open_], when[open_])
            normal = self.normal(*address)
            cube = np.maximum(1.0 + normal / np.sqrt(9.0 * d), 0.0) ** 3
            limit = 0.5 * normal**2 + d - d * cube + d * np.log(np.maximum(cube, 1e-300))
            chance = self.uniform(f"{component}.{attempt}.accept", *address[1:])
            accepted = np.log(chance) < limit
            places = np.flatnonzero(open_)[accepted]
            draws.flat[places] = d * cube[accepted]
            open_.flat[places] = False
            attempt += 1
        return draws

    def beta(
        self, a: float, b: float, component: str, entity: ArrayLike = 0, counter: ArrayLike = 0
    ) -> FloatArray:
        """Beta(a, b), as a gamma variable divided by the sum of two."""
        first = self.gamma(a, f"{component}.a", entity, counter)
        draws: FloatArray = first / (first + self.gamma(b, f"{component}.b", entity, counter))
        return draws

    def seed(self, component: str, entity: int = 0, counter: int = 0) -> int:
        """A 63-bit seed for a generator of another library."""
        words: list[int] = philox(_address(int(entity), int(counter)), self._key(component))
        return words[0] | (words[1] & 0x7FFFFFFF) << 32

    def seeds(self, component: str, entity: ArrayLike, counter: ArrayLike) -> list[int]:
        """`seed` for each entry of the broadcast arrays, in order."""
        words = self._words(component, entity, counter)
        seeds: list[int] = (words[0] | (words[1] & 0x7FFFFFFF) << _HALF).tolist()
        return seeds

    def generator(self, component: str, entity: int = 0, counter: int = 0) -> np.random.Generator:
        """A separate numpy generator, for permutations, Dirichlet draws and the like."""
        return np.random.Generator(np.random.Philox(key=self.seed(component, entity, counter)))


@contextmanager
def process_generators(seed: int) -> Iterator[None]:
    """Seeds Python's and numpy's global generators, and restores their states afterwards.

    For code outside simfl, which uses the global generators.
    """
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  # what others draw from
    random.seed(seed)
    np.random.seed(seed & _LOW)  # noqa: NPY002  # what others draw from
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002  # what others draw from


def process_states() -> dict[str, Any]:
    """The states of Python's and numpy's global generators, by name, for comparison."""
    _, words, *others = np.random.get_state(legacy=True)  # noqa: NPY002  # what others draw from
    return {"random": random.getstate(), "numpy.random": (np.asarray(words).tobytes(), *others)}


def _address(entity: Any, counter: Any) -> tuple[Any, ...]:
    return counter & _LOW, counter >> _HALF, entity & _LOW, entity >> _HALF


def _to_unit(high: WordArray, low: WordArray) -> FloatArray:
    """53 bits of two 32-bit words as a float in the open interval (0, 1)."""
    bits = (high << np.uint64(21)) | (low >> np.uint64(11))
    unit: FloatArray = (bits.astype(np.float64) + 0.5) * 2.0**-53
    return unit
