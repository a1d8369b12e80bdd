"""Proof that unread keys have no effect: they are changed one by one, and logs are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import simfl
from simfl import Scenario
from simfl.assembly.assemble import outlined
from simfl.assembly.unread import reason_of
from tests.small import small

OUTAGES = {"works": {"mean_s": 0.3}, "broken": {"mean_s": 0.2}}
FRAME: dict[str, Any] = {
    "seed": 5,
    "dtype": "float32",
    "data.partition": "iid",
    "data.validation_share": 0.2,
    "data.noise_variance": [0.5] * 8,
    "model": "linear",
    "population.edges": 4,
    "population.edge_server": "edge_epyc_node",
    "population.cloud_server": "edge_xeon_d",
    "population.server_behind": "backhaul",
    "population.side_m": 1e5,
    "population.start_time": "00:00:01",
    "population.bits_per_value": 1.0,
    "population.availability": {"name": "periodic", "period_s": 1.0, "share": 0.5},
    "population.uplink_codec": "int8",
    "population.downlink_codec": "int8",
    "population.access_sharing": "throughput_fair",
    "population.backhaul_sharing": {"name": "processor_sharing", "capacity_bps": 2e4},
    "population.message_loss": {"probability": 0.5, "timeout_s": 0.1},
    "population.leaving": "abort",
    "population.faults.clients": OUTAGES,
    "population.faults.edge_servers": OUTAGES,
    "population.faults.cloud_link": OUTAGES,
    "population.batteries": {"initial": [1e-6, 2e-6], "lowest": 1e-6, "charge_w": 0.5},
    "algorithm.local.learning_rate": 0.3,
    "algorithm.local.learning_rate_decay": 0.5,
    "algorithm.local.batch_size": 8,
    "algorithm.local.optimizer": "adam",
    "algorithm.local.weight_decay": 0.1,
    "algorithm.local.momentum": 0.5,
    "algorithm.local.keep_optimizer": True,
    "decisions.selection": {"name": "random", "share": 0.6},
    "decisions.association": "random",
    "decisions.scheduling": "random",
    "decisions.allocation": "min_energy",
    "decisions.staleness": {"name": "constant", "value": 0.01},
    "decisions.estimator": "last",
    "stop.versions": 2,
    "evaluate.every": 3,
}
CATALOGUE: dict[str, Any] = {
    "population.groups.0.device": "rpi_5",
    "population.groups.0.band_share": 0.01,
    "population.groups.0.medium": "apart",
    "population.backhaul": "lte_2021",
    "population.speed_spread": 0.5,
    "population.rate_spread": 0.5,
    "population.compute_noise": 0.5,
    "population.transfer_noise": 0.5,
    "population.straggler_mean": 0.5,
    "population.straggler_shift": 0.5,
}
PAPER: dict[str, Any] = {
    "population.cycles_per_example": [3e7, 4e7],
    "population.frequency_max_hz": [1.1e9, 1.2e9],
    "population.frequency_min_hz": 9e8,
    "population.kappa": 2e-28,
    "population.power_static_w": 0.3,
    "population.power_idle_w": 0.3,
    "population.memory_bytes": 1e6,
    "population.access_bps": [1e6, 2e6],
    "population.power_transmit_w": 0.1,
    "population.power_receive_w": 0.1,
    "population.backhaul_bps": 1e5,
    "population.backhaul_j_per_byte": 1e-5,
    "population.latency_s": 0.1,
    "population.noise": 0.5,
}
GAMES: dict[str, Any] = {
    "algorithm.representation_layers": 2,
    "algorithm.representation_rate": 0.1,
    "algorithm.representation_optimizer": "sgd",
    "algorithm.buffer": 1,
    "algorithm.buffer_norm": "paper",
    "algorithm.representation_share": 0.5,
    "algorithm.representation_every": 3,
    "algorithm.local.learning_rate": 0.1,
    "algorithm.local.keep_optimizer": True,
}
REWARDS: dict[str, Any] = {
    "algorithm.upload_share": 0.5,
    "algorithm.clip": 0.001,
    "algorithm.punishment": 50.0,
    "algorithm.rounds": 2,
    "algorithm.threshold": 0.0,
}
VALIDATION = {"validation_share": 0.2}
CFFL = {
    "name": "cffl",
    "contributions": {"accuracy": [0.1 * (1 + client) for client in range(8)]},
    "local": {"epochs": 1, "batch_size": 16, "learning_rate": 0.1},
}
SEMI = {"name": "semi_asynchronous", "edge_rounds": 1, "concurrency": 1}
HIERARCHICAL = {"name": "hierarchical", "edge_rounds": 2}
OVER_SELECTION = {"over_selection": 2.0, "late": "carry_over"}
TIMING = {
    "data": {"name": "sizes", "input_shape": [4]},
    "algorithm": {"name": "none", "local": {"epochs": 1}},
}
ON_PAPER = {"population": {"name": "paper", "clients": 8, "edges": 2}}
GAME = {"name": "fl_games", "local": {"batch_size": 32, "learning_rate": 0.01, "optimizer": "sgd"}}

PIPES = {"name": "max_min", "access_bps": 1e6, "backhaul_bps": 1e6}

BASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "synchronous": ({}, FRAME | CATALOGUE),
    "behind_backhaul": (
        {"population": {"server_behind": "backhaul"}},
        FRAME | CATALOGUE | {"population.server_behind": "access_point"},
    ),
    "carry_over": (
        {"protocol": {"name": "synchronous", "patience": OVER_SELECTION}},
        FRAME | CATALOGUE,
    ),
    "asynchronous": ({"protocol": "asynchronous", "stop": {"versions": 9}}, FRAME),
    "buffered": (
        {"protocol": {"name": "buffered", "buffer": 3}, "stop": {"versions": 6}},
        FRAME,
    ),
    "hierarchical": ({"protocol": HIERARCHICAL}, FRAME | CATALOGUE),
    "semi_asynchronous": ({"protocol": SEMI, "stop": {"versions": 8}}, FRAME | CATALOGUE),
    "by_distance": (
        {
            "protocol": SEMI,
            "stop": {"versions": 6},
            "decisions": {"association": "reputation_hedonic"},
        },
        FRAME,
    ),
    "oort": (
        {"decisions": {"selection": {"name": "oort", "count": 4}}, "stop": {"versions": 9}},
        FRAME,
    ),
    "labels_per_edge": (
        {"data": {"name": "digits", "partition": {"name": "labels_per_edge"}}},
        {"population.edges": 4},
    ),
    "shared": (
        {"population": {"access_sharing": "ofdma_equal"}},
        {"population.edges": 4, "population.groups.0.band_share": 0.01},
    ),
    "max_min_of_access_points": (
        {"population": {"access_sharing": PIPES}, "protocol": HIERARCHICAL},
        {"population.access_sharing.backhaul_bps": 1e3},
    ),
    "max_min_of_the_backhaul": (
        {"population": {"backhaul_sharing": PIPES}, "protocol": HIERARCHICAL},
        {"population.backhaul_sharing.access_bps": 1e3},
    ),
    "one_medium": (
        {
            "population": {
                "access_sharing": {"name": "ofdma_weighted"},
                "groups": [
                    {"device": "rpi_4b", "link": "cell_macro", "share": 0.5, "band_share": 0.5},
                    {"device": "rpi_5", "link": "cell_macro", "share": 0.5, "band_share": 0.5},
                ],
            }
        },
        CATALOGUE | {"population.edges": 4, "population.side_m": 10.0},
    ),
    "comes_and_goes": (
        {"population": {"availability": {"name": "periodic", "period_s": 0.3, "share": 0.5}}},
        FRAME,
    ),
    "by_the_clock": (
        {
            "population": {
                "availability": {
                    "name": "daily_absence",
                    "from_s": 0.02,
                    "to_s": 0.2,
                    "period_s": 0.3,
                }
            }
        },
        {"population.start_time": "00:00:01", "population.leaving": "abort"},
    ),
    "by_group": (
        {
            "population": {
                "groups": [
                    {
                        "device": "rpi_4b",
                        "link": "wifi5_ac",
                        "share": 0.5,
                        "availability": {"name": "periodic", "period_s": 0.3, "share": share},
                        "allocation": {"name": "capped", "share": share},
                    }
                    for share in (0.5, 0.7)
                ]
            }
        },
        {
            "population.availability": {"name": "periodic", "period_s": 1.0, "share": 0.5},
            "decisions.allocation": "min_energy",
            "population.groups.0.availability.share": 0.6,
            "population.groups.1.allocation": "min_energy",
            "population.start_time": "00:00:01",
        },
    ),
    "paper_synchronous": (ON_PAPER, FRAME | PAPER),
    "paper_semi": (ON_PAPER | {"protocol": SEMI, "stop": {"versions": 8}}, FRAME | PAPER),
    "paper_bits": (
        {
            "population": {**ON_PAPER["population"], "cycles_per_bit": [1e3, 2e3]},
            "decisions": {"allocation": {"name": "fedcure"}},
            "protocol": SEMI,
            "stop": {"versions": 8},
        },
        FRAME | PAPER,
    ),
    "timing": (TIMING, FRAME | CATALOGUE),
    "timing_of_steps": (
        TIMING | {"algorithm": {"name": "none", "local": {"steps": 2}}, "protocol": SEMI},
        FRAME,
    ),
    "cffl": ({"data": VALIDATION, "algorithm": CFFL}, REWARDS),
    "cffl_by_reputation": (
        {"data": VALIDATION, "algorithm": {**CFFL, "reward_by": "reputation"}},
        {**REWARDS, "algorithm.threshold": 0.999},
    ),
    "game": ({"algorithm": GAME}, GAMES),
    "game_with_representation": (
        {
            "algorithm": {**GAME, "representation": "variable", "smooth": True},
            "model": {"name": "mlp", "hidden": [12, 8]},
            "stop": {"versions": 8},
        },
        GAMES,
    ),
}

# Shipped rules of association read places, and compare distances with one another only.
MAKES_NO_DIFFERENCE = {("by_distance", "population.side_m")}


def log_of(scenario: Scenario, folder: Path) -> pd.DataFrame:
    """The events of a run, except those of idle edge servers, whose number may be changed."""
    events = simfl.run(scenario, folder).events
    flat = not outlined(scenario).parts[("protocol",)].hierarchical
    ghosts = events["actor"].str.startswith("edge-") & (events["energy_j"] == 0) & flat
    return events[~ghosts].drop(columns="seq").reset_index(drop=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", BASES)
def test_changing_an_unread_key_changes_nothing_and_a_read_one_the_log(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every key of the list, in a composition, in runs that are made with whatever it holds."""
    changes, keys = BASES[name]
    base = small(**({"stop": {"versions": 4}} | changes))
    monkeypatch.setattr("simfl.assembly.assemble.held", lambda *_: {})
    monkeypatch.setattr("simfl.assembly.assemble.refuse_named", lambda *_: None)
    plain = log_of(base, tmp_path / "base")

    wrong = []
    for number, (key, value) in enumerate(keys.items()):
        source = base.where().source.with_value(key, value, "the test")
        changed = Scenario.from_source(source)
        named = next(keys for keys in source.origins if ".".join(map(str, keys)) == key)
        told = reason_of(named, outlined(changed).unread)
        same = log_of(changed, tmp_path / str(number)).equals(plain)
        if same != (told is not None) and (name, key) not in MAKES_NO_DIFFERENCE:
            wrong.append((key, told))

    assert wrong == []
