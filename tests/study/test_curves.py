"""Learning curves: means over seeds where every seed has a value, with Student's band."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import simfl
from simfl.cli.app import app
from simfl.pictures.curves import caption, draw_curves, named_curves
from simfl.pictures.report import charts, page
from simfl.pictures.report.of_study import report_study
from simfl.runs.runfolder import RunFolderError
from simfl.study.curves import curve_of, mean_curve
from simfl.study.loaded import LoadedStudy, load_study
from simfl.study.means import levels_told_apart, setting_names, told_apart
from tests.pictures.report.pages import Parsed
from tests.study.censored import censored_study
from tests.study.studies import run_here, session


def curve(*points: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Places and heights of points."""
    places, heights = np.array(points).T
    return places, heights


def test_a_mean_is_drawn_where_every_seed_has_a_value() -> None:
    """From the later first evaluation to the earlier last one; straight lines in between.

    Half of the 95 % interval of two values that differ by d is 12.706 d / 2; shares end at 1.
    """
    found = mean_curve(
        [curve((1, 0.2), (3, 0.4), (9, 1.0)), curve((2, 0.5), (4, 0.5))], "time_s", "accuracy"
    )

    assert found["time_s"].tolist() == [2, 3, 4]
    assert np.allclose(found["accuracy"], [0.4, 0.45, 0.5])
    assert np.allclose(found["accuracy_high"], [1.0, 1.0, 0.5])
    assert np.allclose(found["accuracy_low"], [0.0, 0.0, 0.5])
    near = mean_curve([curve((1, 0.50), (2, 0.6)), curve((1, 0.51), (2, 0.6))], "bytes", "loss")
    assert np.allclose(near["loss_high"] - near["loss"], [12.7062 * 0.005, 0.0])


def test_a_curve_ends_before_its_run_diverged() -> None:
    """The mean of an infinite loss and another is none, and has no interval."""
    rounds = pd.DataFrame({"time_s": [1.0, 2.0, 3.0], "loss": [0.5, 0.9, np.inf]})
    other = rounds.assign(loss=[0.5, 0.7, 0.6])

    found = mean_curve(
        [curve_of(one, "time_s", "loss") for one in (rounds, other)], "time_s", "loss"
    )

    assert found["time_s"].tolist() == [1.0, 2.0]
    assert np.allclose(found["loss"], [0.5, 0.8])
    assert np.isfinite(found["loss_high"]).all()


def test_one_seed_has_a_line_and_no_band_and_seeds_without_evaluations_have_none() -> None:
    """Nor do seeds, one of which ended before another was evaluated."""
    first, later = curve((1, 0.2), (2, 0.3)), curve((3, 0.4), (4, 0.5))
    nothing = (np.zeros(0), np.zeros(0))

    alone = mean_curve([first], "bytes", "loss")

    assert alone["loss"].tolist() == [0.2, 0.3]
    assert alone["loss_low"].isna().all()
    assert mean_curve([first, later], "bytes", "loss").empty
    assert mean_curve([first, nothing], "bytes", "loss").empty


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> LoadedStudy:
    """Two settings with two seeds, one level with a label."""
    grid = {
        "population.groups.0.device": ["rpi_4b"],
        "algorithm.local": [
            {"label": "one step", "value": {"steps": 1, "batch_size": 8, "learning_rate": 0.1}},
            {"steps": 2, "batch_size": 8, "learning_rate": 0.1},
        ],
    }
    one = session(
        tmp_path_factory.mktemp("study"),
        points={"grid": grid},
        questions={"metrics": ["accuracy", "latency_cv"]},
    )
    run_here(one)
    return one.collect()


def test_curves_of_a_study_are_the_means_of_its_runs(study: LoadedStudy) -> None:
    """By version every run was evaluated at the same places; joules are the run's own."""
    curves = study.curves("accuracy", "versions")

    means = study.rounds.groupby(["point", "version"])["accuracy"].mean()
    assert np.allclose(curves["accuracy"], means)
    assert curves["algorithm.local"].unique().tolist()[0] == "one step"
    assert set(curves["runs"]) == {2}
    joules = study.curves("loss", x="client_energy_j").query("point == 0")["client_energy_j"]
    its = study.rounds.query("point == 0").groupby("seed")["client_energy_j"]
    assert joules.min() == its.min().max() and joules.max() == its.max().min()
    with pytest.raises(ValueError, match="did you mean 'client_energy_j'"):
        study.curves("accuracy", x="client_energy")


