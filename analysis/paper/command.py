"""The command line of a paper's script."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from paper.claims import check_claims, in_words
from paper.experiments import Paper
from paper.results import RESULTS, record_plan, write_results
from paper.study import OnlyPlanned, Study
from paper.tables import print_markdown
from simfl.assembly.simulation import Options
from simfl.provenance.results import FolderStore


def main(paper: Paper, arguments: Sequence[str] | None = None) -> pd.DataFrame:
    """Show the exhibits that are asked for and check their claims; returns all verdicts.

    `<out>/<scale>` keeps the runs, the figures, and each exhibit's values and verdicts as CSV. Runs
    share facts there (what clients achieve alone, say), with `--reuse` trained models too. With
    `--record` the values go to `analysis/results` as well, from which the pages are made: those of
    a CPU, so that they are the same again to the bit.
    """
    began_s = time.monotonic()
    parser = _parser(paper)
    asked = parser.parse_args(arguments)
    if asked.record and asked.device != "cpu":
        parser.error(f"--record: found --device {asked.device}, accepted with it: cpu")
    scale = paper.scales[asked.scale]
    seeds = asked.seeds or scale.seeds
    if asked.from_seed >= seeds:
        parser.error(f"--from-seed: found {asked.from_seed}, accepted: below {seeds}, the --seeds")
    folder = asked.out / scale.name
    skipped: dict[str, str] = {}
    facts = FolderStore(folder / "facts", limit_bytes=0)
    verdicts = []
    for name in paper.exhibits if asked.exhibit == "all" else (asked.exhibit,):
        exhibit = paper.exhibits[name]
        study = Study(
            scale,
            folder,
            seeds,
            tuple(asked.data or scale.data),
            Options(
                data_root=asked.data_root,
                device=asked.device,
                workers=asked.workers,
                store=FolderStore(asked.reuse) if asked.reuse is not None else facts,
            ),
            skipped,
            60 * asked.limit_min,
            asked.plan,
            tuple(asked.only or ()),
            asked.from_seed,
            began_s,
            keep=partial(
                write_results,
                RESULTS / f"{paper.name}.csv",
                exhibit.part_of or name,
                scale.name,
                part=True,
            )
            if asked.record
            else None,
        )
        print(f"## {exhibit.title}")
        shown = f" from number {study.from_seed} on" if study.from_seed else ""
        left = study.seeds - study.from_seed
        print(f"{paper.title}; scale {scale.name}, {left} seed(s){shown}")
        reduced = f"Reduced: {scale.reduced}" if scale.reduced else "At the paper's size"
        print(f"{exhibit.size or reduced}\n", flush=True)
        with suppress(OnlyPlanned):
            verdicts.append(_shown(paper, name, study, record=asked.record))
        whole = not (study.only or study.from_seed or exhibit.part_of)
        whole &= study.seeds >= scale.seeds and study.shown <= set(study.takes_s)
        if asked.record and study.takes_s and whole:
            record_plan(RESULTS / "plan.csv", paper.name, name, scale.name, study.planned())
    return pd.concat(verdicts, ignore_index=True) if verdicts else pd.DataFrame()


def _shown(paper: Paper, name: str, study: Study, *, record: bool) -> pd.DataFrame:
    """Show an exhibit, keep its values; the verdicts on its claims, printed too."""
    exhibit = paper.exhibits[name]
    values = exhibit.show(study)
    study.folder.mkdir(parents=True, exist_ok=True)
    values.to_csv(study.folder / f"{name}.csv", index=False)
    whole = exhibit.part_of or name
    values = _of_whole_seeds(values, study) if exhibit.compares else values
    if record and not values.empty:
        again_now = _made_now(values, study)
        for part, again in ((values[~again_now], False), (values[again_now], True)):
            file = RESULTS / f"{paper.name}.csv"
            said = write_results(file, whole, study.scale.name, part, again=again)
            if said:
                print(said, "\n")
    checked = check_claims(paper.claims, whole, values)
    if not checked.empty:
        checked.to_csv(study.folder / f"{name}_claims.csv", index=False)
        print_markdown("verdict", in_words(checked))
    return checked


def _made_now(values: pd.DataFrame, study: Study) -> np.ndarray:
    """Which values are of runs made now; what was kept run by run has its commit already.

    A row that no run has the name of is made of all runs of its data set and seed.
    """
    seeds = {(data, seed) for data, _, seed in study.made}
    rows = zip(values["data"], values["name"], values["seed"], strict=True)
    return np.array(
        [
            row not in study.kept
            and (row in study.made if row in study.shown else (row[0], row[2]) in seeds)
            for row in rows
        ],
        dtype=bool,
    )


def _of_whole_seeds(values: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Without the seeds of which runs are missing, which are printed."""
    left = pd.MultiIndex.from_frame(values[["data", "seed"]]).isin(study.partial)
    if left.any():
        print("Not judged or recorded: figures compare all runs of a seed, and some are not there:")
        for data, seed in sorted({*zip(values["data"][left], values["seed"][left], strict=True)}):
            print(f"  {data}, seed {seed}")
        print()
    return values[~left]


def _parser(paper: Paper) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Tables and figures of {paper.title}.")
    add = parser.add_argument
    add("exhibit", choices=[*paper.exhibits, "all"], help="which table or figure")
    add("--scale", choices=list(paper.scales), default=next(iter(paper.scales)))
    add("--seeds", type=int, help="how many, counted from 0, instead of the scale's")
    add(
        "--from-seed",
        type=int,
        default=0,
        choices=range(100),
        metavar="NUMBER",
        help="the first of these that is run; --seeds 5 --from-seed 3 runs 3 and 4",
    )
    add("--data", nargs="+", metavar="NAME", help="data sets, instead of the scale's")
    add(
        "--only",
        nargs="+",
        metavar="NAME",
        help="these experiments, with what is named `NAME, ...`; no others",
    )
    add("--data-root", type=Path, help="folder of the data (else SIMFL_DATA)")
    add("--device", default="cpu", help="cpu, cuda, cuda:N or auto (default: %(default)s)")
    add("--out", type=Path, default=Path("runs") / paper.claims.stem, help="%(default)s")
    add("--reuse", type=Path, help="folder of results to share between runs")
    add("--limit-min", type=float, default=math.inf, help="after so many minutes no run begins")
    add("--plan", action="store_true", help="only say how many core-hours it will take")
    add("--record", action="store_true", help="keep the values in analysis/results")
    add("--workers", type=int, default=0, help="processes that train side by side")
    return parser
