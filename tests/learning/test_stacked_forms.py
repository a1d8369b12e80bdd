"""Norms, dropout, embeddings, attention and recurrent layers of many jobs at once.

Each is compared with the loop over jobs in float64, and with itself, bit for bit, among any other
jobs. Sizes are such that matrices and rows do not end with a cache line or a vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simfl.learning.batched import BatchedTrainer
from simfl.learning.datasets.base import Examples
from simfl.learning.job import LocalTraining, Recipe, Update
from simfl.learning.kernels import stacked_recurrent
from simfl.learning.minibatch import Minibatch
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters
from simfl.learning.sequential import SequentialTrainer
from simfl.learning.trainer import Trainer
from tests.learning.training import assert_close, assert_same_bits, plain_loss, submit

TOKENS, LENGTH, CLASSES = 11, 5, 3
SIZES = (7, 12, 5, 12, 9, 20, 12, 3, 12)
"""Examples of nine clients: jobs of one to three steps, most of whose last batches are padded."""


class Recurrent(nn.Module):
    """Tokens through an embedding and a recurrent layer; all that it returns is used."""

    def __init__(self, layer: type[nn.LSTM | nn.GRU], size: int = 7, **settings: object) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 6, padding_idx=2)
        self.recurrent = layer(6, size, batch_first=True, **settings)
        both = size * (2 if settings.get("bidirectional") else 1)
        self.head = nn.Linear(both + size, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        """Tokens (rows, length) to logits."""
        outputs, state = self.recurrent(self.embedding(inputs.long()))
        last = state[0] if isinstance(self.recurrent, nn.LSTM) else state
        return self.head(torch.cat([outputs.mean(1) + outputs[:, -1], last[-1]], 1))


class LastCell(nn.Module):
    """An LSTM of which only the last cell is used."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(1, CLASSES, batch_first=True, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Tokens (rows, length), as numbers, to logits."""
        _, (_, cell) = self.recurrent(inputs.unsqueeze(2))
        return cell[0]


class Encoded(nn.Module):
    """Torch's encoder layers over tokens with learned places; causal or not."""

    def __init__(self, causal: bool = False, **settings: object) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 6)
        self.places = nn.Embedding(LENGTH, 6)
        layer = nn.TransformerEncoderLayer(6, 2, 9, batch_first=True, **settings)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(6, CLASSES)
        self.causal = causal

    def forward(self, inputs: Tensor) -> Tensor:
        """Tokens (rows, length) to logits."""
        values = self.embedding(inputs.long()) + self.places(torch.arange(LENGTH))
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH) if self.causal else None
        values = self.encoder(values, mask=mask, is_causal=self.causal)
        return self.head(values[:, -1] if self.causal else values.mean(1))


class ByHand(nn.Module):
    """Attention as tutorials write it, with a learned vector per place and a scale of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 6)
        self.places = nn.Parameter(torch.randn(1, LENGTH, 6))
        self.scale = nn.Parameter(torch.ones(6))
        self.mixing = nn.Parameter(torch.randn(6, 6) / 3)
        self.query, self.key = nn.Linear(6, 6, bias=False), nn.Linear(6, 6)
        self.norm, self.drop = nn.LayerNorm(6, bias=False), nn.Dropout(0.2)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        """Tokens (rows, length) to logits."""
        rows, length = inputs.shape
        values = self.embedding(inputs.long()) + self.places[:, :length]
        query, key = (
            one(values).view(rows, length, 2, 3).transpose(1, 2) for one in (self.query, self.key)
        )
        weights = F.softmax(query @ key.transpose(-2, -1) / math.sqrt(3), dim=-1)
        split = values.view(rows, length, 2, 3).transpose(1, 2)
        mixed = torch.matmul(self.drop(weights), split).transpose(1, 2).reshape(rows, length, 6)
        values = self.scale * self.norm(values + mixed @ self.mixing)
        return self.head(F.dropout(values.mean(1), 0.1, self.training))


class Attending(nn.Module):
    """Multi-head attention and torch's own function for it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 8)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        """Tokens (rows, length) to logits."""
        values = self.embedding(inputs.long())
        mixed, _ = self.attention(values, values[:, :3], values[:, :3], need_weights=False)
        seen = F.scaled_dot_product_attention(mixed, values, values, is_causal=True)
        return self.head(seen.mean(1))


