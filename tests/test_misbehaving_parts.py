"""Parts of a user's own that break their contract: refused by name, where it happens."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from typer.testing import CliRunner

import simfl
from simfl.assembly.assemble import assemble
from simfl.cli.app import app
from simfl.common.contract import PartMisbehaves
from simfl.runs.files import FolderInUse
from simfl.runs.warning_rules import foreseen
from simfl.scenario.yaml_source.error import ScenarioError
from tests.small import SMALL, final_weights, simulated, small

PLUGINS = """
import sys
from dataclasses import dataclass, replace
import numpy as np
import torch
from torch import nn
from simfl.algorithms.base import Algorithm, Work
from simfl.decisions.base import Allocation, Selection
from simfl.learning.codecs.base import ValueCodec
from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.job import Price
from simfl.learning.partitions.base import Partition
from simfl.measures.base import Measure
from simfl.protocols.base import Protocol
from simfl.system.codecs.base import Codec

class Everyday(Measure):
    def compute(self, run):
        return {"count": np.int64(3), "mean": np.float32(0.5), "met": np.bool_(True),
                "total": np.array(7), "share": torch.tensor(0.25)}
class NoFigure(Measure):
    def compute(self, run): return {"found": None}
class Listed(Measure):
    def compute(self, run): return {"found": [1, 2]}

@dataclass(frozen=True)
class NoGradient(Algorithm):
    def loss(self, parameters, batch): return super().loss(parameters, batch).detach()
@dataclass(frozen=True)
class Unheard(Algorithm):
    refusal: str = "a key of its own"
    min_update = 3
    helper = 1
    def agregate(self, state, updates, evaluator): return state
    def _aggregate(self): return None
@dataclass(frozen=True)
class Paid(Algorithm):
    def price(self, network, client, version): return Price(-1, 10)
@dataclass(frozen=True)
class PaidTwice(Algorithm):
    def price(self, network, client, version): return Price(10, 10, work=-2.0)
@dataclass(frozen=True)
class Tireless(Algorithm):
    def server_work(self, network, version, up_bytes): return Work(-5.0, 0.0)
@dataclass(frozen=True)
class Overwriting(Algorithm):
    def aggregate(self, state, updates, evaluator):
        for tensor in state.weights.values():
            tensor.mul_(0.5)
        return state
@dataclass(frozen=True)
class Briefing(Algorithm):
    def brief(self, network, state, client, held):
        for tensor in state.weights.values():
            tensor.add_(1.0)
        return super().brief(network, state, client, held)
@dataclass(frozen=True)
class Losing(Algorithm):
    def loss(self, parameters, batch):
        batch.inputs.mul_(0.5)
        return super().loss(parameters, batch)
@dataclass(frozen=True)
class Shorter(Algorithm):
    def aggregate(self, state, updates, evaluator):
        return replace(state, weights={})

class Clamped(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 10)
    def forward(self, inputs):
        self.head.weight.data.clamp_(-0.01, 0.01)
        return self.head(inputs.flatten(1))

class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 10)
class Halving(Head):
    def forward(self, inputs):
        return self.head(inputs.mul_(0.5).flatten(1))
class Detached(Head):
    def forward(self, inputs):
        return self.head(inputs.flatten(1)).detach()

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 10)
    def forward(self, inputs):
        return self.head(inputs.flatten(1)), inputs
class PairInTraining(Pair):
    def forward(self, inputs):
        pair = super().forward(inputs)
        return pair if self.training else pair[0]
class Mapped(Pair):
    def forward(self, inputs):
        return {"logits": super().forward(inputs)[0]}

class Shrinking(Codec):
    def encoded_bytes(self, raw_bytes): return -np.asarray(raw_bytes)
class Erasing(Codec, ValueCodec):
    def encoded_bytes(self, raw_bytes): return np.asarray(raw_bytes) // 2
    def code(self, values, sent, generator):
        coded = {name: tensor.clone() for name, tensor in values.items()}
        for tensor in values.values():
            tensor.zero_()
        return coded
class Graded(Dataset):
    def load(self, root, seed):
        rows = Examples(torch.ones(40, 4, requires_grad=True), torch.zeros(40, dtype=torch.int64))
        return Data(rows, rows, "classification", 1)
