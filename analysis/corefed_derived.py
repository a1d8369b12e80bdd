"""Figures that came after runs were recorded, made of the utilities that were recorded of them.

    python analysis/corefed_derived.py      add blocking_margin_fedavg where it is missing

Tables 1 to 4: below `blocking_margin` of a row of analysis/results/corefed.csv comes the same test
against FedAvg's model alone (for FedAvg, against CoreFed's), with the commit of the run that the
utilities are of. All other rows stay as they are, to the letter.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from paper.agents import pair_margin
from paper.results import CELL, RESULTS

TABLES = ("table1", "table2", "table3", "table4")
FIGURE = "blocking_margin_fedavg"
AFTER = "blocking_margin"
Cell = tuple[str, ...]
"""Exhibit, scale, data, seed, name."""


def recorded_utilities(rows: pd.DataFrame) -> dict[Cell, np.ndarray]:
    """Each run's utilities by agent, of the tables' rows."""
    agents = rows[rows["exhibit"].isin(TABLES) & rows["figure"].str.startswith("agent_")]
    number = agents["figure"].str.removeprefix("agent_").astype(int)
    ordered = agents.assign(number=number).sort_values("number", kind="stable")
    return {
        tuple(map(str, cell)): own["value"].astype(float).to_numpy()
        for cell, own in ordered.groupby(CELL, sort=False)
    }


def margins(utilities: Mapping[Cell, np.ndarray]) -> Iterator[tuple[Cell, float]]:
    """The exact test of every run against FedAvg's model, of FedAvg's against CoreFed's."""
    for cell, own in utilities.items():
        *study, name = cell
        other = (*study, "corefed" if name == "fedavg" else "fedavg")
        if other in utilities:
            yield cell, pair_margin(own, utilities[other])


def completed(text: str, found: Mapping[Cell, float]) -> str:
    """The file's text with the figure below `AFTER` of each of these cells that lacks it."""
    head, *lines = text.splitlines()
    columns = next(csv.reader([head]))
    rows = [dict(zip(columns, one, strict=True)) for one in csv.reader(lines)]
    known = {_cell(one) for one in rows if one["figure"] == FIGURE}
    made = [head]
    for line, row in zip(lines, rows, strict=True):
        made.append(line)
        cell = _cell(row)
        if row["figure"] == AFTER and cell in found and cell not in known:
            changed = row | {"figure": FIGURE, "value": repr(found[cell])}
            text = io.StringIO()
            csv.writer(text, lineterminator="").writerow(changed[column] for column in columns)
            made.append(text.getvalue())
    return "\n".join(made) + "\n"


def _cell(row: Mapping[str, str]) -> Cell:
    return tuple(row[one] for one in CELL)


def main(file: Path = RESULTS / "corefed.csv") -> None:
    """Add the rows that are missing, and say how many."""
    text = file.read_text(encoding="utf-8")
    found = dict(margins(recorded_utilities(pd.read_csv(file, dtype=str))))  # to the last digit
    added = completed(text, found)
    file.write_text(added, encoding="utf-8")
    print(f"Added {added.count(chr(10)) - text.count(chr(10))} rows to {file.name}")


if __name__ == "__main__":
    main()
