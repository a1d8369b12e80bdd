"""Drawn machines: a profile's intervals, and what is drawn from them."""

from __future__ import annotations

import contextlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from simfl.system.accelerator import Accelerator
from simfl.system.catalogue import KINDS, Catalogue, CatalogueError, Kind, shipped_folder
from simfl.system.fields import FieldError, check, field_names
from simfl.system.hardware_draws import SECONDS_FACTOR, SIGNED, WATTS_FACTOR
from simfl.system.log_distance import LogDistanceRadio
from simfl.system.rates import Rates
from simfl.system.tcp import TcpLink
from simfl.system.thermal import ThermalCpu
from simfl.system.umi import UmiRadio
from simfl.system.uncertainty import Interval

BOARD: dict[str, Any] = {
    "kind": "device",
    "device_class": "sbc",
    "power_idle_w": 2.0,
    "memory_bytes": 4e9,
    "processor": {
        "name": "cpu",
        "cores": 4,
        "frequency_min_hz": 6e8,
        "frequency_max_hz": 1.8e9,
        "kappa": 2e-28,
        "seconds_per_step": 0.01,
        "seconds_per_training": 1.5,
        "rates": {"dense": {"value": 2.6e10, "interval": [2.0e10, 4.0e10]}, "convolution": 1e10},
        "flops_per_s": 3e10,
        "efficiency": 0.2,
    },
}
DENSE = "processor.rates.dense"


def profile(folder: Path, **changes: Any) -> Any:
    """The board's profile with other keys."""
    (folder / "board.yaml").write_text(yaml.safe_dump({**BOARD, **changes}))
    return Catalogue([folder]).profile("device", "board")


def drawn(one: Any, path: str, count: int = 600) -> np.ndarray:
    """A figure in many draws."""
    return np.array([at(one.drawn(number), path) for number in range(count)])


def at(values: Any, path: str) -> Any:
    """What stands at a path."""
    for step in path.split("."):
        values = values[step]
    return values


def test_an_interval_holds_its_share_on_either_side(tmp_path: Path) -> None:
    """The value is the median, 5 % lie below the interval and 5 % above; no other figure moves."""
    one = profile(tmp_path)
    dense = drawn(one, DENSE)

    assert one.values["processor"]["rates"]["dense"] == 2.6e10
    assert np.median(dense) == pytest.approx(2.6e10, rel=0.03)
    assert (dense < 2.0e10).mean() == pytest.approx(0.05, abs=0.02)
    assert (dense > 4.0e10).mean() == pytest.approx(0.05, abs=0.02)
    assert (drawn(one, "processor.rates.convolution", 5) == 1e10).all()
    assert Catalogue([tmp_path], draw=3).device("board").processor.rates.dense == dense[3]
    assert Catalogue([tmp_path]).device("board").processor.rates.dense == 2.6e10


def test_a_wider_interval_draws_further_away_from_the_same_side() -> None:
    """Figure by figure; no width draws the value, a normal law may go below 0."""
    for normal in (-2.0, -0.3, 0.4, 1.7):
        narrow, wide = (Interval(8.0 / k, 8.0 * k).at(8.0, normal) for k in (1.5, 3.0))
        assert abs(np.log(wide / 8.0)) > abs(np.log(narrow / 8.0)) > 0
        assert Interval(8.0, 8.0).at(8.0, normal) == 8.0
    assert Interval(-1.0, 4.0, distribution="normal").at(1.0, -1.6448536) == pytest.approx(-1.0)
    assert Interval(0.5, 4.0).at(1.0, 1.6448536) == pytest.approx(4.0)


def test_figures_without_a_source_have_a_default_spread(tmp_path: Path) -> None:
    """All seconds of a profile by one factor, all watts by another; sourced ones have none."""
    paths = ["processor.efficiency", "processor.flops_per_s", "processor.seconds_per_step"]
    one = profile(tmp_path, unverified=[*paths, "power_idle_w", "processor.kappa", "memory_bytes"])
    machines = [one.drawn(number) for number in range(600)]
    step_s, idle_w, efficiency = (
        np.array([at(values, path) for values in machines])
        for path in (paths[2], "power_idle_w", paths[0])
    )

    for figure, value, factor in ((step_s, 0.01, SECONDS_FACTOR), (idle_w, 2.0, WATTS_FACTOR)):
        assert (figure < value / factor).mean() == pytest.approx(0.05, abs=0.02)
        assert (figure > value * factor).mean() == pytest.approx(0.05, abs=0.02)
    assert efficiency == pytest.approx(np.minimum(0.2 * 0.01 / step_s, 1.0))
    assert (drawn(one, paths[1], 5) == 3e10).all()
    assert drawn(one, "processor.kappa", 9) == pytest.approx(idle_w[:9] / 2.0 * 2e-28)
    assert (drawn(one, "memory_bytes", 5) == 4e9).all()
    assert abs(np.corrcoef(np.log(step_s), np.log(idle_w))[0, 1]) < 0.15


