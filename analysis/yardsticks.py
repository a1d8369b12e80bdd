"""The field's yardsticks: numbers that others have published, and ours beside them.

    python analysis/yardsticks.py mcmahan_2nn --scale paper --data-root DIR
    python analysis/yardsticks.py mcmahan_cnn|niid_bench|all
    python analysis/yardsticks.py fedbuff --scale quick --data-root DIR     also oort

docs/yardsticks.md says what is compared, and what came out. A learning rate that a source does not
state is chosen on a grid, by rounds to the target on held-out training images, never on the test
images and never by how close the published number is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from plain_fedavg import rounds_to

from paper import (
    END,
    Exhibit,
    Experiment,
    Paper,
    Scale,
    Study,
    final_accuracy,
    gather,
    main,
    print_figures,
    print_table,
)
from paper.study import OnlyPlanned
from paper.tables import print_markdown
from simfl.common.files import DataMissing
from simfl.learning.datasets.digits import Digits
from simfl.learning.datasets.mnist import Mnist
from simfl.runs.runfolder import LoadedRun
from simfl.study.targets import known_first

ROOT = Path(__file__).parents[1]
SCENARIOS = ROOT / "scenarios" / "papers" / "yardsticks"
HELD_OUT = "held_out.py:HeldOut"
PUBLISHED = pd.read_csv(ROOT / "analysis" / "published" / "yardsticks.csv", dtype=str)

FACTOR = 1.7
"""Rounds to a target are inside while they are within this factor of the published ones."""

RATES = tuple(float(f"{10 ** (power / 3):.3g}") for power in range(-5, 0))
"""The grid: a third of a decade apart, as in McMahan et al."""

BATCH_OF_ALL = 600
"""No client has more examples in an IID or two-shard partition among 100."""

SPLITS = {
    "iid": "data.partition=iid",
    "two_shards": "data.partition={name: shards, shards_per_client: 2}",
}
LABELS = "data.partition={{name: labels_per_client, labels: {}}}"
PARTITIONS = {
    "iid": "data.partition=iid",
    "dirichlet 0.5": "data.partition={name: dirichlet, alpha: 0.5}",
    "1 label": LABELS.format(1),
    "2 labels": LABELS.format(2),
    "3 labels": LABELS.format(3),
}
METHODS = {"fedavg": (), "fedprox": ("algorithm.name=fedprox", "algorithm.mu=0.01")}


PHONES, FLASH = "phones", "flash"
"""What the tables by seconds call their clients; each has a size of its own, not the papers'."""

ASKED_AT_ONCE = 40
PROTOCOLS = {
    "fedbuff": (),
    "synchronous": (
        "protocol=synchronous",
        f"decisions.selection={{name: random, count: {ASKED_AT_ONCE}}}",
        "evaluate.every=1",
    ),
    "fedasync": (
        f"protocol={{name: asynchronous, concurrency: {ASKED_AT_ONCE}}}",
        "decisions.staleness={name: polynomial, initial: 0.6, exponent: 0.5}",
        f"evaluate.every={ASKED_AT_ONCE}",
    ),
}
"""Forty clients train at any time under each of them."""

SELECTIONS = {
    one: (f"decisions.selection={{name: {one}, count: 10}}",) for one in ("oort", "random")
}
OORT = (
    "model={name: mlp, hidden: [64]}",
    "data.partition={name: dirichlet, alpha: 0.3}",
    "stop={accuracy: 0.7, time_s: 5400}",
    "evaluate.every=2",
    "log.level=rounds",
)

SMALL = {
    "mcmahan_2nn": ("data.name=digits", "population.clients=10", "stop.accuracy=0.3"),
    "mcmahan_cnn": ("data.name=digits", "population.clients=10", "model.channels=[2, 4]"),
    "niid_bench": ("data.name=digits", "model=linear", "stop.versions=2"),
    "fedbuff": (
        "data.name=digits",
        "population.clients=50",
        "population.rate_trace=null",
        "population.rate_trace_format=null",
        "stop={accuracy: 0.3, versions: 6}",
        "evaluate.every=1",
    ),
    "oort": (
        "data.name=digits",
        "population.clients=10",
        "population.rate_trace=null",
        "population.rate_trace_format=null",
        "population.availability=always",
        "protocol=synchronous",
        "decisions.selection.count=3",
        "stop={accuracy: 0.3, versions: 4}",
    ),
}
"""What the smallest scale has instead, in every cell of a table."""


