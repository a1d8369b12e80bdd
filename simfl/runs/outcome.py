"""A run's results besides its events: tables, final model, figures of the manifest."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors.torch import save

from simfl.assembly.simulation import Simulation
from simfl.common.arrays import FloatArray
from simfl.common.files import replacing
from simfl.common.plain import to_json
from simfl.eventlog.columns import column_of
from simfl.eventlog.kinds import CLIENT_STATES, KIND_INDEX, KINDS, STATES
from simfl.eventlog.parquet_parts import write_parquet
from simfl.protocols.run import Run
from simfl.runs.runfolder import HARDWARE, write_table
from simfl.system.equipment import client_columns, machine_figures


def leave(one: Run, folder: Path) -> None:
    """Write the results of a run that did not come to its end."""
    one.log.flush(one.clock.now_s)
    write_rounds(one, folder)


def write_rounds(one: Run, folder: Path) -> None:
    """Write the tables of versions and evaluations so far."""
    write_table(folder, "rounds", one.publications.rounds)
    write_table(folder, "evaluations", one.publications.evaluations)


def finish(simulation: Simulation, one: Run, folder: Path, *, model: bool = True) -> None:
    """End a run: complete its log and write all tables and the final model.

    Without `model`, the model and what clients are served are left out. Raises `Diverged` if the
    last version cannot be computed; everything else has been written then.
    """
    one.close()
    write_rounds(one, folder)
    columns = _clients(simulation, one)
    try:
        if model:
            columns |= _final_scores(one)
            columns |= _rewards(one)
    finally:
        table = pa.table({name: column_of(column) for name, column in columns.items()})
        write_parquet(table, folder / "clients.parquet")
        _write_hardware(simulation, folder)
    ref = one.publications.latest
    weights = ref.value().weights if model and ref is not None else {}
    if weights:  # a run without learning has none
        weights = {name: tensor.contiguous() for name, tensor in weights.items()}
        with replacing(folder / "model.safetensors") as partial:
            partial.write_bytes(save(weights))  # `save_file` has its own errors for a full disk


def _write_hardware(simulation: Simulation, folder: Path) -> None:
    """Write the figures of the machines that take part."""
    tiers = simulation.protocol.hierarchical
    with replacing(folder / HARDWARE) as partial:
        text = to_json(machine_figures(simulation.world, hierarchical=tiers), indent=2)
        partial.write_text(text + "\n", encoding="utf-8")


def _clients(simulation: Simulation, one: Run) -> dict[str, Any]:
    """Columns with one row per client: who it is, what it did, what it consumed."""
    world, accounts, partitioned = simulation.world, one.accounts, simulation.partitioned
    clients = slice(0, world.num_clients)
    columns: dict[str, Any] = {
        "client": np.arange(world.num_clients),
        "device": [world.devices[index].name for index in world.device_index],
        "device_class": [world.devices[index].device_class for index in world.device_index],
        "link": [world.link_names[index] for index in world.link_index],
        "edge": simulation.edge,
        "num_examples": partitioned.num_examples,
        "label_counts": list(partitioned.label_counts),
        **client_columns(world, simulation.network.work),
        "participations": one.observations.participations,
        "dropped": one.observations.dropped,
    }
    kinds = list(KINDS)
    for state in CLIENT_STATES:
        columns[f"{state}_s"] = accounts.seconds[clients, kinds.index(state)]
        columns[f"{state}_j"] = accounts.joules[clients, kinds.index(state)]
    columns["energy_j"] = accounts.joules[clients].sum(axis=1)
    columns["active_j"] = accounts.active_j[clients]
    for name, column in _footprint(one).items():
        columns[name] = column[clients]
    for name, kind in (("bytes_received", "download"), ("bytes_sent", "upload")):
        columns[name] = accounts.bytes[clients, kinds.index(kind)].astype(np.int64)
    return columns


def _footprint(one: Run) -> dict[str, FloatArray]:
    """Grams of CO2 and money of every actor, if the scenario's regions have them."""
    electricity, known = one.world.electricity, {}
    if electricity is not None:
        known["carbon_gco2"] = one.accounts.carbon_gco2
        if any(region.price is not None for region in electricity.regions):
            known["electricity_cost"] = one.accounts.electricity_cost
    return known


def _over_the_backhaul(one: Run) -> int:
    """Bytes of messages that arrived and crossed the backhaul; call it after the log has ended."""
    clients = one.world.num_clients
    moves = [KIND_INDEX[kind] for kind in ("download", "upload")]
    crossing = slice(0, clients) if one.world.behind_backhaul else slice(clients, None)
    return int(one.accounts.bytes[crossing, moves].sum())


def _currency(one: Run) -> str | None:
    """The currency of the prices; None if no price is known."""
    regions = () if one.world.electricity is None else one.world.electricity.regions
    return next((region.currency for region in regions if region.price is not None), None)


def _rewards(one: Run) -> dict[str, list[float]]:
    """What clients achieve alone and their rewards, on the test set, if requested."""
    ref, values = one.publications.latest, one.values
    if values.contributions is None or ref is None:
        return {}
    scores = values.rewards(ref, one.clock.now_s)
    return {
        "contribution": values.contributions.accuracy,
        "reward_loss": [loss for loss, _ in scores],
        "reward_accuracy": [accuracy for _, accuracy in scores],
    }


def _final_scores(one: Run) -> dict[str, list[float]]:
    """Loss and accuracy of the final global and served models on each client's own data."""
    ref, values = one.publications.latest, one.values
    if ref is None:
        return {}
    of_all = values.global_at_clients(ref)
    served = values.served_at_clients(ref, one.clock.now_s)
    return {
        f"{model}_{figure}": [row[column] for row in rows]
        for model, rows in (("global", of_all), ("served", served))
        if rows
        for column, figure in enumerate(("loss", "accuracy"))
    }


def figures(one: Run) -> dict[str, Any]:
    """The manifest's figures about how the run went."""
    now_s, accounts = one.clock.now_s, one.accounts
    contributions = one.values.contributions
    return {
        "horizon_s": now_s,
        **accounts.energy(now_s).columns(),
        "bytes": accounts.bytes_moved(now_s),
        "backhaul_bytes": _over_the_backhaul(one),
        "merged_updates": one.aggregation.merged_updates,
        "traffic": accounts.bytes_by_fate,
        **{
            name: float(column.sum())
            for name, column in _footprint(one).items()
            if not np.isnan(column).any()
        },
        "currency": _currency(one),
        "energy_by_state_j": {
            kind: float(accounts.joules[:, index].sum())
            for index, kind in enumerate(accounts.kinds)
            if kind in STATES or kind == "network"
        },
        "counts": {
            "versions": one.publications.latest.version if one.publications.latest else 0,
            "events": one.log.rows_written,
            **asdict(one.values.effort),
        },
        **one.wasted,
        "wall_by_phase_s": {name: round(s, 3) for name, s in one.values.wall_s().items()},
        "workers": [
            {**share._asdict(), "training_s": round(share.training_s, 3)}
            for share in one.values.trained_where()
        ],
        "contributions": contributions.known if contributions else None,
        "fingerprint": one.log.fingerprint,
        "invariants": one.laws,
        "violations": accounts.violations,
    }
