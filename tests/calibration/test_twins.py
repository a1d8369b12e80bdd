"""From a file to profiles that a scenario runs: what they hold, and what a run warns of."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import simfl
from simfl.calibration import twins
from simfl.calibration.calibrate import calibrate
from simfl.cli.app import app
from simfl.runs.runfolder import LoadedRun
from simfl.system.catalogue import Catalogue, CatalogueError, Profile
from simfl.system.cpu import Cpu
from simfl.system.link import FixedRateLink
from simfl.system.uncertainty import Interval, Uncertainty
from tests.calibration.planted import file_of
from tests.small import small

HEAD = "device,batch_size,batches,seconds,convolution_flops,dense_flops,traffic_bytes,watts"
ROWS = [
    "my_pi,16,20,218,3.6e9,1e6,6e7,7.0",
    "my_pi,16,20,652,8.2e9,4e6,2.6e8,7.1",
    "my_pi,8,20,700,2.3e8,4.2e10,2.6e8,6.9",
    "my_pi,4,20,56,3.6e9,1e6,6e7,7.0",
]
MORE = "device,state,watts,direction,bytes,seconds,link,meter"
OTHERS = [
    *["my_pi,idle,2.0,,,,,wall plug"] * 3,
    *[f"my_pi,,,up,{size}e6,{0.8 * size + 0.004},home," for size in (1, 2, 5)],
    *[f"my_pi,,,down,{size}e6,{0.2 * size + 0.004},home," for size in (1, 2, 5)],
]


def command(*arguments: object) -> Any:
    """What `simfl` does with these arguments, in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder of profiles from one file, and what was printed."""
    folder = tmp_path_factory.mktemp("made")
    columns = HEAD.split(",") + [one for one in MORE.split(",") if one not in HEAD.split(",")]
    rows = []
    for head, given in ((HEAD, ROWS), (MORE, OTHERS)):
        for row in given:
            cells = dict(zip(head.split(","), row.split(","), strict=True))
            rows.append(",".join(cells.get(column, "") for column in columns))
    path = file_of(folder, rows, ",".join(columns))
    result = command("calibrate", path, "--base", "my_pi=rpi_4b", "--out", folder / "mine")
    assert result.exit_code == 0, result.output
    again = command("calibrate", path, "--base", "my_pi=rpi_4b", "--out", folder / "mine")
    assert again.exit_code == 2 and "my_pi.yaml: there already" in again.stderr
    return folder / "mine", result.output


@pytest.fixture(scope="module")
def profile(made: tuple[Path, str]) -> Profile:
    """The device's profile."""
    return Catalogue([made[0]]).profile("device", "my_pi")


def test_every_figure_has_an_interval_and_a_source(profile: Profile) -> None:
    """Figures that rows determine name the rows; the others are unverified; all have intervals."""
    base = Catalogue().profile("device", "rpi_4b")
    fitted = {path for path in profile.figures() if path in profile.uncertainty.intervals}

    assert set(base.values) == set(profile.values)
    assert {"power_idle_w", "processor.power_active_w"} < fitted
    assert sum(path.startswith("processor.rates.") for path in fitted) == 7
    assert "processor.kappa" not in profile.figures()
    for path in fitted:
        interval, value = profile.uncertainty.intervals[path], at(profile, path)
        assert interval.low < value < interval.high and interval.level == 0.9
        assert (path in profile.unverified) != (path in profile.sources)
    assert "processor.rates.depthwise" in profile.unverified
    assert "7 of watts (wall plug)" in profile.sources["processor.rates.convolution"]
    assert at(profile, "processor.power_active_w") == pytest.approx(7.0, rel=0.03)
    assert profile.calibrated is not None
    assert profile.calibrated.batch_examples == (4, 16)
    assert profile.calibrated.kinds == ("convolution", "dense")


def at(profile: Profile, path: str) -> Any:
    """The figure at a path."""
    value: Any = profile.values
    for key in path.split("."):
        value = value[key]
    return value


