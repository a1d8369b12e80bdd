"""Rivals whose links have different rates, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import simfl
from simfl.assembly.assemble import outlined
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from tests.protocols.test_hand_timeline import PROFILES, SCENARIO
from tests.small import small

RADIO = """
kind: link
link: {{name: fixed_rate, uplink_bps: {rate}, downlink_bps: {rate}, rtt_s: 0, jitter_s: 0,
       power_transmit_w: 4, power_receive_w: 4, power_idle_w: 0}}
"""
IDLE_W, RADIO_W = 1.0, 4.0


def downloads(folder: Path, way: Any, medium: str | None) -> tuple[list[float], list[float]]:
    """Seconds and joules of the first messages, 128 bits over links of 256 and of 64 bit/s."""
    (folder / "profiles").mkdir()
    links = {"quick": RADIO.format(rate=256), "lame": RADIO.format(rate=64)}
    for name, text in {**PROFILES, **links}.items():
        (folder / "profiles" / f"{name}.yaml").write_text(text)
    scenario = yaml.safe_load(SCENARIO)
    groups = [{"device": "slow", "link": link, "count": 1, "medium": medium} for link in links]
    scenario["population"] |= {"groups": groups, "access_sharing": way}
    scenario |= {"protocol": "synchronous", "stop": {"versions": 1}}
    (folder / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    run = simfl.run(folder / "scenario.yaml", folder / "run")
    assert all(run.manifest["invariants"].values()), run.manifest["violations"]
    rows = run.events.query("kind == 'download' and client >= 0").sort_values("client")
    return rows["duration_s"].tolist(), rows["energy_j"].tolist()


@pytest.mark.parametrize(
    ("way", "took_s", "sent_s"),
    [
        # 128 and 32 bit/s; once the first is through, the second has 64.
        ("airtime_fair", (1.0, 2.5), (0.5, 2.0)),
        # 51.2 bit/s for each.
        ("throughput_fair", (2.5, 2.5), (0.5, 2.0)),
        # Half of the band each, all the time.
        ("ofdma_equal", (1.0, 2.5), (1.0, 2.5)),
        # Half of the pipe, but no more than one's own link carries: 80 and 64 bit/s.
        ({"name": "processor_sharing", "capacity_bps": 160}, (1.6, 2.0), (0.5, 2.0)),
        # In a queue, each at its own rate.
        ("fifo", (0.5, 2.5), (0.5, 2.0)),
        # What the second cannot take is the first one's: 136 and 64 bit/s.
        (
            {"name": "max_min", "access_bps": 200, "backhaul_bps": 1000},
            (128 / 136, 2.0),
            (0.5, 2.0),
        ),
    ],
    ids=str,
)
def test_each_at_a_rate_of_its_own(
    tmp_path: Path, way: Any, took_s: tuple[float, float], sent_s: tuple[float, float]
) -> None:
    """Two links on one medium: seconds, and joules of radios that send for part of them."""
    found_s, found_j = downloads(tmp_path, way, "air")

    np.testing.assert_allclose(found_s, took_s)
    np.testing.assert_allclose(found_j, IDLE_W * np.array(took_s) + RADIO_W * np.array(sent_s))


@pytest.mark.parametrize(
    ("population", "on_air"),
    [
        ({"access_sharing": "ofdma_equal"}, 1.0),
        ({"access_sharing": "airtime_fair"}, 0.25),
        (
            {
                "access_sharing": "ofdma_equal",
                "server_behind": "backhaul",
                "backhaul": "thin",
                "backhaul_sharing": {"name": "processor_sharing", "capacity_bps": 64},
            },
            0.25,
        ),
    ],
)
def test_a_radio_draws_by_the_rate_that_it_has(
    population: dict[str, Any], on_air: float, tmp_path: Path
) -> None:
    """4 W and 1/64 J per bit: four at once over 256 bit/s, and behind it a backhaul of 64."""
    sloping = RADIO.format(rate=256).replace(
        "rtt_s: 0,", "rtt_s: 0, slope_down_w_per_bps: 0.015625,"
    )
    (tmp_path / "profiles").mkdir()
    links = {"sloping": sloping, "thin": RADIO.format(rate=64)}
    for name, text in {**PROFILES, **links}.items():
        (tmp_path / "profiles" / f"{name}.yaml").write_text(text)
    scenario = yaml.safe_load(SCENARIO)
    groups = [{"device": "slow", "link": "sloping", "share": 1.0}]
    scenario["population"] |= {"groups": groups, "clients": 4, "edges": 1, **population}
    scenario |= {"protocol": "synchronous", "stop": {"versions": 1}}
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    run = simfl.run(tmp_path / "scenario.yaml", tmp_path / "run")

    assert all(run.manifest["invariants"].values()), run.manifest["violations"]
    rows = run.events.query("kind == 'download' and client >= 0")
    assert len(rows) == 4
    active_j = on_air * RADIO_W * rows["duration_s"] + 8 * rows["bytes"] / 64
    np.testing.assert_allclose(rows["active_j"], active_j)


def test_links_without_a_common_medium_are_no_rivals(tmp_path: Path) -> None:
    """Half a second and two seconds, as alone."""
    found_s, _ = downloads(tmp_path, "airtime_fair", None)

    np.testing.assert_allclose(found_s, [0.5, 2.0])


CELLS = [
    {"device": "phone_high_sd865", "link": link, "count": 4, "medium": "air"}
    for link in ("cell_umi", "cell_macro")
]


def test_one_band_has_one_width() -> None:
    """Parts of a band of 5 MHz and of one of 1 MHz are no parts of the same."""
    population = {"groups": CELLS, "access_sharing": "ofdma_equal"}
    with pytest.raises(ScenarioError, match=r"access_sharing: .*cell_umi and cell_macro"):
        outlined(small(population=population))


@pytest.mark.parametrize(
    "change",
    [
        {"access_sharing": "airtime_fair"},
        {"access_sharing": "ofdma_equal", "groups": [{**one, "medium": None} for one in CELLS]},
    ],
)
def test_bands_of_their_own_may_differ(change: dict[str, Any]) -> None:
    """Where time is shared, and on media of their own."""
    scenario: Scenario = small(population={"groups": CELLS, **change})

    assert outlined(scenario).world.num_clients == 8


LORA = [{"device": "rpi_4b", "link": "lora_sf7", "share": 1.0}]


@pytest.mark.parametrize("way", ["fifo", "throughput_fair", "airtime_fair"])
def test_nobody_takes_turns_with_links_that_are_mostly_silent(way: str) -> None:
    """A turn would last as long as the silence, in which others send: eight times too long here."""
    scenario = small(population={"edges": 1, "groups": LORA, "access_sharing": way})

    with pytest.raises(ScenarioError, match=r"lora_sf7 may send only 0.01 of the time"):
        outlined(scenario)


def test_a_channel_of_links_that_are_mostly_silent(tmp_path: Path) -> None:
    """Eight at 1 % each leave room on a channel of their rate: nobody waits for anybody."""
    ways = {"own": "dedicated", "one": {"name": "processor_sharing", "capacity_bps": 5470}}
    seconds = []
    for name, way in ways.items():
        population = {"edges": 1, "groups": LORA, "access_sharing": way}
        run = simfl.run(small(population=population, stop={"versions": 1}), tmp_path / name)
        rows = run.events[run.events["kind"] == "upload"].sort_values("client")
        seconds.append(rows["duration_s"].to_numpy())

    assert len(seconds[0]) == 8
    np.testing.assert_allclose(*seconds)
