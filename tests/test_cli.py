"""The command line: what each command prints, leaves behind and exits with."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import simfl
from simfl.cli import listing
from simfl.cli.app import app
from simfl.common.quantity import quantity
from simfl.protocols.synchronous import Synchronous
from simfl.runs.summary import who_trained

TINY: dict[str, Any] = {
    "name": "tiny",
    "seed": 3,
    "data": {"name": "digits", "partition": {"name": "dirichlet", "alpha": 1.0}},
    "model": "linear",
    "population": {
        "name": "catalogue",
        "clients": 4,
        "edges": 2,
        "groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}],
        "compute_noise": 0.05,
    },
    "algorithm": {
        "name": "fedavg",
        "local": {"steps": 1, "batch_size": 32, "learning_rate": 0.1},
    },
    "protocol": {"name": "semi_asynchronous", "edge_rounds": 1, "concurrency": 1},
    "stop": {"versions": 2},
}


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny scenario's file in the current folder."""
    monkeypatch.chdir(tmp_path)
    file = Path("tiny.yaml")
    file.write_text(yaml.safe_dump(TINY))
    return file


def simfl_command(*arguments: str | Path) -> Any:
    """What `simfl` does with these arguments, in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


def quiet_run(*arguments: str | Path) -> Any:
    """`simfl run` without progress and summary; it must succeed."""
    result = simfl_command("run", *arguments, "--quiet")
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize(
    ("edges", "title"), [(1, "participation\n"), (2, "participation per access point")]
)
def test_a_flat_run_has_no_edge_servers(scenario: Path, edges: int, title: str) -> None:
    """Its clients are one group, or one per access point."""
    shared = {"name": "processor_sharing", "capacity_bps": 1e8}
    changes = {
        "algorithm": "none",
        "protocol": "synchronous",
        "population.edges": edges,
        "population.access_sharing": json.dumps(shared),
    }
    flat = [f"--set={key}={value}" for key, value in changes.items()]
    result = simfl_command("run", scenario, "--out", "out", *flat)

    assert result.exit_code == 0, result.output
    said = re.sub(r" +\n", "\n", result.stdout)
    assert title in said and "per edge server" not in said


def test_run_ends_with_a_summary(scenario: Path) -> None:
    """Accuracy, time, energy, bytes, participation per edge, the figure and the folder."""
    result = simfl_command("run", scenario, "--out", "out")

    assert result.exit_code == 0, result.output
    for row in ("accuracy", "simulated time", "energy", "bytes over all links", "per edge server"):
        assert row in result.stdout
    assert "run folder: out" in result.stdout
    figure = re.search(r"figure: +(\S+)", result.stdout)
    assert figure is not None
    assert Path(figure[1]).stat().st_size > 1000
    assert simfl.load_run("out").manifest["status"] == "completed"


def test_a_summary_tells_what_was_sent_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes are those that arrived; terminal, notebook and report say what was lost beside them."""
    monkeypatch.chdir(tmp_path)
    result = simfl_command("run", "lossy_links", "--set", "stop.versions=3", "--out", "out")

    run = simfl.load_run("out")
    lost = run.manifest["traffic"]["bytes_lost"]
    assert lost == run.events["lost_bytes"].sum() > 0
    assert run.manifest["bytes"] == run.events["bytes"].sum()
    said = f", {quantity(lost, 'B')} more in vain"
    assert said in result.stdout
    assert said in run._repr_html_()
    assert simfl_command("report", "out").exit_code == 0
    assert said in Path("out/report.html").read_text(encoding="utf-8")
    assert "trained" not in result.stdout


def test_the_summary_says_how_much_workers_trained(scenario: Path) -> None:
    """Each of them a number of jobs in a range; small trainings are done in this process."""
    result = simfl_command("run", scenario, "--out", "out", "--workers", "2")

    assert result.exit_code == 0, result.output
    jobs = simfl.load_run("out").manifest["counts"]["jobs_trained"]
    assert re.search(rf"\n1 worker trained {jobs} jobs in [\d.e-]+ s\n", result.stdout)
    two = [{"jobs": 3, "training_s": 0.5}, {"jobs": 5, "training_s": 0.75}]
    assert who_trained(two) == "2 workers trained 8 jobs, 3 to 5 each, in 1.25 s of theirs"


