"""Effects of codecs on values: bounds, means, unchanged values, and residuals."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from simfl.common.contract import PartMisbehaves
from simfl.learning.batched import BatchedTrainer
from simfl.learning.codecs.base import ValueCodec
from simfl.learning.codecs.float16 import Float16
from simfl.learning.codecs.int8 import Int8
from simfl.learning.codecs.messages import decoded, uploaded
from simfl.learning.codecs.top_k import TopK
from simfl.learning.job import Brief, LocalTraining, Memory, Price, Recipe, Update
from simfl.learning.parameters import Parameters
from simfl.learning.sequential import SequentialTrainer
from simfl.learning.trainer import LocalJob, Trainer
from tests.learning.training import assert_same_bits, network, plain_loss, shards

ALL: list[ValueCodec] = [
    Float16(),
    Int8(),
    Int8(rounding="nearest"),
    TopK(share=0.1),
    TopK(share=0.3, value_bits=16),
    TopK(share=0.3, value_bits=4),
]
SIZES = {"weight": (40, 25), "bias": (7,), "scalar": ()}


def values(seed: int = 0) -> Parameters:
    """Tensors of several sizes and scales, some values exactly zero."""
    generator = torch.Generator().manual_seed(seed)
    made = {
        name: 10.0**-power * torch.randn(shape, generator=generator, dtype=torch.float64)
        for power, (name, shape) in enumerate(SIZES.items())
    }
    made["weight"][::4] = 0.0
    return made


def coded(codec: ValueCodec, sent: Parameters, seed: int = 0) -> Parameters:
    """A message of all of them."""
    return decoded(codec, sent, 4 * sum(one.numel() for one in sent.values()), seed)


def steps(tensor: Tensor) -> float:
    """The width of an int8's step: the largest magnitude is 127 of them."""
    return float(tensor.abs().max()) / 127


@pytest.mark.parametrize("codec", ALL)
def test_what_every_codec_keeps(codec: ValueCodec) -> None:
    """Names, shapes, types and zeros; the same draws give the same bits; NaN is not hidden."""
    sent = values()

    first, again = coded(codec, sent), coded(codec, sent)

    assert list(first) == list(sent)
    for name, tensor in sent.items():
        assert (first[name].shape, first[name].dtype) == (tensor.shape, tensor.dtype)
        assert torch.equal(first[name], again[name])
        assert not first[name][tensor == 0].any()
    broken = {**sent, "bias": sent["bias"] * torch.nan}
    assert coded(codec, broken)["bias"].isnan().any()
    assert coded(codec, {name: 0 * one for name, one in sent.items()})["weight"].eq(0).all()


def test_an_int8_is_at_most_a_step_away_or_half_a_step() -> None:
    """Every tensor has a scale of its own, so that small biases keep their digits."""
    sent = values()

    by_chance, nearest = coded(Int8(), sent), coded(Int8(rounding="nearest"), sent)

    for name, tensor in sent.items():
        step = steps(tensor)
        assert (by_chance[name] - tensor).abs().max() < step
        assert (nearest[name] - tensor).abs().max() <= step / 2 * (1 + 1e-12)
        levels = by_chance[name] / step
        torch.testing.assert_close(levels, levels.round(), rtol=0, atol=1e-9)


def test_stochastic_rounding_is_right_on_average() -> None:
    """The mean of 4000 messages lies within 5 standard errors: a step has at most a deviation of a
    half."""
    sent = {"weight": values()["weight"][:8]}
    count = 4000

    mean = sum(coded(Int8(), sent, seed)["weight"] for seed in range(count)) / count

    error = steps(sent["weight"]) / 2 / count**0.5
    assert (mean - sent["weight"]).abs().max() < 5 * error
    nearest = coded(Int8(rounding="nearest"), sent)["weight"]
    assert (nearest - sent["weight"]).abs().max() > 5 * error


