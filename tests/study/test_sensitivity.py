"""First-order and total Sobol indices of Saltelli's design."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from rich.console import Console

from simfl.console import answers
from simfl.pictures.report import page
from simfl.pictures.report.of_study import report_study
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.study.design import draw, saltelli
from simfl.study.effects import left_to_chance
from simfl.study.loaded import load_study
from simfl.study.sensitivity import sobol_indices
from simfl.study.studyfile import Interval, Sample, Study
from tests.pictures.report.pages import Parsed
from tests.study.studies import write_study

KEYS = ["x1", "x2", "x3"]


def ishigami(rows: int, seeds: int = 1) -> pd.DataFrame:
    """The function of Ishigami and Homma (1990) with a = 7 and b = 0.1 at the design's points."""
    interval = Interval(low=-math.pi, high=math.pi)
    x = np.array(draw(Sample(method="saltelli", size=rows, over=dict.fromkeys(KEYS, interval))))
    y = np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])
    about = {"study": "ishigami", "point": range(len(x)), "digest": "", "folder": ""}
    figures = {"status": "completed", "reason": "", "accuracy": y, "wall_s": 1.0}
    jobs = {"jobs_trained": 0, "jobs_reused": 0}
    one = pd.DataFrame({**about, **dict(zip(KEYS, x.T, strict=True)), **figures, **jobs})
    return pd.concat([one.assign(seed=seed) for seed in range(seeds)], ignore_index=True)


def test_indices_of_the_ishigami_function() -> None:
    """Closed form (a = 7, b = 0.1): alone 0.3139, 0.4424, 0; in all 0.5576, 0.4424, 0.2437."""
    found = sobol_indices(ishigami(1024), "accuracy", KEYS).set_index("factor")

    alone, total = np.array([0.3139, 0.4424, 0.0]), np.array([0.5576, 0.4424, 0.2437])
    assert found["first_order"].to_numpy() == pytest.approx(alone, abs=0.02)
    assert found["total"].to_numpy() == pytest.approx(total, abs=0.02)
    for kind, expected in (("first", alone), ("total", total)):
        low, high = found[f"{kind}_low"], found[f"{kind}_high"]
        assert (low < expected).all() and (expected < high).all() and (high - low < 0.2).all()


def test_the_design_is_two_matrices_and_their_crossings() -> None:
    """A, B, and A with one column after the other of B."""
    found = saltelli(np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]))

    a, b = [[1, 2], [5, 6]], [[3, 4], [7, 8]]
    assert found.tolist() == [*a, *b, [3, 2], [7, 6], [1, 4], [5, 8]]


def test_a_figure_that_never_varies_has_no_indices() -> None:
    """There is no variance to be shared, and none in the last bits of sums."""
    runs = ishigami(4)
    last_bits = 0.1 + 1.4e-17 * (runs["point"] % 2)

    for figure in (0.5, last_bits):
        assert sobol_indices(runs.assign(accuracy=figure), "accuracy", KEYS).empty


def test_a_design_that_has_not_run_whole_has_no_indices() -> None:
    """Neither with a missing setting nor with settings of another sample."""
    runs = ishigami(4, seeds=2)

    for others in (runs[runs["point"] != 3], runs[runs["point"] < 16], runs.assign(x1=runs["x2"])):
        with pytest.raises(ValueError, match="not all of Saltelli's design"):
            sobol_indices(others, "accuracy", KEYS)


def test_the_design_stands_alone(tmp_path: Path) -> None:
    """With a grid there would be one design for each of its levels."""
    over = {key: {"low": 0.1, "high": 1.0} for key in ("algorithm.local.learning_rate", "other")}
    sample = {"method": "saltelli", "size": 4, "over": over}
    file = write_study(tmp_path, points={"grid": {"stop.versions": [1, 2]}, "sample": sample})

    with pytest.raises(ScenarioError, match=r"sample\.method: found saltelli, accepted: latin"):
        Study.from_yaml(file)


def test_one_key_alone_is_no_design(tmp_path: Path) -> None:
    """It explains everything; scipy ended such a study in a TypeError when all had run."""
    over = {"algorithm.local.learning_rate": {"low": 0.1, "high": 1.0}}
    sample = {"method": "saltelli", "size": 4, "over": over}

    with pytest.raises(ScenarioError, match=r"sample\.over: .*saltelli needs at least two"):
        Study.from_yaml(write_study(tmp_path, points={"sample": sample}))


def test_both_indices_stand_in_the_terminal_and_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For an incomplete design a sentence says why there are none."""
    monkeypatch.setattr(page, "plotly_script", lambda: "/* charts */")
    over = {key: {"low": -math.pi, "high": math.pi} for key in KEYS}
    sample = {"method": "saltelli", "size": 4, "over": over}
    content = {
        "name": "ishigami",
        "scenario": "base.yaml",
        "points": {"sample": sample},
        "questions": {"metrics": ["accuracy"]},
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(content))
    runs = ishigami(4)

    for table, words in ((runs, "first-order and total Sobol indices"), (runs[1:], "not all of")):
        table.to_parquet(tmp_path / "runs.parquet")
        study = load_study(tmp_path)
        console = Console(record=True, width=120)
        monkeypatch.setattr(answers, "Terminal", lambda console=console: console)
        answers.print_answers(Study.model_validate(content), study)
        printed = console.export_text(clear=False)
        assert words in printed
        assert ("indices of 4 rows of Saltelli's design are rough" in printed) == (table is runs)
        indices = re.findall(r"│ (-?\d\.\d\d)(?= │)", printed)
        assert all(0.0 <= float(one) <= 1.0 for one in indices) and bool(indices) == (table is runs)
        assert words in Parsed(report_study(study, tmp_path / "report.html")).text


def test_what_seeds_leave_to_chance_is_said() -> None:
    """Noise of variance 6 per run, 2 seeds: 3 beside 13.84 of the function, a share of 0.178."""
    rng = np.random.default_rng(1)
    runs = ishigami(64, seeds=2)
    noisy = runs.assign(accuracy=runs["accuracy"] + rng.normal(0.0, math.sqrt(6.0), len(runs)))

    (sentence,) = left_to_chance(noisy, "accuracy")

    share = float(sentence.split(": ")[1].split(" %")[0]) / 100
    assert share == pytest.approx(3 / (3 + 13.84), abs=0.03)
    assert left_to_chance(runs, "accuracy") == []
    # What a seed does to all settings alike is no noise.
    assert left_to_chance(runs.assign(accuracy=runs["accuracy"] + runs["seed"]), "accuracy") == []
    (one,) = left_to_chance(ishigami(4), "accuracy")
    assert "of one seed nobody knows" in one


def test_the_total_index_of_a_key_that_does_nothing_is_that_share() -> None:
    """x2 alone decides, and chance is a fifth of the variance: x1 and x3 have about 0.2 each."""
    rng = np.random.default_rng(2)
    runs = ishigami(256, seeds=2)
    decided = 7 * np.sin(runs["x2"]) ** 2  # of variance 6.125
    noisy = runs.assign(accuracy=decided + rng.normal(0.0, math.sqrt(2 * 6.125 / 4), len(runs)))

    found = sobol_indices(noisy, "accuracy", KEYS).set_index("factor")["total"]

    (sentence,) = left_to_chance(noisy, "accuracy")
    assert found["x1"] == pytest.approx(0.2, abs=0.03)
    assert float(sentence.split("is about ")[1].split(",")[0]) == pytest.approx(0.2, abs=0.03)
