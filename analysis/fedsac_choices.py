"""Which setting of its grid each method is compared with, FedSAC's beta as all others.

Section 5.1: "we select the best fairness achieved by each method". Fairness alone may choose a
setting that serves everybody badly, so that it is chosen twice:

    fairest      the setting with the best fairness
    above floor  the fairest among the settings whose best client is at most FLOOR below that of
                 the method's most accurate setting

Both go by the mean over the first `grid_seeds` seeds of the scale, with ten clients. Of a method
whose grid is not complete (a run of it is missing) nothing is chosen: it has no row. Where a scale
has one grid for all scenes (`Sizes.grid_on`), what is recorded of it in `analysis/results` counts:
whoever runs another scene, or later seeds elsewhere, does not run it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeVar

import numpy as np
import pandas as pd
from fedsac_experiments import GRIDS, SIZES, column, figures, grid

from paper import Experiment, Study, Trial, gather
from paper.results import RESULTS, read_results
from paper.study import OnlyPlanned, each_of
from paper.tables import COLUMNS, print_markdown
from simfl.runs.runfolder import LoadedRun

Found = TypeVar("Found")
Figures = Callable[[LoadedRun], Mapping[str, float]]

FLOOR = 0.02
"""How much accuracy of the best client (a share) a setting may lose against the method's best."""

SETTING, FAIREST, ABOVE_FLOOR = "setting", "fairest", "above floor"
CHOICES = {FAIREST: "", ABOVE_FLOOR: "_floor"}
"""What follows a method's name in the row of its fairest setting, and of that above the floor."""

FIGURES = {"fairness": "fairness", "reward_max": "best_client"}
CHOSEN = {"chosen_fairest": FAIREST, "chosen_above_floor": ABOVE_FLOOR}
"""The columns of a grid's table by the figures that they are recorded as."""


@dataclass(frozen=True)
class Tried:
    """A method's grid on one split: setting, fairness, accuracy (means), and which are chosen.

    `table` has a row per setting and the columns setting, fairness, best_client, fairest, above
    floor (the last two true in one row each).
    """

    method: str
    data: str
    table: pd.DataFrame

    def chosen(self, choice: str) -> str:
        """The setting that a choice came to."""
        return str(self.table.loc[self.table[choice], SETTING].iloc[0])


def decided(study: Study, data: str, scene: str) -> list[Tried]:
    """The grids that decide about a scene: its own, or those of the scene that stands for all.

    Of the latter what is recorded is not run again; what that is, is printed.
    """
    on = SIZES[study.scale.name].grid_on
    if on is None:
        return tried(study, data, scene)
    known = recorded(study, data, on)
    if known:
        named = ", ".join(one.method for one in known)
        print(f"{column(data, on)}: the grid is recorded of {named}\n", flush=True)
    left = [method for method in GRIDS if method not in {one.method for one in known}]
    return known + (tried(study, data, on, left) if left else [])


def recorded(study: Study, data: str, scene: str) -> list[Tried]:
    """What `as_values` has put into the results, of methods whose whole grid is there."""
    of_all = read_results(RESULTS / "fedsac.csv")
    where = of_all["exhibit"].eq("grid") & of_all["scale"].eq(study.scale.name)
    rows = of_all[where & of_all["data"].eq(column(data, scene))]
    by_name = rows.pivot_table(index="name", columns="figure", values="value", dropna=False)
    found = []
    for method, settings in grid(study, data, scene).items():
        names = [_named(method, setting) for setting in settings]
        if set(names) <= set(by_name.index):
            own = by_name.loc[names]
            table = pd.DataFrame(
                {
                    SETTING: list(settings),
                    **{of: own[figure].to_numpy() for figure, of in FIGURES.items()},
                    **{choice: own[figure].to_numpy() == 1 for figure, choice in CHOSEN.items()},
                }
            )
            found.append(Tried(method, column(data, scene), table))
    return found


def tried(
    study: Study, data: str, scene: str, methods: Sequence[str] = tuple(GRIDS)
) -> list[Tried]:
    """Every one of the methods whose grid is complete; the others are printed."""
    seeds = SIZES[study.scale.name].grid_seeds
    grids = {name: of for name, of in grid(study, data, scene).items() if name in methods}
    planned = [one for settings in grids.values() for one in settings.values()]
    values = gather(study.of_first(seeds).run(planned), figures)
    found = []
    for method, settings in grids.items():
        runs = values[values["name"].isin([one.name for one in settings.values()])]
        done = len(runs[["name", "seed"]].drop_duplicates())
        if done < seeds * len(settings):
            print(f"{column(data, scene)}: {done} of {seeds * len(settings)} runs of {method}'s")
            print("grid are there: no setting is chosen, the method has no row\n", flush=True)
            continue
        found.append(Tried(method, column(data, scene), choose(runs, settings)))
    return found


