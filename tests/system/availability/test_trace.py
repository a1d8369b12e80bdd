"""Availability replayed from a trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.runs.warning_rules import foreseen
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.streams import Streams
from simfl.system.availability.trace import Trace
from simfl.system.traces.tables import make_intervals
from tests.small import SMALL, small

NOBODY = Streams(0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three clients: 10-20 and 50-60 of 100 s; never; 0-5 and 30-40 of 40 s (across the end)."""
    intervals, _ = make_intervals(
        [0, 0, 2, 2], [10.0, 50.0, 0.0, 30.0], [20.0, 60.0, 5.0, 40.0], [100.0, 70.0, 40.0]
    )
    intervals.write(tmp_path / "trace.parquet")
    return tmp_path / "trace.parquet"


def test_a_listed_trace_by_hand(file: Path) -> None:
    """Client 3 replays client 0 of the trace, and so on; every period is alike."""
    model, clients = Trace(file, order="listed"), np.arange(6)

    def there(time_s: float) -> list[bool]:
        return model.available(clients, time_s, NOBODY).tolist()

    assert there(0.0) == [False, False, True] * 2
    assert there(10.0) == [True, False, False] * 2
    assert there(20.0) == [False, False, False] * 2
    assert there(155.0) == [True, False, True] * 2  # 55 of 100 s, 35 of 40 s


def test_next_and_until_by_hand(file: Path) -> None:
    """The next interval, in this period or the next; one goes on across the period's end."""
    model, clients = Trace(file, order="listed"), np.arange(3)

    assert model.next_s(clients, 6.0, NOBODY).tolist() == [10.0, np.inf, 30.0]
    assert model.next_s(clients, 65.0, NOBODY).tolist() == [110.0, np.inf, 70.0]
    assert model.until_s(clients[[0, 2]], 15.0 + 1000, NOBODY)[0] == 1020.0
    assert model.until_s(clients[2:], 35.0, NOBODY)[0] == 45.0
    assert model.next_s(clients[2:], 35.0, NOBODY)[0] == 35.0


def test_always_there(tmp_path: Path) -> None:
    """An interval as long as the period never ends."""
    whole, _ = make_intervals([0], [0.0], [50.0], [50.0])
    whole.write(tmp_path / "whole.parquet")

    assert (
        Trace(tmp_path / "whole.parquet").until_s(np.arange(3), 7.0, NOBODY).tolist()
        == [np.inf] * 3
    )


def test_never_there(tmp_path: Path) -> None:
    """A trace without an interval: nobody, never."""
    empty, _ = make_intervals([], [], [], [50.0, 60.0])
    empty.write(tmp_path / "empty.parquet")
    model, clients = Trace(tmp_path / "empty.parquet"), np.arange(4)

    assert not model.available(clients, 3.0, NOBODY).any()
    assert model.next_s(clients, 3.0, NOBODY).tolist() == [np.inf] * 4
    assert model.until_s(clients, 3.0, NOBODY).tolist() == [3.0] * 4


def test_offset(file: Path) -> None:
    """Simulated time 0 is `offset_s` of the trace."""
    plain, shifted = Trace(file, "listed"), Trace(file, "listed", offset_s=12.0)
    clients = np.arange(3)

    for time_s in (0.0, 3.0, 77.0):
        np.testing.assert_array_equal(
            shifted.available(clients, time_s, NOBODY),
            plain.available(clients, time_s + 12.0, NOBODY),
        )


def test_drawn_clients_have_the_trace_s_availability(file: Path) -> None:
    """Each client replays one for good, a third of them each of the three."""
    model, clients = Trace(file), np.arange(30_000)

    never = np.ones(clients.size, dtype=bool)
    for time_s in np.arange(0.5, 200, 1.0):
        never &= ~model.available(clients, time_s, NOBODY)

    assert abs(never.mean() - 1 / 3) < 4 * np.sqrt(2 / 9 / clients.size)
    alone = model.available(clients[5:6], 15.0, NOBODY)[0]
    assert alone == model.available(clients, 15.0, NOBODY)[5]


def test_next_is_the_first_moment_there(file: Path) -> None:
    """Stepping through time finds what `next_s` and `until_s` say."""
    model, clients = Trace(file, "listed"), np.array([0, 2])
    grid = np.arange(0, 400, 0.5)
    course = np.array([model.available(clients, at, NOBODY) for at in grid])

    for place, client in enumerate(clients):
        one = np.array([client])
        for start in range(0, 600, 7):
            state = course[start, place]
            ends = np.flatnonzero(course[start:, place] != state)[0] * 0.5 + grid[start]
            ask = model.until_s if state else model.next_s
            assert ask(one, grid[start], NOBODY)[0] == ends


def test_a_scenario_names_a_file_beside_it_or_below_the_data_root(
    file: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in neither place is refused with its key and both places, however the root is set."""
    from simfl.assembly.assemble import assemble
    from simfl.assembly.simulation import Options

    def scenario(folder: Path, **data: str) -> Scenario:
        availability = {"name": "trace", "file": file.name}
        population = {**SMALL["population"], "availability": availability}
        content = {**SMALL, "population": population, "data": {**SMALL["data"], **data}}
        return Scenario.from_mapping(content, folder)

    def found(one: Scenario, root: Path | None = None) -> Path:
        part = assemble(one, Options(data_root=root)).parts[("population", "availability")]
        return Path(part.file)

    elsewhere, empty = tmp_path_factory.mktemp("scenarios"), tmp_path_factory.mktemp("empty")
    key = r"population\.availability\.file: found 'trace.parquet', but no file "
    with pytest.raises(ScenarioError, match=f"{key}{elsewhere}/trace.parquet, and no data root is"):
        assemble(scenario(elsewhere))
    monkeypatch.setenv("SIMFL_DATA", str(empty))
    assert found(scenario(file.parent)) == file
    with pytest.raises(
        ScenarioError, match=f"{key}.*not below the data root {empty}; .*data.root$"
    ):
        assemble(scenario(elsewhere))
    assert found(scenario(elsewhere, root=str(file.parent))) == file
    # What a run leaves behind finds it again, wherever it is read.
    simulation = assemble(scenario(elsewhere, root=str(empty)), Options(data_root=file.parent))
    again = Scenario.from_mapping(simulation.resolved.as_mapping(), empty)
    assert found(again) == file
    monkeypatch.setenv("SIMFL_DATA", str(file.parent))
    assert found(scenario(elsewhere)) == file


@pytest.mark.parametrize(("clients", "told"), [(6, False), (7, True), (12, True)])
@pytest.mark.parametrize("order", ["drawn", "listed"])
def test_clients_in_step_are_told(file: Path, order: str, clients: int, told: bool) -> None:
    """More than two for each of the trace's three."""
    availability = {"name": "trace", "file": str(file), "order": order}
    whole = small(population={"clients": clients, "availability": availability})

    said = [one.message for one in foreseen(assemble(whole, Options())) if one.kind == "in_step"]

    assert (
        said
        == [
            f"{clients} clients replay the 3 clients of trace.parquet: on average"
            f" {clients / 3:.3g} come and go in the same moments"
        ]
        * told
    )
