"""The ready population of real devices, and how far it is from the literature's."""

from __future__ import annotations

import numpy as np
import pytest

from simfl.streams import Streams
from simfl.system.catalogue import Catalogue
from simfl.system.populations.device import DeviceMix
from simfl.system.populations.paper import Paper

FEMNIST_CNN_FORWARD_FLOPS = 2 * 17.2e6
"""LEAF's CNN: 17.2 million multiply-accumulates forward."""


def test_it_is_ready() -> None:
    """With the number of clients alone it builds, with the spreads of phones in the field."""
    world = DeviceMix(clients=1000).build(Streams(1), Catalogue())

    classes = {device.device_class for device in world.devices}
    assert classes == {"phone", "sbc", "edge_gpu"}
    assert np.log(world.speed_factor).std() == pytest.approx(0.5, rel=0.1)
    assert world.compute_noise == 0.05


def test_a_larger_model_takes_longer_on_devices_only() -> None:
    """Twice the operations, twice the time on `device`; on `paper` a step is a step."""
    for population, factor in ((DeviceMix(clients=10), 2.0), (Paper(clients=10), 1.0)):
        world = population.build(Streams(1), Catalogue())
        once, twice = (world.cycles(np.arange(10), 1, flops) for flops in (1e6, 2e6))

        np.testing.assert_allclose(twice / once, factor)


def test_the_literature_is_a_thousand_times_too_fast_for_a_cnn() -> None:
    """2e4 cycles a sample, as in papers, against what a phone takes for LEAF's FEMNIST CNN."""
    phone = Catalogue().device("phone_high_sd865").processor

    cycles = phone.cycles(1, FEMNIST_CNN_FORWARD_FLOPS)

    assert 1e3 < float(cycles) / 2e4 < 1e4