def mcmahan_2nn(study: Study) -> pd.DataFrame:
    """Rounds to 97 % by the share C of clients in a round and the batch size B, E = 1."""
    clients = 10 if study.scale.name == "smoke" else 100
    return to_target(
        study,
        "mcmahan_2nn",
        lambda of: (f"decisions.selection.count={max(1, round(clients * float(of['C'])))}",),
    )


def mcmahan_cnn(study: Study) -> pd.DataFrame:
    """Rounds to 99 % by epochs E and batch size B, C = 0.1."""
    cnn = "model={name: cnn, channels: [32, 64], kernel: 5, hidden: [512]}"
    count = 1 if study.scale.name == "smoke" else 10
    return to_target(
        study,
        "mcmahan_cnn",
        lambda of: (
            cnn,
            "stop.accuracy=0.99",
            f"algorithm.local.epochs={of['E']}",
            f"decisions.selection.count={count}",
        ),
    )


def to_target(
    study: Study, table: str, sets: Callable[[Mapping[str, str]], tuple[str, ...]]
) -> pd.DataFrame:
    """Rounds until the target in every cell of a table, at the learning rate chosen for the cell.

    `sets` gives a cell's overrides from its name ("C = 0.1, B = 10"). A run ends at the target, or
    where it is outside in any case: then `rounds` is not there, and `rounds_bound` is how far it
    went.
    """
    cells, unplanned = [], None
    for (split, name), rounds in published(table, "rounds").items():
        if split not in study.data or not study.asked_for(name):
            continue
        of = dict(one.split(" = ") for one in name.split(", "))
        size = BATCH_OF_ALL if of["B"] == "all" else int(of["B"])
        versions = 2 if study.scale.name == "smoke" else math.ceil(FACTOR * int(rounds)) + 1
        cell = Experiment(
            split,
            name,
            SCENARIOS / "mcmahan.yaml",
            (
                SPLITS[split],
                f"algorithm.local.batch_size={size}",
                f"stop.versions={versions}",
                *sets(of),
                *reduced(study, table),
            ),
        )
        try:
            rate = chosen_rate(study, cell)
        except OnlyPlanned as one:
            # The cell itself takes about as long at any rate.
            rate, unplanned = RATES[len(RATES) // 2], one
        if rate is not None:
            cells.append(with_rate(cell, rate))
    values = gather(study.run(cells), rounds_to_target)
    if unplanned is not None:
        raise unplanned
    print_table(values, "rounds", published(table, "rounds"), digits=0)
    return values


def chosen_rate(
    study: Study,
    cell: Experiment,
    rates: Sequence[float] | None = None,
    until: str = "rounds",
) -> float | None:
    """Of the grid, the rate that needs the fewest rounds to the target on held-out images.

    With the first seed; among rates that do not get there, the most accurate one. The grid is
    printed. By rounds, a rate is given up one after the fewest of those before it: it could not
    be chosen. None where the grid is not complete: then the cell has no value. `until` may be
    seconds in place of rounds, and `rates` another grid than `RATES`.
    """
    data = next(one for one in reversed(cell.overrides) if one.startswith("data.name="))
    held = (f"data.name={HELD_OUT}", f"data.of={data.removeprefix('data.name=')}")
    rates = RATES if rates is None else rates
    rates = rates[::4] if study.scale.name == "smoke" else rates
    grid = {
        rate: replace(one, name=f"{one.name}, rate {rate}", overrides=(*one.overrides, *held))
        for rate in rates
        for one in [with_rate(cell, rate)]
    }
    one_seed = study.of_first(1)
    tried: dict[float, tuple[float, float, float]] = {}
    enough = math.inf
    # Large rates are the fast ones: with them first, little of the others is run in vain.
    for rate in sorted(rates, reverse=True):
        known = until == "rounds" and enough < math.inf
        given_up = (f"stop.versions={enough + 1:.0f}",) if known else ()
        trial = replace(grid[rate], overrides=(*grid[rate].overrides, *given_up))
        try:
            trials = one_seed.run([trial])
        except OnlyPlanned:
            one_seed.run([one for of, one in grid.items() if of < rate])
            raise
        if not trials:
            print(f"{cell.data}, {cell.name}: {len(tried)} of {len(rates)} of its grid are there\n")
            return None
        of = gather(trials, UNTIL[until]).set_index("figure")["value"]
        rounds, accuracy = of[until], of["accuracy"]
        # One that diverged has neither.
        order = math.inf if math.isnan(rounds) else rounds
        tried[rate] = order, math.inf if math.isnan(accuracy) else -accuracy, of[f"{until}_bound"]
        enough = min(enough, order)
    shown = pd.DataFrame(
        {
            rate: {
                until: f"{'over ' if rounds == math.inf else ''}{bound:.0f}",
                "accuracy": "diverged" if error == math.inf else f"{-error:.4f}",
            }
            for rate in rates
            for rounds, error, bound in [tried[rate]]
        }
    )
    print_markdown(f"{cell.data}, {cell.name}: held out", shown)
    return min(rates, key=lambda rate: tried[rate][:2])


def with_rate(cell: Experiment, rate: float) -> Experiment:
    """The cell at a learning rate."""
    return replace(cell, overrides=(*cell.overrides, f"algorithm.local.learning_rate={rate}"))


def rounds_to_target(run: LoadedRun) -> dict[str, float]:
    """Rounds until the accuracy at which a run was to stop, those of the run, its accuracy."""
    rounds = run.rounds[["version", "accuracy"]].dropna()
    reached = rounds["version"][rounds["accuracy"] >= run.scenario["stop"]["accuracy"]]
    versions = float(rounds["version"].max()) if len(rounds) else 0.0
    return {
        "rounds": float(reached.min()) if len(reached) else float("nan"),
        f"rounds{END}": versions,
        "rounds_bound": float(reached.min()) if len(reached) else versions,
        "accuracy": final_accuracy(run),
    }


def plain_loop(study: Study) -> pd.DataFrame:
    """Rounds to 97 % of a loop without simfl, C = 0.1, B = 10, at two rates of the grid."""
    small = study.scale.name == "smoke"
    splits = [split for split in SPLITS if split in study.data]
    if study.only_plan:
        print(f"  about {4 * len(splits) * study.seeds} minutes of a core")
        raise OnlyPlanned
    root = study.options.data_root or os.environ.get("SIMFL_DATA")
    try:
        data = Digits().load(None, 0) if small else Mnist().load(Path(root) if root else None, 0)
    except DataMissing as error:
        study.skipped |= dict.fromkeys(splits, str(error))
        splits = []
    rows = []
    for seed in range(study.seeds):
        for split in splits:
            for rate in (0.1, 0.215):
                rounds = rounds_to(
                    data,
                    split,
                    target=0.8 if small else 0.97,
                    rate=rate,
                    clients=10 if small else 100,
                    selected=3 if small else 10,
                    batch_size=10,
                    most=60 if small else 1200,
                    seed=seed,
                )
                rows.append((split, f"C = 0.1, B = 10, rate {rate}", seed, "rounds", rounds))
                print(f"  {split}, rate {rate}, seed {seed}: {rounds:.0f}", flush=True)
    values = pd.DataFrame(rows, columns=["data", "name", "seed", "figure", "value"])
    print_table(values, "rounds", digits=0)
    return values


def niid_bench(study: Study) -> pd.DataFrame:
    """Accuracy after 50 rounds of 10 epochs, by method and partition, all as the source sets it."""
    cells = []
    for data, name in published("niid_bench", "accuracy"):
        if data in study.data:
            method, partition = name.split(", ")
            sets = (f"data.name={data}", PARTITIONS[partition], *METHODS[method])
            scenario = SCENARIOS / "niid_bench.yaml"
            cells.append(Experiment(data, name, scenario, (*sets, *reduced(study, "niid_bench"))))
    values = gather(study.run(cells), lambda run: {"accuracy": final_accuracy(run)})
    print_table(values, "accuracy", published("niid_bench", "accuracy"), scale=100, digits=1)
    return values


def fedbuff(study: Study) -> pd.DataFrame:
    """Seconds to 80 % under three protocols, each at the rate that its own grid chooses."""
    cells = []
    for name, sets in PROTOCOLS.items() if PHONES in study.data else ():
        cell = Experiment(
            PHONES,
            name,
            SCENARIOS / "fedbuff.yaml",
            ("data.name=fashion_mnist", *sets, *reduced(study, "fedbuff")),
        )
        rate = chosen_rate(study, cell, RATES[1:-1], "seconds")
        if rate is not None:
            cells.append(with_rate(cell, rate))
    return by_seconds(gather(study.run(cells), seconds_to_target), "fedbuff")


def oort(study: Study) -> pd.DataFrame:
    """Seconds to 70 % on FLASH's phones, with clients that Oort chooses and with random ones."""
    cells = [
        Experiment(
            FLASH, name, ROOT / "scenarios" / "flash.yaml", (*sets, *OORT, *reduced(study, "oort"))
        )
        for name, sets in SELECTIONS.items()
        if FLASH in study.data
    ]
    return by_seconds(gather(study.run(cells), seconds_to_target), "oort")


def seconds_to_target(run: LoadedRun) -> dict[str, float]:
    """Simulated seconds, and merged updates, until the accuracy at which a run was to stop.

    Where it never was that accurate there are none, and `seconds_bound` is how long it ran.
    """
    seconds = run.spent_to("time_s", accuracy=run.scenario["stop"]["accuracy"])
    ended_s = float(run.manifest["horizon_s"])
    return {
        "seconds": seconds,
        f"seconds{END}": ended_s,
        "seconds_bound": ended_s if math.isnan(seconds) else seconds,
        "updates": float(run.rounds["updates"].sum()),
        "accuracy": final_accuracy(run),
    }


UNTIL = {"rounds": rounds_to_target, "seconds": seconds_to_target}
"""By what a learning rate may be chosen: the figures of a run."""


def by_seconds(values: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """The values, and how each cell compares with the baseline of its seed; printed.

    `times` is its seconds over the baseline's where both got there. `times_bound` is what is known
    of that: at least so much where it never did, at most so much where the baseline did not,
    nothing where neither did. `behind` is 1 where the baseline is known to have been first, 0 where
    it is known not to have been.
    """
    added = []
    for (data, seed), own in values.groupby(["data", "seed"], sort=False):
        table = own.pivot_table(index="name", columns="figure", values="value", dropna=False)
        if baseline not in table.index:
            continue
        base = table.loc[baseline]
        for name in (one for one in pd.unique(own["name"]) if one != baseline):
            its = table.loc[name]
            known = not (math.isnan(its["seconds"]) and math.isnan(base["seconds"]))
            bound = its["seconds_bound"] / base["seconds_bound"] if known else math.nan
            ahead, behind = (
                known_first(
                    *(np.array([one]) for one in (a["seconds"], b["seconds"], b["seconds_bound"]))
                )
                for a, b in ((its, base), (base, its))
            )
            order = float(behind) if ahead or behind else math.nan
            found = {
                "times": its["seconds"] / base["seconds"],
                "times_bound": bound,
                "behind": order,
            }
            added += [(data, name, seed, figure, value) for figure, value in found.items()]
    values = pd.concat([values, pd.DataFrame(added, columns=values.columns)], ignore_index=True)
    print_figures(values, digits=2)
    return values


def reduced(study: Study, table: str) -> tuple[str, ...]:
    """What the study's scale sets in every cell of a table, its data set among it."""
    if study.scale.name == "smoke":
        return SMALL[table]
    return ("data.name=mnist",) if table.startswith("mcmahan") else ()


def published(table: str, figure: str) -> dict[tuple[str, str], str]:
    """The published cells of a figure by (data, name)."""
    rows = PUBLISHED.query("table == @table and figure == @figure")
    return dict(zip(zip(rows["data"], rows["name"], strict=True), rows["value"], strict=True))


DATA = ("iid", "two_shards", "mnist", "fashion_mnist")
PAPER = Paper(
    "The field's yardsticks",
    ROOT / "analysis" / "claims" / "yardsticks.yaml",
    {
        "paper": Scale("paper", 3, DATA, estimate=True),
        "quick": Scale(
            "quick", 5, (PHONES, FLASH), "hundreds of phones and a perceptron", estimate=True
        ),
        "smoke": Scale(
            "smoke",
            1,
            (*DATA, PHONES, FLASH),
            "digits, a few clients and rounds, one or two learning rates",
        ),
    },
    {
        "mcmahan_2nn": Exhibit(
            "McMahan et al. 2017, Table 1: rounds to 97 % on MNIST, 2NN, E = 1",
            mcmahan_2nn,
            published=partial(published, "mcmahan_2nn"),
        ),
        "plain_loop": Exhibit("The same by a loop without simfl, C = 0.1, B = 10", plain_loop),
        "mcmahan_cnn": Exhibit(
            "McMahan et al. 2017, Table 2: rounds to 99 % on MNIST, CNN, C = 0.1",
            mcmahan_cnn,
            published=partial(published, "mcmahan_cnn"),
        ),
        "niid_bench": Exhibit(
            "NIID-Bench as in Flower's baseline: accuracy after 50 rounds, %",
            niid_bench,
            published=partial(published, "niid_bench"),
        ),
        "fedbuff": Exhibit(
            "Nguyen et al. 2022: seconds to 80 % on Fashion-MNIST, by protocol",
            fedbuff,
            published=partial(published, "fedbuff"),
        ),
        "oort": Exhibit(
            "Lai et al. 2021: seconds to 70 % on Fashion-MNIST and FLASH's phones, by selection",
            oort,
            published=partial(published, "oort"),
        ),
    },
)

if __name__ == "__main__":
    main(PAPER)