def test_measures_stand_in_the_summary(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure below its measure; a measure without figures says so, NaN is a dash."""
    monkeypatch.setenv("COLUMNS", "100")
    measures = "evaluate.measures=[participation, virtual_queues, latency_calibration]"

    result = simfl_command("run", scenario, "--out", "out", "--set", measures)

    assert result.exit_code == 0, result.output
    assert re.search(r"participation +│ jain index +│ +[\d.]+", result.stdout)
    assert re.search(r"virtual queues +│ nothing to measure", result.stdout)
    kept = simfl.load_run("out").manifest["measures"]["participation"]
    assert f"{kept['turns_max']:.4g}" in result.stdout


def test_run_folder_is_named_after_scenario_and_seed(scenario: Path) -> None:
    """Without --out; a name with signs of a path in it leads nowhere else."""
    quiet_run(scenario)
    quiet_run(scenario, "--set", "name=../up/down")

    assert sorted(path.name for path in Path("runs").iterdir()) == [
        ".._up_down-seed3",
        "tiny-seed3",
    ]


def test_a_folder_with_a_colon_in_its_name_is_a_folder(scenario: Path) -> None:
    """pyarrow would take it for an address."""
    assert simfl_command("run", scenario, "--out", "s3:first").exit_code == 0

    run = simfl.load_run("s3:first")
    assert len(run.events) == run.manifest["counts"]["events"] > 0
    assert len(run.rounds) == run.manifest["counts"]["versions"]


def test_quiet_prints_nothing(scenario: Path) -> None:
    """--quiet leaves standard output and error empty."""
    result = quiet_run(scenario, "--out", "out")

    assert (result.stdout, result.stderr) == ("", "")


def test_shipped_scenario_by_name() -> None:
    """A shipped scenario needs no path."""
    result = simfl_command("validate", "quickstart")

    assert (result.exit_code, result.stdout) == (0, "quickstart: valid\n")


def test_validate_warns_of_keys_that_nothing_reads(scenario: Path) -> None:
    """One line each, with file, line, key and reason; the scenario is valid."""
    content = {**TINY, "protocol": "synchronous", "decisions": {"scheduling": "greedy"}}
    scenario.write_text(yaml.safe_dump(content, sort_keys=False))
    lines = scenario.read_text().splitlines()
    edges, scheduling = (lines.index(one) + 1 for one in ("  edges: 2", "  scheduling: greedy"))

    plain = simfl_command("validate", scenario)
    resolved = simfl_command("validate", scenario, "--resolved")

    told = [
        f"warning: tiny.yaml:{scheduling}: decisions.scheduling: nothing reads it: synchronous"
        " schedules no edge servers",
        f"warning: tiny.yaml:{edges}: population.edges: nothing reads it: synchronous has no edge"
        " servers: clients send to the cloud, and share nothing at access points",
    ]
    assert (plain.exit_code, plain.stdout.splitlines()) == (0, [*told, "tiny.yaml: valid"])
    assert resolved.stderr.splitlines() == told
    assert "scheduling" not in yaml.safe_load(resolved.stdout)["decisions"]


def test_seed_and_set(scenario: Path) -> None:
    """Options win over the file, and the run folder's scenario says so."""
    quiet_run(scenario, "--out", "out", "--seed", "9", "--set", "stop.versions=1")

    run = simfl.load_run("out")
    written = yaml.safe_load(Path("out/scenario.yaml").read_text())
    assert run.manifest["seed"] == written["seed"] == 9
    assert run.manifest["counts"]["versions"] == written["stop"]["versions"] == 1


def test_resolved_scenario_reproduces_the_run(scenario: Path) -> None:
    """Every default is printed, and what is printed runs to byte-identical events."""
    resolved = simfl_command("validate", scenario, "--resolved", "--set", "algorithm.name=fedprox")
    Path("resolved.yaml").write_text(resolved.stdout)

    quiet_run(scenario, "--set", "algorithm.name=fedprox", "--out", "first")
    quiet_run("resolved.yaml", "--out", "second")
    quiet_run("second/scenario.yaml", "--out", "third")

    content = yaml.safe_load(resolved.stdout)
    assert content["algorithm"]["mu"] == 0.01
    assert content["algorithm"]["local"]["optimizer"] == "sgd"
    assert content["decisions"]["staleness"]["name"] == "exponential"
    assert content["population"]["edge_server"] == "edge_xeon_d"
    events = [Path(one, "events.parquet").read_bytes() for one in ("first", "second", "third")]
    assert events[0] == events[1] == events[2]
    digests = {simfl.load_run(one).manifest["digest"] for one in ("first", "second", "third")}
    assert len(digests) == 1


def test_another_seed_gives_other_events(scenario: Path) -> None:
    """The comparison above can fail."""
    quiet_run(scenario, "--out", "first")
    quiet_run(scenario, "--out", "second", "--seed", "4")

    assert Path("first/events.parquet").read_bytes() != Path("second/events.parquet").read_bytes()


def test_sequential_trainer(scenario: Path) -> None:
    """The reference trainer gives the same times, joules and bytes."""
    quiet_run(scenario, "--out", "batched")
    quiet_run(scenario, "--out", "sequential", "--trainer", "sequential")

    columns = ["time_s", "kind", "actor", "energy_j", "bytes"]
    batched, sequential = (simfl.load_run(one).events for one in ("batched", "sequential"))
    assert batched[columns].equals(sequential[columns])


def test_augmented_run(scenario: Path) -> None:
    """Transforms that need whole images run under both trainers, to the same accuracy."""
    transforms = (
        "[{name: RandomCrop, size: 8, padding: 1}, {name: Normalize, mean: [0.5], std: [1]}]"
    )
    options = [f"--set=data.augmentation={transforms}", "--set=dtype=float64"]

    quiet_run(scenario, "--out=plain", "--set=dtype=float64")
    quiet_run(scenario, "--out=batched", *options)
    quiet_run(scenario, "--out=sequential", "--trainer=sequential", *options)

    plain, batched, sequential = (
        simfl.load_run(one).rounds["loss"].tolist() for one in ("plain", "batched", "sequential")
    )
    assert batched == pytest.approx(sequential, rel=1e-9)
    assert batched != pytest.approx(plain, rel=1e-6)


def test_used_folder_is_refused(scenario: Path) -> None:
    """Nothing is overwritten unasked; --overwrite replaces a run and only a run."""
    quiet_run(scenario, "--out", "out")
    before = Path("out/events.parquet").read_bytes()

    again = simfl_command("run", scenario, "--out", "out", "--seed", "4")

    assert again.exit_code == 2
    assert (
        again.stderr == "simfl: out: holds a run; choose another --out, --overwrite or --resume\n"
    )
    assert Path("out/events.parquet").read_bytes() == before

    quiet_run(scenario, "--out", "out", "--seed", "4", "--overwrite")

    assert Path("out/events.parquet").read_bytes() != before


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("letters", "not empty and no run folder"),
        ("tiny.yaml", "a file; choose another --out"),
        ("tiny.yaml/out", "cannot be made"),
    ],
)
def test_folder_that_is_no_run(scenario: Path, out: str, words: str) -> None:
    """A folder with something else in it, or a file, is refused even with --overwrite."""
    Path("letters").mkdir()
    Path("letters/dear.txt").write_text("kept")

    result = simfl_command("run", scenario, "--out", out, "--overwrite")

    assert result.exit_code == 2
    assert result.stderr.startswith(f"simfl: {out}: ") and words in result.stderr
    assert result.stderr.count("\n") == 1
    assert Path("letters/dear.txt").read_text() == "kept"


