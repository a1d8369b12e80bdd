"""Run folders: manifest and tables, and loading them into pandas."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simfl.common.accuracy_name import accuracy_name
from simfl.common.files import NO_HANDLES, RunFolderError, digest_of, replacing
from simfl.common.html import html_table, titled
from simfl.common.notices import Notice, read_notice
from simfl.common.plain import to_json
from simfl.eventlog.columns import table_of
from simfl.eventlog.kinds import CLIENT_STATES, COLUMNS, FORMAT_VERSION, KINDS, SCHEMA, STATES
from simfl.eventlog.parquet_parts import count_rows, read_parquet, write_parquet
from simfl.provenance.replay import longest_log
from simfl.runs.summary import main_figures
from simfl.scenario.yaml_source.source import read_source

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LoadedRun", "RunFolderError", "load_run"]

MANIFEST, HARDWARE = "manifest.json", "hardware.json"
TABLES: dict[str, pa.Schema] = {
    "rounds": pa.schema(
        [
            ("version", pa.int64()),
            ("time_s", pa.float64()),
            ("round", pa.int64()),
            ("edge", pa.int64()),
            ("accuracy", pa.float64()),
            ("loss", pa.float64()),
            ("latency_s", pa.float64()),
            ("energy_j", pa.float64()),
            ("client_energy_j", pa.float64()),
            ("client_active_j", pa.float64()),
            ("server_energy_j", pa.float64()),
            ("network_energy_j", pa.float64()),
            ("bytes", pa.int64()),
            ("participants", pa.int64()),
            ("updates", pa.int64()),
            ("staleness", pa.float64()),
            ("staleness_max", pa.int64()),
        ]
    ),
    "evaluations": pa.schema(
        [
            ("version", pa.int64()),
            ("client", pa.int64()),
            ("on", pa.string()),
            ("loss", pa.float64()),
            ("accuracy", pa.float64()),
        ]
    ),
}

ALL_TABLES = ("events", *TABLES, "clients")
CLIENT_COLUMNS = frozenset(
    ("client", "device", "link", "edge", "num_examples", "participations", "energy_j")
) | {f"{state}_{unit}" for state in CLIENT_STATES for unit in "sj"}
"""The columns of every table of clients, besides those that depend on the scenario."""

STATUSES = ("running", "completed", "interrupted", "diverged", "failed")

_BEGUN: dict[str, type | tuple[type, ...]] = {
    "status": str,
    "digest": str,
    "numeric_platform": dict,
}
"""Keys of every manifest of simfl, and the types of their values."""

_ENDED: dict[str, type | tuple[type, ...]] = {
    "reason": str,
    "name": str,
    "seed": int,
    "horizon_s": (int, float),
    "energy_j": (int, float),
    "client_energy_j": (int, float),
    "client_active_j": (int, float),
    "server_energy_j": (int, float),
    "network_energy_j": (int, float),
    "bytes": int,
    "energy_by_state_j": dict,
    "counts": dict,
    "warnings": list,
    "wall_s": (int, float),
}
"""Keys of the manifest of a run that has ended in any way."""

_COUNTS = ("versions", "events", "jobs_asked", "jobs_trained", "jobs_reused")


def is_own_manifest(content: object) -> bool:
    """Whether this is the content of a manifest written by simfl."""
    return (
        isinstance(content, dict)
        and all(isinstance(content.get(key), kind) for key, kind in _BEGUN.items())
        and content["status"] in STATUSES
    )


def warnings_of(folder: Path, manifest: Mapping[str, Any]) -> list[Notice]:
    """The warnings in a folder's manifest; `RunFolderError` if the list is not simfl's."""
    try:
        return [read_notice(one) for one in manifest["warnings"]]
    except (KeyError, TypeError) as error:
        raise RunFolderError(f"{folder / MANIFEST}: damaged: warnings: {error}") from None


def read_manifest(folder: Path) -> dict[str, Any]:
    """A run folder's manifest; raises `RunFolderError` if there is none of simfl."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise RunFolderError(f"{folder}: no run folder (it has no {MANIFEST})") from None
    except OSError as error:
        if error.errno in NO_HANDLES:
            raise
        raise RunFolderError(f"{path}: not readable ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{path}: not readable as JSON ({error})") from None
    if not isinstance(content, dict):
        raise RunFolderError(f"{path}: not readable as a JSON object")
    if not is_own_manifest(content):
        raise RunFolderError(f"{path}: not a manifest of simfl's, so this is no run folder")
    # For another layout it is unknown which keys are missing: `check_format` refuses it.
    known = content.get("format_version", 1) == FORMAT_VERSION
    ended = known and content["status"] != "running"
    for key, kind in _ENDED.items() if ended else ():
        if not isinstance(content.get(key), kind) or isinstance(content.get(key), bool):
            raise RunFolderError(f"{path}: damaged: {key} is missing or of another type")
    for key in _COUNTS if ended else ():
        if type(content["counts"].get(key)) is not int:
            raise RunFolderError(f"{path}: damaged: counts.{key} is missing or no whole number")
    return content


