"""LSTM, GRU and transformer: sizes by hand, inputs of both kinds, what they cost and can learn."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import simfl
from simfl.assembly.assemble import assemble
from simfl.learning.models.base import Model, as_module
from simfl.learning.models.gru import Gru
from simfl.learning.models.lstm import Lstm
from simfl.learning.models.transformer import Transformer
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.scenario.yaml_source.error import ScenarioError
from tests.small import small

MODELS = {
    "lstm": Lstm(tokens=11, embedding=4, hidden=6),
    "gru": Gru(tokens=11, embedding=4, hidden=6),
    "transformer": Transformer(tokens=11, width=8, heads=2, layers=1, feed_forward=12),
}
LENGTH = 5


def network(model: Model, shape: tuple[int, ...] = (LENGTH,)) -> Network:
    """For three classes."""
    return Network(partial(as_module, model, shape, 3), shape, Objective("classification"))


@pytest.mark.parametrize(
    ("model", "shape", "outputs", "values"),
    [
        (Lstm(tokens=80, hidden=256, layers=2), (80,), 80, 819_920),  # LEAF's Shakespeare
        (MODELS["lstm"], (LENGTH,), 3, 44 + 4 * (6 * (4 + 6) + 12) + 21),
        (MODELS["gru"], (LENGTH,), 3, 44 + 3 * (6 * (4 + 6) + 12) + 21),
        (Gru(hidden=6), (LENGTH, 2), 3, 3 * (6 * (2 + 6) + 12) + 21),
        (
            MODELS["transformer"],
            (LENGTH,),
            3,
            88 + 40 + (4 * 72 + 8 * 12 + 12 + 12 * 8 + 8 + 32) + 16 + 27,
        ),
        (
            Transformer(width=8, heads=2, layers=1, feed_forward=12),
            (LENGTH, 2),
            3,
            24 + 40 + (4 * 72 + 8 * 12 + 12 + 12 * 8 + 8 + 32) + 16 + 27,
        ),
    ],
)
def test_size_and_outputs(model: Model, shape: tuple[int, ...], outputs: int, values: int) -> None:
    """Parameters counted by hand; a row of inputs becomes a row of outputs."""
    module = model.build(shape, outputs)

    assert sum(one.numel() for one in module.parameters()) == values
    assert module(torch.ones(2, *shape)).shape == (2, outputs)


@pytest.mark.parametrize(
    ("name", "flops"),
    [
        ("lstm", 2 * LENGTH * 4 * 6 * (4 + 6) + 2 * 6 * 3),
        ("gru", 2 * LENGTH * 3 * 6 * (4 + 6) + 2 * 6 * 3),
        (
            "transformer",
            2 * LENGTH * (4 * 64 + 2 * 8 * 12) + 2 * 2 * 2 * LENGTH * LENGTH * 4 + 2 * 8 * 3,
        ),
    ],
)
def test_they_train_in_stacks_and_have_a_price(name: str, flops: int) -> None:
    """Their work is counted as other models' is, and so are their bytes."""
    net = network(MODELS[name])

    assert net.kernel_family == "stacked", net.not_stacked_because
    assert net.forward_flops == flops
    assert net.size_bytes == 4 * sum(one.numel() for one in net.initial(0).values())


@pytest.mark.parametrize("model", [Lstm(tokens=5), Gru(), Transformer(tokens=5)])
def test_images_are_no_sequences(model: Model) -> None:
    """The error says what a sequence is."""
    with pytest.raises(ValueError, match=r"takes sequences of .* shape \(1, 8, 8\)"):
        model.build((1, 8, 8), 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda: Transformer(width=10), "^heads: "), (lambda: Lstm(dropout=0.1), "^dropout: ")],
)
def test_settings_that_fit_nothing(make: object, message: str) -> None:
    """Checks across fields name one of them first."""
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        make()


def text(folder: Path) -> Path:
    """Windows of tokens that go round in steps of one or two, and the token that comes next."""
    generator = np.random.default_rng(0)
    arrays = {}
    for part, rows in (("train", 400), ("test", 100)):
        start, step = generator.integers(0, 7, rows), generator.integers(1, 3, rows)
        tokens = (start[:, None] + step[:, None] * np.arange(LENGTH + 1)) % 7
        arrays[f"x_{part}"], arrays[f"y_{part}"] = tokens[:, :-1], tokens[:, -1]
    np.savez(folder / "text.npz", **arrays)
    return folder / "text.npz"


@pytest.mark.parametrize("name", MODELS)
def test_the_next_token_is_learned(name: str, tmp_path: Path) -> None:
    """Perplexity falls from the number of tokens to nearly 1; figures are e to the loss."""
    scenario = small(
        dtype="float32",
        data={"name": "npz", "path": str(text(tmp_path)), "partition": "iid"},
        model={"name": name, "tokens": 7},
        algorithm={
            "name": "fedavg",
            "local": {"epochs": 2, "batch_size": 10, "optimizer": "adam", "learning_rate": 0.02},
        },
        stop={"versions": 5},
        evaluate={"measures": ["perplexity"]},
    )

    run = simfl.run(scenario, tmp_path / "run")

    figures = run.manifest["measures"]["perplexity"]
    assert figures["final"] == pytest.approx(math.exp(run.rounds["loss"].iloc[-1]))
    assert figures["lowest"] <= figures["final"] < 2.0
    assert run.manifest["numeric_platform"]["kernel_family"] == "stacked"


def test_a_token_that_no_table_has_is_an_error(tmp_path: Path) -> None:
    """It is refused before the run, at the model's key."""
    scenario = small(
        data={"name": "npz", "path": str(text(tmp_path)), "partition": "iid"},
        model={"name": "gru", "tokens": 6},
    )

    with pytest.raises(ScenarioError, match=r"model.tokens: found 6, but the data have"):
        assemble(scenario)


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "none"},
        {
            "data": {"name": "synthetic", "task": "regression", "partition": "iid"},
            "model": "linear",
            "stop": {"versions": 1},
        },
    ],
)
def test_no_perplexity_where_no_classes_are_learned(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    """No figures at all: nothing is learned, or a squared error."""
    scenario = small(**changes, evaluate={"measures": ["perplexity"]})

    run = simfl.run(scenario, tmp_path / "run")

    assert run.manifest["measures"] == {"perplexity": {}}