def test_top_k_keeps_the_largest_of_all_tensors_as_they_are() -> None:
    """Ties are broken by position, and a message priced for fewer values holds fewer."""
    sent = values()
    flat = torch.cat([one.reshape(-1) for one in sent.values()])

    kept = torch.cat([one.reshape(-1) for one in coded(TopK(share=0.1), sent).values()])

    count = -(-flat.numel() // 10)
    assert int((kept != 0).sum()) == count
    assert torch.equal(kept[kept != 0], flat[kept != 0])
    assert flat[kept != 0].abs().min() >= flat[kept == 0].abs().max()
    level = {"ones": torch.tensor([1.0, -1.0, 1.0, 1.0, -2.0])}
    assert decoded(TopK(share=0.5), level, 4 * 5, 0)["ones"].tolist() == [1, -1, 0, 0, -2]
    assert decoded(TopK(share=0.5), level, 4 * 2, 0)["ones"].tolist() == [0, 0, 0, 0, -2]


@pytest.mark.parametrize("codec", ALL)
def test_what_was_not_said_is_not_lost(codec: ValueCodec) -> None:
    """With error feedback, everything sent plus the residual is everything that was to be sent."""
    feedback = replace(codec, error_feedback=True)  # type: ignore[type-var]  # all are dataclasses
    said = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in SIZES.items()}
    wanted = {name: one.clone() for name, one in said.items()}
    residual: Parameters | None = None

    for turn in range(12):
        change = values(turn)
        arrived, residual = uploaded(feedback, change, 4 * 1008, turn, residual)
        for name in SIZES:
            said[name] += arrived[name]
            wanted[name] += change[name]

    assert residual is not None
    for name, tensor in wanted.items():
        torch.testing.assert_close(said[name] + residual[name], tensor, rtol=0, atol=1e-12)
    assert uploaded(codec, values(), 4 * 1008, 0)[1] is None


class Forgetful(ValueCodec):
    """Drops a tensor."""

    def code(self, values: Parameters, sent: int, generator: torch.Generator) -> Parameters:
        """All but the first."""
        return dict(list(values.items())[1:])


def test_a_codec_of_ones_own_gives_back_what_it_was_given() -> None:
    """The error names it and the tensor."""
    with pytest.raises(PartMisbehaves, match=r"Forgetful\.code: weight gave None, accepted"):
        coded(Forgetful(), values())


class Rewriting(ValueCodec):
    """Says something else than it was given: finite numbers, and no exact zeros."""

    def code(self, values: Parameters, sent: int, generator: torch.Generator) -> Parameters:
        """NaN and infinities are 0, and 0.5 is added to everything."""
        return {name: one.nan_to_num(0.0, 0.0, 0.0) + 0.5 for name, one in values.items()}


@pytest.mark.parametrize("lost", [torch.nan, torch.inf, -torch.inf])
def test_a_codec_of_ones_own_hides_no_divergence(lost: float) -> None:
    """Otherwise a run that diverges would go on with made-up values."""
    diverged = values()
    diverged["bias"][3] = lost
    with pytest.raises(PartMisbehaves, match=r"Rewriting\.code: bias gave 0\.5, accepted: NaN"):
        coded(Rewriting(), diverged)


def test_a_codec_of_ones_own_may_change_zeros_only_of_whole_messages() -> None:
    """Noise on a channel is one; but zeros of a message of a part may be masked."""
    noisy = coded(Rewriting(), values())
    assert bool((noisy["weight"][::4] == 0.5).all())
    with pytest.raises(PartMisbehaves, match=r"weight gave 0\.5, accepted: 0 for an exact zero"):
        decoded(Rewriting(), values(), 4 * 1007, 0)


class Scaling(ValueCodec):
    """Divides by the largest value and multiplies by it again, as quantisers do."""

    def code(self, values: Parameters, sent: int, generator: torch.Generator) -> Parameters:
        """NaN, if the largest one is."""
        return {name: one / one.abs().max() * one.abs().max() for name, one in values.items()}


def test_zeros_of_diverged_values_may_become_nan() -> None:
    """A codec of one's own that spreads a NaN changes no masked value of a sound model."""
    diverged = values()
    diverged["weight"][1, 0] = torch.nan
    assert bool(decoded(Scaling(), diverged, 4 * 1007, 0)["weight"].isnan().all())


def job(client: int, codec: ValueCodec | None, recipe: Recipe, **settings: object) -> LocalJob:
    """A client's job from the initial weights of the model that has BatchNorm."""
    start = network("bn_mlp").initial(0)
    price = Price(4 * 10_000, 4 * 10_000)
    made = LocalJob(
        key=f"job-{client}",
        client=client,
        seed=100 + client,
        version=0,
        make_brief=lambda: Brief(start, recipe, price),
        uplink=codec,
    )
    return replace(made, **settings)


def trained(
    trainer: type[Trainer], codec: ValueCodec | None, recipe: Recipe, **how: int
) -> list[Update]:
    """Everybody's update."""
    one = trainer(network("bn_mlp"), shards(), plain_loss, **how)
    futures = [one.submit(job(client, codec, recipe)) for client in range(2, 6)]
    return [future.result() for future in futures]


TRAINING = Recipe(LocalTraining(steps=2, batch_size=8, learning_rate=0.1))
GRADIENT = replace(TRAINING, kind="gradient")


