"""The senders' count of messages, by hand."""

import numpy as np
import pytest

from simfl.eventlog import accounts
from simfl.eventlog.accounts import Messages


def columns(*lists):
    """Lists as arrays: actors, start_s, due_s, size_bytes."""
    return map(np.array, lists)


@pytest.mark.parametrize(
    ("horizon_s", "sent", "in_flight"),
    [
        (0.5, [[10, 0, 0], [0, 0, 0]], [[10, 0, 0], [0, 0, 0]]),
        (1.0, [[10, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]),
        (2.5, [[10, 0, 5], [7, 0, 0]], [[0, 0, 5], [7, 0, 0]]),
        (9.0, [[10, 0, 5], [7, 8, 0]], [[0, 0, 0], [0, 0, 0]]),
    ],
)
@pytest.mark.parametrize("blocks", [1, 1000])
def test_a_message_is_sent_when_it_sets_out(horizon_s, sent, in_flight, blocks, monkeypatch):
    """Not when it was planned, and in flight until it is due; however often one adds up."""
    monkeypatch.setattr(accounts, "_MOST_BLOCKS", blocks)
    messages = Messages(3)
    messages.send(*columns([0], [0.0], [1.0], [10]), 0.0, uplink=False)
    messages.send(*columns([0, 1], [1.0, 4.0], [3.0, 5.0], [7, 8]), 0.0, uplink=True)
    messages.send(*columns([2], [2.0], [6.0], [5]), min(horizon_s, 2.0), uplink=False)

    found = messages.by(horizon_s)

    assert found[0].tolist() == sent
    assert found[1].tolist() == in_flight


def test_thousands_in_flight_are_held_in_columns():
    """What has not arrived is joined, so that adding up again and again stays cheap."""
    messages = Messages(1)
    for _ in range(5000):
        messages.send(*columns([0], [0.0], [9.0], [1]), 0.0, uplink=True)

    assert len(messages._under_way[True]) <= 1001
    assert messages.by(1.0)[1].sum() == 5000
