"""FL Games' tables and figures (arXiv 2211.00184), ours beside the paper's.

    python analysis/fl_games.py table1 --scale quick --data-root DIR
    python analysis/fl_games.py table1|table1_fixed|table2|table3|table4|fig1|...|fig20|all

docs/papers/fl_games.md says what is compared, and what came out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from fl_games_methods import (
    BASELINES,
    BY_HEART,
    CALIBRATED,
    CIFAR,
    CLASSES,
    CLIENTS,
    DIGITS,
    DSPRITES,
    FASHION,
    FIXED_GAMES,
    GAMES,
    LOCAL_WORK,
    METHODS,
    MNIST,
    NEVER,
    READINGS,
    SCENARIOS,
    UNENDED,
    UNENDED_GAMES,
    about,
    calibrated,
    game,
    method,
    played,
    warm_start_of,
    with_clients,
)
from fl_games_pictures import draw_bars, draw_curves, draw_masks, draw_samples
from fl_games_thresholds import SHOWN, by_threshold, draw
from safetensors.torch import load_file

from paper import (
    END,
    Exhibit,
    Paper,
    Scale,
    Study,
    Trial,
    final_accuracy,
    gather,
    main,
    print_figures,
    print_table,
)
from paper.study import each_of
from paper.tables import COLUMNS
from simfl.assembly.assemble import assemble
from simfl.learning.evaluate import Evaluator, client_set
from simfl.measures.equilibrium_reached import EquilibriumReached
from simfl.measures.lime_masks import LimeMasks
from simfl.measures.oscillation import Oscillation
from simfl.measures.spurious_reliance import SpuriousReliance
from simfl.runs.files import SCENARIO
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario

ROOT = Path(__file__).parents[1]
ACCURACIES = ("train_accuracy", "test_accuracy")
COSTS = ("rounds", "time_s", "client_energy_j", "bytes")

# Parts of Table 1 that can be run alone, and what stands beside it.
FIRST = ("v_seq", "v_par_smooth_fast")
READ = (*dict.fromkeys(["f_seq", *(variant for variant, _ in READINGS.values())]), *READINGS)
PUBLISHED = pd.read_csv(ROOT / "analysis" / "published" / "fl_games.csv", dtype=str)


def published(table: str, figure: str) -> dict[tuple[str, str], str]:
    """What the paper prints in one of its tables, by data set and name.

    Of a method once: it stands beside all readings of it (`<name>_<reading>`). The rounds of Table
    1's games are in Table 4.
    """
    if (table, figure) == ("table1", "rounds"):
        table = "table4"
    rows = PUBLISHED[(PUBLISHED["table"] == table) & (PUBLISHED["figure"] == figure)]
    read = {own: variant for own, (variant, _) in READINGS.items()}
    read |= {f"{name}_server": name for name in BASELINES}
    read |= {own: own.removesuffix("_long") for own in BY_HEART} | dict(CALIBRATED)
    found = {
        (data, name): value
        for data, name, value in zip(rows["data"], rows["name"], rows["value"], strict=True)
    }
    of_readings = {
        (data, own): found[data, name]
        for data in {data for data, _ in found}
        for own, name in read.items()
        if (data, name) in found
    }
    return {**of_readings, **found}


def accuracies(run: LoadedRun) -> dict[str, float]:
    """On all training data (what each client is served, on its own), on the test set, reliance.

    Shares. flipped_accuracy: on the test set with the other colour; reliance is its distance from
    the test accuracy, whose sign tells for or against the colour.
    """
    held = run.clients["num_examples"]
    train = (run.clients["served_accuracy"] * held).sum() / held.sum()
    spurious = SpuriousReliance().compute(run)
    return {
        "train_accuracy": float(train),
        "test_accuracy": final_accuracy(run),
        **{key: spurious.get(key, math.nan) for key in ("flipped_accuracy", "reliance")},
    }


def of_a_game(run: LoadedRun) -> dict[str, float]:
    """Accuracies; of a game also the threshold, what its end took, and the oscillation.

    A game that was cut short would have taken more than it had at its end (`tables.in_cell`).
    """
    if run.scenario["algorithm"]["name"] != "fl_games":
        return accuracies(run)
    found = EquilibriumReached().compute(run)
    threshold = run.scenario["algorithm"].get("equilibrium", {}).get("threshold")
    return {
        **accuracies(run),
        **({} if threshold is None else {"threshold": threshold}),
        "reached": found["reached"],
        **{key: found[key] if found["reached"] else math.nan for key in COSTS},
        **{f"{key}{END}": found[key] for key in COSTS},
        **Oscillation().compute(run),
    }


def of_the_server(study: Study, trial: Trial) -> pd.DataFrame:
    """FedBN's accuracies with the server's model, whose BatchNorm nobody has ever trained.

    The other rule of testing at an unseen client: it gets the server's model as it is.
    """
    simulation = assemble(Scenario.from_yaml(trial.run.file(SCENARIO)), study.options)
    held = simulation.partitioned
    parts = {client_set(client): own for client, own in enumerate(held.clients)}
    evaluator = Evaluator(simulation.network, {**parts, "test": held.data.test})
    weights = load_file(trial.run.file("model.safetensors"))
    of_each = [evaluator.accuracy([weights], on) for on in parts]
    train = np.average(of_each, weights=[len(own) for own in held.clients])
    test = evaluator.accuracy([weights])
    return gather([trial], lambda _: {"train_accuracy": float(train), "test_accuracy": test})


def accuracies_of(names: Sequence[str]) -> Callable[[Study], pd.DataFrame]:
    """Table 1, or some of its rows."""

    def show(study: Study) -> pd.DataFrame:
        """Accuracies, of FedBN by either rule of testing; what the equilibria took."""
        planned = [method(study, data, name) for data in study.data for name in names]
        trials = study.run(planned, of_a_game)
        server = [replace(one, name="fedbn_server") for one in trials if one.name == "fedbn"]
        values = pd.concat(
            [gather(trials, of_a_game), *(of_the_server(study, one) for one in server)],
            ignore_index=True,
        )
        _print_accuracies(values, "table1")
        _print_costs(values)
        return values

    return show


def table4(study: Study) -> pd.DataFrame:
    """Rounds to equilibrium, and simulated seconds, joules and bytes, on the other data sets."""
    named = dict.fromkeys(about(study, data) for data in (FASHION, CIFAR, DSPRITES))
    planned = [game(study, data, name, name) for data in named for name in GAMES]
    values = study.measured(planned, of_a_game)
    if not values.empty:
        print_table(values, "rounds", published("table4", "rounds"), digits=1)
    _print_costs(values)
    return values


def costs_of_table1(rows: pd.DataFrame, *, on_mnist: bool) -> pd.DataFrame:
    """What the equilibria of Table 1's games took, on Colored MNIST or on the other data sets."""
    shown = ["reached", "threshold", *COSTS, *(f"{cost}{END}" for cost in COSTS)]
    return rows[
        rows["exhibit"].eq("table1")
        & rows["name"].isin(GAMES)
        & rows["figure"].isin(shown)
        & (rows["data"].eq(MNIST) == on_mnist)
    ]


