"""FedSAC (arXiv 2405.18291): its tables and figures, ours beside the paper's.

    python analysis/fedsac.py table1 --scale quick --data-root DATA
    python analysis/fedsac.py all --scale smoke

What the paper leaves open, and what came out, is in docs/papers/fedsac.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd
from fedsac_experiments import (
    ABLATIONS,
    SCALES,
    SCENES,
    SIZES,
    TABLE_7_BETA,
    TABLE_9,
    best_baselines,
    fedavg_grid,
    fedsac,
    figures,
    method_of,
    published,
)
from fedsac_pictures import draw_clients, draw_courses, draw_plane

from paper import Exhibit, Experiment, Paper, Study, Trial, gather, main, print_table
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


def _scenes(study: Study) -> tuple[str, ...]:
    return SIZES[study.scale.name].scenes


def _compared(study: Study) -> pd.DataFrame:
    """Every method in every column, baselines with their best setting, standalone training."""
    planned: list[Experiment] = []
    for data in study.data:
        for scene in _scenes(study):
            planned += [fedsac(study, data, scene), *best_baselines(study, data, scene)]
            if data == "cifar10" and scene in TABLE_7_BETA:
                beta = float(TABLE_7_BETA[scene])
                planned.append(fedsac(study, data, scene, "fedsac_table_7_beta", beta=beta))
    return _with_best(gather(study.run(planned), figures))


def _with_best(values: pd.DataFrame) -> pd.DataFrame:
    """Baselines under their method's name, after a table of their settings; and training alone."""
    method = values["name"].map(method_of)
    settings = values.assign(method=method)[values["name"] != method]
    listing = settings.pivot_table(
        index="method", columns="data", values="name", aggfunc="first", sort=False
    )
    if not listing.empty:
        print("The fairest settings of the grid, on the first seed:\n")
        print_markdown("setting", listing.fillna("-"))
    alone = values[(values["figure"] == "contribution_max") & (values["name"] == "fedsac")]
    alone = alone.assign(figure="reward_max", name="standalone")
    return pd.concat([alone, values.assign(name=method)], ignore_index=True)


def _defined(values: pd.DataFrame) -> pd.DataFrame:
    """Without undefined values, of which it prints how many there are."""
    missing = values[values["value"].isna() & (values["figure"] == "fairness")]
    for (data, name), rows in missing.groupby(["data", "name"]):
        print(f"Undefined correlation: {data}, {name}: {len(rows)} seed(s), left out\n")
    return values.dropna(subset="value")


def _fairness(values: pd.DataFrame, name: str) -> pd.DataFrame:
    """Fairness beside that of the paper's table."""
    values = _defined(values)
    print_table(values, "fairness", published(name), digits=2)
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
        for data in study.data
        for scene in _scenes(study)
        for name, keys in ABLATIONS.items()
    ]
    return gather(study.run(planned), figures)


def table3(study: Study) -> pd.DataFrame:
    """Fairness without each module."""
    return _fairness(_ablated(study), "table3")


def table4(study: Study) -> pd.DataFrame:
    """Accuracy of the best client without each module."""
    return _best_client(_ablated(study), "table4")


def _more_clients(study: Study) -> pd.DataFrame:
    """More clients, with the settings that were best with ten."""
    planned: list[Experiment] = []
    for data in study.data:
        for clients, scenes in SIZES[study.scale.name].clients.items():
            if clients == 20 or data.startswith("cifar10"):
                for scene in scenes:
                    planned.append(fedsac(study, data, scene, clients=clients))
                    planned += best_baselines(study, data, scene, clients)
    return _with_best(gather(study.run(planned), figures))


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
        for data in study.data
        for scene in _scenes(study)
        for beta in (2, 5, 10, 20)
    ]
    values = gather(study.run(planned), figures)
    _best_client(values, "table7")
    print_table(values, "reward_min", scale=100, digits=2)
    print_table(_defined(values), "fairness", digits=2)
    return values


def table8(study: Study) -> pd.DataFrame:
    """Megabytes per round, in one direction, and what the paper does not have: time and energy."""
    values = _compared(study)
    print_table(values, "mb_per_round", published("table8"), digits=2)
    print_table(values, "time_s", digits=1)
    print_table(values, "client_energy_j", digits=1)
    trials = study.run(
        [fedsac(study, data, scene) for data in study.data for scene in _scenes(study)]
    )
    encoded = pd.concat([_encoded(trial) for trial in trials], ignore_index=True)
    print("FedSAC's messages, by how they tell which units a submodel has:\n")
    print_table(encoded, "mb_per_round", digits=2)
    moved = values[values["figure"] == "mb_per_round"]
    models = moved["data"].map(lambda name: 10 * MODEL_BYTES[name.split(" ", 1)[0]] / 1e6)
    shares = moved.assign(figure="share_of_models", value=(moved["value"] / models).round(12))
    return pd.concat([values, encoded, shares], ignore_index=True)


