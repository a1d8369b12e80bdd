"""Exact appointments, named waits, canonical messages."""

import gc

import numpy as np
import pytest
import simpy

from simfl.protocols.clock import Clock, Mailbox, Stalled
from simfl.system.moments import Moment


def test_appointments_are_met_to_the_last_bit():
    """The clock stands at exactly the wanted time, however unlucky the rounding."""
    rng = np.random.default_rng(0)
    clock, times = Clock(), np.cumsum(rng.exponential(size=2000))

    def process():
        for time_s in times:
            yield clock.until(float(time_s))
            assert clock.now_s == time_s

    clock.run(clock.env.process(process()))
    assert clock.now_s == times[-1]


def test_appointments_are_met_where_no_delay_leads_there():
    """From half a unit of the last place every sum is a tie, rounded to an even number."""
    now_s, wanted_s = 2.0**-54, 0.5 + 2.0**-53
    delays = [0.5 - 2.0**-54, 0.5, 0.5 + 2.0**-53]
    assert all(now_s + delay != wanted_s for delay in delays)
    clock = Clock(simpy.Environment(initial_time=now_s))

    clock.env.run(clock.until(wanted_s))

    assert clock.now_s == wanted_s


def test_a_number_of_numpys_changes_no_later_appointment():
    """The clock stands at it as at any other; its own sums would be rounded."""
    clock = Clock()

    for time_s in (np.float64(2.0**-54), 0.5 + 2.0**-53):
        clock.env.run(clock.until(time_s))
        assert clock.now_s == time_s


def test_a_stall_names_who_waits_for_what():
    """A run in which nothing can happen any more ends with every wait by name."""
    clock = Clock()

    def edge():
        with clock.waiting("edge-3", "a client that never comes"):
            yield clock.env.event()

    def cloud():
        yield clock.until(2.0)
        gc.collect()  # nobody but the clock knows of edge-3's process any more
        with clock.waiting("the cloud", "edge-3"):
            yield clock.env.event()

    clock.env.process(edge())
    with pytest.raises(
        Stalled,
        match="stalled at 2 s: edge-3 waits for a client that never comes; the cloud waits for",
    ):
        clock.run(clock.env.process(cloud()))


def test_a_limit_that_lies_ahead_is_no_event():
    """Nothing more can happen at 2 s: a stall, at that moment, and not the end of the time."""
    clock = Clock()

    def cloud():
        yield clock.until(2.0)
        with clock.waiting("the cloud", "edge-3"):
            yield clock.env.event()

    with pytest.raises(Stalled, match="stalled at 2 s: the cloud waits for edge-3"):
        clock.run(clock.env.process(cloud()), 100.0)
    assert clock.now_s == 2.0


def test_an_appointment_that_nobody_keeps_is_no_event():
    """After two waits for any event, the later event does not hide a stall."""
    clock = Clock()

    def cloud():
        yield clock.env.any_of([clock.until(2.0), clock.until(50.0)])
        with clock.waiting("the cloud", "edge-3"):
            yield clock.env.event()

    with pytest.raises(Stalled, match="stalled at 2 s: the cloud waits for edge-3"):
        clock.run(clock.env.process(cloud()), 10.0)
    assert clock.now_s == 2.0


@pytest.mark.parametrize(("limit_s", "finished"), [(2.0, False), (2.5, False), (3.0, True)])
def test_a_limit_ends_the_run_at_that_very_moment(limit_s, finished):
    """What is due at the limit still happens, and what comes later does not."""
    clock, done = Clock(), []

    def process():
        for time_s in (1.0, 2.0, 3.0):
            yield clock.until(time_s)
            yield clock.now(Moment.DECISION)
            done.append(time_s)
        return "value"

    value = clock.run(clock.env.process(process()), limit_s)

    assert clock.now_s == limit_s
    assert done == [time_s for time_s in (1.0, 2.0, 3.0) if time_s <= limit_s]
    assert value == ("value" if finished else None)


def test_simultaneous_messages_are_handed_out_in_order():
    """Whoever puts first, the lowest order is taken first; earlier messages before later ones."""
    clock, taken = Clock(), []
    mailbox = Mailbox(clock)

    def sender(order, time_s):
        yield clock.until(time_s)
        mailbox.put(order, (time_s, order))

    def receiver():
        while len(taken) < 4:
            message = yield from mailbox.get()
            taken.append(message)

    finished = clock.env.process(receiver())
    for order, time_s in ((3, 1.0), (1, 1.0), (2, 1.0), (0, 2.0)):
        clock.env.process(sender(order, time_s))
    clock.run(finished)

    assert taken == [(1.0, 1), (1.0, 2), (1.0, 3), (2.0, 0)]


@pytest.mark.parametrize("time_s", [float("nan"), float("inf")])
def test_an_appointment_at_no_time_is_an_error(time_s):
    """A cost that is no number must not silently stop the clock."""
    with pytest.raises(Stalled, match="finite time, found"):
        Clock().until(time_s)


def test_a_run_ends_after_all_that_happens_at_its_last_moment():
    """What is due at the same moment, and what follows from it at once, still comes."""
    clock, done = Clock(), []

    def ends():
        yield clock.until(1.0)
        return "value"

    def others():
        yield clock.until(1.0)
        yield clock.now(Moment.DECISION)
        done.append("now")
        yield clock.until(1.5)
        done.append("later")

    finished = clock.env.process(ends())
    clock.env.process(others())

    assert clock.run(finished) == "value"
    assert done == ["now"]
    assert clock.now_s == 1.0


def test_messages_that_waited_are_handed_out_by_time_first():
    """A receiver that was busy takes the earlier message, whatever the senders' order."""
    clock = Clock()
    mailbox = Mailbox(clock)

    def sender(order, time_s):
        yield clock.until(time_s)
        mailbox.put(order, order)

    def receiver():
        yield clock.until(3.0)
        first = yield from mailbox.get()
        second = yield from mailbox.get()
        return first, second

    finished = clock.env.process(receiver())
    for order, time_s in ((5, 1.0), (0, 2.0)):
        clock.env.process(sender(order, time_s))

    assert clock.run(finished) == (5, 0)


class Unlike(Exception):
    """A class whose constructor takes other arguments than its fields."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} is not {other}")


@pytest.mark.parametrize("error", [OSError(24, "Too many open files", "x.pt"), Unlike(1, 2)])
def test_what_a_process_raised_is_raised(error: Exception) -> None:
    """Itself, through a process that waits for it: a copy has no file, or cannot be made."""
    env = simpy.Environment()
    clock = Clock(env)

    def failing():
        yield clock.until(1.0)
        raise error

    def waiting():
        yield env.process(failing())

    outer = waiting if isinstance(error, OSError) else failing
    with pytest.raises(type(error)) as raised:
        clock.run(env.process(outer()))

    assert raised.value is error