def test_diverged_run(scenario: Path) -> None:
    """Exit code 3, one line that says when, and a folder that is complete up to there."""
    result = simfl_command(
        "run",
        scenario,
        "--quiet",
        "--out=out",
        "--set=algorithm.local.learning_rate=1e30",
        "--set=model={name: mlp, hidden: [4]}",
        "--set=stop.versions=50",
    )

    assert result.exit_code == 3
    assert re.fullmatch(r"simfl: the loss is (nan|inf) at version \d+, \S+ s\n", result.stderr)
    run = simfl.load_run("out")
    assert run.manifest["status"] == "diverged"
    assert run.manifest["reason"] in result.stderr
    assert not run.manifest["violations"]
    assert 0 < len(run.rounds) < 50
    assert len(run.events) == run.manifest["counts"]["events"]
    assert len(run.clients) == 4


@pytest.mark.parametrize(
    ("settings", "exit_code", "line"),
    [
        (
            {
                "algorithm.local.learning_rate": "1e30",
                "model": "{name: mlp, hidden: [4]}",
                "algorithm.name": "fedsac",
                "data.validation_share": "0.1",
            },
            3,
            r"clients' standalone training diverged: .*",
        ),
        (
            {
                "algorithm.name": "corefed",
                "algorithm.guard": "error",
                "algorithm.offset": "0.5",
            },
            1,
            r"guard: client \d has the utility -.*",
        ),
    ],
    ids=["standalone training diverges", "a loss is above its offset"],
)
def test_what_ends_a_run_is_one_line(
    scenario: Path, settings: dict[str, str], exit_code: int, line: str
) -> None:
    """3 where contributions cannot be found out, 1 for CoreFed's guard; the folder says failed."""
    changes = [f"--set={key}={value}" for key, value in settings.items()]
    result = simfl_command("run", scenario, "--quiet", "--out=out", *changes)

    assert result.exit_code == exit_code, result.output
    assert re.fullmatch(f"simfl: {line}\n", result.stderr)
    assert simfl.load_run("out").manifest["status"] == "failed"


