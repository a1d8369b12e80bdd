"""One question to a run's event log, asked of pandas, polars and DuckDB.

`python analysis/reading_events.py RUN_FOLDER` prints three times the same table: seconds, joules
and bytes by kind of event. In an editor that knows percent cells, or as a notebook, it looks at
runs/quickstart. polars and DuckDB come with `pip install 'simfl[tables]'`; the cell of one that is
not installed says so.
"""

# %%
from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

folder = Path(sys.argv[1]) if len(sys.argv) == 2 else Path("runs/quickstart")
log = folder / "events.parquet"
answers: dict[str, pd.DataFrame] = {}

# %% [markdown]
# ## pandas
# `simfl.load_run(folder).events` is the same table, also while a run is still going on.

# %%
events = pd.read_parquet(log, columns=["kind", "duration_s", "energy_j", "bytes"])
answers["pandas"] = events.groupby("kind", as_index=False).sum()
print(answers["pandas"].to_string(index=False))

# %% [markdown]
# ## polars
# Lazily: only the columns that are asked for are read.

# %%
try:
    import polars as pl
except ImportError:
    print("polars is not installed")
else:
    lazy = pl.scan_parquet(log).group_by("kind").agg(pl.sum("duration_s", "energy_j", "bytes"))
    answers["polars"] = pd.DataFrame(lazy.sort("kind").collect().to_dicts())
    print(answers["polars"].to_string(index=False))

# %% [markdown]
# ## DuckDB
# SQL over the file where it lies; `runs/*/events.parquet` would be all runs at once.

# %%
try:
    import duckdb
except ImportError:
    print("DuckDB is not installed")
else:
    rows = duckdb.sql(
        f"""
        SELECT kind, sum(duration_s) AS duration_s, sum(energy_j) AS energy_j,
               sum(bytes)::BIGINT AS bytes
        FROM '{log}' GROUP BY kind ORDER BY kind
        """
    )
    answers["DuckDB"] = pd.DataFrame(rows.fetchall(), columns=rows.columns)
    print(answers["DuckDB"].to_string(index=False))
