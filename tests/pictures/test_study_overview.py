"""The figure of a study shows every setting's metrics."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from simfl.pictures.study_overview import draw_study_overview, save_study_overview
from tests.study.studies import run_here, session


def test_means_of_every_setting(tmp_path: Path) -> None:
    """A panel per metric, a row per setting, named by its levels; the file is a PNG."""
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
