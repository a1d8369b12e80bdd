"""A run that was cut off goes on, and ends as if nothing had happened."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from safetensors.torch import load_file

import simfl
from simfl.algorithms.base import ServerState
from simfl.assembly.simulation import Options
from simfl.provenance.replay import ReplayDiffers
from simfl.provenance.results import MemoryStore
from simfl.runs.files import FolderInUse
from tests.small import SEMI_ASYNCHRONOUS, largest_difference, small

SCENARIOS = {
    "semi-asynchronous": small(
        dtype="float32", protocol=SEMI_ASYNCHRONOUS, stop={"versions": 12}, evaluate={"every": 3}
    ).with_overrides(
        {
            "population.groups.0.availability": {"name": "absence", "from_s": 0.05},
            "population.groups.1.allocation": "fedcure",
        }
    ),
    "kept optimizer": small(
        dtype="float32",
        algorithm={
            "name": "fedavg",
            "local": {"optimizer": "adam", "keep_optimizer": True, "learning_rate": 0.01},
        },
        stop={"versions": 12},
    ),
    "residuals": small(
        dtype="float32",
        population={
            "uplink_codec": {"name": "top_k", "share": 0.1, "error_feedback": True},
            "downlink_codec": "int8",
        },
        stop={"versions": 12},
    ),
    "coded between tiers": small(
        dtype="float32",
        population={"uplink_codec": "int8", "downlink_codec": "float16"},
        protocol=SEMI_ASYNCHRONOUS,
        stop={"versions": 12},
    ),
    "game": small(
        dtype="float32",
        population={"clients": 3},
        model={"name": "mlp", "hidden": [12, 12]},
        algorithm={
            "name": "fl_games",
            "representation": "variable",
            "order": "sequential",
            "smooth": True,
            "equilibrium": {"examples": 20},
        },
        stop={"versions": 12},
    ),
    "own batch statistics": small(
        dtype="float32",
        model={"name": "mlp", "hidden": [12], "batch_norm": True},
        algorithm="fedbn",
        stop={"versions": 12},
    ),
    "own models": small(
        dtype="float32", algorithm="standalone", protocol=SEMI_ASYNCHRONOUS, stop={"versions": 12}
    ),
}


def cut_off(scenario, out, version, resume=False, **options):
    """Run until `version` is out, then interrupt, as Ctrl-C would."""

    def interrupt(progress):
        if progress.version == version:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simfl.run(scenario, out, Options(watch=interrupt, **options), resume=resume)


def assert_same(left, right):
    """Byte-identical event logs, equal tables, bit-identical final models."""
    first, second = ((run.path / "events.parquet").read_bytes() for run in (left, right))
    assert first == second
    assert left.rounds.equals(right.rounds)
    assert left.clients.equals(right.clients)
    models = [load_file(run.path / "model.safetensors") for run in (left, right)]
    assert largest_difference(*models) == 0.0


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_an_interrupted_run_is_readable_and_goes_on(tmp_path, name):
    """Interrupted twice, it ends like an undisturbed one and trains nothing twice."""
    scenario = SCENARIOS[name]
    whole = simfl.run(scenario, tmp_path / "whole")

    cut_off(scenario, tmp_path / "cut", 5)
    so_far = simfl.load_run(tmp_path / "cut")
    assert so_far.manifest["status"] == "interrupted"
    assert len(so_far.rounds) == 5 and len(so_far.events) > 0
    first_jobs = so_far.manifest["counts"]["jobs_trained"]

    resumed = simfl.run(scenario, tmp_path / "cut", resume=True)

    assert_same(whole, resumed)
    again = resumed.manifest["counts"]["jobs_trained"]
    assert first_jobs + again == whole.manifest["counts"]["jobs_trained"]
    assert not (tmp_path / "cut" / "events.before").exists()


def test_an_interrupt_during_the_replay_loses_nothing(tmp_path):
    """The snapshot belongs to a later moment than the replay has reached, and stays unchanged."""
    scenario = SCENARIOS["semi-asynchronous"]
    whole = simfl.run(scenario, tmp_path / "whole")
    cut_off(scenario, tmp_path / "cut", 9)
    first_jobs = simfl.load_run(tmp_path / "cut").manifest["counts"]["jobs_trained"]

    for version in (2, 5):
        before = (tmp_path / "cut" / "snapshot.pt").read_bytes()
        cut_off(scenario, tmp_path / "cut", version, resume=True, snapshot_seconds=0.0)
        assert (tmp_path / "cut" / "snapshot.pt").read_bytes() == before
        assert simfl.load_run(tmp_path / "cut").manifest["counts"]["jobs_trained"] == 0
    resumed = simfl.run(scenario, tmp_path / "cut", resume=True)

    assert_same(whole, resumed)
    again = resumed.manifest["counts"]["jobs_trained"]
    assert first_jobs + again == whole.manifest["counts"]["jobs_trained"]


@pytest.mark.parametrize("names", ["", "run.lock", "run.lock manifest.partial"])
@pytest.mark.parametrize("resume", [False, True])
def test_a_run_without_a_manifest_is_begun_again(tmp_path, names, resume):
    """It was interrupted in its first milliseconds, before it had written its manifest."""
    (tmp_path / "cut").mkdir()
    for name in names.split():
        (tmp_path / "cut" / name).write_text("{")
    scenario = SCENARIOS["semi-asynchronous"].with_overrides(["stop.versions=2"])

    resumed = simfl.run(scenario, tmp_path / "cut", resume=resume)

    assert_same(simfl.run(scenario, tmp_path / "whole"), resumed)


def test_a_folder_of_the_users_is_not_resumed(tmp_path):
    """A scenario beside other files is no run, whatever is asked."""
    (tmp_path / "scenario.yaml").write_text("name: own")

    with pytest.raises(FolderInUse, match="no run folder"):
        simfl.run(SCENARIOS["semi-asynchronous"], tmp_path, resume=True)
    assert (tmp_path / "scenario.yaml").read_text() == "name: own"


def test_resuming_without_a_snapshot_trains_again(tmp_path):
    """Without a readable snapshot the values are computed anew; the result is the same."""
    scenario = SCENARIOS["semi-asynchronous"]
    whole = simfl.run(scenario, tmp_path / "whole")
    cut_off(scenario, tmp_path / "cut", 7)
    (tmp_path / "cut" / "snapshot.pt").write_bytes(b"no snapshot")

    assert_same(whole, simfl.run(scenario, tmp_path / "cut", resume=True))


def test_a_completed_run_is_only_read(tmp_path):
    """Resuming a complete run changes nothing."""
    scenario = SCENARIOS["semi-asynchronous"]
    simfl.run(scenario, tmp_path / "run")
    before = (tmp_path / "run" / "manifest.json").read_bytes()

    result = simfl.run(scenario, tmp_path / "run", resume=True)

    assert result.manifest["status"] == "completed"
    assert (tmp_path / "run" / "manifest.json").read_bytes() == before


def test_another_scenario_is_refused(tmp_path):
    """A folder is resumed with its own scenario only."""
    cut_off(SCENARIOS["semi-asynchronous"], tmp_path / "cut", 3)

    with pytest.raises(FolderInUse, match=r"another scenario's run \(it differs in population,"):
        simfl.run(SCENARIOS["own models"], tmp_path / "cut", resume=True)


def test_another_numeric_platform_is_refused_unless_told_otherwise(tmp_path):
    """Another trainer gives other last bits, so it is another platform."""
    scenario = SCENARIOS["semi-asynchronous"]
    cut_off(scenario, tmp_path / "cut", 3)

    with pytest.raises(FolderInUse, match="trainer batched -> sequential"):
        simfl.run(scenario, tmp_path / "cut", Options(trainer="sequential"), resume=True)
    anyway = Options(trainer="sequential", any_platform=True)
    assert simfl.run(scenario, tmp_path / "cut", anyway, resume=True).manifest["status"] == (
        "completed"
    )


def test_a_replay_that_differs_is_reported(tmp_path):
    """If the log written before is not what the replay gives, the run stops, and keeps it."""
    scenario = SCENARIOS["semi-asynchronous"]
    cut_off(scenario, tmp_path / "cut", 5)
    other = scenario.with_overrides(["population.groups.0.device=rpi_5"])
    cut_off(other, tmp_path / "other", 5)
    (tmp_path / "cut" / "events" / "part-00000.parquet").write_bytes(
        (tmp_path / "other" / "events" / "part-00000.parquet").read_bytes()
    )

    with pytest.raises(ReplayDiffers, match="not what was written before"):
        simfl.run(scenario, tmp_path / "cut", resume=True)
    assert list((tmp_path / "cut" / "events.before").glob("part-*.parquet"))


@pytest.mark.parametrize(
    "moment", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in (1, 2))]
)
def test_a_killed_process_is_resumed(tmp_path, moment):
    """`kill -9` at a random moment, several times; the end is that of an undisturbed run."""
    scenario = SCENARIOS["kept optimizer"].with_overrides(
        ["stop.versions=60", "log.rows_per_segment=150"]
    )
    (tmp_path / "scenario.yaml").write_text(scenario.to_yaml())
    program = (
        "import sys, simfl; from simfl.assembly.simulation import Options;"
        "simfl.run(sys.argv[1], sys.argv[2], Options(snapshot_seconds=0.05), resume=True)"
    )
    command = [sys.executable, "-c", program, tmp_path / "scenario.yaml", tmp_path / "killed"]
    rng = random.Random(moment)

    for _ in range(2):
        process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
        try:
            deadline = time.monotonic() + 300  # a busy machine takes a minute to load torch
            while not (tmp_path / "killed" / "snapshot.pt").exists() and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            time.sleep(rng.uniform(0.0, 0.4))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    resumed = simfl.run(tmp_path / "scenario.yaml", tmp_path / "killed", resume=True)

    assert_same(simfl.run(scenario, tmp_path / "whole"), resumed)


class Interrupting(MemoryStore):
    """Ctrl-C comes while the third server state is being kept."""

    states = 0

    def put(self, key, value):
        """Keep it, or not."""
        self.states += isinstance(value, ServerState)
        if self.states == 3:
            raise KeyboardInterrupt
        super().put(key, value)


@pytest.mark.grid(2)
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_an_interrupt_between_an_aggregation_and_its_state_loses_no_update(tmp_path, name):
    """The updates of a version are let go of once its state is there, not before."""
    scenario = SCENARIOS[name].with_overrides(["stop.versions=6"])
    with pytest.raises(KeyboardInterrupt):
        simfl.run(scenario, tmp_path / "cut", Options(store=Interrupting()))

    resumed = simfl.run(scenario, tmp_path / "cut", resume=True)

    assert_same(simfl.run(scenario, tmp_path / "whole"), resumed)
