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
    """Passes on what `model` says; UnusableAvailability for what breaks `Availability`'s contract.

    A model may round: at the very time when it says that a client comes or goes it may say that it
    has not yet. So it is asked about the time just after each (`_just_after`).
    """

    def __init__(self, model: Availability) -> None:
        self._model = model
        self._own = is_users_own(model)

    @property
    def name(self) -> str:
        """The model's name, or its own word, for whoever must blame it."""
        return str(getattr(self._model, "told_by", called(self._model)))

    def available(self, clients: IntArray, time_s: float, streams: Streams) -> BoolArray:
        """One truth per client."""
        there = np.asarray(self._asked("available", clients, time_s, streams))
        if there.shape != clients.shape or there.dtype != np.bool_:
            raise self._refused("available", "true or false for each client", there)
        return there

    def next_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """One time per client, none of them past."""
        answer = self._asked("next_s", clients, time_s, streams)
        back_s = self._times_s("next_s", answer, clients)
        if (back_s < time_s).any():
            accepted = f"no time before it is asked, at {time_s:g} s"
            raise self._refused("next_s", accepted, back_s[back_s < time_s])
        return back_s

    def until_s(self, clients: IntArray, time_s: float, streams: Streams) -> FloatArray:
        """One time per client."""
        answer = self._asked("until_s", clients, time_s, streams)
        return self._times_s("until_s", answer, clients)

    def _asked(self, method: str, clients: IntArray, time_s: float, streams: Streams) -> Any:
        """What the model says; a user's own may do with its `clients` what it likes."""
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
    """A nanosecond later, or some last bits where those are more."""
    return time_s + max(1e-9, 8.0 * float(np.spacing(time_s)))
