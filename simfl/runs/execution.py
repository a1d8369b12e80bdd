"""Runs an assembled scenario and writes its run folder."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from traceback import clear_frames
from typing import Any

import torch
from pyarrow import Table
from safetensors import SafetensorError
from safetensors.torch import load_file

from simfl.assembly.assemble import assemble
from simfl.assembly.checks import check_precision_on
from simfl.assembly.simulation import Options, Simulation
from simfl.common.contract import at_work, misbehaves
from simfl.common.files import RunFolderError, replacing
from simfl.common.notices import Notice, befallen
from simfl.common.own_version import own_version
from simfl.common.part_name import called, part_name
from simfl.eventlog.accounts import Energy
from simfl.eventlog.kinds import FORMAT_VERSION
from simfl.eventlog.parquet_parts import PARTS, remove_parts
from simfl.learning.allocation import return_freed_memory
from simfl.learning.devices import CPU, CudaDevice
from simfl.learning.federation import Federation
from simfl.protocols.clock import Stalled
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.publication import Diverged
from simfl.protocols.run import Run
from simfl.provenance.journal import Journal, Snapshot
from simfl.provenance.replay import ReplayDiffers, set_aside
from simfl.provenance.snapshots import Checkpoints, read_snapshot
from simfl.runs.files import (
    JOURNAL,
    SCENARIO,
    STANDALONE,
    FolderInUse,
    check_folder,
    claimed,
    clear,
)
from simfl.runs.outcome import figures, finish
from simfl.runs.recorder import Manifest, Recorder
from simfl.runs.runfolder import (
    MANIFEST,
    LoadedRun,
    check_format,
    load_run,
    read_manifest,
    warnings_of,
    write_manifest,
)
from simfl.runs.tables_so_far import TablesSoFar
from simfl.scenario.plugins import users_code
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.scenario.yaml_source.source import read_source
from simfl.scenario.yaml_source.text import parse

NOTHING_YET: Mapping[str, Any] = {
    "horizon_s": 0.0,
    **Energy(0.0, 0.0, 0.0, 0.0).columns(),
    "bytes": 0,
    "energy_by_state_j": {},
    "counts": dict.fromkeys(("versions", "events", "jobs_asked", "jobs_trained", "jobs_reused"), 0),
    "workers": [],
    "warnings": [],
    "wall_s": 0.0,
}
"""The figures in the manifest of a run that has just begun (`outcome.figures`)."""


BY_THE_USER = "interrupted by the user"
"""The reason of a run ended by Ctrl-C."""


class RunFailed(RuntimeError):
    """The run ended, but its accounts do not balance, or a part raised an error."""


class StandaloneDiverged(RuntimeError):
    """Contributions cannot be computed: the clients' standalone training diverged."""


@contextmanager
def _leaving_no_garbage() -> Iterator[None]:
    """Frees everything that a run holds at its end: its data and models are in cycles.

    Python finds cycles by searching surviving objects, and would find these only after many runs.
    Objects from before the run, mostly imported modules, are not searched: that would take as long
    as a small run. Runs within a run do not search, either. The traceback of a run that diverged
    holds all of it, too, and nobody looks for a fault there.
    """
    outermost = not gc.get_freeze_count()
    if outermost:
        gc.freeze()
    try:
        yield
    except (Diverged, StandaloneDiverged) as error:
        _forget_locals(error)
        raise
    finally:
        if outermost:
            gc.collect()
            gc.unfreeze()
            return_freed_memory()


def _forget_locals(error: BaseException) -> None:
    """Empty the frames that an error has gone through, and the errors that it came of."""
    found: BaseException | None = error
    while found is not None:
        clear_frames(found.__traceback__)
        found = found.__cause__ or found.__context__


