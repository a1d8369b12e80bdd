"""A large population costs arrays: who is not in flight is neither an object nor an event."""

from __future__ import annotations

import gc

import pytest

from tests.small import simulated, small


def counted(clients: int, **changes: object) -> tuple[int, int, int]:
    """Objects that a run leaves behind, its SimPy events, and its rows."""
    scenario = small(
        data={"name": "sizes", "examples_per_client": 100},
        population={"clients": clients, "edges": 4, **changes},
        algorithm="none",
        model="lenet",
        protocol={"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 2},
        decisions={"selection": {"name": "random", "count": 20}},
        stop={"versions": 4},
        log={"level": "rounds"},
    )
    gc.collect()
    before = len(gc.get_objects())
    run = simulated(scenario)[1]
    gc.collect()
    return len(gc.get_objects()) - before, next(run.env._eid), run.log.rows_written


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["dedicated", "ofdma_equal"])
def test_clients_that_wait_are_no_objects_and_no_events(sharing: str) -> None:
    """Fifty times the clients, as many in flight: the same objects and events, more rows.

    The rows are those of who waited from beginning to end.
    """
    counted(400, access_sharing=sharing)  # whatever is made once

    few, many = (counted(clients, access_sharing=sharing) for clients in (400, 20_000))

    assert many[0] - few[0] < 5_000
    assert abs(many[1] - few[1]) < 0.1 * few[1]
    assert many[2] - few[2] > 18_000
