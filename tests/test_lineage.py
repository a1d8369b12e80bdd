"""The key under all learned values covers what they depend on, and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.common.own_code import source_of
from simfl.learning.kernels.numpy_product import openblas
from simfl.provenance import lineage
from simfl.provenance.lineage import root_key
from simfl.scenario.scenario import Scenario
from tests.small import SMALL, small

EVENLY = {"name": "dirichlet", "alpha": 100.0, "min_examples": 1}
SMALLER = {"data": {"name": "synthetic", "examples": 64, "partition": "iid"}, "model": "linear"}


def root(scenario=None, trainer="batched", **changes):
    """The root key of the small scenario with changes."""
    return assemble(
        scenario or small(**{**SMALLER, **changes}), Options(device="cpu", trainer=trainer)
    ).root


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 4},
        {"dtype": "float32"},
        {"model": {"name": "mlp", "hidden": [12]}},
        {"algorithm": {"name": "fedprox"}},
        {"algorithm": {"local": {"learning_rate": 0.2}}},
        {"data": {"name": "synthetic", "examples": 72, "partition": "iid"}},
        {"data": {**SMALLER["data"], "partition": EVENLY}},
        {"data": {**SMALLER["data"], "test_examples": 10}},
        {"data": {**SMALLER["data"], "validation_share": 0.25}},
        {"population": {"clients": 7}},
        {"trainer": "sequential"},
    ],
    ids=str,
)
def test_what_values_depend_on_changes_the_key(changes):
    """Another seed, number format, model, algorithm, data, division or trainer: another key."""
    assert root(**changes) != root()


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "another"},
        {"population": {"groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}]}},
        {"protocol": "semi_asynchronous"},
        {"decisions": {"selection": {"name": "random", "count": 2}}},
        {"stop": {"versions": 9}},
        {"evaluate": {"every": 2}},
        {"log": {"level": "rounds"}},
        {"data": {**SMALLER["data"], "root": "elsewhere"}},
    ],
    ids=str,
)
def test_what_only_time_depends_on_does_not(changes):
    """What-if runs on other hardware, or with other decisions, find their values again."""
    assert root(**changes) == root()


MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self, input_shape: tuple[int, ...], outputs: int):
        super().__init__()
        self.layer = torch.nn.Linear(input_shape[0], outputs)

    def forward(self, x):
        return self.layer(x)
"""
BASE = """
from dataclasses import dataclass
from simfl.algorithms.base import Algorithm

@dataclass(frozen=True)
class Scaled(Algorithm):
    def loss(self, parameters, batch):
        return SCALE * super().loss(parameters, batch)

SCALE = 1.0
"""
DERIVED = """
from dataclasses import dataclass
from {module} import Scaled

@dataclass(frozen=True)
class Mine(Scaled):
    pass
"""


def scenario_in(folder: Path, **changes):
    """A scenario whose import paths are relative to `folder`."""
    return Scenario.from_mapping({**SMALL, **SMALLER, **changes}, folder)


def test_a_file_counts_by_its_content_not_by_its_place(tmp_path):
    """The run folder's own scenario.yaml, with absolute paths, has the same key."""
    (tmp_path / "net.py").write_text(MODEL)
    scenario = scenario_in(tmp_path, model="net.py:Net")
    resolved = assemble(scenario, Options(device="cpu")).resolved

    again = Scenario.from_mapping(yaml.safe_load(resolved.to_yaml()), "/")
    before = root(scenario)
    assert root(again) == before

    (tmp_path / "net.py").write_text(MODEL.replace("self.layer(x)", "2 * self.layer(x)"))
    assert root(scenario_in(tmp_path, model="net.py:Net")) != before