def _encoded(trial: Trial) -> pd.DataFrame:
    """Megabytes per round of FedSAC's submodels under every encoding."""
    kept = list(trial.run.details("report")["kept_parameters"])
    data = trial.data.split(" ", 1)[0]
    whole, units = MODEL_BYTES[data] // 4, 80 if data == "digits" else 400
    rows = []
    for positions in ENCODINGS:
        sizes = [[message_bytes(whole, int(one), positions, units) for one in row] for row in kept]
        mb = sum(map(sum, sizes)) / len(sizes) / 1e6
        rows.append((trial.data, f"fedsac, {positions}", trial.seed, "mb_per_round", mb))
    return pd.DataFrame(rows, columns=COLUMNS)


def table9(study: Study) -> pd.DataFrame:
    """The settings, and FedAvg over their grid (Appendix F), scored on the test set."""
    for data in study.data:
        settings = pd.DataFrame(
            list(TABLE_9[data]), index=["eta", "E", "beta"], columns=list(SCENES)
        )
        print_markdown(f"{data}, Table 9", settings.astype(str))
    planned = [
        one
        for data in study.data
        for scene in _scenes(study)[:1]
        for one in fedavg_grid(study, data, scene)
    ]
    values = gather(study.run(planned), figures)
    print_table(values, "reward_max", scale=100, digits=2)
    return values


def figure3(study: Study) -> pd.DataFrame:
    """Fairness against the best client's accuracy."""
    values = _defined(_compared(study))
    draw_plane(values, study.folder)
    return values


def _clients_of(scenes: tuple[str, ...], name: str) -> Callable[[Study], pd.DataFrame]:
    """Contributions and rewards client by client, of the first seed."""

    def show(study: Study) -> pd.DataFrame:
        planned = []
        for data in study.data:
            for scene in (one for one in scenes if one in _scenes(study)):
                planned += [fedsac(study, data, scene), *best_baselines(study, data, scene)]
        trials = [trial for trial in study.run(planned) if trial.seed == 0]
        draw_clients(trials, study.folder, name)
        return gather(trials, _rewards)

    return show


def _rewards(run: LoadedRun) -> Mapping[str, float]:
    return {f"reward of client {i}": one for i, one in enumerate(run.clients["reward_accuracy"])}


def figure5(study: Study) -> pd.DataFrame:
    """Accuracy of every client's submodel during training."""
    planned = [
        fedsac(study, data, scene)
        for data in study.data
        for scene in ("POW", "CLA")
        if scene in _scenes(study)
    ]
    trials = [trial for trial in study.run(planned) if trial.seed == 0]
    draw_courses(trials, study.folder)
    return gather(trials, _rewards)


PAPER = Paper(
    "FedSAC (arXiv 2405.18291)",
    Path(__file__).parent / "claims" / "fedsac.yaml",
    SCALES,
    {
        "table1": Exhibit("Table 1: fairness", table1),
        "table2": Exhibit("Table 2: accuracy of the best client (%)", table2),
        "table3": Exhibit("Table 3: ablation, fairness", table3),
        "table4": Exhibit("Table 4: ablation, accuracy of the best client (%)", table4),
        "table5": Exhibit("Table 5: fairness with more clients", table5),
        "table6": Exhibit("Table 6: accuracy of the best client with more clients (%)", table6),
        "table7": Exhibit("Table 7: accuracy of the best (worst) client by beta (%)", table7),
        "table8": Exhibit("Table 8: MB per round", table8),
        "table9": Exhibit("Table 9 and Appendix F: settings, FedAvg's grid", table9),
        "figure3": Exhibit("Figure 3: fairness and accuracy", figure3),
        "figure4": Exhibit(
            "Figure 4: rewards by client, DIR(1.0)", _clients_of(SCENES[2:3], "figure4")
        ),
        "figure5": Exhibit("Figure 5: clients' accuracy during training", figure5),
        "figure6": Exhibit(
            "Figure 6: rewards by client", _clients_of(("POW", "CLA", "DIR(2.0)"), "figure6")
        ),
    },
)

if __name__ == "__main__":
    main(PAPER)
