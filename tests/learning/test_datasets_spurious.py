"""Data whose labels are predicted better by a feature that does not cause them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from simfl.assembly.assemble import assemble
from simfl.learning.datasets import colored_fashion_mnist, colored_mnist
from simfl.learning.datasets.base import Data, Examples
from simfl.learning.datasets.colored_digits import ColoredDigits
from simfl.learning.datasets.colored_dsprites import FILE, OF_EACH_SHAPE, ColoredDsprites
from simfl.learning.datasets.colored_fashion_mnist import ColoredFashionMnist
from simfl.learning.datasets.colored_mnist import ColoredMnist, grouped
from simfl.learning.datasets.digits import Digits
from simfl.learning.datasets.spurious import Spurious
from simfl.learning.datasets.spurious_cifar10 import SpuriousCifar10
from simfl.scenario.yaml_source.error import ScenarioError
from tests.small import final_weights, largest_difference, simulated, small

ROOT = Path(os.environ.get("SIMFL_DATA", "."))


def colours(data: Data, part: Examples) -> torch.Tensor:
    """Which label each image's colour stands for."""
    channel = part.inputs.flatten(2).sum(dim=2).argmax(dim=1)
    return 1 - channel if data.outputs == 2 else channel


def agreement(data: Data, part: Examples) -> float:
    """How often the colour is the label's."""
    return float((colours(data, part) == part.targets).double().mean())


def of_client(data: Data, client: int) -> Examples:
    """A client's training examples."""
    assert data.natural is not None
    return data.train.take(np.flatnonzero(data.natural == client))


def within(found: float, expected: float, count: int) -> bool:
    """Within four standard deviations of a share of so many draws."""
    return abs(found - expected) <= 4 * np.sqrt(expected * (1 - expected) / count)


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> Data:
    """6,000 and 1,000 random grey images of ten classes, in the place of MNIST's and Fashion's."""
    generator = torch.Generator().manual_seed(3)

    def part(count: int) -> Examples:
        inputs = torch.rand(count, 1, 6, 6, generator=generator)
        return Examples(inputs * (inputs > 0.3), torch.arange(count) % 10)

    data = Data(part(6000), part(1000), "classification", 10)
    for module, name in ((colored_mnist, "Mnist"), (colored_fashion_mnist, "FashionMnist")):
        stand_in = type(name, (), {"load": lambda self, root, seed: data})
        monkeypatch.setattr(module, name, stand_in)
    return data


def test_colours_agree_with_labels_as_often_as_asked(images: Data) -> None:
    """0.8 and 0.9 at the clients, 0.1 at the test client; labels are right in 75 %."""
    data = ColoredMnist().load(None, 5)
    rows = [of_client(data, client) for client in (0, 1)]

    assert [len(part) for part in rows] == [3000, 3000]
    for part, expected in zip((*rows, data.test), (0.8, 0.9, 0.1), strict=True):
        assert within(agreement(data, part), expected, len(part))
    truth = (images.test.targets >= 5).long()
    assert within(float((data.test.targets == truth).double().mean()), 0.75, 1000)


@pytest.mark.parametrize("labels", [2, 5, 10])
def test_a_flipped_feature_is_another_one_on_the_same_image(images: Data, labels: int) -> None:
    """Same labels and ink; every colour is that of the next class."""
    data = ColoredMnist(classes=labels).load(None, 5)
    assert data.flipped is not None

    assert torch.equal(data.flipped.targets, data.test.targets)
    assert torch.equal(colours(data, data.flipped), (colours(data, data.test) + 1) % labels)
    assert torch.equal(data.flipped.inputs.sum(dim=1), data.test.inputs.sum(dim=1))


@pytest.mark.parametrize(("labels", "last"), [(5, 4), (10, 9), (3, 2)])
def test_more_classes_group_neighbouring_digits(labels: int, last: int) -> None:
    """min(digit // (10 // C), C - 1)."""
    digits = torch.arange(10)

    found = grouped(digits, labels)

    assert found[0] == 0 and found[-1] == last
    assert found.bincount().tolist() == {5: [2] * 5, 10: [1] * 10, 3: [3, 3, 4]}[labels]


def test_in_more_classes_noise_moves_to_the_next_class(images: Data) -> None:
    """Label y~ or y~ + 1; colour y or y + 1, of the next class in nine of ten test images."""
    data = ColoredMnist(classes=5).load(None, 5)
    truth = grouped(images.test.targets, 5)
    ahead = (data.test.targets - truth) % 5
    colour_ahead = (colours(data, data.test) - data.test.targets) % 5

    assert set(ahead.tolist()) == {0, 1} and set(colour_ahead.tolist()) == {0, 1}
    assert within(float(ahead.double().mean()), 0.25, 1000)
    assert within(float(colour_ahead.double().mean()), 0.9, 1000)


