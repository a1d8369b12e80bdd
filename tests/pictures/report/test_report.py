"""Reports: one file that loads nothing, contains its data, and shows the results."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import simfl
from simfl.cli.app import app
from simfl.pictures.report import charts, of_run, page, timeline
from simfl.pictures.report.of_run import clients_by_rounds, report_run
from simfl.pictures.report.of_study import report_study
from simfl.runs.runfolder import LoadedRun, RunFolderError
from simfl.study.loaded import LoadedStudy
from tests.pictures.report.pages import Parsed
from tests.small import SEMI_ASYNCHRONOUS, small
from tests.study.studies import run_here, session

SECTIONS = [
    "Warnings",
    "What ran",
    "Outcome",
    "Who participated",
    "Staleness",
    "Queues",
    "Energy",
    "Fairness and certificates",
    "Timeline",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """A small semi-asynchronous run whose scheduling keeps queues."""
    scenario = small(
        name="a <b> & c",
        protocol=SEMI_ASYNCHRONOUS,
        stop={"versions": 6},
        decisions={"scheduling": "fedcure"},
        evaluate={"measures": ["participation", "virtual_queues"]},
    )
    return simfl.run(scenario, tmp_path_factory.mktemp("run") / "out")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> LoadedStudy:
    """The tiny study with every kind of question."""
    one = session(
        tmp_path_factory.mktemp("study"),
        questions={
            "metrics": ["accuracy", "time_s"],
            "compare": [{"factor": "population.groups.0.device", "baseline": "rpi_4b"}],
            "pareto": {"accuracy": "max", "energy_j": "min"},
        },
    )
    run_here(one)
    return one.collect()


@pytest.fixture
def _no_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested here needs no library of charts."""
    monkeypatch.setattr(page, "plotly_script", lambda: "/* charts */")


def labelled(chart: dict) -> bool:
    """Both axes say what they show; an axis of names needs no unit."""
    layout = chart["layout"]
    named = layout["yaxis"].get("type") == "category"
    across, up = (layout[axis]["title"]["text"] for axis in ("xaxis", "yaxis"))
    return bool(re.search(r"\(.+\)$", across)) and (named or bool(re.search(r"\(.+\)$", up)))


@pytest.mark.usefixtures("_no_plotly")
def test_a_runs_report_stands_alone(run: LoadedRun, tmp_path: Path) -> None:
    """All sections, nothing to load, the run's own data inside, axes with units."""
    parsed = Parsed(report_run(run, tmp_path / "report.html"))

    assert parsed.headings == SECTIONS
    assert parsed.outward() == []
    assert "a <b> & c, seed 3" in parsed.text
    assert parsed.data("manifest")["fingerprint"] == run.manifest["fingerprint"]
    assert run.warnings and all(one.advice in parsed.text for one in run.warnings)
    rounds = parsed.data("rounds")
    assert rounds["version"] == run.rounds["version"].tolist()
    assert rounds["accuracy"] == pytest.approx(run.rounds["accuracy"].tolist(), rel=1e-5)
    assert len(parsed.data("clients")["client"]) == 8
    assert all(labelled(chart) for chart in parsed.charts())


@pytest.mark.usefixtures("_no_plotly")
def test_a_runs_charts_show_the_run(run: LoadedRun, tmp_path: Path) -> None:
    """Joules add up over devices, turns over clients, slices over states."""
    charts = Parsed(report_run(run, tmp_path / "report.html")).charts()
    by_axis = {chart["layout"]["xaxis"]["title"]["text"]: chart for chart in charts}

    joules = [sum(trace["x"]) for trace in by_axis["energy of all of them (J)"]["data"]]
    assert sum(joules) == pytest.approx(run.manifest["energy_j"], rel=1e-4)
    devices = {
        name for trace in by_axis["mean energy per client (J)"]["data"] for name in trace["y"]
    }
    assert devices == set(run.clients["device"])
    client_rounds = [sum(trace["y"]) for trace in by_axis["client (number)"]["data"]]
    assert sum(client_rounds) == run.clients["participations"].sum()
    timeline = {trace["name"]: trace for trace in charts[-1]["data"]}
    own = run.events[run.events["kind"] == "compute"]
    assert sum(timeline["compute"]["x"]) == pytest.approx(own["duration_s"].sum(), rel=1e-4)
    queues = next(chart for chart in charts if "queue" in chart["layout"]["yaxis"]["title"]["text"])
    assert [trace["name"] for trace in queues["data"]] == ["edge 0", "edge 1"]


