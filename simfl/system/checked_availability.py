"""Checks of an availability model's answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.common.contract import at_work, is_users_own, named
from simfl.common.part_name import called
from simfl.streams import Streams
from simfl.system.availability.base import Availability, UnusableAvailability


class CheckedAvailability:
    """Passes on the answers of `model`; raises UnusableAvailability for invalid ones.

    Because of rounding, a model may not have changed a client's state yet at the very time that it
    has given for the change. So it is queried about the time just after (`_just_after`).
    """

    def __init__(self, model: Availability) -> None:
        self._model = model
        self._own = is_users_own(model)

    @property
    def name(self) -> str:
        """The model's name for error messages, or its own `told_by`."""
        return str(getattr(self._model, "told_by", called(self._model)))

    @property
    def leaves(self) -> bool:
        """Whether clients can become unavailable."""
        return self._model.leaves

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """A boolean per client."""
        there = np.asarray(self._asked("available", clients, time_s, streams))
        if there.shape != clients.shape or there.dtype != np.bool_:
            raise self._refused("available", "true or false for each client", there)
        return there

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """A time per client, none in the past."""
        answer = self._asked("next_s", clients, time_s, streams)
        back_s = self._times_s("next_s", answer, clients)
        if (back_s < time_s).any():
            accepted = f"no time before it is asked, at {time_s:g} s"
            raise self._refused("next_s", accepted, back_s[back_s < time_s])
        return back_s

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """A time per client."""
        answer = self._asked("until_s", clients, time_s, streams)
        return self._times_s("until_s", answer, clients)

    def _asked(self, method: str, clients: IntArray, time_s: float, streams: Streams) -> Any:
        """The model's answer; a user's model gets a copy of `clients`, which it may modify."""
        shown = clients.copy() if self._own else clients
        with at_work(self._model, method):
            return getattr(self._model, method)(shown, _just_after(time_s), streams)

    def _times_s(self, method: str, answer: Any, clients: IntArray) -> FloatArray:
        times_s = np.asarray(answer)
        if times_s.shape != clients.shape or times_s.dtype.kind not in "fiu":
            raise self._refused(method, "a time in seconds for each client", times_s)
        if np.isnan(times_s).any() or np.isneginf(times_s).any():
            raise self._refused(method, "times in seconds, inf for never", times_s)
        return times_s.astype(float, copy=False)

    def _refused(self, method: str, accepted: str, found: NDArray[Any]) -> UnusableAvailability:
        some = np.atleast_1d(found).ravel()[:5].tolist()
        who = named(self._model, method) if self._own else f"{self.name}.{method}"
        return UnusableAvailability(
            f"{who}: found {some}, shape {found.shape}, accepted: {accepted}"
        )


def _just_after(time_s: float) -> float:
    """A nanosecond later, or a few of the smallest floating-point steps if they are larger."""
    return time_s + max(1e-9, 8.0 * float(np.spacing(time_s)))