def test_any_ink_is_one_in_colored_mnist(images: Data) -> None:
    """Pixels are 0 or 1, held as bytes; one channel is empty."""
    data = ColoredMnist().load(None, 5)

    assert data.test.inputs.dtype == torch.uint8
    assert set(data.test.inputs.unique().tolist()) == {0, 1}
    assert torch.equal(data.test.inputs.sum(dim=1).bool(), images.test.inputs[:, 0] > 0)
    assert (data.test.inputs.flatten(2).sum(dim=2).min(dim=1).values == 0).all()


def test_bags_are_left_out_of_colored_fashion(images: Data) -> None:
    """54,000 of 60,000; sandal, sneaker and boot are 1; dark pixels stay grey in both channels."""
    data = ColoredFashionMnist(label_flip=0.0).load(None, 5)
    clean = ColoredFashionMnist(label_flip=0.0, clean_channels=True).load(None, 5)
    grey = images.test.inputs[images.test.targets != 8, 0]
    kinds = images.test.targets[images.test.targets != 8]

    assert (len(data.train), len(data.test)) == (5400, 900)
    assert torch.equal(data.test.targets == 1, torch.isin(kinds, torch.tensor([5, 7, 9])))
    bright = grey > 0.5
    for channel in (0, 1):
        own = colours(clean, clean.test) == 1 - channel
        for part, dark in ((data, grey), (clean, torch.zeros_like(grey))):
            expected = torch.where(bright, own.view(-1, 1, 1).float(), dark)
            torch.testing.assert_close(part.test.inputs[:, channel], expected)


def test_clients_differ_in_number_and_evenness(images: Data) -> None:
    """As many clients as probabilities, of equal size to within one example."""
    data = ColoredMnist(flip=(0.3, 0.2, 0.19, 0.12, 0.1)).load(None, 5)
    assert data.natural is not None

    assert np.bincount(data.natural).tolist() == [1200] * 5
    for client, flip in enumerate((0.3, 0.2, 0.19, 0.12, 0.1)):
        assert within(agreement(data, of_client(data, client)), 1 - flip, 1200)


def test_colored_digits_need_no_files() -> None:
    """Grey 8x8 images in one of two channels; the same by the same seed, others by another."""
    data, again, other = (ColoredDigits().load(None, seed) for seed in (1, 1, 2))
    ink = Digits().load(None, 0)

    assert data.input_shape == (2, 8, 8)
    assert len(data.train) + len(data.test) == len(ink.train) + len(ink.test)
    assert torch.equal(data.train.inputs, again.train.inputs)
    assert not torch.equal(data.train.targets, other.train.targets)
    assert (data.train.inputs.flatten(2).amax(dim=2).min(dim=1).values == 0).all()


def test_dsprites_are_drawn_where_the_file_is_absent() -> None:
    """Squares (1) and ellipses (0), balanced, binary, within the frame, none twice."""
    made = ColoredDsprites(
        flip=(0.0, 0.0), test_flip=0.0, label_flip=0.0, examples_per_client=150, test_examples=100
    ).load(None, 1)
    ink = made.train.inputs.sum(dim=1)
    boxes = [image.nonzero() for image in ink]
    filled = torch.stack(
        [len(box) / (box.amax(dim=0) - box.amin(dim=0) + 1).prod() for box in boxes]
    )
    spread = torch.stack([torch.linalg.eigvalsh(torch.cov(box.double().T)) for box in boxes])
    roundness = spread[:, 0] / spread[:, 1]
    square = made.train.targets == 1

    assert made.input_shape == (2, 64, 64)
    assert made.train.targets.bincount().tolist() == [150, 150]
    assert set(ink.unique().tolist()) == {0, 1}
    assert ink[:, 0].sum() == ink[:, -1].sum() == ink[:, :, 0].sum() == ink[:, :, -1].sum() == 0
    assert torch.unique(ink.flatten(1), dim=0).shape[0] == 300
    assert filled.max() <= 1
    # Second moments: a square's are equal, the ellipse's half axes are 2 : 1.
    assert roundness[square].min() > 0.85 and roundness[~square].max() < 0.45


