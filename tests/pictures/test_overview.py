"""The overview of a run can be read: nothing lies on top of anything."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import ImageColor, ImageFont

import simfl
from simfl.pictures.colours import STATE_COLOURS
from simfl.pictures.curves import plot
from simfl.pictures.overview import overview_panels, save_overview
from simfl.pictures.panels import Bars, name_axis, number_axis
from simfl.pictures.report.of_run import what_ran
from simfl.pictures.sheet import LARGE, SMALL, WIDTH, draw_sheet, fitting, frames
from simfl.pictures.style import legend_above
from simfl.pictures.trace import trace_events
from simfl.runs.runfolder import LoadedRun
from simfl.runs.summary import main_figures
from tests.small import small

FONT = str(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")
SCENARIOS = Path(__file__).parents[2] / "scenarios"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """Two versions of the quick start."""
    small = ["stop.versions=2", "model.hidden=[32]"]
    scenario = simfl.Scenario.from_yaml(SCENARIOS / "quickstart.yaml", small)
    return simfl.run(scenario, tmp_path_factory.mktemp("runs") / "trained")


def test_legends_lie_above_their_axes(trained: LoadedRun) -> None:
    """A legend covers neither bars nor the title, and all of it is on the page."""
    placed = [frame for frame in frames(overview_panels(trained)) if frame.panel.legend]

    assert len(placed) == 2
    for frame in placed:
        entries = list(frame.legend())
        assert [text for _, _, text, _ in entries] == [text for text, _ in frame.panel.legend]
        for left, middle, _, _ in entries:
            assert frame.title_middle + LARGE / 2 < middle - SMALL / 2
            assert middle + SMALL / 2 < frame.top
            assert frame.left <= left < frame.right <= WIDTH


def test_what_no_client_spent_is_not_in_the_legend(trained: LoadedRun) -> None:
    """Where waiting clients are not charged, there is no idle power; the tail says whose it is."""
    shown = [text for text, _ in overview_panels(trained)[1][0].legend]

    assert shown == ["download", "compute", "upload", "radio's tail"]


def test_clients_and_turns_are_whole_numbers(trained: LoadedRun) -> None:
    """No tick stands between two clients."""
    panel = overview_panels(trained)[1][1]

    assert panel.x.label == "client"
    assert all(place.is_integer() for place, _ in [*panel.x.ticks, *panel.y.ticks])


def test_bars_are_as_long_as_their_figures(trained: LoadedRun) -> None:
    """Joules by kind of device and client rounds are those of the run's table."""
    spent, part = overview_panels(trained)[1]
    clients = trained.clients
    by_device = clients.groupby("device")[[f"{state}_j" for state in STATE_COLOURS]].mean()

    drawn = [shape for shape in spent.shapes if isinstance(shape, Bars)]
    assert [text for _, text in spent.y.ticks] == list(by_device.index)
    lengths = np.column_stack([bars.right - bars.left for bars in drawn])
    assert lengths == pytest.approx(by_device.to_numpy())
    assert drawn[-1].right == pytest.approx(by_device.sum(axis=1).to_numpy())
    tops = [shape.high for shape in part.shapes if isinstance(shape, Bars)]
    assert np.concatenate(tops).tolist() == clients["participations"].tolist()


def test_axes_span_their_frames(trained: LoadedRun) -> None:
    """From end to end, and evenly."""
    for frame in frames(overview_panels(trained)):
        x, y = frame.panel.x, frame.panel.y
        across = frame.across(np.linspace(x.low, x.high, 3))
        down = frame.down(np.linspace(y.low, y.high, 3))
        assert across == pytest.approx(np.linspace(frame.left, frame.right, 3))
        assert down == pytest.approx(np.linspace(frame.bottom, frame.top, 3))


def test_a_bar_is_painted_where_its_axes_say(trained: LoadedRun) -> None:
    """The first client's, to its end and no farther; beside it is paper."""
    picture = draw_sheet(overview_panels(trained), "a run")
    frame = frames(overview_panels(trained))[3]
    bars = next(shape for shape in frame.panel.shapes if isinstance(shape, Bars))
    end = round(float(frame.down(bars.high[0])))
    inside = [(frame.across(0.0), end + 2), (frame.across(0.3), frame.bottom - 3)]
    outside = [(frame.across(0.0), end - 3), (frame.across(0.5), frame.bottom - 3)]

    def paint(x: object, y: object) -> object:
        return picture.getpixel((round(float(x)), round(float(y))))  # type: ignore[arg-type]

    assert {paint(*place) for place in inside} == {ImageColor.getrgb(bars.colour)}
    assert {paint(*place) for place in outside} == {(255, 255, 255)}


@pytest.mark.parametrize(
    ("low", "high", "whole", "texts"),
    [
        (0.0, 1.84, False, ["0.00", "0.25", "0.50", "0.75", "1.00", "1.25", "1.50", "1.75"]),
        (0.0, 40_000.0, False, [f"{tick} k" for tick in range(0, 41, 5)]),
        (0.0, 0.00085, False, [f"{tick} \N{MICRO SIGN}" for tick in range(0, 801, 100)]),
        (0.95, 2.05, True, ["1", "2"]),
        (-0.1, 0.09, False, [f"{tick / 1000:.3f}" for tick in range(-100, 90, 25)]),
        (7.0, 7.0, True, ["7"]),
        (0.0, 0.0, True, ["-1", "0", "1"]),
    ],
)  # fmt: skip
def test_ticks_are_round(low: float, high: float, texts: list[str], *, whole: bool) -> None:
    """And no more than one can read; where all is one value, it stands amid its surroundings."""
    axis = number_axis("time", low, high, whole=whole)

    assert [text for _, text in axis.ticks] == texts
    assert all(axis.low <= place <= axis.high for place, _ in axis.ticks)


