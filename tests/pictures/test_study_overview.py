"""The figure of a study shows every setting's metrics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simfl.console.answers import print_answers
from simfl.pictures import study_overview
from simfl.pictures.curves import plot
from simfl.pictures.report import of_study, page
from simfl.pictures.study_overview import draw_study_overview, save_study_overview
from simfl.study.regression import axis_label, regression_sentence
from tests.study.studies import run_here, session


def test_means_of_every_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A panel per metric, a row per setting, named by its levels; the file is a PNG.

    A setting without all of its seeds says so, because its mean is over others. If there are more
    settings than are drawn, the picture and the report say so.
    """
    one = session(tmp_path, seeds=[1, 2], questions={"metrics": ["accuracy", "time_s"]})
    run_here(one)
    study = one.collect()

    accuracy, time_s = draw_study_overview(study).axes

    means = study.table.groupby("point")["time_s"].mean()
    assert np.allclose(time_s.containers[0].lines[0].get_xdata(), means)
    assert time_s.get_xlabel() == "time (s)"
    labels = [text.get_text() for text in accuracy.get_yticklabels()]
    assert labels[0] == "rpi_4b, steps 1"
    assert len(labels) == 4
    path = save_study_overview(study, tmp_path / "overview.png")
    assert path.read_bytes().startswith(b"\x89PNG")

    study.table = study.table.iloc[1:].assign(
        status=[*["completed"] * (len(study.table) - 2), "diverged"]
    )
    lacking = draw_study_overview(study).axes[0].get_yticklabels()
    assert [text.get_text().partition(" (")[2] for text in lacking] == [
        "1 of 2 completed)",
        "",
        "",
        "1 of 2 completed)",
    ]
    legend = plot(study).legends[0].get_texts()
    assert [text.get_text().partition(" (")[2] for text in legend] == ["1 of 2 seeds)", "", "", ""]
    study = one.collect()

    monkeypatch.setattr(study_overview, "MOST_SETTINGS", 3)
    monkeypatch.setattr(study_overview, "MOST_METRICS", 1)
    monkeypatch.setattr(of_study, "MOST_SETTINGS", 3)
    monkeypatch.setattr(page, "plotly_script", lambda: "")
    shown = draw_study_overview(study).get_suptitle()
    assert shown.endswith("; first 3 of 4 settings; first 1 of 2 figures")
    text = of_study.report_study(study, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Charts show the first 3 of 4 settings, the table all." in text


def test_a_regression_has_no_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its R^2 is called that: on the figure's and the report's axes, and below the tables."""
    monkeypatch.setattr(page, "plotly_script", lambda: "")
    asked = {"metrics": ["accuracy", "best_accuracy", "loss"]}
    data = {"name": "synthetic", "task": "regression", "outputs": 1, "partition": "iid"}
    one = session(tmp_path, base={"data": data}, questions=asked)
    run_here(one)
    study = one.collect()

    labels = [axes.get_xlabel() for axes in draw_study_overview(study).axes]
    print_answers(one.study, study)

    assert labels == ["R^2 (1)", "best R^2 (1)", "loss (1)"]
    text = of_study.report_study(study, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "test R^2 (1)" in text
    said = " ".join(capsys.readouterr().out.split())
    assert "accuracy is R^2, as the data are a regression: 1 is" in said
    mixed = study.table.assign(task=["regression", *["classification"] * (len(study.table) - 1)])
    (sentence,) = regression_sentence(mixed, ["accuracy"])
    assert sentence.startswith(f"accuracy is R^2, as 1 of {len(mixed)} runs' data are a regression")
    assert regression_sentence(mixed, ["loss"]) == []
    assert axis_label(mixed, "accuracy") == "accuracy (share) or R^2 (1)"
    assert axis_label(mixed, "loss") == "loss (1)"