def classes(data: str, name: str) -> Callable[[Study], pd.DataFrame]:
    """Table 2 or 3: sequential and parallel fixed games with 2, 5 and 10 classes."""

    def show(study: Study) -> pd.DataFrame:
        """As the paper's table."""
        on = about(study, data)
        planned = [
            (game if count == 2 else calibrated)(
                study, on, f"{variant}_{count}", variant, (f"data.classes={count}",)
            )
            for variant in ("f_seq", "f_par")
            for count in CLASSES
        ]
        values = study.measured(planned, of_a_game)
        _print_accuracies(values, name)
        return values

    return show


def clients(data: str, name: str) -> Callable[[Study], pd.DataFrame]:
    """Figures 1b, 8, 9, 10: rounds and accuracies of fixed games by the number of clients."""

    def show(study: Study) -> pd.DataFrame:
        """Both orders of play."""
        on = about(study, data)
        planned = [
            (game if number in ("2", "3") else calibrated)(
                study, on, f"{variant}_{number}", variant, with_clients(number)
            )
            for variant in ("f_seq", "f_par")
            for number in CLIENTS
        ]
        values = study.measured(planned, of_a_game)
        values = pd.concat([values, added_rounds(values)], ignore_index=True)
        _print_accuracies(values, name)
        _print_costs(values)
        draw_bars(study, values, ("rounds", "test_accuracy", "bytes"), name)
        return values

    return show


