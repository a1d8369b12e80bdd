"""Running an assembled scenario and leaving a run folder."""

from __future__ import annotations

import gc
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from pyarrow import Table
from safetensors.torch import load_file

from simfl.assembly import assemble
from simfl.journal import Journal, Snapshot
from simfl.learning.allocation import return_freed_memory
from simfl.learning.federation import Federation
from simfl.outcome import figures, finish, leave
from simfl.protocols.publication import Diverged
from simfl.protocols.run import Run
from simfl.protocols.values import Values
from simfl.registry import part_name
from simfl.replay import set_aside
from simfl.runfolder import MANIFEST, LoadedRun, RunFolderError, load_run, write_manifest
from simfl.scenario import Scenario
from simfl.simulation import Options, Simulation
from simfl.snapshots import Checkpoints, read_snapshot

Manifest = dict[str, Any]
JOURNAL, SCENARIO = "journal.jsonl", "scenario.yaml"
STANDALONE = "standalone"
"""The folder, in a run's own, of the run that says what its clients contribute."""


class RunFailed(RuntimeError):
    """The run ended, but its books do not balance."""


class StandaloneDiverged(RuntimeError):
    """What clients contribute cannot be found out: their standalone training diverged."""


class FolderInUse(ValueError):
    """The output folder holds something already, or cannot be made."""


def run(
    scenario: Scenario | str | Path,
    out: Path | str | None = None,
    options: Options | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
) -> LoadedRun:
    """Run a scenario (or its YAML file) into the folder `out`, and read the result back.

    `out` defaults to `runs/<name>-seed<seed>`. With `resume` a run that was cut off goes on where
    it was, and a completed one is read. Raises `ScenarioError` before anything is written if the
    scenario is wrong, `FolderInUse` if the folder holds a run and neither `overwrite` nor `resume`
    is given, or another run than this one; `Diverged` and `Stalled` after leaving a readable
    folder.
    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.from_yaml(scenario)
    options = options or Options()
    folder = Path(out) if out is not None else _default_folder(scenario)
    if resume and (folder / MANIFEST).exists():
        return _resumed(assemble(scenario, options), folder)
    if not (resume and _hardly_begun(folder)):
        _check_folder(folder, overwrite)
    return _begun(assemble(scenario, options), folder, overwrite)


def _begun(simulation: Simulation, folder: Path, overwrite: bool = False) -> LoadedRun:
    """Run into a new folder."""
    options = simulation.options
    _make_folder(folder, overwrite)
    journal = Journal(folder / JOURNAL, dict(options.facts or {}), options.store)
    (folder / SCENARIO).write_text(simulation.resolved.to_yaml(), encoding="utf-8")
    execute(simulation, folder, journal)
    return load_run(folder)


def _resumed(simulation: Simulation, folder: Path) -> LoadedRun:
    """Carry a folder's run on to its end."""
    earlier = load_run(folder).manifest
    check_resumable(folder, earlier, simulation)
    if earlier["status"] != "completed":
        _go_on(simulation, folder)
    return load_run(folder)


def find_contributions(prelude: Simulation, folder: Path | None = None) -> Mapping[str, Any]:
    """Let clients train alone (in `folder`, or leaving nothing): `accuracy` of each, and the cost.

    Raises `StandaloneDiverged` where that does.
    """
    try:
        if folder is None:
            one = prelude.make_run(None, Journal(shared=prelude.options.store))
            simulate(prelude, one)
            one.close()
            rows: list[Any] = one.publications.evaluations
            cost = figures(one)
        else:
            known = (folder / MANIFEST).exists()
            loaded = _resumed(prelude, folder) if known else _begun(prelude, folder)
            rows, cost = loaded.evaluations.to_dict("records"), loaded.manifest
    except Diverged as error:
        raise StandaloneDiverged(f"clients' standalone training diverged: {error}") from error
    scored = [row for row in rows if row["client"] is not None and row["client"] >= 0]
    accuracy = {int(row["client"]): float(row["accuracy"]) for row in scored}
    return {
        "accuracy": [accuracy[client] for client in sorted(accuracy)],
        "time_s": cost["horizon_s"],
        "energy_j": cost["energy_j"],
        "bytes": cost["bytes"],
        "rounds": prelude.scenario.stop.versions,
    }


def _go_on(simulation: Simulation, folder: Path) -> None:
    """Replay a run that was cut off, from time zero, and carry on from where it was."""
    journal = Journal.resume(folder / JOURNAL, simulation.options.store)
    snapshot = read_snapshot(folder, simulation.network.device)
    execute(simulation, folder, journal, snapshot, set_aside(folder).check)


def federation_of(folder: Path | str, options: Options | None = None) -> Federation:
    """The final model of a run folder with its clients' data, dealt out again from its scenario.

    Raises `RunFolderError` where the folder holds no finished run, and what assembling its
    scenario raises: data sets must be where they were, or `options.data_root` says where.
    """
    run = load_run(folder)
    model = run.path / "model.safetensors"
    if not model.exists():
        raise RunFolderError(f"{model}: not there; the run's status is {run.manifest['status']}")
    simulation = assemble(Scenario.from_yaml(run.path / SCENARIO), options)
    return simulation.federation(load_file(model))


def _default_folder(scenario: Scenario) -> Path:
    """`runs/<name>-seed<seed>`; signs that mean something in a path become "_"."""
    name = re.sub(r"[^-+.,=@~ \w]", "_", scenario.name)
    return Path("runs") / f"{name}-seed{scenario.seed}"


