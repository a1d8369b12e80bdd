"""Accounts of seconds, joules and bytes by device and state, updated from the log's rows.

There are two views of the same rows. `expect` follows activities in progress, so the energy spent
by any moment is known during the run. `book` adds up what has ended, per device and kind, and
checks every row. Independently of the rows, `Traffic` counts what was sent, so rows that are lost,
entered twice or wrong about their attempts are noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from simfl.common.arrays import BoolArray, FloatArray, IntArray
from simfl.eventlog.rows import Rows

_TOLERANCE = 1e-9
_MOST_BLOCKS = 1000
"""Blocks of sent messages kept apart; if there are more, those that have begun are added up."""

_Sent = tuple[IntArray, FloatArray, IntArray]


class Heading(IntEnum):
    """Where joules beyond idle power are booked.

    Idle power that a waiting client does not draw (negative), clients' activities, edge servers and
    the cloud, and the network between them.
    """

    WAITING = 0
    CLIENTS = 1
    SERVERS = 2
    NETWORK = 3


Powers = Sequence[tuple[FloatArray, FloatArray, FloatArray, Heading]]
"""Begins, ends and joules of intervals of constant power beyond idle, and their heading."""


@dataclass(frozen=True)
class Energy:
    """Joules of clients (`client_active_j` of these beyond idle power), servers and the network."""

    client_j: float
    client_active_j: float
    server_j: float
    network_j: float

    @property
    def total_j(self) -> float:
        """Joules of all machines."""
        return self.client_j + self.server_j + self.network_j

    def columns(self) -> dict[str, float]:
        """The columns of tables and the manifest."""
        return {
            "energy_j": self.total_j,
            "client_energy_j": self.client_j,
            "client_active_j": self.client_active_j,
            "server_energy_j": self.server_j,
            "network_energy_j": self.network_j,
        }


class Traffic:
    """The senders' counts: the bytes of each attempt to send a message, when its transfer begins.

    Arrays of shape (2, actors): down and up, by the device at the lower end of the link (the
    client, or the edge server between edge and cloud), where the log books their fates.
    """

    def __init__(self, actors: int) -> None:
        self._sent: IntArray = np.zeros((2, actors), dtype=np.int64)
        self._ahead: tuple[list[_Sent], list[_Sent]] = ([], [])
        self.in_flight: IntArray = np.zeros((2, actors), dtype=np.int64)

    def begin(
        self,
        actors: IntArray,
        start_s: FloatArray,
        size_bytes: IntArray,
        now_s: float,
        *,
        uplink: bool,
    ) -> None:
        """The transfer of this many bytes begins at `start_s`, now or later, as columns."""
        blocks = self._ahead[uplink]
        blocks.append((actors, start_s, size_bytes))
        if len(blocks) >= _MOST_BLOCKS:
            self._settle(now_s, uplink)

    def under_way(self, actors: IntArray, size_bytes: IntArray, *, uplink: bool) -> None:
        """The run ends before the fate of this many bytes is known."""
        np.add.at(self.in_flight[int(uplink)], actors, size_bytes)

    def by(self, horizon_s: float) -> IntArray:
        """Bytes whose transfer began before `horizon_s`."""
        for uplink in (False, True):
            self._settle(horizon_s, uplink)
        return self._sent

    def _settle(self, now_s: float, uplink: bool) -> None:
        """Add up what has begun; the rest becomes one block."""
        blocks = self._ahead[uplink]
        if not blocks:
            return
        actors, start_s, size_bytes = map(np.concatenate, zip(*blocks, strict=True))
        begun = start_s < now_s
        np.add.at(self._sent[int(uplink)], actors[begun], size_bytes[begun])
        rest = ~begun
        blocks[:] = [(actors[rest], start_s[rest], size_bytes[rest])]


class Accounts:
    """Accounts of `power_idle_w.size` devices over the log's kinds.

    `power_idle_w`: the idle power charged to each actor, W: first `clients` clients, then servers,
    and the network last. `kinds`: the log's kinds in order; `states` are those that fill a device's
    time; `transfers` those that move bytes, down and up. `bytes_by_fate` says, once the run is
    closed, what became of all bytes sent. Actors that are not `present` take no part in the run and
    draw no power. `counted(actor, start_s, end_s, energy_j)` returns grams of CO2 and money of
    rows; None if unknown. `unpaid_idle_s(clients, start_s, end_s)` returns the seconds of waiting
    that are not charged. `links_crossed`: by each message of a client; a server's crosses one.
    """

    def __init__(
        self,
        power_idle_w: FloatArray,
        clients: int,
        kinds: Sequence[str],
        states: Sequence[str],
        transfers: Sequence[str] = ("download", "upload"),
        counted: Callable[..., tuple[FloatArray, FloatArray]] | None = None,
        present: BoolArray | None = None,
        unpaid_idle_s: Callable[[IntArray, FloatArray, FloatArray], FloatArray] | None = None,
        links_crossed: int = 1,
    ) -> None:
        self.kinds = list(kinds)
        self.present = np.ones(power_idle_w.size, dtype=bool) if present is None else present
        self.power_idle_w = np.where(self.present, power_idle_w, 0.0)
        self._clients, self._links_crossed = clients, links_crossed
        self._headings: IntArray = np.full(power_idle_w.size, Heading.SERVERS, dtype=np.int64)
        self._headings[:clients], self._headings[-1] = Heading.CLIENTS, Heading.NETWORK
        # Joules of each actor beyond its idle power, excluding those of waiting.
        self.active_j: FloatArray = np.zeros(power_idle_w.size)
        self._idle_w = np.array(
            [self.power_idle_w[:clients].sum(), self.power_idle_w[clients:].sum()]
        )
        # Shape (actors, kinds), stored kind by kind: kinds that never happen take no memory.
        shape = (len(self.kinds), power_idle_w.size)
        self.seconds, self.joules, self.bytes, self.lost_bytes = (
            np.zeros(shape).T for _ in range(4)
        )
        self.traffic = Traffic(power_idle_w.size)
        self.bytes_by_fate: dict[str, int] = {}
        self._counted = counted
        self._unpaid_idle_s = unpaid_idle_s
        unknown = np.full(power_idle_w.size, np.nan if counted is None else 0.0)
        self.carbon_gco2, self.electricity_cost = unknown, unknown.copy()
        self.violations: list[str] = []
        self.laws: dict[str, bool] = {}
        self._states = [self.kinds.index(state) for state in states]
        self._transfers = [self.kinds.index(kind) for kind in transfers]
        self._moves = np.isin(np.arange(len(self.kinds)), self._transfers)
        self._waits = np.array([kind == "idle" for kind in self.kinds])
        self._spent: list[tuple[float, FloatArray, FloatArray, FloatArray, Heading]] = []
        self._arriving: list[tuple[float, FloatArray, IntArray]] = []
        self._ended_extra_j: FloatArray = np.zeros(len(Heading))
        self._ended_bytes = 0
        self._spending: list[Callable[[], Mapping[Heading, float]]] = []

    @property
    def pays_all(self) -> bool:
        """Whether all idle power is charged."""
        return self._unpaid_idle_s is None

    def unpaid_idle_j(self, actors: IntArray, start_s: FloatArray, end_s: FloatArray) -> FloatArray:
        """Joules of waiting actors' idle power that are not charged."""
        if self._unpaid_idle_s is None:
            return np.zeros(actors.size)
        clients = actors < self._clients
        unpaid_j = np.zeros(actors.size)
        unpaid_j[clients] = self.power_idle_w[actors[clients]] * self._unpaid_idle_s(
            actors[clients], start_s[clients], end_s[clients]
        )
        return unpaid_j

    def expect(self, rows: Rows, powers: Powers | None = None) -> None:
        """Record rows that end now or later.

        `powers` says how their joules beyond idle power are spread over time; by default evenly
        over each row.
        """
        for power in self._even(rows) if powers is None else powers:
            self.expect_power(*power)
        size = np.where(self._moves[rows["kind"]], rows["bytes"], 0)
        if size.any():
            size = size * np.where(rows["actor"] < self._clients, self._links_crossed, 1)
            ends_s = rows["time_s"]
            self._arriving.append((float(ends_s.max()), ends_s, size))

    def _even(self, rows: Rows) -> Powers:
        """The joules of rows by heading, each spent evenly over its time."""
        extra_j = rows["extra_j"]
        if not extra_j.any():
            return ()
        headings = self.headings(rows["actor"], rows["kind"])
        columns = rows["start_s"], rows["time_s"], extra_j
        of_each = ((heading, headings == heading) for heading in Heading)
        return [(*(one[own] for one in columns), heading) for heading, own in of_each if own.any()]

    def heading(self, actor: int) -> Heading:
        """The heading of an actor's joules, unless it waits."""
        return Heading(self._headings[actor])

    def headings(self, actors: IntArray, kinds: IntArray) -> IntArray:
        """The `Heading` of the joules of rows, from their columns."""
        of_actors = self._headings[actors]
        waits = (of_actors == Heading.CLIENTS) & self._waits[kinds]
        return np.where(waits, int(Heading.WAITING), of_actors)

    def expect_power(
        self, begins_s: FloatArray, ends_s: FloatArray, joules: FloatArray, heading: Heading
    ) -> None:
        """Record joules beyond idle power that are spent evenly over intervals, now or later."""
        if joules.any():
            self._spent.append((float(ends_s.max()), begins_s, ends_s, joules, heading))

    def expect_one(self, row: Mapping[str, Any]) -> None:
        """Record a single row; missing columns count as zero."""
        size = row.get("bytes", 0) if self._moves[row["kind"]] else 0
        extra_j, end_s = row.get("extra_j", 0.0), row["time_s"]
        if extra_j:
            [heading] = self.headings(np.array([row["actor"]]), np.array([row["kind"]]))
            tail_j, begins_s = row.get("tail_j", 0.0), np.array([row["start_s"]])
            for until_s, own_j in ((end_s, extra_j - tail_j), (row.get("tail_ends_s"), tail_j)):
                if own_j:
                    stretch = begins_s, np.array([until_s]), np.array([own_j])
                    self.expect_power(*stretch, Heading(heading))
        if size:
            size *= self._links_crossed if row["actor"] < self._clients else 1
            self._arriving.append((end_s, np.array([end_s]), np.array([size])))

    def spending(self, spent_j: Callable[[], Mapping[Heading, float]]) -> None:
        """Register `spent_j`, which returns the joules beyond idle spent by now without a known
        row.
        """
        self._spending.append(spent_j)

    def _settle(self, now_s: float) -> None:
        """Add up what has ended."""
        for _, _, _, joules, heading in (one for one in self._spent if one[0] <= now_s):
            self._ended_extra_j[heading] += joules.sum()
        for _, _, size in (one for one in self._arriving if one[0] <= now_s):
            self._ended_bytes += int(size.sum())
        self._spent = [one for one in self._spent if one[0] > now_s]
        self._arriving = [one for one in self._arriving if one[0] > now_s]

    def energy(self, now_s: float) -> Energy:
        """Joules of all devices from time 0 to `now_s`, including the elapsed part of what is in
        progress.

        Activities on shared channels count up to the clock's time, so `now_s` must be that time.
        """
        self._settle(now_s)
        extra_j = self._ended_extra_j.copy()
        for spent_j in self._spending:
            for heading, so_far_j in spent_j().items():
                extra_j[heading] += so_far_j
        for _, begins_s, ends_s, joules, heading in self._spent:
            length = np.maximum(ends_s - begins_s, 1e-300)
            share = np.clip((now_s - begins_s) / length, 0.0, 1.0)
            extra_j[heading] += (share * joules).sum()
        waiting_j, active_j, server_j, network_j = extra_j.tolist()
        clients_idle_j, servers_idle_j = (self._idle_w * now_s).tolist()
        client_j = clients_idle_j + waiting_j + active_j
        return Energy(client_j, active_j, servers_idle_j + server_j, network_j)

    def energy_j(self, now_s: float) -> float:
        """Joules of all devices from time 0 to `now_s`, as `energy`."""
        return self.energy(now_s).total_j

    def bytes_moved(self, now_s: float) -> int:
        """Bytes of all messages that arrived by `now_s`, counted on every link crossed."""
        self._settle(now_s)
        return self._ended_bytes + sum(
            int(size[ends_s <= now_s].sum()) for _, ends_s, size in self._arriving
        )

    def book(self, rows: Rows, not_before_s: float) -> None:
        """Add ended rows, sorted by time, to the accounts and check them."""
        actors = self.power_idle_w.size
        cell = rows["kind"].astype(np.int64) * actors + rows["actor"]
        moves = self._moves[rows["kind"]]
        for book, column, which in (
            (self.seconds, "duration_s", slice(None)),
            (self.joules, "energy_j", slice(None)),
            (self.bytes, "bytes", moves),
            (self.lost_bytes, "lost_bytes", moves),
        ):
            # Row by row, because a part contains few of many actors.
            np.add.at(book.T.reshape(-1), cell[which], rows[column][which])
        active_j = np.where(self._waits[rows["kind"]], 0.0, rows["extra_j"])
        np.add.at(self.active_j, rows["actor"], active_j)
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
        """The invariants of the whole run, at its end; call it after the log has finished."""
        scale = _TOLERANCE * max(1.0, horizon_s)
        filled = self.seconds[:, self._states].sum(axis=1)
        off_s = np.where(self.present, np.abs(filled - horizon_s), 0.0)
        off_s[-1] = 0.0  # the network is not a device
        if not np.all(off_s <= scale * 10):
            worst = int(np.argmax(off_s))
            self.violations.append(
                f"states fill each device's time: actor {worst} has {filled[worst]:g} s"
                f" of {horizon_s:g} s"
            )
        self._check_joules(horizon_s)
        of_actors = self.bytes[:, self._transfers].sum(axis=1)
        of_clients, of_servers = of_actors[: self._clients].sum(), of_actors[self._clients :].sum()
        moved = int(self._links_crossed * of_clients + of_servers)
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
        broken = self.violations
        self.laws = {law: not any(one.startswith(law) for one in broken) for law in laws}
        return self.laws

    def _check_joules(self, horizon_s: float) -> None:
        """Compare the rows of clients, servers and the network with the running count."""
        by_actor, clients = self.joules.sum(axis=1), self._clients
        booked = Energy(
            float(by_actor[:clients].sum()),
            float(self.active_j[:clients].sum()),
            float(by_actor[clients:-1].sum()),
            float(by_actor[-1]),
        ).columns()
        running = self.energy(horizon_s).columns()
        # Parts are differences of larger sums, and only as exact as these.
        close = 1e-9 + 1e-12 * abs(running["energy_j"])
        for name, joules in booked.items():
            if not np.isclose(joules, running[name], rtol=1e-9, atol=close):
                self.violations.append(
                    f"joules add up: {name}: {joules:g} J booked, {running[name]:g} J running"
                )

    def _check_traffic(self, horizon_s: float) -> None:
        """Compare the senders' count with the rows, for every device and direction."""
        sent, in_flight = self.traffic.by(horizon_s), self.traffic.in_flight
        received = self.bytes[:, self._transfers].T.astype(np.int64)
        lost = self.lost_bytes[:, self._transfers].T.astype(np.int64)
        self.bytes_by_fate = {
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
