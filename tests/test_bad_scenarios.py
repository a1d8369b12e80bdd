"""What is wrong with a scenario is told in one line that names the key, and nothing is written."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from simfl.cli.app import app

GOOD: dict[str, Any] = {
    "name": "tiny",
    "seed": 3,
    "data": {"name": "digits", "partition": "iid"},
    "model": "linear",
    "population": {
        "name": "catalogue",
        "clients": 4,
        "edges": 2,
        "groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}],
    },
    "algorithm": {
        "name": "fedavg",
        "local": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1},
    },
    "protocol": {"name": "semi_asynchronous", "edge_rounds": 1, "concurrency": 1},
    "decisions": {"selection": {"name": "random", "count": 1}},
    "stop": {"versions": 1},
}
ABSENT = object()

NET = """
from torch import nn
class Net(nn.Sequential):
    def __init__(self, outputs):
        super().__init__(nn.Flatten(), nn.Linear(64, 3))
class Blank(nn.Module):
    pass
class Fragile(nn.Module):
    def __init__(self):
        raise KeyError("width")
"""
FAR = """
from dataclasses import dataclass
import numpy as np
from simfl.decisions.base import Association
@dataclass(frozen=True)
class Far(Association):
    def decide(self, view, rng):
        return np.full(4, 9), {}
@dataclass(frozen=True)
class Idle(Association):
    pass
"""
DEVICE = """kind: device
device_class: sbc
power_idle_w: 1.6
memory_bytes: 4e9
processor:
  name: cpu
  cores: 4
  frequency_min_hz: 6e8
  frequency_max_hz: 1.8e9
  kappa: 1e-28
  flops_per_s: 1e9
  efficiency: 0.2