def test_another_profile_or_figure_shifts_no_draw(tmp_path: Path) -> None:
    """A draw depends on the profile's kind and name, the figure's path and the draw's number."""
    alone = drawn(profile(tmp_path), DENSE, 20)
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(BOARD))
    kappa = {**BOARD["processor"], "kappa": {"value": 2e-28, "interval": [1e-28, 4e-28]}}
    more = profile(tmp_path, processor=kappa, unverified=["power_idle_w"])
    other = Catalogue([tmp_path]).profile("device", "other")

    assert (drawn(more, DENSE, 20) == alone).all()
    assert not np.isclose(drawn(other, DENSE, 20), alone).any()


def test_joint_draws_go_row_by_row_with_the_factor_on_seconds(tmp_path: Path) -> None:
    """A row's figures together, all training so many times as long; then what has no column."""
    rows = [[3.0e10, 2.0], [2.0e10, 0.5]]
    one = profile(
        tmp_path,
        uncertainty={"draws": {"columns": [DENSE, "seconds"], "rows": rows}}
        | {"processor.kappa": {"low": 1e-28, "high": 4e-28, "level": 0.9}},
        processor={**BOARD["processor"], "rates": {"dense": 2.6e10, "convolution": 1e10}},
    )

    for number, (dense, seconds) in ((0, rows[0]), (1, rows[1]), (2, rows[0])):
        its = one.drawn(number)["processor"]
        assert its["rates"] == {"dense": dense / seconds, "convolution": 1e10 / seconds}
        assert its["seconds_per_step"] == pytest.approx(0.01 * seconds)
        assert its["seconds_per_training"] == pytest.approx(1.5 * seconds)
        assert its["flops_per_s"] * seconds == pytest.approx(3e10) and its["efficiency"] == 0.2
        assert its["kappa"] != 2e-28


def test_every_rate_of_a_kind_of_work_goes_by_the_seconds(tmp_path: Path) -> None:
    """Including those of steps: by the factor on all seconds, and the default one of estimates."""
    rates = {one.name: 1e9 for one in fields(Rates)}
    processor = {**BOARD["processor"], "rates": rates}
    stretched = profile(
        tmp_path,
        processor=processor,
        uncertainty={"draws": {"columns": ["seconds"], "rows": [[2.0]]}},
    )
    guessed = profile(
        tmp_path, processor=processor, unverified=[f"processor.rates.{name}" for name in rates]
    )

    assert stretched.drawn(0)["processor"]["rates"] == dict.fromkeys(rates, 0.5e9)
    assert len({*guessed.drawn(0)["processor"]["rates"].values()} - {1e9}) == 1
    assert 1e9 not in guessed.drawn(0)["processor"]["rates"].values()


def test_what_ends_beyond_what_can_be_is_cut(tmp_path: Path) -> None:
    """Every draw of such intervals is a machine; what may be negative stays so."""
    figures = {
        "memory_bound": {"value": 0.1, "interval": [0.0, 0.2], "distribution": "normal"},
        "stall_utilization": {"value": 0.9, "interval": [0.8, 1.0]},
        "efficiency": {"value": 0.2, "interval": [0.01, 0.4], "distribution": "normal"},
        "power_static_w": {"value": 0.5, "interval": [0.3, 0.9]},
        "power_active_w": {"value": 6.0, "interval": [4.0, 8.0]},
    }
    processor = {**BOARD["processor"], "kappa": None, **figures}
    one = profile(
        tmp_path, processor=processor, power_idle_w={"value": 2.0, "interval": [1.5, 3.0]}
    )
    bound, powered = (
        drawn(one, f"processor.{name}") for name in ("memory_bound", "stall_utilization")
    )

    for number in range(300):
        assert Catalogue([tmp_path], draw=number).device("board").processor.power_law()
    assert (bound >= 0).all() and (bound == 0).mean() == pytest.approx(0.05, abs=0.02)
    assert (powered <= 1).all() and (powered == 1).mean() == pytest.approx(0.05, abs=0.02)
    assert (drawn(one, "processor.efficiency") >= 0.001).all()

    radio = yaml.safe_load((shipped_folder() / "cell_macro.yaml").read_text())
    radio["link"]["path_loss_db"] = {"value": 3.0, "interval": [1, 5], "distribution": "normal"}
    (tmp_path / "cell.yaml").write_text(yaml.safe_dump(radio))
    cell = Catalogue([tmp_path]).profile("link", "cell")
    assert (drawn(cell, "link.path_loss_db") < 0).any()