def test_interrupted_run(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 130; what happened before is in the folder, and says that it was interrupted."""

    def interrupted(self: Synchronous, run: Any) -> Any:
        for step in Synchronous.choreography(self, run):
            if run.publications.rounds:
                raise KeyboardInterrupt
            yield step

    monkeypatch.setattr(Synchronous, "choreography", Synchronous.process, raising=False)
    monkeypatch.setattr(Synchronous, "process", interrupted)

    result = simfl_command("run", scenario, "--out=out", "--set=protocol=synchronous", "--quiet")

    assert result.exit_code == 130
    assert result.stderr.startswith("simfl: interrupted") and result.stderr.count("\n") == 1
    run = simfl.load_run("out")
    assert run.manifest["status"] == "interrupted"
    assert set(run.events["kind"]) >= {"download", "compute", "upload"}
    assert run.events["time_s"].max() <= run.manifest["horizon_s"]
    assert run.rounds["version"].tolist() == [1]


def test_a_run_that_is_terminated(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM, which a cluster's scheduler sends first, ends it as Ctrl-C does."""

    def terminated(self: Synchronous, run: Any) -> Any:
        for step in Synchronous.choreography(self, run):
            if run.publications.rounds:
                os.kill(os.getpid(), signal.SIGTERM)
            yield step

    monkeypatch.setattr(Synchronous, "choreography", Synchronous.process, raising=False)
    monkeypatch.setattr(Synchronous, "process", terminated)
    before = signal.getsignal(signal.SIGTERM)

    result = simfl_command("run", scenario, "--out=out", "--set=protocol=synchronous", "--quiet")

    assert result.exit_code == 130
    assert simfl.load_run("out").manifest["status"] == "interrupted"
    assert signal.getsignal(signal.SIGTERM) is before


def test_interrupted_while_reporting(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt in the watcher, outside of the simulation, ends the run in the same way."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("simfl.console.run.Watcher.update", interrupt)

    result = simfl_command("run", scenario, "--out", "out", "--quiet")

    assert result.exit_code == 130
    assert simfl.load_run("out").manifest["status"] == "interrupted"


def test_failure_of_a_plug_in(scenario: Path) -> None:
    """A user's own part may raise anything: it is told where, and the run is failed."""
    Path("own.py").write_text(
        "from dataclasses import dataclass\n"
        "from simfl.decisions.base import Selection\n"
        "@dataclass(frozen=True)\n"
        "class Late(Selection):\n"
        "    def decide(self, memory, view, rng):\n"
        "        return (memory or 0) + 1, {1: view.clients}[(memory or 0) + 1]\n"
    )

    result = simfl_command(
        "run",
        scenario,
        "--quiet",
        "--out=out",
        "--set=decisions.selection=own.py:Late",
        "--set=stop.versions=9",
    )

    told = "own.py:6 in Late.decide: KeyError: 2"
    assert result.exit_code == 1
    assert result.stderr == f"simfl: {told}\n"
    run = simfl.load_run("out")
    assert run.manifest["status"] == "failed"
    assert run.manifest["reason"] == told
    assert len(run.events) > 0


def test_schema_is_json_schema() -> None:
    """Self-contained, with the keys of the frame, and every part's keys under its name."""
    result = simfl_command("schema")

    assert result.exit_code == 0
    schema = json.loads(result.stdout)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) >= {"data", "model", "population", "algorithm", "stop"}
    assert set(schema["properties"]) >= {"name", "seed", "dtype", *schema["required"]}
    references = set(re.findall(r'"\$ref": "([^"]+)"', result.stdout))
    assert references <= {f"#/$defs/{name}" for name in schema["$defs"]}
    named = {
        one["properties"]["name"].get("const"): one["properties"]
        for one in schema["properties"]["algorithm"]["oneOf"]
        if one["type"] == "object"
    }
    assert set(named) >= {"fedavg", "fedsgd", "fedprox", "standalone", "none"}
    assert named["fedprox"]["mu"]["minimum"] == 0
    assert named["fedprox"]["mu"]["default"] == 0.01
    assert named["fedavg"]["local"]["properties"]["epochs"]["description"]


@pytest.mark.parametrize("kind", listing.KINDS)
def test_list(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of thing that a scenario names can be listed, briefly and verbosely."""
    monkeypatch.setenv("COLUMNS", "200")
    known = {
        "devices": "rpi_4b",
        "servers": "edge_xeon_d",
        "links": "wifi5_ac",
        "regions": "grid_france",
        "algorithms": "fedavg",
        "protocols": "semi_asynchronous",
        "datasets": "digits",
        "partitions": "dirichlet",
        "models": "linear",
        "populations": "catalogue",
        "decisions": "round_robin",
        "selection": "random",
        "association": "nearest",
        "scheduling": "greedy",
        "allocation": "capped",
        "staleness": "exponential",
        "estimator": "nig",
        "availability": "periodic",
        "codecs": "top_k",
        "sharing": "ofdma_equal",
        "measures": "participation",
        "scenarios": "quickstart",
        "traces": "fedscale-behaviour",
        "processors": "thermal_cpu",
        "link_models": "log_distance_radio",
        "events": "cloud_aggregate",
        "rounds": "staleness_max",
        "evaluations": "flipped",
        "clients": "participations",
    }

    for options in ([], ["-v"]):
        result = simfl_command("list", kind, *options)

        assert result.exit_code == 0, result.output
        assert known[kind] in result.stdout


def test_list_verbosely_shows_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure of the catalogue has a source or is marked as unverified."""
    monkeypatch.setenv("COLUMNS", "300")

    brief, verbose = (simfl_command("list", "devices", *one).stdout for one in ([], ["-v"]))

    assert re.search(r"rpi_4b.*\d+, \d+ unverified", brief)
    row = next(line for line in verbose.splitlines() if "processor.frequency_max_hz" in line)
    assert "geerlingguy" in verbose
    assert re.search(r"memory_bytes.*unverified", verbose)
    assert "1.8e+09" in verbose or "1.8e+09" in row


def test_list_own_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles in a folder of one's own stand in the list, beside the shipped ones."""
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "toaster.yaml").write_text(
        "# A toaster. Not for training.\nkind: device\ndevice_class: mcu\n"
        "power_idle_w: {value: 1, interval: [0.5, 2]}\n"
    )

    figures = listing._profiles("devices", [tmp_path], verbose=True).columns[2]
    assert "1, 0.5 to 2" in list(figures.cells)
    toaster = list(figures.cells).index("1, 0.5 to 2")
    sources = listing._profiles("devices", [tmp_path], verbose=True).columns[3]
    assert list(sources.cells)[toaster] == "unverified"
    shown = simfl_command("list", "devices", "--profiles", tmp_path).stdout

    assert re.search("A toaster .*1, 1 unverified", shown)
    assert "rpi_4b" in shown
    result = simfl_command("list", "devices", "--profiles", tmp_path / "nowhere")
    assert (result.exit_code, "no such folder of profiles" in result.stderr) == (2, True)


def test_list_of_something_else() -> None:
    """An unknown kind is refused with the nearest one."""
    result = simfl_command("list", "devises")

    assert result.exit_code == 2
    assert result.stderr.startswith("simfl: unknown kind 'devises', did you mean 'devices'?")


def test_python_module() -> None:
    """`python -m simfl` is the `simfl` command, exit codes and all."""
    good, bad = (
        subprocess.run(
            [sys.executable, "-m", "simfl", "list", kind],
            capture_output=True,
            text=True,
            check=False,
        )
        for kind in ("scenarios", "scenarioz")
    )

    assert good.returncode == 0, good.stderr
    assert "quickstart" in good.stdout
    assert bad.returncode == 2
    assert bad.stderr.startswith("simfl: unknown kind 'scenarioz', did you mean 'scenarios'?")