class Backwards(Partition):
    def split(self, targets, home_edge, natural, rng):
        clients = len(home_edge)
        return [np.arange(len(targets))[::-1][client::clients] for client in range(clients)]
class Nothing(Dataset):
    def load(self, root, seed): return None
class Before(Partition):
    def split(self, targets, home_edge, natural, rng):
        return [np.array([client - 1]) for client in range(len(home_edge))]
class Between(Partition):
    def split(self, targets, home_edge, natural, rng):
        return [np.array([client + 0.5]) for client in range(len(home_edge))]
class Sharing(Partition):
    def split(self, targets, home_edge, natural, rng):
        return [np.arange(client, client + 3) for client in range(len(home_edge))]
class Doubling(Partition):
    def split(self, targets, home_edge, natural, rng):
        return [np.array([client, client]) for client in range(len(home_edge))]
class Bootstrap(Partition):
    with_replacement = True
    def split(self, targets, home_edge, natural, rng):
        return [rng.integers(len(targets), size=20) for _ in home_edge]
class Relabelling(Partition):
    def split(self, targets, home_edge, natural, rng):
        targets[:] = 0
        return np.array_split(np.arange(len(targets)), len(home_edge))

class OneForMany(Allocation):
    def decide(self, view, rng): return np.array([1e9])
class Leaving(Selection):
    def decide(self, memory, view, rng): sys.exit(0)
class Misspelt(Selection):
    def decide(self, memory, view, rng): return memory, view.positions["x"]
class Tiring(Selection):
    def initial(self): return 0
    def decide(self, memory, view, rng): return memory + 1, view.clients if memory < 1 else 1 / 0
class Renumbering(Allocation):
    def decide(self, view, rng):
        view.clients[:] = 0
        return view.frequency_max_hz
class Wrong(Protocol):
    def process(self, run):
        yield run.clock.until(1.0)
        raise KeyError("boom")
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The import path of a class above."""
    file = tmp_path_factory.mktemp("plugins") / "own.py"
    file.write_text(PLUGINS)
    return lambda name: f"{file}:{name}"


def algorithm(path: str) -> dict[str, Any]:
    """The section of an algorithm, as small as the small scenario's."""
    return {"name": path, "local": {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}}


def test_everyday_numbers_of_numpy_and_torch_are_figures(own, tmp_path):
    """They stand in the manifest as JSON's own numbers."""
    run = simfl.run(small(evaluate={"measures": [own("Everyday")]}), tmp_path / "run")

    [figures] = run.manifest["measures"].values()
    assert figures == {"count": 3, "mean": 0.5, "met": True, "total": 7, "share": 0.25}


@pytest.mark.parametrize("name", ["NoFigure", "Listed"])
def test_what_is_no_number_is_no_figure(own, tmp_path, name):
    """The measure is named, and the run is closed with that reason."""
    scenario = small(evaluate={"measures": [own(name)]})

    with pytest.raises(PartMisbehaves, match=rf"{name}\.compute: found gave .* a number"):
        simfl.run(scenario, tmp_path / "run")
    manifest = simfl.load_run(tmp_path / "run").manifest
    assert manifest["status"] == "failed"
    assert name in manifest["reason"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Paid", "Paid.price: down_bytes gave [-1]"),
        ("PaidTwice", "PaidTwice.price: work gave [-2.0]"),
        ("Tireless", "Tireless.server_work gave [-5.0, 0.0]"),
    ],
)
def test_negative_prices_and_work_are_refused_before_the_run(own, name, found):
    """At the algorithm's key."""
    with pytest.raises(ScenarioError) as error:
        assemble(small(algorithm=algorithm(own(name))))

    assert error.value.key == "algorithm"
    assert found in str(error.value)


PLACES = [
    ("population", {"uplink_codec": "Shrinking"}, "population.uplink_codec", "Shrinking"),
    ("data", {"partition": "Before"}, "data.partition", "split gave -1"),
    ("data", {"partition": "Between"}, "data.partition", "Between.split"),
    ("data", {"partition": "Sharing"}, "data.partition", "Sharing.split assigned row 2 3 times"),
    ("data", {"partition": "Doubling"}, "data.partition", "Doubling.split assigned row 0 2 times"),
    ("data", {"partition": "Relabelling"}, "data.partition", "read-only"),
    ("data", {"name": "Graded"}, "data", "training inputs: found a tensor with a gradient"),
    ("data", {"name": "Nothing"}, "data", "Nothing.load gave None, accepted: a Data"),
]


