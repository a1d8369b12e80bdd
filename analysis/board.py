"""The board: every algorithm of the house on one population, by what it learns and what that costs.

    python analysis/board.py --plan                         core-hours first: nothing is run
    python analysis/board.py --data-root DIR                every row of analysis/board.yaml
    python analysis/board.py --with mine.yaml --data-root DIR     one of your own beside them
    python analysis/board.py --scale smoke --only FedAvg SCAFFOLD     digits, no files needed

`--with` runs the rows of a file like analysis/board.yaml and takes the others from
analysis/results/board.csv; the other options are those of the papers' scripts. docs/board.md is
made of the recorded rows by `python analysis/pages.py`, its picture by `--draw`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from paper import Exhibit, Experiment, Paper, Scale, Study
from paper import main as papers_main
from paper.results import RESULTS, read_results
from paper.tables import markdown
from simfl.pictures.colours import COLOURS
from simfl.runs.runfolder import LoadedRun
from simfl.study.figure_text import in_cell, reached
from simfl.study.means import point_means
from simfl.study.pareto import study_front
from simfl.study.plan import with_own_files
from simfl.study.rows import row
from simfl.study.targets import TARGETS, column_name

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "analysis" / "board.yaml"
REFERENCE = ROOT / "scenarios" / "board" / "reference.yaml"
PICTURE = ROOT / "docs" / "board.png"
EXHIBIT = "board"

SPLIT = "validation_share: 0.1, partition: {name: dirichlet, alpha: 0.5}"
DATA = {
    "fashion_mnist": (),
    "mnist": ("data.name=mnist",),
    "digits": (f"data={{name: digits, {SPLIT}}}",),
    "synthetic": (f"data={{name: synthetic, features: 8, outputs: 4, {SPLIT}}}",),
}
GOALS = {"fashion_mnist": 0.7, "mnist": 0.85, "digits": 0.4, "synthetic": 0.4}
"""The test accuracy until which seconds, joules, grams and bytes are counted, by data set."""

SMOKE = (
    "population.clients=12",
    "population.groups=[{device: phone_high_sd865, link: wifi5_ac, share: 0.5},"
    " {device: rpi_4b, link: nb_iot, share: 0.5}]",
    "stop={time_s: 400, versions: 4}",
    "algorithm.contributions.rounds=2",
)
MEAN, WORST = "served_accuracy_mean", "served_accuracy_worst"
LEARNED = {
    "accuracy": "accuracy",
    MEAN: "at clients",
    WORST: "worst client",
    "equity.jain_index": "Jain of these",
    "collaborative_fairness.fairness": "collaborative",
    "participation.jain_index": "Jain of rounds",
}
MEASURED = (
    "accuracy",
    "equity.mean",
    "equity.worst",
    "equity.jain_index",
    "collaborative_fairness.fairness",
    "participation.jain_index",
)
"""What is recorded of a run besides its costs."""

PANELS = {
    "accuracy": ("test accuracy", "more is better"),
    WORST: ("accuracy at the worst-off client", "more is better"),
    "time": ("seconds to the target", "less is better"),
    "client_energy": ("clients' kJ to the target", "less is better"),
}
"""Of the picture: its title, and which way is the good one."""

COSTS = ("time", "client_energy", "bytes")
JOULES = "client_energy"


@dataclass(frozen=True)
class Rows:
    """What is on the board: keys of the reference scenario by name; why others are not there."""

    keys: Mapping[str, Mapping[str, Any]]
    left_out: Mapping[str, str]

    @classmethod
    def of(cls, file: Path) -> Rows:
        """Those of a file; parts of one's own are looked for beside it."""
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not isinstance(content.get("algorithms"), dict):
            sys.exit(f"{file}: found no section 'algorithms', accepted: algorithms: {{NAME: KEYS}}")
        keys = {
            name: with_own_files(own or {}, file.parent)
            for name, own in content["algorithms"].items()
        }
        return cls(keys, content.get("left out", {}))


def board(study: Study, keys: Mapping[str, Mapping[str, Any]], *, beside: bool) -> pd.DataFrame:
    """Run the rows; print them, and with `beside` those on record, too."""
    cells = [
        Experiment(data, name, REFERENCE, (*DATA[data], *reduced(study), *overrides(own)))
        for data in study.data
        for name, own in keys.items()
    ]
    values = study.measured(cells, figures)
    shown = values
    if beside:
        known = recorded(study.scale.name)
        shown = pd.concat([known[~known["name"].isin(keys)], values], ignore_index=True)
    for data in pd.unique(shown["data"]):
        for part in ("learned", "costs", "front"):
            print(block(shown, str(data), part), flush=True)
    if len(shown):
        study.folder.mkdir(parents=True, exist_ok=True)
        print(f"Figure: {draw(shown, study.folder / 'board.png')}\n")
    return values


def reduced(study: Study) -> tuple[str, ...]:
    """What the study's scale sets in every run."""
    return SMOKE if study.scale.name == "smoke" else ()


