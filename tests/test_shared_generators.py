"""Parts that draw from the generators of the whole process: the run says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import simfl
from simfl.assembly.assemble import assemble
from simfl.runs.warning_rules import foreseen
from tests.small import SMALL, small

ROOT = Path(__file__).parents[1]

HEAD = """
import random
from dataclasses import dataclass, replace
import numpy as np
import torch
from simfl.plugins import *
random.seed(1)
"""

SELECTION = """
class Own(Selection):
    def decide(self, memory, view, rng):
        return memory, {given}
"""

PARTITION = """
class Own(Partition):
    def split(self, targets, home_edge, natural, rng):
        return np.array_split(np.random.permutation(len(targets)), len(home_edge))
"""

ALGORITHM = """
@dataclass(frozen=True)
class Own(Algorithm):
    def aggregate(self, state, updates, evaluator):
        state = super().aggregate(state, updates, evaluator)
        noisy = {n: t + 0.01 * torch.randn_like(t) for n, t in state.weights.items()}
        return replace(state, weights=noisy)
"""

MEASURE = """
class Own(Measure):
    def compute(self, run):
        return {"luck": random.random()}
"""


def warned(folder: Path, code: str, **changes: object) -> list[str]:
    """The messages of a run with the class `Own`."""
    (folder / "own.py").write_text(HEAD + code)
    run = simfl.run(small(**changes), folder / "run")
    return [one.message for one in run.warnings if one.kind == "shared_generators"]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("random", "random.sample(view.clients.tolist(), 2)"),
        ("numpy.random", "np.random.choice(view.clients, 2, replace=False)"),
        ("torch", "torch.randperm(8)[:2]"),
    ],
)
def test_a_selection_that_draws_without_its_rng_is_warned_of(
    tmp_path: Path, name: str, given: str
) -> None:
    """By the name of the generator; that runs differ was to be found out by running twice."""
    selection = f"{tmp_path}/own.py:Own"
    (message,) = warned(tmp_path, SELECTION.format(given=given), decisions={"selection": selection})

    assert f"({name})" in message


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        (PARTITION, {"data": {"name": "digits", "partition": "own.py:Own"}}),
        (ALGORITHM, {"algorithm": {"name": "own.py:Own", "local": SMALL["algorithm"]["local"]}}),
        (MEASURE, {"evaluate": {"measures": ["own.py:Own"]}}),
    ],
)
def test_so_is_what_draws_before_or_after_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, changes: dict[str, object]
) -> None:
    """Partitions, sums and measures, too."""
    monkeypatch.chdir(tmp_path)

    assert len(warned(tmp_path, code, **changes)) == 1


def test_what_is_given_and_what_a_file_seeds_is_not(tmp_path: Path) -> None:
    """The file seeds Python's generator when it is imported."""
    code = SELECTION.format(given="rng.choice(view.clients, 2, replace=False)")

    assert not warned(tmp_path, code, decisions={"selection": f"{tmp_path}/own.py:Own"})


KEPT = """
calls = []

@dataclass(frozen=True)
class Own(Selection):
    needs_losses = {needs_losses}
    seen = []
    mine: dict = field(default_factory=dict)

    def decide(self, memory, view, rng):
        {does}
        return (memory or 0) + 1, view.clients
"""


@pytest.mark.parametrize(
    ("does", "named"),
    [
        ("self.seen.append(view.round)", "(Own.seen)"),
        ("self.mine[view.round] = 1", "(Own.mine)"),
        ("calls.append(1)", "(own.calls)"),
        ("sum(self.seen) + len(self.mine) + len(calls)", None),
    ],
)
def test_what_a_part_keeps_between_calls_is_warned_of(
    tmp_path: Path, does: str, named: str | None
) -> None:
    """In itself, its class or its module; what is only read there does not count."""
    head = HEAD.replace("dataclass, ", "dataclass, field, ")
    (tmp_path / "own.py").write_text(head + KEPT.format(does=does, needs_losses=False))
    run = simfl.run(small(decisions={"selection": f"{tmp_path}/own.py:Own"}), tmp_path / "run")

    told = [one.message for one in run.warnings if one.kind == "kept_state"]
    assert len(told) == (named is not None)
    assert all(f"between calls {named}: another run" in one for one in told)


@pytest.mark.parametrize(
    ("does", "needs_losses", "warned"),
    [
        ("view.last_loss.max()", False, True),
        ("view.last_loss.max()", True, False),
        ("view.last_seen_s.max()", False, False),
    ],
)
def test_losses_that_nobody_reports_are_warned_of(
    tmp_path: Path, does: str, needs_losses: bool, warned: bool
) -> None:
    """A selection went by NaN, and said nothing."""
    head = HEAD.replace("dataclass, ", "dataclass, field, ")
    (tmp_path / "own.py").write_text(head + KEPT.format(does=does, needs_losses=needs_losses))
    run = simfl.run(small(decisions={"selection": f"{tmp_path}/own.py:Own"}), tmp_path / "run")

    told = [one for one in run.warnings if one.kind == "no_losses"]
    assert [one.count for one in told] == [3] * warned
    assert all("in 3 of 3 choices" in one.message and "own.py:" in one.message for one in told)


def test_a_library_that_is_imported_late_draws_nothing_for_the_run(tmp_path: Path) -> None:
    """scikit-learn's clusters import a package that draws a number, in a process that has not."""
    script = f"""
import simfl
from tests.small import small
edges = {{"association": "kmeans"}}
scenario = small(protocol="hierarchical", decisions=edges, population={{"edges": 2}})
run = simfl.run(scenario, {str(tmp_path / "run")!r})
print([one.kind for one in run.warnings])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert "unverified_figures" in done.stdout and "shared_generators" not in done.stdout


CALLS = """
import time
from datetime import datetime
from numpy.random import default_rng as made
class Own(Selection):
    def decide(self, memory, view, rng):
        luck = made()
        np.random.default_rng(seed=None), random.Random(), time.time(), datetime.now()
        np.random.default_rng(rng.integers(9)), np.random.default_rng(7), time.perf_counter()
        np.random.default_rng(**{}), self.time(), view.clients.copy()
        return memory, luck.choice(view.clients, 2, replace=False)
    def time(self): return 0
"""


def test_calls_that_no_seed_decides_are_told_before_the_run(tmp_path: Path) -> None:
    """With their lines; seeded generators, timers of code and one's own `time` are not."""
    own = tmp_path / "own.py"
    own.write_text(CALLS.replace("class Own", HEAD + "class Own"))
    selection = {"decisions": {"selection": f"{own}:Own"}}

    (said,) = (one for one in foreseen(assemble(small(**selection))) if one.kind == "unrepeatable")

    assert said.count == 5
    assert "(own.py:14 numpy.random.default_rng, " in said.message
    assert all(one in said.message for one in ("own.py:15 random.Random", "own.py:15 time.time"))
    assert said.message.count("default_rng") == 2


def test_so_are_those_of_a_module_that_a_part_imports(tmp_path: Path, monkeypatch) -> None:
    """The shipped parts have none."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lucky_helper.py").write_text("import uuid\ndef name(): return uuid.uuid4()\n")
    code = HEAD + "import lucky_helper\n" + SELECTION.format(given="view.clients[:2]")
    (tmp_path / "own.py").write_text(code)
    own, shipped = (
        [one.message for one in foreseen(assemble(small(**changes))) if one.kind == "unrepeatable"]
        for changes in ({"decisions": {"selection": f"{tmp_path}/own.py:Own"}}, {})
    )

    assert not shipped
    assert "(lucky_helper.py:2 uuid.uuid4)" in own[0]
