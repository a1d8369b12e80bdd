"""The command line of a paper's script."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from paper.claims import check_claims
from paper.experiments import Paper
from paper.study import Study
from paper.tables import print_markdown
from simfl.assembly.simulation import Options
from simfl.provenance.results import FolderStore


def main(paper: Paper, arguments: Sequence[str] | None = None) -> pd.DataFrame:
    """Show the exhibits that are asked for and check their claims; returns all verdicts.

    `<out>/<scale>` keeps the runs, the figures, and each exhibit's values and verdicts as CSV. Runs
    share facts there (what clients achieve alone, say), with `--reuse` trained models too.
    """
    asked = _parser(paper).parse_args(arguments)
    scale = paper.scales[asked.scale]
    folder = asked.out / scale.name
    facts = FolderStore(folder / "facts", limit_bytes=0)
    study = Study(
        scale,
        folder,
        asked.seeds or scale.seeds,
        tuple(asked.data or scale.data),
        Options(
            data_root=asked.data_root,
            workers=asked.workers,
            store=FolderStore(asked.reuse) if asked.reuse is not None else facts,
        ),
    )
    verdicts = []
    for name in paper.exhibits if asked.exhibit == "all" else (asked.exhibit,):
        exhibit = paper.exhibits[name]
        print(f"## {exhibit.title}")
        print(f"{paper.title}; scale {scale.name}, {study.seeds} seed(s)")
        print(
            f"Reduced: {scale.reduced}\n" if scale.reduced else "At the paper's size\n", flush=True
        )
        values = exhibit.show(study)
        study.folder.mkdir(parents=True, exist_ok=True)
        values.to_csv(study.folder / f"{name}.csv", index=False)
        checked = check_claims(paper.claims, exhibit.part_of or name, values)
        if not checked.empty:
            checked.to_csv(study.folder / f"{name}_claims.csv", index=False)
            _print_verdicts(checked)
            verdicts.append(checked)
    return pd.concat(verdicts, ignore_index=True) if verdicts else pd.DataFrame()


def _parser(paper: Paper) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Tables and figures of {paper.title}.")
    add = parser.add_argument
    add("exhibit", choices=[*paper.exhibits, "all"], help="which table or figure")
    add("--scale", choices=list(paper.scales), default=next(iter(paper.scales)))
    add("--seeds", type=int, help="how many, instead of the scale's")
    add("--data", nargs="+", metavar="NAME", help="data sets, instead of the scale's")
    add("--data-root", type=Path, help="folder of the data (else SIMFL_DATA)")
    add("--out", type=Path, default=Path("runs") / paper.claims.stem, help="%(default)s")
    add("--reuse", type=Path, help="folder of results to share between runs")
    add("--workers", type=int, default=0, help="processes that train side by side")
    return parser


def _print_verdicts(checked: pd.DataFrame) -> None:
    def number(value: float) -> str:
        return f"{value:.4g}"

    table = pd.DataFrame(
        {
            "claim": checked["claim"] + ", " + checked["data"],
            "value": checked["value"].map(number),
            "interval": [
                "-" if np.isnan(low) else f"{number(low)} to {number(high)}"
                for low, high in zip(checked["low"], checked["high"], strict=True)
            ],
            "claimed": checked["margin"],
            "seeds": checked["seeds"],
            "statement": checked["statement"],
        }
    )
    table.index = pd.Index(checked["verdict"])
    print_markdown("verdict", table)