def test_dsprites_come_from_the_file_where_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First its squares, then its ellipses; hearts are not used."""
    monkeypatch.setattr("simfl.learning.datasets.colored_dsprites.OF_EACH_SHAPE", 8)
    pictures = np.zeros((24, 64, 64), dtype=np.uint8)
    for number in range(24):
        pictures[number, : number + 1, 0] = 1
    np.savez(tmp_path / FILE, imgs=pictures)

    made = ColoredDsprites(label_flip=0.0, examples_per_client=4, test_examples=4).load(tmp_path, 1)

    for part in (made.train, made.test):
        number = part.inputs.sum(dim=(1, 2, 3)) - 1
        assert torch.equal(part.targets == 1, number < 8)
        assert (number < 16).all()


def test_more_sprites_than_there_are_are_refused() -> None:
    """245,760 of each shape."""
    assert OF_EACH_SHAPE == 6 * 40 * 32 * 32 == 245_760
    with pytest.raises(ValueError, match="examples_per_client: 510000 images are asked for"):
        ColoredDsprites(examples_per_client=250_000)


def test_the_patch_of_spurious_cifar_tells_the_feature(tmp_path: Path) -> None:
    """Frogs are left out; vehicles are 0; a black 5x5 patch left (0) or right (1)."""
    rng = np.random.default_rng(0)
    arrays = {
        "x_train": rng.integers(1, 256, (200, 32, 32, 3), dtype=np.uint8),
        "y_train": np.arange(200) % 10,
        "x_test": rng.integers(1, 256, (50, 32, 32, 3), dtype=np.uint8),
        "y_test": np.arange(50) % 10,
    }
    np.savez(tmp_path / "images.npz", **arrays)
    made = SpuriousCifar10(path="images.npz", label_flip=0.0, test_flip=0.9).load(tmp_path, 1)
    kinds = arrays["y_test"][arrays["y_test"] != 6]
    corner = {
        0: (made.test.inputs[:, :, :5, :5] == 0).flatten(1).all(dim=1),
        1: (made.test.inputs[:, :, :5, -5:] == 0).flatten(1).all(dim=1),
    }

    assert (len(made.train), len(made.test)) == (180, 45)
    assert torch.equal(made.test.targets == 0, torch.from_numpy(np.isin(kinds, (0, 1, 8, 9))))
    assert (corner[0] ^ corner[1]).all()
    assert within(float((corner[1].long() == made.test.targets).double().mean()), 0.1, 45)
    assert (made.test.inputs[:, :, 5:] > 0).all()


@pytest.mark.parametrize("data", [ColoredDigits(), ColoredDigits(flip=(0.3, 0.2, 0.1))])
def test_a_model_of_the_colour_alone_is_as_good_as_the_feature(data: Spurious) -> None:
    """Train accuracy 1 - mean(p), test 0.1: the anchors of a shortcut."""
    made = replace(data, label_flip=0.25).load(None, 4)
    train = agreement(made, made.train)

    assert within(train, 1 - float(np.mean(data.flip)), len(made.train))
    assert within(agreement(made, made.test), 0.1, len(made.test))


def test_as_many_clients_as_probabilities() -> None:
    """The partition says so before anything runs; an empty list is refused."""
    data = {"name": "colored_digits", "partition": "natural"}
    with pytest.raises(ScenarioError, match="natural"):
        assemble(small(data=data))
    with pytest.raises(ValueError, match="flip: found no client"):
        ColoredDigits(flip=())


@pytest.mark.data
@pytest.mark.slow
def test_colored_mnist_at_the_papers_size() -> None:
    """30,000 images per client; correlations of the real thing."""
    data = ColoredMnist().load(ROOT, 0)

    assert [len(of_client(data, client)) for client in (0, 1)] == [30_000, 30_000]
    assert data.input_shape == (2, 28, 28)
    for part, expected in (
        (of_client(data, 0), 0.8), (of_client(data, 1), 0.9), (data.test, 0.1),
    ):  # fmt: skip
        assert within(agreement(data, part), expected, len(part))


def test_bytes_stay_bytes_until_a_batch_is_taken() -> None:
    """A quarter of float32, an eighth of float64; trained on alike by every trainer."""
    data = {"name": "colored_dsprites", "examples_per_client": 40, "test_examples": 20}
    scenario = small(
        data={**data, "partition": "natural"},
        model={"name": "mlp", "hidden": [8]},
        population={"clients": 2},
        algorithm={"name": "fedavg", "local": {"steps": 2, "batch_size": 8, "learning_rate": 0.1}},
    )

    simulation, batched = simulated(scenario)
    _, alone = simulated(scenario, cohort_cap=1)
    _, reference = simulated(scenario, trainer="sequential")

    assert {shard.inputs.dtype for shard in simulation.partitioned.clients} == {torch.uint8}
    assert largest_difference(final_weights(batched), final_weights(alone)) == 0.0
    assert largest_difference(final_weights(batched), final_weights(reference)) < 1e-9
