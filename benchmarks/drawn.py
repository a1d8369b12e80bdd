"""Compositions drawn at random: number n is the same scenario on every machine.

Everything comes from numpy's generator with n as its seed. Another part in the registry shifts
the draws: a number names a composition of one version of simfl.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from simfl.assembly import registry
from simfl.scenario.scenario import Scenario
from simfl.system.traces.tables import intervals_of
from tests.protocols.test_shared_media import FREE
from tests.small import SMALL, small

Keys = dict[str, Any]

LEARNED = 0.25
"""The share of compositions that learn; the others go without, which takes half the time."""
RIVALS = 0.4
"""The share of compositions in which transfers slow one another down."""
TROUBLE = 0.35
"""How often there is each of: lost messages, faults of each kind, batteries."""
RARE = 0.15
"""How often there is each of the keys that few scenarios have."""
MEANS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Of absences, faults and deadlines: shorter and longer than a client's round."""
GOOD_S = (0.03, 0.3, 1.0, 3.0)
"""Means of what a client needs to get a round done: presences, and times between faults."""
RATES_BPS = (2e5, 1e6, 5e7)
WITHOUT_RIVALS: tuple[str | Keys, ...] = ("dedicated", FREE)
DEVICES = ("phone_high_sd865", "phone_entry_heliog80", "rpi_4b", "rpi_zero_2w", "jetson_nano")
LINKS = ("wifi5_ac", "wifi4_n", "wifi6_ax", "ethernet_1g", "lte_2021", "cell_umi")
EQUALS: Keys = {
    "name": "paper",
    "access_bps": [1e6, 1e6],
    "cycles_per_example": [1e5, 1e5],
    "frequency_max_hz": [1e9, 1e9],
    "noise": 0.0,
}
"""Clients of which many do the same at the same moment."""


