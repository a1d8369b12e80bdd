"""torchvision beside any torch build, and augmentation from its transforms."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from simfl.learning.sequential import augmented
from simfl.learning.vision import augmentation, check_augmentation, torchvision


def test_torchvision_is_imported_once_with_its_parts() -> None:
    """Data sets, models and transforms are there, whatever build of torch lies beside."""
    package = torchvision()

    assert torchvision() is package
    assert all(hasattr(package, part) for part in ("datasets", "models"))
    assert hasattr(package.transforms, "v2")


def test_torchvision_is_not_imported_before_it_is_needed() -> None:
    """Importing every data set and model leaves torchvision alone."""
    program = """
import importlib, pkgutil, sys
for package in ("datasets", "models"):
    folder = importlib.import_module(f"simfl.learning.{package}")
    for info in pkgutil.iter_modules(folder.__path__, folder.__name__ + "."):
        importlib.import_module(info.name)
sys.exit("torchvision" in sys.modules)
"""

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_no_calls_are_no_augmentation() -> None:
    """Nothing to do is None, so that a trainer can skip it."""
    assert augmentation([]) is None


def test_calls_apply_in_order() -> None:
    """A flip, then a crop to the left half (padded zeros on the right stay outside)."""
    augment = augmentation(
        [{"name": "RandomHorizontalFlip", "p": 1.0}, {"name": "CenterCrop", "size": [2, 2]}]
    )
    images = torch.arange(16.0).view(2, 1, 2, 4)

    assert augment is not None
    assert torch.equal(augment(images), images.flip(-1)[..., 1:3])


def test_every_image_has_its_own_draw_from_the_callers_seed() -> None:
    """Equal images are changed differently, and the global seed repeats it."""
    augment = augmentation([{"name": "RandomCrop", "size": 28, "padding": 4}])
    images = torch.rand(1, 1, 28, 28).expand(20, 1, 28, 28).to(torch.float64)
    assert augment is not None

    results = []
    for seed in (5, 5, 6):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            results.append(augment(images))

    assert results[0].shape == images.shape and results[0].dtype == torch.float64
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert len({tuple(image.flatten().tolist()) for image in results[0]}) > 10


def test_channels_of_an_image_change_together() -> None:
    """What a trainer gives to the augmentation are images, not their channels one by one."""
    grey = torch.rand(20, 1, 16, 16).expand(20, 3, 16, 16)

    changed = augmented(grey, augmentation([{"name": "RandomCrop", "size": 16, "padding": 4}]))

    assert not torch.equal(changed, grey)
    assert torch.equal(changed[:, 0], changed[:, 1]) and torch.equal(changed[:, 0], changed[:, 2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"name": "RandomCropp", "size": 8}, "found 'RandomCropp', did you mean 'RandomCrop'"),
        ({"size": 8}, r"augmentation\.1\.name: found None"),
        ({"name": "MixUp"}, r"augmentation\.1\.name: found 'MixUp'"),
        ({"name": "functional"}, r"augmentation\.1\.name: found 'functional'"),
        ({"name": "RandomCrop", "sizes": 8}, r"RandomCrop .*'sizes'.*arguments are size,"),
        ({"name": "RandomHorizontalFlip", "p": 2.0}, r"augmentation\.1: RandomHorizontalFlip"),
    ],
)  # fmt: skip
def test_calls_that_do_not_fit(call: dict[str, Any], message: str) -> None:
    """Errors name the place in the list and what is accepted."""
    with pytest.raises(ValueError, match=message):
        augmentation([{"name": "RandomHorizontalFlip"}, call])


def test_what_goes_wrong_only_now_and_then_is_found_out_beforehand() -> None:
    """Two channels have no grey; one image in ten would be turned into it."""
    rarely = augmentation([{"name": "RandomGrayscale", "p": 0.1}])
    assert rarely is not None

    with pytest.raises(ValueError, match=r"does not fit images of 2x8x8"):
        check_augmentation(rarely, (2, 8, 8))
    check_augmentation(rarely, (3, 8, 8))


def test_the_call_given_is_not_changed() -> None:
    """A scenario's own mapping stays whole."""
    call = {"name": "RandomHorizontalFlip", "p": 0.5}

    augmentation([call])

    assert call == {"name": "RandomHorizontalFlip", "p": 0.5}
