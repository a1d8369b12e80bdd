"""The shipped link profiles: all there, in SI units, and plausible against published figures."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.system.catalogue import Catalogue
from simfl.system.link import FixedRateLink
from simfl.system.link_columns import LinkColumns
from simfl.system.shannon import ShannonLink
from tests.system.radio import paths

SURVEYED = """
ethernet_10g ethernet_1g lora_sf7 lte_2021 lte_cat4 nb_iot nr_mmwave nr_sub6_global_median
nr_sub6_lowband wan_edge_cloud wifi4_n wifi5_ac wifi6_ax
"""
CELLS = "cell_macro cell_umi"
UNITS = ("_s", "_hz", "_w", "_bps", "_per_byte", "_per_bps", "_db", "_m")
WITHOUT_UNIT = {
    "loss_probability",
    "duty_cycle",
    "bandwidth_efficiency",
    "path_loss_exponent",
    "fading_blocks",
}
"""Counts and shares."""

LINKS = Catalogue().list_profiles("link")


def test_every_surveyed_link_ships() -> None:
    """Thirteen links of the hardware survey, and two radio cells."""
    assert sorted([*SURVEYED.split(), *CELLS.split()]) == LINKS


@pytest.mark.parametrize("name", LINKS)
def test_keys_carry_their_units(name: str) -> None:
    """Every figure's key ends in its unit, and values have the magnitude of that unit."""
    profile = Catalogue().profile("link", name)
    figures = {path.rpartition(".")[2]: path for path in profile.figures()}

    for key in figures:
        assert key.endswith(UNITS) or key in WITHOUT_UNIT, key
    values = profile.values["link"]
    assert 1e-5 < values["rtt_s"] < 2
    assert values["jitter_s"] < values["rtt_s"]
    assert values["power_transmit_w"] < 5
    assert values.get("slope_up_w_per_bps", 0.0) < 1e-6


@pytest.mark.parametrize("name", SURVEYED.split())
def test_rates_have_the_magnitude_of_bits_per_second(name: str) -> None:
    """From LoRa's 5 kbit/s to Ethernet's 9.4 Gbit/s, up no faster than down."""
    link = Catalogue().link(name)

    assert isinstance(link, FixedRateLink)
    assert 5e3 < link.uplink_bps < 1e10
    assert link.uplink_bps <= link.downlink_bps or name == "nb_iot"


def test_five_megabytes_by_the_notes() -> None:
    """NB-IoT: 22 minutes. LoRa: LeNet-5 is 361 s on the air, 10 h at its duty cycle."""
    nb_iot, lora = Catalogue().link("nb_iot"), Catalogue().link("lora_sf7")

    minutes = float(nb_iot.transmit(8 * 5e6, uplink=True).duration_s) / 60
    hours = float(lora.transmit(32 * 61_706, uplink=True).duration_s) / 3600

    assert minutes == pytest.approx(22, abs=0.5)
    assert hours == pytest.approx(10.0, abs=0.05)


def test_phones_draw_what_was_fitted() -> None:
    """LTE of 2021 at its median uplink: 0.58 W + 34 * 76.7 mW; a tail of 10.5 s at 0.87 W."""
    lte = Catalogue().link("lte_2021")
    cost = lte.transmit(34e6, uplink=True)

    above_idle_w = float(cost.active_j / cost.duration_s)
    tail_j = float(LinkColumns.of([lte]).take(0).tail_j(1e6))

    assert above_idle_w + lte.power_idle_w == pytest.approx(0.58 + 34 * 0.0767)
    assert tail_j == pytest.approx(10.5 * 0.87)


@pytest.mark.parametrize("name", CELLS.split())
def test_cells_carry_megabits_over_some_hundred_metres(name: str) -> None:
    """At 300 m, a median client without fading has 0.5 to 40 Mbit/s up."""
    link = Catalogue().link(name)
    assert isinstance(link, ShannonLink)

    rates = link.rate_bps(uplink=True) * link.channel(paths(np.full(999, 300.0), fades=False))

    assert 0.5e6 < np.median(rates) < 40e6
