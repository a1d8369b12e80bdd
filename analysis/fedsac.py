"""FedSAC (arXiv 2405.18291): its tables and figures, ours beside the paper's.

    python analysis/fedsac.py table1 --scale quick --data-root DATA
    python analysis/fedsac.py table1 --scale paper --data "fashion_mnist POW" --data-root DATA
    python analysis/fedsac.py all --scale smoke

What the paper leaves open, and what came out, is in docs/papers/fedsac.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pandas as pd
from fedsac_choices import Tried, as_values, by_column, compared, print_choices, tried
from fedsac_experiments import (
    ABLATIONS,
    READINGS,
    SCALES,
    SCENES,
    SIZES,
    TABLE_7_BETA,
    TABLE_9,
    fedavg_grid,
    fedsac,
    figures,
    published,
    unbalanced,
)
from fedsac_pictures import draw_clients, draw_courses, draw_lorenz, draw_plane
from fedsac_units import allotment, concentration

from paper import (
    Exhibit,
    Paper,
    Study,
    Trial,
    gather,
    main,
    print_figures,
    print_table,
    save_figure,
)
from paper.study import each_of
from paper.tables import COLUMNS, print_markdown
from simfl.algorithms.positions import UnitPositions, message_bytes
from simfl.runs.runfolder import LoadedRun

MODEL_BYTES = {
    "fashion_mnist": 796_840,
    "cifar10": 2_627_240,
    "cifar10_subset": 2_627_240,
    "svhn": 2_627_240,
    "digits": 4 * (64 * 40 + 40 + 40 * 40 + 40 + 40 * 10 + 10),
}
"""4 bytes for each of d h + h + h h + h + 10 h + 10 parameters, h = 200 (digits: 40)."""

ENCODINGS: tuple[UnitPositions, ...] = ("none", "units", "dense", "bitmap", "index", "smallest")


def _compared(study: Study, clients: int = 10) -> pd.DataFrame:
    """Every method in every column, with both chosen settings; FedSAC; standalone training.

    With more than ten clients the settings are those that were chosen with ten.
    """
    found: list[Tried] = []

    def of_column(data: str, scene: str) -> list[Trial]:
        beside = [fedsac(study, data, scene, clients=clients)]
        if clients == 10 and data == "cifar10" and scene in TABLE_7_BETA:
            beta = float(TABLE_7_BETA[scene])
            beside.append(fedsac(study, data, scene, "fedsac_table_7_beta", beta=beta))
        trials, grids = compared(study, data, scene, clients, beside, figures)
        found.extend(grids)
        return trials

    # A split is finished with all seeds before the next begins: what is cut off is whole.
    trials = by_column(_columns(study, clients), of_column)
    print_choices(found)
    values = gather(trials, figures)
    alone = values[(values["figure"] == "contribution_max") & (values["name"] == "fedsac")]
    alone = alone.assign(figure="reward_max", name="standalone")
    return pd.concat([alone, values], ignore_index=True)


def _columns(study: Study, clients: int = 10) -> list[tuple[str, str]]:
    """Data sets and their splits; `--data "fashion_mnist POW"` is that split alone."""
    sizes = SIZES[study.scale.name]
    scenes = sizes.scenes if clients == 10 else sizes.clients[clients]
    asked = [one.partition(" ") for one in study.data]
    return [
        (data, scene)
        for data, _, only in asked
        if clients <= 20 or data.startswith("cifar10")
        for scene in scenes
        if scene == (only or scene)
    ]


def grid(study: Study) -> pd.DataFrame:
    """Every setting that was tried, and both choices."""
    on = SIZES[study.scale.name].grid_on
    columns = dict.fromkeys((data, on or scene) for data, scene in _columns(study))
    found = by_column(list(columns), partial(tried, study))
    print_choices(found)
    values = as_values(found)
    print_table(values, "fairness", digits=2)
    print_table(values, "reward_max", scale=100, digits=2)
    return values


def _fairness(values: pd.DataFrame, name: str | None = None) -> pd.DataFrame:
    """Fairness beside that of the paper's table, and who has none; cells say of which seeds."""
    print_table(values, "fairness", published(name) if name else None, digits=2)
    scored = values[(values["figure"] == "reward_max") & (values["name"] != "standalone")]
    for (data, row), _ in scored.groupby(["data", "name"], sort=False):
        of_row = values[(values["data"] == data) & (values["name"] == row)]
        if not of_row["figure"].eq("fairness").any():
            print(f"{data}, {row}: the correlation is undefined with every seed\n")
    return values


