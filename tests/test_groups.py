"""Groups of clients with an availability and an allocation of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simfl import Scenario
from simfl.assembly.assemble import assemble, outlined
from simfl.assembly.groups import availability_of
from simfl.assembly.simulation import Options
from simfl.assembly.unread import held
from simfl.runs.execution import run
from simfl.runs.warning_rules import foreseen
from simfl.scenario.yaml_source.error import ScenarioError
from tests.small import small

LEAVES = {"name": "absence", "share": 0.5, "from_s": "12:00"}
SLOW = {"name": "capped", "share": 0.6}
PLAIN = small(
    data={"name": "sizes", "examples_per_client": 50, "input_shape": [64]},
    model="linear",
    algorithm={"name": "none", "local": {"epochs": 100}},
    population={
        "clients": 9,
        "start_time": "11:59:59",
        "compute_noise": 0.2,
        "groups": [
            {"device": "rpi_4b", "link": "wifi5_ac", "count": 6},
            {"device": "jetson_nano", "link": "ethernet_1g", "count": 3},
        ],
    },
    stop={"time_s": 1.2, "versions": 999},
)
OWN = {"population.groups.0.availability": LEAVES, "population.groups.0.allocation": SLOW}


def unread(scenario: Scenario) -> dict[str, str]:
    """What nothing reads of the scenario's content, by its dotted key."""
    found = held(scenario, outlined(scenario).unread)
    return {".".join(map(str, keys)): reason for keys, reason in found.items()}


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    """Computations of the run as it is, and of the run in which the first group has its own
    part.
    """
    folder = tmp_path_factory.mktemp("groups")
    scenarios = {"plain": PLAIN, "own": PLAIN.with_overrides(OWN)}
    return {name: run(one, folder / name).details("compute") for name, one in scenarios.items()}


def test_half_of_a_group_leaves_at_noon(computed: dict[str, pd.DataFrame]) -> None:
    """A second after the run has begun, within one client; the others stay to its end."""
    last_s = computed["own"].groupby("client")["start_s"].max()

    gone = last_s < 1.05  # whoever downloads at noon may still begin to compute
    assert 2 <= gone[:6].sum() <= 4 and not gone[6:].any()
    assert last_s[~gone].min() > 1.1


def test_a_group_has_clocks_of_its_own(computed: dict[str, pd.DataFrame]) -> None:
    """The highest level of a Pi 4 at or below 60 % of 1.8 GHz; Jetsons at their highest."""
    hz = computed["own"].groupby("client")["frequency_hz"].unique()

    assert [one.tolist() for one in hz] == [[1.0e9]] * 6 + [[9.216e8]] * 3


def test_what_one_group_has_changes_no_draw_of_another(computed: dict[str, pd.DataFrame]) -> None:
    """The n-th computations of the Jetsons, and of the Pis themselves, take the same cycles."""
    cycles = {
        name: [own["cycles"].to_list() for _, own in found.groupby("client")]
        for name, found in computed.items()
    }

    for plain, own in zip(cycles["plain"], cycles["own"], strict=True):
        whole = min(len(plain), len(own)) - 1  # the end of a run cuts the last one off
        assert whole > 5 and plain[:whole] == own[:whole]


def test_a_group_of_its_own_leaves_the_others_absences_as_they_were() -> None:
    """Clients with the common model leave at the same times as without the group."""
    common = PLAIN.with_overrides({"population.availability": {**LEAVES, "name": "daily_absence"}})
    mixed = common.with_overrides({"population.groups.0.availability": "always"})
    there = []
    for scenario in (common, mixed):
        outline = outlined(scenario)
        model = availability_of(scenario, outline.parts, outline.streams)
        there.append(model.available(np.arange(9), 1.0, outline.streams))

    assert there[0][6:].tolist() == there[1][6:].tolist()
    assert not there[0][:6].all() and there[1][:6].all()


def test_bare_names_and_null_are_what_they_stand_for() -> None:
    """Equal simulations, that with a group's null included; the resolved file reads back."""
    named = PLAIN.with_overrides({"population.groups.0.allocation": "min_energy"})
    whole = PLAIN.with_overrides({"population.groups.0.allocation": {"name": "min_energy"}})
    null = PLAIN.with_overrides({"population.groups.0.allocation": None})

    assert outlined(named).digest == outlined(whole).digest != outlined(PLAIN).digest
    assert outlined(null).digest == outlined(PLAIN).digest
    assert unread(null) == unread(PLAIN)
    again = Scenario.from_mapping(outlined(named).resolved.as_mapping())
    assert outlined(again).digest == outlined(named).digest


