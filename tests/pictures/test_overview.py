"""The overview of a run can be read: nothing lies on top of anything."""

from __future__ import annotations

from pathlib import Path

import pytest

import simfl
from simfl.pictures.curves import plot
from simfl.pictures.overview import draw_overview, save_overview
from simfl.runs.runfolder import LoadedRun

SCENARIOS = Path(__file__).parents[2] / "scenarios"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """Two versions of the quick start."""
    small = ["stop.versions=2", "model.hidden=[32]"]
    scenario = simfl.Scenario.from_yaml(SCENARIOS / "quickstart.yaml", small)
    return simfl.run(scenario, tmp_path_factory.mktemp("runs") / "trained")


def test_legends_lie_above_their_axes(trained: LoadedRun) -> None:
    """A legend covers neither bars nor the title."""
    figure = draw_overview(trained)
    figure.draw_without_rendering()

    legends = [axes for axes in figure.axes if axes.get_legend()]
    assert len(legends) == 2
    for axes in legends:
        legend = axes.get_legend()
        assert legend is not None
        box = legend.get_window_extent()
        assert box.y0 >= axes.bbox.y1
        assert box.y1 <= axes.title.get_window_extent().y0
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1


def test_what_no_client_spent_is_not_in_the_legend(trained: LoadedRun) -> None:
    """Where waiting clients are not charged, there is no idle power; the tail says whose it is."""
    legend = draw_overview(trained).axes[2].get_legend()

    assert legend is not None
    shown = [text.get_text() for text in legend.get_texts()]
    assert shown == ["download", "compute", "upload", "radio's tail"]


def test_clients_and_turns_are_whole_numbers(trained: LoadedRun) -> None:
    """No tick stands between two clients."""
    panel = draw_overview(trained).axes[3]

    assert panel.get_xlabel() == "client"
    assert all(float(tick).is_integer() for tick in [*panel.get_xticks(), *panel.get_yticks()])


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
    assert draw_overview(run).axes[0].get_ylabel() == "global version"