def test_names_that_are_long_or_many_leave_room_for_the_panel() -> None:
    """They are cut, and some are left out."""
    axis = name_axis(["x" * 100, *(f"device_{index}" for index in range(1, 40))])

    assert axis.ticks[0] == (0.0, "x" * 29 + "\u2026")
    assert [place for place, _ in axis.ticks] == [float(place) for place in range(0, 40, 3)]


def test_a_long_title_keeps_its_beginning_and_its_seed() -> None:
    """It was cut at both ends."""
    title = f"{'very_long_' * 30}name, seed 7"

    shown = fitting(title, WIDTH, LARGE)

    assert shown.startswith("very_long_") and "\u2026" in shown and shown.endswith("name, seed 7")
    assert 0.9 * WIDTH < ImageFont.truetype(FONT, LARGE).getlength(shown) <= WIDTH
    assert fitting("a run, seed 7", WIDTH, LARGE) == "a run, seed 7"


def test_more_edge_servers_than_colours_have_one_colour(tmp_path: Path) -> None:
    """The ninth had the first one's, and no legend said so."""
    changes = ["population.edges=9", "stop.versions=1", "model.hidden=[8]"]
    scenario = simfl.Scenario.from_yaml(SCENARIOS / "quickstart.yaml", changes)
    panel = overview_panels(simfl.run(scenario, tmp_path / "run"))[1][1]

    assert len(panel.shapes) == 9 and not panel.legend
    assert len({shape.colour for shape in panel.shapes}) == 1


def test_a_run_without_versions_has_axes_from_zero_to_its_end(tmp_path: Path) -> None:
    """They went from -1 to 1 s and J, whatever it took."""
    scenario = simfl.Scenario.from_yaml(SCENARIOS / "quickstart.yaml", ["stop={time_s: 0.3}"])
    run = simfl.run(scenario, tmp_path / "run")
    at_once = simfl.Scenario.from_yaml(SCENARIOS / "quickstart.yaml", ["stop={time_s: 1e-9}"])
    spent = overview_panels(simfl.run(at_once, tmp_path / "at_once"))[1][0]

    first, second = overview_panels(run)[0]

    assert run.manifest["counts"]["versions"] == 0
    assert (first.x.low, first.x.high) == (0.0, pytest.approx(0.315))
    assert second.x.low == 0.0 < run.manifest["client_energy_j"]
    assert second.x.high == pytest.approx(1.05 * run.manifest["client_energy_j"])
    assert (spent.x.low, spent.x.high) == (0.0, 1.0)


def test_a_regression_has_no_accuracy(tmp_path: Path, trained: LoadedRun) -> None:
    """What stands there is R^2, which may be negative, and no share of right answers."""
    data = {"name": "synthetic", "task": "regression", "outputs": 1, "partition": "iid"}
    run = simfl.run(small(data=data, stop={"versions": 1}), tmp_path / "run")

    assert overview_panels(run)[0][0].y.label == "test R^2"
    assert plot(run).axes[0].get_ylabel() == "test R^2 (1)"
    assert main_figures(run.manifest, run.last_scores)[0][0] == "R^2"
    assert "last test R^2" in dict(what_ran(run))
    counted = {one["name"] for one in trace_events(run) if one["ph"] == "C"}
    assert "R^2" in counted and "accuracy" not in counted
    assert overview_panels(trained)[0][0].y.label == "test accuracy"
    assert plot(trained).axes[0].get_ylabel() == "test accuracy (share)"
    assert main_figures(trained.manifest, trained.last_scores)[0][0] == "accuracy"


def test_a_plot_is_a_picture_in_a_notebook(trained: LoadedRun) -> None:
    """Jupyter shows what `_repr_png_` returns."""
    shown = plot(trained)._repr_png_()

    assert shown.startswith(b"\x89PNG")


def test_a_run_without_evaluation_shows_its_versions(tmp_path: Path) -> None:
    """Timing-only runs have a figure too."""
    scenario = simfl.Scenario.from_yaml(SCENARIOS / "timing_only.yaml", ["stop.versions=2"])
    run = simfl.run(scenario, tmp_path / "run")

    path = save_overview(run, tmp_path / "overview.png")

    assert path.read_bytes().startswith(b"\x89PNG")
    assert overview_panels(run)[0][0].y.label == "global version"


def test_values_that_differ_by_rounding_have_one_axis() -> None:
    """The mean of the same accuracies in another order."""
    low, high = 0.19999999999999998, 0.20000000000000004

    axis = number_axis("accuracy", low, high)

    assert axis.low < 0.195 and axis.high > 0.205
    assert len({text for _, text in axis.ticks}) == len(axis.ticks) > 1


def test_a_legend_without_entries_is_drawn() -> None:
    """Of a run whose every round was cut."""
    legend_above(Figure().subplots(), "nothing")