class Chain(nn.Module):
    """Modules on the entries of an embedding, as images (rows, length, 3, 3)."""

    def __init__(self, *modules: nn.Module, flat: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 9)
        self.body = nn.Sequential(*modules)
        self.flat = flat

    def forward(self, inputs: Tensor) -> Tensor:
        """Tokens (rows, length) to logits."""
        values = self.embedding(inputs.long())
        return self.body(values.flatten(1) if self.flat else values.unflatten(2, (3, 3)))


FORMS: dict[str, Callable[[], nn.Module]] = {
    "embedding": lambda: Chain(nn.Linear(45, CLASSES), flat=True),
    "layer_norm": lambda: Chain(
        nn.Linear(45, 13), nn.LayerNorm(13), nn.ReLU(), nn.Linear(13, CLASSES), flat=True
    ),
    "layer_norm_of_images": lambda: Chain(
        nn.LayerNorm((3, 3)), nn.Flatten(), nn.Linear(45, CLASSES)
    ),
    "group_norm": lambda: Chain(
        nn.Conv2d(LENGTH, 6, 2), nn.GroupNorm(3, 6), nn.ReLU(), nn.Flatten(),
        nn.Linear(24, CLASSES),
    ),
    "instance_norm_and_dropped_channels": lambda: Chain(
        nn.Conv2d(LENGTH, 6, 3, padding=1), nn.GroupNorm(6, 6), nn.Dropout2d(0.4), nn.Flatten(),
        nn.Linear(54, CLASSES),
    ),
    "group_norm_of_rows": lambda: Chain(
        nn.Linear(45, 14), nn.GroupNorm(7, 14), nn.Tanh(), nn.Linear(14, CLASSES), flat=True
    ),
    "dropout": lambda: Chain(
        nn.Dropout(0.2), nn.Linear(45, 13), nn.ReLU(), nn.Dropout(0.5), nn.Linear(13, CLASSES),
        flat=True,
    ),
    "dropout_and_batch_norm": lambda: Chain(
        nn.Linear(45, 13), nn.BatchNorm1d(13), nn.Dropout(0.5), nn.Linear(13, CLASSES), flat=True
    ),
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "deep_lstm": lambda: Recurrent(nn.LSTM, num_layers=2, dropout=0.3, bidirectional=True),
    "deep_gru": lambda: Recurrent(nn.GRU, num_layers=2, dropout=0.3, bidirectional=True),
    "narrow_gru": lambda: Recurrent(nn.GRU, 1, bias=False),
    "last_cell": LastCell,
    "encoder": lambda: Encoded(dropout=0.2),
    "causal_encoder": lambda: Encoded(
        causal=True, dropout=0.0, norm_first=True, activation="gelu"
    ),
    "attention_by_hand": ByHand,
    "attention": Attending,
}  # fmt: skip


def network(form: str, dtype: torch.dtype) -> Network:
    """One of FORMS, for tokens."""
    return Network(FORMS[form], (LENGTH,), Objective("classification"), dtype)


def shards() -> list[Examples]:
    """Random tokens and classes, one shard per client."""
    generator = torch.Generator().manual_seed(1)
    return [
        Examples(
            torch.randint(0, TOKENS, (size, LENGTH), generator=generator).float(),
            torch.randint(0, CLASSES, (size,), generator=generator),
        )
        for size in SIZES
    ]


def results(trainer: Trainer, recipe: Recipe, order: int = 1) -> list[Update]:
    """Every client's update."""
    futures = {client: submit(trainer, client, recipe) for client in range(len(SIZES))[::order]}
    return [futures[client].result() for client in range(len(SIZES))]


@pytest.mark.parametrize("form", FORMS)
def test_a_form_gives_what_the_loop_gives(form: str) -> None:
    """In float64 to 1e-9, draws and running statistics included."""
    net = network(form, torch.float64)
    recipe = Recipe(LocalTraining(epochs=2, batch_size=8, learning_rate=0.5))
    expected = results(SequentialTrainer(net, shards(), plain_loss), recipe)
    trainer = BatchedTrainer(net, shards(), plain_loss)

    found = results(trainer, recipe)

    assert net.kernel_family == "stacked", net.not_stacked_because
    assert max(trainer.cohorts) > 1
    for update, other in zip(found, expected, strict=True):
        assert_close(update, other)


