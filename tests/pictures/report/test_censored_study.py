"""A study's page and figure of a target that some runs missed, and of a single seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simfl.pictures.report import page
from simfl.pictures.report.of_study import report_study
from simfl.pictures.study_overview import draw_study_overview
from tests.pictures.report.pages import Parsed
from tests.study.censored import TARGET, censored_runs, censored_study


@pytest.fixture(autouse=True)
def _no_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested here needs no library of charts."""
    monkeypatch.setattr(page, "plotly_script", lambda: "/* charts */")


def marks(chart: dict[str, Any]) -> dict[str, list[float | None]]:
    """A chart's values by the name of their marks."""
    return {trace["name"]: trace["x"] for trace in chart["data"]}


def test_a_page_draws_open_marks_where_there_is_no_mean(tmp_path: Path) -> None:
    """The median of two runs of three, an arrow from what the third of another was watched for."""
    parsed = Parsed(report_study(censored_study(tmp_path), tmp_path / "report.html"))

    (chart,) = (
        one
        for one in parsed.charts()
        if one["layout"]["xaxis"]["title"]["text"] == "time to accuracy 0.38 (s)"
        and len(one["data"]) == 3
    )
    assert marks(chart) == {
        "mean": [None, None, 2.53333],
        "median, as not all runs met it": [2.6, None, None],
        "lower bound, as too few runs met it": [None, 3.0, None],
    }


def test_a_page_has_no_figure_of_the_runs_that_were_lucky(tmp_path: Path) -> None:
    """In its tables stand counts, bounds, and who was first; the front leaves settings out."""
    text = Parsed(report_study(censored_study(tmp_path), tmp_path / "report.html")).text

    for words in ("1/3", "2/3", "median 2.6", "> 3", "first in 1, behind in 2 of 3 pairs"):
        assert words in text
    assert "not ranked: own (reached accuracy 0.38 in 1/3 runs)" in text
    assert f"{TARGET} are not computed: 6 of 9 runs" in text
    assert "not all reached" in text


def test_a_figure_draws_open_marks_where_there_is_no_mean(tmp_path: Path) -> None:
    """And says what they are."""
    figure = draw_study_overview(censored_study(tmp_path))

    time_s = figure.axes[1]
    drawn = {line.get_marker(): line.get_xdata() for line in time_s.lines}
    assert np.array_equal(drawn["D"], [2.6, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(drawn[">"], [np.nan, 3.0, np.nan], equal_nan=True)
    assert np.isnan(np.array(drawn["o"], dtype=float)).tolist() == [True, True, False]
    assert "some runs missed the target" in figure.get_supxlabel()


def test_one_seed_has_no_interval_on_a_page(tmp_path: Path) -> None:
    """No error bars, no verdict; there is no note about targets that were missed in a figure."""
    runs = censored_runs().query("seed == 2").assign(**{TARGET: [2.4, 2.5, 2.6]})
    study = censored_study(tmp_path, runs)

    parsed = Parsed(report_study(study, tmp_path / "report.html"))

    bars = [trace["error_x"] for chart in parsed.charts() for trace in chart["data"]]
    assert {value for bar in bars for value in (*bar["array"], *bar["arrayminus"])} <= {None}
    assert "one seed" in parsed.text
    assert "higher" not in parsed.text
    figure = draw_study_overview(study)
    assert (figure.get_supxlabel(), figure.get_suptitle()) == ("", "tiny: one seed, no intervals")
    caps = figure.axes[0].containers[0].lines[1]
    ends = np.concatenate([np.array(line.get_xdata(), dtype=float) for line in caps])
    assert np.isnan(ends).all()


def test_an_interval_on_a_page_ends_where_a_share_does(tmp_path: Path) -> None:
    """Accuracies of 0.90, 0.95 and 1: Student's interval would reach beyond 1."""
    runs = censored_runs().assign(accuracy=[0.9, 0.95, 1.0] * 3)
    study = censored_study(tmp_path, runs)

    chart = Parsed(report_study(study, tmp_path / "report.html")).charts()[0]

    assert chart["data"][0]["error_x"]["array"] == pytest.approx([0.05] * 3)
    assert chart["data"][0]["error_x"]["arrayminus"] == pytest.approx([0.124207] * 3, rel=1e-3)
    (bars,) = draw_study_overview(study).axes[0].containers[0].lines[2]
    assert max(bar[:, 0].max() for bar in bars.get_segments()) == pytest.approx(1.0)