def added_rounds(values: pd.DataFrame) -> pd.DataFrame:
    """Rows of `added_rounds`: rounds to equilibrium beyond those of two clients, of the same seed.

    NaN where one of both games did not settle.
    """
    rounds = values[values["figure"] == "rounds"].copy()
    rounds[["variant", "clients"]] = rounds["name"].str.extract(r"^(f_[a-z]+)_(.+)$")
    of_two = rounds[rounds["clients"] == "2"]
    table = rounds[rounds["clients"] != "2"].merge(
        of_two, on=["data", "variant", "seed"], suffixes=("", "_of_two")
    )
    more = table.assign(figure="added_rounds", value=table["value"] - table["value_of_two"])
    return more[COLUMNS]


def curves(data: str, name: str, variants: tuple[str, ...]) -> Callable[[Study], pd.DataFrame]:
    """Accuracies by round of games that are not ended; amplitude and frequency."""

    def show(study: Study) -> pd.DataFrame:
        """A line per variant."""
        on = about(study, data)
        trials = study.run([game(study, on, one, one, (NEVER,)) for one in variants])
        values = gather(trials, lambda run: {**accuracies(run), **Oscillation().compute(run)})
        print_figures(values)
        draw_curves(study, trials, name)
        return values

    return show


def whole_data(data: str, name: str) -> Callable[[Study], pd.DataFrame]:
    """Figures 17i, 18, 19, 20: responses along the gradient of all local data, or of a batch."""

    def show(study: Study) -> pd.DataFrame:
        """Both, without an end."""
        on = about(study, data)
        descent = (NEVER, "algorithm.local.batch_size=null")
        planned = [
            game(study, on, "f_seq", "f_seq", (NEVER,)),
            game(study, on, "f_seq_gd", "f_seq", descent),
        ]
        trials = study.run(planned)
        values = gather(trials, lambda run: {**accuracies(run), **Oscillation().compute(run)})
        print_figures(values)
        draw_curves(study, trials, name)
        return values

    return show


def thresholds(study: Study) -> pd.DataFrame:
    """Where games would have ended, by threshold, after a longer warm start, after more rounds."""
    more = (NEVER, "evaluate.every=1", f"stop.versions={UNENDED[study.scale.name]}")
    planned = [played(study, data, name, more) for data in study.data for name in UNENDED_GAMES]
    trials = study.run(planned)
    warm = {
        (one.data, one.name): warm_start_of(asked, one.run)
        for asked in planned
        for one in trials
        if (one.data, one.name) == (asked.data, asked.name)
    }
    values = by_threshold(trials, warm)
    print_table(values, "lowest")
    for figure in ("test_accuracy", "rounds"):
        print_figures(values[values["figure"].isin([f"{figure}_at_{one:.2f}" for one in SHOWN])])
    for data in study.data:
        draw(study, [one for one in trials if one.data == data], values, f"thresholds_{data}")
    return values


def fig1(study: Study) -> pd.DataFrame:
    """(a) LIME masks of V-FL Games (smooth, fast) and FedAvg; (b) by the number of clients."""
    return pd.concat(
        each_of([partial(clients(MNIST, "fig1b"), study), partial(_masks, study)]),
        ignore_index=True,
    )