def assert_company_changes_no_bit(form: str, batch_size: int) -> None:
    """In float32 the same bits in groups of one, two, seven and all, in any order."""
    net = network(form, torch.float32)
    recipe = Recipe(LocalTraining(steps=2, batch_size=batch_size, learning_rate=0.5))
    together, *others = (
        results(BatchedTrainer(net, shards(), plain_loss, cohort_cap=cap), recipe, order)
        for cap, order in ((1000, 1), (1, 1), (2, -1), (7, -1))
    )

    for result in others:
        for update, expected in zip(result, together, strict=True):
            assert_same_bits(update, expected)


@pytest.mark.grid(8)
@pytest.mark.parametrize("form", FORMS)
def test_company_changes_no_bit(form: str) -> None:
    """By the library that multiplies on this machine."""
    assert_company_changes_no_bit(form, 8)


@pytest.mark.parametrize("form", ["layer_norm", "group_norm", "lstm", "gru", "attention"])
def test_company_changes_no_bit_of_single_rows(form: str) -> None:
    """Batches of one row, where products are those of vectors."""
    assert_company_changes_no_bit(form, 1)


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("form", ["deep_lstm", "gru", "encoder", "attention_by_hand"])
def test_company_changes_no_bit_by_either_library(form: str) -> None:
    """Whatever this machine's rule is."""
    assert_company_changes_no_bit(form, 8)


@pytest.mark.parametrize("form", ["lstm", "last_cell"])
def test_a_long_lstm_is_left_to_the_library(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Job by job; its results equal the loop's, and its bits do not depend on the other jobs."""
    asked = []
    job_by_job = stacked_recurrent._job_by_job

    def counted(*arguments: Any) -> Any:
        asked.append(arguments)
        return job_by_job(*arguments)

    monkeypatch.setattr(stacked_recurrent, "MOST_IN_STEPS", 0)
    monkeypatch.setattr(stacked_recurrent, "_job_by_job", counted)

    test_a_form_gives_what_the_loop_gives(form)
    assert_company_changes_no_bit(form, 8)
    assert asked


def ensemble_loss(parameters: Parameters, batch: Minibatch) -> Tensor:
    """The job's own model beside the start, and twice the batch's, with draws of their own."""
    outputs = batch.forward(parameters, batch.inputs)
    both = {
        name: torch.stack([parameters[name], batch.start[name]], 1).flatten(0, 1)
        for name in parameters
    }
    others = batch.forward(both, batch.inputs.repeat_interleave(2, 0))
    return batch.mean_loss(outputs + others.unflatten(0, (-1, 2)).mean(1))


@pytest.mark.parametrize("form", ["dropout_and_batch_norm", "encoder"])
def test_a_loss_may_draw_for_several_models(form: str) -> None:
    """Each pass goes on in the job's stream where the one before left it."""
    net = network(form, torch.float64)
    recipe = Recipe(LocalTraining(epochs=1, batch_size=8, learning_rate=0.5))
    expected = results(SequentialTrainer(net, shards(), ensemble_loss), recipe)

    found = results(BatchedTrainer(net, shards(), ensemble_loss), recipe)

    for update, other in zip(found, expected, strict=True):
        assert_close(update, other)


def test_draws_go_on_after_augmentation() -> None:
    """What a module draws comes after what the augmentation of its batch drew."""

    def shuffled(inputs: Tensor) -> Tensor:
        return inputs[:, torch.randperm(LENGTH)]

    net = network("dropout", torch.float64)
    recipe = Recipe(LocalTraining(epochs=1, batch_size=8, learning_rate=0.5))
    state = torch.get_rng_state()
    expected, found = (
        results(trainer(net, shards(), plain_loss, augmentation=shuffled), recipe)
        for trainer in (SequentialTrainer, BatchedTrainer)
    )

    assert torch.equal(state, torch.get_rng_state())
    for update, other in zip(found, expected, strict=True):
        assert_close(update, other)
