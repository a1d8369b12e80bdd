"""The loop of a worker on another machine: starts once, then answers requests."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from simfl.learning.devices import device_of
from simfl.learning.parameters import Parameters
from simfl.learning.sums import PartialSum
from simfl.learning.workers.early_sums import Wanted
from simfl.learning.workers.packed_requests import Bytes, PackedValues, readable
from simfl.learning.workers.packing import unpack
from simfl.learning.workers.pool import Handler, sendable

Split = Callable[[Sequence[Any]], tuple[Sequence[Any], Sequence[Parameters]]]
"""Answers as they are sent, and the parts that stay at the worker."""


@runtime_checkable
class Remarking(Protocol):
    """A handler with remarks in addition to its answers."""

    def remarks(self) -> Sequence[Any]:
        """Remarks since the last call."""


class Answering:
    """A worker's side; `fetch` gets a bundle by its handle.

    The tensors of bundles that the last request needed are kept for the next one.
    """

    def __init__(self, fetch: Callable[[Any], Any]) -> None:
        self._fetch = fetch
        self._handle: Handler = list
        self._remarks: Callable[[], Sequence[Any]] = list
        self._device = torch.device("cpu")
        self._kept: dict[Any, list[Tensor]] = {}
        self._split: Split = _nothing_held
        self._held: dict[int, Sequence[Parameters]] = {}

    def begin(
        self, prepare: Sequence[Callable[[], object]], setup: bytes, shared: Bytes
    ) -> Mapping[str, Any]:
        """Prepare to answer; returns this worker's numeric platform.

        `setup` is a pickled tuple: functions that describe the platform, create the handler, and
        split its answers into what is sent and what is held here; the device; and header and layout
        of `shared`, which is read-only.
        """
        torch.set_num_threads(1)
        for one in prepare:
            one()
        describe, make_handler, self._split, device, header, layout = pickle.loads(setup)
        self._device = device_of(device).torch
        handler: Any = make_handler(unpack(header, layout, readable(shared), share=True))
        self._handle = handler
        self._remarks = handler.remarks if isinstance(handler, Remarking) else list
        platform: Mapping[str, Any] = describe()
        return platform

    def answer(
        self,
        request: PackedValues,
        held: int | None,
        forgotten: Sequence[int],
        wanted: Wanted = (),
    ) -> PackedValues:
        """False, the handler's remarks, the wall seconds of answering, and the answers to a
        request; or True and the exception.

        If `held` is a number, part of the answers stays here under this number until it is
        `forgotten`; its contributions to the `wanted` sums come last.
        """
        for number in forgotten:
            self._held.pop(number, None)
        self._kept = {
            handle: self._kept[handle]
            if handle in self._kept
            else self._fetch(handle).tensors(self._device)
            for handle in request.fetched
        }
        values = request.unpacked(self._device, list(self._kept.values()))
        try:
            began = time.perf_counter()
            answers = self._handle(values)
            if held is not None:  # an accelerator has finished when the answers are split
                answers, self._held[held] = self._split(answers)
            answer = [False, self._remarks(), time.perf_counter() - began, *answers]
            if held is not None and wanted:
                own = self._held[held]
                answer.append(
                    [
                        _part(weights, {place: own[number] for place, number in members.items()})
                        for weights, members in wanted
                    ]
                )
        except Exception as error:  # noqa: BLE001  # a user's loss may raise anything
            answer = [True, sendable(error)]
        return PackedValues.of(answer)

    def fetch(self, held: int) -> PackedValues:
        """False, followed by what is held of one request."""
        return PackedValues.of([False, *self._held[held]])

    def partial_sum(
        self, weights: Sequence[float], members: Mapping[int, tuple[int, int]]
    ) -> PackedValues:
        """False and the part of a sum whose members are held here; `members`: by place, request and
        index.
        """
        held = {place: self._held[held][number] for place, (held, number) in members.items()}
        return PackedValues.of([False, _part(weights, held)])


def _part(weights: Sequence[float], members: Mapping[int, Parameters]) -> PartialSum:
    part = PartialSum(weights)
    part.add(members)
    return part


def _nothing_held(answers: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Parameters]]:
    return answers, []
