"""What is run for the FL Games paper: its variants, the baselines, and what the scales reduce."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from paper import Experiment, Study
from paper.study import OnlyPlanned
from simfl.algorithms.fl_games import FLGames
from simfl.assembly.assemble import outlined
from simfl.measures.equilibrium_reached import calibrated_threshold
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario

SCENARIOS = Path(__file__).parents[1] / "scenarios" / "papers" / "fl_games"

DIGITS = "colored_digits"
MNIST, FASHION = "colored_mnist", "colored_fashion_mnist"
CIFAR, CIFAR_PART, DSPRITES = "spurious_cifar10", "spurious_cifar10_subset", "colored_dsprites"

SEQUENTIAL = "algorithm.order=sequential"
SMOOTH = "algorithm.smooth=true"
FAST = "algorithm.fast=true"
VARIABLE = ("algorithm.representation=variable", "model.hidden=[390, 390, 390]")
FIXED_GAMES: Mapping[str, tuple[str, ...]] = {
    "f_seq": (SEQUENTIAL,),
    "f_seq_smooth": (SEQUENTIAL, SMOOTH),
    "f_par": (),
    "f_par_smooth": (SMOOTH,),
}
VARIABLE_GAMES: Mapping[str, tuple[str, ...]] = {
    "v_seq": (*VARIABLE, SEQUENTIAL),
    "v_seq_smooth_fast": (*VARIABLE, SEQUENTIAL, SMOOTH, FAST),
    "v_par": VARIABLE,
    "v_par_smooth_fast": (*VARIABLE, SMOOTH, FAST),
}
GAMES = {**FIXED_GAMES, **VARIABLE_GAMES}

# Learning rates of section D.2: Adam of fixed games, of phi, of predictors beside phi; and the
# training accuracies below which a variable game counts as settled (the scenarios have those of
# fixed ones).
RATES = {
    MNIST: (2.5e-4, 2.5e-5, 2.5e-4),
    FASHION: (2.5e-4, 2.5e-5, 2.5e-4),
    CIFAR: (1.0e-4, 9.0e-4, 1.0e-4),
    DSPRITES: (9.5e-4, 2.5e-4, 9.0e-4),
    DIGITS: (2.5e-3, 2.5e-4, 2.5e-3),
}
RATES[CIFAR_PART] = RATES[CIFAR]
VARIABLE_THRESHOLD = {MNIST: 0.55, FASHION: 0.60}
SMALLER_BATCH = {DIGITS: 64}

# FedSGD, FedAvg, FedProx, FedBN: the fixed games' model and learning rate (the paper gives none).
EPOCH, BATCH = "epochs: 1", "steps: 1"
BASELINES = {
    "fedsgd": ("name: fedsgd, server_optimizer: adam", BATCH, "sgd", ()),
    "fedavg": ("name: fedavg", EPOCH, "adam", ()),
    "fedbn": ("name: fedbn", EPOCH, "adam", ("model.batch_norm=true",)),
    "fedprox": ("name: fedprox, mu: 0.01", EPOCH, "adam", ()),
}
# The same until they know their training data by heart, as the paper's FedProx (99.56 %) and FedBN
# do; an epoch of FedSGD is 117 rounds of one batch.
BY_HEART = {
    "fedsgd_long": ("FedSGDByHeart, server_optimizer: adam, examples: 500", BATCH, "sgd"),
    "fedavg_long": ("FedAvgByHeart", EPOCH, "adam"),
    "fedprox_long": ("FedProxByHeart, mu: 0.01", EPOCH, "adam"),
}
METHODS = (*BASELINES, *GAMES)
CALIBRATED = {f"{variant}_calibrated": variant for variant in GAMES}
# "A client best responds to a uniform distribution over the past strategies of its opponents"
# (section 3) is what a smooth history is. Eq. 2 as printed has the current strategy beside the
# past ones, and divides by the number of players all the same; or by the sum of all weights.
EQ_2 = "algorithm.buffer_norm=paper"
NORMALIZED = "algorithm.buffer_norm=normalized"
PRINTED = {f"{variant}_eq2": (variant, (EQ_2,)) for variant in ("f_seq_smooth", "f_par_smooth")}
# phi in every other round, as in Algorithm 1; a warm start of an epoch over both clients' data; an
# end by all training data, as the base has it; C = 25 % of the data for phi, one batch for players.
LITERAL = {
    "v_seq_literal": ("v_seq", ("algorithm.representation_every=2",)),
    "v_seq_warm_234": ("v_seq", ("algorithm.equilibrium.warm_start=234",)),
    "v_seq_all_data": ("v_seq", ("algorithm.equilibrium.examples=null",)),
    "v_seq_phi_25": ("v_seq", ("algorithm.representation_share=0.25",)),
}
# What may decide where a game comes to rest: shorter steps, the weights of a history.
TRIED = {
    "f_par_half_rate": ("f_par", ("algorithm.local.learning_rate={half}",)),
    "f_seq_smooth_normalized": ("f_seq_smooth", (NORMALIZED,)),
    "f_par_smooth_normalized": ("f_par_smooth", (NORMALIZED,)),
    "v_par_smooth_fast_eq2": ("v_par_smooth_fast", (EQ_2,)),
    "v_par_smooth_fast_normalized": ("v_par_smooth_fast", (NORMALIZED,)),
}
READINGS = {**PRINTED, **LITERAL, **TRIED}

CLIENTS: Mapping[str, tuple[float, ...]] = {
    "2": (0.3, 0.1),
    "3": (0.3, 0.2, 0.1),
    "5": (0.3, 0.25, 0.2, 0.15, 0.1),
    "5_uneven": (0.3, 0.2, 0.19, 0.12, 0.1),
    "10": tuple(round(0.3 - 0.2 * client / 9, 6) for client in range(10)),
}
CLASSES = (2, 5, 10)
LOCAL_WORK = (25, 50, 75, 100)
NEVER = "algorithm.equilibrium.threshold=null"

ROUNDS = {"smoke": 12, "quick": 600, "paper": 1000}
# Games that are not ended, whose end under other rules is read off (`fl_games_thresholds`).
UNENDED = {"smoke": 14, "quick": 300, "paper": 1000}
UNENDED_GAMES = ("f_seq", "f_par", "f_par_half_rate", "f_seq_smooth", "f_par_smooth", "v_seq")
CALIBRATED_ON = {"smoke": 14, "quick": 300, "paper": 300}
# The paper's FedSGD and FedAvg have the training accuracy of the colour, which 3 epochs reach.
EPOCHS = {"smoke": 2, "quick": 3, "paper": 3}
# FedBN leaves the colour only when it knows its training data by heart.
FEDBN_EPOCHS = {"smoke": 2, "quick": 30, "paper": 100}
LONG_EPOCHS = {"smoke": 3, "quick": 30, "paper": 200}
ROUNDS_PER_EPOCH = {"smoke": 5, "quick": 117, "paper": 117}
MEASURED = {"smoke": 200, "quick": 1000, "paper": 5000}


def rounds_of(scale: str, variant: str) -> int:
    """The most rounds of a variant; at the paper's size twice as many of variable ones."""
    return ROUNDS[scale] * (2 if scale == "paper" and variant in VARIABLE_GAMES else 1)