def test_absences_that_begin_after_the_end_are_warned_of(tmp_path: Path) -> None:
    """Noon, of a moment from midnight on; not where some have left, nor where nobody is to."""
    early = PLAIN.with_overrides(OWN | {"stop": {"versions": 2}, "population.start_time": "00:00"})
    nobody = early.with_overrides({"population.groups.0.availability.share": 0.0})
    away = early.with_overrides({"population.start_time": "12:30"})
    found = {
        name: [one for one in run(scenario, tmp_path / name).warnings if one.kind == "nobody_left"]
        for name, scenario in {"early": early, "nobody": nobody, "away": away}.items()
    }

    (one,) = found["early"]
    assert 2 <= one.count <= 4
    assert one.message.startswith(f"{one.count} clients were to leave at 12:00 (absence); the run")
    assert "ended at 00:00, after 0." in one.message
    assert not found["nobody"] and not found["away"]


def test_clients_that_left_before_the_run_began_are_warned_of() -> None:
    """After midnight, of a run of the evening; not of the next day, nor where they are back."""
    night = PLAIN.with_overrides(OWN | {"population.start_time": "23:30"})
    said = {
        name: [one for one in foreseen(assemble(scenario, Options())) if one.kind == "left_before"]
        for name, scenario in {
            "night": night.with_overrides({"population.groups.0.availability.from_s": "00:10"}),
            "next day": night.with_overrides({"population.groups.0.availability.from_s": 87000}),
            "back": night.with_overrides({"population.groups.0.availability.to_s": "23:40"}),
            "nobody": night.with_overrides({"population.groups.0.availability.share": 0.0}),
            "never there": night.with_overrides({"population.groups.0.availability.from_s": 0}),
            "at the start": night.with_overrides(
                {"population.groups.0.availability.from_s": "23:30"}
            ),
        }.items()
    }

    (one,) = said.pop("night")
    assert 2 <= one.count <= 4
    assert one.message == (
        f"{one.count} clients had left for good at 00:10, before the run began at 23:30: 00:10 of"
        " the next day is 87000"
    )
    assert not any(said.values())


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({}, "population.start_time", "depends on the time of day"),
        (
            {"population.groups.0.allocation": "max", "population.groups.1.allocation": SLOW}
            | {"decisions.allocation": "min_energy"},
            "decisions.allocation",
            "every group has its own",
        ),
        (
            {"population.groups.0.availability": "always", "population.leaving": "abort"},
            "population.leaving",
            "no client ever leaves",
        ),
    ],
)
def test_what_nothing_reads_is_told(changes: dict[str, Any], key: str, reason: str) -> None:
    """With the reason; where one group reads it, it is read."""
    assert reason in unread(PLAIN.with_overrides(changes))[key]
    assert key not in unread(PLAIN.with_overrides(OWN | {key: changes.get(key, "11:59:59")}))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"start_time": "11:30"},
            "unknown key 'start_time', did you mean 'population.",
        ),
        ({"population.start_time": "24:30"}, "found '24:30', accepted: text such as"),
        ({"population.groups.0.availability": {"share": 0.5}}, "availability: found {share: 0.5}"),
        ({"population.groups.0.availability.name": "gone"}, "unknown name 'gone'"),
        (
            {"population.groups.0.availability": LEAVES | {"from_s": "noon"}},
            "availability.from_s: found 'noon', accepted: a number >= 0 or text such as \"11:30\"",
        ),
        (
            {"population.groups.0.availability": {"name": "absence", "from_s": 0, "to_s": "11:00"}},
            "availability.to_s: the absence is over at 11:00, before the run begins at 11:59:59"
            " (population.start_time); 11:00 of the next day is 126000",
        ),
        ({"population.groups.0.allocation": {"name": "capped"}}, "allocation.frequency_hz: found"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], line: str) -> None:
    """Before anything is run, with the key."""
    with pytest.raises(ScenarioError) as refused:
        outlined(PLAIN.with_overrides(changes))

    assert line in str(refused.value)