def _masks(study: Study) -> pd.DataFrame:
    """Figure 1a; nothing without the package that makes masks, which it says."""
    try:
        measure = LimeMasks(images=5 if study.scale.name != "smoke" else 1, samples=200)
    except ValueError as error:
        print(f"SKIPPED Figure 1a: {error}\n", flush=True)
        return pd.DataFrame(columns=COLUMNS)
    on = about(study, MNIST)
    trials = study.run([method(study, on, name) for name in ("v_par_smooth_fast", "fedavg")])
    first = min((one.seed for one in trials), default=0)
    masks = draw_masks(study, measure, [one for one in trials if one.seed == first], "fig1a")
    print_figures(masks)
    return masks


def fig2(study: Study) -> pd.DataFrame:
    """(b), (c) training accuracy by round of games that are not ended."""
    fixed = curves(MNIST, "fig2b", ("f_seq", "f_seq_smooth"))
    variable = curves(MNIST, "fig2c", ("v_seq", "v_seq_smooth_fast"))
    return pd.concat(each_of(partial(show, study) for show in (fixed, variable)))


def fig2a(study: Study) -> pd.DataFrame:
    """What every variant's equilibrium takes."""
    on = about(study, MNIST)
    values = gather(study.run([game(study, on, name, name) for name in GAMES]), of_a_game)
    _print_costs(values)
    draw_bars(study, values, ("rounds", "time_s", "bytes"), "fig2a")
    return values


def fig17(study: Study) -> pd.DataFrame:
    """(i) a gradient step over all local data; (ii) C % of the local batches per response."""
    parts = partial(whole_data(MNIST, "fig17i"), study), partial(_more_work, study)
    return pd.concat(each_of(parts), ignore_index=True)


def _more_work(study: Study) -> pd.DataFrame:
    """Figure 17ii."""
    on = about(study, MNIST)
    planned = [game(study, on, f"c_{share}", "f_seq", _share(share)) for share in LOCAL_WORK]
    values = gather(study.run(planned), of_a_game)
    _print_accuracies(values, "fig17")
    draw_bars(study, values, ACCURACIES, "fig17ii")
    return values


def samples(data: str, name: str, more: tuple[str, ...] = ()) -> Callable[[Study], pd.DataFrame]:
    """Figures 3 to 7: images as the generator makes them."""

    def show(study: Study) -> pd.DataFrame:
        """Training and test."""
        on = about(study, data)
        return draw_samples(study, Scenario.from_yaml(SCENARIOS / f"{on}.yaml", more), on, name)

    return show


def _share(percent: int) -> tuple[str, ...]:
    return ("algorithm.local.steps=null", f"algorithm.local.share={percent / 100}")


def _print_accuracies(values: pd.DataFrame, table: str) -> None:
    if values.empty:
        return
    for figure in ACCURACIES:
        print_table(values, figure, published(table, figure), scale=100, digits=2)
    print_table(values, "reliance", scale=100, digits=2)


def _print_costs(values: pd.DataFrame) -> None:
    """The thresholds; rounds, simulated seconds, joules and bytes to equilibrium in one table."""
    print_table(values, "threshold")
    shown = ["reached", *COSTS, *(f"{cost}{END}" for cost in COSTS)]
    print_figures(values[values["figure"].isin(shown)], digits=1)


def _scale(name: str, seeds: int, data: tuple[str, ...], reduced: str) -> Scale:
    return Scale(name, seeds, data, reduced, estimate=name == "paper")


