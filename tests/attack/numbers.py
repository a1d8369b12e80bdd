"""Scenarios of many numbers, with files of their own hardware, and what may stand in for each."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simfl.scenario.yaml_source.text import parse

DEVICES = Path(__file__).parents[2] / "devices"
Place = tuple[str | int, ...]

EXTREME: tuple[Any, ...] = (
    0,
    -1,
    1,
    1e-300,
    1e300,
    1e12,
    10**12,
    5e-324,
    float("nan"),
    float("inf"),
    10**400,
    -0.0,
    1e-9,
    1e9,
    1e-3,
    1e10,
    1e30,
    1e-60,
    0.999999999999,
    2,
    7,
    1e-6,
    1e3,
    1e6,
    [1e300] * 3,
    [0.5] * 10_000,
)
WORK = {
    "accuracy",
    "batch_size",
    "bytes",
    "clients",
    "epochs",
    "edge_rounds",
    "energy_j",
    "examples",
    "examples_per_client",
    "hidden",
    "loss",
    "proposals_per_client",
    "seed",
    "steps",
    "time_s",
    "versions",
}
"""Keys that say how much is to be done: much takes long, which is nobody's mistake."""

SOJOURN = {"mean_s": 0.3, "law": "weibull", "shape": 0.5}
THERMAL = {
    "thermal_resistance_k_per_w": 8.0,
    "heat_capacity_j_per_k": 40.0,
    "temperature_rest_c": 25.0,
    "temperature_hot_c": 45.0,
    "temperature_cool_c": 42.0,
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "availability": (
        {"name": "periodic", "period_s": 20.0, "share": 0.7},
        {"name": "daily_absence", "share": 0.5, "from_s": 1.0, "to_s": 2.0, "period_s": 9.0},
        {
            "name": "renewal",
            "present": SOJOURN,
            "absent": {**SOJOURN, "law": "lognormal"},
            "share_beta": [0.5, 4.75],
            "diurnal": {"swing": 0.37, "peak_s": 14400.0, "period_s": 86400.0},
        },
    ),
    "access_sharing": (
        "dedicated",
        {"name": "processor_sharing", "capacity_bps": 1e8},
        {"name": "fifo", "channels": 2},
    ),
    "backhaul_sharing": ("dedicated", {"name": "processor_sharing", "capacity_bps": 1e8}),
    "leaving": ("ignore", "pause", "abort"),
    "message_loss": ({"probability": 0.1, "timeout_s": 0.05, "attempts_max": 3, "backoff": 2.0},),
    "faults": (
        {
            kind: {"works": {"mean_s": 30.0}, "broken": {"mean_s": 1.0}}
            for kind in ("clients", "edge_servers", "cloud_link")
        },
    ),
    "batteries": (
        {
            "charge_w": 5.0,
            "plug_in_s": 0.0,
            "unplug_s": 43200.0,
            "hours_spread_s": 60.0,
            "harvest_w": [[0.0, 0.0], [21600.0, 2.0], [64800.0, 0.0]],
            "harvest_spread": 0.3,
            "initial": [0.5, 1.0],
            "lowest": 0.2,
        },
    ),
}
SPREADS = {
    "speed_spread": 0.3,
    "rate_spread": 0.3,
    "compute_noise": 0.05,
    "transfer_noise": 0.05,
    "straggler_mean": 0.5,
    "straggler_shift": 1.0,
    "side_m": 500.0,
    "bits_per_value": 8.0,
}
PATIENCE = {"deadline_s": 5.0, "over_selection": 1.5, "late": "carry_over"}
PROTOCOLS: tuple[dict[str, Any], ...] = (
    {"name": "synchronous", "patience": PATIENCE},
    {"name": "asynchronous", "concurrency": 3},
    {"name": "buffered", "buffer": 2, "concurrency": 3, "server_learning_rate": 1.0},
    {"name": "hierarchical", "edge_rounds": 2, "patience": PATIENCE},
    {"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 1, "patience": PATIENCE},
)
DECISIONS: dict[str, tuple[Any, ...]] = {
    "allocation": (
        "max",
        {"name": "fedcure", "alpha": 1.0, "gamma": 0.25, "s": 2.0},
        {"name": "deadline", "deadline_s": 5.0, "slack": 1.0},
        {"name": "capped", "frequency_hz": 1e9},
    ),
    "staleness": (
        {"name": "exponential", "initial": 0.2, "base": 0.9},
        {"name": "hinge", "initial": 0.6, "limit": 6, "slope": 10.0},
        {"name": "polynomial", "initial": 0.6, "exponent": 0.5},
    ),
    "estimator": (
        {"name": "ewma", "weight": 0.3},
        {
            "name": "nig",
            "prior_weight": 1.0,
            "prior_shape": 2.0,
            "prior_spread": 0.25,
            "forgetting": 1.0,
        },
    ),
    "scheduling": ("greedy", {"name": "fedcure", "beta": 0.5, "participation": 0.8}),
}
LOCAL = {"epochs": 1, "batch_size": 64, "learning_rate": 0.1, "momentum": 0.5, "weight_decay": 0.01}
LINKS = ("lte_2021", "wifi5_ac", "cell_umi", "cell_macro", "nr_sub6_lowband")


def scenario(rng: random.Random) -> dict[str, Any]:
    """A small scenario of parts chosen at random, on hardware of the folder `own`."""
    population: dict[str, Any] = {
        "name": "catalogue",
        "clients": 6,
        "edges": 2,
        "profiles": ["own"],
        "groups": [
            {"device": "mine", "link": "air", "share": 0.5},
            {"device": "hot", "link": "air", "share": 0.5},
        ],
        "backhaul": "wire",
        **SPREADS,
    }
    for key, several in CHOICES.items():
        if rng.random() < 0.4:
            population[key] = rng.choice(several)
    trains = rng.random() < 0.3
    return {
        "name": "extreme",
        "seed": 1,
        "data": {"name": "digits", "partition": {"name": "dirichlet", "alpha": 1.0}},
        "model": "linear",
        "population": population,
        "algorithm": {"name": "fedavg", "local": LOCAL} if trains else {"name": "none"},
        "protocol": rng.choice(PROTOCOLS),
        "decisions": {key: rng.choice(several) for key, several in DECISIONS.items()},
        "stop": {"versions": 3, "time_s": 1e5},
    }


def hardware(rng: random.Random) -> dict[str, dict[str, Any]]:
    """Files of the folder `own`: two devices, one of which gets hot, and two links."""
    names = {"mine": "rpi_4b", "hot": "phone_high_sd865", "air": rng.choice(LINKS)}
    names["wire"] = "wan_edge_cloud"
    files = {}
    for name, shipped in names.items():
        found = parse((DEVICES / f"{shipped}.yaml").read_text(), shipped)[0]
        files[name] = {
            key: value for key, value in found.items() if key not in ("sources", "unverified")
        }
    processor = files["hot"]["processor"]
    levels = [processor["frequency_min_hz"], processor["frequency_max_hz"]]
    processor.update(THERMAL, name="thermal_cpu", frequency_levels_hz=levels)
    return files


def places(value: Any, above: Place = ()) -> Iterator[Place]:
    """Where numbers stand in `value`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*above, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*above, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield above


def put(content: Any, place: Place, value: Any) -> None:
    """`value` at `place` of `content`."""
    *above, last = place
    for step in above:
        content = content[step]
    content[last] = value
