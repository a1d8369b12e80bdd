"""Misbehaving plug-ins of every kind: one line with the part's name, and a run that is closed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from simfl.cli.app import app

HEAD = """
import sys
from dataclasses import dataclass, replace
from typing import ClassVar
import numpy as np
import torch
from torch import nn
from simfl.algorithms.base import Algorithm, ServerState, Work
from simfl.decisions.base import Allocation, Association, Estimator
from simfl.decisions.base import Scheduling, Selection, Staleness
from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.job import Brief, LocalTraining, Price, Recipe
from simfl.learning.partitions.base import Partition
from simfl.measures.base import Measure
from simfl.protocols.base import Protocol
from simfl.system.codecs.base import Codec
from simfl.system.cost import ComputeCost, TransferCost
from simfl.system.cpu import Cpu
from simfl.system.link import FixedRateLink
from simfl.system.populations.catalogue import CatalogueMix
from simfl.system.sharing.base import Sharing
"""

# Kind: base class, the method that is asked, and what stands beside it in the class.
KINDS = {
    "selection": ("Selection", "decide(self, memory, view, rng)", ""),
    "allocation": ("Allocation", "decide(self, view, rng)", ""),
    "association": ("Association", "decide(self, view, rng)", ""),
    "scheduling": ("Scheduling", "decide(self, memory, view, rng)", ""),
    "staleness": ("Staleness", "share(self, staleness)", ""),
    "estimator": (
        "Estimator",
        "estimate(self, memory, prior_s)",
        "def initial(self): return (0.0,)\n"
        "    def observe(self, memory, duration_s, prior_s): return memory",
    ),
    "aggregate": ("Algorithm", "aggregate(self, state, updates, evaluator)", ""),
    "brief": ("Algorithm", "brief(self, network, state, client, held)", ""),
    "price": ("Algorithm", "price(self, network, client, version)", ""),
    "recipe": ("Algorithm", "recipe(self, network, version)", ""),
    "players": ("Algorithm", "players(self, version, clients)", ""),
    "server_work": ("Algorithm", "server_work(self, network, version, up_bytes)", ""),
    "report": ("Algorithm", "report(self, state, updates)", ""),
    "loss": ("Algorithm", "loss(self, parameters, batch)", ""),
    "merge": ("Algorithm", "merge(self, state, lower, shares)", ""),
    "model": (
        "nn.Module",
        "forward(self, inputs)",
        "def __init__(self):\n        super().__init__()\n        self.head = nn.Linear(64, 10)",
    ),
    "dataset": ("Dataset", "load(self, root, seed)", ""),
    "partition": ("Partition", "split(self, targets, home_edge, natural, rng)", ""),
    "protocol": ("Protocol", "process(self, run)", ""),
    "population": ("CatalogueMix", "build(self, streams, catalogue)", ""),
    "codec": ("Codec", "encoded_bytes(self, raw_bytes)", ""),
    "sharing": ("Sharing", "rates_bps(self, flows)", ""),
    "processor": ("Cpu", "compute(self, cycles, frequency_hz)", ""),
    "link": ("FixedRateLink", "transmit(self, bits, uplink, rate_factor=1.0, jitter=None)", ""),
    "measure": ("Measure", "compute(self, run)", ""),
}
ANY = {
    "none": "return None",
    "value_error": "raise ValueError('boom')",
    "key_error": "raise KeyError('boom')",
    "exit": "sys.exit(0)",
}
ROWS = "rows = np.array_split(np.arange(len(targets)), len(home_edge)); "
DATA = (
    "x, y = torch.rand(80, 64), torch.arange(80) % 10; one = Examples(x, y); {}; "
    "return Data(one, one, 'classification', {})"
)
NEW_WORLD = "world = super().build(streams, catalogue); return replace(world, {})"
STATE = (
    "w = {{k: v.clone() for k, v in state.weights.items()}}; {}; return replace(state, weights=w)"
)
OWN = {
    "selection": {
        "text": "return memory, 'all'",
        "half": "return memory, view.clients + 0.5",
        "negative": "return memory, -view.clients",
        "strangers": "return memory, view.clients + 100",
        "twice": "return memory, np.repeat(view.clients, 2)",
        "nobody": "return memory, []",
        "shape": "return memory, view.clients[:, None]",
        "ragged": "return memory, [[0], [1, 2]]",
        "in_place": "view.clients[:] = 99; return memory, view.clients",
        "three": "return memory, view.clients, 1",
    },
    "allocation": {
        "nan": "return np.full(view.clients.size, np.nan)",
        "negative": "return -view.frequency_max_hz",
        "shape": "return np.ones(view.clients.size + 1)",
        "one": "return np.array([1e9])",
        "text": "return ['fast'] * view.clients.size",
        "complex": "return view.frequency_max_hz * 1j",
        "in_place": "view.clients[:] = 0; return view.frequency_max_hz",
        "inf": "return np.full(view.clients.size, np.inf)",
    },
    "association": {
        "negative": "return np.full(view.clients.size, -1), {}",
        "half": "return view.home_edge + 0.5, {}",
        "strangers": "return view.home_edge + 7, {}",
        "shape": "return view.home_edge[:-1], {}",
        "details": "return view.home_edge, {'x': object()}",
        "numpy": "return view.home_edge, {np.int64(1): np.float32(2.0)}",
        "in_place": "view.home_edge[:] = 0; return view.home_edge, {}",
    },
    "scheduling": {
        "negative": "return memory, -1, {}",
        "half": "return memory, 0.5, {}",
        "text": "return memory, '0', {}",
        "nobody": "return memory, None, {}",
        "details": "return memory, int(np.flatnonzero(view.idle)[0]), {'x': object()}",
        "no_details": "return memory, int(np.flatnonzero(view.idle)[0]), None",
        "in_place": "view.data_share[:] = 9; return memory, int(np.flatnonzero(view.idle)[0]), {}",
    },
    "staleness": {
        "negative": "return -0.5",
        "large": "return 1.5",
        "nan": "return np.nan",
        "shape": "return np.full(7, 0.5)",
        "text": "return 'half'",
        "numpy": "return np.float32(0.5)",
    },
    "estimator": {
        "negative": "return np.full(len(memory), -1.0)",
        "shape": "return np.ones(len(memory) + 1)",
        "text": "return ['soon'] * len(memory)",
        "scalar": "return 1.0",
    },
    "aggregate": {
        "text": "return 'state'",
        "in_place": "[v.mul_(0.5) for v in state.weights.values()]; return state",
        "payload": "[v.zero_() for v in updates[0].payload.values()]; return state",
        "swapped": "state.weights['x'] = torch.ones(1); return state",
        "missing": STATE.format("w.popitem()"),
        "shape": STATE.format("k = next(iter(w)); w[k] = w[k][:1]"),
        "double": STATE.format("w = {k: v.double() for k, v in w.items()}"),
        "arrays": STATE.format("w = {k: v.numpy() for k, v in w.items()}"),
        "nan": STATE.format("w = {k: v * float('nan') for k, v in w.items()}"),
        "weights": "return replace(state, weights=None)",
    },
    "brief": {
        "text": "return 'brief'",
        "in_place": "[v.add_(1) for v in state.weights.values()]\n"
        "        return super().brief(network, state, client, held)",
        "empty": "return replace(super().brief(network, state, client, held), start={})",
        "recipe": "return replace(super().brief(network, state, client, held), recipe=None)",
    },
    "price": {
        "negative": "return Price(-1, 10)",
        "half": "return Price(0.5, 10)",
        "nan": "return Price(10, 10, float('nan'))",
        "work": "return Price(10, 10, -1.0)",
        "inf": "return Price(10, 10, float('inf'))",
        "huge": "return Price(10**30, 10)",
        "text": "return Price('10', 10)",
        "tuple": "return (10, 10)",
        "numpy": "return Price(np.int64(10), np.int32(10), np.float32(1.0))",
    },
    "recipe": {
        "text": "return 'train'",
        "strangers": "return Recipe(self.local, trainable=frozenset({'nothing'}))",
        "epochs": "return Recipe(LocalTraining(epochs=-1))",
        "batch": "return Recipe(LocalTraining(batch_size=0))",
    },
    "players": {
        "strangers": "return [99]",
        "half": "return [0.5]",
        "twice": "return [0, 0]",
        "text": "return 'all'",
    },
    "server_work": {
        "negative": "return Work(-1.0, 1.0)",
        "nan": "return Work(float('nan'), 1.0)",
        "inf": "return Work(1.0, float('inf'))",
        "tuple": "return (1.0, 1.0)",
        "text": "return Work('much', 1.0)",
    },
    "report": {
        "object": "return {'x': object()}",
        "text_value": "return {'value': 'much'}",
        "list": "return [1, 2]",
        "numpy": "return {'value': np.float32(1.0), 'flags': np.array([True]), 3: np.int64(1)}",
    },
    "loss": {
        "scalar": "return super().loss(parameters, batch).sum()",
        "number": "return 1.0",
        "in_place": "\n        with torch.no_grad():\n"
        "            [v.mul_(0.5) for v in parameters.values()]\n"
        "        return super().loss(parameters, batch)",
        "shape": "return super().loss(parameters, batch)[:, None]",
    },
    "merge": {
        "text": "return 'state'",
        "in_place": "[v.mul_(0) for v in state.weights.values()]; return state",
    },
    "model": {
        "shape": "return self.head(inputs.flatten(1))[:, :3]",
        "double": "return self.head(inputs.flatten(1)).double()",
        "text": "return 'logits'",
        "in_place": "self.head.weight.data.mul_(0.5); return self.head(inputs.flatten(1))",
        "nan": "return self.head(inputs.flatten(1)) * float('nan')",
        "in_training": "\n        if self.training and len(inputs) > 2: raise KeyError('boom')\n"
        "        return self.head(inputs.flatten(1))",
    },
    "dataset": {
        "text": "return 'data'",
        "labels": DATA.format("one = Examples(x, y + 90)", 10),
        "negative": DATA.format("one = Examples(x, y - 5)", 10),
        "nan": DATA.format("x[3, 4] = float('nan')", 10),
        "inf": DATA.format("x[3, 4] = float('inf')", 10),
        "features": DATA.format("one = Examples(x[:, :0], y)", 10),
        "rows": DATA.format("one = Examples(x[:0], y[:0])", 10),
        "outputs": DATA.format("pass", -3),
        "real_labels": DATA.format("one = Examples(x, y + 0.5)", 10),
        "length": DATA.format("one = Examples(x, y[:3])", 10),
    },
    "partition": {
        "negative": ROWS + "rows[0][0] = -1; return rows",
        "large": ROWS + "rows[0][0] = 10**6; return rows",
        "half": ROWS + "return [own + 0.5 for own in rows]",
        "few": ROWS + "return rows[1:]",
        "many": ROWS + "return [*rows, rows[0]]",
        "empty": ROWS + "rows[0] = rows[0][:0]; return rows",
        "mask": ROWS + "return [own > 3 for own in rows]",
        "text": ROWS + "return ['all'] * len(rows)",
        "shape": ROWS + "return [own[:, None] for own in rows]",
        "lists": ROWS + "return [own.tolist() for own in rows]",
        "in_place": ROWS + "targets[:] = 0; return rows",
    },
    "protocol": {
        "text": "yield from run.client_rounds('all', run.begin('cloud'), 0)",
        "negative": "yield from run.client_rounds(np.array([-1]), run.begin('cloud'), 0)",
        "late": "yield run.clock.until(float('nan'))",
        "stuck": "yield run.env.event()",
    },
    "population": {
        "text": "return 'world'",
        "few": NEW_WORLD.format("device_index=world.device_index[:3]"),
        "negative": NEW_WORLD.format("speed_factor=-world.speed_factor"),
        "nan": NEW_WORLD.format("rate_factor=world.rate_factor * np.nan"),
        "strangers": NEW_WORLD.format("home_edge=world.home_edge + 50"),
        "half": NEW_WORLD.format("device_index=world.device_index + 0.5"),
        "places": NEW_WORLD.format("position_m=world.position_m[:, 0]"),
        "lists": NEW_WORLD.format("work_factor=world.work_factor.tolist()"),
        "devices": NEW_WORLD.format("devices=['phone'] * len(world.devices)"),
    },
    "codec": {
        "negative": "return -np.asarray(raw_bytes)",
        "half": "return np.asarray(raw_bytes) + 0.5",
        "nan": "return np.asarray(raw_bytes) * np.nan",
        "shape": "return 10",
        "text": "return 'small'",
        "header": "return np.asarray(raw_bytes) + 8",
        "floats": "return np.floor(np.asarray(raw_bytes) / 2.0)",
        "huge": "return np.asarray(raw_bytes) * 1e300",
        "in_place": "raw_bytes[...] = 0; return raw_bytes",
    },
    "sharing": {
        "negative": "return -flows.rate_bps",
        "nan": "return flows.rate_bps * np.nan",
        "inf": "return flows.rate_bps * np.inf",
        "zero": "return flows.rate_bps * 0",
        "shape": "return np.ones(len(flows) + 1)",
        "text": "return ['fast'] * len(flows)",
        "in_place": "flows.rate_bps[:] = 1.0; return flows.rate_bps",
    },
    "processor": {
        "negative": "return ComputeCost(-1.0 + 0 * cycles, 0 * cycles, 0 * cycles)",
        "joules": "return ComputeCost(0 * cycles, -1.0 + 0 * cycles, 0 * cycles)",
        "nan": "return ComputeCost(np.nan * cycles, 0 * cycles, 0 * cycles)",
        "inf": "return ComputeCost(np.inf + cycles, 0 * cycles, 0 * cycles)",
        "shape": "return ComputeCost(np.ones(9), np.ones(9), np.ones(9))",
        "tuple": "return (1.0, 1.0, 1.0)",
        "text": "return ComputeCost('long', 'much', 'none')",
    },
    "link": {
        "negative": "return TransferCost(-1.0 + 0 * bits, 0 * bits, 0 * bits)",
        "nan": "return TransferCost(np.nan * bits, 0 * bits, 0 * bits)",
        "joules": "return TransferCost(0 * bits, np.inf + bits, 0 * bits)",
        "shape": "return TransferCost(np.ones(9), np.ones(9), np.ones(9))",
        "tuple": "return (1.0, 1.0, 1.0)",
    },
    "measure": {
        "numpy": "return {'a': np.int64(1), 'b': np.float32(0.5), 'c': np.bool_(1)}",
        "torch": "return {'a': torch.tensor(1.5)}",
        "nan": "return {'a': float('nan')}",
        "text": "return {'a': 'much'}",
        "null": "return {'a': None}",
        "complex": "return {'a': 1j}",
        "list": "return {'a': [1, 2]}",
        "huge": "return {'a': 10**400}",
        "names": "return {3: 1.0}",
        "pairs": "return [('a', 1.0)]",
        "in_place": "run.manifest.clear(); run.rounds['time_s'] = 0.0; return {}",
    },
}  # fmt: skip
# Methods of one class are asked through the same door.
FEW = {"none": ANY["none"], "exit": ANY["exit"]}
TABLE = [
    (kind, name, body)
    for kind, (base, _, _) in KINDS.items()
    for name, body in {
        **(FEW if base == "Algorithm" and kind != "aggregate" else ANY),
        **OWN.get(kind, {}),
    }.items()
]
HARMLESS = {
    ("allocation", "in_place"), ("allocation", "inf"), ("association", "numpy"),
    ("scheduling", "in_place"), ("staleness", "numpy"), ("price", "numpy"), ("report", "numpy"),
    ("partition", "lists"), ("codec", "floats"), ("measure", "numpy"), ("measure", "torch"),
    ("measure", "nan"), ("measure", "in_place"), ("sharing", "in_place"),
}  # fmt: skip

# Who waits for ever is told by who waits, what is no finite number by its version.
NAMED = ("Mine", "stalled", "not finite", "the loss is")

TINY = {
    "name": "tiny",
    "data": {"name": "digits", "partition": "iid"},
    "model": "linear",
    "population": {
        "name": "catalogue",
        "clients": 4,
        "edges": 2,
        "groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}],
    },
    "algorithm": {"name": "fedavg", "local": {"steps": 1, "batch_size": 16}},
    "protocol": "synchronous",
    "stop": {"versions": 3},
}
DEVICE = {
    "kind": "device",
    "device_class": "sbc",
    "power_idle_w": 2.0,
    "memory_bytes": 4e9,
    "processor": {
        "cores": 4,
        "frequency_min_hz": 6e8,
        "frequency_max_hz": 1.5e9,
        "kappa": 3e-28,
        "flops_per_s": 1.5e10,
        "efficiency": 0.2,
    },
    "sources": {"power_idle_w": "made up"},
}
LINK = {
    "kind": "link",
    "link": {
        "uplink_bps": 1e7,
        "downlink_bps": 5e7,
        "rtt_s": 0.01,
        "power_transmit_w": 3.0,
        "power_receive_w": 1.0,
        "power_idle_w": 0.5,
    },
    "sources": {"link.rtt_s": "made up"},
}
ALGORITHM_METHODS = {"aggregate", "brief", "price", "recipe", "players", "server_work", "report"}


def scenario_with(kind: str, folder: Path, part: str) -> Path:
    """The tiny scenario in `folder`, with the part in its place."""
    scenario = json.loads(json.dumps(TINY))
    if kind in ALGORITHM_METHODS | {"loss", "merge"}:
        scenario["algorithm"]["name"] = part
    elif kind in ("model", "protocol", "partition", "dataset"):
        if kind == "dataset":
            scenario["data"]["name"] = part
        elif kind == "partition":
            scenario["data"]["partition"] = part
        else:
            scenario[kind] = part
    elif kind in ("population", "codec", "sharing"):
        key = {"population": "name", "codec": "uplink_codec", "sharing": "access_sharing"}[kind]
        scenario["population"][key] = part
    elif kind in ("processor", "link"):
        place = {"processor": DEVICE, "link": LINK}[kind]
        figures = {**place, kind: {"name": f"../{part}", **place[kind]}}
        (folder / "profiles").mkdir()
        (folder / "profiles" / "mine.yaml").write_text(yaml.safe_dump(figures))
        scenario["population"]["profiles"] = ["profiles"]
        group = scenario["population"]["groups"][0]
        group["device" if kind == "processor" else "link"] = "mine"
    elif kind == "measure":
        scenario["evaluate"] = {"measures": [part]}
    else:
        scenario["decisions"] = {kind: part}
    if kind in ("association", "scheduling", "estimator", "merge"):
        scenario["protocol"] = {"name": "semi_asynchronous", "concurrency": 1}
    if kind == "staleness":
        scenario["protocol"] = "asynchronous"
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump(scenario))
    return file


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name", "body"), TABLE, ids=[f"{kind}-{name}" for kind, name, _ in TABLE]
)
def test_a_misbehaving_part_is_named_in_one_line(kind, name, body, tmp_path):
    """Exit code 0 to 3, no traceback, and no manifest that says the run is still going."""
    base, method, beside = KINDS[kind]
    decorator = (
        ""
        if kind == "model"
        else f"@dataclass(frozen=True{', kw_only=True' * (kind in ('population', 'link'))})\n"
    )
    source = (
        f"{HEAD}\n{decorator}class Mine({base}):\n    {beside}\n    def {method}:\n        {body}\n"
    )
    (tmp_path / "own.py").write_text(source)
    file = scenario_with(kind, tmp_path, "own.py:Mine")

    result = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "run")])

    manifest = tmp_path / "run" / "manifest.json"
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 1, 2, 3)
    assert "Traceback" not in result.output
    if result.exit_code:
        lines = [line for line in result.stderr.splitlines() if line.startswith("simfl: ")]
        assert len(lines) == 1 and any(word in lines[0] for word in NAMED), result.stderr
    assert result.exit_code != 2 or not manifest.exists()
    assert not manifest.exists() or json.loads(manifest.read_text())["status"] != "running"
    assert (result.exit_code == 0) == ((kind, name) in HARMLESS)