def check_format(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Raises `RunFolderError` unless the folder's run has the supported layout."""
    found = manifest.get("format_version", 1)
    if found != FORMAT_VERSION:
        raise RunFolderError(
            f"{folder}: a run in format {found}, and this version of simfl reads format"
            f" {FORMAT_VERSION}: read it with the version that wrote it, or run it anew"
            " (--overwrite)"
        )


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Writes `manifest.json` atomically."""
    with replacing(folder / MANIFEST) as partial:
        partial.write_text(to_json(manifest, indent=2) + "\n", encoding="utf-8")


def write_table(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """Writes a table of `TABLES` from its rows; keys that a row lacks are null.

    Dotted keys, such as an app's metrics, become columns of numbers after the others.
    """
    schema = TABLES[name]
    for other in sorted({key for row in rows for key in row if "." in key}):
        schema = schema.append(pa.field(other, pa.float64()))
    write_parquet(table_of(rows, schema), folder / f"{name}.parquet")


def described_files(folder: Path) -> dict[str, dict[str, Any]]:
    """For the manifest: the digest of every file of an ended run, and the rows of tables."""
    found: dict[str, dict[str, Any]] = {}
    tables = (f"{one}.parquet" for one in ALL_TABLES)
    for name in ("scenario.yaml", HARDWARE, "model.safetensors", *tables):
        path = folder / name
        if path.exists():
            rows = {"rows": count_rows(path)} if path.suffix == ".parquet" else {}
            found[name] = {"sha256": digest_of(path), **rows}
    return found


class LoadedRun:
    """A loaded run: `events`, `rounds`, `clients`, `evaluations` (DataFrames) and `manifest`.

    A run in progress, or killed, is loaded as far as it was written. Files that have changed since
    the run raise `RunFolderError` when they are read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: dict[str, Any] = read_manifest(path)
        self._tables: dict[str, pa.Table] = {}
        check_format(path, self.manifest)

    def unshared(self) -> LoadedRun:
        """The same run with DataFrames of its own: changes of them do not reach others."""
        one = copy.copy(self)
        for name in ("events", "rounds", "clients", "evaluations"):
            vars(one).pop(name, None)
        return one

    @property
    def standing(self) -> str:
        """The run's status in words; for one that may have been killed, how to continue it."""
        said = f"the run's status is {self.manifest['status']}"
        if self.manifest["status"] != "running":
            return said
        return f"{said}; if it was killed, `simfl run ... --resume` goes on with it"

    @property
    def _described(self) -> Mapping[str, Any]:
        """The manifest's files, by name, with their digests."""
        files = self.manifest.get("files")
        return files if isinstance(files, dict) else {}

    def has(self, name: str) -> bool:
        """Whether the run wrote a file, though it may be gone: reading it then raises."""
        return name in self._described or (self.path / name).exists()

    def file(self, name: str) -> Path:
        """The path of a file of the run; raises `RunFolderError` unless it exists unchanged."""
        path, known = self.path / name, self._described.get(name)
        if not path.exists():
            raise RunFolderError(f"{path}: not there; {self.standing}")
        if isinstance(known, dict) and digest_of(path) != known.get("sha256"):
            raise RunFolderError(
                f"{path}: damaged, or of another run: its digest is not that in {MANIFEST};"
                " `simfl run ... --overwrite` runs it anew"
            )
        return path

    def check(self) -> None:
        """Raises `RunFolderError` unless all files in the manifest exist unchanged."""
        for name in self._described:
            self.file(name)

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """The scenario of the run, with all used defaults: scenario.yaml as plain values.

        Raises `RunFolderError` if the file is missing, `ScenarioError` if it is not YAML.
        """
        return read_source(self.file("scenario.yaml")).content

    @cached_property
    def hardware(self) -> dict[str, Any]:
        """Figures of the machines that took part (docs/seconds_and_joules.md).

        `devices` and `links` by name, `cloud_server`, `access_points_m`, in runs with tiers
        `edge_server`, and `backhaul` in these and where the server is behind one.
        """
        path = self.file(HARDWARE)
        try:
            content = json.loads(path.read_bytes())
        except ValueError as error:
            raise RunFolderError(f"{path}: not readable as JSON ({error})") from None
        if not isinstance(content, dict):
            raise RunFolderError(f"{path}: not readable as a JSON object")
        return content

    @cached_property
    def warnings(self) -> list[Notice]:
        """The run's warnings (docs/warnings.md).

        Raises `RunFolderError` if the manifest's list is not simfl's.
        """
        return warnings_of(self.path, self.manifest)

    @cached_property
    def events(self) -> pd.DataFrame:
        """One row per event; columns and units in `simfl.eventlog.kinds.UNITS`."""
        if self.has("events.parquet"):
            path = self.file("events.parquet")
            table = read_parquet(path, SCHEMA)
            if self.manifest["status"] != "running":
                events = self.manifest["counts"]["events"]
                if table.num_rows != events:
                    raise RunFolderError(
                        f"{path}: {table.num_rows} events, but the run had {events}: the folder's"
                        " files are of several runs"
                    )
            return _frame(table)
        parts = [read_parquet(path, SCHEMA) for path in longest_log(self.path)]
        return _frame(pa.concat_tables(parts) if parts else SCHEMA.empty_table())

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per global version: time_s, accuracy, loss, energy_j, bytes, staleness, ...

        `staleness` is the mean over the `updates` (of clients, or of edge servers) that were merged
        into the version, `staleness_max` that of the oldest. `client_energy_j`, `server_energy_j`
        and `network_energy_j` add up to `energy_j`; `client_active_j` are the clients' joules above
        idle power.
        """
        return _frame(self._table("rounds"))

    @property
    def mean_staleness(self) -> float:
        """The number of new versions between an update's download and its merge.

        The mean over all updates of the run; NaN without any.
        """
        updates = self.column("rounds", "updates")
        total = int(np.nansum(updates))
        summed = float(np.nansum(self.column("rounds", "staleness") * updates))
        return summed / total if total else float("nan")

    @property
    def merged_updates(self) -> NDArray[Any]:
        """Each client's finished rounds, without those whose update was dropped."""
        finished: NDArray[Any] = self.column("clients", "participations")
        if "dropped" not in self._table("clients").column_names:
            return finished
        merged: NDArray[Any] = finished - self.column("clients", "dropped")
        return merged

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One row per client: device, link, edge, seconds and joules by state, bytes, accuracy."""
        return _frame(self._table("clients"))

    @cached_property
    def evaluations(self) -> pd.DataFrame:
        """One row per (version, client, data set): loss and accuracy.

        `on` is "test" (client empty: the mean over clients' served models), "own" (a client's
        training data), "train" (all clients' together, for an algorithm that uses it), "flipped"
        (test examples with a flipped feature, if the data set has one) or "validation" (the
        server's, for the measure `model_selection`).
        """
        return _frame(self._table("evaluations"))

    def column(self, table: str, name: str) -> NDArray[Any]:
        """A column of `rounds`, `clients` or `evaluations`, without loading pandas, which is slow.

        Numbers are floats, NaN if missing; texts are objects.
        """
        column = self._table(table)[name]
        if column.type == pa.string():
            return np.array(column.to_pylist(), dtype=object)
        return np.array(column.to_pylist(), dtype=float)

    @property
    def last_scores(self) -> tuple[float, float] | None:
        """The last known accuracy and loss; NaN if one is unknown."""
        accuracy, loss = (self.column("rounds", name) for name in ("accuracy", "loss"))
        known = [column[~np.isnan(column)] for column in (accuracy, loss)]
        if not any(one.size for one in known):
            return None
        last_accuracy, last_loss = (float(one[-1]) if one.size else math.nan for one in known)
        return last_accuracy, last_loss

    @property
    def accuracy_name(self) -> str:
        """The content of the column `accuracy`: "accuracy", a share, or "R^2" for a regression."""
        return accuracy_name(self.manifest.get("task"))

    def _repr_html_(self) -> str:
        """The display in a notebook."""
        manifest = self.manifest
        scores = self.last_scores if (self.path / "rounds.parquet").exists() else None
        rows = [
            (escape(label).replace("  ", "&emsp;"), escape(figure))
            for label, figure in main_figures(manifest, scores)
        ]
        title = f"{manifest['name']} (seed {manifest['seed']}): {manifest['status']}"
        reason = [str(manifest["reason"])] if manifest["reason"] else []
        warned = [f"warning: {one.kind}: {one.message}" for one in self.warnings]
        return titled(title, html_table(rows), *reason, *warned, f"run folder: {self.path}")

    def _table(self, name: str) -> pa.Table:
        if name in self._tables:
            return self._tables[name]
        path = self.file(f"{name}.parquet")
        table = read_parquet(path, TABLES.get(name))
        missing = CLIENT_COLUMNS - set(table.column_names) if name == "clients" else ()
        if missing:
            raise RunFolderError(f"{path}: not a table of simfl's: it has no column {min(missing)}")
        return self._tables.setdefault(name, table)

    def details(self, kind: str) -> pd.DataFrame:
        """The events of one kind: its columns, and the keys of `detail` as columns.

        Raises ValueError for an unknown kind.
        """
        from pandas import DataFrame  # heavy; a run that nobody reads back needs none of it

        if kind not in KINDS:
            raise ValueError(f"unknown event kind {kind!r}; kinds: {', '.join(KINDS)}")
        rows = self.events[self.events["kind"] == kind]
        parsed = [json.loads(text) if isinstance(text, str) else {} for text in rows["detail"]]
        its = [name for name, column in COLUMNS.items() if kind in (column.kinds or KINDS)]
        columns = rows[[name for name in SCHEMA.names if name in its and name != "detail"]]
        return columns.join(DataFrame(parsed, index=rows.index))

    def timeline(self, actor: str) -> pd.DataFrame:
        """The states of a device (`client-3`, `edge-0`, `cloud`), from time 0 to the end, in order.

        One row per state: start_s, time_s, kind, energy_j and, for transfers, bytes. Raises
        ValueError for a device that is not in the log.
        """
        rows = self.events[self.events["actor"] == actor]
        if rows.empty:
            raise ValueError(f"{actor!r} is not in the log; accepted: client-N, edge-N, cloud")
        columns = ["start_s", "time_s", "kind", "energy_j", "bytes"]
        states = rows.loc[rows["kind"].isin(STATES), columns]
        return states.sort_values(["start_s", "time_s"]).reset_index(drop=True)

    def energy_by_state(self) -> pd.DataFrame:
        """Joules of every device (rows) in every state (columns); `network` is the links' energy.

        The sum of the table is the run's energy.
        """
        kinds = [*STATES, "network"]
        spent = self.events[self.events["kind"].isin(kinds)]
        table = spent.pivot_table(
            "energy_j", "actor", "kind", aggfunc="sum", fill_value=0.0, observed=True
        )
        return table.reindex(columns=kinds, fill_value=0.0)

    def time_to(self, accuracy: float | None = None, loss: float | None = None) -> float:
        """Simulated seconds until the target was first met; NaN if it never was."""
        return self.spent_to("time_s", accuracy, loss)

    def energy_to(self, accuracy: float | None = None, loss: float | None = None) -> float:
        """Joules of all devices until the target was first met; NaN if it never was."""
        return self.spent_to("energy_j", accuracy, loss)

    def bytes_to(self, accuracy: float | None = None, loss: float | None = None) -> float:
        """Bytes that arrived until the target was first met, over all links; NaN if never met."""
        return self.spent_to("bytes", accuracy, loss)

    def spent_to(
        self, column: str, accuracy: float | None = None, loss: float | None = None
    ) -> float:
        """A column of `rounds`, such as client_energy_j, when the target was first met; or NaN."""
        if (accuracy is None) == (loss is None):
            raise ValueError("give one target: accuracy (at least) or loss (at most)")
        rounds = self.rounds
        met = rounds["accuracy"] >= accuracy if loss is None else rounds["loss"] <= loss
        return float(rounds.loc[met, column].iloc[0]) if met.any() else float("nan")


def edge_servers(run: LoadedRun) -> list[int]:
    """Numbers of the run's edge servers, including those without clients that are in its log.

    `nearest`, for example, leaves edge servers without clients, which wait all the same.
    """
    logged = run.events["actor"].drop_duplicates()
    alone = logged[logged.str.startswith("edge-")].str.removeprefix("edge-").astype(int)
    return sorted({*run.clients["edge"].astype(int), *alone})


def _frame(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame


def load_run(path: Path | str) -> LoadedRun:
    """Loads a run folder; raises `RunFolderError` if it is not one."""
    return LoadedRun(Path(path))
