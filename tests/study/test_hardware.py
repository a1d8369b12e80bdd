"""Studies on drawn machines: what is run, what is reported, and that probabilities are right."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from simfl.assembly.assemble import outlined
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.study.hardware import (
    hardware_best,
    hardware_differences,
    hardware_intervals,
    hardware_sentences,
    in_interval,
    in_probability,
    in_share,
)
from simfl.study.loaded import LoadedStudy
from simfl.study.session import StudySession
from simfl.study.studyfile import Best, Study
from simfl.study.worker import work
from tests.study.studies import run_here

MACHINE = {
    "power_idle_w": 2.0,
    "processor": {
        "name": "accelerator",
        "flops_per_s": 1e9,
        "efficiency": 0.5,
        "frequency_min_hz": 1e9,
        "frequency_max_hz": 1e9,
        "power_active_w": 6.0,
        "power_idle_w": 2.0,
    },
}
LINK = {"uplink_bps": 1e6, "downlink_bps": 1e6, "rtt_s": 0.01}
LINK |= {f"power_{state}_w": 0.1 for state in ("transmit", "receive", "idle")}
BASE: dict[str, Any] = {
    "data": {"name": "sizes", "examples_per_client": 100, "input_shape": [20], "outputs": 10},
    "model": {"name": "mlp", "hidden": [32]},
    "population": {
        "name": "catalogue",
        "clients": 2,
        "profiles": ["profiles"],
        "cloud_server": "server",
        "compute_noise": 0.2,
        "groups": [{"device": "board", "link": "line", "share": 1.0}],
    },
    "algorithm": {"name": "none", "local": {"epochs": 1, "batch_size": 10}},
    "protocol": "synchronous",
    "stop": {"versions": 1},
}
STUDY: dict[str, Any] = {
    "name": "tiny",
    "scenario": BASE,
    "points": {"grid": {"algorithm.local.epochs": [1, 2]}},
    "seeds": [1, 2],
    "uncertainty": {"draws": 3},
    "questions": {"metrics": ["time_s", "client_energy_j"]},
}


def profiles(folder: Path, factor: float) -> None:
    """Machines whose only uncertain figure is the board's rate, by a factor."""
    (folder / "profiles").mkdir(exist_ok=True)
    board = copy.deepcopy({"kind": "device", "device_class": "sbc", "memory_bytes": 4e9, **MACHINE})
    interval = {"value": 1e9, "interval": [1e9 / factor, 1e9 * factor]}
    board["processor"] |= {"flops_per_s": interval}
    server = {"kind": "server", "overhead_s": 0.01, "memory_bandwidth_bytes_per_s": 1e9, **MACHINE}
    line = {"kind": "link", "link": {"name": "fixed_rate", **LINK}}
    for name, content in (("board", board), ("server", server), ("line", line)):
        (folder / "profiles" / f"{name}.yaml").write_text(yaml.safe_dump(content))


def session(folder: Path, factor: float = 2.0, **changes: Any) -> StudySession:
    """The tiny study with other keys, on a board whose rate is uncertain by a factor."""
    profiles(folder, factor)
    content = {**STUDY, "scenario": copy.deepcopy(BASE), **changes}
    out = folder / f"out {factor}"
    return StudySession(
        Study.from_mapping(content, folder), out.with_name("other") if out.exists() else out
    )


def ran(one: StudySession) -> LoadedStudy:
    """The study when all is run."""
    assert {outcome.status for outcome in run_here(one)} == {"completed"}
    return one.collect()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[float, LoadedStudy]:
    """The tiny study by the factor up to which the board's rate is sure."""
    folder = tmp_path_factory.mktemp("hardware")
    one_setting = ran(session(folder, 1.5, points={}))
    return {1.5: one_setting, **{factor: ran(session(folder, factor)) for factor in (1.0, 3.0)}}