def test_whether_a_profile_is_uncertain(tmp_path: Path) -> None:
    """Intervals without a width, and figures that have no default spread, change no draw."""
    plain = {**BOARD["processor"], "rates": {"dense": 2.6e10}}
    fixed = {**plain, "rates": {"dense": {"value": 2.6e10, "interval": [2.6e10, 2.6e10]}}}

    assert profile(tmp_path).is_uncertain
    assert not profile(tmp_path, processor=plain, unverified=["memory_bytes"]).is_uncertain
    still = profile(tmp_path, processor=fixed, unverified=["processor.cores"])
    assert not still.is_uncertain
    assert still.drawn(4) == still.values


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        ({"value": 2e10, "interval": [3e10, 4e10]}, "interval: found [30000000000.0, 400000"),
        ({"value": 2e10, "interval": [1e10]}, "accepted: [low, high], two numbers with the value"),
        ({"interval": [1e10, 2e10]}, "value: found None, accepted: a number"),
        ({"value": 2e10, "interval": [0.0, 4e10]}, "a low end above 0, or distribution: normal"),
        (
            {"value": 2e10, "interval": [1e10, 4e10], "distribution": "gauss"},
            "found 'gauss', accepted: lognormal",
        ),
        ({"value": 2e10, "interval": [1e10, 4e10], "sd": 1}, "sd: unknown key; accepted: dist"),
    ],
)
def test_a_figure_that_is_none_is_refused(
    figure: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """With the file and the figure's path."""
    with pytest.raises(CatalogueError) as caught:
        profile(tmp_path, processor={**BOARD["processor"], "rates": {"dense": figure}})

    assert f": {DENSE}." in str(caught.value) and words in str(caught.value)


@pytest.mark.parametrize(
    ("path", "figure", "words"),
    [
        ("cores", {"value": 4, "interval": [2, 8]}, "its interval, accepted: an integer >= 1"),
        ("seconds_per_step", {"value": 1e-3, "interval": [-1.0, 1.0]}, "-1 in its interval, acc"),
        (
            "rates",
            {"dense": {"value": 1e9, "interval": [-2e9, 4e9]}},
            "found -2e+09 in its interval",
        ),
    ],
)
def test_an_interval_with_impossible_figures_is_refused(
    path: str, figure: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """When the file is read, and not by some draws of a study."""
    inner = figure.get("dense", figure)
    inner["distribution"] = "normal"

    with pytest.raises(CatalogueError) as caught:
        profile(tmp_path, processor={**BOARD["processor"], path: figure})

    assert f": processor.{path}" in str(caught.value) and words in str(caught.value)


def test_decibels_that_cannot_be_negative_are_cut(tmp_path: Path) -> None:
    """Every draw of a noise figure is a link; only what may be below 0 is not cut at a tenth."""
    radio = yaml.safe_load((shipped_folder() / "cell_macro.yaml").read_text())
    figure = {"value": 1.0, "interval": [0, 2], "distribution": "normal"}
    for key in ("noise_figure_db", "path_loss_db"):
        link = {**radio["link"], key: figure}
        (tmp_path / "cell.yaml").write_text(yaml.safe_dump({**radio, "link": link}))
        values = drawn(Catalogue([tmp_path]).profile("link", "cell"), f"link.{key}")
        assert (values.min() < 0) == (key in SIGNED)
        assert all(Catalogue([tmp_path], draw=number).link("cell") for number in range(40))


@pytest.mark.parametrize("cls", [ThermalCpu, Accelerator, LogDistanceRadio, UmiRadio, TcpLink])
def test_no_other_figure_may_be_negative(cls: type) -> None:
    """`SIGNED` are the keys of processors and links that accept a number below 0."""
    accepting = set()
    for name in field_names(cls):
        with contextlib.suppress(FieldError):
            check(cls, [name], -1.5)
            accepting.add(name)

    assert accepting == SIGNED & set(field_names(cls))


@pytest.mark.parametrize("kind", KINDS)
def test_every_shipped_machine_can_be_drawn(kind: Kind) -> None:
    """Far out, too: whatever relations between its figures a machine wants are kept."""
    catalogue = Catalogue()
    for name in catalogue.list_profiles(kind):
        for number in range(4):
            getattr(Catalogue(draw=number), kind)(name)


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("power_idle_w", "1.6 W"),
        ("processor.kappa", [0, 1]),
        ("processor.power_table", [[6e8, 0.3], 1.8e9]),
    ],
)
def test_a_wrong_figure_is_told_as_it_is_in_the_file(
    tmp_path: Path, key: str, wrong: object
) -> None:
    """Before it is drawn: in the words of a run without draws."""
    board = {**BOARD, "processor": dict(BOARD["processor"]), "unverified": [key]}
    section = board if key == "power_idle_w" else board["processor"]
    section[key.rpartition(".")[2]] = wrong
    (tmp_path / "board.yaml").write_text(yaml.safe_dump(board), encoding="utf-8")

    told = []
    for draw in (None, 1):
        with pytest.raises(CatalogueError) as raised:
            Catalogue([tmp_path], draw=draw).device("board")
        told.append(str(raised.value))

    assert told[0] == told[1] and key in told[0]
