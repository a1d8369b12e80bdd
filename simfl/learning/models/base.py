"""The interface of every named model, and the use of users' own modules."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn


class Model(ABC):
    """A model by name; its fields are its settings."""

    @abstractmethod
    def build(self, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
        """A freshly initialised module for examples of `input_shape` with `outputs` outputs.

        It maps (rows, *input_shape) to (rows, outputs): logits, or a regression's values. Initial
        values come from torch's global generator, which the caller forks and seeds. Raises
        ValueError if the model does not fit the shape.
        """

    def content(self) -> str:
        """A digest of the files that the module is made from, besides settings; "" if none."""
        return ""


def as_module(
    model: Model | Callable[..., nn.Module],
    input_shape: tuple[int, ...],
    outputs: int,
    parameters: Mapping[str, Any] | None = None,
) -> nn.Module:
    """The module of a named model, or of a user's own `torch.nn.Module` class.

    A class (a function, a `functools.partial` of either) is called with `parameters`, and with
    `input_shape` and `outputs` if its signature has these arguments and neither `parameters` nor
    the partial sets them. Raises ValueError for parameters that it does not take, and if it does
    not make a module.
    """
    if isinstance(model, Model):
        try:
            return model.build(input_shape, outputs)
        except RuntimeError as error:  # torch's way to say that memory does not suffice
            if "allocate" in str(error):
                raise ValueError(
                    "cannot be built: this machine has too little memory for its weights; accepted:"
                    " a smaller model"
                ) from error
            raise ValueError(f"cannot be built: {error}") from error
    if isinstance(model, partial) and not model.args:
        return as_module(model.func, input_shape, outputs, {**model.keywords, **(parameters or {})})
    given = dict(parameters or {})
    name = getattr(model, "__name__", repr(model))
    signature = inspect.signature(model)
    for key, value in (("input_shape", input_shape), ("outputs", outputs)):
        if key in signature.parameters:
            given.setdefault(key, value)
    try:
        signature.bind(**given)
    except TypeError as error:
        raise ValueError(f"{name}: {error}; its signature is {name}{signature}") from error
    try:
        module = model(**given)
    except ValueError:
        raise
    except Exception as error:  # a user's constructor may raise anything
        cause = f"{type(error).__name__}: {error}"
        raise ValueError(f"{name} cannot be built: {cause}") from error
    if not isinstance(module, nn.Module):
        raise ValueError(f"{name} made a {type(module).__name__}, not a torch.nn.Module")
    return module


def image_shape(input_shape: tuple[int, ...], model: str) -> tuple[int, int, int]:
    """`input_shape` as (channels, height, width); raises ValueError if it is not an image."""
    if len(input_shape) != 3:
        raise ValueError(
            f"model {model} takes images (channels, height, width), found examples of shape "
            f"{input_shape}"
        )
    channels, height, width = input_shape
    return channels, height, width


def require_features(height: int, width: int, model: str, input_shape: tuple[int, ...]) -> None:
    """Raises ValueError if convolutions and pooling leave nothing of the image."""
    if height < 1 or width < 1:
        raise ValueError(
            f"model {model} does not fit images of {input_shape[1]}x{input_shape[2]}: its "
            f"convolutions and pooling leave nothing of them"
        )
