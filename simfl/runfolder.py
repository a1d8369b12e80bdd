"""A run folder: its manifest and tables, and reading it back into pandas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from simfl.eventlog.kinds import KINDS, SCHEMA, STATES
from simfl.eventlog.segments import write_parquet
from simfl.replay import longest_log
from simfl.yaml_source import read_source

if TYPE_CHECKING:
    import pandas as pd

MANIFEST = "manifest.json"
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
            ("bytes", pa.int64()),
            ("participants", pa.int64()),
            ("staleness", pa.int64()),
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


class RunFolderError(ValueError):
    """A folder that is not a readable run; the message says what is wrong with it."""


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write `manifest.json` so that it is either the old one or the new one, never half."""
    partial = folder / "manifest.partial"
    partial.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    partial.replace(folder / MANIFEST)


def write_table(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """Write a table of `TABLES` from its rows; keys that a row lacks are empty."""
    write_parquet(pa.Table.from_pylist(rows, schema=TABLES[name]), folder / f"{name}.parquet")


class LoadedRun:
    """A run read back: `events`, `rounds`, `clients`, `evaluations` (DataFrames) and `manifest`.

    A run that is going on, or was killed, is read as far as it was written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise RunFolderError(f"{path}: no run folder (it has no {MANIFEST})") from None
        except ValueError as error:
            raise RunFolderError(f"{path / MANIFEST}: not readable as JSON ({error})") from None
        if not isinstance(manifest, dict):
            raise RunFolderError(f"{path / MANIFEST}: not readable as a JSON object")
        self.manifest: dict[str, Any] = manifest

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """What was run, with every default: scenario.yaml as plain values.

        Raises `ScenarioError` where the file is not there or not readable.
        """
        return read_source(self.path / "scenario.yaml").content

    @cached_property
    def events(self) -> pd.DataFrame:
        """One row per event; columns and units in `simfl.eventlog.kinds.UNITS`."""
        whole = self.path / "events.parquet"
        if whole.exists():
            return _frame(_read(whole))
        parts = [_read(path) for path in longest_log(self.path)]
        table = pa.concat_tables(parts) if parts else SCHEMA.empty_table()
        return _frame(table)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per global version: time_s, accuracy, loss, energy_j, bytes, staleness, ..."""
        return self._table("rounds")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One row per client: device, link, edge, seconds and joules by state, bytes, accuracy."""
        return self._table("clients")

    @cached_property
    def evaluations(self) -> pd.DataFrame:
        """One row per (version, client, data set): loss and accuracy.

        `on` is "test" (client empty: the mean over what clients are served), "own" (a client's
        training data), "train" (all clients' together, of an algorithm that goes by it) or
        "flipped" (test examples with a flipped feature, of a data set that has one).
        """
        return self._table("evaluations")

    def _table(self, name: str) -> pd.DataFrame:
        path = self.path / f"{name}.parquet"
        if not path.exists():
            status = self.manifest.get("status")
            raise RunFolderError(f"{path}: not there; the run's status is {status}")
        return _frame(_read(path))

    def details(self, kind: str) -> pd.DataFrame:
        """The events of one kind with the keys of their `detail` as typed columns."""
        from pandas import DataFrame  # heavy; a run that nobody reads back needs none of it

        if kind not in KINDS:
            raise ValueError(f"unknown event kind {kind!r}; kinds: {', '.join(KINDS)}")
        rows = self.events[self.events["kind"] == kind].drop(columns="detail")
        texts = self.events.loc[rows.index, "detail"]
        parsed = [json.loads(text) if isinstance(text, str) else {} for text in texts]
        return rows.join(DataFrame(parsed, index=rows.index))

    def timeline(self, actor: str) -> pd.DataFrame:
        """What a device (`client-3`, `edge-0`, `cloud`) did, from time 0 to the end, in order.

        One row per state: start_s, time_s, kind, energy_j and, of transfers, bytes. ValueError for
        a device that is not in the log.
        """
        rows = self.events[self.events["actor"] == actor]
        if rows.empty:
            raise ValueError(f"{actor!r} is not in the log; accepted: client-N, edge-N, cloud")
        columns = ["start_s", "time_s", "kind", "energy_j", "bytes"]
        states = rows.loc[rows["kind"].isin(STATES), columns]
        return states.sort_values(["start_s", "time_s"]).reset_index(drop=True)

    def energy_by_state(self) -> pd.DataFrame:
        """Joules of every device (rows) in every state (columns); `network` is that of the links.

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
        return self._until("time_s", accuracy, loss)

    def energy_to(self, accuracy: float | None = None, loss: float | None = None) -> float:
        """Joules of all devices until the target was first met; NaN if it never was."""
        return self._until("energy_j", accuracy, loss)

    def bytes_to(self, accuracy: float | None = None, loss: float | None = None) -> float:
        """Bytes over all links until the target was first met; NaN if it never was."""
        return self._until("bytes", accuracy, loss)

    def _until(self, column: str, accuracy: float | None, loss: float | None) -> float:
        if (accuracy is None) == (loss is None):
            raise ValueError("give one target: accuracy (at least) or loss (at most)")
        rounds = self.rounds
        met = rounds["accuracy"] >= accuracy if loss is None else rounds["loss"] <= loss
        return float(rounds.loc[met, column].iloc[0]) if met.any() else float("nan")


def _read(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise RunFolderError(f"{path}: not readable as Parquet ({error})") from None


def _frame(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame


def load_run(path: Path | str) -> LoadedRun:
    """Read a run folder; raises `RunFolderError` if it is none."""
    return LoadedRun(Path(path))
