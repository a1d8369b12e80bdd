"""What electricity emits and costs, by the hour and by the region."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simfl.streams import Streams
from simfl.system.catalogue import Catalogue, CatalogueError
from simfl.system.populations.catalogue import CatalogueMix, Group
from simfl.system.populations.paper import Paper
from simfl.system.region import Electricity, Region

KWH = 3.6e6
HOURLY = Region("sunny", ((0.0, 400.0), (36_000.0, 100.0), (64_800.0, 500.0)), ((0.0, 0.3),))
EVEN = Region("even", ((0.0, 50.0),))


def test_joules_are_weighed_by_the_hour() -> None:
    """1 kWh from 9 to 11 h: half at 400, half at 100 g; a day: (10 * 400 + 8 * 100 + 6 * 500) / 24.

    A row over midnight, one of no length, and the next day's are counted alike.
    """
    grid = Electricity([HOURLY], np.zeros(1, dtype=np.int64))
    start_s = np.array([9, 0, 23, 12, 33]) * 3600.0
    end_s = np.array([11, 24, 25, 12, 35]) * 3600.0

    grams, money = grid.counted(np.zeros(5, dtype=int), start_s, end_s, np.full(5, KWH))

    np.testing.assert_allclose(grams, [250, 7800 / 24, 450, 100, 250])
    np.testing.assert_allclose(money, 0.3)


def test_a_run_that_begins_in_the_morning() -> None:
    """From 9 h on its first two hours are those from 9 to 11 h."""
    grid = Electricity([HOURLY], np.zeros(1, dtype=np.int64), start_s=9 * 3600.0)

    grams, _ = grid.counted(
        np.zeros(1, dtype=int), np.zeros(1), np.full(1, 7200.0), np.full(1, KWH)
    )

    assert grams == pytest.approx([250.0])


def test_devices_use_their_own_region() -> None:
    """A price that is not known is NaN, never zero."""
    grid = Electricity([HOURLY, EVEN], np.array([0, 1, 1]))

    grams, money = grid.counted(
        np.array([2, 0, 1]), np.zeros(3), np.full(3, 3600.0), np.array([KWH, 2 * KWH, 3 * KWH])
    )

    np.testing.assert_allclose(grams, [50, 800, 150])
    np.testing.assert_allclose(money, [np.nan, 0.6, np.nan])


@pytest.mark.parametrize("hour", ["10:00", "10:30:15", "1:20.5"])
def test_an_hour_of_a_profile_is_no_number(hour: str, tmp_path: Path) -> None:
    """YAML 1.1 makes 600 of 10:00; seconds are wanted, and it is refused as "10:00" is."""
    text = f"kind: region\ncarbon_gco2_per_kwh: [[0, 420], [{hour}, 180]]\n"
    (tmp_path / "grid.yaml").write_text(text)

    with pytest.raises(CatalogueError, match=f"carbon_gco2_per_kwh: found .*'{hour}'"):
        Catalogue([tmp_path]).region("grid")


def test_emissions_are_not_negative(tmp_path: Path) -> None:
    """A price may be below 0 for an hour; grams per kilowatt-hour are not."""
    text = (
        "kind: region\ncarbon_gco2_per_kwh: [[0, 420], [36000, {}]]\nprice_per_kwh: [[0, -0.1]]\n"
    )
    (tmp_path / "grid.yaml").write_text(text.format(-180))
    (tmp_path / "windy.yaml").write_text(text.format(0))

    assert Catalogue([tmp_path]).region("windy").price is not None
    with pytest.raises(CatalogueError, match=r"grid\.yaml:2: carbon_gco2_per_kwh: found -180, acc"):
        Catalogue([tmp_path]).region("grid")


def test_currencies_are_not_mixed() -> None:
    """Money of two kinds cannot be added up; a region without a price does not matter."""
    dear = replace(HOURLY, currency="INR")

    assert Electricity([HOURLY, replace(EVEN, currency="INR")], np.zeros(1, dtype=int))
    with pytest.raises(ValueError, match=r"^region: found prices in EUR and INR"):
        Electricity([HOURLY, dear], np.zeros(1, dtype=int))


def test_a_shipped_region() -> None:
    """France's 67.39 g at every hour of the year."""
    france = Catalogue().region("grid_france")

    assert france.carbon is not None and france.price is not None
    assert float(france.carbon.integral(0, 365 * 86400)) == pytest.approx(67.39 * 365 * 86400)
    assert france.unverified == ("price_per_kwh",)


def test_populations_name_regions() -> None:
    """One for all, or a group's own; the servers' is the population's."""
    streams, catalogue = Streams(1), Catalogue()
    groups = (
        Group("rpi_4b", "wifi5_ac", count=2, region="grid_poland"),
        Group("rpi_5", "wifi5_ac", count=3),
    )

    paper = Paper(clients=4, region="grid_sweden").electricity(streams, catalogue)
    mix = CatalogueMix(clients=5, groups=groups, region="grid_france").electricity(
        streams, catalogue
    )

    assert paper is not None and mix is not None
    assert paper.index.tolist() == [0] * 5
    assert [mix.regions[i].name for i in mix.index] == [
        *["grid_poland"] * 2,
        *["grid_france"] * 4,
    ]
    assert Paper(clients=4).electricity(streams, catalogue) is None


def test_unknown_regions() -> None:
    """The key that names it is told; groups with regions need one for the servers."""
    group = Group("rpi_4b", "wifi5_ac", share=1.0, region="grid_mars")

    with pytest.raises(CatalogueError, match=r"^region: unknown region 'grid_frence', did"):
        Paper(clients=4, region="grid_frence").electricity(Streams(1), Catalogue())
    with pytest.raises(CatalogueError, match=r"^groups.0.region: unknown region 'grid_mars'"):
        CatalogueMix(clients=4, groups=(group,), region="grid_france").electricity(
            Streams(1), Catalogue()
        )
    with pytest.raises(ValueError, match=r"^region: missing"):
        CatalogueMix(clients=4, groups=(group,)).electricity(Streams(1), Catalogue())


def test_steps_that_are_none() -> None:
    """Times that do not ascend from 0 are refused by their key."""
    with pytest.raises(ValueError, match=r"^carbon_gco2_per_kwh: found 3 s as the first time"):
        replace(EVEN, carbon_gco2_per_kwh=((3.0, 1.0),))
    with pytest.raises(
        ValueError, match=r"^price_per_kwh: found 90000 s, accepted: times below 86400"
    ):
        replace(EVEN, price_per_kwh=((0.0, 1.0), (90_000.0, 2.0)))
