"""The senders' count of messages, by hand."""

import numpy as np
import pytest

from simfl.eventlog import accounts
from simfl.eventlog.accounts import Accounts, Heading, Traffic
from simfl.eventlog.rows import make_rows

KINDS = ("download", "upload", "idle")


def columns(*lists):
    """Lists as arrays: actors, start_s, size_bytes."""
    return map(np.array, lists)


@pytest.mark.parametrize(
    ("horizon_s", "sent"),
    [
        (0.5, [[10, 0, 0], [0, 0, 0]]),
        (1.0, [[10, 0, 0], [0, 0, 0]]),
        (2.0, [[10, 0, 0], [7, 0, 0]]),
        (2.5, [[10, 0, 5], [7, 0, 0]]),
        (9.0, [[10, 0, 5], [7, 8, 0]]),
    ],
)
@pytest.mark.parametrize("blocks", [1, 1000])
def test_bytes_are_sent_when_they_begin_to_flow(horizon_s, sent, blocks, monkeypatch):
    """Not when that was planned, nor at the very end of the run; however often one adds up."""
    monkeypatch.setattr(accounts, "_MOST_BLOCKS", blocks)
    traffic = Traffic(3)
    traffic.begin(*columns([0], [0.0], [10]), 0.0, uplink=False)
    traffic.begin(*columns([0, 1], [1.0, 4.0], [7, 8]), 0.0, uplink=True)
    traffic.begin(*columns([2], [2.0], [5]), min(horizon_s, 2.0), uplink=False)

    assert traffic.by(horizon_s).tolist() == sent
    assert traffic.in_flight.sum() == 0


def test_what_is_in_flight_is_said_by_who_sends_it():
    """By direction and device, as often as there is something."""
    traffic = Traffic(2)
    traffic.under_way(*columns([1], [10]), uplink=False)
    traffic.under_way(*columns([0, 1], [5, 7]), uplink=True)
    traffic.under_way(*columns([1, 1], [1, 1]), uplink=True)

    assert traffic.in_flight.tolist() == [[0, 10], [5, 9]]


def test_thousands_of_sendings_are_held_in_columns():
    """What has not begun is joined, so that adding up again and again stays cheap."""
    traffic = Traffic(1)
    for _ in range(5000):
        traffic.begin(*columns([0], [2.0], [1]), 0.0, uplink=True)

    assert len(traffic._ahead[True]) <= 1001
    assert traffic.by(1.0).sum() == 0
    assert traffic.by(3.0).sum() == 5000


def booked(sent, received, lost, in_flight):
    """Books of a device on mains power and the network, closed after 4 s with one upload."""
    books = Accounts(np.zeros(2), 1, KINDS, KINDS)
    books.traffic.begin(*columns([0], [1.0], [sent]), 0.0, uplink=True)
    books.traffic.under_way(*columns([0], [in_flight]), uplink=True)
    rows = make_rows(
        1,
        kind=KINDS.index("upload"),
        actor=0,
        start_s=0.0,
        time_s=4.0,
        duration_s=4.0,
        bytes=received,
        lost_bytes=lost,
    )
    books.expect(rows)
    books.book(rows, 0.0)
    return books


def test_what_was_sent_is_received_lost_or_in_flight():
    """Each byte has one fate, and the law says whose bytes have none."""
    books = booked(30, 10, 10, 10)

    assert all(books.close(4.0).values()), books.violations
    assert books.bytes_by_fate == {
        "bytes_sent": 30,
        "bytes_received": 10,
        "bytes_lost": 10,
        "bytes_in_flight": 10,
    }
    for wrong in ((40, 10, 10, 10), (30, 20, 10, 10), (30, 10, 0, 10), (30, 10, 10, 0)):
        books = booked(*wrong)
        assert not books.close(4.0)["bytes sent = received + lost + in flight"]
        assert "upload of actor 0" in books.violations[0]


def test_powers_say_when_joules_are_spent():
    """8 J of a row of 4 s: evenly, or all of them in its second half."""
    row = make_rows(
        1,
        kind=KINDS.index("upload"),
        actor=0,
        start_s=0.0,
        time_s=4.0,
        duration_s=4.0,
        energy_j=8.0,
        extra_j=8.0,
    )
    even, late = (Accounts(np.zeros(2), 1, KINDS, KINDS) for _ in range(2))

    even.expect(row)
    late.expect(row, [(*columns([2.0], [4.0], [8.0]), Heading.CLIENTS)])

    assert [even.energy_j(time_s) for time_s in (1.0, 2.0, 3.0, 4.0)] == [2.0, 4.0, 6.0, 8.0]
    assert [late.energy_j(time_s) for time_s in (1.0, 2.0, 3.0, 4.0)] == [0.0, 0.0, 4.0, 8.0]
