"""A run with worker processes is the run without them."""

from __future__ import annotations

from pathlib import Path

import pytest

import simfl
from simfl.assembly.simulation import Options
from simfl.learning.workers import parallel
from tests.small import small

MODEL = """
import torch
from torch import nn

class Pair(nn.Module):
    def __init__(self, input_shape, outputs):
        super().__init__()
        hidden = [nn.Linear(64, 5), nn.Tanh()]
        self.layers = nn.Sequential(nn.Flatten(), *hidden, nn.Linear(5, outputs))

    def forward(self, inputs):
        outputs = self.layers(inputs)
        return outputs + 0.1 * torch.randn_like(outputs)
"""
AUGMENTATION = [{"name": "RandomCrop", "size": 8, "padding": 1}]


def test_workers_change_nothing_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same events and same model, with augmented data and a model from the user's file.

    It draws random numbers in every pass, those of evaluations and loss queries too.
    """
    monkeypatch.setattr(parallel, "FEWEST_FLOPS", 0.0)
    monkeypatch.setattr(parallel, "FEWEST_FLOPS_FOR_THREADS", 0.0)
    monkeypatch.setattr(parallel, "FEWEST_FLOPS_PER_JOB", 0.0)
    (tmp_path / "pair.py").write_text(MODEL)
    scenario = small(
        model={"name": f"{tmp_path / 'pair.py'}:Pair"},
        dtype="float32",
        data={"augmentation": AUGMENTATION},
        decisions={"selection": {"name": "power_of_choice", "count": 4}},
        stop={"versions": 2},
    )

    runs = [
        simfl.run(scenario, tmp_path / str(workers), Options(workers=workers, device="cpu"))
        for workers in (0, 2)
    ]

    assert runs[0].manifest["fingerprint"] == runs[1].manifest["fingerprint"]
    alone, together = ((tmp_path / name / "model.safetensors").read_bytes() for name in "02")
    assert alone == together
