"""CoreFed's tables (arXiv 2211.02091), ours beside the paper's, and what they leave out.

    python analysis/corefed.py table1 --scale quick --data-root DIR
    python analysis/corefed.py table2|table3|table4|offsets|long|splits|price
    python analysis/corefed.py core|convex|adult_row|all

docs/papers/corefed.md says what is compared, and what came out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pandas as pd
from corefed_core import adult_row, convex, core
from corefed_experiments import (
    COLOUR_IMAGES,
    CORE,
    DEEP,
    MATCHED,
    NOISE,
    OFFSETS,
    PUBLISHED,
    RAISED,
    SCALES,
    experiment,
    step_lengths,
)
from corefed_studies import long, offsets, price, splits

from paper import Exhibit, Paper, Study, main, print_figures
from paper.agents import Served, fairness, serve
from paper.tables import COLUMNS, mean_and_deviation, print_markdown

ROOT = Path(__file__).parents[1]
RATE = "server_learning_rate"
MATCHED_FIGURES = {
    "ratio": "matched_ratio",
    "ratio_low": "matched_ratio_low",
    "ratio_high": "matched_ratio_high",
    "worst_off_gain": "matched_gain",
}


def compared(
    study: Study,
    table: str,
    offsets: Mapping[str, float],
    names: Sequence[str],
    extra: Sequence[str] = (),
    *,
    matched: bool = False,
) -> pd.DataFrame:
    """Run `names` on the data sets of `offsets`, print the table; its values.

    With `matched`, beside them FedAvg with steps as long as CoreFed's.
    """
    there = {data: offsets[data] for data in study.data if data in offsets}
    planned = [experiment(study, data, n, M, extra) for data, M in there.items() for n in names]
    if matched:
        for data, rate in step_lengths(study, there, extra).items():
            planned.append(experiment(study, data, MATCHED, there[data], extra, rate=rate))
    served = serve(study.run(planned), study.options)
    values = _with_matched(served, offsets) if matched else fairness(served, offsets)
    _print_beside(table, values)
    rest: tuple[str, ...] = ("worst", "variance", "jain_index", "test_mean", "worst_off_gain")
    rest += ("blocking_margin", "blocking_margin_fedavg", "least_margin_possible")
    rest += ("server_rate", *MATCHED_FIGURES.values())
    print_figures(values[values["figure"].isin(rest)])
    return values


def _with_matched(served: Sequence[Served], offsets: Mapping[str, float]) -> pd.DataFrame:
    """`fairness` of all runs, and what they are beside FedAvg with steps as long as CoreFed's.

    matched_ratio = sum_i u_i(MATCHED) / u_i with its interval, matched_gain of the agent that is
    worst off under MATCHED; server_rate is its server learning rate. The blocking test of the other
    rows is of the same alternatives as without it.
    """
    alone = [one for one in served if one.trial.name != MATCHED]
    whole = fairness(served, offsets)
    beside = fairness(served, offsets, baseline=MATCHED)
    beside["figure"] = beside["figure"].replace(MATCHED_FIGURES)
    rates = [
        (one.data, one.name, one.seed, "server_rate", float(one.run.scenario["algorithm"][RATE]))
        for one in (each.trial for each in served)
        if one.name == MATCHED
    ]
    return pd.concat(
        [
            fairness(alone, offsets),
            whole[whole["name"] == MATCHED],
            beside[beside["figure"].isin(MATCHED_FIGURES.values())],
            pd.DataFrame(rates, columns=COLUMNS),
        ],
        ignore_index=True,
    ).astype({"value": float})  # which an empty table has forgotten


def _print_beside(table: str, values: pd.DataFrame) -> None:
    """Agents' utilities, U(Average), U(Multi) and the sum of ratios, the paper's row below ours."""
    for data, own in values.groupby("data", sort=False):
        agents = [one for one in pd.unique(own["figure"]) if one.startswith("agent_")]
        columns = [*agents, "mean", "product", "ratio"]
        rows: dict[str, list[str]] = {}
        for name, of_name in own.groupby("name", sort=False):
            cells = {figure: part["value"] for figure, part in of_name.groupby("figure")}
            rows[str(name)] = [
                mean_and_deviation(cells[one].to_numpy(), 3) if one in cells else "-"
                for one in columns
            ]
            if "ratio" in cells:
                low, high = (cells[f"ratio_{end}"].mean() for end in ("low", "high"))
                rows[str(name)][-1] += f" [{low:.3f} to {high:.3f}]"
            printed = published(table, str(data).removesuffix("_subset"), str(name))
            if printed:
                rows[f"{name}, paper"] = [printed.get(one, "-") for one in columns]
        print_markdown(str(data), pd.DataFrame.from_dict(rows, orient="index", columns=columns))
    print("Sum of ratios with the mean ends of the 90 % bootstrap intervals over local samples\n")


def published(table: str, data: str, name: str) -> dict[str, str]:
    """A row of the paper's tables by figure, as printed there; empty where it has none."""
    rows = PUBLISHED.query("table == @table and data == @data and name == @name")
    return dict(zip(rows["figure"], rows["value"], strict=True))