@pytest.mark.parametrize(("section", "change", "key", "said"), PLACES)
def test_what_data_and_systems_parts_give_is_refused_at_their_key(own, section, change, key, said):
    """Before the run: sizes below 0, rows of -1 or 0.5, changed labels, no data at all."""
    values = {name: own(one) for name, one in change.items()}

    with pytest.raises(ScenarioError) as error:
        assemble(small(**{section: {**SMALL[section], **values}}))
    assert error.value.key == key
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_rows_may_be_given_backwards(own):
    """As a view: which rows a client has is all that counts."""
    data = {**SMALL["data"], "partition": own("Backwards")}

    assert simulated(small(data=data))[1].publications.latest.version == 3


def test_a_partition_that_says_so_may_deal_rows_twice(own):
    """Bootstrap samples: everybody has 20 rows, drawn with replacement."""
    data = {**SMALL["data"], "partition": own("Bootstrap")}

    assert assemble(small(data=data)).partitioned.num_examples.tolist() == [20] * 8


@pytest.mark.parametrize("direction", ["uplink", "downlink"])
def test_what_a_codec_changes_in_place_is_its_own(own, direction):
    """It returns all values unchanged, and overwrites its arguments with zeros."""
    erased = small(population={f"{direction}_codec": own("Erasing")}, stop={"versions": 2})
    plain = small(stop={"versions": 2})

    found, wanted = (final_weights(simulated(one)[1]) for one in (erased, plain))

    assert all(torch.allclose(found[name], wanted[name], atol=1e-9) for name in wanted)


def test_frequencies_of_another_shape_are_refused(own):
    """One entry in an array is not one for each client."""
    with pytest.raises(PartMisbehaves, match=r"OneForMany\.decide .* shape \(8,\)"):
        simulated(small(decisions={"allocation": own("OneForMany")}))


def test_a_view_is_the_policy_s_own(own):
    """Client numbers that an allocation overwrites change nobody else's."""
    plain = simulated(small())[1]
    run = simulated(small(decisions={"allocation": own("Renumbering")}))[1]

    assert run.observations.participations.tolist() == plain.observations.participations.tolist()


@pytest.mark.parametrize(
    ("name", "method"), [("Overwriting", "aggregate"), ("Briefing", "brief"), ("Losing", "loss")]
)
def test_weights_changed_in_place_are_refused(own, name, method):
    """They are those of a state that others hold."""
    with pytest.raises(PartMisbehaves, match=rf"{name}\.{method} changed tensors in place"):
        simulated(small(algorithm=algorithm(own(name))))


def test_a_model_that_changes_its_weights_in_its_forward_pass_is_refused(own):
    """Before the run, at the model."""
    with pytest.raises(ScenarioError, match=r"changes its weights head\.weight in place") as error:
        assemble(small(model=own("Clamped")))

    assert error.value.key == "model"


@pytest.mark.parametrize(
    ("name", "said"),
    [("Halving", "changes its inputs in place"), ("Detached", "its outputs have no gradient")],
)
def test_a_model_that_changes_its_inputs_or_learns_nothing_is_refused(own, name, said):
    """Each evaluation halved the test set anew; the other one was an error of torch's."""
    with pytest.raises(ScenarioError, match=said) as error:
        assemble(small(model=own(name)))

    assert error.value.key == "model"


def test_a_state_has_all_tensors_of_the_model(own):
    """With their shapes and types."""
    with pytest.raises(PartMisbehaves, match=r"Shorter\.aggregate: .* every tensor of the model"):
        simulated(small(algorithm=algorithm(own("Shorter"))))