def test_draws_are_joint(profile: Profile) -> None:
    """A row of figures makes a machine; convolution and bandwidth trade off against each other."""
    uncertainty = profile.uncertainty
    assert uncertainty.draws is not None
    columns = list(uncertainty.draws.columns)
    drawn = np.log(np.array(uncertainty.draws.rows))

    assert set(columns) == set(uncertainty.intervals)
    assert drawn.shape == (100, len(columns)) and drawn.std(axis=0).min() > 0
    pair = [
        columns.index(f"processor.{one}") for one in ("rates.convolution", "bandwidth_bytes_per_s")
    ]
    assert np.corrcoef(drawn[:, pair].T)[0, 1] < -0.3
    one = uncertainty.drawn(101)
    assert one == uncertainty.drawn(1) != uncertainty.drawn(2)
    assert one["processor.power_active_w"] > one["power_idle_w"]


def test_a_link_is_made_of_transfers(made: tuple[Path, str]) -> None:
    """10 Mbit/s up, 40 down; everything else is the base link's."""
    catalogue = Catalogue([made[0]])
    link, base = catalogue.link("home"), catalogue.link("wifi5_ac")

    assert isinstance(link, FixedRateLink)
    assert link.uplink_bps == pytest.approx(1e7, rel=0.1)
    assert link.downlink_bps == pytest.approx(4e7, rel=0.1)
    assert link.power_transmit_w == base.power_transmit_w
    assert "link.rtt_s" in catalogue.profile("link", "home").unverified


def test_what_was_made_is_told(made: tuple[Path, str]) -> None:
    """Figures, held-out models, the kinds that no row has, the picture, what to write next."""
    folder, printed = made
    for words in (
        "Each model left out in turn",
        "warning: my_pi: its base rpi_4b has rates by kind of work",
        "warning: my_pi: no row tells processor.rates.depthwise; ",
        "my_pi.yaml: made",
        "groups: [{device: my_pi, link: home, share: 1}]",
    ):
        assert words in printed
    assert (folder / "calibration.png").stat().st_size > 10_000


