"""Seconds, joules and bytes by device and state, kept while the rows of the log go by.

Two views of the same rows: `expect` follows what is under way, so that the energy spent by any
moment is known while the run goes on; `book` adds up what has ended, per device and kind, and
checks what must hold of every row. Beside the rows, `Messages` counts what was sent, so that a
receipt that was lost or entered twice is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.eventlog.rows import Rows

_TOLERANCE = 1e-9
_MOST_BLOCKS = 1000
"""Sendings that are kept apart; more are added up as far as they have arrived."""

_Sent = tuple[IntArray, FloatArray, FloatArray, IntArray]


class Messages:
    """What senders count: the bytes of each message once, at the moment when it sets out.

    Books of shape (2, actors): down and up, by the device at the lower end of the link (the client,
    or the edge server between edge and cloud), which is where the log books a message that arrived.
    """

    def __init__(self, actors: int) -> None:
        self._arrived: IntArray = np.zeros((2, actors), dtype=np.int64)
        self._under_way: tuple[list[_Sent], list[_Sent]] = ([], [])

    def send(
        self,
        actors: IntArray,
        start_s: FloatArray,
        due_s: FloatArray,
        size_bytes: IntArray,
        now_s: float,
        *,
        uplink: bool,
    ) -> None:
        """Messages that set out at `start_s` (now or later) and are due at `due_s`, as columns."""
        blocks = self._under_way[uplink]
        blocks.append((actors, start_s, due_s, size_bytes))
        if len(blocks) >= _MOST_BLOCKS:
            self._settle(now_s, uplink)

    def by(self, horizon_s: float) -> tuple[IntArray, IntArray]:
        """Bytes sent by `horizon_s`, and those of them that are still in flight then."""
        in_flight = np.zeros_like(self._arrived)
        for uplink in (False, True):
            self._settle(horizon_s, uplink)
            for actors, start_s, _, size_bytes in self._under_way[uplink]:
                begun = start_s < horizon_s
                np.add.at(in_flight[int(uplink)], actors[begun], size_bytes[begun])
        return self._arrived + in_flight, in_flight

    def _settle(self, now_s: float, uplink: bool) -> None:
        """Add up what has arrived; what has not becomes one block."""
        blocks = self._under_way[uplink]
        if not blocks:
            return
        actors, start_s, due_s, size_bytes = map(np.concatenate, zip(*blocks, strict=True))
        there = due_s <= now_s
        np.add.at(self._arrived[int(uplink)], actors[there], size_bytes[there])
        rest = ~there
        blocks[:] = [(actors[rest], start_s[rest], due_s[rest], size_bytes[rest])]


class Accounts:
    """Books of `power_idle_w.size` devices over the log's kinds.

    `power_idle_w`: what each actor draws when it does nothing, W. `kinds`: the log's kinds in
    order; `states` are those that fill a device's time; `transfers` those that move bytes, down
    and up. `traffic` says, once the run is closed, what became of all bytes sent.
    `counted(actor, start_s, end_s, energy_j)` are grams of CO2 and money of rows; None: unknown.
    """

    def __init__(
        self,
        power_idle_w: FloatArray,
        kinds: Sequence[str],
        states: Sequence[str],
        transfers: Sequence[str] = ("download", "upload"),
        counted: Callable[..., tuple[FloatArray, FloatArray]] | None = None,
    ) -> None:
        self.kinds = list(kinds)
        self.power_idle_w = power_idle_w
        # Shape (actors, kinds), kind by kind: what never happens takes no memory.
        shape = (len(self.kinds), power_idle_w.size)
        self.seconds, self.joules, self.bytes, self.lost_bytes = (
            np.zeros(shape).T for _ in range(4)
        )
        self.messages = Messages(power_idle_w.size)
        self.traffic: dict[str, int] = {}
        self._counted = counted
        unknown = np.full(power_idle_w.size, np.nan if counted is None else 0.0)
        self.carbon_gco2, self.electricity_cost = unknown, unknown.copy()
        self.violations: list[str] = []
        self._states = [self.kinds.index(state) for state in states]
        self._transfers = [self.kinds.index(kind) for kind in transfers]
        self._moves = np.isin(np.arange(len(self.kinds)), self._transfers)
        self._open: list[dict[str, Any]] = []
        self._ended_extra_j, self._ended_bytes = 0.0, 0
        self._spending: list[Callable[[], float]] = []

    def expect(self, rows: Rows) -> None:
        """Take note of rows that end now or later."""
        size = np.where(self._moves[rows["kind"]], rows["bytes"], 0)
        if size.any() or rows["extra_j"].any():
            self._open.append(
                {
                    "start": rows["start_s"],
                    "end": rows["time_s"],
                    "last": float(rows["time_s"].max()),
                    "extra": rows["extra_j"],
                    "bytes": size,
                }
            )

    def expect_one(self, row: Mapping[str, Any]) -> None:
        """Take note of a single row; what it leaves out is nothing."""
        size = row.get("bytes", 0) if self._moves[row["kind"]] else 0
        extra_j = row.get("extra_j", 0.0)
        if size or extra_j:
            self._open.append(
                {
                    "start": np.array([row["start_s"]]),
                    "end": np.array([row["time_s"]]),
                    "last": float(row["time_s"]),
                    "extra": np.array([extra_j]),
                    "bytes": np.array([size]),
                }
            )

    def spending(self, spent_j: Callable[[], float]) -> None:
        """`spent_j` tells what has been spent by now, beyond idle, on what no row is known of."""
        self._spending.append(spent_j)

    def _settle(self, now_s: float) -> None:
        still_open = []
        for block in self._open:
            if block["last"] <= now_s:
                self._ended_extra_j += float(block["extra"].sum())
                self._ended_bytes += int(block["bytes"].sum())
            else:
                still_open.append(block)
        self._open = still_open

    def energy_j(self, now_s: float) -> float:
        """Joules of all devices from time 0 to `now_s`; a row under way counts pro rata.

        What is under way on shared media counts as of the clock's time, which `now_s` is then.
        """
        self._settle(now_s)
        total = float(self.power_idle_w.sum()) * now_s + self._ended_extra_j
        total += sum(spent_j() for spent_j in self._spending)
        for block in self._open:
            length = np.maximum(block["end"] - block["start"], 1e-300)
            share = np.clip((now_s - block["start"]) / length, 0.0, 1.0)
            total += float((share * block["extra"]).sum())
        return total

    def bytes_moved(self, now_s: float) -> int:
        """Bytes of all messages that arrived by `now_s`, each counted on every hop."""
        self._settle(now_s)
        under_way = sum(int(b["bytes"][b["end"] <= now_s].sum()) for b in self._open)
        return self._ended_bytes + under_way

    def book(self, rows: Rows, not_before_s: float) -> None:
        """Add ended rows, sorted by time, to the books and check them."""
        actors = self.power_idle_w.size
        cell = rows["kind"].astype(np.int64) * actors + rows["actor"]
        moves = self._moves[rows["kind"]]
        for book, column, which in (
            (self.seconds, "duration_s", slice(None)),
            (self.joules, "energy_j", slice(None)),
            (self.bytes, "bytes", moves),
            (self.lost_bytes, "lost_bytes", moves),
        ):
            # Row by row: of many actors few are in a segment.
            np.add.at(book.T.reshape(-1), cell[which], rows[column][which])
        if self._counted is not None:
            actor, span = rows["actor"].astype(np.int64), (rows["start_s"], rows["time_s"])
            grams, money = self._counted(actor, *span, rows["energy_j"])
            self.carbon_gco2 += np.bincount(actor, grams, minlength=actors)
            self.electricity_cost += np.bincount(actor, money, minlength=actors)
        self._check(rows, not_before_s)

    def _check(self, rows: Rows, not_before_s: float) -> None:
        times, starts, durations = rows["time_s"], rows["start_s"], rows["duration_s"]
        scale = _TOLERANCE * np.maximum(1.0, np.abs(times))
        checks = {
            "time never runs back": np.diff(times, prepend=not_before_s) >= 0,
            "completion = dispatch + duration": np.abs(starts + durations - times) <= scale,
            "durations, joules and bytes are finite and not negative": (
                (durations >= 0)
                & (rows["bytes"] >= 0)
                & (rows["energy_j"] >= -_TOLERANCE)
                & np.isfinite(rows["energy_j"] + durations)
            ),
            "staleness is not negative": rows["staleness"] >= -1,
        }
        for law, holds in checks.items():
            if not holds.all():
                at = float(times[np.argmin(holds)])
                self.violations.append(f"{law}: broken at {at:g} s")

    def close(self, horizon_s: float) -> dict[str, bool]:
        """The laws that the whole run must keep, as of its end; call after the log has finished."""
        scale = _TOLERANCE * max(1.0, horizon_s)
        devices = slice(0, self.power_idle_w.size - 1)  # the network is no device
        filled = self.seconds[devices, self._states].sum(axis=1)
        if not np.all(np.abs(filled - horizon_s) <= scale * 10):
            worst = int(np.argmax(np.abs(filled - horizon_s)))
            self.violations.append(
                f"states fill each device's time: actor {worst} has {filled[worst]:g} s"
                f" of {horizon_s:g} s"
            )
        booked, running = float(self.joules.sum()), self.energy_j(horizon_s)
        if not np.isclose(booked, running, rtol=1e-9, atol=1e-9):
            self.violations.append(f"joules add up: {booked:g} J booked, {running:g} J running")
        moved = int(self.bytes[:, self._transfers].sum())
        if moved != self.bytes_moved(horizon_s):
            self.violations.append(
                f"bytes add up: {moved} booked, {self.bytes_moved(horizon_s)} running"
            )
        self._check_traffic(horizon_s)
        laws = (
            "time never runs back",
            "completion = dispatch + duration",
            "durations, joules and bytes are finite and not negative",
            "staleness is not negative",
            "states fill each device's time",
            "joules add up",
            "bytes add up",
            "bytes sent = received + lost + in flight",
        )
        return {law: not any(found.startswith(law) for found in self.violations) for law in laws}

    def _check_traffic(self, horizon_s: float) -> None:
        """The senders' count against the receipts, for every device and direction."""
        sent, in_flight = self.messages.by(horizon_s)
        received = self.bytes[:, self._transfers].T.astype(np.int64)
        lost = self.lost_bytes[:, self._transfers].T.astype(np.int64)
        self.traffic = {
            "bytes_sent": int(sent.sum()),
            "bytes_received": int(received.sum()),
            "bytes_lost": int(lost.sum()),
            "bytes_in_flight": int(in_flight.sum()),
        }
        wrong = np.argwhere(sent != received + lost + in_flight)
        if wrong.size:
            way, actor = wrong[0]
            self.violations.append(
                f"bytes sent = received + lost + in flight: {self.kinds[self._transfers[way]]} of"
                f" actor {actor}, {sent[way, actor]} sent, {received[way, actor]} received,"
                f" {lost[way, actor]} lost, {in_flight[way, actor]} in flight"
            )
