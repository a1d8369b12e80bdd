"""Any image classifier of torchvision, untrained."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from torch import nn

from simfl.learning.models.base import Model, image_shape
from simfl.learning.vision import torchvision


@dataclass(frozen=True)
class TorchvisionModel(Model):
    """An architecture of `torchvision.models`, with random weights; nothing is downloaded.

    They are made for 3 channels: for other images the first convolution is replaced by one with the
    images' channels. Auxiliary classifiers are left out.
    """

    architecture: Annotated[str, "name in torchvision.models, such as resnet18"]

    name: ClassVar[str] = "torchvision"

    @classmethod
    def meant_by(cls, name: str) -> str:
        """How to write an architecture of torchvision that was used as a part's name."""
        models = torchvision().models
        known = name in models.list_models(module=models)
        return f"{{name: {cls.name}, architecture: {name}}}" if known else ""

    def build(self, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Raises ValueError for unknown architectures."""
        channels, _, _ = image_shape(input_shape, self.name)
        models = torchvision().models
        known: list[str] = models.list_models(module=models)
        if self.architecture not in known:
            near = difflib.get_close_matches(self.architecture, known, n=1, cutoff=0.0)[0]
            raise ValueError(
                f"architecture: found {self.architecture!r}, did you mean {near!r}? accepted: one "
                f"of the {len(known)} classifiers in torchvision.models"
            )
        builder = models.get_model_builder(self.architecture)
        keywords: dict[str, Any] = {"weights": None, "num_classes": outputs}
        if self.architecture in ("googlenet", "inception_v3"):
            keywords |= {"aux_logits": False, "init_weights": True}
        module: nn.Module = builder(**keywords)
        if channels != 3:
            _take_channels(module, channels, self.architecture)
        return module


def _take_channels(module: nn.Module, channels: int, architecture: str) -> None:
    """Replace the first convolution of `module` by one for `channels` input channels."""
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Conv2d):
            # a convolution keeps what it was built with under the names of its arguments
            names = inspect.signature(nn.Conv2d).parameters.keys() - {"device", "dtype", "bias"}
            arguments = {key: getattr(layer, key) for key in names}
            arguments |= {"in_channels": channels, "bias": layer.bias is not None}
            parent, _, own = name.rpartition(".")
            setattr(module.get_submodule(parent), own, nn.Conv2d(**arguments))
            return
    raise ValueError(
        f"architecture: {architecture} has no convolution to fit to {channels} channels"
    )