def test_a_level_with_a_label_goes_by_it_and_runs_as_its_value(study: LoadedStudy) -> None:
    """What all settings share is in no name, and a figure that no run has has no axes."""
    scenarios = [simfl.load_run(study.path / one).scenario for one in study.table["folder"]]

    assert [one["algorithm"]["local"]["steps"] for one in scenarios] == [1, 1, 2, 2]
    labels = [text.get_text() for text in simfl.plot(study).legends[0].get_texts()]
    assert labels == ["one step", "steps=2 batch_size=8 learning_rate=0.1"]
    assert study.metrics == ["accuracy"]


def test_a_name_has_only_the_keys_that_differ() -> None:
    """Within sections, and among factors; what remains still distinguishes all settings."""
    levels = ["random share=0.5 seed=1", "random share=0.2 seed=1", "all"]
    settings = pd.DataFrame({"decisions.selection": levels, "model": "linear", "stop.time_s": 2.0})

    assert setting_names(settings, [*settings]) == ["random share=0.5", "random share=0.2", "all"]
    same = settings.assign(**{"decisions.selection": ["oort a=1", "oort a=1", "oort a=1"]})
    assert setting_names(same, [*same]) == ["oort a=1"] * 3


def test_numbers_have_as_many_digits_as_tell_settings_apart() -> None:
    """Two settings of one name lie in one row of a chart, and are one in a sentence."""
    rates = [0.1001, 0.1002, 0.2]
    settings = pd.DataFrame({"a.rate": rates, "a.size": [12341.0, 12342.0, 3.0]})

    assert setting_names(settings, ["a.rate"]) == ["0.1001", "0.1002", "0.2"]
    assert setting_names(settings, ["a.size"]) == ["12341", "12342", "3"]
    crossed = settings.assign(**{"a.rate": [0.1, 0.1, 1 / 3], "a.size": [16, 32, 16]})
    assert setting_names(crossed, [*crossed])[2] == "rate 0.333, size 16"
    assert levels_told_apart(rates) == {one: one for one in rates}
    assert levels_told_apart([0.10001, 0.10002, 3]) == {
        0.10001: "0.10001",
        0.10002: "0.10002",
        3: "3",
    }
    assert told_apart(settings, [*settings])["a.size"].tolist() == ["12341", "12342", "3"]