def test_machines_that_are_sure_are_run_once(found: dict[float, LoadedStudy]) -> None:
    """Draws are then the plain study's own runs: no run more, and no width beside that of seeds."""
    sure = found[1.0]

    assert len(sure.drawn) == 6 and set(sure.drawn["digest"]) <= set(sure.table["digest"])
    assert len(list((sure.path / "runs").iterdir())) == 4
    for metric in ("time_s", "client_energy_j"):
        intervals = hardware_intervals(sure.table, sure.drawn, metric)
        means = sure.table.groupby("point")[metric].mean().to_numpy()
        assert (intervals["low"] == means).all() and (intervals["high"] == means).all()
    assert "no figure of these machines is uncertain" in hardware_sentences(sure)[0]


def test_the_plain_runs_do_not_depend_on_the_spread(found: dict[float, LoadedStudy]) -> None:
    """A plain run takes the values; its figures are those of the study that draws nothing."""
    sure, unsure = (found[factor].table.drop(columns="wall_s") for factor in (1.0, 3.0))
    told = ["digest", "folder", *(name for name in sure if name.startswith("warning"))]

    pd.testing.assert_frame_equal(sure.drop(columns=told), unsure.drop(columns=told))
    assert hardware_sentences(found[3.0]) == [
        "intervals over machines are from 3 drawn ones, the least and the greatest of which hold"
        " 50 % of machines, not 90 %, for which 19 are drawn"
    ]


@pytest.mark.parametrize("draws", [19, 21, 30, 50, 100])
def test_intervals_hold_nine_of_ten_machines(draws: int) -> None:
    """For machines that were not drawn.

    An interval that encloses 90 % of 21 or 50 draws holds only 82 or 88 % of them.
    """
    rng = np.random.default_rng(draws)
    table = pd.DataFrame({"point": [0], "seed": [1], "status": "completed", "time_s": 1.0})
    held = []
    for _ in range(200):
        drawn = pd.DataFrame(
            {
                "point": 0,
                "seed": 1,
                "draw": range(draws),
                "status": "completed",
                "time_s": rng.uniform(0.0, 1.0, draws),
            }
        )
        (one,) = hardware_intervals(table, drawn, "time_s").to_dict("records")
        held.append(one["high"] - one["low"])

    assert 0.89 <= np.mean(held) <= 0.945


@pytest.mark.parametrize(
    ("hardware", "seeds", "count"), [(0.3, 0.05, 5), (0.1, 0.2, 5), (0.02, 0.2, 5), (0.1, 0.3, 3)]
)
def test_intervals_hold_the_mean_over_all_seeds_on_the_true_machine(
    hardware: float, seeds: float, count: int
) -> None:
    """Of 300 studies with 20 draws nine in ten, whichever of the two is wider (spreads of logs)."""
    rng = np.random.default_rng(int(100 * hardware))
    held = []
    for _ in range(300):
        noise = rng.normal(0.0, seeds, (1, count))
        off = rng.normal(0.0, hardware, (1, 20))
        drawn = np.exp(noise[:, np.arange(20) % count] + off)
        (one,) = hardware_intervals(*tables(np.exp(noise), drawn), "time_s").to_dict("records")
        truth = np.exp(rng.normal(0.0, hardware) + seeds**2 / 2)
        held.append(one["low"] <= truth <= one["high"])

    assert 0.88 <= np.mean(held) <= 0.985


def test_machines_that_are_drawn_twice_are_told(found: dict[float, LoadedStudy]) -> None:
    """As after the last draw of a calibrated profile."""
    study = copy.copy(found[3.0])
    assert not any("are different" in one for one in hardware_sentences(study))
    first = study.drawn.loc[study.drawn["draw"] == 0].sort_values("point")["digest"].to_numpy()
    of_last = study.drawn["draw"] == 2
    study.drawn = study.drawn.sort_values("point")
    study.drawn.loc[of_last, "digest"] = first

    (told,) = [one for one in hardware_sentences(study) if "are different" in one]

    assert told.startswith("of 3 drawn machines, with their seeds, 2 are different")