def test_the_source_of_base_classes_counts(tmp_path, monkeypatch):
    """An algorithm derived from another one of the user's depends on that one's source too."""
    monkeypatch.syspath_prepend(tmp_path)
    keys = set()
    for number, scale in enumerate(("1.0", "2.0")):
        module = f"simfl_test_base_{number}"
        (tmp_path / f"{module}.py").write_text(BASE.replace("1.0", scale))
        (tmp_path / f"derived_{number}.py").write_text(DERIVED.format(module=module))
        scenario = scenario_in(tmp_path, algorithm={"name": f"derived_{number}.py:Mine"})
        simulation = assemble(scenario, Options(device="cpu"))
        keys.add(simulation.root)
        assert f"SCALE = {scale}" in source_of(simulation.algorithm)
    assert len(keys) == 2


def test_the_source_of_imported_helpers_counts(tmp_path, monkeypatch):
    """A function of another of the user's modules counts, however far it is imported from."""
    monkeypatch.syspath_prepend(tmp_path)
    sources = []
    for number, scale in enumerate(("1.0", "2.0")):
        near, far = f"simfl_test_near_{number}", f"simfl_test_far_{number}"
        (tmp_path / f"{far}.py").write_text(f"import numpy as np\n\nSCALE = np.float64({scale})\n")
        (tmp_path / f"{near}.py").write_text(
            f"import {far} as far\n\ndef scaled(x):\n    return far.SCALE * x\n"
        )
        (tmp_path / f"own_{number}.py").write_text(
            f"from simfl.algorithms.fedavg import FedAvg\nfrom {near} import scaled\n\n"
            "class Mine(FedAvg):\n    scale = staticmethod(scaled)\n"
        )
        scenario = scenario_in(tmp_path, algorithm={"name": f"own_{number}.py:Mine"})
        sources.append(source_of(assemble(scenario, Options(device="cpu")).algorithm))

    assert "float64(1.0)" in sources[0]
    assert "float64(2.0)" in sources[1]
    assert "class FedAvg" not in sources[0]  # shipped: goes by its version
    assert "def array" not in sources[0]  # installed


def test_each_ingredient_counts_on_its_own():
    """Seed, platform, data and algorithm, where nothing else tells two runs apart."""
    simulation = assemble(small(**SMALLER), Options(device="cpu"))
    prox = assemble(small(**SMALLER, algorithm={"name": "fedprox"}), Options(device="cpu"))
    resolved, model = simulation.resolved, simulation.parts[("model",)]
    platform = dict(simulation.platform)
    arguments = (resolved, simulation.algorithm, model, "data", platform)

    keys = [
        root_key(*arguments),
        root_key(resolved.with_overrides(["seed=4"]), *arguments[1:]),
        root_key(resolved, prox.algorithm, *arguments[2:]),
        root_key(*arguments[:3], "other data", platform),
        root_key(*arguments[:4], {**platform, "threads": 2}),
    ]

    assert len(set(keys)) == len(keys)


def test_the_data_count_by_what_they_hold_and_who_holds_them():
    """One input, one target, another owner, another test set: another digest."""
    partitioned = assemble(small(**SMALLER), Options(device="cpu")).partitioned
    first, second, *others = partitioned.clients
    inputs, targets = first.inputs.clone(), first.targets.clone()
    inputs[0, 0] += 1.0
    targets[0] += 1
    changed = [
        replace(partitioned, clients=[replace(first, inputs=inputs), second, *others]),
        replace(partitioned, clients=[replace(first, targets=targets), second, *others]),
        replace(partitioned, clients=[second, first, *others]),
        replace(partitioned, data=replace(partitioned.data, test=first)),
    ]

    digests = [one.digest() for one in (partitioned, *changed)]

    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize(("library", "named"), [(None, "torch"), ("OpenBLAS 1", "OpenBLAS 1")])
def test_the_platform_names_what_multiplies(monkeypatch, library, named):
    """Another library gives other last bits, and so another key."""
    before = root()
    monkeypatch.setattr(lineage, "openblas", lambda: library)

    simulation = assemble(small(**SMALLER), Options(device="cpu"))

    assert simulation.platform["products"] == named
    assert (simulation.root == before) == (named == (openblas() or "torch"))