def _best_client(values: pd.DataFrame, name: str) -> pd.DataFrame:
    """The best client's accuracy beside that of the paper's table."""
    print_table(values, "reward_max", published(name), scale=100, digits=2)
    return values


def table1(study: Study) -> pd.DataFrame:
    """Fairness of every method."""
    values = _fairness(_compared(study), "table1")
    for figure in ("bounded_share", "ordered_pairs"):
        print_table(values[values["name"].str.startswith("fedsac")], figure, digits=2)
    return values


def table2(study: Study) -> pd.DataFrame:
    """Accuracy of the best client."""
    values = _best_client(_compared(study), "table2")
    print_table(values, "reward_min", scale=100, digits=2)
    return values


def _ablated(study: Study) -> pd.DataFrame:
    planned = [
        fedsac(study, data, scene, name, **keys)
        for data, scene in _columns(study)
        for name, keys in ABLATIONS.items()
    ]
    return study.measured(planned, figures)


def table3(study: Study) -> pd.DataFrame:
    """Fairness without each module."""
    return _fairness(_ablated(study), "table3")


def table4(study: Study) -> pd.DataFrame:
    """Accuracy of the best client without each module."""
    return _best_client(_ablated(study), "table4")


def _more_clients(study: Study) -> pd.DataFrame:
    """More clients, with the settings that were best with ten."""
    counts = SIZES[study.scale.name].clients
    every = each_of(partial(_compared, study, clients) for clients in counts)
    return pd.concat(every, ignore_index=True)


def table5(study: Study) -> pd.DataFrame:
    """Fairness with 20, 40 and 60 clients."""
    return _fairness(_more_clients(study), "table5")


def table6(study: Study) -> pd.DataFrame:
    """Accuracy of the best of 20, 40 and 60 clients."""
    return _best_client(_more_clients(study), "table6")


def table7(study: Study) -> pd.DataFrame:
    """Best and worst client by beta."""
    planned = [
        fedsac(study, data, scene, f"beta {beta}", beta=float(beta))
        for data, scene in _columns(study)
        for beta in (2, 5, 10, 20)
    ]
    values = study.measured(planned, figures)
    _best_client(values, "table7")
    print_table(values, "reward_min", scale=100, digits=2)
    _fairness(values)
    return values


def table8(study: Study) -> pd.DataFrame:
    """Megabytes per round, in one direction, and what the paper does not have: time and energy."""
    values = _compared(study)
    print_table(values, "mb_per_round", published("table8"), digits=2)
    print_table(values, "time_s", digits=1)
    print_table(values, "client_energy_j", digits=1)
    trials = study.run([fedsac(study, data, scene) for data, scene in _columns(study)])
    encoded = pd.DataFrame([row for trial in trials for row in _encoded(trial)], columns=COLUMNS)
    print("FedSAC's messages, by how they tell which units a submodel has:\n")
    print_table(encoded, "mb_per_round", digits=2)
    moved = values[values["figure"] == "mb_per_round"]
    models = moved["data"].map(lambda name: 10 * MODEL_BYTES[name.split(" ", 1)[0]] / 1e6)
    shares = moved.assign(figure="share_of_models", value=(moved["value"] / models).round(12))
    return pd.concat([values, encoded, shares], ignore_index=True)


