"""Running an assembled scenario and leaving a run folder."""

from __future__ import annotations

import re
import shutil
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from safetensors.torch import save_file

from simfl.assembly import Options, Simulation, assemble
from simfl.eventlog import KINDS, STATES, write_parquet
from simfl.journal import Journal
from simfl.protocols.publication import Diverged
from simfl.protocols.run import Run
from simfl.protocols.values import Values, client_set
from simfl.registry import part_name
from simfl.runfolder import MANIFEST, LoadedRun, load_run, write_manifest, write_table
from simfl.scenario import Scenario

Manifest = dict[str, Any]


class RunFailed(RuntimeError):
    """The run ended, but its books do not balance."""


class FolderInUse(ValueError):
    """The output folder holds something already, or cannot be made."""


def run(
    scenario: Scenario | str | Path,
    out: Path | str | None = None,
    options: Options | None = None,
    *,
    overwrite: bool = False,
) -> LoadedRun:
    """Run a scenario (or its YAML file) into the folder `out`, and read the result back.

    `out` defaults to `runs/<name>-seed<seed>`. Raises `ScenarioError` before anything is written
    if the scenario is wrong, `FolderInUse` if the folder holds a run and `overwrite` is False,
    `Diverged` and `Stalled` after leaving a readable folder.
    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.from_yaml(scenario)
    folder = Path(out) if out is not None else _default_folder(scenario)
    _check_folder(folder, overwrite)
    simulation = assemble(scenario, options)
    _make_folder(folder, overwrite)
    (folder / "scenario.yaml").write_text(simulation.resolved.to_yaml(), encoding="utf-8")
    journal = Journal(folder / "journal.jsonl", dict((options or Options()).facts or {}))
    execute(simulation, folder, journal)
    return load_run(folder)


def _default_folder(scenario: Scenario) -> Path:
    """`runs/<name>-seed<seed>`; signs that mean something in a path become "_"."""
    name = re.sub(r"[^-+.,=@~ \w]", "_", scenario.name)
    return Path("runs") / f"{name}-seed{scenario.seed}"


def execute(simulation: Simulation, folder: Path, journal: Journal) -> Run:
    """Simulate into an existing folder; the manifest says at every moment how far it is."""
    started = datetime.now(UTC)
    began = time.perf_counter()
    manifest: Manifest = {
        "status": "running",
        "reason": None,
        "name": simulation.scenario.name,
        "digest": simulation.resolved.digest,
        "seed": simulation.scenario.seed,
        "versions": {"simfl": version("simfl"), "torch": torch.__version__},
        "numeric_platform": simulation.platform,
        "started": started.isoformat(timespec="seconds"),
    }
    write_manifest(folder, manifest)
    one = simulation.make_run(folder, journal)

    def close(status: str, reason: str | None) -> None:
        manifest.update(status=status, reason=reason)
        manifest.update(_outcome(one))
        manifest["wall_s"] = round(time.perf_counter() - began, 3)
        write_manifest(folder, manifest)
        journal.close()

    def measure() -> None:
        manifest.update(_outcome(one))
        write_manifest(folder, manifest)  # measures read the run as its user will
        loaded = load_run(folder)
        manifest["measures"] = {
            part_name(type(one)): one.compute(loaded) for one in simulation.measures
        }

    try:
        reason = simulate(simulation, one)
        _finish(simulation, one, folder)
        measure()
    except KeyboardInterrupt:
        _leave(one, folder)
        close("interrupted", "interrupted by the user")
        raise
    except Diverged as error:
        _finish(simulation, one, folder)
        close("diverged", str(error))
        raise
    except Exception as error:  # a user's part may raise anything
        with suppress(OSError):  # the disk may be what failed
            _leave(one, folder)
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
    process: Any = one.env.process(protocol.process(one))
    limit_s = simulation.scenario.stop.time_s
    if limit_s is not None:
        process = process | one.clock.until(limit_s)
    one.clock.run(process)
    return one.publications.reason or f"time_s reached {limit_s:g}"


def _leave(one: Run, folder: Path) -> None:
    """Write what there is of a run that did not come to its end."""
    one.log.flush(one.clock.now_s)
    _write_rounds(one, folder)


def _write_rounds(one: Run, folder: Path) -> None:
    write_table(folder, "rounds", one.publications.rounds)
    write_table(folder, "evaluations", one.publications.evaluations)


def _finish(simulation: Simulation, one: Run, folder: Path) -> None:
    one.close()
    _write_rounds(one, folder)
    write_parquet(_clients_table(simulation, one), folder / "clients.parquet")
    ref = one.publications.latest
    if isinstance(one.values, Values) and ref is not None:
        weights = {name: tensor.contiguous() for name, tensor in ref.value().weights.items()}
        save_file(weights, folder / "model.safetensors")


def _clients_table(simulation: Simulation, one: Run) -> pa.Table:
    """One row per client: who it is, what it did, what it spent, what it got."""
    world, accounts, shards = simulation.world, one.accounts, simulation.shards
    clients = slice(0, world.num_clients)
    columns: dict[str, Any] = {
        "client": np.arange(world.num_clients),
        "device": [world.devices[index].name for index in world.device_index],
        "device_class": [world.devices[index].device_class for index in world.device_index],
        "link": [world.link_names[index] for index in world.link_index],
        "edge": simulation.edge,
        "num_examples": shards.num_examples,
        "label_counts": list(shards.label_counts),
        "participations": one.observations.participations,
    }
    kinds = list(KINDS)
    for state in ("download", "compute", "upload", "idle"):
        columns[f"{state}_s"] = accounts.seconds[clients, kinds.index(state)]
        columns[f"{state}_j"] = accounts.joules[clients, kinds.index(state)]
    columns["energy_j"] = accounts.joules[clients].sum(axis=1)
    for name, kind in (("bytes_received", "download"), ("bytes_sent", "upload")):
        columns[name] = accounts.bytes[clients, kinds.index(kind)].astype(np.int64)
    columns.update(_final_scores(simulation, one))
    return pa.table(columns)


def _final_scores(simulation: Simulation, one: Run) -> dict[str, list[float]]:
    """Loss and accuracy of the final global and served models on each client's own data."""
    ref, values = one.publications.latest, one.values
    if not isinstance(values, Values) or ref is None:
        return {}
    state, scores = ref.value(), []
    for client in range(simulation.world.num_clients):
        metrics = values.evaluator.metrics([state.weights], on=client_set(client))
        scores.append([metrics.loss, metrics.accuracy])
    served = values.evaluate_at_clients(ref, one.clock.now_s)
    return {
        f"{model}_{figure}": [row[column] for row in rows]
        for model, rows in (("global", scores), ("served", served))
        for column, figure in enumerate(("loss", "accuracy"))
    }


def _outcome(one: Run) -> Manifest:
    """What the manifest says about how the run went."""
    now_s, accounts = one.clock.now_s, one.accounts
    values = one.values if isinstance(one.values, Values) else None
    return {
        "horizon_s": now_s,
        "energy_j": accounts.energy_j(now_s),
        "bytes": accounts.bytes_moved(now_s),
        "energy_by_state_j": {
            kind: float(accounts.joules[:, index].sum())
            for index, kind in enumerate(accounts.kinds)
            if kind in STATES or kind == "network"
        },
        "counts": {
            "versions": one.publications.latest.version if one.publications.latest else 0,
            "events": one.log.rows_written,
            "jobs_asked": values.trainer.jobs_asked if values else 0,
            "jobs_trained": values.trainer.trained if values else 0,
            "facts_recalled": values.journal.recalled if values else 0,
        },
        "fingerprint": one.log.fingerprint,
        "invariants": one.laws,
        "violations": accounts.violations,
    }


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