def cells(table: str, figure: str) -> dict[tuple[str, str], str]:
    """The paper's cells of a figure by (data, name); CIFAR-10's stand beside its subset's, too."""
    rows = PUBLISHED.query("table == @table and figure == @figure")
    found = dict(zip(zip(rows["data"], rows["name"], strict=True), rows["value"], strict=True))
    return found | {
        (f"{data}_subset", name): value
        for (data, name), value in found.items()
        if data == "cifar10"
    }


def table1(study: Study) -> pd.DataFrame:
    """Three agents on every data set, M as in the paper."""
    return compared(study, "table1", OFFSETS, CORE, matched=True)


def table2(study: Study) -> pd.DataFrame:
    """VGG-11 on colour images."""
    deep = DEEP[study.scale.name]
    return compared(study, "table2", dict.fromkeys(COLOUR_IMAGES, RAISED), CORE, deep)


def table3(study: Study) -> pd.DataFrame:
    """Agents with noise of variance 0, 0.5 and 1 on their images; egalitarian rules beside."""
    offsets = dict.fromkeys(COLOUR_IMAGES, RAISED)
    return compared(study, "table3", offsets, (*CORE, "afl", "qffl"), [NOISE])


def table4(study: Study) -> pd.DataFrame:
    """Ten agents."""
    offsets = dict.fromkeys(COLOUR_IMAGES, RAISED)
    return compared(study, "table4", offsets, CORE, ["population.clients=10"])


EXHIBITS = {
    "table1": Exhibit(
        "Table 1: utilities under FedAvg and CoreFed", table1, published=partial(cells, "table1")
    ),
    "table2": Exhibit(
        "Table 2: VGG-11 at a quarter of its width, M = 4",
        table2,
        published=partial(cells, "table2"),
        compares=True,
    ),
    "table3": Exhibit(
        "Table 3: noise of variance 0, 0.5, 1 on the agents' images, M = 4",
        table3,
        published=partial(cells, "table3"),
        compares=True,
    ),
    "table4": Exhibit(
        "Table 4: ten agents, M = 4", table4, published=partial(cells, "table4"), compares=True
    ),
    "offsets": Exhibit("Table 3 with M = 3.5, 4 and 5", offsets, compares=True),
    "long": Exhibit(
        "Table 1 for 200 versions, and FedAvg with steps as long as CoreFed's", long, compares=True
    ),
    "splits": Exhibit("Adult by the split's alpha and the inputs", splits, compares=True),
    "core": Exhibit(
        "Core stability: certificates, and models that coalitions train", core, compares=True
    ),
    "convex": Exhibit(
        "Theorems 2 and 3 at the optimum, where losses are convex",
        convex,
        size="no experiment of the paper: made data, and Adult as in Table 1",
    ),
    "adult_row": Exhibit(
        "The paper's Table 1 against a model that learnt nothing",
        adult_row,
        size="nothing is run: arithmetic on what the paper prints",
    ),
    "price": Exhibit("The price of core stability on unlike devices", price, compares=True),
}
PAPER = Paper(
    "CoreFed (arXiv 2211.02091)", ROOT / "analysis" / "claims" / "corefed.yaml", SCALES, EXHIBITS
)


if __name__ == "__main__":
    main(PAPER)