@pytest.mark.parametrize("recipe", [TRAINING, GRADIENT], ids=["train", "gradient"])
def test_uploads_are_coded_as_changes_and_gradients_as_they_are(recipe: Recipe) -> None:
    """Scale per tensor; running statistics and counters arrive as they are."""
    whole, sent = (trained(SequentialTrainer, codec, recipe) for codec in (None, Int8()))

    for plain, update in zip(whole, sent, strict=True):
        assert list(update.payload) == list(plain.payload)
        for name, tensor in plain.payload.items():
            start = 0.0 if recipe.kind == "gradient" else plain.brief.start[name]
            if name in network("bn_mlp").buffer_names:
                assert torch.equal(update.payload[name], tensor)
                continue
            step = steps(tensor - start)
            difference = (update.payload[name] - tensor).abs().max()
            assert difference <= step * (1 + 1e-9)
        assert not torch.equal(update.payload["4.weight"], plain.payload["4.weight"])


@pytest.mark.parametrize("recipe", [TRAINING, GRADIENT], ids=["train", "gradient"])
@pytest.mark.parametrize("codec", [Int8(), TopK(share=0.1, error_feedback=True)])
def test_company_changes_no_bit_of_a_coded_upload(codec: ValueCodec, recipe: Recipe) -> None:
    """Cohorts of 1, 2, 7 and all; the reference's uploads are the same to 1e-9."""
    together = trained(BatchedTrainer, codec, recipe)

    for cap in (1, 2, 7):
        for update, expected in zip(
            trained(BatchedTrainer, codec, recipe, cohort_cap=cap), together, strict=True
        ):
            assert_same_bits(update, expected)
    for update, expected in zip(trained(SequentialTrainer, codec, recipe), together, strict=True):
        for name, tensor in expected.payload.items():
            torch.testing.assert_close(update.payload[name], tensor, rtol=0, atol=1e-9)


def test_private_tensors_and_masked_entries_stay() -> None:
    """What is private is in the memory, uncoded; what a mask holds at zero arrives as zero."""
    names = network("bn_mlp").normalisation
    private = replace(TRAINING, private=names)
    whole, sent = (trained(SequentialTrainer, codec, private)[0] for codec in (None, Int8()))
    assert not names & set(sent.payload)
    for name in names:
        assert torch.equal(sent.memory.private[name], whole.memory.private[name])

    start = {**network("bn_mlp").initial(0)}
    mask = torch.zeros_like(start["1.weight"])
    mask[:3] = 1.0
    start["1.weight"] = start["1.weight"] * mask
    brief = Brief(start, TRAINING, Price(40_000, 40_000), own={"mask/1.weight": mask})
    for codec in ALL:
        one = SequentialTrainer(network("bn_mlp"), shards(), plain_loss)
        update = one.submit(job(4, codec, TRAINING, make_brief=lambda: brief)).result()
        assert not update.payload["1.weight"][mask == 0].any()
        assert update.payload["1.weight"].any()


def test_a_change_counts_from_what_was_received_and_is_added_to_what_was_sent() -> None:
    """The server keeps its exact weights, whatever codec stands on the way down."""
    start = network("bn_mlp").initial(0)
    received = {**start, "4.weight": start["4.weight"] + 0.5}
    one = SequentialTrainer(network("bn_mlp"), shards(), plain_loss)
    update = one.submit(job(4, None, TRAINING, receive=lambda brief: received)).result()
    directly = one.submit(
        job(4, None, TRAINING, make_brief=lambda: Brief(received, TRAINING, Price(0, 0)))
    ).result()

    for name, change in directly.delta.items():
        torch.testing.assert_close(update.delta[name], change, rtol=0, atol=1e-12)
    assert torch.equal(update.brief.start["4.weight"], start["4.weight"])


def test_a_residual_goes_from_job_to_job_in_the_clients_memory() -> None:
    """Two turns with it send what a single one leaves unsaid."""
    codec = TopK(share=0.02, error_feedback=True)
    one = BatchedTrainer(network("bn_mlp"), shards(), plain_loss)
    first = one.submit(job(4, codec, TRAINING))
    second = one.submit(job(4, codec, TRAINING, key="next", seed=7, previous=first))
    plain = one.submit(job(4, None, TRAINING, key="plain", seed=7))

    left, after = first.result().memory.residual, second.result()

    assert left is not None and after.memory.residual is not None
    for name, residual in after.memory.residual.items():
        change = plain.result().delta[name]
        torch.testing.assert_close(
            after.delta[name] + residual, change + left[name], rtol=0, atol=1e-12
        )
    assert plain.result().memory == Memory()
