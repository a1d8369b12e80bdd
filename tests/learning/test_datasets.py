"""Data sets that need no download: examples, drawing, digits, synthetic, sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from simfl.learning.datasets.base import Dataset, Examples
from simfl.learning.datasets.digits import Digits
from simfl.learning.datasets.sizes import Sizes
from simfl.learning.datasets.stratified import stratified_rows, stratified_split
from simfl.learning.datasets.synthetic import Synthetic


def test_examples_are_paired() -> None:
    """Inputs without targets are refused."""
    with pytest.raises(ValueError, match="differ in length: 3 and 2"):
        Examples(torch.zeros(3, 1), torch.zeros(2))


def test_take_keeps_the_order_asked_for() -> None:
    """Rows come in the order given, from an array or a tensor, as a copy."""
    examples = Examples(torch.arange(4.0).view(4, 1), torch.arange(4))

    taken = examples.take(np.array([3, 1]))
    again = examples.take(torch.tensor([3, 1]))
    taken.inputs[0] = -1

    assert taken.targets.tolist() == again.targets.tolist() == [3, 1]
    assert len(taken) == 2
    assert examples.inputs.flatten().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("targets", "expected"),
    [(torch.zeros(2, dtype=torch.int64), torch.int64), (torch.zeros(2, 1), torch.float64)],
)
def test_cast_leaves_class_indices_alone(targets: torch.Tensor, expected: torch.dtype) -> None:
    """Inputs and real targets take the type, class indices stay integers."""
    cast = Examples(torch.zeros(2, 3), targets).cast(torch.float64)

    assert (cast.inputs.dtype, cast.targets.dtype) == (torch.float64, expected)


def test_stratified_rows_keep_the_classes_shares() -> None:
    """10 of 60 + 30 + 9 + 1 rows: quotas 6, 3, 0.9, 0.1; the place left over goes to 0.9."""
    targets = torch.repeat_interleave(torch.arange(4), torch.tensor([60, 30, 9, 1]))

    rows = stratified_rows(targets, 10, seed=3)

    assert torch.bincount(targets[rows], minlength=4).tolist() == [6, 3, 1, 0]
    assert (rows.diff() > 0).all()


def test_stratified_rows_depend_on_the_seed_alone() -> None:
    """Equal seeds draw the same rows, others do not."""
    targets = torch.arange(100) % 3
    first, again, other = (stratified_rows(targets, 30, seed) for seed in (1, 1, 2))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("count", [0, 100])
def test_stratified_rows_none_and_all(count: int) -> None:
    """Nothing and everything can be drawn."""
    assert len(stratified_rows(torch.arange(100) % 3, count, seed=1)) == count


def test_stratified_rows_cannot_exceed_the_rows() -> None:
    """More than there are is an error."""
    with pytest.raises(ValueError, match="cannot draw 101 of 100"):
        stratified_rows(torch.arange(100) % 3, 101, seed=1)


@pytest.mark.parametrize("targets", [torch.arange(100) % 3, torch.rand(100, 2)])
def test_stratified_split_is_a_partition(targets: torch.Tensor) -> None:
    """Every row is in exactly one part, for classes and for real targets."""
    examples = Examples(torch.arange(100.0).view(100, 1), targets)

    rest, held = stratified_split(examples, 0.25, seed=1)

    assert (len(rest), len(held)) == (75, 25)
    both = torch.cat([rest.inputs, held.inputs]).flatten()
    assert both.sort().values.tolist() == list(range(100))


def test_digits() -> None:
    """1,797 real images in [0, 1]; a stratified fifth is the test part."""
    data = Digits().load(None, seed=7)

    assert (len(data.train), len(data.test)) == (1438, 359)
    assert (data.input_shape, data.outputs, data.task) == ((1, 8, 8), 10, "classification")
    assert (data.train.inputs.dtype, data.train.targets.dtype) == (torch.float32, torch.int64)
    assert (float(data.train.inputs.min()), float(data.train.inputs.max())) == (0, 1)
    shares = torch.bincount(data.test.targets) / torch.bincount(data.train.targets)
    assert shares.min() > 0.24 and shares.max() < 0.26


def test_digits_are_those_of_scikit_learn() -> None:
    """Every image with its label, as often as there."""
    pixels, labels = load_digits(return_X_y=True)

    data = Digits().load(None, seed=7)

    parts = (data.train, data.test)
    images = torch.cat([16 * part.inputs.flatten(1) for part in parts]).tolist()
    found = zip(images, torch.cat([part.targets for part in parts]).tolist(), strict=True)
    assert sorted(found) == sorted(zip(pixels.tolist(), labels.tolist(), strict=True))


def test_digits_parts_share_no_image() -> None:
    """Training and test part are disjoint and together the whole, whatever the seed."""
    sums = []
    for seed in (1, 2):
        data = Digits(test_share=0.3).load(None, seed)
        sums.append(float(data.train.inputs.double().sum() + data.test.inputs.double().sum()))
        assert len(data.train) + len(data.test) == 1797

    assert sums[0] == sums[1] == 561718 / 16


@pytest.mark.parametrize("dataset", [Digits(), Synthetic(), Synthetic(task="regression")])
def test_the_seed_decides_alone(dataset: Dataset) -> None:
    """The same seed loads the same data, another seed other data."""
    first, again, other = (dataset.load(None, seed) for seed in (1, 1, 2))

    for part in ("train", "test"):
        one, two, three = (getattr(data, part) for data in (first, again, other))
        assert torch.equal(one.inputs, two.inputs) and torch.equal(one.targets, two.targets)
        assert not torch.equal(one.inputs, three.inputs)


def test_loading_leaves_the_global_generator_alone() -> None:
    """Data are drawn from generators of their own."""
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    Synthetic().load(None, 1)
    Digits().load(None, 1)

    assert torch.equal(torch.rand(1), expected)


def test_synthetic_regression_has_the_known_optimum() -> None:
    """Least squares over 20,000 rows finds W and b, with a residual of noise^2 per value."""
    dataset = Synthetic(task="regression", examples=20_000, features=5, outputs=3, noise=0.2)
    data = dataset.load(None, seed=4)
    weight, bias = dataset.truth(seed=4)
    design = torch.cat([data.train.inputs, torch.ones(20_000, 1)], 1)

    solution = torch.linalg.lstsq(design, data.train.targets).solution
    residual = data.train.targets - design @ solution

    assert torch.allclose(solution, torch.cat([weight.T, bias.view(1, -1)]), atol=0.01)
    assert float((residual**2).mean()) == pytest.approx(0.04, rel=0.05)


def test_synthetic_classes_without_noise_are_separable() -> None:
    """The hidden map classifies every row rightly, and training and test rows differ."""
    dataset = Synthetic(outputs=4, noise=0.0)
    data = dataset.load(None, seed=4)
    weight, bias = dataset.truth(seed=4)

    for part in (data.train, data.test):
        assert torch.equal((part.inputs @ weight.T + bias).argmax(-1), part.targets)
    assert not torch.equal(data.train.inputs[:500], data.test.inputs)


def test_synthetic_class_probabilities_are_softmax() -> None:
    """With Gumbel noise the mean likelihood ratio of the true model to the classes is one: the
    log loss of softmax((W x + b) / noise) equals its own entropy (a calibrated model)."""
    dataset = Synthetic(examples=50_000, features=3, outputs=3, noise=1.5)
    data = dataset.load(None, seed=4)
    weight, bias = dataset.truth(seed=4)

    logs = ((data.train.inputs @ weight.T + bias) / 1.5).log_softmax(-1)
    loss = -logs.gather(1, data.train.targets.view(-1, 1)).mean()
    entropy = -(logs.exp() * logs).sum(-1).mean()

    assert float(loss) == pytest.approx(float(entropy), rel=0.02)


def test_sizes_have_no_example() -> None:
    """A timing-only data set counts examples and knows shapes, and holds no row."""
    dataset = Sizes(examples_per_client=600, input_shape=(3, 4, 5), outputs=7)

    data = dataset.load(None, seed=1)

    assert Digits().sizes(3) is None
    assert dataset.sizes(3).tolist() == [600, 600, 600]
    assert (len(data.train), len(data.test), data.outputs) == (0, 0, 7)
    assert data.input_shape == (3, 4, 5)


def test_sizes_of_each_client() -> None:
    """A list has one number per client, and is refused for another number of clients."""
    dataset = Sizes(examples_per_client=(5, 9))

    assert dataset.sizes(2).tolist() == [5, 9]
    with pytest.raises(ValueError, match=r"^examples_per_client: found 2 numbers for 3 clients;"):
        dataset.sizes(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Synthetic(outputs=1), "^outputs: found 1, accepted: two or more classes"),
        (lambda: Sizes(input_shape=()), "^input_shape: "),
        (lambda: Sizes(input_shape=(1, 0)), "^input_shape: "),
    ],
)
def test_settings_that_fit_nothing(make: Callable[[], Dataset], message: str) -> None:
    """Checks across fields name the field first."""
    with pytest.raises(ValueError, match=message):
        make()


def test_synthetic_owners_have_maps_of_their_own() -> None:
    """Least squares on an owner's rows finds its map; the common one is their centre."""
    dataset = Synthetic(
        task="regression", examples=60_000, features=4, outputs=2, noise=0.1, owners=30, spread=0.5
    )

    data = dataset.load(None, 3)
    weights, biases = dataset.truths(3)

    assert data.natural is not None
    assert np.bincount(data.natural).tolist() == [2000] * 30
    for owner in (0, 17, 29):
        rows = data.natural == owner
        design = torch.cat([data.train.inputs[rows], torch.ones(2000, 1)], dim=1)
        found = torch.linalg.lstsq(design, data.train.targets[rows]).solution.T
        torch.testing.assert_close(found[:, :4], weights[owner], rtol=0, atol=0.02)
        torch.testing.assert_close(found[:, 4], biases[owner], rtol=0, atol=0.02)
    common, _ = dataset.truth(3)
    spread = (weights - common).square().mean().sqrt()
    assert float(spread) == pytest.approx(0.5, rel=0.15)


def test_synthetic_without_owners_is_what_it_was() -> None:
    """No owners, one map, and the draws of the rows do not depend on the owners."""
    alone, shared = Synthetic(), Synthetic(owners=3)

    plain, owned = alone.load(None, 5), shared.load(None, 5)

    assert plain.natural is None
    assert torch.equal(alone.truths(5)[0][0], alone.truth(5)[0])
    assert torch.equal(plain.train.inputs, owned.train.inputs)
