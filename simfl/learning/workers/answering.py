"""What a worker on another machine does: it begins once, and then answers requests."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from simfl.learning.workers.crates import Bytes, Crate, readable
from simfl.learning.workers.packing import unpack
from simfl.learning.workers.pool import Handler, sendable


class Answering:
    """A worker's side; `fetch` gets a bundle by its handle.

    The tensors of bundles that the last request needed are kept for the next.
    """

    def __init__(self, fetch: Callable[[Any], Any]) -> None:
        self._fetch = fetch
        self._handle: Handler = list
        self._device = torch.device("cpu")
        self._kept: dict[Any, list[Tensor]] = {}

    def begin(
        self, prepare: Sequence[Callable[[], object]], setup: bytes, shared: Bytes
    ) -> Mapping[str, Any]:
        """Make ready to answer; on what numeric platform that will be.

        `setup` is a pickled tuple of what describes the platform, what makes the handler, the
        device, and header and layout of what is `shared`, which is only read.
        """
        torch.set_num_threads(1)
        for one in prepare:
            one()
        describe, make_handler, device, header, layout = pickle.loads(setup)
        self._device = torch.device(device)
        self._handle = make_handler(unpack(header, layout, readable(shared), share=True))
        platform: Mapping[str, Any] = describe()
        return platform

    def answer(self, request: Crate) -> Crate:
        """The answers to a request, after False; or True and what was raised instead."""
        self._kept = {
            handle: self._kept[handle]
            if handle in self._kept
            else self._fetch(handle).tensors(self._device)
            for handle in request.fetched
        }
        values = request.unpacked(self._device, list(self._kept.values()))
        try:
            answer = [False, *self._handle(values)]
        except Exception as error:  # noqa: BLE001  # a user's loss may raise anything: passed on
            answer = [True, sendable(error)]
        return Crate.of(answer)