@pytest.mark.usefixtures("_no_plotly")
def test_measures_stand_in_the_fairness_table(run: LoadedRun, tmp_path: Path) -> None:
    """With their figures and what they certify."""
    text = Parsed(report_run(run, tmp_path / "report.html")).text

    assert "Certificate of the scheduling" in text
    assert f"{run.manifest['measures']['virtual_queues']['longest']:.4g}" in text
    assert "lowest" in text and "Jain's index" in text


@pytest.mark.usefixtures("_no_plotly")
def test_queues_that_are_not_drawn_are_counted(
    run: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more edge servers than colours; the page says how many there are."""
    monkeypatch.setattr(of_run, "MOST_NAMED_EDGES", 1)

    text = Parsed(report_run(run, tmp_path / "report.html")).text

    assert f"The first 1 of {run.clients['edge'].nunique()} edge servers" in text


@pytest.mark.usefixtures("_no_plotly")
def test_negative_scores_have_no_jain_index(run: LoadedRun, tmp_path: Path) -> None:
    """R^2 of a regression may be negative: the page says as little of it as measures do."""
    clients = run.clients
    known = clients["global_accuracy"].copy()
    clients["global_accuracy"] = -known
    try:
        text = Parsed(report_run(run, tmp_path / "report.html")).text
    finally:
        clients["global_accuracy"] = known

    told = text[text.index("accuracy of the final global model on a client's training examples") :]
    assert re.search(r"Jain's index\s*–", told[: told.index("what a client is served")])


@pytest.mark.usefixtures("_no_plotly")
def test_a_run_without_training_events_or_edges(tmp_path: Path) -> None:
    """What there is not is said, not drawn."""
    scenario = small(
        algorithm={"name": "none"}, log={"level": "rounds"}, stop={"versions": 2}, model="linear"
    )
    run = simfl.run(scenario, tmp_path / "out")

    parsed = Parsed(report_run(run, tmp_path / "report.html"))

    assert parsed.headings == SECTIONS
    assert "keeps no queues" in parsed.text
    assert "kept no events" in parsed.text
    assert "version (count)" in str(parsed.charts())


@pytest.mark.usefixtures("_no_plotly")
def test_a_studys_report_stands_alone(study: LoadedStudy, tmp_path: Path) -> None:
    """Its answers as charts and tables, all runs, nothing to load."""
    parsed = Parsed(report_study(study, tmp_path / "report.html"))

    assert parsed.headings == [
        "Warnings",
        "What ran",
        "Outcome",
        "Learning curves",
        "Paired comparisons",
        "Pareto front",
        "What matters",
        "Runs",
    ]
    assert parsed.outward() == []
    assert parsed.data("runs")["seed"] == study.table["seed"].tolist()
    assert all(labelled(chart) for chart in parsed.charts())
    front = next(
        chart for chart in parsed.charts() if chart["data"][-1].get("name") == "Pareto front"
    )
    assert sum(len(trace["x"]) for trace in front["data"]) == 4


@pytest.mark.usefixtures("_no_plotly")
def test_figures_that_no_run_has_are_told_and_left_out(tmp_path: Path) -> None:
    """No columns of dashes, no comparisons of nothing."""
    compare = [{"factor": "population.groups.0.device", "baseline": "rpi_4b"}]
    base = {"data": {"name": "sizes", "examples_per_client": 8}, "algorithm": "none"}
    questions = {"metrics": ["accuracy", "loss"], "compare": compare}
    one = session(tmp_path, base=base, questions=questions)
    run_here(one)

    file = report_study(one.collect(), tmp_path / "report.html")

    assert Parsed(file).headings == ["Warnings", "What ran", "Outcome", "Runs"]
    assert "No run has the figure accuracy, loss." in file.read_text("utf-8")


@pytest.mark.usefixtures("_no_plotly")
def test_the_command(run: LoadedRun, study: LoadedStudy, tmp_path: Path) -> None:
    """For runs and studies; other folders are refused."""
    for folder in (run.path, study.path):
        result = CliRunner().invoke(app, ["report", str(folder)])
        assert result.exit_code == 0, result.output
        assert (folder / "report.html").exists()

    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 2
    assert "no run folder" in result.stderr


@pytest.mark.parametrize(
    ("name", "file"),
    [("report", "manifest.json"), ("report", "scenario.yaml"), ("trace", "manifest.json")],
)
def test_a_file_of_the_run_is_not_written_over(run: LoadedRun, name: str, file: str) -> None:
    """A page or a trace in its place would end the run."""
    before = (run.path / file).read_bytes()

    result = CliRunner().invoke(app, [name, str(run.path), "--out", str(run.path / file)])

    assert result.exit_code == 2
    assert "accepted: a file that ends in" in result.stderr
    assert (run.path / file).read_bytes() == before


def test_a_run_that_has_not_ended(run: LoadedRun, tmp_path: Path) -> None:
    """There is no report of it before it has a table."""
    begun = {**run.manifest, "status": "running", "files": None}
    (tmp_path / "manifest.json").write_text(json.dumps(begun))

    with pytest.raises(RunFolderError, match="has no table of its versions yet"):
        report_run(simfl.load_run(tmp_path), tmp_path / "report.html")


def test_charts_show_names_as_they_are_written() -> None:
    """Plotly takes "<b>" for bold type and leaves other tags out."""
    lines = charts.lines({"a<b>": ([1.0], [2.0])}, "x & y (s)", "y (1)")
    rows = charts.intervals(["lr <0.1>"], [1.0], ([0.5], [1.5]), "accuracy (share)")
    one = dict.fromkeys(("x", "y", "x_low", "x_high", "y_low", "y_high"), (1.0,))
    front = charts.front({**one, "names": ["<i>"]}, "x (s)", "y (1)", [True])

    assert lines["data"][0]["name"] == "a&lt;b&gt;"
    assert lines["layout"]["xaxis"]["title"]["text"] == "x &amp; y (s)"
    assert rows["data"][0]["y"] == ["lr &lt;0.1&gt;"]
    assert front["data"][1]["text"] == ["&lt;i&gt;"]


def test_lines_begin_at_zero_and_one_below_another_is_seen() -> None:
    """If mean and oldest staleness are the same, both lines are visible."""
    same = ([3.0, 4.0], [0.0, 1.0])
    chart = charts.lines({"mean": same, "oldest": same}, "s (s)", "v (1)", steps=True)

    assert chart["layout"]["xaxis"]["rangemode"] == "tozero"
    assert [trace["line"]["dash"] for trace in chart["data"]] == ["solid", "dash"]


@pytest.mark.usefixtures("_no_plotly")
def test_a_timeline_is_whole_until_the_first_thing_that_is_left_out(
    run: LoadedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to be complete until the end of the last slice shown, which may be a long wait."""
    monkeypatch.setattr(timeline, "MOST_SLICES", 20)

    parsed = Parsed(report_run(run, tmp_path / "report.html"))

    drawn = run.events[
        run.events["kind"].isin(charts.KIND_COLOURS) & (run.events["duration_s"] > 0)
    ]
    starts = sorted(drawn.loc[drawn["kind"] != "idle", "start_s"])
    ends = [trace["base"] for trace in parsed.charts()[-1]["data"]]
    assert max(max(one) for one in ends) <= starts[20]
    assert f"The first {starts[20]:.4g} s of {run.manifest['horizon_s']:.4g} s" in parsed.text


def test_text_cannot_break_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither from tables nor from embedded data."""
    monkeypatch.setattr(page, "plotly_script", lambda: "")
    one = page.Page("t")
    one.table(("a",), [("</td><script>x</script>",)])
    one.data("d", {"key": "</script><script>alert(1)</script>", "nan": float("nan")})
    one.data("comment", {"name": "<!--<script>"})

    parsed = Parsed(one.save(tmp_path / "page.html"))

    assert [tag for tag, _ in parsed.tags].count("script") == 4
    assert "<!--" not in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert parsed.data("comment") == {"name": "<!--<script>"}
    assert parsed.data("d") == {"key": "</script><script>alert(1)</script>", "nan": None}


@pytest.mark.browser
def test_a_browser_draws_it(run: LoadedRun, tmp_path: Path) -> None:
    """Headless Chromium, without a network, turns every chart's holder into a drawing."""
    pytest.importorskip("plotly")
    path = report_run(run, tmp_path / "report.html")
    browser = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    )
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"

    shot = tmp_path / "report.png"
    drawn = subprocess.run(
        [browser, *options, offline, "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    subprocess.run(
        [
            browser,
            *options,
            offline,
            "--window-size=1280,4000",
            f"--screenshot={shot}",
            path.as_uri(),
        ],
        capture_output=True,
        check=True,
        timeout=120,
    )

    charts = len(Parsed(path).charts())
    assert drawn.count("js-plotly-plot") - drawn.count(".js-plotly-plot") >= charts
    assert drawn.count('class="main-svg"') >= charts
    assert shot.stat().st_size > 50_000


def test_numbers_of_rounds_have_no_gap() -> None:
    """4 is not next to 11; many numbers are ranges of equal width."""
    names, counts = clients_by_rounds(pd.Series([11.0, 4.0, 12.0, 12.0]))
    assert names == [str(rounds) for rounds in range(4, 13)]
    assert counts == [1, 0, 0, 0, 0, 0, 0, 1, 2]

    names, counts = clients_by_rounds(pd.Series(np.arange(0.0, 600.0)))
    assert (names[0], names[-1], len(names)) == ("0 to 19", "580 to 599", 30)
    assert counts == [20] * 30
