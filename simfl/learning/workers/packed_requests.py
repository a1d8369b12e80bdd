"""Requests to workers without shared memory; data needed by several requests are sent once.

A tensor that occurs in several requests (a state's weights, or what its jobs share), or again in a
later one, is stored where every worker can fetch it; requests only refer to it.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simfl.learning.workers.packing import (
    ALIGNMENT,
    Run,
    copies,
    joined,
    laid_out,
    separated,
    write,
)

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Bundle:
    """Tensors in one flat block of bytes."""

    run: Run
    flat: Bytes

    @staticmethod
    def of(tensors: Sequence[Tensor]) -> Bundle:
        """Tensors on any device, copied."""
        run, end = laid_out(tensors)
        flat = torch.empty(end, dtype=torch.uint8)
        write(flat, [run], list(tensors))
        return Bundle(run, flat.numpy())

    def tensors(self, device: torch.device) -> list[Tensor]:
        """Copies of the tensors, on a device."""
        return [one.to(device) for one in copies(readable(self.flat), self.run)]


@dataclass(frozen=True)
class PackedValues:
    """Values, and where their tensors are: in `own` (0) or in one of the bundles of `fetched`.

    `places` are bundle and index within it, for each tensor; `fetched` are handles of bundles.
    """

    header: bytes
    values: int
    places: Sequence[tuple[int, int]]
    own: Bundle
    fetched: Sequence[Any] = ()

    @staticmethod
    def of(values: Sequence[Any]) -> PackedValues:
        """Values with all their tensors; raises the errors of pickle."""
        header, tensors, counts = separated(values)
        places = [(0, place) for place in range(len(tensors))]
        return PackedValues(header, len(counts), places, Bundle.of(tensors))

    def unpacked(self, device: torch.device, bundles: Sequence[Sequence[Tensor]] = ()) -> list[Any]:
        """The values, with tensors on this device; `bundles` are the tensors of the fetched
        bundles.
        """
        all_tensors = [self.own.tensors(device), *bundles]
        tensors = [all_tensors[bundle][place] for bundle, place in self.places]
        return joined(self.header, tensors, self.values)


def readable(flat: Bytes) -> Tensor:
    """Bytes as a read-only tensor, wherever they are stored; aligned to a cache line, so that
    kernels give the same bits as elsewhere.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the tensor is read-only is intended
        tensor = torch.from_numpy(flat)
    return tensor if tensor.data_ptr() % ALIGNMENT == 0 else tensor.clone()


@dataclass(frozen=True)
class _Shared:
    tensor: weakref.ref[Tensor]
    handle: Any
    place: int


@dataclass(frozen=True)
class _Separated:
    header: bytes
    tensors: list[Tensor]
    values: int


class Sender:
    """Packs requests. `put` stores a bundle and returns a handle by which workers get it."""

    def __init__(self, put: Callable[[Bundle], Any]) -> None:
        self._put = put
        self._sent: dict[int, weakref.ref[Tensor]] = {}
        self._shared: dict[int, _Shared] = {}

    def packer(self, requests: Sequence[Sequence[Any]]) -> Callable[[int], PackedValues]:
        """A function that packs a request by its number, any number of times.

        Raises the errors of pickle for objects that cannot be pickled.
        """
        parts = []
        for request in requests:
            header, tensors, counts = separated(request)
            parts.append(_Separated(header, tensors, len(counts)))
        self._share(parts)
        return lambda number: self._packed(parts[number])

    def _share(self, requests: Sequence[_Separated]) -> None:
        """Store what is needed more than once, grouped by the requests that need it."""
        self._sent = {key: ref for key, ref in self._sent.items() if ref() is not None}
        self._shared = {key: one for key, one in self._shared.items() if one.tensor() is not None}
        users: dict[int, list[int]] = {}
        tensors: dict[int, Tensor] = {}
        for number, request in enumerate(requests):
            for tensor in request.tensors:
                users.setdefault(id(tensor), []).append(number)
                tensors[id(tensor)] = tensor
        groups: dict[tuple[int, ...], list[Tensor]] = {}
        for key, numbers in users.items():
            if key not in self._shared and (len(numbers) > 1 or key in self._sent):
                groups.setdefault(tuple(numbers), []).append(tensors[key])
        for group in groups.values():
            handle = self._put(Bundle.of(group))
            for place, tensor in enumerate(group):
                self._shared[id(tensor)] = _Shared(weakref.ref(tensor), handle, place)
        self._sent |= {key: weakref.ref(one) for key, one in tensors.items()}

    def _packed(self, request: _Separated) -> PackedValues:
        fetched: list[Any] = []
        own: list[Tensor] = []
        places = []
        for tensor in request.tensors:
            shared = self._shared.get(id(tensor))
            if shared is None:
                places.append((0, len(own)))
                own.append(tensor)
                continue
            if shared.handle not in fetched:
                fetched.append(shared.handle)
            places.append((1 + fetched.index(shared.handle), shared.place))
        return PackedValues(request.header, request.values, places, Bundle.of(own), fetched)