"""
OWN = {"population.profiles": ["own"], "population.groups.0.device": "mine"}
PAPER = {"name": "paper", "clients": 4, "edges": 2}
RANDOM_HALF = {"name": "random", "count": 2, "share": 0.5}
TWO_WAYS = [
    {"device": "rpi_4b", "link": "wifi5_ac", "count": 2},
    {"device": "rpi_4b", "link": "wifi5_ac", "share": 0.5},
]


@dataclass(frozen=True)
class Bad:
    """What is changed in the good scenario, and the key and words of the error that follows."""

    about: str
    changes: Mapping[str, Any]
    key: str
    words: str
    files: Mapping[str, str] = field(default_factory=dict)


def unknown_keys() -> list[Bad]:
    """A misspelt key in every section."""
    places = {
        "protocl": "protocol",
        "data.test_shar": "test_share",
        "data.partition": {"name": "dirichlet", "alfa": 1},
        "model": {"name": "mlp", "hiden": [3]},
        "population.client": "clients",
        "population.groups.0.shar": "share",
        "algorithm.local.learning_rat": "learning_rate",
        "protocol.edge_round": "edge_rounds",
        "decisions.selektion": "selection",
        "decisions.selection.cont": "count",
        "stop.version": "versions",
        "evaluate": {"evry": 3},
        "log": {"levl": "full"},
    }
    meant = {"alfa": "alpha", "hiden": "hidden", "evry": "every", "levl": "level"}
    found = []
    for place, value in places.items():
        if isinstance(value, dict):
            key = list(value)[-1]
            bad = Bad(f"unknown {key}", {place: value}, f"{place}.{key}", meant[key])
        else:
            bad = Bad(f"unknown {place}", {place: 1}, place, value)
        found.append(
            Bad(bad.about, bad.changes, bad.key, f"unknown key .*did you mean '{bad.words}'")
        )
    return found


BAD: list[Bad] = [
    *unknown_keys(),
    Bad("key of another part", {"algorithm.mu": 0.1}, "algorithm.mu", "accepted: .*local, name"),
    # unknown names
    Bad("algorithm", {"algorithm.name": "fedagv"}, "algorithm.name", "did you mean 'fedavg'"),
    Bad("model", {"model": "cnnn"}, "model.name", "did you mean 'cnn'"),
    Bad("data set", {"data.name": "digit"}, "data.name", "did you mean 'digits'"),
    Bad("protocol", {"protocol": "synchronus"}, "protocol.name", "did you mean 'synchronous'"),
    Bad(
        "device",
        {"population.groups.0.device": "rpi4b"},
        "population.groups.0.device",
        "unknown device 'rpi4b', did you mean 'rpi_4b'\\? accepted: .*rpi_4b, rpi_5",
    ),
    Bad(
        "link",
        {"population.groups.0.link": "wifi5"},
        "population.groups.0.link",
        "did you mean 'wifi5_ac'",
    ),
    Bad("backhaul", {"population.backhaul": "wan"}, "population.backhaul", "unknown link 'wan'"),
    Bad(
        "device as server",
        {"population.cloud_server": "rpi_4b"},
        "population.cloud_server",
        "'rpi_4b' is a device, accepted: a server",
    ),
    Bad(
        "architecture",
        {"model": {"name": "torchvision", "architecture": "resnet19"}},
        "model.architecture",
        "did you mean 'resnet18'",
    ),
    # types
    Bad("text as count", {"population.clients": "4"}, "population.clients", "found '4'.*integer"),
    Bad("fraction as count", {"population.clients": 4.5}, "population.clients", "an integer"),
    Bad("truth as count", {"population.clients": True}, "population.clients", "found true"),
    Bad("list as model", {"model": ["cnn"]}, "model", "found \\['cnn'\\]"),
    Bad("text as data", {"data": "digits"}, "data", "a section"),
    Bad("no algorithm", {"algorithm": ABSENT}, "algorithm", "found nothing"),
    Bad("no clients", {"population.clients": ABSENT}, "population.clients", "found nothing"),
    Bad("local is null", {"algorithm.local": None}, "algorithm.local", "found null"),
    Bad("text in a list", {"model": {"name": "cnn", "channels": [4, "x"]}}, "model.channels.1", ""),
    Bad("dtype", {"dtype": "float16"}, "dtype", "one of float32, float64"),
    Bad("empty name", {"name": ""}, "name", "found ''"),
    # ranges
    Bad("negative seed", {"seed": -1}, "seed", "found -1, accepted: an integer >= 0"),
    Bad("zero clients", {"population.clients": 0}, "population.clients", ">= 1"),
    Bad(
        "learning rate",
        {"algorithm.local.learning_rate": -0.1},
        "algorithm.local.learning_rate",
        "found -0.1, accepted: a number > 0",
    ),
    Bad(
        "endless learning rate",
        {"algorithm.local.learning_rate": float("inf")},
        "algorithm.local.learning_rate",
        "finite",
    ),
    Bad("zero epochs", {"algorithm.local.epochs": 0}, "algorithm.local.epochs", "found 0"),
    Bad("momentum", {"algorithm.local.momentum": 1}, "algorithm.local.momentum", "< 1"),
    Bad(
        "alpha",
        {"data.partition": {"name": "dirichlet", "alpha": 0}},
        "data.partition.alpha",
        "found 0, accepted: a number > 0",
    ),
    Bad("count", {"decisions.selection.count": 0}, "decisions.selection.count", "found 0.*>= 1"),
    Bad("stop at 90 %", {"stop": {"accuracy": 90}}, "stop.accuracy", "<= 1"),
    Bad("zero versions", {"stop": {"versions": 0}}, "stop.versions", ">= 1"),
    Bad(
        "range upside down",
        {"population": {**PAPER, "access_bps": [9e6, 1e6]}},
        "population.access_bps",
        "low <= high",
    ),
    # combinations
    Bad(
        "two lengths", {"algorithm.local.steps": 3}, "algorithm.local.epochs", "exclude each other"
    ),
    Bad(
        "adam with momentum",
        {"algorithm.local.optimizer": "adam", "algorithm.local.momentum": 0.9},
        "algorithm.local.momentum",
        "belongs to sgd",
    ),
    Bad(
        "fedsgd with adam",
        {"algorithm.name": "fedsgd", "algorithm.local.optimizer": "adam"},
        "algorithm.local.optimizer",
        "found 'adam', but fedsgd .* accepted: sgd",
    ),
    Bad(
        "fedsgd with momentum",
        {"algorithm.name": "fedsgd", "algorithm.local.momentum": 0.5},
        "algorithm.local.momentum",
        "found 0.5, but fedsgd .* accepted: 0",
    ),
    Bad(
        "fedsgd with weight decay",
        {"algorithm.name": "fedsgd", "algorithm.local.weight_decay": 0.5},
        "algorithm.local.weight_decay",
        "found 0.5, but fedsgd .* accepted: 0",
    ),
    Bad("edges", {"population.edges": 5}, "population.edges", "found 5, accepted: at most 4"),
    Bad("shares", {"population.groups.0.share": 0.5}, "population.groups", "add up to 0.5"),
    Bad("share and count", {"population.groups": TWO_WAYS}, "population.groups", "every group"),
    Bad("no groups", {"population.groups": []}, "population.groups", "one or more groups"),
    Bad("two sizes", {"decisions.selection": RANDOM_HALF}, "decisions.selection.share", "one of"),
    Bad("no end", {"stop": {}}, "stop", "set at least one of versions, time_s"),
    Bad(
        "accuracy of nothing",
        {"algorithm.name": "none", "stop": {"accuracy": 0.5}},
        "stop.accuracy",
        "learns nothing",
    ),
    Bad(
        "bytes of nothing",
        {"algorithm.name": "standalone", "stop": {"bytes": 9}},
        "stop.bytes",
        "sends nothing",
    ),
    Bad("sizes alone", {"data": {"name": "sizes"}}, "data", "no examples to learn from"),
    Bad(
        "sizes of other clients",
        {"data": {"name": "sizes", "examples_per_client": [5, 6, 7]}, "algorithm": "none"},
        "data.examples_per_client",
        "found 3 numbers for 4 clients; accepted: one number, or one per client",
    ),
    # data
    Bad(
        "dirichlet that cannot be dealt",
        {"data.partition": {"name": "dirichlet", "alpha": 0.001, "min_examples": 300}},
        "data.partition.alpha",
        "raise alpha, lower min_examples, or take fewer clients",
    ),
    Bad(
        "labels of a regression",
        {"data": {"name": "synthetic", "task": "regression", "partition": "labels_per_edge"}},
        "data.partition",
        "a regression does not have",
    ),
    Bad(
        "too many shards",
        {"data.partition": {"name": "shards", "shards_per_client": 1000}},
        "data.partition.shards_per_client",
        "cannot be cut into 4000",
    ),
    Bad("no owners", {"data.partition": "natural"}, "data.partition", "rows have owners"),
    Bad(
        "more clients than rows",
        {"data": {"name": "synthetic", "examples": 3}},
        "data.partition",
        "3 training examples are too few for 4 clients",
    ),
    Bad("nothing to test on", {"data.test_share": 1e-4}, "data.test_share", "0 test examples"),
    Bad(
        "nothing to validate on",
        {"data.validation_share": 1e-4},
        "data.validation_share",
        "0 validation examples",
    ),
    Bad(
        "no data root",
        {"data": {"name": "mnist"}},
        "data",
        "put train-images-idx3-ubyte,.* into <root>/MNIST/raw .*--data-root, SIMFL_DATA",
    ),
    Bad(
        "empty data root",
        {"data": {"name": "mnist", "root": "nowhere"}},
        "data",
        "put train-images-idx3-ubyte, .* into nowhere/MNIST/raw",
    ),
    Bad("no file", {"data": {"name": "npz", "path": "x.npz"}}, "data.path", "no file x.npz; put"),
    Bad(
        "transform",
        {"data.augmentation": [{"name": "RandomCropp", "size": 8}]},
        "data.augmentation.0.name",
        "did you mean 'RandomCrop'",
    ),
    Bad(
        "argument of a transform",
        {"data.augmentation": [{"name": "RandomCrop", "sizes": 8}]},
        "data.augmentation.0",
        "its arguments are size, padding",
    ),
    Bad(
        "transform beyond the image",
        {"data.augmentation": [{"name": "RandomCrop", "size": 28}]},
        "data.augmentation",
        "does not fit images of 1x8x8",
    ),
    Bad(
        "transform to another size",
        {"data.augmentation": [{"name": "RandomCrop", "size": 4}]},
        "data.augmentation",
        "must keep the size of the images, 1x8x8; it makes 1x4x4",
    ),
    Bad(
        "transform of a table",
        {"data": {"name": "synthetic", "augmentation": ["RandomHorizontalFlip"]}},
        "data.augmentation",
        "is for images",
    ),
    Bad(
        "count above the population",
        {"decisions.selection.count": 5, "protocol": "synchronous"},
        "decisions.selection.count",
        "found 5, accepted: at most 4, the number of clients",
    ),
    Bad(
        "waiting for more than the population",
        {"protocol": {"name": "synchronous", "wait_for": {"clients": 5}}},
        "protocol.wait_for.clients",
        "found 5, accepted: at most 4, the number of clients",
    ),
    Bad(
        "more in flight than the population",
        {"protocol": {"name": "asynchronous", "concurrency": 5}},
        "protocol.concurrency",
        "found 5, accepted: at most 4, the number of clients",
    ),
    Bad(
        "a part of one epoch",
        {"algorithm.local.partial": {"clients": 0.5}, "algorithm.local.epochs": 1},
        "algorithm.local.partial",
        "one epoch has no part; accepted: more epochs",
    ),
    Bad(
        "a part of work of which all is needed",
        {"algorithm": {"name": "fedsgd", "local": {"steps": 4, "partial": {}}}},
        "algorithm.local.partial",
        "fedsgd has clients do all of their local work: it computes one gradient",
    ),
    Bad(
        "more updates needed than clients selected",
        {
            "protocol": {"name": "synchronous", "patience": {"least_updates": 3}},
            "decisions.selection": {"name": "random", "count": 2},
        },
        "protocol.patience.least_updates",
        "found 3, accepted: at most 2, the clients selected for a round",
    ),
    Bad(
        "more updates needed than a round waits for",
        {
            "protocol": {
                "name": "synchronous",
                "patience": {"least_updates": 4, "over_selection": 1.5},
            },
            "decisions.selection": {"name": "random", "count": 4},
            "population.clients": 8,
        },
        "protocol.patience.least_updates",
        "found 4, accepted: at most 3, as over_selection waits for so many of 4",
    ),
    Bad(
        "a top-k without positions",
        {"population.uplink_codec": {"name": "top_k", "share": 0.1, "positions": "none"}},
        "population.uplink_codec.positions",
        "found none, but the receiver cannot know which values are the largest",
    ),
    Bad(
        "max-min sharing without a capacity",
        {"population.access_sharing": "max_min"},
        "population.access_sharing.access_bps",
        "found neither access_bps nor backhaul_bps, so nothing is shared",
    ),
    Bad(
        "more updates needed than clients of an edge server",
        {"protocol": {"name": "hierarchical", "patience": {"least_updates": 3}}},
        "protocol.patience.least_updates",
        "found 3, accepted: at most 2, the fewest clients of an edge server",
    ),
    Bad(
        "more updates needed than the smallest edge server has clients",
        {
            "population.clients": 7,
            "protocol": {"name": "hierarchical", "patience": {"least_updates": 4}},
        },
        "protocol.patience.least_updates",
        "found 4, accepted: at most 3, the fewest clients of an edge server",
    ),
    Bad(
        "waiting for more than edge servers' clients",
        {"protocol": {"name": "hierarchical", "wait_for": {"clients": 3}}},
        "protocol.wait_for.clients",
        "found 3, accepted: at most 2, the most clients of an edge server",
    ),
    Bad(
        "waiting without rounds",
        {"protocol": {"name": "asynchronous", "wait_for": {"clients": 2}}},
        "protocol.wait_for",
        "unknown key",
    ),
    Bad(
        "count above edge servers' clients",
        {"decisions.selection.count": 3},
        "decisions.selection.count",
        "found 3, accepted: at most 2, the most clients of an edge server",
    ),
    # models
    Bad(
        "cnn on a table",
        {"data": {"name": "synthetic"}, "model": "cnn"},
        "model",
        "takes images .*found examples of shape \\(20,\\)",
    ),
    *(
        Bad(
            f"{name} of a regression",
            {
                "data": {"name": "synthetic", "task": "regression", "validation_share": 0.2},
                "algorithm": {"name": name, **keys},
            },
            "data",
            f"{name} uses shares of correct answers, which a regression does not have",
        )
        for name, keys in (("cffl", {"reward_by": "reputation"}), ("fedave", {}), ("cgsv", {}))
    ),
    Bad(
        "one row for BatchNorm",
        {
            "data": {"name": "synthetic", "examples": 4},
            "model": {"name": "mlp", "batch_norm": True},
        },
        "data.partition",
        "found 1 training examples for client 0, accepted: at least 2: BatchNorm",
    ),
    Bad(
        "batches of one for BatchNorm",
        {"model": {"name": "mlp", "batch_norm": True}, "algorithm.local.batch_size": 1},
        "algorithm.local.batch_size",
        "found 1, accepted: at least 2: BatchNorm",
    ),
    Bad("cnn too deep", {"model": {"name": "cnn", "channels": [2] * 4}}, "model", "8x8"),
    Bad(
        "beyond memory", {"model": {"name": "mlp", "hidden": [10**13]}}, "model", "cannot be built"
    ),
    Bad("even kernel", {"model": {"name": "cnn", "kernel": 2}}, "model.kernel", "an odd number"),
    # import paths
    Bad("no plug-in", {"model": "net.py:Net"}, "model.name", "which does not exist"),
    Bad(
        "no class",
        {"model": "net.py:Nett"},
        "model.name",
        "without the class 'Nett', did you mean 'Net'\\? accepted: a class of that module",
        {"net.py": NET},
    ),
    Bad(
        "other base",
        {"algorithm.name": "net.py:Net"},
        "algorithm.name",
        "a subclass of simfl.plugins.Algorithm",
        {"net.py": NET},
    ),
    Bad(
        "broken plug-in",
        {"model": "net.py:Net"},
        "model.name",
        "cannot be imported \\(net.py:1: SyntaxError",
        {"net.py": "def f(:\n"},
    ),
    Bad(
        "abstract plug-in",
        {"decisions.association": "far.py:Idle"},
        "decisions.association.name",
        "does not define decide",
        {"far.py": FAR},
    ),
    Bad(
        "wrong outputs",
        {"model": "net.py:Net"},
        "model",
        "gives \\(2, 3\\) .* accepted: \\(2, 10\\)",
        {"net.py": NET},
    ),
    Bad("no forward", {"model": "net.py:Blank"}, "model", "do not pass through", {"net.py": NET}),
    Bad(
        "raising plug-in",
        {"model": "net.py:Fragile"},
        "model",
        "Fragile cannot be built: KeyError: 'width'",
        {"net.py": NET},
    ),
    Bad(
        "argument of a module",
        {"model": {"name": "torch.nn:Linear", "in_featurs": 64}},
        "model.in_featurs",
        "did you mean 'in_features'",
    ),
    Bad(
        "association beyond the edges",
        {"decisions.association": "far.py:Far"},
        "decisions.association",
        "accepted: 0 to 1",
        {"far.py": FAR},
    ),
    # device files of one's own
    Bad("no folder", {"population.profiles": ["own"]}, "population.profiles", "no such folder"),
    Bad(
        "missing cost",
        OWN,
        "population.groups.0.device",
        "own/mine.yaml:[0-9]+: processor: no figure for kappa, power_table or power_active_w",
        {"own/mine.yaml": DEVICE.replace("  kappa: 1e-28\n", "")},
    ),
    Bad(
        "missing idle power",
        OWN,
        "population.groups.0.device",
        "own/mine.yaml: power_idle_w: missing",
        {"own/mine.yaml": DEVICE.replace("power_idle_w: 1.6\n", "")},
    ),
    Bad(
        "key of a device",
        OWN,
        "population.groups.0.device",
        "mine.yaml:[0-9]+: processor.kapa: unknown key, did you mean 'kappa'\\? accepted: .*cores",
        {"own/mine.yaml": DEVICE.replace("kappa", "kapa")},
    ),
    Bad(
        "tab in a device file",
        OWN,
        "population.groups.0.device",
        "own/mine.yaml:6: not valid YAML",
        {"own/mine.yaml": DEVICE.replace("  name", "\tname")},
    ),
    Bad(
        "plug-in of a device",
        OWN,
        "population.groups.0.device",
        "mine.yaml:[0-9]+: processor: name: found '.*abacus.py:Abacus', which does not exist",
        {"own/mine.yaml": DEVICE.partition("  name")[0] + "  name: abacus.py:Abacus\n"},
    ),
]

# The text of a file, and the place and words of the error.
BAD_TEXT: list[tuple[str, str, str]] = [
    ("name: [tiny\nseed: 3\n", "{file}:2: ", "not valid YAML"),
    ("name: tiny\n  seed: 3\n", "{file}:2: ", "not valid YAML"),
    ("name: tiny\nseed: 3\nseed: 4\n", "{file}:3: seed: ", "twice \\(also in line 2\\)"),
    ("name: tiny\ndata:\n\tname: digits\n", "{file}:3: ", "found a tab, accepted: spaces"),
    ("", "{file}:1: ", "an empty file"),
    ("- digits\n- cnn\n", "{file}:1: ", "accepted: a mapping"),
    ("name: tiny\n---\nname: more\n", "{file}:2: ", "another document"),
    ("name: !!python/name:os.system x\n", "{file}:1: name: ", "without tags"),
]

# Options of `run`, and the place and words of the error.
BAD_OPTIONS: list[tuple[list[str], str, str]] = [
    (["--set", "algorithm.local.epoch=3"], "--set: algorithm.local.epoch: ", "mean 'epochs'"),
    (["--set", "algorthm.local.epochs=3"], "--set: algorthm: ", "mean 'algorithm'"),
    (["--set", "population.clients=many"], "--set: population.clients: ", "found 'many'"),
    (["--set", "seed.x=3"], "--set: seed.x: ", "accepted: a section"),
    (["--set", "population.groups.3.share=1"], "--set: population.groups.3.share: ", "0 to 0"),
    (["--set", "model=[1"], "--set: model: ", "not valid YAML"),
    (
        ["--set", "protocol=synchronous", "--set", "population.backhaul=lte_2021"],
        "--set: population.backhaul: ",
        "nothing reads it: synchronous has no edge servers",
    ),
    (["--set", "seed"], "--set: ", "accepted: KEY=VALUE"),
    (["--set", "algorithm..mu=1"], "--set: ", "accepted: KEY=VALUE"),
    (["--seed", "-1"], "--seed: seed: ", "found -1"),
    (["--trainer", "sequental"], "--trainer: ", "did you mean 'sequential'"),
    (["--workers", "-1"], "--workers: ", "accepted: 0"),
    (["--workers", "2", "--trainer", "sequential"], "--workers: ", "works alone"),
    (["--device", "tpu"], "--device: ", "accepted: auto, cpu, cuda"),
]


def changed(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The good scenario with values changed, added or taken away."""
    content = copy.deepcopy(GOOD)
    for path, value in changes.items():
        *above, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
        section: Any = content
        for step in above:
            section = section[step]
        if value is ABSENT:
            del section[last]
        else:
            section[last] = copy.deepcopy(value)
    return content


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs a command on scenario.yaml in an empty folder; the one line in which it is refused."""
    monkeypatch.chdir(tmp_path)

    def invoke(text: str, *options: str, command: str = "validate") -> str:
        Path("scenario.yaml").write_text(text)
        before = sorted(tmp_path.rglob("*"))
        result = CliRunner().invoke(app, [command, "scenario.yaml", *options])
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1 and result.stderr.endswith("\n")
        assert "Traceback" not in result.stderr
        made = [path for path in sorted(tmp_path.rglob("*")) if "__pycache__" not in path.parts]
        assert made == before, "a refused scenario leaves nothing behind"
        return result.stderr.removesuffix("\n")

    return invoke


def write(files: Mapping[str, str]) -> None:
    """Put files into the current folder."""
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)


def line_of(key: str, content: dict[str, Any]) -> int:
    """The line, in the dumped scenario, of `key` or of the nearest section above it."""
    node: yaml.Node = yaml.compose(yaml.safe_dump(content, sort_keys=False))
    line = 1
    for step in key.split("."):
        if isinstance(node, yaml.MappingNode):
            found = [pair for pair in node.value if pair[0].value == step]
            if not found:
                break
            line, node = found[0][0].start_mark.line + 1, found[0][1]
        elif isinstance(node, yaml.SequenceNode):
            node = node.value[int(step)]
            line = node.start_mark.line + 1
    return line


def test_good_scenario_is_valid(tmp_path: Path) -> None:
    """Every entry of the tables differs from this one, which is accepted."""
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(GOOD, sort_keys=False))

    result = CliRunner().invoke(app, ["validate", str(file)])

    assert (result.exit_code, result.stdout) == (0, f"{file}: valid\n")


def test_edge_servers_in_flight_are_no_clients(tmp_path: Path) -> None:
    """Three of four edge servers, each with one client."""
    file = tmp_path / "scenario.yaml"
    protocol = {**GOOD["protocol"], "concurrency": 3}
    scenario = {**GOOD, "population": {**GOOD["population"], "edges": 4}, "protocol": protocol}
    file.write_text(yaml.safe_dump(scenario, sort_keys=False))

    result = CliRunner().invoke(app, ["validate", str(file)])

    assert result.exit_code == 0 and result.stdout.endswith(f"{file}: valid\n"), result.output


@pytest.mark.parametrize("bad", BAD, ids=[bad.about for bad in BAD])
def test_bad_content(bad: Bad, refused: Callable[..., str]) -> None:
    """Exit code 2 and one line: file, line and key of what is wrong, and why."""
    content = changed(bad.changes)
    write(bad.files)

    line = refused(yaml.safe_dump(content, sort_keys=False))

    assert line.startswith(f"simfl: scenario.yaml:{line_of(bad.key, content)}: {bad.key}: ")
    assert re.search(bad.words, line)


@pytest.mark.parametrize(
    "about",
    [
        "unknown stop.version",
        "device",
        "dirichlet that cannot be dealt",
        "no data root",
        "wrong outputs",
        "missing cost",
        "accuracy of nothing",
    ],
)
@pytest.mark.parametrize("out", [[], ["--out", "here"]], ids=["default", "out"])
def test_refused_run_leaves_no_folder(
    about: str, out: list[str], refused: Callable[..., str]
) -> None:
    """`run` refuses what `validate` refuses, in the same words, before it writes anything."""
    bad = next(one for one in BAD if one.about == about)
    text = yaml.safe_dump(changed(bad.changes), sort_keys=False)
    write(bad.files)

    assert refused(text, *out, command="run") == refused(text)


@pytest.mark.parametrize(("text", "place", "words"), BAD_TEXT)
def test_bad_file(text: str, place: str, words: str, refused: Callable[..., str]) -> None:
    """A file that is no scenario at all is refused with the line where that shows."""
    line = refused(text, command="run")

    assert line.startswith(f"simfl: {place.format(file='scenario.yaml')}")
    assert re.search(words, line)


@pytest.mark.parametrize(("options", "place", "words"), BAD_OPTIONS)
def test_bad_option(
    options: list[str], place: str, words: str, refused: Callable[..., str]
) -> None:
    """An error in an option names the option instead of a line of the file."""
    line = refused(yaml.safe_dump(GOOD, sort_keys=False), *options, command="run")

    assert line.startswith(f"simfl: {place}")
    assert re.search(words, line)


def test_npz_without_a_key(refused: Callable[..., str]) -> None:
    """The error names the file, the keys that it lacks and those that it has."""
    np.savez("part.npz", x_train=np.zeros((4, 2)), y_train=np.zeros(4))

    line = refused(yaml.safe_dump(changed({"data": {"name": "npz", "path": "part.npz"}})))

    assert re.search(r": data: .*part\.npz has no x_test, y_test; found x_train, y_train", line)


def test_no_scenario(refused: Callable[..., str]) -> None:
    """There is no such file; for a study a scenario, or a run, would do as well."""
    accepted = {"run": "a scenario file", "study": "a study file, a scenario or a run folder"}
    for command, files in accepted.items():
        result = CliRunner().invoke(app, [command, "nothing.yaml"])

        said = f"simfl: nothing.yaml: found no such file, accepted: {files}\n"
        assert (result.exit_code, result.stderr) == (2, said)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("quickstrat", ", did you mean 'quickstart'?"),
        ("moon", ", did you mean 'algorithms/moon'?"),  # it lies in a folder
        ("zzzz", ";"),
    ],
)
def test_no_shipped_scenario(name: str, hint: str) -> None:
    """A misspelt name of a shipped scenario is told with the nearest one, by every command."""
    said = f"simfl: {name}: no such file, and no shipped scenario of that name{hint} "
    for arguments in (["run", name], ["validate", name], ["new", "its.yaml", "--like", name]):
        result = CliRunner().invoke(app, arguments)

        assert result.exit_code == 2
        assert result.stderr == f"{said}`simfl list scenarios` lists them\n"


def test_cuda_where_there_is_none(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--device cuda` needs a CUDA device."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)

    line = refused(yaml.safe_dump(GOOD), "--device", "cuda", command="run")

    assert line == (
        "simfl: --device: found 'cuda', but torch sees no CUDA device here; accepted: auto, cpu"
    )


def test_a_bare_name_is_offered_as_a_section(tmp_path: Path) -> None:
    """A data set stands with other keys, as a partition."""
    (tmp_path / "bare.yaml").write_text(yaml.safe_dump({**GOOD, "data": "digits"}))

    result = CliRunner().invoke(app, ["validate", str(tmp_path / "bare.yaml")])

    assert result.exit_code == 2
    assert "data: found 'digits', did you mean {name: digits}? accepted: a sec" in result.stderr
