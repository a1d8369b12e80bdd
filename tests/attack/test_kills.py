"""40 kills: after each the folder can be read, and resumed to the bytes of an undisturbed run."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import simfl
from simfl.runs.runfolder import MANIFEST, LoadedRun, load_run
from tests.attack.victims import GATE, LONGEST_S, Victim
from tests.small import SEMI_ASYNCHRONOUS, small
from tests.test_resume import assert_same

pytestmark = pytest.mark.slow

PACE_S = 0.03
"""A run of twelve versions then takes half a second."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """The undisturbed run; its scenario lies beside it."""
    base = tmp_path_factory.mktemp("whole")
    scenario = small(
        dtype="float32",
        data={"name": "digits", "partition": "iid"},
        model="linear",
        population={"clients": 4},
        algorithm={
            "name": "fedavg",
            "local": {"optimizer": "adam", "keep_optimizer": True, "learning_rate": 0.01},
        },
        protocol=SEMI_ASYNCHRONOUS,
        stop={"versions": 12},
        log={"rows_per_segment": 40},
    )
    (base / "scenario.yaml").write_text(scenario.to_yaml())
    (base / "other.yaml").write_text(small(model="linear", stop={"versions": 2}).to_yaml())
    return simfl.run(base / "scenario.yaml", base / "run")


@pytest.fixture
def begin(whole: LoadedRun, tmp_path: Path) -> Iterator[Callable[..., Victim]]:
    """Begins runs of the scenario in `tmp_path`/run; none outlives its test."""
    victims: list[Victim] = []

    def begun(file: str = "scenario.yaml", **options: Any) -> Victim:
        victims.append(Victim(whole.path.with_name(file), tmp_path / "run", **options))
        return victims[-1]

    yield begun
    for one in victims:
        one.process.kill()
        one.process.join()


def until(reached: Callable[[], bool], victim: Victim) -> None:
    """Wait for something that a run does, as long as it lives."""
    deadline = time.monotonic() + LONGEST_S
    while not reached() and victim.process.is_alive():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def status(folder: Path) -> str | None:
    """What the manifest says, if there is one."""
    path = folder / MANIFEST
    return json.loads(path.read_text("utf-8"))["status"] if path.exists() else None


def written(folder: Path) -> int:
    """When the manifest was written last, in nanoseconds; 0 without one."""
    path = folder / MANIFEST
    return path.stat().st_mtime_ns if path.exists() else 0


def assert_readable(folder: Path) -> None:
    """Where there is a manifest, what was written can be read."""
    if status(folder) is not None:
        assert len(load_run(folder).events) >= 0


def assert_said_plainly(victim: Victim) -> None:
    """One line at most, no traceback."""
    words = victim.words()
    assert "Traceback" not in words, words
    assert words.count("simfl: ") <= 1, words


def resumed(whole: LoadedRun, begin: Callable[..., Victim], folder: Path) -> None:
    """The run goes on to its end, which is that of the undisturbed one."""
    last = begin(resume=True)
    assert last.end() == 0, last.words()
    assert_same(whole, load_run(folder))


@pytest.mark.parametrize("number", range(20))
def test_signals_at_random_moments(
    whole: LoadedRun, begin: Callable[..., Victim], tmp_path: Path, number: int
) -> None:
    """One to three signals, all but the first during a resume; an interrupt ends in good order."""
    rng, folder = random.Random(number), tmp_path / "run"
    kinds = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
    for attempt in range(rng.randint(1, 3)):
        kind = kinds[(number + attempt) % len(kinds)]
        of_before = written(folder)
        victim = begin(resume=True, pace_s=PACE_S)
        until(folder.exists, victim)
        time.sleep(rng.uniform(0.0, 0.6))
        victim.send(kind)
        code = victim.end()

        assert_said_plainly(victim)
        assert code in (0, -kind, 130, 143), victim.words()
        if code >= 0 and written(folder) != of_before:  # else it ended before it had begun
            assert status(folder) in ("completed", "interrupted")
        assert_readable(folder)

    resumed(whole, begin, folder)


@pytest.mark.parametrize("number", range(8))
def test_a_limit_of_file_sizes(
    whole: LoadedRun, begin: Callable[..., Victim], tmp_path: Path, number: int
) -> None:
    """Exit code 1 and the reason, a manifest that says `failed`, and a run that goes on."""
    rng, folder = random.Random(number), tmp_path / "run"
    most_bytes = int(10 ** rng.uniform(3.0, 5.0))
    victim = begin(most_bytes=most_bytes)

    code = victim.end()

    assert_said_plainly(victim)
    assert code in (0, 1), (most_bytes, victim.words())
    if code == 1:
        assert "File too large" in victim.words(), victim.words()
        assert status(folder) in ("failed", None), most_bytes
        assert_readable(folder)
    resumed(whole, begin, folder)


@pytest.mark.parametrize("number", range(4))
def test_a_folder_that_is_deleted(
    whole: LoadedRun, begin: Callable[..., Victim], tmp_path: Path, number: int
) -> None:
    """The run ends by itself with one line, and another one can begin in its place."""
    rng, folder = random.Random(number), tmp_path / "run"
    victim = begin(pace_s=PACE_S, gate_at=12)  # on a busy machine it would be over before
    until((folder / MANIFEST).exists, victim)
    time.sleep(rng.uniform(0.0, 0.4))
    while folder.exists() and victim.process.is_alive():
        shutil.rmtree(folder, ignore_errors=True)  # the run may be writing beside it
    (tmp_path / GATE).touch()

    code = victim.end()

    assert_said_plainly(victim)
    assert code in (1, 2), victim.words()
    assert len(victim.words().splitlines()) == 1
    shutil.rmtree(folder, ignore_errors=True)
    resumed(whole, begin, folder)


SECOND = {
    "resume": {"resume": True},
    "overwrite": {"overwrite": True},
    "another over it": {"file": "other.yaml", "overwrite": True},
}


@pytest.mark.parametrize("first", ["new", "resumed"])
@pytest.mark.parametrize("second", list(SECOND))
def test_a_second_run_in_the_folder(
    whole: LoadedRun, begin: Callable[..., Victim], tmp_path: Path, first: str, second: str
) -> None:
    """Is refused in one line with exit code 2; the first goes on as if nothing had been."""
    folder = tmp_path / "run"
    if first == "resumed":
        victim = begin(gate_at=6)
        until(lambda: status(folder) == "running", victim)
        time.sleep(0.2)
        victim.send(signal.SIGKILL)
        victim.end()
    of_before = written(folder)
    one = begin(gate_at=8, resume=first == "resumed")
    until(lambda: written(folder) != of_before and (folder / "snapshot.pt").exists(), one)
    two = begin(**SECOND[second])

    code = two.end()

    assert one.process.is_alive()
    assert code == 2, two.words()
    assert two.words().startswith("simfl: ") and len(two.words().splitlines()) == 1
    (tmp_path / GATE).touch()
    assert one.end() == 0, one.words()
    assert_same(whole, load_run(folder))


def test_two_runs_begin_at_once(begin: Callable[..., Victim], tmp_path: Path) -> None:
    """One of them has the folder for itself, the other one is refused."""
    victims = [begin(), begin("other.yaml")]

    codes = [one.end() for one in victims]

    assert sorted(codes) == [0, 2], [one.words() for one in victims]
    run = load_run(tmp_path / "run")
    assert run.manifest["counts"]["versions"] == (12, 2)[codes.index(0)] == len(run.rounds)


def test_overwriting_while_it_is_deleted(
    whole: LoadedRun, begin: Callable[..., Victim], tmp_path: Path
) -> None:
    """A run that replaces a completed one and is killed leaves nothing of either to mix."""
    folder = tmp_path / "run"
    shutil.copytree(whole.path, folder)
    victim = begin(overwrite=True, gate_at=2)
    until(lambda: status(folder) == "running", victim)
    time.sleep(0.1)
    victim.send(signal.SIGKILL)
    victim.end()

    assert_readable(folder)
    resumed(whole, begin, folder)
