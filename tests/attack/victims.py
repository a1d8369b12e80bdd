"""Runs in processes of their own, forked from one that has everything imported: to be killed."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import typer

import simfl
from simfl.assembly.simulation import Options
from simfl.cli.common import exit_codes

GATE = "go"
"""A file beside the run folder that a run with a gate waits for."""

LONGEST_S = 600
"""A run takes a busy machine a minute: only what would never end takes so long."""


class Victim:
    """A process that runs a scenario; what it says lies in a file beside the run folder.

    `pace_s` is how long it rests after each version, `gate_at` the version at which it waits for
    the gate, `most_bytes` the limit of a file's size.
    """

    def __init__(self, scenario: Path, folder: Path, **options: Any) -> None:
        self.said = folder.with_name(f"said-{time.monotonic_ns()}.txt")
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, "simfl.runs.execution"])
        self.process: Any = context.Process(
            target=run, args=(scenario, folder, self.said), kwargs=options
        )
        self.process.start()

    def send(self, number: int) -> None:
        """A signal, if the process is still there."""
        if self.process.is_alive():
            os.kill(self.process.pid, number)

    def end(self) -> int:
        """Wait for the end: the exit code, or minus the signal."""
        self.process.join(LONGEST_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
            raise AssertionError(f"no end within {LONGEST_S} s")
        code: int = self.process.exitcode
        return code

    def words(self) -> str:
        """What the process has printed so far."""
        return self.said.read_text("utf-8") if self.said.exists() else ""


def run(
    scenario: Path,
    folder: Path,
    said: Path,
    *,
    pace_s: float = 0.0,
    gate_at: int | None = None,
    most_bytes: int | None = None,
    **how: bool,
) -> None:
    """What a victim's process does; `how` is `resume` or `overwrite`, as `simfl.run` has them."""
    output = os.open(said, os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))

    def rest(progress: Any) -> None:
        time.sleep(pace_s)
        while progress.version == gate_at and not folder.with_name(GATE).exists():
            time.sleep(0.01)

    try:
        with exit_codes():
            simfl.run(scenario, folder, Options(watch=rest, snapshot_seconds=0.0), **how)
    except typer.Exit as end:
        sys.exit(end.exit_code)