def _encoded(trial: Trial) -> list[tuple[str, str, int, str, float]]:
    """Megabytes per round of FedSAC's submodels under every encoding."""
    kept = list(trial.run.details("report")["kept_parameters"])
    data = trial.data.split(" ", 1)[0]
    whole, units = MODEL_BYTES[data] // 4, 80 if data == "digits" else 400
    rows = []
    for positions in ENCODINGS:
        sizes = [[message_bytes(whole, int(one), positions, units) for one in row] for row in kept]
        mb = sum(map(sum, sizes)) / len(sizes) / 1e6
        rows.append((trial.data, f"fedsac, {positions}", trial.seed, "mb_per_round", mb))
    return rows


def table9(study: Study) -> pd.DataFrame:
    """The settings, and FedAvg over their grid (Appendix F), scored on the test set."""
    first: dict[str, str] = {}
    for data, scene in _columns(study):
        first.setdefault(data, scene)
    for data in first:
        settings = pd.DataFrame(
            list(TABLE_9[data]), index=["eta", "E", "beta"], columns=list(SCENES)
        )
        print_markdown(f"{data}, Table 9", settings.astype(str))
    planned = [one for data, scene in first.items() for one in fedavg_grid(study, data, scene)]
    values = study.measured(planned, figures)
    print_table(values, "reward_max", scale=100, digits=2)
    return values


def figure3(study: Study) -> pd.DataFrame:
    """Fairness against the best client's accuracy, once per choice of settings."""
    values = _compared(study).dropna(subset="value")
    above_floor = values["name"].str.endswith("_floor")
    for name, rows in (("figure3", values[~above_floor]), ("figure3_floor", values[above_floor])):
        if not rows.empty:
            save_figure(draw_plane(rows), study.folder, name)
    return values


def _clients_of(scenes: tuple[str, ...], name: str) -> Callable[[Study], pd.DataFrame]:
    """Contributions and rewards client by client, of the first seed."""

    def show(study: Study) -> pd.DataFrame:
        first = study.of_first(1)

        def of_column(data: str, scene: str) -> list[Trial]:
            return compared(first, data, scene, beside=[fedsac(first, data, scene)])[0]

        columns = [(data, scene) for data, scene in _columns(study) if scene in scenes]
        trials = by_column(columns, of_column)
        values = gather(trials, _by_client)
        shown = values[~values["name"].str.endswith("_floor")]
        if not shown.empty:
            save_figure(draw_clients(shown), study.folder, name)
        return values

    return show


def _by_client(run: LoadedRun) -> Mapping[str, float]:
    """Contributions and rewards, and two figures of them.

    How far the best client's reward is above the worst one's, and the share of clients whose reward
    exceeds their contribution, what they reach alone.
    """
    rewards, alone = run.clients["reward_accuracy"], run.clients["contribution"]
    return {
        **{f"contribution of client {i}": one for i, one in enumerate(alone)},
        **_rewards(run),
        "reward_range": float(rewards.max() - rewards.min()),
        "above_contribution_share": float((rewards > alone).mean()),
    }


def _rewards(run: LoadedRun) -> Mapping[str, float]:
    return {f"reward of client {i}": one for i, one in enumerate(run.clients["reward_accuracy"])}


def figure5(study: Study) -> pd.DataFrame:
    """Accuracy of every client's submodel during training."""
    planned = [
        fedsac(study, data, scene) for data, scene in _columns(study) if scene in ("POW", "CLA")
    ]
    trials = study.of_first(1).run(planned)
    draw_courses(trials, study.folder)
    return gather(trials, _rewards)