def overrides(keys: Mapping[str, Any]) -> tuple[str, ...]:
    """A row's keys as `--set` takes them."""
    return tuple(f"{key}={json.dumps(value)}" for key, value in keys.items())


def figures(run: LoadedRun) -> dict[str, float]:
    """A run's row of numbers; those of its target are not there where it was missed."""
    data = str(run.scenario["data"]["name"])
    targets = {
        column_name(one, "accuracy", GOALS[data]): (TARGETS[one][0], "accuracy", GOALS[data])
        for one in COSTS
    }
    its = row(run, targets)
    named = (*MEASURED, *targets, "versions", *(TARGETS[one][0] for one in COSTS))
    found = {name: float(its.get(name, np.nan)) for name in named}
    found["gco2_per_j"] = float(run.clients["carbon_gco2"].sum() / run.clients["energy_j"].sum())
    found["diverged"] = float(its["status"] == "diverged")
    return found


def recorded(scale: str) -> pd.DataFrame:
    """What analysis/results has of the board at a scale."""
    values = read_results(RESULTS / "board.csv")
    return values[values["scale"] == scale]


def wide(values: pd.DataFrame, data: str) -> pd.DataFrame:
    """A row per algorithm and seed, as of a study's table; of the seeds that all of them have.

    Joules are in kJ, bytes in MB. What clients are served has a name that says that it is a share.
    """
    own = values[values["data"] == data]
    rows = own["name"].nunique()
    own = own[own.groupby("seed")["name"].transform("nunique") == rows]
    table = own.pivot(index=["name", "seed"], columns="figure", values="value").reset_index()
    table["point"] = table["name"].map({name: at for at, name in enumerate(pd.unique(own["name"]))})
    table["status"] = np.where(table["diverged"] == 1, "diverged", "completed")
    for figure, unit in ((JOULES, 1e3), ("bytes", 1e6)):
        shown = [one for one in table.columns if one.startswith(figure)]
        table[shown] = table[shown] / unit
    return table.rename(columns={"equity.mean": MEAN, "equity.worst": WORST})


def in_grams(table: pd.DataFrame) -> pd.DataFrame:
    """The table with grams of CO2 in place of clients' joules; the grid's intensity is constant."""
    joules = [one for one in table.columns if one.startswith(JOULES)]
    return table.assign(**{name: 1e3 * table[name] * table["gco2_per_j"] for name in joules})


def table_of_rows() -> str:
    """The rows with what they set, and what is left out, why."""
    rows = Rows.of(ROWS)
    sets = {
        name: ", ".join(f"`{key}: {_in_yaml(value)}`" for key, value in own.items()) or "-"
        for name, own in rows.keys.items()
    }
    sets |= {name: f"not there: {why}" for name, why in rows.left_out.items()}
    return markdown("row", pd.DataFrame({"what it sets": sets}))


def _in_yaml(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False)
    return text.removesuffix("...\n").strip()


def block(values: pd.DataFrame, data: str, part: str) -> str:
    """One table of the page: a data set's `learned`, `costs` or `front`."""
    table = wide(values, data)
    return {"learned": learned, "costs": costs, "front": front}[part](table, data)


def learned(table: pd.DataFrame, data: str) -> str:
    """What is learned and for whom: mean and 95 % interval over the seeds, best first."""
    means = point_means(table, ["name"], list(LEARNED)).sort_values("accuracy", ascending=False)
    cells = [
        {words: in_cell(one, figure) for figure, words in LEARNED.items()}
        for one in means.to_dict("records")
    ]
    return markdown(data, pd.DataFrame(cells, index=list(means["name"])))


def costs(table: pd.DataFrame, data: str) -> str:
    """What is spent until the target; where some seeds missed it, its median or a bound of it."""
    names = {one: column_name(one, "accuracy", GOALS[data]) for one in COSTS}
    means = point_means(table, ["name"], list(names.values()))
    grams = point_means(in_grams(table), ["name"], [names[JOULES]])
    order = means[names["time"]].fillna(means[f"{names['time']}_median"]).sort_values().index
    cells = []
    for one, other in zip(
        means.loc[order].to_dict("records"), grams.loc[order].to_dict("records"), strict=True
    ):
        cells.append(
            {
                f"reached {GOALS[data]:g}": reached(one, names["time"]),
                "s": in_cell(one, names["time"]),
                "clients' kJ": in_cell(one, names[JOULES]),
                "g CO2": in_cell(other, names[JOULES]),
                "MB": in_cell(one, names["bytes"]),
            }
        )
    return markdown(data, pd.DataFrame(cells, index=list(means.loc[order, "name"])))


def objectives(data: str) -> dict[str, Any]:
    """By what rows are ranked: good for all, good for the worst off, soon, at few joules."""
    return {
        "accuracy": "max",
        WORST: "max",
        column_name("time", "accuracy", GOALS[data]): "min",
        column_name(JOULES, "accuracy", GOALS[data]): "min",
    }


