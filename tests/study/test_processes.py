"""`simfl study` in several processes: the command, shards at once, and processes that die."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from simfl.cli.app import app
from simfl.study.loaded import load_study
from simfl.study.local import run_locally
from tests.study.studies import run_here, session, write_study

ROOT = Path(__file__).parents[2]

DEADLY = """
import os
from dataclasses import dataclass
from pathlib import Path
from simfl.decisions.base import Selection

@dataclass(frozen=True)
class Deadly(Selection):
    '''Takes its process down the first `times` times.'''

    folder: str
    times: int = 1

    def decide(self, memory, view, rng):
        deaths = len(list(Path(self.folder).glob('death-*')))
        if deaths < self.times:
            (Path(self.folder) / f'death-{deaths}').touch()
            os.kill(os.getpid(), 9)
        return memory, view.clients
"""


def command(*arguments: object) -> list[str]:
    """`simfl study` as a command line of its own."""
    return [sys.executable, "-m", "simfl", "study", *map(str, arguments)]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes, a line per run, the answers, and the folder; nothing is left to do then."""
    monkeypatch.setenv("COLUMNS", "200")
    questions = {
        "metrics": ["accuracy", "time_s"],
        "compare": [{"factor": "population.groups.0.device", "baseline": "rpi_4b"}],
        "pareto": {"accuracy": "max", "energy_j": "min"},
    }
    file = write_study(tmp_path, questions=questions)

    result = CliRunner().invoke(app, ["study", str(file), "--out", str(tmp_path / "out")])

    assert result.exit_code == 0, result.output
    assert "8 of 8 done" in result.stderr
    differences = result.stdout.split("time_s against device rpi_4b")[1]
    assert re.search(r"rpi_5 +│ +2 │ +-[\d.e-]+ ±[\d.e-]+ │.*│ +lower", differences)
    for title in ("means", "Pareto front", "main effects", "first-order Sobol indices"):
        assert title in result.stdout
    assert len(load_study(tmp_path / "out").table) == 8
    again = CliRunner().invoke(app, ["study", str(file), "--out", str(tmp_path / "out")])
    assert (again.exit_code, again.stderr) == (0, "")


def test_bad_study_file(tmp_path: Path) -> None:
    """One line on standard error, exit code 2, nothing written."""
    file = write_study(tmp_path, seed=[1])

    result = CliRunner().invoke(app, ["study", str(file), "--out", str(tmp_path / "out")])

    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert re.match(r"simfl: .*tiny\.yaml:\d+: seed: unknown key 'seed'", result.stderr)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    """Its point is tried again; one that keeps killing processes fails, the others go on."""
    (tmp_path / "deadly.py").write_text(DEADLY)
    for name in ("once", "always"):
        (tmp_path / name).mkdir()
    variants = {
        name: {
            "decisions.selection": {
                "name": "deadly.py:Deadly",
                "folder": str(tmp_path / name),
                "times": times,
            }
        }
        for name, times in (("once", 1), ("always", 99))
    }
    one = session(tmp_path, seeds=[1], points={"variants": variants})
    name_of = {point.folder_name: point.factors["variant"] for point in one.points}

    outcomes = {
        name_of[outcome.name]: outcome for outcome in run_locally(one.tasks(one.todo()), workers=1)
    }

    assert outcomes["once"].status == "completed"
    assert outcomes["always"].status == "failed"
    assert "its process died (-9)" in outcomes["always"].message
    assert len(list((tmp_path / "always").iterdir())) == 3


@pytest.mark.slow
def test_four_shards_at_once(tmp_path: Path) -> None:
    """Four processes in one folder; gathered, they are what one process would have found."""
    file, out = write_study(tmp_path), tmp_path / "out"
    shards = [
        subprocess.Popen(
            command(file, "--out", out, "--shard", f"{index}/4", "--workers", 1, "--quiet"),
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(1, 5)
    ]

    endings = [(one.communicate()[1], one.returncode) for one in shards]
    gathered = subprocess.run(
        command(file, "--out", out, "--collect", "--quiet"), cwd=ROOT, check=False
    )

    assert endings == [("", 0)] * 4
    assert gathered.returncode == 0
    (tmp_path / "alone").mkdir()
    alone = session(tmp_path / "alone")
    run_here(alone)
    unlike = ["wall_s", "jobs_trained", "jobs_reused"]
    tables = [load_study(out).table, alone.collect().table]
    pd.testing.assert_frame_equal(*(table.drop(columns=unlike) for table in tables))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_study_that_is_killed_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    """Its processes end with it; the same command does the rest."""
    settings = {"stop.versions": 100, "algorithm.local.steps": 5, "evaluate.every": 100}
    points = {"grid": {"algorithm.local.learning_rate": [0.1, 0.2, 0.3]}}
    file = write_study(tmp_path, seeds=[1], points=points, set=settings)
    out = tmp_path / "out"
    # A shell that starts the tests in the background has them, and what they start, ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    study = subprocess.Popen(
        command(file, "--out", out, "--workers", 1),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert study.stderr is not None
    assert "1 of 3 done" in study.stderr.readline()

    os.kill(study.pid, number)
    study.communicate()

    assert study.returncode == (-number if number == signal.SIGKILL else 130)
    time.sleep(2.0)  # the worker notices at the next version
    left = session(tmp_path, seeds=[1], points=points, set=settings).todo()
    assert 1 <= len(left) <= 2
    again = subprocess.run(
        command(file, "--out", out, "--workers", 1),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert len(again.stderr.splitlines()) == len(left)
    assert len(load_study(out).table) == 3
