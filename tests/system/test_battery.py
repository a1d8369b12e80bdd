"""Batteries against hand-computed courses, and the balance of joules over any course."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simfl.system.battery import Batteries, Supply
from simfl.system.series import StepSeries

ONE = np.array([0])
NIGHT = StepSeries([0.0, 100.0, 200.0], [4.0, 0.0, 2.0], period_s=300.0)


def charged_at_night(charge_j: float, capacity_j: float = 1000.0, lowest: float = 0.2) -> Batteries:
    """One battery with 4 W for 100 s, nothing for 100 s, 2 W for 100 s, and again."""
    supply = Supply(NIGHT, np.ones(1), np.zeros(1))
    return Batteries(np.array([capacity_j]), charge_j, [supply], lowest)


def test_a_constant_load_drains_linearly() -> None:
    """1000 J at 2 W last 500 s; after 300 s there are 400 J left."""
    battery = Batteries(np.array([1000.0]), 1000.0)

    flow = battery.advance(ONE, 300.0, 2.0)

    assert battery.charge_j[0] == 400.0
    assert (flow.drawn_j[0], flow.unmet_j[0], flow.empty_s[0]) == (600.0, 0.0, np.inf)
    assert battery.level(ONE)[0] == 0.4
    again = battery.advance(ONE, 600.0, 2.0)
    assert battery.charge_j[0] == 0.0
    assert (again.drawn_j[0], again.unmet_j[0], again.empty_s[0]) == (400.0, 200.0, 500.0)


def test_a_day_by_hand() -> None:
    """From 900 of 1000 J at a load of 1 W: +3 W fills up after 33.3 s and spills 200 J; -1 W takes
    100 J; +1 W gives 100 J back."""
    battery = charged_at_night(900.0)

    flow = battery.advance(ONE, 300.0, 1.0)

    assert battery.charge_j[0] == pytest.approx(1000.0)
    assert flow.spilled_j[0] == pytest.approx(200.0)
    assert flow.charged_j[0] == pytest.approx(400 + 200 - 200)
    assert flow.drawn_j[0] == 300.0


def test_an_empty_battery_gives_what_comes_in() -> None:
    """At a load of 3 W: empty 30 s into the dark, then 0 W, then 2 of 3 W are met."""
    battery = charged_at_night(0.0, capacity_j=90.0)

    flow = battery.advance(ONE, 300.0, 3.0)

    # 4 - 3 W for 90 s fill it, 10 J spill; 90 J last 30 s at 3 W; 70 s unmet, then 1 W unmet.
    assert flow.spilled_j[0] == pytest.approx(10.0)
    assert flow.empty_s[0] == pytest.approx(130.0)
    assert flow.unmet_j[0] == pytest.approx(3 * 70 + 1 * 100)
    assert flow.drawn_j[0] == pytest.approx(900 - 310)
    assert battery.charge_j[0] == 0.0


def test_mains_power_never_ends() -> None:
    """No capacity, no level: everything is met, nothing is charged, anybody can take part."""
    supply = Supply(NIGHT, np.ones(2), np.zeros(2))
    battery = Batteries(np.array([np.inf, 100.0]), np.array([0.0, 10.0]), [supply])

    flow = battery.advance(np.array([0, 1]), [150.0, 150.0], 1e6)

    assert (flow.drawn_j[0], flow.unmet_j[0], flow.charged_j[0]) == (150e6, 0.0, 0.0)
    assert (flow.empty_s[0], flow.spilled_j[0]) == (np.inf, 0.0)
    assert np.isnan(battery.level(ONE)[0])
    assert battery.can_take_part(np.array([0, 1])).tolist() == [True, False]


@pytest.mark.parametrize(("lowest", "enough"), [(0.9, False), (0.3, True)])
def test_charging_clients_take_part(lowest: float, enough: bool) -> None:
    """A level below the lowest is excused while the charger is plugged in."""
    battery = charged_at_night(100.0, lowest=lowest)

    assert battery.can_take_part(ONE)[0]
    battery.advance(ONE, 150.0, 1.0)
    assert battery.can_take_part(ONE)[0] == enough


def test_an_empty_battery_is_off_until_it_is_charged() -> None:
    """50 J at 1 W are gone 50 s into the dark; 2 W less 1 W make 60 J, the lowest, after 60 s.

    Somebody with 10 J that was never empty comes back when the charger does.
    """
    empty = charged_at_night(0.0, capacity_j=300.0)
    empty.advance(ONE, 100.0, 3.5)
    empty.advance(ONE, 160.0, 1.0)
    low = charged_at_night(10.0, capacity_j=300.0)
    low.advance(ONE, 100.0, 4.0)

    assert empty.off[0]
    assert not empty.can_take_part(ONE)[0]
    assert empty.ready_s(ONE, np.ones(1))[0] == pytest.approx(260.0)
    empty.advance(ONE, 255.0, 1.0)
    assert not empty.can_take_part(ONE)[0]
    empty.advance(ONE, empty.ready_s(ONE, np.ones(1)), 1.0)
    assert empty.can_take_part(ONE)[0]
    assert not low.can_take_part(ONE)[0]
    assert low.ready_s(ONE, np.zeros(1))[0] == 200.0


def test_what_never_charges_never_comes_back() -> None:
    """No supply, or one that the client itself uses up."""
    dark = Batteries(np.array([100.0]), 10.0)
    weak = Batteries(np.array([100.0]), 0.0, [Supply(NIGHT, np.ones(1), np.zeros(1))])

    assert dark.ready_s(ONE, np.ones(1))[0] == np.inf
    assert weak.ready_s(ONE, np.full(1, 4.0))[0] == np.inf


def test_foreseeing_changes_nothing() -> None:
    """`foresee` says what `advance` will say."""
    battery = charged_at_night(100.0)

    before = battery.foresee(ONE, 400.0, 2.5)
    assert (battery.charge_j[0], battery.time_s[0]) == (100.0, 0.0)
    after = battery.advance(ONE, 400.0, 2.5)

    for name in ("charged_j", "drawn_j", "spilled_j", "unmet_j", "empty_s"):
        assert getattr(before, name) == getattr(after, name)


@given(
    capacity=st.floats(1, 500),
    share=st.floats(0, 1),
    scale=st.floats(0, 5),
    shift_s=st.floats(-500, 500),
    stops=st.lists(st.tuples(st.floats(0, 400), st.floats(0, 10)), min_size=1, max_size=6),
)
def test_joules_balance(
    capacity: float,
    share: float,
    scale: float,
    shift_s: float,
    stops: list[tuple[float, float]],
) -> None:
    """Change of charge = charged - drawn; supply = charged + spilled; load = drawn + unmet.

    And many short steps end where one long one does.
    """
    supply = Supply(NIGHT, np.array([scale]), np.array([shift_s]))
    battery = Batteries(np.array([capacity]), share * capacity, [supply])
    finer = Batteries(np.array([capacity]), share * capacity, [supply])
    now_s, tolerance = 0.0, {"abs": 1e-6, "rel": 1e-9}

    for lasts_s, load_w in stops:
        before = float(battery.charge_j[0])
        flow = battery.advance(ONE, now_s + lasts_s, load_w)
        for part in (0.2, 0.21, 0.7, 1.0):
            finer.advance(ONE, now_s + part * lasts_s, load_w)
        income = scale * float(NIGHT.integral(now_s + shift_s, now_s + lasts_s + shift_s))
        after = float(battery.charge_j[0])

        assert 0 <= after <= capacity
        assert after - before == pytest.approx(
            float(flow.charged_j[0] - flow.drawn_j[0]), **tolerance
        )
        assert income == pytest.approx(float(flow.charged_j[0] + flow.spilled_j[0]), **tolerance)
        assert load_w * lasts_s == pytest.approx(
            float(flow.drawn_j[0] + flow.unmet_j[0]), **tolerance
        )
        assert after == pytest.approx(float(finer.charge_j[0]), **tolerance)
        now_s += lasts_s


def test_clients_are_advanced_on_their_own() -> None:
    """Advancing one client leaves the others where they were, in time and charge."""
    battery = Batteries(np.full(3, 100.0), 50.0)

    battery.advance(np.array([2, 0]), [10.0, 20.0], [1.0, 2.0])

    assert battery.charge_j.tolist() == [10.0, 50.0, 40.0]
    assert battery.time_s.tolist() == [20.0, 0.0, 10.0]
    with pytest.raises(ValueError, match="into its past"):
        battery.advance(ONE, 19.0, 1.0)


def test_impossible_charges() -> None:
    """More charge than capacity, none or a negative one is refused."""
    for capacity, charge in ((10.0, 11.0), (10.0, -1.0), (0.0, 0.0)):
        with pytest.raises(ValueError, match=r"^charge_j"):
            Batteries(np.array([capacity]), charge)