def execute(
    simulation: Simulation,
    folder: Path,
    journal: Journal,
    snapshot: Snapshot | None = None,
    check: Callable[[Table, int], None] | None = None,
) -> Run:
    """Simulate into an existing folder; the manifest says at every moment how far it is.

    `snapshot` and `check` are those of the run that is resumed (`Simulation.make_run`).
    """
    started = datetime.now(UTC)
    began = time.perf_counter()
    manifest: Manifest = {
        "status": "running",
        "reason": None,
        "name": simulation.scenario.name,
        "digest": simulation.digest,
        "seed": simulation.scenario.seed,
        "versions": {"simfl": version("simfl"), "torch": torch.__version__},
        "numeric_platform": simulation.platform,
        "not_stacked_because": simulation.network.not_stacked_because,
        "started": started.isoformat(timespec="seconds"),
    }
    write_manifest(folder, manifest)
    checkpoints = Checkpoints(folder, simulation.options.snapshot_seconds, snapshot)
    find = partial(find_contributions, folder=folder / STANDALONE)
    one = simulation.make_run(folder, journal, snapshot, check, checkpoints.due, find)

    def close(status: str, reason: str | None) -> None:
        manifest.update(status=status, reason=reason)
        manifest.update(figures(one))
        manifest["wall_s"] = round(time.perf_counter() - began, 3)
        write_manifest(folder, manifest)
        journal.close()

    def measure(reason: str) -> None:
        manifest.update(figures(one), reason=reason)
        write_manifest(folder, manifest)  # measures read the run as its user will
        ref = one.publications.latest
        weights = ref.value().weights if isinstance(one.values, Values) and ref else None
        manifest["measures"] = simulation.measured(load_run(folder), weights)

    try:
        reason = simulate(simulation, one)
        return_freed_memory()  # the log's tables take their turn
        finish(simulation, one, folder)
        measure(reason)
    except KeyboardInterrupt:
        leave(one, folder)
        checkpoints.take(one.values)
        close("interrupted", "interrupted by the user")
        raise
    except Diverged as error:
        if not one.laws:  # else the end itself diverged, in a version that nobody had looked at
            ref = one.publications.latest
            finish(simulation, one, folder, model=ref is None or ref.known)
        close("diverged", str(error))
        raise
    except Exception as error:  # a user's part may raise anything
        with suppress(OSError):  # the disk may be what failed: what is there stays as it is
            leave(one, folder)
            checkpoints.take(one.values)
            close("failed", f"{type(error).__name__}: {error}")
        raise
    broken = "; ".join(one.accounts.violations)
    close("failed" if broken else "completed", broken or reason)
    if broken:
        raise RunFailed(f"the run broke its own laws: {broken}")
    return one


def simulate(simulation: Simulation, one: Run) -> str:
    """Drive the protocol to its end; why it ended. Raises `Diverged` or `Stalled`."""
    algorithm, protocol = simulation.algorithm, simulation.protocol
    departs = algorithm.learns and algorithm.paper_protocol != part_name(type(protocol))
    one.note_start(
        simulation.edge if protocol.hierarchical else None,
        f"the paper's protocol is {algorithm.paper_protocol}" if departs else None,
    )
    process = one.env.process(protocol.process(one))
    limit_s = simulation.scenario.stop.time_s
    with _rare_collections():
        one.clock.run(process, limit_s)
    if one.publications.reason is not None:
        return one.publications.reason
    return "the protocol ended by itself" if process.triggered else f"time_s reached {limit_s:g}"


@contextmanager
def _rare_collections() -> Iterator[None]:
    """What lives as long as the run is not searched for garbage; a third of a small run's time."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(10_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def check_resumable(folder: Path, earlier: Manifest, simulation: Simulation) -> None:
    """Raises `FolderInUse` unless the folder's run is this scenario's, on this numeric platform."""
    if earlier["status"] == "diverged":
        raise FolderInUse(f"{folder}: this run diverged ({earlier['reason']}); nothing to resume")
    if earlier["digest"] != simulation.digest:
        raise FolderInUse(f"{folder}: holds another scenario's run; resume it with its own")
    there, here = earlier["numeric_platform"], dict(simulation.platform)
    if there != here and not simulation.options.any_platform:
        names = ", ".join(
            f"{k} {there.get(k)} -> {here[k]}" for k in here if there.get(k) != here[k]
        )
        raise FolderInUse(
            f"{folder}: was begun on another numeric platform ({names}), where results differ in"
            " their last bits; --any-platform resumes it all the same"
        )


def _hardly_begun(folder: Path) -> bool:
    """Whether a run was cut off here before it had a manifest: there is nothing to go on from."""
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    return JOURNAL in found and found <= {JOURNAL, SCENARIO, Path(MANIFEST).stem + ".partial"}


def _check_folder(folder: Path, overwrite: bool) -> None:
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / MANIFEST).exists():
            raise FolderInUse(f"{folder}: not empty and no run folder; choose another --out")
        if not overwrite:
            raise FolderInUse(f"{folder}: holds a run; choose another --out, or --overwrite")
    elif folder.exists() and not folder.is_dir():
        raise FolderInUse(f"{folder}: a file; choose another --out")


def _make_folder(folder: Path, overwrite: bool) -> None:
    try:
        if overwrite and (folder / MANIFEST).exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        found = f"cannot be made ({error.strerror})"
        raise FolderInUse(f"{folder}: {found}; choose another --out") from error