def invoked(scenario: dict[str, Any], folder: Path) -> tuple[int, str, dict[str, Any]]:
    """Exit code, standard error and manifest of a scenario run by the command line."""
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump(scenario))
    result = CliRunner().invoke(app, ["run", str(file), "--out", str(folder / "run")])
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    return result.exit_code, result.stderr, manifest


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Leaving", "in Leaving.decide: called sys.exit(0)"),
        ("Misspelt", "in Misspelt.decide: no field 'positions', did you mean 'position_m'?"),
    ],
)
def test_a_part_that_raises_or_leaves_closes_the_run(own, tmp_path, name, said):
    """One line with its file, its line and the part's name, exit code 1, status failed."""
    code, stderr, manifest = invoked({**SMALL, "decisions": {"selection": own(name)}}, tmp_path)

    assert code == 1
    line = PLUGINS.partition(f"class {name}(")[0].count("\n") + 2
    assert stderr.splitlines()[-1].endswith(f"own.py:{line} {said}")
    assert manifest["status"] == "failed"
    assert said in manifest["reason"]


def test_a_loss_without_a_gradient_is_refused(own):
    """In one line, instead of torch's."""
    with pytest.raises(PartMisbehaves, match=r"in NoGradient\.loss gave a loss without a gradient"):
        simulated(small(algorithm=own("NoGradient")))


def test_names_that_are_nearly_those_of_a_method_are_told(own):
    """Nothing would call them; other names, and private ones, are helpers."""
    own_class, shipped = (
        [one for one in foreseen(assemble(small(algorithm=name))) if one.kind == "perhaps_misspelt"]
        for name in (own("Unheard"), "fedavg")
    )

    assert not shipped
    (said,) = own_class
    assert said.count == 2
    assert said.message == (
        "Unheard.agregate is nothing of Algorithm: did you mean aggregate?"
        " Unheard.min_update is nothing of Algorithm: did you mean min_updates?"
    )


def test_a_protocol_that_raises_is_named(own, tmp_path):
    """SimPy raises what a process raised anew; its origin is found."""
    code, stderr, manifest = invoked({**SMALL, "protocol": own("Wrong")}, tmp_path)

    assert code == 1
    assert "in Wrong.process: KeyError: 'boom'" in stderr
    assert manifest["status"] == "failed"


def test_a_part_that_gives_something_wrong_is_told_with_the_line_of_its_method(own):
    """In the user's file; for an unknown name the nearest known one is suggested."""
    with pytest.raises(PartMisbehaves) as error:
        simulated(small(decisions={"allocation": own("OneForMany")}))

    line = PLUGINS.partition("class OneForMany(")[0].count("\n") + 2
    assert re.search(rf"own\.py:{line} in OneForMany\.decide gave ", str(error.value))


@pytest.mark.parametrize("name", ["Pair", "PairInTraining", "Mapped"])
def test_a_model_that_gives_something_else_than_a_tensor_is_refused(own, name):
    """Whether always or in training alone: at the model, with its file and line."""
    with pytest.raises(ScenarioError) as error:
        assemble(small(model=own(name)))

    assert error.value.key == "model"
    what = "dict" if name == "Mapped" else "tuple"
    assert re.search(rf"own\.py:\d+ in {name}\.forward gave a {what}, accep", str(error.value))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def half(:\n", r"broken\.py:1: SyntaxError: "),
        ("import os\n\nmissing()\n", r"broken\.py:3: NameError: name 'missing' is not defined"),
    ],
)
def test_a_file_that_cannot_be_imported_is_told_with_its_line(tmp_path, text, said):
    """As part of the refusal at the scenario's key."""
    (tmp_path / "broken.py").write_text(text)

    with pytest.raises(ScenarioError, match=said):
        assemble(small(model=f"{tmp_path / 'broken.py'}:Net"))


def test_the_way_to_an_error_is_told_on_demand(own, tmp_path):
    """Before the one line, which is the last one as ever."""
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump({**SMALL, "decisions": {"selection": own("Misspelt")}}))

    results = [
        CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "run"), *options])
        for options in ([], ["--traceback"])
    ]

    short, long = (result.stderr.splitlines() for result in results)
    assert short[-1] == long[-1]
    assert not any("Traceback" in line for line in short)
    assert sum(line.startswith("Traceback") for line in long) > 1  # of its cause, too
    assert any("view.positions" in line for line in long)


