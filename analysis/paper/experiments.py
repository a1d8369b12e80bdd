"""What a paper's script declares: experiments, scales, exhibits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from simfl.runs.runfolder import LoadedRun, load_run

if TYPE_CHECKING:
    from paper.study import Study


@dataclass(frozen=True)
class Experiment:
    """A row of a table or a line of a figure: a scenario file and what is changed in it.

    `data` and `name` say which column and row; `overrides` are KEY=VALUE texts as `--set` takes
    them. It is run once per seed.
    """

    data: str
    name: str
    scenario: Path
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trial:
    """One finished run of an experiment. It may have diverged: its manifest's status says so."""

    data: str
    name: str
    seed: int
    folder: Path

    @property
    def run(self) -> LoadedRun:
        """Read anew each time, so that the events of many runs are not in memory at once."""
        return load_run(self.folder)


@dataclass(frozen=True)
class Scale:
    """How large the experiments are.

    `data` are the data sets that the exhibits go through. `reduced` says for the head of every
    table what is smaller than in the paper (empty: nothing). With `estimate`, the wall time is
    estimated by short probes and printed before anything runs.
    """

    name: str
    seeds: int
    data: tuple[str, ...]
    reduced: str = ""
    estimate: bool = False


@dataclass(frozen=True)
class Exhibit:
    """A table or figure: `show` runs what it needs, prints and draws it, and returns its values.

    The values have the columns data, name, seed, figure, value; `figure` is what was measured.
    `part_of`: the exhibit that this is a part of: its values are recorded there, and judged by its
    claims (None: it is whole).
    `borrows` picks those of all the paper's rows that show this exhibit, too.
    `published` gives the paper's cells of a figure by (data, name), as the paper prints them.
    `size` says for the head of its tables how large it is, where that is not the scale's `reduced`.
    `compares`: its figures of a run are about the other runs of the seed, too, so that nothing is
    recorded of a seed of which runs are missing.
    `means_over`: by scale, over how many seeds each of its values is the mean already (1: none).
    """

    title: str
    show: Callable[[Study], pd.DataFrame]
    part_of: str | None = None
    borrows: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    published: Callable[[str], Mapping[tuple[str, str], str]] | None = None
    size: str = ""
    compares: bool = False
    means_over: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Paper:
    """A paper: the file of its claims, the scales by name, the exhibits by their command."""

    title: str
    claims: Path
    scales: Mapping[str, Scale]
    exhibits: Mapping[str, Exhibit]

    @property
    def name(self) -> str:
        """What its files are called."""
        return self.claims.stem
