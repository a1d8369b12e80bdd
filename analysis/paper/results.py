"""Our cells as data: `analysis/results/<paper>.csv`, from which the pages' tables are made.

A row per figure of one experiment, seed and scale:

    exhibit, scale, data, name, figure, seed, value   as the exhibit returns them
    commit      of simfl when it was recorded, with a `+` where files were changed since
    platform    the build of torch and the vector instructions, on which the last bits depend;
                empty: not noted

`plan.csv` beside them says of every paper which runs an exhibit takes, and how long.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
from filelock import FileLock

RESULTS = Path(__file__).parents[1] / "results"
COLUMNS = ["exhibit", "scale", "data", "seed", "name", "figure", "value", "commit", "platform"]
CELL = ["exhibit", "scale", "data", "seed", "name"]
"""What is measured at once, and so replaced at once."""

PLAN = ["paper", "exhibit", "scale", "data", "name", "seeds", "core_hours"]
REPEATS = ["paper", "exhibit", "scale", "data", "before", "after", "values", "equal", "largest"]


def write_results(
    file: Path,
    exhibit: str,
    scale: str,
    values: pd.DataFrame,
    *,
    again: bool = True,
    part: bool = False,
) -> str:
    """Put an exhibit's values into `file`, in place of earlier ones of the same runs.

    Unless the runs are not made `again`: then what is there and the same stays, with its commit,
    and with `part` also where further figures of the run are there.

    Says how many values it put there (nothing where none), and how many of them repeat those of an
    earlier commit to the last bit; these counts become rows of `repeats.csv` beside the file where
    commits or platforms differ. Several processes may record into one folder.
    """
    with _alone(file):
        return _written(file, exhibit, scale, values, again=again, part=part)


def _written(
    file: Path, exhibit: str, scale: str, values: pd.DataFrame, *, again: bool, part: bool
) -> str:
    commit = current_commit()
    about = {"exhibit": exhibit, "scale": scale, "commit": commit, "platform": current_platform()}
    new = values.assign(**about)[COLUMNS]
    old = read_results(file)
    if not again:
        new = new[~_keys(new, CELL).isin(_unchanged(old, new, part=part))]
    if new.empty:
        return ""
    known = _keys(old, CELL).isin(_keys(new, CELL))
    said = _repeated(file, old[known], new)
    parts = [one for one in (old[~known], new) if not one.empty]
    kept = pd.concat(parts, ignore_index=True) if parts else new
    _write(file, kept.sort_values(CELL[:4], kind="stable"))
    return f"Recorded {len(new)} values in {file.name}{said}"


def read_results(file: Path) -> pd.DataFrame:
    """All rows of a paper; none where it has no file yet."""
    if not file.exists():
        return pd.DataFrame(columns=COLUMNS)
    kinds = {column: str for column in COLUMNS if column not in ("seed", "value")}
    rows = pd.read_csv(file, dtype=kinds)
    noted = rows["platform"].fillna("") if "platform" in rows else ""
    return rows.assign(platform=noted)[COLUMNS]


def record_plan(file: Path, paper: str, exhibit: str, scale: str, planned: pd.DataFrame) -> None:
    """Put an exhibit's planned runs (`Study.planned`) into the plan.

    In place of earlier ones on the same data sets: those on others stay.
    """
    with _alone(file):
        _planned(file, paper, exhibit, scale, planned)


def _planned(file: Path, paper: str, exhibit: str, scale: str, planned: pd.DataFrame) -> None:
    new = planned.assign(paper=paper, exhibit=exhibit, scale=scale)[PLAN]
    old = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=PLAN)
    key = PLAN[:4]
    parts = [one for one in (old[~_keys(old, key).isin(_keys(new, key))], new) if not one.empty]
    _write(file, pd.concat(parts).sort_values(key, kind="stable") if parts else new)


def current_commit() -> str:
    """The short name of the checked-out commit; "unknown" outside a repository."""
    root = Path(__file__).parents[2]

    def git(*arguments: str) -> str:
        answer = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
        )
        return answer.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "simfl", "scenarios")
        return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def current_platform() -> str:
    """What the last bits of a run on a CPU depend on, besides simfl."""
    import torch  # pages are made without it

    return f"torch {torch.__version__} {torch.backends.cpu.get_cpu_capability()}"


def _repeated(file: Path, old: pd.DataFrame, new: pd.DataFrame) -> str:
    """How the new values compare with earlier ones; adds to repeats.csv."""
    key = [*CELL, "figure"]
    both = old.merge(new, on=key, suffixes=("_old", "_new"))
    known = (both["platform_old"] != "") & (both["platform_new"] != "")
    moved = known & (both["platform_old"] != both["platform_new"])
    for age in ("old", "new"):
        elsewhere = (", " + both[f"platform_{age}"]).where(moved, "")
        both[f"at_{age}"] = both[f"commit_{age}"] + elsewhere
    both = both[both["at_old"] != both["at_new"]]
    if both.empty:
        return ""
    apart = (both["value_new"].astype(float) - both["value_old"].astype(float)).abs()
    same = _same(both)
    both = both.assign(equal=same, apart=apart.where(~same, 0.0))
    rows = [
        (file.stem, exhibit, scale, data, before, after, len(part), part["equal"].sum(),
         part["apart"].max(skipna=False))
        for (exhibit, scale, data, before, after), part in both.groupby(
            ["exhibit", "scale", "data", "at_old", "at_new"]
        )
    ]  # fmt: skip
    repeats = file.with_name("repeats.csv")
    earlier = pd.read_csv(repeats) if repeats.exists() else pd.DataFrame(columns=REPEATS)
    added = pd.DataFrame(rows, columns=REPEATS)
    _write(repeats, pd.concat([one for one in (earlier, added) if not one.empty]))
    return f"; {both['equal'].sum()} of {len(both)} repeat to the bit those of an earlier commit"


def _unchanged(old: pd.DataFrame, new: pd.DataFrame, *, part: bool) -> pd.MultiIndex:
    """The cells that have the same figures in both (`part`: the new ones), with the same values."""
    both = old.merge(new, on=[*CELL, "figure"], how="outer", suffixes=("_old", "_new"))
    if part:
        both = both[both["commit_new"].notna()]
    same = _same(both) & both["commit_old"].notna() & both["commit_new"].notna()
    of_cells = same.groupby(_keys(both, CELL)).all()
    return pd.MultiIndex.from_tuples(of_cells.index[of_cells], names=CELL)


def _same(both: pd.DataFrame) -> pd.Series:
    """Where value_old and value_new are equal, or both undefined."""
    was, now = both["value_old"].astype(float), both["value_new"].astype(float)
    return was.eq(now) | (was.isna() & now.isna())


def _keys(table: pd.DataFrame, columns: list[str]) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(table[columns].astype(str))


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Nobody else changes the folder's files meanwhile: what is read must still be there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_name(".lock")):
        yield


def _write(file: Path, table: pd.DataFrame) -> None:
    part = file.with_name(f".{file.name}.part")
    table.to_csv(part, index=False, lineterminator="\n")
    part.replace(file)