SCALES = {
    "quick": _scale(
        "quick", 3, (MNIST,),
        "games of at most 600 rounds, training accuracy on 1,000 examples per client; 3 epochs of"
        " FedAvg and FedProx, 30 of FedBN, 600 rounds of FedSGD; a fifth of CIFAR-10",
    ),
    "smoke": _scale(
        "smoke", 1, (DIGITS,),
        "colored digits; perceptrons of 32 units, 12 rounds of games, 2 epochs of baselines"
    ),
    "paper": _scale("paper", 5, (MNIST, FASHION, CIFAR, DSPRITES), ""),
}  # fmt: skip

EXHIBITS = {
    **{
        name: Exhibit(title, accuracies_of(rows), part_of, published=partial(published, "table1"))
        for name, title, rows, part_of in (
            ("table1", "Table 1: accuracies, %", (*METHODS, *BY_HEART), None),
            ("table1_first", "Table 1: two variable games", FIRST, "table1"),
            ("table1_baselines", "Table 1: the baselines", (*BASELINES, *BY_HEART), "table1"),
            ("table1_fixed", "Table 1 without V-FL Games", (*BASELINES, *FIXED_GAMES), "table1"),
            ("readings", "Table 1 under other readings", READ, None),
            ("calibrated", "Table 1 under calibrated thresholds", (*BASELINES, *CALIBRATED), None),
        )
    },
    "thresholds": Exhibit("Accuracies by the threshold of the equilibrium", thresholds),
    **{
        name: Exhibit(title, show, published=partial(published, name))
        for name, title, show in (
            ("table2", "Table 2: more classes of Colored MNIST", classes(MNIST, "table2")),
            (
                "table3",
                "Table 3: more classes of Colored Fashion-MNIST",
                classes(FASHION, "table3"),
            ),
        )
    },
    "table4": Exhibit(
        "Table 4: what equilibria take",
        table4,
        borrows=partial(costs_of_table1, on_mnist=False),
        published=partial(published, "table4"),
    ),
    "fig1": Exhibit("Figure 1: LIME masks; more clients", fig1),
    "fig2a": Exhibit(
        "Figure 2a: what equilibria take",
        fig2a,
        borrows=partial(costs_of_table1, on_mnist=True),
    ),
    "fig2": Exhibit("Figure 2b, c: smooth history, fast representation", fig2),
    "fig3": Exhibit("Figure 3: Colored MNIST", samples(MNIST, "fig3")),
    "fig4": Exhibit("Figure 4: Colored Fashion-MNIST", samples(FASHION, "fig4")),
    "fig5": Exhibit("Figure 5: Spurious CIFAR-10", samples(CIFAR, "fig5")),
    "fig6": Exhibit("Figure 6: Colored dSprites", samples(DSPRITES, "fig6")),
    "fig7": Exhibit("Figure 7: ten classes", samples(MNIST, "fig7", ("data.classes=10",))),
    **{
        f"fig{8 + place}": Exhibit(
            f"Figure {8 + place}: clients",
            clients(data, f"fig{8 + place}"),
            published=partial(published, f"fig{8 + place}"),
        )
        for place, data in enumerate((FASHION, CIFAR, DSPRITES))
    },
    **{
        f"fig{first + place}": Exhibit(
            f"Figure {first + place}: accuracies by round",
            curves(data, f"fig{first + place}", variants),
        )
        for first, variants in (
            (11, ("f_seq", "f_seq_smooth", "f_par_smooth")),
            (14, ("v_seq", "v_seq_smooth_fast", "v_par_smooth_fast")),
        )
        for place, data in enumerate((FASHION, CIFAR, DSPRITES))
    },
    "fig17": Exhibit("Figure 17: more local work", fig17),
    **{
        f"fig{18 + place}": Exhibit(
            f"Figure {18 + place}: all local data", whole_data(data, f"fig{18 + place}")
        )
        for place, data in enumerate((FASHION, CIFAR, DSPRITES))
    },
}
PAPER = Paper(
    "FL Games (arXiv 2211.00184)", ROOT / "analysis" / "claims" / "fl_games.yaml", SCALES, EXHIBITS
)

if __name__ == "__main__":
    main(PAPER)
