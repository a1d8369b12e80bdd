"""The work of the models in measured rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn

from simfl.assembly import registry
from simfl.calibration.measurements import OUTPUTS, Computation, Measurements
from simfl.common.model_work import ModelWork
from simfl.learning.models.base import as_module
from simfl.learning.models.torchvision_model import TorchvisionModel
from simfl.learning.work import count_work
from simfl.scenario.sections import Part
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.scenario.yaml_source.source import KeyPath, Source


def model_part(text: str) -> Part:
    """The part that a cell names: as in a scenario, or a torchvision architecture.

    Raises ValueError for text that is neither a name nor a mapping with one.
    """
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError:
        given = None
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        return Part.model_validate(dict(given))
    if not isinstance(given, str):
        raise ValueError("accepted: a model's name, or {name: mlp, hidden: [200]}")
    meant = TorchvisionModel.meant_by(given) if registry.shipped("models", given) is None else ""
    if meant:
        return Part.model_validate({"name": TorchvisionModel.name, "architecture": given})
    return Part(name=given)


def build_model(text: str, input_shape: tuple[int, ...], outputs: int, folder: Path) -> nn.Module:
    """The module that a cell names, freshly initialised; files are looked for in `folder`.

    Raises ScenarioError for unknown parts, and ValueError for shapes that do not fit.
    """
    made: Any = registry.build("models", model_part(text), KeyPath(Source("model", folder, {})))
    return as_module(made, input_shape, outputs)


def works(measured: Measurements) -> list[ModelWork]:
    """The work of every computation's model; raises ScenarioError with the line of an error.

    Each model is counted once per shape.
    """
    known: dict[tuple[str, tuple[int, ...], int], ModelWork] = {}
    found = []
    for one in measured.computations:
        if one.work is not None:
            found.append(one.work)
            continue
        key = one.model, one.input_shape, _outputs(one, measured)
        if key not in known:
            known[key] = _counted(one, key[2], measured)
        found.append(known[key])
    return found


def _outputs(one: Computation, measured: Measurements) -> int:
    if one.outputs is not None:
        return one.outputs
    try:
        name = model_part(one.model).name
        registry.resolve("models", name, measured.path.parent)
    except ScenarioError as error:
        raise measured.wrong(one.line, "model", one.model, "", error.message) from error
    except ValueError as error:
        raise measured.wrong(one.line, "model", one.model, "", _found(one.model, error)) from error
    if name != TorchvisionModel.name:
        message = "missing, accepted: how many classes the model tells apart"
        raise measured.wrong(one.line, "outputs", None, "", message)
    return OUTPUTS


def _counted(one: Computation, outputs: int, measured: Measurements) -> ModelWork:
    folder = measured.path.parent
    try:
        module = _without_memory(one, outputs, folder)
        return count_work(module, torch.zeros(1, *one.input_shape))
    except ScenarioError as error:
        message = error.message
        raise measured.wrong(one.line, "model", one.model, "", message) from error
    except ValueError as error:
        raise measured.wrong(one.line, "model", one.model, "", _found(one.model, error)) from error
    except (RuntimeError, NotImplementedError) as error:
        message = f"{_found(one.model, error)}; accepted: shapes that the model takes"
        raise measured.wrong(one.line, "input_shape", one.input_shape, "", message) from error


def _without_memory(one: Computation, outputs: int, folder: Path) -> nn.Module:
    """A row's model, whose weights take no memory if it can be built that way."""
    try:
        with torch.device("meta"):
            return build_model(one.model, one.input_shape, outputs, folder)
    except ValueError:
        # torchvision's RegNets compute with tensors while they are being built.
        return build_model(one.model, one.input_shape, outputs, folder)


def _found(model: str, error: Exception) -> str:
    return f"found {model!r}, {error}"