@_leaving_no_garbage()
def run(
    scenario: Scenario,
    out: Path | str | None = None,
    options: Options | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
) -> LoadedRun:
    """Runs a scenario into the folder `out`, and returns the loaded run.

    `out` defaults to `runs/<name>-seed<seed>`. With `resume` an interrupted run continues, and a
    completed one is loaded. Raises `ScenarioError` before anything is written if the scenario is
    wrong; `FolderInUse` if the folder holds a run (except one that failed before its first version,
    which is replaced) and neither `overwrite` nor `resume` is given, or another run than this one,
    or if a run is in progress there; `RunFolderError` if the run to resume is damaged; `Diverged`
    and `Stalled` after leaving a readable folder.
    """
    options = options or Options()
    folder = Path(out) if out is not None else default_folder(scenario)
    check_folder(folder, overwrite=overwrite, resume=resume)
    simulation = assemble(scenario, options)
    ray, here = options.ray, simulation.network.on
    trains_on = here if ray is None else CudaDevice if ray.device == "cuda" else CPU
    check_precision_on(simulation.scenario, trains_on)
    with claimed(folder):
        check_folder(
            folder, overwrite=overwrite, resume=resume
        )  # another process may have been faster
        if resume and (folder / MANIFEST).exists():
            return _resumed(simulation, folder)
        clear(folder)
        return _begun(simulation, folder)


def _begun(simulation: Simulation, folder: Path) -> LoadedRun:
    """Runs into a folder without a run."""
    folder.mkdir(exist_ok=True)
    manifest = _new_manifest(simulation)
    write_manifest(folder, manifest)  # first: from now on this is a run's folder
    options = simulation.options
    with closing(Journal(folder / JOURNAL, dict(options.facts or {}), options.store)) as journal:
        _execute(simulation, folder, manifest, journal)
    return load_run(folder)


def _resumed(simulation: Simulation, folder: Path) -> LoadedRun:
    """Continues a folder's run to its end."""
    earlier = read_manifest(folder)
    check_resumable(folder, earlier, simulation)
    if earlier["status"] != "completed":
        _go_on(simulation, folder, earlier)
    run = load_run(folder)
    run.check()
    return run


def find_contributions(baseline: Simulation, folder: Path | None = None) -> Mapping[str, Any]:
    """Lets clients train alone (in `folder`, or without one): `accuracy` of each, and the cost.

    Raises `StandaloneDiverged` if that diverges.
    """
    try:
        if folder is None:
            one = baseline.make_run(None, Journal(shared=baseline.options.store))
            try:
                simulate(baseline, one)
            finally:
                one.values.close()
            one.close()
            rows: list[Any] = one.publications.evaluations
            cost = figures(one)
        else:
            known = (folder / MANIFEST).exists()
            loaded = _resumed(baseline, folder) if known else _begun(baseline, folder)
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
        "rounds": baseline.scenario.stop.versions,
    }


def _go_on(simulation: Simulation, folder: Path, earlier: Manifest) -> None:
    """Replays an interrupted run from time zero, and continues it."""
    before = befallen(warnings_of(folder, earlier))
    snapshot, warnings = read_snapshot(folder, simulation.network.device)
    check = set_aside(folder).check
    manifest = {**_new_manifest(simulation), "warnings": [each.as_dict() for each in before]}
    try:
        with closing(Journal.resume(folder / JOURNAL, simulation.options.store)) as journal:
            write_manifest(folder, manifest)
            _execute(simulation, folder, manifest, journal, snapshot, check, warnings, before)
    except ReplayDiffers as error:
        # The files written before are all that exists of this run.
        remove_parts(folder / PARTS)
        write_manifest(folder, {**earlier, "reason": str(error)})
        raise


def federation_of(folder: Path | str, options: Options | None = None) -> Federation:
    """The final model of a run folder with its clients' data, partitioned again by its scenario.

    Raises `RunFolderError` if the folder holds no finished run, and the errors of assembling its
    scenario: data sets must be in the same place, or below `options.data_root`.
    """
    run = load_run(folder)
    model = run.file("model.safetensors")
    simulation = assemble(Scenario.from_yaml(run.file(SCENARIO)), options)
    try:
        weights = load_file(model)
    except SafetensorError as error:
        raise RunFolderError(f"{model}: not readable as safetensors ({error})") from error
    return simulation.federation(weights)


