"""Losses of a user's own: what depends on other jobs, or on padding, is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from simfl.algorithms.asked import AskedLoss
from simfl.common.contract import PartMisbehaves
from tests.small import final_weights, simulated, small

LOSSES = """
import torch
from torch import nn
from simfl.plugins import Algorithm, Model

class Normed(Model):  # with running statistics
    def build(self, input_shape, outputs):
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                             nn.Linear(4 * 36, outputs))

def outputs(parameters, batch):
    return batch.forward(parameters, batch.inputs)

class Plain(Algorithm):
    def loss(self, parameters, batch):
        return batch.mean_loss(outputs(parameters, batch))

class Twice(Algorithm):  # and a term that needs no pass
    def loss(self, parameters, batch):
        far = sum(((one - batch.start[name]) ** 2).flatten(1).sum(1)
                  for name, one in parameters.items() if one.requires_grad)
        return batch.mean_loss(outputs(parameters, batch)) + 0.1 * far

class SumOfAll(Algorithm):
    def loss(self, parameters, batch):
        losses = batch.mean_loss(outputs(parameters, batch))
        return losses.sum().expand(len(losses))

class NormOfAll(Algorithm):
    def loss(self, parameters, batch):
        norm = sum(one.square().sum() for one in parameters.values()).sqrt()
        return batch.mean_loss(outputs(parameters, batch)) + 0.1 * norm

class Centred(Algorithm):
    def loss(self, parameters, batch):
        found = outputs(parameters, batch)
        return batch.mean_loss(found - 0.9 * found.mean(0, keepdim=True))

class Unmasked(Algorithm):
    def loss(self, parameters, batch):
        found = outputs(parameters, batch)
        each = torch.nn.functional.cross_entropy(
            found.flatten(0, 1), batch.targets.flatten(), reduction="none")
        return each.view(batch.valid.shape).mean(1)
"""
MODELS: dict[str, dict[str, Any]] = {
    "perceptron": {"model": {"name": "mlp", "hidden": [12]}},
    "convolutions": {"model": {"name": "cnn", "channels": [4, 8]}},
    "statistics": {"model": {"name": "own.py:Normed"}},
}


def scenario(folder: Path, name: str, **changes: Any) -> Any:
    """Two versions of eight clients with an own loss."""
    (folder / "own.py").write_text(LOSSES)
    local = {"epochs": 1, "batch_size": 16, "learning_rate": 0.05}
    algorithm = {"name": f"{folder}/own.py:{name}", "local": local}
    of_model = changes.get("model", {}).get("name", "mlp")
    if of_model.startswith("own.py"):
        changes["model"] = {"name": f"{folder}/{of_model}"}
    return small(algorithm=algorithm, stop={"versions": 2}, **changes)


@pytest.mark.parametrize("name", ["SumOfAll", "NormOfAll", "Centred"])
def test_a_loss_that_mixes_jobs_is_refused(name: str, tmp_path: Path) -> None:
    """With file and line; a job alone has nobody to mix with."""
    with pytest.raises(PartMisbehaves, match=rf"own\.py:\d+ in {name}\.loss mixes jobs that"):
        simulated(scenario(tmp_path, name))
    simulated(scenario(tmp_path, name), cohort_cap=1)


def test_a_loss_that_counts_padding_is_refused(tmp_path: Path) -> None:
    """Rows that fill up a batch; the sequential trainer has none."""
    with pytest.raises(PartMisbehaves, match=r"Unmasked\.loss counts padded rows"):
        simulated(scenario(tmp_path, "Unmasked"))
    simulated(scenario(tmp_path, "Unmasked"), trainer="sequential")


@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("name", ["Plain", "Twice"])
def test_a_sound_loss_is_looked_at_without_any_effect(
    name: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same weights to the last bit as without the look."""
    asked, looked = scenario(tmp_path, name, **MODELS[model]), list[str]()
    mixed, padded = AskedLoss._refuse_mixed_jobs, AskedLoss._refuse_padded_rows
    monkeypatch.setattr(
        AskedLoss, "_refuse_mixed_jobs", lambda *given: (looked.append("jobs"), mixed(*given))
    )
    monkeypatch.setattr(
        AskedLoss, "_refuse_padded_rows", lambda *given: (looked.append("rows"), padded(*given))
    )
    weights = final_weights(simulated(asked)[1])
    for method in ("_refuse_mixed_jobs", "_refuse_padded_rows"):
        monkeypatch.setattr(AskedLoss, method, lambda *_: None)

    unseen = final_weights(simulated(asked)[1])

    assert set(looked) == {"jobs", "rows"} and looked.count("jobs") == 1
    for key, one in weights.items():
        assert torch.equal(one, unseen[key])
