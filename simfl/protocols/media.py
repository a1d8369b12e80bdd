"""The shared media of a world, and what is under way on them."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import simpy

from simfl.eventlog.kinds import CUTS
from simfl.eventlog.log import EventLog
from simfl.protocols.clock import Clock
from simfl.protocols.crossing import Bearer, Crossing
from simfl.protocols.messages import book_message
from simfl.system.sharing.base import Sharing
from simfl.system.sharing.medium import Medium, Told
from simfl.system.sharing.message import SharedMessage

ALWAYS_THERE = Bearer()


class Media:
    """Carries messages of actors of the log, and books each when it is there.

    A medium is a place: an access point and what is in the air. The accounts know at any moment
    what messages under way have spent; `draw` is told the watts of radios, as `Medium` says.
    """

    def __init__(
        self, sharing: Sharing, log: EventLog, clock: Clock, draw: Told | None = None
    ) -> None:
        self._sharing = sharing
        self._log = log
        self._clock = clock
        self._draw = draw
        self._media: dict[tuple[tuple[int, ...], bool], Medium] = {}
        self._under_way: dict[int, tuple[Crossing, bool, dict[str, int], str | None]] = {}
        log.accounts.spending(self._spent_j)

    def carry(
        self,
        actor: int,
        place: tuple[int, ...],
        message: SharedMessage,
        uplink: bool,
        about: dict[str, int],
        detail: str | None = None,
        bearer: Bearer = ALWAYS_THERE,
        heard_s: float = math.inf,
    ) -> Generator[simpy.Event, Any, float]:
        """A message of `actor` over the medium `place`; the joules beyond idle that it took.

        `about` are columns of its rows, `detail` is of the message's. No message leaves no row. An
        interrupt, of whatever cause, breaks it off. Until `heard_s` there is somebody at the other
        end: a message that takes longer is lost, every attempt.
        """
        if not message.attempts:
            return 0.0
        crossing = Crossing(self._clock, self._medium(place, uplink), message, bearer)
        self._under_way[actor] = crossing, uplink, about, detail
        try:
            yield from crossing.process()
        except simpy.Interrupt:
            self._break_off(actor)
            raise
        del self._under_way[actor]
        (active_j, _), unmet_j = crossing.spent(), bearer.unmet_j()
        received, lost = message.arrived_bytes, message.lost_bytes
        if self._clock.now_s > heard_s:
            received, lost = 0, message.attempts * message.size_bytes
        typed = {"active_j": active_j + unmet_j, "unmet_j": unmet_j, "attempts": message.attempts}
        self._book(actor, crossing, uplink, about, {**typed, "detail": detail}, received, lost)
        return active_j

    def _break_off(self, actor: int) -> None:
        """The sender or receiver is gone: every attempt begun so far is lost."""
        crossing, uplink, about, detail = self._under_way.pop(actor)
        lost = crossing.begun * crossing.message.size_bytes
        if crossing.start_s < self._clock.now_s:
            typed = {"attempts": crossing.begun, "detail": detail}
            self._book(actor, crossing, uplink, about, typed, 0, lost)
        crossing.break_off()

    def cut(self, actor: int) -> None:
        """The run ends while a message of `actor` is under way: book what it has cost."""
        if actor not in self._under_way:
            return
        crossing, uplink, about, detail = self._under_way.pop(actor)
        if crossing.start_s < self._clock.now_s:
            typed = {"cut_by": CUTS.index("end"), "detail": detail}
            self._book(actor, crossing, uplink, about, typed, 0, 0)

    @property
    def senders(self) -> list[int]:
        """Whose messages are under way."""
        return list(self._under_way)

    def _book(
        self,
        actor: int,
        crossing: Crossing,
        uplink: bool,
        about: dict[str, int],
        typed: dict[str, Any],
        received: int,
        lost: int,
    ) -> None:
        there = received or lost
        book_message(
            self._log,
            actor,
            crossing.start_s,
            self._clock.now_s,
            crossing.spent(),
            received=received,
            lost=lost,
            uplink=uplink,
            about=about,
            typed=typed,
            in_flight=0 if there else crossing.message.attempts * crossing.message.size_bytes,
        )

    def _medium(self, place: tuple[int, ...], uplink: bool) -> Medium:
        key = () if self._sharing.spans_points else place, uplink or self._sharing.half_duplex
        if key not in self._media:
            self._media[key] = Medium(self._clock.env, self._sharing, self._draw)
        return self._media[key]

    def _spent_j(self) -> float:
        return sum(sum(crossing.spent()) for crossing, *_ in self._under_way.values())