def test_settings_without_a_drawn_run_are_counted(
    found: dict[float, LoadedStudy], tmp_path: Path
) -> None:
    """With one left of two it would be the best for sure: that the other is missing is said."""
    study = copy.copy(found[3.0])
    study.drawn = study.drawn.assign(
        status=study.drawn["status"].where(study.drawn["point"] != 0, "failed")
    )

    assert hardware_best(study.drawn, Best(minimize="time_s"))["is_best"].isna().all()
    assert "finished run on drawn machines: 1;" in hardware_sentences(study)[-1]
    study.drawn = study.drawn[study.drawn["point"] != 0]
    assert hardware_best(study.drawn, Best(minimize="time_s"))["is_best"].tolist() == [1.0]
    assert "finished run on drawn machines: 1;" in hardware_sentences(study)[-1]


def test_a_wider_figure_gives_wider_answers(found: dict[float, LoadedStudy]) -> None:
    """Seconds and joules by 3 as by 1.5 lie further out."""
    for metric in ("time_s", "client_energy_j"):
        narrow, wide = (
            hardware_intervals(found[factor].table, found[factor].drawn, metric).iloc[0]
            for factor in (1.5, 3.0)
        )
        assert wide["low"] < narrow["low"] and wide["high"] > narrow["high"]


def test_a_draw_is_the_same_machine_for_all_settings(found: dict[float, LoadedStudy]) -> None:
    """Seeds go in turn; twice the epochs take twice the computing on every drawn machine."""
    drawn = found[3.0].drawn.pivot(index="draw", columns="algorithm.local.epochs", values="time_s")
    plain = found[3.0].table.pivot(index="seed", columns="algorithm.local.epochs", values="time_s")
    extra = (drawn[2] - drawn[1]).to_numpy()
    seeds = found[3.0].drawn.drop_duplicates("draw")["seed"].tolist()

    assert seeds == [1, 2, 1]
    of_seed = (plain[2] - plain[1]).loc[seeds].to_numpy()
    factors = extra / of_seed
    assert len(set(factors.round(6))) == 3
    first = (drawn[1].to_numpy() - plain[1].loc[seeds].to_numpy()) / of_seed
    assert first == pytest.approx(factors - 1.0, rel=0.3)


def test_neither_order_nor_a_stop_shows(found: dict[float, LoadedStudy]) -> None:
    """The last runs first, and no others: their rows are those of the whole study."""
    first = session(found[3.0].path.parent, 3.0)
    words = "10 runs: 2 settings with 2 seeds, and each setting on 3 drawn machines; 10 of 10"
    assert words in first.cost()
    assert {work(task).status for task in first.tasks(first.todo())[:7:-1]} == {"completed"}
    stopped = first.collect()

    assert stopped.table.empty and stopped.drawn["draw"].tolist() == [2, 2]
    whole = found[3.0].drawn[found[3.0].drawn["draw"] == 2].reset_index(drop=True)
    unlike = ["wall_s", "draw"]
    pd.testing.assert_frame_equal(stopped.drawn.drop(columns=unlike), whole.drop(columns=unlike))