def game(
    study: Study, data: str, name: str, variant: str, more: tuple[str, ...] = ()
) -> Experiment:
    """A variant of the game with the data set's rates, as long as the scale allows."""
    fixed, of_phi, beside_phi = RATES[data]
    sets = [
        f"stop.versions={rounds_of(study.scale.name, variant)}",
        f"algorithm.equilibrium.examples={MEASURED[study.scale.name]}",
        f"evaluate.every={50 if study.scale.name == 'quick' else 20}",
        *GAMES[variant],
    ]
    if variant in VARIABLE_GAMES:
        threshold = VARIABLE_THRESHOLD.get(data, 0.55)
        sets += [
            f"algorithm.representation_rate={of_phi}",
            f"algorithm.local.learning_rate={beside_phi}",
            f"algorithm.equilibrium.threshold={threshold}",
        ]
    else:
        sets.append(f"algorithm.local.learning_rate={fixed}")
    if study.scale.name == "smoke":
        sets.append(f"model.hidden={[32] * (3 if variant in VARIABLE_GAMES else 2)}")
    return Experiment(data, name, SCENARIOS / f"{data}.yaml", (*sets, *more))


def calibrated(
    study: Study, data: str, name: str, variant: str, more: tuple[str, ...] = ()
) -> Experiment:
    """A variant whose threshold comes from a run without an end: the first seed's.

    On training data alone: 5th percentile of its accuracy after the warm start, plus 0.02 (IRM
    Games' advice: a little above the low side of the oscillation).
    """
    rounds = CALIBRATED_ON[study.scale.name]
    unended = game(
        study, data, f"{name}_unended", variant, (*more, NEVER, f"stop.versions={rounds}")
    )
    try:
        trials = study.of_first(1).run([unended])
    except OnlyPlanned:
        return game(study, data, name, variant, more)  # which takes as long with any threshold
    if not trials:
        return unended  # its data are absent: it will be left out, too
    run = trials[0].run
    warm_start = warm_start_of(unended, run)
    threshold = round(calibrated_threshold(run, warm_start), 3)
    print(f"  {name} on {data}: settled below a training accuracy of {threshold}", flush=True)
    return game(study, data, name, variant, (*more, f"algorithm.equilibrium.threshold={threshold}"))


