"""Lazy import of torchvision, and augmentation with it."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from simfl.learning.network import seeded

UNDEFINED_OPERATOR = "operator torchvision::nms does not exist"
"""The error of torchvision's import if its compiled part does not match the torch build."""

DRAWS = 64
"""The number of images on which an augmentation is tested, since it may rarely change an image."""

LABELLED = frozenset({"MixUp", "CutMix"})
"""Transforms that also change the targets, and so do not map images to images."""


@lru_cache(maxsize=1)
def torchvision() -> Any:
    """The torchvision package with its data sets, models and v2 transforms.

    With a CPU build of torch, the ordinary wheel cannot load its compiled operators, and the import
    stops where it registers shapes for two of them. Declaring those two is enough; they stay
    unusable, and nothing here uses them. Raises ImportError if torchvision is not installed.
    """
    try:
        package = importlib.import_module("torchvision")
    except RuntimeError as error:
        if UNDEFINED_OPERATOR not in str(error):
            raise
        _declare_operators()
        package = importlib.import_module("torchvision")
    for part in ("datasets", "models", "transforms.v2"):
        importlib.import_module(f"torchvision.{part}")
    return package


@lru_cache(maxsize=1)
def _declare_operators() -> Any:
    """The declarations, which last as long as this object; the cache keeps it alive."""
    library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]  # torch's gap
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def augmentation(calls: Sequence[Mapping[str, Any]]) -> Callable[[Tensor], Tensor] | None:
    """A map from images (rows, channels, height, width) to as many changed images; None for none.

    Each call is a `torchvision.transforms.v2` class by `name` with its keyword arguments, applied
    in the order given. Every image gets its own random draw (a v2 transform would give a whole
    batch the same one) from torch's global generator, which the caller forks and seeds. Raises
    ValueError for unknown names and arguments that do not fit.
    """
    if not calls:
        return None
    return _Augmentation(calls)


class _Augmentation:
    """See `augmentation`. Pickled as its list of calls."""

    def __init__(self, calls: Sequence[Mapping[str, Any]]) -> None:
        transforms = [_transform(place, dict(call)) for place, call in enumerate(calls)]
        self._calls = calls
        self._pipeline = torchvision().transforms.v2.Compose(transforms)

    def __call__(self, images: Tensor) -> Tensor:
        return torch.stack([self._pipeline(image) for image in images])

    def __reduce__(self) -> tuple[Any, ...]:
        return _Augmentation, (self._calls,)


def _transform(place: int, arguments: dict[str, Any]) -> Callable[[Tensor], Tensor]:
    """One transform; errors include its place in the list."""
    v2 = torchvision().transforms.v2
    name = arguments.pop("name", None)
    known = sorted(
        key
        for key, value in vars(v2).items()
        if inspect.isclass(value) and issubclass(value, v2.Transform) and key not in LABELLED
    )
    if name not in known:
        near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"augmentation.{place}.name: found {name!r}, did you mean {near!r}? accepted: a "
            f"transform of torchvision.transforms.v2 from image to image"
        )
    kind = getattr(v2, name)
    try:
        transform: Callable[[Tensor], Tensor] = kind(**arguments)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"augmentation.{place}: {name} does not accept {arguments}: {error}; its arguments are "
            f"{', '.join(inspect.signature(kind).parameters)}"
        ) from error
    return transform


def check_augmentation(augment: Callable[[Tensor], Tensor], input_shape: Sequence[int]) -> None:
    """Raises ValueError unless `augment` maps images of `input_shape` to the same shape."""
    if len(input_shape) != 3:
        raise ValueError(
            f"augmentation is for images, found examples of shape {tuple(input_shape)}"
        )
    try:
        with seeded(0, torch.device("cpu")):
            changed = augment(torch.zeros(1, *input_shape).expand(DRAWS, *input_shape))
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(
            f"augmentation does not fit images of {_size(input_shape)}: {error}"
        ) from error
    if tuple(changed.shape[1:]) != tuple(input_shape):
        raise ValueError(
            f"augmentation must keep the size of the images, {_size(input_shape)}; it makes "
            f"{_size(changed.shape[1:])}"
        )


def _size(shape: Sequence[int]) -> str:
    return "x".join(str(length) for length in shape)