def test_every_report_of_a_study_has_its_curves(
    study: LoadedStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accuracy and loss by four figures each; where folders have gone a note says so."""
    monkeypatch.setattr(page, "plotly_script", lambda: "/* charts */")

    drawn = Parsed(report_study(study, tmp_path / "report.html"))
    without = Parsed(report_study(censored_study(tmp_path), tmp_path / "other.html"))

    assert "Learning curves" in drawn.headings
    heights = [one["layout"]["yaxis"]["title"]["text"] for one in drawn.charts()]
    assert heights.count("test accuracy (share)") == heights.count("test loss (1)") == 4
    assert "runs' folders cannot be read" in without.text


def test_a_caption_says_of_one_seed_that_there_is_no_band_and_what_is_not_drawn(
    study: LoadedStudy,
) -> None:
    """Sixteen of seventeen settings have a line."""
    other = load_study(study.path)
    runs = other.table[other.table["seed"] == 1].iloc[:1]
    other.table = pd.concat([runs.assign(point=point) for point in range(17)], ignore_index=True)
    other.rounds = pd.concat([other.rounds.assign(point=point, seed=1) for point in range(17)])

    text = caption(other, "time_s", "accuracy")

    assert "of one seed there is no interval; 16 of 17 settings are drawn" in text
    assert "without" not in text
    assert caption(study, "time_s", "accuracy").endswith("intervals (Student)")


def test_a_figure_names_the_one_setting_that_it_shows(study: LoadedStudy) -> None:
    """In a legend, and its caption the settings that it does not show."""
    other = load_study(study.path)
    first, *left = sorted(other.table["point"].unique())
    other.rounds.loc[other.rounds["point"] != first, "accuracy"] = np.nan

    figure = simfl.plot(other)

    [(name, _)] = named_curves(other, "time_s", "accuracy")
    [legend] = figure.legends
    assert [one.get_text() for one in legend.get_texts()] == [name]
    said = caption(other, "time_s", "accuracy")
    names = [one for one, _ in named_curves(study, "time_s", "accuracy")][1:]
    assert len(names) == len(left)
    assert said.endswith(
        f"; 1 of {len(left) + 1} settings are drawn, without {'; '.join(names)}: at no time_s all"
        " of their seeds have a value"
    )


def test_bands_much_higher_than_the_lines_are_cut() -> None:
    """Half the height of the lines is left above and below them; a flat line has its whole band."""
    for heights, limits in (([0.4, 0.8], (0.2, 1.0)), ([0.5, 0.5], (0.0, 1.0))):
        curve = pd.DataFrame({"time_s": [1.0, 2.0], "accuracy": heights})
        curve = curve.assign(accuracy_low=0.0, accuracy_high=1.0)
        axes = Figure().subplots()

        draw_curves(axes, [("one", curve)], "time_s", "accuracy")

        assert np.allclose(np.clip(axes.get_ylim(), 0, 1), limits)


def test_one_evaluation_is_a_point_with_its_interval() -> None:
    """A line from a place to itself is not seen: the axes were empty."""
    place = pd.DataFrame({"time_s": [2.0], "accuracy": [0.6]})
    place = place.assign(accuracy_low=0.5, accuracy_high=0.7)
    axes = Figure().subplots()

    draw_curves(axes, [("one", place)], "time_s", "accuracy")
    columns = {"x": [2.0], "y": [0.6], "low": [0.5], "high": [0.7]}
    trace = charts.curves([("one", columns)], "time (s)", "accuracy")["data"][-1]

    assert [line.get_marker() for line in axes.lines] == ["None", "o"]
    assert np.allclose(axes.collections[-1].get_segments(), [[[2.0, 0.5], [2.0, 0.7]]])
    assert trace["mode"] == "markers"
    assert np.allclose([trace["error_y"][end][0] for end in ("array", "arrayminus")], 0.1)


def test_seeds_that_were_never_evaluated_at_one_time_are_told_from_none(
    study: LoadedStudy,
) -> None:
    """They were evaluated, and by versions there is a curve."""
    other = load_study(study.path)
    last = study.rounds.groupby(["point", "seed"]).tail(1)
    other.rounds = last.assign(time_s=np.arange(len(last), dtype=float))

    with pytest.raises(RunFolderError, match=r"at no time_s all seeds of a setting.*x versions"):
        simfl.plot(other)

    assert len(simfl.plot(other, x="versions").axes[0].lines) == 4
    other.rounds = other.rounds.assign(accuracy=np.nan)
    with pytest.raises(RunFolderError, match="nothing was evaluated"):
        simfl.plot(other)


def test_the_command_draws_a_study_and_a_run(study: LoadedStudy, tmp_path: Path) -> None:
    """As a PDF and as a PNG, by the name of the file; other names are refused."""
    run = study.path / study.table["folder"][0]
    asked = ["--x", "client_energy_j", "--y", "accuracy", "-o"]

    for folder, name, begins in ((study.path, "f.pdf", b"%PDF"), (run, "f.png", b"\x89PNG")):
        result = CliRunner().invoke(app, ["plot", str(folder), *asked, str(tmp_path / name)])
        assert result.exit_code == 0, result.output
        assert (tmp_path / name).read_bytes().startswith(begins)
        assert ("means over 2 seeds" in result.stdout) == (folder == study.path)
    result = CliRunner().invoke(app, ["plot", str(run), "-o", str(tmp_path / "f.bmp")])
    assert result.exit_code == 2 and "accepted: .pdf, .png, .svg" in result.output