def readings(study: Study) -> pd.DataFrame:
    """When importance is computed, which rewards count, how DIR deals."""

    def of_column(data: str, scene: str) -> list[Trial]:
        planned = [fedsac(study, data, scene, name, **keys) for name, keys in READINGS.items()]
        if scene.startswith("DIR"):
            planned.append(unbalanced(study, data, scene))
        return study.run(planned, figures)

    trials = by_column(_columns(study), of_column)
    values = _fairness(gather(trials, figures), "table1")
    print_table(values, "reward_max", published("table2"), scale=100, digits=2)
    print_table(values, "mb_per_round", published("table8"), digits=2)
    return values


def _as_published(study: Study) -> list[Trial]:
    """FedSAC's runs with Table 9's settings, which Tables 1 and 2 have too."""
    planned = [fedsac(study, data, scene) for data, scene in _columns(study)]
    return [trial for trial in study.run(planned) if trial.run.manifest["status"] != "diverged"]


def assumption5(study: Study) -> pd.DataFrame:
    """Theorem 2 assumes that every unit is assigned equally often."""
    values = gather(_as_published(study), allotment)
    print_figures(values)
    return values


def lorenz(study: Study) -> pd.DataFrame:
    """How importance is distributed over hidden units, by the last round's."""
    trials = _as_published(study)
    values = gather(trials, concentration)
    print_figures(values)
    draw_lorenz(trials, study.folder)
    return values


def _beside(**tables: str) -> Callable[[str], Mapping[tuple[str, str], str]]:
    """Per figure, the paper's table that has its cells."""
    return lambda figure: published(tables[figure]) if figure in tables else {}


PAPER = Paper(
    "FedSAC (arXiv 2405.18291)",
    Path(__file__).parent / "claims" / "fedsac.yaml",
    SCALES,
    {
        "grid": Exhibit(
            "The settings that were tried, and the choice of one per method",
            grid,
            means_over={name: of.grid_seeds for name, of in SIZES.items()},
        ),
        "table1": Exhibit(
            "Table 1: fairness",
            table1,
            published=_beside(fairness="table1"),
        ),
        "table2": Exhibit(
            "Table 2: accuracy of the best client (%)",
            table2,
            published=_beside(reward_max="table2"),
        ),
        "table3": Exhibit(
            "Table 3: ablation, fairness",
            table3,
            published=_beside(fairness="table3"),
        ),
        "table4": Exhibit(
            "Table 4: ablation, accuracy of the best client (%)",
            table4,
            published=_beside(reward_max="table4"),
        ),
        "table5": Exhibit(
            "Table 5: fairness with more clients",
            table5,
            published=_beside(fairness="table5"),
        ),
        "table6": Exhibit(
            "Table 6: accuracy of the best client with more clients (%)",
            table6,
            published=_beside(reward_max="table6"),
        ),
        "table7": Exhibit(
            "Table 7: accuracy of the best (worst) client by beta (%)",
            table7,
            published=_beside(reward_max="table7"),
        ),
        "table8": Exhibit(
            "Table 8: MB per round", table8, published=_beside(mb_per_round="table8")
        ),
        "table9": Exhibit("Table 9 and Appendix F: settings, FedAvg's grid", table9),
        "figure3": Exhibit("Figure 3: fairness and accuracy", figure3),
        "figure4": Exhibit(
            "Figure 4: rewards by client, DIR(1.0)", _clients_of(SCENES[2:3], "figure4")
        ),
        "figure5": Exhibit("Figure 5: clients' accuracy during training", figure5),
        "figure6": Exhibit(
            "Figure 6: rewards by client", _clients_of(("POW", "CLA", "DIR(2.0)"), "figure6")
        ),
        "readings": Exhibit(
            "Readings of what the paper leaves open",
            readings,
            published=_beside(fairness="table1", reward_max="table2", mb_per_round="table8"),
        ),
        "assumption5": Exhibit("Assumption 5: how often units are assigned", assumption5),
        "lorenz": Exhibit("Lorenz curve of units' importance", lorenz),
    },
)

if __name__ == "__main__":
    main(PAPER)
