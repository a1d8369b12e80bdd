"""What-if runs share their draws: only what was changed differs."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import simfl
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.system.failures import Failures
from tests.small import small

BASE = small(
    algorithm="none",
    population={
        "clients": 12,
        "compute_noise": 0.3,
        "transfer_noise": 0.2,
        "availability": {"name": "periodic", "period_s": 4.0, "share": 0.7},
        "groups": [
            {"device": "rpi_4b", "link": "wifi5_ac", "share": 0.5},
            {"device": "phone_high_sd865", "link": "cell_macro", "share": 0.5},
        ],
    },
    stop={"versions": 8},
)


def rows(run: simfl.LoadedRun, kind: str) -> pd.DataFrame:
    """Each client's rounds in order, with the details of one stage."""
    details = run.details(kind).dropna(subset="client").sort_values(["client", "start_s"])
    return details.assign(number=details.groupby("client").cumcount()).set_index(
        ["client", "number"]
    )


def computations(run: simfl.LoadedRun) -> pd.DataFrame:
    """Each client's computations by its client rounds, some of which end with their download."""
    begun = rows(run, "download").reset_index()[["client", "number", "time_s"]]
    found = run.details("compute").merge(
        begun.rename(columns={"time_s": "start_s"}), on=["client", "start_s"], validate="1:1"
    )
    return found.set_index(["client", "number"])


@pytest.mark.parametrize("link", ["ethernet_1g", "nb_iot", "cell_umi"])
def test_another_uplink_changes_no_other_draw(tmp_path, link):
    """The same clients compute the same noisy cycles round by round, and other links fade the same.

    Where clients take part in other rounds, their n-th client rounds are compared.
    """
    before = simfl.run(BASE, tmp_path / "before")
    scenario = BASE.with_overrides([f"population.groups.0.link={link}"])
    after = simfl.run(scenario, tmp_path / "after")

    first, second = rows(before, "compute"), rows(after, "compute")
    common = first.index.intersection(second.index)
    assert len(common) >= 24
    np.testing.assert_array_equal(first.loc[common, "cycles"], second.loc[common, "cycles"])
    cell = before.clients.set_index("client")["link"] == "cell_macro"
    for kind in ("download", "upload"):
        first, second = rows(before, kind), rows(after, kind)
        common = first.index.intersection(second.index)
        kept = common[cell[common.get_level_values("client")].to_numpy()]
        assert 8 <= len(kept) < len(common)
        np.testing.assert_allclose(
            first.loc[kept, "duration_s"], second.loc[kept, "duration_s"], rtol=1e-9
        )
        changed = common.difference(kept)
        assert (first.loc[changed, "duration_s"] != second.loc[changed, "duration_s"]).all()


def test_faults_change_no_other_draw(tmp_path):
    """Crashes of clients, edge servers and links are added: cycles stay the same.

    Of client rounds that a crash cuts short, a part of the cycles remains.
    """
    outages = {"works": {"mean_s": 1.0}, "broken": {"mean_s": 0.2}}
    often = {"works": {"mean_s": 0.3}, "broken": {"mean_s": 0.1}}
    faults = {"clients": often, "edge_servers": outages, "cloud_link": outages}
    calm = BASE.with_overrides(
        [
            "protocol={name: hierarchical, edge_rounds: 2}",
            "algorithm={name: none, local: {epochs: 200, batch_size: 16}}",
        ]
    )
    faulty = calm.with_overrides([f"population.faults={json.dumps(faults)}"])

    before, after = (
        simfl.run(one, tmp_path / name) for one, name in ((calm, "before"), (faulty, "after"))
    )

    first, second = computations(before), computations(after)
    common = first.index.intersection(second.index)
    crashes = after.details("crash")
    cut = crashes[crashes["stage"] == "compute"].set_index("client")["time_s"]
    shorter = first.loc[common, "cycles"] != second.loc[common, "cycles"]
    assert "edge_server" in set(crashes["what"])
    assert 0 < shorter.sum() <= len(cut)
    for client, number in common[shorter]:
        assert second.loc[(client, number), "cycles"] < first.loc[(client, number), "cycles"]
        ended_s = second.loc[(client, number), "time_s"]
        assert np.isclose(ended_s, cut.loc[[client]], rtol=1e-12).any()


def test_another_uplink_leaves_presence_and_crashes_as_they_were():
    """Presence and crashes at a thousand moments, on Wi-Fi and on NB-IoT."""
    base = BASE.with_overrides(
        [
            "population.availability={name: renewal, share_beta: [0.5, 4.75]}",
            "population.faults.clients={works: {mean_s: 600}, broken: {mean_s: 60}}",
        ]
    )
    seen = []
    for scenario in (base, base.with_overrides(["population.groups.0.link=nb_iot"])):
        simulation = assemble(scenario, Options(device="cpu"))
        availability = simulation.parts[("population", "availability")]
        failures = Failures(
            simulation.parts[("population",)].faults.clients, simulation.streams, "faults.client"
        )
        clients = np.arange(12)
        seen.append(
            [
                (
                    availability.available(clients, time_s, simulation.streams).tolist(),
                    failures.at(clients, time_s)[0].tolist(),
                )
                for time_s in np.linspace(0.0, 1e5, 1000)
            ]
        )

    assert seen[0] == seen[1]
    assert 0.1 < np.mean([working for _, working in seen[0]]) < 1
