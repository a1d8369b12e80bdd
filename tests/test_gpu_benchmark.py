"""`benchmarks/gpu.py` works, also where simfl is not installed."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType

import pytest

from simfl.common import own_version
from tests.learning.posing import Posing

ROOT = Path(__file__).parents[1]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script as a module, which finds what lies beside it."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module("gpu")
    for name in ("gpu", "loops"):
        sys.modules.pop(name, None)


def test_parts_fit_into_eight_minutes(script: ModuleType) -> None:
    """Budgets and what they may be exceeded by."""
    assert sum(budget_s for _, budget_s in script.PARTS.values()) <= 480 - 5


def test_a_failure_and_a_lack_of_time_stop_no_other_part(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are told, and counted."""

    def fails(bench: object) -> None:
        raise ValueError("no such kernel")

    def lasts(bench: object) -> None:
        while True:
            pass

    parts = {"fails": (fails, 1.0), "lasts": (lasts, 0.05), "machine": script.PARTS["machine"]}
    monkeypatch.setattr(script, "PARTS", parts)
    monkeypatch.setattr(script, "GRACE_S", 0.0)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu"])
    script.main()
    said = capsys.readouterr().out

    assert "FAILED: ValueError: no such kernel" in said
    assert "not measured, for want of time" in said
    assert "torch" in said
    assert "failed: fails" in said


def test_a_checkout_knows_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version of the project file is the installed one's."""
    own_version.own_version.cache_clear()
    installed = own_version.own_version()

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(own_version, "version", absent)
    own_version.own_version.cache_clear()

    assert own_version.own_version() == installed
    own_version.own_version.cache_clear()


@pytest.mark.slow
def test_every_part_runs_on_a_cpu() -> None:
    """As a command, from anywhere; no part fails."""
    command = [sys.executable, ROOT / "benchmarks" / "gpu.py", "--device", "cpu", "--smoke"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)

    assert result.returncode == 0, result.stderr
    assert "failed: none" in result.stdout
    assert "digits MLP  stacked, all 4 against cohorts of 1: equal; 3: equal" in result.stdout
    assert result.stdout.count("times the naive loop") == 4
    assert "the largest difference of those that ran: 0.0e+00" in result.stdout


def test_figures_of_an_accelerator(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Padded cohorts, through the parts that train."""
    bench = script.Bench(Posing(2e7), smoke=True, ends=float("inf"))
    for part in (script.bits, script.precision, script.memory):
        part(bench)

    said = capsys.readouterr().out
    assert "padded to {8: " in said
    assert "law 1 claimed" in said
    assert "differ" not in said