def warm_start_of(one: Experiment, run: LoadedRun) -> int:
    """Rounds in which nothing ends a game."""
    played: FLGames = outlined(Scenario.from_yaml(one.scenario, one.overrides)).parts[
        ("algorithm",)
    ]
    return played.warm_start(run.clients["num_examples"].tolist())


def baseline(study: Study, data: str, name: str) -> Experiment:
    """A baseline on the same data: epochs of the scale, or as many rounds of FedSGD as of games."""
    scale = study.scale.name
    small = ("model.hidden=[32, 32]",) if scale == "smoke" else ()
    if name in BY_HEART:
        own, length, optimizer = BY_HEART[name]
        settings, sets = f"name: by_heart.py:{own}", ()
        count = LONG_EPOCHS[scale] * (ROUNDS_PER_EPOCH[scale] if length == BATCH else 1)
    else:
        settings, length, optimizer, sets = BASELINES[name]
        epochs = FEDBN_EPOCHS if name == "fedbn" else EPOCHS
        count = rounds_of(scale, "f_par") if length == BATCH else epochs[scale]
    local = (
        f"{{{length}, batch_size: {SMALLER_BATCH.get(data, 256)},"
        f" learning_rate: {RATES[data][0]}, optimizer: {optimizer}}}"
    )
    return Experiment(
        data,
        name,
        SCENARIOS / f"{data}.yaml",
        (
            f"algorithm={{{settings}, local: {local}}}",
            f"stop.versions={count}",
            f"evaluate.every={max(1, count // 10)}",
            *sets,
            *small,
        ),
    )


def method(study: Study, data: str, name: str) -> Experiment:
    """A row of Table 1."""
    if name in CALIBRATED:
        return calibrated(study, data, name, CALIBRATED[name])
    return (
        played(study, data, name) if name in {**GAMES, **READINGS} else baseline(study, data, name)
    )


def played(study: Study, data: str, name: str, more: tuple[str, ...] = ()) -> Experiment:
    """A variant, or a reading of one."""
    variant, sets = READINGS.get(name, (name, ()))
    own = tuple(one.format(half=RATES[data][0] / 2) for one in sets)
    return game(study, data, name, variant, (*own, *more))


def with_clients(number: str) -> tuple[str, ...]:
    """The extended data sets: as many clients as probabilities."""
    flip = CLIENTS[number]
    return (f"data.flip={list(flip)}", f"population.clients={len(flip)}")


def about(study: Study, data: str) -> str:
    """The data set that stands for one of the paper's at this scale."""
    if study.scale.name == "smoke":
        return DIGITS
    return CIFAR_PART if study.scale.name == "quick" and data == CIFAR else data