class Draw:
    """Random choices of one composition, in the order in which they are asked for."""

    def __init__(self, number: int) -> None:
        self._rng = np.random.default_rng(number)

    def one(self, *options: Any) -> Any:
        """One of the options."""
        return options[int(self._rng.integers(len(options)))]

    def whole(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return int(self._rng.integers(low, high + 1))

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return bool(self._rng.random() < probability)

    def between(self, low: float, high: float) -> float:
        """A number between two."""
        return float(self._rng.uniform(low, high))


def composition(number: int, folder: Path) -> Keys:
    """What `tests.small.small` is changed by; files that it names are written into `folder`."""
    draw = Draw(number)
    learns = draw.chance(LEARNED)
    names = [name for name in registry.names("algorithms") if name != "none"]
    name = draw.one(*names) if learns else "none"
    clients = draw.whole(3, 10)
    protocol = _protocol(draw)
    population = {**_hardware(draw), **_population(draw, clients, folder)}
    if draw.chance(RIVALS):
        for hop in ("access_sharing", "backhaul_sharing"):
            population[hop] = _way(draw)
    else:
        for hop in ("access_sharing", "backhaul_sharing"):
            population[hop] = draw.one(*WITHOUT_RIVALS)
    drawn = {
        "seed": draw.whole(0, 2**31),
        "data": _data(draw, name),
        "population": population,
        "algorithm": _algorithm(draw, name, clients),
        "protocol": protocol,
        "decisions": _decisions(draw),
        "evaluate": {"every": draw.whole(1, 3), "clients": learns and draw.chance(0.1)},
        "stop": _stop(draw),
        "log": {"rows_per_segment": draw.one(100_000, 100_000, 20)},
    }
    _add_rare_keys(draw, drawn, learns)
    return drawn


def scenario_of(keys: Keys) -> Scenario:
    """The scenario; raises `ScenarioError` where the frame refuses it."""
    return small(**keys)


def has_rivals(keys: Keys) -> bool:
    """Whether transfers slow one another down, so that the two executors may differ."""
    population = keys["population"]
    hops = ("access_sharing", "backhaul_sharing")
    return any(population[hop] not in WITHOUT_RIVALS for hop in hops)


def asks_the_world(keys: Keys) -> bool:
    """Whether estimates are means of draws, fewer over channels than over links of their own."""
    return bool(keys["decisions"].get("estimator", {}).get("name") == "oracle")


def over(keys: Keys, access: str | Keys, backhaul: str | Keys) -> Keys:
    """The same composition with its messages sent in another way."""
    sharing = {"access_sharing": access, "backhaul_sharing": backhaul}
    return {**keys, "population": {**keys["population"], **sharing}}


def _add_rare_keys(draw: Draw, drawn: Keys, learns: bool) -> None:
    """Keys that few scenarios have, one by one; they are drawn last."""
    population, protocol = drawn["population"], drawn["protocol"]
    rare = draw.chance
    if rare(RARE) and "patience" in protocol:
        limit_s = draw.one(None, *MEANS_S)
        protocol["wait_for"] = {"clients": draw.whole(1, 2), "limit_s": limit_s}
    if rare(RARE):
        population["client_idle"] = draw.one("present", "rounds")
    if rare(RARE):
        population["server_idle_share"] = draw.one(0.0, 0.1)
    if rare(RARE):
        population["server_behind"] = "backhaul"
    if rare(RARE):
        population["start_time"] = "23:59"
    if rare(RARE) and population["name"] == "catalogue":
        group = {"allocation": draw.one("min_energy", "deadline", "fedcure")}
        group["availability"] = {"name": "absence", "from_s": draw.one(0.0, 0.1), "share": 0.5}
        first, *others = population["groups"]
        population["groups"] = [{**first, **group}, *others]
    if rare(RARE):
        drawn["evaluate"]["measures"] = ["participation", "round_latency", "waiting"]
    if rare(RARE) and learns:
        drawn["stop"] |= draw.one({"accuracy": 0.2}, {"loss": 2.0}, {"plateau": {"versions": 2}})
    if rare(RARE) and learns:  # it may diverge, and its clients alone as well
        drawn["algorithm"]["contributions"] = {}
        drawn["algorithm"]["local"]["learning_rate"] = draw.one(1e3, 1e30)


def _algorithm(draw: Draw, name: str, clients: int) -> Keys:
    training = draw.one({"epochs": 1}, {"steps": 1}, {"steps": 3})
    local = {**training, "batch_size": draw.one(8, 16), "learning_rate": 0.1}
    section: Keys = {"name": name, "local": local}
    if name != "none" and draw.chance(0.5):  # without, clients train alone first
        section["contributions"] = {"accuracy": [draw.between(0.1, 1.0) for _ in range(clients)]}
    return section


def _data(draw: Draw, algorithm: str) -> Keys:
    needs = registry.resolve("algorithms", algorithm, Path()).needs_validation
    partitions = (
        "iid",
        {"name": "dirichlet", "alpha": 0.5},
        {"name": "class_imbalance", "total": 1000},
        {"name": "power_law", "total": 1000},
        "labels_per_edge",
        "shards",
    )
    return {"partition": draw.one(*partitions), "validation_share": 0.2 if needs else 0.0}


def _hardware(draw: Draw) -> Keys:
    groups = [
        {
            "device": draw.one(*DEVICES),
            "link": draw.one(*LINKS),
            "share": 0.5,
            "band_share": draw.one(0.1, 1.0),
            "medium": draw.one(None, "air"),
        }
        for _ in range(2)
    ]
    noise = {"compute_noise": draw.one(0.0, 0.1), "transfer_noise": draw.one(0.0, 0.1)}
    catalogue = {"name": "catalogue", "groups": groups, **noise}
    stragglers = {**SMALL["population"], "straggler_mean": 1.0}
    paper = {"name": "paper", "latency_s": draw.one(0.0, 0.003), "power_idle_w": 0.1}
    shipped = (SMALL["population"], stragglers, {"name": "device"}, paper, EQUALS)
    return dict(draw.one(catalogue, catalogue, *shipped))


def _population(draw: Draw, clients: int, folder: Path) -> Keys:
    codecs = [
        "float32",
        "float16",
        "int8",
        {"name": "sparse_mask", "share": 0.3},
        {"name": "top_k", "share": 0.2},
    ]
    section: Keys = {
        "clients": clients,
        "edges": draw.whole(1, 3),
        "availability": _availability(draw, folder),
        "leaving": draw.one("ignore", "pause", "abort"),
        "message_loss": _loss(draw) if draw.chance(TROUBLE) else None,
        "faults": {
            "clients": _outages(draw) if draw.chance(TROUBLE) else None,
            "edge_servers": _outages(draw) if draw.chance(TROUBLE) else None,
            "cloud_link": _outages(draw) if draw.chance(TROUBLE) else None,
        },
        "batteries": _batteries(draw) if draw.chance(TROUBLE) else None,
    }
    for codec in ("uplink_codec", "downlink_codec"):
        section[codec] = draw.one("float32", draw.one(*codecs))
    return section


def _loss(draw: Draw) -> Keys:
    return {
        "probability": draw.one(0.1, 0.1, 0.3, 0.3, 0.6, 0.9, 1.0),
        "timeout_s": draw.one(0.0, 0.01, 0.05),
        "attempts_max": draw.whole(1, 4),
        "backoff": draw.one(1.0, 2.0),
    }


def _sojourn(draw: Draw, means_s: tuple[float, ...] = MEANS_S) -> Keys:
    law = draw.one("exponential", "exponential", "weibull", "lognormal")
    shape = {} if law == "exponential" else {"shape": draw.one(0.4, 1.0, 2.0)}
    return {"mean_s": draw.one(*means_s), "law": law, **shape}


def _outages(draw: Draw) -> Keys:
    return {"works": _sojourn(draw, GOOD_S), "broken": _sojourn(draw)}


def _availability(draw: Draw, folder: Path) -> str | Keys:
    name = draw.one("always", "always", "periodic", "daily_absence", "renewal", "renewal", "trace")
    period_s = draw.one(*MEANS_S)
    if name == "periodic":
        return {"name": name, "period_s": period_s, "share": draw.one(0.1, 0.5, 0.9, 1.0)}
    if name == "daily_absence":
        begin = draw.one(0.0, 0.25, 0.5)
        hours = {"from_s": begin * period_s, "to_s": draw.one(0.75, 1.0) * period_s}
        return {"name": name, "share": draw.one(0.3, 1.0), "period_s": period_s, **hours}
    if name == "renewal":
        beta = {"share_beta": [0.5, 2.0]} if draw.chance(0.2) else {}
        stays = {"present": _sojourn(draw, GOOD_S), "absent": _sojourn(draw)}
        return {"name": name, **stays, **beta}
    if name == "trace":
        file = folder / "trace.parquet"
        intervals_of([_trace(draw) for _ in range(draw.whole(1, 12))])[0].write(file)
        return {
            "name": name,
            "file": str(file),
            "order": draw.one("drawn", "listed"),
            "offset_s": draw.one(0.0, 0.5, 7.3),
        }
    return str(name)


def _trace(draw: Draw) -> tuple[list[tuple[float, float]], float]:
    """When one client is there, and after how long that begins again."""
    period_s = draw.one(1.0, 2.0)
    moments_s = sorted({round(draw.between(0.0, period_s), 2) for _ in range(2 * draw.whole(0, 3))})
    if draw.chance(0.3) and moments_s:  # there when the trace begins again
        moments_s[-1] = period_s
    return list(zip(moments_s[::2], moments_s[1::2], strict=False)), period_s


def _batteries(draw: Draw) -> Keys:
    """A phone's battery holds 17 to 19 kJ per cell: these are tenths of a joule."""
    high = draw.one(3e-6, 1e-5, 1e-4)
    plug_in_s = draw.one(0.0, 0.2)
    section: Keys = {
        "initial": [draw.one(0.0, 0.5 * high), high],
        "lowest": high / 3,
        "charge_w": draw.one(0.0, 1.0, 20.0),
        "plug_in_s": plug_in_s,
        "unplug_s": plug_in_s + draw.one(0.3, 43_200.0),
        "hours_spread_s": draw.one(0.0, 0.2),
    }
    if draw.chance(0.3):
        section["harvest_w"] = [[0.0, 0.0], [0.1, draw.one(0.5, 10.0)], [0.6, 0.1]]
        section["harvest_spread"] = draw.one(0.0, 0.5)
    return section


def _protocol(draw: Draw) -> Keys:
    name = draw.one(*registry.names("protocols"))
    rounds, at_once = draw.whole(1, 3), draw.whole(1, 9)
    patience = {
        "deadline_s": draw.one(None, *MEANS_S),
        "over_selection": draw.one(1.0, 1.5, 3.0),
        "late": draw.one("drop", "carry_over"),
    }
    keys: dict[str, Keys] = {
        "synchronous": {"patience": patience},
        "hierarchical": {"edge_rounds": rounds, "patience": patience},
        "semi_asynchronous": {
            "edge_rounds": rounds,
            "concurrency": min(at_once, 3),
            "patience": patience,
        },
        "asynchronous": {"concurrency": at_once, "mixing": draw.one("model", "delta")},
        "buffered": {"buffer": draw.whole(1, 4), "concurrency": draw.one(None, at_once)},
    }
    return {"name": name, **keys[name]}


def _decisions(draw: Draw) -> Keys:
    """Most rules go by their defaults: two that are told apart from the others suffice."""
    section: Keys = {}
    if draw.chance(0.6):
        name = draw.one(*(name for name in registry.names("selection") if name != "all"))
        section["selection"] = {"name": name, **draw.one({"count": 2}, {"share": 0.5})}
    for kind in ("association", "scheduling", "allocation", "staleness", "estimator"):
        if draw.chance(0.3):
            name = draw.one(*registry.names(kind))
            capped = {"frequency_hz": 1e9} if name == "capped" else {}
            section[kind] = {"name": name, **capped}
    return section


def _stop(draw: Draw) -> Keys:
    section: Keys = {"versions": draw.whole(2, 6), "time_s": draw.one(0.5, 1.0, 3.0)}
    if draw.chance(0.1):
        section |= draw.one({"energy_j": 2.0}, {"bytes": 5e5})
    return section


def _way(draw: Draw) -> str | Keys:
    name = draw.one(*registry.names("sharing"))
    if name == "dedicated":
        return str(name)
    keys: dict[str, Keys] = {
        "fifo": {"channels": draw.whole(1, 3)},
        "processor_sharing": {"capacity_bps": draw.one(*RATES_BPS)},
        "max_min": {
            "access_bps": draw.one(*RATES_BPS),
            "backhaul_bps": draw.one(*RATES_BPS),
        },
    }
    return {"name": name, **keys.get(name, {})}