def default_folder(scenario: Scenario) -> Path:
    """`runs/<name>-seed<seed>`; characters with a meaning in paths become "_"."""
    name = re.sub(r"[^-+.,=@~ \w]", "_", scenario.name)
    return Path("runs") / f"{name}-seed{scenario.seed}"


def _new_manifest(simulation: Simulation) -> Manifest:
    """The manifest of a run at its beginning."""
    return {
        "format_version": FORMAT_VERSION,
        "status": "running",
        "reason": None,
        "name": simulation.scenario.name,
        "digest": simulation.digest,
        "seed": simulation.scenario.seed,
        "versions": {"simfl": own_version(), "torch": torch.__version__},
        "numeric_platform": simulation.platform,
        "not_stacked_because": simulation.network.not_stacked_because,
        "test_examples": len(simulation.partitioned.data.test),
        "task": simulation.partitioned.data.task,
        "own_models": simulation.own_models,
        "trained_by": simulation.trained_by,
        "device": simulation.network.on.described(),
        "sized_only": [f"{way} {called(codec)}" for way, codec in simulation.sized_only.items()],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        **NOTHING_YET,
    }


def _execute(
    simulation: Simulation,
    folder: Path,
    manifest: Manifest,
    journal: Journal,
    snapshot: Snapshot | None = None,
    check: Callable[[Table, int], None] | None = None,
    warnings: Sequence[Notice] = (),
    before: Sequence[Notice] = (),
) -> None:
    """Simulates into a folder with its `manifest`, which always has the current status.

    `snapshot` and `check` are those of the resumed run (`Simulation.make_run`), `warnings` and
    `before` those of `Recorder`.
    """
    recorder = Recorder(simulation, folder, manifest, journal, warnings=warnings, before=before)
    tables = TablesSoFar(folder)

    def checkpoint(values: LearnedValues) -> None:
        if checkpoints.due(values):
            tables.write(one)
            recorder.keep_incidents(values)

    try:
        recorder.foresee()
        checkpoints = Checkpoints(folder, simulation.options.snapshot_seconds, snapshot)
        find = partial(find_contributions, folder=folder / STANDALONE)
        with replacing(folder / SCENARIO) as partial_file:
            partial_file.write_text(simulation.resolved.to_yaml(), encoding="utf-8")
        one = simulation.make_run(folder, journal, snapshot, check, checkpoint, find)
    except KeyboardInterrupt:
        recorder.not_begun("interrupted", BY_THE_USER)
        raise
    except Exception as error:  # a user's part may raise anything
        recorder.not_begun("failed", _in_words(error))
        raise
    try:
        reason = simulate(simulation, one)
        return_freed_memory()  # the log's tables take their turn
        finish(simulation, one, folder)
        recorder.measure(one, reason)
        broken = "; ".join(one.accounts.violations)
        recorder.close(one, "failed" if broken else "completed", broken or reason)
    except KeyboardInterrupt:
        recorder.break_off(one, checkpoints, "interrupted", BY_THE_USER)
        raise
    except (Diverged, Stalled) as error:
        try:
            _finish_without_end(simulation, one, folder)
            if isinstance(error, Diverged):
                recorder.close(one, "diverged", str(error))
            else:
                recorder.close(one, "failed", f"Stalled: {error}")
        except OSError as failure:
            recorder.break_off(one, checkpoints, "failed", _in_words(failure))
            raise
        raise
    except ReplayDiffers:
        raise
    except (Exception, SystemExit) as error:  # a user's part may raise anything, or exit
        recorder.break_off(one, checkpoints, "failed", _in_words(error))
        if isinstance(error, SystemExit):  # its exit code would otherwise become the run's
            raise RunFailed(_in_words(error)) from error
        raise
    finally:
        one.values.close()
    if broken:
        raise RunFailed(f"the run broke its own laws: {broken}")