def test_a_run_that_failed_before_its_first_version_makes_room(own, tmp_path):
    """One that came further does not: the message says what to do."""
    folder = tmp_path / "run"
    with pytest.raises(PartMisbehaves):
        simfl.run(small(decisions={"selection": own("Misspelt")}), folder)

    assert simfl.run(small(), folder).manifest["status"] == "completed"

    with pytest.raises(PartMisbehaves):
        simfl.run(small(decisions={"selection": own("Tiring")}), folder, overwrite=True)
    with pytest.raises(FolderInUse, match="failed after 1 versions; --overwrite runs it anew"):
        simfl.run(small(), folder)
    assert simfl.load_run(folder).manifest["status"] == "failed"


LESS_WORK = """
from dataclasses import dataclass, replace
from simfl.plugins import Algorithm

def one_epoch(brief):
    return replace(brief, recipe=replace(brief.recipe, local=replace(brief.recipe.local, epochs=1)))

@dataclass(frozen=True)
class Unpriced(Algorithm):
    def brief(self, network, state, client, held):
        brief = super().brief(network, state, client, held)
        return one_epoch(brief) if client % 2 else brief

class Partly(Algorithm):
    def brief(self, network, state, client, held):
        brief = super().brief(network, state, client, held)
        local = replace(brief.recipe.local, epochs=2)
        return replace(brief, recipe=replace(brief.recipe, local=local))

class Batches(Algorithm):
    def brief(self, network, state, client, held):
        brief = super().brief(network, state, client, held)
        local = replace(brief.recipe.local, batch_size=8)
        return replace(brief, recipe=replace(brief.recipe, local=local))

class Priced(Unpriced):
    def price(self, network, client, version):
        price = super().price(network, client, version)
        return replace(price, work=0.2) if client % 2 else price
"""


@pytest.mark.parametrize(("amount", "refused"), [("epochs", False), ("steps", True)])
def test_other_batches_are_other_work_in_steps_alone(
    amount: str, refused: bool, tmp_path: Path
) -> None:
    """Two epochs are as many examples in batches of 8; two steps are twice as many."""
    (tmp_path / "less.py").write_text(LESS_WORK)
    local = {amount: 2, "batch_size": 4, "learning_rate": 0.1}
    algorithm = {"name": f"{tmp_path / 'less.py'}:Batches", "local": local}
    scenario = small(algorithm=algorithm, stop={"versions": 1})

    if refused:
        with pytest.raises(PartMisbehaves, match=r"other local work.*batch_size 8"):
            simfl.run(scenario, tmp_path / "run")
        return
    run = simfl.run(scenario, tmp_path / "run")
    plain = small(algorithm={"name": "fedavg", "local": local}, stop={"versions": 1})
    fedavg = simfl.run(plain, tmp_path / "plain")
    assert run.manifest["horizon_s"] == fedavg.manifest["horizon_s"]
    assert run.rounds["loss"].iloc[-1] != fedavg.rounds["loss"].iloc[-1]


def test_less_local_work_has_a_price_of_its_own(tmp_path: Path) -> None:
    """One epoch instead of five: in a fifth of the time, or the run is refused."""
    (tmp_path / "less.py").write_text(LESS_WORK)
    local = {"epochs": 5, "batch_size": 4, "learning_rate": 0.1}

    def run(name: str) -> simfl.LoadedRun:
        algorithm = {"name": f"{tmp_path / 'less.py'}:{name}", "local": local}
        changes = {"stop": {"versions": 1}, "decisions": {"selection": "all"}}
        return simfl.run(small(algorithm=algorithm, **changes), tmp_path / name)

    with pytest.raises(
        PartMisbehaves, match=r"client 1 other local work than the recipe.*epochs 1"
    ):
        run("Unpriced")
    whole, local = local, local | {"partial": {}}
    with pytest.raises(PartMisbehaves, match=r"epochs 2\) beside local.partial"):
        run("Partly")
    local = whole
    priced, plain = (
        run("Priced"),
        simfl.run(
            small(
                algorithm={"name": "fedavg", "local": local},
                stop={"versions": 1},
                decisions={"selection": "all"},
            ),
            tmp_path / "plain",
        ),
    )
    times = [
        one.events[one.events["kind"] == "compute"].set_index("client")["duration_s"].sort_index()
        for one in (priced, plain)
    ]
    shares = (times[0] / times[1]).to_numpy()
    assert shares[::2] == pytest.approx(1.0) and shares[1::2] == pytest.approx(0.2)
