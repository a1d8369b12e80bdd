"""Batteries against hand-computed courses, and the balance of joules over any course."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
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


def fed_by(watts: float, charge_j: float = 0.0, lowest: float = 0.2) -> Batteries:
    """A battery of 100 J into which the same power comes all the time."""
    supply = Supply(StepSeries([0.0], [watts]), np.ones(1), np.zeros(1))
    return Batteries(np.array([100.0]), charge_j, [supply], lowest)


def test_a_device_that_is_off_draws_nothing() -> None:
    """0.3 W make 20 J in 66.7 s, whatever it idles at; from then on it draws its 0.05 W."""
    empty, half_watt = fed_by(0.3), np.full(1, 0.05)

    assert empty.ready_s(ONE, half_watt)[0] == pytest.approx(20 / 0.3)
    flow = empty.advance(ONE, 60.0, half_watt)
    assert (flow.drawn_j[0], flow.charged_j[0]) == pytest.approx((0.0, 18.0))
    assert flow.unmet_j[0] == pytest.approx(3.0)
    assert empty.off[0] and not empty.can_take_part(ONE)[0]

    flow = empty.advance(ONE, 100.0, half_watt)

    on_s = 100 - 20 / 0.3
    assert not empty.off[0]
    assert empty.charge_j[0] == pytest.approx(20 + 0.25 * on_s)
    assert flow.drawn_j[0] == pytest.approx(0.05 * on_s)
    assert flow.unmet_j[0] == pytest.approx(0.05 * (20 / 0.3 - 60))


def test_less_than_a_device_idles_at_brings_it_back_again_and_again() -> None:
    """0.03 W make 20 J in 2000 / 3 s; 0.05 W, 0.02 W more than comes in, use them up in 1000 s.

    After six times 5000 / 3 s and another 400 s there are 12 J, and all else is drawn.
    """
    weak, load_w = fed_by(0.03), np.full(1, 0.05)
    often = fed_by(0.03)

    assert weak.ready_s(ONE, load_w)[0] == pytest.approx(2000 / 3)
    flow = weak.advance(ONE, 10_400.0, load_w)

    assert weak.off[0]
    assert weak.charge_j[0] == pytest.approx(12.0)
    assert flow.charged_j[0] == pytest.approx(312.0)
    assert flow.drawn_j[0] == pytest.approx(300.0)
    assert flow.unmet_j[0] == pytest.approx(520.0 - 300.0)
    for time_s, there in ((660.0, False), (670.0, True), (1660.0, True), (1670.0, False)):
        often.advance(ONE, time_s, load_w)
        assert often.can_take_part(ONE)[0] == there


def test_a_device_that_restarts_at_next_to_nothing_is_walked_in_no_time() -> None:
    """More than 1e12 times off and on again: it draws what comes in, on balance."""
    restless = fed_by(0.03, charge_j=50.0, lowest=1e-12)

    flow = restless.advance(ONE, 1e7, 0.05)

    assert restless.charge_j[0] == pytest.approx(0.0, abs=1e-9)
    assert flow.empty_s[0] == pytest.approx(2500.0)
    assert flow.drawn_j[0] == pytest.approx(3e5 + 50)
    assert flow.unmet_j[0] == pytest.approx(5e5 - 3e5 - 50)


def test_what_comes_in_charges_an_empty_battery_until_the_device_restarts() -> None:
    """90 J, 18 J of them to restart, at a load of 3 W that is more than comes in at last.

    4 W: off for 4.5 s, full 72 s later, 23.5 J spilled. Nothing: empty 30 s into the dark. 2 W: off
    for 9 s and on for 18 s, in turn; the last 10 s leave 8 J.
    """
    battery = charged_at_night(0.0, capacity_j=90.0)

    flow = battery.advance(ONE, 300.0, 3.0)

    off_s = 4.5 + 70 + 4 * 9
    assert flow.spilled_j[0] == pytest.approx(23.5)
    assert flow.empty_s[0] == 0.0
    assert flow.unmet_j[0] == pytest.approx(3 * off_s)
    assert flow.drawn_j[0] == pytest.approx(3 * (300 - off_s))
    assert battery.charge_j[0] == pytest.approx(8.0)
    assert not battery.off[0]


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
    """50 J at 1 W are gone 50 s into the dark; 2 W make 60 J, the lowest, after 30 s.

    Somebody with 10 J that was never empty comes back when the charger does.
    """
    empty = charged_at_night(1.0, capacity_j=300.0)
    empty.advance(ONE, 100.0, 3.51)
    empty.advance(ONE, 160.0, 1.0)
    low = charged_at_night(10.0, capacity_j=300.0)
    low.advance(ONE, 100.0, 4.0)

    assert empty.off[0]
    assert not empty.can_take_part(ONE)[0]
    assert empty.ready_s(ONE, np.ones(1))[0] == pytest.approx(230.0)
    empty.advance(ONE, 225.0, 1.0)
    assert not empty.can_take_part(ONE)[0]
    empty.advance(ONE, empty.ready_s(ONE, np.ones(1)), 1.0)
    assert empty.can_take_part(ONE)[0]
    assert not low.can_take_part(ONE)[0]
    assert low.ready_s(ONE, np.zeros(1))[0] == 200.0


def test_what_never_charges_never_comes_back() -> None:
    """However little it draws."""
    dark = Batteries(np.array([100.0]), 10.0)

    assert dark.ready_s(ONE, np.ones(1))[0] == np.inf


@pytest.mark.parametrize("steps", [2, 24, 288])
@pytest.mark.parametrize("days", [3, 60, 365])
@pytest.mark.parametrize("lacking", [0.5, 0.0])
def test_a_slow_harvest_brings_it_back_however_finely_it_is_written(
    steps: int, days: int, lacking: float
) -> None:
    """10 mW by day, from 6 h to 18 h, make 432 J a day: `lowest` is reached at noon, or at 18 h.

    A charger without power, which has steps of its own, changes nothing.
    """
    day_s, power_w = 86_400.0, 0.01
    lowest_j = (days - lacking) * power_w * day_s / 2
    begins_s = [0.0, *np.linspace(day_s / 4, 3 * day_s / 4, steps)]
    harvest = StepSeries(begins_s, [0.0, *[power_w] * (steps - 1), 0.0], day_s)
    charger = StepSeries([0.0, day_s / 3], [0.0, 0.0], day_s)
    supplies = [Supply(one, np.ones(1), np.zeros(1)) for one in (charger, harvest)]
    empty = Batteries(np.array([lowest_j / 0.2]), 0.0, supplies, lowest=0.2)

    back_s = (days - 0.25 - lacking / 2) * day_s
    assert empty.ready_s(ONE, np.ones(1))[0] == pytest.approx(back_s)


@pytest.mark.parametrize(("charger", "able"), [(True, True), (False, False)])
def test_a_harvest_does_not_count_as_being_plugged_in(charger: bool, able: bool) -> None:
    """With 10 of 100 J and `lowest` 0.3: at a charger at once; by a harvest when 20 J are in."""
    supply = Supply(StepSeries([0.0], [2.0]), np.ones(1), np.zeros(1), charger=charger)
    battery = Batteries(np.array([100.0]), np.array([10.0]), [supply], lowest=0.3)

    assert battery.can_take_part(ONE)[0] == able
    assert battery.ready_s(ONE, np.ones(1))[0] == (0.0 if able else 20.0)
    battery.advance(ONE, 20.0, 1.0)
    assert battery.can_take_part(ONE)[0]


@pytest.mark.parametrize("level", [0.1, 0.15, 0.0])
def test_a_harvest_below_idle_power_brings_it_back_when_foreseen(level: float) -> None:
    """It runs empty first, in the midst of a step of the supply; then it is charged to `lowest`."""
    harvest = Supply(StepSeries([0.0], [0.01], 86_400.0), np.ones(1), np.zeros(1), charger=False)
    battery = Batteries(np.array([62_650.0]), 62_650.0 * level, [harvest], lowest=0.2)
    load_w = np.array([0.025])

    back_s = battery.ready_s(ONE, load_w)[0]
    battery.advance(ONE, back_s, load_w)

    empty_s = 62_650.0 * level / 0.015
    assert back_s == pytest.approx(empty_s + 0.2 * 62_650.0 / 0.01, rel=1e-9)
    assert battery.can_take_part(ONE)[0]


def test_a_return_is_foreseen_for_a_year() -> None:
    """What takes 400 days to charge is not waited for."""
    slow = Supply(StepSeries([0.0], [1.0], 86_400.0), np.ones(1), np.zeros(1))
    empty = Batteries(np.array([400 * 86_400.0]), 0.0, [slow], lowest=1.0)

    assert empty.ready_s(ONE, np.ones(1))[0] == np.inf


def test_foreseeing_changes_nothing() -> None:
    """`foresee` says what `advance` will say."""
    battery = charged_at_night(100.0)

    before = battery.foresee(ONE, 400.0, 2.5)
    assert (battery.charge_j[0], battery.time_s[0]) == (100.0, 0.0)
    after = battery.advance(ONE, 400.0, 2.5)

    for name in ("charged_j", "drawn_j", "spilled_j", "unmet_j", "empty_s"):
        assert getattr(before, name) == getattr(after, name)


LOADS = st.lists(
    st.tuples(st.floats(0, 400), st.floats(0, 10), st.floats(0, 1)), min_size=1, max_size=6
)
COURSES = {
    "capacity": st.floats(1, 500),
    "share": st.just(0.0) | st.floats(0, 1),
    "lowest": st.floats(0.01, 1),
    # Of a supply: as small as the smallest number of a scenario.
    "scale": st.just(0.0) | st.floats(1e-60, 5),
    "shift_s": st.floats(-500, 500),
    "stops": LOADS,
}


@given(**COURSES)
def test_joules_balance(
    capacity: float,
    share: float,
    lowest: float,
    scale: float,
    shift_s: float,
    stops: list[tuple[float, float, float]],
) -> None:
    """Change of charge = charged - drawn; supply = charged + spilled; load = drawn + unmet.

    And many short steps end where one long one does, with the same flows.
    """
    supply = Supply(NIGHT, np.array([scale]), np.array([shift_s]))
    battery = Batteries(np.array([capacity]), share * capacity, [supply], lowest)
    finer = Batteries(np.array([capacity]), share * capacity, [supply], lowest)
    now_s, tolerance = 0.0, {"abs": 1e-6, "rel": 1e-9}

    for lasts_s, load_w, cut in stops:
        before = float(battery.charge_j[0])
        flow = battery.advance(ONE, now_s + lasts_s, load_w)
        pieces = [
            finer.advance(ONE, now_s + part * lasts_s, load_w)
            for part in sorted((0.2, 0.21, cut, 0.7, 1.0))
        ]
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
        for name in ("charged_j", "drawn_j", "spilled_j", "unmet_j"):
            total_j = sum(float(getattr(piece, name)[0]) for piece in pieces)
            assert total_j == pytest.approx(float(getattr(flow, name)[0]), **tolerance)
        if min(after, abs(after - lowest * capacity)) > 1e-5:
            assert battery.off[0] == finer.off[0]
        now_s += lasts_s


@given(**COURSES)
@example(capacity=1.0, share=1.0, lowest=1.0, scale=0.0, shift_s=0.0, stops=[(0.0, 0.0, 0.0)])
@example(capacity=1.0, share=1.0, lowest=1.0, scale=0.0, shift_s=0.0, stops=[(0.0, 3e-311, 0.0)])
def test_who_is_off_draws_nothing_until_it_is_back(
    capacity: float,
    share: float,
    lowest: float,
    scale: float,
    shift_s: float,
    stops: list[tuple[float, float, float]],
) -> None:
    """`ready_s` says when that is: then it holds `lowest`, and can take part."""
    supply = Supply(NIGHT, np.array([scale]), np.array([shift_s]))
    battery = Batteries(np.array([capacity]), share * capacity, [supply], lowest)
    now_s = 0.0

    for lasts_s, load_w, _ in stops:
        end_s = now_s + lasts_s
        back_s = float(battery.ready_s(ONE, np.array([load_w]))[0])
        if battery.off[0]:
            flow = battery.advance(ONE, min(back_s, end_s), load_w)
            assert flow.drawn_j[0] == pytest.approx(0.0, abs=1e-9)
            assert flow.empty_s[0] in (now_s, np.inf)
            assert bool(battery.off[0]) == (back_s > end_s)
            if back_s <= end_s:
                assert battery.charge_j[0] == pytest.approx(lowest * capacity)
                assert battery.can_take_part(ONE)[0]
        battery.advance(ONE, end_s, load_w)
        now_s = end_s


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
    for capacity, charge, message in (
        (10.0, 11.0, "charge_j: found 11, accepted: 0 to 10"),
        (10.0, -1.0, "charge_j: found -1, accepted: 0 to 10"),
        (0.0, 0.0, "capacity_j: found 0, accepted: > 0"),
    ):
        with pytest.raises(ValueError, match=message):
            Batteries(np.array([capacity]), charge)
