"""What an availability model says, held to its contract."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.streams import Streams
from simfl.system.availability.base import Availability, UnusableAvailability


class CheckedAvailability:
    """Passes on what `model` says; UnusableAvailability for what breaks `Availability`'s contract.

    Until when a client stays is not held to lie ahead: it may be asked of one that has just come
    back, whom rounding leaves a last bit before its return.
    """

    def __init__(self, model: Availability) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """The model's class, for whoever must blame it."""
        return type(self._model).__name__

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """One truth per client."""
        there = np.asarray(self._model.available(clients, time_s, streams))
        if there.shape != clients.shape or there.dtype != np.bool_:
            raise self._refused("available", "true or false for each client", there)
        return there

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """One time per client, none of them past."""
        back_s = self._times_s("next_s", self._model.next_s(clients, time_s, streams), clients)
        if (back_s < time_s).any():
            accepted = f"no time before it is asked, at {time_s:g} s"
            raise self._refused("next_s", accepted, back_s[back_s < time_s])
        return back_s

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """One time per client."""
        return self._times_s("until_s", self._model.until_s(clients, time_s, streams), clients)

    def _times_s(self, method: str, answer: Any, clients: IntArray) -> FloatArray:
        times_s = np.asarray(answer)
        if times_s.shape != clients.shape or times_s.dtype.kind not in "fiu":
            raise self._refused(method, "a time in seconds for each client", times_s)
        if np.isnan(times_s).any() or np.isneginf(times_s).any():
            raise self._refused(method, "times in seconds, inf for never", times_s)
        return times_s.astype(float, copy=False)

    def _refused(self, method: str, accepted: str, found: NDArray[Any]) -> UnusableAvailability:
        some = np.atleast_1d(found).ravel()[:5].tolist()
        return UnusableAvailability(
            f"{self.name}.{method}: found {some}, shape {found.shape}, accepted: {accepted}"
        )