def test_the_digest_of_a_plain_run_is_what_it_was(tmp_path: Path) -> None:
    """The key is left out where it is null, or where nothing is uncertain; else it counts."""
    profiles(tmp_path, 2.0)
    plain = Scenario.from_mapping(BASE, tmp_path)
    drawn = plain.with_overrides({"population.hardware_draw": 3})

    assert "hardware_draw" not in outlined(plain).resolved.to_yaml()
    assert outlined(plain.with_overrides({"population.hardware_draw": None})).digest == (
        outlined(plain).digest
    )
    assert outlined(drawn).digest != outlined(plain).digest
    assert "hardware_draw: 3" in outlined(drawn).resolved.to_yaml()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"uncertainty": {"draws": 1}}, "uncertainty.draws"),
        ({"uncertainty": 50}, "uncertainty"),
        ({"points": {"grid": {"population.hardware_draw": [1, 2]}}}, "draws set that key"),
        (
            {"points": {}, "search": {"trials": 2, "over": {"seed": [1, 2]}, "minimize": "time_s"}},
            "a study of their own",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """With the key, before anything runs."""
    with pytest.raises(ScenarioError, match=words):
        session(tmp_path, **changes)


def test_an_amount_that_may_be_nothing_is_not_less_on_any_machine() -> None:
    """Rounds that were wasted: on some machines none, so that differences are taken, not ratios."""
    table, drawn = (
        one.rename(columns={"time_s": "wasted_rounds"})
        for one in tables(np.array([[1.0, 9.0]]), np.array([[0.0, 2.0, 0.0, 3.0] * 5]))
    )

    (one,) = hardware_intervals(table, drawn, "wasted_rounds").to_dict("records")

    assert one["low"] == 0.0 < one["high"]


def tables(plain: np.ndarray, drawn: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables of runs of these seconds: (settings, seeds) and (settings, draws)."""
    found = []
    for values, name in ((plain, "seed"), (drawn, "draw")):
        point, which = np.indices(values.shape)
        one = pd.DataFrame(
            {"point": point.ravel(), "level": point.ravel(), name: which.ravel()}
        ).assign(time_s=values.ravel(), status="completed")
        found.append(one if name == "seed" else one.assign(seed=one["draw"] % plain.shape[1]))
    return found[0], found[1]


@pytest.mark.slow
def test_the_chance_of_a_ranking_is_right() -> None:
    """Of simulated pairs with a probability of 90 %, so many are in that order."""
    rng = np.random.default_rng(5)
    called, right = [], []
    for _ in range(12):
        levels, seeds, draws = 30, 6, 40
        log_mean = rng.normal(0.0, 0.5, levels)
        noise = rng.normal(0.0, 0.15, (levels, seeds))
        spread = 0.3
        off = rng.normal(0.0, spread, (levels, draws))
        plain = np.exp(log_mean[:, None] + noise)
        drawn = np.exp(log_mean[:, None] + noise[:, np.arange(draws) % seeds] + off)
        truth = log_mean + rng.normal(0.0, spread, levels)
        found = hardware_differences(*tables(plain, drawn), "time_s", "level", 0)
        called += found["holds"].tolist()
        right += (np.sign(truth[1:] - truth[0]) == np.sign(found["difference"])).tolist()
    chance, order = np.array(called), np.array(right)

    near = (chance > 0.85) & (chance < 0.95)
    assert near.sum() > 40 and 0.8 < order[near].mean() < 0.97
    half = (chance > 0.5) & (chance < 0.65)
    assert 0.4 < order[half].mean() < 0.75
    assert order[chance > 0.98].mean() > 0.95


def test_differences_and_chances_by_hand() -> None:
    """Two settings of two seeds, four machines; then no doubt of the seeds, and one seed."""
    plain = np.array([[10.0, 12.0], [8.0, 10.0]])
    drawn = np.array([[10.0, 24.0, 20.0, 6.0], [4.0, 5.0, 24.0, 5.0]])
    found = hardware_differences(*tables(plain, drawn), "time_s", "level", 0).iloc[0]

    # Means 11 and 9, moved by the ratios 1, 2, 2, 0.5 and 0.5, 0.5, 3, 0.5.
    assert found["difference"] == -2.0
    assert (found["hardware_low"], found["hardware_high"]) == (-17.5, 5.0)  # no error over seeds
    assert found["holds"] == 0.75
    assert (found["holds_low"], found["holds_high"]) == pytest.approx(
        stats.binomtest(3, 4).proportion_ci(0.95, "exact")
    )
    one_seed = hardware_differences(*tables(plain[:, :1], drawn[:, ::2]), "time_s", "level", 0)
    assert one_seed["holds"].tolist() == [0.5]
    noisy = np.array([[10.0, 12.0], [8.0, 11.0]])
    unsure = hardware_differences(*tables(noisy, drawn), "time_s", "level", 0).iloc[0]
    # The seeds leave the difference -1.5 an error of 0.5, which goes with the baseline's seconds.
    steps = np.array(
        [6.25 / 0.5, (22 - 9.5 * 5 / 11) / 1.0, -6.5 / 1.0, (5.5 - 9.5 * 5 / 11) / 0.25]
    )
    assert unsure["holds"] == pytest.approx((0.5 + np.arctan(steps) / np.pi).mean())
    # Student's limit of 97.5 % is 25.5 here: each machine's order may be either.
    assert (unsure["holds_low"], unsure["holds_high"]) == (0.0, 1.0)
    # Where no end of the seeds' interval changes an order, few machines are the only doubt left.
    sure = hardware_differences(
        *tables(
            np.array([[10.0, 12.0], [5.0, 7.01]]), np.array([[10.0, 12.0, 20.0], [5.0, 7, 10]])
        ),
        "time_s",
        "level",
        0,
    ).iloc[0]
    assert sure["holds"] == pytest.approx(1.0, abs=0.05)
    assert (sure["holds_low"], sure["holds_high"]) == pytest.approx((0.025 ** (1 / 3), 1.0))
    # Below the low end half of the four machines' lowest is expected, above the high end another.
    differences, errors = np.array([-6.25, 9.5 * 5 / 11 - 22, 6.5, 9.5 * 5 / 11 - 5.5]), [0.5, 1]
    errors = np.array([*errors, 1.0, 0.25])

    def below(number: float) -> float:
        return float((0.5 + np.arctan((number - differences) / errors) / np.pi).sum())

    assert below(unsure["hardware_low"]) == pytest.approx(0.5)
    assert below(unsure["hardware_high"]) == pytest.approx(3.5)


def test_a_missed_target_lies_beyond_every_figure() -> None:
    """A machine that misses it has an interval without an end; the order counts as told."""
    name = "time_to_accuracy_0.5_s"
    plain, drawn = tables(np.array([[10.0, 12.0], [8.0, 10.0]]), np.full((2, 4), np.nan))
    plain, drawn = (one.rename(columns={"time_s": name}) for one in (plain, drawn))
    drawn[name] = [10.0, 12.0, 20.0, 24.0, 8.0, 10.0, np.nan, np.nan]
    found = hardware_differences(plain, drawn, name, "level", 0).iloc[0]
    intervals = hardware_intervals(plain, drawn, name)

    # The error of both means is 1; with two seeds its law is Cauchy's, here of the logarithm.
    lowest, highest = np.log(intervals["low"]), np.log(intervals["high"])
    of_first = np.log([11.0, 11.0, 22.0, 22.0])
    below = [
        (0.5 + np.arctan((end - of_first) * 11.0) / np.pi).sum() for end in (lowest[0], highest[0])
    ]
    assert below == pytest.approx([0.5, 3.5])
    assert 0.5 + np.arctan((lowest[1] - np.log(9.0)) * 9.0) / np.pi == pytest.approx(0.25)
    assert intervals["high"][1] == np.inf
    assert (found["hardware_low"], found["hardware_high"]) == (-2.0, np.inf)
    assert found["holds"] == 0.5


@pytest.mark.parametrize("effect", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("seeds", [3, 10])
@pytest.mark.parametrize("apart", [0.0, 0.5])
def test_intervals_of_an_order_hold_the_share_of_machines(
    effect: float, seeds: int, apart: float
) -> None:
    """Machines change two settings by unlike factors, or (`apart` 0) by the same.

    The order of the latter is that of their means on all machines or on none. An interval of the
    draws alone said of equal settings, in every second study, that an order was likely.
    """
    rng, draws, held, said = np.random.default_rng(3), 20, [], []
    for _ in range(100):
        noise = 0.1 * rng.standard_normal((2, seeds)) + effect * np.array([[0.0], [1.0]])
        off = 0.5 * rng.standard_normal(draws) + apart * rng.standard_normal((2, draws))
        drawn = np.exp(noise[:, np.arange(draws) % seeds] + off)
        found = hardware_differences(*tables(np.exp(noise), drawn), "time_s", "level", 0).iloc[0]
        above = stats.norm.cdf(effect / (math.sqrt(2.0) * apart)) if apart else float(effect > 0)
        share = above if found["difference"] > 0 else 1.0 - above
        held.append(found["holds_low"] - 1e-9 <= share <= found["holds_high"] + 1e-9)
        said.append(found["holds_low"] > 0.5)
        assert found["holds_low"] <= found["holds"] <= found["holds_high"]

    assert np.mean(held) >= 0.91
    assert effect or np.mean(said) < 0.1


def test_the_best_on_drawn_machines() -> None:
    """Settings within the bound in a draw, and the least among them; a tie is shared."""
    _, drawn = tables(
        np.ones((3, 2)),
        np.array([[3.0, 5.0, 9.0, 9.0], [4.0, 4.0, 8.0, 2.0], [9.0, 4.0, 9.0, 1.0]]),
    )
    asked = Best(minimize="time_s", subject_to={"time_s": "<= 5"})
    found = hardware_best(drawn, asked)

    assert found["keeps"].tolist() == [0.5, 0.75, 0.5]
    assert found["is_best"].tolist() == [0.25, 0.125, 0.375]
    most = hardware_best(drawn, Best(maximize="time_s"))
    assert most["is_best"].tolist() == [0.25 + (1 + 1 / 2) / 4 - 1 / 8 + 1 / 8, 0.0, 0.375]


def test_draws_that_a_setting_lacks_say_nothing_of_the_best() -> None:
    """Two settings, one of which has been run on half of the machines so far, the other on all."""
    plain, drawn = tables(np.array([[2.0, 2.0], [1.0, 1.0]]), np.tile([[2.0], [1.0]], 4))
    gone = drawn[(drawn["point"] == 0) | (drawn["draw"] < 2)]
    asked = Best(minimize="time_s", subject_to={"time_s": "<= 5"})

    found = hardware_best(gone, asked)
    difference = hardware_differences(plain, gone, "time_s", "level", 0).iloc[0]

    assert found["keeps"].tolist() == [1.0, 1.0] and found["is_best"].tolist() == [0.0, 1.0]
    assert found["draws"].tolist() == [2, 2] and difference["draws"] == 2
    assert hardware_best(gone[gone["point"] != gone["draw"] % 2], asked).empty


def test_intervals_and_chances_in_words() -> None:
    """Nothing is called sure by so many draws."""
    assert in_interval(118.4, 1510.0) == "118 to 1510"
    assert in_interval(-2.5e-7, 3.456e6) == "-2.5e-07 to 3.46e+06"
    assert in_interval(2.0, 2.0) == "the same"
    assert in_interval(3.0, np.inf) == "3 or more"
    assert in_interval(np.nan, np.nan) == "-"
    assert [in_share(one, 50) for one in (1.0, 0.985, 0.9, 0.0)] == (
        ["> 0.94", "0.98 (0.94 to 1.00)", "0.90 (0.78 to 0.97)", "< 0.06"]
    )
    assert [in_share(one, 2) for one in (1.0, 0.5)] == ["> 0.22", "0.50 (0.01 to 0.99)"]
    assert in_probability(0.999, 0.412, 1.0) == "> 0.41"
    assert in_probability(0.998, 0.412, 0.996) == "1.00 (0.41 to 1.00)"
    assert in_probability(0.78, 0.0, 1.0) == "0.78 (0.00 to 1.00)"
    assert in_probability(np.nan, np.nan, np.nan) == "-"


def test_a_bound_of_a_share_of_draws_holds() -> None:
    """In 1000 times 20 draws of an event with probability 0.9, at most 5 % claim too much."""
    shares = np.random.default_rng(1).binomial(20, 0.9, 1000) / 20
    texts = [in_share(one, 20) for one in shares]

    def holds(text: str) -> bool:
        if text[0] in "<>":
            return (text[0] == ">") == (float(text[2:]) < 0.9)
        low, high = (float(one) for one in text.partition("(")[2].rstrip(")").split(" to "))
        return low <= 0.9 <= high

    assert np.mean([holds(one) for one in texts]) >= 0.95
