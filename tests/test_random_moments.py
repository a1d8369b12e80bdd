"""A run that is cut off at any moment, and again while it is resumed, ends as if undisturbed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import simpy

import simfl
from simfl.assembly.simulation import Options
from simfl.protocols.clock import Clock
from simfl.provenance.journal import Journal
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario
from tests.small import SEMI_ASYNCHRONOUS, small
from tests.test_resume import assert_same

PROTOCOLS: dict[str, dict[str, Any]] = {
    "synchronous": {"name": "synchronous"},
    "semi_asynchronous": {**SEMI_ASYNCHRONOUS, "concurrency": 2},
    "buffered": {"name": "buffered", "buffer": 3, "concurrency": 5},
    "asynchronous": {"name": "asynchronous", "concurrency": 3},
}
MOMENTS = 3
CUTS = 3


def scenario(protocol: str) -> Scenario:
    """A run of a tenth of a second whose clients keep something between their jobs."""
    return small(
        dtype="float32",
        data={"name": "synthetic", "examples": 160, "partition": "iid"},
        model="linear",
        algorithm={
            "name": "fedprox",
            "local": {"batch_size": 8, "optimizer": "adam", "keep_optimizer": True},
        },
        protocol=PROTOCOLS[protocol],
        decisions={"selection": {"name": "random", "share": 0.6}},
        stop={"versions": 9},
        evaluate={"every": 2},
        log={"rows_per_segment": 25},
    )


class Unplugged(BaseException):
    """The process is gone: nothing that follows is done, as after `kill -9`."""


class Fuse:
    """Counts moments; blows at the one numbered `blows_at`."""

    def __init__(self, blows_at: int | None = None) -> None:
        self.count = 0
        self._blows_at = blows_at

    def tick(self) -> None:
        """One more moment."""
        self.count += 1
        if self.count == self._blows_at:
            raise Unplugged


class FusedEnvironment(simpy.Environment):
    """Every event is a moment."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self._fuse = fuse

    def step(self) -> None:
        """A moment, then the event."""
        self._fuse.tick()
        super().step()


@contextmanager
def fused(fuse: Fuse) -> Iterator[None]:
    """Before every change of the folder that takes place at once there is a moment."""

    def after_a_moment(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any, **options: Any) -> Any:
            fuse.tick()
            return change(*arguments, **options)

        return changed

    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "rename", "unlink", "rmdir"):
            patch.setattr(Path, name, after_a_moment(getattr(Path, name)))
        yield


@contextmanager
def files_of_the_dead() -> Iterator[None]:
    """This process goes on, and closes the journal that a killed one would leave open."""
    journals: list[Journal] = []
    make = Journal.__init__

    def noted(journal: Journal, *arguments: Any, **options: Any) -> None:
        journals.append(journal)
        make(journal, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "__init__", noted)
        try:
            yield
        finally:
            for journal in journals:
                journal.close()


def run(one: Scenario, folder: Path, fuse: Fuse) -> LoadedRun:
    """Begin or resume a run, with a snapshot at every version, until the fuse blows."""
    options = Options(clock=Clock(FusedEnvironment(fuse)), snapshot_seconds=0.0, device="cpu")
    with files_of_the_dead(), fused(fuse):
        return simfl.run(one, folder, options, resume=True)


@pytest.fixture(scope="module", params=list(PROTOCOLS))
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Scenario, LoadedRun, int]:
    """A scenario, its undisturbed run, and how many moments that has."""
    one, fuse = scenario(request.param), Fuse()
    return one, run(one, tmp_path_factory.mktemp("whole") / "run", fuse), fuse.count


def cut_and_resume(whole: tuple[Scenario, LoadedRun, int], folder: Path, seed: int) -> None:
    """Cut a run off at random moments, all but the first while it is resumed; then let it end.

    A resumed run may have ended before, for it takes fewer snapshots.
    """
    one, undisturbed, moments = whole
    rng = random.Random(seed)
    with pytest.raises(Unplugged):
        run(one, folder, Fuse(rng.randint(1, moments)))
    for _ in range(CUTS - 1):
        with suppress(Unplugged):
            run(one, folder, Fuse(rng.randint(1, moments)))

    assert_same(undisturbed, run(one, folder, Fuse()))


@pytest.mark.parametrize("seed", range(MOMENTS))
def test_a_run_cut_off_at_random_moments_is_resumed(whole, tmp_path, seed):
    """Twelve such runs: three under each protocol, whatever was being done or written."""
    cut_and_resume(whole, tmp_path / "cut", seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(MOMENTS, 40))
def test_a_run_cut_off_at_more_random_moments_is_resumed(whole, tmp_path, seed):
    """Many more."""
    cut_and_resume(whole, tmp_path / "cut", seed)
