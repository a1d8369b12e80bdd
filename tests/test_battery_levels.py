"""Levels of batteries, found again from the log."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import simfl
from simfl.assembly.assemble import outlined
from simfl.protocols.clock import Stalled
from simfl.runs.battery_levels import battery_levels
from simfl.runs.summary import main_figures
from simfl.scenario.scenario import Scenario
from simfl.study.rows import row
from simfl.system.battery import Batteries
from tests.protocols.faults import faulty
from tests.protocols.test_hand_timeline import PROFILES, SCENARIO
from tests.small import small

PHONES = {"groups": [{"device": "phone_high_sd865", "link": "lte_2021", "share": 1.0}]}
EMPTYING = {"initial": [4e-6, 4e-5], "lowest": 1e-6, "charge_w": 0.0}
# Plugged in a second after midnight or so, to be unplugged before the run is over.
CHARGED = {**EMPTYING, "charge_w": 3.0, "plug_in_s": 1.0, "unplug_s": 1.5, "hours_spread_s": 0.3}
OF_GROUPS = [
    {"device": "phone_high_sd865", "link": "lte_2021", "share": 0.25},
    {"device": "phone_high_sd865", "link": "lte_2021", "share": 0.75},
]
HARVESTING = {**EMPTYING, "harvest_w": [[0.0, 0.5], [0.7, 2.0]], "harvest_spread": 0.5}


@pytest.mark.grid(3)
@pytest.mark.parametrize("batteries", [EMPTYING, CHARGED, HARVESTING])
@pytest.mark.parametrize("leaving", ["ignore", "pause", "abort"])
@pytest.mark.parametrize("sharing", ["dedicated", "throughput_fair"])
def test_levels_are_those_of_the_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batteries: dict[str, Any],
    leaving: str,
    sharing: str,
) -> None:
    """Wherever the run has looked at a battery, which runs empty, restarts and is charged."""
    known: dict[tuple[int, float], float] = {}
    advance = Batteries.advance

    def watched(self: Batteries, clients: Any, *arguments: Any) -> Any:
        flow = advance(self, clients, *arguments)
        places = zip(clients.tolist(), self.time_s[clients].tolist(), strict=True)
        known.update(zip(places, self.level(clients).tolist(), strict=True))
        return flow

    absences = {
        "name": "renewal",
        "present": {"mean_s": 0.3, "law": "exponential"},
        "absent": {"mean_s": 0.1, "law": "exponential"},
    }
    population = {**PHONES, "batteries": batteries, "leaving": leaving, "availability": absences}
    population |= {"access_sharing": sharing}
    with monkeypatch.context() as patch, suppress(Stalled):  # once all have run empty
        patch.setattr(Batteries, "advance", watched)
        simfl.run(faulty("asynchronous", versions=1000, **population), tmp_path / "run")
    run = simfl.load_run(tmp_path / "run")

    levels = battery_levels(run)

    found = {(one.client, one.time_s): one.level for one in levels.itertuples()}
    shared = found.keys() & known.keys()
    assert len(shared) > 0.9 * len(found)
    assert {place: found[place] for place in shared} == pytest.approx(
        {place: known[place] for place in shared}, abs=1e-12
    )
    assert levels["level"].between(0, 1).all()
    if batteries is EMPTYING:
        assert (run.events["kind"] == "battery_empty").any()
    else:
        assert (levels.groupby("client")["level"].diff() > 0).any()


def test_a_paused_round_draws_idle_power_while_it_is_paused(tmp_path: Path) -> None:
    """60 J, 2 W from the charger, 1.5 W idle: full while it is away, and then at work.

    The fast device gets the model in 0.75 s. Computing takes a second at 21.6 W, half of which is
    done when it leaves at 1.25 s, with 49.825 J; it is full when it is back at 101.25 s, and has 60
    - 9.8 J at 101.75 s. Its upload draws 3 W for 1.25 s.
    """
    fast = PROFILES["fast"].replace("power_idle_w: 1.0", "power_idle_w: 1.0\nbattery_j: 60.0")
    fast = fast.replace("power_static_w: 0.5", "power_static_w: 20.0")
    (tmp_path / "profiles").mkdir()
    for name, text in {**PROFILES, "fast": fast}.items():
        (tmp_path / "profiles" / f"{name}.yaml").write_text(text)
    away = {"name": "tests.protocols.availabilities:Away", "clients": [0]}
    charged = {"initial": [1, 1], "lowest": 0.2, "charge_w": 2.0, "plug_in_s": 0}
    scenario = yaml.safe_load(SCENARIO)
    scenario["protocol"], scenario["stop"] = "synchronous", {"versions": 1}
    scenario["population"] |= {
        "availability": {**away, "from_s": 1.25, "back_s": 101.25},
        "leaving": "pause",
        "batteries": {**charged, "unplug_s": 43200, "hours_spread_s": 0},
    }
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(scenario))

    levels = battery_levels(simfl.run(tmp_path / "scenario.yaml", tmp_path / "run"))

    assert levels["time_s"].tolist() == [0.0, 0.75, 101.75, 103.0, 103.75]
    joules = [60.0, 59.625, 50.2, 48.95, 49.325]
    assert (60.0 * levels["level"]).tolist() == pytest.approx(joules)


def test_charged_and_spilled_joules_are_those_of_the_supply(tmp_path: Path) -> None:
    """2 W for the whole run, into the battery or beyond; a full one takes what it loses."""
    day = {"plug_in_s": 0.0, "unplug_s": 86_399.0, "hours_spread_s": 0.0, "charge_w": 2.0}
    scenario = small(
        stop={"versions": 20},
        population={**PHONES, "batteries": {**day, "initial": [1.0, 1.0]}, "start_time": "01:00"},
    )
    run = simfl.run(scenario, tmp_path / "run")

    levels = battery_levels(run)

    last = levels.groupby("client").last()
    end_s = run.manifest["horizon_s"]
    assert last["time_s"].tolist() == [end_s] * 8
    np.testing.assert_allclose(last["charged_j"] + last["spilled_j"], 2.0 * end_s)
    assert (last["charged_j"] > 0).all() and (last["spilled_j"] > 0).all()
    clients = run.clients.set_index("client")
    left_j = (last["level"] - 1.0) * clients["battery_j"]
    np.testing.assert_allclose(left_j, last["charged_j"] - clients["energy_j"], atol=1e-6)


def test_groups_have_batteries_of_their_own(tmp_path: Path) -> None:
    """The first group has mains power; without the group's key, the population's batteries."""
    stop = {"versions": 20}
    own = {"groups": [OF_GROUPS[0], {**OF_GROUPS[1], "batteries": EMPTYING}]}
    with suppress(Stalled):
        simfl.run(small(stop=stop, population=own), tmp_path / "own")
    run = simfl.load_run(tmp_path / "own")
    group = outlined(Scenario.from_yaml(tmp_path / "own" / "scenario.yaml"))
    which = group.parts[("population",)].group_index(group.streams)

    levels = battery_levels(run)

    assert set(levels["client"]) == set(np.flatnonzero(which == 1)) and (which == 0).any()
    assert (levels.groupby("client")["level"].first() <= 4e-5).all()
    assert (levels["level"] == 0).any()
    emptied = run.events.loc[run.events["kind"] == "battery_empty", "client"]
    assert emptied.size and set(emptied) <= set(levels["client"])


def test_only_what_runs_on_a_battery_has_levels(tmp_path: Path) -> None:
    """Phones have, from time 0 on; boards, and everybody without batteries, have none."""
    stop = {"versions": 1}
    mixed = simfl.run(small(stop=stop, population={"batteries": {}}), tmp_path / "mixed")
    mains = simfl.run(small(stop=stop), tmp_path / "mains")

    levels = battery_levels(mixed)

    phones = mixed.clients.query("device == 'phone_high_sd865'")["client"]
    assert set(levels["client"]) == set(phones) and 0 < len(phones) < 8
    assert set(levels.query("time_s == 0")["client"]) == set(phones)
    assert battery_levels(mains).empty


def test_a_log_of_rounds_tells_how_batteries_began(tmp_path: Path) -> None:
    """Without rows of clients there are the levels at time 0, and no others."""
    scenario = small(population={"batteries": {}}, algorithm="none", log={"level": "rounds"})
    run = simfl.run(scenario, tmp_path / "run")

    levels = battery_levels(run)

    phones = run.clients.query("device == 'phone_high_sd865'")["client"]
    assert levels["client"].tolist() == phones.tolist()
    assert (levels["time_s"] == 0.0).all()


@pytest.mark.parametrize("batteries", [EMPTYING, CHARGED, HARVESTING, None])
def test_figures_of_a_run_are_those_of_its_levels(
    tmp_path: Path, batteries: dict[str, Any] | None
) -> None:
    """At the end of the run, also of clients that are off or at work; none on mains power."""
    population = PHONES | ({} if batteries is None else {"batteries": batteries})
    with suppress(Stalled):
        simfl.run(faulty("asynchronous", versions=40, **population), tmp_path / "run")
    run = simfl.load_run(tmp_path / "run")

    names = ("battery_level", "lowest_battery_level", "emptied_clients")
    found = [run.manifest.get(name) for name in names]
    summary = dict(main_figures(run.manifest, None))
    if batteries is None:
        assert found == [None] * 3 and "batteries at the end" not in summary
        return
    levels = battery_levels(run)
    last = levels.loc[levels.groupby("client")["time_s"].idxmax()]
    emptied = run.events.loc[
        (run.events["kind"] == "battery_empty") | (run.events["unmet_j"] > 0), "client"
    ].nunique()
    assert last["time_s"].to_numpy() == pytest.approx(run.manifest["horizon_s"])
    assert found == [pytest.approx(last["level"].mean()), last["level"].min(), emptied]
    assert summary["batteries at the end"].endswith(f", {emptied} ran empty")
    figures = row(run, {})
    assert [figures[name] for name in names] == found


def test_a_battery_that_begins_with_nothing_has_not_run_empty(tmp_path: Path) -> None:
    """Its level rises from 0 on."""
    charged = {"initial": [0.0, 0.0], "lowest": 0.001, "charge_w": 20.0, "unplug_s": 43_200.0}
    batteries = charged | {"plug_in_s": 0.0, "hours_spread_s": 0.0}
    scenario = small(population=PHONES | {"batteries": batteries}, algorithm="none")

    run = simfl.run(scenario, tmp_path / "run")

    assert battery_levels(run).groupby("client")["level"].min().eq(0.0).all()
    assert run.manifest["lowest_battery_level"] > 0.0 == run.manifest["emptied_clients"]