@pytest.fixture(scope="module")
def beyond(made: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """A run on the twin with a larger batch and a lower clock than were measured."""
    scenario = small(
        population={
            "clients": 3,
            "profiles": [str(made[0])],
            "groups": [{"device": "my_pi", "link": "home", "share": 1.0}],
        },
        data={
            "name": "sizes",
            "examples_per_client": 64,
            "input_shape": [20],
            "outputs": 10,
        },
        model="lstm",
        algorithm={"name": "none", "local": {"epochs": 1}},
        decisions={"allocation": {"name": "capped", "frequency_hz": 1.0e9}},
        stop={"versions": 1},
    )
    return simfl.run(scenario, tmp_path_factory.mktemp("beyond") / "run")


def test_a_run_beyond_what_was_measured_is_warned_of(beyond: LoadedRun) -> None:
    """Batch and kind before it begins, the clock when it is decided; within it there is none."""
    told = sorted(one.message for one in beyond.warnings if one.kind == "beyond_calibration")

    assert len(told) == 2
    assert told[0].startswith("3 of 3 clients computed at frequencies that")
    assert "my_pi trains steps of 32 examples, but 4 to 16 were measured" in told[1]
    assert "my_pi's rate of recurrent was not measured" in told[1]


@pytest.mark.parametrize(
    ("section", "content", "words"),
    [
        ("uncertainty", {"processor.kapa": {"low": 1, "high": 2, "level": 0.9}}, "did you mean"),
        ("uncertainty", {"power_idle_w": {"low": 2, "high": 1, "level": 0.9}}, "at most high, 1"),
        ("uncertainty", {"power_idle_w": {"low": 2}}, "power_idle_w.high: missing"),
        (
            "uncertainty",
            {"draws": {"columns": ["power_idle_w"], "rows": [[1, 2]]}},
            "a row of 2 figures",
        ),
        ("uncertainty", {"draws": {"columns": ["nothing"], "rows": [[1]]}}, "no figure nothing"),
        ("uncertainty", 7, "found 7, accepted: a section"),
        ("calibrated", {"rows": -1}, "calibrated.rows: found -1"),
        ("calibrated", [], "found [], accepted: a section"),
    ],
)
def test_a_damaged_section_is_refused(
    section: str, content: Any, words: str, tmp_path: Path
) -> None:
    """With the file, the line and the key."""
    text = Catalogue().profile("device", "rpi_4b").path.read_text(encoding="utf-8")
    (tmp_path / "pi.yaml").write_text(text + "\n" + yaml.safe_dump({section: content}))

    with pytest.raises(CatalogueError) as caught:
        Catalogue([tmp_path]).profile("device", "pi")

    assert re.search(rf"pi\.yaml:\d+: {section}", str(caught.value))
    assert words in str(caught.value)


def test_a_twin_takes_the_seconds_of_its_rows(made: tuple[Path, str]) -> None:
    """The profile's own processor says what was measured, within the fit's error."""
    processor = Catalogue([made[0]]).device("my_pi").processor
    assert isinstance(processor, Cpu)
    from simfl.common.model_work import ModelWork

    for row in ROWS:
        _, batch, batches, seconds, convolution, dense, traffic, _ = row.split(",")
        work = ModelWork(
            convolution=float(convolution), dense=float(dense), traffic_bytes=float(traffic)
        )
        cycles = processor.training_cycles(float(batch) * float(batches), work, float(batches))
        cost = processor.compute(cycles, processor.frequency_max_hz)
        assert float(cost.duration_s) == pytest.approx(float(seconds), rel=0.15)


def test_intervals_of_the_base_that_no_row_tells_stay() -> None:
    """Those of fitted figures are replaced."""
    base = Catalogue().profile("device", "rpi_4b")
    unsure = {one: Interval(1e-30, 1e12) for one in ("processor.kappa", "processor.rates.dense")}
    figure = twins.Figure("processor.rates.dense", "FLOP/s", 2e10, np.linspace(1e10, 3e10, 5))
    twin = twins.Twin("pi", replace(base, uncertainty=Uncertainty(unsure)), [figure], "rows")
    written = yaml.safe_load(twin.text())["uncertainty"]

    assert written["processor.kappa"] == {
        "low": 1e-30,
        "high": 1e12,
        "level": 0.9,
        "distribution": "lognormal",
    }
    assert float(written["processor.rates.dense"]["low"]) == pytest.approx(1.1e10)


def test_repeated_transfers_of_one_link_count_as_little_more_than_one(tmp_path: Path) -> None:
    """They share their place and its signal: twelve leave nearly as much open as two."""

    def width(repeats: int) -> float:
        rows = ["pi,up,1e8,83", "pi,down,4e8,84"] * repeats
        made = calibrate(file_of(tmp_path, rows, "device,direction,bytes,seconds"), ["rpi_4b"])
        link = made.twins[-1]
        low, high = next(one for one in link.figures if one.key == "link.uplink_bps").interval
        return float(np.log(high / low))

    once, often = width(1), width(12)

    assert 0.6 * once < often <= 1.05 * once


def test_the_first_draws_have_the_whole_range_of_every_figure() -> None:
    """Of 39 the lowest and the highest are in the outer tenths, and the ends of 90 % intervals
    nearer than in 39 at random. Boards stay independent.
    """
    rng = np.random.default_rng(1)
    mixed = rng.standard_normal((8, 8))
    missed, related = [], []
    for _ in range(20):
        draws, others = (np.exp(rng.standard_normal((400, 8)) @ mixed) for _ in range(2))
        order, its = twins.spread_out(draws), twins.spread_out(others)
        assert len(set(order.tolist())) == len(order) == twins.DRAWS
        low, high = np.quantile(draws, (0.1, 0.9), axis=0)
        first = draws[order[:39]]
        assert (first.min(0) < low).all() and (first.max(0) > high).all()
        logs = np.log(draws)
        ends = np.quantile(logs, 0.95, axis=0)
        missed.append(
            [
                np.abs(np.quantile(one, 0.95, axis=0) - ends).mean()
                for one in (logs[order[:39]], logs[:39])
            ]
        )
        related.append(np.corrcoef(logs[order, 0], np.log(others)[its, 0])[0, 1])
    ordered, random = np.mean(missed, axis=0)
    assert ordered < 0.75 * random
    assert abs(np.mean(related)) < 0.1