def choose(runs: pd.DataFrame, settings: Mapping[str, Experiment]) -> pd.DataFrame:
    """The table of `Tried`; an undefined fairness comes last, a diverged run's accuracy too."""
    of_runs = runs.set_index(["name", "seed", "figure"])["value"].unstack("figure")
    means = of_runs.reindex(columns=list(FIGURES)).groupby("name").agg(_mean_of_all)
    means = means.loc[[one.name for one in settings.values()]]
    fairness = means["fairness"].to_numpy(dtype=float)
    accuracy = means["reward_max"].to_numpy(dtype=float)
    score = np.nan_to_num(fairness, nan=-np.inf)
    served = np.nan_to_num(accuracy, nan=-np.inf)
    above = np.where(served >= served.max() - FLOOR, score, -np.inf)
    # Where no fairness above the floor is defined, the most accurate setting stands for it.
    floored = int(above.argmax()) if np.isfinite(above).any() else int(served.argmax())
    place = np.arange(len(settings))
    return pd.DataFrame(
        {
            SETTING: list(settings),
            "fairness": fairness,
            "best_client": accuracy,
            FAIREST: place == int(score.argmax()),
            ABOVE_FLOOR: place == floored,
        }
    )


def compared(
    study: Study,
    data: str,
    scene: str,
    clients: int = 10,
    beside: Sequence[Experiment] = (),
    kept: Figures | None = None,
) -> tuple[list[Trial], list[Tried]]:
    """`beside` and every method with both choices, named as rows of a table; the grids behind them.

    FedSAC's are `fedsac_grid` and `fedsac_floor`: `fedsac` is the paper's own beta. `kept`: what
    is recorded of every run when it ends (`Study.run`).
    """
    grids = grid(study, data, scene, clients)
    try:
        found = decided(study, data, scene)
    except OnlyPlanned:
        # What follows the grid takes about as long with any of its settings.
        first = [_row(method, FAIREST, next(iter(of.values()))) for method, of in grids.items()]
        study.run([*beside, *first])
        raise
    rows = [
        _row(one.method, choice, grids[one.method][one.chosen(choice)])
        for one in found
        for choice in CHOICES
    ]
    return run_once(study, [*beside, *rows], kept), found


def run_once(study: Study, rows: Sequence[Experiment], kept: Figures | None = None) -> list[Trial]:
    """The trials of every row; rows that are the same experiment share its runs."""
    first = {one.overrides: one for one in reversed(rows)}
    found = study.run([one for one in rows if one is first[one.overrides]], kept)
    return [
        replace(trial, name=row.name)
        for row in rows
        for trial in found
        if trial.name == first[row.overrides].name
    ]


def by_column(
    columns: Sequence[tuple[str, str]], show: Callable[[str, str], list[Found]]
) -> list[Found]:
    """What `show` finds in every column, in a plan too (`each_of`)."""
    return list(chain.from_iterable(each_of(partial(show, *column) for column in columns)))


def print_choices(found: list[Tried]) -> None:
    """Both choices of every method, by split, with the fairness and accuracy they go by."""
    if not found:
        return
    cells: dict[str, dict[str, str]] = {}
    for one in found:
        for choice in CHOICES:
            row = one.table[one.table[choice]].iloc[0]
            cells.setdefault(f"{one.method}, {choice}", {})[one.data] = (
                f"{row[SETTING]} ({row['fairness']:.2f}; {100 * row['best_client']:.2f} %)"
            )
    print(
        "Chosen settings (fairness; best client): the fairest, and the fairest of those whose best"
        f" client is at most {100 * FLOOR:g} points below that of the method's best setting:\n"
    )
    print_markdown("setting", pd.DataFrame.from_dict(cells, orient="index").fillna("-"))


def as_values(found: list[Tried]) -> pd.DataFrame:
    """Every setting's figures: fairness, reward_max, and 1 or 0 for each choice.

    They are means over the grid's seeds, under the number of the first.
    """
    rows = [
        (one.data, _named(one.method, row[SETTING]), 0, figure, float(row[of]))
        for one in found
        for _, row in one.table.iterrows()
        for figure, of in {**FIGURES, **CHOSEN}.items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(method: str, choice: str, one: Experiment) -> Experiment:
    """An experiment under the name of its row."""
    alone = method == "fedsac" and choice == FAIREST
    return replace(one, name=f"{method}_grid" if alone else method + CHOICES[choice])


def _named(method: str, setting: str) -> str:
    """A setting's row in the results."""
    return f"{method} {setting}".removesuffix(" -").replace(",", "")


def _mean_of_all(values: pd.Series) -> float:
    """The mean, NaN where one of them is."""
    return float(values.mean(skipna=False))