def _finish_without_end(simulation: Simulation, one: Run, folder: Path) -> None:
    """Write the tables of a run that diverged or stalled.

    How it ended counts, even if its last version, or what it is compared with, fails.
    """
    if one.laws:  # the end itself diverged, in a version not yet computed: all has been written
        return
    ref = one.publications.latest
    with suppress(Diverged, StandaloneDiverged):
        finish(simulation, one, folder, model=ref is None or ref.known)


def _in_words(error: BaseException) -> str:
    """An error as the manifest's reason: the line of the user's code, or its class and message."""
    return users_code(error) or f"{type(error).__name__}: {error}"


def simulate(simulation: Simulation, one: Run) -> str:
    """Runs the protocol to its end; returns the reason. Raises `Diverged` or `Stalled`."""
    algorithm, protocol = simulation.algorithm, simulation.protocol
    departs = algorithm.learns and algorithm.paper_protocol != part_name(type(protocol))
    one.note_start(
        simulation.edge if protocol.hierarchical else None,
        f"the paper's protocol is {algorithm.paper_protocol}" if departs else None,
    )
    with at_work(protocol, "process"):
        steps: Any = protocol.process(one)
    if not isinstance(steps, Generator):
        raise misbehaves(protocol, "process", steps, "a generator")
    process = one.env.process(steps)
    limit_s = simulation.scenario.stop.time_s
    try:
        with _rare_collections():
            one.clock.run(process, limit_s, lambda: one.log.rows_booked)
    except (RuntimeError, ValueError) as error:
        if users_code(error) is not None:
            raise
        # Errors of what a protocol yields, or runs in parallel, do not come from a line of its own.
        with at_work(protocol, "process"):
            raise
    if one.publications.reason is not None:
        return one.publications.reason
    return "the protocol ended by itself" if process.triggered else f"time_s reached {limit_s:g}"


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Skips garbage collection of long-lived objects: a third of a small run's time."""
    before = gc.get_threshold()
    gc.set_threshold(10_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def check_resumable(folder: Path, earlier: Manifest, simulation: Simulation) -> None:
    """Raises `FolderInUse` unless the folder's run is this scenario's, on this numeric platform.

    And `RunFolderError` if it has another format.
    """
    check_format(folder, earlier)
    if earlier["status"] == "diverged":
        raise FolderInUse(f"{folder}: this run diverged ({earlier['reason']}); nothing to resume")
    if earlier["digest"] != simulation.digest:
        raise FolderInUse(f"{folder}: {_unlike(folder, simulation)}")
    there, here = earlier["numeric_platform"], dict(simulation.platform)
    if there != here and not simulation.options.any_platform:
        names = ", ".join(
            f"{k} {there.get(k)} -> {here.get(k)}"
            for k in {**here, **there}
            if there.get(k) != here.get(k)
        )
        raise FolderInUse(
            f"{folder}: was begun on another numeric platform ({names}), where results differ in"
            " their last bits; --any-platform resumes it all the same"
        )


def _unlike(folder: Path, simulation: Simulation) -> str:
    """Why the run in a folder does not belong to this simulation: another scenario, or other
    files.
    """
    now, _ = parse(simulation.resolved.to_yaml(), SCENARIO)
    try:
        before = read_source(folder / SCENARIO).content
    except ScenarioError:  # it had not been written, or is damaged
        before = {}
    keys = [key for key in now if key != "name" and before.get(key) != now[key]]
    if keys:
        where = f" (it differs in {', '.join(keys)})" if before else ""
        return f"holds another scenario's run{where}; resume it with its own"
    return (
        "holds a run of this scenario, but a file that it names (data, a trace, a profile, a part"
        " of one's own, or a module that this part imports) has another content now; --overwrite"
        " runs it anew"
    )