def front(table: pd.DataFrame, data: str) -> str:
    """Who is on the front of means, and who is not ranked."""
    asked = objectives(data)
    best = study_front(table, ["name"], asked)
    means = point_means(table, ["name"], list(asked))
    time = column_name("time", "accuracy", GOALS[data])
    missed = [
        f"{one['name']} ({reached(one, time)})"
        for one in means[means[time].isna()].to_dict("records")
    ]
    on = ", ".join(best["name"]) or "nobody"
    out = f" Not ranked, as seeds missed {GOALS[data]:g}: {', '.join(missed)}." if missed else ""
    return f"On the front of {data}: {on}.{out}\n"


def draw(values: pd.DataFrame, path: Path) -> Path:
    """A row per algorithm, a panel per figure, a colour per data set; an arrow is a bound."""
    tables = {str(data): wide(values, str(data)) for data in pd.unique(values["data"])}
    first = next(iter(tables.values()))
    ranked = list(point_means(first, ["name"], ["accuracy"]).sort_values("accuracy")["name"])
    others = [one for one in pd.unique(values["name"]) if one not in ranked]
    place = {name: at for at, name in enumerate([*others, *ranked])}
    figure = Figure(figsize=(13, 1.6 + 0.27 * len(place)), layout="constrained")
    axes = figure.subplots(1, len(PANELS), sharey=True, squeeze=False)[0]
    for at, (data, table) in enumerate(tables.items()):
        on = set(study_front(table, ["name"], objectives(data))["name"])
        lift = 0.18 * (at - (len(tables) - 1) / 2)
        for axis, panel in zip(axes, PANELS, strict=True):
            name = column_name(panel, "accuracy", GOALS[data]) if panel in COSTS else panel
            for one in point_means(table, ["name"], [name]).to_dict("records"):
                y = place[one["name"]] - lift
                _dot(axis, one, name, y, COLOURS[at], filled=one["name"] in on)
        axes[0].plot([], [], "o", color=COLOURS[at], label=f"{data} (target {GOALS[data]:g})")
    for axis, (title, way) in zip(axes, PANELS.values(), strict=True):
        axis.set(xlabel=way, ylim=(-0.6, len(place) - 0.4))
        axis.set_title(title, fontsize="medium")
        axis.grid(alpha=0.3)
    for axis in axes[2:]:
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.xaxis.set_minor_formatter(NullFormatter())
    axes[0].set_yticks(list(place.values()), list(place))
    marks = {"on the Pareto front": "o", "not on it": "o", "seeds missed it: at least so much": ">"}
    for (words, mark), fill in zip(marks.items(), ("black", "white", "black"), strict=True):
        axes[0].plot([], [], mark, color="black", markerfacecolor=fill, label=words)
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=5, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return path


def _dot(
    axis: Axes, one: Mapping[Any, Any], name: str, y: float, colour: str, *, filled: bool
) -> None:
    """A mean with its interval, or what is known of a target that was missed."""
    mean, above = one[name], one[f"{name}_above"]
    if np.isnan(mean):
        mean = one[f"{name}_median"]
    if not np.isnan(mean):
        low, high = one[f"{name}_low"], one[f"{name}_high"]
        axis.plot([low, high], [y, y], color=colour, linewidth=1.2, alpha=0.6)
        fill = colour if filled else "white"
        axis.plot(mean, y, "o", markersize=5, color=colour, markerfacecolor=fill)
    elif not np.isnan(above):
        axis.plot(above, y, ">", markersize=4, color=colour, alpha=0.5)


SCALES = {
    "quick": Scale("quick", 3, ("fashion_mnist", "mnist"), "8000 images, an hour", estimate=True),
    "smoke": Scale("smoke", 1, ("digits", "synthetic"), "twelve clients, four versions"),
}


def page(rows: Rows, *, beside: bool) -> Paper:
    """The board as the papers' frame runs it."""
    show = partial(board, keys=rows.keys, beside=beside)
    exhibit = Exhibit("The board", show)
    return Paper(
        "The board", ROOT / "analysis" / "claims" / "board.yaml", SCALES, {EXHIBIT: exhibit}
    )


PAPER = page(Rows.of(ROWS), beside=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the board, or rows of one's own beside it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--with", dest="own", type=Path, help="a file with rows of your own")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these rows")
    parser.add_argument("--draw", action="store_true", help="only draw docs/board.png")
    asked, rest = parser.parse_known_args(arguments)
    if asked.draw:
        print(draw(recorded("quick"), PICTURE))
        return
    house, own = Rows.of(ROWS), Rows.of(asked.own) if asked.own else None
    keys = {**house.keys, **(own.keys if own else {})}
    wanted = [*(asked.only or ()), *(own.keys if own else ())] or list(keys)
    unknown = [one for one in wanted if one not in keys]
    if unknown:
        sys.exit(f"--only: found {', '.join(unknown)}; accepted: {', '.join(keys)}")
    rows = Rows({name: keys[name] for name in wanted}, {})
    papers_main(page(rows, beside=len(wanted) < len(keys)), [EXHIBIT, *rest])


if __name__ == "__main__":
    main()
